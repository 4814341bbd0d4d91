"""Checkers of the exercises on *Masks and dropout*."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention.exercises._checking import (
    EXACT,
    AnswerError,
    Case,
    Mistake,
    Verdict,
    as_array,
    blank,
    check_choice,
    check_function,
    check_numbers,
    checker,
    described,
    right,
    unanswered,
    wrong,
)
from attention.reference import softmax

Array = np.ndarray[Any, Any]


@checker
def check_masks_counts(answer: object) -> Verdict:
    """Check how many keys each of four queries sees: four numbers."""
    return check_numbers(
        "masks-counts",
        answer,
        [3, 4, 5, 5],
        {
            "counted from the upper left corner: the queries are the newest"
            " of the tokens, and stand at the end.": [1, 2, 3, 4],
            "the causal mask alone: the last key is filler.": [3, 4, 5, 6],
            "the padding mask alone: a query does not see what comes after"
            " it.": [5, 5, 5, 5],
            "counted without the query's own position, which it sees too.": [
                2,
                3,
                4,
                5,
            ],
            "one key too many: query 0 stands at key 2, and sees the keys 0"
            " to 2.": [4, 5, 5, 5],
            "how many keys each query does not see.": [3, 2, 1, 1],
            "every key from a query's own position on: past and future are"
            " exchanged.": [4, 3, 2, 1],
        },
        tolerance=EXACT,
    )


# ------------------------------------------------------------------- a softmax over allowed keys
def _restricted(scores: Tensor, allowed: Tensor) -> Array:
    """Return the softmax over the allowed keys, zeros where there are none."""
    return softmax(np.where(allowed, scores, -np.inf))


def _upstream(shape: tuple[int, ...]) -> Array:
    """Return the gradient that arrives at the weights."""
    return np.random.default_rng(9).normal(size=shape)


def _restricted_gradient(scores: Tensor, allowed: Tensor) -> Array:
    """Return the gradient with respect to the scores."""
    weights = _restricted(scores, allowed)
    arrives = _upstream(weights.shape)
    mean = (weights * arrives).sum(axis=-1, keepdims=True)
    return np.asarray(weights * (arrives - mean))


def _gradient_of(
    function: Callable[[Tensor, Tensor], Any],
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that carries a gradient back through `function` to the scores."""

    def gradient(scores: Tensor, allowed: Tensor) -> Tensor:
        leaf = scores.clone().requires_grad_()
        weights = function(leaf, allowed)
        if not isinstance(weights, Tensor) or not weights.requires_grad:
            raise AnswerError(
                "the weights carry no gradient back to the scores: stay"
                " within PyTorch, and detach nothing"
            )
        arrives = torch.from_numpy(_upstream(tuple(weights.shape)))
        loss = (weights * arrives).sum()
        return torch.autograd.grad(loss, leaf)[0]

    return gradient


def _additive(allowed: Tensor, number: float = -math.inf) -> Tensor:
    return torch.zeros(allowed.shape).masked_fill(~allowed, number)


def _renormalised(scores: Tensor, allowed: Tensor) -> Tensor:
    kept = torch.softmax(scores, -1) * allowed
    return kept / kept.sum(-1, keepdim=True)


FORWARD_MISTAKES = [
    Mistake(
        lambda z, a: torch.softmax(z.masked_fill(a, -math.inf), -1),
        "the mask read the wrong way round: True means that a query may"
        " attend.",
    ),
    Mistake(
        lambda z, a: torch.softmax(z + a, -1),
        "ones and zeros added to the scores: that forbids nothing.",
    ),
    Mistake(
        lambda z, a: torch.softmax(z * a, -1),
        "forbidden scores set to 0: the exponential of 0 is 1, and the key"
        " keeps a share.",
    ),
    Mistake(
        lambda z, a: torch.softmax(z.masked_fill(~a, -math.inf), -2),
        "a softmax over the queries: each query's weights are to sum to 1.",
    ),
    Mistake(
        lambda z, a: torch.softmax(z.masked_fill(~a, -math.inf), -1),
        "a softmax of nothing but -inf: a query that may attend to nothing is"
        " to get zeros.",
    ),
    *(
        Mistake(
            function,
            "forbidden weights set to 0 after the softmax, and the others"
            " divided by their sum: where they have no weight left, that is"
            " 0/0.",
        )
        for function in (
            _renormalised,
            lambda z, a: _renormalised(z, a).nan_to_num(0.0),
        )
    ),
    Mistake(
        lambda z, a: torch.softmax(z, -1) * a,
        "weights set to 0 after the softmax: what is left no longer sums to"
        " 1.",
    ),
    Mistake(
        lambda z, a: torch.softmax(z + (1 - a.to(z.dtype)) * -math.inf, -1),
        "one NaN that has spread to every number, as 0 times -inf does where"
        " a mask is multiplied: pick, and do not multiply.",
        constant=True,
    ),
    Mistake(
        lambda z, a: torch.softmax(z.masked_fill(~a, -1e9), -1),
        "equal numbers in the place of all scores of a row where nothing is"
        " allowed, 0 or a large negative one: its keys then share the weight"
        " evenly, and are to get none.",
    ),
    Mistake(
        lambda z, a: torch.softmax(z + _additive(a, -1e9), -1),
        "a large negative number added to the scores: where nothing is"
        " allowed, it is added to all of them, and changes nothing.",
    ),
    Mistake(
        lambda z, a: torch.softmax(z.masked_fill(~a, -1e9), -1) * a,
        "a large negative number in place of -inf: allowed scores may lie"
        " below it.",
    ),
]

