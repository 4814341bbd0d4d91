"""Checkers of the exercises on *Why one average is not enough*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import combinations
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
    checker,
    described,
    right,
    unanswered,
    wrong,
)
from attention.reference import softmax

Array = np.ndarray[Any, Any]


@checker
def check_average_hull(answer: object) -> Verdict:
    """Check the points, of A to F, that a head can answer from (0, 0), (6, 0) and (0, 6)."""
    inside = (
        "write each of the points as an average of the three: which weights"
        " come out?"
    )
    return check_choice(
        "average-hull",
        answer,
        "AE",
        {
            "A": inside,
            "B": "it lies on a side of the triangle, and every allowed key"
            " has some weight.",
            "C": "it is a corner: the other two would have no weight at all.",
            "D": "the masked value does not count, and without it the point"
            " lies outside.",
            "E": inside,
            "F": "one of its components is below that of every value.",
        },
        several=True,
    )


def head_panels() -> dict[str, Array]:
    """Return the weights in the figure of the exercise, by the panels' letters."""
    queries = {  # each of shape (d_k, L), with d_k = 2
        "A": [[0, 0.8, 1.6, 2.4, 3.2, 4], [1, 1, 1, 1, 1, 1]],
        "B": [[-8, -4, -1.6, 2, 3.6, 6.8], [-16, -8, -3.2, 4, 7.2, 13.6]],
        "C": [
            [1, -0.2, -0.7, -1, -0.7, 0.9],
            [0.3, 1, 0.7, 0.2, -0.8, -0.4],
        ],
        "D": [[1.3, 0.8, 0.4, -0.5, -1, -1.4], [1, 1, 1, 1, 1, 1]],
    }
    keys = {  # each of shape (d_k, S)
        "A": [[0, 1, 2, 3, 4], [0, -0.5, -2, -4.5, -8]],
        "B": [
            [0, 0.03, 0.1, -0.02, -0.08],
            [0.025, -0.127, 0.025, 0.147, -0.01],
        ],
        "C": [[1.6, 0.3, -0.7, 0.1, -0.8], [-0.4, 0.2, 1.5, 0.5, -1.2]],
        "D": [[0.4, 1.1, 0.1, -1, -0.3], [0.1, 0.5, -1.2, 0.6, 0.2]],
    }
    return {
        letter: softmax(np.array(queries[letter]).T @ keys[letter])
        for letter in queries
    }


@checker
def check_average_figure(answer: object) -> Verdict:
    """Check the panel, A to D, whose weights come from a head of width 1."""
    return check_choice(
        "average-figure",
        answer,
        "B",
        {
            "A": "every key is the best of some query.",
            "C": "three keys are the best of some query.",
            "D": "two keys win, but look for the worst key of each row.",
        },
    )


# ---------------------------------------------------------------------------------- breaking a test
# The values of the exercise: three of them are the corners of their hull.
FIVE_VALUES = np.array([[0.0, 0], [6, 1], [1, 5], [2, 2], [3, 2]])


def seems_inside(point: Array, values: Array) -> bool:
    """Say whether a point lies between the values in four directions; it may be outside even so.

    The directions are (1, 0), (0, 1), (1, 1) and (1, -1).
    """
    directions = np.array([[1, 0], [0, 1], [1, 1], [1, -1]])
    along, there = values @ directions.T, directions @ point
    return bool(
        np.all((along.min(axis=0) <= there) & (there <= along.max(axis=0)))
    )


def _outside(point: Array, values: Array, slack: float = 1e-6) -> bool:
    """Whether a point of the plane lies in no triangle of values, no three of them on a line."""
    for three in combinations(values, 3):
        system = np.vstack([np.array(three).T, np.ones(3)])
        weights = np.linalg.solve(system, [*point, 1.0])
        if weights.min() >= -slack:
            return False
    return True


