"""Scaled dot-product attention: each fact once, for NumPy, PyTorch with weights, PyTorch fused."""

from __future__ import annotations

import functools
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from implementations import NumPy, PyTorch, tolerance
from numpy.typing import NDArray
from oracle import (
    directional_derivatives,
    loop_attention,
    numerical_gradients,
)
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from attention import functional, masks, reference

Implementation = NumPy | PyTorch
FINITE_DIFFERENCE = {
    "rtol": 1e-6,
    "atol": 1e-8,
}  # a hundred times the error of the differences

# All sizes differ, so that no two axes can be taken for each other unnoticed.
B, H, L, S, E, EV = 2, 3, 5, 7, 4, 6


def _bool(*shape: int) -> NDArray[np.bool_]:
    """Return a mask that leaves every query at least the first key."""
    mask = np.random.default_rng(sum(shape)).random(shape) < 0.6
    mask[..., 0] = True
    return mask


def _bias(*shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def _additive(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(mask, 0.0, -np.inf)


def _one_empty_row(*shape: int) -> NDArray[np.bool_]:
    mask = _bool(*shape)
    mask[..., 1, :] = False
    return mask


# name: (shape of query, of key, of value, what else is passed)
CASES: dict[
    str,
    tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]],
] = {
    "2-D": ((L, E), (S, E), (S, EV), {}),
    "3-D": ((B, L, E), (B, S, E), (B, S, EV), {}),
    "4-D": ((B, H, L, E), (B, H, S, E), (B, H, S, EV), {}),
    "5-D": ((2, 1, 3, 2, E), (2, 1, 3, 4, E), (2, 1, 3, 4, 3), {}),
    "one batch entry": ((1, H, L, E), (1, H, S, E), (1, H, S, EV), {}),
    "only the value has a batch": ((L, E), (S, E), (B, S, EV), {}),
    "only the query has a batch": ((B, L, E), (S, E), (S, EV), {}),
    "only the key has a batch": ((L, E), (B, S, E), (S, EV), {}),
    "axes of size 1 stretch": (
        (B, 1, L, E),
        (1, H, S, E),
        (B, 1, S, EV),
        {},
    ),
    "an axis of size 1 stretches where another is missing": (
        (1, L, E),
        (B, H, S, E),
        (1, S, EV),
        {},
    ),
    "vectors of one component, only the key and value have a batch": (
        (L, 1),
        (B, S, 1),
        (B, S, 1),
        {},
    ),
    "value has more axes, masked": (
        (H, L, E),
        (H, S, E),
        (B, H, S, EV),
        {"attn_mask": _bool(B, 1, L, S)},
    ),
    "all sizes equal": ((3, 3, 3, 3),) * 3 + ({},),
    "all sizes equal, masked": ((3, 3, 3, 3),) * 3
    + ({"attn_mask": _bool(3, 3)},),
    "d_k = d_v": ((B, H, L, E), (B, H, S, E), (B, H, S, E), {}),
    "one of everything": ((1, 1, 1, 1),) * 3 + ({},),
    "one query": ((B, 1, E), (B, S, E), (B, S, EV), {}),
    "one key": ((B, L, E), (B, 1, E), (B, 1, EV), {}),
    "more queries than keys": ((B, S, E), (B, L, E), (B, L, EV), {}),
    "boolean mask (L, S)": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _bool(L, S)},
    ),
    "boolean mask per entry": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _bool(B, L, S)},
    ),
    "boolean mask per head": (
        (B, H, L, E),
        (B, H, S, E),
        (B, H, S, E),
        {"attn_mask": _bool(H, L, S)},
    ),
    "padding mask (B, 1, 1, S)": (
        (B, H, L, E),
        (B, H, S, E),
        (B, H, S, E),
        {"attn_mask": _bool(B, 1, 1, S)},
    ),
    "boolean mask (S,)": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _bool(S)},
    ),
    "boolean mask (L, 1)": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": np.arange(L)[:, None] != 2},
    ),
    "additive mask": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _additive(_bool(L, S))},
    ),
    "finite bias": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _bias(L, S)},
    ),
    "finite bias (L, 1)": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _bias(L, 1)},
    ),
    "bias with -inf": (
        (B, H, L, E),
        (B, H, S, E),
        (B, H, S, E),
        {"attn_mask": _bias(L, S) + _additive(_bool(L, S))},
    ),
    "an empty row, boolean": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _one_empty_row(L, S)},
    ),
    "an empty row, boolean, d_k = d_v": (
        (B, H, L, E),
        (B, H, S, E),
        (B, H, S, E),
        {"attn_mask": _one_empty_row(B, 1, L, S)},
    ),
    "an empty row, additive": (
        (B, H, L, E),
        (B, H, S, E),
        (B, H, S, E),
        {"attn_mask": _bias(L, S) + _additive(_one_empty_row(L, S))},
    ),
    "nothing but empty rows": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": np.zeros((L, S), dtype=bool)},
    ),
    "causal, L < S": ((B, L, E), (B, S, E), (B, S, EV), {"is_causal": True}),
    "causal, L > S": ((B, S, E), (B, L, E), (B, L, EV), {"is_causal": True}),
    "causal, d_k = d_v": (
        (B, H, L, E),
        (B, H, S, E),
        (B, H, S, E),
        {"is_causal": True},
    ),
    "causal and boolean mask": (
        (B, H, L, E),
        (B, H, S, E),
        (B, H, S, E),
        {"attn_mask": _bool(B, H, L, S), "is_causal": True},
    ),
    "causal and bias": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": _bias(L, S), "is_causal": True},
    ),
    "causal and padding on the left": (  # the first query is left with nothing
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"attn_mask": (np.arange(S) >= 2)[None, None, :], "is_causal": True},
    ),
    "a scale": ((B, L, E), (B, S, E), (B, S, EV), {"scale": 0.8}),
    "a negative scale": ((B, L, E), (B, S, E), (B, S, EV), {"scale": -0.3}),
    "a scale of zero": ((B, L, E), (B, S, E), (B, S, EV), {"scale": 0.0}),
    "a negative scale and the flag": (
        (B, L, E),
        (B, S, E),
        (B, S, E),
        {"scale": -0.3, "is_causal": True},
    ),
    "a scale of zero and the flag": (
        (B, L, E),
        (B, S, E),
        (B, S, E),
        {"scale": 0.0, "is_causal": True},
    ),
    "a scale, a mask and the flag": (
        (B, L, E),
        (B, S, E),
        (B, S, EV),
        {"scale": 0.8, "attn_mask": _bias(B, L, S), "is_causal": True},
    ),
}


@functools.cache
def _arrays(name: str) -> tuple[NDArray, ...]:
    """Return query, key, value and a gradient for the output, of order 1."""
    query, key, value, _ = CASES[name]
    rng = np.random.default_rng(len(name))
    leading = np.broadcast_shapes(query[:-2], key[:-2], value[:-2])
    shapes = (query, key, value, (*leading, query[-2], value[-1]))
    return tuple(rng.standard_normal(shape) for shape in shapes)


@functools.cache
def _expected(name: str) -> tuple[NDArray, NDArray]:
    *inputs, _ = _arrays(name)
    return loop_attention(*inputs, **CASES[name][3])


@functools.cache
def _directions(name: str) -> list[list[NDArray]]:
    """Return three random directions for each of query, key and value."""
    rng = np.random.default_rng(1 + len(name))
    return [
        [rng.standard_normal(x.shape) for _ in range(3)]
        for x in _arrays(name)[:3]
    ]


