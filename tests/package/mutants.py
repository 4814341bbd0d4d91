"""Bugs planted in copies of the package, and the tests run on such a copy.

This module must not import the package: the process that runs the tests imports the copy.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# PyTorch takes seconds to import: it is loaded once, in a process that is forked for each bug.
# Where there is no forking each bug pays for itself.
FORKS = "forkserver" in multiprocessing.get_all_start_methods()


@dataclass(frozen=True)
class Mutant:
    """A bug: in one module of the package, replacements of a piece of code by another.

    The code is compared as ``ast.unparse`` writes it, so that layout and comments do not matter.
    """

    module: str
    replacements: dict[str, str]
    tests: str  # the file whose tests must see it, without "test_" and ".py"
    keyword: str  # and which of them, as in pytest's -k

    def source(self, package: Path) -> str:
        """Return the module with the bug in it, or raise ``LookupError``."""
        code = _code(package / f"{self.module}.py")
        for old, new in self.replacements.items():
            if code.count(old) != 1:
                raise LookupError(
                    f"the mutant no longer applies: {self.module}.py holds {old!r} "
                    f"{code.count(old)} times, not once"
                )
            code = code.replace(old, new)
        compile(code, self.module, "exec")
        return code


def _code(path: Path) -> str:
    """Return a module's code in one layout, without comments and docstrings."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(
            node, ast.FunctionDef | ast.ClassDef | ast.Module
        ) and ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("..."))
    return ast.unparse(tree)


def plant(mutant: Mutant | None, package: Path, directory: Path) -> None:
    """Copy the package into a directory, with a bug in it."""
    copy = directory / package.name
    shutil.copytree(
        package, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    if mutant is not None:
        (copy / f"{mutant.module}.py").write_text(
            mutant.source(package), "utf-8"
        )


def run_tests(directory: Path, tests: str, keyword: str) -> tuple[int, str]:
    """Run the chosen tests on the package in a directory; return pytest's exit code and output."""
    context = multiprocessing.get_context("forkserver" if FORKS else "spawn")
    if FORKS:
        context.set_forkserver_preload(["torch", "numpy", "pytest"])
    log = directory / "output.txt"
    process = context.Process(
        target=_run_pytest, args=(directory, tests, keyword, log)
    )
    process.start()
    process.join(120)
    if process.is_alive():
        process.kill()
        process.join()
    return (
        process.exitcode if process.exitcode is not None else -1,
        log.read_text("utf-8"),
    )


def _run_pytest(
    directory: Path, tests: str, keyword: str, log: Path
) -> None:
    with log.open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.path[:0] = [str(directory)]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    import attention

    if Path(attention.__file__).parent.parent != directory:
        sys.exit(99)  # some other copy would be tested
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "--tb=short",
    ]
    code = pytest.main(
        [
            *options,
            "--rootdir",
            str(ROOT),
            str(HERE / f"test_{tests}.py"),
            "-k",
            keyword,
        ]
    )
    sys.stdout.flush()
    sys.exit(int(code))
