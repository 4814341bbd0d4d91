"""Change attention/ in one small place at a time, and see whether the tests of the package notice.

python tools/mutation.py                    every function (about an hour on two cores)
python tools/mutation.py --changed          those that changed since the counts were stored
python tools/mutation.py masks.causal …     those named
python tools/mutation.py --write            also store the counts, which a page of the book shows

mutmut makes the changes, called mutants: another operator, number or default, an argument left out,
a condition turned round. A mutant is killed if a test fails, or runs far too long. One that
survives is either no fault at all, and then tests/mutation/survivors.toml says why, or a hole in
the tests, and then this command fails.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "attention"
WORKSHOP = ROOT / ".make" / "mutation"
SURVIVORS = ROOT / "tests" / "mutation" / "survivors.toml"
STORED = ROOT / "chapters" / "evidence" / "mutation.json"
LEAST = 95.0  # percent that must be killed
KILLED = {"killed", "timeout", "segfault"}
METHOD = "ǁ"  # with which mutmut joins the names of a class and a method

# Not tried: the wording of messages, which stands alone on its lines or in a raise.
# A compiler does not follow mutmut's detours, so that test has to stay out.
SETTINGS = r"""
[tool.mutmut]
source_paths = ["attention"]
do_not_mutate_patterns = ['^\s*f?"[^"]*",?$', '^\s*raise \w+\(f?"']
pytest_add_cli_args_test_selection = ["tests/package"]
pytest_add_cli_args = [
  "-p", "no:cacheprovider",
  "--deselect=tests/package/test_scaled_dot_product_attention.py::test_compiled_and_exported_as_one_graph_it_gives_the_same",
]
timeout_constant = 20.0

[tool.pytest.ini_options]
filterwarnings = ["error::RuntimeWarning"]
"""
LEFT_OUT = {
    # these plant bugs of their own in copies of the package
    "test_planted_bugs.py",
    "mutants.py",
    # this reads the sources, which mutants have no part in
    "test_docstrings.py",
    # its pictures are looked at, and its numbers compared in a browser
    "live.py",
    "live.js",
    "test_live.py",
    # these are proved by the wrong answers that they have to reject
    "exercises",
}


class Survivor(NamedTuple):
    """A change that no test noticed: the lines of a function without it, and with it."""

    function: str
    removed: str
    added: str


@dataclass
class Tally:
    """What became of the mutants of one function."""

    killed: int = 0
    explained: int = 0
    survived: int = 0

    @property
    def mutants(self) -> int:
        """How many there were."""
        return self.killed + self.explained + self.survived


def functions() -> Iterator[tuple[str, str]]:
    """Yield each function and method of the package, and a digest of its code."""
    for path in sorted(PACKAGE.glob("*.py")):
        if path.name in LEFT_OUT:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                yield f"{path.stem}.{node.name}", _digest(node)
            elif isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        name = f"{path.stem}.{node.name}.{part.name}"
                        yield name, _digest(part)


def _digest(function: ast.FunctionDef) -> str:
    """Name a function's code, whatever its layout, comments and docstring."""
    if ast.get_docstring(function) is not None:
        function.body[0] = ast.Pass()
    code = ast.unparse(function)
    return hashlib.sha256(code.encode()).hexdigest()[:12]


def changed(now: dict[str, str]) -> list[str]:
    """Return the functions whose code is not that of the stored counts."""
    stored = json.loads(STORED.read_text("utf-8"))["functions"]
    return [
        name
        for name, digest in now.items()
        if stored.get(name, {}).get("digest") != digest
    ]


def prepare() -> None:
    """Make a folder with the package and its tests, and nothing else."""
    shutil.rmtree(WORKSHOP, ignore_errors=True)
    leave_out = shutil.ignore_patterns("__pycache__", *LEFT_OUT)
    shutil.copytree(PACKAGE, WORKSHOP / "attention", ignore=leave_out)
    shutil.copytree(
        ROOT / "tests" / "package",
        WORKSHOP / "tests" / "package",
        ignore=leave_out,
    )
    (WORKSHOP / "pyproject.toml").write_text(SETTINGS, "utf-8")


def run_mutmut(patterns: list[str]) -> None:
    """Let mutmut make the mutants that the patterns name, and try them."""
    command = ["run", "--max-children", str(os.cpu_count() or 1), *patterns]
    log = WORKSHOP / "output.txt"
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, "-m", "mutmut", *command],
            cwd=WORKSHOP,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        print(log.read_text("utf-8")[-3000:])
        sys.exit("mutmut failed; its last words are above")


