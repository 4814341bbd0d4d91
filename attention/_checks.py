"""Input checks shared by the NumPy and the PyTorch code: on shapes and numbers, never on data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Shape = tuple[int, ...]


def broadcast_shapes(what: str, **shapes: Sequence[int]) -> Shape:
    """Broadcast the named shapes, or say which of them do not fit together."""
    try:
        return np.broadcast_shapes(
            *(tuple(shape) for shape in shapes.values())
        )
    except ValueError:
        named = ", ".join(
            f"{name} {tuple(shape)}" for name, shape in shapes.items()
        )
        raise ValueError(f"{what} do not broadcast: {named}") from None


def scores_shape(
    query: Sequence[int],
    key: Sequence[int],
    value: Sequence[int],
    enable_gqa: bool = False,
) -> Shape:
    """Return the shape (..., L, S) of the scores, or raise ``ValueError`` naming the misfit."""
    query, key, value = tuple(query), tuple(key), tuple(value)
    least = 3 if enable_gqa else 2
    for name, shape in (("query", query), ("key", key), ("value", value)):
        if len(shape) < least:
            axes = (
                "(..., heads, length, width)"
                if enable_gqa
                else "(..., length, width)"
            )
            raise ValueError(f"{name} must have shape {axes}, got {shape}")
    if query[-1] != key[-1]:
        raise ValueError(
            f"query and key must have the same width d_k, got query {query} and key {key}"
        )
    if query[-1] == 0:
        raise ValueError(
            f"the width d_k must be at least 1, got query {query}"
        )
    if key[-2] != value[-2]:
        raise ValueError(
            f"key and value must have the same length S, got key {key} and value {value}"
        )
    if enable_gqa:
        if key[-3] != value[-3]:
            raise ValueError(
                f"key and value must have the same number of heads, got key {key}, value {value}"
            )
        if key[-3] == 0 or query[-3] % key[-3]:
            raise ValueError(
                "the number of query heads must be a multiple of the number of key and value "
                f"heads, got query {query} and key {key}"
            )
        key = (*key[:-3], query[-3], *key[-2:])
        value = (*value[:-3], query[-3], *value[-2:])
    leading = broadcast_shapes(
        "the leading axes", query=query[:-2], key=key[:-2], value=value[:-2]
    )
    return (*leading, query[-2], key[-2])


def mask_shape(
    mask: Sequence[int], scores: Shape, name: str = "attn_mask"
) -> None:
    """Raise ``ValueError`` unless the mask broadcasts to the scores without enlarging them."""
    if not mask or not _broadcasts(mask, scores):
        raise ValueError(
            f"{name} must broadcast to the scores' shape (..., L, S) = {scores}, got {tuple(mask)}"
        )


def layer_mask_shape(
    mask: Sequence[int], scores: Shape, name: str = "attn_mask"
) -> None:
    """Raise ``ValueError`` unless a layer's mask says for itself which axes it has."""
    mask = tuple(mask)
    if len(mask) > 2 and len(mask) != len(scores):
        raise ValueError(
            f"{name} must have shape (L, S) or all {len(scores)} axes of the scores "
            f"{scores}, got {mask}: write mask[:, None] for a mask per batch entry, "
            "mask[None] for one per head"
        )
    mask_shape(mask, scores, name)


def zeros_and_ones(only: bool) -> None:
    """Raise ``ValueError`` for a float mask of zeros and ones, which would mask nothing."""
    if only:
        raise ValueError(
            "attn_mask is a float mask of zeros and ones: it would be added to the scores and mask "
            "nothing. For a boolean meaning pass a boolean mask (True = may attend); to add a "
            "bias, use values other than 0 and 1 alone"
        )


def integer_mask(dtype: object) -> TypeError:
    """Make the error for a mask that neither selects (boolean) nor is added (floating)."""
    return TypeError(
        "attn_mask must be boolean (True = may attend) or floating (added to the scores), "
        f"got {dtype}: convert a mask of zeros and ones with `mask != 0`"
    )


def probability(dropout_p: float, name: str = "dropout_p") -> float:
    """Return a dropout probability as a float, or raise unless it lies in [0, 1)."""
    if isinstance(dropout_p, bool) or not isinstance(
        dropout_p, int | float | np.integer | np.floating
    ):
        raise TypeError(
            f"{name} must be a number in [0, 1), got {dropout_p!r}"
        )
    if not 0.0 <= dropout_p < 1.0:
        raise ValueError(f"{name} must lie in [0, 1), got {dropout_p}")
    return float(dropout_p)