GRADIENT_MISTAKES = [
    Mistake(
        _gradient_of(
            lambda z, a: torch.softmax(z + _additive(a), -1).nan_to_num()
        ),
        "NaN that was replaced after the softmax: it is gone from the"
        " weights, and comes back in their gradient. Let none arise.",
    ),
]


def _restricted_cases() -> list[Case]:
    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(np.random.default_rng(4).normal(size=shape))

    causal = torch.ones(5, 7, dtype=torch.bool).tril()
    empty = causal.clone()
    empty[2] = False
    padding = torch.arange(7) < torch.tensor([7, 4])[:, None, None, None]
    last = (torch.arange(4) < 3).expand(3, 4)
    loud = normal(3, 4)
    loud[:, -1] += 2000
    largest = normal(3, 4)
    largest[:, -1] = torch.finfo(torch.float64).max
    return [
        Case(
            "two queries, three keys, the last of them forbidden",
            (normal(2, 3), torch.tensor([[True, True, False]] * 2)),
        ),
        Case(
            "scores of shape (5, 7) and a causal mask",
            (normal(5, 7), causal),
        ),
        Case(
            "scores of shape (2, 3, 5, 7) and a padding mask of shape"
            " (2, 1, 1, 7)",
            (normal(2, 3, 5, 7), padding),
        ),
        Case(
            "scores of shape (2, 3, 5, 7) and a causal mask of shape (5, 7)",
            (normal(2, 3, 5, 7), causal),
        ),
        Case(
            "a forbidden score 2000 above the allowed ones",
            (loud, last),
        ),
        Case(
            "a query that may attend to nothing, in float64",
            (normal(5, 7), empty),
        ),
        Case(
            "a query that may attend to nothing, in float32",
            (normal(5, 7).float(), empty),
        ),
        Case(
            "a forbidden score as large as float64 holds",
            (largest, last),
        ),
        Case(
            "scores near 1000, one forbidden in each row",
            (1000 + normal(3, 4), last),
        ),
        Case(
            "allowed scores near -10 to the power 12",
            (normal(3, 4) - 1e12, last),
        ),
    ]


@checker
def check_masks_softmax(answer: object) -> Verdict:
    """Check ``masked_softmax(scores, allowed)`` of tensors, forward and gradient."""
    name, cases = "masks-softmax", _restricted_cases()
    verdict = check_function(
        name, answer, _restricted, cases, FORWARD_MISTAKES, torch_too=False
    )
    if not verdict or not callable(answer):
        return verdict
    return check_function(
        name,
        _gradient_of(answer),
        _restricted_gradient,
        [
            replace(
                case,
                what=f"{case.what}, and a gradient that is carried back",
            )
            for case in cases
        ],
        GRADIENT_MISTAKES,
        torch_too=False,
    )


# ----------------------------------------------------------------------------- a function to break
def renormalised(scores: Array, allowed: Array) -> Array:
    """Return weights over allowed keys in a way that breaks; the exercise is to find where.

    The softmax over all keys, in which the forbidden weights are then set to 0 and the others
    divided by their sum.
    """
    kept = softmax(scores) * allowed
    with np.errstate(invalid="ignore"):
        return np.asarray(kept / kept.sum(axis=-1, keepdims=True))


