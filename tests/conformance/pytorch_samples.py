"""PyTorch's own samples for attention, through the package.

The samples are those with which PyTorch tests its function, its multi-head function and its module
(``torch.testing._internal``: private, so that the pinned release alone is meant). What the package
offers itself is called as it is ("direct"). What it does not is put together out of its public
functions and plain array operations ("composed"), and each sample says what:

- a learned key/value position (``add_bias_kv``; every multi-head sample has one) and a position of
  zeros (``add_zero_attn``) are appended between the layer's projections and the function;
- data that come sequence first are transposed;
- a mask of PyTorch's shape (B * H, L, S) gets the axes that the package wants;
- NumPy's gradient of attention is carried on through the projections.

Dropout is random, yet nothing about it is left out: PyTorch and the package draw for the same
weights in the same order, so that after the same seed both drop the same ones and must agree to
rounding. NumPy, which takes the factors as an argument, is given those that PyTorch is *seen* to
use: the function's by attending to the identity matrix, the multi-head function's in the weights
that it returns, which are those after dropout. These samples are counted under ``draws``.

No sample has ``static_k`` or ``static_v``. All of the module's are without a batch, where
``batch_first`` makes no difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from ways import Outcome, Way

from attention import functional, masks, multihead, reference

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

SEED = 2017

# Sums of fewer than a hundred products in float64, and scores of up to a few hundred, in whose
# exponentials a rounding counts as many times: 1e-12 is met, and a mistake is larger by far.
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}

Named = dict[str, Tensor]
Results = dict[str, NDArray]


@dataclass(frozen=True)
class Sample:
    """One of PyTorch's samples: with what it calls."""

    suite: str  # "function", "forward" or "module"
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)  # the module's

    @property
    def dropout_p(self) -> float:
        """The probability with which the sample drops a weight."""
        if self.suite == "forward":
            return self.args[10] if self.kwargs["training"] else 0.0
        return self.kwargs.get("dropout_p", 0.0)


@cache
def samples(suite: str) -> list[Sample]:
    """Return all samples of a suite, with the same numbers each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return list(
            _module_samples() if suite == "module" else _op_samples(suite)
        )


def _op_samples(suite: str) -> list[Sample]:
    operator = {
        "function": "nn.functional.scaled_dot_product_attention",
        "forward": "nn.functional.multi_head_attention_forward",
    }[suite]
    (op,) = (op for op in op_db if op.name == operator)
    # Asked for gradients, PyTorch makes 1 multi-head sample instead of 192; here
    # all of them are differentiated.
    made = op.sample_inputs("cpu", torch.float64, requires_grad=False)
    found = []
    for number, sample in enumerate(made):
        args = (sample.input, *sample.args)
        words = [f"{number:03}", "x".join(map(str, sample.input.shape))]
        if suite == "forward":
            words.append(f"{args[4]} heads")
        words += _words(sample.kwargs)
        found.append(Sample(suite, " ".join(words), args, sample.kwargs))
    return found


def _module_samples() -> list[Sample]:
    (info,) = (m for m in module_db if m.module_cls is nn.MultiheadAttention)
    made = info.module_inputs_func(
        info,
        device="cpu",
        dtype=torch.float64,
        requires_grad=False,
        training=True,
    )
    found = []
    for number, sample in enumerate(made):
        options, call = sample.constructor_input.kwargs, sample.forward_input
        words = [f"{number:03}", *_words(options), *_words(call.kwargs)]
        found.append(
            Sample(
                "module", " ".join(words), call.args, call.kwargs, options
            )
        )
    return found


def _words(options: dict[str, Any]) -> list[str]:
    """Name what is switched on, and the masks."""
    return [
        f"{name}-{value.ndim}d" if isinstance(value, Tensor) else name
        for name, value in options.items()
        if value is True or (isinstance(value, Tensor) and "mask" in name)
    ]


def check(sample: Sample, way: Way) -> Outcome:
    """Compare output, weights and gradients with PyTorch's; say what was composed."""
    run = _function if sample.suite == "function" else _multi_head
    expected, actual, outcome = run(sample, way)
    # The weights are not asked for on the fused path; NumPy's backward has no
    # gradient for a mask.
    left_out = {"numpy": {"d mask"}, "torch, fused": {"weights"}}
    missing = expected.keys() - actual.keys()
    assert actual.keys() <= expected.keys()
    assert missing <= left_out.get(way, set()), missing
    for name, result in actual.items():
        assert result.shape == expected[name].shape, name
        np.testing.assert_allclose(
            result, expected[name], err_msg=name, **TOLERANCE
        )
    outcome.draws = sample.dropout_p > 0
    return outcome


