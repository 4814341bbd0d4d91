"""Kernels that others wrote, and the package's two implementations, on random problems.

Compared is what they mean alike. They differ in two things, which are left to the package's own
tests. A query that may attend to nothing gets zeros here; in mlx it gets the mean of the values,
and NaN in the gradient: such rows are compared between the package's own ways alone. Causality
where L ≠ S starts in the upper left corner here, in PyTorch and in onnxruntime, and in the lower
right one in mlx, which gets it as a mask, or is compared with that corner.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper
from strategies import (
    LENGTHS,
    Problem,
    problems,
    seen_keys,
    without_empty_rows,
)
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from ways import WAYS, Way

from attention import functional, masks, multihead, positions, reference

WITHOUT_MLX = ""
try:
    import mlx.core as mx

    mx.set_default_device(mx.cpu)
except ImportError as error:
    WITHOUT_MLX = f"mlx, which not every platform has: {error}"

needs_mlx = pytest.mark.skipif(bool(WITHOUT_MLX), reason=WITHOUT_MLX)

Results = dict[str, Tensor]
HALVES = ("float16", "bfloat16")


# --- The package's ways, and how far two right answers may lie apart


def ours(problem: Problem, way: Way) -> Results:
    """Attend forward and backward in one of the package's ways."""
    options = {"is_causal": problem.is_causal, "scale": problem.scale}
    if way == "numpy":
        arrays = [x.numpy() for x in problem.inputs]
        mask = None if problem.mask is None else problem.mask.numpy()
        if problem.grouped:
            group = arrays[0].shape[1] // arrays[1].shape[1]
            arrays[1:] = (np.repeat(x, group, 1) for x in arrays[1:])
        output, weights = reference.scaled_dot_product_attention(
            *arrays, mask, **options
        )
        gradients = reference.scaled_dot_product_attention_backward(
            problem.grad.numpy(), *arrays, mask, **options
        )
        found = {"output": output, "weights": weights}
        for name, x, y in zip(NAMES, gradients, problem.inputs, strict=True):
            found[name] = _summed(x, y.shape) if problem.grouped else x
        return {n: torch.from_numpy(x) for n, x in found.items()}
    return differentiated(
        lambda *x: functional.scaled_dot_product_attention(
            *(*x, problem.mask),
            enable_gqa=problem.grouped,
            return_weights=way == "torch, weights",
            **options,
        ),
        problem,
    )


NAMES = ("d query", "d key", "d value")


