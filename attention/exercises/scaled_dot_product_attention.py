"""Checkers of the exercises on *Scaled dot-product attention*."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from attention.exercises._checking import (
    EXACT,
    AnswerError,
    Case,
    Mistake,
    Verdict,
    as_array,
    check_choice,
    check_function,
    check_numbers,
    checker,
    wrong,
)
from attention.reference import (
    log_sum_exp,
    scaled_dot_product_attention,
    softmax,
)

Array = np.ndarray[Any, Any]
Pair = tuple[Array, Array]


@checker
def check_sdpa_shapes(answer: object) -> Verdict:
    """Check the shapes of weights and output: two times four numbers."""
    name, weights, output = "sdpa-shapes", (2, 3, 5, 7), (2, 3, 5, 6)
    lengths = _lengths(answer)
    if len(lengths) == 2 and 0 < min(lengths) < len(weights):
        which = "Each has" if lengths[0] == lengths[1] else "One of them has"
        return wrong(
            name,
            f"{which} {min(lengths)} axes here: which leading axes do the"
            " queries bring along?",
            "the answer",
        )
    return check_numbers(
        name,
        answer,
        [weights, output],
        {
            "right but for the order: the weights come first.": [
                output,
                weights,
            ],
            "a weight for each key and query: rows are queries.": [
                (2, 3, 7, 5),
                output,
            ],
            "an output as wide as a key: what is averaged are values.": [
                weights,
                (2, 3, 5, 4),
            ],
            "an output for each key: it is the queries that are answered.": [
                weights,
                (2, 3, 7, 6),
            ],
            "weights as wide as a key: a query has one for each key.": [
                (2, 3, 5, 4),
                output,
            ],
            "an output as wide as a row of weights: the keys are summed"
            " over.": [weights, weights],
            "the batch axis of the queries, taken for one of size 1.": [
                (1, *weights[1:]),
                (1, *output[1:]),
            ],
        },
        tolerance=EXACT,
    )


def _lengths(answer: object) -> list[int]:
    """Return the lengths of the sequences in a list; nothing if it holds anything else."""
    if not isinstance(answer, list | tuple):
        return []
    return [
        len(part) if isinstance(part, list | tuple) else 0 for part in answer
    ]


def _near(answer: object, numbers: Array) -> bool:
    """Whether an answer holds these numbers, in this shape."""
    try:
        got = as_array(answer)
    except AnswerError:
        return False
    return got.shape == numbers.shape and np.allclose(
        got, numbers, atol=1e-2
    )


@checker
def check_sdpa_average(answer: object) -> Verdict:
    """Check the output of one query over three keys: two numbers."""
    name, values = "sdpa-average", np.array([[8.0, 0], [0, 8], [8, 8]])
    products = 2 * np.log([1.0, 2.0, 5.0])

    def averaged(scores: Array) -> Array:
        return np.asarray(softmax(scores) @ values)

    scores = products / 2
    without_first = np.exp(scores) * [0, 1, 1] @ values
    if _near(answer, softmax(scores)):
        return wrong(
            name,
            "That looks like the weights; the output is their average of the"
            " values.",
            "the answer",
        )
    return check_numbers(
        name,
        answer,
        averaged(scores),
        {
            "the average without the scale: the products of query and key"
            " have yet to be divided.": averaged(products),
            "the average for products divided by d_k: that is not the"
            " scale.": averaged(products / 4),
            "the average for products divided by the root of d_v: whose"
            " width is in the products?": averaged(products / math.sqrt(2)),
            "the sum of the values times the exponentials: the shares have"
            " to sum to 1.": np.exp(scores) @ values,
            "the average with the scores themselves as shares: take the"
            " exponentials first.": scores / scores.sum() @ values,
            "an average from which the first key is missing: its score is 0,"
            " and the exponential of 0 is not.": without_first / 7,
            "an average to which the first value gives nothing: the score of"
            " its key is 0, and its weight is not.": without_first / 8,
            "the plain mean of the values.": values.mean(axis=0),
            "the value of the best key alone: the others have their shares"
            " too.": values[-1],
            "right but for the order of the components.": averaged(scores)[
                ::-1
            ],
        },
    )


def _normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def _products(query: Array, key: Array) -> Array:
    return np.asarray(query @ key.swapaxes(-2, -1))


def _scores(query: Array, key: Array) -> Array:
    return _products(query, key) / math.sqrt(key.shape[-1])


def _averaged(weights: Array, value: Array) -> Pair:
    return weights @ value, weights


def _masked(scores: Array, allowed: Array, fill: float = -np.inf) -> Array:
    return np.where(allowed, scores, fill)


def _quotient(powers: Array) -> Array:
    """Divide by the rows' sums, also where these are 0 or infinite."""
    with np.errstate(all="ignore"):
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _rescaled(factor: Any) -> Any:
    """Return attention with another scale: `factor` of query, key and value."""

    def attend(
        query: Array, key: Array, value: Array, allowed: Array
    ) -> Pair:
        scores = factor(query, key, value) * _products(query, key)
        return _averaged(softmax(_masked(scores, allowed)), value)

    return attend


