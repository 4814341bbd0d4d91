"""Answers on *Scaled dot-product attention*: right ones, and those that people give."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from answers import Proof
from attention import reference
from attention.exercises import (
    check_sdpa_attend,
    check_sdpa_average,
    check_sdpa_bug,
    check_sdpa_figure,
    check_sdpa_merge,
    check_sdpa_shapes,
)

WEIGHTS, OUTPUT = (2, 3, 5, 7), (2, 3, 5, 6)
SHARES = np.array([1, 2, 5]) / 8
VALUES = np.array([[8.0, 0], [0, 8], [8, 8]])


def shares(*exponentials):
    return np.array(exponentials) / sum(exponentials)


# --- sdpa-attend
def attend_matrix(query, key, value, allowed):
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(query.shape[-1])
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1.0, total)
    return weights @ value, weights


def attend_einsum(query, key, value, allowed):
    scores = np.einsum("...le,...se->...ls", query, key)
    scores = np.where(allowed, scores * query.shape[-1] ** -0.5, -np.inf)
    log_sum = np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    weights = np.where(allowed, np.exp(scores - log_sum), 0.0)
    return np.einsum("...ls,...sv->...lv", weights, value), weights


def attend_loops(query, key, value, allowed):
    leading = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    (L, d_k), (S, d_v) = query.shape[-2:], value.shape[-2:]
    query = np.broadcast_to(query, (*leading, L, d_k))
    key = np.broadcast_to(key, (*leading, S, d_k))
    value = np.broadcast_to(value, (*leading, S, d_v))
    allowed = np.broadcast_to(allowed, (*leading, L, S))
    output, weights = (
        np.zeros((*leading, L, d_v)),
        np.zeros((*leading, L, S)),
    )
    for at in np.ndindex(*leading, L):
        keys = np.flatnonzero(allowed[at])
        scores = [
            sum(query[at] * key[at[:-1]][j]) / math.sqrt(d_k) for j in keys
        ]
        powers = [math.exp(z - max(scores)) for z in scores]
        for j, power in zip(keys, powers, strict=True):
            weights[at][j] = power / sum(powers)
            output[at] += weights[at][j] * value[at[:-1]][j]
    return output, weights


def attend_torch(query, key, value, allowed):
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    empty = ~allowed.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0)
    weights = F.softmax(scores, dim=-1).masked_fill(empty, 0)
    return weights @ value, weights


def attend_fused(query, key, value, allowed):
    """Read the weights off PyTorch's function by giving it the identity as values."""
    q, k, v = (torch.as_tensor(x) for x in (query, key, value))
    mask = torch.as_tensor(allowed)
    leading = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    q, k, v = (x.expand(*leading, *x.shape[-2:]) for x in (q, k, v))
    eye = torch.eye(k.shape[-2], dtype=k.dtype).expand(*leading, -1, -1)
    return tuple(
        F.scaled_dot_product_attention(q, k, x, attn_mask=mask)
        for x in (v, eye)
    )


def wrong_attend(
    factor=None, axis=-1, replace=None, add=None, top=None, transpose=None
):
    """Return attention with a fault or several; without any it is right but for empty rows."""

    def attend(query, key, value, allowed):
        turned = transpose(key) if transpose else key.swapaxes(-2, -1)
        c = factor(query, key, value) if factor else key.shape[-1] ** -0.5
        scores = c * (query @ turned)
        if add:
            scores = scores + add(allowed)
        else:
            fill = -np.inf if replace is None else replace
            scores = np.where(allowed, scores, fill)
        shift = top(scores) if top else scores.max(axis, keepdims=True)
        powers = np.exp(scores - shift)
        weights = powers / powers.sum(axis, keepdims=True)
        return weights @ value, weights

    return attend


def attend_inverted(query, key, value, allowed):
    return attend_matrix(query, key, value, ~allowed)


