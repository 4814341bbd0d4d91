"""Checkers of the exercises on *What heads learn*."""

from __future__ import annotations

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
    call,
    check_choice,
    check_function,
    check_numbers,
    checker,
    described,
    no_function,
    returns_nothing,
    right,
    unanswered,
    wrong,
)
from attention.reference import softmax

Array = np.ndarray[Any, Any]


def _normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@checker
def check_learn_notes(answer: object) -> Verdict:
    """Check what the last A of A B A C A gets, where a match has the score log 6."""
    return check_numbers(
        "learn-notes",
        answer,
        [3 / 15, 6 / 15, 6 / 15],
        {
            "a search for A among the tokens: the search is to go through the"
            " notes.": [
                18 / 20,
                1 / 20,
                1 / 20,
            ],
            "the two matches alone: the other keys have the score 0, whose"
            " exponential is 1.": [0, 1 / 2, 1 / 2],
            "an average in which no key counts more than another.": [
                3 / 5,
                1 / 5,
                1 / 5,
            ],
            "the last match alone: A has been followed twice.": [
                3 / 10,
                1 / 10,
                6 / 10,
            ],
            "the first match alone: A has been followed twice.": [
                3 / 10,
                6 / 10,
                1 / 10,
            ],
            "what comes out without the query's own position, which it may"
            " see.": [2 / 14, 6 / 14, 6 / 14],
            "the sums of the exponentials: they have yet to be divided.": [
                3,
                6,
                6,
            ],
        },
    )


def map_panels() -> dict[str, Array]:
    """Return the weights in the figure of the exercise, by the panels' letters."""
    i, causal = np.arange(8), np.tri(8, dtype=bool)
    places = {
        "A": i - 4,
        "B": i - 1,
        "C": np.where(i < 4, -1, i - 3),
        "D": i,
    }
    panels = {
        letter: softmax(
            np.where(causal, 4.0 * (i == looks[:, None]), -np.inf)
        )  # even where there is no place
        for letter, looks in places.items()
    }
    return {**panels, "E": panels["C"].T}


@checker
def check_learn_map(answer: object) -> Verdict:
    """Check the panel, A to E, that shows an induction head."""
    return check_choice(
        "learn-map",
        answer,
        "C",
        {
            "A": "in its second copy each query looks at the first copy of its"
            " own token, and not at what followed.",
            "B": "each of its queries looks one place back, in both copies"
            " alike: that writes the notes.",
            "D": "each of its queries looks at itself.",
            "E": "in it queries look at keys that come later, which a causal"
            " mask forbids: something is wrong with the drawing.",
        },
    )


# --------------------------------------------------------------------------- scores of habits
def _mean_at(weights: Array, query: Array, key: Array) -> Array:
    return np.asarray(weights[..., query, key].mean(axis=(0, 2)))


def _habits(
    previous: Callable[[int], tuple[Array, Array]] = lambda n: (
        np.arange(1, n),
        np.arange(n - 1),
    ),
    induction: Callable[[int], tuple[Array, Array]] = lambda n: (
        np.arange(n, 2 * n - 1),
        np.arange(1, n),
    ),
) -> Callable[[Array], tuple[Array, Array]]:
    """Return a function that takes both scores at places of each block's length n."""

    def scores(weights: Array) -> tuple[Array, Array]:
        n = weights.shape[-1] // 2
        return (
            _mean_at(weights, *previous(n)),
            _mean_at(weights, *induction(n)),
        )

    return scores


