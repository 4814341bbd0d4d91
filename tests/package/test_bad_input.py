"""Bad input: the promised type of error, the offending shapes and names in it, nothing computed."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import attention
from attention import (
    MultiHeadAttention,
    functional,
    masks,
    multihead,
    positions,
    reference,
)

B, H, L, S, E, EV, D_MODEL = 2, 3, 5, 7, 4, 6, 12


class NoComputation(TorchFunctionMode):
    """Fails as soon as PyTorch multiplies, projects or takes a softmax."""

    FORBIDDEN = (
        "matmul",
        "bmm",
        "linear",
        "softmax",
        "scaled_dot_product_attention",
        "dropout",
    )

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name.strip("_") in self.FORBIDDEN:
            pytest.fail(f"{name} was computed before the input was checked")
        return func(*args, **(kwargs or {}))


def _shape(*numbers: int) -> str:
    """Return a pattern for a shape as Python prints it."""
    return re.escape(str(tuple(numbers)))


# What both languages must refuse. Each: the arguments that replace good ones, the error, and
# patterns that its message must hold. "{}" in a shape's place stands for an array of that shape.
ATTENTION: dict[str, tuple[dict[str, Any], type[Exception], list[str]]] = {
    "widths of query and key differ": (
        {"query": (B, H, L, 3)},
        ValueError,
        ["query", "key", "d_k", _shape(B, H, L, 3), _shape(B, H, S, E)],
    ),
    "lengths of key and value differ": (
        {"value": (B, H, 6, EV)},
        ValueError,
        ["key", "value", _shape(B, H, S, E), _shape(B, H, 6, EV)],
    ),
    "batches differ": (
        {"key": (3, H, S, E), "value": (3, H, S, EV)},
        ValueError,
        ["leading axes", "query", "key", _shape(B, H), _shape(3, H)],
    ),
    "heads differ": (
        {"query": (B, 6, L, E)},
        ValueError,
        ["leading axes", _shape(B, 6), _shape(B, H)],
    ),
    "a query with one axis": (
        {"query": (E,)},
        ValueError,
        ["query", _shape(E)],
    ),
    "a key with one axis": ({"key": (E,)}, ValueError, ["key", _shape(E)]),
    "a value without axes": ({"value": ()}, ValueError, ["value", _shape()]),
    "no width": (
        {"query": (B, H, L, 0), "key": (B, H, S, 0)},
        ValueError,
        ["d_k", _shape(B, H, L, 0)],
    ),
    "a mask with another number of keys": (
        {"attn_mask": np.ones((L, 6), dtype=bool)},
        ValueError,
        ["attn_mask", _shape(B, H, L, S), _shape(L, 6)],
    ),
    "a mask transposed": (
        {"attn_mask": np.ones((S, L), dtype=bool)},
        ValueError,
        ["attn_mask", _shape(S, L)],
    ),
    "a mask (B, S) taken for (L, S)": (
        {"attn_mask": np.ones((B, S), dtype=bool)},
        ValueError,
        ["attn_mask", _shape(B, S)],
    ),
    "a mask with more axes than the scores": (
        {"attn_mask": np.ones((1, B, H, L, S), dtype=bool)},
        ValueError,
        ["attn_mask", _shape(1, B, H, L, S)],
    ),
    "a mask without axes": (
        {"attn_mask": np.array(True)},
        ValueError,
        ["attn_mask", _shape()],
    ),
    "a mask that would enlarge the batch": (
        {
            "query": (1, H, L, E),
            "key": (1, H, S, E),
            "value": (1, H, S, EV),
            "attn_mask": np.ones((B, 1, L, S), dtype=bool),
        },
        ValueError,
        ["attn_mask", _shape(1, H, L, S), _shape(B, 1, L, S)],
    ),
    "an integer mask": (
        {"attn_mask": np.ones((L, S), dtype=np.int64)},
        TypeError,
        ["attn_mask", "boolean", "int64", "mask != 0"],
    ),
    "a mask of small integers": (
        {"attn_mask": np.zeros((L, S), dtype=np.uint8)},
        TypeError,
        ["attn_mask", "uint8"],
    ),
    "a float mask of zeros and ones": (
        {"attn_mask": np.tri(L, S, dtype=np.float32)},
        ValueError,
        ["attn_mask", "zeros and ones", "boolean mask"],
    ),
    "a float mask of ones alone": (
        {"attn_mask": np.ones((L, S), dtype=np.float32)},
        ValueError,
        ["attn_mask", "zeros and ones"],
    ),
    "integer queries": (
        {"query": np.ones((B, H, L, E), dtype=np.int64)},
        TypeError,
        ["query", "int64"],
    ),
    "boolean values": (
        {"value": np.ones((B, H, S, EV), dtype=bool)},
        TypeError,
        ["value", "bool"],
    ),
    "complex keys": (
        {"key": np.ones((B, H, S, E), dtype=np.complex64)},
        TypeError,
        ["key", "complex64"],
    ),
    "mixed dtypes": (
        {"key": np.ones((B, H, S, E), dtype=np.float64)},
        TypeError,
        ["query, key and value", "float32", "float64"],
    ),
    "half precision beside float32": (
        {"value": np.ones((B, H, S, EV), dtype=np.float16)},
        TypeError,
        ["query, key and value", "float32", "float16"],
    ),
    "a mask in the flag's place": (
        {"is_causal": np.ones((L, S), dtype=bool)},
        TypeError,
        ["is_causal"],
    ),
    "a number in the flag's place": (
        {"is_causal": 1},
        TypeError,
        ["is_causal", "int"],
    ),
    "a scale that is no number": (
        {"scale": "1"},
        TypeError,
        ["scale", "'1'"],
    ),
    "a boolean scale": ({"scale": True}, TypeError, ["scale", "True"]),
    "a scale that is not finite": (
        {"scale": float("nan")},
        ValueError,
        ["scale", "nan"],
    ),
    "an infinite scale": (
        {"scale": float("inf")},
        ValueError,
        ["scale", "inf"],
    ),
    "a whole scale beyond every float": (
        {"scale": 10**400},
        ValueError,
        ["scale must be finite", "1000"],
    ),
}
TORCH_ATTENTION: dict[
    str, tuple[dict[str, Any], type[Exception], list[str]]
] = {
    "dropout of one": (
        {"dropout_p": 1.0},
        ValueError,
        ["dropout_p", r"\[0, 1\)", "1.0"],
    ),
    "dropout above one": (
        {"dropout_p": 1.5},
        ValueError,
        ["dropout_p", "1.5"],
    ),
    "negative dropout": (
        {"dropout_p": -0.1},
        ValueError,
        ["dropout_p", "-0.1"],
    ),
    "dropout of nan": (
        {"dropout_p": float("nan")},
        ValueError,
        ["dropout_p", "nan"],
    ),
    "dropout in words": (
        {"dropout_p": "0.1"},
        TypeError,
        ["dropout_p", "'0.1'"],
    ),
    "boolean dropout": (
        {"dropout_p": True},
        TypeError,
        ["dropout_p", "True"],
    ),
    "no dropout in words": (
        {"dropout_p": None},
        TypeError,
        ["dropout_p", "None"],
    ),
    "a flag that is a number": (
        {"enable_gqa": 1},
        TypeError,
        ["enable_gqa", "int"],
    ),
    "grouped heads that do not divide": (
        {"query": (B, 4, L, E), "enable_gqa": True},
        ValueError,
        ["multiple", "heads", _shape(B, 4, L, E), _shape(B, H, S, E)],
    ),
    "fewer query heads than key heads": (
        {"query": (B, 1, L, E), "enable_gqa": True},
        ValueError,
        ["multiple", _shape(B, 1, L, E)],
    ),
    "key and value heads differ": (
        {"query": (B, 6, L, E), "value": (B, 2, S, EV), "enable_gqa": True},
        ValueError,
        ["number of heads", _shape(B, H, S, E), _shape(B, 2, S, EV)],
    ),
    "grouped heads without a heads axis": (
        {
            "query": (L, E),
            "key": (S, E),
            "value": (S, EV),
            "enable_gqa": True,
        },
        ValueError,
        ["query", "heads", _shape(L, E)],
    ),
    "no key heads": (
        {
            "query": (B, 2, L, E),
            "key": (B, 0, S, E),
            "value": (B, 0, S, EV),
            "enable_gqa": True,
        },
        ValueError,
        ["multiple", _shape(B, 0, S, E)],
    ),
    "a float64 bias beside float32 inputs": (
        {"attn_mask": np.full((L, S), 0.5)},
        TypeError,
        ["attn_mask", "float32", "float64"],
    ),
    "a float16 bias beside float32 inputs": (
        {"attn_mask": np.full((L, S), 0.5, dtype=np.float16)},
        TypeError,
        ["attn_mask", "float32", "float16"],
    ),
    "a complex mask": (
        {"attn_mask": np.ones((L, S), dtype=np.complex64)},
        TypeError,
        ["attn_mask", "complex64"],
    ),
    "a list in place of a tensor": (
        {"query": [[1.0]]},
        TypeError,
        ["query", "list"],
    ),
    "no value": ({"value": None}, TypeError, ["value", "NoneType"]),
    "a list as a mask": (
        {"attn_mask": [[True]]},
        TypeError,
        ["attn_mask", "list"],
    ),
    "another device": (
        {"key": torch.ones(B, H, S, E, device="meta")},
        ValueError,
        ["key on meta", "query on cpu", "device"],
    ),
    "a mask on another device": (
        {"attn_mask": torch.ones(L, S, dtype=torch.bool, device="meta")},
        ValueError,
        ["attn_mask", "meta", "cpu"],
    ),
}
GOOD: dict[str, Any] = {
    "query": (B, H, L, E),
    "key": (B, H, S, E),
    "value": (B, H, S, EV),
}


def _arguments(changes: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.ones(x, dtype=np.float32) if isinstance(x, tuple) else x
        for name, x in (GOOD | changes).items()
    }


def _refused(
    call: Callable[[], Any], error: type[Exception], patterns: list[str]
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert (
        type(caught.value) is error
    )  # no subclass that came up by chance deep inside
    for pattern in patterns:
        assert re.search(pattern, str(caught.value)), (
            f"{pattern!r} not in: {caught.value}"
        )


@pytest.mark.parametrize("case", ATTENTION.values(), ids=ATTENTION)
def test_numpys_function_refuses(
    case: tuple[dict[str, Any], type[Exception], list[str]],
) -> None:
    changes, error, patterns = case
    arguments = _arguments(changes)
    _refused(
        lambda: reference.scaled_dot_product_attention(**arguments),
        error,
        patterns,
    )
    grad = np.ones((B, H, L, EV), dtype=np.float32)
    _refused(
        lambda: reference.scaled_dot_product_attention_backward(
            grad, **arguments
        ),
        error,
        patterns,
    )


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize(
    "case",
    (ATTENTION | TORCH_ATTENTION).values(),
    ids=ATTENTION | TORCH_ATTENTION,
)
def test_pytorchs_function_refuses(
    case: tuple[dict[str, Any], type[Exception], list[str]],
    return_weights: bool,
) -> None:
    changes, error, patterns = case
    arguments = {
        name: torch.tensor(x)
        if isinstance(x, np.ndarray) and name != "is_causal"
        else x
        for name, x in _arguments(changes).items()
    }
    with NoComputation():
        _refused(
            lambda: functional.scaled_dot_product_attention(
                **arguments, return_weights=return_weights
            ),
            error,
            patterns,
        )


def test_pytorchs_function_refuses_numpy_arrays() -> None:
    with pytest.raises(
        TypeError, match=r"query must be a tensor, got ndarray"
    ):
        functional.scaled_dot_product_attention(**_arguments({}))


def test_numpys_function_refuses_bad_dropout_factors() -> None:
    arguments = _arguments({})
    for factors, error, patterns in (
        (
            np.ones((L, 6), dtype=np.float32),
            ValueError,
            ["dropout_mask", _shape(L, 6)],
        ),
        (np.ones((L, S), dtype=bool), TypeError, ["dropout_mask", "bool"]),
        (np.ones((L, S), dtype=int), TypeError, ["dropout_mask", "int"]),
    ):
        _refused(
            lambda factors=factors: reference.scaled_dot_product_attention(
                **arguments, dropout_mask=factors
            ),
            error,
            patterns,
        )


def test_the_backward_refuses_a_gradient_that_is_not_the_outputs() -> None:
    arguments = _arguments({})
    backward = reference.scaled_dot_product_attention_backward
    wrong = _shape(B, H, L, E)
    for grad, error, patterns in (
        (
            np.ones((B, H, L, E), np.float32),
            ValueError,
            ["grad_output", wrong, _shape(B, H, L, EV)],
        ),
        (
            np.ones((1, H, L, EV), np.float32),
            ValueError,
            ["grad_output", _shape(1, H, L, EV)],
        ),
        (
            np.ones((B, H, L, EV)),
            TypeError,
            ["grad_output", "float32", "float64"],
        ),
        (np.ones((B, H, L, EV), int), TypeError, ["grad_output", "int"]),
    ):
        _refused(
            lambda grad=grad: backward(grad, **arguments), error, patterns
        )


# --- the other functions of the reference


@pytest.mark.parametrize(
    "function",
    [reference.softmax, reference.log_sum_exp, reference.softmax_jacobian],
)
def test_softmax_and_its_kin_refuse_what_is_not_floating_or_has_no_axis(
    function: Callable[[Any], Any],
) -> None:
    for x in (np.arange(3), [True, False], np.array([1j]), ["a"]):
        _refused(
            lambda x=x: function(x),
            TypeError,
            ["x must be of a floating dtype"],
        )
    _refused(lambda: function(1.0), TypeError, ["axis"])


@pytest.mark.parametrize(
    "function", [reference.softmax, reference.log_sum_exp]
)
def test_an_axis_that_is_not_there_is_named(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(ValueError, match=r"axis 2 is out of bounds"):
        function(np.ones((2, 3)), axis=2)


def test_dropout_factors_refuse_bad_arguments() -> None:
    rng = np.random.default_rng(0)
    draw = reference.dropout_mask
    for p in (1.0, -0.1, 2.0, float("nan")):
        _refused(
            lambda p=p: draw((2, 3), p, rng),
            ValueError,
            ["dropout_p", r"\[0, 1\)"],
        )
    for p in (True, "0.5", None):
        _refused(lambda p=p: draw((2, 3), p, rng), TypeError, ["dropout_p"])
    _refused(
        lambda: draw((2, 3), 0.5, rng, np.int64),
        TypeError,
        ["dtype", "int64"],
    )
    for not_rng in (None, 0, np.random.default_rng):
        _refused(lambda r=not_rng: draw((2, 3), 0.5, r), TypeError, ["rng"])


@pytest.mark.parametrize("language", ["numpy", "torch"])
def test_split_and_merge_heads_refuse_what_they_cannot_cut_or_join(
    language: str,
) -> None:
    module: Any = reference if language == "numpy" else multihead
    make = np.ones if language == "numpy" else torch.ones
    split, merge = module.split_heads, module.merge_heads
    _refused(
        lambda: split(make((2, 4, 7)), 3),
        ValueError,
        ["num_heads = 3", _shape(2, 4, 7)],
    )
    _refused(lambda: split(make((6,)), 3), ValueError, [_shape(6)])
    _refused(lambda: split(make((4, 6)), 0), ValueError, ["num_heads", "0"])
    _refused(
        lambda: split(make((4, 6)), -2), ValueError, ["num_heads", "-2"]
    )
    for wrong in (2.0, "2", True, None):
        _refused(
            lambda n=wrong: split(make((4, 6)), n),
            TypeError,
            ["num_heads", str(wrong)],
        )
    _refused(
        lambda: merge(make((4, 6))),
        ValueError,
        [r"\(\.\.\., H, L, d\)", _shape(4, 6)],
    )


def _numpy_layer(**changes: Any) -> dict[str, Any]:
    """Return good arguments of reference.multi_head_attention, changed; None drops a matrix."""
    parameters = {
        "W_Q": np.ones((D_MODEL, 6)),
        "W_K": np.ones((10, 6)),
        "W_V": np.ones((8, 15)),
        "W_O": np.ones((15, D_MODEL)),
        "b_Q": np.ones(6),
        "b_O": np.ones(D_MODEL),
    }
    arguments: dict[str, Any] = {
        "query": np.ones((B, L, D_MODEL)),
        "key": np.ones((B, S, 10)),
        "value": np.ones((B, S, 8)),
        "num_heads": H,
    }
    for name, x in changes.items():
        (parameters if name[:2] in ("W_", "b_") else arguments)[name] = x
    named = {name: x for name, x in parameters.items() if x is not None}
    return {"parameters": named} | arguments


NUMPY_LAYER: dict[str, tuple[dict[str, Any], type[Exception], list[str]]] = {
    "no heads": ({"num_heads": 0}, ValueError, ["num_heads", "0"]),
    "half a head": ({"num_heads": 1.5}, TypeError, ["num_heads", "1.5"]),
    "heads that do not divide W_Q": (
        {"num_heads": 4},
        ValueError,
        ["4 heads", "W_Q", _shape(12, 6)],
    ),
    "key/value heads that do not divide": (
        {"num_kv_heads": 2},
        ValueError,
        ["num_heads=3", "num_kv_heads=2"],
    ),
    "heads that do not divide W_V": (
        {"W_V": np.ones((8, 16))},
        ValueError,
        ["3 heads", "W_V", _shape(8, 16)],
    ),
    "a matrix missing": ({"W_K": None}, KeyError, ["missing", "W_K"]),
    "a matrix too many": (
        {"W_X": np.ones((2, 2))},
        KeyError,
        ["unknown", "W_X"],
    ),
    "an input that does not fit": (
        {"key": np.ones((B, S, 9))},
        ValueError,
        ["W_K", _shape(B, S, 9), _shape(10, 6)],
    ),
    "an input with one axis": (
        {"query": np.ones(12)},
        ValueError,
        ["W_Q", _shape(12)],
    ),
    "widths of queries and keys in a head differ": (
        {"W_K": np.ones((10, 9))},
        ValueError,
        ["d_k", _shape(B, H, L, 2), _shape(B, H, S, 3)],
    ),
    "lengths differ": (
        {"value": np.ones((B, 6, 8))},
        ValueError,
        ["length S", _shape(B, H, S, 2), _shape(B, H, 6, 5)],
    ),
    "batches differ": (
        {"key": np.ones((3, S, 10)), "value": np.ones((3, S, 8))},
        ValueError,
        ["leading axes"],
    ),
    "an output matrix of h * d_k rows": (
        {"W_O": np.ones((6, D_MODEL))},
        ValueError,
        ["W_O", "15", _shape(6, 12)],
    ),
    "an output matrix with three axes": (
        {"W_O": np.ones((1, 15, 2))},
        ValueError,
        ["W_O"],
    ),
    "a bias of another width": (
        {"b_Q": np.ones(7)},
        ValueError,
        ["b_Q", _shape(6), _shape(7)],
    ),
    "a bias with two axes": (
        {"b_O": np.ones((1, 12))},
        ValueError,
        ["b_O", _shape(1, 12)],
    ),
    "integer queries": (
        {"query": np.ones((B, L, 12), int)},
        TypeError,
        ["query", "int"],
    ),
    "an integer matrix": (
        {"W_V": np.ones((8, 15), int)},
        TypeError,
        ["W_V", "int"],
    ),
    "mixed dtypes": (
        {"W_O": np.ones((15, 12), np.float32)},
        TypeError,
        ["W_O", "float64", "float32"],
    ),
    "an integer mask": (
        {"attn_mask": np.ones((L, S), int)},
        TypeError,
        ["attn_mask", "int"],
    ),
    "a float mask of zeros and ones": (
        {"attn_mask": np.tri(L, S)},
        ValueError,
        ["attn_mask", "zeros and ones"],
    ),
    "a mask of another shape": (
        {"attn_mask": np.ones((B, L, S), bool)},
        ValueError,
        ["attn_mask", _shape(B, H, L, S), _shape(B, L, S)],
    ),
    "a flag that is a number": (
        {"is_causal": 1},
        TypeError,
        ["is_causal", "int"],
    ),
    "dropout factors of another shape": (
        {"dropout_mask": np.ones((L, 6))},
        ValueError,
        ["dropout_mask", _shape(L, 6)],
    ),
    "parameters without names": (
        {"parameters": [np.ones((D_MODEL, 6))]},
        TypeError,
        ["parameters", "mapping", "list"],
    ),
}


@pytest.mark.parametrize("case", NUMPY_LAYER.values(), ids=NUMPY_LAYER)
def test_numpys_layer_refuses_before_it_projects(
    case: tuple[dict[str, Any], type[Exception], list[str]],
) -> None:
    changes, error, patterns = case
    arguments = _numpy_layer(**changes)
    query = arguments["query"]
    if query.dtype.kind == "f" and query.ndim > 1:
        query[...] = np.inf
        query[
            ..., ::2
        ] = -np.inf  # any product would be inf - inf, which NumPy reports
    with np.errstate(all="raise"):
        _refused(
            lambda: reference.multi_head_attention(**arguments),
            error,
            patterns,
        )


# --- the layer


CONSTRUCTOR: dict[str, tuple[dict[str, Any], type[Exception], list[str]]] = {
    "heads that do not divide": (
        {"num_heads": 5},
        ValueError,
        ["d_model=12", "num_heads=5"],
    ),
    "heads that do not divide, d_k given": (
        {"num_heads": 5, "d_k": 2},
        ValueError,
        ["d_model=12", "num_heads=5"],
    ),
    "no heads": ({"num_heads": 0}, ValueError, ["num_heads", "0"]),
    "negative heads": ({"num_heads": -3}, ValueError, ["num_heads", "-3"]),
    "heads in words": ({"num_heads": "3"}, TypeError, ["num_heads", "'3'"]),
    "half a head": ({"num_heads": 1.5}, TypeError, ["num_heads", "1.5"]),
    "a boolean": ({"num_heads": True}, TypeError, ["num_heads", "True"]),
    "no width": ({"d_model": 0}, ValueError, ["d_model", "0"]),
    "a width that is no integer": (
        {"d_model": 12.0},
        TypeError,
        ["d_model", "12.0"],
    ),
    "key/value heads that do not divide": (
        {"num_kv_heads": 2},
        ValueError,
        ["num_heads=3", "num_kv_heads=2"],
    ),
    "no key/value heads": (
        {"num_kv_heads": 0},
        ValueError,
        ["num_kv_heads", "0"],
    ),
    "dropout of one": (
        {"dropout": 1.0},
        ValueError,
        ["dropout", r"\[0, 1\)", "1.0"],
    ),
    "negative dropout": ({"dropout": -0.5}, ValueError, ["dropout", "-0.5"]),
    "dropout in words": (
        {"dropout": "0.5"},
        TypeError,
        ["dropout", "'0.5'"],
    ),
    "parameters of integers": (
        {"dtype": torch.int64},
        TypeError,
        ["dtype", "torch.int64"],
    ),
    **{
        f"{name} {x!r}": ({name: x}, error, [name, re.escape(repr(x))])
        for name in ("d_k", "d_v", "kdim", "vdim")
        for x, error in (
            (0, ValueError),
            (-1, ValueError),
            (2.0, TypeError),
            (True, TypeError),
        )
    },
}


@pytest.mark.parametrize("case", CONSTRUCTOR.values(), ids=CONSTRUCTOR)
def test_the_layer_is_not_made(
    case: tuple[dict[str, Any], type[Exception], list[str]],
) -> None:
    changes, error, patterns = case
    arguments = {"d_model": D_MODEL, "num_heads": H} | changes
    _refused(lambda: MultiHeadAttention(**arguments), error, patterns)


LAYER: dict[str, tuple[dict[str, Any], type[Exception], list[str]]] = {
    "a query of another width": (
        {"query": (B, L, 11)},
        ValueError,
        ["query", "12", _shape(B, L, 11)],
    ),
    "a key of another width": (
        {"key": (B, S, 12)},
        ValueError,
        ["key", "10", _shape(B, S, 12)],
    ),
    "a value of another width": (
        {"value": (B, S, 9)},
        ValueError,
        ["value", "8", _shape(B, S, 9)],
    ),
    "a query with one axis": (
        {"query": (12,)},
        ValueError,
        ["query", _shape(12)],
    ),
    "lengths differ": (
        {"value": (B, 6, 8)},
        ValueError,
        ["length S", "key", "value"],
    ),
    "batches differ": (
        {"key": (3, S, 10), "value": (3, S, 8)},
        ValueError,
        ["leading axes", _shape(B), _shape(3)],
    ),
    "a mask of another shape": (
        {"attn_mask": np.ones((L, 6), bool)},
        ValueError,
        ["attn_mask", _shape(B, H, L, S), _shape(L, 6)],
    ),
    "a mask (B, L, S)": (
        {"attn_mask": np.ones((B, L, S), bool)},
        ValueError,
        ["attn_mask", _shape(B, L, S)],
    ),
    "a mask (B, S)": (
        {"attn_mask": np.ones((B, S), bool)},
        ValueError,
        ["attn_mask"],
    ),
    "an integer mask": (
        {"attn_mask": np.ones((L, S), int)},
        TypeError,
        ["attn_mask", "int"],
    ),
    "a float mask of zeros and ones": (
        {"attn_mask": np.tri(L, S, dtype=np.float32)},
        ValueError,
        ["attn_mask", "zeros and ones"],
    ),
    "a float64 mask": (
        {"attn_mask": np.full((L, S), 0.5)},
        TypeError,
        ["attn_mask", "float64"],
    ),
    "an array as a mask": (
        {"attn_mask": [[True]]},
        TypeError,
        ["attn_mask", "list"],
    ),
    "integer queries": (
        {"query": np.ones((B, L, 12), int)},
        TypeError,
        ["query", "int64"],
    ),
    "float64 queries": (
        {"query": np.ones((B, L, 12))},
        TypeError,
        ["query", "float64", "float32"],
    ),
    "half-precision values": (
        {"value": np.ones((B, S, 8), np.float16)},
        TypeError,
        ["value", "float16", "float32"],
    ),
    "a list as a query": ({"query": [[1.0]]}, TypeError, ["query", "list"]),
    "a key on another device": (
        {"key": torch.ones(B, S, 10, device="meta")},
        ValueError,
        ["key", "meta", "cpu"],
    ),
    "a mask on another device": (
        {"attn_mask": torch.ones(L, S, dtype=torch.bool, device="meta")},
        ValueError,
        ["attn_mask", "meta", "cpu"],
    ),
    "a mask in the flag's place": (
        {"is_causal": torch.ones(L, S, dtype=torch.bool)},
        TypeError,
        ["is_causal", "Tensor"],
    ),
}


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("case", LAYER.values(), ids=LAYER)
def test_the_layer_refuses_before_it_projects(
    case: tuple[dict[str, Any], type[Exception], list[str]],
    return_weights: bool,
) -> None:
    changes, error, patterns = case
    layer = MultiHeadAttention(D_MODEL, H, kdim=10, vdim=8)
    good = {"query": (B, L, D_MODEL), "key": (B, S, 10), "value": (B, S, 8)}
    arguments = {
        name: torch.ones(x)
        if isinstance(x, tuple)
        else torch.tensor(x)
        if isinstance(x, np.ndarray)
        else x
        for name, x in (good | changes).items()
    }
    with NoComputation():
        _refused(
            lambda: layer(**arguments, return_weights=return_weights),
            error,
            patterns,
        )


def test_from_torch_refuses_what_it_cannot_carry_over() -> None:
    _refused(
        lambda: MultiHeadAttention.from_torch(nn.Linear(2, 2)),
        TypeError,
        ["nn.MultiheadAttention", "Linear"],
    )
    for option in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        module = nn.MultiheadAttention(12, 3, **option)
        _refused(
            lambda m=module: MultiHeadAttention.from_torch(m),
            ValueError,
            [*option],
        )


@pytest.mark.parametrize(
    "options", [{"d_k": 3}, {"d_v": 5}, {"num_kv_heads": 1}]
)
def test_to_torch_refuses_what_pytorchs_layer_has_not(
    options: dict[str, int],
) -> None:
    layer = MultiHeadAttention(12, 3, **options)
    said = [f"{name}={x}" for name, x in options.items()]
    _refused(layer.to_torch, ValueError, said)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj", "out_proj"])
def test_to_torch_refuses_a_bias_in_some_of_the_projections(
    name: str, bias: bool
) -> None:
    layer = MultiHeadAttention(12, 3, bias=not bias)
    setattr(layer, name, nn.Linear(12, 12, bias=bias))
    _refused(
        layer.to_torch,
        ValueError,
        ["torch.nn.MultiheadAttention has biases in all", "or in none"],
    )


def test_to_torch_refuses_heads_whose_width_is_a_rounded_quotient() -> None:
    layer = MultiHeadAttention(10, 3, d_k=3, d_v=3)
    _refused(
        layer.to_torch, ValueError, ["d_model / num_heads", "d_model=10"]
    )


def test_integers_are_refused_under_autocast_too() -> None:
    layer = MultiHeadAttention(D_MODEL, H)
    with torch.autocast("cpu", torch.bfloat16):
        _refused(
            lambda: layer(torch.ones(B, L, D_MODEL, dtype=torch.int64)),
            TypeError,
            ["query", "int64"],
        )


# --- masks


BOOLEAN = torch.ones(L, S, dtype=torch.bool)
MASKS: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    **{
        f"{function.__name__}, {name} = {x!r}": (
            lambda f=function, o=options, n=name, x=x: f(
                **({"L": 3, "S": 4} | o | {n: x})
            ),
            TypeError
            if not isinstance(x, int) or isinstance(x, bool)
            else ValueError,
            [name, re.escape(repr(x))],
        )
        for function, options, names in (
            (masks.causal, {}, ("L", "S")),
            (masks.sliding_window, {"left": 2}, ("L", "S", "left", "right")),
        )
        for name in names
        for x in (-1, 2.0, "2", True)
    },
    "causal, unknown alignment": (
        lambda: masks.causal(3, alignment="left"),
        ValueError,
        ["alignment", "upper_left", "lower_right", "'left'"],
    ),
    "sliding_window, unknown alignment": (
        lambda: masks.sliding_window(3, left=1, alignment="left"),
        ValueError,
        ["alignment", "'left'"],
    ),
    "padding, float lengths": (
        lambda: masks.padding([1.0, 2.0]),
        TypeError,
        ["lengths", "float"],
    ),
    "padding, lengths in words": (
        lambda: masks.padding(["1", "2"]),
        TypeError,
        ["lengths", r"\['1', '2'\]"],
    ),
    "padding, a boolean mask": (
        lambda: masks.padding(torch.ones(2, dtype=torch.bool)),
        TypeError,
        ["lengths", "bool"],
    ),
    "padding, two axes": (
        lambda: masks.padding([[1, 2]]),
        ValueError,
        ["lengths", _shape(1, 2)],
    ),
    "padding, one number": (
        lambda: masks.padding(3),
        ValueError,
        ["lengths", _shape()],
    ),
    "padding, too long": (
        lambda: masks.padding([2, 5], 4),
        ValueError,
        ["S = 4", r"\[2, 5\]"],
    ),
    "padding, no keys for sequences that have some": (
        lambda: masks.padding([2, 1], 0),
        ValueError,
        ["S = 0", r"\[2, 1\]"],
    ),
    "padding, negative": (
        lambda: masks.padding([2, -1]),
        ValueError,
        ["lengths", r"\[2, -1\]"],
    ),
    "padding, S no integer": (
        lambda: masks.padding([2], 3.0),
        TypeError,
        ["S", "3.0"],
    ),
    "to_additive, floats": (
        lambda: masks.to_additive(torch.ones(2)),
        TypeError,
        ["float32"],
    ),
    "to_additive, a list": (
        lambda: masks.to_additive([True]),
        TypeError,
        ["list"],
    ),
    "to_additive, integer dtype": (
        lambda: masks.to_additive(BOOLEAN, torch.int64),
        TypeError,
        ["dtype", "int64"],
    ),
    "from_additive, boolean": (
        lambda: masks.from_additive(BOOLEAN),
        TypeError,
        ["bool"],
    ),
    "from_additive, a list": (
        lambda: masks.from_additive([0.0]),
        TypeError,
        ["list"],
    ),
    "to_module_attn_mask, integers": (
        lambda: masks.to_module_attn_mask(BOOLEAN.int(), B, H, L),
        TypeError,
        ["int32"],
    ),
    "to_module_attn_mask, another L": (
        lambda: masks.to_module_attn_mask(BOOLEAN, B, H, 6),
        ValueError,
        [_shape(B, H, 6, S), _shape(L, S)],
    ),
    "to_module_attn_mask, another batch": (
        lambda: masks.to_module_attn_mask(
            BOOLEAN.expand(3, H, L, S), B, H, L
        ),
        ValueError,
        [_shape(B, H, L, S), _shape(3, H, L, S)],
    ),
    "to_module_attn_mask, no axes": (
        lambda: masks.to_module_attn_mask(torch.tensor(True), B, H, L),
        ValueError,
        ["mask"],
    ),
    **{
        f"to_module_attn_mask, {name} = {x!r}": (
            lambda n=name, x=x: masks.to_module_attn_mask(
                BOOLEAN[None, None, :1],
                **({"batch_size": B, "num_heads": H, "L": L} | {n: x}),
            ),
            error,
            [name, re.escape(repr(x))],
        )
        for name in ("batch_size", "num_heads", "L")
        for x, error in (
            (-1, ValueError),
            (2.0, TypeError),
            ("2", TypeError),
        )
    },
    "to_module_padding_mask, (B, S)": (
        lambda: masks.to_module_padding_mask(BOOLEAN),
        ValueError,
        [r"\(B, 1, 1, S\)", _shape(L, S)],
    ),
    "to_module_padding_mask, (B, 1, L, S)": (
        lambda: masks.to_module_padding_mask(BOOLEAN[None, None]),
        ValueError,
        [_shape(1, 1, L, S)],
    ),
    "to_module_padding_mask, floats": (
        lambda: masks.to_module_padding_mask(torch.zeros(B, 1, 1, S)),
        TypeError,
        ["float32"],
    ),
    "from_module_masks, none": (
        lambda: masks.from_module_masks(num_heads=H),
        ValueError,
        ["attn_mask", "key_padding_mask"],
    ),
    "from_module_masks, heads that do not divide": (
        lambda: masks.from_module_masks(
            BOOLEAN.expand(4, L, S), num_heads=H
        ),
        ValueError,
        ["attn_mask", _shape(4, L, S), "3"],
    ),
    "from_module_masks, four axes": (
        lambda: masks.from_module_masks(BOOLEAN[None, None], num_heads=H),
        ValueError,
        ["attn_mask", _shape(1, 1, L, S)],
    ),
    "from_module_masks, three axes of padding": (
        lambda: masks.from_module_masks(
            key_padding_mask=BOOLEAN[None], num_heads=H
        ),
        ValueError,
        ["key_padding_mask", _shape(1, L, S)],
    ),
    "from_module_masks, lengths differ": (
        lambda: masks.from_module_masks(
            BOOLEAN, torch.ones(B, 6).bool(), num_heads=H
        ),
        ValueError,
        ["attn_mask", "key_padding_mask", _shape(L, S)],
    ),
    "from_module_masks, integers": (
        lambda: masks.from_module_masks(BOOLEAN.int(), num_heads=H),
        TypeError,
        ["int32"],
    ),
    "from_module_masks, a bias": (
        lambda: masks.from_module_masks(
            torch.full((L, S), 0.5), num_heads=H
        ),
        ValueError,
        ["0 and -inf"],
    ),
    "from_module_masks, no heads": (
        lambda: masks.from_module_masks(BOOLEAN, num_heads=0),
        ValueError,
        ["num_heads", "0"],
    ),
}


@pytest.mark.parametrize("case", MASKS.values(), ids=MASKS)
def test_masks_refuse(
    case: tuple[Callable[[], Any], type[Exception], list[str]],
) -> None:
    _refused(*case)


# --- how it is refused


def test_every_public_function_is_given_bad_input_here() -> None:
    """A function added to the package needs its bad input tested as well."""
    here = Path(__file__).read_text("utf-8")
    for module in (reference, masks, functional, multihead):
        for name in module.__all__:
            if callable(getattr(module, name)) and name != "Alignment":
                stem = "split|merge" if name.endswith("_heads") else name
                assert re.search(rf"\b(?:\w+\.)?({stem})\b", here), name


def test_the_package_checks_nothing_by_assert_which_python_dash_o_removes() -> (
    None
):
    for path in sorted(Path(attention.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            assert not isinstance(node, ast.Assert), (
                f"{path.name}:{node.lineno}"
            )


def test_signature_is_pytorchs_with_the_weights_beside_it() -> None:
    signature = inspect.signature(functional.scaled_dot_product_attention)
    defaults = {name: p.default for name, p in signature.parameters.items()}
    empty = inspect.Parameter.empty
    assert list(defaults.items()) == [
        ("query", empty),
        ("key", empty),
        ("value", empty),
        ("attn_mask", None),
        ("dropout_p", 0.0),
        ("is_causal", False),
        ("scale", None),
        ("enable_gqa", False),
        ("return_weights", False),
    ]
    assert (
        signature.parameters["return_weights"].kind
        is inspect.Parameter.KEYWORD_ONLY
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_of_numpys_own_types_are_not_refused(kind: Any) -> None:
    """A half is the same in all of them, as is a whole number."""
    x = torch.arange(float(L * E)).reshape(L, E).sin()
    assert torch.equal(
        functional.scaled_dot_product_attention(x, x, x, scale=kind(0.5)),
        functional.scaled_dot_product_attention(x, x, x, scale=0.5),
    )
    factors = [
        reference.dropout_mask((L, S), p, np.random.default_rng(0))
        for p in (kind(0.5), 0.5)
    ]
    np.testing.assert_array_equal(*factors)
    assert torch.equal(
        positions.frequencies(np.int64(E), base=kind(4)),
        positions.frequencies(E, base=4),
    )
    assert masks.causal(np.int64(L), np.int32(S)).shape == (L, S)
    layer = MultiHeadAttention(
        np.int64(D_MODEL), np.int32(H), dropout=kind(0.5)
    )
    assert (layer.d_model, layer.num_heads, layer.dropout) == (
        D_MODEL,
        H,
        0.5,
    )


def _layer_widths(kind: Callable) -> list[Any]:
    layer = MultiHeadAttention(
        kind(64), kind(8), d_k=kind(64), d_v=kind(32), num_kv_heads=kind(4)
    )
    return [*(p.shape for p in layer.parameters()), vars(layer)["d_k"]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "call",
    [
        lambda n: masks.causal(n(5), n(3), alignment="lower_right"),
        lambda n: masks.causal(300, n(3), alignment="lower_right"),
        lambda n: masks.causal(n(200)),
        lambda n: masks.sliding_window(
            n(5), n(3), left=n(1), right=n(250), alignment="lower_right"
        ),
        lambda n: masks.padding([2, 3], n(250)),
        lambda n: masks.to_module_attn_mask(
            masks.causal(3), n(100), n(8), n(3)
        ),
        lambda n: masks.from_module_masks(
            num_heads=n(200), attn_mask=torch.ones(400, 1, 2) > 0
        ),
        _layer_widths,
        lambda n: multihead.split_heads(torch.ones(2, 512), n(8)),
        lambda n: reference.split_heads(np.ones((2, 512)), n(8)),
        lambda n: reference.multi_head_attention(
            *[np.ones((2, 4))] * 3,
            {f"W_{x}": np.ones((4, 512)) for x in "QKV"}
            | {"W_O": np.ones((512, 4))},
            num_heads=n(8),
            num_kv_heads=n(8),
        ),
        lambda n: positions.frequencies(n(254)),
        lambda n: positions.sinusoidal(n(200), n(254)),
        lambda n: positions.half_split_order(n(254)),
    ],
)
def test_sizes_of_numpys_narrow_types_do_not_wrap_around(
    call: Callable,
) -> None:
    narrow, wide = call(np.uint8), call(int)
    torch.testing.assert_close(narrow, wide, rtol=0, atol=0)
