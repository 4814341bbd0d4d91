"""Checkers of the exercises on *Why divide by √dₖ*."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from attention.reference import softmax, split_heads

Array = np.ndarray[Any, Any]


@checker
def check_scale_by_hand(answer: object) -> Verdict:
    """Check two standard deviations, for a model of width 144 with 9 heads."""
    return check_numbers(
        "scale-by-hand",
        answer,
        [4, 1 / 3],
        {
            "the variance, and what is left of it: the standard deviation is"
            " its root.": [16, 1 / 9],
            "what a single head of the model's whole width would give: here"
            " the width is shared among 9 heads.": [12, 1],
            "right for the raw score. The second is what dividing by the root"
            " of a key's width would give.": [4, 1],
            "right for the raw score. The second is that of the variance.": [
                4,
                1 / 9,
            ],
            "right for the raw score. The second is upside down.": [4, 3],
            "the root of the number of heads: it is the terms of one dot"
            " product that count.": [3, 1 / 4],
            "the variance of the raw score, where the standard deviation is"
            " asked for.": [16, 1 / 3],
            "right for the raw score. The second was divided by the width of"
            " the model, and not by its root.": [4, 1 / 36],
            "right for the raw score. The second is its variance divided by"
            " √d_model: a division acts on the standard deviation.": [
                4,
                16 / 12,
            ],
            "the variance of the raw score, and that divided by √d_model: the"
            " standard deviation is the root of a variance.": [16, 16 / 12],
            "right for the score that was divided. The first is what a single"
            " head of the model's whole width would give.": [12, 1 / 3],
            "right but for the order: the raw score first.": [1 / 3, 4],
        },
        tolerance=(1e-4, 1.6e-3),  # three decimals
    )


@checker
def check_scale_bug(answer: object) -> Verdict:
    """Check a standard deviation and the value of ``scale`` that mends the function."""
    name = "scale-bug"
    if isinstance(answer, list | tuple) and any(
        isinstance(part, bool) for part in answer
    ):
        return wrong(
            name,
            "There is a boolean in it, where a number is expected.",
            "the answer",
        )
    return check_numbers(
        name,
        answer,
        [1 / 8, 1],
        {
            "what holds if the scores are scaled once: count who divides. (Or"
            " the order is wrong: the standard deviation first.)": [
                1,
                1 / 8,
            ],
            "right for the standard deviation. With this scale PyTorch's"
            " function does what it does by default, and the scores are still"
            " divided twice.": [1 / 8, 1 / 8],
            "right for the standard deviation. With this scale nothing is left"
            " of the first division: the scores would be raw.": [1 / 8, 8],
            "right for the scale. 1/64 is the variance; the standard"
            " deviation is its root.": [1 / 64, 1],
            "right for the scale. The standard deviation is what the mended"
            " function has.": [1, 1],
            "right for the scale. The standard deviation is that of raw"
            " scores.": [8, 1],
            "right for the standard deviation. With the scale 0 all scores"
            " are equal.": [1 / 8, 0],
            "what holds if nobody has divided yet: the function does, and"
            " PyTorch's function as well.": [8, 1 / 8],
            "what holds if the scores are scaled once, and a scale that undoes"
            " it: count who divides.": [1, 8],
        },
        tolerance=1e-6,
    )


@checker
def check_scale_figure(answer: object) -> Verdict:
    """Check the panel, A to E, whose scores were divided by the root of the model's width."""
    return check_choice(
        "scale-figure",
        answer,
        "D",
        {
            "A": "its largest weight is e⁴ times its smallest: which divisor"
            " makes 4 of the raw scores' largest difference, 12?",
            "B": "its largest weight is about 2.1 times its smallest, which is"
            " e to the power of 3/4.",
            "C": "one key has nearly all the weight: these scores are large.",
            "E": "its largest weight is e³ times its smallest: which divisor"
            " makes 3 of the raw scores' largest difference, 12?",
        },
    )


# ------------------------------------------------------------------------------- weights of heads
def _weights(
    x_query: Array,
    x_key: Array,
    W_Q: Array,
    W_K: Array,
    num_heads: int,
    c: float | None = None,
) -> Array:
    """Return the weights of each head with scale c, by default the right one."""
    query = split_heads(x_query @ W_Q, num_heads)  # (B, H, L, E)
    key = split_heads(x_key @ W_K, num_heads)  # (B, H, S, E)
    c = query.shape[-1] ** -0.5 if c is None else c
    return np.asarray(softmax(c * query @ key.swapaxes(-1, -2)))


