"""Random problems of attention for Hypothesis: shapes, masks, dtypes, scales, layouts.

Hypothesis chooses the sizes, the options and a seed; NumPy draws the numbers from that seed, which
is fast, and leaves small sizes and plain options for the simplest example of a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

# Ones, twos, and lengths that divide by nothing, on both sides of the blocks of 16, 32, 64 and 512
# in which kernels go. A kernel takes its keys 512 at a time: 521 needs a second block.
LENGTHS = (1, 2, 3, 5, 7, 13, 17, 31, 37, 67, 131)
WIDTHS = (1, 2, 3, 5, 8, 13, 16, 17)
LARGEST_SCORES = (1.0, 1e-3, 30.0, 1e3, 1e4)
LAYOUTS = ("contiguous", "heads inside", "width first", "every second")
ANY_SCALE = st.sampled_from((0.3, 2.0, 1e-3, 0.0, -0.7))
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@dataclass(frozen=True)
class Problem:
    """Inputs of attention, the gradient that arrives at its output, and where the weights are."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    is_causal: bool
    scale: float
    grad: Tensor  # 0 for queries that see nothing
    grouped: bool = False  # several heads of queries share one of keys

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value."""
        return self.query, self.key, self.value

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all but the mask."""
        return self.query.dtype

    @property
    def allowed(self) -> Tensor:
        """Who may attend, as a boolean tensor of the scores' shape."""
        shape = (*self.grad.shape[:-1], self.key.shape[-2])
        return _allowed(self.mask, self.is_causal, shape)

    @property
    def seeing(self) -> Tensor:
        """Which queries see anything, shape (..., L)."""
        return self.allowed.any(dim=-1)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Let Hypothesis print shapes in place of all numbers."""
        printer.text(repr(self))

    def __repr__(self) -> str:
        """Describe the problem as one reads it: shapes and options."""
        shapes = [tuple(x.shape) for x in self.inputs]
        strides = [x.stride() for x in self.inputs]
        mask = self.mask
        kind = None if mask is None else f"{mask.dtype} {tuple(mask.shape)}"
        return (
            f"Problem({self.dtype}, shapes {shapes}, strides {strides}, mask {kind}, "
            f"is_causal={self.is_causal}, scale={self.scale})"
        )


def _allowed(
    mask: Tensor | None, is_causal: bool, scores: tuple[int, ...]
) -> Tensor:
    allowed = torch.ones(scores, dtype=torch.bool)
    if is_causal:
        allowed = allowed.tril()
    if mask is not None:
        selects = mask.dtype == torch.bool
        allowed = allowed & (mask if selects else mask > -torch.inf)
    return allowed


def seen_keys(allowed: Tensor) -> Tensor:
    """Return which keys any query of any head and entry may see, shape (S,)."""
    return allowed.flatten(0, -2).any(dim=0)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    dtypes: Sequence[str] = ("float64", "float32"),
    largest_scores: Sequence[float] = LARGEST_SCORES,
    least: int = 0,
    one_width: bool = False,
    empty_rows: bool = True,
    wide_masks: bool = False,
    spoilt: bool = False,
    layouts: Sequence[str] = LAYOUTS,
    grouped: bool = False,
    broadcast: bool = False,
    scales: st.SearchStrategy[float] | None = None,
) -> Problem:
    """Draw a problem with the axes (B, H, L, E), or with fewer and more where they broadcast."""
    dtype = DTYPES[draw(st.sampled_from(dtypes))]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = st.sampled_from(LENGTHS) if least else _with_zero(LENGTHS)
    L, S = draw(sizes), draw(sizes)
    if max(LENGTHS) == S and draw(st.booleans()):
        S = 521
    E = draw(st.sampled_from(WIDTHS))
    # Kernels often want one width for all, and PyTorch then chooses another.
    one_width = one_width or draw(st.booleans())
    Ev = E if one_width else draw(st.sampled_from(WIDTHS))
    counts = st.sampled_from((1, 2, 3)) if least else _with_zero((1, 2, 3))
    B, H = draw(counts), draw(counts)
    leading = [(B, H)] * 3
    if grouped:
        H = draw(st.sampled_from((1, 2, 3)))
        leading = [(B, H * draw(st.sampled_from((1, 2, 3)))), *[(B, H)] * 2]
    if broadcast:
        whole = draw(st.sampled_from(((), (H,), (B, H), (2, B, H))))
        leading = [_thinned(draw, whole) for _ in range(3)]
    shapes = [(L, E), (S, E), (S, Ev)]
    # An axis of stride 0: all its entries are one place in memory.
    stretched = [draw(st.booleans()) and draw(st.booleans()) for _ in shapes]
    numbers = [
        rng.normal(size=(*((1,) * len(lead) if s else lead), *shape))
        for lead, shape, s in zip(leading, shapes, stretched, strict=True)
    ]
    scale = E**-0.5
    if draw(st.booleans()):
        scale = draw(ANY_SCALE if scales is None else scales)
    _set_largest_score(numbers, scale, draw(st.sampled_from(largest_scores)))
    together = np.broadcast_shapes(*leading) if not grouped else leading[0]
    # The package also takes a mask of float32 beside half precision.
    wide = wide_masks and draw(st.booleans())
    mask = _mask(
        *(draw, rng, (*together, L, S)), torch.float32 if wide else dtype
    )
    is_causal = draw(st.booleans())
    given = [torch.from_numpy(x).to(dtype) for x in numbers]
    if spoilt and mask is not None and draw(st.booleans()):
        # What nobody sees cannot matter, however large it is.
        hidden = ~seen_keys(_allowed(mask, is_causal, (*together, L, S)))
        for x in given[1:]:
            x[..., hidden, :] = torch.finfo(dtype).max
    layout = draw(st.sampled_from(layouts))
    query, key, value = (
        _lay_out(x, layout).expand(*lead, *shape)
        for x, lead, shape in zip(given, leading, shapes, strict=True)
    )
    problem = Problem(
        *(query, key, value, mask, is_causal, scale),
        torch.from_numpy(rng.normal(size=(*together, L, Ev))).to(dtype),
        grouped,
    )
    if mask is not None and not empty_rows:
        problem = replace(problem, mask=_seeing_one(problem, mask))
    return without_empty_rows(problem)


def without_empty_rows(problem: Problem) -> Problem:
    """Let no gradient arrive at queries that see nothing."""
    seeing = problem.seeing[..., None]
    return replace(problem, grad=problem.grad.masked_fill(~seeing, 0.0))


def _seeing_one(problem: Problem, mask: Tensor) -> Tensor:
    """Show the first key, which no causality hides, to queries that see nothing."""
    empty = ~problem.seeing
    for axis, size in enumerate(mask.shape[:-1]):
        if size == 1:
            empty = empty.any(dim=axis, keepdim=True)
    mask = mask.clone()
    seen = True if mask.dtype == torch.bool else 0.5
    mask[..., 0].masked_fill_(empty, seen)
    return mask


def _with_zero(sizes: Sequence[int]) -> st.SearchStrategy[int]:
    """Let a size be 0, but seldom: there is nothing to see then."""
    seldom = (16 // len(sizes)) * tuple(sizes)
    return st.sampled_from((*seldom, 0))


def _thinned(draw: st.DrawFn, whole: tuple[int, ...]) -> tuple[int, ...]:
    """Take leading axes off the front, and make some of the rest 1."""
    kept = whole[draw(st.integers(0, len(whole))) :]
    return tuple(draw(st.sampled_from((n, 1))) for n in kept)


def _set_largest_score(
    numbers: list[NDArray], scale: float, largest: float
) -> None:
    """Make scale * |query| * |key|, which no score exceeds, as large as told."""
    query, key, _ = numbers
    if not scale or 0 in (*query.shape, *key.shape):
        return
    bound = np.prod([np.linalg.norm(x, axis=-1).max() for x in (query, key)])
    factor = np.sqrt(largest / (bound * abs(scale)))
    query *= factor
    key *= factor


def _lay_out(x: Tensor, layout: str) -> Tensor:
    """Return the same numbers, lying otherwise in memory."""
    if layout == "heads inside" and x.ndim > 2:  # as (..., L, H, E)
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    if layout == "width first":  # the last stride is not 1
        return x.mT.contiguous().mT
    if layout == "every second":
        # What lies between must not be read.
        return torch.stack((x, torch.full_like(x, torch.nan)), -1)[..., 0]
    return x


def _mask(
    draw: st.DrawFn,
    rng: np.random.Generator,
    scores: tuple[int, ...],
    dtype: torch.dtype,
) -> Tensor | None:
    kind = draw(st.sampled_from(("none", "selects", "added")))
    if kind == "none":
        return None
    *leading, L, S = scores
    # A leading axis, or that of the queries, may be the same for all.
    shape = [draw(st.sampled_from((n, 1))) for n in (*leading, L)]
    allowed = rng.random((*shape, S)) < draw(
        st.sampled_from((0.5, 1.0, 0.9, 0.1))
    )
    # Whole blocks of queries, or of keys, that are masked.
    for axis in draw(st.sets(st.sampled_from((-1, -2)))):
        start, stop = sorted(
            draw(st.integers(0, allowed.shape[axis])) for _ in range(2)
        )
        block: list[Any] = [slice(None)] * allowed.ndim
        block[axis] = slice(start, stop)
        allowed[tuple(block)] = False
    if kind == "selects":
        return torch.from_numpy(allowed)
    bias = np.where(allowed, rng.normal(size=allowed.shape), -np.inf)
    return torch.from_numpy(bias).to(dtype)
