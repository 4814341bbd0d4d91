"""The pages for readers with a keyboard, a screen reader, little sight or no mouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from built_book import toc_pages
from playwright.sync_api import Browser, Page
from test_built_pages import EVERY_PAGE
from windows import (
    COLOURS,
    DESKTOP,
    PHONE,
    UNFOLD,
    Watch,
    needs_browser,
)

pytestmark = needs_browser
AXE = Axe()
A_CHAPTER = "chapters/softmax"
A_SHORT_PAGE = "chapters/evidence"
# Every stop of the Tab key: what it is, how thick its ring is, how far that stands out.
RECORD = (
    "() => {"
    + COLOURS
    + """
  window.stops = [];
  const walked = new Set();
  addEventListener("focusin", (event) => {
    const tag = event.composedPath()[0];
    if (walked.has(tag)) return;
    walked.add(tag);
    const style = getComputedStyle(tag);
    const box = tag.getBoundingClientRect();
    window.stops.push({
      what: tag.outerHTML.slice(0, 160),
      ring: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
      contrast: contrast(style.outlineColor, behind(tag.parentElement)),
      area: box.width * box.height,
    });
  });
}"""
)
MOVING = """() => [...document.querySelectorAll("*")].flatMap((tag) =>
  [null, "::before", "::after"].map((part) => getComputedStyle(tag, part)).filter((style) =>
    style.animationName !== "none" || style.scrollBehavior === "smooth"
    || style.transitionDuration.split(",").some((time) => parseFloat(time) > 0.001))
  .map(() => tag.outerHTML.slice(0, 120)))"""


# Axe looks at each kind of token of code once a page, and at each formula once: a chapter repeats
# some thousand times what differs in nothing but its letters. Drawings are hidden from all readers
# but those who see, and tested for contrast elsewhere.
THIN = """() => {
  const seen = new Set();
  const first = (kind) => !seen.has(kind) && seen.add(kind);
  for (const tag of document.querySelectorAll("mjx-container > svg")) tag.replaceChildren();
  for (const tag of document.querySelectorAll("mjx-assistive-mml"))
    if (!first(tag.innerHTML) && !tag.closest("th, a, h1, h2, h3, summary")) tag.replaceChildren();
  const tokens = "article :is(.highlight, .sig) span:not(:has(span))";
  for (const tag of document.querySelectorAll(tokens)) {
    const box = tag.closest(".highlight, .sig").parentElement.className;
    if (!first(`${tag.className} in ${box}`)) tag.replaceWith(...tag.childNodes);
  }
  for (const tag of document.querySelectorAll("article :is(pre, .sig)")) tag.normalize();
}"""
COLOUR_RULES = ["color-contrast", "link-in-text-block"]


def violations(tab: Page, rules: list[str] | None = None) -> list[str]:
    """Return what axe finds against a page as it now is, one line a place."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = rules
    found = AXE.run(tab, options=options)
    return [
        f"{rule['id']} at {' '.join(map(str, node['target']))}: {rule['help']}"
        for rule in found.response["violations"]
        for node in rule["nodes"]
    ]


@pytest.fixture(params=[DESKTOP, PHONE], ids=["wide", "phone"])
def window(
    request: pytest.FixtureRequest, browser: Browser, html: Path
) -> Iterator[Watch]:
    """Return a window of each width."""
    context = browser.new_context(viewport=request.param)
    yield Watch(context, html)
    context.close()


def show(tab: Page, scheme: str) -> None:
    """Turn a page light or dark, as the reader's system would."""
    tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    tab.wait_for_function(
        f"document.documentElement.dataset.theme === '{scheme}'"
    )


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_axe_finds_nothing_in_light_and_dark_with_all_unfolded(
    window: Watch, page: str
) -> None:
    tab = window.open(page)
    tab.evaluate(UNFOLD)
    tab.evaluate(THIN)
    show(tab, "light")
    light = violations(tab)
    # Nothing else changes with the scheme.
    show(tab, "dark")
    assert (light, violations(tab, COLOUR_RULES)) == ([], [])


