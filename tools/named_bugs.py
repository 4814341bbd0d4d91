"""Count how many of the named bugs the notebooks alone would notice.

python tools/named_bugs.py             bug by bug, the notebook that noticed it (about an hour)
python tools/named_bugs.py --write     also store it, for a page of the book

The bugs are those of tests/package/test_planted_bugs.py, whose tests notice all of them. Here each
is planted in a copy of the package, and the notebooks run on it until an output differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# They train small models, which takes long: tried only on bugs in the layer and in positions,
# which are their subject. So the count may be a little too low.
TRAINING = {
    "self-cross-and-order",
    "what-heads-learn",
    "why-one-average-is-not-enough",
}
PROCESSES = os.cpu_count() or 1
STORED = ROOT / "chapters" / "evidence" / "named_bugs.json"
sys.path.insert(0, str(ROOT / "tests" / "package"))

from mutants import Mutant, plant  # noqa: E402
from test_planted_bugs import MUTANTS, PACKAGE  # noqa: E402


def notebooks() -> list[str]:
    """Return the chapters' notebooks, those that are quick to run first."""
    budgets = STORED.with_name("budgets.json")
    seconds = json.loads(budgets.read_text("utf-8"))["notebooks"]
    paths = [
        path.relative_to(ROOT)
        for path in ROOT.glob("chapters/*.ipynb")
        if not path.stem.endswith("-exercises")
    ]
    paths.sort(key=lambda path: (seconds.get(path.stem, 0.0), path))
    return list(map(str, paths))


def paths_for(mutant: Mutant, paths: list[str]) -> list[str]:
    """Return the notebooks to try on a bug."""
    if mutant.module in ("multihead", "positions"):
        return paths
    return [path for path in paths if Path(path).stem not in TRAINING]


def noticed_by(mutant: Mutant | None, paths: list[str]) -> str:
    """Run the notebooks on a copy of the package with a bug; name the first that notices."""
    with tempfile.TemporaryDirectory() as folder:
        plant(mutant, PACKAGE, Path(folder))
        environment = os.environ | {
            "PYTHONPATH": folder,
            "OMP_NUM_THREADS": "1",
        }
        where = [
            sys.executable,
            "-c",
            "import attention; print(attention.__file__)",
        ]
        place = subprocess.run(
            where,
            env=environment,
            cwd=ROOT / "chapters",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        if not place.startswith(folder):
            sys.exit(f"another copy of the package would run: {place}")
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *paths],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return ""
    failure = re.search(
        r"^FAILED .*?([\w-]+)\.ipynb", done.stdout, re.MULTILINE
    )
    if done.returncode != 1 or not failure:
        sys.exit(f"the notebooks did not run:\n{done.stdout[-3000:]}")
    return failure[1]


def main() -> None:
    """Try all, print, and store where told so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    write = parser.parse_args().write
    paths = notebooks()
    if place := noticed_by(None, paths):
        sys.exit(f"{place} fails without any bug")
    seen: dict[str, str] = {}
    with ThreadPoolExecutor(PROCESSES) as pool:
        found = pool.map(
            lambda mutant: noticed_by(mutant, paths_for(mutant, paths)),
            MUTANTS.values(),
        )
        for bug, place in zip(MUTANTS, found, strict=True):
            seen[bug] = place
            print(f"{place or 'NOT NOTICED':32}{bug}", flush=True)
    print(
        f"The notebooks alone notice {sum(map(bool, seen.values()))} of {len(seen)}"
    )
    if write:
        STORED.write_text(
            json.dumps({"bugs": seen}, indent=1, ensure_ascii=False) + "\n",
            "utf-8",
        )
        print(f"Written: {STORED.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