@functools.cache
def _expected_derivatives(name: str) -> NDArray:
    *inputs, grad_output = _arrays(name)
    return directional_derivatives(
        lambda *x: loop_attention(*x, **CASES[name][3])[0],
        inputs,
        grad_output,
        _directions(name),
    )


@pytest.mark.parametrize("name", CASES)
def test_output_and_weights_are_those_of_a_loop_over_queries(
    implementation: Implementation, name: str
) -> None:
    *inputs, _ = _arrays(name)
    output, weights = implementation.attend(*inputs, **CASES[name][3])
    expected_output, expected_weights = _expected(name)
    np.testing.assert_allclose(
        output, expected_output, **tolerance(np.float64)
    )
    assert output.shape == expected_output.shape
    if weights is not None:
        np.testing.assert_allclose(
            weights, expected_weights, **tolerance(np.float64)
        )
        assert weights.shape == expected_weights.shape


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_finite_differences_of_the_loop(
    implementation: Implementation, name: str
) -> None:
    *inputs, grad_output = _arrays(name)
    gradients = implementation.gradients(
        grad_output, *inputs, **CASES[name][3]
    )
    for i, which in enumerate(("query", "key", "value")):
        assert gradients[i].shape == inputs[i].shape
        along = [
            (gradients[i] * direction).sum()
            for direction in _directions(name)[i]
        ]
        np.testing.assert_allclose(
            along,
            _expected_derivatives(name)[i],
            err_msg=which,
            **FINITE_DIFFERENCE,
        )


@pytest.mark.parametrize("name", CASES)
def test_float32_differs_from_float64_by_rounding_alone(
    implementation: Implementation, name: str
) -> None:
    options, options32 = dict(CASES[name][3]), dict(CASES[name][3])
    if (
        options.get("attn_mask") is not None
        and options["attn_mask"].dtype != bool
    ):
        options32["attn_mask"] = options["attn_mask"].astype(np.float32)
    *inputs, grad_output = _arrays(name)
    *inputs32, grad_output32 = (x.astype(np.float32) for x in _arrays(name))
    pairs = zip(
        (
            *implementation.attend(*inputs32, **options32),
            *implementation.gradients(grad_output32, *inputs32, **options32),
        ),
        (
            *implementation.attend(*inputs, **options),
            *implementation.gradients(grad_output, *inputs, **options),
        ),
        strict=True,
    )
    for single, double in pairs:
        if single is not None:
            assert single.dtype == np.float32
            np.testing.assert_allclose(
                single, double, **tolerance(np.float32)
            )


def _inputs(
    rng: np.random.Generator,
    dtype: Any = np.float64,
    d_v: int = EV,
    leading: tuple = (B, H),
) -> list[NDArray]:
    shapes = (
        (*leading, L, E),
        (*leading, S, E),
        (*leading, S, d_v),
        (*leading, L, d_v),
    )
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


# --- the weights