@checker
def check_masks_break(answer: object) -> Verdict:
    """Check three scores, the last one forbidden, that make :func:`renormalised` return NaN."""
    name, what = "masks-break", "the answer"
    if unanswered(answer):
        return blank(name)
    try:
        scores = as_array(answer)
    except AnswerError:
        return wrong(
            name,
            f"This is {described(answer)}, and three scores are wanted.",
            what,
        )
    if scores.shape != (3,):
        return wrong(name, f"Its shape is {scores.shape}, not (3,).", what)
    if not np.isfinite(scores).all():
        return wrong(
            name,
            "Every score is to be finite: NaN out of NaN or infinity is no"
            " discovery.",
            what,
        )
    if np.abs(scores).max() > 1e4:
        return wrong(
            name, "No score is to be farther from 0 than 10 000.", what
        )
    scores = scores.astype(np.float64)
    found = renormalised(scores, np.array([True, True, False]))
    if np.isnan(found).any():
        return right(name)
    ahead = scores[2] - scores[:2].max()
    hint = (
        f"The forbidden score lies {ahead:.4g} above the others: float64"
        " still holds the weights that it leaves them."
        if ahead > 0
        else "The forbidden key does not have the largest score, so that an"
        " allowed one has a good part of the weight."
    )
    return wrong(
        name, f"The function gets these weights right. {hint}", what
    )


# --------------------------------------------------------------------- eight lines, and a builder
@checker
def check_masks_lines(answer: object) -> Verdict:
    """Check which lines, A to H, do not do what their comment says: letters."""
    return check_choice(
        "masks-lines",
        answer,
        "BDEFG",
        {
            "A": "it does what it says. Which axes of the scores does a shape"
            " (B, 1, 1, S) vary along?",
            "B": "look again at what becomes of a mask that is a float.",
            "C": "it does what it says. Whose polarity is it?",
            "D": "look again at what the layer takes True for.",
            "E": "look again at the corner where the flag starts to count,"
            " with one query and several keys.",
            "F": "look again at which rows and which columns of the scores"
            " are covered.",
            "G": "look again at what tells a function that training is over.",
            "H": "it does what it says. Which entries does masked_fill"
            " replace?",
        },
        several=True,
    )


def _building(
    lengths: Array,
    L: int,
    S: int,
    window: int,
    *,
    behind: int = 0,
    ahead: int = 0,
    corner: bool = True,
    left: bool = True,
    surplus: int = 0,
) -> tuple[Array, Array, Array]:
    """Return who may attend by the causal mask, the window and the padding, for broadcasting."""
    key, at = np.arange(S), np.arange(L)[:, None]
    if corner:
        at = at + S - L
    lengths = np.asarray(lengths)[:, None, None, None]
    real = key >= S - lengths - surplus if left else key < lengths
    return key <= at + ahead, key >= at - window - behind, real


def _built(
    lengths: Array, L: int, S: int, window: int, **options: Any
) -> Array:
    causal, near, real = _building(lengths, L, S, window, **options)
    return np.asarray(causal & near & real)


def _any_of(lengths: Array, L: int, S: int, window: int) -> Array:
    causal, near, real = _building(lengths, L, S, window)
    return np.asarray(causal & near | real)


def _no_window(lengths: Array, L: int, S: int, window: int) -> Array:
    causal, _, real = _building(lengths, L, S, window)
    return np.asarray(causal & real)


def _past_alone(lengths: Array, L: int, S: int, window: int) -> Array:
    _, near, real = _building(lengths, L, S, window)
    return np.asarray(near & real)


def _unpadded(lengths: Array, L: int, S: int, window: int) -> Array:
    causal, near, real = _building(lengths, L, S, window)
    return np.asarray(causal & near | np.zeros_like(real))


DECODING_MISTAKES = [
    Mistake(
        lambda *given: ~_built(*given),
        "the opposite: True is to mean that a query may attend.",
    ),
    Mistake(
        partial(_built, corner=False),
        "queries that are counted from the upper left corner: the last query"
        " stands at the last key.",
    ),
    Mistake(
        partial(_built, left=False),
        "padding at the end: here the real keys are the last ones.",
    ),
    Mistake(
        partial(_built, behind=-1),
        "a window that counts the query's own position among its keys.",
    ),
    Mistake(
        partial(_built, behind=1),
        "a window that reaches one key too far back.",
    ),
    Mistake(
        partial(_built, ahead=-1),
        "queries that do not see their own position.",
    ),
    Mistake(
        partial(_built, ahead=1),
        "queries that see the position after their own.",
    ),
    Mistake(
        _any_of,
        "masks combined by or: a key must be allowed by all of them.",
    ),
    Mistake(
        partial(_built, surplus=1),
        "a mask that leaves one key of the filler visible.",
    ),
    Mistake(
        partial(_built, surplus=-1),
        "a mask that hides the first real key as well.",
    ),
    Mistake(_no_window, "a mask without the window."),
    Mistake(_past_alone, "a mask that shows the future."),
    Mistake(_unpadded, "a mask that leaves the filler visible."),
]


