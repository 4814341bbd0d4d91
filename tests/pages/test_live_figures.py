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
from playwright.sync_api import Browser, Locator, Page

# The fixtures browser and watch come along.
from test_in_a_browser import (
    BROWSER,
    DESKTOP,
    PHONE,
    Watch,
    browser,  # noqa: F401
    watch,  # noqa: F401
)

from attention import masks, reference

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

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome found"
)


def close(shown: str, number: float) -> bool:
    """Say whether what is shown is the number, to the digits that are shown."""
    digits = len(shown.partition(".")[2])
    value = float(shown.replace("−", "-"))
    return abs(value - number) <= 0.5 * 10**-digits + 1e-9


def assert_shown(texts: list[str], numbers: Any) -> None:
    flat = np.asarray(numbers, dtype=float).ravel().tolist()
    assert len(texts) == len(flat)
    wrong = [
        (text, number)
        for text, number in zip(texts, flat, strict=True)
        if not close(text, number)
    ]
    assert wrong == []


def slide(slider: Locator, stop: int) -> None:
    """Bring a slider to a stop, counted from its left end, by the keyboard."""
    slider.press("Home")
    for _ in range(stop):
        slider.press("ArrowRight")


def figure_on(tab: Page) -> Locator:
    figure = tab.locator("attention-live[live]")
    figure.scroll_into_view_if_needed()
    return figure


def assert_panels(figure: Locator, expected: list[np.ndarray]) -> None:
    """Compare all numbers of each panel with the package's, for the scores in its softmax."""
    panels = figure.locator("section").all()
    for panel, z in zip(panels, expected, strict=True):
        p, J = reference.softmax(z), reference.softmax_jacobian(z)
        entropy = reference.log_sum_exp(z) - p @ z
        rows = panel.locator("tbody tr")
        # What a narrow panel leaves out is in the table all the same.
        scores = rows.locator("td:first-of-type").all_text_contents()
        weights = rows.locator("td:last-of-type").all_text_contents()
        facts = panel.locator("dd").all_text_contents()
        assert_shown(scores, z)
        assert_shown(weights, p)
        assert_shown(facts, [z.std(), p.max(), entropy, np.linalg.norm(J)])
        label = panel.get_by_role("img").get_attribute("aria-label") or ""
        numbers = re.findall(r"[−\d]\d*\.\d+", label)
        assert_shown(numbers, J if len(p) <= 4 else [J.max(), J.min()])
        squares = panel.locator(".squares > span")
        signs = squares.evaluate_all("all => all.map((s) => s.className)")
        assert signs == ["minus" if x < 0 else "plus" for x in J.flat]


@needs_browser
@pytest.mark.parametrize("page", WEIGHTS)
def test_weights_entropy_and_jacobian_are_the_packages_wherever_the_sliders_are(
    watch: Watch,  # noqa: F811
    page: str,
) -> None:
    data = LIVE[page][0]
    figure = figure_on(watch.open(page))
    names = ["temperature", "width"][: 1 + (len(data["widths"]) > 1)]
    for tau, width in ((0, 0), (10, -1), (-1, 5)):
        stops = {"temperature": tau, "width": width}
        ends = {"temperature": "temperatures", "width": "widths"}
        at = {n: stops[n] % len(data[ends[n]]) for n in names}
        for name, stop in at.items():
            slide(figure.get_by_role("slider", name=name), stop)
        row = np.array(data["scores"][at.get("width", 0)])
        row = row / data["temperatures"][at["temperature"]]
        d_k = data["widths"][at.get("width", 0)]
        assert_panels(
            figure,
            [
                row / (d_k**0.5 if panel["scaled"] else 1)
                for panel in data["panels"]
            ],
        )


@needs_browser
def test_the_same_added_to_every_score_changes_no_weight_and_reset_goes_back(
    watch: Watch,  # noqa: F811
) -> None:
    page = next(p for p in WEIGHTS if LIVE[p][0]["reach"])
    data = LIVE[page][0]
    figure = figure_on(watch.open(page))
    start = np.array(data["scores"][0])
    moved = start.copy()
    for j, key in enumerate(data["keys"]):
        slider = figure.get_by_role("slider", name=f"score of {key}")
        for _ in range(8):  # quarters
            slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "2"
        moved[j] += 2
        assert_panels(figure, [moved])
    figure.get_by_role("button", name="Reset").click()
    assert_panels(figure, [start])


