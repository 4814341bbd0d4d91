"""Answers to the exercises on *Why one average is not enough*: right ones, and people's."""

from __future__ import annotations

import math

import numpy as np
import torch

from answers import Proof
from attention.exercises import (
    check_average_break,
    check_average_figure,
    check_average_hull,
    check_average_loss,
    check_average_width,
    check_average_window,
)


# --- average-width
def width_centring_matrix(weights):
    S = weights.shape[-1]
    logs = np.log(weights) @ (np.eye(S) - 1 / S)
    return np.linalg.matrix_rank(logs, tol=1e-4)


def width_mean(weights):
    logs = np.log(weights.astype(float))
    logs -= logs.mean(axis=1, keepdims=True)
    sigma = np.linalg.svd(logs)[1]
    return int(np.count_nonzero(sigma > 1e-4))


def width_against_first_key(weights):
    logs = torch.log(torch.as_tensor(weights))
    return torch.linalg.matrix_rank(logs[:, 1:] - logs[:, :1], atol=1e-4)


def width_pivots(weights):
    rows = [[math.log(p) for p in row] for row in weights]
    rows = [[x - sum(row) / len(row) for x in row] for row in rows]
    rank = 0
    while rows and max(abs(x) for row in rows for x in row) > 1e-4:
        best = max(rows, key=lambda row: max(map(abs, row)))
        rows.remove(best)
        column = max(range(len(best)), key=lambda j: abs(best[j]))
        rows = [
            [
                x - row[column] / best[column] * y
                for x, y in zip(row, best, strict=True)
            ]
            for row in rows
        ]
        rank += 1
    return rank


def rank(matrix):
    return np.linalg.matrix_rank(matrix, tol=1e-4)


def width_of_weights(weights):
    return rank(weights)


def width_of_centred_weights(weights):
    return rank(weights - weights.mean(axis=1, keepdims=True))


def width_not_centred(weights):
    return rank(np.log(weights))


def width_one_less(weights):
    return rank(np.log(weights)) - 1


def width_columns_centred(weights):
    logs = np.log(weights)
    return rank(logs - logs.mean(axis=0))


def width_both_centred(weights):
    logs = np.log(weights)
    logs = logs - logs.mean(axis=1, keepdims=True)
    return rank(logs - logs.mean(axis=0))


def width_as_wide_as_can_be(weights):
    return min(weights.shape[0], weights.shape[1] - 1)


def width_default_tolerance(weights):
    logs = np.log(weights)
    return np.linalg.matrix_rank(logs - logs.mean(axis=1, keepdims=True))


def width_epsilon(weights):
    logs = np.log(weights + 1e-12)
    return rank(logs - logs.mean(axis=1, keepdims=True))


def width_whole_mean(weights):
    logs = np.log(weights)
    return rank(logs - logs.mean())


def width_keys_less_one(weights):
    return weights.shape[1] - 1


def width_winners(weights):
    return len(set(weights.argmax(axis=1).tolist()))


def width_at_least_one(weights):
    return max(1, int(width_mean(weights)))


def width_smaller_side(weights):
    return min(weights.shape) - 1


def width_first_query_subtracted(weights):
    logs = np.log(weights)
    return rank(logs - logs[0])


def width_limit(limit):
    def needed(weights):
        logs = np.log(weights)
        logs = logs - logs.mean(axis=1, keepdims=True)
        return np.linalg.matrix_rank(logs, tol=limit)

    return needed


def width_eigenvalues(weights):
    logs = np.log(weights)
    logs = logs - logs.mean(axis=1, keepdims=True)
    return int((np.linalg.eigvalsh(logs @ logs.T) > 1e-4).sum())


def width_no_threshold(weights):
    logs = np.log(weights)
    sigma = np.linalg.svd(logs - logs.mean(axis=1, keepdims=True))[1]
    return int((sigma > 0).sum())


def width_by_ratio(weights):
    logs = np.log(weights)
    sigma = np.linalg.svd(logs - logs.mean(axis=1, keepdims=True))[1]
    return int((sigma > 1e-4 * sigma[0]).sum())