def factors(sample: Sample) -> NDArray:
    """Return the factors on the weights that PyTorch is seen to use: 0 or 1 / (1 - p).

    Where a weight is 0 they cannot be seen, and do not matter: there NaN stands.
    """
    if sample.suite == "function":
        before, after = _function_weights(sample)
    else:
        before, after = _weights(_translate(sample))
    found = np.full_like(after, np.nan)
    np.divide(after, before, out=found, where=before > 0)
    kept = 1 / (1 - sample.dropout_p)
    rounded = np.where(np.isclose(found, 0), 0.0, kept)
    rounded[np.isnan(found)] = np.nan
    np.testing.assert_allclose(found, rounded, rtol=1e-9, atol=1e-9)
    return rounded


# --- The function


def _function(sample: Sample, way: Way) -> tuple[Results, Results, Outcome]:
    x = dict(zip(("query", "key", "value"), sample.args, strict=True))
    options = dict(sample.kwargs)
    if (mask := options.pop("attn_mask", None)) is not None:
        x["mask"] = mask

    def theirs(x: Named) -> Tensor:
        return F.scaled_dot_product_attention(*_ordered(x), **options)

    def ours(x: Named) -> Tensor | tuple[Tensor, Tensor]:
        return functional.scaled_dot_product_attention(
            *_ordered(x), **options, return_weights=way == "torch, weights"
        )

    expected = _differentiated(theirs, x)
    expected["weights"], _ = _function_weights(sample)
    if way != "numpy":
        return expected, _differentiated(ours, x), Outcome()

    query, key, value, mask = (
        None if t is None else t.numpy() for t in _ordered(x)
    )
    taken: dict[str, Any] = {"is_causal": options["is_causal"]}
    if sample.dropout_p:
        taken["dropout_mask"] = np.nan_to_num(factors(sample))
    output, weights = reference.scaled_dot_product_attention(
        query, key, value, mask, **taken
    )
    gradients = reference.scaled_dot_product_attention_backward(
        _arriving(output.shape).numpy(), query, key, value, mask, **taken
    )
    actual = {"output": output, "weights": weights}
    names = ("d query", "d key", "d value")
    actual |= dict(zip(names, gradients, strict=True))
    return expected, actual, Outcome()


def _ordered(x: Named) -> tuple[Tensor | None, ...]:
    return (x["query"], x["key"], x["value"], x.get("mask"))


def _function_weights(sample: Sample) -> tuple[NDArray, NDArray]:
    """Return the weights of a function that does not return them, before and after dropout.

    What the rows of the identity matrix are averaged with is the weights themselves.
    """
    query, key, _ = sample.args
    options = dict(sample.kwargs)
    p = options.pop("dropout_p")
    rows = torch.eye(key.shape[-2], dtype=key.dtype)
    rows = rows.expand(*key.shape[:-2], *rows.shape)
    before, after = (
        _seeded(
            lambda dropout_p=dropout_p: F.scaled_dot_product_attention(
                query, key, rows, dropout_p=dropout_p, **options
            )
        )
        for dropout_p in (0.0, p)
    )
    return before.numpy(), after.numpy()


# --- The multi-head function and the module


@dataclass
class _Problem:
    """A multi-head sample in the package's terms, and PyTorch's own answer to it."""

    # query, key, value (batch first, if there is a batch), W_Q … b_O as a linear layer has them,
    # bias_k, bias_v, and a mask that is added
    x: Named
    theirs: Callable[[Named, float, bool], tuple[Tensor, Tensor | None]]
    num_heads: int
    dropout_p: float
    allowed: Tensor | None = None  # a mask that selects
    zero_attn: bool = False
    layer: multihead.MultiHeadAttention | None = None
    composed: list[str] = field(default_factory=list)


