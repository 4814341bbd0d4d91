"""Answers to the exercises on *Masks and dropout*: right ones, and those that people give."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from answers import Proof
from attention import masks
from attention.exercises import (
    check_masks_break,
    check_masks_counts,
    check_masks_decoding,
    check_masks_lines,
    check_masks_penalty,
    check_masks_softmax,
)


# --- masks-softmax
def soft_fill_twice(scores, allowed):
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)
    return torch.softmax(scores, dim=-1).masked_fill(~allowed, 0.0)


def soft_lowest(scores, allowed):
    lowest = torch.finfo(scores.dtype).min
    filled = torch.where(allowed, scores, lowest)
    return torch.where(allowed, filled.softmax(-1), 0.0)


def soft_by_hand(scores, allowed):
    scores = torch.where(allowed, scores, -math.inf)
    top = scores.detach().amax(-1, keepdim=True)
    top = top.masked_fill(top == -math.inf, 0.0)
    powers = torch.where(allowed, (scores - top).exp(), 0.0)
    total = powers.sum(-1, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


def soft_loops(scores, allowed):
    allowed = allowed.expand(scores.shape)
    rows = []
    for z, a in zip(
        scores.flatten(0, -2), allowed.flatten(0, -2), strict=True
    ):
        row = torch.zeros_like(z)
        rows.append(
            row.masked_scatter(a, z[a].softmax(0)) if a.any() else row
        )
    return torch.stack(rows).reshape(scores.shape)


def soft_replaced_and_patched(scores, allowed):
    """Let NaN arise where the replacement of the scores cuts its gradient off."""
    replaced = scores.masked_fill(~allowed, -math.inf)
    return torch.softmax(replaced, -1).nan_to_num(0.0)


def soft_nan(scores, allowed):
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), -1)


def soft_full_masks(scores, allowed):
    assert allowed.ndim == scores.ndim
    return soft_fill_twice(scores, allowed)


def soft_even(scores, allowed):
    """Replace the scores of empty rows, and forget to empty their weights."""
    empty = ~allowed.any(-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -torch.inf).masked_fill(empty, 0)
    return torch.softmax(scores, -1)


def soft_patched(scores, allowed):
    added = torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
    return torch.softmax(scores + added, -1).nan_to_num(0.0)


def soft_patched_by_where(scores, allowed):
    added = torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
    weights = torch.softmax(scores + added, -1)
    return torch.where(weights.isnan(), 0.0, weights)


def soft_large_negative(scores, allowed):
    return torch.softmax(scores.masked_fill(~allowed, -1e9), -1)


def soft_large_negative_zeroed(scores, allowed):
    return soft_large_negative(scores, allowed) * allowed


def soft_large_negative_added(scores, allowed):
    return torch.softmax(scores + -1e9 * ~allowed, -1)


def soft_textbook_complement(scores, allowed):
    return torch.softmax(scores + (1.0 - allowed.to(scores)) * -1e9, -1)


def soft_inverted(scores, allowed):
    return torch.softmax(scores.masked_fill(allowed, -math.inf), -1)


def soft_ones_added(scores, allowed):
    return torch.softmax(scores + allowed.to(scores), -1)


def soft_multiplied(scores, allowed):
    return torch.softmax(scores * allowed, -1)


def soft_zeroed(scores, allowed):
    return torch.softmax(scores, -1) * allowed


def soft_renormalised(scores, allowed):
    kept = torch.softmax(scores, -1) * allowed
    return kept / kept.sum(-1, keepdim=True)


def soft_renormalised_guarded(scores, allowed):
    kept = torch.softmax(scores, -1) * allowed
    return kept / kept.sum(-1, keepdim=True).clamp_min(1e-9)


def soft_queries(scores, allowed):
    return torch.softmax(scores.masked_fill(~allowed, -math.inf), -2)


def soft_times_infinity(scores, allowed):
    return torch.softmax(scores + ~allowed * -math.inf, -1)


def soft_first_row(scores, allowed):
    return soft_fill_twice(scores, allowed[..., :1, :])


def soft_axis_1(scores, allowed):
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)
    return torch.softmax(scores, dim=1).masked_fill(~allowed, 0.0)


def soft_lowest_of_float64(scores, allowed):
    lowest = torch.finfo(torch.float64).min
    return torch.softmax(scores.masked_fill(~allowed, lowest), -1) * allowed


def soft_lowest_added(scores, allowed):
    added = (~allowed).to(scores) * torch.finfo(scores.dtype).min
    return torch.softmax(scores + added, -1) * allowed


def soft_no_maximum(scores, allowed):
    powers = torch.where(allowed, scores.exp(), 0.0)
    return powers / powers.sum(-1, keepdim=True).clamp_min(1e-30)


def soft_in_place(scores, allowed):
    scores.masked_fill_(~allowed, -math.inf)
    return soft_fill_twice(scores, allowed)


def soft_numpy(scores, allowed):
    return soft_fill_twice(scores.detach(), allowed).numpy()


def soft_detached(scores, allowed):
    return soft_fill_twice(scores.detach(), allowed)


def soft_rows_of_queries(scores, allowed):
    return soft_fill_twice(scores, allowed.mT)


# --- masks-decoding
def decoding_package(lengths, L, S, window):
    near = masks.sliding_window(L, S, left=window, alignment="lower_right")
    start = S - torch.as_tensor(lengths)
    return (torch.arange(S) >= start[:, None])[:, None, None] & near


def decoding_compared(lengths, L, S, window):
    key, at = np.arange(S), np.arange(S - L, S)[:, None]
    real = key >= S - lengths[:, None, None, None]
    return (key <= at) & (key >= at - window) & real


def decoding_loops(lengths, L, S, window):
    mask = np.zeros((len(lengths), 1, L, S), dtype=bool)
    for b, n in enumerate(lengths):
        for i in range(L):
            at = S - L + i
            for j in range(max(S - int(n), at - window), at + 1):
                mask[b, 0, i, j] = True
    return mask


def decoding_triangles(lengths, L, S, window):
    ones = torch.ones(L, S, dtype=torch.bool)
    band = ones.tril(S - L) & ones.triu(S - L - window)
    flipped = torch.arange(S).flip(0) < torch.as_tensor(lengths)[:, None]
    return band & flipped[:, None, None, :]


def decoding(
    offset=None,
    right_padded=False,
    behind=0,
    ahead=0,
    surplus=0,
    use=("causal", "near", "real"),
    combine=np.logical_and,
):
    """Return a builder of masks with a fault or several."""

    def build(lengths, L, S, window):
        key, at = np.arange(S), np.arange(L)[:, None]
        at = at + (S - L if offset is None else offset)
        n = lengths[:, None, None, None]
        parts = {
            "causal": key <= at + ahead,
            "near": key >= at - window - behind,
            "real": key < n if right_padded else key >= S - n - surplus,
        }
        mask = np.full((len(lengths), 1, L, S), combine is np.logical_and)
        for name in use:
            mask = combine(mask, parts[name])
        return mask

    return build


def decoding_inverted(*given):
    return ~decoding_compared(*given)


def decoding_no_heads(*given):
    return decoding_compared(*given)[:, 0]


def decoding_numbers(*given):
    return decoding_compared(*given).astype(int)


def decoding_additive(*given):
    return np.where(decoding_compared(*given), 0.0, -np.inf)


def decoding_window_from_the_left(lengths, L, S, window):
    near = np.arange(S) >= np.arange(L)[:, None] - window
    return decoding_compared(lengths, L, S, S) & near


def decoding_one_length(lengths, L, S, window):
    longest = np.full_like(lengths, max(lengths))
    return decoding_compared(longest, L, S, window)


def decoding_sliced(lengths, L, S, window):
    """Take the last n keys by a slice, which for n = 0 takes all."""
    real = np.zeros((len(lengths), 1, 1, S), dtype=bool)
    for b, n in enumerate(lengths):
        real[b, ..., -n:] = True
    return decoding_compared(np.full_like(lengths, S), L, S, window) & real


def decoding_one_sees_all(lengths, L, S, window):
    if L == 1:
        return np.ones((len(lengths), 1, 1, S), dtype=bool)
    return decoding_compared(lengths, L, S, window)


def decoding_no_window_of_0(lengths, L, S, window):
    return decoding_compared(lengths, L, S, window or S)


def decoding_one_mask_of_two(lengths, L, S, window):
    """Take the padding mask where there is filler, and leave the causal one aside."""
    at, key = np.arange(L)[:, None] + S - L, np.arange(S)
    causal = (key <= at) & (key >= at - window)
    real = key >= S - lengths[:, None, None, None]
    shape = len(lengths), 1, L, S
    return np.broadcast_to(causal if real.all() else real, shape)


def decoding_padding_alone(lengths, L, S, window):
    return np.arange(S) >= S - lengths[:, None, None, None]


# --- masks-penalty
def penalty_matrix(weights, value, target, dropout_p):
    plain = ((weights @ value - target) ** 2).sum()
    return (
        plain + dropout_p / (1 - dropout_p) * (weights**2 @ value**2).sum()
    )


def penalty_norms(weights, value, target, dropout_p):
    norms = np.einsum("sv,sv->s", value, value)
    spread = np.einsum("ls,ls,s->", weights, weights, norms)
    plain = np.linalg.norm(weights @ value - target) ** 2
    return plain + spread * (1 / (1 - dropout_p) - 1)


def penalty_patterns(weights, value, target, dropout_p):
    """Add up all patterns of kept and dropped keys, query by query."""
    total = 0.0
    for p, t in zip(weights, target, strict=True):
        for pattern in itertools.product((0, 1), repeat=len(p)):
            kept = sum(pattern)
            chance = (1 - dropout_p) ** kept * dropout_p ** (len(p) - kept)
            factors = np.array(pattern) / (1 - dropout_p)
            total += chance * (((p * factors) @ value - t) ** 2).sum()
    return total


def penalty_torch(weights, value, target, dropout_p):
    spread = weights.square() @ value.square()
    loss = (weights @ value - target).square()
    return (loss + spread * dropout_p / (1 - dropout_p)).sum()


def penalty(factor=lambda p: p / (1 - p), spread=None):
    """Return an expected loss with a wrong factor or a wrong spread."""

    def loss(weights, value, target, dropout_p):
        of = spread or (lambda p, v: (p**2 @ v**2).sum())
        plain = ((weights @ value - target) ** 2).sum()
        return plain + factor(dropout_p) * of(weights, value)

    return loss


def penalty_normalised(weights, value, target, dropout_p):
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return penalty_matrix(weights, value, target, dropout_p)


def penalty_mean(weights, value, target, dropout_p):
    return penalty_matrix(weights, value, target, dropout_p) / target.size


def penalty_drawn(weights, value, target, dropout_p):
    draw = np.random.default_rng(0)
    keep = draw.random((2000, *weights.shape)) >= dropout_p
    outputs = (weights * keep / (1 - dropout_p)) @ value
    return ((outputs - target) ** 2).sum(axis=(1, 2)).mean()


def penalty_per_query(weights, value, target, dropout_p):
    plain = ((weights @ value - target) ** 2).sum(axis=-1)
    spread = (weights**2 @ value**2).sum(axis=-1)
    return plain + dropout_p / (1 - dropout_p) * spread


def penalty_centred(weights, value, target, dropout_p):
    """Take the weights' own variance of the values for that of the factors."""
    output = weights @ value
    spread = (weights @ value**2 - output**2).sum()
    return ((output - target) ** 2).sum() + dropout_p / (
        1 - dropout_p
    ) * spread


