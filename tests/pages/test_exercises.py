"""Exercises on the pages: numbered by chapter, with hints and solutions folded away."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import execute
import pytest
from bs4 import BeautifulSoup
from built_book import (
    ROOT,
    build,
    chapter_pages,
    exercise_pages,
    toc_pages,
    write_small_book,
)
from playwright.sync_api import Browser
from test_built_pages import article, text
from windows import DESKTOP, Watch, needs_browser

Reader = Callable[[str], BeautifulSoup]
EXERCISES = exercise_pages()
each_page = pytest.mark.parametrize("page", EXERCISES)
# The notebook's cells that only a solution shows.
ANSWERS = ".tag_answer, .tag_check, .tag_verify"

SMALL_PAGE = """# Page

::::{exercise} First of $x$
:label: ex-small-first

*Level 1 of 3 · 2 minutes · by hand*

A statement.

:::{admonition} Hint
:class: dropdown
Look at $x$.
:::
::::

```{solution-start} ex-small-first
:label: sol-small-first
```

The first answer.

:::{only} teacher
Ask them why.
:::

```{solution-end}
```

::::{exercise} Second
:label: ex-small-second

A statement.

:::{hint}
:class: dropdown
Look twice.
:::
::::

:::{solution} ex-small-second
:label: sol-small-second