def _scaled_by(
    c: Callable[[Array, Array, int, int], float],
) -> Callable[..., Array]:
    """Return a wrong answer whose scale depends on the inputs, d_k and the number of heads."""

    def answer(
        x_query: Array,
        x_key: Array,
        W_Q: Array,
        W_K: Array,
        num_heads: int,
    ) -> Array:
        d_k = W_Q.shape[1] // num_heads
        scale = c(x_query, x_key, d_k, num_heads)
        return _weights(x_query, x_key, W_Q, W_K, num_heads, scale)

    return answer


def _scores(
    x_query: Array, x_key: Array, W_Q: Array, W_K: Array, num_heads: int
) -> Array:
    query = split_heads(x_query @ W_Q, num_heads)
    key = split_heads(x_key @ W_K, num_heads)
    d_k = query.shape[-1]
    return np.asarray(query @ key.swapaxes(-1, -2) / np.sqrt(d_k))


def _cut_by(cut: Callable[[Array, int], Array]) -> Callable[..., Array]:
    """Return a wrong answer that cuts (B, L, H d_k) into heads in a way of its own."""

    def answer(
        x_query: Array,
        x_key: Array,
        W_Q: Array,
        W_K: Array,
        num_heads: int,
    ) -> Array:
        query, key = (
            cut(x_query @ W_Q, num_heads),
            cut(x_key @ W_K, num_heads),
        )
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        return np.asarray(softmax(scores))

    return answer


def _scrambled(x: Array, num_heads: int) -> Array:
    return x.reshape(len(x), num_heads, x.shape[1], -1)


def _interleaved(x: Array, num_heads: int) -> Array:
    return x.reshape(*x.shape[:2], -1, num_heads).transpose(0, 3, 1, 2)


def _unsafe(*arguments: Any) -> Array:
    with np.errstate(all="ignore"):
        powers = np.exp(_scores(*arguments))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _one_maximum(*arguments: Any) -> Array:
    scores = _scores(*arguments)
    with np.errstate(all="ignore"):
        powers = np.exp(scores - scores.max())
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


HEADS_MISTAKES = [
    Mistake(
        _scaled_by(lambda x, y, d_k, h: 1.0),
        "scores that were not scaled at all.",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: x.shape[-1] ** -0.5),
        "scores divided by √d_model, the root of the width of the inputs: how"
        " many terms has the dot product inside one head?",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: h**-0.5),
        "scores divided by √H, the root of the number of heads: it is not the"
        " heads that a dot product adds up.",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: 1 / d_k),
        "scores divided by d_k, which is √d_k twice: either the root is"
        " missing, or it was divided by in two places. Their standard"
        " deviation shrinks as the width grows.",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: (h * d_k) ** -0.5),
        "scores divided by the root of the width of all heads together: take"
        " that of one.",
    ),
    *(
        Mistake(
            _scaled_by(c),
            "scores divided by √(d_model/H): a head is that wide only where"
            " all heads together are as wide as the inputs.",
        )
        for c in (
            lambda x, y, d_k, h: (x.shape[-1] // h) ** -0.5,
            lambda x, y, d_k, h: (x.shape[-1] / h) ** -0.5,
        )
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: d_k**-0.25),
        "scores divided by the fourth root of d_k: if query and key share the"
        " divisor, each needs its part.",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: d_k**0.5),
        "scores multiplied where they are to be divided.",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: x.shape[-2] ** -0.5),
        "scores divided by √L, the root of the number of queries: the axis"
        " that the dot product sums over is another.",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: y.shape[-2] ** -0.5),
        "scores divided by √S, the root of the number of keys: the axis that"
        " the dot product sums over is another.",
    ),
    Mistake(
        _scaled_by(lambda x, y, d_k, h: 1 / x.shape[-1]),
        "scores divided by d_model, the width of the inputs.",
    ),
    Mistake(
        lambda *a: (
            _scaled_by(lambda x, y, d_k, h: 1.0)(*a)
            / math.sqrt(a[2].shape[1] // a[4])
        ),
        "weights divided after the softmax: its rows no longer sum to 1. The"
        " scale belongs to the scores.",
    ),
    Mistake(_scores, "scores: the softmax is missing."),
    Mistake(
        lambda *a: softmax(_scores(*a), axis=-2),
        "a softmax over the queries: each query's weights sum to 1 over the"
        " keys.",
    ),
    Mistake(
        lambda *a: softmax(_scores(*a), axis=1),
        "a softmax over the heads: each query's weights sum to 1 over the"
        " keys.",
    ),
    Mistake(
        _cut_by(_scrambled),
        "heads cut by a reshape alone: it mixes positions with components."
        " Split the last axis, then move the heads forward.",
    ),
    Mistake(
        _cut_by(_interleaved),
        "heads whose columns take turns, 0, H, 2H and so on: the columns of a"
        " head lie side by side.",
    ),
    Mistake(
        lambda x, y, W_Q, W_K, h: _weights(x, y, W_K, W_Q, h),
        "the two matrices exchanged.",
    ),
    Mistake(
        lambda x, y, W_Q, W_K, h: _weights(y, x, W_Q, W_K, h),
        "queries made from the keys' input, and keys from the queries'.",
    ),
    Mistake(
        _unsafe,
        "exponentials of the scores as they are: large ones overflow.",
    ),
    Mistake(
        _one_maximum,
        "one maximum for the whole array: a row far below it becomes 0/0.",
    ),
]