def read_results(
    explained: set[Survivor],
) -> tuple[dict[str, Tally], list[Survivor]]:
    """Return what became of each function's mutants, and the survivors, explained or not."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code

    tallies: dict[str, Tally] = {}
    survivors = []
    with contextlib.chdir(WORKSHOP):
        for meta in sorted(Path("mutants").rglob("*.meta")):
            codes = json.loads(meta.read_text("utf-8"))["exit_code_by_key"]
            for key, code in codes.items():
                if code is None:  # not tried this time
                    continue
                name = function_of(key)
                tally = tallies.setdefault(name, Tally())
                if status_by_exit_code[code] in KILLED:
                    tally.killed += 1
                    continue
                diff = get_diff_for_mutant(
                    key, path=Path("attention", f"{name.split('.')[0]}.py")
                )
                survivor = Survivor(
                    name, _lines(diff, "-"), _lines(diff, "+")
                )
                survivors.append(survivor)
                if survivor in explained:
                    tally.explained += 1
                else:
                    tally.survived += 1
    return tallies, survivors


def function_of(key: str) -> str:
    """Return the function of a mutant, which mutmut names attention.masks.x_causal__mutmut_3."""
    _, module, mangled = key.split(".")
    name = mangled.rpartition("__mutmut_")[0]
    if METHOD in name:  # xǁClassǁmethod
        return ".".join([module, *name.split(METHOD)[1:]])
    return f"{module}.{name.removeprefix('x_')}"


def pattern_for(function: str) -> str:
    """Return the pattern that names a function's mutants to mutmut."""
    module, *names = function.split(".")
    mangled = "x_" if len(names) == 1 else f"x{METHOD}"
    return f"attention.{module}.{mangled}{METHOD.join(names)}__mutmut_*"


def _lines(diff: str, sign: str) -> str:
    """Return the lines that a diff takes away or adds, without what surrounds them."""
    return "\n".join(
        line[1:].strip()
        for line in diff.splitlines()
        if line.startswith(sign) and not line.startswith(sign * 3)
    )


def read_explained() -> set[Survivor]:
    """Return the survivors that are no fault, as a file says and says why."""
    entries = tomllib.loads(SURVIVORS.read_text("utf-8"))["survivor"]
    return {
        Survivor(e["function"], e["removed"].strip(), e["added"].strip())
        for e in entries
    }


def show(tallies: dict[str, Tally]) -> None:
    """Print the counts, module by module."""
    print(
        f"{'module':14}{'mutants':>9}{'killed':>9}{'explained':>11}{'survived':>10}"
    )
    modules: dict[str, list[Tally]] = {}
    for name, tally in tallies.items():
        modules.setdefault(name.split(".")[0], []).append(tally)
    for module, parts in {**modules, "all": [*tallies.values()]}.items():
        print(
            f"{module:14}{sum(t.mutants for t in parts):9}"
            f"{sum(t.killed for t in parts):9}"
            f"{sum(t.explained for t in parts):11}"
            f"{sum(t.survived for t in parts):10}"
        )


def main() -> int:
    """Mutate, count, print, store if told so, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("functions", nargs="*", help="such as masks.causal")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    now = dict(functions())
    names = options.functions or (changed(now) if options.changed else [])
    if unknown := set(names) - set(now):
        parser.error(f"the package has no {', '.join(sorted(unknown))}")
    if options.changed and not names:
        print(
            "No function of attention/ has changed since its mutants were tried"
        )
        return 0

    begin = time.monotonic()
    prepare()
    run_mutmut([pattern_for(name) for name in names])
    explained = read_explained()
    tallies, survivors = read_results(explained)
    show(tallies)
    holes = [s for s in survivors if s not in explained]
    for survivor in holes:
        print(f"Survived in {survivor.function}:")
        print(textwrap.indent(survivor.removed, "  - "))
        print(textwrap.indent(survivor.added, "  + "))
    stale = explained - set(survivors) if not names else set()
    for survivor in stale:
        print(f"Explained, but no survivor any more: {survivor}")
    mutants = sum(tally.mutants for tally in tallies.values())
    killed = sum(tally.killed for tally in tallies.values())
    percent = 100 * killed / max(mutants, 1)
    minutes = (time.monotonic() - begin) / 60
    print(f"Killed: {percent:.1f} % of {mutants}, in {minutes:.0f} minutes")
    if options.write:
        store(tallies, now, names)
    # A few functions alone may have more than their share of explained ones.
    enough = percent >= LEAST or names
    return 0 if enough and not holes and not stale else 1


def store(
    tallies: dict[str, Tally], now: dict[str, str], names: list[str]
) -> None:
    """Store the counts; those of functions that were not tried stay, if these still exist."""
    stored: dict[str, Any] = {}
    if names:
        stored = json.loads(STORED.read_text("utf-8"))["functions"]
    for name in names or now:
        tally = tallies.get(name, Tally())
        stored[name] = {"digest": now[name], **asdict(tally)}
    content = {
        "mutmut": version("mutmut"),
        "functions": {name: stored[name] for name in now if name in stored},
    }
    STORED.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    print(f"Written: {STORED.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
