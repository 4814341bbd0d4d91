"""The directive `evidence`: shows stored results as a table, so that text cannot drift.

    ```{evidence} conformance
    ```

`conformance` counts the cases of others that the package passes, `composed` what had to be put
together for them, both from chapters/evidence/conformance.json.
"""

from __future__ import annotations

import json
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


def conformance(stored: dict[str, Any]) -> Table:
    """One row for each suite: its cases, and how many pass in each way."""
    rows = []
    for suite in stored["suites"]:
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


def composed(stored: dict[str, Any]) -> Table:
    """One row for each thing that was put together: in how many cases, way by way."""
    counts: dict[str, dict[str, int]] = {}
    for suite in stored["suites"]:
        for way, tally in suite["ways"].items():
            for kind, count in tally["composed of"].items():
                row = counts.setdefault(kind, dict.fromkeys(WAYS, 0))
                row[way] += count
    rows = [
        [kind, *(str(row[way]) for way in WAYS)]
        for kind, row in sorted(counts.items())
    ]
    return ["put together", *WAYS.values()], rows


TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], Table]]] = {
    "conformance": ("conformance.json", conformance),
    "composed": ("conformance.json", composed),
}


class Evidence(SphinxDirective):
    """Reads the stored numbers and lays them out."""

    required_arguments = 1
    final_argument_whitespace = False

    def run(self) -> list[nodes.Node]:
        """Return the table, and rebuild the page whenever the file changes."""
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(
                f"evidence knows {', '.join(TABLES)}, not {name!r}"
            )
        file, read = TABLES[name]
        path = Path(self.env.srcdir) / "chapters" / "evidence" / file
        self.env.note_dependency(str(path))
        if not path.is_file():
            raise self.error(f"evidence: {path.name} has not been stored")
        head, rows = read(json.loads(path.read_text("utf-8")))
        return [_table(head, rows)]


def _table(head: list[str], rows: list[list[str]]) -> nodes.table:
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group, classes=["colwidths-auto"])


def _row(cells: list[str]) -> nodes.row:
    entries = [nodes.entry("", nodes.paragraph("", cell)) for cell in cells]
    return nodes.row("", *entries)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("evidence", Evidence)
    return {"version": "1", "parallel_read_safe": True}
