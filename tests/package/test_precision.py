"""Half precision: the weights are a softmax taken in at least float32, and cast back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle import loop_attention

from attention import MultiHeadAttention, functional, masks, reference

HALF = [torch.float16, torch.bfloat16]
B, H, L, S, E, EV = 2, 3, 5, 7, 4, 6


def _exact(
    *tensors: torch.Tensor, mask: torch.Tensor | None = None
) -> tuple:
    """Return output and weights in float64, of the numbers as they were rounded."""
    arrays = [x.detach().cpu().double().numpy() for x in tensors]
    return loop_attention(
        *arrays, None if mask is None else mask.cpu().numpy()
    )


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("size", [1.0, 6.0])
def test_torch_weights_differ_from_the_exact_ones_by_a_single_rounding(
    dtype: torch.dtype, size: float, device: str
) -> None:
    torch.manual_seed(0)
    tensors = [
        (torch.randn(B, H, n, w, device=device) * size).to(dtype)
        for n, w in ((L, E), (S, E), (S, EV))
    ]
    output, weights = functional.scaled_dot_product_attention(
        *tensors, return_weights=True
    )
    exact_output, exact_weights = _exact(*tensors)
    eps = torch.finfo(dtype).eps
    # half an eps for the cast, 1e-4 of it for a float32 softmax of scores up to 200
    np.testing.assert_allclose(
        weights.double().cpu(), exact_weights, rtol=0.51 * eps, atol=3.1e-8
    )
    # each term of the output once more, and the sum; in size of the largest value
    largest = tensors[2].abs().max().item()
    np.testing.assert_allclose(
        output.double().cpu(), exact_output, atol=2 * eps * largest
    )
    fused = functional.scaled_dot_product_attention(*tensors)
    np.testing.assert_allclose(
        fused.double().cpu(), exact_output, atol=2 * eps * largest
    )


def test_numpy_weights_in_half_precision_differ_from_the_exact_ones_by_a_single_rounding(
    rng: np.random.Generator,
) -> None:
    for size in (1.0, 6.0):
        inputs = [
            (rng.standard_normal((B, n, w)) * size).astype(np.float16)
            for n, w in ((L, E), (S, E), (S, EV))
        ]
        output, weights = reference.scaled_dot_product_attention(*inputs)
        exact_output, exact_weights = loop_attention(*inputs)
        assert output.dtype == weights.dtype == np.float16
        np.testing.assert_allclose(
            weights, exact_weights, rtol=0.51 * 2**-10, atol=3.1e-8
        )
        # NumPy multiplies in float32 too: the output is rounded once
        np.testing.assert_allclose(
            output, exact_output, rtol=0.51 * 2**-10, atol=1e-5
        )


@pytest.mark.parametrize("return_weights", [False, True])
def test_scores_beyond_the_largest_number_of_fp16_do_no_harm(
    device: str, return_weights: bool
) -> None:
    """The products reach 400 * 400 * 4 = 640000, and fp16 ends at 65504."""
    query = torch.full(
        (1, 1, 2, E), 400.0, dtype=torch.float16, device=device
    )
    key = torch.stack([query[0, 0, 0], -query[0, 0, 0], query[0, 0, 0]])[
        None, None
    ]
    value = torch.tensor(
        [[1.0, 2], [4, 8], [3, 5]], dtype=torch.float16, device=device
    )
    for d_v in (2, E):  # with and without a fused kernel
        value_ = value[None, None].repeat(1, 1, 1, d_v // 2)
        tensors = [x.clone().requires_grad_() for x in (query, key, value_)]
        result = functional.scaled_dot_product_attention(
            *tensors, return_weights=return_weights
        )
        output = result[0] if return_weights else result
        expected = torch.tensor([2.0, 3.5] * (d_v // 2)).expand(1, 1, 2, d_v)
        torch.testing.assert_close(
            output.cpu().float(), expected, rtol=1e-3, atol=1e-3
        )
        output.sum().backward()
        assert all(x.grad.isfinite().all() for x in tensors)


def test_numpy_scores_beyond_the_largest_number_of_fp16_do_no_harm() -> None:
    query = np.full((2, E), 400, dtype=np.float16)
    key = np.stack([query[0], -query[0], query[0]])
    value = np.array([[1.0, 2], [4, 8], [3, 5]], dtype=np.float16)
    output, weights = reference.scaled_dot_product_attention(
        query, key, value
    )
    assert output.tolist() == [[2.0, 3.5]] * 2
    assert weights.tolist() == [[0.5, 0, 0.5]] * 2


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("additive", [False, True])
def test_torch_gives_zeros_without_nan_for_empty_rows_in_every_dtype(
    dtype: torch.dtype,
    return_weights: bool,
    is_causal: bool,
    additive: bool,
    device: str,
) -> None:
    torch.manual_seed(0)
    allowed = (masks.causal(L, S) | True) & masks.padding(
        [0, 4], S
    )  # a sequence of no length
    allowed = allowed.to(device).contiguous()
    mask = masks.to_additive(allowed, dtype) if additive else allowed
    for d_v in (E, EV):
        tensors = [
            torch.randn(B, H, n, w, device=device).to(dtype).requires_grad_()
            for n, w in ((L, E), (S, E), (S, d_v))
        ]
        with torch.autograd.set_detect_anomaly(True):
            result = functional.scaled_dot_product_attention(
                *tensors,
                mask,
                is_causal=is_causal,
                return_weights=return_weights,
            )
            output = result[0] if return_weights else result
            output.square().sum().backward()
        assert (output[0] == 0).all()
        assert output.isfinite().all()
        assert (output[1] != 0).any()
        for x in tensors:
            assert (x.grad[0] == 0).all()
            assert x.grad.isfinite().all()


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("return_weights", [False, True])
def test_a_float32_bias_may_stand_beside_inputs_of_half_precision(
    dtype: torch.dtype, return_weights: bool, device: str
) -> None:
    torch.manual_seed(0)
    tensors = [
        torch.randn(B, H, n, E, device=device).to(dtype) for n in (L, S, S)
    ]
    bias = torch.randn(L, S, device=device)
    result = functional.scaled_dot_product_attention(
        *tensors, bias, return_weights=return_weights
    )
    output = result[0] if return_weights else result
    exact, _ = _exact(*tensors, mask=bias)
    assert output.dtype == dtype
    np.testing.assert_allclose(
        output.double().cpu(), exact, atol=8 * torch.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("return_weights", [False, True])
def test_a_float32_bias_is_added_as_it_is_beside_inputs_of_half_precision(
    dtype: torch.dtype, return_weights: bool, device: str
) -> None:
    """Near -1000 half precision has steps of 0.5 and of 4, and float32's least is its -inf."""
    torch.manual_seed(0)
    tensors = [
        torch.randn(B, H, n, E, device=device).to(dtype) for n in (L, S, S)
    ]
    bias = torch.randn(L, S, device=device) - 1000
    bias[0] = torch.finfo(torch.float32).min  # finite: equal weights
    result = functional.scaled_dot_product_attention(
        *tensors, bias, return_weights=return_weights
    )
    output = result[0] if return_weights else result
    exact, _ = _exact(*tensors, mask=bias)
    np.testing.assert_allclose(
        output.double().cpu(), exact, atol=8 * torch.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", HALF)
def test_autocast_on_the_cpu_keeps_the_softmax_in_float32(
    dtype: torch.dtype,
) -> None:
    """Scores of order 100: rounded to half precision they would be off by whole units."""
    torch.manual_seed(0)
    tensors = [(torch.randn(B, H, n, 64) * 3).to(dtype) for n in (L, S, S)]
    with torch.autocast("cpu", dtype):
        _, weights = functional.scaled_dot_product_attention(
            *tensors, return_weights=True
        )
        fused = functional.scaled_dot_product_attention(*tensors)
    exact_output, exact = _exact(*tensors)
    eps = torch.finfo(dtype).eps
    np.testing.assert_allclose(
        weights.double(), exact, rtol=0.6 * eps, atol=1e-6
    )
    largest = tensors[2].abs().max().item()
    np.testing.assert_allclose(
        fused.double(), exact_output, atol=2 * eps * largest
    )


def test_autocast_lets_a_float32_layer_attend_in_bfloat16() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3)
    x = torch.randn(B, L, 12)
    expected = layer(x, is_causal=True)
    with torch.autocast("cpu", torch.bfloat16):
        output, weights = layer(x, is_causal=True, return_weights=True)
        fused = layer(x, is_causal=True)
    assert output.dtype == fused.dtype == weights.dtype == torch.bfloat16
    # four matrix products in bfloat16, whose eps is 8e-3, of numbers of order 1
    torch.testing.assert_close(
        output.float(), expected, rtol=0.05, atol=0.03
    )
    torch.testing.assert_close(fused.float(), expected, rtol=0.05, atol=0.03)
    output.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("return_weights", [False, True])
def test_autocast_lets_inputs_and_a_layer_of_different_dtypes_meet(
    return_weights: bool,
) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3)
    x = torch.randn(B, L, 12).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        result, expected = (
            layer(y, return_weights=return_weights) for y in (x, x.float())
        )
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", HALF)
def test_a_large_negative_number_in_place_of_minus_infinity_is_not_what_masks_make(
    dtype: torch.dtype,
) -> None:
    """-1e9 does not fit into fp16, and leaves a uniform row where everything is masked."""
    additive = masks.to_additive(torch.zeros(1, 2, dtype=torch.bool), dtype)
    assert additive.tolist() == [[-float("inf")] * 2]
