"""What leads through the book: map and table of chapters, footers, the page for dead links."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import chapter_map
import publishing
import pytest
from bs4 import BeautifulSoup
from built_book import (
    ROOT,
    build,
    chapter_pages,
    exercise_pages,
    toc_pages,
)

Reader = Callable[[str], BeautifulSoup]
INTRO = "chapters/intro"


def refs(cell: str) -> set[str]:
    """Return the chapters that a text refers to."""
    return set(re.findall(r"\{ref\}`[^`]*?(ch-[\w-]+)>?`", cell))


def opener(page: str) -> str:
    """Return the first cell of a chapter."""
    notebook = json.loads((ROOT / f"{page}.ipynb").read_text("utf-8"))
    return "".join(notebook["cells"][0]["source"])


@pytest.fixture(scope="module")
def book() -> list[chapter_map.Chapter]:
    return chapter_map.chapters(ROOT)


# ------------------------------------------------------------------------------------ the map
def test_the_map_shows_every_chapter_in_reading_order(soup: Reader) -> None:
    links = soup(INTRO).select(".chapter-map li a")
    assert [
        f"chapters/{str(link['href']).partition('.html')[0]}"
        for link in links
    ] == chapter_pages()


def test_the_map_says_in_words_what_the_openers_say(
    soup: Reader, book: list[chapter_map.Chapter]
) -> None:
    numbers = {chapter.label: chapter.number for chapter in book}
    boxes = soup(INTRO).select(".chapter-map li")
    for page, box in zip(chapter_pages(), boxes, strict=True):
        needs = (
            opener(page)
            .partition("**You need.**")[2]
            .partition("**Time.**")[0]
        )
        told = box.select_one(".visually-hidden")
        assert told is not None
        said = [int(n) for n in re.findall(r"\d+", told.get_text())]
        assert said == sorted(numbers[label] for label in refs(needs)), page


def test_no_arrow_of_the_map_passes_behind_a_box(
    book: list[chapter_map.Chapter],
) -> None:
    edges = chapter_map.arrows(book)
    plan = chapter_map.layout([chapter.label for chapter in book], edges)
    assert {plan.place[b][0] - plan.place[a][0] for a, b in edges} == {1}


def test_no_two_boxes_of_the_map_overlap(
    book: list[chapter_map.Chapter],
) -> None:
    labels = [chapter.label for chapter in book]
    plan = chapter_map.layout(labels, chapter_map.arrows(book))
    for (row, column), (below, other) in pairwise(
        sorted(plan.place.values())
    ):
        assert row < below or other - column >= 2
    assert all(0 <= c <= plan.columns - 2 for _, c in plan.place.values())


def test_arrows_and_paths_along_them_are_all_that_the_openers_say(
    book: list[chapter_map.Chapter],
) -> None:
    edges = chapter_map.arrows(book)

    def leads(a: str, b: str) -> bool:
        return (a, b) in edges or any(
            leads(other, b) for start, other in edges if start == a
        )

    direct = {(a, c.label) for c in book for a in c.builds_on}
    assert set(edges) <= direct
    assert all(leads(a, b) for a, b in direct)
    # And none of them could be left out.
    for a, b in edges:
        assert not any(
            leads(middle, b)
            for start, middle in edges
            if start == a and middle != b
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("**Question.**", "**Problem.**"),
        ("**You need.**", "**Bring.**"),
        ("minutes to read", "minutes"),
    ],
)
def test_a_chapter_that_opens_otherwise_is_named(
    tmp_path: Path, old: str, new: str
) -> None:
    page = chapter_pages()[1]
    file = tmp_path / "chapter.ipynb"
    source = [opener(page).replace(old, new)]
    file.write_text(json.dumps({"cells": [{"source": source}]}), "utf-8")
    with pytest.raises(chapter_map.MisreadError, match=r"chapter\.ipynb"):
        chapter_map.read(file, 2, 1, set())


# ---------------------------------------------------------------------------------- the table
def test_the_table_gives_each_chapters_own_minutes(soup: Reader) -> None:
    rows = soup(INTRO).select("table.chapters tbody tr")
    for page, row in zip(chapter_pages(), rows, strict=True):
        minutes = re.search(r"[Aa]bout (\d+) minutes to read", opener(page))
        assert minutes is not None
        cells = [cell.get_text().strip() for cell in row.select("td")]
        assert cells[-1] == minutes[1]
        assert cells[2].endswith("?")


def test_the_table_leads_to_each_chapters_exercises_and_counts_them(
    soup: Reader,
) -> None:
    found = {}
    for link in soup(INTRO).select("table.chapters td:nth-child(2) a"):
        page = f"chapters/{str(link['href']).partition('.html')[0]}"
        if page not in chapter_pages():
            found[page] = link.get_text()
    assert found == {
        page: f"{len(soup(page).select('.exercise'))} exercises"
        for page in exercise_pages()
    }


# ------------------------------------------------------------------------- from page to page
def test_each_page_leads_to_the_one_before_and_after(soup: Reader) -> None:
    def target(page: str, selector: str) -> str | None:
        link = soup(page).select_one(selector)
        href = link and os.path.normpath(f"chapters/{link['href']}")
        return href.removesuffix(".html") if href else None

    for before, after in pairwise(toc_pages()):
        assert target(before, "a.right-next") == after
        assert target(after, "a.left-prev") == before


# -------------------------------------------------------------------------------- the footers
def git(*words: str, cwd: Path = ROOT) -> str:
    """Return what git says; fail if it does not know."""
    return subprocess.run(
        ["git", *words], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_page_says_when_its_source_was_last_changed(soup: Reader) -> None:
    if not publishing.history(ROOT):
        pytest.skip("git does not know when these files were changed")
    for page in chapter_pages():
        days = [
            git("log", "-1", "--format=%cs", "--", name)
            for name in (f"{page}.ipynb", "attention")
        ]
        time = soup(page).select_one(".page-facts time")
        assert time is not None
        # The page's own day, or a later one of the source that it prints.
        assert days[0] <= str(time["datetime"]) <= max(days)


def test_the_days_come_from_the_last_commit_of_each_file(
    tmp_path: Path,
) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "x"]
    git("init", "-q", cwd=tmp_path)
    book = tmp_path / "book"
    book.mkdir()
    for day, name in (("01", "a"), ("02", "b"), ("03", "a")):
        (book / f"{name}.md").write_text(day)
        git("add", ".", cwd=tmp_path)
        when = f"2020-05-{day}T12:00:00+00:00"
        subprocess.run(
            ["git", *who],
            cwd=tmp_path,
            check=True,
            env=os.environ | {"GIT_COMMITTER_DATE": when},
        )
    assert publishing.history(book) == {
        "a.md": "2020-05-03",
        "b.md": "2020-05-02",
    }


def test_without_git_or_with_a_shallow_clone_no_day_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert publishing.history(tmp_path) == {}
    git(
        "clone", "-q", "--depth", "1", ROOT.as_uri(), "shallow", cwd=tmp_path
    )
    assert publishing.history(tmp_path / "shallow") == {}
    monkeypatch.setenv("PATH", "")
    assert publishing.history(ROOT) == {}


def test_chapters_say_what_their_outputs_were_made_with(
    soup: Reader,
) -> None:
    lock = (ROOT / "requirements.txt").read_text("utf-8")
    for page in toc_pages():
        found = soup(page).select_one(".page-facts")
        said = found.get_text() if found else ""
        notebook = (ROOT / f"{page}.ipynb").is_file()
        for package, name in publishing.MADE_WITH.items():
            version = re.search(rf"^{package}==([\w.]+)", lock, re.MULTILINE)
            assert version is not None
            assert (f"{name} {version[1]}" in said) == notebook


# ------------------------------------------------------------------------------ addresses, 404
def test_no_page_names_an_address_of_the_book(html: Path) -> None:
    names = [*toc_pages(), "search", "genindex", "404"]
    for name in names:
        page = BeautifulSoup(
            (html / f"{name}.html").read_text("utf-8"), "html.parser"
        )
        assert page.select("link[rel=canonical]") == []
        footer = page.select_one(".page-facts")
        assert footer is None or footer.select("a") == []


@pytest.fixture
def published_book(
    small_book: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return the pages of the small book as they are published at an address."""
    monkeypatch.setenv("BOOK_URL", "https://book.example/attention")
    monkeypatch.setenv("BOOK_REPOSITORY", "owner/name")
    done = build(small_book)
    assert done.returncode == 0, done.stdout
    return small_book / "_build" / "html"