@checker
def check_average_break(answer: object) -> Verdict:
    """Check a point that :func:`seems_inside` the hull of the five values, and is not."""
    name, what = "average-break", "the answer"
    if unanswered(answer):
        return blank(name)
    try:
        point = as_array(answer).astype(np.float64)
    except AnswerError:
        return wrong(
            name,
            f"This is {described(answer)}, and a point of the plane is wanted.",
            what,
        )
    if point.shape != (2,):
        return wrong(
            name,
            f"Its shape is {point.shape}, where two numbers are wanted.",
            what,
        )
    if not np.isfinite(point).all():
        return wrong(name, "Both numbers are to be finite.", what)
    if not seems_inside(point, FIVE_VALUES):
        return wrong(
            name,
            "The test notices: in one of its four directions the point lies"
            " beyond all values.",
            what,
        )
    if not _outside(point, FIVE_VALUES):
        where = (
            "It is one of the values, and the hull has those."
            if np.isclose(FIVE_VALUES, point).all(axis=1).any()
            else "It is in the hull, an average of the values, or so near its"
            " rim that rounding decides: go further out."
        )
        return wrong(name, where, what)
    return right(name)


# ------------------------------------------------------------------------- the width that is needed
SMALLEST = 1e-4
"""A singular value below this is rounding."""


def _rank(matrix: Array, limit: float = SMALLEST) -> Array:
    sigma = np.linalg.svd(matrix, compute_uv=False)
    return np.asarray((sigma > limit).sum())


def _logs(weights: Array) -> Array:
    return np.log(weights.astype(np.float64))


def _centred(matrix: Array, axis: int = -1) -> Array:
    return np.asarray(matrix - matrix.mean(axis=axis, keepdims=True))


def _needed_width(weights: Array) -> Array:
    return _rank(_centred(_logs(weights)))


FROM_COLUMNS = (
    "a number taken from each key's column, be it the mean of the column or"
    " the log-weight of one query: what the softmax forgets is one number for"
    " each of its rows."
)

WIDTH_MISTAKES = [
    Mistake(
        lambda p: np.maximum(_needed_width(p), 1),
        "a width of at least 1: for uniform weights queries and keys are not"
        " needed at all, and the answer is 0.",
    ),
    Mistake(
        lambda p: np.linalg.matrix_rank(_centred(_logs(p))),
        "a rank that counts rounding: there is a limit for that.",
    ),
    Mistake(
        lambda p: _rank(_centred(np.log(p + 1e-12))),
        "a small number added before the logarithm: weights may be as small"
        " themselves.",
    ),
    Mistake(
        lambda p: _rank(_centred(_logs(p)), 10 * SMALLEST),
        "a limit that is too large: a singular value is compared with 10⁻⁴ as"
        " it is, and an eigenvalue of the matrix times its transpose is a"
        " square.",
    ),
    Mistake(
        lambda p: _rank(p.astype(np.float64)),
        "the full rank, which the weights have whatever the width was, and"
        " which rounding has too: the width is that of scores.",
    ),
    Mistake(
        lambda p: _rank(_logs(p)) - 1,
        "the rank of log P less one: it is not always one too many.",
    ),
    Mistake(
        lambda p: _rank(_centred(_logs(p), axis=-2)),
        FROM_COLUMNS,
    ),
    Mistake(
        lambda p: _rank(_logs(p) - _logs(p)[:1]),
        FROM_COLUMNS,
    ),
    Mistake(
        lambda p: _rank(_centred(_centred(_logs(p)), axis=-2)),
        "a mean taken over the queries as well: only the rows have one number"
        " that the softmax forgets.",
    ),
    Mistake(
        lambda p: _rank(_logs(p)),
        "the rank of log P, from which one number for all has been taken or"
        " none: scores are known up to one number in each row, and that can"
        " cost a dimension.",
    ),
    Mistake(
        lambda p: np.asarray(min(p.shape) - 1),
        "the smaller side of the weights less one: the shape alone does not"
        " tell.",
    ),
    Mistake(
        lambda p: np.asarray(p.shape[-1] - 1),
        "S - 1: the most that any pattern needs, and this one may need less.",
    ),
    Mistake(
        lambda p: np.asarray(len(np.unique(p.argmax(axis=-1)))),
        "the number of keys that win: even at width 2 all of them can.",
    ),
]


