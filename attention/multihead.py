r"""Multi-head attention as a PyTorch layer, to and from ``torch.nn.MultiheadAttention``."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention import _checks
from attention.functional import (
    DTYPES,
    _allowed,
    check_mask,
    scaled_dot_product_attention,
)
from attention.masks import causal

__all__ = ["MultiHeadAttention", "merge_heads", "split_heads"]


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the last axis into heads, and move the heads in front of the positions.

    Head h of position l is the slice ``x[..., l, h * d : (h + 1) * d]``.

    Parameters
    ----------
    x
        Shape (..., L, H * d).
    num_heads
        Number of heads, H.

    Returns
    -------
    torch.Tensor
        Shape (..., H, L, d); of a contiguous ``x``, a view: nothing is copied.

    Raises
    ------
    ValueError
        If ``x`` has fewer than two axes, or ``num_heads`` does not divide its width.
    """
    _require_tensor(x)
    num_heads = _checks.splittable(x.shape, num_heads)
    # (..., L, H * d) -> (..., L, H, d) -> (..., H, L, d)
    x = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)
    return x.transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """Move the heads behind the positions, and join them into one axis.

    The inverse of :func:`split_heads`.

    Parameters
    ----------
    x
        Shape (..., H, L, d).

    Returns
    -------
    torch.Tensor
        Shape (..., L, H * d).

    Raises
    ------
    ValueError
        If ``x`` has fewer than three axes.
    """
    _require_tensor(x)
    _checks.mergeable(x.shape)
    # (..., H, L, d) -> (..., L, H, d) -> (..., L, H * d)
    return x.transpose(-3, -2).flatten(-2)


def _zero_unseen(x: Tensor, allowed: Tensor) -> Tensor:
    """Zero the positions that no query may see, lest their projection overflows."""
    seen = allowed
    for _ in range(min(2, seen.ndim - 1)):  # over queries, then over heads
        seen = seen.any(dim=-2)
    return x.masked_fill(~seen[..., None], 0.0)


def _nothing_but_linear(module: nn.Module) -> bool:
    """Say whether calling a module is its matrix product: nobody replaced it or listens in."""
    hooks = [
        f"_{way}{kind}_hooks"
        for way in ("forward", "backward")
        for kind in ("", "_pre")
    ]
    return (
        type(module) is nn.Linear
        and "forward" not in vars(module)
        and not any(getattr(module, name) for name in hooks)
        and not any(
            getattr(nn.modules.module, f"_global{name}") for name in hooks
        )
    )


def _require_tensor(x: Tensor, name: str = "x") -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")


