"""The ways in which the package attends, behind one face: NumPy arrays in, NumPy arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attention import functional, reference

# What is not there is left out, and test_devices.py says so once, rather than by a thousand skips.
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]

Gradients = tuple[NDArray, NDArray, NDArray]


class NumPy:
    """The reference."""

    gives_weights = True

    def attend(
        self,
        query: NDArray,
        key: NDArray,
        value: NDArray,
        attn_mask: Any = None,
        **options: Any,
    ) -> tuple[NDArray, NDArray | None]:
        return reference.scaled_dot_product_attention(
            query, key, value, attn_mask, **options
        )

    def gradients(
        self,
        grad_output: NDArray,
        query: NDArray,
        key: NDArray,
        value: NDArray,
        attn_mask: Any = None,
        *,
        anomalies: bool = False,
        **options: Any,
    ) -> Gradients:
        del (
            anomalies
        )  # the tests turn every warning of NumPy about a NaN into an error
        return reference.scaled_dot_product_attention_backward(
            grad_output, query, key, value, attn_mask, **options
        )


class PyTorch:
    """The PyTorch function, on a device, with the weights asked for or not.

    With ``anomalies`` a NaN in any step of the backward pass is an error, cut off later or not.
    """

    def __init__(self, device: str, gives_weights: bool) -> None:
        self.device = device
        self.gives_weights = gives_weights

    def _call(
        self, tensors: list[Tensor], attn_mask: Any, options: dict[str, Any]
    ) -> Any:
        mask = (
            None
            if attn_mask is None
            else torch.tensor(attn_mask, device=self.device)
        )
        result = functional.scaled_dot_product_attention(
            *tensors, mask, return_weights=self.gives_weights, **options
        )
        return result if self.gives_weights else (result, None)

    def _tensors(self, *arrays: NDArray) -> list[Tensor]:
        return [torch.tensor(array, device=self.device) for array in arrays]

    def attend(
        self,
        query: NDArray,
        key: NDArray,
        value: NDArray,
        attn_mask: Any = None,
        **options: Any,
    ) -> tuple[NDArray, NDArray | None]:
        output, weights = self._call(
            self._tensors(query, key, value), attn_mask, options
        )
        return (
            output.cpu().numpy(),
            None if weights is None else weights.cpu().numpy(),
        )

    def gradients(
        self,
        grad_output: NDArray,
        query: NDArray,
        key: NDArray,
        value: NDArray,
        attn_mask: Any = None,
        *,
        anomalies: bool = False,
        **options: Any,
    ) -> Gradients:
        tensors = [
            x.requires_grad_() for x in self._tensors(query, key, value)
        ]
        with torch.autograd.set_detect_anomaly(anomalies):
            output, _ = self._call(tensors, attn_mask, options)
            gradients = torch.autograd.grad(
                output,
                tensors,
                torch.tensor(grad_output, device=self.device),
            )
        query_, key_, value_ = (
            gradient.cpu().numpy() for gradient in gradients
        )
        return query_, key_, value_


def tolerance(dtype: Any) -> dict[str, float]:
    """Return what rounding alone may change in an attention of small sizes and order-1 numbers.

    A score, a sum and an output are each sums of fewer than ten products, so that some ten
    roundings of relative size eps meet: ten to a hundred eps is room enough, and any mistake in
    a formula is larger by far.
    """
    eps = (
        torch.finfo(dtype).eps
        if isinstance(dtype, torch.dtype)
        else float(np.finfo(dtype).eps)
    )
    return {"rtol": 100 * eps, "atol": 30 * eps}
