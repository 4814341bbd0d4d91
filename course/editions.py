"""Make the editions of the exercises for students and for teachers, from the built pages.

    make student    _build/student: blanks in place of the solutions, no outputs
    make teacher    _build/teacher: the worked solutions, with outputs, and the notes for teachers

Each folder holds the notebook of every page of exercises and the package's wheel, which the
notebooks' first cell installs. A student's notebook is the one that the page's buttons lead to.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from course.exercises import ROOT, is_source

sys.path.append(str(ROOT / "tools"))

from editions import BUILD, NUMBERS, build_wheel, edition_of
from execute import dumps
from plain_markdown import PlainError

KINDS = ("student", "teacher")


def make(kind: str, folder: Path) -> list[Path]:
    """Make one kind of edition of all exercises in a folder; return the notebooks."""
    book = json.loads(NUMBERS.read_text("utf-8"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = []
    for name in book["pages"]:
        if is_source(Path(name)):
            notebook = edition_of(name, book, teacher=kind == "teacher")
            path = folder / f"{Path(name).name}.ipynb"
            path.write_text(dumps(notebook), "utf-8", newline="\n")
            made.append(path)
    build_wheel(folder, book["wheel"])
    return made


def main() -> int:
    """Make the kind that the command line names, and return the exit status."""
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        print(f"usage: python -m course.editions {'|'.join(KINDS)}")
        return 2
    kind = sys.argv[1]
    if not NUMBERS.is_file():
        print("make: build the pages first: make book", file=sys.stderr)
        return 1
    try:
        made = make(kind, BUILD / kind)
    except PlainError as error:
        print(f"make: no {kind}'s edition: {error}", file=sys.stderr)
        return 1
    print(
        f"{len(made)} notebooks for {kind}s, and the package's wheel, are in _build/{kind}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