def _pattern(
    L: int,
    S: int,
    d_k: int,
    *,
    reach: float = 1.0,
    seed: int = 0,
    shared: bool = False,
) -> Array:
    """Return weights of width d_k; `shared` gives all queries one component in common."""
    rng = np.random.default_rng(seed)
    query, key = rng.normal(size=(L, d_k)), rng.normal(size=(S, d_k))
    if shared:
        query[:, 0] = 1.0
    return softmax(reach * query @ key.T)


def _with_a_last(sigma: float) -> Array:
    """Return weights whose centred logarithms have two large singular values and this one."""
    rng = np.random.default_rng(1)
    query, key = rng.normal(size=(5, 2)), rng.normal(size=(6, 2))
    query[2], key[4] = 0.0, key[1]  # what follows is at right angles to both
    scores = query @ key.T
    scores[2, [1, 4]] = sigma / np.sqrt(2), -sigma / np.sqrt(2)
    return softmax(scores)


@checker
def check_average_width(answer: object) -> Verdict:
    """Check ``needed_width(weights)``: the least d_k that gives weights (L, S)."""
    i, j = np.indices((5, 6))
    uniform = 1 + 1e-9 * np.random.default_rng(0).normal(size=(4, 6))
    cases = [
        # Here nearly every mistake comes to a number of its own.
        Case(
            "nine queries, twelve keys and d_k = 4",
            (_pattern(9, 12, 4, seed=1, shared=True),),
        ),
        Case("nine queries, seven keys and d_k = 3", (_pattern(9, 7, 3),)),
        Case(
            "a Gaussian window of five queries and six keys",
            (softmax(-((i - j) ** 2) / 2.0),),
        ),
        Case(
            "six queries, each of its own partner",
            (softmax(3.0 * np.eye(6)),),
        ),
        Case("two queries and five keys", (_pattern(2, 5, 4),)),
        Case(
            "weights of shape (4, 6) that are uniform but for rounding",
            (uniform / uniform.sum(axis=-1, keepdims=True),),
        ),
        Case(
            "weights as small as e^-90 at d_k = 2",
            (_pattern(9, 8, 2, reach=20.0),),
        ),
        Case(
            "nine queries, ten keys and d_k = 4 in float32",
            (_pattern(9, 10, 4).astype(np.float32),),
        ),
        Case(
            "five queries, six keys and a third singular value of 7e-4",
            (_with_a_last(7e-4),),
        ),
        Case(
            "five queries, six keys and a third singular value of 4e-5",
            (_with_a_last(4e-5),),
        ),
    ]
    return check_function(
        "average-width",
        answer,
        _needed_width,
        cases,
        WIDTH_MISTAKES,
    )


# -------------------------------------------------------------------------------- the bug: a window
def _window(times: Array, key_times: Array, sigma: float) -> Array:
    """Return the weights that fall like exp(-(t - t')² / 2σ²)."""
    apart = times[:, None] - key_times
    return softmax(-(apart**2) / (2 * sigma**2))


def _window_mistake(power: float, factor: float = 1.0) -> Any:
    """Return the window whose scores are divided by factor · σ to the power."""

    def mistaken(times: Array, key_times: Array, sigma: float) -> Array:
        wide = np.sqrt(factor * sigma**power)
        return _window(times, key_times, float(wide))

    return mistaken


def _with_square(share: float, signed: bool = True) -> Any:
    """Return the window whose scores have this share of the square of a key's time."""

    def mistaken(times: Array, key_times: Array, sigma: float) -> Array:
        product = np.outer(times, key_times if signed else abs(key_times))
        scores = product + share * key_times**2
        return softmax(scores / sigma**2)

    return mistaken