def mask_numbers(
    figure: Locator,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the mask that a painter shows, its weights, and the letters below it."""
    rows = figure.locator(".paint tbody tr").all()
    pressed, weights = [], []
    for row in rows:
        buttons = row.get_by_role("button").all()
        labels = [b.get_attribute("aria-label") or "" for b in buttons]
        pressed.append(
            [b.get_attribute("aria-pressed") == "true" for b in buttons]
        )
        weights.append([float(label.split()[-1]) for label in labels])
    letters = [
        "".join(table.locator("tbody td").all_text_contents())
        for table in figure.locator(".bits").all()
    ]
    return np.array(pressed), np.array(weights), letters


def assert_mask(figure: Locator, scores: Any, mask: Any) -> None:
    """Compare all that a painter shows with the package, for the mask that it should show."""
    mask = np.asarray(mask, dtype=bool)
    eye = np.eye(mask.shape[1])  # as keys: the scores are then the queries
    _, expected = reference.scaled_dot_product_attention(
        np.array(scores), eye, eye, mask, scale=1.0
    )
    pressed, weights, (ours, theirs) = mask_numbers(figure)
    assert (pressed == mask).all()
    assert abs(weights - expected).max() <= 0.0005 + 1e-9
    assert ours == "".join("FT"[x] for x in mask.ravel().astype(int))
    assert theirs == "".join("TF"[x] for x in mask.ravel().astype(int))
    empty = figure.locator("tr.empty th").all_text_contents()
    assert empty == [str(i) for i in np.flatnonzero(~mask.any(-1))]
    sums = figure.locator(".paint tbody td:last-child").all_text_contents()
    assert [float(s) for s in sums] == mask.any(-1).astype(float).tolist()
    # What is said comes a moment later.
    count = f"{mask.sum()} of {mask.size} pairs"
    figure.get_by_role("status").filter(has_text=count).wait_for()
    said = figure.get_by_role("status").inner_text()
    assert ("Nothing to attend to" in said) == (len(empty) > 0)


def start_mask(data: dict[str, Any]) -> np.ndarray:
    L, S = np.shape(data["scores"])
    mask = masks.causal(L, S, alignment=data["start"]["causal"]).numpy()
    for i, j in data["start"]["painted"]:
        mask[i, j] = not mask[i, j]
    return mask


@needs_browser
def test_the_painter_shows_the_packages_masks_and_weights(
    watch: Watch,  # noqa: F811
) -> None:
    data = LIVE[PAGE_OF["mask"]][0]
    L, S = np.shape(data["scores"])
    figure = figure_on(watch.open(PAGE_OF["mask"]))
    assert_mask(figure, data["scores"], start_mask(data))
    corner = figure.get_by_role("combobox", name="causal")
    corner.select_option("lower_right")
    mask = masks.causal(L, S, alignment="lower_right")
    assert_mask(figure, data["scores"], mask)
    slide(figure.get_by_role("slider", name="real keys"), 4)
    mask = mask & masks.padding([4], S)[0, 0]
    assert_mask(figure, data["scores"], mask)
    slide(figure.get_by_role("slider", name="keys before"), 1)
    window = masks.sliding_window(L, S, left=1, alignment="lower_right")
    assert_mask(figure, data["scores"], mask & window)
    corner.select_option("")
    slide(figure.get_by_role("slider", name="and after"), 2)
    window = masks.sliding_window(L, S, left=1, right=2)
    mask = window & masks.padding([4], S)[0, 0]
    assert_mask(figure, data["scores"], mask)
    figure.get_by_role("button", name="Reset").click()
    assert_mask(figure, data["scores"], start_mask(data))


@needs_browser
def test_a_mask_is_painted_by_keyboard(watch: Watch) -> None:  # noqa: F811
    data = LIVE[PAGE_OF["mask"]][0]
    tab = watch.open(PAGE_OF["mask"])
    figure = figure_on(tab)
    mask = start_mask(data)
    # One stop of the tab key leads in, arrows go on.
    figure.get_by_role("slider", name="and after").focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Space"):
        tab.keyboard.press(key)
    mask[2, 1] = True
    assert_mask(figure, data["scores"], mask)
    for key in ("End", "ArrowRight", "ArrowUp", "Enter"):
        tab.keyboard.press(key)
    mask[1, -1] = True
    assert_mask(figure, data["scores"], mask)
    tab.keyboard.press("Tab")
    assert not tab.evaluate("document.activeElement.closest('.paint')")


def cell(figure: Locator, i: int, j: int) -> Locator:
    return (
        figure.locator(".paint tbody tr").nth(i).get_by_role("button").nth(j)
    )


@needs_browser
def test_a_mask_is_painted_by_dragging_a_mouse(watch: Watch) -> None:  # noqa: F811
    data = LIVE[PAGE_OF["mask"]][0]
    tab = watch.open(PAGE_OF["mask"])
    figure = figure_on(tab)
    mask = start_mask(data)
    cell(figure, 0, 3).hover()
    tab.mouse.down()
    for i, j in ((0, 4), (1, 4), (1, 0)):
        cell(figure, i, j).hover()
    tab.mouse.up()
    mask[0, 3] = mask[0, 4] = mask[1, 4] = mask[1, 0] = True
    for _ in range(2):  # Moving on without the button changes nothing.
        assert_mask(figure, data["scores"], mask)
        cell(figure, 4, 6).hover()
    cell(figure, 4, 6).click()
    mask[4, 6] = True
    assert_mask(figure, data["scores"], mask)


@pytest.fixture
def phone(
    browser: Browser,  # noqa: F811
    html: Path,
) -> Iterator[Watch]:
    """Return a fresh window of a phone, for fingers."""
    context = browser.new_context(viewport=PHONE, has_touch=True)
    yield Watch(context, html)
    context.close()


@needs_browser
def test_a_mask_is_painted_by_a_finger(phone: Watch) -> None:
    data = LIVE[PAGE_OF["mask"]][0]
    figure = figure_on(phone.open(PAGE_OF["mask"]))
    mask = start_mask(data)
    for i, j in ((2, 0), (4, 6), (2, 0)):
        cell(figure, i, j).tap()
        mask[i, j] = not mask[i, j]
        assert_mask(figure, data["scores"], mask)


@needs_browser
def test_the_heads_axis_is_split_and_merged_as_the_package_does(
    watch: Watch,  # noqa: F811
) -> None:
    tab = watch.open(PAGE_OF["heads_axis"])
    figure = figure_on(tab)
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
            heads = (
                reference.split_heads(labels, H)
                if right
                else labels.reshape(H, L, d)
            )
            merged = (
                reference.merge_heads(heads)
                if back
                else heads.reshape(L, H * d)
            )
            shown = figure.locator("td").all_text_contents()
            expected = [*labels.flat, *heads.flat, *merged.flat]
            assert shown == expected
            same = (heads == reference.split_heads(labels, H)).sum()
            restored = (merged == labels).all()
            said = (
                f"{same} {'is' if same == 1 else 'are'} in the right place"
            )
            status = figure.get_by_role("status").filter(has_text=said)
            status.filter(
                has_text="merge restores" if restored else "does not restore"
            ).wait_for()


@needs_browser
def test_a_number_of_the_projection_is_followed_by_pointer_and_by_keyboard(
    watch: Watch,  # noqa: F811
) -> None:
    tab = watch.open(PAGE_OF["heads_axis"])
    figure = figure_on(tab)
    figure.locator("td", has_text="21").last.hover()
    assert figure.locator(".chosen").all_text_contents() == ["21"] * 3
    figure.get_by_role("button", name="00", exact=True).focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        tab.keyboard.press(key)
    assert figure.locator(".chosen").all_text_contents() == ["31"] * 3
    said = "After the split it is component 1 of query 3 of head 0"
    figure.get_by_role("status").filter(has_text=said).wait_for()


@needs_browser
def test_the_browser_of_heads_shows_the_stored_weights_of_the_query_chosen(
    watch: Watch,  # noqa: F811
) -> None:
    data = LIVE[PAGE_OF["heads"]][0]
    weights, tokens = np.array(data["weights"]), data["tokens"]
    tab = watch.open(PAGE_OF["heads"])
    figure = figure_on(tab)

    def assert_query(i: int) -> None:
        for row, head in zip(
            figure.locator("tbody tr:not(.marks)").all(),
            weights,
            strict=True,
        ):
            assert_shown(row.locator("td").all_text_contents(), head[i])
        marks = figure.locator(".marks td").all_text_contents()
        for name, keys in data["places"].items():
            assert [j for j, m in enumerate(marks) if name in m] == [
                key for key in [keys[i]] if key is not None
            ]
        said = f"Query {i}, token {tokens[i]}."
        status = figure.get_by_role("status").filter(has_text=said)
        status.wait_for()
        at = weights[-1, i].argmax()
        where = "itself" if at == i else f"{tokens[at]} at {at}"
        assert f"{weights[-1, i, at]:.3f} on {where}." in status.inner_text()

    start = data["start"]
    assert_query(start)
    figure.get_by_role("radio", name=f"query {start},").focus()
    tab.keyboard.press("ArrowRight")
    assert_query(start + 1)
    figure.locator("label").nth(3).hover()
    assert_query(3)
    figure.locator("label").nth(len(tokens) - 1).click()
    assert_query(len(tokens) - 1)


@needs_browser
def test_the_browser_of_heads_follows_a_finger(phone: Watch) -> None:
    figure = figure_on(phone.open(PAGE_OF["heads"]))
    figure.locator("label").nth(2).tap()
    figure.get_by_role("status").filter(has_text="Query 2,").wait_for()


@needs_browser
@pytest.mark.parametrize("page", LIVE)
def test_print_shows_the_still_picture_and_the_screen_the_live_figure(
    watch: Watch,  # noqa: F811
    page: str,
) -> None:
    tab = watch.open(page)
    figure = figure_on(tab)
    still, drawn = figure.locator("> img"), figure.locator("> .live")
    assert (still.is_visible(), drawn.is_visible()) == (False, True)
    tab.emulate_media(media="print")
    assert (still.is_visible(), drawn.is_visible()) == (True, False)
    tab.wait_for_function(
        "document.querySelector('attention-live > img').naturalWidth > 0"
    )


@needs_browser
@pytest.mark.parametrize("page", LIVE)
def test_without_javascript_the_still_picture_is_shown(
    browser: Browser,  # noqa: F811
    html: Path,
    page: str,
) -> None:
    context = browser.new_context(
        viewport=DESKTOP, java_script_enabled=False
    )
    tab = Watch(context, html).open(page)
    shown = tab.locator("attention-live > img").is_visible()
    context.close()
    assert shown


# How much each text of a live figure stands out from what is behind it, and what sticks out of a
# figure or is too small for a finger.
FAULTS = """(figure) => {
  const parse = (css) => css.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (tag) => {
    const over = [];
    for (; tag; tag = tag.parentElement) {
      const [r, g, b, alpha = 1] = parse(getComputedStyle(tag).backgroundColor);
      over.unshift([r, g, b, alpha]);
      if (alpha === 1) break;
    }
    return over.reduce((under, [r, g, b, alpha]) =>
      [r, g, b].map((v, i) => v * alpha + under[i] * (1 - alpha)), [255, 255, 255]);
  };
  const contrast = (ink, paper) => {
    const [a, b] = [light(ink), light(paper)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const said = [], box = figure.getBoundingClientRect();
  const note = (what, tag, value) => said.push([what, tag.outerHTML.slice(0, 90), value]);
  for (const tag of figure.querySelectorAll(".live *")) {
    const style = getComputedStyle(tag);
    const { left, right, width, height } = tag.getBoundingClientRect();
    if (!width || !height || tag.closest("svg, option, .sr")) continue;
    const words = [...tag.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (words) {
      const value = contrast(parse(style.color), behind(tag));
      if (value < 4.5) note("faint", tag, value);
      if (parseFloat(style.fontSize) < 11.5) note("small text", tag, style.fontSize);
    }
    if (tag.matches(".plus > i, .bar > i, .tokens td > i")) {
      const value = contrast(parse(style.backgroundColor), behind(tag.parentElement));
      if (value < 3) note("faint mark", tag, value);
    }
    if (tag.matches(".minus > i") && contrast(parse(style.borderTopColor), behind(tag)) < 3)
      note("faint mark", tag, style.borderTopColor);
    if (right > box.right + 1 || left < box.left - 1) note("sticks out", tag, right);
    const hit = tag.matches("button, input[type=range], select, .tokens label");
    if (hit && (width < 24 || height < 24)) note("too small", tag, [width, height]);
  }
  return said;
}"""


@needs_browser
@pytest.mark.parametrize("page", LIVE)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_a_live_figure_is_legible_fits_and_can_be_hit(
    browser: Browser,  # noqa: F811
    html: Path,
    page: str,
    scheme: str,
    size: str,
) -> None:
    viewport = DESKTOP if size == "desktop" else PHONE
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    tab = Watch(context, html).open(page)
    faults = figure_on(tab).evaluate(FAULTS)
    theme = tab.locator("html").get_attribute("data-theme")
    context.close()
    assert theme == scheme
    assert faults == []


@needs_browser
@pytest.mark.parametrize("page", LIVE)
def test_nothing_moves_by_itself(watch: Watch, page: str) -> None:  # noqa: F811
    tab = watch.open(page)
    figure_on(tab)
    moving = tab.evaluate(
        "[...document.querySelectorAll('.live *')].filter((tag) => {"
        " const style = getComputedStyle(tag);"
        " return style.animationName !== 'none' || parseFloat(style.transitionDuration) > 0;"
        "}).map((tag) => tag.outerHTML.slice(0, 80))"
    )
    assert moving == []


@needs_browser
@pytest.mark.parametrize("page", LIVE)
def test_every_control_has_a_name_and_what_is_seen_is_said(
    watch: Watch,  # noqa: F811
    page: str,
) -> None:
    tab = watch.open(page)
    figure = figure_on(tab)
    tree = figure.aria_snapshot()
    roles = r"(slider|combobox|button|radio|img|region|table)"
    unnamed = re.findall(rf"^\s*- {roles}:?$", tree, re.MULTILINE)
    assert unnamed == []
    assert len(figure.get_by_role("status").inner_text()) > 40
