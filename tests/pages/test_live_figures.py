"""Live figures on their pages: the numbers shown, keyboard, pointer, finger, theme, print."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from bs4 import BeautifulSoup
from built_book import ROOT, toc_pages
from playwright.sync_api import Browser, Locator
from windows import COLOURS, DESKTOP, PHONE, Watch, needs_browser

from attention import live, masks, reference

MIME = "application/vnd.attention-derived.live+json"
Reader = Callable[[str], BeautifulSoup]


def stored(page: str) -> list[dict[str, Any]]:
    """Return the live figures that a page's notebook holds."""
    path = ROOT / f"{page}.ipynb"
    if not path.is_file():
        return []
    return [
        output["data"][MIME]
        for cell in nbformat.read(path, 4).cells
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {})
    ]


LIVE = {page: found for page in toc_pages() if (found := stored(page))}
WEIGHTS = [p for p, found in LIVE.items() if found[0]["kind"] == "weights"]
PAGE_OF = {found[0]["kind"]: page for page, found in LIVE.items()}


def test_every_kind_of_figure_is_in_the_book() -> None:
    assert set(PAGE_OF) == {"weights", "mask", "heads_axis", "heads"}


# --- the files


@pytest.mark.parametrize("page", toc_pages())
def test_the_script_is_loaded_once_where_it_is_needed_and_nowhere_else(
    soup: Reader, page: str
) -> None:
    scripts = [
        tag
        for tag in soup(page).find_all("script", src=True)
        if "live.js" in tag["src"]
    ]
    assert len(scripts) == (page in LIVE)
    assert all(tag.has_attr("defer") for tag in scripts)


def test_the_script_is_the_packages(html: Path) -> None:
    package = ROOT / "attention" / "live.js"
    assert (
        html / "_static" / "live.js"
    ).read_bytes() == package.read_bytes()


@pytest.mark.parametrize("page", LIVE)
def test_a_page_holds_the_numbers_and_the_picture_of_its_notebook(
    soup: Reader, page: str
) -> None:
    figures = soup(page).select("figure attention-live")
    assert [
        json.loads(figure.script.get_text()) for figure in figures
    ] == LIVE[page]
    assert [len(figure.select("img[alt][width]")) for figure in figures] == [
        1
    ] * len(figures)


# --- in a browser

Opened = Callable[[str], Locator]


def opener(
    browser: Browser, html: Path, **settings: Any
) -> Iterator[Opened]:
    """Yield a function that returns the live figure of a page, as at the start."""
    context = browser.new_context(color_scheme="light", **settings)
    tabs: dict[str, Watch] = {}

    def figure_on(page: str) -> Locator:
        if page not in tabs:
            tabs[page] = Watch(context, html)
            tabs[page].open(page)
        tab = tabs[page].page
        tab.bring_to_front()
        figure = tab.locator("attention-live[live]")
        figure.scroll_into_view_if_needed()
        for button in figure.get_by_role("button", name="Reset").all():
            button.click()
        return figure

    yield figure_on
    context.close()
    assert [
        watch.complaints for watch in tabs.values() if watch.complaints
    ] == []


@pytest.fixture(scope="module")
def figure_on(browser: Browser, html: Path) -> Iterator[Opened]:
    """Live figures in a desktop window."""
    yield from opener(browser, html, viewport=DESKTOP)


@pytest.fixture(scope="module")
def touched_on(browser: Browser, html: Path) -> Iterator[Opened]:
    """Live figures on a phone, for fingers."""
    yield from opener(browser, html, viewport=PHONE, has_touch=True)


def assert_shown(texts: list[str], numbers: Any) -> None:
    """Compare what is shown, to three decimals, with numbers."""
    shown = [text.replace("−", "-") for text in texts]
    flat = np.asarray(numbers, dtype=float).ravel()
    assert len(shown) == len(flat)
    assert {len(text.partition(".")[2]) for text in shown} == {3}
    wrong = abs(np.array(shown, dtype=float) - flat) > 0.0005 + 1e-9
    assert [(texts[at], flat[at]) for at in np.flatnonzero(wrong)] == []


