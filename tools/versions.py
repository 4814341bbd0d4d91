"""Test the package and the notebooks with other versions than the lock's.

python tools/versions.py                                   the lock, the oldest, the newest
python tools/versions.py --numpy newest --python 3.13      one choice; the rest is the lock's

A version is `lock`, `oldest` (the lower bound in pyproject.toml), `newest`, `installed` (what the
interpreter has, as on Colab) or a number. With the lock's versions on the platform that stored the
outputs, the notebooks are compared strictly, elsewhere by the measure of chapters/conftest.py.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".make" / "versions"
PACKAGES = ("torch", "numpy", "matplotlib")
WORDS = ("lock", "oldest", "newest", "installed")
# What runs the tests, in the lock's versions.
TOOLS = ("ipykernel", "nbclient", "nbval", "pytest", "pytest-xdist")
# Where the stored outputs come from; another processor may round a last digit otherwise.
STORED_ON = ("Linux", "x86_64")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.txt").read_text("utf-8")
LOCKED = dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCK, re.MULTILINE))


class NotPossibleError(Exception):
    """A choice cannot be tried here; the message says why."""


@dataclass(frozen=True)
class Choice:
    """What is asked for: of each a word or a number."""

    python: str = "lock"
    torch: str = "lock"
    numpy: str = "lock"
    matplotlib: str = "lock"

    @property
    def is_lock(self) -> bool:
        """Whether the packages are the lock's."""
        return {self.torch, self.numpy, self.matplotlib} == {"lock"}

    @property
    def name(self) -> str:
        """A name for its folder and its row."""
        parts = [f"{p}-{getattr(self, p)}" for p in ("python", *PACKAGES)]
        return re.sub(r"[^\w.-]+", "_", "-".join(parts))

    def requirements(self) -> list[str]:
        """Return what pip is to install beside the package."""
        wanted = [f"{tool}=={LOCKED[tool]}" for tool in TOOLS]
        for package in PACKAGES:
            version = getattr(self, package)
            if version == "lock":
                version = LOCKED[package]
            elif version == "oldest":
                version = oldest(package)
            if version not in WORDS:
                wanted.append(f"{package}=={version}")
            elif version == "newest":
                wanted.append(package)
        return wanted


@dataclass
class Result:
    """What was tried, and what came of it."""

    name: str
    versions: dict[str, str]
    outcomes: dict[str, str]
    seconds: float
    passed: bool


def oldest(package: str) -> str:
    """Return the lower bound that pyproject.toml promises for a package, or for Python."""
    project = PROJECT["project"]
    if package == "python":
        return project["requires-python"].removeprefix(">=")
    promises = [*project["dependencies"]]
    promises += project["optional-dependencies"]["plot"]
    bounds = dict(promise.split(">=") for promise in promises)
    return bounds[package]


def interpreter(wanted: str) -> str:
    """Return a Python of the version that is wanted, or of the path."""
    if wanted == "installed" or Path(wanted).is_file():
        return sys.executable if wanted == "installed" else wanted
    if wanted == "newest":
        for minor in range(29, 10, -1):
            try:
                return interpreter(f"3.{minor}")
            except NotPossibleError:
                continue
    elif wanted == "oldest":
        wanted = oldest("python")
    elif wanted == "lock":
        wanted = re.search(r"with Python ([\d.]+)", LOCK)[1]
    # Inside an environment its own interpreter would hand down its packages.
    base = getattr(sys, "_base_executable", sys.executable)
    for candidate in (base, f"python{wanted}", "python3", "python"):
        if f"{version_of(candidate)}.".startswith(f"{wanted}."):
            return candidate
    raise NotPossibleError(f"there is no Python {wanted} on the path")