def _reweighted(weights: Any) -> Any:
    """Return attention with another softmax: `weights` of scores and mask."""

    def attend(
        query: Array, key: Array, value: Array, allowed: Array
    ) -> Pair:
        with np.errstate(all="ignore"):
            found = weights(_scores(query, key), allowed)
            return _averaged(found, value)

    return attend


def _with_and_without_nan(weights: Any, says: str) -> list[Mistake]:
    """Return a mistake that ends in NaN, and the same with zeros put in its place."""
    return [
        Mistake(_reweighted(weights), says),
        Mistake(
            _reweighted(lambda z, a: np.nan_to_num(weights(z, a), nan=0.0)),
            says,
        ),
    ]


def _unshifted(scores: Array, allowed: Array, early: bool) -> Array:
    """Return exponentials of the scores themselves, forbidden before (`early`) or after."""
    if early:
        return np.exp(_masked(scores, allowed))
    return np.exp(scores) * allowed


def _guarded_quotient(powers: Array) -> Array:
    total = powers.sum(axis=-1, keepdims=True)
    return np.asarray(powers / np.where(total == 0, 1.0, total))


def _empty_weights(number: float) -> Any:
    """Return attention whose output is right, and which leaves a number in empty rows' weights."""

    def attend(
        query: Array, key: Array, value: Array, allowed: Array
    ) -> Pair:
        output, weights = scaled_dot_product_attention(
            query, key, value, allowed
        )
        some = allowed.any(axis=-1, keepdims=True)
        return output, np.where(some, weights, number)

    return attend


def _filled(fill: float) -> list[Mistake]:
    """Return the mistake of a number in place of -inf, with empty rows set to 0 and without."""
    return [
        Mistake(
            _reweighted(function),
            "a negative number in place of -inf: allowed scores may lie below"
            " it.",
        )
        for function in (
            lambda z, a: softmax(_masked(z, a, fill)),
            lambda z, a: (
                softmax(_masked(z, a, fill)) * a.any(axis=-1, keepdims=True)
            ),
            lambda z, a: softmax(_masked(z, a, fill)) * a,
        )
    ]


def _whole_transposed(
    query: Array, key: Array, value: Array, allowed: Array
) -> Pair:
    scores = query @ key.T / math.sqrt(key.shape[-1])
    return _averaged(softmax(_masked(scores, allowed)), value)


