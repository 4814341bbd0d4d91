"""Checkers of the book's exercises: each tries an answer, and says what broke it.

A checker takes an answer (a function, a number, an array or a letter, as the exercise says) and
returns a :class:`Verdict`, which a notebook shows. It needs NumPy and PyTorch alone.
"""

from attention.exercises._checking import Verdict
from attention.exercises.from_lookup_to_attention import (
    check_lookup_bug,
    check_lookup_by_hand,
    check_lookup_figure,
    check_lookup_norms,
    check_lookup_regression,
    check_lookup_slope,
)
from attention.exercises.scale import (
    check_scale_between,
    check_scale_blind,
    check_scale_bug,
    check_scale_by_hand,
    check_scale_figure,
    check_scale_heads,
)
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
    "check_lookup_bug",
    "check_lookup_by_hand",
    "check_lookup_figure",
    "check_lookup_norms",
    "check_lookup_regression",
    "check_lookup_slope",
    "check_scale_between",
    "check_scale_blind",
    "check_scale_bug",
    "check_scale_by_hand",
    "check_scale_figure",
    "check_scale_heads",
    "check_softmax_break",
    "check_softmax_by_hand",
    "check_softmax_figure",
    "check_softmax_log",
    "check_softmax_rows",
    "check_softmax_temperature",
    "one_maximum",
]
