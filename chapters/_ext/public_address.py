"""Where the book is published, if it is: the one place that asks, and the buttons that follow.

Two environment variables say it. BOOK_URL is the address of the pages. BOOK_REPOSITORY is the
owner/name of the repository on GitHub whose branch `notebooks` holds the runner's editions. While
they are not set, no page and no notebook names an address that somebody else could register.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

BRANCH = "notebooks"
# Where the runner's editions lie in the built book; tools/editions.py puts them there.
FOLDER = "notebooks"


class Address(NamedTuple):
    """The address of the pages, with a slash at its end, and owner/name; empty if there is none."""

    pages: str
    repository: str

    @property
    def files(self) -> str:
        """Where the editions and the wheel can be fetched."""
        if self.pages:
            return f"{self.pages}{FOLDER}/"
        if self.repository:
            return f"https://raw.githubusercontent.com/{self.repository}/{BRANCH}/"
        return ""

    def colab(self, name: str) -> str:
        """Return the address at which Colab opens an edition."""
        return (
            "https://colab.research.google.com/github/"
            f"{self.repository}/blob/{BRANCH}/{name}.ipynb"
        )


def address() -> Address:
    """Return what the environment says, or raise ConfigError if it is no address."""
    pages = os.environ.get("BOOK_URL", "").strip()
    repository = os.environ.get("BOOK_REPOSITORY", "").strip()
    parts = urlsplit(pages)
    if pages and (
        parts.scheme != "https"
        or not parts.netloc
        or parts.query
        or parts.fragment
    ):
        raise ConfigError(
            f"BOOK_URL is to be the https address of the pages, not {pages!r}"
        )
    if repository and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise ConfigError(
            f"BOOK_REPOSITORY is to be owner/name, not {repository!r}"
        )
    return Address(pages.rstrip("/") + "/" if pages else "", repository)


def wheel_name(root: Path) -> str:
    """Return the file name of the package's wheel; empty where there is no package."""
    file = root / "attention" / "__init__.py"
    text = file.read_text("utf-8") if file.is_file() else ""
    version = re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE)
    return (
        f"attention_derived-{version[1]}-py3-none-any.whl" if version else ""
    )


def set_address(app: Sphinx, config: Config) -> None:
    """Keep the address where the other extensions find it."""
    config.book_address = address()
    if config.book_address.pages:
        config.html_baseurl = config.book_address.pages


def lead_to_editions(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Let a notebook's page hand out the runner's edition, and open it in Colab if it can be."""
    if context.get("page_source_suffix") != ".ipynb":
        return
    name = Path(pagename).name
    for group in context["header_buttons"]:
        buttons = group.get("buttons", [])
        for button in buttons:
            if button["label"] == "download-source-button":
                button["url"] = context["pathto"](
                    f"{FOLDER}/{name}.ipynb", 1
                )
                button["text"] = "Notebook (.ipynb)"
                button["tooltip"] = "Download the notebook, to run it"
        wheel = wheel_name(Path(app.srcdir))
        if group["label"] == "download-buttons" and wheel:
            buttons.append(
                {
                    "type": "link",
                    "url": context["pathto"](f"{FOLDER}/{wheel}", 1),
                    "text": "Its package (.whl)",
                    "tooltip": "Download the package that the notebook needs",
                    "icon": "fas fa-file",
                    "label": "download-package-button",
                }
            )
    if app.config.book_address.repository:
        context["header_buttons"].insert(
            0,
            {
                "type": "link",
                "url": app.config.book_address.colab(name),
                "tooltip": "Run this page in Colab",
                "icon": "fas fa-rocket",
                "label": "colab-button",
            },
        )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("book_address", Address("", ""), "env", tuple)
    app.connect("config-inited", set_address)
    # The theme makes its buttons at 501.
    app.connect("html-page-context", lead_to_editions, priority=600)
    return {"version": "1", "parallel_read_safe": True}
