"""Answers to the exercises on *What heads learn*: right ones, and those that people give."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from answers import Proof
from attention.exercises import (
    check_learn_contributions,
    check_learn_habits,
    check_learn_map,
    check_learn_notes,
    check_learn_two_heads,
    check_learn_weights,
)


# --- learn-notes
def notes_by_formula():
    content = np.eye(3)[[0, 1, 0, 2, 0]]
    notes = np.eye(5, k=-1) @ content
    powers = np.exp(math.log(6) * notes @ content[-1])
    return powers / powers.sum() @ content


# --- learn-habits
def habits_index(weights):
    n = weights.shape[-1] // 2
    early, late = np.arange(1, n), np.arange(n, 2 * n - 1)
    previous = weights[:, :, early, early - 1].mean(axis=(0, 2))
    return previous, weights[:, :, late, late - n + 1].mean(axis=(0, 2))


def habits_loops(weights):
    B, H, L, _ = weights.shape
    n = L // 2
    previous, induction = np.zeros(H), np.zeros(H)
    for b, h, i in itertools.product(range(B), range(H), range(1, n)):
        previous[h] += weights[b, h, i, i - 1] / (B * (n - 1))
        induction[h] += weights[b, h, i + n - 1, i] / (B * (n - 1))
    return previous, induction


def habits_diagonals(weights):
    n = weights.shape[-1] // 2
    mean = weights.mean(0)
    first = mean[:, :n, :n]
    later = mean[:, n : 2 * n - 1, 1:n]
    trace = [np.trace(x, o, 1, 2) for x, o in ((first, -1), (later, 0))]
    return [x / (n - 1) for x in trace]


def habits_torch(weights):
    weights = torch.as_tensor(weights)
    n = weights.size(-1) // 2
    previous = weights.diagonal(-1, -2, -1)[..., : n - 1]
    induction = weights.diagonal(1 - n, -2, -1)[..., 1:n]
    return previous.mean((0, 2)), induction.mean((0, 2))


def habits_at(weights, previous, induction):
    mean = weights.mean(0)
    return (
        mean[:, previous, previous - 1].mean(-1),
        mean[:, induction[0], induction[1]].mean(-1),
    )


def places(weights):
    n = weights.shape[-1] // 2
    return n, np.arange(1, n), np.arange(n, 2 * n - 1)


def habits_everywhere(weights):
    n, _, late = places(weights)
    return habits_at(weights, np.arange(1, 2 * n), (late, late - n + 1))


def habits_same_token(weights):
    n, early, late = places(weights)
    return habits_at(weights, early, (late, late - n))


def habits_one_before(weights):
    n, early, late = places(weights)
    return habits_at(weights, early, (late, late - n - 1))


def habits_last_query(weights):
    n, early, _ = places(weights)
    late = np.arange(n, 2 * n)
    return habits_at(weights, early, (late, late - n + 1))


def habits_whole_diagonal(weights):
    n, early, _ = places(weights)
    late = np.arange(n - 1, 2 * n)
    return habits_at(weights, early, (late, late - n + 1))


def habits_second_copy(weights):
    n, _, late = places(weights)
    return habits_at(weights, late, (late, late - n + 1))


def habits_previous_at(first, last, back=1):
    def habits(weights):
        n, _, late = places(weights)
        early = np.arange(first, n + last)
        return (
            weights[..., early, early - back].mean((0, 2)),
            weights[..., late, late - n + 1].mean((0, 2)),
        )

    return habits


def habits_induction_at(first, last):
    def habits(weights):
        n, early, _ = places(weights)
        late = np.arange(n + first, 2 * n - 1 + last)
        return (
            weights[..., early, early - 1].mean((0, 2)),
            weights[..., late, late - n + 1].mean((0, 2)),
        )

    return habits


def habits_divided_by_n(weights):
    n = weights.shape[-1] // 2
    previous, induction = habits_index(weights)
    return previous * (n - 1) / n, induction


def habits_transposed(weights):
    return habits_index(np.swapaxes(weights, -1, -2))


def habits_swapped(weights):
    return habits_index(weights)[::-1]


def habits_summed(weights):
    n = weights.shape[-1] // 2
    return [score * (n - 1) for score in habits_index(weights)]


def habits_by_peak(weights):
    n, early, late = places(weights)
    peak = weights.argmax(-1)
    return (
        (peak[..., early] == early - 1).mean((0, 2)),
        (peak[..., late] == late - n + 1).mean((0, 2)),
    )


def habits_per_sequence(weights):
    n, early, late = places(weights)
    return (
        weights[..., early, early - 1].mean(-1),
        weights[..., late, late - n + 1].mean(-1),
    )


def habits_of_the_first_sequence(weights):
    return habits_index(weights[:1])


def habits_over_heads(weights):
    return [score.mean() for score in habits_index(weights)]


def habits_stacked(weights):
    return np.stack(habits_index(weights)).sum(0)


# --- learn-contributions
def adds_blocks(weights, value, stored):
    H, d_v = value.shape[1], value.shape[-1]
    return weights @ value @ stored.T.reshape(H, d_v, -1)


def adds_einsum(weights, value, stored):
    W = stored.reshape(len(stored), value.shape[1], value.shape[3])
    return np.einsum("bhij,bhjr,dhr->bhid", weights, value, W)


def adds_loops(weights, value, stored):
    B, H, L, _ = weights.shape
    d_v, out = value.shape[-1], np.zeros((B, H, L, len(stored)))
    for b, h in itertools.product(range(B), range(H)):
        W = stored[:, h * d_v : (h + 1) * d_v]  # (d_model, d_v)
        out[b, h] = weights[b, h] @ (value[b, h] @ W.T)
    return out


def adds_torch_padded(weights, value, stored):
    p, v, w = map(torch.as_tensor, (weights, value, stored))
    alone = torch.eye(p.size(1), dtype=p.dtype)[None, :, None, :, None]
    heads = (p @ v)[:, :, :, None, :] * alone  # others set to zero
    return torch.nn.functional.linear(heads.flatten(-2), w)


def adds_blocks_torch(weights, value, stored):
    H, d_v = value.shape[1], value.shape[-1]
    # Of an array this would be a view of the same, not its transposed.
    return weights @ value @ stored.transpose(0, 1).reshape(H, d_v, -1)


def adds_as_given(weights, value, stored):
    H, d_v = value.shape[1], value.shape[-1]
    blocks = stored.reshape(d_v, H, -1).swapaxes(0, 1)
    return weights @ value @ blocks


def adds_not_transposed(weights, value, stored):
    H, d_v = value.shape[1], value.shape[-1]
    return weights @ value @ stored.reshape(H, d_v, -1)


def adds_in_turn(weights, value, stored):
    H, d_v = value.shape[1], value.shape[-1]
    blocks = stored.T.reshape(d_v, H, -1).swapaxes(0, 1)
    return weights @ value @ blocks


def adds_averaged(weights, value, stored):
    return adds_blocks(weights, value, stored) / value.shape[1]


def adds_summed(weights, value, stored):
    return adds_blocks(weights, value, stored).sum(1)


def adds_unweighted(weights, value, stored):
    return adds_blocks(np.ones_like(weights), value, stored)


def adds_transposed_weights(weights, value, stored):
    return adds_blocks(weights.swapaxes(-1, -2), value, stored)


def adds_turned_by_shape(weights, value, stored):
    H, d_v = value.shape[1], value.shape[-1]
    W_O = stored if len(stored) == H * d_v else stored.T
    return weights @ value @ W_O.reshape(H, d_v, -1)


def adds_normalised(weights, value, stored):
    weights = weights / weights.sum(-1, keepdims=True)
    return adds_blocks(weights, value, stored)


def adds_unsplit(weights, value, stored):
    return weights @ value @ stored.T


# --- learn-two-heads
A, B, A2, B2 = 0, 1, 2, 3


def heads_by_denominator():
    scores, gains = np.zeros((2, 2, 5, 4))
    scores[0, 0, A2] = math.log(9)
    for place, sign in ((1, 1), (3, -1)):
        gains[0, place, [B, B2]] = 12 * sign, -12 * sign
        gains[1, place, [B, B2]] = -6 * sign, 6 * sign
    return scores, gains


def heads_mirrored():
    scores, gains = np.zeros((2, 2, 5, 4))
    scores[0, 0, A], scores[1, 0, A2] = -5, -5
    scores[:, [2, 4]] = -20
    gains[0, 1, [B, B2]] = 5, -5
    gains[1, 1, [B, B2]] = -5, 5
    return scores, gains


def heads_found_by_gradient():
    torch.manual_seed(0)
    scores = torch.randn(2, 5, 4, requires_grad=True)
    gains = torch.randn(2, 5, 4, requires_grad=True)
    four = torch.tensor(
        [[0, 1, 2, 3, 0], [0, 3, 2, 1, 0], [2, 1, 0, 3, 0], [2, 3, 0, 1, 0]]
    )
    sign, place = torch.tensor([1.0, -1, -1, 1]), torch.arange(5)
    for _ in range(150):
        z, y = scores[:, place, four], gains[:, place, four]
        lead = (z.softmax(-1) * y).sum((0, 2))
        loss = torch.nn.functional.softplus(-sign * lead).mean()
        for part, slope in zip(
            (scores, gains),
            torch.autograd.grad(loss, (scores, gains)),
            strict=True,
        ):
            part.data -= 3 * slope
    return [scores.detach(), gains.detach()]


def heads_one_alone():
    scores, gains = heads_by_denominator()
    gains[1] = 0
    return scores, gains


def heads_without_positions():
    scores, gains = np.zeros((2, 2, 5, 4))
    scores[0, :, A2] = math.log(9)
    gains[0, :, B], gains[1, :, B2] = 3, 2
    return scores, gains


def heads_same_denominator():
    _, gains = heads_by_denominator()
    scores = np.zeros((2, 5, 4))
    scores[1, 1:4:2, [[B], [B2]]] = (
        2.0  # one of them at each of the two places
    )
    return scores, gains


def heads_without_gains():
    return heads_by_denominator()[0], np.zeros((2, 5, 4))


def heads_wrong_way_round():
    scores, gains = heads_by_denominator()
    return scores, -gains


def heads_too_faint():
    scores, gains = heads_by_denominator()
    return scores, gains / 100


def heads_far_too_faint():
    scores, gains = heads_by_denominator()
    return scores, gains / 1e5


def heads_equal():
    scores, gains = heads_by_denominator()
    return np.stack([scores[0]] * 2), np.stack([gains[0]] * 2)


def heads_one_sequence_wrong():
    scores, gains = heads_by_denominator()
    gains[1] = gains[1] / 6
    return scores, gains


def heads_only_scores():
    return heads_by_denominator()[0]


def heads_of_one():
    return [part[0] for part in heads_by_denominator()]


def heads_infinite():
    scores, gains = heads_by_denominator()
    scores[:, 4] = -np.inf
    return scores, gains


def heads_with_arguments(scores, gains):
    return scores, gains


PROOFS = [
    Proof(
        check_learn_notes,
        right={
            "fractions": [1 / 5, 2 / 5, 2 / 5],
            "decimals": (0.2, 0.4, 0.4),
            "the chapter's formula": notes_by_formula(),
            "a tensor": torch.tensor([3, 6, 6]) / 15,
        },
        wrong={
            "tokens searched": (
                [0.9, 0.05, 0.05],
                "the search is to go",
            ),
            "matches alone": ([0, 0.5, 0.5], "exponential is 1"),
            "uniform": ([0.6, 0.2, 0.2], "counts more"),
            "last match": ([0.3, 0.1, 0.6], "last match"),
            "first match": ([0.3, 0.6, 0.1], "first match"),
            "own position left out": (
                [2 / 14, 6 / 14, 6 / 14],
                "own position",
            ),
            "not divided": ([3, 6, 6], "divided"),
            "weights of positions": (
                np.array([1, 6, 1, 6, 1]) / 15,
                "shape",
            ),
            "a word": ("B or C", "a str"),
        },
    ),
    Proof(
        check_learn_map,
        right={"letter": "C", "small letter": "c", "in a tuple": ("C",)},
        wrong={
            "same token": ("A", "own token"),
            "previous token": ("B", "one place back"),
            "own position": ("D", "itself"),
            "turned": ("E", "come later"),
            "no panel": ("F", "A to E"),
            "two panels": ("AC", "One letter"),
        },
    ),
    Proof(
        check_learn_habits,
        right={
            "an index": habits_index,
            "loops": habits_loops,
            "traces": habits_diagonals,
            "PyTorch, diagonals": habits_torch,
        },
        wrong={
            "previous in both copies": (habits_everywhere, "both copies"),
            "same token": (
                habits_same_token,
                "the induction score is",
            ),
            "one before": (habits_one_before, "one place before"),
            "last query counted": (habits_last_query, "the last query"),
            "whole diagonal": (habits_whole_diagonal, "either end"),
            "previous in the second copy": (
                habits_second_copy,
                "second copy",
            ),
            "previous of query n too": (
                habits_previous_at(1, 1),
                "query n too",
            ),
            "previous of query 0 too": (
                habits_previous_at(0, 0),
                "query 0 has no key",
            ),
            "previous divided by n": (
                habits_divided_by_n,
                "one query too many",
            ),
            "own position for previous": (
                habits_previous_at(1, 0, back=0),
                "own position",
            ),
            "induction from n + 1": (
                habits_induction_at(1, 0),
                "without query n:",
            ),
            "induction up to 2n - 3": (
                habits_induction_at(0, -1),
                "without query 2n - 2",
            ),
            "transposed": (habits_transposed, "exchanged"),
            "scores exchanged": (habits_swapped, "stand in another order"),
            "sums": (habits_summed, "sums of weights"),
            "share of peaks": (habits_by_peak, "how often"),
            "not over the batch": (habits_per_sequence, "has shape"),
            "first sequence": (habits_of_the_first_sequence, "expected"),
            "over the heads too": (habits_over_heads, "has shape"),
            "scores added": (habits_stacked, "a tuple of 2 results"),
            "one array": (
                lambda weights: np.stack(habits_index(weights)),
                "a tuple of 2 results",
            ),
        },
    ),
    Proof(
        check_learn_contributions,
        right={
            "blocks": adds_blocks,
            "einsum": adds_einsum,
            "loops": adds_loops,
            "PyTorch, other heads at zero": adds_torch_padded,
            "PyTorch's way to transpose": adds_blocks_torch,
        },
        wrong={
            "as given": (adds_as_given, "as it was given"),
            "not transposed": (adds_not_transposed, "stored"),
            "rows in turn": (adds_in_turn, "in turn"),
            "averaged": (adds_averaged, "average"),
            "summed": (adds_summed, "has shape"),
            "not weighted": (adds_unweighted, "not been weighted"),
            "weights transposed": (adds_transposed_weights, "exchanged"),
            "transposed where the shape says so": (
                adds_turned_by_shape,
                "stores the transposed",
            ),
            "normalised": (adds_normalised, "nan"),
            "not split": (adds_unsplit, "raises ValueError"),
        },
    ),
    Proof(
        check_learn_weights,
        right={
            "most on key 4": [0.1, 0, 0.1, 0, 0.8, 0],
            "some on key 5": np.array([0.2, 0, 0, 0, 0.6, 0.2]),
            "rounded to four decimals": [0.1001, 0, 0.1, 0, 0.8, 0],
            "a step in the null space": torch.tensor(
                [0.4, 0.3, 0.2, 0.1, 0, 0], dtype=torch.float64
            )
            + 0.1 * torch.tensor([-3, -3, -1, -1, 8, 0]),
        },
        wrong={
            "the same weights": ([0.4, 0.3, 0.2, 0.1, 0, 0], "0.00"),
            "not far enough": ([0.25, 0.15, 0.15, 0.05, 0.4, 0], "moved"),
            "uniform": ([1 / 6] * 6, "the output"),
            "a permutation": ([0.1, 0.2, 0.3, 0.4, 0, 0], "the output"),
            "too far": ([-0.05, 0, 0.05, -0.05, 1, 0.05], "the output"),
            "too far in the right direction": (
                [0.04, -0.06, 0.08, -0.02, 0.96, 0],
                "go less far",
            ),
            "negative, with another output": (
                [0.4, 0.3, 0.2, 0.2, -0.1, 0],
                "output (1.8, 1.5)",
            ),
            "sum not 1": ([0, 0.0, 0.1, 0, 0.8, 0], "add up to 0.9"),
            "sum not quite 1": (
                [0.1008, 0, 0.1, 0, 0.8, 0],
                "to 1.0008 and",
            ),
            "key 4 alone": ([0, 0, 0, 0, 1, 0], "the output"),
            "four weights": ([0.4, 0.3, 0.2, 0.1], "six weights"),
            "NaN": ([np.nan] * 6, "finite"),
        },
    ),
    Proof(
        check_learn_two_heads,
        right={
            "one denominator moves": heads_by_denominator,
            "mirror images": heads_mirrored,
            "found by gradient": heads_found_by_gradient,
        },
        wrong={
            "one head alone": (heads_one_alone, "one head alone"),
            "no positions": (heads_without_positions, "position too"),
            "same denominators": (heads_same_denominator, "same sum"),
            "no gains": (heads_without_gains, "any gains"),
            "wrong way round": (heads_wrong_way_round, "wrong way round"),
            "too faint": (heads_too_faint, "in absolute value"),
            "far too faint": (heads_far_too_faint, "-2.4e-05 in s12"),
            "two equal heads": (heads_equal, "share a denominator"),
            "second head too weak": (heads_one_sequence_wrong, "s2"),
            "scores alone": (heads_only_scores, "scores and gains"),
            "one head's arrays": (heads_of_one, "(2, 5, 4)"),
            "infinite scores": (heads_infinite, "-30 and 30"),
            "takes arguments": (heads_with_arguments, "TypeError"),
        },
    ),
]