def slide(slider: Locator, stop: int) -> None:
    """Bring a slider to a stop, counted from its left end, by the keyboard."""
    slider.press("Home")
    for _ in range(stop):
        slider.press("ArrowRight")


def said(figure: Locator, words: str) -> str:
    """Wait until the figure says something, and return all that it says."""
    status = figure.get_by_role("status").filter(has_text=words)
    status.wait_for()
    return status.text_content() or ""


PANELS = """(figure) => [...figure.querySelectorAll("section")].map((panel) => {
  const texts = (selector) => [...panel.querySelectorAll(selector)].map((t) => t.textContent);
  return {
    // What a narrow panel hides is in the table all the same.
    scores: texts("tbody td:first-of-type"),
    weights: texts("tbody td:last-of-type"),
    facts: texts("dd"),
    label: panel.querySelector("[role=img]").getAttribute("aria-label"),
    signs: [...panel.querySelectorAll(".squares > span")].map((s) => s.className),
    areas: [...panel.querySelectorAll(".squares i")]
      .map((i) => i.style.getPropertyValue("--s") ** 2),
  };
})"""


def assert_panels(figure: Locator, expected: list[np.ndarray]) -> None:
    """Compare all that each panel shows with the package, for the scores in its softmax."""
    panels = figure.evaluate(PANELS)
    for panel, z in zip(panels, expected, strict=True):
        p, J = reference.softmax(z), reference.softmax_jacobian(z)
        entropy = reference.log_sum_exp(z) - p @ z
        assert_shown(panel["scores"], z)
        assert_shown(panel["weights"], p)
        facts = [z.std(), p.max(), entropy, np.linalg.norm(J)]
        assert_shown(panel["facts"], facts)
        numbers = re.findall(r"[−\d]\d*\.\d+", panel["label"])
        assert_shown(numbers, J if len(p) <= 4 else [J.max(), J.min()])
        signs = ["minus" if x < 0 else "plus" for x in J.flat]
        assert panel["signs"] == signs
        np.testing.assert_allclose(panel["areas"], 4 * abs(J.ravel()))


@needs_browser
@pytest.mark.parametrize("page", WEIGHTS)
def test_weights_entropy_and_jacobian_are_the_packages_wherever_the_sliders_are(
    figure_on: Opened, page: str
) -> None:
    data = LIVE[page][0]
    figure = figure_on(page)
    ends = {"temperature": len(data["temperatures"]) - 1}
    if len(data["widths"]) > 1:
        ends["width"] = len(data["widths"]) - 1
    for share in ((0, 0), (0.5, 1), (1, 0.5)):
        stops = {
            name: round(part * ends[name])
            for name, part in zip(
                ("temperature", "width"), share, strict=True
            )
            if name in ends
        }
        for name, stop in stops.items():
            slide(figure.get_by_role("slider", name=name), stop)
        width = stops.get("width", 0)
        row = np.array(data["scores"][width])
        row = row / data["temperatures"][stops["temperature"]]
        root = data["widths"][width] ** 0.5
        scaled = [panel["scaled"] for panel in data["panels"]]
        assert_panels(figure, [row / (root if s else 1) for s in scaled])


@needs_browser
def test_the_same_added_to_every_score_changes_no_weight_and_reset_goes_back(
    figure_on: Opened,
) -> None:
    page = next(p for p in WEIGHTS if LIVE[p][0]["reach"])
    data = LIVE[page][0]
    figure = figure_on(page)
    start = np.array(data["scores"][0])
    moved = start.copy()
    for j, key in enumerate(data["keys"]):
        slider = figure.get_by_role("slider", name=f"add to {key}")
        for _ in range(8):  # quarters
            slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "2"
        moved[j] += 2
        assert_panels(figure, [moved])
    figure.get_by_role("button", name="Reset").click()
    assert_panels(figure, [start])


