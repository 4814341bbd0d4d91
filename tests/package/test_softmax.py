"""softmax, log_sum_exp and softmax_jacobian, against fifty digits and finite differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from oracle import exact_log_sum_exp, exact_softmax

from attention import reference


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape)


ROWS = {
    "of order 1": _normal(7),
    "wide": _normal(7) * 50,
    "beyond exp's range": np.array([1e4, 1e4 - 1, 9e3, -1e4]),
    "far below zero": np.array([-1e4, -1e4 - 2, -1.2e4]),
    "with -inf": np.array([0.3, -np.inf, 1.1]),
    "a single entry": np.array([5.0]),
    "equal entries": np.full(6, 88.0),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_softmax_is_exact_to_rounding(row: np.ndarray) -> None:
    # exp's relative error grows with its argument, at most 1e4 * eps = 2e-12 here
    np.testing.assert_allclose(
        reference.softmax(row), exact_softmax(row), rtol=1e-11, atol=1e-300
    )


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_log_sum_exp_is_exact_to_rounding(row: np.ndarray) -> None:
    np.testing.assert_allclose(
        reference.log_sum_exp(row),
        exact_log_sum_exp(row),
        rtol=1e-14,
        atol=1e-15,
    )


def test_each_row_has_a_maximum_of_its_own() -> None:
    """With one maximum for the whole array the second row would be 0/0."""
    row = np.array([0.1, 0.7, -0.4])
    weights = reference.softmax(np.stack([row + 2000, row - 2000, row]))
    np.testing.assert_allclose(
        weights, np.tile(exact_softmax(row), (3, 1)), rtol=1e-12
    )
    sums = reference.log_sum_exp(np.stack([row + 2000, row - 2000]))
    np.testing.assert_allclose(
        sums, np.array([2000, -2000]) + exact_log_sum_exp(row)
    )


@pytest.mark.parametrize("shift", [-1e3, -1.0, 3.0, 1e3])
def test_a_shift_cancels_in_softmax_and_comes_out_of_log_sum_exp(
    shift: float,
) -> None:
    x = _normal(2, 5)
    np.testing.assert_allclose(
        reference.softmax(x + shift), reference.softmax(x), rtol=1e-12
    )
    np.testing.assert_allclose(
        reference.log_sum_exp(x + shift),
        reference.log_sum_exp(x) + shift,
        rtol=1e-12,
    )


def test_a_row_of_minus_infinity_gets_zeros_and_disturbs_no_other_row() -> (
    None
):
    row = [0.5, -1.0, 2.0]
    x = np.array([row, [-np.inf] * 3])
    np.testing.assert_allclose(
        reference.softmax(x), [exact_softmax(row), [0, 0, 0]]
    )
    assert reference.log_sum_exp(x)[1] == -np.inf
    assert (reference.softmax_jacobian(x)[1] == 0).all()


def test_an_empty_axis_gives_an_empty_softmax_and_the_logarithm_of_an_empty_sum() -> (
    None
):
    assert reference.softmax(np.zeros((2, 0))).shape == (2, 0)
    assert reference.log_sum_exp(np.zeros((2, 0))).tolist() == [
        -math.inf,
        -math.inf,
    ]
    assert reference.softmax(np.zeros((0, 3))).shape == (0, 3)
    assert reference.log_sum_exp(np.zeros((0, 3))).shape == (0,)
    assert reference.softmax_jacobian(np.zeros((2, 0))).shape == (2, 0, 0)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_the_axis_given_is_the_one_that_is_normalised(axis: int) -> None:
    x = _normal(3, 4, 5)
    weights = reference.softmax(x, axis=axis)
    assert weights.shape == x.shape
    expected = np.apply_along_axis(exact_softmax, axis, x)
    np.testing.assert_allclose(weights, expected, rtol=1e-13)
    sums = reference.log_sum_exp(x, axis=axis)
    assert sums.shape == tuple(np.delete(x.shape, axis))
    np.testing.assert_allclose(
        sums, np.apply_along_axis(exact_log_sum_exp, axis, x), rtol=1e-13
    )
    kept = reference.log_sum_exp(x, axis=axis, keepdims=True)
    np.testing.assert_array_equal(kept, np.expand_dims(sums, axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_only_the_axis_that_is_summed_over_goes_where_others_are_of_size_one(
    axis: int,
) -> None:
    x = np.zeros(np.where(np.arange(3) == axis, 5, 1))
    assert reference.log_sum_exp(x, axis=axis).shape == (1, 1)


def test_the_last_axis_is_the_default_where_sizes_agree() -> None:
    x = _normal(3, 3)
    np.testing.assert_allclose(reference.softmax(x).sum(1), 1)
    assert abs(reference.softmax(x).sum(0) - 1).max() > 0.01


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_dtype_is_kept_and_half_precision_is_computed_in_float32(
    dtype: type,
) -> None:
    x = (_normal(4, 300) * 3).astype(dtype)
    exact = np.array([exact_softmax(row) for row in x])
    eps = float(np.finfo(dtype).eps)
    weights = reference.softmax(x)
    assert weights.dtype == dtype
    # half precision: the one rounding at the end, half an eps, or half a subnormal step (6e-8);
    # single and double: a few eps of exp, of a sum of 300 terms, and of the quotient
    rtol = 0.51 * eps if dtype is np.float16 else 40 * eps
    np.testing.assert_allclose(
        weights, exact, rtol=rtol, atol=3.1e-8 if eps > 1e-4 else 0
    )
    sums = reference.log_sum_exp(x)
    assert sums.dtype == dtype
    np.testing.assert_allclose(
        sums, [exact_log_sum_exp(row) for row in x], rtol=max(rtol, 2 * eps)
    )
    jacobian = reference.softmax_jacobian(x[:, :3])
    assert jacobian.dtype == dtype
    p = np.array([exact_softmax(row) for row in x[:, :3]])
    # p_i (delta_ij - p_j): a difference from 1 keeps eps / 2 of 1, not of itself
    np.testing.assert_allclose(
        jacobian,
        p[:, :, None] * (np.eye(3) - p[:, None]),
        rtol=rtol,
        atol=1e-6 if dtype is np.float16 else eps,
    )


def test_scores_of_half_precision_near_its_largest_number_do_no_harm() -> (
    None
):
    x = np.array([[65504.0, 65472.0, -65504.0]], dtype=np.float16)
    np.testing.assert_allclose(
        reference.softmax(x), [exact_softmax(x[0])], atol=1e-7
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_as_far_apart_as_the_dtype_allows_give_no_warning(
    dtype: type,
) -> None:
    largest = np.finfo(dtype).max
    x = np.array([largest, -largest], dtype=dtype)
    assert reference.softmax(x).tolist() == [1.0, 0.0]
    assert reference.log_sum_exp(x) == largest


def test_softmax_and_log_sum_exp_equal_pytorchs() -> None:
    x = _normal(2, 3, 7) * 4
    np.testing.assert_allclose(
        reference.softmax(x, axis=1),
        torch.softmax(torch.tensor(x), 1).numpy(),
        rtol=1e-13,
    )
    np.testing.assert_allclose(
        reference.log_sum_exp(x),
        torch.logsumexp(torch.tensor(x), -1).numpy(),
        rtol=1e-13,
    )


def test_softmax_is_the_gradient_of_log_sum_exp() -> None:
    x, step = _normal(5), 1e-6
    slopes = [
        (
            reference.log_sum_exp(x + step * e)
            - reference.log_sum_exp(x - step * e)
        )
        / (2 * step)
        for e in np.eye(5)
    ]
    np.testing.assert_allclose(slopes, reference.softmax(x), atol=1e-9)


def test_the_jacobian_is_that_of_finite_differences_and_of_autograd() -> (
    None
):
    x, step = _normal(2, 5), 1e-6
    jacobian = reference.softmax_jacobian(x)
    assert jacobian.shape == (2, 5, 5)
    for row, actual in zip(x, jacobian, strict=True):
        columns = [
            (
                np.array(exact_softmax(row + step * e))
                - exact_softmax(row - step * e)
            )
            / (2 * step)
            for e in np.eye(5)
        ]
        np.testing.assert_allclose(
            actual, np.stack(columns, axis=1), atol=1e-9
        )
        autograd = torch.autograd.functional.jacobian(
            lambda z: torch.softmax(z, 0), torch.tensor(row)
        )
        np.testing.assert_allclose(
            actual, autograd.numpy(), rtol=1e-12, atol=1e-15
        )


def test_the_jacobian_is_symmetric_and_its_rows_sum_to_zero() -> None:
    jacobian = reference.softmax_jacobian(_normal(3, 2, 6))
    np.testing.assert_array_equal(jacobian, jacobian.swapaxes(-1, -2))
    np.testing.assert_allclose(jacobian.sum(-1), 0, atol=1e-15)


def test_the_log_sum_exp_of_a_row_that_holds_infinity_is_infinity() -> None:
    rows = np.array([[np.inf, 0.0], [np.inf, np.inf], [-np.inf, np.inf]])
    np.testing.assert_array_equal(reference.log_sum_exp(rows), [np.inf] * 3)
    mixed = np.array([[np.inf, 0.0], [1.0, 1.0], [np.nan, np.inf]])
    np.testing.assert_allclose(
        reference.log_sum_exp(mixed), [np.inf, 1 + np.log(2), np.nan]
    )