@checker
def check_learn_habits(answer: object) -> Verdict:
    """Check ``habits(weights)``: each head's scores as previous-token and induction head."""

    def case(B: int, H: int, n: int, dtype: str = "float64") -> Case:
        scores = _normal(B, H, 2 * n, 2 * n, seed=n)
        scores[..., ~np.tri(2 * n, dtype=bool)] = -np.inf
        what = (
            f"{dtype} weights of shape {scores.shape}, blocks of {n} tokens"
        )
        return Case(what, (softmax(scores).astype(dtype),))

    def summed(weights: Array) -> tuple[Array, Array]:
        previous, induction = _habits()(weights)
        n = weights.shape[-1] // 2
        return (n - 1) * previous, (n - 1) * induction

    def by_peak(weights: Array) -> tuple[Array, Array]:
        return _habits()((weights == weights.max(-1, keepdims=True)) * 1.0)

    def at(
        queries: Callable[[int], range], back: Callable[[int], int]
    ) -> Any:
        """Take some queries with the keys so many places back."""
        return lambda n: (
            np.array(queries(n)),
            np.array(queries(n)) - back(n),
        )

    def late(n: int) -> range:
        return range(n, 2 * n - 1)

    cases = [
        case(1, 1, 3),
        case(2, 3, 5),
        case(3, 2, 7, "float32"),
    ]
    return check_function(
        "learn-habits",
        answer,
        _habits(),
        cases,
        [
            Mistake(
                _habits(previous=at(lambda n: range(1, 2 * n), lambda n: 1)),
                "a previous-token score over both copies: only notes in the"
                " first copy are ever looked for.",
            ),
            Mistake(
                _habits(induction=at(late, lambda n: n)),
                "the weight on the first copy of the query's own token: the"
                " answer stands one place after it.",
            ),
            Mistake(
                _habits(induction=at(late, lambda n: n + 1)),
                "the weight one place before the first copy of the token: the"
                " answer stands after it.",
            ),
            Mistake(
                _habits(
                    induction=at(lambda n: range(n, 2 * n), lambda n: n - 1)
                ),
                "an induction score that counts the last query too: after it"
                " comes no token of the sequence.",
            ),
            Mistake(
                _habits(
                    induction=at(
                        lambda n: range(n - 1, 2 * n), lambda n: n - 1
                    )
                ),
                "the whole diagonal n - 1 places back: it holds one query too"
                " many at either end.",
            ),
            Mistake(
                _habits(previous=at(late, lambda n: 1)),
                "a previous-token score of the second copy: the notes that are"
                " looked for stand in the first.",
            ),
            Mistake(
                _habits(previous=at(lambda n: range(1, n + 1), lambda n: 1)),
                "a previous-token score that counts query n too, the first of"
                " the second copy.",
            ),
            Mistake(
                _habits(previous=at(range, lambda n: 1)),
                "a previous-token score with one query too many: query 0 has"
                " no key before it, and the index -1 is that of the last key.",
            ),
            Mistake(
                _habits(previous=at(lambda n: range(1, n), lambda n: 0)),
                "the weight on the query's own position, where that on the"
                " position before it is wanted.",
            ),
            Mistake(
                _habits(
                    induction=at(
                        lambda n: range(n + 1, 2 * n - 1), lambda n: n - 1
                    )
                ),
                "an induction score without query n: with the second copy of"
                " the first token, the next one is known.",
            ),
            Mistake(
                _habits(
                    induction=at(
                        lambda n: range(n, 2 * n - 2), lambda n: n - 1
                    )
                ),
                "an induction score without query 2n - 2: one more token comes"
                " after it, and can be predicted.",
            ),
            Mistake(
                lambda weights: _habits()(weights.swapaxes(-1, -2)),
                "zeros from above the diagonal, as where queries and keys are"
                " exchanged, or like a result that was never filled: the last"
                " axis is the keys'.",
                constant=True,
            ),
            Mistake(summed, "sums of weights, where a mean is wanted."),
            Mistake(
                by_peak,
                "how often the largest weight is there: the score is the mean"
                " of the weight itself.",
            ),
        ],
        results=("the previous-token score", "the induction score"),
    )


# ---------------------------------------------------------------------- what each head adds
def _added(
    weights: Array,
    value: Array,
    stored: Array,
    *,
    turned: bool = True,
    by_head: bool = True,
) -> Array:
    """Return each head's contribution, right or with one of two bugs."""
    H, d_v = value.shape[1], value.shape[-1]
    W_O = stored.T if turned else stored
    blocks = (
        W_O.reshape(H, d_v, -1)
        if by_head
        else W_O.reshape(d_v, H, -1).swapaxes(0, 1)
    )
    return np.asarray(weights @ value @ blocks)


