"""The suites of cases that others wrote, and what came of them, as data.

``tools/conformance.py`` prints and stores it; the tests compare what is stored with what is
computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import onnx_operators
import pytorch_samples
from ways import WAYS, Outcome, Way


@dataclass(frozen=True)
class Suite:
    """A set of cases, the ways that they go, and how one is compared."""

    name: str
    source: str  # the package that they come with
    cases: list[Any]
    ways: tuple[Way, ...]
    check: Callable[[Any, Way], Outcome]


def suites() -> Iterator[Suite]:
    """Yield every suite."""
    for operator, ways in onnx_operators.WAYS.items():
        yield Suite(
            f"ONNX {operator}",
            "onnx",
            onnx_operators.cases(operator),
            ways,
            onnx_operators.check,
        )
    for kind, name in (
        ("function", "scaled_dot_product_attention"),
        ("forward", "multi_head_attention_forward"),
        ("module", "MultiheadAttention"),
    ):
        yield Suite(
            f"PyTorch {name}",
            "torch",
            pytorch_samples.samples(kind),
            WAYS,
            pytorch_samples.check,
        )


def results() -> dict[str, Any]:
    """Run all suites; count what passed, what was composed, and in which ways."""
    return {
        # A local version (+cpu) names a build of the same release.
        "versions": {
            name: version(name).partition("+")[0]
            for name in ("onnx", "torch")
        },
        "suites": [
            {
                "name": suite.name,
                "source": suite.source,
                "cases": len(suite.cases),
                "ways": {way: _tally(suite, way) for way in suite.ways},
            }
            for suite in suites()
        ],
    }


def _tally(suite: Suite, way: Way) -> dict[str, Any]:
    passed = direct = draws = 0
    composed: Counter[str] = Counter()
    failed = []
    for case in suite.cases:
        try:
            outcome = suite.check(case, way)
        except Exception as error:
            failed.append(f"{case.name}: {type(error).__name__}")
            continue
        passed += 1
        direct += not outcome.composed
        draws += outcome.draws
        composed.update(set(outcome.composed))
    return {
        "passed": passed,
        "failed": failed,
        "direct": direct,
        "composed": passed - direct,
        # A case may need more than one of them.
        "composed of": dict(sorted(composed.items())),
        "dropout under the same draws": draws,
    }
