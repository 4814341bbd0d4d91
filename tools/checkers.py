"""Try every checker of an exercise on right and wrong answers, and print what exposes each.

python tools/checkers.py           print the wrong answers, and the first input that exposes each
python tools/checkers.py --write   also store them, for a page of the book
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "chapters" / "evidence" / "answers.json"
sys.path.insert(0, str(ROOT / "tests" / "exercises"))

from answers import exposed, proofs  # noqa: E402


def results() -> dict[str, Any]:
    """Return how many right answers each exercise has, and what exposes the wrong ones."""
    right = {p.check(...).exercise: len(p.right) for p in proofs()}
    return {"right": right, "wrong": exposed()}


def faults() -> list[str]:
    """Return what is wrong with the checkers: right answers rejected, wrong ones accepted."""
    rejected = [
        f"{proof.check.__name__} rejects a right answer, {name}: {verdict}"
        for proof in proofs()
        for name in proof.right
        if not (verdict := proof.accepts(name))
    ]
    accepted = [
        f"{exercise}: {name} is accepted, and wrong"
        for exercise, wrong in exposed().items()
        for name, first_input in wrong.items()
        if not first_input
    ]
    return rejected + accepted


def main() -> int:
    """Try, print, store if told so, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    computed = results()
    for exercise, wrong in computed["wrong"].items():
        print(f"{exercise} ({computed['right'][exercise]} right answers)")
        for name, first_input in wrong.items():
            print(f"  {name:44} {first_input}")
    found = faults()
    print(*found, sep="\n", end="\n" * bool(found))
    checkers = len(computed["wrong"])
    tried = sum(map(len, computed["wrong"].values()))
    print(f"{checkers} checkers, {tried} wrong answers, {len(found)} faults")
    if write:
        text = json.dumps(computed, indent=1, ensure_ascii=False)
        STORED.write_text(f"{text}\n", "utf-8")
        print(f"Written: {STORED.relative_to(ROOT)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