def attend_unmasked(query, key, value, allowed):
    return attend_matrix(query, key, value, np.ones_like(allowed))


def attend_zeroed(query, key, value, allowed):
    _, weights = attend_unmasked(query, key, value, allowed)
    return (weights * allowed) @ value, weights * allowed


def attend_renormalised(query, key, value, allowed):
    _, weights = attend_zeroed(query, key, value, allowed)
    weights = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    return weights @ value, weights


def attend_multiplied(query, key, value, allowed):
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(key.shape[-1])
    powers = np.exp(scores * allowed)
    weights = powers / powers.sum(-1, keepdims=True)
    return weights @ value, weights


def attend_maximum_of_all(query, key, value, allowed):
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(key.shape[-1])
    powers = np.exp(scores - scores.max(-1, keepdims=True)) * allowed
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    return weights @ value, weights


def attend_first_row(query, key, value, allowed):
    return attend_matrix(query, key, value, allowed[..., :1, :])


def attend_pairwise(query, key, value, allowed):
    """Work the leading axes off in pairs, as if none had to broadcast."""
    if query.ndim == 2:
        return attend_matrix(query, key, value, allowed)
    every = allowed if allowed.ndim > 2 else [allowed] * len(query)
    pairs = zip(query, key, value, every, strict=False)
    outputs, weights = zip(
        *(attend_pairwise(*one) for one in pairs), strict=True
    )
    return np.stack(outputs), np.stack(weights)


def attend_output_alone(query, key, value, allowed):
    return attend_matrix(query, key, value, allowed)[0]


def attend_other_order(query, key, value, allowed):
    return attend_matrix(query, key, value, allowed)[::-1]


def attend_in_place(query, key, value, allowed):
    query /= math.sqrt(query.shape[-1])
    return attend_matrix(query * query.shape[-1] ** 0.5, key, value, allowed)


def attend_no_maximum(query, key, value, allowed):
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(key.shape[-1])
    powers = np.exp(scores) * allowed
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    return weights @ value, weights


def attend_three_axes(query, key, value, allowed):
    turned = {2: lambda: key.T, 3: lambda: key.transpose(0, 2, 1)}
    return attend_matrix(
        query, turned[key.ndim]().swapaxes(-2, -1), value, allowed
    )


def attend_filled(fill):
    def attend(query, key, value, allowed):
        scores = query @ key.swapaxes(-2, -1) / math.sqrt(key.shape[-1])
        weights = reference.softmax(np.where(allowed, scores, fill))
        weights = weights * allowed.any(-1, keepdims=True)
        return weights @ value, weights

    return attend


def attend_output_mended(answer):
    """Return an answer whose output, and not its weights, is 0 in empty rows."""

    def attend(query, key, value, allowed):
        output, weights = answer(query, key, value, allowed)
        return np.where(allowed.any(-1)[..., None], output, 0.0), weights

    return attend


def attend_queries_axes(query, key, value, allowed):
    """Take it that the queries have all the leading axes."""
    leading = query.shape[:-2]
    key, value = (
        np.broadcast_to(x, leading + x.shape[-2:]) for x in (key, value)
    )
    return attend_matrix(query, key, value, allowed)


def attend_full_masks(query, key, value, allowed):
    assert allowed.shape[-2] == query.shape[-2] or allowed.ndim > 2
    return attend_matrix(query, key, value, allowed)


def attend_first_axes(query, key, value, allowed):
    scores = query @ np.swapaxes(key, 0, 1) / math.sqrt(key.shape[-1])
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    return weights @ value, weights


# --- sdpa-bug
def bug_given(query, key, value):
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(value.shape[-1])
    powers = np.exp(scores - scores.max())
    weights = powers / powers.sum(axis=1, keepdims=True)
    return weights @ value