PAINTER = """(figure) => {
  const all = (selector) => [...figure.querySelectorAll(selector)];
  return {
    pressed: all(".paint button").map((b) => b.getAttribute("aria-pressed") === "true"),
    labels: all(".paint button").map((b) => b.getAttribute("aria-label")),
    texts: all(".paint button").map((b) => b.textContent),
    letters: all(".bits").map((table) =>
      [...table.querySelectorAll("td")].map((td) => td.textContent).join("")),
    empty: all(".paint tr.empty th").map((th) => +th.textContent),
    sums: all(".paint tbody td:last-child").map((td) => +td.textContent),
  };
}"""


def assert_mask(figure: Locator, scores: Any, mask: Any) -> None:
    """Compare all that a painter shows with the package, for the mask that it should show."""
    mask = np.asarray(mask, dtype=bool)
    eye = np.eye(mask.shape[1])  # as keys: the scores are then the queries
    _, expected = reference.scaled_dot_product_attention(
        np.array(scores), eye, eye, mask, scale=1.0
    )
    for _ in range(50):  # a busy machine takes its time to redraw
        shown = figure.evaluate(PAINTER)
        if shown["pressed"] == mask.ravel().tolist():
            break
        figure.page.wait_for_timeout(100)
    assert shown["pressed"] == mask.ravel().tolist()
    heard = [label.split()[-1] for label in shown["labels"]]
    assert_shown([x if "." in x else f"{x}.000" for x in heard], expected)
    whole = {"×": "0.000", "1": "1.000"}
    seen = [whole.get(x, x) for x in shown["texts"]]
    assert_shown(seen, expected)
    assert [x == "×" for x in shown["texts"]] == (~mask).ravel().tolist()
    may, may_not = shown["letters"]
    assert may == "".join("FT"[x] for x in mask.ravel().astype(int))
    assert may_not == "".join("TF"[x] for x in mask.ravel().astype(int))
    empty = np.flatnonzero(~mask.any(-1)).tolist()
    assert shown["empty"] == empty
    assert shown["sums"] == mask.any(-1).astype(float).tolist()
    words = said(figure, f"{mask.sum()} of {mask.size} pairs")
    nothing = "Nothing to attend to for quer"
    assert (nothing in words) == bool(empty)
    assert all(str(i) in words.partition(nothing)[2] for i in empty)


def start_mask(data: dict[str, Any]) -> np.ndarray:
    """Return the mask that the notebook's painter starts with."""
    L, S = np.shape(data["scores"])
    mask = masks.causal(L, S, alignment=data["start"]["causal"]).numpy()
    for i, j in data["start"]["painted"]:
        mask[i, j] = not mask[i, j]
    return mask


@pytest.fixture
def painter() -> tuple[Any, np.ndarray]:
    """Return the scores of the notebook's painter, and the mask that it starts with."""
    data = LIVE[PAGE_OF["mask"]][0]
    return data["scores"], start_mask(data)


def cell(figure: Locator, i: int, j: int) -> Locator:
    """Return the cell of a query and a key."""
    return figure.get_by_role("button", name=f"query {i}, key {j}:")


