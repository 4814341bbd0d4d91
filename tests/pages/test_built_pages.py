"""What the built files hold: nothing from elsewhere, nothing unrendered, no dead link."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag
from built_book import chapter_pages, toc_pages

Reader = Callable[[str], BeautifulSoup]

OTHER_PAGES = ["genindex", "search"]
EVERY_PAGE = [*toc_pages(), *OTHER_PAGES]
# What a browser fetches by itself; a link that a reader may follow is none of it.
FETCHED = {
    "script": ["src"],
    "img": ["src", "srcset"],
    "source": ["src", "srcset"],
    "video": ["src", "poster"],
    "audio": ["src"],
    "track": ["src"],
    "iframe": ["src"],
    "embed": ["src"],
    "object": ["data"],
    "image": ["href", "xlink:href"],
    "use": ["href", "xlink:href"],
}
FETCHED_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "modulepreload",
    "manifest",
}
CSS_REFERENCE = re.compile(
    r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)"
)
# What would be left of MyST, LaTeX or reStructuredText that nobody rendered.
UNRENDERED = re.compile(
    r"\\\(|\\\[|\$\$|\\begin\{|\\(?:frac|sum|sqrt|softmax)\b|\$[^\s$][^$]*\$"
    r"|\{[a-z][\w:+-]*\}`|:::|```|:(?:math|func|class|ref|eq):`|^\.\. \w+::",
    re.MULTILINE,
)


def text(tag: Tag | None) -> str:
    """Return an element's text with single spaces and without invisible joiners."""
    assert tag is not None
    return " ".join(tag.get_text().replace("\u2060", "").split())


def article(page: BeautifulSoup) -> Tag:
    """Return what the page itself says, without the theme around it."""
    found = page.select_one("article") or page.select_one("main")
    assert found is not None
    return found


def fetched(page: BeautifulSoup) -> list[str]:
    """Return every address that a browser fetches when it opens a page."""
    found: list[str] = []
    for name, attributes in FETCHED.items():
        for tag in page.find_all(name):
            for attribute in attributes:
                value = tag.get(attribute, "")
                parts = (
                    value.split(",") if attribute == "srcset" else [value]
                )
                found += [part.split()[0] for part in parts if part.strip()]
    for tag in page.find_all("link"):
        if FETCHED_LINKS & set(tag.get("rel") or []):
            found.append(tag["href"])
    styles = [tag.get_text() for tag in page.find_all("style")]
    styles += [tag["style"] for tag in page.find_all(style=True)]
    return found + css_references("\n".join(styles))


def css_references(css: str) -> list[str]:
    """Return what a style sheet fetches, without what it holds itself."""
    return [
        a or b
        for a, b in CSS_REFERENCE.findall(css)
        if not (a or b).startswith("data:")
    ]


def elsewhere(address: str) -> bool:
    """Say whether an address leaves the folder of the book."""
    return bool(
        re.match(r"(?:[a-z][a-z0-9+.-]*:|//|/)", address, re.I)
    ) and not re.match(r"data:", address, re.I)


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_page_of_the_contents_is_there(html: Path, page: str) -> None:
    assert (html / f"{page}.html").is_file()


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_a_page_fetches_nothing_from_elsewhere(
    soup: Reader, page: str
) -> None:
    assert [
        address for address in fetched(soup(page)) if elsewhere(address)
    ] == []


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_all_that_a_page_fetches_is_there(
    html: Path, soup: Reader, page: str
) -> None:
    folder = (html / page).parent
    files = [
        unquote(urlsplit(a).path)
        for a in fetched(soup(page))
        if not a.startswith("data:")
    ]
    assert [
        file for file in files if file and not (folder / file).is_file()
    ] == []


def test_style_sheets_fetch_nothing_from_elsewhere(html: Path) -> None:
    sheets = {
        file: file.read_text("utf-8")
        for file in (html / "_static").rglob("*.css")
    }
    assert sheets
    wrong = {
        file.name: [a for a in css_references(css) if elsewhere(a)]
        for file, css in sheets.items()
    }
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_no_page_loads_a_kernel_or_a_maths_program(
    soup: Reader, page: str
) -> None:
    scripts = " ".join(
        str(tag) for tag in soup(page).find_all("script")
    ).lower()
    assert [
        n
        for n in ("thebe", "mathjax", "fontawesome", "require.js")
        if n in scripts
    ] == []


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_a_page_says_what_it_is(soup: Reader, page: str) -> None:
    tree = soup(page)
    assert tree.html is not None and tree.html["lang"] == "en"
    assert text(tree.title)
    description = tree.select("meta[name=description]")
    assert len(description) == 1
    assert description[0]["content"].strip()
    assert tree.select_one("link[rel=icon]") is not None
    assert len(tree.select("h1")) == 1


