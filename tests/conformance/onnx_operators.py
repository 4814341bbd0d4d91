"""The operators of ONNX, made out of the package's public functions.

What the package's function offers itself is passed on to it ("direct"); what it does not, such as a
soft cap or a cache, is put together here out of public functions of the package and plain array
operations ("composed"). Each case says which.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import ways
from numpy.typing import NDArray
from onnx import AttributeProto, helper
from onnx.backend.test.case.node import _NodeTestCases
from torch import Tensor
from torch.nn import functional as F
from ways import Outcome, Way

from attention import functional, masks, multihead, positions, reference

# Importing a generator adds its cases to the list; some overflow on purpose.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for generator in ("attention", "rotaryembedding", "softmax"):
        importlib.import_module(f"onnx.backend.test.case.node.{generator}")

# The ways that an operator can go: turning is not attending, and only NumPy has
# a softmax of its own.
WAYS: dict[str, tuple[Way, ...]] = {
    "Attention": ways.WAYS,
    "RotaryEmbedding": ("torch, weights",),
    "Softmax": ("numpy",),
}

Results = dict[str, NDArray]


@dataclass(frozen=True)
class Case:
    """One case of the generators: the operator's inputs and attributes, and what must come out."""

    name: str
    operator: str
    inputs: dict[str, NDArray]
    attributes: dict[str, Any]
    outputs: dict[str, NDArray]

    @property
    def dtype(self) -> str:
        """The name of the floating dtype of the inputs."""
        return str(next(iter(self.inputs.values())).dtype)


def cases(operator: str) -> list[Case]:
    """Return all cases of an operator, without the copies that write it out in other operators."""
    found = []
    for case in _NodeTestCases:
        nodes = case.model.graph.node
        if case.name.endswith("_expanded") or "_expanded_" in case.name:
            continue
        if len(nodes) != 1 or nodes[0].op_type != operator:
            continue
        assert len(case.data_sets) == 1
        given, expected = case.data_sets[0]
        found.append(
            Case(
                case.name.removeprefix("test_"),
                operator,
                _named(nodes[0].input, given),
                {
                    a.name: helper.get_attribute_value(a)
                    for a in nodes[0].attribute
                    if a.type != AttributeProto.UNDEFINED
                },
                _named(nodes[0].output, expected),
            )
        )
    return found


def _named(names: Any, arrays: Any) -> dict[str, NDArray]:
    """Pair the names of a node's inputs with the arrays: a name that is empty was left out."""
    return dict(zip((n for n in names if n), arrays, strict=True))


def tolerances(case: Case) -> dict[str, float]:
    """Return how far a result may be off.

    ONNX's own 1e-3 and 1e-7 for float32. In the half precisions the expected outputs are rounded
    at every step and ours at the end, so that a few units in the last place lie between them.
    """
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(case.dtype)
    if unit is None:
        return {"rtol": 1e-3, "atol": 1e-7}
    return {"rtol": 4 * unit, "atol": 2 * unit}


def check(case: Case, way: Way) -> Outcome:
    """Compare all outputs of a case with the expected ones; say what was composed."""
    outcome = Outcome()
    outputs = OPERATORS[case.operator](case, way, outcome.composed)
    assert outputs.keys() == case.outputs.keys()
    for name, expected in case.outputs.items():
        actual = outputs[name]
        assert actual.shape == expected.shape, name
        np.testing.assert_allclose(
            actual.astype(np.float64),
            expected.astype(np.float64),
            err_msg=name,
            **tolerances(case),
        )
    return outcome


# --- Attention


