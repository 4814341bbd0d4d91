"""The directive `evidence`: shows stored results as a table, so that text cannot drift.

    ```{evidence} conformance
    ```

The results lie in chapters/evidence, written by the commands that measure them. What each name
shows is said at its function below.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Table = tuple[list[str], list[list[str]]]

WAYS = {
    "numpy": "NumPy",
    "torch, weights": "PyTorch, with weights",
    "torch, fused": "PyTorch, fused",
}
OURS = "attention"
# What a column of numbers holds: one, a share, one with its quartiles, or nothing.
NUMBER = re.compile(r"–|[\d.]+( %| \([\d.]+ to [\d.]+\))?")


class Sources:
    """The files of the book, and which of them a table was made from."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.read: list[Path] = []

    def text(self, *parts: str) -> str:
        """Return what a file holds."""
        path = self.root.joinpath(*parts)
        self.read.append(path)
        return path.read_text("utf-8")

    def stored(self, name: str) -> Any:
        """Return one of the stored results."""
        return json.loads(self.text("chapters", "evidence", f"{name}.json"))


def conformance(sources: Sources) -> Table:
    """One row for each suite: its cases, and how many pass in each way."""
    rows = []
    for suite in sources.stored("conformance")["suites"]:
        row = [suite["name"], str(suite["cases"])]
        for way in WAYS:
            tally = suite["ways"].get(way)
            row.append(
                f"{tally['passed']}, of which {tally['composed']} composed"
                if tally
                else "–"
            )
        rows.append(row)
    return ["suite", "cases", *(f"pass: {n}" for n in WAYS.values())], rows


def composed(sources: Sources) -> Table:
    """One row for each thing that was put together: in how many cases, way by way."""
    counts: dict[str, dict[str, int]] = {}
    for suite in sources.stored("conformance")["suites"]:
        for way, tally in suite["ways"].items():
            for kind, count in tally["composed of"].items():
                row = counts.setdefault(kind, dict.fromkeys(WAYS, 0))
                row[way] += count
    rows = [
        [kind, *(str(row[way]) for way in WAYS)]
        for kind, row in sorted(counts.items())
    ]
    return ["put together", *WAYS.values()], rows


def named(sources: Sources) -> Table:
    """One row for each kind of mistake: its bugs, and how many are seen by tests and notebooks."""
    stored = sources.stored("named_bugs")
    rows = []
    kinds: dict[str, list[bool]] = {}
    for bug, seen in stored["bugs"].items():
        number = bug.split()[0]
        kind = number if number.isdecimal() else "beyond the list"
        kinds.setdefault(kind, []).append(bool(seen))
    for kind, seen in sorted(
        kinds.items(), key=lambda k: (not k[0].isdecimal(), k[0].zfill(3))
    ):
        rows.append([kind, str(len(seen)), str(len(seen)), str(sum(seen))])
    total = [s for seen in kinds.values() for s in seen]
    rows.append(["all", str(len(total)), str(len(total)), str(sum(total))])
    head = ["number in the gallery", "bugs", "seen by the tests"]
    return [*head, "seen by the notebooks alone"], rows


def mutation(sources: Sources) -> Table:
    """One row for each module: its mutants, and what became of them."""
    modules: dict[str, list[int]] = {}
    for name, tally in sources.stored("mutation")["functions"].items():
        counts = [tally["killed"], tally["explained"]]
        for module in (name.split(".")[0], "all"):
            row = modules.setdefault(module, [0, 0])
            row[:] = [a + b for a, b in zip(row, counts, strict=True)]
    modules["all"] = modules.pop("all")
    rows = []
    for module, (killed, explained) in modules.items():
        mutants = killed + explained
        share = f"{100 * killed / mutants:.1f} %" if mutants else "–"
        rows.append(
            [module, str(mutants), str(killed), str(explained), share]
        )
    return ["module", "mutants", "killed", "explained", "share killed"], rows


