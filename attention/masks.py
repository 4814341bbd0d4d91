r"""Masks: who may attend to whom.

A mask is a boolean tensor that broadcasts to the scores' shape (..., L, S), and True means *may
attend*, as in :func:`torch.nn.functional.scaled_dot_product_attention`. Masks combine with ``&``.
:class:`torch.nn.MultiheadAttention` means the opposite by True; the functions with ``module`` in
their name translate. The NumPy functions of :mod:`attention.reference` take these masks as they
are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from attention import _checks

__all__ = [
    "Alignment",
    "causal",
    "from_additive",
    "from_module_masks",
    "padding",
    "sliding_window",
    "to_additive",
    "to_module_attn_mask",
    "to_module_padding_mask",
]

Alignment = Literal["upper_left", "lower_right"]
"""The corner at which the diagonal of an L by S mask starts; :func:`causal` explains the two."""


def causal(
    L: int,
    S: int | None = None,
    *,
    alignment: Alignment = "upper_left",
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Let each query see its own position and those before it.

    .. math::

        \text{upper left:} \quad [\, j \le i \,], \qquad
        \text{lower right:} \quad [\, j \le i + (S - L) \,]

    Upper left takes query i to stand at key position i, as ``is_causal`` does in PyTorch. Lower
    right takes the last query to stand at the last key, which is what decoding with earlier keys
    kept in a cache needs. For L = S they are the same.

    Parameters
    ----------
    L
        Number of queries.
    S
        Number of keys; L where it is None.
    alignment
        ``"upper_left"`` or ``"lower_right"``.
    device
        Where the mask is made.

    Returns
    -------
    torch.Tensor
        Boolean, shape (L, S). With lower right and L > S the first L - S queries see nothing.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer or negative, or the alignment is unknown.

    Notes
    -----
    The two names are PyTorch's, from :mod:`torch.nn.attention.bias`.
    """
    key, at = _positions(L, S, alignment, device)
    return key <= at