def _attention(case: Case, way: Way, composed: list[str]) -> Results:
    attributes = case.attributes
    x = {name: _tensor(array) for name, array in case.inputs.items()}
    query, key, value = x["Q"], x["K"], x["V"]
    merged = query.ndim == 3
    if merged:
        composed.append("heads side by side")
        query = multihead.split_heads(query, attributes["q_num_heads"])
        key = multihead.split_heads(key, attributes["kv_num_heads"])
        value = multihead.split_heads(value, attributes["kv_num_heads"])
    past = 0
    if "past_key" in x:
        composed.append("cache")
        past = x["past_key"].shape[-2]
        key = torch.cat((x["past_key"], key), dim=-2)
        value = torch.cat((x["past_value"], value), dim=-2)
    present = {"present_key": key, "present_value": value}
    (*_, L, d_k), S = query.shape, key.shape[-2]

    mask = x.get("attn_mask")
    if mask is not None and mask.shape[-1] < S:
        composed.append("mask shorter than the keys")
        hidden = False if mask.dtype == torch.bool else -torch.inf
        mask = F.pad(mask, (0, S - mask.shape[-1]), value=hidden)
    windowed = _windowed(attributes)
    lengths = x.get("nonpad_kv_seqlen")
    is_causal = bool(attributes.get("is_causal", 0))
    if lengths is not None or windowed or (is_causal and past):
        unbounded = not (windowed or is_causal)
        composed.append("padding" if unbounded else "window or offset")
        allowed = _allowed(L, S, past, lengths, attributes)
        mask = _combine(mask, allowed, query.dtype)
        is_causal = False
    if mask is not None and mask.ndim == 1:
        mask = mask.expand(L, S)

    scale = attributes.get("scale", d_k**-0.5)
    mode = attributes.get("qk_matmul_output_mode", 0)
    softcap = attributes.get("softcap", 0.0)
    wanted = "qk_matmul_output" in case.outputs
    scores = None
    if softcap or (wanted and mode < 3):
        group = query.shape[1] // key.shape[1]
        scores = query @ key.repeat_interleave(group, 1).mT * scale
    if softcap:
        composed.append("soft cap")
        scores = softcap * torch.tanh(scores / softcap)
        # Scores that are known already: a bias, on dot products with a query of zeros.
        query = torch.zeros_like(query)
        if is_causal:
            mask = _combine(mask, masks.causal(L, S), query.dtype)
            is_causal = False
        bias = _additive(mask, query.dtype)
        bias = scores if bias is None else scores + bias
    else:
        bias = mask
    if way == "numpy":
        if query.shape[1] != key.shape[1]:
            composed.append("grouped heads")
        if query.dtype == torch.bfloat16:
            composed.append("bfloat16 as float32")
    output, weights = _attend(
        way, query, key, value, bias, is_causal=is_causal, scale=scale
    )
    results = {"Y": multihead.merge_heads(output) if merged else output}
    results |= {k: v for k, v in present.items() if k in case.outputs}
    if wanted:
        if mode < 3:
            composed.append("scores returned")
        if mode == 3:
            if weights is None:
                composed.append("weights on the fused path")
                _, weights = _attend(
                    "torch, weights",
                    *(query, key, value, bias),
                    is_causal=is_causal,
                    scale=scale,
                )
            results["qk_matmul_output"] = weights
        else:
            assert scores is not None
            if mode == 2:
                allowed_bias = _additive(mask, query.dtype)
                if is_causal:
                    allowed_bias = _additive(
                        _combine(mask, masks.causal(L, S), query.dtype),
                        query.dtype,
                    )
                scores = (
                    scores if allowed_bias is None else scores + allowed_bias
                )
            results["qk_matmul_output"] = scores
    return {k: _array(v, case) for k, v in results.items()}


def _windowed(attributes: dict[str, Any]) -> bool:
    sides = ("left_window_size", "right_window_size")
    return any(attributes.get(side, -1) >= 0 for side in sides)


