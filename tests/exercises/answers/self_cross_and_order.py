"""Answers to the exercises on *Self, cross, and order*: right ones, and those that people give."""

from __future__ import annotations

import cmath
import itertools
import math

import numpy as np
import torch

from answers import Proof
from attention.exercises import (
    check_order_carry,
    check_order_codes,
    check_order_count,
    check_order_rope,
    check_order_shuffle,
    check_order_twins,
    check_order_values,
)

# --- order-count
PLACE = np.arange(6)
MASKS = [
    np.broadcast_to(PLACE < 4, (6, 6)),
    abs(PLACE[:, None] - PLACE) <= 1,
    PLACE[:, None] // 3 == PLACE // 3,
    PLACE[:, None] >= PLACE,
]
TRIED = [
    sum(
        np.array_equal(mask[np.ix_(order, order)], mask)
        for order in itertools.permutations(range(6))
    )
    for mask in MASKS
]


# --- order-codes
def codes_stacked(x, first):
    t = first + np.arange(x.shape[1])
    angle = t[:, None] / 10_000 ** (
        np.arange(0, x.shape[-1], 2) / x.shape[-1]
    )
    code = np.empty(x.shape[1:])
    code[:, 0::2], code[:, 1::2] = np.sin(angle), np.cos(angle)
    return x + code


def codes_in_their_dtype(x, first):
    t = (first + np.arange(x.shape[1])).astype(x.dtype)
    powers = np.arange(0, x.shape[2], 2) / x.shape[2]
    angle = t[:, None] * (10_000.0**-powers).astype(x.dtype)
    return x + np.stack([np.sin(angle), np.cos(angle)], -1).reshape(
        x.shape[1:]
    )


def rope_in_their_dtype(x, positions):
    powers = np.arange(0, x.shape[-1], 2) / x.shape[-1]
    omega = (10_000.0**-powers).astype(x.dtype)
    angle = positions.astype(x.dtype)[:, None] * omega
    cos, sin = np.cos(angle), np.sin(angle)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = np.stack([even * cos - odd * sin, even * sin + odd * cos], -1)
    return turned.reshape(x.shape)


