"""The cases that ONNX generates for its operators, all of them, through the package."""

from __future__ import annotations

import pytest
from onnx_operators import WAYS, Case, cases, check
from ways import Way


@pytest.mark.parametrize(
    ("operator", "count"),
    [("Attention", 93), ("RotaryEmbedding", 8), ("Softmax", 7)],
)
def test_the_pinned_release_generates_as_many_cases_as_are_counted(
    operator: str, count: int
) -> None:
    found = cases(operator)
    assert len(found) == len({case.name for case in found}) == count


@pytest.mark.parametrize(
    ("case", "way"),
    [
        pytest.param(case, way, id=f"{case.name}-{way}")
        for operator, ways in WAYS.items()
        for case in cases(operator)
        for way in ways
    ],
)
def test_the_outputs_are_those_that_onnx_expects(
    case: Case, way: Way
) -> None:
    check(case, way)
