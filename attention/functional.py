r"""Attention in PyTorch: the function, a drop-in for PyTorch's own, with the weights on request."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, overload

import torch
from torch import Tensor
from torch.nn import functional as F

from attention import _checks, masks

__all__ = ["scaled_dot_product_attention"]

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    return_weights: Literal[False] = False,
) -> Tensor: ...
@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    return_weights: bool,
) -> Tensor | tuple[Tensor, Tensor]: ...
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Average the values with weights that say how well each key answers each query.

    .. math:: \operatorname{Attention}(Q, K, V) = P V, \qquad
              P = \softmax\!\left(\frac{Q K^{\mathsf T}}{\sqrt{d_k}} + M\right)

    The arguments are those of :func:`torch.nn.functional.scaled_dot_product_attention`, with more
    inputs refused. Without ``return_weights`` PyTorch's function does the work, with the
    exceptions in the notes; where it picks a fused kernel, the weights are never stored.

    Parameters
    ----------
    query
        Shape (..., L, E).
    key
        Shape (..., S, E).
    value
        Shape (..., S, Ev). The three share one floating dtype and one device; their leading axes
        broadcast.
    attn_mask
        Broadcasts to (..., L, S). Boolean: True = may attend. Floating, in the inputs' dtype or
        float32: added to the scores; :math:`-\infty` masks.
    dropout_p
        Probability, in [0, 1), that a weight is dropped; the others are divided by
        ``1 - dropout_p``. Applied whenever it is positive: a function knows of no ``eval()``.
    is_causal
        Query i sees keys 0 … i (upper-left corner, also where L ≠ S); with a mask, both apply.
    scale
        Factor on the scores; :math:`1/\sqrt{E}` where it is None.
    enable_gqa
        Query (..., H, L, E) may have a multiple of the heads of key and value: consecutive query
        heads share one.
    return_weights
        Also return the weights.

    Returns
    -------
    output : torch.Tensor
        Shape (..., L, Ev). A query that may attend to nothing gets zeros, and passes on no
        gradient.
    weights : torch.Tensor
        Only with ``return_weights``: shape (..., L, S), *before* dropout, a softmax taken in at
        least float32 and cast back. Each row sums to 1, or is 0 where nothing may be seen.

    Raises
    ------
    TypeError
        If an input is no tensor, not floating, or of another dtype than the rest; if the mask is
        of integers, or floating but neither of the inputs' dtype nor of float32.
    ValueError
        If shapes or devices do not fit, ``dropout_p`` lies outside [0, 1), or a floating mask
        holds nothing but zeros and ones, with a one among them.

    Notes
    -----
    Equation (1) of Vaswani et al. (2017), arXiv:1706.03762. Where a *masked* key or value is so
    large that its score overflows, the fused kernels give NaN. With a mask, this function therefore
    looks at the size of the inputs (on a GPU that waits for them) and computes step by step where
    needed, so that what is masked cannot matter as long as it is finite. Under autocast this holds
    for what autocast makes of the inputs. Where nothing can look at the data
    (:func:`torch.compile`, :func:`torch.func.vmap`, the meta device), masks and the causal flag
    always take the steps, and a floating mask of zeros and ones goes unnoticed.
    """
    scores_shape = _check_inputs(
        query, key, value, attn_mask, is_causal, enable_gqa
    )
    _checks.flag(return_weights, "return_weights")
    dropout_p = _checks.probability(dropout_p)
    scale = _checks.softmax_scale(scale, query.shape[-1])
    if enable_gqa:
        group = query.shape[-3] // key.shape[-3]
        key, value = (
            key.repeat_interleave(group, -3),
            value.repeat_interleave(group, -3),
        )

    if not return_weights and _fused_suits(
        query, key, value, attn_mask, is_causal, scale
    ):
        return _fused(
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale,
            scores_shape,
        )
    if is_causal:
        attn_mask = _and_causal(attn_mask, scores_shape, query.device)
    weights = _attention_weights(query, key, attn_mask, scale, scores_shape)
    # (..., L, S) @ (..., S, Ev) -> (..., L, Ev)
    output = F.dropout(weights, dropout_p) @ value
    return (output, weights) if return_weights else output


