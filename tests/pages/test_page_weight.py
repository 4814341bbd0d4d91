"""What a page costs before anything is drawn, counted in the built files."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from built_book import toc_pages
from test_built_pages import EVERY_PAGE, article, fetched

Reader = Callable[[str], BeautifulSoup]

PICTURES = {".png", ".jpg", ".jpeg", ".svg", ".gif", ".webp"}
TEXTS = {".html", ".css", ".js", ".json"}
# The promise to readers, in bytes as a server sends them; search also needs the index of all words.
MOST_BYTES = 200_000
DOTS_PER_INCH = range(100, 151)


def before_pictures(
    html: Path, page: str, tree: BeautifulSoup
) -> list[Path]:
    """Return the page and every file that it loads, but for pictures."""
    folder = (html / page).parent
    files = [
        (folder / unquote(urlsplit(address).path)).resolve()
        for address in dict.fromkeys(fetched(tree))
        if not address.startswith(("data:", "#"))
    ]
    return [
        html / f"{page}.html",
        *(file for file in files if file.suffix not in PICTURES),
    ]


def sent(file: Path) -> int:
    """Return how many bytes a server sends that compresses text."""
    content = file.read_bytes()
    return len(
        gzip.compress(content, 9) if file.suffix in TEXTS else content
    )


def blocking(tree: BeautifulSoup) -> list[str]:
    """Return the files that a browser waits for before it paints anything."""
    scripts = [
        str(tag["src"])
        for tag in tree.select("script[src]")
        if not tag.has_attr("defer") and not tag.has_attr("async")
    ]
    sheets = [
        str(tag["href"])
        for tag in tree.select("link[rel=stylesheet]")
        if tag.get("media", "all") != "print"
    ]
    return sheets + scripts


@pytest.mark.parametrize("page", toc_pages())
def test_a_page_weighs_at_most_200_kilobytes_before_its_pictures(
    html: Path, soup: Reader, page: str
) -> None:
    files = before_pictures(html, page, soup(page))
    sizes = {file.name: sent(file) for file in files}
    assert sum(sizes.values()) <= MOST_BYTES, sizes


@pytest.mark.parametrize("page", toc_pages())
def test_a_page_loads_a_style_sheet_and_a_script_before_its_pictures(
    html: Path, soup: Reader, page: str
) -> None:
    tree = soup(page)
    wanted = ["pages.css", "pages.js"]
    if tree.select_one("attention-live"):
        wanted.append("live.js")
    files = before_pictures(html, page, tree)[1:]
    assert sorted(f.name for f in files) == sorted(wanted)


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_only_one_style_sheet_holds_up_a_page(
    soup: Reader, page: str
) -> None:
    waited = [Path(urlsplit(a).path).name for a in blocking(soup(page))]
    assert waited == ["pages.css"]


@pytest.mark.parametrize("page", toc_pages())
def test_the_glyphs_of_formulas_come_before_the_formulas(
    html: Path, page: str
) -> None:
    text = (html / f"{page}.html").read_text("utf-8")
    formula = text.find("<mjx-container")
    assert formula < 0 or 0 < text.find('<svg class="glyphs"') < formula


def test_icons_need_no_file(html: Path) -> None:
    sheet = (html / "_static" / "pages.css").read_text("utf-8")
    assert "Font Awesome" in sheet
    assert "url(data:font/woff;base64," in sheet
    assert [
        f for f in html.rglob("*") if f.suffix in {".woff", ".woff2", ".ttf"}
    ] == []


def resolution(png: bytes) -> float:
    """Return a picture's dots per inch as its file states them."""
    at = png.find(b"pHYs")
    per_metre, _, unit = struct.unpack(">IIB", png[at + 4 : at + 13])
    assert at > 0 and unit == 1
    return round(per_metre * 0.0254)


def test_plots_are_fine_enough_and_no_finer(html: Path) -> None:
    plots = {
        f.name: resolution(f.read_bytes())
        for f in html.glob("_images/*.png")
    }
    assert plots
    assert {n: d for n, d in plots.items() if d not in DOTS_PER_INCH} == {}


def test_pictures_load_when_they_are_scrolled_to(soup: Reader) -> None:
    for page in toc_pages():
        for image in article(soup(page)).select("img"):
            assert image.get("loading") == "lazy", f"{page}: {image['src']}"


def planted(head: str) -> BeautifulSoup:
    """Return a page with this in its head."""
    return BeautifulSoup(f"<html><head>{head}</head></html>", "html.parser")


@pytest.mark.parametrize(
    ("head", "waited"),
    [
        ('<script src="a.js"></script>', ["a.js"]),
        ('<script defer src="a.js"></script>', []),
        ('<link rel="stylesheet" href="a.css">', ["a.css"]),
        ('<link rel="stylesheet" media="print" href="a.css">', []),
    ],
)
def test_what_holds_up_a_page_is_noticed(
    head: str, waited: list[str]
) -> None:
    assert blocking(planted(head)) == waited


def test_a_heavy_file_is_weighed(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>light</p>")
    (tmp_path / "font.woff2").write_bytes(bytes(300_000))
    tree = planted('<link rel="preload" as="font" href="font.woff2">')
    files = before_pictures(tmp_path, "page", tree)
    assert sum(map(sent, files)) > MOST_BYTES