@checker
def check_learn_contributions(answer: object) -> Verdict:
    """Check ``each_adds(weights, value, stored)``: the contribution of every head."""

    def expected(weights: Array, value: Array, stored: Array) -> Array:
        d_model, (_, H, _, d_v) = len(stored), value.shape
        columns = stored.reshape(d_model, H, d_v)
        heads = np.einsum("bhij,bhjr->bhir", weights, value)
        return np.asarray(np.einsum("bhir,dhr->bhid", heads, columns))

    def case(
        B: int, H: int, L: int, S: int, d_v: int, d_model: int
    ) -> tuple[str, list[Array]]:
        what = f"B, H, L, S, d_v, d_model = {(B, H, L, S, d_v, d_model)}"
        weights = softmax(_normal(B, H, L, S))
        value = _normal(B, H, S, d_v, seed=1)
        return what, [weights, value, _normal(d_model, H * d_v, seed=2)]

    sizes = [
        (1, 2, 3, 3, 2, 5),
        (2, 3, 4, 5, 2, 7),
        (3, 2, 6, 4, 5, 10),
    ]
    made = [case(*some) for some in sizes]
    cases = [Case(what, tuple(arrays)) for what, arrays in made]
    what, arrays = made[1]
    single = tuple(x.astype(np.float32) for x in arrays)
    cases.append(Case(f"float32 and {what}", single))
    masked = [x.copy() for x in arrays]
    masked[0][:, :, 0] = 0.0
    cases.append(
        Case(f"a query that sees nothing, and {what}", tuple(masked))
    )
    return check_function(
        "learn-contributions",
        answer,
        expected,
        cases,
        [
            Mistake(
                lambda p, v, w: _added(p, v, w, turned=False, by_head=False),
                "the function as it was given.",
            ),
            Mistake(
                lambda p, v, w: _added(p, v, w, turned=False),
                "heads cut out of the matrix as it is stored: PyTorch stores"
                " the transposed one.",
            ),
            Mistake(
                lambda p, v, w: _added(p, v, w, by_head=False),
                "rows dealt out to the heads in turn: a head's rows stand"
                " together.",
            ),
            Mistake(
                lambda p, v, w: _added(p, v, w) / v.shape[1],
                "an average over the heads: they are added, and each adds what"
                " it has.",
            ),
            Mistake(
                lambda p, v, w: _added(np.ones_like(p), v, w),
                "values that have not been weighted.",
            ),
            Mistake(
                lambda p, v, w: _added(p.swapaxes(-1, -2), v, w),
                "weights with queries and keys exchanged.",
            ),
        ],
    )


# ------------------------------------------------------------------- other weights, same output
VALUES = np.array(
    [[0, 0], [4, 0], [0, 4], [4, 4], [2, 1], [2, 3]], dtype=float
)
WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1, 0.0, 0.0])
MOVED = 0.7
ROUNDING = 5e-4
"""How far the sum of weights that were rounded may be from 1; components of values go up to 4."""


@checker
def check_learn_weights(answer: object) -> Verdict:
    """Check six weights, other than given ones, with the same output."""
    name, what = "learn-weights", "the answer"
    if unanswered(answer):
        return blank(name)
    try:
        p = as_array(answer).astype(float)
    except AnswerError:
        return wrong(
            name,
            f"This is {described(answer)}, and six weights are wanted.",
            what,
        )
    if p.shape != (6,):
        return wrong(
            name,
            f"This has shape {p.shape}, and six weights are wanted.",
            what,
        )
    if not np.isfinite(p).all():
        return wrong(name, "It is not finite.", what)
    output, wanted = p @ VALUES, WEIGHTS @ VALUES
    if not np.allclose(output, wanted, rtol=0, atol=4 * ROUNDING):
        return wrong(
            name,
            f"These weights give the output ({output[0]:.6g},"
            f" {output[1]:.6g}), and the given ones ({wanted[0]:.6g},"
            f" {wanted[1]:.6g}).",
            what,
        )
    if says := _no_weights(p):
        return wrong(name, says, what)
    moved = float(np.abs(p - WEIGHTS).sum() / 2)
    if moved < MOVED - 1e-6:
        return wrong(
            name,
            f"The output is the same, and {moved:.4f} of the weight has moved:"
            f" {MOVED} or more is wanted. Which keys could take more?",
            what,
        )
    return right(name)


def _no_weights(p: Array) -> str:
    """Say why six numbers with the right output are no weights; nothing if they are."""
    if abs(p.sum() - 1) > ROUNDING:
        return (
            f"The output is right, but the weights add up to {p.sum():.6g} and"
            " not to 1."
        )
    if p.min() < -1e-6:
        return (
            f"The output is right, but key {int(p.argmin())} has a negative"
            " weight, which no softmax gives: go less far in the same"
            " direction."
        )
    return ""


