"""Pages that need nothing from elsewhere, over http and over file://.

Each rendered page is finished here: dead weight of the theme dropped, the glyphs of its formulas
added, images given their sizes, a description where the author wrote none.
"""

from __future__ import annotations

import html
import re
import struct
from pathlib import Path
from typing import Any

import page_assets
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.jinja2glue import BuiltinTemplateLoader
from sphinx.theming import Theme

# Sets what the theme's colours hang on before the first paint; the theme's own words for it leave
# a page without colours until all scripts have run.
THEME = """<script>
    (() => {
      const root = document.documentElement.dataset;
      try { root.mode = localStorage.getItem("mode") || "auto"; } catch { root.mode = "auto"; }
      const dark = matchMedia("(prefers-color-scheme: dark)").matches;
      root.theme = root.mode === "auto" ? (dark ? "dark" : "light") : root.mode;
    })();
  </script>"""
REPLACED = [
    (
        re.compile(r'(<html\b[^>]*) data-theme="auto"'),
        r'\1 data-theme="light"',
    ),
    (
        re.compile(r'<script data-cfasync="false">.*?</script>', re.DOTALL),
        THEME,
    ),
    # Says where a page lies to a switch of versions, which this book has not.
    (
        re.compile(
            r"\s*<script>DOCUMENTATION_OPTIONS\.pagename[^<]*</script>"
        ),
        "",
    ),
    # Headings before the title: the captions of the list of chapters are labels of a menu.
    (
        re.compile(r' aria-level="2" class="caption" role="heading"'),
        ' class="caption"',
    ),
    # What unfolds the pages below a chapter in the menu, without a word of its own.
    (
        re.compile(r'<summary>(?=<span class="toctree-toggle")'),
        '<summary aria-label="Exercises of this chapter">',
    ),
    # Landmarks: the book's name stands in one, and none is empty.
    (
        re.compile(
            r'<div class="sidebar-primary-item">(?=\s*<a class="navbar-brand)'
        ),
        '<div class="sidebar-primary-item" role="banner">',
    ),
    (re.compile(r'\s*<(header|footer) class="bd-\1\b[^>]*>\s*</\1>'), ""),
    # What a table's header heads; a corner that heads nothing is none.
    (
        re.compile(r"<th( class=\"[^\"]*\")?>\s*(?:<p>\s*</p>)?\s*</th>"),
        "<td></td>",
    ),
    (re.compile(r'<th(?= class="[^"]*\bhead\b)'), '<th scope="col"'),
    (re.compile(r'<th(?= class="[^"]*\bstub\b)'), '<th scope="row"'),
    # What is too wide for its place is scrolled by keyboard; book.js passes over what fits.
    (re.compile(r"<pre>"), '<pre tabindex="0">'),
    (
        re.compile(r'<div class="pst-scrollable-table-container">'),
        '<div class="pst-scrollable-table-container" tabindex="0">',
    ),
    # A list's entries, in roles that are still in use.
    (re.compile(r' role="doc-biblioentry"'), ' role="listitem"'),
    # Parameters of a signature are no definitions of terms.
    (
        re.compile(
            r'<dl>\s*(<dd><em class="sig-param">.*?)</dl>', re.DOTALL
        ),
        lambda m: (
            m[1]
            .replace("<dd>", '<span class="sig-line">')
            .replace("</dd>", "</span>")
        ),
    ),
    # A second title and contents for print, the title without its formulas.
    (
        re.compile(
            r'<div id="jb-print-docs-body".*?(?=<div id="searchbox")',
            re.DOTALL,
        ),
        "",
    ),
    # sphinx-proof gives the same to every proof of a page.
    (re.compile(r' id="proof(?:-content)?"'), ""),
]
DESCRIPTION_LENGTH = 155
# A picture in a figure, but for live ones, which are laid out anew for each width.
PICTURE = re.compile(r'(?<=>)\s*<img width="(\d+)"[^>]*>(?=\s*<figcaption)')
# In CSS pixels: shrunk to a phone's width, letters would be less than four fifths of their size.
WIDE_PICTURE = 450
CELL = re.compile(r"<t([dh])\b.*?</t\1>", re.DOTALL)
# In characters: what a narrow column of a phone would break into many lines.
LONG_TEXT = 45
LONG_NAME = re.compile(r"(?<![&\w.])[\w.]{18,}(?=[^<>]*<)")


