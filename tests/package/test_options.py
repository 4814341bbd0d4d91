"""All options of a function at once, drawn at random, against the loops of the oracle.

Beside the numbers, what must hold whatever the options are: dtype, shape and device of the results,
whether they carry a gradient, that they share no memory with the inputs, that the inputs stay as
they are, that PyTorch's defaults do not matter, and that random numbers are drawn by dropout alone.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from implementations import tolerance
from numpy.typing import NDArray
from oracle import loop_attention, loop_multi_head_attention
from torch import Tensor, nn

from attention import (
    MultiHeadAttention,
    functional,
    masks,
    multihead,
    positions,
    reference,
)

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
NUMPY_DTYPES = (np.longdouble, np.float64, np.float32, np.float16)
DRAWS = pytest.mark.parametrize("seed", range(60))
Rng = np.random.Generator


# --- what is drawn


def _one_of(rng: Rng, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def _leading(rng: Rng, count: int) -> tuple[list[Any], tuple[int, ...]]:
    """Draw leading axes of several inputs, some shorter or of size one, that broadcast."""
    whole = _one_of(rng, (), (2,), (2, 3), (3, 1, 2))
    each = []
    for _ in range(count):
        kept = whole[rng.integers(len(whole) + 1) :]
        each.append(tuple(int(_one_of(rng, n, n, 1)) for n in kept))
    return each, np.broadcast_shapes(*each)


def _mask(rng: Rng, scores: Sequence[int], least: int = 1) -> NDArray | None:
    """Draw no mask, one that selects or one that is added, of some of the scores' axes."""
    kind = _one_of(rng, "none", "selects", "added", "bias")
    if kind == "none":
        return None
    cut = rng.integers(len(scores)) if rng.random() < 0.5 else 0
    cut = min(cut, len(scores) - least)
    shape = [_one_of(rng, n, n, 1) for n in scores[cut:]]
    allowed = rng.random(shape) < 0.7
    if kind == "selects":
        return allowed
    bias = rng.normal(size=shape) if kind == "bias" else np.zeros(shape)
    return np.where(allowed, bias, -np.inf)


def _laid_out(rng: Rng, x: NDArray) -> NDArray:
    """Return the same numbers, in another order of memory, not to be written to."""
    order = rng.permutation(x.ndim)
    y = np.ascontiguousarray(x.transpose(order)).transpose(order.argsort())
    if rng.random() < 0.3:
        y = np.ascontiguousarray(y[..., ::-1])[..., ::-1]
    y.flags.writeable = False
    return y


def _tensor(rng: Rng, x: NDArray, dtype: torch.dtype) -> Tensor:
    order = [int(n) for n in rng.permutation(x.ndim)]
    y = torch.tensor(x.transpose(order), dtype=dtype, device="cpu")
    return y.permute([int(n) for n in np.argsort(order)])


@contextlib.contextmanager
def _ambient(rng: Rng) -> Iterator[bool]:
    """Set PyTorch's defaults and its mode of recording; yield whether it records."""
    mode = _one_of(rng, "records", "records", "no_grad", "inference")
    before = torch.get_default_dtype()
    torch.set_default_dtype(_one_of(rng, *DTYPES[:3]))
    try:
        with contextlib.ExitStack() as stack:
            if rng.random() < 0.5:
                stack.enter_context(torch.device("meta"))
            if mode == "no_grad":
                stack.enter_context(torch.no_grad())
            if mode == "inference":
                stack.enter_context(torch.inference_mode())
            yield mode == "records"
    finally:
        torch.set_default_dtype(before)


# --- what must hold whatever is drawn


def _undisturbed(
    call: Callable[[], Any], inputs: Sequence[Tensor], draws: bool = False
) -> tuple[Tensor, ...]:
    """Call, and compare what a call may not change; return the results."""
    before = [x.detach().clone() for x in inputs]
    # What is made in inference mode counts no versions.
    counting = [x for x in inputs if not x.is_inference()]
    versions = [x._version for x in counting]
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1]
    result = call()
    assert torch.equal(torch.get_rng_state(), state) is not draws
    assert (np.random.get_state()[1] == numpy_state).all()
    assert [x._version for x in counting] == versions
    for x, y in zip(inputs, before, strict=True):
        assert torch.equal(x, y)
    results = result if isinstance(result, tuple) else (result,)
    memory = {x.untyped_storage().data_ptr() for x in inputs}
    for x in results:
        assert x.device.type == "cpu"
        assert x.untyped_storage().data_ptr() not in memory
    if len(results) == 2:
        one, two = (x.untyped_storage().data_ptr() for x in results)
        assert one != two
    return results


