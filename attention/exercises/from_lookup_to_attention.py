"""Checkers of the exercises on *From lookup to attention*."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from attention.reference import softmax

Array = np.ndarray[Any, Any]


@checker
def check_lookup_by_hand(answer: object) -> Verdict:
    """Check a soft lookup at 1 in a table of three entries: one number."""
    distances, keys = np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 3.0])
    values = np.array([25.0, 50.0, 200.0])

    def mean(weights: Array, of: Array = values) -> float:
        return float(weights @ of / weights.sum())

    weights = 2.0 ** -(distances**2)
    return check_numbers(
        "lookup-by-hand",
        answer,
        mean(weights),
        {
            "the value of the nearest key alone: here every entry is heard.": (
                50.0
            ),
            "a sum that has yet to be divided by the sum of the weights.": (
                weights @ values
            ),
            "a sum divided by the number of entries: the weights have another"
            " sum.": weights @ values / 3,
            "an average by distances that were not squared.": mean(
                2.0**-distances
            ),
            "an average by weights that grow with the distance: mind the"
            " sign.": mean(2.0 ** (distances**2)),
            "an average by 2 to the power of q k: in this exercise the"
            " distance decides.": mean(2.0**keys),
            "the plain mean of the values, as if all keys were equally near.": (
                values.mean()
            ),
            "an average of the keys: keys give the weights, values the"
            " answer.": mean(weights, keys),
        },
    )


@checker
def check_lookup_figure(answer: object) -> Verdict:
    """Check the query and the bandwidth that were read off three weights: two numbers."""
    return check_numbers(
        "lookup-figure",
        answer,
        [3.0, 2.0],
        {
            "right but for the order: the query first, then the bandwidth.": [
                2.0,
                3.0,
            ],
            "right but for a root: this is the square of the bandwidth.": [
                3.0,
                4.0,
            ],
            "right for the query. For the bandwidth, the 2 in 2σ² has been"
            " left out.": [3.0, 2.0 * math.sqrt(2.0)],
            "right for the query. The bandwidth is a little too large: were"
            " the nearer keys taken to lie at the query itself, or was a"
            " number rounded too early?": [
                3.0,
                math.sqrt(4.5),
            ],
            "right for the query. For the bandwidth, the distances have been"
            " subtracted and then squared: their squares are subtracted.": [
                3.0,
                math.sqrt(2.0),
            ],
            "right for the query. For the bandwidth, the distances have not"
            " been squared.": [3.0, 1.0],
            "right for the query. For the bandwidth, a decimal logarithm has"
            " been taken where the natural one undoes the exponential.": [
                3.0,
                math.sqrt(4.0 / math.log10(math.e)),
            ],
            **{
                f"right for the query. For the bandwidth, {weight} has been"
                " taken for a kernel value: a weight is a kernel value divided"
                " by the sum of all three, and only quotients of weights are"
                " quotients of kernel values.": [
                    3.0,
                    distance / math.sqrt(-2 * math.log(weight)),
                ]
                for weight, distance in ((0.422, 1), (0.155, 3))
            },
        },
        tolerance=(0.0501 / 3, 0.0501 / 2),  # 0.05 in either
    )


def _squares(queries: Array, keys: Array) -> Array:
    differences = queries[:, None, :] - keys[None, :, :]
    return np.asarray((differences**2).sum(axis=-1))


def _regression(
    queries: Array, keys: Array, values: Array, sigma: float
) -> Array:
    exponents = -_squares(queries, keys) / (2 * sigma**2)
    return np.asarray(softmax(exponents) @ values)


def _smoother(
    exponent: Callable[[Array, Array, float], Array],
    normalise: Callable[[Array], Array] = softmax,
) -> Callable[[Array, Array, Array, float], Array]:
    """Return a wrong regression: with an exponent, or a normalisation, of its own."""

    def regression(
        queries: Array, keys: Array, values: Array, sigma: float
    ) -> Array:
        return np.asarray(normalise(exponent(queries, keys, sigma)) @ values)

    return regression


def _gaussian(queries: Array, keys: Array, sigma: float) -> Array:
    return np.asarray(-_squares(queries, keys) / (2 * sigma**2))


def _unsafe(scores: Array, maximum: Any = 0.0) -> Array:
    with np.errstate(all="ignore"):
        powers = np.exp(scores - maximum)
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def _nearest(scores: Array) -> Array:
    return np.asarray(np.eye(scores.shape[1])[scores.argmax(axis=1)])


def _padded(scores: Array, extra: float) -> Array:
    powers = np.exp(scores)
    return np.asarray(powers / (powers.sum(axis=-1, keepdims=True) + extra))


NAIVE = (
    "exponentials of the exponents as they are: where every key is far away,"
    " all of them become 0, and 0/0 is not a number. What may be added to a"
    " row of exponents without a change of the weights?"
)

REGRESSION_MISTAKES = [
    Mistake(
        _smoother(_gaussian, lambda z: _unsafe(z, z.max())),
        "one maximum for all queries: each query needs its own.",
    ),
    Mistake(
        _smoother(_gaussian, _unsafe),
        NAIVE,
    ),
    Mistake(
        _smoother(_gaussian, lambda z: np.nan_to_num(_unsafe(z))),
        "0 where every kernel value underflowed: replacing a NaN, or keeping"
        " the sum of the weights from being 0, does not bring the weights"
        " back.",
    ),
    Mistake(
        _smoother(lambda q, k, s: q @ k.T / s**2),
        "the dot product alone: that is the Gaussian kernel for keys of equal"
        " norm, and these have different ones.",
    ),
    Mistake(
        _smoother(lambda q, k, s: -_squares(q, k) / s**2),
        "an exponent without the 2 in 2σ².",
    ),
    Mistake(
        _smoother(lambda q, k, s: -_squares(q, k) / (2 * s)),
        "an exponent with σ where σ² belongs.",
    ),
    Mistake(
        _smoother(lambda q, k, s: -_squares(q, k) / 2),
        "the bandwidth 1, whatever bandwidth is asked for.",
    ),
    Mistake(
        _smoother(lambda q, k, s: -np.sqrt(_squares(q, k)) / (2 * s**2)),
        "a distance that was not squared.",
    ),
    Mistake(
        _smoother(
            lambda q, k, s: -_squares(q, k) / q.shape[-1] / (2 * s**2)
        ),
        "the mean over the components where their sum is the squared"
        " distance.",
    ),
    Mistake(
        _smoother(lambda q, k, s: _squares(q, k) / (2 * s**2)),
        "an exponent of the wrong sign: the farthest key gets the most.",
    ),
    Mistake(
        _smoother(_gaussian, lambda z: softmax(z, axis=0)),
        "weights that sum to 1 over the queries: for each query they are to"
        " sum to 1 over the keys.",
    ),
    Mistake(
        _smoother(_gaussian, np.exp),
        "a sum that has not been divided by the sum of the weights.",
    ),
    Mistake(
        _smoother(_gaussian, lambda z: np.exp(z) / z.shape[1]),
        "a sum divided by the number of keys: the weights have another sum.",
    ),
    Mistake(
        _smoother(_gaussian, _nearest),
        "the value of the nearest key: every key is to be heard.",
    ),
    *(
        Mistake(
            _smoother(_gaussian, partial(_padded, extra=extra)),
            "a small number added to the sum of the weights: where every key"
            " is far away it is larger than the sum, and the answer becomes"
            " 0.",
        )
        for extra in (1e-12, 1e-9, 1e-6)
    ),
    Mistake(
        lambda q, k, v, s: softmax(_gaussian(q, k, s)),
        "the weights, without the average of the values.",
    ),
    Mistake(
        lambda q, k, v, s: softmax(_gaussian(q, k, s)) @ k,
        "an average of the keys: keys give the weights, values the answer.",
    ),
]


def _lookup(
    shape: tuple[int, int, int, int],
    sigma: float,
    *,
    away: float = 0.0,
    dtype: type = np.float64,
    seed: int = 0,
) -> tuple[Any, ...]:
    """Return queries (L, d_k), keys (S, d_k), values (S, d_v) and a bandwidth."""
    L, S, d_k, d_v = shape
    rng = np.random.default_rng(seed)
    queries, keys, values = (
        rng.normal(size=size) for size in ((L, d_k), (S, d_k), (S, d_v))
    )
    queries[-1, 0] += away
    arrays = (queries, keys, values)
    return (*(array.astype(dtype) for array in arrays), sigma)


@checker
def check_lookup_regression(answer: object) -> Verdict:
    """Check a function ``kernel_regression(queries, keys, values, sigma)``."""
    all_far = list(_lookup((3, 4, 2, 5), 0.7, seed=4))
    all_far[0] = all_far[0] + 60.0
    cases = [
        Case(
            "3 queries and 5 keys of width 2, values of width 4 and σ = 1",
            _lookup((3, 5, 2, 4), 1.0),
        ),
        Case(
            "4 queries and 3 keys of width 5, values of width 2 and σ = 0.7",
            _lookup((4, 3, 5, 2), 0.7, seed=1),
        ),
        Case(
            "1 query and 6 keys of width 3, values of width 2 and σ = 1.6",
            _lookup((1, 6, 3, 2), 1.6, seed=2),
        ),
        Case(
            "5 queries and 7 keys on a line, one value each, and σ = 0.4",
            _lookup((5, 7, 1, 1), 0.4, seed=3),
        ),
        Case(
            "3 queries, each about 60 from every key, and σ = 0.7",
            tuple(all_far),
        ),
        Case(
            "2 queries near the keys, one 90 from every key, and σ = 1",
            _lookup((3, 4, 2, 5), 1.0, away=90.0, seed=5),
        ),
        Case(
            "float32, one of 3 queries about 12 from every key, and σ = 0.8",
            _lookup((3, 5, 4, 2), 0.8, away=12.0, dtype=np.float32, seed=6),
        ),
    ]
    return check_function(
        "lookup-regression", answer, _regression, cases, REGRESSION_MISTAKES
    )


@checker
def check_lookup_bug(answer: object) -> Verdict:
    """Check the letters of the lines, A to F, that are wrong in the given function."""
    return check_choice(
        "lookup-bug",
        answer,
        "BE",
        {
            "A": "for two matrices this is the product of every query with"
            " every key.",
            "B": "which width does the scale of a dot product depend on? Read"
            " every size that the function uses.",
            "C": "subtracting one number from a whole row changes no weight,"
            " and keepdims keeps the shapes in line.",
            "D": "the softmax does take the exponentials of the scores.",
            "E": "along which axis is a query's row to sum to 1? Compute the"
            " sums for L ≠ S.",
            "F": "each row of weights meets the values, which is the average.",
        },
        several=True,
    )


QUERY = np.array([1.0, 2.0])


@checker
def check_lookup_norms(answer: object) -> Verdict:
    """Check keys of shape (3, 2) that the two ways of matching order in opposite ways."""
    name, what = "lookup-norms", "the answer"
    if unanswered(answer):
        return blank(name)
    try:
        keys = as_array(answer).astype(float)
    except AnswerError:
        return wrong(
            name,
            f"This is {described(answer)}, and an array of three keys is"
            " wanted.",
            what,
        )
    if keys.shape != (3, 2):
        return wrong(name, f"Its shape is {keys.shape}, not (3, 2).", what)
    if not np.isfinite(keys).all() or np.abs(keys).max() > 10:
        return wrong(name, "Every entry is to lie between -10 and 10.", what)
    if not np.allclose(keys[0], QUERY):
        return wrong(name, "Key 0 is to be the query itself.", what)
    says = _order_broken(keys)
    return wrong(name, says, what) if says else right(name)


def _order_broken(keys: Array) -> str:
    """Say which neighbours stand in the wrong order, and by which measure."""
    dots, distances = keys @ QUERY, np.linalg.norm(keys - QUERY, axis=1)
    norms = np.linalg.norm(keys, axis=1)
    for near, far in ((0, 1), (1, 2)):
        pair = f"key {near} and key {far}"
        if np.isclose(distances[near], distances[far]):
            return f"To the Gaussian kernel {pair} are equally near."
        if distances[near] > distances[far]:
            return (
                f"To the Gaussian kernel key {far} is nearer to the query than"
                f" key {near}."
            )
        if dots[far] > dots[near] + 1e-9:
            continue
        if np.isclose(dots[near], dots[far]):
            return f"By the dot product {pair} weigh the same."
        why = (
            ", which has the same length: then both ways of matching agree"
            if np.isclose(norms[near], norms[far])
            else ": look how far it reaches along the query"
        )
        return f"By the dot product key {near} outweighs key {far}{why}."
    return ""


def _weighted(
    query: Array,
    keys: Array,
    sigma: float,
    normalise: Callable[[Array], Array] = softmax,
) -> Array:
    exponents = -((query - keys) ** 2).sum(axis=-1) / (2 * sigma**2)
    return np.asarray(normalise(exponents))


def _slope(query: Array, keys: Array, values: Array, sigma: float) -> Array:
    p = _weighted(query, keys, sigma)
    return np.asarray(
        (values - p @ values).T * p @ (keys - query) / sigma**2
    )


def _summed(
    factors: Callable[
        [Array, Array, Array, Array], tuple[Array | float, Array, Array]
    ],
    normalise: Callable[[Array], Array] = softmax,
) -> Callable[[Array, Array, Array, float], Array]:
    """Return a wrong slope: a sum over the keys of other factors, or with other weights.

    `factors` are those of a term, of weights, query, keys and values: a weight, what is made of
    a value, and what is made of a key.
    """

    def slope(
        query: Array, keys: Array, values: Array, sigma: float
    ) -> Array:
        p = _weighted(query, keys, sigma, normalise)
        weight, left, right_one = factors(p, query, keys, values)
        return np.asarray((left.T * weight) @ right_one / sigma**2)

    return slope


def _of_means(
    p: Array, q: Array, k: Array, v: Array
) -> tuple[Array, Array, Array]:
    return p, v - p @ v, k - p @ k


def _slope_of_dots(
    query: Array, keys: Array, values: Array, sigma: float
) -> Array:
    p = softmax(keys @ query / sigma**2)
    return np.asarray((values - p @ values).T * p @ keys / sigma**2)


SLOPE_MISTAKES = [
    Mistake(
        lambda q, k, v, s: _slope(q, k, v, s).T,
        "the transposed matrix: a row for each component of the answer, a"
        " column for each of the query.",
    ),
    Mistake(
        lambda q, k, v, s: -_slope(q, k, v, s),
        "the right numbers with the wrong sign: moving the query towards a key"
        " moves the answer towards its value.",
    ),
    Mistake(
        lambda q, k, v, s: 2 * _slope(q, k, v, s),
        "twice the right numbers: the 2 of the square cancels the one in 2σ².",
    ),
    Mistake(
        lambda q, k, v, s: _slope(q, k, v, s) / 2,
        "half of the right numbers: the square has a derivative with a 2.",
    ),
    Mistake(
        lambda q, k, v, s: _slope(q, k, v, s) * s**2,
        "a derivative without its σ.",
    ),
    Mistake(
        lambda q, k, v, s: _slope(q, k, v, s) * s,
        "a derivative with σ where the exponent has σ².",
    ),
    Mistake(
        _summed(lambda p, q, k, v: (p, v, k - q)),
        "the derivative of the numerator alone: the sum of the kernel's"
        " values depends on the query, too.",
    ),
    Mistake(
        _summed(lambda p, q, k, v: (p, v, q - k)),
        "the derivative of the numerator alone, and with the wrong sign: the"
        " sum of the kernel's values depends on the query, too.",
    ),
    Mistake(
        _summed(lambda p, q, k, v: (p, v, k)),
        "the derivative of the numerator alone, without the query: what makes"
        " the query cancel is the derivative of the denominator.",
    ),
    *(
        Mistake(
            _summed(factors),
            "values, or keys, less their plain mean: the mean that arises is"
            " weighted by the weights.",
        )
        for factors in (
            lambda p, q, k, v: (p, v - v.mean(axis=0), k - q),
            lambda p, q, k, v: (p, v - v.mean(axis=0), k - k.mean(axis=0)),
        )
    ),
    *(
        Mistake(
            _summed(factors),
            "a sum in which every key counts alike: each term has its key's"
            " weight.",
        )
        for factors in (
            lambda p, q, k, v: (1.0, v - p @ v, k - p @ k),
            lambda p, q, k, v: (1 / len(k), v - p @ v, k - p @ k),
            lambda p, q, k, v: (1.0, v - v.mean(0), k - k.mean(0)),
            lambda p, q, k, v: (1 / len(k), v - v.mean(0), k - k.mean(0)),
        )
    ),
    Mistake(
        _summed(_of_means, _unsafe),
        NAIVE,
    ),
    Mistake(
        _summed(_of_means, lambda z: np.nan_to_num(_unsafe(z))),
        "0 where every kernel value is too small for a float: the keys share"
        " the weight there too, as their distances differ so little.",
    ),
    Mistake(
        _slope_of_dots,
        "the derivative of a lookup by the dot product alone: the weights are"
        " those of the Gaussian kernel.",
    ),
    Mistake(
        lambda q, k, v, s: _weighted(q, k, s) @ v,
        "the answer itself, and not its derivative.",
    ),
]


@checker
def check_lookup_slope(answer: object) -> Verdict:
    """Check a function ``lookup_slope(query, keys, values, sigma)``: ∂o/∂q, (d_v, d_k)."""

    def case(
        what: str,
        shape: tuple[int, int, int],
        sigma: float,
        *,
        seed: int = 0,
        shift: float = 0.0,
        dtype: type = np.float64,
    ) -> Case:
        queries, keys, values, _ = _lookup(
            (1, *shape), sigma, dtype=dtype, seed=seed
        )
        return Case(what, (queries[0] + shift, keys + shift, values, sigma))

    far = np.array([[60.0, 1.0], [60.0, -0.8], [60.01, 0.3]])
    far_values = np.random.default_rng(4).normal(size=(3, 4))
    cases = [
        case(
            "5 keys of width 3, values of width 2 and σ = 1", (5, 3, 2), 1.0
        ),
        case(
            "4 keys of width 2, values of width 6 and σ = 0.6",
            (4, 2, 6),
            0.6,
            seed=1,
        ),
        case(
            "7 keys of width 5, values of width 3 and σ = 1.7",
            (7, 5, 3),
            1.7,
            seed=2,
        ),
        case("one key, and so the same answer everywhere", (1, 3, 2), 0.8),
        case(
            "query and keys near 100 in every component and σ = 0.9",
            (5, 4, 2),
            0.9,
            seed=3,
            shift=100.0,
        ),
        Case(
            "a query about 60 from every key, from all nearly equally far,"
            " and σ = 1.3",
            (np.zeros(2), far, far_values, 1.3),
        ),
        case(
            "float32, 5 keys of width 4, values of width 2 and σ = 0.8",
            (5, 4, 2),
            0.8,
            seed=5,
            dtype=np.float32,
        ),
    ]
    return check_function(
        "lookup-slope", answer, _slope, cases, SLOPE_MISTAKES
    )