def test_descriptions_and_titles_are_of_one_page_each(soup: Reader) -> None:
    for selector, attribute in (
        ("meta[name=description]", "content"),
        ("title", None),
    ):
        tags = [soup(page).select_one(selector) for page in toc_pages()]
        said = Counter(
            t[attribute] if attribute else text(t) for t in tags if t
        )
        assert [words for words, times in said.items() if times > 1] == []


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_nothing_is_left_unrendered(soup: Reader, page: str) -> None:
    tree = BeautifulSoup(str(soup(page)), "html.parser")
    assert tree.select(".problematic, .system-message") == []
    assert tree.select("merror, [data-mjx-error]") == []
    for tag in tree.select("pre, code, script, style, mjx-container, head"):
        tag.replace_with(" ")
    said = tree.get_text()
    assert [
        said[m.start() - 30 : m.end() + 30]
        for m in UNRENDERED.finditer(said)
    ] == []


@pytest.mark.parametrize("page", toc_pages())
def test_no_markup_was_misread(soup: Reader, page: str) -> None:
    tree = BeautifulSoup(str(soup(page)), "html.parser")
    for tag in tree.select("pre, code, .math, svg"):
        tag.decompose()
    # A formula that nobody closed leaves its dollar in the text.
    assert "$" not in article(tree).get_text()
    # A role that lost its colon becomes a title, a letter with a dot a list.
    assert tree.select("cite") == []
    assert tree.select("dd ol") == []


@pytest.mark.parametrize("page", toc_pages())
def test_every_formula_is_drawn_and_can_be_read_aloud(
    soup: Reader, page: str
) -> None:
    tree = soup(page)
    glyphs = {tag["id"] for tag in tree.select("svg.glyphs path[id]")}
    for tag in tree.select("span.math, div.math"):
        drawing = tag.select_one("mjx-container > svg")
        assert drawing is not None, f"not drawn: {tag}"
        # An empty drawing is 0 wide; what is drawn is made of glyphs, lines and letters.
        assert float(str(drawing["width"]).removesuffix("ex")) > 0
        assert drawing.select("use, rect, line, path, text")
        assert {
            str(use["href"]).lstrip("#") for use in drawing.select("use")
        } <= glyphs
        assert text(tag.select_one("mjx-assistive-mml > math"))


@pytest.mark.parametrize("page", toc_pages())
def test_display_formulas_can_be_scrolled_by_keyboard(
    soup: Reader, page: str
) -> None:
    for tag in soup(page).select("div.math"):
        (box,) = tag.select(".formula")
        assert box["tabindex"] == "0"
        assert str(box["aria-label"]).startswith("Equation")


@pytest.mark.parametrize("page", chapter_pages())
def test_equations_are_numbered_by_chapter(soup: Reader, page: str) -> None:
    chapter = chapter_pages().index(page) + 1
    assert text(article(soup(page)).select_one("h1")).startswith(
        f"{chapter}."
    )
    numbers = [
        str(t.contents[0]).strip()
        for t in article(soup(page)).select(".eqno")
    ]
    assert numbers
    assert numbers == [
        f"({chapter}.{n})" for n in range(1, len(numbers) + 1)
    ]


def test_references_to_equations_show_their_numbers(soup: Reader) -> None:
    for page in toc_pages():
        for link in article(soup(page)).select("a[href*='#equation-']"):
            if "headerlink" in (link.get("class") or []):
                continue
            path, _, anchor = str(link["href"]).partition("#")
            target = soup(
                str((Path(page).parent / path).with_suffix(""))
                if path
                else page
            )
            equation = target.find(id=anchor)
            assert isinstance(equation, Tag)
            number = equation.select_one(".eqno")
            assert (
                number is not None
                and text(link) == str(number.contents[0]).strip()
            )


