"""The cases that ONNX generates for its operators, all of them, through the package."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_operators import WAYS, Case, Way, cases, run, tolerances

ATTENTION = cases("Attention")
ROTARY = cases("RotaryEmbedding")
SOFTMAX = cases("Softmax")


@pytest.mark.parametrize(
    ("operator", "count"),
    [("Attention", 93), ("RotaryEmbedding", 8), ("Softmax", 7)],
)
def test_the_pinned_release_generates_as_many_cases_as_are_counted(
    operator: str, count: int
) -> None:
    found = cases(operator)
    assert len(found) == len({case.name for case in found}) == count


def _check(case: Case, way: Way) -> None:
    outcome = run(case, way)
    assert outcome.outputs.keys() == case.outputs.keys()
    for name, expected in case.outputs.items():
        actual = outcome.outputs[name]
        assert actual.shape == expected.shape, name
        np.testing.assert_allclose(
            actual.astype(np.float64),
            expected.astype(np.float64),
            err_msg=name,
            **tolerances(case),
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", ATTENTION, ids=lambda case: case.name)
def test_attention(case: Case, way: Way) -> None:
    _check(case, way)


@pytest.mark.parametrize("case", ROTARY, ids=lambda case: case.name)
def test_rotary_embedding(case: Case) -> None:
    _check(case, "torch, weights")


@pytest.mark.parametrize("case", SOFTMAX, ids=lambda case: case.name)
def test_softmax(case: Case) -> None:
    _check(case, "numpy")