def _close(actual: Any, expected: NDArray, dtype: Any) -> None:
    assert actual.dtype == dtype
    if isinstance(actual, Tensor):
        actual = actual.detach().double().numpy()
    assert actual.shape == expected.shape
    room = tolerance(dtype)
    room = {name: max(x, 1e-12) for name, x in room.items()}
    np.testing.assert_allclose(actual, expected, **room)


def _apart(arrays: Sequence[NDArray], results: Sequence[NDArray]) -> None:
    """Say that NumPy's results can be written to and share no memory."""
    for x in results:
        assert x.flags.writeable
        assert not any(np.shares_memory(x, y) for y in arrays)
    for x, y in itertools.combinations(results, 2):
        assert not np.shares_memory(x, y)


# --- attention


def _draw_attention(rng: Rng, grouped: bool = False) -> dict[str, Any]:
    """Draw the numbers and options of an attention, in float64."""
    L, S, E, Ev = (int(_one_of(rng, 1, 2, 3, 5)) for _ in range(4))
    (q, k, v), whole = _leading(rng, 3)
    heads = 1
    if grouped:
        shared, heads = int(_one_of(rng, 1, 2)), int(_one_of(rng, 1, 3))
        q, k, v = (*q, shared * heads), (*k, shared), (*v, shared)
        whole = (*whole, shared * heads)
    mask = _mask(rng, (*whole, L, S))
    return {
        "inputs": [
            rng.normal(size=(*lead, *shape))
            for lead, shape in ((q, (L, E)), (k, (S, E)), (v, (S, Ev)))
        ],
        "mask": mask,
        "options": {
            "is_causal": bool(_one_of(rng, False, True)),
            "scale": _one_of(rng, None, None, 0.7, -0.4, 0, np.float32(2)),
        },
        "shape": (*whole, L, S),
        "group": heads,
    }


@DRAWS
@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_torch_with_any_options_equals_the_loop_and_disturbs_nothing(
    seed: int, return_weights: bool, grouped: bool
) -> None:
    rng = np.random.default_rng([seed, return_weights, grouped])
    drawn = _draw_attention(rng, grouped)
    dtype = _one_of(rng, *DTYPES)
    inputs = [_tensor(rng, x, dtype) for x in drawn["inputs"]]
    tensors = list(inputs)
    if drawn["mask"] is not None:
        kind = _one_of(rng, dtype, torch.float32)
        kind = torch.bool if drawn["mask"].dtype == bool else kind
        tensors.append(_tensor(rng, drawn["mask"], kind))
    for x in tensors:
        if x.is_floating_point() and rng.random() < 0.3:
            x.requires_grad_()
    mask = tensors[3] if len(tensors) == 4 else None
    # What rounding made of the numbers is what is attended to.
    exact = [x.detach().double().numpy() for x in inputs]
    if grouped:
        exact[1:] = [x.repeat(drawn["group"], -3) for x in exact[1:]]
    given = drawn["mask"]
    if mask is not None and mask.is_floating_point():
        given = mask.detach().double().numpy()
    expected = loop_attention(*exact, given, **drawn["options"])
    with _ambient(rng) as records:
        output, *weights = _undisturbed(
            lambda: functional.scaled_dot_product_attention(
                *inputs,
                mask,
                enable_gqa=grouped,
                return_weights=return_weights,
                **drawn["options"],
            ),
            tensors,
        )
    _close(output, expected[0], dtype)
    learned = [x.requires_grad for x in tensors]
    assert output.requires_grad == (records and any(learned))
    assert len(weights) == return_weights
    for x in weights:
        _close(x, expected[1], dtype)
        told = any(learned[:2]) or any(learned[3:])
        assert x.requires_grad == (records and told)


