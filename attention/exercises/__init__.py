"""Checkers of the book's exercises: each tries an answer, and says what broke it.

A checker takes an answer (a function, a number, an array or a letter, as the exercise says) and
returns a :class:`Verdict`, which a notebook shows. It needs NumPy and PyTorch alone.
"""

from attention.exercises._checking import Verdict
from attention.exercises.softmax import (
    check_softmax_break,
    check_softmax_by_hand,
    check_softmax_figure,
    check_softmax_log,
    check_softmax_rows,
    check_softmax_temperature,
    one_maximum,
)

__all__ = [
    "Verdict",
    "check_softmax_break",
    "check_softmax_by_hand",
    "check_softmax_figure",
    "check_softmax_log",
    "check_softmax_rows",
    "check_softmax_temperature",
    "one_maximum",
]