WINDOW_MISTAKES = [
    Mistake(
        _window_mistake(2, np.sqrt(2)),
        "a window that is too wide by the same factor for every σ. What does"
        " attention do to q·k before the softmax?",
    ),
    Mistake(
        _window_mistake(2, 2),
        "a scale that was met the wrong way round: now the window is wider"
        " still.",
    ),
    Mistake(
        _window_mistake(2, 1 / np.sqrt(2)),
        "a scale that was met twice over: now the window is too narrow.",
    ),
    Mistake(
        _window_mistake(1),
        "a division by σ, where the exponent has σ².",
    ),
    Mistake(
        _window_mistake(4),
        "a division by σ² in queries and keys alike, which makes σ⁴.",
    ),
    Mistake(
        _window_mistake(0),
        "a window that is as wide for every σ.",
    ),
    Mistake(
        _with_square(-0.5, signed=False),
        "a window for times from 0 on: times may be negative too.",
    ),
    Mistake(
        _with_square(0.0),
        "products t·t' alone: keys of late times win them all.",
    ),
    Mistake(
        _with_square(0.5),
        "a square with the wrong sign.",
    ),
    Mistake(
        _with_square(-1.0),
        "a square of the key's time without its factor ½: multiply out"
        " (t - t')² once more.",
    ),
]