def _layer(
    sizes: tuple[int, int, int, int, int, int],
    *,
    dtype: type = np.float64,
    seed: int = 0,
) -> tuple[Any, ...]:
    """Return inputs and matrices whose queries and keys have components of variance about 1."""
    B, L, S, d_model, H, d_k = sizes
    rng = np.random.default_rng(seed)
    shapes = ((B, L, d_model), (B, S, d_model))
    x_query, x_key = (rng.normal(size=shape) for shape in shapes)
    matrices = rng.normal(size=(2, d_model, H * d_k)) / np.sqrt(d_model)
    arrays = (x_query, x_key, *matrices)
    return (*(array.astype(dtype) for array in arrays), H)


@checker
def check_scale_heads(answer: object) -> Verdict:
    """Check ``head_weights(x_query, x_key, W_Q, W_K, num_heads)``: (B, H, L, S).

    In the first case every size is another, and so is every scale that people take: none of the
    wrong ones can pass for the right one, or for another wrong one.
    """
    apart = list(_layer((2, 3, 4, 6, 2, 5), seed=3))
    apart[0][:, 0] *= 1000.0
    cases = [
        Case(
            "B = 2, L = 5, S = 7, d_model = 13, and 3 heads of width 6",
            _layer((2, 5, 7, 13, 3, 6)),
        ),
        Case(
            "B = 1, L = 4, S = 3, d_model = 7, and 1 head of width 5",
            _layer((1, 4, 3, 7, 1, 5), seed=1),
        ),
        Case(
            "B = 3, L = 2, S = 5, d_model = 6, and 4 heads of width 9",
            _layer((3, 2, 5, 6, 4, 9), seed=2),
        ),
        Case(
            "one of 3 queries 1000 times as long, B = 2, S = 4, d_model = 6,"
            " and 2 heads of width 5",
            tuple(apart),
        ),
        Case(
            "float32, B = 2, L = 4, S = 5, d_model = 9, and 3 heads of width 7",
            _layer((2, 4, 5, 9, 3, 7), dtype=np.float32, seed=4),
        ),
    ]
    return check_function(
        "scale-heads", answer, _weights, cases, HEADS_MISTAKES
    )


# ---------------------------------------------------------------------- data that sees no scale
WRONG_SCALES = {
    "1, that is, without a scale": 1.0,
    "1/√H, for 3 heads": 3**-0.5,
    "1/√d_model, for d_model = 12": 12**-0.5,
    "1/d_k, which is 1/√d_k twice": 1 / 4,
}
ROUNDING = 1e-6  # 0.9 - 0.8 is less than 0.1, the more so in float32


@checker
def check_scale_blind(answer: object) -> Verdict:
    """Check data, queries (3, 4) and keys (5, 4), on which no wrong scale is noticed."""
    name, what = "scale-blind", "the answer"
    if unanswered(answer):
        return blank(name)
    pair: list[Array] = []
    if isinstance(answer, tuple | list) and len(answer) == 2:
        try:
            pair = [as_array(part).astype(float) for part in answer]
        except AnswerError:
            pair = []
    if not pair:
        return wrong(
            name,
            f"This is {described(answer)}, and a pair (query, key) of arrays"
            " is wanted.",
            what,
        )
    says = _unfit(*pair) or _noticed(*pair)
    return wrong(name, says, what) if says else right(name)


def _unfit(query: Array, key: Array) -> str:
    """Say which condition on the data does not hold."""
    for title, array, shape in (
        ("query", query, (3, 4)),
        ("key", key, (5, 4)),
    ):
        if array.shape != shape:
            return f"The shape of {title} is {array.shape}, not {shape}."
        if (
            not np.isfinite(array).all()
            or np.abs(array).max() > 1 + ROUNDING
        ):
            return f"Every entry of {title} is to lie between -1 and 1."
        distances = np.linalg.norm(array[:, None] - array[None], axis=-1)
        np.fill_diagonal(distances, np.inf)
        alike = distances < 0.1 - ROUNDING
        if alike.any():
            i, j = sorted(np.argwhere(alike)[0].tolist())
            return (
                f"Rows {i} and {j} of {title} are less than 0.1 apart: data in"
                " which vectors are alike is the chapter's blind spot; find"
                " another."
            )
    lengths = np.linalg.norm(query, axis=1)
    short = np.flatnonzero(lengths < 0.5 - ROUNDING)
    if short.size:
        return f"Query {short[0]} is shorter than 0.5."
    return ""