# ---------------------------------------------------------------- two heads where one cannot do
# a, b, a', b' = 0, 1, 2, 3; rows s11, s12, s21, s22 of the chapter
FOUR = np.array(
    [[0, 1, 2, 3, 0], [0, 3, 2, 1, 0], [2, 1, 0, 3, 0], [2, 3, 0, 1, 0]]
)
NAMES = ("s11", "s12", "s21", "s22")
SIGNS = np.array([1, -1, -1, 1])
LEAST = 0.1


def four_leads(scores: Array, gains: Array) -> Array:
    r"""Return by how much b leads b' in four sequences, after one layer of heads.

    .. math:: \lambda = \sum_h \frac{\sum_j e_j\, y_j}{\sum_j e_j}

    Parameters
    ----------
    scores
        The score that the last query gives to each token at each position, in every head: shape
        (H, 5, 4), with a, b, a', b' = 0, 1, 2, 3.
    gains
        The logit of b less that of b' that the value there would produce alone, the same shape.

    Returns
    -------
    numpy.ndarray
        The leads in s11, s12, s21 and s22: shape (4,).
    """
    place = np.arange(5)
    powers = np.exp(scores[:, place, FOUR])  # (H, 4, 5)
    numerator = (powers * gains[:, place, FOUR]).sum(-1)
    return np.asarray((numerator / powers.sum(-1)).sum(0))


@checker
def check_learn_two_heads(answer: Any) -> Verdict:
    """Check a function that returns scores and gains of two heads which solve four sequences."""
    name, what = "learn-two-heads", "the four sequences"
    if (verdict := no_function(name, answer)) is not None:
        return verdict
    try:
        made = call(answer, ())
        if (verdict := returns_nothing(name, made)) is not None:
            return verdict
        scores, gains = _two_arrays(made)
    except AnswerError as error:
        says = str(error).rstrip(".")
        return wrong(name, f"{says[0].upper()}{says[1:]}.", what)
    leads = four_leads(scores, gains)
    if (SIGNS * leads >= LEAST).all():
        return right(name)
    return wrong(name, _why_not_all_four(scores, gains, leads), what)


def _two_arrays(made: object) -> tuple[Array, Array]:
    """Return scores and gains.

    Raises
    ------
    AnswerError
        They are not two arrays of shape (2, 5, 4) with numbers of moderate size.
    """
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise AnswerError(
            f"it returns {described(made)}, where scores and gains are"
            " expected"
        )
    arrays = [as_array(part).astype(float) for part in made]
    for array in arrays:
        if array.shape != (2, 5, 4):
            raise AnswerError(
                f"an array has shape {array.shape}, where (2, 5, 4) is"
                " expected"
            )
        if not (np.abs(array) <= 30).all():
            raise AnswerError("all numbers are to lie between -30 and 30")
    return arrays[0], arrays[1]


def _why_not_all_four(scores: Array, gains: Array, leads: Array) -> str:
    """Say what keeps two heads from being right in all four sequences."""
    good = SIGNS * leads >= LEAST
    found = "The leads are " + ", ".join(
        f"{lead + 0.0:.3g} in {name}"  # no -0
        for lead, name in zip(leads, NAMES, strict=True)
    )
    denominators = np.exp(scores[:, np.arange(5), FOUR]).sum(-1)  # (H, 4)
    with_gains = np.abs(gains).max(axis=(1, 2)) > 0  # (H,)
    if not with_gains.any():
        why = "No head has any gains yet."
    elif np.ptp(leads) < 1e-9:
        why = (
            "They are all the same: the four sequences hold the same letters,"
            " so that scores or gains must depend on the position too."
        )
    elif (SIGNS * leads <= -LEAST).all():
        why = (
            "All four are the wrong way round: b is to lead in s11 and s22."
        )
    elif not with_gains.all():
        why = "One head has no gains, and one head alone cannot do it."
    elif np.array_equal(*scores):
        why = (
            "Both heads have the same scores. So they share a denominator, and"
            " are one head with the gains added."
        )
    elif np.ptp(denominators, axis=1).max() < 1e-9 * denominators.max():
        why = (
            "Each head divides by the same sum in all four sequences. Then the"
            " leads are a sum as in the chapter's proof, which cannot work."
        )
    elif (SIGNS * leads > 0).all():
        why = (
            f"The signs are right: make every lead at least {LEAST} in"
            " absolute value."
        )
    else:
        bad = [name for name, g in zip(NAMES, good, strict=True) if not g]
        why = f"Look again at {' and '.join(bad)}."
    return f"{found}. {why}"
