"""The cells that take a GPU where there is one run there, and print what they print on a CPU."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import execute
import matplotlib
import numpy as np
import pytest
import stand_in
import torch
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "chapters"
NOTEBOOKS = [execute.load(path) for path in sorted(CHAPTERS.glob("*.ipynb"))]
# Chapters whose code asks for a GPU, tested below one by one.
WITH_GPU = {"scaled-dot-product-attention", "what-heads-learn"}
# As large as a CPU can bear: what is replaced in a cell, and by what.
SMALLER = [
    ("heads, length = (16, 4096)", "heads, length = (2, 512)"),
    ("steps, rate, unseen = 1000", "steps, rate, unseen = 3"),
]


def run(cell: NotebookNode, names: dict[str, Any]) -> list[str]:
    """Run a cell; return the lines that it prints."""
    source = cell.source
    for large, small in SMALLER:
        source = source.replace(large, small)
    shown = io.StringIO()
    try:
        with redirect_stdout(shown):
            exec(compile(source, cell.id, "exec"), names)
    except Exception:
        if "raises-exception" not in cell.metadata.get("tags", []):
            raise
    return shown.getvalue().splitlines()


def stored(cell: NotebookNode) -> list[str]:
    """Return the lines that a cell printed on a CPU."""
    texts = [out.text for out in cell.outputs if out.output_type == "stream"]
    return "".join(texts).splitlines()


def test_the_chapters_that_ask_for_a_gpu_are_tested_here() -> None:
    asking = {
        path.stem
        for path in CHAPTERS.glob("*.ipynb")
        if "cuda" in path.read_text("utf-8")
    }
    assert asking == WITH_GPU


@pytest.mark.parametrize("capability", [(7, 5), (9, 0)])
def test_attention_on_a_gpu_prints_what_it_prints_on_a_cpu(
    capability: tuple[int, int],
) -> None:
    matplotlib.use("agg")
    notebook = execute.load(CHAPTERS / "scaled-dot-product-attention.ipynb")
    names: dict[str, Any] = {}
    with stand_in.gpu(capability):
        for cell in notebook.cells:
            if cell.cell_type != "code":
                continue
            lines = run(cell, names)
            if cell.id == "timed-by-events":
                assert [line.split()[0] for line in lines] == [
                    "the",
                    "fused",
                    "fused",
                ]
                continue
            assert lines == stored(cell), cell.id
    assert names["q"].device.type == "cuda"
    assert names["device"] == "cuda"
    assert names["length"] == 512
    half = torch.float16 if capability < (8, 0) else torch.bfloat16
    assert names["dtype"] is half


def test_a_model_trains_on_a_gpu() -> None:
    matplotlib.use("agg")
    notebook = execute.load(CHAPTERS / "what-heads-learn.ipynb")
    names: dict[str, Any] = {}
    needed = {"code-10", "code-13", "code-20"}
    lines = []
    with stand_in.gpu():
        for cell in notebook.cells:
            tags = cell.metadata.get("tags", [])
            if cell.id in needed or "model" in tags:
                lines += run(cell, names)
            if cell.id == "code-8":
                names["watched"] = range  # A bar needs a notebook.
    assert "begins at chance: True" in lines
    # Three steps teach nothing: what counts is that the cells run.
    assert [line.rpartition(":")[0] for line in lines[-2:]] == [
        "fresh, previous above 0.3",
        "fresh, induction above 0.5",
    ]
    assert len(names["history"]) == 3
    assert next(names["fresh"].parameters()).device.type == "cuda"


# --------------------------------------------------------------------------- the stand-in notices
def on_gpu(*shape: int) -> torch.Tensor:
    """Return a tensor on the stand-in."""
    return torch.ones(shape).to("cuda")


FAULTS: dict[str, Callable[[], object]] = {
    "a tensor on the GPU as an array": lambda: on_gpu(2).numpy(),
    "NumPy called with it": lambda: np.asarray(on_gpu(2)),
    "compared by NumPy": lambda: np.allclose(on_gpu(2), 1.0),
    "a mask left on the CPU": lambda: on_gpu(2).masked_fill(
        torch.ones(2) > 0, 0.0
    ),
    "a product across devices": lambda: on_gpu(2, 2) @ torch.ones(2, 2),
    "a layer left on the CPU": lambda: torch.nn.Linear(2, 2)(on_gpu(3, 2)),
    "a generator of the CPU": lambda: torch.randn(
        2, generator=torch.Generator(), device="cuda"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_stand_in_refuses(fault: str) -> None:
    with (
        stand_in.gpu(),
        pytest.raises((TypeError, RuntimeError), match=r"(?i)cuda"),
    ):
        FAULTS[fault]()


def test_the_stand_in_takes_what_cuda_takes() -> None:
    with stand_in.gpu():
        x = torch.arange(6.0, device="cuda").view(2, 3)
        layer = torch.nn.Linear(3, 2).to("cuda")
        loss = (layer(x) * torch.tensor(2.0)).sum()
        loss.backward()
        assert layer.weight.grad.is_cuda
        assert (x + 1).device.type == "cuda"
        assert x[torch.tensor([1])].is_cuda
        assert x.cpu().numpy().sum() == 15
        assert not x.cpu().is_cuda
        assert x.to(torch.float64).is_cuda
