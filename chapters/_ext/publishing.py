"""What a published page says of itself, and the page for addresses that lead nowhere.

Each page shows when its sources were last changed, by git, and a chapter what its outputs were made
with, by the lock. Where the book will stand is nobody's to guess: BOOK_URL gives its address and
BOOK_REPOSITORY the `owner/name` of its source, and without them no page names either.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from docutils import nodes
from jinja2 import Template
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

# What made the outputs: distribution and name.
MADE_WITH = {
    "numpy": "NumPy",
    "torch": "PyTorch",
    "matplotlib": "matplotlib",
}
NOT_FOUND = Path(__file__).with_name("404.html")


def history(root: Path) -> dict[str, str]:
    """Return the day of each file's last commit; nothing where git does not know it."""
    git = ["git", "-C", str(root)]
    log = ["log", "--relative", "--format=%x00%cs", "--name-only"]
    try:
        shallow = _words([*git, "rev-parse", "--is-shallow-repository"])
        # The one commit of a shallow clone would seem to have changed everything.
        commits = _words([*git, *log]) if shallow.strip() == "false" else ""
    except (OSError, subprocess.CalledProcessError):
        return {}
    days: dict[str, str] = {}
    for commit in commits.split("\0")[1:]:
        day, *files = commit.split()
        for file in files:
            days.setdefault(file, day)
    return days


def _words(command: list[str]) -> str:
    return subprocess.run(
        command, check=True, capture_output=True, encoding="utf-8"
    ).stdout


def date_pages(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Note the day on which each page's sources last changed; return the pages to write anew."""
    root = Path(app.srcdir)
    days = history(root)
    known = getattr(env, "publishing_days", {})
    env.publishing_days = {  # type: ignore[attr-defined]
        page: max(days.get(file, "") for file in sources(env, page))
        for page in env.found_docs
    }
    return [
        p
        for p, day in env.publishing_days.items()
        if known.get(p, day) != day
    ]


def sources(env: BuildEnvironment, page: str) -> Iterable[str]:
    """Yield the files that a page is made from, as git names them."""
    root = Path(env.srcdir)
    for file in (env.doc2path(page), *env.dependencies.get(page, ())):
        path = Path(os.path.normpath(root / file))
        if path.is_relative_to(root):
            yield path.relative_to(root).as_posix()


def versions(root: Path) -> str:
    """Return what the lock says that the outputs were made with."""
    lock = (root / "requirements.txt").read_text("utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", lock, re.MULTILINE))
    python = re.search(r"with Python ([\d.]+)", lock)
    made = [f"Python {python[1]}"] if python else []
    made += [
        f"{name} {locked[d]}" for d, name in MADE_WITH.items() if d in locked
    ]
    return ", ".join(made)


def facts(app: Sphinx, page: str) -> str:
    """Return the paragraph that a page ends with."""
    said = []
    if day := app.env.publishing_days.get(page):  # type: ignore[attr-defined]
        when = date.fromisoformat(day)
        words = f"{when.day} {when:%B %Y}"
        said.append(
            f'Last changed on <time datetime="{day}">{words}</time>.'
        )
    source = (
        Path(app.env.doc2path(page)) if page in app.env.found_docs else None
    )
    lock = Path(app.srcdir, "requirements.txt")
    if source and source.suffix == ".ipynb" and lock.is_file():
        said.append(f"Outputs made with {versions(lock.parent)}.")
    if repository := app.config.book_address.repository:
        address = html.escape(f"https://github.com/{repository}")
        said.append(f'<a href="{address}">Source and issues</a>.')
    return f'<p class="page-facts">{" ".join(said)}</p>' if said else ""


def tell(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Put the facts into the page's footer."""
    footer = context.get("theme_extra_footer") or ""
    context["theme_extra_footer"] = facts(app, pagename) + footer


def write_not_found(app: Sphinx, exception: Exception | None) -> None:
    """Write 404.html, which a server shows at any depth: it loads nothing."""
    if exception or app.builder.format != "html":
        return
    titles = app.env.titles
    shown = ["cheat-sheet", "notation", "glossary", "api"]
    links = {
        f"{page}.html": titles[page].astext()
        for page in (app.config.root_doc, *(f"chapters/{n}" for n in shown))
        if page in titles
    }
    text = Template(NOT_FOUND.read_text("utf-8"), autoescape=True).render(
        title=app.config.html_title,
        base=app.config.html_baseurl,
        links=links,
    )
    Path(app.outdir, "404.html").write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("env-updated", date_pages)
    app.connect("html-page-context", tell)
    app.connect("build-finished", write_not_found)
    return {"version": "1", "parallel_read_safe": True}