OPENED: dict[str, Callable[[Page], Any]] = {
    "search": lambda tab: tab.keyboard.press("Control+k"),
    "contents": lambda tab: tab.locator(".primary-toggle").click(),
    "page contents": lambda tab: tab.locator(".secondary-toggle").click(),
    "downloads": lambda tab: tab.locator(
        ".dropdown-download-buttons > button"
    ).click(),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opened", OPENED)
def test_axe_finds_nothing_in_an_opened_menu(
    window: Watch, scheme: str, opened: str
) -> None:
    tab = window.open(A_SHORT_PAGE)
    show(tab, scheme)
    if not tab.locator(".secondary-toggle").is_visible() and opened == (
        "page contents"
    ):
        pytest.skip("a wide window shows the page's contents all the time")
    OPENED[opened](tab)
    assert violations(tab) == []


def test_axe_notices_planted_faults(window: Watch) -> None:
    tab = window.open(A_SHORT_PAGE)
    tab.evaluate(
        """document.querySelector("article").insertAdjacentHTML("beforeend",
          '<img src="x.png"><p style="color:#999;background:#fff">pale</p>'
          + '<input type="text"><h6>far down</h6>')"""
    )
    noticed = {line.partition(" ")[0] for line in violations(tab)}
    assert {
        "image-alt",
        "color-contrast",
        "label",
        "heading-order",
    } <= noticed


def walk(tab: Page) -> list[dict[str, Any]]:
    """Press Tab until the page has been walked through once; return its stops."""
    tab.evaluate(RECORD)
    seen = -1
    while True:
        stops: list[dict[str, Any]] = tab.evaluate("window.stops")
        if len(stops) == seen:
            return stops
        seen = len(stops)
        for _ in range(40):
            tab.keyboard.press("Tab")


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_every_stop_of_the_tab_key_shows_a_ring(
    watch: Watch, page: str
) -> None:
    tab = watch.open(page)
    tab.evaluate(UNFOLD)
    stops = walk(tab)
    assert len(stops) > 20
    assert [
        stop
        for stop in stops
        if stop["ring"] < 2 or stop["contrast"] < 3 or stop["area"] == 0
    ] == []


def test_a_ring_that_is_missing_is_noticed(watch: Watch) -> None:
    tab = watch.open(A_SHORT_PAGE)
    tab.add_style_tag(
        content="article a:focus-visible { outline: none !important }"
    )
    assert [stop for stop in walk(tab) if stop["ring"] < 2]


def test_the_first_stop_leads_past_the_menus(watch: Watch) -> None:
    tab = watch.open(A_CHAPTER)
    tab.keyboard.press("Tab")
    link = tab.locator(":focus")
    assert link.inner_text() == "Skip to main content"
    assert link.bounding_box()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate(
        "document.querySelector('main').contains(document.activeElement)"
    )


def test_a_wide_formula_scrolls_by_keyboard(
    browser: Browser, html: Path
) -> None:
    context = browser.new_context(viewport=PHONE, reduced_motion="reduce")
    tab = Watch(context, html).open("chapters/api")
    moved = tab.evaluate(
        """() => { const box = [...document.querySelectorAll(".formula")]
          .find((tag) => tag.scrollWidth > tag.clientWidth + 20); box.focus(); return !!box; }"""
    )
    assert moved
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    tab.wait_for_function("document.activeElement.scrollLeft > 0")
    context.close()


@pytest.mark.parametrize("page", ["chapters/masks-and-dropout", "search"])
def test_nothing_moves_for_who_asks_for_less_motion(
    browser: Browser, html: Path, page: str
) -> None:
    still, usual = (
        browser.new_context(viewport=DESKTOP, reduced_motion=wish)
        for wish in ("reduce", "no-preference")
    )
    assert Watch(still, html).open(page).evaluate(MOVING) == []
    assert Watch(usual, html).open(page).evaluate(MOVING) != []
    still.close()
    usual.close()


def test_links_in_text_are_known_without_colour(watch: Watch) -> None:
    for page in toc_pages():
        plain = watch.open(page).evaluate(
            """() => [...document.querySelectorAll("article p a, article li a, article td a")]
              .filter((tag) => !tag.matches(".headerlink")
                && getComputedStyle(tag).textDecorationLine !== "underline")
              .map((tag) => tag.outerHTML.slice(0, 120))"""
        )
        assert plain == [], page
