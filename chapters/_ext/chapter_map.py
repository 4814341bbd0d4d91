"""The directive `chapters`: a map or a table of the chapters, read from the chapters themselves.

    ```{chapters} map
    ```

`map` draws which chapter builds on which, `table` lists each one's question, needs and minutes.
Both come from the boxes that open the chapters, so that a changed box changes the introduction. The
table also leads to each chapter's exercises, and says how many there are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

REFERENCE = re.compile(r"\{ref\}`(?:[^`<]*<)?([\w-]+)>?`")
EXERCISE = re.compile(r"^[:`]{3,}\{exercise\}", re.MULTILINE)
# Heights of a chapter's box and of the room below it, in shares of the map.
BOX, ROOM = 5, 3


@dataclass(frozen=True)
class Chapter:
    """What a chapter's first cell says of it."""

    number: int
    part: int
    label: str
    question: str
    needs: str
    minutes: int
    builds_on: tuple[str, ...]
    # Its page of exercises and how many there are, if it has one.
    exercises: tuple[str, int] | None = None


class MisreadError(ValueError):
    """A chapter does not open as the map needs it; the message says where."""


def read(path: Path, number: int, part: int, labels: set[str]) -> Chapter:
    """Return what the box at the head of a chapter says."""
    first = "".join(
        json.loads(path.read_text("utf-8"))["cells"][0]["source"]
    )
    label = re.match(r"\(([\w-]+)\)=", first)
    said = {
        word: " ".join(text.split())
        for word, text in re.findall(
            r"^\*\*([\w ]+)\.\*\*(.*?)(?=^\*\*[\w ]+\.\*\*|^:::|\Z)",
            first,
            re.MULTILINE | re.DOTALL,
        )
    }
    minutes = re.search(r"(\d+) minutes to read", said.get("Time", ""))
    if not (label and minutes and "Question" in said and "You need" in said):
        raise MisreadError(
            f"{path.name} does not open with label, question, needs and time"
        )
    needed = dict.fromkeys(REFERENCE.findall(said["You need"]))
    return Chapter(
        number,
        part,
        label[1],
        said["Question"],
        said["You need"],
        int(minutes[1]),
        tuple(name for name in needed if name in labels),
    )


def chapters(root: Path) -> list[Chapter]:
    """Return the numbered chapters of _toc.yml, in order."""
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    parts = [part for part in toc["parts"] if "numbered" in part]
    entries = [
        (entry, number)
        for number, part in enumerate(parts, start=1)
        for entry in part["chapters"]
    ]
    labels: set[str] = set()
    found = []
    for number, (entry, part) in enumerate(entries, start=1):
        # A chapter can build on those before it only.
        path = root / f"{entry['file']}.ipynb"
        chapter = read(path, number, part, labels)
        for page in entry.get("sections", []):
            count = count_exercises(root / f"{page['file']}.ipynb")
            chapter = replace(chapter, exercises=(page["file"], count))
        found.append(chapter)
        labels.add(chapter.label)
    return found


def count_exercises(path: Path) -> int:
    """Return how many exercises a notebook sets."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    texts = ("".join(cell["source"]) for cell in cells)
    return sum(len(EXERCISE.findall(text)) for text in texts)


def arrows(book: Iterable[Chapter]) -> list[tuple[str, str]]:
    """Return what builds on what, without what follows from the rest."""
    needs = {c.label: set(c.builds_on) for c in book}
    behind: dict[str, set[str]] = {}
    for label, direct in needs.items():
        behind[label] = direct.union(*(behind[name] for name in direct))
    return [
        (name, label)
        for label, direct in needs.items()
        for name in sorted(direct, key=list(needs).index)
        if not any(name in behind[other] for other in direct)
    ]


def levels(
    labels: list[str], edges: list[tuple[str, str]]
) -> dict[str, int]:
    """Return each chapter's row, below all that it builds on, so that arrows are short."""
    roots = [name for name in labels if name not in {b for _, b in edges}]

    def rows(start: tuple[int, ...]) -> dict[str, int]:
        row = dict(zip(roots, start, strict=True))
        for name in labels:
            above = [row[a] for a, b in edges if b == name]
            row[name] = max([row.get(name, 0), *(n + 1 for n in above)])
        return row

    starts = product(
        *(range(3) if root != labels[0] else [0] for root in roots)
    )
    return min(
        map(rows, starts),
        key=lambda row: sum(row[b] - row[a] for a, b in edges),
    )


@dataclass(frozen=True)
class Layout:
    """Where each chapter stands: its row, and the half column at which it starts."""

    rows: int
    columns: int
    place: dict[str, tuple[int, int]]

    def top(self, row: float) -> float:
        """Return how far down a row begins, in percent of the height."""
        whole = self.rows * (BOX + ROOM) - ROOM
        return 100 * row * (BOX + ROOM) / whole

    def line(self, a: str, b: str) -> dict[str, float]:
        """Return the ends of an arrow, in percent."""
        (row, column), (below, other) = self.place[a], self.place[b]
        return {
            "x1": 100 * (column + 1) / self.columns,
            "y1": self.top(row + BOX / (BOX + ROOM)),
            "x2": 100 * (other + 1) / self.columns,
            "y2": self.top(below),
        }


