"""What answers prove of each checker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from attention.exercises import Verdict, _checking


@dataclass(frozen=True, eq=False)
class Proof:
    """Right and wrong answers to one exercise, by name.

    A wrong answer goes with words that the verdict has to hold. One that does not end says so in
    its name ("never ends"), and is not waited for as long as the others.
    """

    check: Callable[[object], Verdict]
    right: Mapping[str, Any]
    wrong: Mapping[str, tuple[Any, str]]

    def accepts(self, name: str) -> Verdict:
        """Return the verdict on a right answer."""
        return self.check(self.right[name])

    @cache  # noqa: B019
    def rejects(self, name: str) -> Verdict:
        """Return the verdict on a wrong answer."""
        patient = _checking.SECONDS
        _checking.SECONDS = 1.0 if "never ends" in name else patient
        try:
            return self.check(self.wrong[name][0])
        finally:
            _checking.SECONDS = patient


def exposed() -> dict[str, dict[str, str]]:
    """Return for each exercise its wrong answers, and the first input that exposes each."""
    return {
        proof.check(...).exercise: {
            name: proof.rejects(name).first_input for name in proof.wrong
        }
        for proof in proofs()
    }


@cache
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
