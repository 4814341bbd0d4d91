"""What the tests of the pages share: the book's files, its pages by its contents, its build."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from build import toc_pages

__all__ = [
    "BUILT",
    "HTML",
    "ROOT",
    "build",
    "build_if_stale",
    "chapter_pages",
    "exercise_pages",
    "is_stale",
    "toc_pages",
    "write_small_book",
]

ROOT = Path(__file__).resolve().parents[2]
HTML = ROOT / "_build" / "html"
# Written by tools/build.py when a build has succeeded.
BUILT = ROOT / "_build" / "fingerprint"


def chapter_pages() -> list[str]:
    """Return the numbered chapters, in order."""
    return [chapter["file"] for chapter in _chapters()]


def exercise_pages() -> dict[str, str]:
    """Return the pages of exercises, in order, each with its chapter."""
    return {
        page["file"]: chapter["file"]
        for chapter in _chapters()
        for page in chapter.get("sections", [])
    }


def _chapters() -> list[dict[str, Any]]:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    parts = [part for part in toc["parts"] if "numbered" in part]
    return [chapter for part in parts for chapter in part["chapters"]]


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


def write_small_book(folder: Path) -> None:
    """Write a book with this one's settings and one empty page."""
    for name in ("_static", "chapters/_ext"):
        shutil.copytree(
            ROOT / name,
            folder / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    shutil.copy(ROOT / "_config.yml", folder)
    shutil.copy(ROOT / "chapters" / "references.bib", folder / "chapters")
    (folder / "_toc.yml").write_text(
        "format: jb-book\nroot: chapters/page\n"
    )
    (folder / "chapters" / "page.md").write_text("# Page\n")


def is_stale() -> bool:
    """Say whether any source of the book is younger than the last build that succeeded."""
    sources = [ROOT / "_config.yml", ROOT / "_toc.yml"]
    for folder, pattern in [
        ("chapters", "*"),
        ("_static", "*"),
        ("attention", "*.[pj][ys]"),
        ("tools", "*.py"),
        ("course", "*.py"),
    ]:
        sources += [
            file
            for file in (ROOT / folder).rglob(pattern)
            if file.is_file()
            and not {"__pycache__", ".ipynb_checkpoints"} & set(file.parts)
        ]
    built = BUILT.stat().st_mtime if HTML.is_dir() and BUILT.is_file() else 0
    return any(file.stat().st_mtime > built for file in sources)


def build_if_stale() -> str:
    """Build the book if it is missing or stale; return what the build said if it failed."""
    lock = ROOT / ".make" / "build.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("a") as held:
        fcntl.flock(
            held, fcntl.LOCK_EX
        )  # One of pytest's processes builds, the others wait.
        if not is_stale():
            return ""
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "build.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
    return done.stdout if done.returncode else ""
