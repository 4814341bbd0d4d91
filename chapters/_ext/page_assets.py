"""What a page loads beside itself: one style sheet and one script, the same for all pages.

A page then waits for a single small file before it is painted, and the reader's next page finds
both in the browser's memory. The sheet holds only what the pages of this build can use.
"""

from __future__ import annotations

import hashlib
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from stylesheet import Words, combine

SHEET, SCRIPT = "pages.css", "pages.js"
# In the order in which the theme's pages load them. theme.css only imports basic.css.
STYLES = [
    "basic.css",
    "styles/theme.css",
    "styles/pydata-sphinx-theme.css",
    "pygments.css",
    "styles/sphinx-book-theme.css",
    "mystnb.*.css",
    "copybutton.css",
    "proof.css",
    "sphinx-design.min.css",
]
# The first must stay first: it makes the rest run outside strict mode, which one of them needs.
SCRIPTS = [
    "documentation_options.js",
    "doctools.js",
    "sphinx_highlight.js",
    "clipboard.min.js",
    "copybutton.js",
    "design-tabs.js",
]
# Nothing else needs these: each runs as a task of its own, so that a tap need not wait for all.
ALONE = {"copybutton.js", "design-tabs.js"}
# What the book's own script does with less, maps of files that are gone, icons that the sheet
# holds, all of Font Awesome once more as a script, and another look of exercises.
UNUSED = [
    "exercise.css",
    "scripts/bootstrap.js*",
    "scripts/pydata-sphinx-theme.js",
    "scripts/sphinx-book-theme.js",
    "scripts/fontawesome.js*",
    "scripts/*.map",
    "styles/*.map",
    "vendor/**/*",
]

LINK = re.compile(
    r'\s*<link\b[^>]*\bhref="[^"]*?_static/([^"?]+)[^"]*"[^>]*>'
)
TAG = re.compile(
    r'\s*<script\b[^>]*\bsrc="[^"]*?_static/([^"?]+)[^"]*"[^>]*></script>'
)
VERSION = re.compile(rf"(_static/(?:{SHEET}|{SCRIPT}))\?v=\w*")


def patterns(app: Sphinx, names: list[str], suffix: str) -> list[str]:
    """Return the names with, at the end, the book's own files, which every page loads."""
    folder = Path(app.srcdir, "_static")
    return [*names, *sorted(f.name for f in folder.glob(f"*.{suffix}"))]


def bundled(app: Sphinx, names: list[str], suffix: str) -> list[Path]:
    """Return the built files that go into the sheet or the script, in order."""
    static = Path(app.outdir, "_static")
    return [
        file
        for pattern in patterns(app, names, suffix)
        for file in sorted(static.glob(pattern))
    ]


def link(app: Sphinx, page: str) -> str:
    """Return a page that loads the sheet and the script instead of what they are made of."""
    root = re.search(r'data-content_root="([^"]*)"', page)
    if not root:
        return page
    replaced = [
        *patterns(app, STYLES, "css"),
        *patterns(app, SCRIPTS, "js"),
        *UNUSED,
    ]

    def drop(match: re.Match[str]) -> str:
        gone = any(fnmatch(match[1], pattern) for pattern in replaced)
        return "" if gone else match[0]

    page = TAG.sub(drop, LINK.sub(drop, page))
    # What is left belongs to one page, and runs after the script that all pages load.
    page = re.sub(
        r"<script(?= [^>]*\bsrc=)(?![^>]*\bdefer)", "<script defer", page
    )
    static = f"{root[1]}_static/"
    return page.replace(
        "</title>",
        f'</title>\n    <link rel="stylesheet" href="{static}{SHEET}?v=" />'
        f'\n    <script defer src="{static}{SCRIPT}?v="></script>',
        1,
    )


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write the sheet and the script, and drop what they were made of."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir, "_static")
    if not (static / "styles" / "theme.css").is_file():
        return  # Nothing had changed: Sphinx copied nothing, and what was made before stands.
    styles = bundled(app, STYLES, "css")
    scripts = bundled(app, SCRIPTS, "js")
    pages = {
        file: file.read_text("utf-8")
        for file in sorted(Path(app.outdir).rglob("*.html"))
        if static not in file.parents
    }
    script = "\n;".join(map(task, scripts))
    words = Words()
    for page in pages.values():
        words.add_page(page)
    for other in static.rglob("*.js"):
        if other not in scripts and other.name != SCRIPT:
            words.add_script(other.read_text("utf-8"))
    words.add_script(script)
    made = {SHEET: combine(styles, words, static.resolve()), SCRIPT: script}
    for name, content in made.items():
        (static / name).write_text(content, "utf-8")
    for file in {
        *styles,
        *scripts,
        *(f for p in UNUSED for f in static.glob(p)),
    }:
        if file.is_file():
            file.unlink()
    stamp(pages, made)


def task(file: Path) -> str:
    """Return a script as it stands in the one script."""
    text = re.sub(
        r"^//# sourceMappingURL=.*$", "", file.read_text("utf-8"), flags=re.M
    )
    if file.name in ALONE:
        text = f"setTimeout(() => {{{text}\n}});"
    return text


def stamp(pages: dict[Path, str], made: dict[str, str]) -> None:
    """Name in every page the version of what it loads, so that no stale copy is used."""
    digest = {
        name: hashlib.sha256(content.encode()).hexdigest()[:8]
        for name, content in made.items()
    }
    for file, page in pages.items():
        stamped = VERSION.sub(
            lambda m: f"{m[1]}?v={digest[m[1].partition('/')[2]]}", page
        )
        if stamped != page:
            file.write_text(stamped, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the files when the pages are there; offline_pages has each page load them."""
    # After the theme, which then writes its colours of code.
    app.connect("build-finished", write, priority=900)
    return {"version": "1", "parallel_read_safe": True}
