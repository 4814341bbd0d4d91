"""Answers to the exercises on *Softmax, safely*: right ones, and those that people give."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from answers import Proof
from attention.exercises import (
    check_softmax_break,
    check_softmax_by_hand,
    check_softmax_figure,
    check_softmax_log,
    check_softmax_rows,
    check_softmax_temperature,
)

LN = [0.0, math.log(3), math.log(4)]


# --- softmax-rows
def rows_loops(scores, axis):
    moved = np.moveaxis(scores, axis, -1)
    out = np.empty(moved.shape)
    for index in np.ndindex(moved.shape[:-1]):
        row = [float(z) for z in moved[index]]
        top = max(row)
        powers = [math.exp(z - top) for z in row]
        out[index] = [power / math.fsum(powers) for power in powers]
    return np.moveaxis(out, -1, axis)


def rows_matrix(scores, axis):
    shifted = scores - np.max(scores, axis=axis, keepdims=True)
    powers = np.exp(shifted)
    return powers / np.sum(powers, axis=axis, keepdims=True)


def rows_tensor_method(scores, axis):
    return scores.softmax(axis)


def rows_logarithm(scores, axis):
    z = torch.as_tensor(scores)
    return torch.exp(z - torch.logsumexp(z, axis, keepdim=True))


def rows_tensors_only(scores, axis):
    if not torch.is_tensor(scores):
        raise NotImplementedError
    return torch.softmax(scores, axis)


def rows_one_maximum(scores, axis):
    powers = np.exp(scores - np.max(scores))
    return powers / powers.sum(axis, keepdims=True)


def rows_no_maximum(scores, axis):
    return np.exp(scores) / np.exp(scores).sum(axis, keepdims=True)


def rows_always_last(scores, axis):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def rows_always_first(scores, axis):
    powers = np.exp(scores - scores.max(0))
    return powers / powers.sum(0)


def rows_whole_array(scores, axis):
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def rows_not_divided(scores, axis):
    return np.exp(scores - scores.max(axis, keepdims=True))


def rows_in_place(scores, axis):
    scores -= scores.max(axis, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis, keepdims=True)
    return scores


def rows_axis_lost(scores, axis):
    powers = np.exp(scores - scores.max(axis))
    return powers / powers.sum(axis)


def rows_by_minimum(scores, axis):
    powers = np.exp(scores - scores.min(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def rows_by_mean(scores, axis):
    powers = np.exp(scores - scores.mean(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def rows_swapped_back(scores, axis):
    """Move the axis to the end, and exchange it on the way back."""
    return np.swapaxes(
        rows_matrix(np.moveaxis(scores, axis, -1), -1), axis, -1
    )


def rows_no_negative_axis(scores, axis):
    assert axis >= 0 or axis == -1
    return rows_matrix(scores, axis)


def rows_with_epsilon(scores, axis):
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return powers / (powers.sum(axis, keepdims=True) + 1e-3)


def rows_clipped(scores, axis):
    powers = np.exp(np.clip(scores, -80, 80))
    return powers / powers.sum(axis, keepdims=True)


def rows_endless(scores, axis):
    while True:
        time.sleep(0.001)


def rows_loud_and_wrong(scores, axis):
    for _ in range(1000):
        print(scores)
    return scores


# --- softmax-log
def log_shifted(scores):
    shifted = scores - scores.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def log_loops(scores):
    out = np.empty(scores.shape)
    for index in np.ndindex(scores.shape[:-1]):
        row = scores[index].astype(float)
        out[index] = row - (
            row.max() + math.log(sum(math.exp(z - row.max()) for z in row))
        )
    return out


def log_torch(scores):
    return torch.log_softmax(scores, dim=-1)


def log_of_softmax(scores):
    return np.log(rows_matrix(scores, -1))


def log_without_maximum(scores):
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


def log_one_maximum(scores):
    top = scores.max()
    total = np.exp(scores - top).sum(-1, keepdims=True)
    return scores - top - np.log(total)


def log_shifted_within(scores):
    top = scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores - top).sum(-1, keepdims=True))


def log_one_sum(scores):
    top = scores.max()
    return scores - top - np.log(np.exp(scores - top).sum())


def log_forgotten(scores):
    return rows_matrix(scores, -1)


def log_shift_only(scores):
    return scores - scores.max(-1, keepdims=True)


def log_negative(scores):
    return -log_shifted(scores)


def log_in_long_double(scores):
    powers = np.exp(scores.astype(np.longdouble))
    log = np.log(powers / powers.sum(-1, keepdims=True))
    return log.astype(scores.dtype)


def log_epsilon(scores):
    return np.log(rows_matrix(scores, -1) + 1e-12)


def log_where_positive(scores):
    p = rows_matrix(scores, -1)
    log = np.log(np.where(p > 0, p, 1))
    return np.where(p > 0, log, log_shift_only(scores))


# --- softmax-temperature
def temperature_matrix(scores, temperature):
    p = rows_matrix(scores / temperature, -1)
    jacobian = p[..., :, None] * np.eye(p.shape[-1]) - (
        p[..., :, None] * p[..., None, :]
    )
    inner = -scores / temperature**2
    return np.einsum("...ij,...j->...i", jacobian, inner)


def temperature_mean(scores, temperature):
    p = rows_matrix(scores / temperature, -1)
    centred = scores - (p * scores).sum(-1, keepdims=True)
    return -p * centred / temperature**2


def temperature_autograd(scores, temperature):
    z = torch.as_tensor(scores)
    tau = torch.tensor(temperature, dtype=z.dtype)
    return torch.func.jacfwd(lambda t: torch.softmax(z / t, -1))(tau)


def temperature_loops(scores, temperature):
    out = np.zeros(scores.shape)
    p = rows_loops(scores / temperature, -1)
    for index in np.ndindex(scores.shape):
        row = index[:-1]
        for j, z in enumerate(scores[row]):
            moves = p[index] * ((j == index[-1]) - p[row][j])
            out[index] -= moves * z / temperature**2
    return out


def temperature_sign(scores, temperature):
    return -temperature_mean(scores, temperature)


def temperature_no_chain(scores, temperature):
    p = rows_matrix(scores / temperature, -1)
    return p * ((p * scores).sum(-1, keepdims=True) - scores)


def temperature_single_power(scores, temperature):
    return temperature_no_chain(scores, temperature) / temperature


def temperature_diagonal(scores, temperature):
    p = rows_matrix(scores / temperature, -1)
    return p * (1 - p) * -scores / temperature**2


def temperature_numerator(scores, temperature):
    return rows_matrix(scores / temperature, -1) * -scores / temperature**2


def temperature_plain_mean(scores, temperature):
    p = rows_matrix(scores / temperature, -1)
    centred = scores - scores.mean(-1, keepdims=True)
    return -p * centred / temperature**2


def temperature_one_mean(scores, temperature):
    p = rows_matrix(scores / temperature, -1)
    return -p * (scores - (p * scores).sum()) / temperature**2


def temperature_untempered(scores, temperature):
    return temperature_mean(scores, 1.0) / temperature**2


def temperature_weights(scores, temperature):
    return rows_matrix(scores / temperature, -1)


PROOFS = [
    Proof(
        check_softmax_by_hand,
        right={
            "fractions": [1 / 8, 3 / 8, 4 / 8],
            "decimals": (0.125, 0.375, 0.5),
            "a computed array": rows_loops(np.array(LN), -1),
            "a tensor": torch.tensor(LN).softmax(0),
        },
        wrong={
            "exponentials": ([1, 3, 4], "divided by their sum"),
            "scores over their sum": (
                np.array(LN) / sum(LN),
                "exponentials first",
            ),
            "in descending order": ([0.5, 0.375, 0.125], "order"),
            "over the largest": ([0.25, 0.75, 1.0], "not 1"),
            "exp 0 taken for 0": ([0, 3 / 7, 4 / 7], "it is 1"),
            "uniform": ([1 / 3] * 3, "the same weight"),
            "log-probabilities": (np.log([0.125, 0.375, 0.5]), "logarithm"),
            "one number": (0.5, "3 numbers"),
            "per cent": ([12.5, 37.5, 50.0], "Look again"),
            "a text": ("1/8, 3/8, 1/2", "a str"),
        },
    ),
    Proof(
        check_softmax_rows,
        right={
            "loops": rows_loops,
            "matrix form": rows_matrix,
            "a method of tensors": rows_tensor_method,
            "exp of a difference": rows_logarithm,
            "tensors only": rows_tensors_only,
        },
        wrong={
            "one maximum for the array": (rows_one_maximum, "whole array"),
            "no maximum": (rows_no_maximum, "overflow"),
            "always the last axis": (rows_always_last, "last axis"),
            "always the first axis": (rows_always_first, "first axis"),
            "over the whole array": (rows_whole_array, "whole array"),
            "not divided": (rows_not_divided, "divided by their sum"),
            "axes moved there, exchanged back": (
                rows_swapped_back,
                "axis 0",
            ),
            "axis -2 refused": (rows_no_negative_axis, "axis -2"),
            "in place": (rows_in_place, "changes its input"),
            "keepdims forgotten": (rows_axis_lost, "raises ValueError"),
            "minimum subtracted": (rows_by_minimum, "less their minimum"),
            "mean subtracted": (rows_by_mean, "or their mean"),
            "epsilon in the denominator": (rows_with_epsilon, "expected"),
            "scores clipped": (rows_clipped, "were clipped"),
            "never ends": (rows_endless, "did not end"),
            "prints, and returns the scores": (rows_loud_and_wrong, "is"),
        },
    ),
    Proof(
        check_softmax_log,
        right={
            "shifted": log_shifted,
            "loops": log_loops,
            "PyTorch": log_torch,
        },
        wrong={
            "logarithm of softmax": (log_of_softmax, "-inf"),
            "no maximum": (log_without_maximum, "scores as they are"),
            "one maximum for the array": (log_one_maximum, "far below"),
            "maximum not taken off outside": (
                log_shifted_within,
                "outside of it",
            ),
            "one sum for the array": (log_one_sum, "each row"),
            "logarithm forgotten": (log_forgotten, "the softmax itself"),
            "sum forgotten": (log_shift_only, "is missing"),
            "sign turned": (log_negative, "sign"),
            "logarithm of softmax, in extended precision": (
                log_in_long_double,
                "the scores 10 000 and -10 000",
            ),
            "epsilon in the logarithm": (log_epsilon, "plus 1e-12"),
            "sum forgotten where the weight is 0": (
                log_where_positive,
                "0, 0 and -1000",
            ),
        },
    ),
    Proof(
        check_softmax_temperature,
        right={
            "Jacobian times inner derivative": temperature_matrix,
            "weighted mean": temperature_mean,
            "automatic differentiation": temperature_autograd,
            "loops": temperature_loops,
        },
        wrong={
            "sign turned": (temperature_sign, "sign"),
            "inner derivative forgotten": (temperature_no_chain, "inner"),
            "inner derivative -x/τ": (temperature_single_power, "-x/τ²"),
            "diagonal alone": (temperature_diagonal, "diagonal"),
            "numerator alone": (temperature_numerator, "numerator"),
            "plain mean": (temperature_plain_mean, "weighted"),
            "one mean for the array": (temperature_one_mean, "its own"),
            "weights at temperature 1": (
                temperature_untempered,
                "at temperature 1",
            ),
            "weights": (temperature_weights, "themselves"),
        },
    ),
    Proof(
        check_softmax_break,
        right={
            "far apart": np.array([[0.0, 0, 0], [-800, -800, -800]]),
            "a list": [[5000, 1, 2], [3, 2, 1]],
            "a tensor": torch.tensor([[1e4, 0, 0], [-1e4, -1e4, -1e4]]),
        },
        wrong={
            "zeros": (np.zeros((2, 3)), "same maximum"),
            "both rows large": (np.full((2, 3), 9999.0), "same maximum"),
            "not far enough": (
                np.array([[0.0, 0, 0], [-500, -500, -500]]),
                "500 apart",
            ),
            "spread within the rows": (
                np.array([[9000.0, 0, -9000], [9000, 0, -9000]]),
                "same maximum",
            ),
            "NaN put in": (np.full((2, 3), np.nan), "finite"),
            "infinities": (np.full((2, 3), -np.inf), "finite"),
            "too large": (np.array([[1e6] * 3, [0] * 3]), "10 000"),
            "turned": (np.array([[0.0, -800]] * 3), "(2, 3)"),
            "a function": (np.zeros, "array of scores"),
        },
    ),
    Proof(
        check_softmax_figure,
        right={"letter": "C", "small letter": "c", "in a list": ["C"]},
        wrong={
            "higher temperature": ("A", "high"),
            "temperature 1": ("B", "as they are"),
            "lower still": ("D", "lower"),
            "no panel": ("E", "A to D"),
            "two panels": ("CD", "One letter"),
            "the temperature": (0.5, "in quotes"),
        },
    ),
]