def test_every_row_of_weights_sums_to_one(
    weighing: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    _, weights = weighing.attend(*inputs, _bool(L, S))
    np.testing.assert_allclose(weights.sum(-1), 1.0, rtol=1e-14)
    assert (weights >= 0).all()


def test_equal_scores_give_the_plain_average(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    _, key, value, _ = _inputs(rng)
    output, _ = implementation.attend(np.zeros((B, H, L, E)), key, value)
    expected = np.broadcast_to(value.mean(-2, keepdims=True), output.shape)
    np.testing.assert_allclose(output, expected, **tolerance(np.float64))


def test_the_scale_is_the_root_of_the_keys_width(
    implementation: Implementation,
) -> None:
    # One key scores ln 3 after division by sqrt(16), the other 0: weights 3/4 and 1/4 exactly.
    query = np.ones((1, 16))
    key = np.stack([np.full(16, np.log(3) / 4), np.zeros(16)])
    output, _ = implementation.attend(query, key, np.array([[1.0], [0.0]]))
    np.testing.assert_allclose(output, [[0.75]], rtol=1e-14)


def test_an_output_lies_within_the_range_of_the_values(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    output, _ = implementation.attend(*inputs)
    value = inputs[2]
    assert (output <= value.max(-2, keepdims=True)).all()
    assert (output >= value.min(-2, keepdims=True)).all()


def test_the_same_order_of_keys_and_values_does_not_matter(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    query, key, value, _ = _inputs(rng)
    order = rng.permutation(S)
    before, _ = implementation.attend(query, key, value)
    after, _ = implementation.attend(
        query, key[..., order, :], value[..., order, :]
    )
    np.testing.assert_allclose(after, before, **tolerance(np.float64))


# --- masks


@pytest.mark.parametrize("d_v", [E, EV])
def test_a_boolean_mask_equals_its_additive_form(
    implementation: Implementation, rng: np.random.Generator, d_v: int
) -> None:
    *inputs, grad_output = _inputs(rng, d_v=d_v)
    for mask in (_bool(L, S), _one_empty_row(B, 1, L, S)):
        same = {"rtol": 1e-13, "atol": 1e-14}
        np.testing.assert_allclose(
            implementation.attend(*inputs, mask)[0],
            implementation.attend(*inputs, _additive(mask))[0],
            **same,
        )
        for selected, added in zip(
            implementation.gradients(grad_output, *inputs, mask),
            implementation.gradients(grad_output, *inputs, _additive(mask)),
            strict=True,
        ):
            np.testing.assert_allclose(selected, added, **same)


def test_a_masked_key_has_weight_exactly_zero(
    weighing: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    mask = _bool(L, S)
    for given in (mask, _additive(mask)):
        _, weights = weighing.attend(*inputs, given)
        assert (weights[..., ~mask] == 0).all()
        assert (weights[..., mask] > 0).all()


def test_a_mask_of_all_true_changes_nothing(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    output, _ = implementation.attend(*inputs, np.ones((L, S), dtype=bool))
    np.testing.assert_allclose(
        output, implementation.attend(*inputs)[0], **tolerance(np.float64)
    )


def test_an_additive_mask_of_all_zeros_is_fine_and_changes_nothing(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    output, _ = implementation.attend(*inputs, np.zeros((L, S)))
    np.testing.assert_allclose(
        output, implementation.attend(*inputs)[0], **tolerance(np.float64)
    )


def test_a_bias_that_holds_a_one_among_others_is_added(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    bias = np.where(_bool(L, S), 1.0, 0.0)
    bias[0, 0] = 0.5
    output, _ = implementation.attend(*inputs, bias)
    np.testing.assert_allclose(
        output, loop_attention(*inputs, bias)[0], **tolerance(np.float64)
    )


def _masks() -> dict[str, torch.Tensor | None]:
    allowed = torch.tensor(_bool(L, S))
    return {
        "none": None,
        "selects": allowed,
        "added": masks.to_additive(allowed, torch.float64) + 0.5,
    }


@pytest.mark.parametrize("mask", _masks().values(), ids=_masks())
def test_where_no_data_can_be_looked_at_the_steps_give_the_same(
    mask: torch.Tensor | None,
) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(B, n, E).double() for n in (L, S, S)]

    def attend(*tensors: torch.Tensor) -> torch.Tensor:
        where = None if mask is None else mask.to(tensors[0].device)
        return functional.scaled_dot_product_attention(
            *tensors, where, is_causal=True
        )

    together = torch.func.vmap(attend)(*inputs)
    torch.testing.assert_close(together, attend(*inputs))
    on_meta = attend(*(x.to("meta") for x in inputs))
    assert on_meta.shape == together.shape


def test_what_is_masked_cannot_matter_where_it_cannot_be_looked_at_either() -> (
    None
):
    torch.manual_seed(0)
    inputs = [torch.randn(B, n, E).double() for n in (L, S, S)]
    largest = torch.finfo(torch.float64).max
    signs = torch.tensor([1.0, -1.0] * (E // 2)).double()
    spoilt = [x.clone() for x in inputs]
    for x in spoilt[1:]:
        x[:, -1] = largest * signs

    def attend(*tensors: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            *tensors, torch.arange(S) < S - 1
        )

    torch.testing.assert_close(
        torch.func.vmap(attend)(*spoilt), attend(*inputs)
    )


class _Attend(torch.nn.Module):
    def forward(self, *inputs: torch.Tensor | None) -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            *inputs, is_causal=True
        )


@pytest.mark.skipif(
    torch.__version__ < torch.torch_version.TorchVersion("2.13"),
    reason="older compilers of PyTorch's cut the checks of shapes out of the graph",
)
@pytest.mark.parametrize("mask", _masks().values(), ids=_masks())
def test_compiled_and_exported_as_one_graph_it_gives_the_same(
    mask: torch.Tensor | None,
) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(B, n, E).double() for n in (L, S, S)]
    expected = _Attend()(*inputs, mask)
    compiled = torch.compile(_Attend(), backend="eager", fullgraph=True)
    exported = torch.export.export(_Attend(), (*inputs, mask), strict=False)
    for graph in (compiled, exported.module()):
        torch.testing.assert_close(graph(*inputs, mask), expected)


def test_what_cannot_be_looked_at_is_not_taken_for_a_mask_of_ones_and_zeros() -> (
    None
):
    """The only meaning left is the documented one: it is added."""
    torch.manual_seed(0)
    inputs = [torch.randn(B, n, E).double() for n in (L, S, S)]
    ones = torch.tensor(_bool(B, L, S)).double()
    together = torch.func.vmap(functional.scaled_dot_product_attention)(
        *inputs, ones
    )
    weights = torch.softmax(inputs[0] @ inputs[1].mT / E**0.5 + ones, dim=-1)
    torch.testing.assert_close(together, weights @ inputs[2])


def test_a_masked_value_that_alone_is_huge_leaves_the_gradients_alone() -> (
    None
):
    torch.manual_seed(0)
    inputs = [torch.randn(B, H, n, E).double() for n in (L, S, S)]
    mask = torch.arange(S) < S - 1
    spoilt = [x.clone() for x in inputs]
    spoilt[2][..., -1, :] = torch.finfo(torch.float64).max
    gradients = []
    for tensors in (inputs, spoilt):
        leaves = [x.requires_grad_() for x in tensors]
        output = functional.scaled_dot_product_attention(*leaves, mask)
        gradients.append(torch.autograd.grad(output.sum(), leaves))
    for clean, other in zip(*gradients, strict=True):
        torch.testing.assert_close(other, clean)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_bias_of_plus_infinity_is_no_mask_but_spoils_its_row(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    bias = _bias(L, S)
    bias[2, 3] = np.inf
    output, _ = implementation.attend(*inputs, bias)
    spoilt = np.isnan(output).any(axis=-1)
    np.testing.assert_array_equal(
        spoilt, np.broadcast_to(np.arange(L) == 2, spoilt.shape)
    )


def test_the_same_constant_added_to_a_row_of_scores_changes_nothing(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng)
    output, _ = implementation.attend(
        *inputs, rng.standard_normal((L, 1)) * 100
    )
    np.testing.assert_allclose(
        output, implementation.attend(*inputs)[0], rtol=1e-11, atol=1e-12
    )


def test_causal_means_the_upper_left_corner_whatever_the_lengths(
    weighing: Implementation, rng: np.random.Generator
) -> None:
    for queries, keys in ((2, 4), (4, 2), (3, 3)):
        query, key, value = (
            rng.standard_normal((n, E)) for n in (queries, keys, keys)
        )
        _, weights = weighing.attend(query, key, value, is_causal=True)
        for i in range(queries):
            seen = [j for j in range(keys) if weights[i, j] > 0]
            assert seen == list(range(min(i + 1, keys)))


def test_the_first_query_of_causal_attention_gets_the_first_value(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    query, key, value, _ = _inputs(rng)
    output, _ = implementation.attend(query, key, value, is_causal=True)
    np.testing.assert_allclose(
        output[..., 0, :], value[..., 0, :], rtol=1e-15
    )


@pytest.mark.parametrize("additive", [False, True])
def test_the_causal_flag_beside_a_mask_equals_both_masks_joined(
    implementation: Implementation, rng: np.random.Generator, additive: bool
) -> None:
    *inputs, grad_output = _inputs(rng, d_v=E)
    mask = _bool(B, 1, 1, S)
    joined = mask & (np.arange(S) <= np.arange(L)[:, None])
    given = _additive(mask) if additive else mask
    np.testing.assert_allclose(
        implementation.attend(*inputs, given, is_causal=True)[0],
        implementation.attend(*inputs, joined)[0],
        **tolerance(np.float64),
    )
    for both, one in zip(
        implementation.gradients(
            grad_output, *inputs, given, is_causal=True
        ),
        implementation.gradients(grad_output, *inputs, joined),
        strict=True,
    ):
        np.testing.assert_allclose(both, one, **tolerance(np.float64))


@pytest.mark.parametrize("later", [np.inf, np.nan])
def test_what_a_bias_says_of_later_keys_cannot_matter_beside_the_causal_flag(
    implementation: Implementation, rng: np.random.Generator, later: float
) -> None:
    *inputs, grad_output = _inputs(rng, d_v=E)
    bias = _bias(L, S)
    spoilt = np.where(np.tri(L, S, dtype=bool), bias, later)
    np.testing.assert_array_equal(
        implementation.attend(*inputs, spoilt, is_causal=True)[0],
        implementation.attend(*inputs, bias, is_causal=True)[0],
    )
    for other, clean in zip(
        implementation.gradients(
            grad_output, *inputs, spoilt, is_causal=True
        ),
        implementation.gradients(grad_output, *inputs, bias, is_causal=True),
        strict=True,
    ):
        np.testing.assert_array_equal(other, clean)


# --- queries that may attend to nothing


EMPTY = {
    "boolean": (_one_empty_row(L, S), False),
    "additive": (_additive(_one_empty_row(L, S)), False),
    "boolean beside causal": (_one_empty_row(B, 1, L, S), True),
    "padding on the left beside causal": (
        np.broadcast_to(np.arange(S) >= 2, (B, 1, 1, S)),
        True,
    ),
    "a bias of -inf alone in a row": (
        _bias(L, S) + _additive(_one_empty_row(L, S)),
        False,
    ),
}


def _rows_left_empty(mask: NDArray, is_causal: bool) -> NDArray[np.bool_]:
    allowed = mask if mask.dtype == bool else mask > -np.inf
    if is_causal:
        allowed = allowed & (np.arange(S) <= np.arange(L)[:, None])
    return ~np.broadcast_to(allowed, (B, H, L, S)).any(-1)


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("d_v", [E, EV])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_query_that_may_attend_to_nothing_gets_exactly_zero_and_passes_on_no_gradient(
    implementation: Implementation,
    rng: np.random.Generator,
    name: str,
    d_v: int,
    dtype: Any,
) -> None:
    mask, is_causal = EMPTY[name]
    empty = _rows_left_empty(mask, is_causal)
    assert empty.any()
    mask = mask if mask.dtype == bool else mask.astype(dtype)
    *inputs, grad_output = _inputs(rng, dtype, d_v)
    output, weights = implementation.attend(
        *inputs, mask, is_causal=is_causal
    )
    assert np.isfinite(output).all()
    assert (output[empty] == 0).all()
    if weights is not None:
        assert np.isfinite(weights).all()
        assert (weights[empty] == 0).all()

    # its own gradient is zero ...
    gradients = implementation.gradients(
        grad_output, *inputs, mask, is_causal=is_causal, anomalies=True
    )
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert (gradients[0][empty] == 0).all()
    # ... and what arrives at it reaches no key or value
    only_there = np.where(empty[..., None], grad_output, 0).astype(dtype)
    for gradient in implementation.gradients(
        only_there, *inputs, mask, is_causal=is_causal
    ):
        assert (gradient == 0).all()


# --- what is masked cannot matter


def _masked_tail(kind: str) -> dict[str, Any]:
    """Return options that hide the last two keys from every query."""
    seen = np.arange(S) < S - 2
    if kind == "causal":  # L = 5 queries never reach keys 5 and 6
        return {"is_causal": True}
    if kind == "additive":
        return {"attn_mask": _additive(np.broadcast_to(seen, (L, S)))}
    if kind == "empty row":
        mask = np.tile(seen, (L, 1))
        mask[1] = False
        return {"attn_mask": mask}
    return {"attn_mask": seen, "is_causal": kind == "causal and boolean"}


@pytest.mark.parametrize(
    "kind",
    ["boolean", "additive", "causal", "causal and boolean", "empty row"],
)
@pytest.mark.parametrize("d_v", [E, EV])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("huge", ["max", "-max", "sqrt(max)", "1e4"])
def test_a_masked_key_or_value_cannot_change_output_or_gradients(
    implementation: Implementation,
    rng: np.random.Generator,
    kind: str,
    d_v: int,
    dtype: Any,
    huge: str,
) -> None:
    largest = float(np.finfo(dtype).max)
    hidden = {
        "max": largest,
        "-max": -largest,
        "sqrt(max)": largest**0.5,
        "1e4": 1e4,
    }[huge]
    query, key, value, grad_output = _inputs(rng, dtype, d_v)
    key[..., -2:, :] = value[..., -2:, :] = 0
    options = _masked_tail(kind)
    if (
        options.get("attn_mask") is not None
        and options["attn_mask"].dtype != bool
    ):
        options["attn_mask"] = options["attn_mask"].astype(dtype)
    before = (
        implementation.attend(query, key, value, **options)[0],
        *implementation.gradients(grad_output, query, key, value, **options),
    )
    key[..., -2:, :] = hidden
    value[..., -2:, :] = -hidden
    key[
        ..., -1, ::2
    ] *= -1  # opposite signs: inf - inf where a product overflows
    after = (
        implementation.attend(query, key, value, **options)[0],
        *implementation.gradients(grad_output, query, key, value, **options),
    )
    for which, x, y in zip(
        ("output", "query", "key", "value"), before, after, strict=True
    ):
        np.testing.assert_allclose(y, x, err_msg=which, **tolerance(dtype))
    for gradient in after[2:]:
        assert (gradient[..., -2:, :] == 0).all()


# factors on the query and on the keys that are seen, what is hidden, and the scale
OVERFLOWS = {
    "product": (1e20, 1e-20, 1e20, None),
    "scaled product": (1.0, 1e-22, 1e17, 1e22),
    "product scaled by a negative number": (1.0, 1e-22, 1e17, -1e22),
}


@pytest.mark.parametrize("d_v", [E, EV])
@pytest.mark.parametrize("which", OVERFLOWS)
def test_a_masked_score_may_overflow_though_no_input_is_near_the_largest_number(
    implementation: Implementation,
    rng: np.random.Generator,
    which: str,
    d_v: int,
) -> None:
    of_query, of_key, hidden, scale = OVERFLOWS[which]
    query, key, value, grad_output = _inputs(rng, np.float32, d_v)
    query *= np.float32(of_query)
    key *= np.float32(of_key)
    filled = key.copy()
    filled[..., -2:, :] = hidden
    mask = np.tile(np.arange(S) < S - 2, (L, 1))
    options = {"attn_mask": mask, "scale": scale}
    np.testing.assert_allclose(
        implementation.attend(query, filled, value, **options)[0],
        implementation.attend(query, key, value, **options)[0],
        **tolerance(np.float32),
    )
    gradients = implementation.gradients(
        grad_output, query, filled, value, **options
    )
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("overflows", ["score", "gradient"])
def test_many_masked_terms_may_overflow_together_though_none_does_alone(
    implementation: Implementation, overflows: str
) -> None:
    terms, large = 400, np.finfo(np.float64).max ** 0.5 / 10
    mask = np.arange(S) < S - 1
    if overflows == "score":
        query, key = (np.full((B, n, terms), large) for n in (L, S))
        value, grad = (np.ones((B, n, 1)) for n in (S, L))
        key[:, mask] = 1 / large
    else:
        query, key = (np.ones((B, n, 1)) for n in (L, S))
        value, grad = (np.full((B, n, terms), large) for n in (S, L))
        value[:, mask] = 1 / large
    output, _ = implementation.attend(query, key, value, mask, scale=1.0)
    np.testing.assert_allclose(output, np.tile(value[:, :1], (L, 1)))
    gradients = implementation.gradients(
        grad, query, key, value, mask, scale=1.0
    )
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_numpy_takes_the_lowest_number_in_a_mask_for_a_bias(
    rng: np.random.Generator,
) -> None:
    query, key, value, _ = _inputs(rng, np.float32)
    mask = np.full((L, S), np.finfo(np.float32).min, np.float32)
    _, weights = reference.scaled_dot_product_attention(
        query, key, value, mask
    )
    # beside such a number every score is lost, and the keys are alike
    np.testing.assert_allclose(weights, 1 / S, **tolerance(np.float32))


def test_numpy_is_silent_about_a_masked_product_that_is_infinity_less_infinity() -> (
    None
):
    """BLAS may find another number than NumPy's own loops, which take views with gaps."""
    huge = np.array([1e200, -1e200])
    query, grad = (_strided(np.abs(huge)[None]) for _ in range(2))
    key, value = (
        _strided(np.stack([1e-200 * huge, huge])) for _ in range(2)
    )
    mask = np.array([True, False])
    output, _ = reference.scaled_dot_product_attention(
        query, key, value, mask
    )
    assert output.tolist() == [[1.0, -1.0]]
    gradients = reference.scaled_dot_product_attention_backward(
        grad, query, key, value, mask
    )
    assert all(np.isfinite(gradient).all() for gradient in gradients)


# --- numbers far from 1


@pytest.mark.parametrize("size", [1e2, 1e4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_up_to_ten_thousand_give_no_nan_in_output_or_gradients(
    implementation: Implementation, size: float, dtype: Any
) -> None:
    # The scores are -size, 0 and size, with one key of each, and a row whose scores are all -size.
    query = np.array([[1.0], [-1.0], [0.0]], dtype=dtype)
    key = np.array([[size], [0.0], [-size]], dtype=dtype)
    value = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], dtype=dtype)
    output, _ = implementation.attend(query, key, value)
    np.testing.assert_allclose(
        output[:2], [[1.0, 0.0], [0.5, 0.5]], atol=1e-6
    )
    np.testing.assert_allclose(output[2], [0.5, 0.5], rtol=1e-6)
    low = implementation.attend(-query[:1], np.full_like(key, size), value)[
        0
    ]
    np.testing.assert_allclose(low, [[0.5, 0.5]], rtol=1e-6)
    gradients = implementation.gradients(
        np.ones((3, 2), dtype=dtype), query, key, value
    )
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_rows_whose_scores_lie_far_apart_do_not_disturb_each_other(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    query, key, value, _ = _inputs(rng)
    offset = np.array([0.0, 1e4, -1e4, 800.0, -800.0])[:, None]
    output, _ = implementation.attend(
        query, key, value, np.broadcast_to(offset, (L, S)).copy()
    )
    np.testing.assert_allclose(
        output,
        implementation.attend(query, key, value)[0],
        rtol=1e-9,
        atol=1e-10,
    )


# --- sizes of zero


@pytest.mark.parametrize("mask", [None, "boolean", "additive"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("batch", "queries", "keys", "width"),
    [
        (0, L, S, EV),
        (B, 0, S, EV),
        (B, L, 0, EV),
        (B, 0, 0, EV),
        (B, L, S, 0),
    ],
    ids=["no batch", "no queries", "no keys", "neither", "no values' width"],
)
def test_sizes_of_zero_give_zeros_of_the_right_shape(
    implementation: Implementation,
    batch: int,
    queries: int,
    keys: int,
    width: int,
    is_causal: bool,
    mask: str | None,
) -> None:
    query, key = (
        np.ones((batch, H, queries, E)),
        np.ones((batch, H, keys, E)),
    )
    value = np.ones((batch, H, keys, width))
    given = None
    if mask is not None:
        given = np.ones((queries, keys), dtype=bool)
        given = given if mask == "boolean" else _additive(given)
    output, weights = implementation.attend(
        query, key, value, given, is_causal=is_causal
    )
    assert output.shape == (batch, H, queries, width)
    assert weights is None or weights.shape == (batch, H, queries, keys)
    if not keys:
        assert (output == 0).all()
    grad_output = np.ones_like(output)
    gradients = implementation.gradients(
        grad_output, query, key, value, given, is_causal=is_causal
    )
    for gradient, x in zip(gradients, (query, key, value), strict=True):
        assert gradient.shape == x.shape
        assert np.isfinite(gradient).all()


# --- layouts and side effects


def _strided(x: NDArray) -> NDArray:
    """Return the same numbers with a gap between any two."""
    gapped = np.repeat(x, 2, axis=-1)[..., ::2]
    assert not gapped.flags.c_contiguous
    return gapped


def test_numpy_takes_views_of_any_layout(rng: np.random.Generator) -> None:
    *inputs, grad_output = _inputs(rng)
    expected = reference.scaled_dot_product_attention(*inputs)
    actual = reference.scaled_dot_product_attention(*map(_strided, inputs))
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_allclose(x, y, **tolerance(np.float64))
    expanded = [
        np.broadcast_to(x[:1], x.shape) for x in inputs
    ]  # stride 0 along the batch
    _, weights = reference.scaled_dot_product_attention(*expanded)
    np.testing.assert_allclose(weights[1], weights[0])
    reference.scaled_dot_product_attention_backward(grad_output, *expanded)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_torch_takes_views_of_any_layout(
    rng: np.random.Generator, device: str, return_weights: bool, masked: bool
) -> None:
    *arrays, grad = (
        torch.tensor(x, device=device) for x in _inputs(rng, d_v=E)
    )
    mask = (
        torch.tensor(_one_empty_row(L, S), device=device) if masked else None
    )

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        result = functional.scaled_dot_product_attention(
            *tensors, mask, return_weights=return_weights
        )
        output = result[0] if return_weights else result
        return [output, *torch.autograd.grad(output, tensors, grad)]

    leaves = [x.clone().requires_grad_() for x in arrays]
    expected = run(*leaves)
    layouts = {
        "heads behind positions": [
            x.transpose(1, 2).contiguous().transpose(1, 2) for x in arrays
        ],
        "width in front": [
            x.transpose(-1, 0).contiguous().transpose(-1, 0) for x in arrays
        ],
        "every second number": [
            x.repeat_interleave(2, -1)[..., ::2] for x in arrays
        ],
    }
    for name, tensors in layouts.items():
        assert not any(x.is_contiguous() for x in tensors)
        actual = run(*(x.requires_grad_() for x in tensors))
        for x, y in zip(actual, expected, strict=True):
            torch.testing.assert_close(
                x, y, msg=name, **tolerance(torch.float64)
            )

    expanded = [
        x[:1].expand_as(x).requires_grad_() for x in arrays
    ]  # stride 0 along the batch
    copied = [x.detach().clone().requires_grad_() for x in expanded]
    for x, y in zip(run(*expanded), run(*copied), strict=True):
        torch.testing.assert_close(x, y, **tolerance(torch.float64))


def test_an_expanded_mask_equals_its_copy(
    implementation: Implementation, rng: np.random.Generator
) -> None:
    *inputs, _ = _inputs(rng, d_v=E)
    mask = np.broadcast_to(_one_empty_row(L, S), (B, H, L, S))
    np.testing.assert_allclose(
        implementation.attend(*inputs, mask)[0],
        implementation.attend(*inputs, mask.copy())[0],
    )


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("return_weights", [False, True])
def test_torch_changes_none_of_its_inputs(
    rng: np.random.Generator,
    device: str,
    return_weights: bool,
    additive: bool,
    is_causal: bool,
) -> None:
    *tensors, _ = (
        torch.tensor(x, device=device) for x in _inputs(rng, d_v=E)
    )
    mask = _one_empty_row(L, S)
    tensors.append(
        torch.tensor(_additive(mask) if additive else mask, device=device)
    )
    copies = [x.clone() for x in tensors]
    versions = [x._version for x in tensors]
    functional.scaled_dot_product_attention(
        *tensors, 0.5, is_causal=is_causal, return_weights=return_weights
    )
    assert [x._version for x in tensors] == versions
    for x, copy in zip(tensors, copies, strict=True):
        assert torch.equal(x, copy)


@pytest.mark.parametrize("additive", [False, True])
def test_numpy_changes_none_of_its_inputs(
    rng: np.random.Generator, additive: bool
) -> None:
    *inputs, grad_output = _inputs(rng)
    mask = _one_empty_row(L, S)
    mask = _additive(mask) if additive else mask
    dropped = reference.dropout_mask((B, H, L, S), 0.3, rng)
    for array in (*inputs, grad_output, mask, dropped):
        array.flags.writeable = False  # NumPy itself refuses to write
    options: dict[str, Any] = {"is_causal": True, "dropout_mask": dropped}
    reference.scaled_dot_product_attention(*inputs, mask, **options)
    reference.scaled_dot_product_attention_backward(
        grad_output, *inputs, mask, **options
    )


def test_numpy_takes_the_tensors_of_the_masks_module(
    rng: np.random.Generator,
) -> None:
    *inputs, _ = _inputs(rng)
    mask = masks.sliding_window(L, S, left=2)
    np.testing.assert_array_equal(
        reference.scaled_dot_product_attention(*inputs, mask)[0],
        reference.scaled_dot_product_attention(*inputs, mask.numpy())[0],
    )


def test_numpy_needs_room_for_one_array_of_scores_alone(
    rng: np.random.Generator,
) -> None:
    n = 300
    query, key, value = (rng.standard_normal((n, 2)) for _ in range(3))
    tracemalloc.start()
    try:
        reference.scaled_dot_product_attention(query, key, value)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.5 * n * n * query.itemsize


# --- the hand-written backward


@pytest.mark.parametrize("leading", [(), (2,), (2, 1)])
def test_backward_with_dropout_is_that_of_finite_differences(
    leading: tuple[int, ...], rng: np.random.Generator
) -> None:
    *inputs, grad_output = _inputs(rng, leading=leading)
    options: dict[str, Any] = {
        "attn_mask": _one_empty_row(L, S),
        "is_causal": True,
        "dropout_mask": reference.dropout_mask((*leading, L, S), 0.4, rng),
    }
    gradients = reference.scaled_dot_product_attention_backward(
        grad_output, *inputs, **options
    )
    expected = numerical_gradients(
        lambda *x: loop_attention(*x, **options)[0], inputs, grad_output
    )
    for gradient, numerical in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, numerical, **FINITE_DIFFERENCE)


def test_backward_takes_a_dropout_mask_that_broadcasts(
    rng: np.random.Generator,
) -> None:
    *inputs, grad_output = _inputs(rng)
    dropped = reference.dropout_mask((L, S), 0.4, rng)
    broadcast = np.broadcast_to(dropped, (B, H, L, S)).copy()
    for x, y in zip(
        reference.scaled_dot_product_attention_backward(
            grad_output, *inputs, dropout_mask=dropped
        ),
        reference.scaled_dot_product_attention_backward(
            grad_output, *inputs, dropout_mask=broadcast
        ),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


def test_backward_equals_autograd_through_pytorchs_own_function(
    rng: np.random.Generator,
) -> None:
    *inputs, grad_output = _inputs(rng)
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    mask = _bool(L, S)
    F.scaled_dot_product_attention(*tensors, torch.tensor(mask)).backward(
        torch.tensor(grad_output)
    )
    gradients = reference.scaled_dot_product_attention_backward(
        grad_output, *inputs, mask
    )
    for gradient, x in zip(gradients, tensors, strict=True):
        np.testing.assert_allclose(
            gradient, x.grad.numpy(), **tolerance(np.float64)
        )


def test_backward_in_half_precision_is_computed_in_float32(
    rng: np.random.Generator,
) -> None:
    *inputs, grad_output = _inputs(rng, np.float16)
    gradients = reference.scaled_dot_product_attention_backward(
        grad_output, *inputs
    )
    expected = reference.scaled_dot_product_attention_backward(
        *(x.astype(np.float64) for x in (grad_output, *inputs))
    )
    for gradient, exact in zip(gradients, expected, strict=True):
        assert gradient.dtype == np.float16
        # one rounding to half precision, relative error at most 2^-11, and what float32 adds
        np.testing.assert_allclose(
            gradient, exact, rtol=2**-11 * 1.01, atol=1e-6
        )


def test_a_gradient_in_half_precision_is_rounded_after_the_sum_over_broadcast_axes(
    rng: np.random.Generator,
) -> None:
    query, grad_output = (
        rng.standard_normal((100, 3, width)).astype(np.float16)
        for width in (4, 5)
    )
    key, value = (
        rng.standard_normal((2, width)).astype(np.float16)
        for width in (4, 5)
    )
    inputs = (grad_output, query, key, value)
    gradients = reference.scaled_dot_product_attention_backward(*inputs)
    expected = reference.scaled_dot_product_attention_backward(
        *(x.astype(np.float64) for x in inputs)
    )
    for gradient, exact in zip(gradients, expected, strict=True):
        assert gradient.dtype == np.float16
        # one rounding, as above; float32 adds more to a sum of a hundred terms
        np.testing.assert_allclose(
            gradient, exact, rtol=2**-11 * 1.01, atol=1e-5
        )


# --- as PyTorch's own


GRID_MASKS = ["none", "boolean", "additive", "bias", "padding"]


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16]
)
@pytest.mark.parametrize("enable_gqa", [False, True])
@pytest.mark.parametrize("kind", GRID_MASKS)
def test_equal_to_pytorchs_function_forward_and_gradient(
    rng: np.random.Generator,
    device: str,
    kind: str,
    enable_gqa: bool,
    dtype: torch.dtype,
    return_weights: bool,
) -> None:
    heads, kv_heads = 6, 2 if enable_gqa else 6
    mask: torch.Tensor | None = {
        "none": None,
        "boolean": torch.tensor(_bool(L, S)),
        "additive": torch.tensor(_additive(_bool(heads, L, S))).to(dtype),
        "bias": torch.tensor(_bias(L, S)).to(dtype),
        "padding": torch.tensor(_bool(B, 1, 1, S)),
    }[kind]
    mask = None if mask is None else mask.to(device)
    for d_v in (E, EV):
        for is_causal in (
            (False, True) if mask is None else (False,)
        ):  # PyTorch takes not both
            for scale in (None, 0.7):
                shapes = (
                    (B, heads, L, E),
                    (B, kv_heads, S, E),
                    (B, kv_heads, S, d_v),
                )
                ours, theirs = (
                    [
                        torch.tensor(x).to(device, dtype).requires_grad_()
                        for x in map(
                            np.random.default_rng(3).standard_normal, shapes
                        )
                    ]
                    for _ in range(2)
                )
                grad = torch.tensor(
                    rng.standard_normal((B, heads, L, d_v))
                ).to(device, dtype)
                args = (mask, 0.0, is_causal, scale, enable_gqa)
                result = functional.scaled_dot_product_attention(
                    *ours, *args, return_weights=return_weights
                )
                output = result[0] if return_weights else result
                expected = F.scaled_dot_product_attention(
                    *theirs,
                    mask,
                    0.0,
                    is_causal,
                    scale=scale,
                    enable_gqa=enable_gqa,
                )
                # In half precision two right answers differ by a few roundings of numbers
                # up to 8, here and there of a sum of six heads' gradients.
                close = (
                    {
                        "rtol": 4 * torch.finfo(dtype).eps,
                        "atol": 8 * torch.finfo(dtype).eps,
                    }
                    if dtype in (torch.float16, torch.bfloat16)
                    else tolerance(dtype)
                )
                torch.testing.assert_close(output, expected, **close)
                output.backward(grad)
                expected.backward(grad)
                for x, y in zip(ours, theirs, strict=True):
                    torch.testing.assert_close(x.grad, y.grad, **close)


def test_positional_arguments_stand_in_pytorchs_order() -> None:
    torch.manual_seed(0)
    query, key, value = (
        torch.randn(B, 4, L, E),
        torch.randn(B, 2, S, E),
        torch.randn(B, 2, S, EV),
    )
    ours = functional.scaled_dot_product_attention(
        query, key, value, None, 0.0, True, 0.3, True
    )
    theirs = F.scaled_dot_product_attention(
        query, key, value, None, 0.0, True, scale=0.3, enable_gqa=True
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("return_weights", [False, True])
def test_the_gradient_of_a_learned_bias_is_pytorchs(
    device: str, return_weights: bool
) -> None:
    torch.manual_seed(0)
    tensors = [
        torch.randn(B, H, n, E, device=device, dtype=torch.float64)
        for n in (L, S, S)
    ]
    ours, theirs = (
        torch.tensor(_bias(H, L, S), device=device, requires_grad=True)
        for _ in range(2)
    )
    result = functional.scaled_dot_product_attention(
        *tensors, ours, return_weights=return_weights
    )
    output = result[0] if return_weights else result
    output.square().sum().backward()
    F.scaled_dot_product_attention(
        *tensors, theirs
    ).square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("return_weights", [False, True])
def test_the_gradient_of_a_learned_bias_is_finite_where_a_row_is_empty(
    device: str, return_weights: bool
) -> None:
    torch.manual_seed(0)
    tensors = [
        torch.randn(B, H, n, E, device=device, dtype=torch.float64)
        for n in (L, S, S)
    ]
    bias = torch.tensor(_bias(L, S), device=device, requires_grad=True)
    allowed = torch.tensor(_one_empty_row(L, S), device=device)
    mask = bias.masked_fill(~allowed, float("-inf"))
    result = functional.scaled_dot_product_attention(
        *tensors, mask, return_weights=return_weights
    )
    (result[0] if return_weights else result).square().sum().backward()
    assert bias.grad.isfinite().all()
    assert (bias.grad[~allowed] == 0).all()


# --- paths through PyTorch


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("kind", ["none", "boolean", "empty row", "bias"])
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16]
)
def test_the_output_is_the_same_with_and_without_the_weights(
    device: str, dtype: torch.dtype, kind: str, is_causal: bool
) -> None:
    torch.manual_seed(0)
    tensors = [
        torch.randn(B, H, n, E, device=device).to(dtype) for n in (L, S, S)
    ]
    mask = {
        "none": None,
        "boolean": torch.tensor(_bool(L, S), device=device),
        "empty row": torch.tensor(_one_empty_row(B, 1, L, S), device=device),
        "bias": torch.tensor(_bias(L, S), device=device).to(dtype),
    }[kind]
    fused = functional.scaled_dot_product_attention(
        *tensors, mask, is_causal=is_causal
    )
    output, weights = functional.scaled_dot_product_attention(
        *tensors, mask, is_causal=is_causal, return_weights=True
    )
    assert fused.dtype == output.dtype == weights.dtype == dtype
    half = dtype in (torch.float16, torch.bfloat16)
    eps = torch.finfo(dtype).eps
    close = {"rtol": 2 * eps, "atol": 4 * eps} if half else tolerance(dtype)
    torch.testing.assert_close(fused, output, **close)


@pytest.fixture
def kernel_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """The arguments of each call of PyTorch's own function."""
    calls = []
    own = F.scaled_dot_product_attention

    def spy(*args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append(args)
        return own(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return calls


def test_without_the_weights_pytorchs_own_function_does_the_work(
    kernel_calls: list[tuple],
) -> None:
    tensors = [torch.randn(B, H, n, E) for n in (L, S, S)]
    for mask in (
        None,
        torch.tensor(_one_empty_row(L, S)),
        torch.tensor(_bias(L, S)).float(),
    ):
        for is_causal in (False, True):
            functional.scaled_dot_product_attention(
                *tensors, mask, is_causal=is_causal
            )
    assert len(kernel_calls) == 6
    functional.scaled_dot_product_attention(*tensors, return_weights=True)
    assert len(kernel_calls) == 6


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (torch.float16, 6e4),
        (torch.bfloat16, 1e17),
        (torch.float32, 1e17),
        (torch.float64, 1e150),
    ],
)
def test_large_inputs_too_are_left_to_pytorchs_own_function_below_overflow(
    dtype: torch.dtype, size: float, kernel_calls: list[tuple]
) -> None:
    """The scores of half precision are float32's: no product comes near its end."""
    tensors = [
        torch.full((B, H, n, E), size, dtype=dtype) for n in (L, S, S)
    ]
    functional.scaled_dot_product_attention(*tensors, is_causal=True)
    assert len(kernel_calls) == 1


@pytest.mark.parametrize("scale", [-0.3, 0.0])
def test_a_scale_that_is_not_positive_keeps_only_the_flag_alone_from_pytorchs_function(
    scale: float, kernel_calls: list[tuple]
) -> None:
    """PyTorch would scale the -inf of its own causal mask along."""
    tensors = [torch.randn(B, H, n, E) for n in (L, S, S)]
    mask = torch.tensor(_bool(L, S))
    for given, is_causal in ((None, False), (mask, False), (mask, True)):
        functional.scaled_dot_product_attention(
            *tensors, given, is_causal=is_causal, scale=scale
        )
    assert len(kernel_calls) == 3
    functional.scaled_dot_product_attention(
        *tensors, is_causal=True, scale=scale
    )
    assert len(kernel_calls) == 3


def _without_first_key() -> NDArray:
    """Return a mask (L, S) that beside the causal flag, and only there, has an empty row."""
    return np.tile(np.arange(S) > 0, (L, 1))


@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "mask",
    [_one_empty_row(L, S), _without_first_key()],
    ids=["empty", "empty beside the flag"],
)
def test_pytorchs_function_is_given_no_row_with_nothing_to_attend_to(
    mask: NDArray, additive: bool, is_causal: bool, kernel_calls: list[tuple]
) -> None:
    """What it makes of one depends on the release, the device and the kernel."""
    tensors = [torch.randn(B, H, n, E) for n in (L, S, S)]
    selected = torch.tensor(mask)
    functional.scaled_dot_product_attention(
        *tensors,
        masks.to_additive(selected) if additive else selected,
        is_causal=is_causal,
    )
    given = kernel_calls[0][3]
    seen = given > -float("inf") if additive else given
    assert seen.any(-1).all()
    expected = selected & masks.causal(L, S) if is_causal else selected
    untouched = expected.any(-1)
    assert torch.equal(seen[untouched], expected[untouched])


@pytest.mark.parametrize(
    ("batch", "queries", "keys", "width"),
    [(0, L, S, EV), (B, 0, S, EV), (B, L, 0, EV), (B, L, S, 0)],
)
def test_pytorchs_function_is_given_no_sizes_of_zero(
    batch: int,
    queries: int,
    keys: int,
    width: int,
    kernel_calls: list[tuple],
) -> None:
    """What it makes of them depends on the release, the device and the kernel."""
    functional.scaled_dot_product_attention(
        torch.ones(batch, queries, E),
        torch.ones(batch, keys, E),
        torch.ones(batch, keys, width),
    )
    assert kernel_calls == []


def test_pytorchs_function_is_given_no_bias_of_another_dtype_than_the_inputs(
    kernel_calls: list[tuple],
) -> None:
    """Not every kernel takes one."""
    tensors = [torch.randn(B, H, n, E).half() for n in (L, S, S)]
    bias = torch.tensor(_bias(L, S)).float()
    functional.scaled_dot_product_attention(*tensors, bias)
    assert kernel_calls == []
    functional.scaled_dot_product_attention(*tensors, bias.half())
    assert len(kernel_calls) == 1


@pytest.mark.parametrize("leading", [(), (H,), (B, H)])
def test_pytorchs_function_gets_four_axes_the_leading_ones_alike(
    leading: tuple[int, ...], kernel_calls: list[tuple]
) -> None:
    """Only so it takes a fused kernel."""
    functional.scaled_dot_product_attention(
        torch.randn(L, E),
        torch.randn(*leading, S, E),
        torch.randn(*leading, S, E),
    )
    shapes = [x.shape for x in kernel_calls[0][:3]]
    assert {len(shape) for shape in shapes} == {4}
    assert len({shape[:-2] for shape in shapes}) == 1


def test_a_compiler_which_cannot_look_at_the_data_is_given_the_steps(
    kernel_calls: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    tensors = [torch.randn(B, H, n, E) for n in (L, S, S)]
    functional.scaled_dot_product_attention(*tensors, is_causal=True)
    functional.scaled_dot_product_attention(*tensors, torch.tensor(_bool(S)))
    assert kernel_calls == []
    functional.scaled_dot_product_attention(*tensors)
    assert len(kernel_calls) == 1


class _Operations(TorchDispatchMode):
    """Notes the operations that PyTorch carries out."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("leading", [(), (B,), (B, H), (2, 1, H)])
def test_the_scale_costs_no_pass_over_the_queries(
    leading: tuple[int, ...],
) -> None:
    tensors = [torch.randn(*leading, n, E) for n in (L, S, S)]
    with _Operations() as operations:
        functional.scaled_dot_product_attention(
            *tensors, return_weights=True
        )
    assert "baddbmm" in operations.names
    assert "mul" not in operations.names


@pytest.mark.parametrize("return_weights", [False, True])
def test_no_memory_is_read_that_was_not_written(
    return_weights: bool,
) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(B, H, n, E) for n in (L, S, S)]

    def attend() -> Any:
        return functional.scaled_dot_product_attention(
            *tensors, return_weights=return_weights
        )

    before = attend()
    torch.use_deterministic_algorithms(True)  # fills new memory with NaN
    try:
        after = attend()
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(after, before)


@pytest.mark.parametrize(
    "kind", ["none", "boolean", "empty row", "bias", "causal"]
)
@pytest.mark.parametrize("return_weights", [False, True])
def test_gradcheck_and_gradgradcheck(
    device: str, return_weights: bool, kind: str
) -> None:
    torch.manual_seed(0)
    shapes = (
        (2, 2, 3),
        (2, 4, 3),
        (2, 4, 2),
    )  # d_v differs: no kernel without second gradient
    tensors = [
        torch.randn(
            s, dtype=torch.float64, device=device, requires_grad=True
        )
        for s in shapes
    ]
    mask = {
        "none": None,
        "causal": None,
        "boolean": torch.tensor(_bool(2, 4), device=device),
        "empty row": torch.tensor(_one_empty_row(2, 4), device=device),
        "bias": torch.tensor(_bias(2, 4), device=device),
    }[kind]

    def attend(*x: torch.Tensor) -> Any:
        return functional.scaled_dot_product_attention(
            *x,
            mask,
            is_causal=kind == "causal",
            return_weights=return_weights,
        )

    assert torch.autograd.gradcheck(attend, tensors)
    assert torch.autograd.gradgradcheck(attend, tensors, fast_mode=True)


@pytest.mark.parametrize("kind", ["boolean", "empty row", "causal"])
def test_weights_carry_a_gradient_of_their_own(
    device: str, kind: str
) -> None:
    """A loss on the weights reaches query and key, and no value."""
    torch.manual_seed(0)
    tensors = [
        torch.randn(
            2, n, w, dtype=torch.float64, device=device, requires_grad=True
        )
        for n, w in ((L, E), (S, E), (S, EV))
    ]
    mask = {
        "boolean": _bool(L, S),
        "empty row": _one_empty_row(L, S),
        "causal": None,
    }[kind]
    mask_ = None if mask is None else torch.tensor(mask, device=device)
    chosen = torch.randn(2, L, S, dtype=torch.float64, device=device)
    _, weights = functional.scaled_dot_product_attention(
        *tensors, mask_, is_causal=kind == "causal", return_weights=True
    )
    grads = torch.autograd.grad(
        (weights * chosen).sum(), tensors, allow_unused=True
    )
    assert grads[2] is None or (grads[2] == 0).all()
    arrays = [x.detach().cpu().numpy() for x in tensors]
    expected = numerical_gradients(
        lambda q, k: loop_attention(
            q, k, arrays[2], mask, is_causal=kind == "causal"
        )[1],
        arrays[:2],
        chosen.cpu().numpy(),
    )
    for grad, numerical in zip(grads[:2], expected, strict=True):
        np.testing.assert_allclose(
            grad.cpu().numpy(), numerical, **FINITE_DIFFERENCE
        )


# --- grouped heads


@pytest.mark.parametrize("return_weights", [False, True])
def test_consecutive_query_heads_share_one_key_and_value_head(
    device: str, return_weights: bool
) -> None:
    torch.manual_seed(0)
    query = torch.randn(B, 6, L, E, dtype=torch.float64, device=device)
    key = torch.randn(B, 2, S, E, dtype=torch.float64, device=device)
    value = torch.randn(B, 2, S, EV, dtype=torch.float64, device=device)
    result = functional.scaled_dot_product_attention(
        query, key, value, enable_gqa=True, return_weights=return_weights
    )
    output = result[0] if return_weights else result
    for h, shared in enumerate((0, 0, 0, 1, 1, 1)):
        expected, _ = loop_attention(
            *(
                x.cpu().numpy()
                for x in (query[:, h], key[:, shared], value[:, shared])
            )
        )
        np.testing.assert_allclose(
            output[:, h].cpu().numpy(), expected, rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_shared_heads_gradient_is_the_sum_over_its_group(
    device: str, return_weights: bool
) -> None:
    torch.manual_seed(0)
    query = torch.randn(B, 4, L, E, dtype=torch.float64, device=device)
    key = torch.randn(
        B, 2, S, E, dtype=torch.float64, device=device, requires_grad=True
    )
    value = torch.randn(
        B, 2, S, EV, dtype=torch.float64, device=device, requires_grad=True
    )
    copies = [
        torch.stack([x.detach()[:, h // 2] for h in range(4)], 1)
        for x in (key, value)
    ]
    for x in copies:
        x.requires_grad_()
    grad = torch.randn(B, 4, L, EV, dtype=torch.float64, device=device)
    result = functional.scaled_dot_product_attention(
        query, key, value, enable_gqa=True, return_weights=return_weights
    )
    (result[0] if return_weights else result).backward(grad)
    F.scaled_dot_product_attention(query, *copies).backward(grad)
    for x, copy in zip((key, value), copies, strict=True):
        torch.testing.assert_close(
            x.grad, copy.grad.unflatten(1, (2, 2)).sum(2)
        )


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("leading", [(), (2, 3)])
def test_grouped_heads_may_stand_behind_any_leading_axes(
    leading: tuple[int, ...], return_weights: bool
) -> None:
    torch.manual_seed(0)
    inputs = [
        torch.randn(*leading, heads, n, E)
        for heads, n in ((6, L), (2, S), (2, S))
    ]
    options: dict[str, Any] = {
        "enable_gqa": True,
        "return_weights": return_weights,
    }
    result = functional.scaled_dot_product_attention(*inputs, **options)
    batch = functional.scaled_dot_product_attention(
        *(x.reshape(-1, *x.shape[-3:]) for x in inputs), **options
    )
    for x, y in zip(
        result if return_weights else (result,),
        batch if return_weights else (batch,),
        strict=True,
    ):
        torch.testing.assert_close(x, y.reshape(x.shape))


def test_heads_that_differ_are_refused_without_enable_gqa() -> None:
    with pytest.raises(
        ValueError, match=r"leading axes.*query \(2, 6\), key \(2, 2\)"
    ):
        functional.scaled_dot_product_attention(
            torch.randn(B, 6, L, E),
            torch.randn(B, 2, S, E),
            torch.randn(B, 2, S, EV),
        )


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("hidden", ["key", "value"])
def test_a_hidden_input_of_either_sign_may_overflow(
    hidden: str, sign: float, implementation: NumPy | PyTorch
) -> None:
    """With no large number of the other sign in sight, which alone would be noticed."""
    rng = np.random.default_rng(5)
    arrays = {
        name: -np.abs(rng.normal(size=shape)).astype(np.float32)
        for name, shape in (
            ("query", (2, 3, 5, 4)),
            ("key", (2, 3, 7, 4)),
            ("value", (2, 3, 7, 4)),
        )
    }
    mask = np.ones((5, 7), dtype=bool)
    mask[:, 5:] = False
    expected, _ = implementation.attend(**arrays, attn_mask=mask)
    arrays[hidden][:, :, 5:] = sign * np.finfo(np.float32).max
    output, _ = implementation.attend(**arrays, attn_mask=mask)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hidden", [np.nan, np.inf])
def test_a_hidden_key_need_not_be_a_finite_number(
    hidden: float, implementation: NumPy | PyTorch
) -> None:
    rng = np.random.default_rng(6)
    query, key, value = rng.normal(size=(3, 2, 3, 5, 4))
    mask = np.array([True, True, True, True, False])
    expected, _ = implementation.attend(query, key, value, mask)
    key[..., -1, :] = hidden
    output, _ = implementation.attend(query, key, value, mask)
    np.testing.assert_allclose(output, expected, rtol=1e-12)
