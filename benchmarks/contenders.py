"""What is timed side by side: the package, PyTorch's own, and what a textbook would write."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from attention import MultiHeadAttention, masks, reference
from attention import scaled_dot_product_attention as attend

OURS = "attention"
Call = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """One situation in which all contenders do the same work."""

    kind: Literal["function", "layer", "numpy"]
    batch: int = 8
    heads: int = 8
    length: int = 512
    width: int = 64  # of a head
    dtype: str = "float32"
    device: str = "cpu"
    causal: bool = False
    weights: bool = False
    training: bool = False

    @property
    def d_model(self) -> int:
        """The width of the layer."""
        return self.heads * self.width

    def __str__(self) -> str:
        """Say in words what is done."""
        words = [self.kind, "training step" if self.training else "forward"]
        words += ["with weights"] * self.weights + ["causal"] * self.causal
        size = f"B {self.batch}, H {self.heads}, L {self.length}"
        return f"{', '.join(words)}; {size}, {self.dtype}, {self.device}"


def contenders(setting: Setting) -> dict[str, Call]:
    """Return the calls to time, each with its inputs and parameters ready."""
    torch.manual_seed(0)
    made = {"function": _functions, "layer": _layers, "numpy": _arrays}
    return made[setting.kind](setting)


# --- the function


def _functions(setting: Setting) -> dict[str, Call]:
    shape = (setting.batch, setting.heads, setting.length, setting.width)
    tensors = [_random(setting, *shape) for _ in range(3)]
    causal, weights = setting.causal, setting.weights
    calls = {
        OURS: lambda: attend(
            *tensors, is_causal=causal, return_weights=weights
        ),
        "textbook": lambda: _textbook(*tensors, causal),
    }
    if not weights:
        calls["PyTorch"] = lambda: F.scaled_dot_product_attention(
            *tensors, is_causal=causal
        )
    return {
        name: _step(setting, call, tensors) for name, call in calls.items()
    }


def _textbook(
    query: Tensor, key: Tensor, value: Tensor, causal: bool
) -> tuple[Tensor, Tensor]:
    """Attend as the formula reads."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


# --- the layer


class TextbookLayer(nn.Module):
    """Multi-head attention as the formula reads, with PyTorch's own projections."""

    def __init__(self, d_model: int, num_heads: int, **options: Any) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.projections = nn.ModuleList(
            nn.Linear(d_model, d_model, **options) for _ in range(4)
        )

    def forward(self, x: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
        heads = [
            projection(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projection in self.projections[:3]
        ]
        output, weights = _textbook(*heads, causal)
        return self.projections[3](
            output.transpose(1, 2).flatten(2)
        ), weights


def _layers(setting: Setting) -> dict[str, Call]:
    options: Any = {
        "device": setting.device,
        "dtype": getattr(torch, setting.dtype),
    }
    ours = MultiHeadAttention(setting.d_model, setting.heads, **options)
    theirs = ours.to_torch()
    textbook = TextbookLayer(setting.d_model, setting.heads, **options)
    for module in (ours, theirs, textbook):
        module.train(setting.training)
    x = _random(setting, setting.batch, setting.length, setting.d_model)
    causal, weights = setting.causal, setting.weights
    mask: dict[str, Any] = {}
    if causal:
        seen = masks.causal(setting.length, device=setting.device)
        mask = {"attn_mask": ~seen}  # there True means the opposite

    def module_without_weights(fast_path: bool) -> object:
        hint = {"is_causal": True} if causal else {}
        torch.backends.mha.set_fastpath_enabled(fast_path)
        try:
            return theirs(x, x, x, need_weights=False, **mask, **hint)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)

    calls: dict[str, Call] = {
        OURS: lambda: ours(x, is_causal=causal, return_weights=weights),
        "textbook": lambda: textbook(x, causal),
        "nn.MultiheadAttention, as called by default": lambda: theirs(
            x, x, x, **mask
        ),
    }
    if weights:
        calls["nn.MultiheadAttention, weights per head"] = lambda: theirs(
            x, x, x, average_attn_weights=False, **mask
        )
    else:
        calls["nn.MultiheadAttention, no weights, slow path"] = lambda: (
            module_without_weights(False)
        )
        if not setting.training:  # where the fast path is not taken
            calls["nn.MultiheadAttention, no weights, fast path"] = lambda: (
                module_without_weights(True)
            )
    leaves = {
        OURS: [x, *ours.parameters()],
        "textbook": [x, *textbook.parameters()],
    }
    steps = {
        name: _step(
            setting, call, leaves.get(name, [x, *theirs.parameters()])
        )
        for name, call in calls.items()
    }
    steps["the matrix products alone"] = _products(setting, x)
    return steps


def _products(setting: Setting, x: Tensor) -> Call:
    """Return the matrix products of the layer and nothing else; three times as many in training."""
    rows = x.detach().flatten(0, 1)
    matrix = _random(setting, setting.d_model, setting.d_model).detach()
    head = _random(
        setting, setting.batch * setting.heads, setting.length, setting.width
    ).detach()

    def call() -> object:
        result = None
        for _ in range(3 if setting.training else 1):
            for _ in range(4):
                rows @ matrix
            result = (head @ head.transpose(1, 2)) @ head
        return result

    return call


# --- NumPy


def _arrays(setting: Setting) -> dict[str, Call]:
    rng = np.random.default_rng(0)
    shape = (setting.batch, setting.heads, setting.length, setting.width)
    arrays = [
        rng.standard_normal(shape, dtype=np.float32).astype(setting.dtype)
        for _ in range(3)
    ]
    return {
        OURS: lambda: reference.scaled_dot_product_attention(*arrays),
        "textbook": lambda: _textbook_in_numpy(*arrays),
    }


def _textbook_in_numpy(
    query: NDArray, key: NDArray, value: NDArray
) -> tuple[NDArray, NDArray]:
    """Attend as the formula reads, with the maximum of each row subtracted."""
    scores = query @ key.swapaxes(-2, -1) / math.sqrt(query.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return weights @ value, weights


# --- shared


def _random(setting: Setting, *shape: int) -> Tensor:
    return torch.randn(
        shape,
        device=setting.device,
        dtype=getattr(torch, setting.dtype),
        requires_grad=setting.training,
    )


def _step(setting: Setting, call: Call, leaves: list[Tensor]) -> Call:
    """Return a forward call without gradients, or a forward and backward one."""
    if not setting.training:
        return torch.no_grad()(call)

    def step() -> object:
        result: Any = call()
        output = result[0] if isinstance(result, tuple) else result
        return torch.autograd.grad(output, leaves, torch.ones_like(output))

    return step
