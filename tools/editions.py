"""Make the runner's editions of the notebooks, for Colab, GitHub and Jupyter, from the built pages.

python tools/editions.py

Each notebook of _toc.yml becomes _build/colab/NAME.ipynb: its code and outputs as they are, its
Markdown without MyST, with the numbers of the pages, a first code cell that brings the package
in, and the works that it cites. Of a notebook of exercises it is the student's edition, with blanks
in place of the solutions. The package's wheel lies beside them, and copies of all in
_build/html/notebooks, where the pages' download buttons lead.
"""

from __future__ import annotations

import copy
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from execute import NOTEBOOK_METADATA, dumps, load
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from plain_markdown import Page, PlainError
from public_address import FOLDER

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from course import blanks  # noqa: E402
from course.exercises import SourceError, is_source, tags  # noqa: E402

BUILD = ROOT / "_build"
NUMBERS = BUILD / "numbers.json"
EDITIONS = BUILD / "colab"
SETUP = Path(__file__).with_name("edition_setup.py")
# Folded away on the page, and so here, in JupyterLab and in Colab.
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
# A cell whose figure answers to the reader.
LIVE = re.compile(r"^live\.\w+\(", re.MULTILINE)
STILL = "*Stored is a still picture of it; run the cell for the one to try.*"
# What the wheel is made of.
PACKAGE = ["attention", "pyproject.toml", "README.md", "LICENSE"]
# What the last cell says of each kind of edition.
ABOUT = {
    "reader": "This notebook is the edition to run of {where} of *{title}*. It was made from the"
    " page's own source: code, numbers and stored outputs are the same; running the cells"
    " computes the outputs anew. Each cell goes on from those above it: to run one a second time,"
    " run its section from the beginning.",
    "student": "This notebook is the student's edition of {where} of *{title}*. It was made from"
    " the page's own source. Its blanks are yours to fill; the worked solutions are on the page.",
    "teacher": "This notebook is the teacher's edition of {where} of *{title}*. It was made from"
    " the page's own source, with the worked solutions and the notes for teachers: students get"
    " another edition, without them.",
}


# ------------------------------------------------------------------------------------- notebooks
def setup_cell(book: dict[str, Any]) -> NotebookNode:
    """Return the first code cell of every edition."""
    source = SETUP.read_text("utf-8").strip("\n")
    for name, value in (
        ("VERSION", book["wheel"].split("-")[1]),
        ("WHEEL", book["wheel"]),
        ("ADDRESS", book["files_at"]),
    ):
        line = f"{name} = {json.dumps(value)}"
        source = re.sub(
            rf"^{name} = .*$", lambda _, line=line: line, source, flags=re.M
        )
    return folded(new_code_cell(source, id="setup"))


def folded(cell: NotebookNode) -> NotebookNode:
    """Fold a cell's code away, in JupyterLab and in Colab."""
    cell.metadata["jupyter"] = {"source_hidden": True}
    cell.metadata["cellView"] = "form"
    return cell


def code_cells(cell: NotebookNode, page: Page) -> list[NotebookNode]:
    """Return a code cell as it is, and after its figure the caption."""
    edition = copy.deepcopy(cell)
    kept = cell.metadata.get("tags", [])
    edition.metadata = NotebookNode({"tags": kept} if kept else {})
    if FOLDED & set(kept):
        folded(edition)
    shown = cell.metadata.get("mystnb", {})
    figure = shown.get("figure", {})
    if not figure:
        return [edition]
    caption = page.markdown(figure["caption"].strip(), one_line=True)
    text = f"**{page.label(figure['name'])}** {caption}"
    if LIVE.search(cell.source):
        text += f" {STILL}"
    if alt := shown.get("image", {}).get("alt", "").strip():
        # Neither Jupyter nor Colab has a place for it in the picture itself.
        words = html.escape(" ".join(alt.split()), quote=False).replace(
            "$", "&#36;"
        )
        text += f"\n\n<details><summary>The figure in words</summary>{words}</details>"
    return [edition, new_markdown_cell(text, id=f"caption-{cell.id}"[:64])]


def left_out(cell: NotebookNode, page: Page) -> None:
    """Pass over text that this edition is without, and that the page has numbered."""
    cited = set(page.cited)
    page.markdown(cell.source)
    page.cited = cited


