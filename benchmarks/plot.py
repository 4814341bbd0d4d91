"""Draw the stored benchmark results as the figures of a page of the book.

python benchmarks/plot.py      (bench.py --write does it too)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contenders import OURS
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from attention import plotting

EVIDENCE = Path(__file__).resolve().parents[1] / "chapters" / "evidence"
RESULTS = EVIDENCE / "benchmarks.json"
# The same contender has the same colour, dash and marker in all panels.
LOOKS = {
    OURS: {"color": "black", "linestyle": "-", "marker": "o"},
    "textbook": {
        "color": plotting.COLORS["orange"],
        "linestyle": "--",
        "marker": "s",
    },
    "PyTorch": {
        "color": plotting.COLORS["blue"],
        "linestyle": ":",
        "marker": "^",
    },
    "nn.MultiheadAttention, as called by default": {
        "color": plotting.COLORS["green"],
        "linestyle": "-.",
        "marker": "D",
    },
    "nn.MultiheadAttention, no weights, slow path": {
        "color": plotting.COLORS["blue"],
        "linestyle": ":",
        "marker": "^",
    },
    "nn.MultiheadAttention, no weights, fast path": {
        "color": plotting.COLORS["pink"],
        "linestyle": "--",
        "marker": "v",
    },
    "the matrix products alone": {
        "color": "0.45",
        "linestyle": "-",
        "marker": "x",
    },
}


def swept(
    results: dict[str, Any], kind: str, training: bool
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield setting and contenders of one kind of work in float32, from short to long."""
    for result in results["sweep"]:
        setting = result["setting"]
        if (setting["kind"], setting["training"]) == (kind, training) and (
            setting["dtype"] == "float32"
        ):
            yield setting, result["contenders"]


def draw_times(results: dict[str, Any], folder: Path) -> None:
    """Draw everybody's time as a multiple of ours, over the length."""
    with plotting.style(figure_figsize=(8.0, 6.6)):
        figure, panels = plt.subplots(2, 2, sharex=True, sharey="row")
        for row, kind in zip(panels, ("function", "layer"), strict=True):
            for ax, training in zip(row, (False, True), strict=True):
                points: dict[str, list[tuple[float, ...]]] = {}
                for setting, rows in swept(results, kind, training):
                    for name, measured in rows.items():
                        low, high = measured["quartiles"]
                        points.setdefault(name, []).append(
                            (
                                setting["length"],
                                1 / measured["ratio"],
                                1 / high,
                                1 / low,
                            )
                        )
                for name, line in points.items():
                    x, y, low, high = zip(*line, strict=True)
                    ax.plot(x, y, label=name, **LOOKS[name])
                    ax.fill_between(
                        x, low, high, color=LOOKS[name]["color"], alpha=0.15
                    )
                work = "training step" if training else "forward"
                ax.set_title(f"{kind}, {work}")
                _lengths(
                    ax,
                    [
                        setting["length"]
                        for setting, _ in swept(results, kind, training)
                    ],
                )
            row[0].set_ylabel("time, as a multiple of ours")
            # In the panel on the right the lines leave more room.
            handles = row[0].get_legend_handles_labels()
            row[1].legend(*handles, fontsize=8, loc="upper left")
        for ax in panels[-1]:
            ax.set_xlabel("length L")
        _save(figure, folder / "benchmarks-time.png", results)


def draw_memory(results: dict[str, Any], folder: Path) -> None:
    """Draw the peak of additional memory for each head of each sequence, over the length."""
    with plotting.style(figure_figsize=(8.0, 3.6)):
        figure, panels = plt.subplots(1, 2, sharey=True)
        for ax, training in zip(panels, (False, True), strict=True):
            points: dict[str, list[tuple[float, float]]] = {}
            for setting, rows in swept(results, "function", training):
                heads = setting["batch"] * setting["heads"]
                for name, measured in rows.items():
                    points.setdefault(name, []).append(
                        (setting["length"], measured["megabytes"] / heads)
                    )
            for name, line in points.items():
                ax.plot(*zip(*line, strict=True), label=name, **LOOKS[name])
            ax.set_yscale("log")
            work = "training step" if training else "forward"
            ax.set_title(f"function, {work}")
            _lengths(ax, [length for length, _ in line])
            ax.set_xlabel("length L")
        panels[0].set_ylabel("peak memory per head, MB")
        panels[0].legend(fontsize=8)
        _save(figure, folder / "benchmarks-memory.png", results)


def _lengths(ax: Axes, lengths: list[int]) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xticks(lengths, [str(n) for n in lengths])
    ax.xaxis.set_minor_locator(NullLocator())


def _save(figure: plt.Figure, path: Path, results: dict[str, Any]) -> None:
    figure.savefig(
        path, metadata={"Software": None, "Source": digest(results)}
    )
    plt.close(figure)


def digest(results: dict[str, Any]) -> str:
    """Name the numbers that a figure shows; it is written into the picture."""
    return hashlib.sha256(json.dumps(results).encode()).hexdigest()


def draw(results: dict[str, Any], folder: Path = EVIDENCE) -> None:
    """Draw all figures into a folder."""
    draw_times(results, folder)
    draw_memory(results, folder)


if __name__ == "__main__":
    draw(json.loads(RESULTS.read_text("utf-8")))