def survivors(sources: Sources) -> Table:
    """One row for each reason why a mutant is no fault: what changed, where, and how many."""
    text = sources.text("tests", "mutation", "survivors.toml")
    reasons: dict[str, list[str]] = {}
    for entry in tomllib.loads(text)["survivor"]:
        reasons.setdefault(" ".join(entry["why"].split()), []).append(
            entry["function"]
        )
    rows = [
        [why, str(len(where)), ", ".join(dict.fromkeys(where))]
        for why, where in sorted(reasons.items(), key=lambda x: -len(x[1]))
    ]
    return ["why the change is no fault", "mutants", "where"], rows


def goals(sources: Sources) -> Table:
    """One row for each goal: what is compared, the ratio, its limit.

    The size that most of them have is said once, at the head.
    """
    stored = sources.stored("benchmarks")["goals"]
    sizes = [goal["setting"].partition("; ")[2] for goal in stored]
    usual = max(sizes, key=sizes.count)

    def short(setting: str) -> str:
        what, _, size = setting.partition("; ")
        own = [s for s in size.split(", ") if s not in usual.split(", ")]
        return "; ".join([what, ", ".join(own)] if own else [what])

    rows = [
        [
            short(goal["setting"]),
            goal["against"],
            f"{goal['ratio']:#.3g} ({low:#.3g} to {high:#.3g})",
            f"{goal['limit']:.2f}",
            "yes" if goal["holds"] else "no",
        ]
        for goal in stored
        for low, high in [goal["quartiles"]]
    ]
    return [
        f"what ({usual}, if not said)",
        "against",
        "ratio",
        "at most",
        "holds",
    ], rows


def machine(sources: Sources) -> Table:
    """One row for each thing that the measured times depend on."""
    rows = list(map(list, sources.stored("benchmarks")["machine"].items()))
    return ["part", "measured on"], rows


def settings(sources: Sources) -> Table:
    """One row for each setting and contender: time, ratio and memory."""
    stored = sources.stored("benchmarks")
    rows = []
    for result in [*stored["settings"], *stored["sweep"]]:
        s = result["setting"]
        what = ["training step" if s["training"] else "forward"]
        what += ["causal"] * s["causal"] + ["with weights"] * s["weights"]
        size = f"B {s['batch']}, L {s['length']}, {s['dtype']}"
        for name, row in result["contenders"].items():
            low, high = row["quartiles"]
            ratio = f"{row['ratio']:#.3g} ({low:#.3g} to {high:#.3g})"
            plain = row.get("ratio with the default allocator")
            rows.append(
                [
                    f"{s['kind']}, {', '.join(what)}; {size}",
                    name,
                    f"{row['milliseconds']:g}",
                    "1" if name == OURS else ratio,
                    "1" if name == OURS else f"{plain:#.3g}",
                    f"{row['megabytes']:g}" if "megabytes" in row else "–",
                ]
            )
    head = ["what", "contender", "ms", "ours / this"]
    return [*head, "with the default allocator", "peak MB"], rows


def budgets(sources: Sources) -> Table:
    """One row for each command: its seconds."""
    rows = [
        [what, f"{number:g}"]
        for what, number in sources.stored("budgets")["seconds"].items()
    ]
    return ["what", "seconds"], rows


def notebooks(sources: Sources) -> Table:
    """One row for each notebook: code cells, outputs that are compared, seconds."""
    rows = []
    for name, seconds in sources.stored("budgets")["notebooks"].items():
        notebook = json.loads(sources.text("chapters", f"{name}.ipynb"))
        cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        outputs = sum(len(cell["outputs"]) for cell in cells)
        rows.append([name, str(len(cells)), str(outputs), f"{seconds:g}"])
    cells, outputs = (sum(int(row[i]) for row in rows) for i in (1, 2))
    seconds = sum(float(row[3]) for row in rows)
    rows.append(["all", str(cells), str(outputs), f"{seconds:.0f}"])
    return ["notebook", "cells run", "outputs compared", "seconds"], rows


def pages(sources: Sources) -> Table:
    """One row for each page: the kilobytes of its text, compressed."""
    rows = [
        [page.removesuffix(".html"), f"{size / 1000:.0f}"]
        for page, size in sources.stored("budgets")["pages"].items()
    ]
    return ["page", "kB"], rows