ATTEND_MISTAKES = [
    Mistake(
        _rescaled(lambda q, k, v: 1.0),
        "scores without the scale.",
    ),
    Mistake(
        _rescaled(lambda q, k, v: 1 / k.shape[-1]),
        "scores divided by the width of a key itself, or twice by its root.",
    ),
    Mistake(
        _rescaled(lambda q, k, v: v.shape[-1] ** -0.5),
        "the root of a value's width: values have no part in the scores.",
    ),
    Mistake(
        _rescaled(lambda q, k, v: k.shape[-2] ** -0.5),
        "the root of the number of keys: the spread of a score grows with"
        " the terms of one product, not with how many products there are.",
    ),
    Mistake(
        _rescaled(lambda q, k, v: q.shape[-2] ** -0.5),
        "the root of the number of queries: the spread of a score grows with"
        " the terms of one product, not with how many products there are.",
    ),
    Mistake(
        _reweighted(lambda z, a: softmax(_masked(z, a), axis=-2)),
        "a softmax over the queries: each query's weights are to sum to 1.",
    ),
    Mistake(
        _whole_transposed,
        "K.T: it reverses all the axes, and not the last two alone. Here the"
        " sizes agree, so that nothing complains.",
    ),
    Mistake(
        _reweighted(lambda z, a: softmax(_masked(z, ~a))),
        "the mask read the wrong way round: True means that a query may"
        " attend.",
    ),
    Mistake(
        _reweighted(lambda z, a: softmax(z)),
        "a mask that is not looked at.",
    ),
    Mistake(
        _reweighted(lambda z, a: softmax(z + a)),
        "ones and zeros added to the scores: that forbids nothing.",
    ),
    Mistake(
        _reweighted(lambda z, a: softmax(_masked(z, a, -1e9))),
        "equal numbers in the place of all scores of a row where nothing is"
        " allowed, 0 or a large negative one: its keys then share the weight"
        " evenly, and are to get none.",
    ),
    *_filled(-100.0),
    *_filled(-1000.0),
    Mistake(
        _reweighted(lambda z, a: softmax(z * a)),
        "forbidden scores set to 0: the exponential of 0 is 1, and the key"
        " keeps a share.",
    ),
    Mistake(
        _reweighted(
            lambda z, a: _quotient(
                np.exp(
                    _masked(z, a) - _masked(z, a).max(axis=-1, keepdims=True)
                )
            )
        ),
        "0/0, or -inf less -inf, in a row with nothing to attend to: such a"
        " query is to get zeros.",
    ),
    *_with_and_without_nan(
        lambda z, a: _quotient(softmax(z) * a),
        "forbidden keys that are taken out after the exponentials: one whose"
        " score is far above the others has left them nothing by then.",
    ),
    Mistake(
        _reweighted(lambda z, a: softmax(z) * a),
        "weights set to 0 after the softmax: what is left no longer sums to"
        " 1.",
    ),
    *(
        mistake
        for early in (True, False)
        for divided in (_quotient, _guarded_quotient)
        for mistake in _with_and_without_nan(
            lambda z, a, early=early, divided=divided: divided(
                _unshifted(z, a, early)
            ),
            "exponentials of the scores themselves: near 710 they overflow in"
            " float64, near 89 in float32.",
        )
    ),
    *_with_and_without_nan(
        lambda z, a: _quotient(np.exp(_masked(z, a) - _masked(z, a).max())),
        "one maximum for the whole array: a row far below it becomes 0/0.",
    ),
    *(
        Mistake(
            _empty_weights(number),
            "weights that are not 0 in a row with nothing to attend to,"
            " though the output is: both results are to be.",
        )
        for number in (np.nan, 1 / 7)
    ),
    Mistake(
        _reweighted(lambda z, a: softmax(z + np.where(a, 0.0, -1e9))),
        "a large negative number added to the scores: where nothing is"
        " allowed, it is added to all of them, and changes nothing.",
    ),
]


