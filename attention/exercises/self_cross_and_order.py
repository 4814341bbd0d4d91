"""Checkers of the exercises on *Self, cross, and order*."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch

from attention import positions as of_package
from attention.exercises._checking import (
    EXACT,
    Case,
    Mistake,
    Verdict,
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
from attention.reference import scaled_dot_product_attention, softmax

Array = np.ndarray[Any, Any]


def _normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@checker
def check_order_count(answer: object) -> Verdict:
    """Check how many of 720 orders leave four masks alone: four numbers."""
    return check_numbers(
        "order-count",
        answer,
        [48, 2, 72, 1],
        {
            "right but for the padding: the places that nobody looks at may"
            " change among themselves too.": [24, 2, 72, 1],
            "right but for the padding: each order of the real ones goes with"
            " each order of the others.": [26, 2, 72, 1],
            "right but for the window: look for one more order that keeps all"
            " neighbours neighbours.": [48, 1, 72, 1],
            "right but for the two texts: they may also change places as"
            " wholes.": [48, 2, 36, 1],
            "right but for the two texts: each order of the one goes with each"
            " order of the other.": [48, 2, 12, 1],
            "right but for the causal mask: the order that moves nothing"
            " counts.": [48, 2, 72, 0],
            "the count without a mask, four times: here the mask stays where"
            " it is.": [720] * 4,
        },
        tolerance=EXACT,
    )


def shuffle_panels() -> dict[str, Array]:
    """Return the weights in the figure of the exercise, by the panels' names."""
    percent = [
        [10, 20, 30, 40],
        [15, 55, 5, 25],
        [50, 5, 35, 10],
        [20, 10, 10, 60],
    ]
    weights, order = np.array(percent) / 100, np.array([2, 0, 3, 1])
    back = order.argsort()
    return {
        "a b c d": weights,
        "A": weights[order],
        "B": weights[:, order],
        "C": weights[back][:, back],
        "D": weights[order][:, order],
    }


@checker
def check_order_shuffle(answer: object) -> Verdict:
    """Check the panel, A to D, that shows the weights of the reordered input."""
    return check_choice(
        "order-shuffle",
        answer,
        "D",
        {
            "A": "its rows have moved and its columns have not. The keys are"
            " another input now, as the queries are.",
            "B": "its columns have moved and its rows have not. The queries"
            " are another input now, as the keys are.",
            "C": "rows and columns have moved, by the inverse order: read off"
            " what the first letter gives to itself.",
        },
    )


# ---------------------------------------------------------------------- twins for a causal layer
LONGEST = 40
WIDTH = 6