def version_of(python: str) -> str:
    """Return an interpreter's version; empty if it does not start."""
    command = [
        python,
        "-c",
        "import platform as p; print(p.python_version())",
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def run(command: list[str | Path], log: Path, **settings: object) -> int:
    """Run a command, its words in a log, and return the exit status."""
    with log.open("a", encoding="utf-8") as file:
        return subprocess.run(
            [str(part) for part in command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            **settings,
        ).returncode


def make_environment(choice: Choice, folder: Path, log: Path) -> Path:
    """Make an environment with the package of this tree in it; return its folder of programs."""
    python = interpreter(choice.python)
    inherit = "installed" in (choice.torch, choice.numpy, choice.matplotlib)
    flags = ["--system-site-packages"] if inherit else []
    # Filled by the interpreter's own pip: not every Python can put one into an environment.
    if run([python, "-m", "venv", "--without-pip", *flags, folder], log):
        raise NotPossibleError(f"{python} made no virtual environment")
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    with tempfile.TemporaryDirectory() as copy:
        # From a copy, so that building leaves nothing in the tree.
        for name in ("attention", "LICENSE", "README.md", "pyproject.toml"):
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(
                source, Path(copy, name)
            )
        constraints = ["-c", ROOT / "requirements.txt"]
        if run(
            [
                *(python, "-m", "pip", "--python", programs / "python"),
                *("install", "--disable-pip-version-check"),
                *(constraints if choice.is_lock else []),
                *choice.requirements(),
                f"{copy}[plot]",
            ],
            log,
        ):
            raise NotPossibleError(f"pip found no such set: see {log}")
    return programs


def installed(programs: Path) -> dict[str, str]:
    """Return the versions that an environment has."""
    code = (
        "import importlib.metadata as m, platform as p; print(p.python_version(), "
        f"*(m.version(n) for n in {PACKAGES}))"
    )
    done = subprocess.run(
        [str(programs / "python"), "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(("python", *PACKAGES), done.stdout.split(), strict=True))


def outcome(report: Path) -> str:
    """Return the counts of a report of pytest's."""
    if not report.is_file():
        return "did not run"
    suite = ET.parse(report).getroot().find("testsuite")
    total, *bad = (
        int(suite.get(key))
        for key in ("tests", "failures", "errors", "skipped")
    )
    counts = {"passed": total - sum(bad)}
    counts |= dict(zip(("failed", "errors", "skipped"), bad, strict=True))
    return ", ".join(f"{n} {word}" for word, n in counts.items() if n)


def attempt(choice: Choice) -> Result:
    """Install, test, and tell; what passed is removed, what failed is left to look at."""
    folder = FOLDER / choice.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log = folder / "log.txt"
    print(f"Trying {choice.name}", flush=True)
    start = time.monotonic()
    try:
        programs = make_environment(choice, folder / "environment", log)
    except NotPossibleError as reason:
        return Result(choice.name, {}, {"": str(reason)}, 0.0, False)
    versions = installed(programs)
    here = (platform.system(), platform.machine())
    strict = choice.is_lock and here == STORED_ON
    suites = {
        "package": ["tests/package"],
        "notebooks": ["chapters", *([] if strict else ["--lax"])],
    }
    outcomes, failed = {}, False
    for suite, arguments in suites.items():
        report = folder / f"{suite}.xml"
        failed |= (
            run(
                # Not `python -m pytest`, which would find the package of the tree.
                [
                    programs / "pytest",
                    *("-n", "2", "--dist", "loadfile", "-q"),
                    f"--junitxml={report}",
                    *arguments,
                ],
                log,
                env=environment(),
            )
            != 0
        )
        outcomes[suite] = outcome(report)
    outcomes["notebooks"] += ", strict" if strict else ", lax"
    if not failed:
        shutil.rmtree(folder / "environment")
    seconds = time.monotonic() - start
    return Result(choice.name, versions, outcomes, seconds, not failed)


def environment() -> dict[str, str]:
    """Return the variables for the tests: nothing of another environment's."""
    foreign = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {k: v for k, v in os.environ.items() if k not in foreign}


def table(results: list[Result]) -> str:
    """Lay out what was tried, in Markdown that is legible as it is."""
    head = ["Python", *PACKAGES, "package", "notebooks", "seconds", ""]
    rows = [head, []]
    for r in results:
        verdict = "passed" if r.passed else "FAILED"
        if not r.versions:
            rows.append(
                [r.name, "", "", "", r.outcomes[""], "", "", verdict]
            )
            continue
        rows.append(
            [
                *r.versions.values(),
                *r.outcomes.values(),
                f"{r.seconds:.0f}",
                verdict,
            ]
        )
    widths = [
        max(map(len, column))
        for column in zip(*(r for r in rows if r), strict=True)
    ]
    rows[1] = ["-" * width for width in widths]
    return "\n".join(
        f"| {' | '.join(c.ljust(w) for c, w in zip(row, widths, strict=True))} |"
        for row in rows
    )


def choices() -> list[Choice]:
    """Read what is to be tried from the command line; the variables of make are the defaults."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("python", *PACKAGES):
        parser.add_argument(
            f"--{name}", default=os.environ.get(name.upper()) or None
        )
    given = {k: v for k, v in vars(parser.parse_args()).items() if v}
    if given:
        return [Choice(**given)]
    return [Choice(*[word] * 4) for word in ("lock", "oldest", "newest")]


def main() -> int:
    """Try, print the table, and return the exit status."""
    results = [attempt(choice) for choice in choices()]
    laid_out = table(results)
    print(f"\n{laid_out}")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(f"{laid_out}\n")
    for result in results:
        if not result.passed:
            log = FOLDER / result.name / "log.txt"
            words = log.read_text("utf-8").splitlines()[-40:]
            print(f"\n{log.relative_to(ROOT)} ends:", *words, sep="\n")
    return 0 if all(result.passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