@DRAWS
@pytest.mark.parametrize("return_weights", [False, True])
def test_dropout_with_any_options_drops_or_divides_each_weight(
    seed: int, return_weights: bool
) -> None:
    rng = np.random.default_rng([seed, return_weights])
    drawn = _draw_attention(rng)
    query, key, _ = (torch.tensor(x) for x in drawn["inputs"])
    *_, S = drawn["shape"]
    # Values that hand out the weights, of every axis that they may have.
    value = torch.eye(S).double().expand(*drawn["shape"][:-2], S, S)
    tensors = [query, key, value]
    if drawn["mask"] is not None:
        tensors.append(torch.tensor(drawn["mask"]))
    p = float(_one_of(rng, 0.3, 0.9))
    arrays = [x.numpy() for x in tensors]
    _, expected = loop_attention(*arrays, **drawn["options"])
    with _ambient(rng):
        output, *weights = _undisturbed(
            lambda: functional.scaled_dot_product_attention(
                *tensors,
                dropout_p=p,
                return_weights=return_weights,
                **drawn["options"],
            ),
            tensors,
            draws=True,
        )
    for x in weights:
        _close(x, expected, torch.float64)
    kept = output.numpy() != 0
    np.testing.assert_allclose(
        output.numpy(), np.where(kept, expected / (1 - p), 0), atol=1e-14
    )


def _by_autograd(
    drawn: dict[str, Any], factors: NDArray | None, grad: NDArray
) -> list[NDArray]:
    """Return the gradients of attention, written plainly and differentiated by PyTorch."""
    query, key, value = leaves = [
        torch.tensor(np.array(x, np.float64), requires_grad=True)
        for x in drawn["inputs"]
    ]
    scale = drawn["options"]["scale"]
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    scores = (scale * query @ key.mT).expand(drawn["shape"])
    allowed = torch.ones(drawn["shape"], dtype=torch.bool)
    if drawn["options"]["is_causal"]:
        allowed = allowed.tril()
    mask = drawn["mask"]
    if mask is not None:
        seen = torch.tensor(mask if mask.dtype == bool else mask > -np.inf)
        allowed = allowed & seen
        if mask.dtype != bool:
            scores = scores + torch.tensor(np.where(seen, mask, 0.0))
    terms = (scores - scores.detach().amax(-1, True)).exp() * allowed
    total = terms.sum(-1, keepdim=True)
    weights = terms / torch.where(total == 0, 1.0, total)
    if factors is not None:
        weights = weights * torch.tensor(np.array(factors, np.float64))
    output = weights @ value
    gradients = torch.autograd.grad(
        output, leaves, torch.tensor(np.array(grad, np.float64))
    )
    return [x.numpy() for x in gradients]


