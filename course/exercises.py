"""Read the exercises of a source notebook: their statements, answers and checks, by their cells."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))

from execute import CHAPTERS, load  # noqa: E402
from plain_markdown import DIRECTIVE, opened, parse  # noqa: E402

SUFFIX = "-exercises"
KINDS = ("by hand", "by code", "from a figure", "find the bug", "break it")
# The line beneath an exercise's title.
FACTS = re.compile(
    rf"^\*Level ([123]) of 3 · (\d+) minutes? · ({'|'.join(KINDS)})\*$",
    re.MULTILINE,
)


class SourceError(ValueError):
    """A source notebook is not made as the editions need it; the message names the cell."""


@dataclass(frozen=True)
class Exercise:
    """An exercise, and where its solution is."""

    label: str
    title: str
    level: int
    minutes: int
    kind: str
    # The cells of its answer, and the one that checks it: none where words are the answer.
    answers: tuple[NotebookNode, ...] = ()
    check: NotebookNode | None = None

    @property
    def name(self) -> str:
        """What a checker calls it."""
        return self.label.removeprefix("ex-")

    @property
    def points(self) -> int:
        """What a right answer is worth: nothing where a person has to read it."""
        return self.level if self.check else 0


class Directive(NamedTuple):
    """A directive of MyST at the top level of a cell."""

    name: str
    argument: str
    options: dict[str, str]
    body: str
    # Whether anything stands before it, and after it.
    first: bool
    last: bool


def sources() -> list[Path]:
    """Return the notebooks of exercises, in the order of the contents."""
    contents = (ROOT / "_toc.yml").read_text("utf-8")
    return sorted(
        CHAPTERS.glob(f"*{SUFFIX}.ipynb"),
        key=lambda path: contents.index(f"{CHAPTERS.name}/{path.stem}"),
    )


def is_source(path: Path) -> bool:
    """Say whether a notebook of the book is one of exercises."""
    return path.stem.endswith(SUFFIX)


def tags(cell: NotebookNode) -> set[str]:
    """Return a cell's tags."""
    return set(cell.metadata.get("tags", []))


def directives(cell: NotebookNode) -> Iterator[Directive]:
    """Yield the directives of a cell of text."""
    blocks = [t for t in parse(cell.source) if not t.level and t.map]
    for position, token in enumerate(blocks):
        found = DIRECTIVE.fullmatch(token.info.strip())
        if token.type in ("fence", "colon_fence") and found:
            yield Directive(
                found[1],
                found[2].strip(),
                *opened(token.content),
                first=position == 0,
                last=position == len(blocks) - 1,
            )


def solved(notebook: NotebookNode) -> list[str]:
    """Return for each cell the label of the exercise that it solves, "" outside of solutions."""
    within, found = "", []
    for position, cell in enumerate(notebook.cells, start=1):

        def refuse(why: str, at: int = position, cell=cell) -> SourceError:
            return SourceError(f"cell {at} ({cell.id}) {why}")

        text = cell.cell_type == "markdown"
        ends = False
        for directive in directives(cell) if text else ():
            if directive.name == "solution-start":
                if within or not directive.first:
                    raise refuse("has something before its solution starts")
                within = directive.argument
            elif directive.name == "solution-end":
                if not within or not directive.last:
                    raise refuse("has something beside its solution's end")
                ends = True
        found.append(within)
        if not within and text and "{solution" in cell.source:
            raise refuse("has a solution that cannot be told from the rest")
        if not within and tags(cell) & {"answer", "check", "verify"}:
            raise refuse("answers or checks outside of a solution")
        within = "" if ends else within
    if within:
        raise SourceError(f"the solution of {within} does not end")
    return found


def stated(cell: NotebookNode) -> Iterator[Exercise]:
    """Yield the exercises that a cell of text states."""
    for directive in directives(cell):
        if directive.name == "exercise":
            facts = FACTS.search(directive.body)
            label = directive.options.get("label", "")
            if not facts or not label:
                raise SourceError(
                    f"cell {cell.id}: the exercise {label or directive.argument!r} needs a label"
                    " and the line *Level L of 3 · M minutes · KIND*"
                )
            yield Exercise(
                label,
                directive.argument,
                int(facts[1]),
                int(facts[2]),
                facts[3],
            )


def read(notebook: NotebookNode) -> list[Exercise]:
    """Return the exercises of a source notebook, in order."""
    cells = list(zip(notebook.cells, solved(notebook), strict=True))
    found = []
    for exercise in (
        e for c, _ in cells if c.cell_type == "markdown" for e in stated(c)
    ):
        own = [cell for cell, label in cells if label == exercise.label]
        if not own:
            raise SourceError(f"{exercise.label} has no solution")
        checks = [cell for cell in own if "check" in tags(cell)]
        if len(checks) > 1:
            raise SourceError(f"{exercise.label} has more than one check")
        found.append(
            Exercise(
                exercise.label,
                exercise.title,
                exercise.level,
                exercise.minutes,
                exercise.kind,
                tuple(cell for cell in own if "answer" in tags(cell)),
                checks[0] if checks else None,
            )
        )
    labels = {exercise.label for exercise in found}
    if strangers := set(solved(notebook)) - labels - {""}:
        raise SourceError(
            f"solutions of no exercise: {', '.join(strangers)}"
        )
    return found


def title_of(notebook: NotebookNode) -> str:
    """Return the title of a notebook, without its number and marks; "" if it has none."""
    for cell in notebook.cells:
        found = (
            re.search(r"^# +(?:[\d.]+ )?(.+)$", cell.source, re.MULTILINE)
            if cell.cell_type == "markdown"
            else None
        )
        if found:
            return " ".join(found[1].split())
    return ""


__all__ = [
    "ROOT",
    "Exercise",
    "SourceError",
    "is_source",
    "load",
    "read",
    "solved",
    "sources",
    "tags",
    "title_of",
]
