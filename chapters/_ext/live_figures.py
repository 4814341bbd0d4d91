"""Live figures: the outputs of attention.live, drawn on the page.

A figure becomes the element `attention-live`, which holds its numbers and its still picture; the
script attention/live.js is loaded on pages that have one. MyST-NB finds the renderer by the entry
point in live_figures.dist-info, beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

MIME = "application/vnd.attention-derived.live+json"
SCRIPT = "live.js"


class live_figure(nodes.General, nodes.Element):  # noqa: N801 (docutils names nodes so)
    """A live figure: its numbers as JSON, and inside it its still picture."""


class LiveRenderer:
    """Turns the numbers of a live figure into a node; HTML prefers it to the picture."""

    mime_priority_overrides: ClassVar[list[tuple[str, str, int | None]]] = [
        (builder, MIME, 1) for builder in ("html", "dirhtml", "singlehtml")
    ]

    @staticmethod
    def handle_mime(
        renderer: NbElementRenderer, data: MimeData, inline: bool
    ) -> list[nodes.Element] | None:
        """Return the node, or None for what is no live figure."""
        if data.mime_type != MIME or inline:
            return None
        return [live_figure(numbers=json.dumps(data.content))]


class TakeStill(SphinxPostTransform):
    """Puts the still picture of an output into its live figure, before MyST-NB drops it."""

    default_priority = (
        3  # MyST-NB chooses among the kinds of an output at 4.
    )

    def run(self, **kwargs: Any) -> None:
        """Move the picture of each live figure."""
        for figure in list(self.document.findall(live_figure)):
            for other in figure.parent.parent.children:
                if other.get("mime_type") == "image/png":
                    figure += [child.deepcopy() for child in other.children]


def visit_live_figure(self: HTML5Translator, node: live_figure) -> None:
    """Open the element and write its numbers."""
    # What closes the script element may not stand in it.
    numbers = node["numbers"].replace("<", "\\u003c")
    self.body.append(
        f'<attention-live><script type="application/json">{numbers}</script>'
    )


def depart_live_figure(self: HTML5Translator, node: live_figure) -> None:
    """Close the element."""
    self.body.append("</attention-live>\n")


def offer_script(app: Sphinx, config: Config) -> None:
    """Let the book have the package's script among its files."""
    script = Path(
        app.srcdir, config.package_source_root, "attention", SCRIPT
    )
    if script.is_file():
        config.html_static_path.append(str(script.resolve()))


def load_script(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Load the script on a page that has a live figure."""
    if doctree is not None and next(doctree.findall(live_figure), None):
        app.add_js_file(SCRIPT, loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the node, the transform and the script."""
    app.add_node(live_figure, html=(visit_live_figure, depart_live_figure))
    app.add_post_transform(TakeStill)
    app.connect("config-inited", offer_script)
    app.connect("html-page-context", load_script)
    return {"version": "1", "parallel_read_safe": True}
