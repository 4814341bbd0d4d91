"""Answers to the exercises on *Multi-head attention*: right ones, and those that people give."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F

from answers import Proof
from attention.exercises import (
    check_heads_bug,
    check_heads_count,
    check_heads_figure,
    check_heads_groups,
    check_heads_layer,
    check_heads_merge,
    check_heads_split,
    check_heads_test,
    check_heads_xavier,
)
from attention.reference import softmax


# --- heads-split
def split_loops(x, num_heads):
    *lead, length, width = x.shape
    d = width // num_heads
    out = np.empty((*lead, num_heads, length, d), dtype=x.dtype)
    for h in range(num_heads):
        for position in range(length):
            for r in range(d):
                out[..., h, position, r] = x[..., position, h * d + r]
    return out


def split_view(x, num_heads):
    *lead, length, width = x.shape
    x = x.view(*lead, length, num_heads, width // num_heads)
    return x.transpose(-3, -2)


def split_torch_without_batch(x, num_heads):
    if x.ndim == 2:
        return split_view(x.unsqueeze(0), num_heads)[0]
    return x.reshape(*x.shape[:-1], num_heads, -1).swapaxes(-3, -2)


def split_axes(x, num_heads):
    return np.moveaxis(x.reshape(*x.shape[:-1], num_heads, -1), -2, -3)


def split_slices(x, num_heads):
    return np.stack(np.split(x, num_heads, axis=-1), axis=-3)


def split_einsum(x, num_heads):
    cut = x.reshape(*x.shape[:-1], num_heads, -1)
    return np.einsum("...lhd->...hld", cut)


def split_unfold(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).movedim(-2, -3)


def split_memory(x, num_heads):
    *lead, length, width = x.shape
    return x.reshape(*lead, num_heads, length, width // num_heads)


def split_memory_view(x, num_heads):
    *lead, length, width = x.shape
    return x.view(*lead, num_heads, length, width // num_heads)


def split_not_moved(x, num_heads):
    return x.reshape(*x.shape[:-1], num_heads, -1)


def split_turns(x, num_heads):
    return np.moveaxis(x.reshape(*x.shape[:-1], -1, num_heads), -1, -3)


def split_in_front(x, num_heads):
    return np.stack(np.split(x, num_heads, axis=-1))


def split_last_two(x, num_heads):
    return split_axes(x, num_heads).swapaxes(-2, -1)


def split_reversed(x, num_heads):
    return split_axes(x, num_heads)[..., ::-1, :, :]


def split_one_batch_axis(x, num_heads):
    B, L, _ = x.shape
    return x.reshape(B, L, num_heads, -1).transpose(0, 2, 1, 3)


def split_one_batch_axis_torch(x, num_heads):
    B, L, width = x.shape
    return x.view(B, L, num_heads, width // num_heads).transpose(1, 2)


def split_selected(x, num_heads):
    d = x.shape[-1] // num_heads
    blocks = np.eye(x.shape[-1]).reshape(-1, num_heads, d)  # (H d, H, d)
    return np.einsum("...lc,chd->...hld", x, blocks)


def split_selected_in_double(x, num_heads):
    d = x.shape[-1] // num_heads
    columns = torch.eye(x.shape[-1], dtype=torch.float64)
    chosen = [x @ block for block in columns.split(d, dim=1)]
    return torch.stack(chosen, dim=-3)


def split_to_width_4(x, num_heads):
    return split_axes(x, x.shape[-1] // 4)


def split_flattened(x, num_heads):
    L, width = x.shape[-2:]
    heads = x.reshape(-1, L, num_heads, width // num_heads).swapaxes(1, 2)
    return heads if x.ndim > 2 else heads[0]


def split_squeezed(x, num_heads):
    return np.squeeze(split_axes(x, num_heads))


# --- heads-merge
def merge_loops(heads):
    *lead, H, L, d = heads.shape
    out = np.empty((*lead, L, H * d), dtype=heads.dtype)
    for h in range(H):
        out[..., h * d : (h + 1) * d] = heads[..., h, :, :]
    return out


def merge_reshape(heads):
    *lead, H, L, d = heads.shape
    return heads.swapaxes(-3, -2).reshape(*lead, L, H * d)


def merge_contiguous(heads):
    *lead, H, L, d = heads.shape
    turned = heads.transpose(-3, -2).contiguous()
    return turned.view(*lead, L, H * d)


def merge_concatenated(heads):
    return np.concatenate(list(np.moveaxis(heads, -3, 0)), axis=-1)


def merge_torch_cat(heads):
    return torch.cat(heads.unbind(-3), dim=-1)


def merge_memory(heads):
    *lead, H, L, d = heads.shape
    return heads.reshape(*lead, L, H * d)


def merge_view(heads):
    *lead, H, L, d = heads.shape
    return heads.transpose(-3, -2).view(*lead, L, H * d)


def merge_turns(heads):
    *lead, H, L, d = heads.shape
    return np.moveaxis(heads, -3, -1).reshape(*lead, L, d * H)


def merge_below(heads):
    return np.concatenate(list(np.moveaxis(heads, -3, 0)), axis=-2)


def merge_mean(heads):
    return heads.mean(-3)


def merge_sum(heads):
    return heads.sum(-3)


def merge_reversed(heads):
    return merge_loops(heads[..., ::-1, :, :])


def merge_unjoined(heads):
    return heads.swapaxes(-3, -2)


def merge_selected(heads):
    H, d = heads.shape[-3], heads.shape[-1]
    places = np.eye(H * d).reshape(H, d, H * d)
    return np.einsum("...hld,hdc->...lc", heads, places)


def merge_selected_in_double(heads):
    H, d = heads.shape[-3], heads.shape[-1]
    places = torch.eye(H * d, dtype=torch.float64).reshape(H, d, H * d)
    return (heads @ places).sum(dim=-3)


def merge_to_width_12(heads):
    return heads.swapaxes(-3, -2).reshape(*heads.shape[:-3], -1, 12)


def merge_one_batch_axis(heads):
    B, H, L, d = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(B, L, H * d)


def merge_flattened(heads):
    H, L, d = heads.shape[-3:]
    merged = heads.swapaxes(-3, -2).reshape(-1, L, H * d)
    return merged if heads.ndim > 3 else merged[0]


def merge_squeezed(heads):
    heads = np.squeeze(heads)
    return merge_reshape(heads)


# --- heads-test
def sample(shape=(2, 5, 12), num_heads=3):
    x = np.arange(math.prod(shape), dtype=float).reshape(shape)
    return x, num_heads


SHAPES = [(5, 12), (2, 5, 12), (4, 2, 5, 12)]


def with_shapes(test):
    """Return a test of a split that makes one of a single input for several."""
    return lambda split: all(test(split, shape) for shape in SHAPES)


def test_by_slices(split, shape=(2, 5, 12)):
    x, H = sample(shape)
    heads = split(x, H)
    if heads.shape != (*shape[:-2], 3, 5, 4):
        return False
    return all(
        np.array_equal(heads[..., h, :, :], x[..., 4 * h : 4 * h + 4])
        for h in range(H)
    )


def test_by_labels(split, shape):
    x, H = sample(shape)
    *lead, h, i, r = np.indices((*shape[:-2], 3, 5, 4))
    labels = np.ravel_multi_index((*lead, i, 4 * h + r), shape)
    return np.array_equal(split(x, H), labels)


def test_by_loops(split, shape):
    x = np.random.default_rng(0).normal(size=shape)
    heads = split(x, 3)
    if heads.shape != (*shape[:-2], 3, 5, 4):
        return False
    for *lead, h, i, r in np.ndindex(heads.shape):
        if heads[(*lead, h, i, r)] != x[(*lead, i, 4 * h + r)]:
            return False
    return True


def test_by_tensors(split, shape):
    x = torch.randn(shape)
    right = x.unflatten(-1, (3, 4)).transpose(-3, -2)
    heads = split(x, 3)
    return heads.shape == right.shape and torch.equal(heads, right)


def test_of_one_entry(split):
    x, H = sample()
    heads = split(x, H)
    return heads.shape == (2, 3, 5, 4) and heads[1, 2, 3, 1] == x[1, 3, 9]


def test_of_two_rows(split):
    x, H = sample()
    heads = split(x, H)
    if heads.shape != (2, 3, 5, 4):
        return False
    return np.array_equal(heads[0, 0, 1], x[0, 1, :4]) and np.array_equal(
        heads[1, 2, 3], x[1, 3, 8:]
    )


def test_of_first_position(split):
    x, H = sample()
    heads = split(x, H)
    if heads.shape != (2, 3, 5, 4):
        return False
    return np.array_equal(heads[0, :, 0].ravel(), x[0, 0])


def test_of_some(*some):
    """Return a test, on all shapes, of the numbers at a slice alone."""

    def test(split, shape):
        x, H = sample(shape)
        heads, right = split(x, H), split_slices(x, H)
        return heads.shape == right.shape and np.array_equal(
            heads[(..., *some)], right[(..., *some)]
        )

    return with_shapes(test)


def test_of_shapes_with(*leading):
    """Return a test of all numbers, for so many leading axes."""
    shapes = [shape for shape in SHAPES if len(shape) - 2 in leading]
    return lambda split: all(test_by_slices(split, s) for s in shapes)


def test_of_sequences(*some):
    """Return a test, on all shapes, of some sequences alone."""

    def test(split, shape):
        x, H = sample(shape)
        heads, right = split(x, H), split_slices(x, H)
        if heads.shape != right.shape:
            return False
        heads, right = (
            a.reshape(-1, *a.shape[-3:])[[*some]] for a in (heads, right)
        )
        return np.array_equal(heads, right)

    return with_shapes(test)


def test_of_sums_over(axis):
    """Return a test, on all shapes, of sums over an axis."""

    def test(split, shape):
        x, H = sample(shape)
        heads, right = split(x, H), split_slices(x, H)
        return heads.shape == right.shape and np.allclose(
            heads.sum(axis), right.sum(axis)
        )

    return with_shapes(test)


def test_with_gradients(split, shape):
    x = torch.randn(shape).requires_grad_()
    right = x.unflatten(-1, (3, 4)).transpose(-3, -2)
    heads = split(x, 3)
    return heads.shape == right.shape and torch.equal(heads, right)


def test_in_half_precision(split, shape):
    x = torch.arange(math.prod(shape)).reshape(shape).bfloat16() + 1
    x = x + torch.randn(shape).bfloat16()
    right = x.unflatten(-1, (3, 4)).transpose(-3, -2)
    heads = split(x, 3)
    return heads.shape == right.shape and torch.equal(heads, right)


def test_of_last_numbers(split):
    x, H = sample()
    heads = split(x, H)
    if heads.shape != (2, 3, 5, 4):
        return False
    return np.array_equal(heads[..., -1], x[..., 3::4].swapaxes(1, 2))


def test_of_two_shapes(split):
    return all(test_by_slices(split, shape) for shape in SHAPES[:2])


def test_of_merged_numbers(split, shape):
    x, H = sample(shape)
    return np.array_equal(merge_loops(split(x, H)), x)


def test_of_several_heads(split, shape):
    x, H = sample(shape)
    heads = split(x, H)
    return heads.shape[-3] > 1 and np.array_equal(merge_loops(heads), x)


def test_of_the_shape_with_four_axes(split):
    x, H = sample((4, 4, 5, 12))
    return split(x, H).shape == (4, 4, 3, 5, 4) and test_of_two_shapes(split)


def test_that_leaves_a_text(split):
    return "right" if test_by_slices(split) else "wrong"


def test_of_shapes(split):
    x, H = sample()
    return split(x, H).shape == (2, 3, 5, 4)


def test_of_shapes_alike(split):
    return split(np.ones((2, 4, 16)), 4).shape == (2, 4, 4, 4)


def test_of_ones(split):
    return np.array_equal(
        split(np.ones((2, 5, 12)), 3), np.ones((2, 3, 5, 4))
    )


def test_of_round_trip(split):
    x, H = sample()
    return np.array_equal(split(x, H).reshape(x.shape), x)


def test_of_right_round_trip(split):
    x, H = sample((5, 12))
    heads = split(x, H)
    if heads.shape != (3, 5, 4):
        return False
    return np.array_equal(merge_loops(heads), x)


def test_of_one_head(split):
    x, _ = sample()
    return np.array_equal(split(x, 1), x[:, None])


def test_of_one_position(split):
    x, H = sample((2, 1, 12))
    return np.array_equal(split(x, H), x.reshape(2, H, 1, 4))


def test_of_first_head(split):
    x, H = sample()
    heads = split(x, H)
    if heads.shape != (2, 3, 5, 4):
        return False
    return np.array_equal(heads[:, 0], x[..., :4])


def test_against_itself(split):
    x, H = sample()
    return np.array_equal(split(x, H), split(x, H))


def test_of_sums(split):
    x, H = sample()
    return np.isclose(split(x, H).sum(), x.sum())


def test_by_the_wrong_measure(split):
    x, H = sample()
    return np.array_equal(split(x, H), split_memory(x, H))


def test_that_asserts(split):
    x, H = sample()
    assert np.array_equal(split(x, H), split_slices(x, H))
    return True


def test_entry_by_entry(split):
    x, H = sample()
    heads = split(x, H)
    if heads.shape != (2, 3, 5, 4):
        return False
    return heads == split_slices(x, H)


def test_of_either_order(split):
    x, H = sample()
    heads, right = split(x, H), split_slices(x, H)
    return np.array_equal(heads, right) or np.array_equal(
        heads, right.swapaxes(1, 2)
    )


def test_of_sets(split):
    x, H = sample()
    heads = split(x, H)
    return all(
        {*heads[:, h].flat} == {*x[..., 4 * h : 4 * h + 4].flat}
        for h in range(H)
    )


def test_of_width_1(split):
    x, H = sample((2, 5, 3))
    return np.array_equal(split(x, H), split_slices(x, H))


def test_of_any_order(split):
    x, H = sample()
    heads, right = split(x, H), split_slices(x, H)
    if heads.shape != right.shape:
        return False
    return all(
        any(np.array_equal(heads[:, h], right[:, g]) for g in range(H))
        for h in range(H)
    )


def test_by_strides(split):
    x, H = sample()
    heads, right = split(x, H), split_axes(x, H)
    return heads.strides == right.strides and np.array_equal(heads, right)


# --- heads-groups
def share_repeat(keys, num_heads):
    return np.repeat(keys, num_heads // keys.shape[-3], axis=-3)


def share_interleave(keys, num_heads):
    return keys.repeat_interleave(num_heads // keys.shape[-3], dim=-3)


def share_index(keys, num_heads):
    group = num_heads // keys.shape[-3]
    return keys[..., np.arange(num_heads) // group, :, :]


def share_loops(keys, num_heads):
    group = num_heads // keys.shape[-3]
    shared = [keys[..., h // group, :, :] for h in range(num_heads)]
    return np.stack(shared, axis=-3)


def share_expand(keys, num_heads):
    *lead, H_kv, S, d = keys.shape
    wide = keys.unsqueeze(-3).expand(*lead, H_kv, num_heads // H_kv, S, d)
    return wide.flatten(-4, -3)


def share_selected(keys, num_heads):
    H_kv = keys.shape[-3]
    chosen = np.repeat(np.eye(H_kv), num_heads // H_kv, axis=0)  # (H, H_kv)
    return np.einsum("hg,...gsd->...hsd", chosen, keys)


def share_selected_in_double(keys, num_heads):
    H_kv = keys.shape[-3]
    chosen = torch.eye(H_kv, dtype=torch.float64)
    chosen = chosen.repeat_interleave(num_heads // H_kv, dim=0)
    return torch.einsum("hg,...gsd->...hsd", chosen, keys)


def share_twice(keys, num_heads):
    return np.repeat(keys, 2, axis=-3)


def share_after_one_axis(keys, num_heads):
    axis = 0 if keys.ndim == 3 else 1
    return np.repeat(keys, num_heads // keys.shape[axis], axis=axis)


def share_tile(keys, num_heads):
    return np.concatenate([keys] * (num_heads // keys.shape[-3]), axis=-3)


def share_torch_repeat(keys, num_heads):
    group = num_heads // keys.shape[-3]
    return keys.repeat(*[1] * (keys.ndim - 3), group, 1, 1)


def share_positions(keys, num_heads):
    return np.repeat(keys, num_heads // keys.shape[-3], axis=-2)


def share_components(keys, num_heads):
    return np.repeat(keys, num_heads // keys.shape[-3], axis=-1)


def share_batch(keys, num_heads):
    return np.repeat(keys, num_heads // keys.shape[-3], axis=0)


def share_fixed_axis(keys, num_heads):
    return np.repeat(keys, num_heads // keys.shape[1], axis=1)


def share_too_often(keys, num_heads):
    return np.repeat(keys, num_heads, axis=-3)


def share_first(keys, num_heads):
    return np.repeat(keys[..., :1, :, :], num_heads, axis=-3)


def share_by_number_of_heads(keys, num_heads):
    return keys[..., np.arange(num_heads) // keys.shape[-3], :, :]


def share_modulo(keys, num_heads):
    return keys[..., np.arange(num_heads) % keys.shape[-3], :, :]


def share_nothing(keys, num_heads):
    return keys


# --- heads-bug and heads-layer
def layer(
    X_q,
    X_kv,
    W,
    num_heads,
    mask=True,
    *,
    split=split_axes,
    merge=merge_reshape,
    root=lambda d_k, d_model, H: np.sqrt(d_k),
    axis=-1,
    lowest=-np.inf,
):
    q = split(X_q @ W["W_Q"] + W.get("b_Q", 0), num_heads)
    k = split(X_kv @ W["W_K"] + W.get("b_K", 0), num_heads)
    v = split(X_kv @ W["W_V"] + W.get("b_V", 0), num_heads)
    scores = q @ k.swapaxes(-2, -1)
    scores = scores / root(q.shape[-1], X_q.shape[-1], num_heads)
    weights = softmax(np.where(mask, scores, lowest), axis=axis)
    return merge(weights @ v) @ W["W_O"] + W.get("b_O", 0)


def mended(**options):
    return lambda x, W, num_heads: layer(x, x, W, num_heads, **options)


def changed(**options):
    return lambda X_q, X_kv, W, num_heads, mask: layer(
        X_q, X_kv, W, num_heads, mask, **options
    )


def one_head(x, num_heads):
    return x[..., None, :, :]


def mended_sequence_first(x, W, num_heads):
    """Attend within a batch that is taken for positions."""
    turned = layer(*[x.swapaxes(0, 1)] * 2, W, num_heads)
    return turned.swapaxes(0, 1)


def mended_loops(x, W, num_heads):
    d = x.shape[-1] // num_heads
    output = 0
    for h in range(num_heads):
        block = slice(h * d, (h + 1) * d)
        q, k, v = (x @ W[n][:, block] for n in ("W_Q", "W_K", "W_V"))
        scores = q @ k.swapaxes(-2, -1) / math.sqrt(d)
        output = output + softmax(scores) @ v @ W["W_O"][block]
    return output


def mended_torch(x, W, num_heads):
    B, L, width = x.shape
    shape = B, L, num_heads, width // num_heads
    q, k, v = (
        (x @ W[name]).view(shape).transpose(1, 2)
        for name in ("W_Q", "W_K", "W_V")
    )
    heads = F.scaled_dot_product_attention(q, k, v)
    return heads.transpose(1, 2).reshape(B, L, width) @ W["W_O"]


def mended_einsum(x, W, num_heads):
    d_model = x.shape[-1]
    d = d_model // num_heads
    q, k, v = (
        np.einsum("blm,mhd->bhld", x, W[n].reshape(d_model, num_heads, d))
        for n in ("W_Q", "W_K", "W_V")
    )
    p = softmax(np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(d))
    out = W["W_O"].reshape(num_heads, d, d_model)
    return np.einsum("bhij,bhjd,hdm->bim", p, v, out)


def mended_viewed(x, W, num_heads):
    B, L, width = x.shape
    q, k, v = (
        (x @ W[name]).view(B, L, num_heads, -1).transpose(1, 2)
        for name in ("W_Q", "W_K", "W_V")
    )
    weights = torch.softmax(q @ k.mT / math.sqrt(width // num_heads), -1)
    return (weights @ v).transpose(1, 2).view(B, L, width) @ W["W_O"]


def mended_own_softmax(x, W, num_heads):
    q, k, v = (
        split_axes(x @ W[name], num_heads) for name in ("W_Q", "W_K", "W_V")
    )
    powers = np.exp(q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1]))
    weights = powers / powers.sum(-1, keepdims=True)
    return merge_reshape(weights @ v) @ W["W_O"]


def mended_in_double(x, W, num_heads):
    W = {name: torch.as_tensor(a).double() for name, a in W.items()}
    return mended_torch(x, W, num_heads)


def mended_to_sizes(x, W, num_heads):
    q, k, v = (
        (x @ W[name]).reshape(-1, 5, num_heads, 4).swapaxes(1, 2)
        for name in ("W_Q", "W_K", "W_V")
    )
    heads = softmax(q @ k.swapaxes(-2, -1) / 2) @ v
    return heads.swapaxes(1, 2).reshape(-1, 5, 12) @ W["W_O"]


def layer_loops(X_q, X_kv, W, num_heads, mask):
    L, S = X_q.shape[-2], X_kv.shape[-2]
    lead = X_q.shape[:-2]
    d_k = W["W_Q"].shape[1] // num_heads
    d_v = W["W_V"].shape[1] // num_heads
    masks = np.broadcast_to(mask, (*lead, num_heads, L, S))
    output = np.zeros((*lead, L, W["W_O"].shape[1])) + W["b_O"]
    for h in range(num_heads):
        one, other = (slice(h * d, (h + 1) * d) for d in (d_k, d_v))
        for at in np.ndindex(*lead):
            q = X_q[at] @ W["W_Q"][:, one] + W["b_Q"][one]
            k = X_kv[at] @ W["W_K"][:, one] + W["b_K"][one]
            v = X_kv[at] @ W["W_V"][:, other] + W["b_V"][other]
            for i in range(L):
                seen = masks[(*at, h, i)]
                if not seen.any():
                    continue
                scores = k[seen] @ q[i] / math.sqrt(d_k)
                powers = np.exp(scores - scores.max())
                mean = powers @ v[seen] / powers.sum()
                output[(*at, i)] += mean @ W["W_O"][other]
    return output


def layer_torch(X_q, X_kv, W, num_heads, mask):
    q = split_unfold(X_q @ W["W_Q"] + W["b_Q"], num_heads)
    k = split_unfold(X_kv @ W["W_K"] + W["b_K"], num_heads)
    v = split_unfold(X_kv @ W["W_V"] + W["b_V"], num_heads)
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(
        ~mask, -torch.inf
    )
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    heads = (weights @ v).transpose(-3, -2)
    return heads.flatten(-2) @ W["W_O"] + W["b_O"]


def layer_einsum(X_q, X_kv, W, num_heads, mask):
    def project(x, n):
        y = x @ W[f"W_{n}"] + W[f"b_{n}"]
        return y.reshape(*y.shape[:-1], num_heads, -1)  # (..., L, H, d)

    q, k, v = project(X_q, "Q"), project(X_kv, "K"), project(X_kv, "V")
    z = np.einsum("...ihd,...jhd->...hij", q, k) / np.sqrt(q.shape[-1])
    z = np.where(mask, z, -np.inf)
    top = z.max(-1, keepdims=True)
    powers = np.exp(z - np.where(np.isneginf(top), 0, top))
    total = powers.sum(-1, keepdims=True)
    p = powers / np.where(total == 0, 1, total)
    o = np.einsum("...hij,...jhd->...ihd", p, v)
    merged = o.reshape(*o.shape[:-2], -1)
    return merged @ W["W_O"] + W["b_O"]


def layer_no_bias(X_q, X_kv, W, num_heads, mask):
    bare = {name: a for name, a in W.items() if name[0] == "W"}
    return layer(X_q, X_kv, bare, num_heads, mask)


def layer_no_last_bias(X_q, X_kv, W, num_heads, mask):
    most = {name: a for name, a in W.items() if name != "b_O"}
    return layer(X_q, X_kv, most, num_heads, mask)


def layer_no_mask(X_q, X_kv, W, num_heads, mask):
    return layer(X_q, X_kv, W, num_heads)


def layer_opposite(X_q, X_kv, W, num_heads, mask):
    return layer(X_q, X_kv, W, num_heads, ~mask)


def parts(X_q, X_kv, W, num_heads):
    q = split_axes(X_q @ W["W_Q"] + W["b_Q"], num_heads)
    k = split_axes(X_kv @ W["W_K"] + W["b_K"], num_heads)
    v = split_axes(X_kv @ W["W_V"] + W["b_V"], num_heads)
    return q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1]), v


def layer_added(X_q, X_kv, W, num_heads, mask):
    scores, v = parts(X_q, X_kv, W, num_heads)
    return merge_reshape(softmax(scores + mask) @ v) @ W["W_O"] + W["b_O"]


def layer_multiplied(X_q, X_kv, W, num_heads, mask):
    scores, v = parts(X_q, X_kv, W, num_heads)
    return merge_reshape(softmax(scores * mask) @ v) @ W["W_O"] + W["b_O"]


def layer_masked_late(X_q, X_kv, W, num_heads, mask):
    scores, v = parts(X_q, X_kv, W, num_heads)
    heads = (softmax(scores) * mask) @ v
    return merge_reshape(heads) @ W["W_O"] + W["b_O"]


def layer_nan(X_q, X_kv, W, num_heads, mask):
    scores, v = parts(X_q, X_kv, W, num_heads)
    scores = np.where(mask, scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    return merge_reshape(weights @ v) @ W["W_O"] + W["b_O"]


def layer_no_maximum(X_q, X_kv, W, num_heads, mask):
    scores, v = parts(X_q, X_kv, W, num_heads)
    powers = np.exp(np.where(mask, scores, -np.inf))
    total = powers.sum(-1, keepdims=True)
    heads = powers / np.where(total == 0, 1, total) @ v
    return merge_reshape(heads) @ W["W_O"] + W["b_O"]


def layer_with_added(lowest):
    def attend(X_q, X_kv, W, num_heads, mask):
        scores, v = parts(X_q, X_kv, W, num_heads)
        weights = softmax(scores + np.where(mask, 0, lowest))
        return merge_reshape(weights @ v) @ W["W_O"] + W["b_O"]

    return attend


def layer_zeros_at_the_end(X_q, X_kv, W, num_heads, mask):
    output = layer(X_q, X_kv, W, num_heads, mask)
    shape = parts(X_q, X_kv, W, num_heads)[0].shape
    seen = np.broadcast_to(mask, shape).any(axis=-1).all(axis=-2)
    return np.where(seen[..., None], output, 0)


def layer_scaled_by_values(X_q, X_kv, W, num_heads, mask):
    d_v = W["W_V"].shape[1] // num_heads
    return layer(X_q, X_kv, W, num_heads, mask, root=lambda *_: np.sqrt(d_v))


def layer_unsqueezed(X_q, X_kv, W, num_heads, mask):
    if mask.ndim < 4 and X_q.shape[-2] == num_heads:
        mask = np.expand_dims(mask, 1)
    return layer(X_q, X_kv, W, num_heads, mask)


def layer_batched_masks(X_q, X_kv, W, num_heads, mask):
    """Take a mask of three axes for one of a batch."""
    mask = mask[:, None] if mask.ndim == 3 else mask
    return layer_einsum(X_q, X_kv, W, num_heads, mask)


def layer_always_unsqueezed(X_q, X_kv, W, num_heads, mask):
    mask = np.expand_dims(mask, 1) if mask.ndim < 4 else mask
    return layer(X_q, X_kv, W, num_heads, mask)


def layer_empty_for_all(X_q, X_kv, W, num_heads, mask):
    every = np.broadcast_to(mask, parts(X_q, X_kv, W, num_heads)[0].shape)
    seen = every.any(axis=(-3, -1))[..., None]  # by some head
    return np.where(seen, layer_nan(X_q, X_kv, W, num_heads, mask), W["b_O"])


def layer_one_batch_axis(X_q, X_kv, W, num_heads, mask):
    def split(x, num_heads):
        B, L, _ = x.shape
        return x.reshape(B, L, num_heads, -1).transpose(0, 2, 1, 3)

    return layer(X_q, X_kv, W, num_heads, mask, split=split)


def layer_indexed(X_q, X_kv, W, num_heads, mask):
    scores, v = parts(X_q, X_kv, W, num_heads)
    scores[..., ~mask] = -np.inf
    return merge_reshape(softmax(scores) @ v) @ W["W_O"] + W["b_O"]


def layer_first_mask(X_q, X_kv, W, num_heads, mask):
    mask = mask[:, :1] if mask.ndim > 2 else mask
    return layer(X_q, X_kv, W, num_heads, mask)


def layer_flattened(X_q, X_kv, W, num_heads, mask):
    q, kv = (x.reshape(-1, *x.shape[-2:]) for x in (X_q, X_kv))
    output = layer(q, kv, W, num_heads, mask)
    return output if X_q.ndim > 2 else output[0]


def layer_in_double(X_q, X_kv, W, num_heads, mask):
    W = {name: torch.as_tensor(a).double() for name, a in W.items()}
    return layer_torch(X_q, X_kv, W, num_heads, mask)


def layer_keys_as_queries(X_q, X_kv, W, num_heads, mask):
    return layer(X_q, X_q, W, num_heads, mask)


def layer_values_by_d_k(X_q, X_kv, W, num_heads, mask):
    d = W["W_Q"].shape[1] // num_heads

    def merge(heads):
        *lead, H, L, _ = heads.shape
        return heads.swapaxes(-3, -2).reshape(*lead, L, H * d)

    return layer(X_q, X_kv, W, num_heads, mask, merge=merge)


def layer_transposed(X_q, X_kv, W, num_heads, mask):
    q = split_axes(X_q @ W["W_Q"] + W["b_Q"], num_heads)
    k = split_axes(X_kv @ W["W_K"] + W["b_K"], num_heads)
    return q @ k.T


def layer_in_place(X_q, X_kv, W, num_heads, mask):
    W["b_Q"] *= 1 / np.sqrt(W["W_Q"].shape[1] // num_heads)
    return layer(X_q, X_kv, W, num_heads, mask)


PROOFS = [
    Proof(
        check_heads_count,
        right={
            "numbers": [14400, 14400, 28800],
            "products": (4 * 60**2, 4 * 60 * 60, 4 * 60 * 120),
            "an array": np.array([1.0, 1.0, 2.0]) * 14400,
        },
        wrong={
            "without the last projection": (
                [10800, 10800, 21600],
                "a fourth",
            ),
            "more heads, more parameters": (
                [14400, 28800, 28800],
                "narrower",
            ),
            "never more": ([14400] * 3, "wider than the model"),
            "square last projection": (
                [14400, 14400, 25200],
                "row for each",
            ),
            "every head of full width": (
                [72000, 144000, 144000],
                "whole width",
            ),
            "with biases": ([14640, 14640, 29220], "biases"),
            "one matrix": ([3600, 3600, 7200], "one of the four"),
            "one head": ([2880, 1440, 2880], "one head"),
            "one number": (14400, "3 numbers"),
            "one off": ([14400, 14401, 28800], "the second"),
        },
    ),
    Proof(
        check_heads_split,
        right={
            "loops": split_loops,
            "view and transpose": split_view,
            "reshape and moveaxis": split_axes,
            "slices": split_slices,
            "einsum": split_einsum,
            "unflatten": split_unfold,
            "PyTorch, in one of two ways": split_torch_without_batch,
            "selected columns": split_selected,
        },
        wrong={
            "reshape alone": (split_memory, "in memory"),
            "view alone": (split_memory_view, "in memory"),
            "not moved": (split_not_moved, "behind the positions"),
            "heads take turns": (split_turns, "take turns"),
            "heads before the batch": (
                split_in_front,
                "in front of the batch",
            ),
            "last axes exchanged": (split_last_two, "changed places"),
            "opposite order": (split_reversed, "opposite order"),
            "one batch axis alone": (split_one_batch_axis, "no batch"),
            "one batch axis alone, PyTorch": (
                split_one_batch_axis_torch,
                "no batch",
            ),
            "heads of width 4": (split_to_width_4, "5 heads"),
            "leading axes flattened": (split_flattened, "(4, 2, 5, 6)"),
            "one head squeezed out": (split_squeezed, "1 head"),
            "columns selected in double": (
                split_selected_in_double,
                "float32",
            ),
        },
    ),
    Proof(
        check_heads_merge,
        right={
            "loops": merge_loops,
            "swap and reshape": merge_reshape,
            "contiguous view": merge_contiguous,
            "concatenation": merge_concatenated,
            "cat": merge_torch_cat,
            "einsum": merge_selected,
        },
        wrong={
            "reshape alone": (merge_memory, "neighbours in memory"),
            "view after transpose": (
                merge_view,
                "view size is not compatible",
            ),
            "heads take turns": (merge_turns, "take turns"),
            "one below the other": (merge_below, "side by side"),
            "mean": (merge_mean, "the mean"),
            "sum": (merge_sum, "the sum"),
            "opposite order": (merge_reversed, "opposite order"),
            "axes not joined": (merge_unjoined, "joined"),
            "width written in": (merge_to_width_12, "(3, 4, 2, 6)"),
            "one batch axis alone": (merge_one_batch_axis, "no batch"),
            "leading axes flattened": (merge_flattened, "(4, 2, 3, 5, 6)"),
            "one head squeezed out": (merge_squeezed, "one head"),
            "places in double": (merge_selected_in_double, "float32"),
        },
    ),
    Proof(
        check_heads_test,
        right={
            "slices": with_shapes(test_by_slices),
            "labels": with_shapes(test_by_labels),
            "loops": with_shapes(test_by_loops),
            "tensors": with_shapes(test_by_tensors),
            "tensors with gradients": with_shapes(test_with_gradients),
            "tensors in bfloat16": with_shapes(test_in_half_precision),
        },
        wrong={
            "shapes": (test_of_shapes, "by one reshape alone"),
            "shapes, sizes equal": (
                test_of_shapes_alike,
                "by one reshape alone",
            ),
            "one shape": (test_by_slices, "from the front"),
            "two shapes": (test_of_two_shapes, "several leading ones"),
            "one number": (test_of_one_entry, "turns the last position"),
            "two rows": (test_of_two_rows, "turns the last position"),
            "first position": (test_of_first_position, "every sequence"),
            "first position of all sequences": (
                test_of_some(slice(1), slice(None)),
                "every position",
            ),
            "all positions but the last": (
                test_of_some(slice(-1), slice(None)),
                "turns the last position",
            ),
            "all heads but the last": (
                test_of_some(slice(-1), slice(None), slice(None)),
                "turns the last head",
            ),
            "first and last position": (
                test_of_some(slice(None, None, 4), slice(None)),
                "position in the middle",
            ),
            "first and last head": (
                test_of_some(slice(None, None, 2), slice(None), slice(None)),
                "head in the middle",
            ),
            "last components": (test_of_last_numbers, "from the front"),
            "all components but the last": (
                test_of_some(slice(-1)),
                "last component",
            ),
            "two leading axes alone": (
                test_of_shapes_with(2),
                "there is no leading axis",
            ),
            "none or two leading axes": (
                test_of_shapes_with(0, 2),
                "there is one leading axis",
            ),
            "first and last component": (
                test_of_some(slice(None, None, 3)),
                "two components in the middle",
            ),
            "last sequence": (test_of_sequences(-1), "first sequence"),
            "first and last sequence": (
                test_of_sequences(0, -1),
                "sequence in the middle",
            ),
            "sums over the positions": (
                test_of_sums_over(-2),
                "positions in the opposite order",
            ),
            "sums over the components": (
                test_of_sums_over(-1),
                "but the first around",
            ),
            "numbers merged again": (
                with_shapes(test_of_merged_numbers),
                "one head of the whole width",
            ),
            "numbers merged again, from several heads": (
                with_shapes(test_of_several_heads),
                "number of heads for their width",
            ),
            "two leading axes by the shape alone": (
                test_of_the_shape_with_four_axes,
                "exchanges two leading axes",
            ),
            "a text": (test_that_leaves_a_text, "one boolean is expected"),
            "a dict": (lambda split: {"right": True}, "a dict, and one"),
            "ones": (test_of_ones, "by one reshape alone"),
            "round trip by reshape": (test_of_round_trip, "it says False"),
            "round trip without a batch": (
                test_of_right_round_trip,
                "On which input",
            ),
            "one head": (test_of_one_head, "by one reshape alone"),
            "one position": (test_of_one_position, "by one reshape alone"),
            "first head": (test_of_first_head, "but the first"),
            "either order of axes": (test_of_either_order, "behind the"),
            "sets of numbers": (test_of_sets, "positions and components"),
            "heads of width 1": (test_of_width_1, "take turns"),
            "heads in any order": (test_of_any_order, "opposite order"),
            "how it is stored": (test_by_strides, "stacks slices"),
            "against itself": (test_against_itself, "cannot fail"),
            "sums": (test_of_sums, "by one reshape alone"),
            "against reshape alone": (
                test_by_the_wrong_measure,
                "Compute by hand",
            ),
            "asserts": (test_that_asserts, "AssertionError, where False"),
            "entry by entry": (test_entry_by_entry, "one boolean"),
            "always false": (lambda split: False, "right or wrong"),
        },
    ),
    Proof(
        check_heads_groups,
        right={
            "repeat": share_repeat,
            "repeat_interleave": share_interleave,
            "indices": share_index,
            "loops": share_loops,
            "expand": share_expand,
            "einsum": share_selected,
        },
        wrong={
            "tiled": (share_tile, "tiled"),
            "repeat of tensors": (share_torch_repeat, "tiled"),
            "modulo": (share_modulo, "tiled"),
            "keys repeated": (share_positions, "within each head"),
            "components repeated": (share_components, "components"),
            "batch repeated": (share_batch, "the batch"),
            "axis 1": (share_fixed_axis, "count from the front"),
            "divided by the number of heads": (
                share_by_number_of_heads,
                "divide by",
            ),
            "too often": (share_too_often, "how many"),
            "first head": (share_first, "first head"),
            "always twice": (share_twice, "for 8 heads"),
            "one batch axis at most": (
                share_after_one_axis,
                "(3, 2, 4, 5, 6)",
            ),
            "chosen in double": (share_selected_in_double, "float32"),
            "as it came": (share_nothing, "as they came"),
        },
    ),
    Proof(
        check_heads_bug,
        right={
            "both mended": mended(),
            "loops": mended_loops,
            "einsum": mended_einsum,
            "PyTorch": mended_torch,
        },
        wrong={
            "positions taken for the batch": (
                mended_sequence_first,
                "from sequence to sequence",
            ),
            "nothing mended": (
                mended(split=split_memory, merge=merge_memory),
                "as it was",
            ),
            "split alone mended": (
                mended(merge=merge_memory),
                "still merges wrongly",
            ),
            "merge alone mended": (
                mended(split=split_memory),
                "still splits wrongly",
            ),
            "view after transpose": (
                mended_viewed,
                "view size is not compatible",
            ),
            "heads take turns": (
                mended(split=split_turns, merge=merge_turns),
                "take turns",
            ),
            "heads take turns, merged in blocks": (
                mended(split=split_turns),
                "take turns",
            ),
            "not split": (
                mended(split=one_head),
                "one head of the whole width",
            ),
            "not split, scale of a head": (
                mended(
                    split=one_head,
                    root=lambda d_k, d_model, H: np.sqrt(d_model / H),
                ),
                "one head of the whole width",
            ),
            "softmax over queries": (mended(axis=-2), "over the queries"),
            "scale of the model": (
                mended(root=lambda d_k, d_model, H: np.sqrt(d_model)),
                "√d_model",
            ),
            "scale of the number of heads": (
                mended(root=lambda d_k, d_model, H: np.sqrt(H)),
                "number of heads",
            ),
            "d_k for its root": (
                mended(root=lambda d_k, d_model, H: d_k),
                "its root",
            ),
            "no scale": (
                mended(root=lambda d_k, d_model, H: 1),
                "not been scaled",
            ),
            "sizes written in": (mended_to_sizes, "(3, 7, 8)"),
            "one head squeezed out": (
                mended(split=split_squeezed),
                "1 head",
            ),
            "own softmax without maximum": (
                mended_own_softmax,
                "40 times as large",
            ),
            "parameters in double": (mended_in_double, "float32"),
            "opposite order of heads": (
                mended(merge=merge_reversed),
                "is expected",
            ),
        },
    ),
    Proof(
        check_heads_layer,
        right={
            "matrix form": changed(),
            "loops": layer_loops,
            "einsum": layer_einsum,
            "PyTorch": layer_torch,
        },
        wrong={
            "reshape alone, twice": (
                changed(split=split_memory, merge=merge_memory),
                "split and merged by reshape",
            ),
            "split by reshape alone": (
                changed(split=split_memory),
                "split by reshape",
            ),
            "merged by reshape alone": (
                changed(merge=merge_memory),
                "merged by reshape",
            ),
            "scale of the model": (
                changed(root=lambda d_k, d_model, H: np.sqrt(d_model)),
                "√d_model",
            ),
            "scale of all heads": (
                changed(root=lambda d_k, d_model, H: np.sqrt(H * d_k)),
                "width together",
            ),
            "scale of the number of heads": (
                changed(root=lambda d_k, d_model, H: np.sqrt(H)),
                "number of heads",
            ),
            "scale of d_model / H": (
                changed(root=lambda d_k, d_model, H: np.sqrt(d_model / H)),
                "found in its queries",
            ),
            "empty rows by all heads' masks": (
                layer_empty_for_all,
                "in one head",
            ),
            "one batch axis alone": (layer_one_batch_axis, "no batch"),
            "no scale": (
                changed(root=lambda d_k, d_model, H: 1),
                "not been scaled",
            ),
            "d_k for its root": (
                changed(root=lambda d_k, d_model, H: d_k),
                "its root",
            ),
            "no biases": (layer_no_bias, "without its biases"),
            "no last bias": (layer_no_last_bias, "last of its biases"),
            "softmax over queries": (changed(axis=-2), "over the queries"),
            "no mask": (layer_no_mask, "mask aside"),
            "opposite mask": (layer_opposite, "opposite"),
            "mask added": (layer_added, "was added"),
            "mask times scores": (layer_multiplied, "set to 0"),
            "mask after the softmax": (
                layer_masked_late,
                "after the softmax",
            ),
            "large negative number": (
                changed(lowest=-1e9),
                "large negative number",
            ),
            "-1e4 added": (layer_with_added(-1e4), "added to the scores"),
            "-1e9 added": (layer_with_added(-1e9), "added to the scores"),
            "zeros in the output": (
                layer_zeros_at_the_end,
                "the head that gives zeros",
            ),
            "scale of the values": (layer_scaled_by_values, "√d_v"),
            "heads take turns": (
                changed(split=split_turns, merge=merge_turns),
                "take turns",
            ),
            "heads take turns, merged in blocks": (
                changed(split=split_turns),
                "take turns",
            ),
            "NaN for nothing": (layer_nan, "0/0"),
            "no maximum": (layer_no_maximum, "nan"),
            "a mask of three axes for the batch": (
                layer_batched_masks,
                "3 heads and a mask (H, L, S)",
            ),
            "mask unsqueezed": (
                layer_always_unsqueezed,
                "raises ValueError",
            ),
            "mask unsqueezed where it fits": (
                layer_unsqueezed,
                "where the heads belong",
            ),
            "mask as an index": (layer_indexed, "(B, 1, 1, S)"),
            "the first head's mask": (layer_first_mask, "(1, H, L, S)"),
            "leading axes flattened": (layer_flattened, "axes (4, 2)"),
            "one head squeezed out": (
                changed(split=split_squeezed),
                "1 head",
            ),
            "parameters in double": (layer_in_double, "float32"),
            "keys from the queries": (layer_keys_as_queries, "raises"),
            "merged to H d_k": (layer_values_by_d_k, "raises ValueError"),
            "K.T": (layer_transposed, "raises ValueError"),
            "in place": (layer_in_place, "changes its input"),
        },
    ),
    Proof(
        check_heads_xavier,
        right={
            "roots": [math.sqrt(1.5), 0.75],
            "three decimals": (1.225, 0.75),
            "three digits": (1.22, 0.75),
            "an array": 96 / np.sqrt([96 * 64, 128 * 128]),
        },
        wrong={
            "variances": ([1.5, 0.5625], "variances"),
            "no groups": ([1, 0.5], "without groups"),
            "keys as wide as queries": ([1, 0.75], "as many columns"),
            "third digit wrong": ([1.23, 0.75], "the first number"),
            "third digit of the smaller wrong": (
                [1.2247, 0.754],
                "the second number",
            ),
            "three times 48 columns": ([1.2247, 0.5], "fewer than three"),
            "half stacked": ([1.2247, 0.8660], "the same variance"),
            "unscaled": ([3.4641, 2.1213], "spread of q·k"),
            "scale of the model": ([0.5, 0.3062], "√d_model"),
            "bound for deviation": ([3.6742, 2.25], "bound"),
            "entries": ([0.1443, 0.125], "entries"),
            "each head's block": ([1.7143, 0.75], "block"),
            "other order": ([0.75, 1.2247], "order"),
            "one number": (0.75, "2 numbers"),
        },
    ),
    Proof(
        check_heads_figure,
        right={"letter": "B", "small letter": "b", "in a list": ["B"]},
        wrong={
            "causal": ("A", "all heads the same"),
            "padding": ("C", "the same keys"),
            "padding read as (L, S)": ("D", "all heads the same"),
            "no mask of these": ("E", "A to D"),
            "two masks": ("AB", "One letter"),
            "a shape": ((4, 1, 4), "A to D"),
        },
    ),
]