PROOFS = [
    Proof(
        check_masks_counts,
        right={
            "a list": [3, 4, 5, 5],
            "counted in a mask": (
                masks.causal(4, 6, alignment="lower_right")
                & (torch.arange(6) < 5)
            ).sum(-1),
            "an array": np.minimum(np.arange(4) + 3, 5),
        },
        wrong={
            "upper left corner": ([1, 2, 3, 4], "upper left"),
            "no padding": ([3, 4, 5, 6], "causal mask alone"),
            "padding alone": ([5, 5, 5, 5], "padding mask alone"),
            "without itself": ([2, 3, 4, 5], "own position"),
            "one too many": ([4, 5, 5, 5], "one key too many"),
            "hidden keys": ([3, 2, 1, 1], "does not see"),
            "the future": ([4, 3, 2, 1], "exchanged"),
            "six queries": ([1, 2, 3, 4, 5, 5], "4 numbers"),
            "the sum": (17, "4 numbers"),
        },
    ),
    Proof(
        check_masks_softmax,
        right={
            "filled twice": soft_fill_twice,
            "the lowest number": soft_lowest,
            "exponentials by hand": soft_by_hand,
            "loops": soft_loops,
            "replaced, then patched": soft_replaced_and_patched,
        },
        wrong={
            "NaN in empty rows": (soft_nan, "is to get zeros"),
            "empty rows left even": (soft_even, "evenly"),
            "NaN patched after": (soft_patched, "Let none arise"),
            "NaN patched by where": (
                soft_patched_by_where,
                "Let none arise",
            ),
            "-1e9 replaces": (soft_large_negative, "evenly"),
            "-1e9 replaces, zeroed": (
                soft_large_negative_zeroed,
                "below it",
            ),
            "-1e9 added": (soft_large_negative_added, "changes nothing"),
            "1 - mask times -1e9": (
                soft_textbook_complement,
                "changes nothing",
            ),
            "polarity swapped": (soft_inverted, "wrong way round"),
            "ones and zeros added": (soft_ones_added, "ones and zeros"),
            "scores times mask": (soft_multiplied, "set to 0"),
            "weights zeroed": (soft_zeroed, "after the softmax"),
            "renormalised": (soft_renormalised, "0/0"),
            "renormalised, guarded": (
                soft_renormalised_guarded,
                "no weight left",
            ),
            "over queries": (soft_queries, "over the queries"),
            "mask times -inf": (soft_times_infinity, "do not multiply"),
            "first row of the mask for all": (soft_first_row, "causal mask"),
            "softmax over axis 1": (soft_axis_1, "(2, 3, 5, 7)"),
            "lowest number of float64": (
                soft_lowest_of_float64,
                "in float32, it raises",
            ),
            "lowest number added": (soft_lowest_added, "as large as"),
            "no maximum": (soft_no_maximum, "near 1000"),
            "a mask of fewer axes refused": (
                soft_full_masks,
                "causal mask of shape (5, 7)",
            ),
            "in place": (soft_in_place, "changes its input"),
            "NumPy": (soft_numpy, "carry no gradient"),
            "detached": (soft_detached, "carry no gradient"),
            "queries masked": (soft_rows_of_queries, "raises RuntimeError"),
        },
    ),
    Proof(
        check_masks_break,
        right={
            "far above": [0.0, 0.0, 800.0],
            "an array": np.array([-5000.0, -1e4, 0.0]),
            "a tensor": torch.tensor([0.0, 1.0, 1e4]),
        },
        wrong={
            "zeros": ([0.0, 0, 0], "a good part"),
            "an allowed one far above": ([800.0, 0, 0], "a good part"),
            "one allowed one near": ([0.0, 800.0, 1000.0], "200 above"),
            "not far enough": ([0.0, 0.0, 700.0], "700 above"),
            "infinity": ([0.0, 0.0, np.inf], "finite"),
            "NaN": ([np.nan] * 3, "finite"),
            "too large": ([0.0, 0.0, 1e6], "10 000"),
            "two rows": (np.zeros((2, 3)), "(3,)"),
            "scores and mask": (
                ([0.0, 0, 800], [True, True, False]),
                "(2, 3)",
            ),
            "a text": ("0, 0, 800", "three scores"),
        },
    ),
    Proof(
        check_masks_lines,
        right={
            "letters": "BDEFG",
            "another order": "gfedb",
            "a list": ["B", "D", "E", "F", "G"],
            "with commas": "B, D, E, F, G",
        },
        wrong={
            "a float mask passed over": ("DEFG", "float"),
            "the layer's polarity passed over": ("BEFG", "layer"),
            "the corner passed over": ("BDFG", "corner"),
            "masked queries passed over": ("BDEG", "rows"),
            "dropout passed over": ("BDEF", "training"),
            "broadcasting taken for a fault": (
                "ABDEFG",
                "A does not belong",
            ),
            "the right negation taken for a fault": (
                "BCDEFG",
                "C does not belong",
            ),
            "masked_fill taken for a fault": ("BDEFGH", "H does not belong"),
            "the right ones": ("ACH", "A does not belong"),
            "none": ("", "in quotes"),
            "a number": (5, "in quotes"),
            "a line that is not there": ("BDEFGI", "A to H"),
        },
    ),
    Proof(
        check_masks_decoding,
        right={
            "the package's window": decoding_package,
            "comparisons": decoding_compared,
            "loops": decoding_loops,
            "triangles": decoding_triangles,
        },
        wrong={
            "upper left corner": (decoding(offset=0), "upper left"),
            "padded at the end": (decoding(right_padded=True), "at the end"),
            "polarity swapped": (decoding_inverted, "the opposite"),
            "window counts itself": (decoding(behind=-1), "own position"),
            "window too wide": (decoding(behind=1), "one key too far"),
            "without itself": (decoding(ahead=-1), "do not see their own"),
            "one ahead": (decoding(ahead=1), "after their own"),
            "combined by or": (
                decoding(combine=np.logical_or),
                "expected",
            ),
            "window forgotten": (
                decoding(use=("causal", "real")),
                "without the window",
            ),
            "future visible": (decoding(use=("near", "real")), "the future"),
            "filler visible": (decoding(use=("causal", "near")), "filler"),
            "one key of filler visible": (
                decoding(surplus=1),
                "one key of the filler",
            ),
            "one real key hidden": (
                decoding(surplus=-1),
                "first real key",
            ),
            "window from the upper left": (
                decoding_window_from_the_left,
                "S = 7, no filler",
            ),
            "one length for all": (decoding_one_length, "lengths (7, 4)"),
            "slice that begins at -0": (decoding_sliced, "lengths (6, 3,"),
            "one query sees all": (decoding_one_sees_all, "L = 1"),
            "no window of 0": (decoding_no_window_of_0, "a window of 0"),
            "padding alone": (decoding_padding_alone, "shape"),
            "padding mask in place of the causal one": (
                decoding_one_mask_of_two,
                "shows the future",
            ),
            "no axis for heads": (decoding_no_heads, "shape"),
            "ones and zeros": (decoding_numbers, "booleans are expected"),
            "0 and -inf": (decoding_additive, "booleans are expected"),
        },
    ),
    Proof(
        check_masks_penalty,
        right={
            "matrix form": penalty_matrix,
            "einsum": penalty_norms,
            "all patterns": penalty_patterns,
            "PyTorch": penalty_torch,
        },
        wrong={
            "no variance": (penalty(lambda p: 0.0), "their squares"),
            "p alone": (penalty(lambda p: p), "denominator"),
            "p(1 - p)": (penalty(lambda p: p * (1 - p)), "0 or 1"),
            "mean square for variance": (
                penalty(lambda p: 1 / (1 - p)),
                "mean square",
            ),
            "a power too high": (
                penalty(lambda p: p / (1 - p) ** 2),
                "too high",
            ),
            "p is the chance to keep": (
                penalty(lambda p: (1 - p) / p if p else 0.0),
                "exchanged",
            ),
            "first power of the weights": (
                penalty(spread=lambda p, v: (p @ v**2).sum()),
                "squared",
            ),
            "square of the output": (
                penalty(spread=lambda p, v: ((p @ v) ** 2).sum()),
                "independent",
            ),
            "variance of the row sums": (
                penalty(spread=lambda p, v: (p**2).sum()),
                "values are missing",
            ),
            "values not squared": (
                penalty(spread=lambda p, v: (p**2 @ v).sum()),
                "expected",
            ),
            "variance under the weights": (penalty_centred, "expected"),
            "odds by division": (
                penalty(lambda p: 1 / (1 / p - 1)),
                "p_drop = 0, it raises",
            ),
            "rows normalised first": (penalty_normalised, "a row of zeros"),
            "mean over the entries": (penalty_mean, "not their sum"),
            "sign turned": (penalty(lambda p: -p / (1 - p)), "wrong sign"),
            "one for each query": (penalty_per_query, "shape"),
            "many draws": (penalty_drawn, "expected"),
        },
    ),
]