def _allowed(
    L: int,
    S: int,
    past: int,
    lengths: Tensor | None,
    attributes: dict[str, Any],
) -> Tensor:
    """Return the boolean mask of causality, window and padding, with the queries where they stand.

    The queries come after ``past`` keys, or are the last ones of each sequence's real keys.
    """
    left, right = (
        attributes.get(side, -1)
        for side in ("left_window_size", "right_window_size")
    )
    if attributes.get("is_causal", 0):
        right = 0
    if lengths is not None and max(left, right) < 0:
        return masks.padding(lengths, S)
    everything = past + L + S
    left = everything if left < 0 else left
    right = everything if right < 0 else right
    if lengths is None:
        return masks.sliding_window(past + L, S, left=left, right=right)[
            past:
        ]
    rows = []
    for n in lengths.tolist():
        window = masks.sliding_window(
            L, n, left=left, right=right, alignment="lower_right"
        )
        rows.append(F.pad(window, (0, S - n)))
    return torch.stack(rows)[:, None] & masks.padding(lengths, S)


def _combine(
    mask: Tensor | None, allowed: Tensor, dtype: torch.dtype
) -> Tensor:
    if mask is None:
        return allowed
    if mask.dtype == torch.bool:
        return mask & allowed
    return mask + masks.to_additive(allowed, dtype)


def _additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if mask is None or mask.dtype != torch.bool:
        return mask
    return masks.to_additive(mask, dtype)


def _attend(
    way: Way,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    grouped = query.shape[1] != key.shape[1]
    if way == "torch, fused":
        output = functional.scaled_dot_product_attention(
            query, key, value, mask, enable_gqa=grouped, **options
        )
        return output, None
    if way == "torch, weights":
        return functional.scaled_dot_product_attention(
            *(query, key, value, mask),
            enable_gqa=grouped,
            return_weights=True,
            **options,
        )
    dtype = query.dtype
    # NumPy has no bfloat16.
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    arrays = [x.to(wide).numpy() for x in (query, key, value)]
    if mask is not None:
        mask = (mask if mask.dtype == torch.bool else mask.to(wide)).numpy()
    if grouped:
        group = query.shape[1] // key.shape[1]
        arrays[1:] = (np.repeat(x, group, axis=1) for x in arrays[1:])
    output, weights = reference.scaled_dot_product_attention(
        *arrays, mask, **options
    )
    return torch.from_numpy(output).to(dtype), torch.from_numpy(weights)


# --- RotaryEmbedding and Softmax


def _rotary_embedding(case: Case, way: Way, composed: list[str]) -> Results:
    attributes = case.attributes
    x = {name: _tensor(array) for name, array in case.inputs.items()}
    given, cos, sin = x["input"], x["cos_cache"], x["sin_cache"]
    if "position_ids" in x:
        # A table, from which each position takes its row.
        cos, sin = cos[x["position_ids"]], sin[x["position_ids"]]
    heads = given
    if given.ndim == 3:
        composed.append("heads side by side")
        heads = multihead.split_heads(given, attributes["num_heads"])
    width = attributes.get("rotary_embedding_dim", 0) or heads.shape[-1]
    if width < heads.shape[-1]:
        composed.append("a part of the width")
    turned = positions.rotate(
        heads[..., :width],
        cos[:, None],  # (B, L, width / 2) -> (B, 1, L, width / 2)
        sin[:, None],
        pairing="interleaved"
        if attributes.get("interleaved", 0)
        else "half_split",
    )
    output = torch.cat((turned, heads[..., width:]), dim=-1)
    if given.ndim == 3:
        output = multihead.merge_heads(output)
    return {"output": _array(output, case)}


def _softmax(case: Case, way: Way, composed: list[str]) -> Results:
    axis = case.attributes.get("axis", -1)
    return {"y": reference.softmax(case.inputs["x"], axis=axis)}


OPERATORS: dict[str, Callable[[Case, Way, list[str]], Results]] = {
    "Attention": _attention,
    "RotaryEmbedding": _rotary_embedding,
    "Softmax": _softmax,
}


def _tensor(array: NDArray) -> Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _array(tensor: Tensor, case: Case) -> NDArray:
    return (
        tensor.to(torch.float32).numpy()
        if case.dtype == "bfloat16"
        else tensor.numpy()
    )
