"""What the book shows of the benchmarks is what the benchmarks measure."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from bench import GOALS, judge, sweep  # noqa: E402
from plot import EVIDENCE, RESULTS, digest, draw  # noqa: E402

STORED = json.loads(RESULTS.read_text("utf-8"))


@pytest.mark.parametrize("name", ["benchmarks-time", "benchmarks-memory"])
def test_a_figure_was_drawn_from_the_stored_results(name: str) -> None:
    picture = Image.open(EVIDENCE / f"{name}.png")
    assert picture.text["Source"] == digest(STORED), "run benchmarks/plot.py"


def test_all_figures_can_be_drawn_from_the_stored_results(
    tmp_path: Path,
) -> None:
    draw(STORED, tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in EVIDENCE.glob("*.png")}


def test_the_stored_goals_follow_from_the_stored_times() -> None:
    results = {
        json.dumps(result["setting"]): result
        for result in STORED["settings"]
    }
    assert STORED["goals"] == [
        judge(goal, results[json.dumps(asdict(goal.setting))])
        for goal in GOALS
    ]


def test_every_length_dtype_and_kind_of_work_is_stored() -> None:
    stored = [result["setting"] for result in STORED["sweep"]]
    assert stored == [asdict(setting) for setting in sweep("cpu")]
    lengths = {s["length"] for s in stored}
    assert (min(lengths), max(lengths)) == (128, 4096)
    assert {s["dtype"] for s in stored} == {"float32", "bfloat16"}