def _attend_cases() -> list[Case]:
    causal = np.tri(5, 7, dtype=bool)
    batch = _normal(2, 5, 4), _normal(2, 7, 4, seed=1), _normal(2, 7, 6)
    query, key, value = (x[0] for x in batch)
    heads = _normal(2, 3, 5, 4), _normal(3, 7, 4, seed=1), _normal(3, 7, 6)
    padding = (np.arange(7) < np.array([7, 4])[:, None])[:, None, None]
    empty = causal.copy()
    empty[2] = False
    # Each key has 1 in its first component: what is added to a query's first one, is added to
    # all its scores.
    level = key.copy()
    level[:, 0] = 1.0
    apart = query.copy()
    apart[:, 0] += 2 * np.array([0.0, 1000, 0, -1000, 0])
    loud = level.copy()
    loud[-1] = 4000 * query[1] / (query[1] @ query[1])
    low = query.copy()
    low[:, 0] -= 2 * 5000.0
    seen = np.arange(7) < 6
    single = [x.astype(np.float32) for x in (query + 60, level, value)]
    return [
        Case(
            "two queries, three keys of width 4 and values of width 5",
            (
                _normal(2, 4),
                _normal(3, 4, seed=1),
                _normal(3, 5),
                np.ones((2, 3), dtype=bool),
            ),
        ),
        Case("a causal mask of shape (5, 7)", (query, key, value, causal)),
        Case(
            "four sequences, S = d_k = 4 and a causal mask",
            (
                _normal(4, 5, 4),
                _normal(4, 4, 4, seed=1),
                _normal(4, 4, 6),
                causal[:, :4],
            ),
        ),
        Case(
            "queries of shape (2, 3, 5, 4), keys and values that both"
            " sequences share, and a padding mask of shape (2, 1, 1, 7)",
            (*heads, padding),
        ),
        Case(
            "leading axes (2, 3) everywhere, and a causal mask",
            (
                heads[0],
                _normal(2, 3, 7, 4, seed=1),
                _normal(2, 3, 7, 6),
                causal,
            ),
        ),
        Case(
            "the same queries for two sequences of keys and values, and a"
            " padding mask of shape (2, 1, 7)",
            (query, *batch[1:], padding[:, 0]),
        ),
        Case(
            "a mask of shape (1, 7) for all of five queries",
            (query, key, value, seen[None]),
        ),
        Case(
            "queries whose scores lie 1000 above and below the others'",
            (apart, level, value, causal),
        ),
        Case(
            "scores near -5000 and a causal mask",
            (low, level, value, causal),
        ),
        Case(
            "a forbidden key whose score lies 2000 above the others",
            (query[1:2], loud, value, seen[None]),
        ),
        Case(
            "a query that may attend to nothing",
            (query, key, value, empty),
        ),
        Case(
            "a batch of two in float32 and a causal mask",
            (*(x.astype(np.float32) for x in batch), causal),
        ),
        Case(
            "float32 inputs with scores near 100",
            (*single, np.ones((5, 7), dtype=bool)),
        ),
    ]


@checker
def check_sdpa_attend(answer: object) -> Verdict:
    """Check ``attend(query, key, value, allowed)``, which returns output and weights."""
    return check_function(
        "sdpa-attend",
        answer,
        scaled_dot_product_attention,
        _attend_cases(),
        ATTEND_MISTAKES,
        results=("the output", "the weights"),
    )


def _suspicious(
    query: Array,
    key: Array,
    value: Array,
    *,
    width: int = 0,
    largest: int | None = -1,
    shifted: bool = True,
    axis: int = -1,
) -> Array:
    """Return attention with the faults asked for: `width` 0 is a key's, 1 a value's."""
    scores = _products(query, key) / math.sqrt((key, value)[width].shape[-1])
    with np.errstate(all="ignore"):
        powers = np.exp(
            scores - shifted * scores.max(axis=largest, keepdims=True)
        )
        weights = powers / powers.sum(axis=axis, keepdims=True)
        return np.asarray(weights @ value)


def _over_root_of(
    which: int, query: Array, key: Array, value: Array
) -> Array:
    """Return attention whose scores are divided by √L (`which` 0) or √S (1)."""
    length = (query, key)[which].shape[-2]
    return _suspicious(query * math.sqrt(key.shape[-1] / length), key, value)