def layout(labels: list[str], edges: list[tuple[str, str]]) -> Layout:
    """Put each row's chapters below what they build on, in the middle of the map."""
    row = levels(labels, edges)
    ranks = [
        [name for name in labels if row[name] == n]
        for n in range(max(row.values()) + 1)
    ]
    columns = 2 * max(map(len, ranks))
    place: dict[str, tuple[int, int]] = {}
    for n, rank in enumerate(ranks):
        above = {
            name: [place[a][1] for a, b in edges if b == name]
            for name in rank
        }
        # What builds on nothing goes to the right of the rest.
        rank.sort(
            key=lambda name: mean(above[name]) if above[name] else columns
        )
        first = (columns - 2 * len(rank)) // 2
        place |= {name: (n, first + 2 * i) for i, name in enumerate(rank)}
    return Layout(len(ranks), columns, place)


class ChapterMap(nodes.General, nodes.Element):
    """The map: a list of chapters, with arrows drawn behind it."""


class ChapterBox(nodes.General, nodes.Element):
    """A chapter on the map."""


class Chapters(SphinxDirective):
    """Shows the chapters as a map or as a table."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Return the map or the table, and rebuild the page whenever a chapter changes."""
        kind = directives.choice(self.arguments[0], ("map", "table"))
        root = Path(self.env.srcdir)
        try:
            book = chapters(root)
        except (MisreadError, KeyError) as problem:
            raise self.error(f"chapters: {problem}") from problem
        for path in (
            root / "_toc.yml",
            *(root / "chapters").glob("*.ipynb"),
        ):
            self.env.note_dependency(str(path))
        return [self.map(book) if kind == "map" else self.table(book)]

    def map(self, book: list[Chapter]) -> nodes.Node:
        """Return the chapters in reading order, each at its place."""
        edges = arrows(book)
        plan = layout([c.label for c in book], edges)
        numbers = {c.label: c.number for c in book}
        found = ChapterMap(
            "", lines=[plan.line(*e) for e in edges], plan=plan
        )
        for chapter in book:
            box = ChapterBox(
                "", chapter=chapter, place=plan.place[chapter.label]
            )
            box += self.inline(f"{{ref}}`{chapter.label}`")
            builds_on = sorted(numbers[name] for name in chapter.builds_on)
            told = f", builds on {english(builds_on)}" if builds_on else ""
            box += nodes.inline("", f"{told}.", classes=["visually-hidden"])
            found += box
        return found

    def table(self, book: list[Chapter]) -> nodes.Node:
        """Return question, needs and minutes of each chapter."""
        head = ["no.", "chapter", "question", "you need", "minutes"]
        group = nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=1) for _ in head]
        group += nodes.thead("", row(nodes.Text(cell) for cell in head))
        body = nodes.tbody()
        for c in book:
            name = f"{{ref}}`{c.label}`"
            if c.exercises:
                page, count = c.exercises
                name += f" ({{doc}}`{count} exercises </{page}>`)"
            texts = (name, c.question, c.needs)
            middle = [self.inline(text) for text in texts]
            number, minutes = (
                nodes.Text(str(c.number)),
                nodes.Text(str(c.minutes)),
            )
            body += row([number, *middle, minutes])
        group += body
        return nodes.table("", group, classes=["colwidths-auto", "chapters"])

    def inline(self, text: str) -> nodes.Node:
        """Return a sentence of MyST."""
        holder = nodes.Element()
        self.state.nested_parse(
            StringList([text]), self.content_offset, holder
        )
        return nodes.inline("", "", *holder[0].children)


def english(numbers: list[int]) -> str:
    """Return “1”, “1 and 2”, “1, 2 and 3”."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def row(cells: Iterable[nodes.Node]) -> nodes.row:
    """Return a row of a table."""
    return nodes.row(
        "",
        *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells),
    )


def visit_map(self: HTML5Translator, node: ChapterMap) -> None:
    """Open the list, with the arrows behind it, which the list says in words."""
    plan = node["plan"]
    lines = "".join(
        "<line {} />".format(
            " ".join(f'{k}="{v:.2f}%"' for k, v in line.items())
        )
        for line in node["lines"]
    )
    self.body.append(
        f'<div class="chapter-map" style="--rows: {plan.rows}; --columns: {plan.columns}">'
        '<svg aria-hidden="true" focusable="false"><defs>'
        '<marker id="chapter-map-head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0 8 4 0 8z"/></marker></defs>{lines}</svg>\n<ol role="list">'
    )


def depart_map(self: HTML5Translator, node: ChapterMap) -> None:
    """Close the list."""
    self.body.append("</ol></div>\n")


def visit_box(self: HTML5Translator, node: ChapterBox) -> None:
    """Open a chapter's box at its place in the grid."""
    (row, column), chapter = node["place"], node["chapter"]
    self.body.append(
        f'<li class="part-{chapter.part}" '
        f'style="grid-area: {2 * row + 1} / {column + 1} / auto / span 2">'
        f'<span class="number">{chapter.number}</span> '
    )


def depart_box(self: HTML5Translator, node: ChapterBox) -> None:
    """Close the box."""
    self.body.append("</li>\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("chapters", Chapters)
    app.add_node(ChapterMap, html=(visit_map, depart_map))
    app.add_node(ChapterBox, html=(visit_box, depart_box))
    return {"version": "1", "parallel_read_safe": True}