def lighthouse(sources: Sources) -> Table:
    """One row for each page: its weight, and Lighthouse's medians on a phone and a desktop."""
    rows = []
    for page, each in sources.stored("lighthouse")["pages"].items():
        phone, desktop = each["mobile"], each["desktop"]
        others = [
            form[name]
            for form in (phone, desktop)
            for name in ("accessibility", "best-practices", "seo")
        ]
        rows.append(
            [
                page.rpartition("/")[2],
                f"{each['kilobytes']:.0f}",
                f"{phone['largest paint, ms'] / 1000:.1f}",
                str(phone["performance"]),
                str(desktop["performance"]),
                str(min(others)),
            ]
        )
    head = [
        "page",
        "kB before pictures",
        "phone: seconds to largest paint",
        "phone: speed",
        "desktop: speed",
        "accessibility, practice, search: least",
    ]
    return head, rows


def answers(sources: Sources) -> Table:
    """One row for each wrong answer to an exercise: the first input that exposes it."""
    rows = [
        [exercise, name, first_input]
        for exercise, wrong in sources.stored("answers")["wrong"].items()
        for name, first_input in wrong.items()
    ]
    return ["exercise", "wrong answer", "first exposed by"], rows


def checkers(sources: Sources) -> Table:
    """One row for each chapter: its checkers, and the answers that they are tried on."""
    stored = sources.stored("answers")
    chapters: dict[str, list[int]] = {}
    for exercise, wrong in stored["wrong"].items():
        counts = [1, stored["right"][exercise], len(wrong)]
        for name in (exercise.partition("-")[0], "all"):
            row = chapters.setdefault(name, [0, 0, 0])
            row[:] = [a + b for a, b in zip(row, counts, strict=True)]
    chapters["all"] = chapters.pop("all")
    head = ["exercises", "checkers", "right answers", "wrong answers"]
    return head, [[name, *map(str, row)] for name, row in chapters.items()]


TABLES: dict[str, Callable[[Sources], Table]] = {
    table.__name__: table
    for table in (
        conformance,
        composed,
        named,
        mutation,
        survivors,
        goals,
        machine,
        settings,
        budgets,
        notebooks,
        pages,
        lighthouse,
        checkers,
        answers,
    )
}


class Evidence(SphinxDirective):
    """Reads the stored numbers and lays them out."""

    required_arguments = 1
    final_argument_whitespace = False

    def run(self) -> list[nodes.Node]:
        """Return the table, and rebuild the page whenever a file that it came from changes."""
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(
                f"evidence knows {', '.join(TABLES)}, not {name!r}"
            )
        sources = Sources(Path(self.env.srcdir))
        try:
            head, rows = TABLES[name](sources)
        except FileNotFoundError as error:
            raise self.error(
                f"evidence: {Path(error.filename).name} has not been stored"
            ) from None
        finally:
            for path in sources.read:
                self.env.note_dependency(str(path))
        return [_table(head, rows)]


def _table(head: list[str], rows: list[list[str]]) -> nodes.table:
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    numbers = [
        all(NUMBER.fullmatch(cell) for cell in column)
        for column in zip(*rows, strict=True)
    ]
    group += nodes.thead("", _row(head, numbers))
    group += nodes.tbody("", *(_row(row, numbers) for row in rows))
    return nodes.table("", group, classes=["colwidths-auto"])


def _row(cells: list[str], numbers: list[bool]) -> nodes.row:
    entries = []
    for cell, number in zip(cells, numbers, strict=True):
        # Two short sides of an equation stay on one line.
        text = re.sub(
            r"(?<=\b\w) = (?=\S)",
            "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}",
            cell,
        )
        paragraph = nodes.paragraph()
        for i, part in enumerate(text.split("`")):
            paragraph += (
                nodes.literal("", part) if i % 2 else nodes.Text(part)
            )
        classes = ["number"] * number
        entries.append(nodes.entry("", paragraph, classes=classes))
    return nodes.row("", *entries)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("evidence", Evidence)
    return {"version": "1", "parallel_read_safe": True}