@checker
def check_masks_decoding(answer: object) -> Verdict:
    """Check ``decoding_mask(lengths, L, S, window)``: booleans of shape (B, 1, L, S)."""

    def case(what: str, lengths: list[int], *sizes: int) -> Case:
        return Case(what, (np.array(lengths), *sizes))

    return check_function(
        "masks-decoding",
        answer,
        _built,
        [
            case("L = S = 5, no filler and a window of 2", [5], 5, 5, 2),
            case("L = 3, S = 7, no filler and a window of 2", [7], 3, 7, 2),
            case(
                "lengths (7, 4), L = 3, S = 7 and a window of 9",
                [7, 4],
                3,
                7,
                9,
            ),
            case(
                "lengths (6, 3, 1, 0), L = 5, S = 6 and a window of 2",
                [6, 3, 1, 0],
                5,
                6,
                2,
            ),
            case(
                "lengths (8, 5), L = 1, S = 8 and a window of 3",
                [8, 5],
                1,
                8,
                3,
            ),
            case(
                "lengths (4, 4), L = 4, S = 6 and a window of 0",
                [4, 4],
                4,
                6,
                0,
            ),
        ],
        DECODING_MISTAKES,
    )


# ------------------------------------------------------------------------- what dropout asks for
def _loss(
    weights: Array,
    value: Array,
    target: Array,
    dropout_p: float,
    *,
    factor: Callable[[float], float] = lambda p: p / (1 - p),
    spread: Callable[[Array, Array], Any] = lambda p, v: (p**2 @ v**2).sum(),
) -> Array:
    """Return the loss without dropout plus `factor` times `spread`, by default as they are."""
    plain = ((weights @ value - target) ** 2).sum()
    return np.asarray(plain + factor(dropout_p) * spread(weights, value))


PENALTY_MISTAKES = [
    Mistake(
        partial(_loss, spread=lambda p, v: 0.0),
        "the loss without dropout: the outputs keep their mean, but not their"
        " squares.",
    ),
    Mistake(
        partial(_loss, factor=lambda p: p),
        "a factor's variance without its 1 - p in the denominator.",
    ),
    Mistake(
        partial(_loss, factor=lambda p: p * (1 - p)),
        "the variance of a factor 0 or 1: what is kept is divided by 1 - p.",
    ),
    Mistake(
        partial(_loss, factor=lambda p: 1 / (1 - p)),
        "the mean square of a factor in the place of its variance.",
    ),
    Mistake(
        partial(_loss, factor=lambda p: p / (1 - p) ** 2),
        "p(1 - p) divided by (1 - p) to a power too high.",
    ),
    Mistake(
        partial(_loss, factor=lambda p: (1 - p) / p if p else 0.0),
        "the probabilities of dropping and of keeping exchanged.",
    ),
    Mistake(
        partial(_loss, spread=lambda p, v: (p @ v**2).sum()),
        "variances that add with the weights: a constant factor comes out of"
        " a variance squared.",
    ),
    Mistake(
        partial(_loss, spread=lambda p, v: ((p @ v) ** 2).sum()),
        "the square of a sum where a sum of squares belongs: the factors of"
        " two keys are independent.",
    ),
    Mistake(
        partial(_loss, spread=lambda p, v: (p**2).sum()),
        "the variance of the rows' sums: the values are missing.",
    ),
    Mistake(
        lambda p, v, t, rate: _loss(p, v, t, rate) / t.size,
        "the mean over the entries, and not their sum.",
    ),
    Mistake(
        partial(_loss, factor=lambda p: -p / (1 - p)),
        "a penalty with the wrong sign.",
    ),
]


@checker
def check_masks_penalty(answer: object) -> Verdict:
    """Check ``expected_loss(weights, value, target, dropout_p)``: one number."""
    rng = np.random.default_rng(6)
    weights = softmax(rng.normal(size=(5, 7)))
    value, target = rng.normal(size=(7, 6)), rng.normal(size=(5, 6))
    masked = softmax(
        np.where(np.tri(5, 7, dtype=bool), rng.normal(size=(5, 7)), -np.inf)
    )
    masked[2] = 0.0
    given = weights, value, target
    cases = [
        Case(
            "one query, two keys, values of width 1 and p_drop = 0.25",
            (
                np.array([[0.25, 0.75]]),
                np.array([[2.0], [-1.0]]),
                np.array([[0.5]]),
                0.25,
            ),
        ),
        Case("L = 5, S = 7, d_v = 6 and p_drop = 0.1", (*given, 0.1)),
        Case("p_drop = 0", (*given, 0.0)),
        Case(
            "causal weights, and a row of zeros",
            (masked, value, target, 0.2),
        ),
        Case(
            "float32 inputs",
            (*(x.astype(np.float32) for x in given), 0.25),
        ),
    ]
    return check_function(
        "masks-penalty", answer, _loss, cases, PENALTY_MISTAKES
    )
