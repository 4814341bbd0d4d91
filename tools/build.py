"""Build the book with warnings as errors; what has not changed since the last build is kept."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
# Sphinx does not notice when these change, and would keep pages made with the old ones.
WHOLE_BOOK = [
    "_config.yml",
    "_toc.yml",
    "requirements.txt",
    "chapters/_ext",
    "attention/live.js",
    "_static",
]
# The public address, of which chapters/_ext/public_address.py knows more.
ADDRESS = ["BOOK_URL", "BOOK_REPOSITORY"]


def toc_pages() -> list[str]:
    """Return the pages that _toc.yml names, in order, without their suffixes."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))

    def files(entries: list[dict[str, Any]]) -> Iterator[str]:
        for entry in entries:
            yield entry["file"]
            yield from files(entry.get("sections", []))

    parts = [
        page for part in toc["parts"] for page in files(part["chapters"])
    ]
    return [toc["root"], *parts]


def fingerprint() -> str:
    """Digest of everything that every page depends on."""
    digest = hashlib.sha256(sys.version.encode())
    for name in ADDRESS:
        digest.update(f"{name}={os.environ.get(name, '')}\0".encode())
    for name in WHOLE_BOOK:
        path = ROOT / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(
                    f"{file.relative_to(ROOT)}\0".encode()
                    + file.read_bytes()
                )
    return digest.hexdigest()


def main() -> int:
    """Build, and return the exit status."""
    stamp = BUILD / "fingerprint"
    current = fingerprint()
    if BUILD.exists() and not (
        stamp.is_file() and stamp.read_text() == current
    ):
        shutil.rmtree(BUILD)
    print("Building the book (warnings are errors)", flush=True)
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    done = subprocess.run(
        [jupyter_book, "build", ".", "-W", "--keep-going", "-q"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        # A page that warned would count as built, and the next build would be silent about it.
        shutil.rmtree(BUILD, ignore_errors=True)
        # Jupyter Book ends with a traceback of its own, which says nothing beside the warnings.
        print(
            done.stdout.partition("\nTraceback (most recent call last)")[0]
        )
        print(
            "make: the book was not built: mend the warnings above.",
            file=sys.stderr,
        )
        return 1
    if subprocess.run(
        [sys.executable, ROOT / "tools" / "editions.py"]
    ).returncode:
        return 1
    stamp.write_text(current)
    print(
        f"The book is built: open {(BUILD / 'html' / 'index.html').as_uri()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