def test_figures_have_captions_and_numbers(soup: Reader) -> None:
    for page in toc_pages():
        for image in article(soup(page)).select("img"):
            figure = image.find_parent("figure")
            assert isinstance(figure, Tag), (
                f"{page}: {image.get('src')} is not in a figure"
            )
            caption = figure.select_one("figcaption")
            assert re.match(r"Figure \d+(\.\d+)? \S.{20}", text(caption)), (
                f"{page}: {caption}"
            )


def test_figures_have_alternative_texts_of_substance(soup: Reader) -> None:
    seen: dict[str, str] = {}
    for page in toc_pages():
        for image in article(soup(page)).select("img"):
            alternative, where = (
                str(image.get("alt", "")).strip(),
                f"{page}: {image['src']}",
            )
            stem = Path(str(image["src"])).stem
            assert stem not in alternative and not re.search(
                r"\.(png|svg|jpe?g)$", alternative
            )
            assert len(alternative.split()) >= 8, (
                f"{where}: {alternative!r} says too little"
            )
            assert alternative not in seen, (
                f"{where} says the same as {seen.get(alternative)}"
            )
            seen[alternative] = where


def test_images_have_their_sizes(soup: Reader) -> None:
    for page in toc_pages():
        for image in article(soup(page)).select("img"):
            assert image.get("width") and image.get("height"), (
                f"{page}: {image['src']}"
            )


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_no_identifier_is_given_twice(soup: Reader, page: str) -> None:
    seen = Counter(str(tag["id"]) for tag in soup(page).find_all(id=True))
    # The theme repeats its own controls for wide and narrow screens.
    own = {str(tag["id"]) for tag in article(soup(page)).find_all(id=True)}
    assert [
        name for name, times in seen.items() if times > 1 and name in own
    ] == []


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_links_inside_the_book_lead_somewhere(
    html: Path, soup: Reader, page: str
) -> None:
    ids: dict[str, set[str]] = {}
    for link in soup(page).find_all("a", href=True):
        address = urlsplit(str(link["href"]))
        if address.scheme or address.netloc or str(link["href"]) == "#":
            continue
        path = unquote(address.path)
        file = (html / page).parent / path if path else html / f"{page}.html"
        file = file.resolve()
        assert file.is_file(), f"{link['href']} leads nowhere"
        if address.fragment and file.suffix == ".html":
            name = (
                file.relative_to(html.resolve()).with_suffix("").as_posix()
            )
            if name not in ids:
                ids[name] = {
                    str(tag["id"]) for tag in soup(name).find_all(id=True)
                }
            assert unquote(address.fragment) in ids[name], (
                f"{link['href']} leads to no such place"
            )


@pytest.mark.parametrize("page", toc_pages())
def test_every_page_links_to_every_page(soup: Reader, page: str) -> None:
    sidebar = soup(page).select_one(".bd-sidebar-primary")
    assert sidebar is not None
    linked = {
        Path(str(a["href"])).stem if a["href"] != "#" else Path(page).stem
        for a in sidebar.select("a[href]")
    }
    assert {Path(each).stem for each in toc_pages()[1:]} <= linked


def test_works_cited_can_be_found(soup: Reader) -> None:
    """Each has a DOI, an arXiv number, or its publisher's address."""
    entries = soup("chapters/bibliography").select(".citation")
    assert entries
    assert [
        text(e) for e in entries if not e.select("a[href^='https://']")
    ] == []


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_headings_begin_with_the_title_and_skip_no_level(
    soup: Reader, page: str
) -> None:
    levels = [
        int(tag["aria-level"] if tag.name == "p" else tag.name[1])
        for tag in soup(page).select(
            "h1, h2, h3, h4, h5, h6, [role=heading]"
        )
    ]
    assert levels[0] == 1
    assert [(a, b) for a, b in pairwise(levels) if b > a + 1] == []


@pytest.mark.parametrize("page", toc_pages())
def test_tables_say_what_their_headers_head(soup: Reader, page: str) -> None:
    for table in article(soup(page)).select("table"):
        heads = table.select("th")
        assert heads, f"{page}: a table without headers"
        assert all(th.get("scope") in {"col", "row"} for th in heads), table
