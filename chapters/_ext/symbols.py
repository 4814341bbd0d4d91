"""Names of code on the notation page as entries of the index, so that a search for one finds it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

PAGE = "chapters/notation"


def index_names(app: Sphinx, doctree: nodes.document) -> None:
    """Enter into the index each name with an underscore, such as d_k, at its row of the tables."""
    if app.env.docname != PAGE:
        return
    for line in doctree.findall(nodes.row):
        found = {code.astext() for code in line.findall(nodes.literal)}
        names = sorted(name for name in found if "_" in name.strip("_"))
        if not names:
            continue
        anchor = nodes.make_id(f"symbol-{names[0]}")
        line["ids"].append(anchor)
        entries = [("single", name, anchor, "main", None) for name in names]
        cell = next(iter(line.findall(nodes.entry)))
        cell.insert(0, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("doctree-read", index_names)
    return {"version": "1", "parallel_read_safe": True}
