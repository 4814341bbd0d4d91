"""Checkers of the exercises on *Multi-head attention*."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from attention.exercises._checking import (
    EXACT,
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
from attention.reference import merge_heads, softmax, split_heads

Array = np.ndarray[Any, Any]
Attend = Callable[[Array, Array | bool, Array], Array]


def _normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


# ------------------------------------------------------------------------------ counting
@checker
def check_heads_count(answer: object) -> Verdict:
    """Check how many entries the matrices of three layers have: three numbers."""
    return check_numbers(
        "heads-count",
        answer,
        [14400, 14400, 28800],
        {
            "what three matrices hold: the projection after the merge is a"
            " fourth.": [10800, 10800, 21600],
            "a count in which more heads are more parameters, whatever their"
            " width: in the second layer they are narrower.": [
                14400,
                28800,
                28800,
            ],
            "the same for all three: the third layer's heads together are"
            " wider than the model.": [14400, 14400, 14400],
            "right for the first two; in the third, the last projection has a"
            " row for each component of the merged heads.": [
                14400,
                14400,
                25200,
            ],
            "a count in which every head has projections of the model's whole"
            " width.": [72000, 144000, 144000],
            "right but for the biases, which these layers do not have.": [
                14640,
                14640,
                29220,
            ],
            "the size of one of the four matrices.": [3600, 3600, 7200],
            "what belongs to one head.": [2880, 1440, 2880],
        },
        tolerance=EXACT,
    )


# ------------------------------------------------------------------------------ splitting, merging
def _memory_split(x: Array, num_heads: int) -> Array:
    """Cut as the wrong splits do: the right shape, in the order of the memory."""
    *lead, length, width = x.shape
    return x.reshape(*lead, num_heads, length, width // num_heads)


def _interleaved_split(x: Array, num_heads: int) -> Array:
    *lead, length, width = x.shape
    cut = x.reshape(*lead, length, width // num_heads, num_heads)
    return np.moveaxis(cut, -1, -3)


def _one_head(x: Array, num_heads: int) -> Array:
    """Forget to split: one head has the whole width."""
    return x[..., None, :, :]


SPLIT_MISTAKES = [
    Mistake(
        _memory_split,
        "one reshape to the wanted shape: that cuts the numbers in the order"
        " in which they lie in memory, and what it calls a head is made of"
        " pieces of a few positions. Let the positions keep their axis until"
        " the width is cut.",
    ),
    Mistake(
        lambda x, num_heads: split_heads(x, num_heads).swapaxes(-3, -2),
        "the width cut into heads, rightly, with the heads' axis still behind"
        " the positions.",
    ),
    Mistake(
        _interleaved_split,
        "heads that take turns: head 0 has the components 0, H, 2H …, where"
        " each head is to have a block of neighbours.",
    ),
    Mistake(
        lambda x, num_heads: np.stack(np.split(x, num_heads, axis=-1)),
        "the right heads, with their axis in front of the batch: it belongs"
        " just in front of the positions.",
    ),
    Mistake(
        lambda x, num_heads: split_heads(x, num_heads).swapaxes(-2, -1),
        "heads whose positions and components have changed places.",
    ),
    Mistake(
        lambda x, num_heads: np.flip(split_heads(x, num_heads), axis=-3),
        "the right heads in the opposite order.",
    ),
]


@checker
def check_heads_split(answer: object) -> Verdict:
    """Check a function ``split(x, num_heads)``: (..., L, H * d) to (..., H, L, d)."""
    cases = [
        Case("x of shape (2, 5, 12) and 3 heads", (_normal(2, 5, 12), 3)),
        Case("x of shape (3, 4, 10) and 5 heads", (_normal(3, 4, 10), 5)),
        Case("x of shape (5, 8), no batch, and 2 heads", (_normal(5, 8), 2)),
        Case(
            "x of shape (4, 2, 5, 6) and 3 heads", (_normal(4, 2, 5, 6), 3)
        ),
        Case("x of shape (2, 5, 12) and 1 head", (_normal(2, 5, 12), 1)),
        Case(
            "float32 x of shape (2, 7, 6) and 2 heads",
            (_normal(2, 7, 6).astype(np.float32), 2),
        ),
    ]
    return check_function(
        "heads-split", answer, split_heads, cases, SPLIT_MISTAKES
    )


def _memory_merge(heads: Array) -> Array:
    """Join as the wrong merges do: the right shape, in the order of the memory."""
    *lead, num_heads, length, width = heads.shape
    return heads.reshape(*lead, length, num_heads * width)


def _interleaved_merge(heads: Array) -> Array:
    *lead, num_heads, length, width = heads.shape
    return np.moveaxis(heads, -3, -1).reshape(
        *lead, length, width * num_heads
    )


MERGE_MISTAKES = [
    Mistake(
        _memory_merge,
        "a reshape of the heads as they lie: it joins neighbours in memory,"
        " which belong to different positions. The heads of one position have"
        " to be brought side by side first.",
    ),
    Mistake(
        _interleaved_merge,
        "heads that take turns: each is to keep its components together.",
    ),
    Mistake(
        lambda heads: np.concatenate(np.moveaxis(heads, -3, 0), axis=-2),
        "heads one below the other: they belong side by side, in one row for"
        " each position.",
    ),
    Mistake(
        lambda heads: heads.mean(axis=-3),
        "the mean of the heads: merging keeps all of them.",
    ),
    Mistake(
        lambda heads: heads.sum(axis=-3),
        "the sum of the heads: they are added up after the last projection,"
        " and not before.",
    ),
    Mistake(
        lambda heads: merge_heads(np.flip(heads, axis=-3)),
        "heads merged in the opposite order.",
    ),
    Mistake(
        lambda heads: heads.swapaxes(-3, -2),
        "the heads side by side, with two axes that have yet to be joined.",
    ),
]


@checker
def check_heads_merge(answer: object) -> Verdict:
    """Check a function ``merge(heads)``: (..., H, L, d) to (..., L, H * d)."""
    cases = [
        Case("heads of shape (2, 3, 5, 4)", (_normal(2, 3, 5, 4),)),
        Case("heads of shape (3, 4, 2, 6)", (_normal(3, 4, 2, 6),)),
        Case("heads of shape (3, 5, 4), no batch", (_normal(3, 5, 4),)),
        Case("heads of shape (4, 2, 3, 5, 6)", (_normal(4, 2, 3, 5, 6),)),
        Case("one head, of shape (2, 1, 5, 4)", (_normal(2, 1, 5, 4),)),
        Case(
            "float32 heads of shape (2, 3, 5, 4)",
            (_normal(2, 3, 5, 4).astype(np.float32),),
        ),
    ]
    return check_function(
        "heads-merge", answer, merge_heads, cases, MERGE_MISTAKES
    )


# ------------------------------------------------------------------------------ a test of a split
def _first_for_all(axis: int, x: Array, num_heads: int) -> Array:
    """Repeat the first entry along an axis of the right heads, where there is that axis."""
    heads = split_heads(x, num_heads)
    if -axis > heads.ndim:
        return heads
    return np.broadcast_to(heads.take([0], axis), heads.shape)


def _reversed_from(
    first: tuple[int, ...], x: Array, num_heads: int
) -> Array:
    """Turn around the components of some entries: those from `first` on, along its axes."""
    heads = np.array(split_heads(x, num_heads))
    some: Any = (..., *(slice(start, None) for start in first))
    heads[some] = heads[some][..., ::-1].copy()
    return heads


def _reversed_amid(axis: int, x: Array, num_heads: int) -> Array:
    """Turn around the components of the entry in the middle of an axis."""
    heads = np.moveaxis(np.array(split_heads(x, num_heads)), axis, 0)
    amid = len(heads) // 2
    heads[amid] = heads[amid][..., ::-1].copy()
    return np.moveaxis(heads, 0, axis)


def _last_component_lost(x: Array, num_heads: int) -> Array:
    heads = np.array(split_heads(x, num_heads))
    heads[..., -1] = 0
    return heads


def _middle_components_exchanged(x: Array, num_heads: int) -> Array:
    heads = np.array(split_heads(x, num_heads))
    amid = heads.shape[-1] // 2
    heads[..., [amid - 1, amid]] = heads[..., [amid, amid - 1]]
    return heads


def _reversed_sequence(place: float, x: Array, num_heads: int) -> Array:
    """Turn around the components of the sequence at a place from 0 to 1 but the last one."""
    heads = np.array(split_heads(x, num_heads))
    sequences = heads.reshape(-1, *heads.shape[-3:])
    one = int(place * len(sequences))
    if one < len(sequences) - 1:
        sequences[one] = sequences[one, ..., ::-1].copy()
    return sequences.reshape(heads.shape)


def _memory_split_of(leading: int, x: Array, num_heads: int) -> Array:
    """Cut by one reshape alone, where there are so many leading axes."""
    split = _memory_split if x.ndim == leading + 2 else split_heads
    return split(x, num_heads)


def _from_the_front(x: Array, num_heads: int) -> Array:
    """Exchange axes 1 and 2, which is right for one leading axis."""
    return split_heads(x, num_heads).swapaxes(-3, -2).swapaxes(1, 2)


def _leading_flattened(x: Array, num_heads: int) -> Array:
    heads = split_heads(x, num_heads)
    return heads.reshape(-1, *heads.shape[-3:]) if x.ndim > 3 else heads


def _leading_exchanged(x: Array, num_heads: int) -> Array:
    heads = split_heads(x, num_heads)
    return heads.swapaxes(0, 1) if x.ndim > 3 else heads


def _by_slices(x: Array, num_heads: int) -> Array:
    return np.stack(np.split(x, num_heads, axis=-1), axis=-3)


SPLITS: list[tuple[str, bool, Callable[[Array, int], Array]]] = [
    ("that is right", True, split_heads),
    ("that is right, and stacks slices", True, _by_slices),
    ("that cuts by one reshape alone", False, _memory_split),
    (
        "that leaves the heads' axis behind the positions",
        False,
        lambda x, num_heads: split_heads(x, num_heads).swapaxes(-3, -2),
    ),
    (
        "that exchanges positions and components",
        False,
        lambda x, num_heads: split_heads(x, num_heads).swapaxes(-2, -1),
    ),
    ("whose heads take turns", False, _interleaved_split),
    (
        "that returns the heads in the opposite order",
        False,
        lambda x, num_heads: np.flip(split_heads(x, num_heads), axis=-3),
    ),
    (
        "that turns every head but the first around",
        False,
        partial(_reversed_from, (1, 0, 0)),
    ),
    (
        "that gives every sequence the heads of the first",
        False,
        partial(_first_for_all, -4),
    ),
    (
        "that gives every position what the first one has",
        False,
        partial(_first_for_all, -2),
    ),
    (
        "that turns the last head around",
        False,
        partial(_reversed_from, (-1, 0, 0)),
    ),
    (
        "that turns the last position around",
        False,
        partial(_reversed_from, (-1, 0)),
    ),
    (
        "that turns the head in the middle around",
        False,
        partial(_reversed_amid, -3),
    ),
    (
        "that turns the position in the middle around",
        False,
        partial(_reversed_amid, -2),
    ),
    (
        "that sets the last component of each head to 0",
        False,
        _last_component_lost,
    ),
    (
        "that makes one head of the whole width",
        False,
        _one_head,
    ),
    (
        "that takes the number of heads for their width",
        False,
        lambda x, num_heads: split_heads(x, x.shape[-1] // num_heads),
    ),
    (
        "that counts its axes from the front",
        False,
        _from_the_front,
    ),
    (
        "that makes one axis of several leading ones",
        False,
        _leading_flattened,
    ),
    (
        "that exchanges two leading axes",
        False,
        _leading_exchanged,
    ),
    (
        "that returns the positions in the opposite order",
        False,
        lambda x, num_heads: np.flip(split_heads(x, num_heads), axis=-2),
    ),
    (
        "that exchanges the two components in the middle of each head",
        False,
        _middle_components_exchanged,
    ),
    (
        "that turns the first sequence around",
        False,
        partial(_reversed_sequence, 0.0),
    ),
    (
        "that turns the sequence in the middle around",
        False,
        partial(_reversed_sequence, 0.5),
    ),
    *(
        (
            f"that cuts by one reshape alone where there {what}",
            False,
            partial(_memory_split_of, number),
        )
        for number, what in (
            (0, "is no leading axis"),
            (1, "is one leading axis"),
            (2, "are two leading axes"),
        )
    ),
]
"""Splits, right and wrong, by the words that follow "a split"."""


def _for_tensors_too(
    split: Callable[[Array, int], Array],
) -> Callable[[Any, int], Any]:
    """Let a split of arrays take tensors, and return what it was given."""

    def either(x: Any, num_heads: int) -> Any:
        if not isinstance(x, torch.Tensor):
            return np.array(split(np.asarray(x), num_heads))
        array = (
            x.detach().float() if x.dtype == torch.bfloat16 else x.detach()
        )
        heads = np.array(split(array.numpy(), num_heads))
        return torch.from_numpy(heads).to(x.dtype)

    return either


@checker
def check_heads_test(answer: Any) -> Verdict:
    """Check a test ``is_right(split)``, on splits that are right and others that are not."""
    name = "heads-test"
    if (verdict := no_function(name, answer)) is not None:
        return verdict
    says = []
    for what, _, split in SPLITS:
        given = f"a split {what}"
        try:
            result = call(answer, [_for_tensors_too(split)])
            if (verdict := returns_nothing(name, result)) is not None:
                return verdict
        except AnswerError as error:
            why = str(error).rstrip(": .")
            if isinstance(error.cause, AssertionError):
                why += ", where False is to be returned"
            return wrong(name, f"With {given}, {why}.", given)
        judged = _as_boolean(result)
        if judged is None:
            return wrong(
                name,
                f"With {given}, it returns {described(result)}, and one"
                " boolean is expected.",
                given,
            )
        says.append(judged)
    return _on_test(name, says)


def _as_boolean(result: Any) -> bool | None:
    """Return the one boolean that a result is; None if it is something else."""
    try:
        array = as_array(result)
    except AnswerError:
        return None
    return None if array.dtype.kind != "b" or array.shape else bool(array)


def _on_test(name: str, says: list[bool]) -> Verdict:
    """Return the verdict on a test, by what it says to each split."""
    for (what, is_right, _), said in zip(SPLITS, says, strict=True):
        if said == is_right:
            continue
        if all(says):
            hint = " It says so to every split: a test that cannot fail."
        elif not any(says):
            hint = " It says so to every split, right or wrong."
        elif said:
            hint = (
                " On which input, and in which of its numbers, would the"
                " result be another?"
            )
        else:
            hint = " Compute by hand what a small input should become."
        given = f"a split {what}"
        return wrong(name, f"To {given}, it says {said}.{hint}", given)
    return right(name)


# ------------------------------------------------------------------------------ grouped heads
def _shared(keys: Array, num_heads: int) -> Array:
    return keys.repeat(num_heads // keys.shape[-3], axis=-3)


def _tiled(keys: Array, num_heads: int) -> Array:
    group = num_heads // keys.shape[-3]
    return np.concatenate([keys] * group, axis=-3)


@checker
def check_heads_groups(answer: object) -> Verdict:
    """Check ``share(keys, num_heads)``: (..., H_kv, S, d_k) to (..., H, S, d_k)."""

    def group(keys: Array, num_heads: int) -> int:
        return num_heads // int(keys.shape[-3])

    cases = [
        Case(
            "keys of shape (2, 3, 5, 4) for 6 heads",
            (_normal(2, 3, 5, 4), 6),
        ),
        Case(
            "keys of shape (3, 2, 5, 4) for 8 heads",
            (_normal(3, 2, 5, 4), 8),
        ),
        Case(
            "keys of shape (2, 5, 4), no batch, for 6 heads",
            (_normal(2, 5, 4), 6),
        ),
        Case(
            "keys of shape (3, 2, 4, 5, 6) for 12 heads",
            (_normal(3, 2, 4, 5, 6), 12),
        ),
        Case(
            "float32 keys of shape (2, 3, 5, 4) for 6 heads",
            (_normal(2, 3, 5, 4).astype(np.float32), 6),
        ),
    ]
    return check_function(
        "heads-groups",
        answer,
        _shared,
        cases,
        [
            Mistake(
                _tiled,
                "the heads tiled, 0, 1, 0, 1: neighbouring query heads are to"
                " share one.",
            ),
            Mistake(
                lambda keys, num_heads: keys.repeat(
                    group(keys, num_heads), axis=-2
                ),
                "the keys repeated within each head: it is the heads that are"
                " shared.",
            ),
            Mistake(
                lambda keys, num_heads: keys.repeat(
                    group(keys, num_heads), axis=-1
                ),
                "the components repeated: it is the heads that are shared.",
            ),
            Mistake(
                lambda keys, num_heads: keys.repeat(
                    group(keys, num_heads), axis=0
                ),
                "the first axis repeated, which is the batch wherever there"
                " is one.",
            ),
            Mistake(
                lambda keys, num_heads: keys.repeat(num_heads, axis=-3),
                "each head repeated as often as there are query heads: how"
                " many of them share one?",
            ),
            Mistake(
                lambda keys, num_heads: np.repeat(
                    keys[..., :1, :, :], num_heads, axis=-3
                ),
                "the first head for all: that is right where there is only"
                " one.",
            ),
            Mistake(
                lambda keys, num_heads: keys[
                    ..., np.arange(num_heads) // keys.shape[-3], :, :
                ],
                "h // H_kv: divide by the number of query heads that share"
                " one.",
            ),
            Mistake(
                lambda keys, num_heads: keys,
                "the keys as they came: nothing is repeated, or the number of"
                " heads has been read off another axis, as happens to those"
                " who count from the front.",
            ),
        ],
    )


# ------------------------------------------------------------------------------ whole layers
def _attend(scores: Array, mask: Array | bool, values: Array) -> Array:
    """Return the heads, zeros where a query may attend to nothing."""
    scores = np.where(mask, scores, -np.inf)
    return np.asarray(softmax(scores) @ values)


def _layer(
    X_q: Array,
    X_kv: Array,
    W: Mapping[str, Array],
    num_heads: int,
    mask: Array | bool = True,
    *,
    split: Callable[[Array, int], Array] = split_heads,
    merge: Callable[[Array], Array] = merge_heads,
    attend: Attend = _attend,
    root_of: str = "d_k",
) -> Array:
    """Return multi-head attention; its options are there for the mistakes."""
    q, k, v = (
        split(x @ W[f"W_{name}"] + W.get(f"b_{name}", 0.0), num_heads)
        for name, x in (("Q", X_q), ("K", X_kv), ("V", X_kv))
    )
    divisors = {
        "d_k": np.sqrt(q.shape[-1]),
        "d_model": np.sqrt(X_q.shape[-1]),
        "merged": np.sqrt(num_heads * q.shape[-1]),
        "share": np.sqrt(X_q.shape[-1] / num_heads),
        "d_v": np.sqrt(v.shape[-1]),
        "H": np.sqrt(num_heads),
        "d_k squared": float(q.shape[-1]),
        "one": 1.0,
    }
    scores = q @ k.swapaxes(-2, -1) / divisors[root_of]
    merged = merge(attend(scores, mask, v))
    return np.asarray(merged @ W["W_O"] + W.get("b_O", 0.0))


def _of_one_head(heads: Array) -> Array:
    return np.asarray(heads[..., 0, :, :])


def _self(**options: Any) -> Callable[..., Array]:
    """Return self-attention without a mask, with a mistake or without."""
    return lambda x, W, num_heads: _layer(x, x, W, num_heads, **options)


def _over_queries(scores: Array, mask: Array | bool, values: Array) -> Array:
    scores = np.where(mask, scores, -np.inf)
    return np.asarray(softmax(scores, axis=-2) @ values)


SCALES = [
    Mistake(
        _self(root_of="d_model"),
        "scores divided by √d_model: the products run over the width of one"
        " head.",
    ),
    Mistake(
        _self(root_of="H"),
        "scores divided by the root of the number of heads: it is the width"
        " of a head that counts.",
    ),
    Mistake(_self(root_of="one"), "scores that have not been scaled."),
    Mistake(
        _self(root_of="d_k squared"),
        "scores divided by d_k: it is its root that they are divided by.",
    ),
]


def _square(d_model: int, seed: int) -> dict[str, Array]:
    """Return four matrices d_model × d_model, so drawn that the scores are of order one."""
    names = ("W_Q", "W_K", "W_V", "W_O")
    stack = _normal(4, d_model, d_model, seed=seed) / np.sqrt(d_model)
    return dict(zip(names, stack, strict=True))


@checker
def check_heads_bug(answer: object) -> Verdict:
    """Check a mended self-attention ``layer(x, W, num_heads)``."""

    def case(what: str, shape: tuple[int, ...], num_heads: int) -> Case:
        x, W = _normal(*shape, seed=2), _square(shape[-1], seed=3)
        return Case(what, (x, W, num_heads))

    single = case("float32 x of shape (2, 5, 12) and 3 heads", (2, 5, 12), 3)
    x, W, num_heads = single.arguments
    as_float32 = {name: a.astype(np.float32) for name, a in W.items()}
    large = 40 * _normal(2, 5, 12, seed=2)
    cases = [
        case("x of shape (2, 5, 12) and 3 heads", (2, 5, 12), 3),
        case("x of shape (3, 7, 8) and 4 heads", (3, 7, 8), 4),
        case("x of shape (2, 5, 12) and 1 head", (2, 5, 12), 1),
        Case(
            "x of shape (2, 5, 12), 40 times as large, and 3 heads",
            (large, W, 3),
        ),
        Case(
            single.what,
            (x.astype(np.float32), as_float32, num_heads),
        ),
    ]
    return check_function(
        "heads-bug",
        answer,
        _self(),
        cases,
        [
            Mistake(
                _self(split=_memory_split, merge=_memory_merge),
                "the layer as it was. Follow one number through the first"
                " reshape: which position was it, and which is it now?",
            ),
            Mistake(
                _self(merge=_memory_merge),
                "a layer that splits rightly, and still merges wrongly: the"
                " two mistakes used to hide each other from a test of the"
                " round trip.",
            ),
            Mistake(
                _self(split=_memory_split),
                "a layer that merges rightly, and still splits wrongly.",
            ),
            Mistake(
                _self(split=_interleaved_split, merge=_interleaved_merge),
                "heads that take turns with the components: each is to have"
                " a block of neighbours.",
            ),
            Mistake(
                _self(split=_interleaved_split),
                "heads that take turns with the components: each is to have"
                " a block of neighbours.",
            ),
            Mistake(
                lambda x, W, num_heads: _self()(
                    x.swapaxes(0, 1), W, num_heads
                ).swapaxes(0, 1),
                "attention from sequence to sequence, as if positions came"
                " first in x, and the batch second.",
            ),
            Mistake(
                _self(attend=_over_queries),
                "a softmax over the queries; that part was right before.",
            ),
            *(
                Mistake(
                    _self(split=_one_head, merge=_of_one_head, root_of=root),
                    "one head of the whole width: queries, keys and values"
                    " have not been split.",
                )
                for root in ("d_k", "share")
            ),
            *SCALES,
        ],
    )


def _masked_to(lowest: float) -> Callable[..., Array]:
    """Return an attention that puts a finite number in place of masked scores."""

    def attend(scores: Array, mask: Array | bool, values: Array) -> Array:
        return np.asarray(softmax(np.where(mask, scores, lowest)) @ values)

    return attend


def _added_to(lowest: float) -> Callable[..., Array]:
    """Return an attention that adds a finite number to masked scores."""

    def attend(scores: Array, mask: Array | bool, values: Array) -> Array:
        added = np.where(mask, 0.0, lowest)
        return np.asarray(softmax(scores + added) @ values)

    return attend


def _undefined(scores: Array, mask: Array | bool, values: Array) -> Array:
    """Attend as a plain softmax does: NaN where there is nothing to attend to."""
    heads = _attend(scores, mask, values)
    seen = np.any(
        np.broadcast_to(mask, scores.shape), axis=-1, keepdims=True
    )
    return np.where(seen, heads, np.nan)


def _weights_masked(
    scores: Array, mask: Array | bool, values: Array
) -> Array:
    weights = softmax(scores)
    return np.asarray(np.where(mask, weights, 0.0) @ values)


def _unsqueezed(scores: Array, mask: Array | bool, values: Array) -> Array:
    """Put the axis of the heads at place 1 of any mask, as some layers do."""
    if np.ndim(mask) > 3:
        return _attend(scores, mask, values)
    return _attend(scores, np.expand_dims(mask, 1), values)


def _with(**options: Any) -> Callable[..., Array]:
    """Return the layer with a mistake in one of its steps."""
    return lambda *arguments: _layer(*arguments, **options)


def _zeros_at_the_end(
    X_q: Array, X_kv: Array, W: Any, num_heads: int, mask: Array
) -> Array:
    """Return the layer with zeros in the output where some head has nothing to attend to."""
    output = _layer(X_q, X_kv, W, num_heads, mask)
    shape = (*X_q.shape[:-2], num_heads, X_q.shape[-2], X_kv.shape[-2])
    each = np.any(np.broadcast_to(mask, shape), axis=-1)  # (..., H, L)
    seen = np.all(each, axis=-2)[..., None]
    return np.where(seen, output, 0.0)


def _given_other(
    change: Callable[[dict[str, Array]], dict[str, Array]],
) -> Callable[..., Array]:
    """Return the layer with other parameters than those given."""

    def layer(X_q: Array, X_kv: Array, W: Any, H: int, mask: Array) -> Array:
        return _layer(X_q, X_kv, change(dict(W)), H, mask)

    return layer


LAYER_MISTAKES = [
    Mistake(
        _with(split=_memory_split, merge=_memory_merge),
        "heads split and merged by reshape alone.",
    ),
    Mistake(
        _with(split=_memory_split),
        "heads split by reshape alone, which gives them pieces of a few"
        " positions.",
    ),
    Mistake(_with(merge=_memory_merge), "heads merged by reshape alone."),
    *(
        Mistake(
            _with(split=_interleaved_split, merge=merge),
            "heads that take turns with the components: each is to have a"
            " block of neighbours.",
        )
        for merge in (_interleaved_merge, merge_heads)
    ),
    Mistake(
        _with(root_of="d_model"),
        "scores divided by √d_model: the products run over the width of one"
        " head.",
    ),
    Mistake(
        _with(root_of="merged"),
        "scores divided by the root of all heads' width together: the"
        " products run over the width of one.",
    ),
    Mistake(
        _with(root_of="share"),
        "scores divided by the root of d_model / H: here the width of a head"
        " is free, and found in its queries.",
    ),
    Mistake(
        _with(root_of="H"),
        "scores divided by the root of the number of heads: it is the width"
        " of a head that counts.",
    ),
    Mistake(
        _with(root_of="d_v"),
        "scores divided by √d_v: the products run over the width of queries"
        " and keys.",
    ),
    Mistake(_with(root_of="one"), "scores that have not been scaled."),
    Mistake(
        _with(root_of="d_k squared"),
        "scores divided by d_k: it is its root that they are divided by.",
    ),
    Mistake(
        _given_other(lambda W: {n: a for n, a in W.items() if "W" in n}),
        "a layer without its biases.",
    ),
    Mistake(
        _given_other(lambda W: {n: a for n, a in W.items() if n != "b_O"}),
        "a layer without the last of its biases.",
    ),
    Mistake(
        _with(attend=_over_queries),
        "a softmax over the queries: each query's weights are to sum to 1.",
    ),
    Mistake(
        lambda X_q, X_kv, W, H, mask: _layer(X_q, X_kv, W, H),
        "a layer that leaves the mask aside.",
    ),
    Mistake(
        lambda X_q, X_kv, W, H, mask: _layer(X_q, X_kv, W, H, ~mask),
        "a layer that takes the mask for its opposite: True means may"
        " attend.",
    ),
    Mistake(
        _with(attend=lambda scores, mask, v: softmax(scores + mask) @ v),
        "a boolean mask that was added to the scores: True adds 1, and bars"
        " nothing.",
    ),
    Mistake(
        _with(attend=_weights_masked),
        "weights set to zero after the softmax: those left no longer sum to"
        " 1.",
    ),
    Mistake(
        _with(attend=_masked_to(-1e9)),
        "scores set to a large negative number: a query that may attend to"
        " nothing then attends to all keys alike.",
    ),
    *(
        Mistake(
            _with(attend=_added_to(lowest)),
            "a large negative number added to the scores: a query that may"
            " attend to nothing then attends as if nothing were masked.",
        )
        for lowest in (-1e4, -1e9)
    ),
    Mistake(
        _zeros_at_the_end,
        "zeros in the output of the layer: it is the head that gives zeros,"
        " and the other heads, W^O and the bias b^O still act.",
    ),
    Mistake(
        _with(attend=_masked_to(0.0)),
        "masked scores set to 0, whose exponential is 1.",
    ),
    Mistake(
        _with(attend=_unsqueezed),
        "an (L, S) mask with an axis put in at place 1: its queries then"
        " stand where the heads belong.",
    ),
    Mistake(
        _with(attend=_undefined),
        "a softmax of a row of -inf alone, 0/0: such a query is to get zeros"
        " from its head.",
    ),
]


def _parameters(
    d_model: int, d_kv: int, num_heads: int, d_k: int, d_v: int, seed: int
) -> dict[str, Array]:
    """Return four matrices and four biases, so drawn that the scores are of order one."""
    shapes = {
        "Q": (d_model, num_heads * d_k),
        "K": (d_kv, num_heads * d_k),
        "V": (d_kv, num_heads * d_v),
        "O": (num_heads * d_v, d_model),
    }
    rng = np.random.default_rng(seed)
    W: dict[str, Array] = {}
    for name, shape in shapes.items():
        W[f"W_{name}"] = rng.normal(size=shape) / np.sqrt(shape[0])
        W[f"b_{name}"] = rng.normal(size=shape[1]) / 2
    return W


def _layer_cases() -> list[Case]:
    """Return inputs of a layer, the simplest first."""
    H, L, S = 3, 5, 7
    X_q, X_kv = _normal(2, L, 10, seed=4), _normal(2, S, 8, seed=5)
    W = _parameters(10, 8, H, d_k=4, d_v=6, seed=6)
    every = np.ones((L, S), dtype=bool)
    some = np.random.default_rng(7).random((H, L, S)) < 0.6
    some[..., 1] = True  # every query sees something
    nothing = some[0].copy()
    nothing[2] = False
    lonely = some[None].copy()
    lonely[0, 1, 3] = False
    padding = np.arange(S) < np.array([4, 7])[:, None]
    equal = _parameters(12, 12, 3, d_k=4, d_v=4, seed=8)
    x = _normal(2, 3, 12, seed=9)
    of_floats = {n: a.astype(np.float32) for n, a in W.items()}
    sizes = "2 sequences, 5 queries, 7 keys, 3 heads, d_k = 4, d_v = 6"
    return [
        Case(f"{sizes} and nothing masked", (X_q, X_kv, W, H, every)),
        Case(f"{sizes} and a mask (L, S)", (X_q, X_kv, W, H, some[0])),
        Case(
            f"{sizes} and a mask (B, 1, 1, S) of padding",
            (X_q, X_kv, W, H, padding[:, None, None]),
        ),
        Case(
            f"{sizes} and a mask (1, H, L, S)",
            (X_q, X_kv, W, H, some[None]),
        ),
        Case(
            f"{sizes} and a query that may attend to nothing",
            (X_q, X_kv, W, H, nothing),
        ),
        Case(
            f"{sizes} and a query that may attend to nothing in one head",
            (X_q, X_kv, W, H, lonely),
        ),
        Case(
            "no batch, 5 queries, 7 keys and a mask (L, S)",
            (X_q[0], X_kv[0], W, H, some[0]),
        ),
        Case(
            "no batch, 5 queries, 7 keys, 3 heads and a mask (H, L, S)",
            (X_q[0], X_kv[0], W, H, some),
        ),
        Case(
            "leading axes (4, 2), 5 queries, 7 keys and a mask (L, S)",
            (
                _normal(4, 2, L, 10, seed=10),
                _normal(4, 2, S, 8, seed=11),
                W,
                H,
                some[0],
            ),
        ),
        Case(
            "self-attention with 3 heads, 3 positions, d_k = d_v and a causal"
            " mask",
            (x, x, equal, 3, np.tri(3, dtype=bool)),
        ),
        Case(
            "1 head, d_k = 3, d_v = 5 and a mask (L, S)",
            (X_q, X_kv, _parameters(10, 8, 1, 3, 5, seed=1), 1, some[0]),
        ),
        Case(
            "scores of several hundred and a mask (L, S)",
            (40 * X_q, 40 * X_kv, W, H, some[0]),
        ),
        Case(
            "float32 inputs and parameters, and a mask (L, S)",
            (
                X_q.astype(np.float32),
                X_kv.astype(np.float32),
                of_floats,
                H,
                some[0],
            ),
        ),
    ]


@checker
def check_heads_layer(answer: object) -> Verdict:
    """Check a layer ``layer(X_q, X_kv, W, num_heads, mask)`` from a dict of parameters."""
    return check_function(
        "heads-layer", answer, _layer, _layer_cases(), LAYER_MISTAKES
    )


# ------------------------------------------------------------------------------ initialisation
@checker
def check_heads_xavier(answer: object) -> Verdict:
    """Check the scores' standard deviation under two ways to draw: two numbers."""

    def spread(fan_q: int, fan_k: int) -> float:
        """Return it for n_in + n_out of the queries' and of the keys' matrix."""
        return 48 * 2 / float(np.sqrt(fan_q * fan_k))

    apart, stacked = spread(48 + 48, 48 + 16), spread(48 + 80, 48 + 80)
    both = np.array([apart, stacked])
    return check_numbers(
        "heads-xavier",
        answer,
        both,
        {
            "the two variances: their roots are wanted.": both**2,
            "what a layer without groups has: here the keys' matrix has fewer"
            " columns than the queries'.": [1.0, 0.5],
            "right for the second; the first takes W^K to have as many columns"
            " as W^Q.": [1.0, stacked],
            "right for the first; the stack has fewer than three times 48"
            " columns.": [apart, 0.5],
            "right for the first; in the stack both matrices are drawn with"
            " the same variance.": [apart, spread(96, 128)],
            "the spread of q·k: the scores are divided by the root of a"
            " head's width.": both * np.sqrt(8),
            "the spread of scores divided by √d_model.": both
            * np.sqrt(8 / 48),
            "a spread three times too large: the bound of a uniform draw is"
            " not its standard deviation.": both * 3,
            "the standard deviation of the matrices' entries, and not of the"
            " scores.": [np.sqrt(1 / 48), 1 / 8],
            "a draw for one head's block of columns: it is the whole"
            " projection that has a shape of its own.": [
                spread(48 + 8, 48 + 8),
                stacked,
            ],
            "right but for the order.": both[::-1],
        },
        tolerance=(4.1e-3, 1e-3),  # three digits of each
    )


# ------------------------------------------------------------------------------ a mask, seen
def mask_panels() -> Array:
    """Return the weights in the figure of the exercise, of shape (H, L, S)."""
    seen = np.arange(4) <= np.arange(4)[:, None, None]
    return softmax(np.where(seen, _normal(4, 4, 4), -np.inf))


@checker
def check_heads_figure(answer: object) -> Verdict:
    """Check the mask, A to D, with which the four heads were drawn."""
    return check_choice(
        "heads-figure",
        answer,
        "B",
        {
            "A": "a causal mask gives the rows of one head different lengths,"
            " and all heads the same picture.",
            "C": "with padding, all heads of a sequence see the same keys.",
            "D": "lengths that are taken for queries give the rows of one"
            " head different lengths, and all heads the same picture.",
        },
    )