@DRAWS
def test_numpy_with_any_options_equals_the_loop_and_disturbs_nothing(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    drawn = _draw_attention(rng)
    dtype = _one_of(rng, *NUMPY_DTYPES)
    *whole, L, _ = drawn["shape"]
    inputs = [_laid_out(rng, x.astype(dtype)) for x in drawn["inputs"]]
    drawn["inputs"] = inputs
    factors = None
    if rng.random() < 0.5:
        cut = rng.integers(len(whole) + 2)
        shape = [_one_of(rng, n, 1) for n in drawn["shape"][cut:]]
        factors = reference.dropout_mask(tuple(shape), 0.4, rng)
    mask = drawn["mask"]
    # The masks module makes tensors, and NumPy takes them too.
    asked = (
        mask if rng.random() < 0.5 or mask is None else torch.tensor(mask)
    )
    options = {**drawn["options"], "dropout_mask": factors}
    grad = rng.normal(size=(*whole, L, inputs[2].shape[-1])).astype(dtype)
    with np.errstate(all="raise", under="ignore"):
        results = reference.scaled_dot_product_attention(
            *inputs, asked, **options
        )
        gradients = reference.scaled_dot_product_attention_backward(
            grad, *inputs, asked, **options
        )
    expected = loop_attention(*inputs, mask, **options)
    for x, y in zip(results, expected, strict=True):
        _close(x, y, dtype)
    for x, y in zip(
        gradients, _by_autograd(drawn, factors, grad), strict=True
    ):
        assert x.dtype == dtype
        room = 300 * max(float(np.finfo(dtype).eps), 1e-14)
        np.testing.assert_allclose(x, y, rtol=room, atol=room)
    given = [*inputs, grad, *(x for x in (mask, factors) if x is not None)]
    _apart(given, results)
    _apart(given, gradients)


@pytest.mark.parametrize(
    ("dtype", "far"), [(np.float16, 70_000.0), (np.float32, 2.0**24)]
)
def test_numpy_adds_a_bias_of_a_wider_dtype_as_it_is(
    dtype: type, far: float
) -> None:
    """Rounded to the inputs' dtype, all of these would be alike or infinite."""
    inputs = [np.ones((2, n, 2), dtype=dtype) for n in (3, 4, 4)]
    bias = far + np.array([0.0, 1.0, -np.inf, 3.0])
    options = {"attn_mask": np.tile(bias, (3, 1))}
    output, weights = reference.scaled_dot_product_attention(
        *inputs, **options
    )
    expected = loop_attention(*inputs, **options)
    _close(output, expected[0], dtype)
    _close(weights, expected[1], dtype)
    *_, grad_value = reference.scaled_dot_product_attention_backward(
        output, *inputs, **options
    )
    summed = expected[1].sum(-2)[..., None].repeat(2, -1)
    _close(grad_value, summed, dtype)


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_an_input_stretched_to_no_entries_gets_a_gradient_of_zero(
    empty: int,
) -> None:
    shapes = [(1, 3, 2)] * 3
    shapes[empty] = (0, 3, 2)
    inputs = [np.ones(shape) for shape in shapes]
    gradients = reference.scaled_dot_product_attention_backward(
        np.ones((0, 3, 2)), *inputs
    )
    for x, shape in zip(gradients, shapes, strict=True):
        assert x.shape == shape
        assert not x.any()


def test_not_a_number_spoils_its_own_row_and_is_not_hidden() -> None:
    x = np.array([[0.0, np.nan, 1.0], [0.0, 1.0, 2.0]])
    rows = (
        reference.softmax(x),
        reference.log_sum_exp(x, keepdims=True),
        reference.scaled_dot_product_attention(x, np.eye(3), np.eye(3))[1],
    )
    for row in rows:
        assert np.isnan(row).all(-1).tolist() == [True, False]
        assert np.isfinite(row).all(-1).tolist() == [False, True]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lowest_number_hides_less_than_minus_infinity(
    dtype: torch.dtype,
) -> None:
    lowest = torch.finfo(dtype).min
    mask = torch.tensor([[lowest, -math.inf, lowest]], dtype=dtype)
    x = torch.zeros(3, 3, dtype=dtype)
    expected = torch.tensor([[0.5, 0.0, 0.5]]).to(dtype).expand(3, 3)
    output, weights = functional.scaled_dot_product_attention(
        x, x, torch.eye(3).to(dtype), mask, return_weights=True
    )
    assert torch.equal(weights, expected)
    assert torch.equal(output, expected)


def test_extended_precision_is_kept_in_numpy() -> None:
    """Where a long double is wider, a sum in float64 would lose its last digits."""
    eps = np.finfo(np.longdouble).eps
    x = np.array([[1.0, 0.5, -0.25]], dtype=np.longdouble) / 3
    terms = np.exp(x - x.max())
    exact = terms / terms.sum()
    room = {"rtol": 8 * float(eps), "atol": 0}
    np.testing.assert_allclose(reference.softmax(x), exact, **room)
    lse = np.log(terms.sum()) + x.max()
    np.testing.assert_allclose(reference.log_sum_exp(x), [lse], **room)
    eye = np.eye(3, dtype=np.longdouble)
    output, _ = reference.scaled_dot_product_attention(x, eye, eye, scale=1)
    np.testing.assert_allclose(output, exact, **room)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize(
    "shape", [(3,), (1, 3), (2, 3), (2, 1, 3), (3, 2, 3)]
)
def test_softmax_and_its_kin_along_any_axis_disturb_nothing(
    shape: tuple[int, ...], dtype: type
) -> None:
    rng = np.random.default_rng(len(shape))
    x = _laid_out(rng, rng.normal(size=shape).astype(dtype))
    terms = np.exp(x.astype(np.longdouble))
    for axis in range(-len(shape), len(shape)):
        total = terms.sum(axis=axis, keepdims=True)
        soft = reference.softmax(x, axis)
        kept = reference.log_sum_exp(x, axis, keepdims=True)
        gone = reference.log_sum_exp(x, axis)
        _close(soft, terms / total, dtype)
        _close(kept, np.log(total), dtype)
        _close(gone, np.log(total).squeeze(axis), dtype)
        _apart([x], [soft, kept])
    p = terms / terms.sum(axis=-1, keepdims=True)
    exact = np.zeros((*shape, shape[-1]))
    for at in np.ndindex(*shape[:-1]):
        exact[at] = np.diag(p[at]) - np.outer(p[at], p[at])
    jacobian = reference.softmax_jacobian(x)
    _close(jacobian, exact, dtype)
    _apart([x], [jacobian])


# --- the layer


class Layer(MultiHeadAttention):
    """A layer of a user's own."""


def _draw_layer(rng: Rng) -> tuple[Layer, dict[str, NDArray]]:
    """Draw a layer, and its parameters as NumPy takes them."""
    H = int(_one_of(rng, 1, 2, 4))
    width = int(_one_of(rng, 4, 8))
    options = {
        name: int(value)
        for name, value in {
            "d_k": _one_of(rng, 1, 3),
            "d_v": _one_of(rng, 1, 5),
            "kdim": _one_of(rng, 3, 6),
            "vdim": _one_of(rng, 3, 7),
            "num_kv_heads": _one_of(rng, 1, H),
        }.items()
        if rng.random() < 0.4
    }
    layer = Layer(
        width,
        H,
        bias=bool(_one_of(rng, True, False)),
        dropout=0.5,
        dtype=torch.float64,
        **options,
    )
    parameters = {}
    for letter, linear in zip("QKVO", layer.children(), strict=True):
        for name, x in linear.named_parameters():
            drawn = rng.normal(size=x.shape)
            x.data = torch.tensor(drawn).to(x)
            kind = "W" if name == "weight" else "b"
            parameters[f"{kind}_{letter}"] = drawn.T
    return layer, parameters


@DRAWS
@pytest.mark.parametrize("return_weights", [False, True])
def test_a_layer_with_any_options_equals_the_loop_and_disturbs_nothing(
    seed: int, return_weights: bool
) -> None:
    rng = np.random.default_rng([seed, return_weights])
    layer, parameters = _draw_layer(rng)
    H, L, S = layer.num_heads, *(int(_one_of(rng, 1, 2, 4)) for _ in "LS")
    (q, k, v), whole = _leading(rng, 3)
    given = {"query": rng.normal(size=(*q, L, layer.d_model))}
    # A key that is not given is the query, a value the key.
    if layer.kdim != layer.d_model or rng.random() < 0.6:
        given["key"] = rng.normal(size=(*k, S, layer.kdim))
    S = given.get("key", given["query"]).shape[-2]
    if (
        layer.vdim != given.get("key", given["query"]).shape[-1]
        or rng.random() < 0.6
    ):
        given["value"] = rng.normal(size=(*v, S, layer.vdim))
    key = given.get("key", given["query"])
    arrays = [given["query"], key, given.get("value", key)]
    whole = np.broadcast_shapes(*(x.shape[:-2] for x in arrays))
    scores = (*whole, H, L, S)
    # A layer's mask has the last one or two axes, or all of them.
    mask = _mask(rng, (L, S) if rng.random() < 0.4 else scores)
    if mask is not None and mask.ndim > 2:
        mask = mask[(None,) * (len(scores) - mask.ndim)]
    is_causal = bool(_one_of(rng, False, True))
    parts = {
        "is_causal": is_causal,
        "num_kv_heads": _one_of(
            rng, layer.num_kv_heads, np.int64(layer.num_kv_heads)
        ),
    }
    expected = loop_multi_head_attention(
        *arrays, parameters, H, mask, **parts
    )
    tensors = {n: _tensor(rng, x, torch.float64) for n, x in given.items()}
    if mask is not None:
        kind = torch.bool if mask.dtype == bool else torch.float64
        tensors["attn_mask"] = _tensor(rng, mask, kind)
    frozen = rng.random() < 0.5
    layer.requires_grad_(not frozen)
    layer = _one_of(
        rng,
        lambda x: x,
        copy.deepcopy,
        lambda x: pickle.loads(pickle.dumps(x)),
    )(layer)
    layer.eval()
    with _ambient(rng) as records:
        results = _undisturbed(
            lambda: layer(
                **tensors, is_causal=is_causal, return_weights=return_weights
            ),
            [*tensors.values(), *layer.parameters()],
        )
    assert len(results) == 1 + return_weights
    for x, y in zip(results, expected, strict=False):
        _close(x, y, torch.float64)
        assert x.requires_grad == (records and not frozen)

    if not frozen and records:  # in training too, if nothing is dropped
        learned = dict(layer.named_parameters())
        gradients = torch.autograd.grad(results[0].sum(), learned.values())
        layer.train().dropout = 0.0
        again = layer(**tensors, is_causal=is_causal)
        for x, y in zip(
            gradients,
            torch.autograd.grad(again.sum(), learned.values()),
            strict=True,
        ):
            _close(x, y.numpy(), torch.float64)

    laid = [_laid_out(rng, x) for x in arrays]
    parameters = {n: _laid_out(rng, x) for n, x in parameters.items()}
    factors = None
    if rng.random() < 0.5:
        factors = np.full((1,) * len(scores), 2.0)
    twin = reference.multi_head_attention(
        *laid, parameters, H, mask, dropout_mask=factors, **parts
    )
    if factors is not None:  # all of them 2: but for the bias the output is
        bias = parameters.get("b_O", 0.0)
        expected = (2 * (expected[0] - bias) + bias, expected[1])
    for x, y in zip(twin, expected, strict=True):
        _close(x, y, np.float64)
    _apart([*laid, *parameters.values()], twin)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_layer_in_training_draws_and_one_that_evaluates_does_not(
    return_weights: bool, masked: bool, is_causal: bool
) -> None:
    layer = MultiHeadAttention(8, 2, dropout=0.5).double()
    x = torch.randn(2, 4, 8).double()
    mask = torch.ones(4, 4, dtype=torch.bool).triu(-2) if masked else None
    for _ in range(2):
        for training in (True, False):
            layer.train(training)
            _undisturbed(
                lambda: layer(
                    x,
                    attn_mask=mask,
                    is_causal=is_causal,
                    return_weights=return_weights,
                ),
                [x, *layer.parameters()],
                draws=training,
            )
    # The probability may be changed later.
    layer.dropout = 0.0
    layer.train()
    _undisturbed(lambda: layer(x), [x, *layer.parameters()])


@pytest.mark.parametrize("kdim", [None, 5])
def test_a_layer_and_pytorchs_are_made_of_one_another_where_they_are(
    kdim: int | None,
) -> None:
    """Of a subclass too, and on a device that holds no numbers."""
    options: dict[str, Any] = {"kdim": kdim, "vdim": kdim and 3}
    for device in ("meta", "cpu"):
        module = nn.MultiheadAttention(8, 2, device=device, **options)
        with torch.device("cpu" if device == "meta" else "meta"):
            layer = Layer.from_torch(module)
            back = layer.to_torch()
        assert type(layer) is Layer
        assert (layer.kdim, layer.vdim) == (module.kdim, module.vdim)
        assert (back.kdim, back.vdim) == (module.kdim, module.vdim)
        for x in (layer, back):
            assert {p.device.type for p in x.parameters()} == {device}


@pytest.mark.parametrize("training", [True, False])
def test_parameters_are_drawn_anew_in_either_mode(training: bool) -> None:
    layer = MultiHeadAttention(4, 2).train(training)
    for x in layer.parameters():
        x.data.fill_(7.0)
    layer.reset_parameters()
    for name, x in layer.named_parameters():
        assert (x == 0).all() if name.endswith("bias") else (x != 7).all()


def test_a_layer_that_is_elsewhere_than_all_of_its_inputs_says_so() -> None:
    layer = MultiHeadAttention(4, 2, device="meta")
    with pytest.raises(
        ValueError, match="query is on cpu, but the layer on"
    ):
        layer(torch.ones(1, 3, 4))
    half = MultiHeadAttention(4, 2, dtype=torch.float16)
    with pytest.raises(TypeError, match=r"query is of torch\.float32"):
        half(torch.ones(1, 3, 4))


@pytest.mark.filterwarnings(  # of what PyTorch itself calls for it
    "ignore:.torch.jit.script. is deprecated:DeprecationWarning"
)
def test_a_layer_works_under_pytorchs_transformations() -> None:
    """Of functions: batched, differentiated forwards, and by each sample's own gradient."""
    layer = MultiHeadAttention(4, 2).double()
    x, tangent = torch.randn(2, 3, 5, 4).double()[:2]
    mask = masks.causal(5)
    expected = layer(x, attn_mask=mask)
    batched = torch.func.vmap(lambda y: layer(y, attn_mask=mask))(x)
    torch.testing.assert_close(batched, expected)

    def weighing(y: Tensor) -> Tensor:
        return layer(y, attn_mask=mask, return_weights=True)[0]

    found, slope = torch.func.jvp(weighing, (x,), (tangent,))
    torch.testing.assert_close(found, expected)
    h = 1e-6
    ends = [layer(x + s * tangent, attn_mask=mask) for s in (h, -h)]
    torch.testing.assert_close(
        slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8
    )


# --- heads and positions


@DRAWS
def test_heads_are_split_and_merged_in_any_layout_and_dtype(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    (lead,), _ = _leading(rng, 1)
    L, H, d = (int(_one_of(rng, 1, 2, 3)) for _ in range(3))
    x = rng.integers(100, size=(*lead, L, H * d))
    split = np.stack([x[..., h * d : (h + 1) * d] for h in range(H)], -3)
    for dtype in (np.int64, np.float16, np.float64):
        flat, heads = (_laid_out(rng, y.astype(dtype)) for y in (x, split))
        for found, expected in (
            (reference.split_heads(flat, H), split),
            (reference.merge_heads(heads), x),
        ):
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, expected)
    for kind in (torch.int64, torch.bfloat16, torch.float64):
        flat, heads = (_tensor(rng, y, kind) for y in (x, split))
        with _ambient(rng):
            for found, expected in (
                (multihead.split_heads(flat, H), split),
                (multihead.merge_heads(heads), x),
            ):
                assert found.dtype == kind
                assert found.shape == expected.shape
                assert (found.double().numpy() == expected).all()


def _turned(x: NDArray, angles: NDArray, pairing: str) -> NDArray:
    """Turn pairs of components, one pair after the other."""
    half = x.shape[-1] // 2
    angles = np.broadcast_to(angles, (*x.shape[:-1], half))
    turned = np.empty(x.shape)
    for r in range(half):
        i, j = (
            (2 * r, 2 * r + 1) if pairing == "interleaved" else (r, r + half)
        )
        number = (x[..., i] + 1j * x[..., j]) * np.exp(1j * angles[..., r])
        turned[..., i], turned[..., j] = number.real, number.imag
    return turned


@DRAWS
@pytest.mark.parametrize("pairing", ["half_split", "interleaved"])
def test_rotations_with_any_options_equal_complex_products_and_disturb_nothing(
    seed: int, pairing: positions.Pairing
) -> None:
    rng = np.random.default_rng(seed)
    (lead,), _ = _leading(rng, 1)
    L, half = (int(_one_of(rng, 1, 2, 4)) for _ in range(2))
    dtype = _one_of(rng, *DTYPES)
    x = _tensor(rng, rng.normal(size=(*lead, L, 2 * half)), dtype)
    x.requires_grad_(bool(rng.random() < 0.5))
    exact = x.detach().double().numpy()
    base = _one_of(rng, 10_000.0, 100, np.float32(50.0))
    omega = float(base) ** -(np.arange(half) / half)
    at: Tensor | None = None
    if rng.random() < 0.7:
        shape = _one_of(rng, (L,), (*(_one_of(rng, n, 1) for n in lead), L))
        kind = _one_of(rng, torch.int32, torch.uint8, torch.float64)
        drawn = rng.integers(200, size=shape)
        if kind == torch.float64:  # float32 would round these
            drawn = drawn + rng.random(shape)
        if kind != torch.uint8:
            drawn = drawn * rng.choice([-1, 1], shape)
        at = _tensor(rng, drawn, kind)
    told = np.arange(L) if at is None else at.double().numpy()
    angles = told[..., None] * omega
    with _ambient(rng) as records:
        (turned,) = _undisturbed(
            lambda: positions.rope(x, at, pairing=pairing, base=base),
            [x] if at is None else [x, at],
        )
        cos, sin = (
            _tensor(rng, f(angles), _one_of(rng, dtype, torch.float64))
            for f in (np.cos, np.sin)
        )
        (rotated,) = _undisturbed(
            lambda: positions.rotate(x, cos, sin, pairing=pairing),
            [x, cos, sin],
        )
        told_dtype = _one_of(rng, None, dtype)
        codes = positions.sinusoidal(
            torch.tensor(told, device="cpu"),
            2 * half,
            base=base,
            device=_one_of(rng, None, "cpu"),
            dtype=told_dtype,
        )
        code_dtype = told_dtype or torch.get_default_dtype()
    expected = _turned(exact, angles, pairing)
    for found in (turned, rotated):
        _close(found, expected, dtype)
        assert found.requires_grad == (records and x.requires_grad)
    if dtype.itemsize == 2:  # rounded once, whatever PyTorch's default
        half_ulp = 0.51 * torch.finfo(dtype).eps
        np.testing.assert_allclose(
            turned.detach().double(), expected, rtol=half_ulp, atol=2e-6
        )
    pairs = np.stack((np.sin(angles), np.cos(angles)), -1)
    _close(codes, pairs.reshape(*told.shape, 2 * half), code_dtype)
    assert codes.device.type == "cpu"


@pytest.mark.parametrize("pairing", ["half_split", "interleaved"])
def test_angles_and_positions_may_be_learned(
    pairing: positions.Pairing,
) -> None:
    x = torch.randn(3, 4).double()
    cos, sin, at = (
        torch.randn(shape).double().requires_grad_()
        for shape in ((3, 2), (3, 2), (3,))
    )
    assert torch.autograd.gradcheck(
        lambda c, s: positions.rotate(x, c, s, pairing=pairing), (cos, sin)
    )
    assert torch.autograd.gradcheck(
        lambda t: positions.rope(x, t, pairing=pairing), (at,)
    )
    assert torch.autograd.gradcheck(
        lambda t: positions.sinusoidal(t, 4, dtype=torch.float64), (at,)
    )


# --- masks


@DRAWS
def test_masks_go_to_pytorchs_layer_and_back_whatever_their_axes(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    B, H, L, S = (int(_one_of(rng, 1, 2, 3)) for _ in range(4))
    shape = [_one_of(rng, n, 1) for n in (B, H, L)]
    shape = [*shape, S][_one_of(rng, 0, 2, 3) :]
    given = _tensor(rng, rng.random(shape) < 0.5, torch.bool)
    lengths = torch.tensor(rng.integers(S + 1, size=B))
    with _ambient(rng):
        (there,) = _undisturbed(
            lambda: masks.to_module_attn_mask(given, B, H, L), [given]
        )
        padding = masks.padding(lengths, S)
        (ignored,) = _undisturbed(
            lambda: masks.to_module_padding_mask(padding), [padding]
        )
        one = masks.from_module_masks(there, num_heads=H)
        other = masks.from_module_masks(None, ignored, num_heads=H)
        both = masks.from_module_masks(there, ignored, num_heads=H)
        for mask in (given, padding, there):
            added = masks.to_additive(mask, torch.float16)
            assert added.dtype == torch.float16
            assert added.device.type == "cpu"
            assert torch.equal(masks.from_additive(added), mask)
            assert torch.equal(added == 0, mask)
            assert torch.equal(added == -math.inf, ~mask)
    whole = (B, H, L, S)
    assert there.shape == ((L, S) if given.ndim < 3 else (B * H, L, S))
    assert torch.equal(one.expand(whole), given.expand(whole))
    assert one.ndim == (2 if given.ndim < 3 else 4)
    assert ignored.shape == (B, S)
    assert other.shape == (B, 1, 1, S)
    for b, n in enumerate(lengths.tolist()):
        assert other[b].flatten().tolist() == [j < n for j in range(S)]
    assert torch.equal(both.expand(whole), (given & other).expand(whole))


@pytest.mark.parametrize(
    "shape", [(2, 1, 1), (2, 1, 1, 4, 3), (2, 1, 4, 3), (2, 4, 1, 3)]
)
def test_a_padding_mask_has_its_four_axes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(B, 1, 1, S\), got"):
        masks.to_module_padding_mask(torch.ones(shape, dtype=torch.bool))


def test_what_is_empty_or_small_is_not_let_through_by_the_masks() -> None:
    with pytest.raises(ValueError, match=r"\(B,\), got \(0, 3\)"):
        masks.padding(torch.zeros(0, 3))
    for long in (2**31, 2**32, 2**32 + 2):  # in 32 bits these wrap around
        with pytest.raises(ValueError, match=rf"S = 3, got \[1, {long}\]"):
            masks.padding(torch.tensor([1, long]), 3)
    for number in (torch.uint8, torch.int8, torch.int64, torch.float32):
        mask = torch.ones(2, 1, 1, 3, dtype=number)
        for refuse in (
            masks.to_module_padding_mask,
            masks.to_additive,
            lambda x: masks.to_module_attn_mask(x, 2, 1, 3),
        ):
            with pytest.raises(TypeError, match=f"boolean.*{number}"):
                refuse(mask)
        if not number.is_floating_point:
            with pytest.raises(TypeError, match=f"boolean.*{number}"):
                masks.from_module_masks(mask[0, 0], num_heads=1)
