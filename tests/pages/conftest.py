"""The built book, for the tests of its pages."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"


def toc_pages() -> list[str]:
    """Return the pages that _toc.yml names, in order, without their suffixes."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    parts = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    return [toc["root"], *parts]


def chapter_pages() -> list[str]:
    """Return the numbered chapters, in order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    return [e["file"] for part in toc["parts"] if "numbered" in part for e in part["chapters"]]


def build(root: Path) -> subprocess.CompletedProcess[str]:
    """Build the book in a folder as the README says."""
    command = Path(sys.executable).with_name("jupyter-book")
    return subprocess.run(
        [str(command), "build", ".", "-W", "--keep-going"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def is_stale(stamps: list[Path]) -> bool:
    """Say whether any source of the book is younger than the newest of the stamps."""
    built = max((stamp.stat().st_mtime for stamp in stamps if stamp.is_file()), default=0)
    sources = [ROOT / "_config.yml", ROOT / "_toc.yml"]
    for folder, pattern in [("chapters", "*"), ("_static", "*"), ("attention", "*.py")]:
        sources += [
            file
            for file in (ROOT / folder).rglob(pattern)
            if file.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(file.parts)
        ]
    return not HTML.is_dir() or any(file.stat().st_mtime > built for file in sources)


@pytest.fixture(scope="session")
def html() -> Path:
    """Return the folder of the built pages; build them if they are missing or stale."""
    (ROOT / "_build").mkdir(exist_ok=True)
    stamp = ROOT / "_build" / "tested.stamp"
    with (ROOT / "_build" / "tested.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # One of pytest's processes builds, the others wait.
        if is_stale([stamp, ROOT / "_build" / ".doctrees" / "environment.pickle"]):
            done = build(ROOT)
            assert done.returncode == 0, f"the book does not build:\n{done.stdout[-4000:]}"
            stamp.touch()
    return HTML


@pytest.fixture(scope="session")
def soup(html: Path) -> Callable[[str], BeautifulSoup]:
    """Return a function that reads a page by its name."""

    @cache
    def read(page: str) -> BeautifulSoup:
        return BeautifulSoup((html / f"{page}.html").read_text("utf-8"), "html.parser")

    return read


@pytest.fixture
def small_book(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with the book's settings and one empty page, to plant faults in."""
    for name in ("_static", "chapters/_ext"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "_config.yml", tmp_path)
    shutil.copy(ROOT / "chapters" / "references.bib", tmp_path / "chapters")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: chapters/page\n")
    (tmp_path / "chapters" / "page.md").write_text("# Page\n")
    yield tmp_path
    shutil.rmtree(tmp_path / "_build", ignore_errors=True)