class MultiHeadAttention(nn.Module):
    r"""Attend in H projected subspaces at once, and mix what the heads found.

    .. math::

        \operatorname{MultiHead}(X_q, X_k, X_v) &= [O_0 \; \cdots \; O_{H-1}]\, W^O + b^O \\
        O_h &= \operatorname{Attention}(X_q W^Q_h + b^Q_h,\; X_k W^K_h + b^K_h,\;
               X_v W^V_h + b^V_h)

    where :math:`W^Q_h` is the h-th block of columns of :math:`W^Q`, and likewise for the others.
    ``nn.Linear`` stores the transposed matrices. Each projection is drawn on its own from Xavier's
    uniform distribution for its own shape; biases start at zero.

    Parameters
    ----------
    d_model
        Width of the queries and of the output.
    num_heads
        Number of query heads, H.
    d_k
        Width of a query or key in one head; ``d_model // num_heads`` where it is None.
    d_v
        Width of a value in one head; ``d_model // num_heads`` where it is None.
    kdim
        Width of the keys that come in; ``d_model`` where it is None.
    vdim
        Width of the values that come in; ``d_model`` where it is None.
    num_kv_heads
        Number of key/value heads, which divides H: consecutive query heads share one. H where it
        is None, which is the layer of Vaswani et al.; 1 is multi-query attention.
    bias
        Whether the four projections have biases.
    dropout
        Probability, in [0, 1), that a weight is dropped, in training only.
    device, dtype
        Where and in which floating dtype the parameters are made.

    Attributes
    ----------
    q_proj, k_proj, v_proj, out_proj : torch.nn.Linear
        :math:`W^Q, W^K, W^V, W^O` with their biases.

    Raises
    ------
    TypeError
        If a size is no integer, ``bias`` no bool, or ``dtype`` not float64, float32, float16 or
        bfloat16.
    ValueError
        If a size is not positive, ``num_heads`` does not divide ``d_model`` while ``d_k`` or
        ``d_v`` is to be derived from it, ``num_kv_heads`` does not divide ``num_heads``, or
        ``dropout`` lies outside [0, 1).

    Notes
    -----
    Section 3.2.2 of Vaswani et al. (2017), arXiv:1706.03762, which has no biases. Grouped
    key/value heads: Ainslie et al. (2023), arXiv:2305.13245. Initialisation: Glorot and Bengio
    (2010), AISTATS, PMLR 9, 249-256.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        num_kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        d_model = _checks.size(d_model, "d_model", least=1)
        _checks.flag(bias, "bias")
        if dtype is not None and dtype not in DTYPES:
            raise TypeError(f"dtype must be one of {DTYPES}, got {dtype}")
        num_heads, num_kv_heads = _checks.head_counts(
            num_heads, num_kv_heads
        )
        if (d_k is None or d_v is None) and d_model % num_heads:
            raise ValueError(
                f"num_heads must divide d_model unless d_k and d_v are given, "
                f"got d_model={d_model} and num_heads={num_heads}"
            )
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.d_k = d_model // num_heads if d_k is None else d_k
        self.d_v = d_model // num_heads if d_v is None else d_v
        self.kdim = d_model if kdim is None else kdim
        self.vdim = d_model if vdim is None else vdim
        self.dropout = _checks.probability(dropout, "dropout")
        for name in ("d_k", "d_v", "kdim", "vdim"):
            width = _checks.size(getattr(self, name), name, least=1)
            setattr(self, name, width)

        self.q_proj = nn.Linear(
            d_model, num_heads * self.d_k, bias, device, dtype
        )
        self.k_proj = nn.Linear(
            self.kdim, num_kv_heads * self.d_k, bias, device, dtype
        )
        self.v_proj = nn.Linear(
            self.vdim, num_kv_heads * self.d_v, bias, device, dtype
        )
        self.out_proj = nn.Linear(
            num_heads * self.d_v, d_model, bias, device, dtype
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every projection anew, each for its own shape, and set the biases to zero."""
        for projection in (
            self.q_proj,
            self.k_proj,
            self.v_proj,
            self.out_proj,
        ):
            nn.init.xavier_uniform_(projection.weight)
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        return_weights: Literal[False] = False,
    ) -> Tensor: ...
    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        return_weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...
    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        return_weights: bool,
    ) -> Tensor | tuple[Tensor, Tensor]: ...
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from each query to the keys, in every head, and mix the heads.

        Parameters
        ----------
        query
            Shape (..., L, d_model): batch first.
        key
            Shape (..., S, kdim); the query where it is None (self-attention).
        value
            Shape (..., S, vdim); the key where it is None.
        attn_mask
            Boolean (True = may attend) or floating (added), of shape (L, S) or (S,) for every batch
            entry and head alike, or with *all* the axes (..., H, L, S), of size 1 where it is the
            same for all. A mask per batch entry is ``mask[:, None]``, one per head ``mask[None]``;
            a three-dimensional mask of a batch is refused, as it could mean either.
        is_causal
            Query i sees keys 0 … i; with a mask, both apply.
        return_weights
            Also return the weights; without, PyTorch's function runs, with a fused kernel where
            one suits, which never stores them.

        Returns
        -------
        output : torch.Tensor
            Shape (..., L, d_model).
        weights : torch.Tensor
            Only with ``return_weights``: shape (..., H, L, S), per head, *before* dropout.

        Raises
        ------
        TypeError
            If an input is no tensor or of another dtype than the parameters; if the mask is of
            integers.
        ValueError
            If widths, lengths, batch, mask or devices do not fit.
        """
        key = query if key is None else key
        value = key if value is None else value
        self._check_inputs(query, key, value, attn_mask)
        _checks.flag(is_causal, "is_causal")
        _checks.flag(return_weights, "return_weights")
        allowed = None if attn_mask is None else _allowed(attn_mask)
        L, S = query.shape[-2], key.shape[-2]
        if is_causal and (allowed is not None or L < S):
            seen = causal(L, S, device=query.device)
            allowed = seen if allowed is None else allowed & seen
        if allowed is not None:
            key, value = (_zero_unseen(x, allowed) for x in (key, value))

        # project, then split: (..., L, d_model) -> (..., H, L, d_k)
        queries, keys, values = self._project(query, key, value)
        queries = split_heads(queries, self.num_heads)
        keys = split_heads(keys, self.num_kv_heads)
        values = split_heads(values, self.num_kv_heads)
        # attend: (..., H, L, d_v)
        attended = scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            enable_gqa=self.num_kv_heads != self.num_heads,
            return_weights=return_weights,
        )
        heads, weights = (
            attended if isinstance(attended, tuple) else (attended, None)
        )
        # merge, then mix: (..., L, H * d_v) -> (..., L, d_model)
        output = self.out_proj(merge_heads(heads))
        return output if weights is None else (output, weights)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> MultiHeadAttention:
        """Make a layer with the parameters of a ``torch.nn.MultiheadAttention``.

        Parameters
        ----------
        module
            With or without biases and own key and value widths. Its ``batch_first`` is not
            carried over: the layer made is batch first in any case.

        Returns
        -------
        MultiHeadAttention
            With copies of the parameters, frozen or not as they are, and the same dropout, dtype,
            device and training mode.

        Raises
        ------
        TypeError
            If ``module`` is something else.
        ValueError
            If it was made with ``add_bias_kv`` or ``add_zero_attn``, which this layer has not.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(
                f"module must be a torch.nn.MultiheadAttention, got {type(module).__name__}"
            )
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError(
                "module uses add_bias_kv or add_zero_attn, which have no counterpart"
            )
        weight = module.out_proj.weight
        # Nothing is drawn: made without data, and filled below.
        layer = cls(
            module.embed_dim,
            module.num_heads,
            kdim=module.kdim,
            vdim=module.vdim,
            bias=module.in_proj_bias is not None,
            dropout=module.dropout,
            device="meta",
            dtype=weight.dtype,
        ).to_empty(device=weight.device)
        for ours, theirs in layer._paired_with(module):
            ours.requires_grad_(theirs.requires_grad)
            with torch.no_grad():
                ours.copy_(theirs)
        return layer.train(module.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """Make a ``torch.nn.MultiheadAttention`` with this layer's parameters.

        Returns
        -------
        torch.nn.MultiheadAttention
            Batch first, with copies of the parameters, and the same dropout, dtype, device and
            mode. A parameter that packs several of ours is frozen if all of them are.

        Raises
        ------
        ValueError
            If the layer has what PyTorch's has not: grouped key/value heads, heads whose width is
            not ``d_model / num_heads``, or biases in some of its projections only.
        """
        head_width = self.d_model / self.num_heads
        if (
            not self.d_k == self.d_v == head_width
            or self.num_kv_heads != self.num_heads
        ):
            raise ValueError(
                "torch.nn.MultiheadAttention needs d_k = d_v = d_model / num_heads and as many "
                f"key/value heads as query heads, got {self.extra_repr()}"
            )
        projections = (self.q_proj, self.k_proj, self.v_proj, self.out_proj)
        if len({p.bias is None for p in projections}) > 1:
            raise ValueError(
                "torch.nn.MultiheadAttention has biases in all of its projections or in none"
            )
        weight = self.out_proj.weight
        module = nn.MultiheadAttention(
            self.d_model,
            self.num_heads,
            dropout=self.dropout,
            bias=self.out_proj.bias is not None,
            kdim=self.kdim,
            vdim=self.vdim,
            batch_first=True,
            device="meta",
            dtype=weight.dtype,
        ).to_empty(device=weight.device)
        module.requires_grad_(False)
        pairs = self._paired_with(module)
        for ours, theirs in pairs:
            theirs.copy_(ours.detach())
        for ours, theirs in pairs:
            if (
                ours.requires_grad
            ):  # a part of a packed parameter: then all of it
                theirs = theirs if theirs._base is None else theirs._base
                theirs.requires_grad_(True)
        return module.train(self.training)

    def extra_repr(self) -> str:
        """Return the sizes, for printing the layer."""
        return (
            f"d_model={self.d_model}, num_heads={self.num_heads}, "
            f"num_kv_heads={self.num_kv_heads}, d_k={self.d_k}, d_v={self.d_v}, "
            f"dropout={self.dropout}"
        )

    def _paired_with(
        self, module: nn.MultiheadAttention
    ) -> list[tuple[Tensor, Tensor]]:
        """Pair each parameter with its place in PyTorch's layer, which may be packed there."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        if module.in_proj_weight is not None:
            theirs = list(module.in_proj_weight.chunk(3))
        else:
            theirs = [
                module.q_proj_weight,
                module.k_proj_weight,
                module.v_proj_weight,
            ]
        pairs = [
            (ours.weight, w)
            for ours, w in zip(projections, theirs, strict=True)
        ]
        pairs.append((self.out_proj.weight, module.out_proj.weight))
        if module.in_proj_bias is not None:
            biases = module.in_proj_bias.chunk(3)
            pairs += [
                (ours.bias, b)
                for ours, b in zip(projections, biases, strict=True)
            ]
            pairs.append((self.out_proj.bias, module.out_proj.bias))
        return pairs

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, ...]:
        """Apply the three projections, in one product where all of them read the same tensor."""
        projections = (self.q_proj, self.k_proj, self.v_proj)
        packed = query is key is value and all(
            map(_nothing_but_linear, projections)
        )
        biases: list[Tensor] = [
            p.bias for p in projections if packed and p.bias is not None
        ]
        # One of the layers may have been replaced by one that differs in having a bias.
        if not packed or len(biases) not in (0, len(projections)):
            return self.q_proj(query), self.k_proj(key), self.v_proj(value)
        weight = torch.cat([projection.weight for projection in projections])
        bias = torch.cat(biases) if biases else None
        widths = [projection.out_features for projection in projections]
        joined = F.linear(query, weight, bias)
        return tuple(torch.split_with_sizes(joined, widths, dim=-1))

    def _check_inputs(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
    ) -> None:
        """Raise before anything is computed unless the inputs fit the layer and each other."""
        # A projection may have been replaced by a module without parameters.
        weight = next(self.parameters(), query)
        widths = {
            "query": self.d_model,
            "key": self.kdim,
            "value": self.vdim,
        }
        for (name, width), x in zip(
            widths.items(), (query, key, value), strict=True
        ):
            _require_tensor(x, name)
            if x.ndim < 2 or x.shape[-1] != width:
                raise ValueError(
                    f"{name} must have shape (..., length, {width}), got {tuple(x.shape)}"
                )
            if x.device != weight.device:
                raise ValueError(
                    f"{name} is on {x.device}, but the layer on {weight.device}"
                )
            # Autocast lets inputs and parameters differ, and makes them meet.
            device = x.device.type
            autocast = (
                torch.amp.is_autocast_available(device)
                and torch.is_autocast_enabled(device)
                and x.is_floating_point()
            )
            if x.dtype != weight.dtype and not autocast:
                raise TypeError(
                    f"{name} is of {x.dtype}, but the layer of {weight.dtype}"
                )
        # In the inputs' own shapes, which the caller knows, before the heads'.
        if key.shape[-2] != value.shape[-2]:
            raise ValueError(
                "key and value must have the same length S, "
                f"got key {tuple(key.shape)} and value {tuple(value.shape)}"
            )
        _checks.broadcast_shapes(
            "the leading axes",
            query=query.shape[:-2],
            key=key.shape[:-2],
            value=value.shape[:-2],
        )
        scores_shape = _checks.scores_shape(
            (*query.shape[:-2], self.num_heads, query.shape[-2], self.d_k),
            (*key.shape[:-2], self.num_heads, key.shape[-2], self.d_k),
            (*value.shape[:-2], self.num_heads, value.shape[-2], self.d_v),
        )
        if attn_mask is not None:
            if isinstance(attn_mask, Tensor):
                _checks.layer_mask_shape(attn_mask.shape, scores_shape)
            check_mask(attn_mask, scores_shape, query)