@needs_browser
def test_the_painter_shows_the_packages_masks_and_weights(
    figure_on: Opened, painter: tuple[Any, np.ndarray]
) -> None:
    scores, start = painter
    L, S = start.shape
    figure = figure_on(PAGE_OF["mask"])
    assert_mask(figure, scores, start)
    corner = figure.get_by_role("combobox", name="causal")
    corner.select_option("lower_right")
    mask = masks.causal(L, S, alignment="lower_right")
    assert_mask(figure, scores, mask)
    slide(figure.get_by_role("slider", name="real keys"), 4)
    mask = mask & masks.padding([4], S)[0, 0]
    assert_mask(figure, scores, mask)
    slide(figure.get_by_role("slider", name="keys before"), 1)
    window = masks.sliding_window(L, S, left=1, alignment="lower_right")
    assert_mask(figure, scores, mask & window)
    corner.select_option("")
    slide(figure.get_by_role("slider", name="keys after"), 2)
    window = masks.sliding_window(L, S, left=1, right=2)
    assert_mask(figure, scores, window & masks.padding([4], S)[0, 0])
    figure.get_by_role("button", name="Reset").click()
    assert_mask(figure, scores, start)


@needs_browser
def test_a_mask_is_painted_by_keyboard(
    figure_on: Opened, painter: tuple[Any, np.ndarray]
) -> None:
    scores, mask = painter
    figure = figure_on(PAGE_OF["mask"])
    keyboard = figure.page.keyboard
    cell(figure, 0, 0).focus()
    figure.get_by_role("button", name="Reset").focus()
    keyboard.press("Tab")  # One stop leads in, arrows go on.
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Space"):
        keyboard.press(key)
    mask[2, 1] = True
    assert_mask(figure, scores, mask)
    for key in ("End", "ArrowRight", "ArrowUp", "Enter"):
        keyboard.press(key)
    mask[1, -1] = True
    assert_mask(figure, scores, mask)
    for key in ("Home", "ArrowLeft", "ArrowDown", "ArrowUp", "Space"):
        keyboard.press(key)
    mask[1, 0] = False
    assert_mask(figure, scores, mask)
    keyboard.press("Tab")
    assert not figure.evaluate(
        "() => document.activeElement.closest('.paint')"
    )


@needs_browser
def test_a_mask_is_painted_by_dragging_a_mouse(
    figure_on: Opened, painter: tuple[Any, np.ndarray]
) -> None:
    scores, mask = painter
    figure = figure_on(PAGE_OF["mask"])
    cell(figure, 0, 3).hover()
    figure.page.mouse.down()
    for i, j in ((0, 4), (1, 4), (1, 0)):
        cell(figure, i, j).hover()
        mask[i, j] = True
    figure.page.mouse.up()
    mask[0, 3] = True
    for _ in range(2):  # Moving on without the button changes nothing.
        assert_mask(figure, scores, mask)
        cell(figure, 4, 6).hover()
    cell(figure, 4, 6).click()
    mask[4, 6] = True
    assert_mask(figure, scores, mask)


@needs_browser
def test_a_mask_is_painted_by_a_finger(
    touched_on: Opened, painter: tuple[Any, np.ndarray]
) -> None:
    scores, mask = painter
    figure = touched_on(PAGE_OF["mask"])
    for i, j in ((2, 0), (4, 6), (2, 0)):
        cell(figure, i, j).tap()
        mask[i, j] = not mask[i, j]
        assert_mask(figure, scores, mask)
    # A finger that comes down may be about to scroll.
    cell(figure, 0, 6).dispatch_event(
        "pointerdown", {"pointerType": "touch"}
    )
    assert_mask(figure, scores, mask)


@needs_browser
def test_the_heads_axis_is_split_and_merged_as_the_package_does(
    figure_on: Opened,
) -> None:
    figure = figure_on(PAGE_OF["heads_axis"])
    split, merge = (
        figure.get_by_role("combobox", name=name)
        for name in ("split by", "merge by")
    )
    for L, H, d in ((4, 2, 3), (5, 3, 2), (3, 1, 2), (1, 2, 3)):
        for name, size in (("positions", L), ("heads", H), ("width", d)):
            slide(figure.get_by_role("slider", name=name), size - 1)
        labels = np.array(
            [[f"{i}{m}" for m in range(H * d)] for i in range(L)]
        )
        for right, back in ((1, 1), (1, 0), (0, 1), (0, 0)):
            split.select_option("right" if right else "wrong")
            merge.select_option("right" if back else "wrong")
            heads = reference.split_heads(labels, H)
            if not right:
                heads = labels.reshape(H, L, d)
            merged = reference.merge_heads(heads)
            if not back:
                merged = heads.reshape(L, H * d)
            shown = figure.locator("td").all_text_contents()
            assert shown == [*labels.flat, *heads.flat, *merged.flat]
            same = (heads == reference.split_heads(labels, H)).sum()
            restored = (merged == labels).all()
            end = "restores" if restored else "does not restore"
            verb = "is" if same == 1 else "are"
            said(
                figure,
                f"{same} {verb} in the right place in the heads, and the merge {end}",
            )