def _noticed(query: Array, key: Array) -> str:
    """Say which wrong scale a comparison on the data would notice."""
    scores = query @ key.T
    expected = softmax(scores / 2)
    for scale, c in WRONG_SCALES.items():
        off = np.abs(softmax(c * scores) - expected)
        if off.max() > 1e-6:
            i = int(off.max(axis=1).argmax())
            return (
                f"With the factor {scale}, a weight of query {i} changes by"
                f" {off.max():.2g}: this data still shows the wrong scale."
            )
    return ""


# -------------------------------------------------------------------- between the two divisors
def _mean_square(d_k: int, rho: float) -> float:
    return d_k * (1 + rho**2) + (rho * d_k) ** 2


@checker
def check_scale_between(answer: object) -> Verdict:
    """Check ``unit_scale(d_k, rho)``: the scale that brings E[z²] to 1."""
    cases = [
        Case(f"d_k = {d_k} and ϱ = {rho}", (d_k, float(rho)))
        for d_k, rho in (
            (16, 0.5),
            (64, 0.1),
            (64, 0),
            (9, -0.3),
            (256, 1),
            (1, -1),
            (1024, 0.03),
        )
    ]
    return check_function(
        "scale-between",
        answer,
        lambda d_k, rho: _mean_square(d_k, rho) ** -0.5,
        cases,
        [
            Mistake(
                lambda d_k, rho: d_k**-0.5,
                "the scale for independent queries and keys: ϱ is to enter.",
            ),
            Mistake(
                lambda d_k, rho: 1 / d_k,
                "the scale 1/d_k: that is what remains for ϱ near 1 and large"
                " d_k.",
            ),
            Mistake(
                lambda d_k, rho: (d_k * (1 + rho**2)) ** -0.5,
                "the scale that brings the variance to 1: the mean is not 0,"
                " and its square counts here.",
            ),
            Mistake(
                lambda d_k, rho: 1 / (rho * d_k) if rho else float("inf"),
                "the scale that brings the mean to 1: the variance counts,"
                " too.",
            ),
            Mistake(
                lambda d_k, rho: (d_k + (rho * d_k) ** 2) ** -0.5,
                "a variance of 1 for each product q_r k_r: their correlation"
                " makes it larger.",
            ),
            Mistake(
                lambda d_k, rho: (
                    (d_k * (1 - rho**2) + (rho * d_k) ** 2) ** -0.5
                    if d_k > 1 or abs(rho) < 1
                    else 1.0
                ),
                "E[q_r² k_r²] taken to be 1, as for independent components.",
            ),
            Mistake(
                lambda d_k, rho: (
                    (d_k * (1 + 2 * rho**2) + (rho * d_k) ** 2) ** -0.5
                ),
                "E[q_r² k_r²] taken for a variance: a variance is that less"
                " the squared mean.",
            ),
            Mistake(
                lambda d_k, rho: (d_k * (1 + 2 * rho**2)) ** -0.5,
                "the squares alone: the products of different components have"
                " an expectation, too.",
            ),
            *(
                Mistake(
                    function,
                    "a mean that was not squared, or not the whole of it: it"
                    " has two factors.",
                )
                for function in (
                    lambda d_k, rho: (
                        (d_k * (1 + rho**2) + rho * d_k) ** -0.5
                    ),
                    lambda d_k, rho: (
                        (d_k * (1 + rho**2) + rho * d_k**2) ** -0.5
                    ),
                )
            ),
            Mistake(
                lambda d_k, rho: (
                    1 / (math.sqrt(d_k * (1 + rho**2)) + rho * d_k)
                ),
                "the standard deviation and the mean added: it is their"
                " squares that add up.",
            ),
            *(
                Mistake(
                    function,
                    "standard deviations of the products added: it is their"
                    " variances that add up.",
                )
                for function in (
                    lambda d_k, rho: 1 / (d_k * math.sqrt(1 + rho**2)),
                    lambda d_k, rho: 1 / (d_k * math.sqrt(1 + 2 * rho**2)),
                )
            ),
            Mistake(
                lambda d_k, rho: 1 / _mean_square(d_k, rho),
                "one over the mean square: a scale multiplies the score, and"
                " its square the mean square.",
            ),
            Mistake(
                lambda d_k, rho: _mean_square(d_k, rho) ** 0.5,
                "the divisor: the scale is one over it.",
            ),
            Mistake(
                lambda d_k, rho: (1 + rho**2 + d_k * rho**2) ** -0.5,
                "a further factor for scores that have been divided by √d_k"
                " already.",
            ),
        ],
    )