BUG_MISTAKES = [
    *(
        Mistake(
            partial(_suspicious, largest=largest, axis=1),
            "weights that sum to 1 the wrong way: try values that are all 1,"
            " for which every output must be 1.",
        )
        for largest in (None, -1)
    ),
    Mistake(
        partial(_suspicious, axis=0),
        "a softmax over the batch: try values that are all 1, for which every"
        " output must be 1.",
    ),
    Mistake(
        partial(_suspicious, largest=1),
        "a maximum over the queries: it differs from key to key, and does not"
        " cancel.",
    ),
    Mistake(
        partial(_suspicious, width=1),
        "scores that depend on how wide a value is.",
    ),
    Mistake(
        lambda q, k, v: _suspicious(
            q * k.shape[-1] ** -0.5, k, v, largest=None
        ),
        "scores divided by the width of a key itself, or twice by its root.",
    ),
    Mistake(
        lambda q, k, v: _suspicious(q * k.shape[-1] ** 0.5, k, v),
        "scores without the scale.",
    ),
    *(
        Mistake(
            partial(_over_root_of, axis),
            "scores divided by the root of a number of queries or keys: their"
            " spread grows with the terms of one product.",
        )
        for axis in (0, 1)
    ),
    Mistake(
        partial(_suspicious, largest=None),
        "a shift that suits one row and not another.",
    ),
    Mistake(
        partial(_suspicious, shifted=False),
        "exponentials of the scores as they are: near 710 they overflow.",
    ),
]


@checker
def check_sdpa_bug(answer: object) -> Verdict:
    """Check ``mended(query, key, value)`` of a batch, which returns the output."""
    query, key = _normal(2, 5, 4), _normal(2, 7, 4, seed=1)
    level = key.copy()
    level[..., 0] = 1.0
    apart = query.copy()
    apart[..., 0] += 2 * np.array([0.0, 1000, 0, -1000, 0])
    cases = [
        Case(
            "L = 5, S = 7 and keys as wide as values",
            (query, key, _normal(2, 7, 4, seed=2)),
        ),
        Case(
            "d_k = 9 and d_v = 2",
            (_normal(3, 5, 9), _normal(3, 2, 9), _normal(3, 2, 2, seed=2)),
        ),
        Case(
            "queries whose scores lie 1000 above and below the others'",
            (apart, level, _normal(2, 7, 4, seed=2)),
        ),
        Case(
            "float32 inputs",
            tuple(
                x.astype(np.float32) for x in (query, key, _normal(2, 7, 6))
            ),
        ),
    ]
    return check_function(
        "sdpa-bug",
        answer,
        lambda q, k, v: scaled_dot_product_attention(q, k, v)[0],
        cases,
        BUG_MISTAKES,
    )


@checker
def check_sdpa_figure(answer: object) -> Verdict:
    """Check the panel, A to D, that shows the weights of attention."""
    return check_choice(
        "sdpa-figure",
        answer,
        "D",
        {
            "A": "two weights of a row are as far apart there as the products"
            " themselves say. Was nothing divided?",
            "B": "add up a row of it, and then a column.",
            "C": "two weights of a row are nearer to each other there than"
            " their scores say. What were the products divided by?",
        },
    )


def _merged(
    output_a: Array, lse_a: Array, output_b: Array, lse_b: Array
) -> Pair:
    """Return output and log-sum-exp over the keys of two blocks together."""
    lse = np.logaddexp(lse_a, lse_b)
    with np.errstate(invalid="ignore"):
        shares = [
            np.where(lse == -np.inf, 0.0, np.exp(part - lse))[..., None]
            for part in (lse_a, lse_b)
        ]
    return shares[0] * output_a + shares[1] * output_b, lse


def _shared(share: Any) -> Any:
    """Return a merge with other shares: `share` of the two log-sum-exps, for the first block."""

    def merge(
        output_a: Array, lse_a: Array, output_b: Array, lse_b: Array
    ) -> Pair:
        with np.errstate(all="ignore"):
            first = np.asarray(share(lse_a, lse_b))[..., None]
            output = first * output_a + (1 - first) * output_b
            return output, np.logaddexp(lse_a, lse_b)

    return merge