@needs_browser
def test_a_number_of_the_projection_is_followed_by_pointer_and_by_keyboard(
    figure_on: Opened,
) -> None:
    figure = figure_on(PAGE_OF["heads_axis"])
    figure.locator("td", has_text="21").last.hover()
    assert figure.locator(".chosen").all_text_contents() == ["21"] * 3
    figure.get_by_role("button", name="00", exact=True).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        figure.page.keyboard.press(key)
    assert figure.locator(".chosen").all_text_contents() == ["31"] * 3
    said(figure, "After the split it is component 1 of query 3 of head 0")


@needs_browser
def test_the_browser_of_heads_shows_the_stored_weights_of_the_query_chosen(
    figure_on: Opened,
) -> None:
    data = LIVE[PAGE_OF["heads"]][0]
    weights, tokens = np.array(data["weights"]), data["tokens"]
    figure = figure_on(PAGE_OF["heads"])

    def assert_query(i: int) -> None:
        rows = figure.locator("tbody tr:not(.marks) td")
        assert_shown(rows.all_text_contents(), weights[:, i])
        marks = figure.locator(".marks td").all_text_contents()
        for name, keys in data["places"].items():
            marked = [j for j, mark in enumerate(marks) if name in mark]
            assert marked == [key for key in [keys[i]] if key is not None]
        words = said(figure, f"Query {i}, token {tokens[i]}.")
        for name, head in zip(data["names"], weights[:, i], strict=True):
            at = head.argmax()
            where = "itself" if at == i else f"{tokens[at]} at {at}"
            assert f"{name}: {head[at]:.3f} on {where}" in words

    start = data["start"]
    assert_query(start)
    figure.get_by_role("radio", name=f"query {start},").focus()
    figure.page.keyboard.press("ArrowRight")
    assert_query(start + 1)
    figure.locator("label").nth(3).hover()
    assert_query(3)
    figure.locator("label").nth(len(tokens) - 1).click()
    assert_query(len(tokens) - 1)


@needs_browser
def test_the_browser_of_heads_follows_a_finger(touched_on: Opened) -> None:
    figure = touched_on(PAGE_OF["heads"])
    figure.locator("label").nth(2).tap()
    said(figure, "Query 2,")


@needs_browser
@pytest.mark.parametrize("page", LIVE)
def test_print_shows_the_still_picture_and_the_screen_the_live_figure(
    figure_on: Opened, page: str
) -> None:
    figure = figure_on(page)
    still, drawn = figure.locator("> img"), figure.locator("> .live")
    assert (still.is_visible(), drawn.is_visible()) == (False, True)
    figure.page.emulate_media(media="print")
    assert (still.is_visible(), drawn.is_visible()) == (True, False)
    figure.page.wait_for_function(
        "document.querySelector('attention-live > img').naturalWidth > 0"
    )
    figure.page.emulate_media(media="screen")


@needs_browser
def test_without_javascript_the_still_picture_is_shown(
    browser: Browser, html: Path
) -> None:
    context = browser.new_context(java_script_enabled=False)
    watch = Watch(context, html)
    shown = {
        page: watch.open(page).locator("attention-live > img").is_visible()
        for page in LIVE
    }
    context.close()
    assert shown == dict.fromkeys(LIVE, True)


