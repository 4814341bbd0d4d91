"""Exercises on the pages: listed in the contents, solutions and hints folded away by HTML alone.

sphinx-exercise numbers the exercises and merges what lies between `solution-start` and
`solution-end`. Here each solution, and each admonition of the class `dropdown`, becomes a closed
<details>: it opens without a script, by keyboard, from a search in the page, and on paper.
"""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.locale import admonitionlabels
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator
from sphinx_exercise.nodes import (
    exercise_subtitle,
    is_exercise_node,
    is_extension_node,
    solution_node,
)

WHERE = (
    "You answer in this page’s notebook, which the button with the arrow above hands out."
    " Here, take paper, and unfold hints and solutions."
)


class Folded(nodes.General, nodes.Element):
    """What is folded away; its first child is what stays in sight."""


class Summary(nodes.Part, nodes.TextElement):
    """The line that opens and closes it."""


class Fold(SphinxPostTransform):
    """Folds solutions and dropdowns away, once sphinx-exercise has given them their titles."""

    default_priority = 30
    formats: ClassVar[tuple[str, ...]] = ("html",)

    def run(self, **kwargs: Any) -> None:
        """Put a folded node in the place of each."""
        for node in list(self.document.findall(nodes.Admonition)):
            if isinstance(node, solution_node):
                # Without its link to the exercise: a click on this line opens the solution.
                fold(node, Summary("", node["title"]))
            elif "dropdown" in node["classes"]:
                fold(node, Summary("", "", *titled(node)[0].children))


def titled(node: nodes.Element) -> nodes.Element:
    """Return an admonition with a title: those of a kind of their own have none of it yet."""
    if not isinstance(node.next_node(), nodes.title):
        label = str(admonitionlabels[node.tagname])
        node.insert(0, nodes.title("", label))
    return node


def fold(node: nodes.Element, summary: Summary) -> None:
    """Put what is folded in the place of a node whose first child is its title."""
    classes = [name for name in node["classes"] if name != "dropdown"]
    folded = Folded("", ids=node["ids"], classes=[*classes, "folded"])
    folded += [summary, *node.children[1:]]
    node.parent.replace(node, folded)


def say_where(app: Sphinx, doctree: nodes.document) -> None:
    """Say on a page of exercises where they are answered; its notebook need not."""
    if app.env.docname.endswith("-exercises"):
        first = next(iter(doctree.findall(nodes.paragraph)))
        place = first.parent.index(first) + 1
        first.parent.insert(
            place, nodes.paragraph("", WHERE, classes=["only-here"])
        )


def take_in(app: Sphinx, doctree: nodes.document) -> None:
    """Mend what sphinx-exercise leaves of a page that has been read."""
    toc = app.env.tocs[app.env.docname]
    entries = {
        link["anchorname"]: link.parent.parent
        for link in toc.findall(nodes.reference)
    }
    for node in list(doctree.findall(is_extension_node)):
        unwrap(node)
        if is_exercise_node(node):
            section = f"#{node.parent['ids'][0]}"
            # The title of the page has no anchor.
            enter(node, entries.get(section, entries[""]))


def unwrap(node: nodes.Element) -> None:
    """Take out a section inside, which has the same identifier all over a page."""
    title, *sections = node.children
    node.children = []
    node += [title, *(child for s in sections for child in s.children)]


def enter(exercise: nodes.Element, entry: nodes.list_item) -> None:
    """List an exercise by its title in the contents of its page, below an entry."""
    title = next(iter(exercise.findall(exercise_subtitle)), None)
    if title is None:
        return
    link = nodes.reference(
        "",
        "",
        *(child.deepcopy() for child in title.children),
        internal=True,
        refuri=exercise["docname"],
        anchorname=f"#{exercise['ids'][0]}",
    )
    if not isinstance(entry[-1], nodes.bullet_list):
        entry += nodes.bullet_list()
    paragraph = addnodes.compact_paragraph("", "", link)
    entry[-1] += nodes.list_item("", paragraph)


def visit_folded(self: HTML5Translator, node: Folded) -> None:
    """Open the box, which shows its summary only."""
    self.body.append(self.starttag(node, "details", CLASS="admonition"))


def depart_folded(self: HTML5Translator, node: Folded) -> None:
    """Close the box."""
    self.body.append("</details>\n")


def visit_summary(self: HTML5Translator, node: Summary) -> None:
    """Open the line."""
    self.body.append(self.starttag(node, "summary", ""))


def depart_summary(self: HTML5Translator, node: Summary) -> None:
    """Close the line."""
    self.body.append("</summary>\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_node(Folded, html=(visit_folded, depart_folded))
    app.add_node(Summary, html=(visit_summary, depart_summary))
    app.add_post_transform(Fold)
    # Sphinx has made the contents by then.
    app.connect("doctree-read", take_in)
    app.connect("doctree-read", say_where)
    return {"version": "1", "env_version": 2, "parallel_read_safe": True}
