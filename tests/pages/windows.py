"""What the tests in a browser share: the browser, and a window that watches what a page does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Request, Route

BROWSER = next(
    filter(
        None,
        map(
            shutil.which,
            ["chromium", "chromium-browser", "google-chrome", "chrome"],
        ),
    ),
    None,
)
needs_browser = pytest.mark.skipif(
    BROWSER is None,
    reason="no Chromium or Chrome found, so the pages are not tested in a browser; "
    "get one with `apt-get install chromium`",
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
DESKTOP, PHONE = (
    {"width": 1280, "height": 900},
    {"width": 390, "height": 844},
)

# Put before a function: WCAG's contrast ratio of two colours, and what colour is behind a tag.
COLOURS = """const parse = (css) => css.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (ink, paper) => {
  const [a, b] = [light(parse(ink)), light(parse(paper))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const behind = (tag) => {
  for (; tag; tag = tag.parentElement || tag.getRootNode().host) {
    const css = getComputedStyle(tag).backgroundColor;
    const color = parse(css);
    if (color.length === 3 || color[3] > 0.5) return css;
  }
  return "rgb(255, 255, 255)";
};
"""
UNFOLD = """() => {
  document.querySelectorAll("details").forEach((tag) => { tag.open = true; });
}"""


class Watch:
    """Opens pages; records what they ask of other hosts and what they complain of."""

    def __init__(self, context: BrowserContext, html: Path) -> None:
        self.html = html
        self.requests: list[str] = []
        self.complaints: list[str] = []
        context.route(
            re.compile(r"^(?!file:|data:|blob:|about:)"), self.refuse
        )
        self.page: Page = context.new_page()
        self.page.on("console", self.hear)
        self.page.on(
            "pageerror", lambda error: self.complaints.append(str(error))
        )
        self.page.on("requestfailed", self.miss)

    def refuse(self, route: Route) -> None:
        """Let no request leave the machine."""
        self.requests.append(route.request.url)
        route.abort()

    def miss(self, request: Request) -> None:
        """Note what could not be loaded, unless leaving the page cut it short."""
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"{request.failure}: {request.url}")

    def hear(self, message: object) -> None:
        """Note errors and warnings of the console."""
        kind, words = message.type, message.text  # type: ignore[attr-defined]
        if kind in {"error", "warning"}:
            self.complaints.append(words)

    def open(self, page: str) -> Page:
        """Open a page of the book."""
        self.page.goto(
            (self.html / f"{page}.html").as_uri(), wait_until="load"
        )
        return self.page

    @property
    def theme(self) -> str | None:
        """Return the theme that the page shows."""
        return self.page.locator("html").get_attribute("data-theme")
