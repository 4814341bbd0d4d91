"""What answers prove of each checker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from attention.exercises import Verdict


@dataclass(frozen=True)
class Proof:
    """Right and wrong answers to one exercise, by name.

    A wrong answer goes with words that the verdict has to hold.
    """

    check: Callable[[object], Verdict]
    right: Mapping[str, Any]
    wrong: Mapping[str, tuple[Any, str]]


def proofs() -> list[Proof]:
    """Return the proofs of all checkers, chapter by chapter."""
    names = sorted(
        path.stem
        for path in Path(__file__).parent.glob("*.py")
        if path.stem != "__init__"
    )
    return [
        proof
        for name in names
        for proof in import_module(f"{__name__}.{name}").PROOFS
    ]