def bug(width="key", largest=-1, axis=-1, power=0.5):
    """Return the function with some faults left, or with new ones."""

    def attend(query, key, value):
        wide = {"key": key, "value": value}[width].shape[-1]
        scores = query @ key.swapaxes(-2, -1) / wide**power
        if largest != "none":
            scores = scores - scores.max(axis=largest, keepdims=True)
        powers = np.exp(scores)
        return powers / powers.sum(axis=axis, keepdims=True) @ value

    return attend


def bug_einsum(query, key, value):
    scores = np.einsum("bld,bsd->bls", query, key) / key.shape[-1] ** 0.5
    weights = np.exp(
        scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)
    )
    return np.einsum("bls,bsv->blv", weights, value)


def bug_loops(query, key, value):
    return np.stack(
        [
            np.stack([attend_row(q, k, v) for q in one])
            for one, k, v in zip(query, key, value, strict=True)
        ]
    )


def attend_row(q, k, v):
    scores = [float(q @ row) / math.sqrt(len(row)) for row in k]
    powers = np.array([math.exp(z - max(scores)) for z in scores])
    return (powers[:, None] * v).sum(axis=0) / powers.sum()


def bug_torch(query, key, value):
    return torch.softmax(query @ key.mT / key.shape[-1] ** 0.5, -1) @ value


# --- sdpa-merge
def merge_logaddexp(output_a, lse_a, output_b, lse_b):
    lse = np.logaddexp(lse_a, lse_b)
    at = np.where(np.isinf(lse), 0.0, lse)
    share_a, share_b = np.exp(lse_a - at), np.exp(lse_b - at)
    return share_a[..., None] * output_a + share_b[..., None] * output_b, lse


def merge_maximum(output_a, lse_a, output_b, lse_b):
    top = np.maximum(lse_a, lse_b)
    top = np.where(np.isfinite(top), top, 0.0)
    sum_a, sum_b = np.exp(lse_a - top), np.exp(lse_b - top)
    total = sum_a + sum_b
    share = (sum_a / np.where(total == 0, 1, total))[..., None]
    rest = (sum_b / np.where(total == 0, 1, total))[..., None]
    return share * output_a + rest * output_b, top + np.log(total)


def merge_sigmoid(output_a, lse_a, output_b, lse_b):
    """Share the outputs by a sigmoid of the difference."""
    ahead = (lse_a - lse_b).nan_to_num(0.0)
    share = torch.sigmoid(ahead)[..., None]
    output = share * output_a + (1 - share) * output_b
    return output, torch.logaddexp(lse_a, lse_b)


def merge_loops(output_a, lse_a, output_b, lse_b):
    output, lse = np.zeros(output_a.shape), np.full(lse_a.shape, -np.inf)
    for at in np.ndindex(lse_a.shape):
        ends = float(lse_a[at]), float(lse_b[at])
        if max(ends) > -math.inf:
            sums = [math.exp(end - max(ends)) for end in ends]
            lse[at] = max(ends) + math.log(sum(sums))
            output[at] = np.average([output_a[at], output_b[at]], 0, sums)
    return output, lse


def merge_stacked(output_a, lse_a, output_b, lse_b):
    """Attend once more, over two keys: the blocks."""
    lses = torch.stack([lse_a, lse_b], -1)
    shares = torch.softmax(lses, -1).nan_to_num(0.0)
    outputs = torch.stack([output_a, output_b], -2)
    return (shares[..., None, :] @ outputs)[..., 0, :], lses.logsumexp(-1)


def wrong_merge(share=None, lse=np.logaddexp):
    """Return a merge with other shares for the first block, or another log-sum-exp."""

    def merge(output_a, lse_a, output_b, lse_b):
        share_of = share or (lambda a, b: np.exp(a - np.logaddexp(a, b)))
        first = share_of(lse_a, lse_b)[..., None]
        output = first * output_a + (1 - first) * output_b
        return output, lse(lse_a, lse_b)

    return merge


def merge_summed(output_a, lse_a, output_b, lse_b):
    return output_a + output_b, np.logaddexp(lse_a, lse_b)


