"""On which devices the tests of this folder ran."""

from __future__ import annotations

import pytest
import torch
from implementations import DEVICES


@pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="every test of tests/package that takes a device also runs on CUDA, where there is one",
)
def test_cuda_is_among_the_devices_tested() -> None:
    assert "cuda" in DEVICES
