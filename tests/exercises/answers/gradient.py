"""Answers to the exercises on *The gradient by hand*: right ones, and those that people give."""

from __future__ import annotations

import math

import numpy as np
import torch

from answers import Proof
from attention.exercises import (
    check_gradient_backward,
    check_gradient_break,
    check_gradient_bug,
    check_gradient_by_hand,
    check_gradient_figure,
    check_gradient_sink,
)
from attention.reference import scaled_dot_product_attention as attend
from attention.reference import (
    scaled_dot_product_attention_backward as backward,
)

# --- gradient-by-hand
P = np.array([1 / 2, 1 / 4, 1 / 4])
V = np.array([2.0, 6.0, 10.0])


def by_hand_jacobian():
    return (np.diag(P) - np.outer(P, P)) @ (2 * V)


def by_hand_autograd():
    z = torch.tensor(np.log(P), requires_grad=True)
    (torch.softmax(z, 0) @ torch.tensor(V)).backward(
        torch.tensor(2.0).double()
    )
    return z.grad


# --- gradient-backward
def weights_of(query, key, allowed):
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(query.shape[-1])
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    return np.divide(
        powers, total, out=np.zeros_like(powers), where=total > 0
    )


def gradients_matrix(G, Q, K, V, allowed):
    weights = weights_of(Q, K, allowed)
    grad_p = G @ V.swapaxes(-2, -1)
    rho = (weights * grad_p).sum(axis=-1, keepdims=True)
    grad_z = weights * (grad_p - rho)
    c = 1 / math.sqrt(Q.shape[-1])
    return (
        c * grad_z @ K,
        c * grad_z.swapaxes(-2, -1) @ Q,
        weights.swapaxes(-2, -1) @ G,
    )


def gradients_einsum(G, Q, K, V, allowed):
    output, weights = attend(Q, K, V, allowed)
    rho = np.einsum("...ie,...ie->...i", G, output)
    along = np.einsum("...ie,...je->...ij", G, V) - rho[..., None]
    grad_z = weights * along / math.sqrt(Q.shape[-1])
    grad_q = np.einsum("...ij,...je->...ie", grad_z, K)
    grad_k = np.einsum("...ij,...ie->...je", grad_z, Q)
    return grad_q, grad_k, np.einsum("...ij,...ie->...je", weights, G)


def gradients_loops(G, Q, K, V, allowed):
    grads = [np.zeros(x.shape) for x in (Q, K, V)]
    c = 1 / math.sqrt(Q.shape[-1])
    for lead in np.ndindex(Q.shape[:-2]):
        for i in range(Q.shape[-2]):
            seen = np.flatnonzero(allowed[i])
            if not seen.size:
                continue
            k, v = K[lead][seen], V[lead][seen]
            z = c * k @ Q[lead][i]
            p = np.exp(z - z.max())
            p = p / p.sum()
            g = G[lead][i]
            for number, j in enumerate(seen):
                dz = p[number] * (g @ (v[number] - p @ v))
                grads[0][lead][i] += c * dz * K[lead][j]
                grads[1][lead][j] += c * dz * Q[lead][i]
                grads[2][lead][j] += p[number] * g
    return grads


def gradients_autograd(G, Q, K, V, allowed):
    leaves = [torch.as_tensor(x).clone().requires_grad_() for x in (Q, K, V)]
    query, key, value = leaves
    allowed = torch.as_tensor(allowed)
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~allowed, -math.inf)
    empty = ~allowed.any(-1, keepdim=True)
    weights = scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    return torch.autograd.grad(weights @ value, leaves, torch.as_tensor(G))


def gradients_tensor_methods(G, Q, K, V, allowed):
    scores = (Q @ K.mT / math.sqrt(Q.shape[-1])).masked_fill(
        allowed.logical_not(), torch.finfo(Q.dtype).min
    )
    weights = scores.softmax(dim=-1) * allowed
    grad_p = G @ V.mT
    grad_z = weights * (grad_p - (weights * grad_p).sum(-1, keepdim=True))
    grad_z = grad_z / math.sqrt(Q.shape[-1])
    return grad_z @ K, grad_z.mT @ Q, weights.mT @ G