# Text and marks that do not stand out from what is behind them, what sticks out of the figure, what
# is too small for a finger, what moves by itself.
FAULTS = (
    "(figure) => {"
    + COLOURS
    + """
  const said = [], box = figure.getBoundingClientRect();
  for (const tag of figure.querySelectorAll(".live *")) {
    const style = getComputedStyle(tag);
    const { left, right, width, height } = tag.getBoundingClientRect();
    if (!width || !height || tag.closest("option, .sr")) continue;
    const note = (what, value) => said.push([what, tag.outerHTML.slice(0, 90), value]);
    const words = [...tag.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (words && contrast(style.color, behind(tag)) < 4.5) note("faint text", style.color);
    if (words && parseFloat(style.fontSize) < 11.5) note("small text", style.fontSize);
    const filled = tag.matches(".plus > i, .bar > i, .tokens td > i");
    if (filled && contrast(style.backgroundColor, behind(tag.parentElement)) < 3)
      note("faint mark", style.backgroundColor);
    if (tag.matches(".minus > i") && contrast(style.boxShadow, behind(tag)) < 3)
      note("faint mark", style.boxShadow);
    if (right > box.right + 1 || left < box.left - 1) note("sticks out", right);
    const hit = tag.matches("button, input[type=range], select, .tokens label");
    if (hit && (width < 24 || height < 24)) note("too small", [width, height]);
    if (style.animationName !== "none" || parseFloat(style.transitionDuration) > 0)
      note("moves", style.transitionProperty);
  }
  return said;
}"""
)


@needs_browser
@pytest.mark.parametrize("page", LIVE)
def test_a_live_figure_is_legible_fits_stands_still_and_can_be_hit(
    browser: Browser, html: Path, page: str
) -> None:
    context = browser.new_context(viewport=DESKTOP)
    tab = Watch(context, html).open(page)
    figure = tab.locator("attention-live[live]")
    found, colors = {}, {}
    for name, viewport in (("desktop", DESKTOP), ("phone", PHONE)):
        tab.set_viewport_size(viewport)
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            tab.wait_for_function(
                f"document.documentElement.dataset.theme === '{scheme}'"
            )
            found[name, scheme] = figure.evaluate(FAULTS)
            colors[scheme] = figure.locator("> .live").evaluate(
                "(live) => getComputedStyle(live).getPropertyValue('--a')"
            )
    context.close()
    assert colors["light"] != colors["dark"]
    assert {where: faults for where, faults in found.items() if faults} == {}


@needs_browser
def test_a_figure_is_drawn_outside_the_book_from_its_own_html(
    browser: Browser, tmp_path: Path
) -> None:
    pictures = [
        live.weights([0.0, 1.0], keys=["</script>", "b"]),
        live.mask(np.zeros((2, 3))),
        live.heads_axis(4, 2, 3),
        live.heads(np.eye(2), "ab"),
    ]
    page = tmp_path / "page.html"
    page.write_text("".join(each.html() for each in pictures), "utf-8")
    context = browser.new_context()
    watch = Watch(context, tmp_path)
    figures = watch.open("page").locator("attention-live[live]")
    texts = figures.get_by_role("status").all_text_contents()
    context.close()
    assert len(texts) == len(pictures)
    assert "the largest weight is 0.731, of b" in texts[0]
    assert watch.complaints == []


@needs_browser
@pytest.mark.parametrize("page", LIVE)
def test_every_control_has_a_name_and_what_is_seen_is_said(
    figure_on: Opened, page: str
) -> None:
    figure = figure_on(page)
    roles = r"(slider|combobox|button|radio|img|region|table)"
    tree = figure.aria_snapshot()
    assert re.findall(rf"^\s*- {roles}:?$", tree, re.MULTILINE) == []
    assert len(figure.get_by_role("status").text_content() or "") > 40
