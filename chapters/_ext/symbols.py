"""Names of code as entries of the index, so that a search for one finds it.

They are those on the notation page, and those that a page's title has in letters and subscripts.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

PAGE = "chapters/notation"
# √dₖ in a title is √d_k to those who type it, and a search for d_k finds that too.
TYPED = str.maketrans({"ₖ": "_k"})


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


def index_title(app: Sphinx, doctree: nodes.document) -> None:
    """Enter into the index the names of code in a page's title."""
    section = next(iter(doctree.findall(nodes.section)), None)
    if section is None:
        return
    words = section[0].astext().split()
    names = [word.translate(TYPED) for word in words if "ₖ" in word]
    if names:
        anchor = section["ids"][0]
        entries = [("single", name, anchor, "main", None) for name in names]
        section.insert(1, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("doctree-read", index_names)
    app.connect("doctree-read", index_title)
    return {"version": "1", "env_version": 1, "parallel_read_safe": True}