def _multi_head(
    sample: Sample, way: Way
) -> tuple[Results, Results, Outcome]:
    problem = _translate(sample)
    expected = _differentiated(
        lambda x: problem.theirs(
            x, problem.dropout_p, way != "torch, fused"
        )[0],
        problem.x,
    )
    expected["weights"], _ = _weights(problem)
    composed = problem.composed
    if way != "numpy":
        return expected, _torch(problem, way), Outcome(composed)
    dropped = np.nan_to_num(factors(sample)) if sample.dropout_p else None
    composed = [*composed, "the gradient of the projections"]
    return expected, _numpy(problem, dropped), Outcome(composed)


def _translate(sample: Sample) -> _Problem:
    forward = sample.suite == "forward"
    problem = (_forward_problem if forward else _module_problem)(sample)
    if "bias_k" in problem.x:
        problem.composed.append("a learned key/value position")
    if problem.zero_attn:
        problem.composed.append("a key/value position of zeros")
    return problem


def _forward_problem(sample: Sample) -> _Problem:
    query, key, value, width, num_heads, *rest = sample.args
    in_weight, in_bias, bias_k, bias_v, zero_attn, _, *out = rest
    options, composed = dict(sample.kwargs), []
    mask = options.pop("attn_mask")
    batched = query.ndim == 3
    if batched:
        composed.append("sequence first")
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if mask is not None and mask.ndim == 3:
            composed.append("a mask of (B * H, L, S)")
            mask = mask.unflatten(0, (-1, num_heads))
    weights = (
        [options[f"{name}_proj_weight"] for name in "qkv"]
        if options["use_separate_proj_weight"]
        else in_weight.chunk(3)
    )
    x = {"query": query, "key": key, "value": value}
    x |= _pairs("W", weights) | _pairs("b", in_bias.chunk(3))
    x |= {"W_O": out[0], "b_O": out[1], "bias_k": bias_k, "bias_v": bias_v}
    if mask is not None:
        x["mask"] = mask

    def theirs(
        x: Named, dropout_p: float, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        inputs = [x["query"], x["key"], x["value"]]
        mask = x.get("mask")
        if batched:
            inputs = [x.transpose(0, 1) for x in inputs]
            if mask is not None and mask.ndim == 4:
                mask = mask.flatten(0, 1)
        given = dict(options, training=dropout_p > 0)
        packed = torch.cat([x["W_Q"], x["W_K"], x["W_V"]])
        if given["use_separate_proj_weight"]:
            packed = None
            for name in "QKV":
                given[f"{name.lower()}_proj_weight"] = x[f"W_{name}"]
        output, weights = F.multi_head_attention_forward(
            *(*inputs, width, num_heads, packed),
            torch.cat([x["b_Q"], x["b_K"], x["b_V"]]),
            *(x["bias_k"], x["bias_v"], zero_attn, dropout_p),
            *(x["W_O"], x["b_O"]),
            attn_mask=mask,
            need_weights=need_weights,
            average_attn_weights=False,
            **given,
        )
        return output.transpose(0, 1) if batched else output, weights

    return _Problem(
        *(x, theirs, num_heads, sample.dropout_p),
        zero_attn=zero_attn,
        composed=composed,
    )


def _module_problem(sample: Sample) -> _Problem:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        module = nn.MultiheadAttention(**sample.options, dtype=torch.float64)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if "bias" in name:  # zeros, which would hide mistakes
                    parameter.normal_()
    have = {n: p.detach() for n, p in module.named_parameters()}
    x = dict(zip(("query", "key", "value"), sample.args, strict=True))
    x |= _pairs("W", have["in_proj_weight"].chunk(3))
    x["W_O"] = have["out_proj.weight"]
    if "in_proj_bias" in have:
        x |= _pairs("b", have["in_proj_bias"].chunk(3))
        x["b_O"] = have["out_proj.bias"]
    x |= {n: have[n][0, 0] for n in ("bias_k", "bias_v") if n in have}

    def theirs(
        x: Named, dropout_p: float, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        packed = torch.cat([x["W_Q"], x["W_K"], x["W_V"]])
        parameters = {"in_proj_weight": packed, "out_proj.weight": x["W_O"]}
        if "b_Q" in x:
            packed = torch.cat([x["b_Q"], x["b_K"], x["b_V"]])
            parameters |= {"in_proj_bias": packed, "out_proj.bias": x["b_O"]}
        parameters |= {
            n: x[n][None, None] for n in ("bias_k", "bias_v") if n in x
        }
        options = dict(sample.kwargs, need_weights=need_weights)
        return torch.func.functional_call(
            module,
            parameters,
            (x["query"], x["key"], x["value"]),
            dict(options, average_attn_weights=False),
        )

    composed, allowed = [], None
    given = [sample.kwargs[n] for n in ("attn_mask", "key_padding_mask")]
    if any(mask is not None for mask in given):
        allowed = masks.from_module_masks(*given, num_heads=module.num_heads)
        if allowed.ndim == 4:
            composed.append("a mask of (B * H, L, S)")
            allowed = allowed.squeeze(0)  # there is no batch
    plain = module.bias_k is None and not module.add_zero_attn
    return _Problem(
        *(x, theirs, module.num_heads, 0.0, allowed, module.add_zero_attn),
        multihead.MultiHeadAttention.from_torch(module) if plain else None,
        composed,
    )


def _pairs(kind: str, tensors: Any) -> Named:
    return {f"{kind}_{n}": x for n, x in zip("QKV", tensors, strict=True)}


def _weights(problem: _Problem) -> tuple[NDArray, NDArray]:
    """Return PyTorch's weights per head, before and after dropout."""
    before, after = (
        _seeded(lambda p=p: problem.theirs(problem.x, p, True)[1]).numpy()
        for p in (0.0, problem.dropout_p)
    )
    return before, after


def _torch(problem: _Problem, way: Way) -> Results:
    layer, x = problem.layer, dict(problem.x)
    if layer is None:
        layer = multihead.MultiHeadAttention(
            *(x["query"].shape[-1], problem.num_heads),
            bias="b_O" in x,
            dropout=problem.dropout_p,
            dtype=torch.float64,
        )
        state = {n: x[at] for n, at in PLACES.items() if at in x}
        layer.load_state_dict(state)
    appended = "bias_k" in x or problem.zero_attn
    parameters = dict(layer.named_parameters())
    weighing = way == "torch, weights"

    def ours(x: Named) -> Tensor | tuple[Tensor, Tensor]:
        mask = x.get("mask", problem.allowed)
        inputs = (x["query"], x["key"], x["value"])
        if not appended:
            return layer(*inputs, mask, return_weights=weighing)
        split = [
            multihead.split_heads(
                _append(projection(given), x.get(row), zeros),
                layer.num_heads,
            )
            for projection, given, row, zeros in zip(
                (layer.q_proj, layer.k_proj, layer.v_proj),
                inputs,
                ("", "bias_k", "bias_v"),
                (False, problem.zero_attn, problem.zero_attn),
                strict=True,
            )
        ]
        if mask is not None:
            added = split[1].shape[-2] - mask.shape[-1]
            seen = True if mask.dtype == torch.bool else 0.0
            mask = F.pad(mask, (0, added), value=seen)
        attended = functional.scaled_dot_product_attention(
            *(*split, mask, layer.dropout), return_weights=weighing
        )
        heads, *weights = attended if weighing else (attended,)
        output = layer.out_proj(multihead.merge_heads(heads))
        return (output, *weights) if weighing else output

    own = {PLACES[n]: p for n, p in parameters.items()}
    return _differentiated(ours, x, own)


# Where the parameters lie in the package's layer.
PLACES = {
    f"{place}_proj.{kind}": f"{letter}_{name}"
    for name, place in zip("QKVO", ("q", "k", "v", "out"), strict=True)
    for kind, letter in (("weight", "W"), ("bias", "b"))
}


def _append(x: Tensor, row: Tensor | None, zeros: bool) -> Tensor:
    """Append a learned position and one of zeros, each where it is wanted."""
    rows = [] if row is None else [row]
    rows += [torch.zeros_like(x[..., 0, :])] if zeros else []
    for added in rows:
        # (..., S, H * d) and (..., 1, H * d)
        last = added.expand(*x.shape[:-2], x.shape[-1])[..., None, :]
        x = torch.cat((x, last), dim=-2)
    return x


def _numpy(problem: _Problem, dropped: NDArray | None) -> Results:
    """Attend forward and backward in NumPy, through projections written out here."""
    x = {name: tensor.numpy() for name, tensor in problem.x.items()}
    H, S = problem.num_heads, x["key"].shape[-2]
    inputs = dict(
        zip("QKV", (x["query"], x["key"], x["value"]), strict=True)
    )
    mask = x.get("mask")
    if problem.allowed is not None:
        mask = problem.allowed.numpy()
    projected = {
        n: given @ x[f"W_{n}"].T + x.get(f"b_{n}", 0.0)
        for n, given in inputs.items()
    }
    for n, row in (("K", "bias_k"), ("V", "bias_v")):
        last = _append(
            torch.from_numpy(projected[n]),
            problem.x.get(row),
            problem.zero_attn,
        )
        projected[n] = last.numpy()
    added = projected["K"].shape[-2] - S
    padded = mask
    if mask is not None and added:
        seen = np.ones((*mask.shape[:-1], added), mask.dtype)
        padded = np.concatenate((mask, seen * (mask.dtype == bool)), -1)
    split = [reference.split_heads(projected[n], H) for n in "QKV"]
    heads, weights = reference.scaled_dot_product_attention(
        *split, padded, dropout_mask=dropped
    )
    merged = reference.merge_heads(heads)
    output = merged @ x["W_O"].T + x.get("b_O", 0.0)
    if not added:
        # What there is to compose is the gradient alone.
        parameters = {
            n: x[n].T if n[0] == "W" else x[n] for n in x if n[1] == "_"
        }
        output, weights = reference.multi_head_attention(
            *inputs.values(), parameters, H, mask, dropout_mask=dropped
        )

    grad = _arriving(output.shape).numpy()
    found = {"output": output, "weights": weights}
    found["d W_O"] = _outer(grad, merged)
    found["d b_O"] = _rows(grad)
    gradients = reference.scaled_dot_product_attention_backward(
        reference.split_heads(grad @ x["W_O"], H),
        *(*split, padded),
        dropout_mask=dropped,
    )
    for n, name, gradient in zip(
        "QKV", ("query", "key", "value"), gradients, strict=True
    ):
        # (..., H, S + added, d) -> (..., S + added, H * d)
        whole = reference.merge_heads(gradient)
        own = whole[..., : inputs[n].shape[-2], :]
        found[f"d {name}"] = own @ x[f"W_{n}"]
        found[f"d W_{n}"], found[f"d b_{n}"] = (
            _outer(own, inputs[n]),
            _rows(own),
        )
        if n != "Q" and "bias_k" in x:
            learned = whole[..., S, :]
            found[f"d bias_{n.lower()}"] = _rows(learned)
    return {n: a for n, a in found.items() if n[:3] != "d b" or n[2:] in x}


def _outer(grad: NDArray, given: NDArray) -> NDArray:
    """Return the gradient of a matrix: a sum of outer products over all positions."""
    grad, given = (x.reshape(-1, x.shape[-1]) for x in (grad, given))
    return grad.T @ given


def _rows(grad: NDArray) -> NDArray:
    """Return the gradient of a vector that was added at every position."""
    return grad.reshape(-1, grad.shape[-1]).sum(axis=0)


# --- Seeds and gradients


def _seeded(function: Callable[[], Tensor]) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return function()


def _differentiated(
    function: Callable[[Named], Any],
    x: Named,
    own: Named | None = None,
) -> Results:
    """Return the output, the weights if there are any, and the gradient for each input.

    ``own`` are parameters that the function has itself, in place of inputs of the same name.
    """
    leaves = {n: t.detach().clone().requires_grad_() for n, t in x.items()}
    leaves |= own or {}
    result = _seeded(lambda: function(leaves))
    output, *weights = result if isinstance(result, tuple) else (result,)
    gradients = torch.autograd.grad(
        output, list(leaves.values()), _arriving(output.shape)
    )
    found = {f"d {n}": g for n, g in zip(leaves, gradients, strict=True)}
    found["output"] = output.detach()
    if weights:
        found["weights"] = weights[0].detach()
    return {name: tensor.numpy() for name, tensor in found.items()}


def _arriving(shape: tuple[int, ...]) -> Tensor:
    """Return the gradient that arrives at an output, the same for all that are compared."""
    rng = np.random.default_rng(SEED)
    return torch.from_numpy(rng.normal(size=tuple(shape)))