# --- average-window
def window_in_query(times, key_times, sigma):
    query = np.stack([times, np.ones_like(times)], axis=-1)
    key = np.stack([key_times, -(key_times**2) / 2], axis=-1)
    return math.sqrt(2) * query / sigma**2, key


def window_shared(times, key_times, sigma):
    half = 2**0.25 / sigma
    query = half * np.column_stack([times, np.ones(len(times))])
    key = half * np.column_stack([key_times, -0.5 * key_times**2])
    return query, key


def window_loops(times, key_times, sigma):
    c = math.sqrt(2) / (2 * sigma * sigma)
    query = [[-c, 2 * c * float(t)] for t in times]
    key = [[float(t) ** 2, float(t)] for t in key_times]
    return np.array(query), np.array(key)


def window_tensors(times, key_times, sigma):
    key = torch.stack([2 * key_times, -(key_times**2)], dim=-1)
    query = torch.stack([times, torch.ones_like(times)], dim=-1)
    return query / (math.sqrt(2) * sigma**2), key


def window_wrong(factor=1.0, power=2, square=-0.5, width=2, turned=False):
    def head(times, key_times, sigma):
        query = np.stack([times, np.ones_like(times)], axis=-1)
        key = np.stack([key_times, square * key_times**2], axis=-1)
        query = factor * query / sigma**power
        if turned:
            return query.T, key.T
        return query[:, :width], key[:, :width]

    return head


def window_of_positive_times(times, key_times, sigma):
    query, key = window_in_query(times, abs(key_times), sigma)
    return query, key


def window_weights(times, key_times, sigma):
    powers = np.exp(-((times[:, None] - key_times) ** 2) / (2 * sigma**2))
    return powers / powers.sum(axis=-1, keepdims=True)


def window_swapped(times, key_times, sigma):
    query, key = window_in_query(times, key_times, sigma)
    return key, query


# --- average-loss
def loss_least_squares(weights, places):
    units = np.eye(weights.shape[1])[:, places]
    found = np.linalg.lstsq(weights.T, units, rcond=None)[0]
    return ((weights.T @ found - units) ** 2).sum()


def loss_projection(weights, places):
    onto = np.linalg.pinv(weights) @ weights
    return len(places) - sum(onto[a, a] for a in places)


def loss_gram_schmidt(weights, places):
    basis = []
    for row in np.asarray(weights, dtype=float):
        left = row.copy()
        for b in basis * 2:
            left = left - (left @ b) * b
        if np.linalg.norm(left) > 1e-5:
            basis.append(left / np.linalg.norm(left))
    return len(places) - sum(b[a] ** 2 for a in places for b in basis)


def loss_probes(weights, places):
    P = torch.as_tensor(weights)
    probes = torch.eye(P.shape[1], dtype=P.dtype)  # n = 1
    averages = probes @ P.T  # (S, H)
    reader = torch.linalg.pinv(averages) @ probes[:, list(places)]
    return (averages @ reader - probes[:, list(places)]).square().sum()


def loss_of_one(row, places):
    return len(places) - sum(row[a] ** 2 for a in places) / (row @ row)


def loss_best_head(weights, places):
    return min(loss_of_one(row, places) for row in weights)


def loss_first_head(weights, places):
    return loss_of_one(weights[0], places)


def loss_last_head(weights, places):
    return loss_of_one(weights[-1], places)


def loss_distances(weights, places):
    return sum(
        math.sqrt(loss_least_squares(weights, [place])) for place in places
    )


def loss_mean_of_heads(weights, places):
    return np.mean([loss_of_one(row, places) for row in weights])


def loss_savings_added(weights, places):
    return len(places) - sum(
        len(places) - loss_of_one(row, places) for row in weights
    )


def loss_heads_averaged(weights, places):
    return loss_of_one(weights.mean(axis=0), places)


def loss_bound(weights, places):
    return max(len(places) - len(weights), 0)


def loss_rank_bound(weights, places):
    return len(places) - np.linalg.matrix_rank(weights)


def loss_mean_over_places(weights, places):
    return loss_least_squares(weights, places) / len(places)


def loss_root(weights, places):
    return math.sqrt(loss_least_squares(weights, places))


def loss_places_alone(weights, places):
    return loss_least_squares(weights[:, places], range(len(places)))