class PageBridge(BuiltinTemplateLoader):
    """Sphinx's templates, with each page finished after it is rendered."""

    def init(
        self,
        builder: Builder,
        theme: Theme | None = None,
        dirs: list[str] | None = None,
    ) -> None:
        """Keep the builder, which knows the formulas and the images."""
        super().init(builder, theme, dirs)
        self.builder = builder

    def render(self, template: str, context: dict[str, Any]) -> str:
        """Render a template; finish it if it is a whole page."""
        page = super().render(template, context)
        return self.finish(page) if "</body>" in page else page

    def finish(self, page: str) -> str:
        """Return the page as it is published."""
        for pattern, text in REPLACED:
            page = pattern.sub(text, page)
        page = re.sub(r"<img\b[^>]*>", self.sized, page)
        page = PICTURE.sub(boxed, page)
        page = CELL.sub(breakable, page)
        app = self.builder.app
        # Glyphs come before the formulas that use them, which are then there when first painted.
        sheet = app.maths.sheet(page)  # type: ignore[attr-defined]
        page = re.sub(
            r"<body\b[^>]*>", lambda m: m[0] + sheet, page, count=1
        )
        return page_assets.link(app, page)

    def sized(self, match: re.Match[str]) -> str:
        """Give an image that the build copied its size, and let it load when it is needed."""
        tag = match[0]
        source = re.search(r'src="[^"]*_images/([^"]+\.png)"', tag)
        file = source and Path(self.builder.outdir, "_images", source[1])
        if not file or not file.is_file():
            # Images are copied after the pages are written; look where they come from.
            file = source and image_sources(self.builder).get(source[1])
        if not file or re.search(r"\b(?:width|height)[=:]", tag):
            return tag
        width, height = size(file.read_bytes())
        return tag.replace(
            "<img",
            f'<img width="{width}" height="{height}" loading="lazy"',
            1,
        )


def boxed(match: re.Match[str]) -> str:
    """Put a wide picture into a box in which it can be scrolled."""
    if int(match[1]) < WIDE_PICTURE:
        return match[0]
    # A stop of the Tab key until book.js finds that it fits.
    box = '<div class="wide-picture" role="group" aria-label="Picture" tabindex="0">'
    return f"{box}{match[0].strip()}</div>"


def breakable(cell: re.Match[str]) -> str:
    """Let long names in a cell of a table break after dots and underscores; mark long text."""
    html = cell[0]
    if len(re.sub(r"<[^>]*>", "", html)) > LONG_TEXT:
        start, rest = html[:3], html[3:]
        known = re.match(r' class="', rest)
        rest = rest[known.end() :] if known else f'"{rest}'
        html = f'{start} class="long{" " if known else ""}{rest}'
    return LONG_NAME.sub(
        lambda name: re.sub(r"(?<=\w{3}[._])(?=\w)", "<wbr/>", name[0]), html
    )


def image_sources(builder: Builder) -> dict[str, Path]:
    """Return, by published name, the files of the images of this build."""
    return {
        name: Path(builder.srcdir, file)
        for file, name in builder.images.items()
    }


def size(png: bytes) -> tuple[int, int]:
    """Return width and height in CSS pixels (96 an inch), by the file's own resolution."""
    width, height = struct.unpack(">II", png[16:24])
    at = png.find(b"pHYs")
    per_metre, _, unit = (
        struct.unpack(">IIB", png[at + 4 : at + 13]) if at > 0 else (0, 0, 0)
    )
    scale = 96 / (per_metre * 0.0254) if unit == 1 and per_metre else 1
    return round(width * scale), round(height * scale)


def describe(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Describe a page by its first plain paragraph unless its author did."""
    metatags = context.get("metatags") or ""
    if 'name="description"' in metatags:
        return
    text = f"{pagename.capitalize()} of the book {app.config.html_title}"
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        # A formula would show as LaTeX.
        if not list(paragraph.findall(nodes.math)):
            text = " ".join(paragraph.astext().split())
            break
    if len(text) > DESCRIPTION_LENGTH:
        text = (
            text[:DESCRIPTION_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + " …"
        )
    tag = f'<meta name="description" content="{html.escape(text)}">\n'
    context["metatags"] = metatags + tag


def forget_failed(app: Sphinx, exception: Exception | None) -> None:
    """Let a build that warned be done anew, or the next one would skip what it warned of."""
    if exception or app._warncount:
        Path(app.doctreedir, "environment.pickle").unlink(missing_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx; _config.yml names PageBridge as its template bridge."""
    # Jupyter Book sets it for an extension that is left out here.
    app.add_config_value("comments_config", {}, "html")
    app.connect("html-page-context", describe)
    app.connect("build-finished", forget_failed)
    return {"version": "1", "parallel_read_safe": True}