def merge_unshifted(output_a, lse_a, output_b, lse_b):
    sum_a, sum_b = np.exp(lse_a)[..., None], np.exp(lse_b)[..., None]
    output = (sum_a * output_a + sum_b * output_b) / (sum_a + sum_b)
    return output, np.log(np.exp(lse_a) + np.exp(lse_b))


def merge_shared_by(combined):
    def merge(output_a, lse_a, output_b, lse_b):
        lse = combined(lse_a, lse_b)
        shares = [np.exp(part - lse)[..., None] for part in (lse_a, lse_b)]
        return shares[0] * output_a + shares[1] * output_b, lse

    return merge


def merge_undivided(level):
    def merge(output_a, lse_a, output_b, lse_b):
        off = level(lse_a, lse_b)
        sum_a, sum_b = np.exp(lse_a - off), np.exp(lse_b - off)
        output = sum_a[..., None] * output_a + sum_b[..., None] * output_b
        return output, off + np.log(sum_a + sum_b)

    return merge


def merge_one_maximum(output_a, lse_a, output_b, lse_b):
    top = max(lse_a.max(), lse_b.max())
    output, lse = merge_unshifted(
        output_a, lse_a - top, output_b, lse_b - top
    )
    return output, lse + top


def merge_unguarded(output_a, lse_a, output_b, lse_b):
    lse = np.logaddexp(lse_a, lse_b)
    share_a, share_b = np.exp(lse_a - lse), np.exp(lse_b - lse)
    return share_a[..., None] * output_a + share_b[..., None] * output_b, lse


def merge_second_axis(output_a, lse_a, output_b, lse_b):
    lse = np.logaddexp(lse_a, lse_b)
    shares = [np.exp(part - lse)[:, None] for part in (lse_a, lse_b)]
    return shares[0] * output_a + shares[1] * output_b, lse


def merge_never_below_0(output_a, lse_a, output_b, lse_b):
    top = np.maximum(np.maximum(lse_a, lse_b), 0.0)
    sum_a, sum_b = np.exp(lse_a - top), np.exp(lse_b - top)
    total = sum_a + sum_b
    share = (sum_a / np.where(total == 0, 1, total))[..., None]
    rest = (sum_b / np.where(total == 0, 1, total))[..., None]
    return share * output_a + rest * output_b, top + np.log(total)


def merge_zero_if_either(output_a, lse_a, output_b, lse_b):
    output, lse = merge_logaddexp(output_a, lse_a, output_b, lse_b)
    either = np.isinf(lse_a) | np.isinf(lse_b)
    return np.where(either[..., None], 0.0, output), lse


def merge_one_way(output_a, lse_a, output_b, lse_b):
    """Take the first block for the heavier one."""
    ahead = np.exp(np.where(np.isinf(lse_a), 0.0, lse_b - lse_a))
    share = np.where(np.isinf(lse_a), 0.0, 1 / (1 + ahead))[..., None]
    output = share * output_a + (1 - share) * output_b
    lse = np.where(np.isinf(lse_a), lse_b, lse_a + np.log1p(ahead))
    return output, lse


def merge_no_axis(output_a, lse_a, output_b, lse_b):
    lse = np.logaddexp(lse_a, lse_b)
    return np.exp(lse_a - lse) * output_a + np.exp(
        lse_b - lse
    ) * output_b, lse


def merge_epsilon(output_a, lse_a, output_b, lse_b):
    top = np.maximum(lse_a, lse_b)
    top = np.where(np.isfinite(top), top, 0.0)
    sum_a, sum_b = (
        np.exp(lse_a - top)[..., None],
        np.exp(lse_b - top)[..., None],
    )
    total = sum_a + sum_b + 1e-6
    output = (sum_a * output_a + sum_b * output_b) / total
    return output, top + np.log(total[..., 0])