def loss_no_reader(weights, places):
    units = np.eye(weights.shape[1])
    return sum(
        min(((row - units[a]) ** 2).sum() for row in weights) for a in places
    )


def loss_savings(weights, places):
    return len(places) - loss_least_squares(weights, places)


def loss_normal_equations(weights, places):
    seen = weights[:, places]
    reader = np.linalg.inv(weights @ weights.T) @ seen
    return len(places) - np.trace(seen.T @ reader)


def loss_no_duplicates(weights, places):
    return loss_normal_equations(np.unique(weights, axis=0), places)


def loss_cut_short(weights, places):
    onto = np.linalg.pinv(weights, rcond=1e-2) @ weights
    return len(places) - sum(onto[a, a] for a in places)


def loss_of_two_places(weights, places):
    onto = np.linalg.pinv(weights) @ weights
    return 2 - sum(onto[a, a] for a in places)


def loss_gain_not_squared(weights, places):
    row = weights[0]
    return len(places) - sum(row[a] for a in places) / (row @ row)


PROOFS = [
    Proof(
        check_average_hull,
        right={
            "letters": "AE",
            "another order": "e, a",
            "a list": ["A", "E"],
        },
        wrong={
            "a side too": ("ABE", "B does not belong"),
            "side and corner too": ("ABCE", "B does not belong"),
            "mask forgotten": ("ADE", "D does not belong"),
            "everything near": ("ABCDEF", "B does not belong"),
            "one missing": ("A", "each of the points"),
            "outside": ("AEF", "F does not belong"),
            "points instead of letters": ((2, 2), "letters from A to F"),
        },
    ),
    Proof(
        check_average_figure,
        right={"letter": "B", "small letter": "b", "in a list": ["B"]},
        wrong={
            "all win": ("A", "every key"),
            "three win": ("C", "three keys"),
            "two win, one loses": ("D", "worst key"),
            "two panels": ("BD", "One letter"),
            "no panel": ("E", "A to D"),
            "the width": (1, "in quotes"),
        },
    ),
    Proof(
        check_average_break,
        right={
            "below the lowest side": [4, 0.2],
            "beyond the right side": np.array([4.5, 2.4]),
            "left of the left side": torch.tensor([0.4, 2.4]),
        },
        wrong={
            "an average": ([2, 2.5], "an average of the values"),
            "on a side": ([3, 0.5], "an average of the values"),
            "a hair outside": ([4, 2.600001], "rounding decides"),
            "one of the values": ([2, 2], "one of the values"),
            "beyond the box": ([6.5, 2], "The test notices"),
            "beyond a diagonal": ([5.9, 0.1], "The test notices"),
            "the box's corner": ([6, 5], "The test notices"),
            "several points": ([[4, 0.2], [2, 2]], "two numbers"),
            "not a number": ([np.nan, 1], "finite"),
            "a function": (np.array, "a point of the plane"),
            "three numbers": ([4, 0.2, 0], "two numbers"),
        },
    ),
    Proof(
        check_average_width,
        right={
            "centring matrix": width_centring_matrix,
            "mean subtracted": width_mean,
            "an array that holds one number": lambda p: np.array(
                [width_mean(p)]
            ),
            "a tensor that holds one number": lambda p: torch.tensor(
                [[width_mean(p)]]
            ),
            "differences to the first key": width_against_first_key,
            "elimination by loops": width_pivots,
        },
        wrong={
            "rank of the weights": (
                width_of_weights,
                "full rank",
            ),
            "rank of centred weights": (
                width_of_centred_weights,
                "full rank",
            ),
            "log P not centred": (
                width_not_centred,
                "for all has been taken or none",
            ),
            "rank of log P less one": (width_one_less, "not always one"),
            "columns centred": (width_columns_centred, "each key's column"),
            "rows and columns centred": (width_both_centred, "as well"),
            "as wide as can be": (width_as_wide_as_can_be, "full rank"),
            "NumPy's tolerance": (
                width_default_tolerance,
                "counts rounding",
            ),
            "never less than 1": (width_at_least_one, "at least 1"),
            "smaller side less one": (width_smaller_side, "shape alone"),
            "first query subtracted": (
                width_first_query_subtracted,
                "each of its rows",
            ),
            "limit 0.1": (width_limit(1e-1), "too large"),
            "limit 0.01": (width_limit(1e-2), "too large"),
            "limit 0.001": (width_limit(1e-3), "too large"),
            "limit 1e-6": (width_limit(1e-6), "counts rounding"),
            "eigenvalues compared": (width_eigenvalues, "a square"),
            "epsilon in the logarithm": (
                width_epsilon,
                "before the logarithm",
            ),
            "threshold for float64": (width_limit(1e-8), "float32"),
            "one mean for all": (width_whole_mean, "one number for all"),
            "S - 1": (width_keys_less_one, "any pattern"),
            "winners counted": (width_winners, "keys that win"),
            "rounding counted": (width_no_threshold, "rounding has"),
            "threshold by ratio": (width_by_ratio, "counts rounding"),
        },
    ),
    Proof(
        check_average_window,
        right={
            "in the query": window_in_query,
            "shared by both": window_shared,
            "loops, components exchanged": window_loops,
            "tensors": window_tensors,
        },
        wrong={
            "as given": (
                window_wrong(),
                "computes from query and key is 0.413544 at index [3, 3],"
                " where 0.489288 is expected. This looks like a window that is"
                " too wide by the same factor",
            ),
            "scale the wrong way round": (
                window_wrong(factor=2**-0.5),
                "wrong way round",
            ),
            "d_k for its root": (window_wrong(factor=2), "twice over"),
            "σ for its square": (
                window_wrong(factor=2**0.5, power=1),
                "division by σ",
            ),
            "σ² in both": (
                window_wrong(factor=2**0.5, power=4),
                "makes σ⁴",
            ),
            "σ forgotten": (
                window_wrong(factor=2**0.5, power=0),
                "as wide for every σ",
            ),
            "no square": (
                window_wrong(factor=2**0.5, square=0),
                "late times",
            ),
            "sign of the square": (
                window_wrong(factor=2**0.5, square=0.5),
                "wrong sign",
            ),
            "half forgotten": (
                window_wrong(factor=2**0.5, square=-1),
                "factor ½",
            ),
            "absolute times": (
                window_of_positive_times,
                "may be negative too",
            ),
            "one component": (
                window_wrong(factor=2**0.5, width=1),
                "(4, 2) and (5, 2) are expected",
            ),
            "transposed": (
                window_wrong(factor=2**0.5, turned=True),
                "(4, 2) and (5, 2) are expected",
            ),
            "key and query exchanged": (window_swapped, "shapes (5, 2)"),
            "the weights themselves": (window_weights, "a query and a key"),
        },
    ),
    Proof(
        check_average_loss,
        right={
            "least squares": loss_least_squares,
            "projection matrix": loss_projection,
            "Gram–Schmidt": loss_gram_schmidt,
            "probes and PyTorch": loss_probes,
        },
        wrong={
            "best head": (loss_best_head, "one head alone"),
            "first head": (loss_first_head, "one head alone"),
            "last head": (loss_last_head, "one head alone"),
            "distances not squared": (loss_distances, "squared distances"),
            "mean of the heads' losses": (loss_mean_of_heads, "mean of the"),
            "savings added": (loss_savings_added, "save it once"),
            "heads averaged": (loss_heads_averaged, "heads' mean"),
            "the bound": (loss_bound, "these places alone"),
            "m less the rank": (loss_rank_bound, "these places alone"),
            "mean over places": (loss_mean_over_places, "mean over the"),
            "root of the sum": (loss_root, "root of the sum"),
            "other places forgotten": (
                loss_places_alone,
                "these places alone",
            ),
            "no reader": (loss_no_reader, "taken for answers"),
            "what is saved": (loss_savings, "not what is left"),
            "Gram matrix inverted": (
                loss_normal_equations,
                "two heads with the same weights",
            ),
            "duplicates removed, Gram matrix inverted": (
                loss_no_duplicates,
                "one is the mean",
            ),
            "small singular values taken for none": (
                loss_cut_short,
                "nearly the same weights",
            ),
            "always two places": (loss_of_two_places, "three places"),
            "weights not squared": (loss_gain_not_squared, "expected"),
        },
    ),
]
