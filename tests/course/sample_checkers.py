"""Checkers of the small notebook, made like the book's, without NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

__all__ = ["Verdict", "check_double", "check_larger", "check_steps"]


# What is right, by exercise.
RIGHT = {"double": 42, "steps": 7}
LIMITS = [0.0]


@dataclass(frozen=True)
class Verdict:
    """What a checker says."""

    exercise: str
    state: str
    says: str
    first_input: str = ""

    def __bool__(self) -> bool:
        """Whether the answer is right."""
        return self.state == "right"

    def __repr__(self) -> str:
        """Return the verdict in words."""
        return self.says


def tried(exercise: str, got: Callable[[], Any], expected: Any) -> Verdict:
    """Return the verdict on one result."""
    result = got()
    if result is None or result is ...:
        return Verdict(exercise, "blank", f"{exercise}: still blank")
    if result == expected or abs(result - expected) < LIMITS[0]:
        return Verdict(exercise, "right", f"{exercise}: right")
    return Verdict(
        exercise, "wrong", f"{exercise}: {result!r} is wrong", "the input"
    )


def undisturbed(check: Callable[[Any], Verdict]) -> Callable[[Any], Verdict]:
    """Wrap a checker, as the book's are."""

    @wraps(check)
    def wrapped(answer: Any) -> Verdict:
        return check(answer)

    return wrapped


@undisturbed
def check_double(answer: Any) -> Verdict:
    """Check a function that doubles."""
    return tried("small-double", lambda: answer(21), RIGHT["double"])


def check_steps(answer: Any) -> Verdict:
    """Check a number."""
    return tried("small-steps", lambda: answer, RIGHT["steps"])


def check_larger(answer: Any) -> Verdict:
    """Check a function that returns the larger of two."""
    return tried("small-larger", lambda: answer(3, 5), 5)
