"""Answers to the exercises on *Why divide by √dₖ*: right ones, and those that people give."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from answers import Proof
from attention.exercises import (
    check_scale_between,
    check_scale_blind,
    check_scale_bug,
    check_scale_by_hand,
    check_scale_figure,
    check_scale_heads,
)


# --- scale-heads
def split(x, num_heads):
    B, L, width = x.shape
    return x.reshape(B, L, num_heads, width // num_heads).swapaxes(1, 2)


def rows(scores, axis=-1):
    powers = np.exp(scores - scores.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def raw(x_query, x_key, W_Q, W_K, num_heads):
    """Return unscaled scores, and the width of a head."""
    q, k = split(x_query @ W_Q, num_heads), split(x_key @ W_K, num_heads)
    return q @ k.swapaxes(-1, -2), q.shape[-1]


def heads_matrix(x_query, x_key, W_Q, W_K, num_heads):
    scores, d_k = raw(x_query, x_key, W_Q, W_K, num_heads)
    return rows(scores / d_k**0.5)


def heads_loops(x_query, x_key, W_Q, W_K, num_heads):
    d_k = W_Q.shape[1] // num_heads
    shape = (len(x_query), num_heads, x_query.shape[1], x_key.shape[1])
    weights = np.empty(shape)
    for b, h, i in np.ndindex(shape[:3]):
        columns = slice(h * d_k, (h + 1) * d_k)
        q = x_query[b, i] @ W_Q[:, columns]
        scores = np.array([q @ (x @ W_K[:, columns]) for x in x_key[b]])
        weights[b, h, i] = rows(scores / math.sqrt(d_k))
    return weights


def heads_einsum(x_query, x_key, W_Q, W_K, num_heads):
    cut = (len(W_Q), num_heads, -1)
    q = np.einsum("blm,mhk->bhlk", x_query, W_Q.reshape(cut))
    k = np.einsum("bsm,mhk->bhsk", x_key, W_K.reshape(cut))
    return rows(np.einsum("bhlk,bhsk->bhls", q, k) / np.sqrt(q.shape[-1]))


def heads_folded(x_query, x_key, W_Q, W_K, num_heads):
    folded = W_Q / np.sqrt(W_Q.shape[1] / num_heads)
    return rows(raw(x_query, x_key, folded, W_K, num_heads)[0])


def heads_fourth_roots(x_query, x_key, W_Q, W_K, num_heads):
    root = (W_Q.shape[1] // num_heads) ** 0.25
    return rows(raw(x_query, x_key, W_Q / root, W_K / root, num_heads)[0])


def heads_of_pytorch(x_query, x_key, W_Q, W_K, num_heads):
    arrays = (x_query, x_key, W_Q, W_K)
    x, y, A, B = (torch.as_tensor(array) for array in arrays)
    q, k = (
        t.unflatten(-1, (num_heads, -1)).transpose(1, 2)
        for t in (x @ A, y @ B)
    )
    one_hot = torch.eye(k.shape[-2], dtype=k.dtype)
    value = one_hot.expand(*k.shape[:2], -1, -1)
    return F.scaled_dot_product_attention(q, k, value)


def scaled(c):
    """Return an answer with a scale of its own, a function of (x, y, d_k, H)."""

    def answer(x_query, x_key, W_Q, W_K, num_heads):
        scores, d_k = raw(x_query, x_key, W_Q, W_K, num_heads)
        return rows(scores * c(x_query, x_key, d_k, num_heads))

    return answer


def heads_squeezed(x_query, x_key, W_Q, W_K, num_heads):
    return heads_matrix(x_query, x_key, W_Q, W_K, num_heads).squeeze()


def heads_one_hot_doubles(x_query, x_key, W_Q, W_K, num_heads):
    q, k = split(x_query @ W_Q, num_heads), split(x_key @ W_K, num_heads)
    value = torch.eye(k.shape[2], dtype=torch.float64)
    value = value.expand(*k.shape[:2], -1, -1)
    return F.scaled_dot_product_attention(
        torch.as_tensor(q), torch.as_tensor(k), value
    )


def heads_twice(x_query, x_key, W_Q, W_K, num_heads):
    q, k = split(x_query @ W_Q, num_heads), split(x_key @ W_K, num_heads)
    q = q / math.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(k.shape[-1])
    return rows(scores)


def heads_key_length(x_query, x_key, W_Q, W_K, num_heads):
    q, k = split(x_query @ W_Q, num_heads), split(x_key @ W_K, num_heads)
    k = k.swapaxes(-1, -2)
    return rows(q @ k / math.sqrt(k.shape[-1]))


def heads_after(x_query, x_key, W_Q, W_K, num_heads):
    scores, d_k = raw(x_query, x_key, W_Q, W_K, num_heads)
    return rows(scores) / math.sqrt(d_k)


def heads_scores(x_query, x_key, W_Q, W_K, num_heads):
    scores, d_k = raw(x_query, x_key, W_Q, W_K, num_heads)
    return scores / math.sqrt(d_k)


def heads_over_queries(x_query, x_key, W_Q, W_K, num_heads):
    return rows(heads_scores(x_query, x_key, W_Q, W_K, num_heads), -2)


def heads_dim_one(x_query, x_key, W_Q, W_K, num_heads):
    return rows(heads_scores(x_query, x_key, W_Q, W_K, num_heads), 1)


def heads_reshaped(x_query, x_key, W_Q, W_K, num_heads):
    q, k = x_query @ W_Q, x_key @ W_K
    d_k = q.shape[-1] // num_heads
    q = q.reshape(len(q), num_heads, -1, d_k)
    k = k.reshape(len(k), num_heads, -1, d_k)
    return rows(q @ k.swapaxes(-1, -2) / math.sqrt(d_k))


def heads_interleaved(x_query, x_key, W_Q, W_K, num_heads):
    q, k = (
        x.reshape(*x.shape[:2], -1, num_heads).transpose(0, 3, 1, 2)
        for x in (x_query @ W_Q, x_key @ W_K)
    )
    return rows(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))


def heads_single(x_query, x_key, W_Q, W_K, num_heads):
    arrays = [torch.as_tensor(x).float() for x in (x_query, x_key, W_Q, W_K)]
    return heads_of_pytorch(*arrays, num_heads)


def heads_model_split(x_query, x_key, W_Q, W_K, num_heads):
    q, k = x_query @ W_Q, x_key @ W_K
    d_k = x_query.shape[-1] // num_heads
    q = q.reshape(*q.shape[:2], num_heads, d_k).swapaxes(1, 2)
    k = k.reshape(*k.shape[:2], num_heads, d_k).swapaxes(1, 2)
    return rows(q @ k.swapaxes(-1, -2) / math.sqrt(d_k))


def heads_exchanged(x_query, x_key, W_Q, W_K, num_heads):
    return heads_matrix(x_query, x_key, W_K, W_Q, num_heads)


def heads_turned(x_query, x_key, W_Q, W_K, num_heads):
    return heads_matrix(x_key, x_query, W_Q, W_K, num_heads)


def heads_tied(x_query, x_key, W_Q, W_K, num_heads):
    return heads_matrix(x_query, x_key, W_Q, W_Q, num_heads)


def heads_dot_t(x_query, x_key, W_Q, W_K, num_heads):
    q, k = split(x_query @ W_Q, num_heads), split(x_key @ W_K, num_heads)
    return rows(q @ k.T / math.sqrt(q.shape[-1]))


def heads_no_maximum(x_query, x_key, W_Q, W_K, num_heads):
    powers = np.exp(heads_scores(x_query, x_key, W_Q, W_K, num_heads))
    return powers / powers.sum(-1, keepdims=True)


def heads_one_maximum(x_query, x_key, W_Q, W_K, num_heads):
    scores = heads_scores(x_query, x_key, W_Q, W_K, num_heads)
    powers = np.exp(scores - scores.max())
    return powers / powers.sum(-1, keepdims=True)


def heads_in_place(x_query, x_key, W_Q, W_K, num_heads):
    W_Q /= math.sqrt(W_Q.shape[1] // num_heads)
    return rows(raw(x_query, x_key, W_Q, W_K, num_heads)[0])


# --- scale-blind
PERMUTED = np.array(
    [
        [0.1, 0.2, 0.3, 0.4],
        [0.4, 0.3, 0.2, 0.1],
        [0.2, 0.1, 0.4, 0.3],
        [0.3, 0.4, 0.1, 0.2],
        [1.0, 0.0, 0.0, 0.0],
    ]
)
LEVELS = np.array([[1.0], [-0.5], [0.7]]) * np.ones(4)
RNG = np.random.default_rng(0)
BOUNDED = [RNG.uniform(-1, 1, (n, 4)) for n in (3, 5)]


def nothing_in_common():
    """Return queries in the first two components, keys in the others."""
    query, key = np.zeros((3, 4)), np.zeros((5, 4))
    query[:, :2] = [[1, 0], [0, 1], [-0.5, 0.5]]
    key[:, 2:] = [[1, 0], [0, 1], [-1, 0], [0, -1], [0.5, 0.5]]
    return query, key


def tenths_apart(components):
    """Return queries in the first three components, keys on the last, each 0.1 from the next."""
    query, key = np.zeros((3, 4)), np.zeros((5, 4))
    query[:, :3] = [[0.9, 0.8, 1], [0.8, 0.8, 1], [0.7, 0.8, 1]]
    key[:, 3] = components
    return query, key


def one_key_apart():
    query, key = nothing_in_common()
    key[4, 0] = 0.5
    return query, key


# --- scale-between
def between_closed(d_k, rho):
    return 1 / math.sqrt(d_k * (1 + rho**2 + rho**2 * d_k))


def between_moments(d_k, rho):
    mean, variance = rho * d_k, (1 + rho**2) * d_k
    return np.sqrt(1 / (mean**2 + variance))


def between_pairs(d_k, rho):
    total = 0.0
    for r in range(d_k):
        for other in range(d_k):
            total += 1 + 2 * rho**2 if r == other else rho**2
    return torch.tensor(total, dtype=torch.float64).rsqrt()


def between_blocks(d_k, rho):
    second = np.full((d_k, d_k), rho**2)
    np.fill_diagonal(second, 1 + 2 * rho**2)
    return second.sum() ** -0.5


def between_scalar(d_k, rho):
    return torch.tensor(1 / (d_k * (1 + rho**2) + d_k**2 * rho**2) ** 0.5)


def between_measured(d_k, rho):
    query, noise = np.random.default_rng(0).normal(size=(2, 10_000, d_k))
    key = rho * query + np.sqrt(1 - rho**2) * noise
    return ((query * key).sum(axis=1) ** 2).mean() ** -0.5


PROOFS = [
    Proof(
        check_scale_by_hand,
        right={
            "fractions": [4, 1 / 3],
            "decimals": (4.0, 0.3333),
            "computed": np.array([4.0, 4 / math.sqrt(144)]),
        },
        wrong={
            "variances": ([16, 1 / 9], "the variance"),
            "the model's width": ([12, 1], "shared among 9 heads"),
            "scaled once more": ([4, 1], "root of a key's width"),
            "variance of the second": ([4, 1 / 9], "that of the variance"),
            "upside down": ([4, 3], "upside down"),
            "heads": ([3, 1 / 4], "number of heads"),
            "variance of the first": ([16, 1 / 3], "standard deviation"),
            "root forgotten": ([4, 4 / 144], "not by its root"),
            "order": ([1 / 3, 4], "order"),
            "variance divided": ([4, 16 / 12], "its variance divided"),
            "d_k": ([16, 16 / 12], "root of a variance"),
            "one head, then nine": ([12, 1 / 3], "score that was divided"),
            "a slip": ([4, 1 / 2], "Look again"),
            "one number": (4, "2 numbers"),
            "a text": ("4 and 1/3", "a str"),
        },
    ),
    Proof(
        check_scale_bug,
        right={
            "fractions": [1 / 8, 1],
            "decimals": (0.125, 1.0),
            "an array": np.array([64**-0.5, 1]),
        },
        wrong={
            "nothing wrong": ([1, 1 / 8], "count who divides"),
            "the default once more": ([1 / 8, 1 / 8], "still divided twice"),
            "undone": ([1 / 8, 8], "raw"),
            "variance": ([1 / 64, 1], "1/64 is the variance"),
            "before anybody divides": ([8, 1 / 8], "nobody has divided"),
            "scaled once, and undone": ([1, 8], "undoes"),
            "a boolean": ([1 / 8, True], "a boolean"),
            "mended already": ([1, 1], "mended function"),
            "raw": ([8, 1], "raw"),
            "nought": ([1 / 8, 0], "equal"),
            "not exact": ([0.1255, 1], "the first number"),
            "model's width": ([1 / 8, 512**-0.5], "Look again"),
            "None": ([1 / 8, math.nan], "not finite"),
            "one number": (1, "2 numbers"),
        },
    ),
    Proof(
        check_scale_heads,
        right={
            "matrix form": heads_matrix,
            "loops": heads_loops,
            "einsum": heads_einsum,
            "folded into the matrix": heads_folded,
            "fourth roots on both sides": heads_fourth_roots,
            "PyTorch's function, with one-hot values": heads_of_pytorch,
        },
        wrong={
            "no scale": (scaled(lambda x, y, d, h: 1), "not scaled"),
            "√d_model": (
                scaled(lambda x, y, d, h: x.shape[2] ** -0.5),
                "√d_model",
            ),
            "√H": (scaled(lambda x, y, d, h: h**-0.5), "√H"),
            "d_k": (scaled(lambda x, y, d, h: 1 / d), "root is missing"),
            "twice": (heads_twice, "divided by in two places"),
            "all heads together": (
                scaled(lambda x, y, d, h: (h * d) ** -0.5),
                "all heads together",
            ),
            "√(d_model // H)": (
                scaled(lambda x, y, d, h: (x.shape[2] // h) ** -0.5),
                "√(d_model/H)",
            ),
            "√(d_model / H)": (
                scaled(lambda x, y, d, h: (x.shape[2] / h) ** -0.5),
                "√(d_model/H)",
            ),
            "one fourth root": (
                scaled(lambda x, y, d, h: d**-0.25),
                "fourth root",
            ),
            "multiplied": (scaled(lambda x, y, d, h: d**0.5), "multiplied"),
            "√L": (scaled(lambda x, y, d, h: x.shape[1] ** -0.5), "√L"),
            "√S, from a transposed key": (heads_key_length, "√S"),
            "d_model": (
                scaled(lambda x, y, d, h: 1 / x.shape[2]),
                "d_model, the width",
            ),
            "√B": (scaled(lambda x, y, d, h: len(x) ** -0.5), "is expected"),
            "after the softmax": (heads_after, "belongs to the scores"),
            "scores": (heads_scores, "softmax is missing"),
            "over queries": (heads_over_queries, "over the queries"),
            "over heads": (heads_dim_one, "over the heads"),
            "reshape alone": (heads_reshaped, "reshape alone"),
            "head width from d_model": (heads_model_split, "raises Value"),
            "matrices exchanged": (heads_exchanged, "matrices exchanged"),
            "inputs exchanged": (heads_turned, "keys' input"),
            "one matrix for both": (heads_tied, "is expected"),
            ".T of a batch": (heads_dot_t, "raises ValueError"),
            "no maximum": (heads_no_maximum, "overflow"),
            "one maximum": (heads_one_maximum, "0/0"),
            "columns take turns": (heads_interleaved, "take turns"),
            "single precision": (
                heads_single,
                "looks like single precision",
            ),
            "squeezed": (heads_squeezed, "shape (4, 3), where (1, 1, 4, 3)"),
            "two dtypes": (heads_one_hot_doubles, "float32"),
            "in place": (heads_in_place, "changes its input"),
        },
    ),
    Proof(
        check_scale_figure,
        right={"letter": "D", "small letter": "d", "in a list": ["D"]},
        wrong={
            "√H": ("A", "largest difference, 12"),
            "d_k": ("B", "3/4"),
            "none": ("C", "large"),
            "√d_k": ("E", "largest difference, 12"),
            "no panel": ("F", "A to E"),
            "two panels": ("DE", "One letter"),
            "the divisor": (12, "in quotes"),
        },
    ),
    Proof(
        check_scale_blind,
        right={
            "sums that agree": (LEVELS, PERMUTED),
            "no component in common": nothing_in_common(),
            "lists": (LEVELS.tolist(), PERMUTED.tolist()),
            "tensors": tuple(map(torch.from_numpy, nothing_in_common())),
            "a tenth apart": tenths_apart([0, 0.1, 0.2, 0.3, 0.4]),
            "a tenth apart, by linspace": tenths_apart(
                np.linspace(0, 0.4, 5)
            ),
            "a tenth apart, by arange": tenths_apart(
                np.arange(0.1, 0.6, 0.1)
            ),
            "tensors of single precision": tuple(
                x.float() for x in map(torch.from_numpy, nothing_in_common())
            ),
        },
        wrong={
            "large integers": (
                (100 * LEVELS, 100 * PERMUTED),
                "between -1 and 1",
            ),
            "ones": ((np.ones((3, 4)), np.ones((5, 4))), "blind spot"),
            "keys alike": ((LEVELS, np.ones((5, 4))), "of key"),
            "tiny": ((0.01 * LEVELS, PERMUTED), "of query"),
            "a short query": (
                (np.diag([1.0, 1, 0.4, 1])[:3], PERMUTED),
                "shorter than 0.5",
            ),
            "random": (tuple(BOUNDED), "that is, without a scale"),
            "one key apart": (one_key_apart(), "still shows"),
            "one-hot": ((np.eye(4)[:3], PERMUTED), "still shows"),
            "rows too close": (
                tenths_apart(np.linspace(0, 0.39, 5)),
                "less than 0.1",
            ),
            "turned": ((LEVELS.T, PERMUTED.T), "(3, 4)"),
            "queries alone": (LEVELS, "a pair"),
            "NaN": ((np.nan * LEVELS, PERMUTED), "between -1 and 1"),
        },
    ),
    Proof(
        check_scale_between,
        right={
            "closed form": between_closed,
            "mean and variance": between_moments,
            "sum over pairs of components": between_pairs,
            "matrix of second moments": between_blocks,
            "a scalar of PyTorch": between_scalar,
        },
        wrong={
            "independent": (lambda d, r: d**-0.5, "ϱ is to enter"),
            "1/d_k": (lambda d, r: 1 / d, "ϱ near 1"),
            "variance alone": (
                lambda d, r: (d * (1 + r * r)) ** -0.5,
                "mean is not 0",
            ),
            "mean alone": (lambda d, r: 1 / (r * d), "variance counts"),
            "products of variance 1": (
                lambda d, r: (d + r * r * d * d) ** -0.5,
                "makes it larger",
            ),
            "squares as if independent": (
                lambda d, r: (d * (1 - r * r) + r * r * d * d) ** -0.5,
                "as for independent",
            ),
            "mean counted twice": (
                lambda d, r: (d * (1 + 2 * r * r) + r * r * d * d) ** -0.5,
                "less the squared mean",
            ),
            "mixed terms forgotten": (
                lambda d, r: (d * (1 + 2 * r * r)) ** -0.5,
                "different components",
            ),
            "no root": (lambda d, r: between_closed(d, r) ** 2, "one over"),
            "divisor": (
                lambda d, r: 1 / between_closed(d, r),
                "the divisor",
            ),
            "of scaled scores": (
                lambda d, r: between_closed(d, r) * d**0.5,
                "already",
            ),
            "measured on a sample": (between_measured, "is expected"),
            "mean not squared": (
                lambda d, r: (d * (1 + r * r) + r * d) ** -0.5,
                "not squared",
            ),
            "ϱ not squared": (
                lambda d, r: (d * (1 + r * r) + r * d * d) ** -0.5,
                "not the whole",
            ),
            "mean and standard deviation added": (
                lambda d, r: 1 / ((d * (1 + r * r)) ** 0.5 + abs(r) * d),
                "their squares",
            ),
            "standard deviations added": (
                lambda d, r: (d * d * (1 + r * r) + r * r * d * d) ** -0.5,
                "their variances",
            ),
        },
    ),
]