def softmax_scale(scale: float | None, d_k: int) -> float:
    """Return the given scale, or 1/√d_k where there is none."""
    if scale is None:
        return 1.0 / math.sqrt(d_k)
    if isinstance(scale, bool) or not isinstance(
        scale, int | float | np.integer | np.floating
    ):
        raise TypeError(f"scale must be a number or None, got {scale!r}")
    number = _as_float(scale)
    if not math.isfinite(number):
        raise ValueError(f"scale must be finite, got {scale}")
    return number


def flag(value: bool, name: str) -> None:
    """Raise ``TypeError`` unless the argument is a bool, which a mask in its place is not."""
    if not isinstance(value, bool):
        kind = type(value).__name__
        kind = f"NumPy's {kind}" if isinstance(value, np.bool_) else kind
        raise TypeError(f"{name} must be True or False, got {kind}")


def size(value: int, name: str, least: int = 0) -> int:
    """Return the argument as an int, or raise unless it is whole and at least ``least``.

    NumPy's own integers are not computed with: narrow ones wrap around.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return int(value)


def head_counts(num_heads: int, num_kv_heads: int) -> tuple[int, int]:
    """Return both counts, or raise unless they are positive and the second divides the first."""
    num_heads = size(num_heads, "num_heads", least=1)
    num_kv_heads = size(num_kv_heads, "num_kv_heads", least=1)
    if num_heads % num_kv_heads:
        raise ValueError(
            "num_heads must be a multiple of num_kv_heads, "
            f"got num_heads={num_heads} and num_kv_heads={num_kv_heads}"
        )
    return num_heads, num_kv_heads


def splittable(shape: Sequence[int], num_heads: int) -> int:
    """Return the number of heads, or raise unless (..., L, width) can be cut into so many."""
    num_heads = size(num_heads, "num_heads", least=1)
    if len(shape) < 2 or shape[-1] % num_heads:
        raise ValueError(
            f"x must have shape (..., L, width) with a width that num_heads = {num_heads} "
            f"divides, got {tuple(shape)}"
        )
    return num_heads


def mergeable(shape: Sequence[int]) -> None:
    """Raise unless an input has the shape (..., H, L, d) of split heads."""
    if len(shape) < 3:
        raise ValueError(
            f"x must have shape (..., H, L, d), got {tuple(shape)}"
        )


def positive(number: float, name: str) -> float:
    """Return the argument as a float, or raise unless it is positive and finite."""
    if isinstance(number, bool) or not isinstance(
        number, int | float | np.integer | np.floating
    ):
        raise TypeError(f"{name} must be a number, got {number!r}")
    value = _as_float(number)
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return value


def paired_width(width: int, name: str) -> int:
    """Return the width, or raise unless its components can be taken in pairs."""
    width = size(width, name, least=2)
    if width % 2:
        raise ValueError(
            f"{name} must be even, as components come in pairs, got {width}"
        )
    return width


def rotation(x: Sequence[int], **angles: Sequence[int]) -> None:
    """Raise unless an input has pairs of components and the angles fit them."""
    x = tuple(x)
    if len(x) < 2 or x[-1] == 0 or x[-1] % 2:
        raise ValueError(
            f"x must have shape (..., L, d_k) with an even d_k, got {x}"
        )
    turns = (*x[:-1], x[-1] // 2)
    for name, shape in angles.items():
        if not _broadcasts(shape, turns):
            raise ValueError(
                f"{name} must broadcast to the shape (..., L, d_k / 2) = {turns}, "
                f"got {tuple(shape)}"
            )


def positions_shape(positions: Sequence[int], x: Sequence[int]) -> None:
    """Raise unless positions are one per place of the sequence, or say all their axes."""
    positions, x = tuple(positions), tuple(x)
    all_axes = len(positions) == len(x) - 1 and positions[-1] == x[-2]
    if positions != (x[-2],) and not (
        all_axes and _broadcasts(positions, x[:-1])
    ):
        raise ValueError(
            f"positions must have shape (L,) = ({x[-2]},) or all axes but the last of x "
            f"{x}, got {positions}: write positions[:, None] for positions per "
            "sequence of a batch with heads"
        )


def _as_float(number: float) -> float:
    """Convert a number, an integer beyond every float to infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _broadcasts(shape: Sequence[int], to: Shape) -> bool:
    """Say whether one shape broadcasts to another without enlarging it."""
    aligned = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(m in (1, n) for m, n in aligned)