def _summed(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Sum the gradients of heads that share a key."""
    B, H, *rest = shape
    return gradient.reshape(B, H, -1, *rest).sum(2)


def differentiated(
    function: Callable[..., Any], problem: Problem
) -> Results:
    """Return the output, the weights if there are any, and the three gradients."""
    # A detached copy keeps its strides.
    leaves = [x.detach().requires_grad_() for x in problem.inputs]
    result = function(*leaves)
    output, *weights = result if isinstance(result, tuple) else (result,)
    gradients = torch.autograd.grad(output, leaves, problem.grad)
    found = {"output": output.detach()}
    if weights:
        found["weights"] = weights[0].detach()
    return found | dict(zip(NAMES, gradients, strict=True))


def tolerances(
    problem: Problem, scores_in: torch.dtype | None = None
) -> Results:
    """Bound to first order what rounding may do to each number, given the problem's own.

    With the unit u of the dtype that is computed in (float32 for the half precisions), a sum of n
    products is off by at most n u times the sum of their sizes. So a score s = c q k + m is off by
    (E + 4) u (c |q| |k| + |m|), its exponential by as much *relatively*, and a weight by that, its
    row's mean of it, and S u. From there each product passes on the errors of its factors, and adds
    its own. ``scores_in`` names a dtype in which a kernel rounds its scores; in the half precisions
    weights, their gradient and the results are rounded too.
    """
    shapes = [x.shape for x in problem.inputs]
    q, k, v, g = (x.double() for x in (*problem.inputs, problem.grad))
    # What nobody sees does not matter, and may be too large to compute with.
    hidden = ~seen_keys(problem.allowed)[:, None]
    k, v = k.masked_fill(hidden, 0.0), v.masked_fill(hidden, 0.0)
    if problem.grouped:
        group = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    (L, E), (S, Ev) = q.shape[-2:], v.shape[-2:]
    unit = torch.finfo(problem.dtype).eps
    u = min(unit, torch.finfo(torch.float32).eps)
    half = unit if unit > u else 0.0
    kept = 0.0 if scores_in is None else torch.finfo(scores_in).eps

    allowed, bias = problem.allowed, torch.zeros((), dtype=torch.float64)
    if problem.mask is not None and problem.mask.dtype != torch.bool:
        bias = problem.mask.double().nan_to_num(neginf=0.0)
    scores = problem.scale * (q @ k.mT) + bias
    sizes = abs(problem.scale) * (q.abs() @ k.abs().mT) + bias.abs()
    scores = scores.expand(allowed.shape).masked_fill(~allowed, -math.inf)
    p = scores.softmax(dim=-1).nan_to_num(0.0)

    off = ((E + 4) * u + kept) * sizes
    ratio = off + (p * off).sum(-1, keepdim=True) + (S + 6) * u + half
    output = (p * (ratio + (S + 2) * u + half)) @ v.abs()
    dp, off = g @ v.mT, ((Ev + 2) * u + half) * (g.abs() @ v.abs().mT)
    mean = (p * dp).sum(-1, keepdim=True)
    # It may also be taken as the product of the output and its gradient.
    of_mean = (p * (off + (ratio + (S + 2) * u) * dp.abs())).sum(-1, True)
    of_mean += (g.abs() * (output + Ev * u * (p @ v.abs()))).sum(-1, True)
    dz = (p * (dp - mean)).abs()
    # What is too small for its dtype may become 0, and is then multiplied too.
    number = torch.finfo(problem.dtype)
    lost = number.tiny * unit if half else number.tiny
    lost = max(lost, torch.finfo(torch.float32).tiny if half else 0.0)
    p = p + lost / (half or u)
    of_dz = p * (off + of_mean) + ratio * dz
    of_dz += (3 * u + half) * p * (dp.abs() + mean.abs())
    c = abs(problem.scale)
    bounds = {
        "output": output,
        "weights": p * ratio,
        "d query": c * (of_dz + ((S + 4) * u + half) * dz) @ k.abs(),
        "d key": c * (of_dz + ((L + 4) * u + half) * dz).mT @ q.abs(),
        "d value": (p * (ratio + (L + 2) * u + half)).mT @ g.abs(),
    }
    # Both sides err.
    for name, shape in zip(NAMES, shapes, strict=True):
        x = bounds[name]
        summed = _summed if problem.grouped else Tensor.sum_to_size
        bounds[name] = summed(x, shape)
    return {n: 2 * x + (L + S) * lost for n, x in bounds.items()}


def compare(
    actual: Results,
    expected: Results,
    problem: Problem,
    *,
    scores_in: torch.dtype | None = None,
    everywhere: bool = False,
) -> None:
    """Compare what both sides have: in rows that see something, unless everywhere."""
    bounds = tolerances(problem, scores_in)
    seeing = problem.seeing[..., None]
    for name in actual.keys() & expected.keys():
        a, b = actual[name], expected[name]
        assert a.shape == b.shape, name
        assert a.dtype == b.dtype, name
        a, b = a.double(), b.double()
        if name in ("output", "weights") and not everywhere:
            a, b = (x.masked_fill(~seeing, 0.0) for x in (a, b))
        wrong = ~((a - b).abs() <= bounds[name])
        count = int(wrong.sum())
        assert not count, (
            f"{name} differs in {count} of {wrong.numel()}: "
            f"{a[wrong][:3].tolist()} and {b[wrong][:3].tolist()}, "
            f"but at most {bounds[name][wrong][:3].tolist()} is rounding"
        )


# --- The package with itself


@settings(max_examples=3 * settings().max_examples)
@given(
    problem=problems(
        broadcast=True, spoilt=True, dtypes=("float64", "float32", "float16")
    )
)
def test_numpy_and_both_paths_of_pytorch_agree_also_in_rows_that_see_nothing(
    problem: Problem,
) -> None:
    one, *others = (ours(problem, way) for way in WAYS)
    for other in others:
        compare(other, one, problem, everywhere=True)
    for result in (one, *others):
        hidden = result["output"][~problem.seeing]
        assert torch.equal(hidden, torch.zeros_like(hidden))
    sums = one["weights"].double().sum(dim=-1)
    S = problem.key.shape[-2]
    torch.testing.assert_close(
        *(sums, problem.seeing.double()),
        rtol=0.0,
        atol=(S + 8) * torch.finfo(problem.dtype).eps,
    )


@given(
    problem=problems(
        broadcast=True, spoilt=True, wide_masks=True, dtypes=HALVES
    )
)
def test_in_half_precision_the_gradients_of_both_paths_of_pytorch_agree(
    problem: Problem,
) -> None:
    compare(
        ours(problem, "torch, fused"),
        ours(problem, "torch, weights"),
        problem,
        everywhere=True,
    )


def _parameters(layer: multihead.MultiHeadAttention) -> dict[str, NDArray]:
    """Return a layer's parameters as NumPy's takes them, with biases that are not zero."""
    parameters = {}
    for name, projection in zip(
        "QKVO",
        (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj),
        strict=True,
    ):
        parameters[f"W_{name}"] = projection.weight.detach().numpy().T
        if projection.bias is not None:
            torch.nn.init.normal_(projection.bias)
            parameters[f"b_{name}"] = projection.bias.detach().numpy()
    return parameters


@given(data=st.data())
def test_the_layers_of_numpy_and_pytorch_agree(data: st.DataObject) -> None:
    sizes = st.sampled_from(LENGTHS[:7])
    B, L, S = (data.draw(sizes) for _ in range(3))
    d_k, d_v, d_model, kdim, vdim = (data.draw(sizes) for _ in range(5))
    kv_heads = data.draw(st.sampled_from((1, 2, 3)))
    H = kv_heads * data.draw(st.sampled_from((1, 2, 3)))
    torch.manual_seed(data.draw(st.integers(0, 2**32 - 1)))
    layer = multihead.MultiHeadAttention(
        *(d_model, H),
        **{"d_k": d_k, "d_v": d_v, "kdim": kdim, "vdim": vdim},
        num_kv_heads=kv_heads,
        bias=data.draw(st.booleans()),
        dtype=torch.float64,
    )
    parameters = _parameters(layer)
    inputs = [
        torch.randn(B, n, width, dtype=torch.float64)
        for n, width in ((L, d_model), (S, kdim), (S, vdim))
    ]
    mask = torch.rand(*data.draw(_axes(B, H, L)), S) < data.draw(
        st.sampled_from((0.5, 0.9, 0.1))
    )
    is_causal = data.draw(st.booleans())
    output, weights = layer(*inputs, mask, is_causal, return_weights=True)
    fused = layer(*inputs, mask, is_causal)
    expected = reference.multi_head_attention(
        *(x.numpy() for x in inputs),
        *(parameters, H, mask.numpy()),
        num_kv_heads=kv_heads,
        is_causal=is_causal,
    )
    for actual, array in (
        (output, expected[0]),
        (fused, expected[0]),
        (weights, expected[1]),
    ):
        # Sums of less than a hundred numbers of order one.
        torch.testing.assert_close(
            *(actual.detach(), torch.from_numpy(array)),
            rtol=1e-12,
            atol=1e-12,
        )


@pytest.mark.parametrize("return_weights", [True, False])
@given(data=st.data())
def test_pytorchs_layer_agrees_also_in_which_weights_it_drops(
    return_weights: bool, data: st.DataObject
) -> None:
    sizes = st.sampled_from(LENGTHS[:7])
    B, L, S, width, kdim, vdim = (data.draw(sizes) for _ in range(6))
    H = data.draw(st.sampled_from((1, 2, 3)))
    torch.manual_seed(data.draw(st.integers(0, 2**32 - 1)))
    layer = multihead.MultiHeadAttention(
        *(H * width, H),
        **{"kdim": kdim, "vdim": vdim, "bias": data.draw(st.booleans())},
        dropout=data.draw(st.sampled_from((0.0, 0.5, 0.1))),
        dtype=torch.float64,
    ).train(data.draw(st.booleans()))
    parameters = _parameters(layer)
    inputs = [
        torch.randn(B, n, w, dtype=torch.float64)
        for n, w in ((L, H * width), (S, kdim), (S, vdim))
    ]
    # Every query sees the first key: PyTorch gives NaN where it sees nothing.
    mask = torch.rand(*data.draw(_axes(B, H, L)), S) < 0.5
    mask[..., 0] = True
    lengths = torch.randint(1, S + 1, (B,))
    given = {
        "attn_mask": masks.to_module_attn_mask(mask, B, H, L),
        "key_padding_mask": torch.arange(S) >= lengths[:, None],
    }
    if data.draw(st.booleans()):
        mask = masks.from_module_masks(**given, num_heads=H)
    else:
        mask = mask & masks.padding(lengths, S)
    module = layer.to_torch()
    torch.manual_seed(0)
    theirs, weights = module(
        *inputs,
        **given,
        need_weights=return_weights,
        average_attn_weights=False,
    )
    torch.manual_seed(0)
    result = layer(*inputs, mask, return_weights=return_weights)
    pairs = [(result, theirs)]
    if return_weights:
        output, before = result
        # Theirs are those after dropout: the factors that NumPy's layer takes.
        factors = (weights / before).nan_to_num(0.0).detach().numpy()
        array, _ = reference.multi_head_attention(
            *(x.numpy() for x in inputs),
            *(parameters, H, mask.numpy()),
            dropout_mask=factors if layer.training else None,
        )
        pairs = [(output, theirs), (torch.from_numpy(array), theirs)]
        if not layer.training:
            pairs.append((before, weights))
    for a, b in pairs:
        # Sums of less than a hundred numbers of order one.
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def _axes(B: int, H: int, L: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.sampled_from(
        ((L,), (1,), (B, 1, 1), (B, H, L), (1, H, L), (B, 1, L))
    )


@given(data=st.data())
def test_softmax_its_jacobian_and_log_sum_exp_are_pytorchs(
    data: st.DataObject,
) -> None:
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = rng.normal(size=shape) * data.draw(st.sampled_from((1, 30, 1e4)))
    x[rng.random(shape) < data.draw(st.sampled_from((0.0, 0.3)))] = -np.inf
    there = torch.from_numpy(x)
    # A logarithm is known to the units of the scores, the exponentials too.
    rtol = 20 * 1e4 * np.finfo(np.float64).eps
    for axis in range(-len(shape), len(shape)):
        for keepdims in (False, True):
            np.testing.assert_allclose(
                reference.log_sum_exp(x, axis, keepdims),
                there.logsumexp(axis, keepdims).numpy(),
                rtol=rtol,
                atol=rtol,
            )
        expected = there.softmax(axis).nan_to_num(0.0).numpy()
        np.testing.assert_allclose(
            reference.softmax(x, axis), expected, rtol=rtol, atol=1e-300
        )
    row = x.reshape(-1, shape[-1])[0]
    if np.isfinite(row).any():
        jacobian = torch.autograd.functional.jacobian(
            lambda s: s.softmax(0), torch.from_numpy(row)
        )
        np.testing.assert_allclose(
            reference.softmax_jacobian(row), jacobian.numpy(), atol=rtol
        )


# --- PyTorch's kernels


def pytorchs(problem: Problem, backend: SDPBackend | None) -> Results:
    mask, is_causal = problem.mask, problem.is_causal
    if mask is not None and is_causal:  # PyTorch refuses both
        mask, is_causal = (
            (
                problem.allowed
                if mask.dtype == torch.bool
                else mask.masked_fill(~problem.allowed, -math.inf)
            ),
            False,
        )

    def function(*x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(
            *(*x, mask, 0.0, is_causal), scale=problem.scale
        )

    if backend is None:
        return differentiated(function, problem)
    with sdpa_kernel(backend):
        return differentiated(function, problem)


# What is masked PyTorch multiplies by the scale as well, and -inf * 0 is NaN;
# a negative one lets the masked in.
POSITIVE = st.sampled_from((1.0, 0.3, 2.0, 1e-3))
ALL = ("float64", "float32", *HALVES)


@pytest.mark.parametrize("way", WAYS)
@given(problem=problems(dtypes=ALL, scales=POSITIVE))
def test_pytorchs_plain_steps_agree(way: Way, problem: Problem) -> None:
    if way == "numpy" and problem.dtype == torch.bfloat16:
        way = "torch, weights"  # NumPy has no bfloat16
    compare(ours(problem, way), pytorchs(problem, SDPBackend.MATH), problem)


@pytest.mark.parametrize("way", WAYS)
@given(
    problem=problems(
        dtypes=ALL,
        scales=POSITIVE,
        # It takes nothing else: what PyTorch chooses then is compared below.
        least=1,
        one_width=True,
        layouts=("contiguous", "heads inside"),
    )
)
def test_pytorchs_fused_kernel_agrees(way: Way, problem: Problem) -> None:
    if way == "numpy" and problem.dtype == torch.bfloat16:
        way = "torch, weights"
    compare(
        ours(problem, way),
        pytorchs(problem, SDPBackend.FLASH_ATTENTION),
        problem,
    )


@given(problem=problems(dtypes=ALL, scales=POSITIVE))
def test_whatever_pytorch_chooses_agrees(problem: Problem) -> None:
    compare(
        ours(problem, "torch, weights"), pytorchs(problem, None), problem
    )


# --- onnxruntime's kernel


@cache
def _session(
    element: int, mask: int | None, attributes: tuple[tuple[str, Any], ...]
) -> onnxruntime.InferenceSession:
    """Make a model of one Attention node."""
    inputs = {"Q": element, "K": element, "V": element}
    if mask is not None:
        inputs["M"] = mask
    node = helper.make_node(
        "Attention", [*inputs], ["Y"], **dict(attributes)
    )
    four = [None] * 4
    graph = helper.make_graph(
        [node],
        "attention",
        [
            helper.make_tensor_value_info(n, t, four)
            for n, t in inputs.items()
        ],
        [helper.make_tensor_value_info("Y", element, four)],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )


ELEMENTS = {
    torch.float32: TensorProto.FLOAT,
    torch.float16: TensorProto.FLOAT16,
    torch.bool: TensorProto.BOOL,
}


def onnxruntimes(problem: Problem) -> Results:
    mask = problem.mask
    feeds = {
        n: np.ascontiguousarray(x.numpy())
        for n, x in zip("QKV", problem.inputs, strict=True)
    }
    if mask is not None:
        feeds["M"] = mask.expand(problem.allowed.shape).numpy()
    session = _session(
        ELEMENTS[problem.dtype],
        None if mask is None else ELEMENTS[mask.dtype],
        (("is_causal", int(problem.is_causal)), ("scale", problem.scale)),
    )
    (output,) = session.run(None, feeds)
    return {"output": torch.from_numpy(output)}


@pytest.mark.parametrize("way", WAYS)
@given(
    problem=problems(
        dtypes=("float32",), scales=POSITIVE, least=1, grouped=True
    )
)
def test_onnxruntimes_kernel_agrees(way: Way, problem: Problem) -> None:
    compare(ours(problem, way), onnxruntimes(problem), problem)


@pytest.mark.parametrize("way", WAYS)
@given(
    problem=problems(
        dtypes=("float16",),
        # It keeps its scores in half precision.
        largest_scores=(1.0, 4.0, 1e-3),
        scales=st.just(1.0),
        least=1,
        grouped=True,
    )
)
def test_onnxruntimes_kernel_agrees_in_half_precision(
    way: Way, problem: Problem
) -> None:
    compare(
        ours(problem, way),
        onnxruntimes(problem),
        problem,
        scores_in=torch.float16,
    )


# --- mlx's kernels


def _to_mlx(x: Tensor) -> Any:
    if x.dtype == torch.bfloat16:
        return mx.array(x.float().numpy()).astype(mx.bfloat16)
    return mx.array(x.numpy())


def _from_mlx(x: Any, dtype: torch.dtype) -> Tensor:
    if x.dtype == mx.bfloat16:
        x = x.astype(mx.float32)
    return torch.from_numpy(np.array(x)).to(dtype)


def mlxs(problem: Problem, mask: Any = None) -> Results:
    """Attend with mlx, with a mask of its own or with the problem's and causality as one."""
    if mask is None and (problem.mask is not None or problem.is_causal):
        allowed = problem.allowed
        given = problem.mask
        if given is None or given.dtype == torch.bool:
            mask = _to_mlx(allowed)
        else:
            mask = _to_mlx(
                given.expand(allowed.shape).masked_fill(~allowed, -math.inf)
            )
    output, gradients = mx.vjp(
        lambda *x: mx.fast.scaled_dot_product_attention(
            *x, scale=problem.scale, mask=mask
        ),
        [_to_mlx(x) for x in problem.inputs],
        [_to_mlx(problem.grad)],
    )
    found = dict(zip(("output", *NAMES), (*output, *gradients), strict=True))
    return {n: _from_mlx(x, problem.dtype) for n, x in found.items()}


@needs_mlx
@pytest.mark.parametrize("way", WAYS)
@given(
    problem=problems(
        dtypes=("float32",), grouped=True, least=1, empty_rows=False
    )
)
def test_mlxs_kernel_agrees(way: Way, problem: Problem) -> None:
    compare(ours(problem, way), mlxs(problem), problem)


@needs_mlx
@given(
    problem=problems(
        dtypes=HALVES,
        # It keeps its scores in half precision.
        largest_scores=(1.0, 4.0, 1e-3),
        scales=st.sampled_from((1.0, 0.3)),
        grouped=True,
        least=1,
        empty_rows=False,
    )
)
def test_mlxs_kernel_agrees_in_half_precision(problem: Problem) -> None:
    compare(
        ours(problem, "torch, weights"),
        mlxs(problem),
        problem,
        scores_in=problem.dtype,
    )


@needs_mlx
@given(problem=problems(dtypes=("float32",), least=1))
def test_mlxs_causality_is_the_lower_right_corners(problem: Problem) -> None:
    L, S = problem.query.shape[-2], problem.key.shape[-2]
    cornered = Problem(
        *problem.inputs,
        masks.causal(L, S, alignment="lower_right"),
        *(False, problem.scale, problem.grad),
    )
    cornered = without_empty_rows(cornered)
    compare(
        ours(cornered, "torch, fused"), mlxs(cornered, "causal"), cornered
    )


@needs_mlx
@pytest.mark.parametrize("pairing", ["half_split", "interleaved"])
@given(data=st.data())
def test_mlxs_rotation_agrees(
    pairing: positions.Pairing, data: st.DataObject
) -> None:
    B, H = (data.draw(st.integers(1, 3)) for _ in range(2))
    L = data.draw(st.sampled_from(LENGTHS))
    width = 2 * data.draw(st.sampled_from((1, 2, 3, 8, 17, 32)))
    base = data.draw(st.sampled_from((10_000.0, 500_000.0, 100.0)))
    first = data.draw(st.sampled_from((0, 1, 7, 1000)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x, grad = (
        torch.from_numpy(rng.normal(size=(B, H, L, width))).float()
        for _ in range(2)
    )
    x.requires_grad_()
    at = torch.arange(first, first + L) if first else None
    turned = positions.rope(x, at, pairing=pairing, base=base)
    (back,) = torch.autograd.grad(turned, x, grad)
    output, gradients = mx.vjp(
        lambda x: mx.fast.rope(
            *(x, width),
            traditional=pairing == "interleaved",
            base=base,
            scale=1.0,
            offset=first,
        ),
        [_to_mlx(x.detach())],
        [_to_mlx(grad)],
    )
    # What leads from one pairing to the other for us does so for mlx.
    order = mx.array(positions.half_split_order(width).numpy())
    given_ = _to_mlx(x.detach())
    first_, then = (
        mx.fast.rope(
            *(y, width),
            traditional=traditional,
            base=base,
            scale=1.0,
            offset=first,
        )
        for y, traditional in ((given_, True), (given_[..., order], False))
    )
    assert np.array_equal(np.array(first_[..., order]), np.array(then))
    # mlx computes its angles in float32: an angle of t radians is off by about t
    # units, and the components, of at most five, with it.
    atol = 10 * (first + L) * torch.finfo(torch.float32).eps
    for ours_, theirs in ((turned, output[0]), (back, gradients[0])):
        torch.testing.assert_close(
            *(ours_.detach(), _from_mlx(theirs, torch.float32)),
            rtol=0.0,
            atol=atol,
        )
