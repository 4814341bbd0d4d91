"""The pages in a browser, opened as files or served, with every other host refused."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

import pytest
from built_book import toc_pages
from playwright.sync_api import Browser, Page
from pypdf import PdfReader
from serve import Quiet, server
from windows import COLOURS, DESKTOP, PHONE, UNFOLD, Watch, needs_browser

pytestmark = needs_browser

# Every formula that is on the page and not folded away: its size, and how far its ink stands out
# from what is behind it (WCAG's contrast ratio).
FORMULAS = (
    "() => {"
    + COLOURS
    + """
  return [...document.querySelectorAll("article mjx-container > svg")].map((svg) => {
    const box = svg.getBoundingClientRect();
    return {
      text: svg.nextElementSibling.textContent, width: box.width, height: box.height,
      contrast: contrast(
        getComputedStyle(svg.querySelector("g")).fill, behind(svg.parentElement)),
    };
  });
}"""
)
# Of each arrow: whether it starts at the lower edge of a box and ends at the upper edge of one.
ARROWS = """() => {
  const boxes = [...document.querySelectorAll(".chapter-map li")]
    .map((box) => box.getBoundingClientRect());
  const within = (x, box) => x > box.left && x < box.right;
  return [...document.querySelectorAll(".chapter-map line")].map((line) => {
    const svg = line.ownerSVGElement.getBoundingClientRect();
    const at = (name) => line[name].baseVal.value;
    const [x1, y1, x2, y2] = ["x1", "y1", "x2", "y2"].map(at);
    return {
      from: boxes.some((b) => within(svg.left + x1, b) && Math.abs(svg.top + y1 - b.bottom) < 1.5),
      to: boxes.some((b) => within(svg.left + x2, b) && Math.abs(svg.top + y2 - b.top) < 1.5),
    };
  });
}"""


@pytest.mark.parametrize(
    "page", [*toc_pages(), "genindex", "search", "index"]
)
def test_a_page_opens_with_no_request_elsewhere_and_no_complaint(
    watch: Watch, page: str
) -> None:
    watch.open(page).wait_for_timeout(200)
    assert watch.requests == []
    assert watch.complaints == []


@pytest.mark.parametrize("page", toc_pages())
def test_formulas_are_seen_and_legible_in_light_and_dark(
    watch: Watch, page: str
) -> None:
    tab = watch.open(page)
    tab.evaluate(UNFOLD)
    inks = {}
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.wait_for_function(
            f"document.documentElement.dataset.theme === '{scheme}'"
        )
        formulas = tab.evaluate(FORMULAS)
        assert [
            f for f in formulas if f["width"] < 2 or f["height"] < 2
        ] == []
        assert [(scheme, f) for f in formulas if f["contrast"] < 4.5] == []
        inks[scheme] = len(formulas)
    assert inks["light"] == inks["dark"]


def test_the_switch_turns_the_page_dark(watch: Watch) -> None:
    tab = watch.open(toc_pages()[0])
    tones = set()
    for _ in range(3):
        tab.locator("button.theme-switch-button:visible").first.click()
        tones.add(
            (
                watch.theme,
                tab.evaluate(
                    "getComputedStyle(document.body).backgroundColor"
                ),
            )
        )
    assert {theme for theme, _ in tones} == {"light", "dark"}
    assert len({color for _, color in tones}) == 2


@pytest.mark.parametrize("page", toc_pages())
def test_a_phone_scrolls_no_page_sideways(
    browser: Browser, html: Path, page: str
) -> None:
    context = browser.new_context(viewport=PHONE)
    watch = Watch(context, html)
    tab = watch.open(page)
    tab.evaluate(UNFOLD)
    width = tab.evaluate("document.documentElement.scrollWidth")
    numbers = tab.evaluate(
        "[...document.querySelectorAll('.eqno')].map(t => t.getBoundingClientRect().right)"
    )
    distorted = tab.evaluate(
        "[...document.querySelectorAll('article img')].map(t => { t.loading = 'eager'; return t; })"
        ".map(t => [t.alt, t.width / t.height, t.getAttribute('width') / t.getAttribute('height')])"
        ".filter(([, shown, given]) => Math.abs(shown / given - 1) > 0.02)"
    )
    unreachable = tab.evaluate(
        "[...document.querySelectorAll('.formula')].filter(t => t.scrollWidth > t.clientWidth"
        " && !(t.tabIndex === 0 && getComputedStyle(t).overflowX === 'auto')).length"
    )
    context.close()
    assert width <= PHONE["width"]
    assert [right for right in numbers if right > PHONE["width"]] == []
    assert unreachable == 0
    assert distorted == []


@pytest.mark.parametrize("page", toc_pages())
def test_formulas_stand_on_the_line_of_their_text(
    watch: Watch, page: str
) -> None:
    tab = watch.open(page)
    # A one-letter formula without ascender or descender sits on the baseline to half a pixel.
    gaps = tab.evaluate(
        """() => [...document.querySelectorAll("article p > span.math svg")].map((svg) => {
          const mark = document.createElement("span");
          mark.style.cssText = "display:inline-block;width:0;height:0";
          svg.closest("span.math").after(mark);
          const line = mark.getBoundingClientRect().bottom;
          const [, top, , height] = svg.getAttribute("viewBox").split(" ").map(Number);
          const box = svg.getBoundingClientRect();
          mark.remove();
          const same = Math.abs(box.bottom - line) < 14;
          return same ? box.bottom - ((top + height) / height) * box.height - line : 0;
        })"""
    )
    assert [gap for gap in gaps if abs(gap) > 1] == []


def test_search_finds_pages_and_opens_them(watch: Watch) -> None:
    tab = watch.open("search")
    tab.goto(tab.url + "?q=softmax")
    results = tab.locator("#search-results li a")
    results.first.wait_for(timeout=10_000)
    assert results.count() >= 1
    results.first.click()
    tab.wait_for_selector("article h1")
    assert "/chapters/" in tab.url
    assert watch.requests == []
    assert watch.complaints == []


def test_the_search_field_leads_to_the_results(watch: Watch) -> None:
    tab = watch.open(toc_pages()[0])
    tab.keyboard.press("Control+k")
    field = tab.locator("input[type=search]:visible").first
    field.fill("softmax")
    field.press("Enter")
    tab.locator("#search-results li a").first.wait_for(timeout=10_000)
    assert watch.complaints == []


@pytest.mark.parametrize(
    ("query", "page", "place"),
    [
        ("d_k", "chapters/scale", 2),
        ("√d_k", "chapters/scale", 2),
        ("d_k", "chapters/notation", 1),
        ("d_model", "chapters/notation", 1),
        ("attn_mask", "chapters/notation", 1),
        ("softmax_jacobian", "chapters/api", 1),
        ("attn_mask", "chapters/masks-and-dropout", 4),
        ("RoPE", "chapters/self-cross-and-order", 3),
        ("log-sum-exp", "chapters/softmax", 3),
        ("MultiHeadAttention", "chapters/api", 1),
        ("induction head", "chapters/what-heads-learn", 3),
    ],
)
def test_search_brings_the_right_page_near_the_top(
    watch: Watch, query: str, page: str, place: int
) -> None:
    tab = watch.open("search")
    tab.goto(f"{tab.url}?{urlencode({'q': query})}")
    status = tab.locator("p.search-summary")
    status.filter(has_text="finished").wait_for(timeout=10_000)
    found = tab.eval_on_selector_all(
        "#search-results li > a", "links => links.map(a => a.href)"
    )
    wanted = (watch.html / f"{page}.html").as_uri()
    pages = [address.partition("#")[0] for address in found]
    assert wanted in pages[:place], pages[:6]


def test_a_result_of_the_search_opens_where_its_words_stand(
    watch: Watch,
) -> None:
    tab = watch.open("search")
    tab.goto(f"{tab.url}?{urlencode({'q': 'previous token head'})}")
    tab.locator(
        "#search-results a[href$='what-heads-learn.html']"
    ).first.click(timeout=10_000)
    tab.wait_for_function("scrollY > 0")
    seen = tab.evaluate(
        "[...document.querySelectorAll('article .highlighted')]"
        ".filter(t => { const { top, bottom } = t.getBoundingClientRect();"
        " return top > 0 && bottom < innerHeight; })"
        ".map(t => t.textContent.toLowerCase())"
    )
    assert {"previous", "token", "head"} <= set(seen)


def test_on_a_phone_the_menu_opens_at_this_page_and_closes_and_the_sheet_is_in_blocks(
    browser: Browser, html: Path
) -> None:
    context = browser.new_context(viewport=PHONE)
    tab = Watch(context, html).open("chapters/cheat-sheet")
    cut = tab.evaluate(
        "[...document.querySelectorAll("
        "'#cheat-sheet td, #cheat-sheet .pst-scrollable-table-container')]"
        ".filter(t => t.scrollWidth > t.clientWidth + 1).map(t => t.textContent)"
    )
    tab.goto((html / "chapters" / "bibliography.html").as_uri())
    tab.locator(".primary-toggle").first.click()
    here = tab.locator("#pst-primary-sidebar-modal a.current").last
    place = here.bounding_box()
    tab.keyboard.press("Escape")
    still_open = tab.locator("dialog[open]").count()
    context.close()
    assert cut == []
    assert still_open == 0
    assert place
    assert 0 < place["y"] < PHONE["height"] - place["height"]


def test_a_picture_missed_without_a_network_comes_with_it(
    visitor: Page, site: str
) -> None:
    pictures = re.compile(r"/_images/")
    visitor.route(pictures, lambda route: route.abort())
    visitor.goto(f"{site}/chapters/masks-and-dropout.html")
    shown = "document.querySelector('article img').naturalWidth > 0"
    visitor.locator("article img").first.scroll_into_view_if_needed()
    visitor.wait_for_function(
        "document.querySelector('article img').complete"
    )
    assert not visitor.evaluate(shown)
    visitor.unroute(pictures)
    visitor.evaluate("dispatchEvent(new Event('online'))")
    visitor.wait_for_function(shown)


def test_terms_are_in_the_order_of_the_alphabet(html: Path) -> None:
    page = (html / "chapters" / "glossary.html").read_text("utf-8")
    terms = re.findall(r'<dt id="term-[^"]*">(.*?)<a', page)
    assert len(terms) > 30
    assert terms == sorted(terms, key=str.lower)


def test_the_cheat_sheet_prints_on_two_sides(
    watch: Watch, tmp_path: Path
) -> None:
    tab = watch.open("chapters/cheat-sheet")
    paper = PdfReader(
        BytesIO(tab.pdf(prefer_css_page_size=True, print_background=False))
    )
    assert len(paper.pages) == 2
    for side in paper.pages:
        box = side.mediabox
        assert round(float(box.width)) == 595
        assert round(float(box.height)) == 842
    # What is printed begins with the title and ends with the last pitfall.
    words = [" ".join(side.extract_text().split()) for side in paper.pages]
    assert "Cheat sheet" in words[0][:80]
    assert "compare numbers on random data" in words[1]


def test_the_arrows_of_the_map_touch_their_boxes(
    browser: Browser, html: Path
) -> None:
    for size in (DESKTOP, PHONE):
        context = browser.new_context(viewport=size)
        tab = Watch(context, html).open("chapters/intro")
        arrows = tab.evaluate(ARROWS)
        overfull = tab.evaluate(
            "[...document.querySelectorAll('.chapter-map li')]"
            ".filter(t => t.scrollHeight > t.clientHeight + 1"
            " || t.scrollWidth > t.clientWidth + 1).map(t => t.textContent)"
        )
        context.close()
        assert arrows
        assert [a for a in arrows if not (a["from"] and a["to"])] == []
        assert overfull == []


def test_the_page_for_dead_links_works_at_any_depth(watch: Watch) -> None:
    text = (watch.html / "404.html").read_text("utf-8")
    text = text.replace('action="', f'action="{watch.html.as_uri()}/')
    served = "http://book.test/a/b/soft_max.html"
    watch.page.route(
        served, lambda route: route.fulfill(body=text, status=404)
    )
    watch.page.goto(served)
    assert watch.page.locator("input[name=q]").input_value() == "soft max"
    assert watch.requests == []


@pytest.fixture
def site(html: Path) -> Iterator[str]:
    """Serve the book on this machine; return its address."""
    book = server(0, html, Quiet)
    thread = threading.Thread(target=book.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{book.server_port}"
    book.shutdown()
    thread.join()
    book.server_close()


@pytest.fixture
def visitor(browser: Browser, site: str) -> Iterator[Page]:
    """Return a window that reaches the served book, and no other host."""
    context = browser.new_context(
        viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"]
    )
    context.route(
        re.compile(rf"^(?!{re.escape(site)}/|data:)"),
        lambda route: route.abort(),
    )
    yield context.new_page()
    context.close()


def test_a_served_search_shows_where_the_words_stand(
    visitor: Page, site: str
) -> None:
    visitor.goto(f"{site}/search.html?q=softmax")
    excerpt = visitor.locator("#search-results li p.context").first
    excerpt.wait_for(timeout=10_000)
    assert "softmax" in excerpt.inner_text().lower()


def test_what_is_copied_is_the_code_of_the_cell(
    visitor: Page, site: str
) -> None:
    visitor.goto(f"{site}/chapters/softmax.html")
    cell = visitor.locator("div.cell_input:visible").first
    code = cell.locator("pre").inner_text()
    cell.hover()
    cell.locator("button.copybtn").click()
    copied = visitor.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == code.strip()


def test_the_chosen_theme_is_there_on_the_next_page_before_any_script_file(
    visitor: Page, site: str
) -> None:
    visitor.emulate_media(color_scheme="light")
    visitor.goto(f"{site}/chapters/intro.html")
    while visitor.evaluate("localStorage.getItem('mode')") != "dark":
        visitor.locator("button.theme-switch-button:visible").first.click()
    visitor.route("**/*.js*", lambda route: route.abort())
    visitor.goto(f"{site}/chapters/softmax.html")
    assert visitor.locator("html").get_attribute("data-theme") == "dark"


def test_hidden_code_opens_by_keyboard(watch: Watch) -> None:
    tab = watch.open("chapters/softmax")
    fold = tab.locator("article details").first
    assert not fold.locator("pre").first.is_visible()
    fold.locator("summary").focus()
    tab.keyboard.press("Enter")
    assert fold.locator("pre").first.is_visible()


@pytest.mark.parametrize("page", ["chapters/softmax", "chapters/notation"])
def test_a_page_without_scripts_shows_text_formulas_and_colours(
    browser: Browser, html: Path, page: str
) -> None:
    context = browser.new_context(
        viewport=DESKTOP, java_script_enabled=False
    )
    tab = Watch(context, html).open(page)
    formula = tab.locator("article mjx-container > svg:visible").first
    box = formula.bounding_box()
    assert box and box["width"] > 2
    ink = formula.evaluate("tag => getComputedStyle(tag).color")
    assert ink != "rgb(0, 0, 0)"
    context.close()


def test_a_printed_page_is_its_article_on_white(
    browser: Browser, html: Path
) -> None:
    context = browser.new_context(viewport=DESKTOP, color_scheme="dark")
    tab = Watch(context, html).open("chapters/softmax")
    tab.emulate_media(media="print", color_scheme="dark")
    for menu in (
        ".bd-sidebar-primary",
        ".bd-sidebar-secondary",
        ".bd-header-article",
        ".prev-next-footer",
        "button.copybtn",
    ):
        assert not tab.locator(menu).first.is_visible(), menu
    assert tab.locator("article h1").is_visible()
    for tag in ("body", "article", "article pre", "article .admonition"):
        paper, ink = tab.locator(tag).first.evaluate(
            "(tag) => {"
            + COLOURS
            + "const ink = getComputedStyle(tag).color;"
            "return [behind(tag), ink].map((css) => light(parse(css))); }"
        )
        assert paper > 0.85 and ink < 0.1, tag
    # Nothing is cut off at the edge of the paper.
    tab.set_viewport_size({"width": 700, "height": 900})
    wide = tab.evaluate(
        """() => [...document.querySelectorAll("article pre, article .formula, article table")]
          .filter((tag) => tag.scrollWidth > tag.clientWidth + 1)
          .map((tag) => tag.textContent.slice(0, 60))"""
    )
    assert wide == []
    context.close()


def test_pictures_are_loaded_for_print(watch: Watch) -> None:
    tab = watch.open("chapters/softmax")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.wait_for_function(
        "[...document.querySelectorAll('article img')].every((t) => t.naturalWidth)"
    )


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["wide", "phone"])
def test_a_link_in_the_contents_leads_to_its_heading(
    browser: Browser, html: Path, size: dict[str, int]
) -> None:
    context = browser.new_context(viewport=size)
    tab = Watch(context, html).open("chapters/softmax")
    # Sections are laid out on the way; none may push away the one that was asked for.
    missed = tab.evaluate(
        """async () => {
          const frame = () => new Promise(requestAnimationFrame);
          const missed = [];
          for (const link of [...document.querySelectorAll(".page-toc a")].reverse()) {
            link.click();
            for (let n = 0; n < 5; n++) await frame();
            const heading = document.querySelector(`${link.hash} > :is(h2, h3)`);
            const { top } = heading.getBoundingClientRect();
            const end = scrollY + innerHeight > document.documentElement.scrollHeight - 2;
            if (!end && (top < 0 || top > 140)) missed.push([link.hash, top]);
          }
          return missed;
        }"""
    )
    context.close()
    assert missed == []


# ------------------------------------------------------------------------------ the reader's place
# What stands at the top of the window, and how far from it.
AT_THE_TOP = """() => {
  const block = document.elementsFromPoint(innerWidth / 2, 90)
    .find((tag) => tag.matches(".bd-article section > *"));
  return [block.textContent.trim().slice(0, 80), Math.round(block.getBoundingClientRect().top)];
}"""


def read_on(tab: Page, screens: int) -> tuple[str, int]:
    """Scroll as a reader does, a screen at a time; return what stands at the top then."""
    for _ in range(screens):
        tab.mouse.wheel(0, 700)
        tab.wait_for_timeout(60)
    tab.wait_for_timeout(300)
    text, top = tab.evaluate(AT_THE_TOP)
    return text, top


def assert_place(tab: Page, place: tuple[str, int]) -> None:
    """Say that the window shows what it showed before, to within a line."""
    tab.wait_for_timeout(500)
    text, top = tab.evaluate(AT_THE_TOP)
    assert text == place[0]
    assert abs(top - place[1]) < 30


def test_a_reload_keeps_the_reader_s_place(watch: Watch) -> None:
    tab = watch.open("chapters/scaled-dot-product-attention")
    tab.set_viewport_size(PHONE)
    place = read_on(tab, 30)
    tab.reload()
    assert_place(tab, place)


def test_the_way_back_leads_to_where_the_reader_was(watch: Watch) -> None:
    tab = watch.open("chapters/scaled-dot-product-attention")
    tab.set_viewport_size(PHONE)
    place = read_on(tab, 30)
    tab.evaluate(
        """() => [...document.querySelectorAll('.bd-article a[href^="#"]')]
          .find((a) => /equation/.test(a.hash)).click()"""
    )
    tab.wait_for_timeout(300)
    assert tab.evaluate(AT_THE_TOP)[0] != place[0]
    tab.go_back()
    assert_place(tab, place)
    watch.open("chapters/glossary")
    tab.go_back()
    assert_place(tab, place)


def test_a_page_that_is_opened_anew_begins_at_its_beginning(
    watch: Watch,
) -> None:
    tab = watch.open("chapters/scaled-dot-product-attention")
    tab.set_viewport_size(PHONE)
    read_on(tab, 5)
    tab.goto(tab.url)
    tab.wait_for_timeout(300)
    tab.goto("about:blank")
    tab = watch.open("chapters/scaled-dot-product-attention")
    tab.wait_for_timeout(300)
    assert tab.evaluate("scrollY") == 0