def _relogged(combined: Any, says: str) -> list[Mistake]:
    """Return the mistake of another log-sum-exp: in the second result alone, and in both.

    `combined` makes it of the blocks' two.
    """

    def alone(
        output_a: Array, lse_a: Array, output_b: Array, lse_b: Array
    ) -> Pair:
        output, _ = _merged(output_a, lse_a, output_b, lse_b)
        with np.errstate(all="ignore"):
            return output, np.asarray(combined(lse_a, lse_b))

    def shared_out(
        output_a: Array, lse_a: Array, output_b: Array, lse_b: Array
    ) -> Pair:
        with np.errstate(all="ignore"):
            lse = np.asarray(combined(lse_a, lse_b))
            output = sum(
                np.exp(part - lse)[..., None] * output
                for part, output in ((lse_a, output_a), (lse_b, output_b))
            )
        return np.asarray(output), lse

    return [Mistake(alone, says), Mistake(shared_out, says)]


def _undivided(level: Any) -> Any:
    """Return a merge of numerators that were not divided, `level` taken off their exponents."""

    def merge(
        output_a: Array, lse_a: Array, output_b: Array, lse_b: Array
    ) -> Pair:
        off = level(lse_a, lse_b)
        with np.errstate(all="ignore"):
            output = (
                np.exp(lse_a - off)[..., None] * output_a
                + np.exp(lse_b - off)[..., None] * output_b
            )
        return output, np.logaddexp(lse_a, lse_b)

    return merge


def _log_of_shifted(lse_a: Array, lse_b: Array) -> Array:
    """Return the log-sum-exp without the maximum that was taken off."""
    return np.asarray(np.logaddexp(lse_a, lse_b) - np.maximum(lse_a, lse_b))


def _log2_of_shifted(lse_a: Array, lse_b: Array) -> Array:
    largest = np.maximum(lse_a, lse_b)
    shifted = _log_of_shifted(lse_a, lse_b)
    return np.asarray(largest + shifted / math.log(2))


def _across(
    output_a: Array, lse_a: Array, output_b: Array, lse_b: Array
) -> Pair:
    lse = np.logaddexp(lse_a, lse_b)
    return np.exp(lse_a - lse) * output_a + np.exp(
        lse_b - lse
    ) * output_b, lse


def _unshifted_blocks(
    output_a: Array,
    lse_a: Array,
    output_b: Array,
    lse_b: Array,
    *,
    one_for_all: bool = False,
    guard: bool = False,
) -> Pair:
    """Return a merge that takes nothing off, or one maximum for all; `guard` divides no 0 by 0."""
    top = max(lse_a.max(), lse_b.max()) if one_for_all else 0.0
    with np.errstate(all="ignore"):
        sums = np.exp(lse_a - top), np.exp(lse_b - top)
        total = sums[0] + sums[1]
        output = (
            sums[0][..., None] * output_a + sums[1][..., None] * output_b
        )
        by = np.where(total == 0, 1.0, total) if guard else total
        return output / by[..., None], top + np.log(total)


def _unguarded(
    output_a: Array, lse_a: Array, output_b: Array, lse_b: Array
) -> Pair:
    lse = np.logaddexp(lse_a, lse_b)
    with np.errstate(all="ignore"):
        shares = [np.exp(part - lse)[..., None] for part in (lse_a, lse_b)]
        return shares[0] * output_a + shares[1] * output_b, lse


