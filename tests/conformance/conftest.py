"""How long Hypothesis searches: a short while, the same in every run, unless told otherwise."""

from __future__ import annotations

import os

import torch
from hypothesis import HealthCheck, settings

# The tensors are small, and the tests run in several processes.
torch.set_num_threads(1)

COMMON = {
    "database": None,
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile(
    "repeatable", derandomize=True, max_examples=80, **COMMON
)
settings.register_profile(
    "search", derandomize=False, max_examples=2000, **COMMON
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
