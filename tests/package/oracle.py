"""What the package is compared with: slow, exact, and written without its ways.

One query at a time, one number at a time, in Python floats with exact sums, or in decimals with
fifty digits. Nothing here is imported from the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def exact_softmax(scores: Iterable[float]) -> list[float]:
    """Return the softmax of finite or -inf scores, taken in fifty digits, without any shift."""
    with localcontext() as context:
        context.prec = 50
        terms = [
            Decimal(float(score)).exp() for score in scores
        ]  # exp(-Infinity) is 0
        total = sum(terms, Decimal(0))
        return [float(term / total) if total else 0.0 for term in terms]


def exact_log_sum_exp(scores: Iterable[float]) -> float:
    """Return the logarithm of the sum of exponentials, taken in fifty digits."""
    with localcontext() as context:
        context.prec = 50
        total = sum(
            (Decimal(float(score)).exp() for score in scores), Decimal(0)
        )
        return float(total.ln()) if total else -math.inf


def loop_attention(
    query: NDArray,
    key: NDArray,
    value: NDArray,
    attn_mask: NDArray | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_mask: NDArray | None = None,
) -> tuple[Array, Array]:
    """Attend with one query at a time; return the output and the weights before dropout."""
    query, key, value = (
        np.asarray(x, dtype=np.float64) for x in (query, key, value)
    )
    (L, E), (S, Ev) = query.shape[-2:], value.shape[-2:]
    leading = np.broadcast_shapes(
        query.shape[:-2], key.shape[:-2], value.shape[:-2]
    )
    query = np.broadcast_to(query, (*leading, L, E))
    key = np.broadcast_to(key, (*leading, S, E))
    value = np.broadcast_to(value, (*leading, S, Ev))
    if attn_mask is not None:
        attn_mask = np.broadcast_to(attn_mask, (*leading, L, S))
    if dropout_mask is not None:
        dropout_mask = np.broadcast_to(dropout_mask, (*leading, L, S))
    factor = E**-0.5 if scale is None else float(scale)
    output, weights = np.zeros((*leading, L, Ev)), np.zeros((*leading, L, S))
    for *at, i in itertools.product(*map(range, (*leading, L))):
        b = tuple(at)
        scores: dict[int, float] = {}  # of the keys that this query may see
        for j in range(S):
            bias = 0.0
            if attn_mask is not None:
                entry = attn_mask[(*b, i, j)]
                if entry is np.False_ or entry == -math.inf:
                    continue
                bias = 0.0 if attn_mask.dtype == bool else float(entry)
            if is_causal and j > i:
                continue
            product = math.fsum(
                float(x) * float(y)
                for x, y in zip(query[b][i], key[b][j], strict=True)
            )
            scores[j] = factor * product + bias
        if not scores:
            continue
        largest = max(scores.values())
        terms = {j: math.exp(score - largest) for j, score in scores.items()}
        total = math.fsum(terms.values())
        for j, term in terms.items():
            weights[(*b, i, j)] = term / total
        for c in range(Ev):
            output[(*b, i, c)] = math.fsum(
                term / total * (1.0 if dropout_mask is None else float(dropout_mask[(*b, i, j)]))
                * float(value[b][j][c])
                for j, term in terms.items()
            )  # fmt: skip
    return output, weights


def loop_multi_head_attention(
    query: NDArray,
    key: NDArray,
    value: NDArray,
    parameters: dict[str, NDArray],
    num_heads: int,
    attn_mask: NDArray | None = None,
    *,
    num_kv_heads: int | None = None,
    is_causal: bool = False,
) -> tuple[Array, Array]:
    """Attend with one head at a time, each with its own block of columns."""
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    d_k = parameters["W_Q"].shape[1] // num_heads
    d_v = parameters["W_V"].shape[1] // num_kv_heads
    group = num_heads // num_kv_heads
    L, S = query.shape[-2], key.shape[-2]
    leading = np.broadcast_shapes(
        query.shape[:-2], key.shape[:-2], value.shape[:-2]
    )
    if attn_mask is not None:
        attn_mask = np.broadcast_to(attn_mask, (*leading, num_heads, L, S))

    def block(x: NDArray, name: str, head: int, width: int) -> Array:
        columns = slice(head * width, (head + 1) * width)
        bias = parameters.get(f"b_{name}", np.zeros(10_000))[columns]
        return (
            np.einsum(
                "...i,io->...o", x, parameters[f"W_{name}"][:, columns]
            )
            + bias
        )

    output = np.zeros((*leading, L, parameters["W_O"].shape[1]))
    weights = np.zeros((*leading, num_heads, L, S))
    for h in range(num_heads):
        shared = h // group
        head, weights[..., h, :, :] = loop_attention(
            block(query, "Q", h, d_k),
            block(key, "K", shared, d_k),
            block(value, "V", shared, d_v),
            None if attn_mask is None else attn_mask[..., h, :, :],
            is_causal=is_causal,
        )
        # a sum over heads of (head @ its own rows of W_O) is what concatenation amounts to
        output += np.einsum(
            "...i,io->...o", head, parameters["W_O"][h * d_v : (h + 1) * d_v]
        )
    return output + parameters.get("b_O", 0.0), weights


def numerical_gradients(
    function: Callable[..., NDArray],
    arrays: list[NDArray],
    grad_output: NDArray,
) -> list[Array]:
    """Return the gradients of sum(grad_output * function(*arrays)) by central differences.

    With a step of 1e-6 and values of order 1 the error is about 1e-10: the rounding 1e-16 over
    the step, and the square of the step.
    """
    step = 1e-6
    arrays = [np.array(array, dtype=np.float64) for array in arrays]
    gradients = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(*array.shape):
            at, ends = array[index], []
            for array[index] in (at + step, at - step):
                ends.append(float((grad_output * function(*arrays)).sum()))
            array[index] = at
            gradient[index] = (ends[0] - ends[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


def directional_derivatives(
    function: Callable[..., NDArray],
    arrays: Sequence[NDArray],
    grad_output: NDArray,
    directions: Sequence[Sequence[NDArray]],
) -> Array:
    """Return derivatives of sum(grad_output * function(*arrays)) by central differences.

    One row for each array, one column for each of its directions. They equal the inner products of
    the gradient and the directions, at a fraction of the work of a whole gradient.
    """
    step = 1e-6
    derivatives = np.zeros((len(arrays), len(directions[0])))
    for i, array in enumerate(arrays):
        for j, direction in enumerate(directions[i]):
            ends = [
                float(
                    (
                        grad_output
                        * function(*arrays[:i], x, *arrays[i + 1 :])
                    ).sum()
                )
                for x in (array + step * direction, array - step * direction)
            ]
            derivatives[i, j] = (ends[0] - ends[1]) / (2 * step)
    return derivatives