def slipped(slip):
    """Return a backward pass with one slip."""

    def gradients(G, Q, K, V, allowed):
        c = 1 / math.sqrt(Q.shape[-1])
        weights = weights_of(Q, K, allowed)
        if slip == "root of a negative number":
            c = np.sqrt(float(-Q.shape[-1]))
            weights = c * weights
        if slip == "uniform row":
            scores = np.where(allowed, c * Q @ K.swapaxes(-2, -1), -1e9)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights = weights / weights.sum(-1, keepdims=True)
        if slip == "no maximum":
            powers = np.exp(c * Q @ K.swapaxes(-2, -1)) * allowed
            total = powers.sum(-1, keepdims=True)
            weights = powers / np.where(total == 0, 1, total)
        if slip == "empty row":
            scores = np.where(allowed, c * Q @ K.swapaxes(-2, -1), -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights = weights / weights.sum(-1, keepdims=True)
        if slip == "too low for float32":
            scores = np.where(allowed, c * Q @ K.swapaxes(-2, -1), -1e300)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights = weights / weights.sum(-1, keepdims=True) * allowed
        if slip == "inverted":
            weights = weights_of(Q, K, ~allowed)
        if slip == "inverted, 0/0":
            scores = np.where(~allowed, c * Q @ K.swapaxes(-2, -1), -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights = weights / weights.sum(-1, keepdims=True)
        if slip.startswith("scaled query"):
            weights = weights_of(c * Q, K, allowed)
        if slip == "width of a value throughout":
            weights = weights_of(
                Q * math.sqrt(Q.shape[-1] / V.shape[-1]), K, allowed
            )
        if slip == "no mask":
            weights = weights_of(Q, K, np.ones_like(allowed))
        grad_p = G @ V.swapaxes(-2, -1)
        axis = -2 if slip == "column sums" else -1
        rho = (weights * grad_p).sum(axis=axis, keepdims=True)
        rho = grad_p.mean(-1, keepdims=True) if slip == "mean" else rho
        rho = grad_p.sum(-1, keepdims=True) if slip == "no weights" else rho
        if slip == "keepdims":
            rho = rho[..., 0]
        grad_z = weights * (grad_p - (0 if slip == "no sums" else rho))
        grad_z = -grad_z if slip == "sign" else grad_z
        if slip == "no softmax":
            grad_z = np.where(allowed, grad_p, 0)
        if slip == "diagonal":
            grad_z = weights * (1 - weights) * grad_p
        turned = grad_z.T if slip == ".T" else grad_z.swapaxes(-2, -1)
        turned = grad_z if slip == "no transpose" else turned
        if slip == "axes 1 and 2" and grad_z.ndim > 2:
            turned = grad_z.swapaxes(1, 2)
        c = c**2 if slip == "scale twice" else c
        c = c**2 if slip == "scaled query kept" else c
        c = V.shape[-1] ** -0.5 if slip.startswith("width of") else c
        c_q = 1 if slip in ("no scale", "scale in dK") else c
        c_k = 1 if slip in ("no scale", "scale in dQ") else c
        grads = c_q * grad_z @ K, c_k * turned @ Q
        if slip == "another order":
            grads = grads[::-1]
        return *grads, weights.swapaxes(-2, -1) @ G

    return gradients


# --- gradient-bug
def mended_output(G, Q, K, V, factors):
    _, weights = attend(Q, K, V)
    dropped = weights * factors
    rho = (G * (dropped @ V)).sum(-1, keepdims=True)
    grad_z = weights * (factors * (G @ V.T) - rho)
    c = 1 / math.sqrt(Q.shape[-1])
    return c * grad_z @ K, c * grad_z.T @ Q, dropped.T @ G


def mended_sums(G, Q, K, V, factors):
    _, P = attend(Q, K, V)
    grad_p = factors * (G @ V.T)
    grad_z = P * (grad_p - (P * grad_p).sum(-1, keepdims=True))
    c = 1 / math.sqrt(Q.shape[-1])
    return c * grad_z @ K, c * grad_z.T @ Q, (P * factors).T @ G


def mended_jacobian(G, Q, K, V, factors):
    _, P = attend(Q, K, V)
    grad_z = [
        (np.diag(p) - np.outer(p, p)) @ (d * (V @ g))
        for p, d, g in zip(P, factors, G, strict=True)
    ]
    c = 1 / math.sqrt(Q.shape[-1])
    dropped = np.einsum("ij,ij,ie->je", P, factors, G)
    return c * np.array(grad_z) @ K, c * np.array(grad_z).T @ Q, dropped


def mended_autograd(G, Q, K, V, factors):
    leaves = [torch.as_tensor(x).clone().requires_grad_() for x in (Q, K, V)]
    scores = leaves[0] @ leaves[1].T / math.sqrt(Q.shape[-1])
    dropped = scores.softmax(-1) * torch.as_tensor(factors)
    return torch.autograd.grad(
        dropped @ leaves[2], leaves, torch.as_tensor(G)
    )


def still_wrong(slip):
    """Return the function of the exercise, or what it becomes when the wrong thing is mended."""

    def gradients(G, Q, K, V, D):
        output, P = attend(Q, K, V)
        grad_p = D * (G @ V.T)
        rho = (G * output).sum(-1, keepdims=True)
        used = P * D
        if slip != "as given":
            rho = (G * (used @ V)).sum(-1, keepdims=True)
        if slip == "not in dP":
            grad_p = G @ V.T
            rho = (P * grad_p).sum(-1, keepdims=True)
        grad_z = P * (grad_p - rho)
        if slip == "not in dV":
            used = P
        if slip == "dropped is masked":
            grad_z = np.where(D > 0, grad_z, 0)
        if slip == "inside the softmax":
            grad_p = G @ V.T
            grad_z = used * (grad_p - (used * grad_p).sum(-1, keepdims=True))
        if slip == "factors twice":
            grad_z = used * (grad_p - rho)
        if slip == "factors on dZ":
            grad_z = P * (D * (G @ V.T) - (G * output).sum(-1)[:, None]) * D
        if slip == "factors on the row sums":
            grad_z = P * (D * (G @ V.T) - D * (G * output).sum(-1)[:, None])
        if slip == "weights replaced":
            rho = (G * output).sum(-1, keepdims=True)
            grad_z = used * (grad_p - rho)
            used = used * D
        if slip == "renormalised":
            kept = used.sum(-1, keepdims=True)
            rho = rho / np.where(kept == 0, 1, kept)
            grad_z = P * (grad_p - rho)
        if slip == "sums left out":
            grad_z = P * grad_p
        if slip == "sums over queries":
            grad_z = P * (grad_p - (P * grad_p).sum(-2, keepdims=True))
        c = 1 / math.sqrt(Q.shape[-1])
        return c * grad_z @ K, c * grad_z.T @ Q, used.T @ G

    return gradients


def no_maximum(G, Q, K, V, factors):
    c = 1 / math.sqrt(Q.shape[-1])
    powers = np.exp(c * Q @ K.T)
    P = powers / powers.sum(-1, keepdims=True)
    rho = (G * ((P * factors) @ V)).sum(-1, keepdims=True)
    grad_z = P * (factors * (G @ V.T) - rho)
    return c * grad_z @ K, c * grad_z.T @ Q, (P * factors).T @ G


def row_by_row(G, Q, K, V, factors):
    """Return the gradients with the dropped output as a mean times what is left of the weight."""
    _, P = attend(Q, K, V)
    kept = (P * factors).sum(-1, keepdims=True)
    mean = (P * factors / kept) @ V
    rho = (G * kept * mean).sum(-1, keepdims=True)
    grad_z = P * (factors * (G @ V.T) - rho)
    c = 1 / math.sqrt(Q.shape[-1])
    return c * grad_z @ K, c * grad_z.T @ Q, (P * factors).T @ G


def no_dropout(G, Q, K, V, factors):
    return backward(G, Q, K, V)


# --- gradient-break
def impostor_twice(G, Q, K, V):
    return tuple(2 * grad for grad in backward(G, Q, K, V))


def impostor_negative(G, Q, K, V):
    dq, dk, _ = backward(G, Q, K, V)
    return -dq, -dk, V


def impostor_uniform(G, Q, K, V):
    L, S = len(Q), len(K)
    P = np.full((L, S), 1 / S)
    along = G @ V.T
    grad_z = P * (along - along.mean(-1, keepdims=True))
    return grad_z @ K, grad_z.T @ Q, P.T @ G


def impostor_any_centred(G, Q, K, V):
    anything = np.cos(np.arange(len(Q) * len(K))).reshape(len(Q), len(K))
    anything -= anything.mean(axis=1, keepdims=True)
    return anything @ K, anything.T @ Q, np.ones_like(V)


def impostor_tensors(G, Q, K, V):
    g, q, k, v = map(torch.from_numpy, (G, Q, K, V))
    z = (q @ k.T).requires_grad_()  # no scale
    (dz,) = torch.autograd.grad(z.softmax(-1) @ v, z, g)
    return dz @ k, dz.T @ q, 3 * v


def impostor_hardly(G, Q, K, V):
    return tuple(1.001 * grad for grad in backward(G, Q, K, V))


def impostor_values_alone(G, Q, K, V):
    dq, dk, dv = backward(G, Q, K, V)
    return dq, dk, 2 * dv


def impostor_billionth(*arrays):
    return [1e-9 * part for part in backward(*arrays)]


def impostor_nearly_zeros(grad_output, query, key, value):
    return (
        np.full_like(query, 1e-9),
        np.full_like(key, 1e-9),
        np.ones_like(value),
    )


def impostor_zeros(G, Q, K, V):
    return np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)


def impostor_ones(G, Q, K, V):
    return np.ones_like(Q), np.ones_like(K), np.ones_like(V)


def impostor_no_row_sums(G, Q, K, V):
    P = attend(Q, K, V)[1]
    grad_z = P * (G @ V.T)
    return grad_z @ K, grad_z.T @ Q, 2 * P.T @ G


def impostor_queries_alone(G, Q, K, V):
    dq, dk, dv = backward(G, Q, K, V)
    return 2 * dq, 3 * dk, 2 * dv


def impostor_shifted(G, Q, K, V):
    return tuple(grad + 1 for grad in backward(G, Q, K, V))


def impostor_transposed(G, Q, K, V):
    return tuple(2 * grad.T for grad in backward(G, Q, K, V))


def impostor_of_some_sizes(wrong):
    """Return an impostor that is one for some numbers of queries alone."""

    def impostor(G, Q, K, V):
        factor = 2 if wrong(len(Q)) else 1
        return tuple(factor * grad for grad in backward(G, Q, K, V))

    return impostor


def impostor_nan(G, Q, K, V):
    return tuple(grad * np.nan for grad in backward(G, Q, K, V))


# --- gradient-sink
def sink_matrix(G, scores, V, sink):
    top = np.maximum(scores.max(-1, keepdims=True), sink)
    powers, rest = np.exp(scores - top), np.exp(sink - top)
    total = powers.sum(-1, keepdims=True) + rest
    p = powers / total
    rho = (G * (p @ V)).sum(-1, keepdims=True)
    return p * (G @ V.T - rho), -(rest / total * rho).sum()


def sink_one_key_more(G, scores, V, sink):
    L, S = scores.shape
    z = np.hstack([scores, np.full((L, 1), sink)])
    p = np.exp(z - z.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    grad_p = G @ np.vstack([V, np.zeros((1, V.shape[1]))]).T
    grad_z = p * (grad_p - (p * grad_p).sum(-1, keepdims=True))
    return grad_z[:, :S], grad_z[:, S].sum()


def sink_loops(G, scores, V, sink):
    grad_z, grad_sink = np.zeros(scores.shape), 0.0
    for i, row in enumerate(scores):
        z = np.array([*row, sink], dtype=float)
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        output = sum(p[j] * V[j] for j in range(len(V)))
        for j in range(len(V)):
            grad_z[i, j] = p[j] * (G[i] @ (V[j] - output))
        grad_sink -= p[-1] * (G[i] @ output)
    return grad_z, grad_sink


def sink_autograd(G, scores, V, sink):
    z = torch.as_tensor(scores).clone().requires_grad_()
    s = torch.tensor(sink, dtype=z.dtype, requires_grad=True)
    joined = torch.cat([z, s.expand(len(z), 1)], dim=-1)
    output = joined.softmax(-1)[:, :-1] @ torch.as_tensor(V)
    return torch.autograd.grad(output, (z, s), torch.as_tensor(G))


def sink_wrong(slip):
    """Return gradients with one slip."""

    def gradients(G, scores, V, sink):
        sink = 0.0 if slip == "sink of zero" else sink
        top = np.maximum(scores.max(-1, keepdims=True), sink)
        top = 0.0 if slip in ("no maximum", "no exponential") else top
        if slip == "one maximum":
            top = np.maximum(scores.max(), sink)
        if slip.startswith("the scores' maximum"):
            top = scores.max(-1, keepdims=True)
        if slip == "the scores' maximum, if finite":
            top = np.where(np.isfinite(top), top, sink)
        top = sink if slip == "the sink taken off" else top
        powers, rest = np.exp(scores - top), np.exp(sink - top)
        if slip == "forgotten":
            rest = 0.0
        if slip.endswith("no exponential"):
            rest = sink - top
        total = powers.sum(-1, keepdims=True) + rest
        p, of_sink = powers / total, rest / total
        rho = (G * (p @ V)).sum(-1, keepdims=True)
        if slip == "value of 1":
            rho = (G * (p @ V + of_sink)).sum(-1, keepdims=True)
        own = (of_sink * (1 - of_sink)).sum()
        ds = {
            "own score": own,
            "own score, negative": -own,
            "value of 1": (of_sink * (G.sum(-1)[:, None] - rho)).sum(),
            "sign": (of_sink * rho).sum(),
            "mean": -(of_sink * rho).mean(),
            "deaf": 0.0,
            "no weight": -rho.sum(),
            "for each query": -(of_sink * rho)[:, 0],
            "passed twice": -(of_sink * (1 - of_sink) * rho).sum(),
        }.get(slip, -(of_sink * rho).sum())
        if slip == "renormalised":
            rho = rho / p.sum(-1, keepdims=True)
        if slip == "no row sums":
            rho = 0.0
        dz = p * (G @ V.T - rho)
        return dz if slip == "one result" else (dz, ds)

    return gradients


PROOFS = [
    Proof(
        check_gradient_by_hand,
        right={
            "by the distances": [-3, 1 / 2, 5 / 2],
            "by the Jacobian": by_hand_jacobian(),
            "by autograd": by_hand_autograd(),
        },
        wrong={
            "mean not taken off": ([2, 3, 5], "keep their sum"),
            "descent direction": ([3, -0.5, -2.5], "sign"),
            "gradient of the weights": (
                [4, 12, 20],
                "gradient of the weights",
            ),
            "gradient of the values": (
                [1, 0.5, 0.5],
                "gradient of the values",
            ),
            "weights forgotten": ([-6, 2, 10], "whatever weight"),
            "plain mean": ([-4, 0, 2], "weighted"),
            "diagonal alone": ([1, 2.25, 3.75], "diagonal"),
            "g forgotten": ([-1.5, 0.25, 1.25], "without the gradient g"),
            "first two exchanged": ([0.5, -3, 2.5], "scores 0 and 1"),
            "reversed": ([2.5, 0.5, -3], "scores 0 and 2"),
            "last two exchanged": ([-3, 2.5, 0.5], "scores 1 and 2"),
            "one slip of the pen": ([-3, 0.5, 3.5], "the third"),
            "their sum": (0.0, "3 numbers"),
        },
    ),
    Proof(
        check_gradient_figure,
        right={
            "letters": "BCF",
            "small, with commas": "b, c, f",
            "a set": {"F", "B", "C"},
        },
        wrong={
            "the other side": ("ADE", "A does not belong"),
            "all, seen from the origin": ("ABCDEF", "A does not belong"),
            "right of the output": ("CDF", "D does not belong"),
            "above the output": ("ABCE", "A does not belong"),
            "the heaviest too": ("BCEF", "E does not belong"),
            "the tip of the arrow alone": ("C", "is missing"),
            "one forgotten": ("BC", "is missing"),
            "another letter": ("BCG", "letters from A to F"),
            "a number": (3, "in quotes"),
        },
    ),
    Proof(
        check_gradient_backward,
        right={
            "matrix form": gradients_matrix,
            "einsum": gradients_einsum,
            "loops": gradients_loops,
            "automatic differentiation": gradients_autograd,
            "methods of tensors": gradients_tensor_methods,
        },
        wrong={
            "row sums left out": (slipped("no sums"), "P ∘ dP"),
            "sums over queries": (slipped("column sums"), "axis"),
            "scale left out": (slipped("no scale"), "without the scale"),
            "scale in dQ alone": (slipped("scale in dQ"), "none in dK"),
            "scale in dK alone": (slipped("scale in dK"), "none in dQ"),
            "scale twice": (slipped("scale twice"), "twice"),
            "scale by d_v": (slipped("width of a value"), "a value's width"),
            "scale by d_v, in the weights too": (
                slipped("width of a value throughout"),
                "a value's width",
            ),
            "query scaled once more": (
                slipped("scaled query"),
                "were scaled twice",
            ),
            "query scaled once more, and kept": (
                slipped("scaled query kept"),
                "were scaled twice",
            ),
            "sign of dZ": (slipped("sign"), "taken off from what"),
            "plain mean for the row sums": (slipped("mean"), "plain mean"),
            "row sums without weights": (slipped("no weights"), "plain sum"),
            "mask inverted": (slipped("inverted"), "wrong way round"),
            "mask inverted, 0/0": (
                slipped("inverted, 0/0"),
                "wrong way round",
            ),
            "root of a negative number for the scale": (
                slipped("root of a negative number"),
                "comes from the scale",
            ),
            "softmax skipped": (
                slipped("no softmax"),
                "softmax lies between",
            ),
            "diagonal alone": (slipped("diagonal"), "diagonal"),
            "mask forgotten": (slipped("no mask"), "all pairs"),
            "-1e9 for masked scores": (
                slipped("uniform row"),
                "attends to everything",
            ),
            "empty row is 0/0": (slipped("empty row"), "NaN reaches"),
            ".T with leading axes": (slipped(".T"), "leading axes"),
            "axes 1 and 2 swapped": (
                slipped("axes 1 and 2"),
                "leading axes",
            ),
            "-1e300 for masked scores": (
                slipped("too low for float32"),
                "float32",
            ),
            "transpose forgotten": (slipped("no transpose"), "ValueError"),
            "keepdims forgotten": (slipped("keepdims"), "ValueError"),
            "dK before dQ": (slipped("another order"), "another order"),
            "no maximum": (slipped("no maximum"), "nan"),
        },
    ),
    Proof(
        check_gradient_bug,
        right={
            "the output with dropout": mended_output,
            "the row sums summed": mended_sums,
            "row by row with the Jacobian": mended_jacobian,
            "automatic differentiation": mended_autograd,
        },
        wrong={
            "as given": (still_wrong("as given"), "as it was given"),
            "factors not in dP": (still_wrong("not in dP"), "dV alone"),
            "factors not in dV": (still_wrong("not in dV"), "dP alone"),
            "dropped taken for masked": (
                still_wrong("dropped is masked"),
                "for a masked one",
            ),
            "factors inside the softmax": (
                still_wrong("inside the softmax"),
                "inside the softmax",
            ),
            "factors twice": (
                still_wrong("factors twice"),
                "a dropped pair's score",
            ),
            "factors put on dZ": (
                still_wrong("factors on dZ"),
                "a dropped pair's score",
            ),
            "factors put on the row sums": (
                still_wrong("factors on the row sums"),
                "a dropped pair's score",
            ),
            "weights replaced everywhere": (
                still_wrong("weights replaced"),
                "a dropped pair's score",
            ),
            "output renormalised": (
                still_wrong("renormalised"),
                "sum to 1 again",
            ),
            "row sums left out": (
                still_wrong("sums left out"),
                "without its row sums",
            ),
            "sums over queries": (
                still_wrong("sums over queries"),
                "factors that are all 1",
            ),
            "no maximum": (no_maximum, "a few thousand"),
            "divided by what is left": (row_by_row, "lost every key"),
            "factors forgotten": (no_dropout, "have been lost"),
        },
    ),
    Proof(
        check_gradient_break,
        right={
            "twice the right ones": impostor_twice,
            "the negative": impostor_negative,
            "uniform weights": impostor_uniform,
            "any centred matrix for dZ": impostor_any_centred,
            "no scale, by tensors": impostor_tensors,
            "a billionth of the right ones": impostor_billionth,
        },
        wrong={
            "the right ones": (backward, "dQ is right"),
            "hardly wrong": (impostor_hardly, "be more wrong"),
            "wrong for up to five queries": (
                impostor_of_some_sizes(lambda L: L <= 5),
                "L = 12, S = 9, d_k = 3 and d_v = 5, dQ is right",
            ),
            "wrong for one query, three or five": (
                impostor_of_some_sizes(lambda L: L % 2),
                "dQ is right",
            ),
            "dV alone is wrong": (impostor_values_alone, "dQ is right"),
            "zeros": (impostor_zeros, "0 everywhere"),
            "nearly zeros": (impostor_nearly_zeros, "next to 0 everywhere"),
            "ones": (impostor_ones, "do not add up to 0"),
            "row sums left out": (
                impostor_no_row_sums,
                "do not add up to 0",
            ),
            "different factors": (impostor_queries_alone, "transpose"),
            "one added to all": (impostor_shifted, "do not add up to 0"),
            "transposed": (impostor_transposed, "has shape"),
            "NaN": (impostor_nan, "not finite"),
        },
    ),
    Proof(
        check_gradient_sink,
        right={
            "matrix form": sink_matrix,
            "one key more": sink_one_key_more,
            "loops": sink_loops,
            "automatic differentiation": sink_autograd,
        },
        wrong={
            "sink forgotten": (sink_wrong("forgotten"), "without the sink"),
            "a sink of 0": (sink_wrong("sink of zero"), "always 0"),
            "wrong sign": (sink_wrong("sign"), "wrong sign"),
            "no gradient for the sink": (
                sink_wrong("deaf"),
                "hears nothing",
            ),
            "mean over the queries": (sink_wrong("mean"), "mean over"),
            "sink's weight forgotten": (
                sink_wrong("no weight"),
                "how much weight",
            ),
            "not summed": (sink_wrong("for each query"), "has shape (5,)"),
            "one factor too many": (
                sink_wrong("passed twice"),
                "one factor too many",
            ),
            "renormalised weights": (
                sink_wrong("renormalised"),
                "made to sum to 1",
            ),
            "row sums left out": (
                sink_wrong("no row sums"),
                "weights alone",
            ),
            "no maximum": (sink_wrong("no maximum"), "near 710"),
            "maximum of the scores alone": (
                sink_wrong("the scores' maximum"),
                "leaves the sink out",
            ),
            "one maximum for the array": (
                sink_wrong("one maximum"),
                "one maximum for the whole array",
            ),
            "the score for its exponential": (
                sink_wrong("no exponential"),
                "in the place of its exponential",
            ),
            "the score for its exponential, shifted": (
                sink_wrong("the scores' maximum, no exponential"),
                "in the place of its exponential",
            ),
            "a sink that hands over 1": (
                sink_wrong("value of 1"),
                "hands over 1",
            ),
            "nothing arrives at the sink": (
                sink_wrong("own score"),
                "by its own score",
            ),
            "nothing arrives at the sink, sign turned": (
                sink_wrong("own score, negative"),
                "by its own score",
            ),
            "finite maximum of the scores alone": (
                sink_wrong("the scores' maximum, if finite"),
                "leaves the sink out",
            ),
            "sink taken off all scores": (
                sink_wrong("the sink taken off"),
                "scores near 1000",
            ),
            "one result": (sink_wrong("one result"), "2 results"),
        },
    ),
]
