"""Measure what the book costs: seconds to build and to check it, bytes to read it.

python tools/budgets.py             clone the last commit into an empty folder, measure there, print
python tools/budgets.py --write     also store the figures, which a page of the book shows
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "chapters" / "evidence" / "budgets.json"


def seconds(command: list[str], folder: Path) -> float:
    """Run a command and return how long it took."""
    begin = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}")
    return time.monotonic() - begin


def measure(folder: Path) -> dict[str, Any]:
    """Clone, build cold and warm, and check the notebooks, all in an empty folder."""
    clone = folder / "clone"
    seconds(["git", "clone", "--quiet", str(ROOT), str(clone)], folder)
    cold = seconds(["make", "book"], clone)
    warm = seconds(["make", "book"], clone)
    report = folder / "report.xml"
    check = [
        ".venv/bin/python",
        *("-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "chapters"),
        f"--junitxml={report}",
    ]
    nbval = seconds(check, clone)
    return {
        "seconds": {
            "make book, from nothing": round(cold),
            "make book, nothing changed": round(warm, 1),
            "nbval, two processes": round(nbval),
        },
        "notebooks": notebook_seconds(report),
        "pages": page_bytes(clone / "_build" / "html"),
    }


def notebook_seconds(report: Path) -> dict[str, float]:
    """Add up the seconds of each notebook's cells."""
    total: dict[str, float] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["classname"].split(".")[1]
        total[name] = total.get(name, 0.0) + float(case.attrib["time"])
    return {name: round(total[name], 1) for name in sorted(total)}


def page_bytes(html: Path) -> dict[str, int]:
    """Return each page's bytes as a server sends it, compressed, without what it loads."""
    pages = sorted(
        p for p in html.rglob("*.html") if "_static" not in p.parts
    )
    return {
        page.relative_to(html).as_posix(): len(
            gzip.compress(page.read_bytes(), 6, mtime=0)
        )
        for page in pages
    }


def main() -> None:
    """Measure, print, and store where told so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(Path(folder))
    for what, number in measured["seconds"].items():
        print(f"{what:40}{number:8} s")
    for name, number in measured["notebooks"].items():
        print(f"{name:40}{number:8} s")
    for page, size in measured["pages"].items():
        print(f"{page:40}{size / 1000:8.0f} kB")
    if write:
        STORED.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
        print(f"Written: {STORED.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
