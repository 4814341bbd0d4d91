"""Checkers of the exercises on *Softmax, safely*."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from attention.exercises._checking import (
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
from attention.reference import log_sum_exp, softmax

Array = np.ndarray[Any, Any]


def _scores(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    return scale * np.random.default_rng(seed).normal(size=shape)


@checker
def check_softmax_by_hand(answer: object) -> Verdict:
    """Check the softmax of the scores (0, ln 3, ln 4): three numbers."""
    scores = np.log([1.0, 3.0, 4.0])
    return check_numbers(
        "softmax-by-hand",
        answer,
        [1 / 8, 3 / 8, 1 / 2],
        {
            "the exponentials: they have yet to be divided by their sum.": [
                1,
                3,
                4,
            ],
            "the scores divided by their sum: take the exponentials first.": (
                scores / scores.sum()
            ),
            "right but for the order: the largest score gets the largest"
            " weight.": [1 / 2, 3 / 8, 1 / 8],
            "what comes of taking the exponential of 0 for 0: it is 1.": [
                0,
                3 / 7,
                4 / 7,
            ],
            "the exponentials divided by the largest: their sum is not 1.": [
                1 / 4,
                3 / 4,
                1,
            ],
            "the logarithms of the weights.": scores - np.log(8),
            "the same weight for all, as if the scores were equal.": [
                1 / 3,
                1 / 3,
                1 / 3,
            ],
        },
    )


def _exponentials(scores: Array, axis: int, maximum: Any) -> Array:
    with np.errstate(all="ignore"):
        powers = np.exp(scores - maximum)
        return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


ROWS_APART = np.array([[0.0, 1.0, 2.0], [-2000.0, -2001.0, -2002.0]])

ROWS_MISTAKES = [
    Mistake(
        lambda scores, axis: _exponentials(scores, axis, scores.max()),
        "one maximum for the whole array: a row far below it becomes 0/0. Each"
        " slice along the axis needs its own.",
    ),
    Mistake(
        lambda scores, axis: _exponentials(scores, axis, 0.0),
        "exponentials of the scores themselves: near 710 they overflow in"
        " float64, near 89 in float32.",
    ),
    Mistake(
        lambda scores, axis: softmax(scores, axis=-1),
        "a softmax over the last axis, whatever axis is asked for.",
    ),
    Mistake(
        lambda scores, axis: softmax(scores, axis=0),
        "a softmax over the first axis, whatever axis is asked for.",
    ),
    Mistake(
        lambda scores, axis: np.exp(scores - log_sum_exp(scores.ravel())),
        "a softmax over the whole array: each slice along the axis is to sum"
        " to 1.",
    ),
    Mistake(
        lambda scores, axis: np.exp(
            scores - scores.max(axis=axis, keepdims=True)
        ),
        "exponentials that have not been divided by their sum.",
    ),
    Mistake(
        lambda scores, axis: np.log(softmax(scores, axis=axis)),
        "the logarithm of the softmax.",
    ),
    Mistake(
        lambda scores, axis: _exponentials(
            scores, axis, scores.min(axis=axis, keepdims=True)
        ),
        "exponentials of the scores less their minimum or their mean: those"
        " far above it overflow, and from -inf nothing can be subtracted. What"
        " is to be subtracted leaves none above 0.",
    ),
    Mistake(
        lambda scores, axis: softmax(np.clip(scores, -100, 100), axis=axis),
        "scores that were clipped: those beyond the bound become equal, and"
        " their weights too. What is subtracted from all of a row leaves their"
        " differences alone.",
    ),
]


@checker
def check_softmax_rows(answer: object) -> Verdict:
    """Check a function ``softmax(scores, axis)``."""
    masked = _scores(3, 4, seed=5)
    masked[0, 1:] = masked[1, 0] = -np.inf
    cases = [
        Case("three scores and axis -1", (np.array([0.3, -1.1, 0.8]), -1)),
        Case("scores of shape (2, 5) and axis -1", (_scores(2, 5), -1)),
        Case("scores of shape (2, 5) and axis 0", (_scores(2, 5), 0)),
        *(
            Case(
                f"scores of shape (2, 3, 4) and axis {axis}",
                (_scores(2, 3, 4), axis),
            )
            for axis in (1, 0, -2)
        ),
        Case(
            "scores of shape (3, 4) near 1000 and axis -1",
            (1000 + _scores(3, 4), -1),
        ),
        Case(
            "scores of shape (3, 4) near -1000 and axis -1",
            (-1000 + _scores(3, 4), -1),
        ),
        Case(
            "two rows of three scores, one 2000 below the other, and axis -1",
            (ROWS_APART, -1),
        ),
        Case(
            "float32 scores of shape (3, 4) near 100 and axis -1",
            ((100 + _scores(3, 4)).astype(np.float32), -1),
        ),
        Case(
            "scores of shape (3, 4), some of them -inf, and axis -1",
            (masked, -1),
        ),
    ]
    return check_function(
        "softmax-rows",
        answer,
        lambda scores, axis: softmax(scores, axis=axis),
        cases,
        ROWS_MISTAKES,
    )


@checker
def check_softmax_log(answer: object) -> Verdict:
    """Check a function ``log_softmax(scores)`` over the last axis."""

    def naive(scores: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(softmax(scores))

    def without_maximum(scores: Array) -> Array:
        total = np.exp(scores).sum(axis=-1, keepdims=True)
        return np.asarray(scores - np.log(total))

    def guarded(number: float, scores: Array) -> Array:
        return np.asarray(np.log(softmax(scores) + number))

    def expected(scores: Array) -> Array:
        return np.asarray(scores - log_sum_exp(scores)[..., None])

    cases = [
        Case("three scores", (np.array([0.3, -1.1, 0.8]),)),
        Case("scores of shape (2, 5)", (_scores(2, 5),)),
        Case("scores of shape (2, 3, 4)", (_scores(2, 3, 4),)),
        Case("scores of shape (3, 4) near 1000", (1000 + _scores(3, 4),)),
        Case("the scores 0 and -1000", (np.array([0.0, -1000.0]),)),
        Case("the scores 0, 0 and -1000", (np.array([0.0, 0.0, -1000.0]),)),
        Case("two rows, one 2000 below the other", (ROWS_APART,)),
        Case("the scores 10 000 and -10 000", (np.array([1e4, -1e4]),)),
        Case(
            "float32 scores of shape (3, 4) between -200 and 200",
            (_scores(3, 4, scale=100.0).astype(np.float32),),
        ),
    ]
    return check_function(
        "softmax-log",
        answer,
        expected,
        cases,
        [
            Mistake(
                naive,
                "the logarithm of a softmax: a weight that is too small for a"
                " float becomes 0 first, and its logarithm -inf. Simplify the"
                " formula before you compute.",
            ),
            Mistake(softmax, "the softmax itself, without the logarithm."),
            Mistake(
                lambda scores: scores - scores.max(axis=-1, keepdims=True),
                "the scores less their maximum: the logarithm of the sum is"
                " missing.",
            ),
            Mistake(
                lambda scores: scores - log_sum_exp(scores.ravel()),
                "one log-sum-exp for the whole array: each row needs its own.",
            ),
            Mistake(
                lambda scores: log_sum_exp(scores)[..., None] - scores,
                "the right numbers with the wrong sign.",
            ),
            Mistake(
                lambda scores: without_maximum(scores - scores.max()),
                "one maximum for the whole array: in a row far below it every"
                " exponential becomes 0. Each row needs its own.",
            ),
            Mistake(
                without_maximum,
                "a log-sum-exp of the scores as they are: the exponentials"
                " overflow, or all of them are too small. Subtract something"
                " first.",
            ),
            Mistake(
                lambda scores: (
                    log_sum_exp(scores)[..., None] * -1
                    + scores
                    + scores.max(axis=-1, keepdims=True)
                ),
                "scores less the logarithm of a sum of shifted exponentials:"
                " what was subtracted in the sum has to be subtracted outside"
                " of it too.",
            ),
            *(
                Mistake(
                    partial(guarded, number),
                    f"the logarithm of the softmax plus {number:g}: that is"
                    " finite, and wrong where a weight is smaller.",
                )
                for number in (1e-12, 1e-10, 1e-9, 1e-8, 1e-6, 1e-15, 1e-20)
            ),
        ],
    )


@checker
def check_softmax_temperature(answer: object) -> Verdict:
    """Check ``temperature_gradient(scores, temperature)``: d softmax(x/τ) / dτ, last axis."""

    def gradient(scores: Array, temperature: float) -> Array:
        weights = softmax(scores / temperature)
        mean = (weights * scores).sum(axis=-1, keepdims=True)
        return np.asarray(weights * (mean - scores) / temperature**2)

    def diagonal(scores: Array, temperature: float) -> Array:
        weights = softmax(scores / temperature)
        return np.asarray(-weights * (1 - weights) * scores / temperature**2)

    def held(scores: Array, temperature: float) -> Array:
        weights = softmax(scores / temperature)
        return np.asarray(-weights * scores / temperature**2)

    def plain_mean(scores: Array, temperature: float) -> Array:
        weights = softmax(scores / temperature)
        mean = scores.mean(axis=-1, keepdims=True)
        return np.asarray(weights * (mean - scores) / temperature**2)

    def one_mean(scores: Array, temperature: float) -> Array:
        weights = softmax(scores / temperature)
        mean = (weights * scores).sum()
        return np.asarray(weights * (mean - scores) / temperature**2)

    def untempered(scores: Array, temperature: float) -> Array:
        return gradient(scores, 1.0) / temperature**2

    cases = [
        Case("two scores at temperature 1", (np.array([0.3, -1.1]), 1.0)),
        Case(
            "scores of shape (2, 5) at temperature 1", (_scores(2, 5), 1.0)
        ),
        Case(
            "scores of shape (2, 5) at temperature 2", (_scores(2, 5), 2.0)
        ),
        Case(
            "scores of shape (2, 3, 4) at temperature 0.3",
            (_scores(2, 3, 4), 0.3),
        ),
        Case(
            "scores of shape (3, 4) near 1000 at temperature 0.5",
            (1000 + _scores(3, 4), 0.5),
        ),
        Case(
            "float32 scores of shape (3, 4) at temperature 1.5",
            (_scores(3, 4).astype(np.float32), 1.5),
        ),
    ]
    return check_function(
        "softmax-temperature",
        answer,
        gradient,
        cases,
        [
            Mistake(
                lambda z, t: -gradient(z, t),
                "the right numbers with the wrong sign: a higher temperature"
                " makes the largest weight smaller.",
            ),
            Mistake(
                lambda z, t: gradient(z, t) * t**2,
                "a derivative without the inner one: x/τ has the derivative"
                " -x/τ².",
            ),
            Mistake(
                lambda z, t: gradient(z, t) * t,
                "an inner derivative of -x/τ, where x/τ has -x/τ².",
            ),
            Mistake(
                diagonal,
                "the diagonal of the Jacobian alone: every score moves every"
                " weight.",
            ),
            Mistake(
                held,
                "the derivative of the numerator alone: the sum of the"
                " exponentials depends on τ too.",
            ),
            Mistake(
                plain_mean,
                "scores less their plain mean: the mean that arises is"
                " weighted by the weights.",
            ),
            Mistake(
                one_mean,
                "scores less one mean for the whole array: each row has its"
                " own.",
            ),
            Mistake(
                untempered,
                "the weights at temperature 1: those of the scores divided by"
                " τ belong here.",
            ),
            Mistake(
                lambda z, t: softmax(z / t),
                "the weights themselves, and not their derivative.",
            ),
        ],
    )


def one_maximum(scores: Array) -> Array:
    """Return a softmax over the last axis that breaks; the exercise is to find where."""
    return _exponentials(scores, -1, scores.max())


@checker
def check_softmax_break(answer: object) -> Verdict:
    """Check an input: finite scores of shape (2, 3) that make :func:`one_maximum` return NaN."""
    name, what = "softmax-break", "the answer"
    if unanswered(answer):
        return blank(name)
    try:
        scores = as_array(answer)
    except AnswerError:
        return wrong(
            name,
            f"This is {described(answer)}, and an array of scores is wanted.",
            what,
        )
    if scores.shape != (2, 3):
        return wrong(name, f"Its shape is {scores.shape}, not (2, 3).", what)
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
    if np.isnan(one_maximum(scores.astype(np.float64))).any():
        return right(name)
    apart = float(np.ptp(scores.astype(float).max(axis=-1)))
    hint = (
        "Its rows have the same maximum, so that one for all is right."
        if apart == 0
        else f"Its rows' maxima are {apart:.6g} apart, and float64 still"
        f" tells exp(-{apart:.6g}) from 0."
    )
    return wrong(name, f"The function gets every row right. {hint}", what)


@checker
def check_softmax_figure(answer: object) -> Verdict:
    """Check the panel, A to D, that was drawn at the temperature 1/2."""
    return check_choice(
        "softmax-figure",
        answer,
        "C",
        {
            "A": "its weights are nearly equal: that is what a high"
            " temperature does.",
            "B": "its weights are those of the scores as they are.",
            "D": "one key takes nearly all: that needs a lower temperature"
            " still.",
        },
    )