def test_addresses_come_from_the_surroundings(published_book: Path) -> None:
    text = (published_book / "chapters" / "page.html").read_text("utf-8")
    page = BeautifulSoup(text, "html.parser")
    canonical = page.select_one("link[rel=canonical]")
    assert canonical is not None
    address = "https://book.example/attention/chapters/page.html"
    assert canonical["href"] == address
    source = page.select_one(".page-facts a")
    assert source is not None
    assert source["href"] == "https://github.com/owner/name"
    lost = (published_book / "404.html").read_text("utf-8")
    not_found = BeautifulSoup(lost, "html.parser")
    form = not_found.select_one("form")
    assert form is not None
    assert form["action"] == "https://book.example/attention/search.html"
    links = [str(a["href"]) for a in not_found.select("a")]
    assert links == [address]


def test_the_page_for_dead_links_loads_nothing(html: Path) -> None:
    text = (html / "404.html").read_text("utf-8")
    page = BeautifulSoup(text, "html.parser")
    assert page.select("link, img, iframe, script[src]") == []
    assert "url(" not in text and "@import" not in text
    label = page.select_one("label")
    field = page.select_one("form[role=search] input[name=q]")
    assert label is not None and field is not None
    assert label["for"] == field["id"]


def test_the_page_for_dead_links_leads_to_pages_that_are_there(
    html: Path,
) -> None:
    page = BeautifulSoup(
        (html / "404.html").read_text("utf-8"), "html.parser"
    )
    links = [str(a["href"]) for a in page.select("a")]
    assert len(links) == 5
    assert [link for link in links if not (html / link).is_file()] == []
    form = page.select_one("form")
    assert form is not None and (html / str(form["action"])).is_file()


# --------------------------------------------------------------- entries of the index in a search
def entries_found(book: Path) -> dict[str, list[object]]:
    """Build a book, and return the entries of the index in which its search looks."""
    done = build(book)
    assert done.returncode == 0, done.stdout
    text = (book / "_build" / "html" / "searchindex.js").read_text("utf-8")
    found: dict[str, list[object]] = json.loads(
        text[text.index("{") : text.rindex("}") + 1]
    )["indexentries"]
    return found


def test_a_build_keeps_the_entries_of_pages_that_did_not_change(
    small_book: Path,
) -> None:
    chapters = small_book / "chapters"
    (small_book / "_toc.yml").write_text(
        "format: jb-book\nroot: chapters/page\n"
        "chapters:\n- file: chapters/other\n"
    )
    for name in ("page", "other"):
        (chapters / f"{name}.md").write_text(
            f"# A page\n\n```{{index}} entry_of_{name}\n```\n\nWords.\n"
        )
    both = {"entry_of_page", "entry_of_other"}
    assert entries_found(small_book).keys() == both

    (chapters / "page.md").write_text("# A page\n\nOther words.\n")
    assert entries_found(small_book).keys() == {"entry_of_other"}