def _attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    scale: float,
    scores_shape: tuple[int, ...],
) -> Tensor:
    """Return softmax(scale · Q Kᵀ + M) in the query's dtype, shape (..., L, S)."""
    dtype = torch.promote_types(query.dtype, torch.float32)
    with _no_autocast(query.device.type):
        scores = _scores(query.to(dtype), key.to(dtype), scale)
    # The value alone may have further leading axes.
    scores = scores.expand(scores_shape)
    if mask is None:
        return torch.softmax(scores, dim=-1).to(query.dtype)
    allowed = _allowed(mask)
    if mask.dtype != torch.bool:
        scores = scores + mask
    # A row with nothing to attend to may hold any finite scores: its weights
    # become 0 below.
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)
    # This fill changes no other weight; in the gradient it cuts off what a
    # masked value says.
    return (
        torch.softmax(scores, dim=-1)
        .masked_fill(~allowed, 0.0)
        .to(query.dtype)
    )


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Return scale · Q Kᵀ, shape (..., L, S)."""
    leading = query.shape[:-2]
    if leading != key.shape[:-2]:
        return (query * scale) @ key.transpose(-2, -1)
    # A product that takes the factor along spares a pass over the queries.
    query, key = (
        x.reshape(math.prod(leading), *x.shape[-2:]) for x in (query, key)
    )
    scores = torch.baddbmm(
        query.new_empty(()),
        query,
        key.transpose(-2, -1),
        beta=0,
        alpha=scale,
    )
    return scores.view(*leading, *scores.shape[-2:])


def _no_autocast(device: str) -> AbstractContextManager[object]:
    """Keep autocast from rounding the scores to half precision."""
    if torch.amp.is_autocast_available(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    scores_shape: tuple[int, ...],
) -> Tensor:
    """Let PyTorch's kernels compute, and give rows with nothing to attend to the output 0."""
    mask = empty = None
    if attn_mask is not None:
        # PyTorch wants the query axis.
        mask = attn_mask if attn_mask.ndim > 1 else attn_mask[None]
        if is_causal:
            mask = _and_causal(mask, scores_shape, mask.device)
        is_causal = False  # PyTorch refuses the flag beside a mask
        # Such rows attend to everything here, so that no kernel divides 0 by 0,
        # and are overwritten after.
        empty = ~_allowed(mask).any(dim=-1, keepdim=True)
        mask = (
            mask | empty
            if mask.dtype == torch.bool
            else mask.masked_fill(empty, 0.0)
        )
    # The kernels want the same leading axes, and four axes in all. With others
    # PyTorch takes slow steps, and refuses a mask that is wider than the scores
    # of query and key alone.
    leading = (1,) * (4 - len(scores_shape)) + scores_shape[:-2]
    query = query.expand(*leading, *query.shape[-2:])
    key = key.expand(*leading, *key.shape[-2:])
    value = value.expand(*leading, *value.shape[-2:])
    output = F.scaled_dot_product_attention(
        query, key, value, mask, dropout_p, is_causal, scale=scale
    )
    output = output.reshape(*scores_shape[:-1], value.shape[-1])
    return output if empty is None else output.masked_fill(empty, 0.0)


def _fused_suits(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float,
) -> bool:
    """Say whether PyTorch's kernels keep this function's promises for these inputs."""
    if 0 in (*query.shape, *key.shape, *value.shape):
        return False
    if attn_mask is None and not is_causal:
        return True
    if attn_mask is not None and attn_mask.dtype not in (
        torch.bool,
        query.dtype,
    ):
        return False
    if is_causal and attn_mask is None and scale <= 0:
        return False  # PyTorch scales its mask along: -inf * 0 is NaN
    if torch.compiler.is_compiling():
        return False  # what follows looks at the data; the steps need not
    # They mask by adding -inf, and inf - inf is NaN: no product may come near
    # overflow.
    inputs = [x.detach() for x in (query, key, value)]
    largest = torch.stack(
        [torch.maximum(x.amax(), -x.amin()) for x in inputs]
    )
    maximum = torch.finfo(
        torch.promote_types(query.dtype, torch.float32)
    ).max
    width = max(query.shape[-1], value.shape[-1])
    limit = math.sqrt(maximum / max(1.0, abs(scale))) / width
    try:
        return float(largest.max()) < limit
    except RuntimeError:  # no data to look at, as under vmap or on meta
        return False


