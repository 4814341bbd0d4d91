"""A stand-in for a GPU, where there is none: it computes on the CPU, and refuses what CUDA would.

Tensors that are moved to "cuda" or made there stay where they are, and say that they are on a GPU.
They refuse to become NumPy arrays, to meet tensors of the CPU, and generators of another device.
What it cannot show is what a GPU rounds otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

CUDA = torch.device("cuda", 0)
TO_NUMPY = {Tensor.numpy, Tensor.__array__}
# Indices may lie on the CPU, and a copy goes from one place to the other.
ACROSS = {
    Tensor.__getitem__,
    Tensor.__setitem__,
    Tensor.copy_,
    torch._has_compatible_shallow_copy_type,
}


class OnGpu(Tensor):
    """A tensor that acts as if it were on a GPU."""

    @property
    def device(self) -> torch.device:
        """Where it seems to be."""
        return CUDA

    @property
    def is_cuda(self) -> bool:
        """It seems to be on a GPU."""
        return True

    @property
    def grad(self) -> Tensor | None:
        """Its gradient, which is on the GPU too."""
        grad = Tensor.grad.__get__(self)
        return grad if grad is None else grad.as_subclass(OnGpu)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        Tensor.grad.__set__(self, value)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Refuse what CUDA refuses; what comes out is on the GPU again."""
        if func in TO_NUMPY:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy"
            )
        if func not in ACROSS:
            same_device(func, (args, kwargs))
        return super().__torch_function__(func, types, args, kwargs or {})


def same_device(func: Callable[..., Any], inputs: Any) -> None:
    """Raise RuntimeError if tensors of both places meet; a single number may come along."""
    tensors = [x for x in tree_leaves(inputs) if isinstance(x, Tensor)]
    apart = [x for x in tensors if not isinstance(x, OnGpu) and x.ndim]
    if apart and len(apart) < len(tensors):
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least"
            f" two devices, cuda:0 and cpu, in {func.__name__}"
        )


def named(argument: object) -> str:
    """Return the kind of device that an argument names; empty if it names none."""
    if isinstance(argument, torch.device):
        return argument.type
    if isinstance(argument, str) and argument.split(":")[0] in (
        "cpu",
        "cuda",
    ):
        return argument.split(":")[0]
    return ""


class StandIn(TorchFunctionMode):
    """Keeps on the CPU what is to go to a GPU, and marks it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the function without the device, then mark or unmark what it gives."""
        kwargs = dict(kwargs or {})
        moves = func in (Tensor.to, Tensor.cpu, Tensor.cuda)
        places = [*(args[1:] if moves else ()), kwargs.get("device")]
        wanted = {Tensor.cpu: "cpu", Tensor.cuda: "cuda"}.get(func) or next(
            filter(None, map(named, places)), ""
        )
        if not wanted:
            return func(*args, **kwargs)
        generator = kwargs.get("generator")
        if generator is not None and generator.device.type != wanted:
            raise RuntimeError(
                f"Expected a '{wanted}' device type for generator but found"
                f" '{generator.device.type}'"
            )
        kwargs.pop("device", None)
        if moves:
            given = [*args[1:], kwargs.get("dtype")]
            dtypes = [x for x in given if isinstance(x, torch.dtype)]
            func, kwargs = (Tensor.to if dtypes else Tensor.clone), {}
            args = (args[0].as_subclass(Tensor), *dtypes)
        kind = OnGpu if wanted == "cuda" else Tensor
        return tree_map(
            lambda x: x.as_subclass(kind) if isinstance(x, Tensor) else x,
            func(*args, **kwargs),
        )


class Event:
    """Stands in for an event: the time at which it was recorded."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self) -> None:
        """Note the time."""
        self.at = time.perf_counter()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds from this event to another."""
        return 1000 * (end.at - self.at)


@contextmanager
def gpu(capability: tuple[int, int] = (9, 0)) -> Iterator[None]:
    """Let code find a GPU."""
    given: dict[str, Any] = {
        "Event": Event,
        "get_device_capability": lambda: capability,
        "is_available": lambda: True,
        "max_memory_allocated": lambda: 0,
        "memory_allocated": lambda: 0,
        "reset_peak_memory_stats": lambda: None,
        "synchronize": lambda: None,
    }
    new_parameters = (
        torch.__future__.get_overwrite_module_params_on_conversion()
    )
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with patch.multiple(torch.cuda, **given), StandIn():
            yield
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(
            new_parameters
        )