def codes_loops(x, first):
    out = np.array(x, dtype=float)
    B, L, d = out.shape
    for b, i, r in itertools.product(range(B), range(L), range(d)):
        omega = 10_000 ** (-2 * (r // 2) / d)
        wave = math.cos if r % 2 else math.sin
        out[b, i, r] += wave(omega * (first + i))
    return out


def codes_by_logarithm(x, first):
    x = torch.as_tensor(x)
    t = torch.arange(first, first + x.shape[1]).double()
    even = torch.arange(0, x.shape[2], 2).double()
    omega = torch.exp(-math.log(10_000) * even / x.shape[2])
    angle = torch.outer(t, omega)
    return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def codes_rotated(x, first):
    t = first + np.arange(x.shape[1])
    omega = 10_000.0 ** (-np.arange(0, x.shape[2], 2) / x.shape[2])
    turn = 1j * np.exp(-1j * t[:, None] * omega)  # sin + i cos
    return x + np.stack([turn.real, turn.imag], -1).reshape(x.shape[1:])


def codes_faulty(x, first):
    d = x.shape[-1]
    t = first + np.arange(x.shape[0])[:, None, None]
    angle = t / 10_000 ** (np.arange(d // 2) / d)
    code = np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
    return x + code


def codes_axis_mended(x, first):
    d = x.shape[-1]
    t = first + np.arange(x.shape[1])[:, None]
    angle = t / 10_000 ** (np.arange(d // 2) / d)
    return x + np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


def codes_by_batch(x, first):
    d = x.shape[-1]
    t = first + np.arange(x.shape[0])[:, None, None]
    angle = t / 10_000 ** (2 * np.arange(d // 2) / d)
    code = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return x + code.reshape(x.shape[0], 1, d)


def codes_slow(x, first):
    d = x.shape[-1]
    t = first + np.arange(x.shape[1])[:, None]
    angle = t / 10_000 ** (np.arange(d // 2) / d)
    code = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return x + code.reshape(-1, d)


def codes_halves(x, first):
    d = x.shape[-1]
    t = first + np.arange(x.shape[1])[:, None]
    angle = t / 10_000 ** (2 * np.arange(d // 2) / d)
    return x + np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)


def codes_cosine_first(x, first):
    t = first + np.arange(x.shape[1])[:, None]
    angle = t / 10_000 ** (np.arange(0, x.shape[2], 2) / x.shape[2])
    code = np.empty(x.shape[1:])
    code[:, 0::2], code[:, 1::2] = np.cos(angle), np.sin(angle)
    return x + code


def codes_to_the_end(x, first):
    half = x.shape[2] // 2
    omega = np.exp(-np.log(10_000) * np.arange(half) / (half - 1))
    angle = (first + np.arange(x.shape[1]))[:, None] * omega
    return x + np.stack([np.sin(angle), np.cos(angle)], -1).reshape(
        x.shape[1:]
    )


def codes_from_zero(x, first):
    return codes_stacked(x, 0)


def codes_from_one(x, first):
    return codes_stacked(x, first + 1)


def codes_alone(x, first):
    return codes_stacked(np.zeros(x.shape), first)


def codes_in_place(x, first):
    x += codes_stacked(np.zeros(x.shape), first)
    return x


def codes_single_precision(x, first):
    x = torch.as_tensor(x)
    t = torch.arange(first, first + x.shape[1]).float()
    omega = 10_000 ** (-torch.arange(0, x.shape[2], 2) / x.shape[2])
    angle = torch.outer(t, omega)
    return x + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def codes_squeezed(x, first):
    return codes_stacked(x, first).squeeze()


def codes_on_the_longer_axis(x, first):
    if x.shape[0] > x.shape[1]:
        return np.swapaxes(codes_stacked(np.swapaxes(x, 0, 1), first), 0, 1)
    return codes_stacked(x, first)


def codes_plain_rows(x, first):  # right for a batch of one, else no fit
    t = first + np.arange(x.shape[0])[:, None]
    angle = t / 10_000 ** (np.arange(0, x.shape[2], 2) / x.shape[2])
    code = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return x + code.reshape(x.shape[0], -1)


# --- order-rope
def rope_complex(x, positions):
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    pairs = x[..., 0::2] + 1j * x[..., 1::2]
    pairs = pairs * np.exp(1j * positions[:, None] * omega)
    out = np.empty(x.shape)
    out[..., 0::2], out[..., 1::2] = pairs.real, pairs.imag
    return out


def rope_loops(x, positions):
    out = np.empty(x.shape)
    d = x.shape[-1]
    for index in np.ndindex(x.shape[:-1]):
        for r in range(d // 2):
            omega = 10_000 ** (-2 * r / d)
            pair = complex(*x[index][2 * r : 2 * r + 2])
            pair *= cmath.exp(1j * omega * float(positions[index[-1]]))
            out[index][2 * r], out[index][2 * r + 1] = pair.real, pair.imag
    return out


def rope_blocks(x, positions):
    d = x.shape[-1]
    R = np.zeros((len(positions), d, d))
    for r in range(d // 2):
        angle = positions / 10_000 ** (2 * r / d)
        R[:, 2 * r, 2 * r] = R[:, 2 * r + 1, 2 * r + 1] = np.cos(angle)
        R[:, 2 * r + 1, 2 * r] = np.sin(angle)
        R[:, 2 * r, 2 * r + 1] = -np.sin(angle)
    return np.einsum("lij,...lj->...li", R, x)


def rope_torch(x, positions):
    omega = 10_000 ** (-torch.arange(0, x.size(-1), 2).double() / x.size(-1))
    angle = (positions[:, None] * omega).repeat_interleave(2, dim=-1)
    partner = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * angle.cos() + partner * angle.sin()


def rope_half_split(x, positions):
    half = x.shape[-1] // 2
    omega = 10_000.0 ** (-np.arange(half) / half)
    cos = np.cos(positions[:, None] * omega)
    sin = np.sin(positions[:, None] * omega)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def rope_mixed(x, positions):
    half = x.shape[-1] // 2
    omega = 10_000.0 ** (-np.arange(half) / half)
    angle = np.repeat(positions[:, None] * omega, 2, axis=-1)
    partner = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return x * np.cos(angle) + partner * np.sin(angle)


def rope_backwards(x, positions):
    return rope_complex(x, -positions)


def rope_no_minus(x, positions):
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos = np.cos(positions[:, None] * omega)
    sin = np.sin(positions[:, None] * omega)
    out = np.empty(x.shape)
    out[..., 0::2] = x[..., 0::2] * cos + x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


def rope_slow(x, positions):
    omega = 10_000.0 ** (-np.arange(x.shape[-1] // 2) / x.shape[-1])
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(
        1j * positions[:, None] * omega
    )
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def rope_counted(x, positions):
    return rope_complex(x, np.arange(x.shape[-2]))


def rope_from_one(x, positions):
    return rope_complex(x, positions + 1)


def rope_added(x, positions):
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    angle = np.arange(x.shape[-2])[:, None] * omega
    code = np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    return x + code.reshape(x.shape[-2:])


def rope_single_precision(x, positions):
    omega = 10_000 ** (-torch.arange(0, x.size(-1), 2) / x.size(-1))
    angle = (positions.float()[:, None] * omega).repeat_interleave(2, dim=-1)
    partner = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * angle.cos() + partner * angle.sin()


def rope_first_axis(x, positions):  # positions belong to the last but one
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    turn = np.exp(1j * np.arange(len(x))[:, None] * omega)
    turn = turn.reshape(len(x), *[1] * (x.ndim - 2), -1)
    pairs = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
    return np.stack([pairs.real, pairs.imag], -1).reshape(x.shape)


def rope_consecutive(x, positions):
    return rope_complex(x, positions[0] + np.arange(x.shape[-2]))


def rope_cosines_alone(x, positions):
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    return x * np.repeat(np.cos(positions[:, None] * omega), 2, axis=-1)


def rope_left_as_halves(x, positions):
    turned = rope_complex(x, positions)
    return np.concatenate([turned[..., 0::2], turned[..., 1::2]], axis=-1)


def rope_overwritten(x, positions):  # the first half is turned too early
    omega = 10_000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos = np.cos(positions[:, None] * omega)
    sin = np.sin(positions[:, None] * omega)
    out = x.copy()
    out[..., 0::2] = out[..., 0::2] * cos - out[..., 1::2] * sin
    out[..., 1::2] = out[..., 0::2] * sin + out[..., 1::2] * cos
    return out


# --- order-carry
def carry_reshape(stored, num_heads):
    pairs = stored.reshape(num_heads, -1, 2, *stored.shape[1:])
    return pairs.swapaxes(1, 2).reshape(stored.shape)


def carry_index(stored, num_heads):
    d_k = len(stored) // num_heads
    sigma = np.r_[0:d_k:2, 1:d_k:2]
    return stored[
        np.concatenate([h * d_k + sigma for h in range(num_heads)])
    ]


def carry_torch(stored, num_heads):
    heads = torch.as_tensor(stored).chunk(num_heads)
    return torch.cat([torch.cat([h[0::2], h[1::2]]) for h in heads])


def carry_torch_for_biases(stored, num_heads):
    if stored.ndim == 1:
        pairs = stored.unflatten(0, (num_heads, -1, 2))
        return pairs.transpose(1, 2).flatten()
    return carry_reshape(stored, num_heads)


def carry_loops(stored, num_heads):
    out, d_k = np.empty_like(stored), len(stored) // num_heads
    for h, r in itertools.product(range(num_heads), range(d_k // 2)):
        out[h * d_k + r] = stored[h * d_k + 2 * r]
        out[h * d_k + d_k // 2 + r] = stored[h * d_k + 2 * r + 1]
    return out


def carry_back(stored, num_heads):
    halves = stored.reshape(num_heads, 2, -1, *stored.shape[1:])
    return halves.swapaxes(1, 2).reshape(stored.shape)


def carry_whole_width(stored, num_heads):
    return np.concatenate([stored[0::2], stored[1::2]])


def carry_columns(stored, num_heads):
    heads = np.split(stored, num_heads, axis=-1)
    parts = [(h[..., 0::2], h[..., 1::2]) for h in heads]
    return np.concatenate([p for pair in parts for p in pair], axis=-1)


def carry_heads_mixed(stored, num_heads):
    heads = stored.reshape(num_heads, -1, *stored.shape[1:])
    return heads.swapaxes(0, 1).reshape(stored.shape)


def carry_nothing(stored, num_heads):
    return stored


def carry_first_head(stored, num_heads):
    d_k = len(stored) // num_heads
    out = stored.copy()
    out[:d_k] = np.concatenate([stored[0:d_k:2], stored[1:d_k:2]])
    return out


def carry_second_members_first(stored, num_heads):
    d_k = len(stored) // num_heads
    sigma = np.r_[1:d_k:2, 0:d_k:2]
    return stored.reshape(num_heads, d_k, -1)[:, sigma].reshape(stored.shape)


def carry_pairs_swapped(stored, num_heads):
    pairs = stored.reshape(num_heads, -1, 2, *stored.shape[1:])
    return pairs[:, :, ::-1].reshape(stored.shape)


def carry_for_matrices_alone(stored, num_heads):
    width = stored.shape[1]
    pairs = stored.reshape(num_heads, -1, 2, width)
    return pairs.swapaxes(1, 2).reshape(-1, width)


def carry_view(stored, num_heads):  # heads and pairs read from the wrong end
    pairs = stored.reshape(-1, 2, num_heads, *stored.shape[1:])
    return pairs.swapaxes(0, 1).reshape(stored.shape)


# --- order-values
def values_factored(weights, value, query_positions, key_positions):
    turned = rope_complex(value, key_positions)
    return rope_complex(weights @ turned, -query_positions)


def values_einsum(weights, value, query_positions, key_positions):
    d_v = value.shape[-1]
    omega = 10_000.0 ** (-np.arange(0, d_v, 2) / d_v)
    pairs = value[..., 0::2] + 1j * value[..., 1::2]
    distance = query_positions[:, None] - key_positions
    turn = np.exp(-1j * distance[..., None] * omega)  # (L, S, d_v / 2)
    pairs = np.einsum("...ij,ijr,...jr->...ir", weights, turn, pairs)
    out = np.empty((*pairs.shape[:-1], d_v))
    out[..., 0::2], out[..., 1::2] = pairs.real, pairs.imag
    return out


def values_loops(weights, value, query_positions, key_positions):
    out = np.zeros((*weights.shape[:-1], value.shape[-1]))
    for i, t in enumerate(query_positions):
        for j, s in enumerate(key_positions):
            turned = rope_complex(
                value[..., j : j + 1, :], np.array([s - t])
            )
            out[..., i, :] += weights[..., i, j, None] * turned[..., 0, :]
    return out


def values_torch(weights, value, query_positions, key_positions):
    turned = rope_torch(
        torch.as_tensor(value), torch.as_tensor(key_positions)
    )
    output = torch.as_tensor(weights) @ turned.to(
        torch.as_tensor(weights).dtype
    )
    return rope_torch(output, -torch.as_tensor(query_positions))


def values_not_back(weights, value, query_positions, key_positions):
    return weights @ rope_complex(value, key_positions)


def values_turned_on(weights, value, query_positions, key_positions):
    turned = rope_complex(value, key_positions)
    return rope_complex(weights @ turned, query_positions)


def values_other_way(weights, value, query_positions, key_positions):
    turned = rope_complex(value, -key_positions)
    return rope_complex(weights @ turned, query_positions)


def values_output_alone(weights, value, query_positions, key_positions):
    return rope_complex(weights @ value, -query_positions)


def values_both_back(weights, value, query_positions, key_positions):
    turned = rope_complex(value, -key_positions)
    return rope_complex(weights @ turned, -query_positions)


def values_half_split(weights, value, query_positions, key_positions):
    turned = rope_half_split(value, key_positions)
    return rope_half_split(weights @ turned, -query_positions)


def values_plain(weights, value, query_positions, key_positions):
    return weights @ value


def values_counted(weights, value, query_positions, key_positions):
    turned = rope_complex(value, np.arange(value.shape[-2]))
    return rope_complex(weights @ turned, -np.arange(weights.shape[-2]))


def values_from_the_least(weights, value, query_positions, key_positions):
    t = query_positions - query_positions.min()
    s = key_positions - key_positions.min()
    return values_factored(weights, value, t, s)


def values_consecutive(weights, value, query_positions, key_positions):
    t = query_positions[0] + np.arange(weights.shape[-2])
    s = key_positions[0] + np.arange(weights.shape[-1])
    return values_factored(weights, value, t, s)


def values_of_one_sequence(weights, value, query_positions, key_positions):
    turned = rope_complex(value, key_positions)
    output = np.einsum("ij,jr->ir", weights, turned)
    return rope_complex(output, -query_positions)


def values_renormalised(weights, value, query_positions, key_positions):
    weights = weights / weights.sum(-1, keepdims=True)
    return values_factored(weights, value, query_positions, key_positions)


def values_keys_for_queries(weights, value, query_positions, key_positions):
    turned = rope_complex(value, key_positions)
    return rope_complex(weights @ turned, -key_positions)


PROOFS = [
    Proof(
        check_order_count,
        right={
            "by hand": [48, 2, 72, 1],
            "products": (math.factorial(4) * 2, 2, 2 * 6 * 6, 1),
            "all orders tried": TRIED,
            "a tensor": torch.tensor([48, 2, 72, 1]),
        },
        wrong={
            "padded places fixed": ([24, 2, 72, 1], "nobody looks at"),
            "added, not multiplied": ([26, 2, 72, 1], "goes with"),
            "no reversal": ([48, 1, 72, 1], "one more order"),
            "texts stay in place": ([48, 2, 36, 1], "as wholes"),
            "orders of the texts added": ([48, 2, 12, 1], "goes with"),
            "identity forgotten": ([48, 2, 72, 0], "moves nothing"),
            "all orders": ([720] * 4, "without a mask"),
            "two slips": ([24, 1, 72, 1], "the first and"),
            "no whole number": ([48, 2, 72, 1.07], "the fourth"),
            "one number": (48, "4 numbers"),
        },
    ),
    Proof(
        check_order_shuffle,
        right={"letter": "D", "small letter": "d", "in a list": ["D"]},
        wrong={
            "rows alone": ("A", "columns have not"),
            "columns alone": ("B", "rows have not"),
            "inverse order": ("C", "inverse"),
            "no panel": ("E", "A to D"),
            "two panels": ("CD", "One letter"),
            "a number": (3, "in quotes"),
        },
    ),
    Proof(
        check_order_twins,
        right={
            "each letter twice": ("ab", "aabb"),
            "the text twice": ["xyz", "xyzxyz"],
            "another order": ("aab", "abaaab"),
        },
        wrong={
            "one letter, repeated": (("aa", "aaaa"), "one letter only"),
            "other order, same length": (("abc", "bac"), "differ in length"),
            "other end": (("ab", "bbaa"), "end in different"),
            "other proportions": (("ab", "abb"), "count for the same"),
            "one letter more": (("ab", "acb"), "the letter c"),
            "prefix": (("cab", "ccab"), "the letter c"),
            "digits": (("12", "1122"), "small letters"),
            "too long": (("ab", "ab" * 30), "more than 40"),
            "one text": ("ab", "a pair of texts"),
            "one text in a tuple": (("ab",), "of length 1, and a pair"),
            "three texts": (["ab", "aabb", "aaabbb"], "of length 3"),
        },
    ),
    Proof(
        check_order_codes,
        right={
            "filled in by stride": codes_stacked,
            "loops": codes_loops,
            "PyTorch, by a logarithm": codes_by_logarithm,
            "complex numbers": codes_rotated,
        },
        wrong={
            "as given": (codes_faulty, "not the only bug"),
            "axis alone mended": (codes_axis_mended, "exponent"),
            "along the batch": (codes_by_batch, "along the batch"),
            "exponent r / d": (codes_slow, "exponent"),
            "halves": (codes_halves, "belong together"),
            "cosines first": (codes_cosine_first, "cosines where"),
            "frequencies to the end": (codes_to_the_end, "all the way"),
            "first ignored": (codes_from_zero, "begin at 0"),
            "counted from 1": (codes_from_one, "one position late"),
            "codes alone": (codes_alone, "added to the inputs"),
            "in place": (codes_in_place, "changes its input"),
            "angles in float32": (
                codes_single_precision,
                "double precision",
            ),
            "angles in the inputs' dtype": (codes_in_their_dtype, "999983"),
            "a batch of one squeezed": (codes_squeezed, "shape (3, 4)"),
            "on the longer axis": (codes_on_the_longer_axis, "(5, 2, 6)"),
            "rows of the batch": (codes_plain_rows, "expected"),
        },
    ),
    Proof(
        check_order_rope,
        right={
            "complex numbers": rope_complex,
            "loops": rope_loops,
            "blocks of a matrix": rope_blocks,
            "PyTorch, by partners": rope_torch,
        },
        wrong={
            "half-split": (rope_half_split, "other pairing"),
            "angles and partners mixed": (rope_mixed, "partners"),
            "backwards": (rope_backwards, "other way round"),
            "no minus": (rope_no_minus, "same sign"),
            "exponent r / d": (rope_slow, "exponent"),
            "positions ignored": (rope_counted, "counted from 0"),
            "counted from 1": (rope_from_one, "one too large"),
            "codes added": (rope_added, "codes that are added"),
            "angles in float32": (rope_single_precision, "double precision"),
            "angles in the vectors' dtype": (rope_in_their_dtype, "999983"),
            "along the first axis": (rope_first_axis, "expected"),
            "positions in a row taken for granted": (
                rope_consecutive,
                "[7, 0, 31, 2]",
            ),
            "cosines alone": (rope_cosines_alone, "expected"),
            "overwritten on the way": (
                rope_overwritten,
                "been turned already",
            ),
            "left as halves": (rope_left_as_halves, "its two places"),
        },
    ),
    Proof(
        check_order_carry,
        right={
            "reshape": carry_reshape,
            "an index": carry_index,
            "PyTorch, slices": carry_torch,
            "PyTorch, in one of two ways": carry_torch_for_biases,
            "loops": carry_loops,
        },
        wrong={
            "the way back": (carry_back, "way back"),
            "whole width": (carry_whole_width, "whole width"),
            "columns": (carry_columns, "columns"),
            "heads mixed": (carry_heads_mixed, "leaves its head"),
            "first head alone": (carry_first_head, "the first head"),
            "second members first": (
                carry_second_members_first,
                "in front of the first",
            ),
            "nothing done": (carry_nothing, "as they were"),
            "members of a pair exchanged": (carry_pairs_swapped, "expected"),
            "no bias": (carry_for_matrices_alone, "raises IndexError"),
            "read from the wrong end": (carry_view, "expected"),
        },
    ),
    Proof(
        check_order_values,
        right={
            "turned, averaged, turned back": values_factored,
            "einsum over distances": values_einsum,
            "loops": values_loops,
            "PyTorch": values_torch,
        },
        wrong={
            "not turned back": (values_not_back, "how far"),
            "turned on": (values_turned_on, "turned on"),
            "other way round": (values_other_way, "other way round"),
            "output alone": (values_output_alone, "keys' positions"),
            "both turned back": (values_both_back, "add up"),
            "half-split": (values_half_split, "other pairing"),
            "plain attention": (values_plain, "nothing has been turned"),
            "positions counted": (values_counted, "at 0 for the keys"),
            "positions from the least": (
                values_from_the_least,
                "at 0 for the keys",
            ),
            "positions in a row taken for granted": (
                values_consecutive,
                "out of order",
            ),
            "no leading axes": (values_of_one_sequence, "leading axes"),
            "weights normalised": (values_renormalised, "nan"),
            "keys' positions twice": (
                values_keys_for_queries,
                "raises ValueError",
            ),
        },
    ),
]