def _weights_of(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return the weights that the queries and keys of an answer give, at the default scale."""

    @wraps(answer)
    def weights(times: Any, key_times: Any, sigma: float) -> Any:
        pair = answer(times, key_times, sigma)
        if pair is None or pair is ...:
            return None
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise AnswerError(
                f"it returns {described(pair)}, where a query and a key are"
                " expected"
            )
        query, key = map(as_array, pair)
        wanted = (len(times), 2), (len(key_times), 2)
        if (query.shape, key.shape) != wanted:
            raise AnswerError(
                f"query and key have the shapes {query.shape} and"
                f" {key.shape}, where {wanted[0]} and {wanted[1]} are expected"
            )
        return softmax(query @ key.T / np.sqrt(2))

    return weights


def _named(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return one result as a tuple, whose part a verdict can call by its name."""

    @wraps(function)
    def part(*arguments: Any) -> Any:
        result = function(*arguments)
        return None if result is None else (result,)

    return part


@checker
def check_average_window(answer: object) -> Verdict:
    """Check the mended ``window_head(times, key_times, sigma)``, by the weights it gives."""
    times, key_times = np.arange(4.0), np.array([0.5, 1, 2, 3.5, 5])
    cases = [
        Case("four queries, five keys and σ = 1", (times, key_times, 1.0)),
        Case("four queries, five keys and σ = 2", (times, key_times, 2.0)),
        Case(
            "times around -100 and σ = 0.5",
            (times[:3] - 100, key_times - 100, 0.5),
        ),
        Case(
            "float32 and σ = 3",
            (
                times.astype(np.float32),
                key_times.astype(np.float32),
                3.0,
            ),
        ),
    ]
    wrapped = (
        _named(_weights_of(answer))
        if callable(answer) and not isinstance(answer, type)
        else answer
    )
    return check_function(
        "average-window",
        wrapped,
        _named(_window),
        cases,
        [Mistake(_named(m.function), m.says) for m in WINDOW_MISTAKES],
        results=("the weight that attention computes from query and key",),
    )


# ----------------------------------------------------------------------------------- the least loss
def _least_loss(weights: Array, places: Sequence[int]) -> Array:
    """Return the sum of the squared distances of the places' unit vectors from the rows' span."""
    P = weights.astype(np.float64)
    units = np.eye(P.shape[-1])[list(places)]  # (m, S)
    found = np.linalg.lstsq(P.T, units.T, rcond=1e-5)[0]  # (H, m)
    loss = ((found.T @ P - units) ** 2).sum()
    return np.asarray(loss.round(12))


def _head_by_head(combine: Callable[..., Any]) -> Any:
    """Return the losses of the heads, each by itself, combined."""

    def mistaken(weights: Array, places: Sequence[int]) -> Array:
        losses = [_least_loss(row[None], places) for row in weights]
        return np.asarray(combine(losses))

    return mistaken


def _distances(weights: Array, places: Sequence[int]) -> Array:
    """Return the sum of distances that have not been squared."""
    losses = [_least_loss(weights, [place]) for place in places]
    return np.asarray(np.sqrt(losses).sum())


def _gains_added(weights: Array, places: Sequence[int]) -> Array:
    P = weights.astype(np.float64)
    gains = (P[:, list(places)] ** 2).sum(1) / (P**2).sum(1)
    return np.asarray(len(places) - gains.sum())


def _no_reader(weights: Array, places: Sequence[int]) -> Array:
    """Return the loss where head after head hands over one place, as it is."""
    P = weights.astype(np.float64)
    units = np.eye(P.shape[-1])[list(places)]
    nearest = ((units[:, None] - P) ** 2).sum(-1).min(axis=1)
    return np.asarray(nearest.sum())


def _places_alone(weights: Array, places: Sequence[int]) -> Array:
    """Return the loss with the weight on all other places forgotten."""
    places = list(places)
    return _least_loss(weights[:, places], range(len(places)))


AT_THESE_PLACES = (
    "what would be left if the heads looked at these places alone: weight"
    " elsewhere is noise to the reader."
)

ONE_HEAD = "the loss of one head alone: a reader may mix them all."

LOSS_MISTAKES = [
    Mistake(_head_by_head(lambda losses: losses[0]), ONE_HEAD),
    Mistake(_head_by_head(lambda losses: losses[-1]), ONE_HEAD),
    Mistake(
        _head_by_head(np.mean),
        "the mean of the heads' losses: a reader may mix the heads.",
    ),
    Mistake(
        _gains_added,
        "what each head saves by itself, added up: two heads that see the same"
        " save it once.",
    ),
    Mistake(
        lambda p, places: _least_loss(p.mean(axis=0)[None], places),
        "the loss of the heads' mean: a reader may weigh the heads as it"
        " likes.",
    ),
    Mistake(
        lambda p, places: np.asarray(len(places) - len(p)),
        AT_THESE_PLACES,
    ),
    Mistake(_places_alone, AT_THESE_PLACES),
    Mistake(
        lambda p, places: _least_loss(p, places) / len(places),
        "the mean over the places, where their sum is wanted.",
    ),
    Mistake(
        _distances,
        "the sum of the distances, where squared distances are wanted.",
    ),
    Mistake(
        lambda p, places: np.sqrt(_least_loss(p, places)),
        "the root of the sum: the squares themselves are wanted.",
    ),
    Mistake(
        _no_reader,
        "the averages themselves taken for answers: a linear reader comes"
        " after them, and may enlarge or subtract them.",
    ),
    Mistake(
        lambda p, places: len(places) - _least_loss(p, places),
        "what the heads save, and not what is left.",
    ),
]


@checker
def check_average_loss(answer: object) -> Verdict:
    """Check ``least_loss(weights, places)`` for the weights (H, S) of H heads."""
    rng = np.random.default_rng(0)

    def rows(H: int, S: int) -> Array:
        return softmax(rng.normal(size=(H, S)))

    blend = np.array([[0.75, 0.25, 0, 0, 0], [0.5, 0.5, 0, 0, 0]])
    same = rows(1, 6).repeat(2, axis=0)
    near = softmax(np.array([[1, 0, 2, 0, 1, 3], [1, 0.02, 2, 0, 1.01, 3]]))
    sharp = softmax(np.array([[90.0, 0, 1, 2, 3], [0, 1, 88, 2, 1]]))
    cases = [
        Case(
            "one head, five positions and two places",
            (rows(1, 5), [0, 3]),
        ),
        Case(
            "two heads, five positions and two places",
            (rows(2, 5), [1, 4]),
        ),
        Case("two blends of two places, nothing elsewhere", (blend, [0, 1])),
        Case(
            "two heads, seven positions and three places",
            (rows(2, 7), [5, 0, 2]),
        ),
        Case("two heads with the same weights", (same, [0, 4])),
        Case(
            "three heads, of which one is the mean of the others",
            (np.vstack([blend, blend.mean(0)]), [0, 2]),
        ),
        Case("two heads with nearly the same weights", (near, [1, 4])),
        Case("two sharp heads on two places", (sharp, [0, 2])),
        Case(
            "three heads in float32, eight positions and four places",
            (rows(3, 8).astype(np.float32), [7, 1, 2, 4]),
        ),
    ]
    return check_function(
        "average-loss", answer, _least_loss, cases, LOSS_MISTAKES
    )
