"""The ways in which the package attends, and what a case that went through one of them says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Way = Literal["numpy", "torch, weights", "torch, fused"]
WAYS: tuple[Way, ...] = ("numpy", "torch, weights", "torch, fused")


@dataclass
class Outcome:
    """What a comparison that held had to put together itself."""

    # What the package does not offer, made out of its public functions: empty
    # where it offers all.
    composed: list[str] = field(default_factory=list)
    # Whether dropout was random, and compared under the same draws.
    draws: bool = False