The second answer, as {ref}`ex-small-first`.
:::
"""


def source(page: str) -> str:
    """Return the Markdown of a notebook."""
    cells = execute.load(ROOT / f"{page}.ipynb").cells
    return "\n".join(c.source for c in cells if c.cell_type == "markdown")


def in_sight(tree: BeautifulSoup) -> list[str]:
    """Return what a page shows of hints and solutions before the reader asks for it."""
    boxes = tree.select(".solution, .folded, .dropdown.admonition")
    found = [
        box for box in boxes if box.name != "details" or box.has_attr("open")
    ]
    answers = [
        cell
        for cell in tree.select(ANSWERS)
        if not cell.find_parent("details", class_="solution")
    ]
    return [text(tag)[:60] for tag in found + answers]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> BeautifulSoup:
    """Return a page with exercises of each form, as it is built."""
    folder = tmp_path_factory.mktemp("small")
    write_small_book(folder)
    (folder / "chapters" / "page.md").write_text(SMALL_PAGE, "utf-8")
    done = build(folder)
    assert done.returncode == 0, done.stdout
    page = folder / "_build" / "html" / "chapters" / "page.html"
    return BeautifulSoup(page.read_text("utf-8"), "html.parser")


# ---------------------------------------------------------------------------------- folded away
@pytest.mark.parametrize("page", toc_pages())
def test_no_hint_and_no_solution_is_in_sight(
    soup: Reader, page: str
) -> None:
    assert in_sight(soup(page)) == []


@each_page
def test_every_hint_and_solution_of_the_source_is_folded(
    soup: Reader, page: str
) -> None:
    solutions = re.findall(r"^:label: (sol-\S+)", source(page), re.MULTILINE)
    hints = source(page).count(":class: dropdown")
    tree = article(soup(page))
    assert solutions and hints
    shown = tree.select("details.solution")
    assert [str(tag["id"]) for tag in shown] == solutions
    folded = tree.select("details.folded:not(.solution) > summary")
    assert len(folded) == hints
    assert {text(tag).split()[0] for tag in folded} == {"Hint"}


@each_page
def test_every_answer_of_the_source_is_in_a_solution(
    soup: Reader, page: str
) -> None:
    cells = execute.load(ROOT / f"{page}.ipynb").cells
    wanted = Counter(
        tag
        for cell in cells
        for tag in cell.metadata.get("tags", [])
        if f".tag_{tag}" in ANSWERS.split(", ")
    )
    tree = soup(page)
    assert wanted["answer"]
    assert wanted == {
        tag: len(tree.select(f"details.solution .tag_{tag}"))
        for tag in wanted
    }


@pytest.mark.parametrize(
    "markup",
    [
        '<details class="solution folded" open>An answer.</details>',
        '<details class="folded" open>A hint.</details>',
        '<div class="solution admonition">An answer.</div>',
        '<div class="dropdown admonition">A hint.</div>',
        '<details class="folded"><div class="cell tag_answer">def</div></details>',
        '<div class="cell tag_check">check_</div>',
    ],
)
def test_a_planted_answer_in_sight_is_noticed(markup: str) -> None:
    assert in_sight(BeautifulSoup(markup, "html.parser")) != []


def test_each_form_of_hint_and_solution_is_folded(
    small: BeautifulSoup,
) -> None:
    assert in_sight(small) == []
    assert [text(tag) for tag in small.select("article summary")] == [
        "Hint",
        "Solution to Exercise 1",
        "Hint",
        "Solution to Exercise 2",
    ]
    for tag in small.select("article .exercise, article details"):
        assert len(text(tag)) > len(text(tag.select_one("summary")))


def test_a_note_to_teachers_is_on_no_page(small: BeautifulSoup) -> None:
    assert "The first answer." in text(article(small))
    assert "Ask them why." not in text(article(small))


def test_exercises_share_no_identifier(small: BeautifulSoup) -> None:
    seen = Counter(tag["id"] for tag in article(small).select("[id]"))
    assert {"ex-small-first", "sol-small-second"} <= set(seen)
    assert [name for name, times in seen.items() if times > 1] == []


# ------------------------------------------------------------------------------------- numbered
def numbered(page: str) -> dict[str, str]:
    """Return, by label, what the exercises of a page are to be called."""
    chapter = chapter_pages().index(EXERCISES[page]) + 1
    labels = re.findall(r"^:label: (ex-\S+)", source(page), re.MULTILINE)
    return {
        label: f"Exercise {chapter}.{n}"
        for n, label in enumerate(labels, start=1)
    }


@each_page
def test_exercises_are_numbered_by_chapter(soup: Reader, page: str) -> None:
    boxes = article(soup(page)).select(".exercise")
    assert {
        str(box["id"]): text(box.select_one(".caption-number"))
        for box in boxes
    } == numbered(page)


@each_page
def test_the_contents_of_a_page_list_its_exercises(
    soup: Reader, page: str
) -> None:
    links = soup(page).select(".page-toc a[href^='#ex-']")
    assert {str(link["href"]): f"({text(link)})" for link in links} == {
        f"#{box['id']}": "".join(
            text(box.select_one(".admonition-title")).partition(" (")[1:]
        ).strip()
        for box in article(soup(page)).select(".exercise")
    }


@each_page
def test_each_exercise_is_followed_by_its_solution(
    soup: Reader, page: str
) -> None:
    boxes = article(soup(page)).select(".exercise, .solution")
    for exercise, solution in zip(boxes[::2], boxes[1::2], strict=True):
        called = text(exercise.select_one(".caption-number"))
        assert text(solution.summary) == f"Solution to {called}"


def test_references_to_exercises_show_their_numbers(soup: Reader) -> None:
    called = {
        label: name
        for page in EXERCISES
        for label, name in numbered(page).items()
    }
    for page in toc_pages():
        for link in article(soup(page)).select(
            "a[href*='#ex-'], a[href*='#sol-']"
        ):
            kind, _, name = (
                str(link["href"]).partition("#")[2].partition("-")
            )
            said = (
                f"{'Solution to ' * (kind == 'sol')}{called[f'ex-{name}']}"
            )
            assert text(link).startswith(said), page


@each_page
def test_the_numbers_for_editions_are_those_of_the_page(
    html: Path, page: str
) -> None:
    book = json.loads((html.parent / "numbers.json").read_text("utf-8"))
    labels = book["pages"][page]["labels"]
    for label, called in numbered(page).items():
        assert labels[label] == called
        solution = f"sol-{label.removeprefix('ex-')}"
        assert labels[solution] == f"Solution to {called}"


@each_page
def test_chapter_and_exercises_lead_to_each_other(
    soup: Reader, page: str
) -> None:
    chapter = EXERCISES[page]
    for start, end in ((page, chapter), (chapter, page)):
        links = article(soup(start)).select(
            f"a[href^='{Path(end).name}.html']"
        )
        assert links, f"{start} does not lead to {end}"


# --------------------------------------------------------------------------------- in a browser
@pytest.fixture(scope="module")
def plain_window(browser: Browser, html: Path):
    """Return a window that runs no script."""
    context = browser.new_context(
        viewport=DESKTOP, java_script_enabled=False
    )
    yield Watch(context, html)
    context.close()


@needs_browser
@each_page
def test_a_solution_opens_by_keyboard_without_a_script(
    plain_window: Watch, page: str
) -> None:
    tab = plain_window.open(page)
    solution = tab.locator("details.solution").first
    content = solution.locator(":scope > :not(summary)").first
    assert not content.is_visible()
    solution.locator("summary").first.focus()
    tab.keyboard.press("Enter")
    assert content.is_visible()


@needs_browser
@each_page
def test_hints_and_solutions_print_open_without_a_script(
    plain_window: Watch, page: str
) -> None:
    tab = plain_window.open(page)
    folded = tab.locator("details.folded > :nth-child(2)").all()
    assert folded
    assert not any(content.is_visible() for content in folded)
    tab.emulate_media(media="print")
    assert all(content.is_visible() for content in folded)
    tab.emulate_media(media="screen")


@needs_browser
@each_page
def test_hints_and_solutions_open_for_paper_and_fold_after_it(
    watch: Watch, page: str
) -> None:
    tab = watch.open(page)
    tab.locator("details.folded > summary").first.click()
    states = []
    for event in ("beforeprint", "afterprint"):
        tab.evaluate(f"dispatchEvent(new Event('{event}'))")
        states.append(
            tab.eval_on_selector_all(
                "details.folded", "tags => tags.map((tag) => tag.open)"
            )
        )
    printed, after = states
    assert all(printed)
    # What the reader had opened stays open.
    assert after == [True, *[False] * (len(after) - 1)]