def _and_causal(
    mask: Tensor | None, scores_shape: tuple[int, ...], device: torch.device
) -> Tensor:
    """Return the causal mask, combined with another where there is one: both apply."""
    causal = masks.causal(*scores_shape[-2:], device=device)
    if mask is None:
        return causal
    return (
        mask & causal
        if mask.dtype == torch.bool
        else mask.masked_fill(~causal, -math.inf)
    )


def _allowed(mask: Tensor) -> Tensor:
    """Return where a boolean or additive mask lets a query attend."""
    return mask if mask.dtype == torch.bool else mask != -math.inf


def _check_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    is_causal: bool,
    enable_gqa: bool,
) -> tuple[int, ...]:
    """Raise before anything is computed unless the inputs fit; return the scores' shape."""
    named = {"query": query, "key": key, "value": value}
    for name, x in named.items():
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{name} must be a tensor, got {type(x).__name__}"
            )
        if x.dtype not in DTYPES:
            raise TypeError(
                f"{name} must be float64, float32, float16 or bfloat16, got {x.dtype}"
            )
    if not query.dtype == key.dtype == value.dtype:
        raise TypeError(
            "query, key and value must share one dtype, "
            f"got {query.dtype}, {key.dtype} and {value.dtype}"
        )
    if len({x.device for x in named.values()}) > 1:
        devices = ", ".join(
            f"{name} on {x.device}" for name, x in named.items()
        )
        raise ValueError(
            f"query, key and value must be on one device, got {devices}"
        )
    _checks.flag(is_causal, "is_causal")
    _checks.flag(enable_gqa, "enable_gqa")
    scores_shape = _checks.scores_shape(
        query.shape, key.shape, value.shape, enable_gqa
    )
    if attn_mask is not None:
        check_mask(attn_mask, scores_shape, query)
    return scores_shape


def check_mask(
    attn_mask: Tensor, scores_shape: tuple[int, ...], query: Tensor
) -> None:
    """Raise unless a mask selects or is added, and broadcasts to the scores' shape.

    Parameters
    ----------
    attn_mask
        The mask.
    scores_shape
        (..., L, S).
    query
        Whose dtype and device the mask must fit.

    Raises
    ------
    TypeError, ValueError
        As :func:`scaled_dot_product_attention` promises.
    """
    if not isinstance(attn_mask, Tensor):
        raise TypeError(
            f"attn_mask must be a tensor, got {type(attn_mask).__name__}"
        )
    if attn_mask.device != query.device:
        raise ValueError(
            f"attn_mask is on {attn_mask.device}, but query on {query.device}"
        )
    if attn_mask.dtype != torch.bool and not attn_mask.is_floating_point():
        raise _checks.integer_mask(attn_mask.dtype)
    _checks.mask_shape(attn_mask.shape, scores_shape)
    if attn_mask.dtype == torch.bool:
        return
    if attn_mask.dtype not in (query.dtype, torch.float32):
        raise TypeError(
            f"a floating attn_mask must be of the inputs' {query.dtype} or of float32, "
            f"got {attn_mask.dtype}"
        )
    if torch.compiler.is_compiling():
        return  # what follows looks at the data
    ones = attn_mask == 1
    try:
        only = bool((ones | (attn_mask == 0)).all() and ones.any())
    except RuntimeError:  # no data to look at, as under vmap or on meta
        return
    _checks.zeros_and_ones(only)
