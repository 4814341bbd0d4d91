"""What the finished pages call things: numbers, texts of references, works cited, as JSON.

Every build of the pages writes `numbers.json` beside them. tools/editions.py reads it, so that the
runner's editions of the notebooks say what the pages say.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from docutils import nodes
from public_address import wheel_name
from pybtex.backends.markdown import Backend
from sphinx import addnodes
from sphinx.application import Sphinx

Json = dict[str, Any]
# An underscore within a word means nothing.
SPECIAL = re.compile(r"([\\`*\[\]<>$]|(?<!\w)_|_(?!\w))")


class Markdown(Backend):
    """A work cited, in Markdown, with only those characters escaped that mean something."""

    def format_str(self, text: str) -> str:
        """Escape what Markdown or a formula would read otherwise."""
        return SPECIAL.sub(r"\\\1", text)


def markdown(node: nodes.Node) -> str:
    """Return the words of a reference, as Markdown."""
    if isinstance(node, nodes.literal):
        return f"`{node.astext()}`"
    if isinstance(node, nodes.math):
        return f"${node.astext()}$"
    if isinstance(node, nodes.Text):
        return SPECIAL.sub(r"\\\1", node.astext())
    text = "".join(map(markdown, node.children))
    return f"*{text}*" if isinstance(node, nodes.emphasis) else text


def number(app: Sphinx, docname: str, kind: str, name: str) -> str:
    """Return the number of something on a page, such as 2.1; empty if it has none."""
    numbers = app.env.toc_fignumbers.get(docname, {}).get(kind, {})
    return ".".join(map(str, numbers.get(name, ())))


def headings(
    app: Sphinx, docname: str, doctree: nodes.document
) -> list[str]:
    """Return the number of each heading, in order; empty if it has none."""
    numbers = app.env.toc_secnumbers.get(docname, {})
    found: list[str] = []
    for section in doctree.findall(nodes.section):
        # A theorem holds a section without a title.
        if not isinstance(section.next_node(), nodes.title):
            continue
        # The title of the page has no anchor.
        anchor = f"#{section['ids'][0]}" if found else ""
        found.append(".".join(map(str, numbers.get(anchor) or ())))
    return found


def references(
    app: Sphinx, docname: str, doctree: nodes.document
) -> dict[str, Json]:
    """Return, by the role as it is written, what a reference says and where it leads."""
    page = app.builder.get_target_uri(docname)
    pending = {
        " ".join(node.rawsource.split()): nodes.inline(
            "", "", node.deepcopy()
        )
        for node in doctree.findall(addnodes.pending_xref)
        if node.rawsource
    }
    # Sphinx resolves them as it did for the page.
    doctree.children = [nodes.paragraph("", "", *pending.values())]
    doctree.setup_child(doctree.children[0])
    app.env.resolve_references(doctree, docname, app.builder)
    found = {}
    for role, node in pending.items():
        link = next(node.findall(nodes.reference), None)
        inside = link.get("refid") if link else None
        target = f"#{inside}" if inside else link and link.get("refuri")
        found[role] = {
            "text": markdown(node),
            "uri": urljoin(page, target) if target else "",
        }
    return found


def listings(
    app: Sphinx, docname: str, doctree: nodes.document
) -> list[Json]:
    """Return the sources of the package that a page prints, in order."""
    found = []
    for block in doctree.findall(nodes.container):
        if "package-source" not in block["classes"]:
            continue
        caption, code = block.children
        place = number(app, docname, "code-block", block["ids"][0])
        found.append(
            {
                "title": app.config.numfig_format["code-block"] % place,
                "caption": markdown(caption),
                "code": code.astext(),
            }
        )
    return found


def labelled(app: Sphinx, docname: str) -> dict[str, str]:
    """Return what a page calls its equations, figures, theorems and exercises, by label."""
    env = app.env
    found = {}
    for label, (where, _) in env.get_domain("math").equations.items():
        if where == docname:
            name = nodes.make_id(f"equation-{label}")
            found[label] = number(app, docname, "displaymath", name)
    for label, (where, name) in env.get_domain("std").anonlabels.items():
        for kind in ("figure", "table"):
            if where == docname and (n := number(app, docname, kind, name)):
                found[label] = app.config.numfig_format[kind] % n
    for label, proof in getattr(env, "proof_list", {}).items():
        if proof["docname"] == docname:
            n = number(app, docname, proof["countertype"], label)
            found[label] = f"{proof['realtype'].title()} {n}".strip()
    return found | exercises(app, docname)


def exercises(app: Sphinx, docname: str) -> dict[str, str]:
    """Return what the exercises of a page and their solutions are called, by label."""
    found, solved = {}, {}
    registry = getattr(app.env, "sphinx_exercise_registry", {})
    for label, entry in registry.items():
        if entry["docname"] != docname:
            continue
        if target := entry["node"].get("target_label"):
            solved[label] = target
        else:
            n = number(app, docname, "exercise", label)
            found[label] = app.config.numfig_format["exercise"] % n
    return found | {
        label: f"Solution to {found[target]}"
        for label, target in solved.items()
    }


def page(app: Sphinx, docname: str) -> Json:
    """Return what a page calls things."""
    doctree = app.env.get_doctree(docname)
    return {
        "title": app.env.titles[docname].astext(),
        "uri": app.builder.get_target_uri(docname),
        "headings": headings(app, docname, doctree),
        "listings": listings(app, docname, doctree),
        "labels": labelled(app, docname),
        # The last, for it empties the tree.
        "references": references(app, docname, doctree),
    }


def works(app: Sphinx) -> dict[str, str]:
    """Return every work of the bibliography, in its order, as Markdown."""
    backend = Markdown()
    return {
        citation.key: " ".join(
            citation.formatted_entry.text.render(backend).split()
        )
        for citation in app.env.get_domain("cite").citations
    }


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the file when the pages are written."""
    if exception or app.builder.format != "html":
        return
    env = app.env
    names = [
        name
        for name in sorted(env.found_docs)
        if Path(env.doc2path(name)).suffix == ".ipynb"
    ]
    book = {
        "title": app.config.html_title,
        "pages_at": app.config.book_address.pages,
        "files_at": app.config.book_address.files,
        "wheel": wheel_name(Path(app.srcdir)),
        "macros": app.config.maths_macros,
        "works": works(app),
        "pages": {name: page(app, name) for name in names},
    }
    text = json.dumps(book, ensure_ascii=False, indent=1)
    Path(app.outdir).with_name("numbers.json").write_text(
        f"{text}\n", "utf-8"
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True}
