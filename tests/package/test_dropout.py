"""Dropout: on the weights, after the softmax, scaled, and in training alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attention import MultiHeadAttention, functional, reference

P = 0.4
N, L, S = 2000, 3, 5  # N independent draws side by side


def _inputs(device: str = "cpu") -> list[torch.Tensor]:
    torch.manual_seed(0)
    query, key = (
        torch.randn(L, 4, device=device),
        torch.randn(S, 4, device=device),
    )
    value = torch.eye(
        S, device=device
    )  # the output is the weights that dropout left
    return [x.double().expand(N, -1, -1) for x in (query, key, value)]


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_weight_is_dropped_or_divided_by_one_minus_p(
    device: str, return_weights: bool
) -> None:
    tensors = _inputs(device)
    _, whole = functional.scaled_dot_product_attention(
        *tensors, return_weights=True
    )
    result = functional.scaled_dot_product_attention(
        *tensors, dropout_p=P, return_weights=return_weights
    )
    left = result[0] if return_weights else result
    kept = left != 0
    torch.testing.assert_close(left, torch.where(kept, whole / (1 - P), 0.0))
    # a frequency over 30000 draws: its standard deviation is 0.003
    assert abs(kept.double().mean().item() - (1 - P)) < 0.015


@pytest.mark.parametrize("return_weights", [False, True])
def test_the_mean_over_draws_is_the_output_without_dropout(
    device: str, return_weights: bool
) -> None:
    tensors = _inputs(device)
    expected = functional.scaled_dot_product_attention(*tensors)[0]
    result = functional.scaled_dot_product_attention(
        *tensors, dropout_p=P, return_weights=return_weights
    )
    left = result[0] if return_weights else result
    # standard deviation of a mean: weight * sqrt(p / (1 - p) / N) <= 0.019; five of them
    torch.testing.assert_close(left.mean(0), expected, rtol=0, atol=0.1)
    # rows no longer sum to one, except in the mean
    sums = left.sum(-1)
    assert sums.std().item() > 0.1
    assert abs(sums.mean().item() - 1) < 0.06


@pytest.mark.parametrize("return_weights", [False, True])
def test_each_entry_of_a_batch_that_the_values_alone_have_is_a_draw_of_its_own(
    device: str, return_weights: bool
) -> None:
    query, key, values = _inputs(device)
    result = functional.scaled_dot_product_attention(
        query[0], key[0], values, dropout_p=P, return_weights=return_weights
    )
    left = result[0] if return_weights else result
    # a frequency over N draws for each weight: its standard deviation is 0.011
    kept = (left != 0).double().mean(0)
    torch.testing.assert_close(
        kept, torch.full_like(kept, 1 - P), rtol=0, atol=0.055
    )


def test_the_weights_returned_are_those_before_dropout(device: str) -> None:
    tensors = _inputs(device)
    _, whole = functional.scaled_dot_product_attention(
        *tensors, return_weights=True
    )
    _, weights = functional.scaled_dot_product_attention(
        *tensors, dropout_p=P, return_weights=True
    )
    assert torch.equal(weights, whole)


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_seed_decides_the_draw(device: str, return_weights: bool) -> None:
    tensors = _inputs(device)

    def draw(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        result = functional.scaled_dot_product_attention(
            *tensors, dropout_p=P, return_weights=return_weights
        )
        return result[0] if return_weights else result

    assert torch.equal(draw(3), draw(3))
    assert not torch.equal(draw(3), draw(4))


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_probability_of_zero_is_no_dropout_at_all(
    device: str, return_weights: bool
) -> None:
    tensors = _inputs(device)
    state = torch.get_rng_state()
    results = [
        functional.scaled_dot_product_attention(
            *tensors, dropout_p=p, return_weights=return_weights
        )
        for p in (0.0, 0)
    ]
    outputs = [result[0] if return_weights else result for result in results]
    assert torch.equal(*outputs)
    torch.testing.assert_close(
        outputs[0], F.scaled_dot_product_attention(*tensors)
    )
    assert torch.equal(torch.get_rng_state(), state)  # and draws nothing


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_query_with_nothing_to_attend_to_stays_zero_under_dropout(
    device: str, return_weights: bool, is_causal: bool
) -> None:
    tensors = [x.clone().requires_grad_() for x in _inputs(device)]
    mask = torch.ones(L, S, dtype=torch.bool, device=device)
    mask[0] = False
    with torch.autograd.set_detect_anomaly(True):
        result = functional.scaled_dot_product_attention(
            *tensors, mask, P, is_causal, return_weights=return_weights
        )
        output = result[0] if return_weights else result
        output.sum().backward()
    assert (output[:, 0] == 0).all()
    assert (tensors[0].grad[:, 0] == 0).all()
    assert all(x.grad.isfinite().all() for x in tensors)


def test_the_gradient_under_dropout_is_that_of_the_factors_drawn() -> None:
    """The factors can be read off, since the values are a unit matrix; NumPy takes them then."""
    tensors = [x[:2].clone().requires_grad_() for x in _inputs()]
    output, whole = functional.scaled_dot_product_attention(
        *tensors, dropout_p=P, return_weights=True
    )
    factors = (output / whole).detach().numpy()
    grad = torch.randn(2, L, S, dtype=torch.float64)
    output.backward(grad)
    arrays = [x.detach().numpy() for x in tensors]
    gradients = reference.scaled_dot_product_attention_backward(
        grad.numpy(), *arrays, dropout_mask=factors
    )
    for x, gradient in zip(tensors, gradients, strict=True):
        np.testing.assert_allclose(
            x.grad.numpy(), gradient, rtol=1e-9, atol=1e-12
        )


def test_numpys_dropout_factors_act_on_the_weights_after_the_softmax() -> (
    None
):
    query, key, value = (x[0].numpy() for x in _inputs())
    _, whole = reference.scaled_dot_product_attention(query, key, value)
    factors = reference.dropout_mask((L, S), P, np.random.default_rng(1))
    output, weights = reference.scaled_dot_product_attention(
        query, key, value, dropout_mask=factors
    )
    np.testing.assert_array_equal(weights, whole)
    np.testing.assert_allclose(output, whole * factors, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_numpys_factors_are_zero_or_one_over_one_minus_p(
    dtype: type,
) -> None:
    factors = reference.dropout_mask(
        (200, 300), P, np.random.default_rng(0), dtype
    )
    assert factors.dtype == dtype
    assert set(np.unique(factors)) == {dtype(0), dtype(1 / (1 - P))}
    # 60000 draws: the standard deviation of the mean is 0.0033
    assert abs(factors.mean(dtype=np.float64) - 1) < 0.017


def test_numpys_factors_are_decided_by_the_generator_and_float64_by_default() -> (
    None
):
    draws = [
        reference.dropout_mask((4, 5), P, np.random.default_rng(s))
        for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()
    assert draws[0].dtype == np.float64
    assert (
        reference.dropout_mask((4, 5), 0.0, np.random.default_rng(0)) == 1
    ).all()
    assert reference.dropout_mask(
        (0, 5), P, np.random.default_rng(0)
    ).shape == (0, 5)


def test_numpys_factors_are_drawn_anew_for_each_head_and_sequence() -> None:
    factors = reference.dropout_mask(
        (30, 4, 5, 6), 0.5, np.random.default_rng(0)
    )
    matrices = factors.reshape(120, 30)
    assert len(np.unique(matrices, axis=0)) == 120
    # a frequency over 120 draws for each entry: its standard deviation is 0.046
    assert abs((matrices != 0).mean(axis=0) - 0.5).max() < 0.23


class _Zeros(np.random.Generator):
    """A generator that draws the smallest number it may: 0, from [0, 1)."""

    def random(self, size: tuple[int, ...]) -> np.ndarray:  # type: ignore[override]
        return np.zeros(size)


def test_a_draw_of_zero_is_kept_at_probability_zero_and_dropped_at_any_other() -> (
    None
):
    rng = _Zeros(np.random.PCG64())
    assert (reference.dropout_mask((2, 3), 0.0, rng) == 1).all()
    assert (reference.dropout_mask((2, 3), 1e-9, rng) == 0).all()


def _layer_with_weights_as_output(dropout: float) -> MultiHeadAttention:
    layer = MultiHeadAttention(
        4, 1, d_v=S, vdim=S, dropout=dropout, dtype=torch.float64
    )
    layer.v_proj = nn.Identity()
    layer.out_proj = nn.Identity()
    return layer


@pytest.mark.parametrize("return_weights", [False, True])
def test_the_layer_drops_weights_in_training_alone(
    return_weights: bool,
) -> None:
    tensors = _inputs()
    layer = _layer_with_weights_as_output(P)

    def run() -> torch.Tensor:
        result = layer(*tensors, return_weights=return_weights)
        return result[0] if return_weights else result

    whole = layer.eval()(*tensors, return_weights=True)[1][:, 0]
    torch.testing.assert_close(run(), whole)
    assert torch.equal(run(), run())
    left = layer.train()(*tensors)
    torch.testing.assert_close(
        left, torch.where(left != 0, whole / (1 - P), 0.0)
    )
    dropped = (run() == 0).double().mean().item()
    assert abs(dropped - P) < 0.015
    assert (layer.eval()(*tensors) != 0).all()


def test_the_layers_weights_are_those_before_dropout_also_in_training() -> (
    None
):
    tensors = _inputs()
    layer = _layer_with_weights_as_output(P)
    _, training = layer.train()(*tensors, return_weights=True)
    _, evaluated = layer.eval()(*tensors, return_weights=True)
    assert torch.equal(training, evaluated)


def test_numpys_factors_multiply_in_single_precision_beside_half_inputs() -> (
    None
):
    half = np.zeros((1, 1), np.float16)
    value = np.full((1, 1), 2.0**-10, np.float16)
    factor = np.float32(2.0**17)  # infinite in half precision
    output, _ = reference.scaled_dot_product_attention(
        half, half, value, dropout_mask=factor[None, None]
    )
    assert output == 2.0**7
    grads = reference.scaled_dot_product_attention_backward(
        value, half, half, value, dropout_mask=factor[None, None]
    )
    assert grads[2] == 2.0**7


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_numpys_factors_that_drop_nothing_are_drawn_like_others(
    dtype: type,
) -> None:
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    factors = reference.dropout_mask((4, 5), 0.0, rng, dtype)
    assert factors.dtype == dtype
    assert (factors == 1).all()
    # What is drawn next does not depend on the probability.
    reference.dropout_mask((4, 5), P, other, dtype)
    assert rng.random() == other.random()