def last_output(letters: str, seed: int = 0) -> Array:
    """Return the output of a causal layer without codes at the last of some letters.

    Embeddings, projections and the residual connection are those of a model drawn at random.

    Parameters
    ----------
    letters
        Small letters, a to z.
    seed
        Of the model.

    Returns
    -------
    numpy.ndarray
        Six numbers.
    """
    rng = np.random.default_rng(seed)
    embed = rng.normal(size=(26, WIDTH))
    W_Q, W_K, W_V = rng.normal(size=(3, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    x = embed[[ord(letter) - ord("a") for letter in letters]]  # (L, d_model)
    last = x[-1:]  # it sees all, so that no mask is needed
    output, _ = scaled_dot_product_attention(last @ W_Q, x @ W_K, x @ W_V)
    return np.asarray((last + output)[0])


@checker
def check_order_twins(answer: object) -> Verdict:
    """Check two texts of different lengths that ``last_output`` cannot tell apart."""
    name, what = "order-twins", "the answer"
    if unanswered(answer):
        return blank(name)
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        count = (
            f" of length {len(answer)}"
            if isinstance(answer, tuple | list)
            else ""
        )
        return wrong(
            name,
            f"This is {described(answer)}{count}, and a pair of texts is"
            " wanted.",
            what,
        )
    for text in answer:
        if not isinstance(text, str) or not re.fullmatch("[a-z]+", text):
            return wrong(
                name, "Each is to be a text of small letters, a to z.", what
            )
        if len(text) > LONGEST:
            return wrong(
                name, f"No text needs more than {LONGEST} letters.", what
            )
        if len(set(text)) < 2:
            return wrong(
                name,
                f"“{text}” has one letter only: equal inputs give equal"
                " outputs, as the chapter has shown.",
                what,
            )
    one, other = answer
    if len(one) == len(other):
        return wrong(name, "The texts are to differ in length.", what)
    if all(
        np.allclose(last_output(one, seed), last_output(other, seed))
        for seed in range(3)
    ):
        return right(name)
    return wrong(name, _why_not_twins(one, other), what)


def _why_not_twins(one: str, other: str) -> str:
    """Say by what a layer tells two texts apart."""
    told = "The outputs differ."
    if one[-1] != other[-1]:
        return f"{told} The texts end in different letters, so that another one asks."
    if alone := sorted({*one} ^ {*other}):
        return f"{told} Only one of the texts has the letter {alone[0]}."
    letter = next(
        letter
        for letter, times in Counter(one).items()
        if times * len(other) != other.count(letter) * len(one)
    )
    return (
        f"{told} The texts have the same letters and end alike, but the letter"
        f" {letter} does not count for the same in the two averages."
    )


# ----------------------------------------------------------------------------- sinusoidal codes
def _codes(
    x: Array,
    first: int,
    *,
    by_batch: bool = False,
    slow: bool = False,
    halves: bool = False,
    cosines_first: bool = False,
    end: bool = False,
) -> Array:
    """Return inputs with codes, right or with mistakes."""
    pairs = np.arange(x.shape[-1] // 2)
    whole = x.shape[-1] - 2 if end else x.shape[-1]
    omega = 10_000.0 ** (-(1 if slow else 2) * pairs / whole)
    t = first + np.arange(x.shape[0 if by_batch else 1])
    angles = t[:, None] * omega
    parts = [np.sin(angles), np.cos(angles)]
    if cosines_first:
        parts.reverse()
    code = (
        np.concatenate(parts, axis=-1)
        if halves
        else np.stack(parts, axis=-1).reshape(len(t), -1)
    )
    return np.asarray(x + (code[:, None] if by_batch else code))


BUGS = {
    "by_batch": "codes counted along the batch: all positions of a sequence"
    " get the same one.",
    "slow": "frequencies of another progression: compare the exponent with the"
    " chapter's.",
    "halves": "sines in one half and cosines in the other: components 2r and"
    " 2r + 1 belong together.",
}


def _codes_with(left: dict[str, bool]) -> Callable[..., Array]:
    return lambda x, first: _codes(x, first, **left)


def _bugs_left() -> list[Mistake]:
    """Return what has some of the three bugs left, and what is said of the first of them."""
    some = [
        dict(zip(BUGS, flags, strict=True))
        for flags in product((False, True), repeat=3)
        if any(flags)
    ]
    return [
        Mistake(
            _codes_with(left),
            BUGS[next(bug for bug in BUGS if left[bug])]
            + (
                " It is not the only bug left."
                if sum(left.values()) > 1
                else ""
            ),
        )
        for left in some
    ]


@checker
def check_order_codes(answer: object) -> Verdict:
    """Check ``codes_added(x, first)``: a batch with the sinusoidal codes of its positions added."""

    def expected(x: Array, first: int) -> Array:
        t = first + torch.arange(x.shape[1])
        code = of_package.sinusoidal(t, x.shape[-1], dtype=torch.float64)
        return np.asarray(x + code.numpy())

    def case(*shape: int, first: int) -> Case:
        what = f"float32 inputs of shape {shape} and first = {first}"
        return Case(what, (_normal(*shape).astype(np.float32), first))

    far = "float64 inputs and first = 100 000, where angles need double"
    cases = [
        case(1, 3, 4, first=0),
        case(5, 2, 6, first=0),
        case(3, 4, 10, first=7),
        Case(f"{far} precision", (_normal(2, 5, 6), 100_000)),
        case(2, 3, 8, first=999_983),
    ]
    return check_function(
        "order-codes",
        answer,
        expected,
        cases,
        [
            *_bugs_left(),
            Mistake(
                _codes_with({"cosines_first": True}),
                "cosines where the sines belong, and the other way round.",
            ),
            Mistake(
                lambda x, first: _codes(x, first, end=True),
                "frequencies that go all the way to 1 / 10 000: by the"
                " chapter's formula they stop before.",
            ),
            Mistake(
                lambda x, first: _codes(x, 0),
                "codes that begin at 0, whatever the first position is.",
            ),
            Mistake(
                lambda x, first: _codes(x, first + 1),
                "codes that begin one position late.",
            ),
            Mistake(
                lambda x, first: expected(x, first) - x,
                "the codes alone: they are to be added to the inputs.",
            ),
        ],
    )


# ---------------------------------------------------------------------------- rotary embedding
def _turned(
    x: Array,
    t: Array,
    *,
    interleaved: bool = True,
    power: float = 2.0,
) -> Array:
    """Return vectors turned by their positions, in NumPy."""
    half = x.shape[-1] // 2
    omega = 10_000.0 ** (-power * np.arange(half) / x.shape[-1])
    turn = np.exp(1j * t[:, None] * omega)
    if interleaved:
        pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack((pairs.real, pairs.imag), -1).reshape(x.shape)
    pairs = (x[..., :half] + 1j * x[..., half:]) * turn
    return np.concatenate((pairs.real, pairs.imag), axis=-1)


def _by_package(x: Array, t: Array) -> Array:
    """Return vectors turned by their positions, in pairs of neighbours, by the package."""
    turned = of_package.rope(
        torch.from_numpy(x.astype(np.float64)),
        torch.from_numpy(t),
        pairing="interleaved",
    )
    return np.asarray(turned.numpy())


def _halves_swapped(x: Array, t: Array) -> Array:
    """Turn with the angles of neighbours and the partners of the other pairing."""
    half = x.shape[-1] // 2
    omega = 10_000.0 ** (-2.0 * np.arange(half) / x.shape[-1])
    angles = np.repeat(t[:, None] * omega, 2, axis=-1)  # (L, d_k)
    partner = np.concatenate((-x[..., half:], x[..., :half]), axis=-1)
    return np.asarray(x * np.cos(angles) + partner * np.sin(angles))


def _no_minus(x: Array, t: Array) -> Array:
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos, sin = np.cos(t[:, None] * omega), np.sin(t[:, None] * omega)
    a, b = x[..., 0::2], x[..., 1::2]
    both = (a * cos + b * sin, a * sin + b * cos)
    return np.stack(both, axis=-1).reshape(x.shape)


def _second_from_the_turned(x: Array, t: Array) -> Array:
    """Compute the second member of each pair from the first after its turn."""
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos, sin = np.cos(t[:, None] * omega), np.sin(t[:, None] * omega)
    first = x[..., 0::2] * cos - x[..., 1::2] * sin
    both = (first, first * sin + x[..., 1::2] * cos)
    return np.stack(both, axis=-1).reshape(x.shape)


def _left_as_halves(x: Array, t: Array) -> Array:
    pairs = _turned(x, t)
    return np.concatenate((pairs[..., 0::2], pairs[..., 1::2]), axis=-1)


@checker
def check_order_rope(answer: object) -> Verdict:
    """Check ``turned(x, positions)``: rotary embedding in pairs of neighbours."""

    def case(*shape: int, at: list[int]) -> Case:
        what = f"float32 vectors of shape {shape} at the positions {at}"
        return Case(what, (_normal(*shape).astype(np.float32), np.array(at)))

    far = np.array([100_000, 100_001, 100_002])
    places = "positions beyond 100 000, whose angles need double precision"
    cases = [
        case(2, 2, at=[0, 1]),
        case(3, 4, at=[0, 1, 2]),
        case(2, 5, 6, at=[0, 1, 2, 3, 4]),
        case(2, 3, 4, 8, at=[7, 0, 31, 2]),
        Case(f"float64 vectors at {places}", (_normal(3, 6), far)),
        case(3, 8, at=[999_983, 5, 700_001]),
    ]
    return check_function(
        "order-rope",
        answer,
        _by_package,
        cases,
        [
            Mistake(
                lambda x, t: _turned(x, t, interleaved=False),
                "the other pairing: here component 2r turns with 2r + 1.",
            ),
            Mistake(
                _halves_swapped,
                "the angles of one pairing with the partners of the other.",
            ),
            Mistake(
                lambda x, t: _turned(x, -t),
                "a turn the other way round: compare the signs of the sines"
                " with those of the chapter's matrix.",
            ),
            Mistake(
                _second_from_the_turned,
                "second members computed from first members that have been"
                " turned already.",
            ),
            Mistake(
                _left_as_halves,
                "the right turn, with all first members in front of all second"
                " ones: each pair is to stay at its two places.",
            ),
            Mistake(
                _no_minus,
                "a turn in which both sines have the same sign: that does not"
                " keep lengths.",
            ),
            Mistake(
                lambda x, t: _turned(x, t, power=1.0),
                "frequencies of another progression: compare the exponent with"
                " the chapter's.",
            ),
            Mistake(
                lambda x, t: _turned(x, np.arange(len(t))),
                "positions counted from 0, whatever positions are given.",
            ),
            Mistake(
                lambda x, t: _turned(x, t + 1),
                "positions that are one too large.",
            ),
            Mistake(
                lambda x, t: _codes(x[None] if x.ndim == 2 else x, 0)[
                    0 if x.ndim == 2 else ...
                ],
                "codes that are added: here the vectors are turned.",
            ),
        ],
    )


def _rows(weight: Array, num_heads: int) -> Array:
    """Return rows split into heads and pairs, shape (H, d_k / 2, 2, ...)."""
    return weight.reshape(num_heads, -1, 2, *weight.shape[1:])


@checker
def check_order_carry(answer: object) -> Verdict:
    """Check ``carried(stored, num_heads)``: rows of a projection, for the other pairing."""

    def expected(stored: Array, num_heads: int) -> Array:
        return _rows(stored, num_heads).swapaxes(1, 2).reshape(stored.shape)

    def inverse(stored: Array, num_heads: int) -> Array:
        halves = stored.reshape(num_heads, 2, -1, *stored.shape[1:])
        return halves.swapaxes(1, 2).reshape(stored.shape)

    def first_head(stored: Array, num_heads: int) -> Array:
        d_k = len(stored) // num_heads
        head = expected(stored[:d_k], 1)
        return np.concatenate([head, stored[d_k:]])

    def second_first(stored: Array, num_heads: int) -> Array:
        pairs = _rows(stored, num_heads)[:, :, ::-1]
        return pairs.swapaxes(1, 2).reshape(stored.shape)

    def heads_moved(stored: Array, num_heads: int) -> Array:
        heads = stored.reshape(num_heads, -1, *stored.shape[1:])
        return heads.swapaxes(0, 1).reshape(stored.shape)

    def columns(stored: Array, num_heads: int) -> Array:
        return expected(stored.T, num_heads).T

    def case(*shape: int, heads: int, dtype: str = "") -> Case:
        things = "weights" if len(shape) > 1 else "a bias"
        what = (
            f"{dtype} {things} of shape {shape} and {heads} head".strip()
            + "s" * (heads > 1)
        )
        given = _normal(*shape).astype(dtype or "float64")
        return Case(what, (given, heads))

    cases = [
        case(12, 8, heads=2),
        case(24, 5, heads=3),
        case(18, heads=3),
        case(20, 3, heads=2, dtype="float32"),
    ]
    return check_function(
        "order-carry",
        answer,
        expected,
        cases,
        [
            Mistake(
                inverse,
                "the way back, from half-split to interleaved.",
            ),
            Mistake(
                lambda stored, heads: expected(stored, 1),
                "one order for the whole width: each head has its own pairs.",
            ),
            Mistake(
                first_head,
                "the rows of the first head reordered, and those of the others"
                " left as they were.",
            ),
            Mistake(
                second_first,
                "the second members of all pairs in front of the first ones.",
            ),
            Mistake(
                columns,
                "columns reordered: they belong to the inputs, and PyTorch"
                " stores the outputs as rows.",
            ),
            Mistake(
                heads_moved,
                "rows of different heads mixed: no row leaves its head.",
            ),
            Mistake(
                lambda stored, heads: stored,
                "the rows as they were.",
            ),
        ],
    )


# ------------------------------------------------------------------- values that know distances
FROM_ZERO_EACH = (
    "positions that begin at 0 for the queries, and at 0 for the keys: how far"
    " apart the two stand is lost."
)


@checker
def check_order_values(answer: object) -> Verdict:
    """Check ``by_distance(weights, value, query_positions, key_positions)``."""

    def expected(weights: Array, value: Array, t: Array, s: Array) -> Array:
        distance = (s - t[:, None]).reshape(-1)  # (L * S,)
        each = np.broadcast_to(
            value[..., None, :, :],
            (*value.shape[:-2], len(t), *value.shape[-2:]),
        )
        flat = each.reshape(*value.shape[:-2], -1, value.shape[-1])
        turned = _by_package(flat, distance).reshape(each.shape)
        return np.asarray(np.einsum("...ij,...ijr->...ir", weights, turned))

    def factored(back: int, forth: int) -> Callable[..., Array]:
        """Turn values by `forth` and the output by `back` times their positions."""
        return lambda weights, value, t, s: _turned(
            weights @ _turned(value, forth * s), back * t
        )

    def case(
        *leading: int, L: int, S: int, d_v: int, start: int, seed: int = 0
    ) -> Case:
        what = (
            f"{L} queries from position {start} on, {S} keys, d_v = {d_v}"
            + (f" and leading axes {leading}" if leading else "")
        )
        weights = softmax(_normal(*leading, L, S, seed=seed))
        value = _normal(*leading, S, d_v, seed=seed + 1)
        return Case(
            what, (weights, value, start + np.arange(L), np.arange(S))
        )

    masked = softmax(_normal(3, 5, seed=5))
    masked[1] = 0.0
    odd = (np.array([9, 2, 40]), np.array([3, 50, 0, 8, 1]))
    single = [x.astype(np.float32) for x in (masked, _normal(5, 4, seed=6))]
    cases = [
        case(L=2, S=3, d_v=2, start=3),
        case(L=3, S=5, d_v=6, start=0),
        case(2, 3, L=4, S=7, d_v=8, start=100),
        Case(
            "positions out of order, and a query that sees nothing",
            (masked, _normal(5, 6, seed=7), *odd),
        ),
        Case("float32, and a query that sees nothing", (*single, *odd)),
    ]
    return check_function(
        "order-values",
        answer,
        expected,
        cases,
        [
            Mistake(
                factored(0, 1),
                "an average of turned values: it knows where the keys stand,"
                " and not how far from the query.",
            ),
            Mistake(
                factored(1, 1),
                "an output that is turned on, by the query's position, instead"
                " of back.",
            ),
            Mistake(
                factored(1, -1),
                "a turn by the distance the other way round.",
            ),
            Mistake(
                factored(-1, 0),
                "an average of values as they are, turned afterwards: the"
                " keys' positions are missing.",
            ),
            Mistake(
                factored(-1, -1),
                "values turned back by their own positions: their angles and"
                " the query's add up, where a difference is wanted.",
            ),
            Mistake(
                lambda weights, value, t, s: _turned(
                    weights @ _turned(value, s, interleaved=False),
                    -t,
                    interleaved=False,
                ),
                "the other pairing: here component 2r turns with 2r + 1.",
            ),
            Mistake(
                lambda weights, value, t, s: factored(-1, 1)(
                    weights, value, np.arange(len(t)), np.arange(len(s))
                ),
                FROM_ZERO_EACH,
            ),
            Mistake(
                lambda weights, value, t, s: factored(-1, 1)(
                    weights, value, t - t.min(), s - s.min()
                ),
                FROM_ZERO_EACH,
            ),
            Mistake(
                factored(0, 0),
                "plain attention: nothing has been turned.",
            ),
        ],
    )
