"""Checkers of the exercises on *The gradient by hand*."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from attention.exercises._checking import (
    AnswerError,
    Case,
    Mistake,
    Verdict,
    as_array,
    call,
    check_choice,
    check_function,
    check_numbers,
    checker,
    described,
    no_function,
    returns_nothing,
    right,
    wrong,
)
from attention.reference import (
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    softmax,
)

Array = np.ndarray[Any, Any]
Gradients = tuple[Array, Array, Array]


def _arrays(
    *leading: int,
    sizes: tuple[int, int, int, int] = (5, 7, 4, 6),
    seed: int = 0,
    sharper: float = 1.0,
) -> tuple[Array, ...]:
    """Return an arriving gradient, queries, keys and values of the sizes L, S, d_k and d_v."""
    L, S, d_k, d_v = sizes
    rng = np.random.default_rng(seed)
    shapes = ((L, d_v), (L, d_k), (S, d_k), (S, d_v))
    grad, query, key, value = (
        rng.normal(size=(*leading, *shape)) for shape in shapes
    )
    return grad, sharper * query, key, value


def _single(*arrays: Array) -> tuple[Array, ...]:
    return tuple(array.astype(np.float32) for array in arrays)


def _turned(array: Array) -> Array:
    return array.swapaxes(-2, -1)


def _exchanged(numbers: Array, i: int, j: int) -> Array:
    order = np.arange(len(numbers))
    order[[i, j]] = j, i
    return numbers[order]


@checker
def check_gradient_by_hand(answer: object) -> Verdict:
    """Check the gradients of three scores for p = (1/2, 1/4, 1/4), v = (2, 6, 10), g = 2."""
    p, v = np.array([0.5, 0.25, 0.25]), np.array([2.0, 6.0, 10.0])
    g, o = 2.0, 5.0
    expected = p * g * (v - o)
    return check_numbers(
        "gradient-by-hand",
        answer,
        expected,
        {
            "each weight times its own gradient, with nothing taken off: the"
            " weights are not free, they keep their sum.": p * g * v,
            "right but for the sign: which way a step goes is another"
            " question than the gradient.": -p * g * (v - o),
            "the gradient of the weights: the softmax is still to be passed.": (
                g * v
            ),
            "the gradient of the values: asked for are the scores.": g * p,
            "each value's distance from the output times g, whatever weight"
            " the key has.": g * (v - o),
            "measured from the plain mean of the values: the output is a"
            " weighted one.": p * g * (v - v.mean()),
            "the diagonal of the Jacobian alone: every score moves every"
            " weight.": p * (1 - p) * g * v,
            "without the gradient g that arrives at the output.": p
            * (v - o),
            **{
                f"right but for the order: the numbers for scores {i} and {j}"
                " are exchanged.": _exchanged(expected, i, j)
                for i, j in ((0, 1), (0, 2), (1, 2))
            },
        },
    )


@checker
def check_gradient_figure(answer: object) -> Verdict:
    """Check the keys, of A to F, that are told to raise their scores."""
    behind = (
        "go from the output to its value. Is that a step along the arrow, or"
        " against it?"
    )
    ahead = (
        "how far a value lies from the output, and how large its weight is,"
        " decides how loudly a key is told, not what."
    )
    return check_choice(
        "gradient-figure",
        answer,
        "BCF",
        {
            **dict.fromkeys("ADE", behind),
            **dict.fromkeys("BCF", ahead),
        },
        several=True,
    )


# -------------------------------------------------------------------------- the whole backward pass
def _backward(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    weights: Array,
    *,
    factors: Array | float = 1.0,
    factors_in: str = "pv",
    row_sums: Array | None = None,
) -> Gradients:
    """Return the gradients of Q, K and V from weights; the options are for mistakes."""
    in_p, in_v = (factors if which in factors_in else 1.0 for which in "pv")
    grad_weights = in_p * (grad @ _turned(value))
    if row_sums is None:
        row_sums = (weights * grad_weights).sum(axis=-1, keepdims=True)
    scale = query.shape[-1] ** -0.5
    grad_scores = weights * (grad_weights - row_sums)
    return (
        scale * grad_scores @ key,
        scale * _turned(grad_scores) @ query,
        _turned(weights * in_v) @ grad,
    )


def _weights(
    query: Array, key: Array, value: Array, allowed: Array | None = None
) -> Array:
    return scaled_dot_product_attention(query, key, value, allowed)[1]


def _scaled_anew(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    allowed: Array,
    *,
    of_query: float,
    of_key: float,
) -> Gradients:
    """Return the right gradients, those of queries and keys times powers of √d_k."""
    root = query.shape[-1] ** 0.5
    dq, dk, dv = scaled_dot_product_attention_backward(
        grad, query, key, value, allowed
    )
    return root**of_query * dq, root**of_key * dk, dv


def _other_sums(sums: Any) -> Any:
    """Return a backward pass with other row sums, made of the weights and of dP."""

    def mistaken(
        grad: Array, query: Array, key: Array, value: Array, allowed: Array
    ) -> Gradients:
        weights = _weights(query, key, value, allowed)
        row_sums = np.asarray(sums(weights, grad @ _turned(value)))
        return _backward(grad, query, key, value, weights, row_sums=row_sums)

    return mistaken


def _no_softmax(
    grad: Array, query: Array, key: Array, value: Array, allowed: Array
) -> Gradients:
    weights = _weights(query, key, value, allowed)
    scale = query.shape[-1] ** -0.5
    grad_scores = np.where(allowed, grad @ _turned(value), 0.0)
    return (
        scale * grad_scores @ key,
        scale * _turned(grad_scores) @ query,
        _turned(weights) @ grad,
    )


def _signs_turned(*inputs: Array) -> Gradients:
    dq, dk, dv = scaled_dot_product_attention_backward(*inputs)
    return -dq, -dk, dv


def _scaled_by(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    allowed: Array,
    *,
    power: float = 0.0,
    of_value: bool = False,
    weights_too: bool = True,
) -> Gradients:
    """Return gradients with the scale d_v^-1/2 (`of_value`), or d_k^-power on top of the right one.

    With `weights_too` the weights are those of this scale; else the gradients alone are.
    """
    d_k, d_v = query.shape[-1], value.shape[-1]
    factor = math.sqrt(d_k / d_v) if of_value else d_k**-power
    made_from = factor * query if weights_too else query
    weights = _weights(made_from, key, value, allowed)
    dq, dk, dv = _backward(grad, query, key, value, weights)
    return factor * dq, factor * dk, dv


def _scaled_query(
    grad: Array, query: Array, key: Array, value: Array, allowed: Array
) -> Gradients:
    """Return gradients with a scale too many in the weights alone."""
    scaled = query / math.sqrt(query.shape[-1])
    weights = _weights(scaled, key, value, allowed)
    return _backward(grad, query, key, value, weights)


def _mask_inverted(
    grad: Array, query: Array, key: Array, value: Array, allowed: Array
) -> Gradients:
    return scaled_dot_product_attention_backward(
        grad, query, key, value, ~allowed
    )


def _nan_everywhere(
    grad: Array, query: Array, key: Array, value: Array, allowed: Array
) -> Gradients:
    """Return what follows from weights that are all NaN, where they should be none."""
    return (
        np.full_like(query, np.nan),
        np.full_like(key, np.nan),
        np.full_like(value, np.nan),
    )


def _no_mask(
    grad: Array, query: Array, key: Array, value: Array, allowed: Array
) -> Gradients:
    return scaled_dot_product_attention_backward(grad, query, key, value)


def _uniform_row(
    grad: Array, query: Array, key: Array, value: Array, allowed: Array
) -> Gradients:
    """Return the gradients with -1e9 in the place of every masked score."""
    scores = query.shape[-1] ** -0.5 * query @ _turned(key)
    weights = softmax(np.where(allowed, scores, -1e9))
    return _backward(grad, query, key, value, weights)


def _empty_row(
    grad: Array, query: Array, key: Array, value: Array, allowed: Array
) -> Gradients:
    """Return the gradients with 0/0 in the rows that may attend to nothing."""
    weights = _weights(query, key, value, allowed)
    empty = ~allowed.any(axis=-1, keepdims=True)
    weights = np.where(empty, np.nan, weights)
    return _backward(grad, query, key, value, weights)


BACKWARD_MISTAKES = [
    Mistake(
        _other_sums(lambda p, dp: 0.0),
        "a softmax that is passed by its weights alone, dZ = P ∘ dP: the"
        " weights of a row keep their sum, and something is to be taken off.",
    ),
    Mistake(
        _other_sums(lambda p, dp: (p * dp).sum(axis=-2, keepdims=True)),
        "sums over the queries, where each query's row has one of its own:"
        " look at the axis.",
    ),
    Mistake(
        lambda *x: _scaled_anew(*x, of_query=1, of_key=1),
        "gradients without the scale: it is a factor of the scores, and so of"
        " their derivatives.",
    ),
    Mistake(
        lambda *x: _scaled_anew(*x, of_query=0, of_key=1),
        "a scale in dQ, and none in dK.",
    ),
    Mistake(
        lambda *x: _scaled_anew(*x, of_query=1, of_key=0),
        "a scale in dK, and none in dQ.",
    ),
    Mistake(
        lambda *x: _scaled_anew(*x, of_query=-1, of_key=-1),
        "a scale that comes in twice: once is in the gradient of the scores"
        " already.",
    ),
    Mistake(
        _no_softmax,
        "the gradient of the weights taken for that of the scores: the softmax"
        " lies between them.",
    ),
    Mistake(
        _other_sums(lambda p, dp: p * dp),
        "the diagonal of the softmax's Jacobian alone: every score moves every"
        " weight of its row.",
    ),
    Mistake(
        _other_sums(lambda p, dp: dp.mean(axis=-1, keepdims=True)),
        "the plain mean of a row of dP taken off: the mean that arises is"
        " weighted by the weights.",
    ),
    Mistake(
        _other_sums(lambda p, dp: dp.sum(axis=-1, keepdims=True)),
        "the plain sum of a row of dP taken off: each of its terms has a"
        " weight.",
    ),
    Mistake(
        _signs_turned,
        "right numbers in dV, and those of dQ and dK with the wrong sign: what"
        " is taken off from what in dZ?",
    ),
    *(
        Mistake(
            partial(_scaled_by, of_value=True, weights_too=weights_too),
            "the scale of a value's width: it is a query's and a key's that"
            " the scores are scaled by.",
        )
        for weights_too in (True, False)
    ),
    *(
        Mistake(
            function,
            "weights whose scores were scaled twice: see who divides already.",
        )
        for function in (_scaled_query, partial(_scaled_by, power=0.5))
    ),
    Mistake(
        _mask_inverted,
        "the mask read the wrong way round: True means that a query may"
        " attend.",
    ),
    Mistake(
        _nan_everywhere,
        "one NaN that has spread to every number. See in which step the first"
        " one arises: it comes from the scale, from 0 times -inf, or from 0/0"
        " in rows that a mask read the wrong way round has emptied.",
        constant=True,
    ),
    Mistake(_no_mask, "gradients of all pairs, the masked ones included."),
    Mistake(
        _uniform_row,
        "a large negative number in the place of masked scores: a row with"
        " nothing to attend to then attends to everything.",
    ),
    Mistake(
        _empty_row,
        "0/0 in the row with nothing to attend to: its weights are to be 0,"
        " else its NaN reaches every key and every value.",
    ),
]


def _mask(L: int, S: int) -> Array:
    allowed = np.random.default_rng(1).random((L, S)) < 0.6
    allowed[:, 0] = True
    return allowed


@checker
def check_gradient_backward(answer: object) -> Verdict:
    """Check ``attention_gradients(grad_output, query, key, value, allowed)``: dQ, dK and dV."""
    some = _mask(5, 7)
    empty = some.copy()
    empty[2] = False
    two = _arrays(sizes=(2, 3, 4, 5))
    cases = [
        Case(
            "two queries, three keys and a mask that allows everything",
            (*two, np.ones((2, 3), dtype=bool)),
        ),
        Case("five queries, seven keys and a mask", (*_arrays(), some)),
        Case(
            "a query that may attend to nothing",
            (*_arrays(), empty),
        ),
        Case(
            "leading axes (2, 3) and a mask",
            (*_arrays(2, 3), some),
        ),
        Case(
            "scores of up to a few thousand and a mask",
            (*_arrays(sharper=1000.0), some),
        ),
        Case(
            "float32, a leading axis (2,) and a query that may attend to"
            " nothing",
            (*_single(*_arrays(2, seed=3)), empty),
        ),
    ]
    return check_function(
        "gradient-backward",
        answer,
        scaled_dot_product_attention_backward,
        cases,
        BACKWARD_MISTAKES,
        results=("dQ", "dK", "dV"),
    )


# --------------------------------------------------------------------------------- the bug: dropout
def _with_factors(
    grad: Array, query: Array, key: Array, value: Array, factors: Array
) -> Gradients:
    return scaled_dot_product_attention_backward(
        grad, query, key, value, dropout_mask=factors
    )


def _factors_in(places: str) -> Any:
    """Return a backward pass with the factors in dP ("p"), in dV ("v"), in both or in none."""

    def mistaken(
        grad: Array, query: Array, key: Array, value: Array, factors: Array
    ) -> Gradients:
        weights = _weights(query, key, value)
        return _backward(
            grad,
            query,
            key,
            value,
            weights,
            factors=factors,
            factors_in=places,
        )

    return mistaken


def _as_given(
    grad: Array, query: Array, key: Array, value: Array, factors: Array
) -> Gradients:
    """Return what the function of the exercise returns before it is mended."""
    output, weights = scaled_dot_product_attention(query, key, value)
    sums = (grad * output).sum(axis=-1, keepdims=True)
    return _backward(
        grad, query, key, value, weights, factors=factors, row_sums=sums
    )


def _sums_left_out(
    grad: Array, query: Array, key: Array, value: Array, factors: Array
) -> Gradients:
    weights, zero = _weights(query, key, value), np.zeros(())
    return _backward(
        grad, query, key, value, weights, factors=factors, row_sums=zero
    )


def _dropped_is_masked(
    grad: Array, query: Array, key: Array, value: Array, factors: Array
) -> Gradients:
    """Return the gradients with dZ = 0 wherever a pair was dropped."""
    dq, dk, dv = _with_factors(grad, query, key, value, factors)
    weights = _weights(query, key, value)
    dropped = weights * factors
    sums = (grad * (dropped @ value)).sum(axis=-1, keepdims=True)
    lost = np.where(factors == 0, -weights * sums, 0.0)
    scale = query.shape[-1] ** -0.5
    return dq - scale * lost @ key, dk - scale * lost.T @ query, dv


def _factors_in_softmax(
    grad: Array,
    query: Array,
    key: Array,
    value: Array,
    factors: Array,
    *,
    in_dp: int = 0,
    in_sums: int = 1,
    in_dv: int = 1,
) -> Gradients:
    """Return the gradients with P ∘ D in front of the bracket of dZ.

    The options say how many times D comes into dP, the output of the row sums, and dV.
    """
    weights = _weights(query, key, value)
    output = (weights * factors**in_sums) @ value
    sums = (grad * output).sum(axis=-1, keepdims=True)
    dropped = weights * factors
    scale = query.shape[-1] ** -0.5
    grad_scores = dropped * (factors**in_dp * (grad @ value.T) - sums)
    return (
        scale * grad_scores @ key,
        scale * grad_scores.T @ query,
        (weights * factors**in_dv).T @ grad,
    )


def _renormalised(
    grad: Array, query: Array, key: Array, value: Array, factors: Array
) -> Gradients:
    """Return the gradients with row sums of an output whose weights sum to 1 again."""
    weights = _weights(query, key, value)
    kept = weights * factors
    total = kept.sum(axis=-1, keepdims=True)
    output = kept @ value / np.where(total == 0, 1.0, total)
    sums = (grad * output).sum(axis=-1, keepdims=True)
    return _backward(
        grad, query, key, value, weights, factors=factors, row_sums=sums
    )


BUG_MISTAKES = [
    Mistake(
        _as_given,
        "the function as it was given. Of the numbers that it computes, which"
        " one ought to notice dropout, and does not?",
    ),
    Mistake(
        _factors_in(""),
        "the gradients without dropout: the factors have been lost.",
    ),
    Mistake(
        _factors_in("v"),
        "the factors in dV alone: the weights' gradient passes through them"
        " too.",
    ),
    Mistake(
        _factors_in("p"),
        "the factors in dP alone: a value hears only of the outputs that it"
        " reached.",
    ),
    Mistake(
        _dropped_is_masked,
        "a dropped pair taken for a masked one: its score still decides what"
        " the others get, and has a gradient.",
    ),
    Mistake(
        _factors_in_softmax,
        "the factors inside the softmax: they come after it, and its"
        " derivative knows nothing of them.",
    ),
    *(
        Mistake(
            partial(
                _factors_in_softmax,
                in_dp=in_dp,
                in_sums=in_sums,
                in_dv=in_dv,
            ),
            "a dZ that is 0 wherever a pair was dropped, as it is multiplied"
            " by P ∘ D: the softmax comes before dropout, and a dropped pair's"
            " score has a gradient too.",
        )
        for in_dp, in_sums, in_dv in product((0, 1), (0, 1, 2), (0, 1, 2))
    ),
    Mistake(
        _renormalised,
        "an output whose weights were made to sum to 1 again: after dropout"
        " they stay as they are.",
    ),
    Mistake(
        _sums_left_out,
        "a softmax without its row sums: was that the line to change?",
    ),
]


@checker
def check_gradient_bug(answer: object) -> Verdict:
    """Check the mended ``dropout_gradients(grad_output, query, key, value, factors)``."""
    rng = np.random.default_rng(2)
    some = (rng.random((5, 7)) < 0.7) / 0.7
    some[1] = 0.0
    cases = [
        Case("factors that are all 1", (*_arrays(), np.ones((5, 7)))),
        Case(
            "two queries, three keys and one pair dropped",
            (
                *_arrays(sizes=(2, 3, 4, 5)),
                np.array([[2.0, 0.0, 2.0], [2.0, 2.0, 2.0]]),
            ),
        ),
        Case(
            "dropout with probability 0.3, where one query lost every key",
            (*_arrays(), some),
        ),
        Case(
            "dropout and scores of up to a few thousand",
            (*_arrays(sharper=1000.0), some),
        ),
        Case("dropout in float32", _single(*_arrays(seed=5), some)),
    ]
    return check_function(
        "gradient-bug",
        answer,
        _with_factors,
        cases,
        BUG_MISTAKES,
        results=("dQ", "dK", "dV"),
    )


# ---------------------------------------------------------------------------------- breaking a test
def seems_right(
    gradients: Any, query: Array, key: Array, value: Array
) -> bool:
    """Say whether gradients pass a test that wrong ones pass too; the exercise is to find such.

    It looks at the shapes, at the sum of the keys' gradients, which is to be 0, and at whether
    QᵀdQ is the transpose of KᵀdK.
    """
    grad_query, grad_key, grad_value = gradients
    shapes = (
        grad_query.shape == query.shape
        and grad_key.shape == key.shape
        and grad_value.shape == value.shape
    )
    return (
        shapes
        and np.allclose(grad_key.sum(axis=0), 0, atol=1e-6)
        and np.allclose(
            query.T @ grad_query, (key.T @ grad_key).T, atol=1e-6
        )
    )


@checker
def check_gradient_break(answer: Any) -> Verdict:
    """Check ``impostor(grad_output, query, key, value)``: wrong gradients that seem right.

    The test that they are to pass is :func:`seems_right`.
    """
    name = "gradient-break"
    if (verdict := no_function(name, answer)) is not None:
        return verdict
    for sizes in (
        (5, 7, 4, 6),
        (3, 2, 6, 4),
        (1, 4, 2, 3),
        (2, 3, 5, 2),
        (12, 9, 3, 5),
        (40, 31, 8, 7),
    ):
        arrays = _arrays(sizes=sizes)
        what = "L = {}, S = {}, d_k = {} and d_v = {}".format(*sizes)
        try:
            result = call(answer, [array.copy() for array in arrays])
            if (verdict := returns_nothing(name, result)) is not None:
                return verdict
            says = _not_an_impostor(result, arrays)
        except AnswerError as error:
            says = f"{error}."
        if says:
            return wrong(name, f"With {what}, {says}", what)
    return right(name)


def _not_an_impostor(result: Any, arrays: tuple[Array, ...]) -> str:
    """Say why gradients are no wrong ones that pass the test; nothing if they are."""
    names = ("dQ", "dK", "dV")
    truth = scaled_dot_product_attention_backward(*arrays)
    if not isinstance(result, tuple | list) or len(result) != len(names):
        return (
            f"it returns {described(result)}, where dQ, dK and dV are"
            " expected."
        )
    gradients = [as_array(part) for part in result]
    for name, got, true in zip(names, gradients, truth, strict=True):
        if got.shape != true.shape:
            return (
                f"{name} has shape {got.shape}, where {true.shape} is"
                " expected: the test sees that."
            )
        if not np.isfinite(got).all():
            return f"{name} is not finite: the test sees that."
        if not got.any():
            return f"{name} is 0 everywhere, and that is excluded."
        if np.abs(got - true).max() <= 1e-2 * np.abs(true).max():
            return (
                f"{name} is right to within a hundredth of its largest entry:"
                " be more wrong."
            )
    if seems_right(gradients, *arrays[1:]):
        # Both equations are homogeneous: what solves them does so in any size.
        largest, true = (
            max(np.abs(part).max() for part in parts[:2])
            for parts in (gradients, truth)
        )
        grown = [max(1.0, true / largest) * part for part in gradients]
        if seems_right(grown, *arrays[1:]):
            return ""
        return (
            "dQ and dK pass only because they are next to 0 everywhere, and"
            " that is excluded."
        )
    if np.allclose(gradients[1].sum(axis=0), 0, atol=1e-6):
        return (
            "the test notices: QᵀdQ is not the transpose of KᵀdK. What is done"
            " to the one has to be matched in the other."
        )
    return "the test notices: the keys' gradients do not add up to 0."


# ------------------------------------------------------------------------------------------- a sink
def _sink(scores: Array, sink: float) -> tuple[Array, Array]:
    """Return the weights of the keys, (L, S), and that of the sink, (L, 1)."""
    column = np.full_like(scores[:, :1], sink)
    weights = softmax(np.concatenate([scores, column], axis=-1))
    return weights[:, :-1], weights[:, -1:]


def _sink_gradients(
    grad: Array, scores: Array, value: Array, sink: float
) -> tuple[Array, Array]:
    weights, of_sink = _sink(scores, sink)
    sums = (grad * (weights @ value)).sum(axis=-1, keepdims=True)
    grad_scores = weights * (grad @ value.T - sums)
    return grad_scores, np.asarray(-(of_sink * sums).sum())


def _sink_by_hand(
    grad: Array,
    scores: Array,
    value: Array,
    sink: float,
    *,
    top: Any = lambda scores, sink: 0.0,
    of_sink: Any = np.exp,
) -> tuple[Array, Array]:
    """Return the gradients from exponentials after `top` was taken off, and a term for the sink."""
    with np.errstate(all="ignore"):
        off = top(scores, sink)
        powers = np.exp(scores - off)
        total = powers.sum(axis=-1, keepdims=True) + of_sink(sink - off)
        weights = powers / total
        sums = (grad * (weights @ value)).sum(axis=-1, keepdims=True)
        rest = of_sink(sink - off) / total
        return weights * (grad @ value.T - sums), np.asarray(
            -(rest * sums).sum()
        )


def _largest(scores: Array, sink: float) -> Array:
    return np.asarray(scores.max(axis=-1, keepdims=True))


def _sink_of_ones(
    grad: Array, scores: Array, value: Array, sink: float
) -> tuple[Array, Array]:
    """Return the gradients with a value of ones for the sink."""
    weights, of_sink = _sink(scores, sink)
    output = weights @ value + of_sink
    sums = (grad * output).sum(axis=-1, keepdims=True)
    of_one = grad.sum(axis=-1, keepdims=True)
    return weights * (grad @ value.T - sums), np.asarray(
        (of_sink * (of_one - sums)).sum()
    )


def _sink_forgotten(
    grad: Array, scores: Array, value: Array, sink: float
) -> tuple[Array, Array]:
    grad_scores, _ = _sink_gradients(grad, scores, value, -np.inf)
    return grad_scores, np.asarray(0.0)


def _sink_of_zero(
    grad: Array, scores: Array, value: Array, sink: float
) -> tuple[Array, Array]:
    return _sink_gradients(grad, scores, value, 0.0)


def _other_sink_gradient(change: Any) -> Any:
    """Return the right dZ with another gradient of the sink."""

    def mistaken(
        grad: Array, scores: Array, value: Array, sink: float
    ) -> tuple[Array, Array]:
        grad_scores, _ = _sink_gradients(grad, scores, value, sink)
        weights, of_sink = _sink(scores, sink)
        sums = (grad * (weights @ value)).sum(axis=-1, keepdims=True)
        return grad_scores, np.asarray(change(of_sink, sums))

    return mistaken


def _other_row_sums(change: Any) -> Any:
    """Return the right gradient of the sink with other row sums in dZ."""

    def mistaken(
        grad: Array, scores: Array, value: Array, sink: float
    ) -> tuple[Array, Array]:
        _, grad_sink = _sink_gradients(grad, scores, value, sink)
        weights, _ = _sink(scores, sink)
        sums = (grad * (weights @ value)).sum(axis=-1, keepdims=True)
        total = weights.sum(axis=-1, keepdims=True)
        sums = change(sums, total)
        return weights * (grad @ value.T - sums), grad_sink

    return mistaken


SINK_MISTAKES = [
    Mistake(
        _sink_forgotten,
        "attention without the sink: it takes a part of every row's weight.",
    ),
    Mistake(
        _sink_of_zero,
        "a sink whose score is always 0: it is an argument.",
    ),
    Mistake(
        _other_sink_gradient(lambda p, rho: (p * rho).sum()),
        "a sink's gradient with the wrong sign: where g·o > 0, more weight for"
        " the sink lowers the loss.",
    ),
    Mistake(
        _other_sink_gradient(lambda p, rho: 0.0),
        "a sink that hears nothing. Its value is 0, but its weight is taken"
        " from the others.",
    ),
    Mistake(
        _other_sink_gradient(lambda p, rho: -(p * rho).mean()),
        "a mean over the queries: one number serves them all, and a change of"
        " it is a change in every place.",
    ),
    Mistake(
        _other_sink_gradient(lambda p, rho: -rho.sum()),
        "a sink's gradient that does not ask how much weight the sink has.",
    ),
    Mistake(
        _other_sink_gradient(lambda p, rho: -(p * (1 - p) * rho).sum()),
        "an output that the sink's weight had to pass twice: one factor too"
        " many.",
    ),
    *(
        Mistake(
            _other_sink_gradient(change),
            "the derivative of the sink's weight by its own score, without"
            " what arrives at the output.",
        )
        for change in (
            lambda p, rho: (p * (1 - p)).sum(),
            lambda p, rho: -(p * (1 - p)).sum(),
        )
    ),
    Mistake(
        _sink_of_ones,
        "a sink that hands over 1: it hands over nothing.",
    ),
    Mistake(
        partial(_sink_by_hand, top=_largest),
        "a row's maximum that leaves the sink out: a sink far above all scores"
        " overflows, and a row of nothing but -inf is -inf less -inf.",
    ),
    Mistake(
        partial(
            _sink_by_hand,
            top=lambda z, s: np.where(
                np.isinf(_largest(z, s)), 0.0, _largest(z, s)
            ),
        ),
        "a row's maximum that leaves the sink out: a sink far above all scores"
        " overflows.",
    ),
    Mistake(
        partial(_sink_by_hand, top=lambda z, s: np.maximum(z.max(), s)),
        "one maximum for the whole array: a row far below it, and the sink"
        " too, becomes 0/0.",
    ),
    Mistake(
        partial(_sink_by_hand, top=lambda z, s: 0.0),
        "exponentials of the scores and of the sink as they are: near 710 they"
        " overflow.",
    ),
    *(
        Mistake(
            partial(_sink_by_hand, top=top, of_sink=lambda s: s),
            "the sink's score in the place of its exponential.",
        )
        for top in (lambda z, s: 0.0, _largest)
    ),
    Mistake(
        _other_row_sums(lambda rho, total: rho / total),
        "scores measured from the mean of the values under the keys' weights"
        " made to sum to 1. The output is what the weights make as they are.",
    ),
    Mistake(
        _other_row_sums(lambda rho, total: 0.0 * rho),
        "a softmax that is passed by its weights alone: with a sink too, what"
        " one key gains the others lose.",
    ),
]


@checker
def check_gradient_sink(answer: object) -> Verdict:
    """Check ``sink_gradients(grad_output, scores, value, sink)``: dZ, and ds for all queries."""

    def case(
        what: str,
        L: int,
        S: int,
        d_v: int,
        sink: float,
        shift: float = 0.0,
    ) -> Case:
        rng = np.random.default_rng(L)
        shapes = ((L, d_v), (L, S), (S, d_v))
        grad, scores, value = (rng.normal(size=shape) for shape in shapes)
        return Case(what, (grad, scores + shift, value, sink))

    plain = case("five queries, seven keys and the sink 0.4", 5, 7, 6, 0.4)
    grad, scores, value, sink = plain.arguments
    masked = scores.copy()
    masked[:, 3] = masked[2] = -np.inf
    apart = [array.copy() for array in (grad, scores, value)]
    apart[1][0] += 2000.0
    cases = [
        case("one query, two keys and the sink 0.7", 1, 2, 3, 0.7),
        plain,
        Case(
            "some scores of -inf, a whole row of them among these",
            (grad, masked, value, sink),
        ),
        case("scores near 1000 and the sink -1.5", 4, 5, 3, -1.5, 1e3),
        case("scores near 0 and the sink 1000", 4, 5, 3, 1e3),
        Case(
            "rows whose scores lie 2000 apart, and the sink 0.5",
            (*apart, 0.5),
        ),
        Case(
            "float32 and the sink -0.6",
            (*_single(grad, scores, value), -0.6),
        ),
    ]
    return check_function(
        "gradient-sink",
        answer,
        _sink_gradients,
        cases,
        SINK_MISTAKES,
        results=("dZ", "ds"),
    )
