r"""Positions: what tells attention in which order its inputs stand.

:func:`sinusoidal` makes codes that are added to the inputs, :func:`rope` turns queries and keys, so
that their dot product knows how far apart they stand. Both use the same :func:`frequencies`.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from attention import _checks
from attention.functional import DTYPES

__all__ = [
    "Pairing",
    "frequencies",
    "half_split_order",
    "rope",
    "rotate",
    "sinusoidal",
]

Pairing = Literal["half_split", "interleaved"]
"""Which components turn together; :func:`rotate` explains the two."""


def frequencies(
    width: int,
    *,
    base: float = 10_000.0,
    device: torch.device | str | None = None,
) -> Tensor:
    r"""Return the angle by which each pair of components turns from one position to the next.

    .. math:: \omega_r = \text{base}^{-2r / \text{width}}, \qquad r = 0, \ldots, \text{width}/2 - 1

    Parameters
    ----------
    width
        Number of components, d_model or d_k: even, as they come in pairs.
    base
        Positive. Pair 0 turns by one radian per position, the last by base^(2 / width) / base.
    device
        Where the frequencies are made.

    Returns
    -------
    torch.Tensor
        In radians per position, float64 (float32 on a device that lacks it), shape (width / 2,).

    Raises
    ------
    TypeError
        If ``width`` is no integer or ``base`` no number.
    ValueError
        If ``width`` is not even and positive, or ``base`` not positive and finite.

    Notes
    -----
    Section 3.5 of Vaswani et al. (2017), arXiv:1706.03762.
    """
    width = _checks.paired_width(width, "width")
    base = _checks.positive(base, "base")
    device = torch.get_default_device() if device is None else device
    # In half precision, and for large positions in single, neighbours would share an angle.
    dtype = _widest(torch.device(device))
    exponent = torch.arange(0, width, 2, dtype=dtype, device=device) / width
    return base**-exponent


def sinusoidal(
    positions: int | Tensor,
    d_model: int,
    *,
    base: float = 10_000.0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Return the sinusoidal codes of positions, to be added to inputs of width d_model.

    .. math::

        \text{code}(t)_{2r} = \sin(\omega_r t), \qquad \text{code}(t)_{2r + 1} = \cos(\omega_r t)

    with the :func:`frequencies` :math:`\omega_r` of width d_model.

    Parameters
    ----------
    positions
        The positions t, shape (...), whole numbers or not; an integer n means 0, …, n - 1. The
        codes of n positions, (n, d_model), fit inputs (B, n, d_model): the batch comes first.
    d_model
        Width of a code: even.
    base
        As in :func:`frequencies`.
    device
        Where the codes are made; that of ``positions`` where it is None.
    dtype
        Of the codes: float64, float32, float16 or bfloat16; PyTorch's default where it is None.
        The angles are computed in float64.

    Returns
    -------
    torch.Tensor
        Shape (..., d_model).

    Raises
    ------
    TypeError
        If ``positions`` is neither an integer nor a tensor of real numbers, ``d_model`` no
        integer, ``base`` no number, or ``dtype`` another than those above.
    ValueError
        If ``positions`` is negative as a number, ``d_model`` not even and positive, or ``base``
        not positive and finite.

    Notes
    -----
    Section 3.5 of Vaswani et al. (2017), arXiv:1706.03762.
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if dtype not in DTYPES:
        raise TypeError(f"dtype must be one of {DTYPES}, got {dtype}")
    d_model = _checks.paired_width(d_model, "d_model")
    if not isinstance(positions, Tensor):
        positions = _checks.size(positions, "positions")
        positions = torch.arange(positions, device=device)
    elif device is not None:
        positions = positions.to(device)
    angles = _angles(positions, d_model, base)
    return _interleave(angles.sin(), angles.cos()).to(dtype)


def rotate(
    x: Tensor, cos: Tensor, sin: Tensor, *, pairing: Pairing
) -> Tensor:
    r"""Turn each pair of components by an angle of its own.

    .. math::

        (a, b) \mapsto (a \cos\phi - b \sin\phi,\; a \sin\phi + b \cos\phi)

    ``"interleaved"`` pairs the neighbours 2r and 2r + 1, as the paper does; ``"half_split"`` pairs
    r with r + d_k/2, as much published code does. Neither is the default: weights trained with one
    are misread by the other, without an error. :func:`half_split_order` translates.

    Parameters
    ----------
    x
        Shape (..., L, d_k) with an even d_k.
    cos, sin
        Cosines and sines of the angles, broadcasting to the shape (..., L, d_k / 2).
    pairing
        ``"half_split"`` or ``"interleaved"``.

    Returns
    -------
    torch.Tensor
        Of the shape and dtype of ``x``; computed in at least float32.

    Raises
    ------
    TypeError
        If an input is no tensor of float64, float32, float16 or bfloat16.
    ValueError
        If the shapes do not fit or the pairing is unknown.

    Notes
    -----
    Section 3.4.2 of Su et al. (2021), arXiv:2104.09864, which pairs neighbours.
    """
    for name, tensor in (("x", x), ("cos", cos), ("sin", sin)):
        _require_floating(tensor, name)
    _require_pairing(pairing)
    _checks.rotation(x.shape, cos=cos.shape, sin=sin.shape)
    dtype = torch.promote_types(x.dtype, torch.float32)
    cos, sin = cos.to(dtype), sin.to(dtype)
    if pairing == "interleaved":
        a, b = x[..., 0::2], x[..., 1::2]
    else:
        a, b = x.chunk(2, dim=-1)
    # (..., L, d_k / 2) each
    turned = (a * cos - b * sin, a * sin + b * cos)
    whole = (
        _interleave(*turned)
        if pairing == "interleaved"
        else torch.cat(turned, dim=-1)
    )
    return whole.to(x.dtype)


def rope(
    x: Tensor,
    positions: Tensor | None = None,
    *,
    pairing: Pairing,
    base: float = 10_000.0,
) -> Tensor:
    r"""Turn queries or keys by their positions: rotary position embedding.

    .. math:: \text{pair } r \text{ of } x_t \text{ turns by the angle } \omega_r t

    with the :func:`frequencies` :math:`\omega_r` of width d_k. The dot product of a query turned at
    t and a key turned at t' depends on t and t' through t - t' alone. Values are not turned.

    Parameters
    ----------
    x
        Queries or keys, split into heads: shape (..., L, d_k) with an even d_k.
    positions
        The position t of each vector: shape (L,), the same for all, or with *all* the axes (..., L)
        of ``x`` but the last, those before L of size 1 where it is the same for all. Positions per
        sequence of a batch with heads are ``positions[:, None]``, shape (B, 1, L). 0, …, L - 1
        where it is None; behind a cache of n keys pass n, …, n + L - 1.
    pairing
        ``"half_split"`` or ``"interleaved"``, as in :func:`rotate`.
    base
        As in :func:`frequencies`.

    Returns
    -------
    torch.Tensor
        Of the shape and dtype of ``x``. The angles are computed in float64, the rotation in at
        least float32.

    Raises
    ------
    TypeError
        If ``x`` is no tensor of float64, float32, float16 or bfloat16, ``positions`` no tensor of
        real numbers, or ``base`` no number.
    ValueError
        If the shapes or devices do not fit, the pairing is unknown, or ``base`` not positive and
        finite.

    Notes
    -----
    Section 3.2.2 of Su et al. (2021), arXiv:2104.09864.
    """
    _require_floating(x, "x")
    _require_pairing(pairing)
    _checks.rotation(x.shape)
    if positions is None:
        positions = torch.arange(x.shape[-2], device=x.device)
    elif isinstance(positions, Tensor):
        _checks.positions_shape(positions.shape, x.shape)
        if positions.device != x.device:
            raise ValueError(
                f"positions are on {positions.device}, but x on {x.device}"
            )
    angles = _angles(positions, x.shape[-1], base)
    return rotate(x, angles.cos(), angles.sin(), pairing=pairing)


def half_split_order(
    d_k: int, *, device: torch.device | str | None = None
) -> Tensor:
    r"""Return the order of components that carries interleaved pairs over into half-split ones.

    .. math:: 0, 2, 4, \ldots, d_k - 2, \; 1, 3, 5, \ldots, d_k - 1

    ``rope(x, pairing="interleaved")[..., order]`` equals ``rope(x[..., order],
    pairing="half_split")``. So trained projections change over when the outputs of each head's
    query and key projection are reordered; ``order.argsort()`` leads back.

    Parameters
    ----------
    d_k
        Width of a head: even.
    device
        Where the order is made.

    Returns
    -------
    torch.Tensor
        Integers, shape (d_k,).

    Raises
    ------
    TypeError, ValueError
        If ``d_k`` is no integer, or not even and positive.
    """
    d_k = _checks.paired_width(d_k, "d_k")
    # (d_k,) -> (d_k / 2, 2) -> (2, d_k / 2) -> (d_k,)
    return torch.arange(d_k, device=device).view(-1, 2).T.flatten()


def _angles(positions: Tensor, width: int, base: float) -> Tensor:
    """Return the angles ω_r t, shape (..., width / 2)."""
    if not isinstance(positions, Tensor):
        raise TypeError(
            f"positions must be a tensor, got {type(positions).__name__}"
        )
    if positions.dtype == torch.bool or positions.is_complex():
        raise TypeError(
            f"positions must be real numbers, got {positions.dtype}"
        )
    omega = frequencies(width, base=base, device=positions.device)
    return positions[..., None] * omega


def _interleave(even: Tensor, odd: Tensor) -> Tensor:
    """Join two halves of width d into one whose components they fill in turn, of width 2 d."""
    return torch.stack((even, odd), dim=-1).flatten(-2)


def _widest(device: torch.device) -> torch.dtype:
    """Return the widest floating dtype that a device computes in."""
    return torch.float32 if device.type == "mps" else torch.float64


def _require_floating(x: Tensor, name: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}")
    if x.dtype not in DTYPES:
        raise TypeError(f"{name} must be one of {DTYPES}, got {x.dtype}")


def _require_pairing(pairing: str) -> None:
    if pairing not in ("half_split", "interleaved"):
        raise ValueError(
            f'pairing must be "half_split" or "interleaved", got {pairing!r}'
        )
