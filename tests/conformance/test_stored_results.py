"""The counts that the book shows are those that the suites give."""

from __future__ import annotations

import json

import pytest
from conformance import STORED
from suites import results


@pytest.fixture(scope="module")
def computed() -> dict:
    return results()


def test_the_stored_counts_are_those_computed(computed: dict) -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert stored == computed, "run tools/conformance.py --write"


def test_every_case_of_every_suite_passes_in_every_way(
    computed: dict,
) -> None:
    counts = [(s["name"], s["cases"]) for s in computed["suites"]]
    assert counts == [
        ("ONNX Attention", 93),
        ("ONNX RotaryEmbedding", 8),
        ("ONNX Softmax", 7),
        ("PyTorch scaled_dot_product_attention", 25),
        ("PyTorch multi_head_attention_forward", 192),
        ("PyTorch MultiheadAttention", 64),
    ]
    for suite in computed["suites"]:
        for way, tally in suite["ways"].items():
            assert tally["passed"] == suite["cases"], (way, tally["failed"])
            assert tally["direct"] + tally["composed"] == tally["passed"]