def sliding_window(
    L: int,
    S: int | None = None,
    *,
    left: int,
    right: int = 0,
    alignment: Alignment = "upper_left",
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Let each query see a window of keys around its own position.

    .. math:: [\, a_i - \text{left} \le j \le a_i + \text{right} \,]

    where :math:`a_i` is the key position of query i: i, or i + (S - L) with lower right. With the
    default ``right=0`` the window is causal. It holds ``left + 1 + right`` keys, the query's own
    position among them; beware that some libraries count the window without it.

    Parameters
    ----------
    L
        Number of queries.
    S
        Number of keys; L where it is None.
    left
        How many keys before the query's position are seen.
    right
        How many keys after it are seen.
    alignment
        As in :func:`causal`.
    device
        Where the mask is made.

    Returns
    -------
    torch.Tensor
        Boolean, shape (L, S).

    Raises
    ------
    TypeError, ValueError
        If a size is no integer or negative, or the alignment is unknown.

    Notes
    -----
    Local windows for long texts: Beltagy, Peters and Cohan (2020), arXiv:2004.05150, section 3.1.
    """
    left = _checks.size(left, "left")
    right = _checks.size(right, "right")
    key, at = _positions(L, S, alignment, device)
    # No query is farther from a key than this, and no sum beyond what an integer holds.
    farthest = key.numel() + at.numel()
    left, right = (min(size, farthest) for size in (left, right))
    return (at - left <= key) & (key <= at + right)


def padding(lengths: Tensor | Sequence[int], S: int | None = None) -> Tensor:
    r"""Let every query see only the real keys of its sequence, not the padding after them.

    .. math:: [\, j < \text{lengths}_b \,]

    It masks keys. The rows of padded *queries* are left alone: nobody reads them, and the loss
    must leave them out.

    Parameters
    ----------
    lengths
        Number of real positions of each sequence, shape (B,), integers.
    S
        Number of keys; the largest length where it is None.

    Returns
    -------
    torch.Tensor
        Boolean, shape (B, 1, 1, S), on the device of ``lengths``. The two axes of size 1 stand
        for heads and queries, so that it cannot be mistaken for an (L, S) mask; for inputs
        without a heads axis write ``mask.squeeze(1)``.

    Raises
    ------
    TypeError
        If the lengths or S are not integers.
    ValueError
        If ``lengths`` is not one-dimensional, or a length is negative or exceeds S.
    """
    try:
        # as_tensor would move a tensor to PyTorch's default device
        if not isinstance(lengths, Tensor):
            lengths = torch.as_tensor(lengths)
    except (RuntimeError, TypeError, ValueError):
        raise TypeError(
            f"lengths must be integers, got {lengths!r}"
        ) from None
    empty = lengths.numel() == 0  # an empty list has no dtype of its own
    if not empty and (
        lengths.dtype == torch.bool
        or lengths.is_floating_point()
        or lengths.is_complex()
    ):
        raise TypeError(f"lengths must be integers, got {lengths.dtype}")
    if lengths.ndim != 1:
        raise ValueError(
            f"lengths must have shape (B,), got {tuple(lengths.shape)}"
        )
    lengths = lengths.long()  # PyTorch cannot compare all of its integers
    longest = int(lengths.max()) if lengths.numel() else 0
    S = longest if S is None else _checks.size(S, "S")
    if longest > S or (lengths < 0).any():
        raise ValueError(
            f"lengths must lie between 0 and S = {S}, got {lengths.tolist()}"
        )
    key = torch.arange(S, device=lengths.device)  # (S,)
    return (key < lengths[:, None])[:, None, None, :]  # (B, 1, 1, S)


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    r"""Turn a boolean mask into one that is added to the scores: 0 where True, else −∞.

    .. math:: e^{s + 0} = e^{s}, \qquad e^{s - \infty} = 0

    Parameters
    ----------
    mask
        Boolean, any shape.
    dtype
        Floating dtype of the result. Every one of them has :math:`-\infty`, half precision too.

    Returns
    -------
    torch.Tensor
        Same shape, of ``dtype``.

    Raises
    ------
    TypeError
        If the mask is not boolean or the dtype not floating.
    """
    _require_boolean(mask)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating torch.dtype, got {dtype}")
    return torch.zeros(
        mask.shape, dtype=dtype, device=mask.device
    ).masked_fill(~mask, -math.inf)


def from_additive(mask: Tensor) -> Tensor:
    r"""Turn an additive mask of 0 and −∞ back into a boolean one.

    Parameters
    ----------
    mask
        Floating, any shape, entries 0 or :math:`-\infty`.

    Returns
    -------
    torch.Tensor
        Boolean, same shape: True where the entry is 0.

    Raises
    ------
    TypeError
        If the mask is not floating.
    ValueError
        If another value occurs: a bias says more than a boolean mask can.
    """
    if not isinstance(mask, Tensor) or not mask.is_floating_point():
        raise TypeError(f"mask must be a floating tensor, got {_kind(mask)}")
    allowed = mask == 0
    if not (allowed | (mask == -math.inf)).all():
        raise ValueError(
            "mask holds values other than 0 and -inf (a bias, or a large negative number in "
            "place of -inf), which a boolean mask cannot express"
        )
    return allowed


def to_module_attn_mask(
    mask: Tensor, batch_size: int, num_heads: int, L: int
) -> Tensor:
    """Translate a mask into the ``attn_mask`` that ``nn.MultiheadAttention`` understands.

    Parameters
    ----------
    mask
        Boolean, True = may attend: shape (L, S), or all four axes of (B, H, L, S), of size 1
        where it is the same for all. Three axes are refused, as in the layer.
    batch_size
        Number of sequences, B.
    num_heads
        Number of heads, H.
    L
        Number of queries, for a mask whose query axis has size 1.

    Returns
    -------
    torch.Tensor
        Boolean, True = may *not* attend: shape (L, S) from a mask of one or two axes, else
        (B * H, L, S), in which the heads of one batch entry lie together.

    Raises
    ------
    TypeError
        If the mask is not boolean, or a size no integer.
    ValueError
        If a size is negative, or the mask has three axes or does not fit (B, H, L, S).
    """
    _require_boolean(mask)
    batch_size = _checks.size(batch_size, "batch_size")
    num_heads = _checks.size(num_heads, "num_heads", least=1)
    L = _checks.size(L, "L")
    S = mask.shape[-1] if mask.ndim else 0
    scores_shape = (batch_size, num_heads, L, S)
    _checks.layer_mask_shape(mask.shape, scores_shape, "mask")
    if mask.ndim <= 2:
        return ~mask.expand(L, S)
    return ~mask.expand(batch_size, num_heads, L, S).reshape(
        batch_size * num_heads, L, S
    )


def to_module_padding_mask(mask: Tensor) -> Tensor:
    """Translate a padding mask into the ``key_padding_mask`` of ``nn.MultiheadAttention``.

    Parameters
    ----------
    mask
        Boolean, True = may attend, shape (B, 1, 1, S), as :func:`padding` makes it.

    Returns
    -------
    torch.Tensor
        Boolean, True = *ignore this key*, shape (B, S).

    Raises
    ------
    TypeError
        If the mask is not boolean.
    ValueError
        If its shape is another.
    """
    _require_boolean(mask)
    if mask.ndim != 4 or mask.shape[1:3] != (1, 1):
        raise ValueError(
            f"mask must have shape (B, 1, 1, S), got {tuple(mask.shape)}"
        )
    return ~mask[:, 0, 0, :]


def from_module_masks(
    attn_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    *,
    num_heads: int,
) -> Tensor:
    r"""Translate the two masks of ``nn.MultiheadAttention`` into one of ours.

    Parameters
    ----------
    attn_mask
        Shape (L, S) or (B * H, L, S). Boolean: True = may *not* attend. Floating: 0 or
        :math:`-\infty`.
    key_padding_mask
        Shape (B, S) or, for a single sequence, (S,). Of the same two kinds.
    num_heads
        Number of heads, H.

    Returns
    -------
    torch.Tensor
        Boolean, True = may attend: (L, S) from a two-dimensional ``attn_mask`` alone, else
        broadcasting to (B, H, L, S).

    Raises
    ------
    TypeError
        If a mask is neither boolean nor floating.
    ValueError
        If both are None, or a shape or value does not fit.
    """
    num_heads = _checks.size(num_heads, "num_heads", least=1)
    masks = []
    if attn_mask is not None:
        allowed = _from_module(attn_mask)
        if allowed.ndim == 3 and allowed.shape[0] % num_heads == 0:
            batch = allowed.shape[0] // num_heads
            allowed = allowed.reshape(batch, num_heads, *allowed.shape[1:])
        elif allowed.ndim != 2:
            raise ValueError(
                f"attn_mask must have shape (L, S) or (B * {num_heads}, L, S), "
                f"got {tuple(attn_mask.shape)}"
            )
        masks.append(allowed)
    if key_padding_mask is not None:
        allowed = _from_module(key_padding_mask)
        if allowed.ndim not in (1, 2):
            raise ValueError(
                f"key_padding_mask must have shape (B, S) or (S,), got "
                f"{tuple(key_padding_mask.shape)}"
            )
        masks.append(
            allowed.reshape(*allowed.shape[:-1], 1, 1, allowed.shape[-1])
        )
    if not masks:
        raise ValueError("give attn_mask, key_padding_mask, or both")
    if attn_mask is not None and key_padding_mask is not None:
        _check_pair(attn_mask, key_padding_mask, num_heads)
        return masks[0] & masks[1]
    return masks[0]


def _check_pair(
    attn_mask: Tensor, key_padding_mask: Tensor, num_heads: int
) -> None:
    """Raise unless the two masks of ``nn.MultiheadAttention`` are of the same keys and batch."""
    *batch, S = key_padding_mask.shape
    of_heads = (num_heads * (batch[0] if batch else 1),)
    leading = tuple(attn_mask.shape[:-2])
    if attn_mask.shape[-1] != S or leading not in ((), of_heads):
        raise ValueError(
            "attn_mask and key_padding_mask do not fit each other: "
            f"{tuple(attn_mask.shape)} and {tuple(key_padding_mask.shape)} with "
            f"num_heads = {num_heads}"
        )


def _positions(
    L: int,
    S: int | None,
    alignment: Alignment,
    device: torch.device | str | None,
) -> tuple[Tensor, Tensor]:
    """Return the key positions (1, S), and the key position at which each query stands (L, 1)."""
    L = _checks.size(L, "L")
    S = L if S is None else _checks.size(S, "S")
    if alignment not in ("upper_left", "lower_right"):
        raise ValueError(
            f"alignment must be 'upper_left' or 'lower_right', got {alignment!r}"
        )
    offset = S - L if alignment == "lower_right" else 0
    return (
        torch.arange(S, device=device)[None, :],
        torch.arange(L, device=device)[:, None] + offset,
    )


def _from_module(mask: Tensor) -> Tensor:
    """Read one mask of ``nn.MultiheadAttention``, in either of its kinds, as True = may attend."""
    if isinstance(mask, Tensor) and mask.is_floating_point():
        return from_additive(mask)
    _require_boolean(mask)
    return ~mask


def _require_boolean(mask: Tensor) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(f"mask must be a boolean tensor, got {_kind(mask)}")


def _kind(mask: object) -> str:
    return (
        str(mask.dtype) if isinstance(mask, Tensor) else type(mask).__name__
    )
