"""Devices and implementations, over which the tests of the package run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from implementations import DEVICES, NumPy, PyTorch

# The tensors are tiny, and the tests run in several processes: more threads only get in the way.
torch.set_num_threads(1)

NUMPY = pytest.param(NumPy(), id="numpy")
WEIGHING = [
    pytest.param(PyTorch(d, gives_weights=True), id=f"torch weights {d}")
    for d in DEVICES
]
FUSED = [
    pytest.param(PyTorch(d, gives_weights=False), id=f"torch fused {d}")
    for d in DEVICES
]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Every device on which the PyTorch code is tested."""
    return request.param


@pytest.fixture(params=[NUMPY, *WEIGHING, *FUSED])
def implementation(request: pytest.FixtureRequest) -> NumPy | PyTorch:
    """Every way to attend: NumPy, PyTorch with the weights, PyTorch's fused kernels."""
    return request.param


@pytest.fixture(params=[NUMPY, *WEIGHING])
def weighing(request: pytest.FixtureRequest) -> NumPy | PyTorch:
    """Every way to attend that also returns the weights."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2017)
