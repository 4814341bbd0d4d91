"""The built book, and a small one to plant faults in."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from built_book import HTML, build_if_stale, write_small_book
from playwright.sync_api import Browser, sync_playwright
from windows import BROWSER, DESKTOP, FLAGS, Watch


@pytest.fixture(scope="session")
def html() -> Path:
    """Return the folder of the built pages; build them if they are missing or stale."""
    if failure := build_if_stale():
        pytest.fail(
            f"the book does not build:\n{failure[-4000:]}", pytrace=False
        )
    return HTML


@pytest.fixture(scope="session")
def soup(html: Path) -> Callable[[str], BeautifulSoup]:
    """Return a function that reads a page by its name."""

    @cache
    def read(page: str) -> BeautifulSoup:
        return BeautifulSoup(
            (html / f"{page}.html").read_text("utf-8"), "html.parser"
        )

    return read


@pytest.fixture
def small_book(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with the book's settings and one empty page, to plant faults in."""
    write_small_book(tmp_path)
    yield tmp_path
    shutil.rmtree(tmp_path / "_build", ignore_errors=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the system's browser once."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=FLAGS
        )
        yield browser
        browser.close()


@pytest.fixture
def watch(browser: Browser, html: Path) -> Iterator[Watch]:
    """Return a fresh desktop window."""
    context = browser.new_context(viewport=DESKTOP, color_scheme="light")
    yield Watch(context, html)
    context.close()
