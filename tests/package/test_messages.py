"""The whole message of every refusal: what is wrong, in which argument, and what was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attention import (
    MultiHeadAttention,
    functional,
    masks,
    multihead,
    positions,
    reference,
)

B, H, L, S, E, EV, D_MODEL = 2, 3, 5, 7, 4, 6, 12
DTYPES = "(torch.float64, torch.float32, torch.float16, torch.bfloat16)"

# What is called, the error, and all that it says.
Refusal = tuple[Callable[[], object], type[Exception], str]


def _refusals(cases: dict[str, list[Refusal]]) -> Any:
    """Run a test over all refusals, each under the name of the function that refuses."""
    return pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            pytest.param(*case, id=f"{name} {number}")
            for name, refusals in cases.items()
            for number, case in enumerate(refusals)
        ],
    )


def _check(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert caught.value.args == (message,)


# --- masks

SEEN = torch.ones(L, S, dtype=torch.bool)
NO_BOOLEAN = "mask must be a boolean tensor, got {}"
NO_ALIGNMENT = "alignment must be 'upper_left' or 'lower_right', got 'left'"


def _to_module(**changes: Any) -> Callable[[], object]:
    good = {"mask": SEEN, "batch_size": B, "num_heads": H, "L": L}
    return lambda: masks.to_module_attn_mask(**(good | changes))


MASKS: dict[str, list[Refusal]] = {
    "causal": [
        (
            lambda: masks.causal(-1),
            ValueError,
            "L must be at least 0, got -1",
        ),
        (
            lambda: masks.causal(2.0),
            TypeError,
            "L must be an integer, got 2.0",
        ),
        (
            lambda: masks.causal(3, -1),
            ValueError,
            "S must be at least 0, got -1",
        ),
        (
            lambda: masks.causal(3, "4"),
            TypeError,
            "S must be an integer, got '4'",
        ),
        (
            lambda: masks.causal(3, alignment="left"),
            ValueError,
            NO_ALIGNMENT,
        ),
    ],
    "sliding_window": [
        (
            lambda: masks.sliding_window(3, left=-1),
            ValueError,
            "left must be at least 0, got -1",
        ),
        (
            lambda: masks.sliding_window(3, left=None),
            TypeError,
            "left must be an integer, got None",
        ),
        (
            lambda: masks.sliding_window(3, left=1, right=-2),
            ValueError,
            "right must be at least 0, got -2",
        ),
        (
            lambda: masks.sliding_window(3, left=1, right=True),
            TypeError,
            "right must be an integer, got True",
        ),
        (
            lambda: masks.sliding_window(-3, left=1),
            ValueError,
            "L must be at least 0, got -3",
        ),
        (
            lambda: masks.sliding_window(3, left=1, alignment="left"),
            ValueError,
            NO_ALIGNMENT,
        ),
    ],
    "padding": [
        (
            lambda: masks.padding(["1", "2"]),
            TypeError,
            "lengths must be integers, got ['1', '2']",
        ),
        (
            lambda: masks.padding([1.0, 2.0]),
            TypeError,
            "lengths must be integers, got torch.float32",
        ),
        (
            lambda: masks.padding([True, False]),
            TypeError,
            "lengths must be integers, got torch.bool",
        ),
        (
            lambda: masks.padding([1j]),
            TypeError,
            "lengths must be integers, got torch.complex64",
        ),
        (
            lambda: masks.padding([[1, 2]]),
            ValueError,
            "lengths must have shape (B,), got (1, 2)",
        ),
        (
            lambda: masks.padding([2], 3.0),
            TypeError,
            "S must be an integer, got 3.0",
        ),
        (
            lambda: masks.padding([2], -1),
            ValueError,
            "S must be at least 0, got -1",
        ),
        (
            lambda: masks.padding([2, 5], 4),
            ValueError,
            "lengths must lie between 0 and S = 4, got [2, 5]",
        ),
        (
            lambda: masks.padding([2, -1]),
            ValueError,
            "lengths must lie between 0 and S = 2, got [2, -1]",
        ),
    ],
    "to_additive": [
        (
            lambda: masks.to_additive(torch.ones(2)),
            TypeError,
            NO_BOOLEAN.format("torch.float32"),
        ),
        (
            lambda: masks.to_additive([True]),
            TypeError,
            NO_BOOLEAN.format("list"),
        ),
        (
            lambda: masks.to_additive(SEEN, torch.int64),
            TypeError,
            "dtype must be a floating torch.dtype, got torch.int64",
        ),
        (
            lambda: masks.to_additive(SEEN, "float32"),
            TypeError,
            "dtype must be a floating torch.dtype, got float32",
        ),
    ],
    "from_additive": [
        (
            lambda: masks.from_additive(SEEN),
            TypeError,
            "mask must be a floating tensor, got torch.bool",
        ),
        (
            lambda: masks.from_additive([0.0]),
            TypeError,
            "mask must be a floating tensor, got list",
        ),
        (
            lambda: masks.from_additive(torch.tensor([0.0, -1e9])),
            ValueError,
            "mask holds values other than 0 and -inf (a bias, or a large negative number in "
            "place of -inf), which a boolean mask cannot express",
        ),
    ],
    "to_module_attn_mask": [
        (
            _to_module(mask=SEEN.int()),
            TypeError,
            NO_BOOLEAN.format("torch.int32"),
        ),
        (
            _to_module(batch_size=-1),
            ValueError,
            "batch_size must be at least 0, got -1",
        ),
        (
            _to_module(batch_size=2.0),
            TypeError,
            "batch_size must be an integer, got 2.0",
        ),
        (
            _to_module(num_heads=0),
            ValueError,
            "num_heads must be at least 1, got 0",
        ),
        (
            _to_module(num_heads="3"),
            TypeError,
            "num_heads must be an integer, got '3'",
        ),
        (_to_module(L=-5), ValueError, "L must be at least 0, got -5"),
        (_to_module(L=True), TypeError, "L must be an integer, got True"),
        (
            _to_module(mask=SEEN.expand(H, L, S)),
            ValueError,
            "mask must have shape (L, S) or all 4 axes of the scores (2, 3, 5, 7), got "
            "(3, 5, 7): write mask[:, None] for a mask per batch entry, mask[None] for one per "
            "head",
        ),
        (
            _to_module(L=6),
            ValueError,
            "mask must broadcast to the scores' shape (..., L, S) = (2, 3, 6, 7), got (5, 7)",
        ),
        (
            _to_module(mask=torch.tensor(True)),
            ValueError,
            "mask must broadcast to the scores' shape (..., L, S) = (2, 3, 5, 0), got ()",
        ),
    ],
    "to_module_padding_mask": [
        (
            lambda: masks.to_module_padding_mask(torch.zeros(B, 1, 1, S)),
            TypeError,
            NO_BOOLEAN.format("torch.float32"),
        ),
        (
            lambda: masks.to_module_padding_mask(SEEN),
            ValueError,
            "mask must have shape (B, 1, 1, S), got (5, 7)",
        ),
        (
            lambda: masks.to_module_padding_mask(SEEN[None, None]),
            ValueError,
            "mask must have shape (B, 1, 1, S), got (1, 1, 5, 7)",
        ),
        (
            lambda: masks.to_module_padding_mask(SEEN[None, :, None]),
            ValueError,
            "mask must have shape (B, 1, 1, S), got (1, 5, 1, 7)",
        ),
    ],
    "from_module_masks": [
        (
            lambda: masks.from_module_masks(SEEN, num_heads=0),
            ValueError,
            "num_heads must be at least 1, got 0",
        ),
        (
            lambda: masks.from_module_masks(SEEN, num_heads=3.0),
            TypeError,
            "num_heads must be an integer, got 3.0",
        ),
        (
            lambda: masks.from_module_masks(SEEN.int(), num_heads=H),
            TypeError,
            NO_BOOLEAN.format("torch.int32"),
        ),
        (
            lambda: masks.from_module_masks(
                SEEN.expand(4, L, S), num_heads=H
            ),
            ValueError,
            "attn_mask must have shape (L, S) or (B * 3, L, S), got (4, 5, 7)",
        ),
        (
            lambda: masks.from_module_masks(
                key_padding_mask=SEEN[None], num_heads=H
            ),
            ValueError,
            "key_padding_mask must have shape (B, S) or (S,), got (1, 5, 7)",
        ),
        (
            lambda: masks.from_module_masks(num_heads=H),
            ValueError,
            "give attn_mask, key_padding_mask, or both",
        ),
        (
            lambda: masks.from_module_masks(
                SEEN, torch.ones(B, 6, dtype=torch.bool), num_heads=H
            ),
            ValueError,
            "attn_mask and key_padding_mask do not fit each other: (5, 7) and "
            "(2, 6) with num_heads = 3",
        ),
        *(
            (
                lambda pair=pair: masks.from_module_masks(
                    *(
                        torch.zeros(shape, dtype=torch.bool)
                        for shape in pair
                    ),
                    num_heads=H,
                ),
                ValueError,
                "attn_mask and key_padding_mask do not fit each other: "
                f"{pair[0]} and {pair[1]} with num_heads = 3",
            )
            for pair in (
                ((H, L, S), (B, S)),
                ((B * H, L, S), (1, S)),
                ((B * H, L, S), (S,)),
                ((L, 1), (B, S)),
                ((L, S), (B, 1)),
            )
        ),
    ],
}


@_refusals(MASKS)
def test_a_mask_is_refused_with_the_whole_reason(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    _check(call, error, message)


# --- the functions: the same words in both languages, where the same is wrong


def _attend(
    attend: Callable[..., Any], array: Callable[..., Any], **changes: Any
) -> Any:
    """Attend to ones of the usual shapes, and of others where a tuple says so."""
    good = {
        "query": (B, H, L, E),
        "key": (B, H, S, E),
        "value": (B, H, S, EV),
    }
    arguments = {
        name: array(x) if isinstance(x, tuple) else x
        for name, x in (good | changes).items()
    }
    return attend(**arguments)


SHARED: list[tuple[dict[str, Any], type[Exception], str]] = [
    (
        {"query": (E,)},
        ValueError,
        "query must have shape (..., length, width), got (4,)",
    ),
    (
        {"key": (E,)},
        ValueError,
        "key must have shape (..., length, width), got (4,)",
    ),
    (
        {"value": ()},
        ValueError,
        "value must have shape (..., length, width), got ()",
    ),
    (
        {"query": (B, H, L, 3)},
        ValueError,
        "query and key must have the same width d_k, got query (2, 3, 5, 3) and "
        "key (2, 3, 7, 4)",
    ),
    (
        {"query": (B, H, L, 0), "key": (B, H, S, 0)},
        ValueError,
        "the width d_k must be at least 1, got query (2, 3, 5, 0)",
    ),
    (
        {"value": (B, H, 6, EV)},
        ValueError,
        "key and value must have the same length S, got key (2, 3, 7, 4) and "
        "value (2, 3, 6, 6)",
    ),
    (
        {"value": (4, H, S, EV)},
        ValueError,
        "the leading axes do not broadcast: query (2, 3), key (2, 3), value (4, 3)",
    ),
    (
        {"is_causal": 1},
        TypeError,
        "is_causal must be True or False, got int",
    ),
    (
        {"scale": "1"},
        TypeError,
        "scale must be a number or None, got '1'",
    ),
    (
        {"is_causal": np.True_},
        TypeError,
        f"is_causal must be True or False, got NumPy's {np.bool_.__name__}",
    ),
    (
        {"scale": np.complex64(1 + 2j)},
        TypeError,
        f"scale must be a number or None, got {np.complex64(1 + 2j)!r}",
    ),
    (
        {"scale": float("inf")},
        ValueError,
        "scale must be finite, got inf",
    ),
]
MASK_SHAPE = "attn_mask must broadcast to the scores' shape (..., L, S) = (2, 3, 5, 7), got {}"
MASK_OF_INTEGERS = (
    "attn_mask must be boolean (True = may attend) or floating (added to the scores), "
    "got {}: convert a mask of zeros and ones with `mask != 0`"
)
ZEROS_AND_ONES = (
    "attn_mask is a float mask of zeros and ones: it would be added to the scores and mask "
    "nothing. For a boolean meaning pass a boolean mask (True = may attend); to add a "
    "bias, use values other than 0 and 1 alone"
)


def _numpy(**changes: Any) -> Callable[[], object]:
    return lambda: _attend(
        reference.scaled_dot_product_attention, np.ones, **changes
    )


def _backward(grad: Any) -> Callable[[], object]:
    return lambda: _attend(
        reference.scaled_dot_product_attention_backward,
        np.ones,
        grad_output=grad,
    )


def _torch(**changes: Any) -> Callable[[], object]:
    return lambda: _attend(
        functional.scaled_dot_product_attention, torch.ones, **changes
    )


GROUPED: dict[str, Any] = {"enable_gqa": True}
FUNCTIONS: dict[str, list[Refusal]] = {
    "NumPy": [
        *((_numpy(**changes), *said) for changes, *said in SHARED),
        (
            _numpy(query=np.ones((B, H, L, E), np.int64)),
            TypeError,
            "query must be of a floating dtype, got int64",
        ),
        (
            _numpy(key=np.ones((B, H, S, E), np.complex64)),
            TypeError,
            "key must be of a floating dtype, got complex64",
        ),
        (
            _numpy(value=np.ones((B, H, S, EV), bool)),
            TypeError,
            "value must be of a floating dtype, got bool",
        ),
        (
            _numpy(key=np.ones((B, H, S, E), np.float32)),
            TypeError,
            "query, key and value must share one dtype, got float64, float32 and float64",
        ),
        (
            _numpy(attn_mask=np.ones((L, 6), bool)),
            ValueError,
            MASK_SHAPE.format((L, 6)),
        ),
        (
            _numpy(attn_mask=np.ones((L, S), np.int32)),
            TypeError,
            MASK_OF_INTEGERS.format("int32"),
        ),
        (_numpy(attn_mask=np.tri(L, S)), ValueError, ZEROS_AND_ONES),
        (
            _numpy(dropout_mask=np.ones((L, S), bool)),
            TypeError,
            "dropout_mask must be of a floating dtype, got bool",
        ),
        (
            _numpy(dropout_mask=np.ones((L, 6))),
            ValueError,
            "dropout_mask must broadcast to the scores' shape (..., L, S) = (2, 3, 5, 7), "
            "got (5, 6)",
        ),
    ],
    "NumPy backward": [
        (
            _backward(np.ones((B, H, L, EV), int)),
            TypeError,
            "grad_output must be of a floating dtype, got int64",
        ),
        (
            _backward(np.ones((B, H, L, EV), np.float32)),
            TypeError,
            "grad_output must be of float64 as query is, got float32",
        ),
        (
            _backward(np.ones((B, H, L, E))),
            ValueError,
            "grad_output must have the output's shape (2, 3, 5, 6), got (2, 3, 5, 4)",
        ),
    ],
    "PyTorch": [
        *((_torch(**changes), *said) for changes, *said in SHARED),
        *(
            (
                _torch(**{name: [1.0]}),
                TypeError,
                f"{name} must be a tensor, got list",
            )
            for name in ("query", "key", "value", "attn_mask")
        ),
        *(
            (
                _torch(**{name: torch.ones(L, S, dtype=torch.int64)}),
                TypeError,
                f"{name} must be float64, float32, float16 or bfloat16, got torch.int64",
            )
            for name in ("query", "key", "value")
        ),
        (
            _torch(value=torch.ones(B, H, S, EV, dtype=torch.float16)),
            TypeError,
            "query, key and value must share one dtype, got torch.float32, torch.float32 and "
            "torch.float16",
        ),
        (
            _torch(key=torch.ones(B, H, S, E, device="meta")),
            ValueError,
            "query, key and value must be on one device, got query on cpu, key on meta, "
            "value on cpu",
        ),
        (
            _torch(enable_gqa=1),
            TypeError,
            "enable_gqa must be True or False, got int",
        ),
        (
            _torch(return_weights=None),
            TypeError,
            "return_weights must be True or False, got NoneType",
        ),
        (
            _torch(dropout_p="0.1"),
            TypeError,
            "dropout_p must be a number in [0, 1), got '0.1'",
        ),
        (
            _torch(dropout_p=np.complex64(0.1)),
            TypeError,
            f"dropout_p must be a number in [0, 1), got {np.complex64(0.1)!r}",
        ),
        (
            _torch(dropout_p=1.0),
            ValueError,
            "dropout_p must lie in [0, 1), got 1.0",
        ),
        (
            _torch(**GROUPED, query=(L, E), key=(S, E), value=(S, EV)),
            ValueError,
            "query must have shape (..., heads, length, width), got (5, 4)",
        ),
        (
            _torch(**GROUPED, query=(B, 4, L, E)),
            ValueError,
            "the number of query heads must be a multiple of the number of key and value "
            "heads, got query (2, 4, 5, 4) and key (2, 3, 7, 4)",
        ),
        (
            _torch(**GROUPED, value=(B, 1, S, EV)),
            ValueError,
            "key and value must have the same number of heads, got key (2, 3, 7, 4), "
            "value (2, 1, 7, 6)",
        ),
        (
            _torch(**GROUPED, query=(5, 6, L, E)),
            ValueError,
            "the leading axes do not broadcast: query (5, 6), key (2, 6), value (2, 6)",
        ),
        (
            _torch(attn_mask=torch.ones(L, S, device="meta").bool()),
            ValueError,
            "attn_mask is on meta, but query on cpu",
        ),
        (
            _torch(attn_mask=torch.ones(L, 6).bool()),
            ValueError,
            MASK_SHAPE.format((L, 6)),
        ),
        (
            _torch(attn_mask=torch.ones(L, S).int()),
            TypeError,
            MASK_OF_INTEGERS.format("torch.int32"),
        ),
        (
            _torch(attn_mask=torch.full((L, S), 0.5).double()),
            TypeError,
            "a floating attn_mask must be of the inputs' torch.float32 or of float32, got "
            "torch.float64",
        ),
        (
            _torch(attn_mask=torch.ones(L, S).tril()),
            ValueError,
            ZEROS_AND_ONES,
        ),
    ],
}


@_refusals(FUNCTIONS)
def test_attention_is_refused_with_the_whole_reason(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    _check(call, error, message)


# --- the other functions of the reference, and the heads of both languages

RNG = np.random.default_rng(0)
TWO_AXES = np.ones((L, 6))
REFERENCE: dict[str, list[Refusal]] = {
    **{
        function.__name__: [
            (
                lambda f=function: f([1, 2]),
                TypeError,
                "x must be of a floating dtype, got int64",
            ),
            (
                lambda f=function: f(1.0),
                TypeError,
                "x must have at least one axis, got a single number",
            ),
        ]
        for function in (
            reference.softmax,
            reference.log_sum_exp,
            reference.softmax_jacobian,
        )
    },
    "dropout_mask": [
        (
            lambda: reference.dropout_mask((2, 3), 1.0, RNG),
            ValueError,
            "dropout_p must lie in [0, 1), got 1.0",
        ),
        (
            lambda: reference.dropout_mask((2, 3), None, RNG),
            TypeError,
            "dropout_p must be a number in [0, 1), got None",
        ),
        (
            lambda: reference.dropout_mask((2, 3), 0.5, RNG, np.int64),
            TypeError,
            "dtype must be floating, got int64",
        ),
        (
            lambda: reference.dropout_mask((2, 3), 0.5, 0),
            TypeError,
            "rng must be a numpy.random.Generator, got int",
        ),
    ],
    **{
        f"{module.__name__} heads": [
            (
                lambda m=module, x=x: m.split_heads(x, 2.0),
                TypeError,
                "num_heads must be an integer, got 2.0",
            ),
            (
                lambda m=module, x=x: m.split_heads(x, 0),
                ValueError,
                "num_heads must be at least 1, got 0",
            ),
            (
                lambda m=module, x=x: m.split_heads(x, 4),
                ValueError,
                "x must have shape (..., L, width) with a width that num_heads = 4 divides, "
                "got (5, 6)",
            ),
            (
                lambda m=module, x=x: m.split_heads(x[0], 3),
                ValueError,
                "x must have shape (..., L, width) with a width that num_heads = 3 divides, "
                "got (6,)",
            ),
            (
                lambda m=module, x=x: m.merge_heads(x),
                ValueError,
                "x must have shape (..., H, L, d), got (5, 6)",
            ),
        ]
        for module, x in (
            (reference, TWO_AXES),
            (multihead, torch.tensor(TWO_AXES)),
        )
    },
    "heads of no tensor": [
        (
            lambda: multihead.split_heads(TWO_AXES, 3),
            TypeError,
            "x must be a tensor, got ndarray",
        ),
        (
            lambda: multihead.merge_heads(TWO_AXES),
            TypeError,
            "x must be a tensor, got ndarray",
        ),
    ],
}


@_refusals(REFERENCE)
def test_a_part_of_attention_is_refused_with_the_whole_reason(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    _check(call, error, message)


# --- the layer and its twin in NumPy


def _numpy_layer(**changes: Any) -> Callable[[], object]:
    """Call the twin with good arguments, changed; None drops a matrix."""
    parameters = {
        "W_Q": np.ones((D_MODEL, 6)),
        "W_K": np.ones((10, 6)),
        "W_V": np.ones((8, 15)),
        "W_O": np.ones((15, D_MODEL)),
        "b_Q": np.ones(6),
    }
    arguments: dict[str, Any] = {
        "query": np.ones((B, L, D_MODEL)),
        "key": np.ones((B, S, 10)),
        "value": np.ones((B, S, 8)),
        "num_heads": H,
        "parameters": parameters,
    }
    for name, x in changes.items():
        (parameters if name[:2] in ("W_", "b_") else arguments)[name] = x
        if x is None:
            del parameters[name]
    return lambda: reference.multi_head_attention(**arguments)


def _layer(**changes: Any) -> Callable[[], object]:
    layer = MultiHeadAttention(D_MODEL, H, kdim=10, vdim=8)
    return lambda: _attend(
        layer,
        torch.ones,
        **{"query": (B, L, D_MODEL), "key": (B, S, 10), "value": (B, S, 8)}
        | changes,
    )


def _make(**changes: Any) -> Callable[[], object]:
    return lambda: MultiHeadAttention(
        **({"d_model": D_MODEL, "num_heads": H} | changes)
    )


HEAD_COUNTS = "num_heads must be a multiple of num_kv_heads, got num_heads=3 and num_kv_heads=2"
OWN_AXES = (
    "{} must have shape (L, S) or all 4 axes of the scores (2, 3, 5, 7), got (2, 5, 7): write "
    "mask[:, None] for a mask per batch entry, mask[None] for one per head"
)
NO_MULTIPLE = (
    "num_heads must divide d_model unless d_k and d_v are given, "
    "got d_model=12 and num_heads=5"
)
NOT_PYTORCHS = (
    "torch.nn.MultiheadAttention needs d_k = d_v = d_model / num_heads and as many key/value "
    "heads as query heads, got d_model=12, num_heads=3, num_kv_heads={}, d_k={}, d_v={}, "
    "dropout=0.0"
)
LAYERS: dict[str, list[Refusal]] = {
    "NumPy": [
        (
            _numpy_layer(parameters=[1]),
            TypeError,
            "parameters must be a mapping, got list",
        ),
        (
            _numpy_layer(num_heads=0),
            ValueError,
            "num_heads must be at least 1, got 0",
        ),
        (
            _numpy_layer(num_kv_heads=0),
            ValueError,
            "num_kv_heads must be at least 1, got 0",
        ),
        (_numpy_layer(num_kv_heads=2), ValueError, HEAD_COUNTS),
        (
            _numpy_layer(W_K=None, W_V=None, W_X=np.ones(1), b_P=np.ones(1)),
            KeyError,
            "parameters: missing ['W_K', 'W_V'], unknown ['W_X', 'b_P']",
        ),
        *(
            (
                _numpy_layer(**{name: np.ones((L, S), int)}),
                TypeError,
                f"{name} must be of a floating dtype, got int64",
            )
            for name in ("query", "key", "value", "W_V", "b_Q")
        ),
        *(
            (
                _numpy_layer(**{name: np.ones((L, S), np.float32)}),
                TypeError,
                f"{name} must be of float64 as query is, got float32",
            )
            for name in ("key", "value", "W_O", "b_K")
        ),
        *(
            (
                _numpy_layer(**{name: np.ones(shape)}),
                ValueError,
                f"input of shape {shape} does not fit W_{name[0].upper()} {matrix}",
            )
            for name, shape, matrix in (
                ("query", (D_MODEL,), (D_MODEL, 6)),
                ("key", (B, S, 9), (10, 6)),
                ("value", (B, S, 10), (8, 15)),
            )
        ),
        (
            _numpy_layer(W_Q=np.ones((1, D_MODEL, 6))),
            ValueError,
            "input of shape (2, 5, 12) does not fit W_Q (1, 12, 6)",
        ),
        (
            _numpy_layer(W_Q=np.ones((D_MODEL, 7))),
            ValueError,
            "3 heads do not divide the columns of W_Q (12, 7)",
        ),
        (
            _numpy_layer(W_V=np.ones((8, 16))),
            ValueError,
            "3 heads do not divide the columns of W_V (8, 16)",
        ),
        (
            _numpy_layer(W_K=np.ones((10, 9))),
            ValueError,
            "query and key must have the same width d_k, got query (2, 3, 5, 2) and "
            "key (2, 3, 7, 3)",
        ),
        (
            _numpy_layer(W_O=np.ones((6, D_MODEL))),
            ValueError,
            "W_O must have num_heads * d_v = 15 rows, got (6, 12)",
        ),
        (
            _numpy_layer(W_O=np.ones((15, D_MODEL, 1))),
            ValueError,
            "W_O must have num_heads * d_v = 15 rows, got (15, 12, 1)",
        ),
        (
            _numpy_layer(b_Q=np.ones(7)),
            ValueError,
            "b_Q must have shape (6,), got (7,)",
        ),
        (
            _numpy_layer(b_O=np.ones((1, D_MODEL))),
            ValueError,
            "b_O must have shape (12,), got (1, 12)",
        ),
        (
            _numpy_layer(attn_mask=np.ones((B, L, S), bool)),
            ValueError,
            OWN_AXES.format("attn_mask"),
        ),
        (
            _numpy_layer(attn_mask=np.ones((L, S), np.int64)),
            TypeError,
            MASK_OF_INTEGERS.format("int64"),
        ),
        (
            _numpy_layer(is_causal=1),
            TypeError,
            "is_causal must be True or False, got int",
        ),
        (
            _numpy_layer(dropout_mask=np.ones((B, 1, 7))),
            ValueError,
            "dropout_mask must broadcast to the scores' shape (..., L, S) = (2, 3, 5, 7), "
            "got (2, 1, 7)",
        ),
        (
            _numpy_layer(dropout_mask=np.ones((H, L, S))),
            ValueError,
            OWN_AXES.format("dropout_mask").replace("got (2", "got (3"),
        ),
    ],
    "made": [
        *(
            (
                _make(**{name: x}),
                error,
                f"{name} must be {what}, got {x}",
            )
            for name in (
                "d_model",
                "num_heads",
                "num_kv_heads",
                "d_k",
                "d_v",
                "kdim",
                "vdim",
            )
            for x, error, what in (
                (0, ValueError, "at least 1"),
                (1.5, TypeError, "an integer"),
            )
        ),
        (
            _make(bias=1),
            TypeError,
            "bias must be True or False, got int",
        ),
        (
            _make(dtype=torch.int64),
            TypeError,
            f"dtype must be one of {DTYPES}, got torch.int64",
        ),
        (_make(num_kv_heads=2), ValueError, HEAD_COUNTS),
        (_make(num_heads=5), ValueError, NO_MULTIPLE),
        (_make(num_heads=5, d_k=2), ValueError, NO_MULTIPLE),
        (_make(num_heads=5, d_v=2), ValueError, NO_MULTIPLE),
        (
            _make(dropout=1.0),
            ValueError,
            "dropout must lie in [0, 1), got 1.0",
        ),
        (
            _make(dropout="0.5"),
            TypeError,
            "dropout must be a number in [0, 1), got '0.5'",
        ),
    ],
    "called": [
        *(
            (
                _layer(**{name: [1.0]}),
                TypeError,
                f"{name} must be a tensor, got list",
            )
            for name in ("query", "key", "value", "attn_mask")
        ),
        *(
            (
                _layer(**{name: (B, L, 9)}),
                ValueError,
                f"{name} must have shape (..., length, {width}), got (2, 5, 9)",
            )
            for name, width in (("query", 12), ("key", 10), ("value", 8))
        ),
        (
            _layer(query=(D_MODEL,)),
            ValueError,
            "query must have shape (..., length, 12), got (12,)",
        ),
        (
            _layer(key=torch.ones(B, S, 10, device="meta")),
            ValueError,
            "key is on meta, but the layer on cpu",
        ),
        (
            _layer(value=torch.ones(B, S, 8).half()),
            TypeError,
            "value is of torch.float16, but the layer of torch.float32",
        ),
        (
            _layer(value=(B, 6, 8)),
            ValueError,
            "key and value must have the same length S, got key (2, 7, 10) and value (2, 6, 8)",
        ),
        (
            _layer(value=(4, S, 8)),
            ValueError,
            "the leading axes do not broadcast: query (2,), key (2,), value (4,)",
        ),
        (
            _layer(attn_mask=torch.ones(B, L, S).bool()),
            ValueError,
            OWN_AXES.format("attn_mask"),
        ),
        (
            _layer(attn_mask=torch.ones(S, L).bool()),
            ValueError,
            MASK_SHAPE.format((S, L)),
        ),
        (
            _layer(attn_mask=torch.ones(L, S).int()),
            TypeError,
            MASK_OF_INTEGERS.format("torch.int32"),
        ),
        (
            _layer(is_causal=0),
            TypeError,
            "is_causal must be True or False, got int",
        ),
        (
            _layer(return_weights="no"),
            TypeError,
            "return_weights must be True or False, got str",
        ),
    ],
    "from and to PyTorch": [
        (
            lambda: MultiHeadAttention.from_torch(nn.Linear(2, 2)),
            TypeError,
            "module must be a torch.nn.MultiheadAttention, got Linear",
        ),
        *(
            (
                lambda option=option: MultiHeadAttention.from_torch(
                    nn.MultiheadAttention(D_MODEL, H, **{option: True})
                ),
                ValueError,
                "module uses add_bias_kv or add_zero_attn, which have no counterpart",
            )
            for option in ("add_bias_kv", "add_zero_attn")
        ),
        *(
            (
                MultiHeadAttention(D_MODEL, H, **options).to_torch,
                ValueError,
                NOT_PYTORCHS.format(*said),
            )
            for options, said in (
                ({"num_kv_heads": 1}, (1, 4, 4)),
                ({"d_k": 2}, (3, 2, 4)),
                ({"d_v": 5}, (3, 4, 5)),
                ({"d_k": 2, "d_v": 2}, (3, 2, 2)),
            )
        ),
    ],
}


@_refusals(LAYERS)
def test_a_layer_is_refused_with_the_whole_reason(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    _check(call, error, message)


# --- positions

X = torch.zeros(B, H, L, E)
HALF = torch.zeros(L, E // 2)
NO_PAIRS = "{} must be even, as components come in pairs, got {}"
NO_PAIRING = 'pairing must be "half_split" or "interleaved", got {!r}'


def _rope(**changes: Any) -> Callable[[], object]:
    good = {"x": X, "pairing": "half_split"}
    return lambda: positions.rope(**(good | changes))


def _rotate(**changes: Any) -> Callable[[], object]:
    good = {"x": X, "cos": HALF, "sin": HALF, "pairing": "half_split"}
    return lambda: positions.rotate(**(good | changes))


POSITIONS: dict[str, list[Refusal]] = {
    "frequencies": [
        (
            lambda: positions.frequencies(4.0),
            TypeError,
            "width must be an integer, got 4.0",
        ),
        (
            lambda: positions.frequencies(True),
            TypeError,
            "width must be an integer, got True",
        ),
        (
            lambda: positions.frequencies(0),
            ValueError,
            "width must be at least 2, got 0",
        ),
        (
            lambda: positions.frequencies(5),
            ValueError,
            NO_PAIRS.format("width", 5),
        ),
        *(
            (
                lambda base=base: positions.frequencies(4, base=base),
                ValueError,
                f"base must be positive and finite, got {said}",
            )
            for base, said in (
                (0.0, "0.0"),
                (-1, "-1.0"),
                (float("inf"), "inf"),
                (float("nan"), "nan"),
                (10**400, "inf"),
            )
        ),
        (
            lambda: positions.frequencies(4, base="1"),
            TypeError,
            "base must be a number, got '1'",
        ),
        (
            lambda: positions.frequencies(4, base=np.complex64(9)),
            TypeError,
            f"base must be a number, got {np.complex64(9)!r}",
        ),
        (
            lambda: positions.frequencies(4, base=True),
            TypeError,
            "base must be a number, got True",
        ),
    ],
    "sinusoidal": [
        *(
            (
                lambda dtype=dtype: positions.sinusoidal(L, 4, dtype=dtype),
                TypeError,
                f"dtype must be one of {DTYPES}, got {dtype}",
            )
            for dtype in ("float32", torch.int64)
        ),
        (
            lambda: positions.sinusoidal(5.0, 4),
            TypeError,
            "positions must be an integer, got 5.0",
        ),
        (
            lambda: positions.sinusoidal(-1, 4),
            ValueError,
            "positions must be at least 0, got -1",
        ),
        (
            lambda: positions.sinusoidal(torch.ones(3).bool(), 4),
            TypeError,
            "positions must be real numbers, got torch.bool",
        ),
        (
            lambda: positions.sinusoidal(torch.ones(3).cfloat(), 4),
            TypeError,
            "positions must be real numbers, got torch.complex64",
        ),
        (
            lambda: positions.sinusoidal(L, 4.0),
            TypeError,
            "d_model must be an integer, got 4.0",
        ),
        (
            lambda: positions.sinusoidal(L, 0),
            ValueError,
            "d_model must be at least 2, got 0",
        ),
        (
            lambda: positions.sinusoidal(L, 3),
            ValueError,
            NO_PAIRS.format("d_model", 3),
        ),
        (
            lambda: positions.sinusoidal(L, 4, base=0),
            ValueError,
            "base must be positive and finite, got 0.0",
        ),
    ],
    "rope": [
        (_rope(pairing="half"), ValueError, NO_PAIRING.format("half")),
        (_rope(x=[1.0]), TypeError, "x must be a tensor, got list"),
        *(
            (
                _rope(x=X.to(dtype)),
                TypeError,
                f"x must be one of {DTYPES}, got {dtype}",
            )
            for dtype in (torch.int64, torch.float8_e4m3fn)
        ),
        *(
            (
                _rope(x=x),
                ValueError,
                "x must have shape (..., L, d_k) with an even d_k, "
                f"got {tuple(x.shape)}",
            )
            for x in (X[..., :3], X[..., :0], X[0, 0, 0])
        ),
        (
            _rope(positions=[0, 1, 2, 3, 4]),
            TypeError,
            "positions must be a tensor, got list",
        ),
        (
            _rope(positions=HALF[:, 0] > 0),
            TypeError,
            "positions must be real numbers, got torch.bool",
        ),
        *(
            (
                _rope(positions=torch.zeros(shape)),
                ValueError,
                "positions must have shape (L,) = (5,) or all axes but the last of x "
                f"(2, 3, 5, 4), got {shape}: write positions[:, None] for positions per "
                "sequence of a batch with heads",
            )
            for shape in ((6,), (1,), (), (B, 1, 1), (H, 1, L), (B, L))
        ),
        (
            _rope(positions=torch.zeros(L, device="meta")),
            ValueError,
            "positions are on meta, but x on cpu",
        ),
        (
            _rope(base=-1.0),
            ValueError,
            "base must be positive and finite, got -1.0",
        ),
    ],
    "rotate": [
        *(
            (
                _rotate(**{name: 1.0}),
                TypeError,
                f"{name} must be a tensor, got float",
            )
            for name in ("x", "cos", "sin")
        ),
        *(
            (
                _rotate(**{name: HALF.long()}),
                TypeError,
                f"{name} must be one of {DTYPES}, got torch.int64",
            )
            for name in ("x", "cos", "sin")
        ),
        (_rotate(pairing=None), ValueError, NO_PAIRING.format(None)),
        (
            _rotate(x=X[..., :3]),
            ValueError,
            "x must have shape (..., L, d_k) with an even d_k, got (2, 3, 5, 3)",
        ),
        *(
            (
                _rotate(**{name: angles}),
                ValueError,
                f"{name} must broadcast to the shape (..., L, d_k / 2) = (2, 3, 5, 2), "
                f"got {tuple(angles.shape)}",
            )
            for name, angles in (
                ("cos", HALF[:4]),
                ("sin", HALF[None, None, None]),
            )
        ),
    ],
    "half_split_order": [
        (
            lambda: positions.half_split_order("4"),
            TypeError,
            "d_k must be an integer, got '4'",
        ),
        (
            lambda: positions.half_split_order(0),
            ValueError,
            "d_k must be at least 2, got 0",
        ),
        (
            lambda: positions.half_split_order(3),
            ValueError,
            NO_PAIRS.format("d_k", 3),
        ),
    ],
}


@_refusals(POSITIONS)
def test_a_position_is_refused_with_the_whole_reason(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    _check(call, error, message)