def merge_output_alone(output_a, lse_a, output_b, lse_b):
    return merge_logaddexp(output_a, lse_a, output_b, lse_b)[0]


PROOFS = [
    Proof(
        check_sdpa_shapes,
        right={
            "tuples": [WEIGHTS, OUTPUT],
            "an array": np.array([WEIGHTS, OUTPUT]),
            "what PyTorch says": (
                torch.zeros(WEIGHTS).shape,
                torch.zeros(OUTPUT).shape,
            ),
        },
        wrong={
            "output first": ([OUTPUT, WEIGHTS], "order"),
            "keys by queries": ([(2, 3, 7, 5), OUTPUT], "rows are queries"),
            "output as wide as keys": ([WEIGHTS, (2, 3, 5, 4)], "values"),
            "an output for each key": (
                [WEIGHTS, (2, 3, 7, 6)],
                "it is the queries",
            ),
            "weights as wide as keys": ([(2, 3, 5, 4), OUTPUT], "each key"),
            "output as wide as weights": ([WEIGHTS, WEIGHTS], "summed over"),
            "batch lost": (
                [(1, 3, 5, 7), (1, 3, 5, 6)],
                "of size 1",
            ),
            "three axes": ([(3, 5, 7), (3, 5, 6)], "Each has 3 axes here"),
            "three axes and four": (
                [(3, 5, 7), OUTPUT],
                "One of them has 3",
            ),
            "last two axes": ([[5, 7], [5, 6]], "the queries bring along"),
            "output alone": (OUTPUT, "8 numbers"),
            "heads summed": ([WEIGHTS, (2, 1, 5, 6)], "[1, 1]"),
        },
    ),
    Proof(
        check_sdpa_average,
        right={
            "integers": [6, 7],
            "weights times values": SHARES @ VALUES,
            "a tensor": torch.tensor([6.0, 7.0]),
        },
        wrong={
            "no scale": (shares(1, 4, 25) @ VALUES, "without the scale"),
            "divided by d_k": (
                shares(1, 2**0.5, 5**0.5) @ VALUES,
                "divided by d_k",
            ),
            "root of d_v": (
                shares(1, 2**2**0.5, 5**2**0.5) @ VALUES,
                "whose width",
            ),
            "not divided by the sum": ([48, 56], "sum to 1"),
            "scores as shares": (
                shares(0, math.log(2), math.log(5)) @ VALUES,
                "exponentials",
            ),
            "plain mean": ([16 / 3, 16 / 3], "plain mean"),
            "best key alone": ([8, 8], "best key"),
            "components exchanged": ([7, 6], "order"),
            "weights": ([1 / 8, 2 / 8, 5 / 8], "looks like the weights"),
            "three values": ([6, 7, 8], "2 numbers"),
            "first key left out": ([40 / 7, 8], "first key is missing"),
            "first share taken for 0": ([5, 7], "gives nothing"),
            "one component": ([6, 6], "second number"),
            "base 10": (
                shares(1, 10 ** math.log(2), 10 ** math.log(5)) @ VALUES,
                "Look again",
            ),
        },
    ),
    Proof(
        check_sdpa_attend,
        right={
            "matrix form": attend_matrix,
            "einsum": attend_einsum,
            "loops": attend_loops,
            "PyTorch": attend_torch,
            "PyTorch's own, twice": attend_fused,
        },
        wrong={
            "no scale": (
                wrong_attend(lambda q, k, v: 1.0),
                "without the scale",
            ),
            "divided by d_k": (
                wrong_attend(lambda q, k, v: 1 / k.shape[-1]),
                "itself",
            ),
            "root of d_v": (
                wrong_attend(lambda q, k, v: v.shape[-1] ** -0.5),
                "a value's width",
            ),
            "root of S": (
                wrong_attend(lambda q, k, v: k.shape[-2] ** -0.5),
                "number of keys",
            ),
            "root of L": (
                wrong_attend(lambda q, k, v: q.shape[-2] ** -0.5),
                "number of queries",
            ),
            "softmax over queries": (
                wrong_attend(axis=-2),
                "over the queries",
            ),
            "softmax over axis 1": (
                wrong_attend(axis=1),
                "over the queries",
            ),
            "K.T": (wrong_attend(transpose=lambda k: k.T), "all the axes"),
            "first two axes exchanged": (
                attend_first_axes,
                "expected",
            ),
            "polarity swapped": (attend_inverted, "wrong way round"),
            "mask forgotten": (attend_unmasked, "not looked at"),
            "ones and zeros added": (
                wrong_attend(add=lambda a: 1.0 * a),
                "ones and zeros",
            ),
            "scores times mask": (attend_multiplied, "set to 0"),
            "weights zeroed": (attend_zeroed, "after the softmax"),
            "weights zeroed and renormalised": (
                attend_renormalised,
                "left them nothing",
            ),
            "maximum over forbidden keys too": (
                attend_maximum_of_all,
                "2000 above",
            ),
            "one maximum for the array": (
                wrong_attend(top=np.max),
                "one maximum",
            ),
            "no maximum": (
                wrong_attend(top=lambda z: 0.0),
                "overflow",
            ),
            "no maximum, the mask multiplied": (
                attend_no_maximum,
                "overflow",
            ),
            "key transposed for up to three axes": (
                attend_three_axes,
                "leading axes (2, 3) everywhere",
            ),
            **{
                f"{fill} in place of -inf, empty rows set to 0": (
                    attend_filled(fill),
                    "may lie below it",
                )
                for fill in (-100, -1000, -2000, -4000)
            },
            "NaN in the weights of empty rows": (
                attend_output_mended(wrong_attend()),
                "though the output is",
            ),
            "even weights in empty rows": (
                attend_output_mended(wrong_attend(replace=-1e9)),
                "though the output is",
            ),
            "NaN in empty rows": (wrong_attend(), "nothing to attend to"),
            "-1e9 replaces": (wrong_attend(replace=-1e9), "evenly"),
            "-1e9 added": (
                wrong_attend(add=lambda a: np.where(a, 0.0, -1e9)),
                "changes nothing",
            ),
            "first row of the mask for all": (attend_first_row, "(5, 7)"),
            "axes in pairs": (attend_pairwise, "both sequences share"),
            "output alone": (attend_output_alone, "2 results"),
            "leading axes of the queries alone": (
                attend_queries_axes,
                "the same queries for two",
            ),
            "a mask for all queries refused": (
                attend_full_masks,
                "a mask of shape (1, 7)",
            ),
            "weights first": (attend_other_order, "another order"),
            "in place": (attend_in_place, "changes its input"),
        },
    ),
    Proof(
        check_sdpa_bug,
        right={
            "matrix form": bug(),
            "einsum": bug_einsum,
            "loops": bug_loops,
            "PyTorch": bug_torch,
        },
        wrong={
            "as it was given": (bug_given, "the wrong way"),
            "the axis alone": (bug("value", None), "how wide a value is"),
            "the width alone": (bug("key", None, 1), "the wrong way"),
            "the maximum alone": (bug("value", -1, 1), "the wrong way"),
            "axis and width": (bug("key", None), "one row and not another"),
            "axis and maximum": (bug("value"), "how wide a value is"),
            "width and maximum": (bug(axis=1), "the wrong way"),
            "axis 0 for axis 1": (bug(axis=0), "over the batch"),
            "maximum along axis 1": (bug(largest=1), "does not cancel"),
            "no maximum": (bug(largest="none"), "as they are"),
            "root of L": (
                lambda q, k, v: bug()(
                    q * math.sqrt(k.shape[-1] / q.shape[1]), k, v
                ),
                "number of queries or keys",
            ),
            "root of S": (
                lambda q, k, v: bug()(
                    q * math.sqrt(k.shape[-1] / k.shape[1]), k, v
                ),
                "number of queries or keys",
            ),
            "no root": (bug(power=1), "itself"),
            "no scale": (bug(power=0), "without the scale"),
            "root of 4 written out": (
                lambda q, k, v: bug()(q * k.shape[-1] ** 0.5 / 2, k, v),
                "d_k = 9",
            ),
        },
    ),
    Proof(
        check_sdpa_figure,
        right={"letter": "D", "small letter": "d", "in a list": ["D"]},
        wrong={
            "no scale": ("A", "divided"),
            "over queries": ("B", "column"),
            "divided by d_k": ("C", "nearer"),
            "no panel": ("E", "A to D"),
            "two panels": ("CD", "One letter"),
            "a number": (3, "in quotes"),
        },
    ),
    Proof(
        check_sdpa_merge,
        right={
            "logaddexp": merge_logaddexp,
            "one maximum for both": merge_maximum,
            "sigmoid in PyTorch": merge_sigmoid,
            "loops": merge_loops,
            "attention over two blocks": merge_stacked,
        },
        wrong={
            "mean": (
                wrong_merge(lambda a, b: np.full(a.shape, 0.5)),
                "the mean of the two",
            ),
            "shares of the logarithms": (
                wrong_merge(lambda a, b: a / (a + b)),
                "by the logarithms",
            ),
            "heavier block alone": (
                wrong_merge(lambda a, b: np.where(a > b, 1.0, 0.0)),
                "alone",
            ),
            "shares exchanged": (
                wrong_merge(lambda a, b: np.exp(b - np.logaddexp(a, b))),
                "of the other",
            ),
            "outputs added": (merge_summed, "sum of the outputs"),
            "logarithms added": (
                wrong_merge(lse=np.add),
                "of a product",
            ),
            "larger logarithm": (
                wrong_merge(lse=np.maximum),
                "missing from",
            ),
            "sum for its logarithm": (
                wrong_merge(lse=lambda a, b: np.exp(a) + np.exp(b)),
                "not its logarithm",
            ),
            "no maximum": (merge_unshifted, "overflow"),
            "maximum not given back": (
                wrong_merge(
                    lse=lambda a, b: np.log(
                        np.exp(a - np.maximum(a, b))
                        + np.exp(b - np.maximum(a, b))
                    )
                ),
                "not given back",
            ),
            "maximum not given back, and shared out by it": (
                merge_shared_by(
                    lambda a, b: np.logaddexp(a, b) - np.maximum(a, b)
                ),
                "not given back",
            ),
            "one maximum for all queries": (
                merge_one_maximum,
                "one maximum for all",
            ),
            "not divided": (
                merge_undivided(lambda a, b: 0.0),
                "yet to be divided",
            ),
            "not divided, the maximum taken off": (
                merge_undivided(np.maximum),
                "yet to be divided",
            ),
            "base 2": (wrong_merge(lse=np.logaddexp2), "base 2"),
            "base 2, and shared out by it": (
                merge_shared_by(np.logaddexp2),
                "base 2",
            ),
            "log2 of a sum of exponentials": (
                wrong_merge(lse=lambda a, b: np.log2(np.exp(a) + np.exp(b))),
                "base 2",
            ),
            "axis 1 for the last": (merge_second_axis, "leading axes"),
            "maximum never below 0": (merge_never_below_0, "near -1000"),
            "zero if either is empty": (
                merge_zero_if_either,
                "the first block is empty",
            ),
            "first block taken for the heavier": (merge_one_way, "is inf"),
            "NaN where both are empty": (merge_unguarded, "-inf less -inf"),
            "1 less the first share": (wrong_merge(), "-inf less -inf"),
            "axis of the values forgotten": (
                merge_no_axis,
                "along the components",
            ),
            "epsilon in the denominator": (merge_epsilon, "expected"),
            "output alone": (merge_output_alone, "2 results"),
        },
    ),
]
