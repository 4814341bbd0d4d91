"""Answers to the exercises on *From lookup to attention*: right ones, and those people give."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch

from answers import Proof
from attention import reference
from attention.exercises import (
    check_lookup_bug,
    check_lookup_by_hand,
    check_lookup_figure,
    check_lookup_norms,
    check_lookup_regression,
    check_lookup_slope,
)

VALUES = np.array([25.0, 50.0, 200.0])
HALVES = 0.5 ** np.array([1.0, 0.0, 4.0])


# --- lookup-regression
def squares(queries, keys):
    return ((queries[:, None] - keys) ** 2).sum(-1)


def regression_loops(queries, keys, values, sigma):
    output = np.zeros((len(queries), values.shape[1]))
    for i, q in enumerate(queries):
        exponents = [
            -sum(
                (float(a) - float(b)) ** 2 for a, b in zip(q, k, strict=True)
            )
            / (2 * sigma**2)
            for k in keys
        ]
        top = max(exponents)
        powers = [math.exp(e - top) for e in exponents]
        for power, v in zip(powers, values, strict=True):
            output[i] += power / sum(powers) * v
    return output


def regression_einsum(queries, keys, values, sigma):
    apart = queries[:, None, :] - keys[None, :, :]
    exponents = np.einsum("lsr,lsr->ls", apart, apart) / (-2 * sigma**2)
    return np.einsum("ls,sv->lv", reference.softmax(exponents), values)


def regression_matrix(queries, keys, values, sigma):
    scores = queries @ keys.T - (keys**2).sum(axis=1) / 2
    return reference.softmax(scores / sigma**2) @ values


def regression_torch(queries, keys, values, sigma):
    q, k = torch.as_tensor(queries), torch.as_tensor(keys)
    exponents = -((q.unsqueeze(1) - k) ** 2).sum(dim=-1) / (2 * sigma**2)
    return exponents.softmax(dim=-1) @ torch.as_tensor(values)


def regression_tensors_alone(queries, keys, values, sigma):
    exponents = -((queries.unsqueeze(1) - keys) ** 2).sum(dim=-1)
    return (exponents / (2 * sigma**2)).softmax(dim=-1) @ values


def regression_longer(queries, keys, values, sigma):
    ones = np.ones((len(queries), 1), queries.dtype)
    halves = -(keys**2).sum(axis=1, keepdims=True) / 2
    longer = np.hstack([queries, ones]), np.hstack([keys, halves])
    return reference.scaled_dot_product_attention(
        *longer, values, scale=1 / sigma**2
    )[0]


def regression_naive(queries, keys, values, sigma):
    weights = np.exp(-squares(queries, keys) / (2 * sigma**2))
    return weights @ values / weights.sum(axis=1, keepdims=True)


def regression_nan_replaced(queries, keys, values, sigma):
    return np.nan_to_num(regression_naive(queries, keys, values, sigma))


def regression_one_maximum(queries, keys, values, sigma):
    exponents = -squares(queries, keys) / (2 * sigma**2)
    weights = np.exp(exponents - exponents.max())
    return weights @ values / weights.sum(axis=1, keepdims=True)


def regression_padded(extra):
    def answer(queries, keys, values, sigma):
        weights = np.exp(-squares(queries, keys) / (2 * sigma**2))
        return (
            weights @ values / (weights.sum(axis=1, keepdims=True) + extra)
        )

    return answer


def regression_dots(queries, keys, values, sigma):
    return reference.softmax(queries @ keys.T / sigma**2) @ values


def regression_no_two(queries, keys, values, sigma):
    return reference.softmax(-squares(queries, keys) / sigma**2) @ values


def regression_sigma(queries, keys, values, sigma):
    return reference.softmax(-squares(queries, keys) / (2 * sigma)) @ values


def regression_fixed(queries, keys, values, sigma):
    return reference.softmax(-squares(queries, keys) / 2) @ values


def regression_distance(queries, keys, values, sigma):
    distances = np.linalg.norm(queries[:, None] - keys, axis=-1)
    return reference.softmax(-distances / (2 * sigma**2)) @ values


def regression_mean(queries, keys, values, sigma):
    apart = ((queries[:, None] - keys) ** 2).mean(-1)
    return reference.softmax(-apart / (2 * sigma**2)) @ values


def regression_sign(queries, keys, values, sigma):
    return (
        reference.softmax(squares(queries, keys) / (2 * sigma**2)) @ values
    )


def regression_columns(queries, keys, values, sigma):
    exponents = -squares(queries, keys) / (2 * sigma**2)
    return reference.softmax(exponents, axis=0) @ values


def regression_not_divided(queries, keys, values, sigma):
    return np.exp(-squares(queries, keys) / (2 * sigma**2)) @ values


def regression_by_count(queries, keys, values, sigma):
    return regression_not_divided(queries, keys, values, sigma) / len(keys)


def regression_nearest(queries, keys, values, sigma):
    return values[squares(queries, keys).argmin(axis=1)]


def regression_weights(queries, keys, values, sigma):
    return reference.softmax(-squares(queries, keys) / (2 * sigma**2))


def regression_of_keys(queries, keys, values, sigma):
    return regression_matrix(queries, keys, keys, sigma)


def regression_broadcast(queries, keys, values, sigma):
    exponents = -((queries - keys) ** 2) / (2 * sigma**2)
    return reference.softmax(exponents) @ values


def regression_components(queries, keys, values, sigma):
    apart = (queries[:, None] - keys) ** 2
    return reference.softmax(-apart / (2 * sigma**2), axis=1) @ values


def regression_squeezed(queries, keys, values, sigma):
    exponents = -squares(queries, keys) / (2 * sigma**2)
    return reference.softmax(exponents).squeeze() @ values


def regression_flat(queries, keys, values, sigma):
    return regression_matrix(queries, keys, values.squeeze(), sigma)


def regression_of_doubles(queries, keys, values, sigma):
    apart = torch.as_tensor(squares(queries, keys), dtype=torch.float64)
    weights = torch.softmax(-apart / (2 * sigma**2), dim=-1)
    return weights @ torch.as_tensor(values)


def regression_in_place(queries, keys, values, sigma):
    queries /= sigma
    keys /= sigma
    return reference.softmax(-squares(queries, keys) / 2) @ values


# --- lookup-slope
def weights_at(query, keys, sigma):
    return reference.softmax(-((query - keys) ** 2).sum(-1) / (2 * sigma**2))


def slope_loops(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    output = sum(p[j] * values[j] for j in range(len(keys)))
    matrix = np.zeros((values.shape[1], len(query)))
    for j in range(len(keys)):
        matrix += p[j] * np.outer(values[j] - output, keys[j] - query)
    return matrix / sigma**2


def slope_einsum(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    both = np.einsum("s,sv,sk->vk", p, values, keys)
    return (both - np.outer(p @ values, p @ keys)) / sigma**2


def slope_jacobian(query, keys, values, sigma):
    exponents = -((query - keys) ** 2).sum(-1) / (2 * sigma**2)
    inner = (keys - query) / sigma**2
    return values.T @ reference.softmax_jacobian(exponents) @ inner


def slope_autograd(query, keys, values, sigma):
    k, v = torch.as_tensor(keys), torch.as_tensor(values)

    def answer(q):
        return (-((q - k) ** 2).sum(-1) / (2 * sigma**2)).softmax(0) @ v

    return torch.autograd.functional.jacobian(answer, torch.as_tensor(query))


def slope_transposed(query, keys, values, sigma):
    return slope_loops(query, keys, values, sigma).T


def slope_sign(query, keys, values, sigma):
    return -slope_loops(query, keys, values, sigma)


def slope_twice(query, keys, values, sigma):
    return 2 * slope_loops(query, keys, values, sigma)


def slope_half(query, keys, values, sigma):
    return slope_loops(query, keys, values, sigma) / 2


def slope_no_sigma(query, keys, values, sigma):
    return slope_loops(query, keys, values, sigma) * sigma**2


def slope_single_sigma(query, keys, values, sigma):
    return slope_loops(query, keys, values, sigma) * sigma


def slope_numerator(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    return np.einsum("s,sv,sk->vk", p, values, keys - query) / sigma**2


def slope_numerator_bare(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    return np.einsum("s,sv,sk->vk", p, values, keys) / sigma**2


def slope_plain_mean(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    centred = values - values.mean(axis=0)
    return np.einsum("s,sv,sk->vk", p, centred, keys - query) / sigma**2


def slope_of_dots(query, keys, values, sigma):
    p = reference.softmax(keys @ query / sigma**2)
    return np.einsum("s,sv,sk->vk", p, values - p @ values, keys) / sigma**2


def slope_answer(query, keys, values, sigma):
    return weights_at(query, keys, sigma) @ values


def slope_naive(query, keys, values, sigma):
    p = np.exp(-((query - keys) ** 2).sum(-1) / (2 * sigma**2))
    p /= p.sum()
    return np.einsum("s,sv,sk->vk", p, values - p @ values, keys) / sigma**2


def slope_guarded(fallback):
    """Return the slope by exponentials as they are, with other weights where all are 0."""

    def slope(query, keys, values, sigma):
        z = -((query - keys) ** 2).sum(-1) / (2 * sigma**2)
        p = np.exp(z)
        p = p / p.sum() if p.sum() else fallback(z)
        return np.einsum("s,sv,sk->vk", p, values - p @ values, keys) / (
            sigma**2
        )

    return slope


def slope_numerator_turned(query, keys, values, sigma):
    return -slope_numerator(query, keys, values, sigma)


def slope_plain_means(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    v, k = values - values.mean(0), keys - keys.mean(0)
    return np.einsum("s,sv,sk->vk", p, v, k) / sigma**2


def slope_no_weights(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    return (values - p @ values).T @ (keys - p @ keys) / sigma**2


def slope_plain_covariance(query, keys, values, sigma):
    v, k = values - values.mean(0), keys - keys.mean(0)
    return v.T @ k / len(keys) / sigma**2


def slope_expanded(query, keys, values, sigma):
    p = np.exp((keys @ query - (keys**2).sum(axis=1) / 2) / sigma**2)
    p = p / p.sum()
    return np.einsum("s,sv,sk->vk", p, values - p @ values, keys) / sigma**2


def slope_sample_covariance(query, keys, values, sigma):
    p = weights_at(query, keys, sigma)
    table = np.hstack([values, keys])
    both = np.cov(table, rowvar=False, aweights=p, ddof=0)
    return both[: values.shape[1], values.shape[1] :] / sigma**2


def slope_of_doubles(query, keys, values, sigma):
    p = torch.as_tensor(weights_at(query, keys, sigma).astype(float))
    v, k = torch.as_tensor(values), torch.as_tensor(keys)
    return ((v - p @ v).T * p) @ k / sigma**2


def slope_one_difference(query, keys, values, sigma):
    columns = []
    for step in 1e-3 * np.eye(len(query), dtype=query.dtype):
        after = weights_at(query + step, keys, sigma) @ values
        columns.append(
            (after - weights_at(query, keys, sigma) @ values) / 1e-3
        )
    return np.stack(columns, axis=1)


PROOFS = [
    Proof(
        check_lookup_by_hand,
        right={
            "a number": 48,
            "a fraction": float(Fraction(8 * 25 + 16 * 50 + 200, 25)),
            "computed": HALVES @ VALUES / HALVES.sum(),
            "a tensor": torch.tensor(48.0),
        },
        wrong={
            "the nearest": (50, "nearest key alone"),
            "not divided": (75, "yet to be divided"),
            "divided by three": (25, "number of entries"),
            "distances not squared": (450 / 7, "not squared"),
            "sign turned": (3300 / 19, "sign"),
            "dot product": (1725 / 11, "the distance decides"),
            "plain mean": (275 / 3, "plain mean"),
            "keys averaged": (19 / 25, "an average of the keys"),
            "the weights": ([0.32, 0.64, 0.04], "one number"),
            "a slip": (52.0, "too large"),
            "a text": ("48", "a str"),
        },
    ),
    Proof(
        check_lookup_figure,
        right={
            "read and computed": [3.0, 2.0],
            "from the labels": (3, math.sqrt(4 / math.log(0.422 / 0.155))),
            "an array": np.array([2.98, 2.03]),
            "at one end of what is allowed": [3, 1.95],
            "at the other end": [3, 2.05],
        },
        wrong={
            "exchanged": ([2, 3], "order"),
            "squared bandwidth": ([3, 4], "root"),
            "no 2": ([3, 2.83], "the 2 in 2σ²"),
            "near keys at the query": ([3, 2.12], "at the query itself"),
            "rounded too early": ([3, 2.1], "rounded too early"),
            "farther off than allowed": ([3, 1.94], "second number"),
            "0.422 for a kernel value": ([3, 0.761], "0.422 has been taken"),
            "0.155 for a kernel value": ([3, 1.554], "0.155 has been taken"),
            "difference squared": ([3, 1.41], "subtracted and then"),
            "distance": ([3, 1], "have not been squared"),
            "decimal logarithm": ([3, 3.035], "decimal logarithm"),
            "mean of the keys as the query": ([4, 2], "the first"),
            "weighted mean as the query": ([3.466, 2], "the first"),
            "bandwidth alone": (2, "2 numbers"),
        },
    ),
    Proof(
        check_lookup_regression,
        right={
            "loops": regression_loops,
            "einsum": regression_einsum,
            "matrix form": regression_matrix,
            "PyTorch": regression_torch,
            "tensors alone": regression_tensors_alone,
            "attention of longer vectors": regression_longer,
        },
        wrong={
            "exponentials as they are": (regression_naive, "0/0"),
            "one maximum for all": (regression_one_maximum, "one maximum"),
            "NaN replaced": (regression_nan_replaced, "underflowed"),
            "1e-12 added": (regression_padded(1e-12), "small number"),
            "1e-9 added": (regression_padded(1e-9), "small number"),
            "1e-6 added": (regression_padded(1e-6), "small number"),
            "1e-200 added": (regression_padded(1e-200), "from being 0"),
            "dot product alone": (regression_dots, "dot product alone"),
            "2 forgotten": (regression_no_two, "without the 2"),
            "σ for σ²": (regression_sigma, "σ² belongs"),
            "bandwidth ignored": (regression_fixed, "bandwidth 1"),
            "distance not squared": (regression_distance, "not squared"),
            "mean over components": (regression_mean, "mean over"),
            "sign turned": (regression_sign, "sign"),
            "summed over queries": (regression_columns, "over the queries"),
            "not divided": (regression_not_divided, "not been divided"),
            "divided by the count": (regression_by_count, "number of keys"),
            "nearest key": (regression_nearest, "nearest key"),
            "weights": (regression_weights, "without the average"),
            "keys averaged": (regression_of_keys, "average of the keys"),
            "no axis for the keys": (regression_broadcast, "raises Value"),
            "components not summed": (regression_components, "raises Value"),
            "squeezed weights": (regression_squeezed, "1 query"),
            "squeezed values": (regression_flat, "shape (5,)"),
            "two dtypes": (regression_of_doubles, "float32"),
            "in place": (regression_in_place, "changes its input"),
        },
    ),
    Proof(
        check_lookup_bug,
        right={"letters": "BE", "a list": ["E", "B"], "a set": {"b", "e"}},
        wrong={
            "the scale alone": ("B", "along which axis"),
            "the axis alone": ("E", "which width"),
            "the transposition": ("ABE", "every query with every key"),
            "the shift": ("BCE", "changes no weight"),
            "the exponential": ("DE", "exponentials"),
            "the average": ("BF", "average"),
            "all": ("ABCDEF", "A does not belong"),
            "no line": ("G", "A to F"),
        },
    ),
    Proof(
        check_lookup_norms,
        right={
            "in the query's direction": np.array([[1, 2], [2, 4], [3, 6]]),
            "a list": [[1, 2], [1, 3], [1, 5]],
            "a tensor": torch.tensor([[1.0, 2], [2, 3], [10, 10]]),
        },
        wrong={
            "equal norms": ([[1, 2], [2, 1], [-1, 2]], "same length"),
            "shorter": ([[1, 2], [0.5, 1], [0, 0]], "along the query"),
            "pointing away": ([[1, 2], [-1, -2], [-3, -6]], "outweighs"),
            "in the reverse order": (
                [[1, 2], [3, 6], [2, 4]],
                "key 2 is nearer",
            ),
            "last two tied": ([[1, 2], [2, 4], [2, 4]], "equally near"),
            "across the query": (
                [[1, 2], [2, 4], [4, 3]],
                "weigh the same",
            ),
            "first not the query": ([[1, 0], [2, 4], [3, 6]], "Key 0"),
            "too long": ([[1, 2], [20, 40], [30, 60]], "-10 and 10"),
            "turned": ([[1, 2, 3], [2, 4, 6]], "(3, 2)"),
            "infinite": ([[1, 2], [2, 4], [np.inf, 0]], "-10 and 10"),
            "a function": (np.zeros, "array of three keys"),
        },
    ),
    Proof(
        check_lookup_slope,
        right={
            "loops": slope_loops,
            "einsum of moments": slope_einsum,
            "Jacobian of the softmax": slope_jacobian,
            "NumPy's covariance": slope_sample_covariance,
            "automatic differentiation": slope_autograd,
        },
        wrong={
            "transposed": (slope_transposed, "the transposed matrix"),
            "sign turned": (slope_sign, "sign"),
            "twice": (slope_twice, "twice"),
            "half": (slope_half, "half"),
            "σ forgotten": (slope_no_sigma, "without its σ"),
            "σ for σ²": (slope_single_sigma, "exponent has σ²"),
            "numerator alone": (slope_numerator, "numerator alone"),
            "numerator, query left out": (
                slope_numerator_bare,
                "derivative of the denominator",
            ),
            "plain mean": (slope_plain_mean, "weighted"),
            "dot product": (slope_of_dots, "Gaussian kernel"),
            "the answer": (slope_answer, "not its derivative"),
            "exponentials as they are": (slope_naive, "0/0 is not"),
            "no slope where all are 0": (
                slope_guarded(np.zeros_like),
                "share the weight there",
            ),
            "the nearest key where all are 0": (
                slope_guarded(lambda z: np.eye(len(z))[z.argmax()]),
                "share the weight there",
            ),
            "numerator alone, sign turned": (
                slope_numerator_turned,
                "and with the wrong sign",
            ),
            "two plain means": (slope_plain_means, "plain mean"),
            "weights left out": (slope_no_weights, "counts alike"),
            "plain covariance": (slope_plain_covariance, "counts alike"),
            "expanded exponents": (slope_expanded, "near 100"),
            "two dtypes": (slope_of_doubles, "float32"),
            "a coarse difference": (slope_one_difference, "is expected"),
        },
    ),
]