MERGE_MISTAKES = [
    Mistake(
        _shared(lambda a, b: np.full(a.shape, 0.5)),
        "the mean of the two outputs: a block counts by its sum of"
        " exponentials.",
    ),
    Mistake(
        _shared(lambda a, b: a / (a + b)),
        "outputs shared out by the logarithms: it is the sums themselves that"
        " add up.",
    ),
    Mistake(
        _shared(lambda a, b: (a > b).astype(float)),
        "the output of the heavier block alone.",
    ),
    Mistake(
        _shared(lambda a, b: np.exp(b - np.logaddexp(a, b))),
        "each block with the share of the other.",
    ),
    Mistake(
        lambda oa, la, ob, lb: (oa + ob, np.logaddexp(la, lb)),
        "the sum of the outputs, whose shares do not sum to 1.",
    ),
    Mistake(
        _across,
        "shares that run along the components: a query's share belongs to its"
        " whole output. Here there are as many components as queries, so that"
        " nothing complains.",
    ),
    *(
        Mistake(
            _undivided(level),
            "the sum of the blocks' numerators: it has yet to be divided by"
            " the denominator of all keys.",
        )
        for level in (lambda a, b: 0.0, np.maximum)
    ),
    *_relogged(
        lambda a, b: a + b,
        "the sum of the logarithms: that is the logarithm of a product.",
    ),
    *_relogged(
        np.maximum,
        "the larger of the two logarithms: the smaller block is missing from"
        " the sum.",
    ),
    *_relogged(
        lambda a, b: np.exp(a) + np.exp(b),
        "the sum of the exponentials, and not its logarithm.",
    ),
    *_relogged(
        _log_of_shifted,
        "a log-sum-exp from which the maximum was taken off and not given"
        " back.",
    ),
    *(
        mistake
        for combined in (
            np.logaddexp2,
            _log2_of_shifted,
            lambda a, b: np.logaddexp(a, b) / np.log(2),
        )
        for mistake in _relogged(
            combined,
            "a logarithm or an exponential to the base 2: both are natural"
            " here.",
        )
    ),
    Mistake(
        _unguarded,
        "-inf less -inf, where neither block holds a key that the query may"
        " attend to.",
    ),
    *(
        Mistake(
            partial(_unshifted_blocks, one_for_all=True, guard=guard),
            "one maximum for all queries: a row far below it becomes 0/0.",
        )
        for guard in (False, True)
    ),
    Mistake(
        _unshifted_blocks,
        "exponentials of the log-sum-exps themselves: near 710 they overflow"
        " in float64, and near -745 all of them are 0.",
    ),
]


def _block(
    scores: Array, seed: int, width: int = 6, dtype: Any = np.float64
) -> Pair:
    """Return output and log-sum-exp of one block of keys, for random values."""
    leading, keys = scores.shape[:-2], scores.shape[-1]
    value = _normal(*leading, keys, width, seed=seed).astype(dtype)
    scores = scores.astype(dtype)
    return softmax(scores) @ value, log_sum_exp(scores)


@checker
def check_sdpa_merge(answer: object) -> Verdict:
    """Check ``merge(output_a, lse_a, output_b, lse_b)``, which returns output and log-sum-exp."""
    first, second = _normal(5, 3), _normal(5, 4, seed=1)
    alone, nowhere = first.copy(), second.copy()
    alone[1], nowhere[3] = -np.inf, -np.inf
    neither = first.copy()
    neither[3] = -np.inf
    apart = np.array([0.0, 2000, -2000, 700, -700])[:, None]

    def both(one: Array, other: Array, **options: Any) -> tuple[Array, ...]:
        return *_block(one, 2, **options), *_block(other, 3, **options)

    cases = [
        Case(
            "one query, and blocks of three and four keys",
            both(first[:1], second[:1]),
        ),
        Case(
            "five queries, and values of width 5",
            both(first, second, width=5),
        ),
        Case(
            "leading axes (2, 3)",
            both(_normal(2, 3, 5, 3), _normal(2, 3, 5, 4, seed=1)),
        ),
        Case("scores near 1000", both(1000 + first, 1000 + second)),
        Case("scores near -1000", both(first - 1000, second - 1000)),
        Case(
            "blocks whose scores lie up to 2000 apart",
            both(first + apart, second - apart),
        ),
        Case(
            "a query for which the first block is empty, and one for which"
            " the second is",
            both(alone, nowhere),
        ),
        Case(
            "a query for which both blocks are empty",
            both(neither, nowhere),
        ),
        Case(
            "float32 outputs, and scores near 100",
            both(100 + first, 100 + second, dtype=np.float32),
        ),
    ]
    return check_function(
        "sdpa-merge",
        answer,
        _merged,
        cases,
        MERGE_MISTAKES,
        results=("the output", "the log-sum-exp"),
    )
