"""Make the runner's editions of the notebooks, for Colab, GitHub and Jupyter, from the built pages.

python tools/editions.py

Each notebook of _toc.yml becomes _build/colab/NAME.ipynb: its code and outputs as they are, its
Markdown without MyST, with the numbers of the pages, a first code cell that brings the package
in, and the works that it cites. Of a notebook of exercises it is the student's edition, with blanks
in place of the solutions. The package's wheel lies beside them, and a README.md that lists
them; copies of all are in _build/html/notebooks, where the pages' download buttons lead.
"""

from __future__ import annotations

import copy
import html
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import yaml
from execute import NOTEBOOK_METADATA, dumps, load
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from plain_markdown import Page, PlainError, parse
from public_address import FOLDER

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from course import blanks  # noqa: E402
from course.exercises import SourceError, is_source, tags  # noqa: E402

BUILD = ROOT / "_build"
NUMBERS = BUILD / "numbers.json"
EDITIONS = BUILD / "colab"
SETUP = Path(__file__).with_name("edition_setup.py")
README = Path(__file__).with_name("edition_readme.md")
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
    " computes the outputs anew. Each cell goes on from those above it, in letters and in random"
    " numbers: to run one a second time, run all from the top.",
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


def needs_cell(book: dict[str, Any], failing: int = 0) -> NotebookNode:
    """Return the text above the first code cell: what it needs, and where that is got.

    And that some cells are to fail, if so many are.
    """
    text = (
        f"> **To run this notebook,** put the book's package into its folder, the file"
        f" `{book['wheel']}`. It lies where you found the notebook; the book's page has it in the"
        " same menu. PyTorch, NumPy and Matplotlib must be there already."
    )
    if book["files_at"]:
        text = (
            "> **To run this notebook,** run the next cell first. It installs the book's package"
            f" from [its public address]({book['files_at']}{book['wheel']}); without a network, put"
            " that file beside the notebook. PyTorch, NumPy and Matplotlib must be there already."
        )
    if failing:
        cells = "One cell ends" if failing == 1 else f"{failing} cells end"
        text += (
            f" {cells} in an error on purpose, as the text there says: where running all stops"
            " at one, go on with the cell below it."
        )
    return new_markdown_cell(text, id="to-run")


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


def text_cells(text: str, name: str) -> list[NotebookNode]:
    """Return text in cells that a heading opens, where it has one, as outlines want them.

    The first has the name of the whole, the others are its parts.
    """
    lines, starts = text.split("\n"), [0]
    for token in parse(text):
        if token.type == "heading_open" and token.level == 0 and token.map:
            before = "\n".join(lines[: token.map[0]])
            # What is folded away stays together.
            if before.count("<details>") == before.count("</details>"):
                starts.append(token.map[0])
    parts = [
        "\n".join(lines[a:b]).strip("\n")
        for a, b in itertools.pairwise([*starts, len(lines)])
    ]
    return [
        new_markdown_cell(
            part, id=f"{name[:56]}-part-{n}" if n > 1 else name
        )
        for n, part in enumerate(filter(None, parts), start=1)
    ]


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
                cells += text_cells(text, cell.id)
        except PlainError as error:
            raise PlainError(
                f"cell {position} ({cell.id}): {error}"
            ) from None
    first = next(
        i for i, cell in enumerate(cells) if cell.cell_type == "code"
    )
    failing = sum("raises-exception" in tags(cell) for cell in cells)
    cells[first:first] = [needs_cell(book, failing), setup_cell(book)]
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


# -------------------------------------------------------------------------------------- the list
def said_of(notebook: NotebookNode) -> tuple[str, str]:
    """Return the title of an edition, and its question or the first sentence of its text."""
    title, _, text = notebook.cells[0].source.partition("\n")
    text = re.sub(r"^> ?", "", text, flags=re.M).strip()
    asked = re.search(r"\*\*Question\.\*\* (.*?)(?=\n\n|\Z)", text, re.S)
    line = asked[1] if asked else re.split(r"(?<=\.)\s", text)[0]
    return title.removeprefix("# "), " ".join(line.split())


def contents(names: list[str]) -> str:
    """Return a list of the editions in a folder, in the book's order and by its parts."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    lines = []
    for part in toc["parts"]:
        found = [
            f"{indent}- [{title}]({name}.ipynb): {line}"
            for entry in part["chapters"]
            for indent, file in (
                ("", entry["file"]),
                *(("  ", e["file"]) for e in entry.get("sections", [])),
            )
            if file in names
            for name in [Path(file).name]
            for title, line in [said_of(load(EDITIONS / f"{name}.ipynb"))]
        ]
        if found:
            lines += [f"## {part['caption']}", "", *found, ""]
    return "\n".join(lines).strip("\n")


def readme(book: dict[str, Any]) -> str:
    """Return the text that lies beside the editions: which there are, and how they are run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    python = project["project"]["requires-python"].removeprefix(">=")
    fetched = (
        " With a network, the first code cell fetches it by itself."
        if book["files_at"]
        else ""
    )
    return README.read_text("utf-8").format(
        title=book["title"],
        wheel=book["wheel"],
        python=python,
        contents=contents(list(book["pages"])),
        fetched=fetched,
    )


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
    text = readme(book)
    (EDITIONS / "README.md").write_text(text, "utf-8", newline="\n")
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