def closing_cells(
    page: Page, book: dict[str, Any], kind: str
) -> list[NotebookNode]:
    """Return the works cited, and where the notebook comes from."""
    cells = []
    works = [
        f"- {text}"
        for key, text in book["works"].items()
        if key in page.cited
    ]
    if works:
        cells.append(
            new_markdown_cell(
                "\n".join(["## References", "", *works]), id="references"
            )
        )
    title = book["title"]
    where = f"the page “{page.numbers['title']}”"
    if book["pages_at"]:
        title = f"[{title}]({book['pages_at']})"
        where = f"[{where}]({book['pages_at']}{page.numbers['uri']})"
    cells.append(
        new_markdown_cell(
            "---\n\n"
            f"{ABOUT[kind].format(where=where, title=title)}"
            " Text and figures: CC BY 4.0. Code: MIT licence.",
            id="about-this-notebook",
        )
    )
    return cells


def edition(
    notebook: NotebookNode, page: Page, book: dict[str, Any]
) -> NotebookNode:
    """Return the edition of a notebook, or raise PlainError naming the cell."""
    cells: list[NotebookNode] = []
    for position, cell in enumerate(notebook.cells, start=1):
        try:
            if cell.cell_type == "code":
                cells += code_cells(cell, page)
            elif blanks.LEFT_OUT in tags(cell):
                left_out(cell, page)
            elif text := page.markdown(cell.source):
                cells.append(new_markdown_cell(text, id=cell.id))
        except PlainError as error:
            raise PlainError(
                f"cell {position} ({cell.id}): {error}"
            ) from None
    first = next(
        i for i, cell in enumerate(cells) if cell.cell_type == "code"
    )
    cells.insert(first, setup_cell(book))
    course = notebook.metadata.get("course", {})
    cells += closing_cells(page, book, course.get("edition", "reader"))
    metadata = copy.deepcopy(NOTEBOOK_METADATA)
    if course:
        metadata["course"] = course
    metadata["colab"] = {"provenance": [], "toc_visible": True}
    if any("torch.cuda" in cell.source for cell in notebook.cells):
        # Where there is none to have, Colab offers to go on without.
        metadata["accelerator"] = "GPU"
    return NotebookNode(
        {
            "cells": cells,
            "metadata": NotebookNode(metadata),
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


def edition_of(
    name: str, book: dict[str, Any], teacher: bool = False
) -> NotebookNode:
    """Return the edition of a page's notebook; of exercises the student's or the teacher's."""
    source = ROOT / f"{name}.ipynb"
    page = Page(book["pages"][name], book, teacher)
    try:
        notebook = load(source)
        if is_source(source):
            make = blanks.teacher if teacher else blanks.student
            notebook = make(notebook, source.stem)
        return edition(notebook, page, book)
    except (PlainError, SourceError) as error:
        raise PlainError(f"{source.name}, {error}") from None


# ------------------------------------------------------------------------------------- the wheel
def build_wheel(folder: Path, name: str) -> None:
    """Build the package's wheel in a folder, unless a younger one than its source lies there."""
    wheel = folder / name
    files = [
        file
        for entry in PACKAGE
        for file in [ROOT / entry, *(ROOT / entry).rglob("*")]
        if file.is_file() and "__pycache__" not in file.parts
    ]
    if wheel.is_file() and all(
        file.stat().st_mtime < wheel.stat().st_mtime for file in files
    ):
        return
    for old in folder.glob("*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        # A copy, for setuptools writes beside what it builds.
        for file in files:
            target = Path(scratch, file.relative_to(ROOT))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run(
            [
                *pip,
                "--no-deps",
                "--no-build-isolation",
                "--no-index",
                "-w",
                folder,
                scratch,
            ],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    if not wheel.is_file():
        raise RuntimeError(f"{name} was to be built, and was not")


def make() -> list[Path]:
    """Make the editions and the wheel; return the editions."""
    book = json.loads(NUMBERS.read_text("utf-8"))
    EDITIONS.mkdir(exist_ok=True)
    build_wheel(EDITIONS, book["wheel"])
    made = []
    for name in book["pages"]:
        path = EDITIONS / f"{Path(name).name}.ipynb"
        path.write_text(dumps(edition_of(name, book)), "utf-8", newline="\n")
        made.append(path)
    for old in set(EDITIONS.glob("*.ipynb")) - set(made):
        old.unlink()
    published = BUILD / "html" / FOLDER
    shutil.rmtree(published, ignore_errors=True)
    shutil.copytree(EDITIONS, published)
    return made


def main() -> int:
    """Make them, and return the exit status."""
    if not NUMBERS.is_file():
        print("make: build the pages first: make book", file=sys.stderr)
        return 1
    try:
        made = make()
    except PlainError as error:
        print(
            f"make: no edition for Colab and GitHub: {error}",
            file=sys.stderr,
        )
        return 1
    where = EDITIONS.relative_to(ROOT)
    print(
        f"{len(made)} notebooks to run, and the package's wheel, are in {where}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
