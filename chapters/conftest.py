"""Here nbval gets the kernel that wrote the outputs, and compares figures too.

With --lax, for other versions and machines, it compares what may not differ there: words, booleans
and whole numbers exactly, other numbers within a tolerance, of errors their kind, no figures.
"""

import json
import math
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest

import pytest
from execute import KERNEL_ENVIRONMENT

# What a figure's bytes depend on, beside the numbers it shows.
DRAWN_BY = ["matplotlib", "numpy", "pillow", "torch"]
DRAWN_ON = ("Linux", "x86_64")

NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
# Two units of the fourth decimal, which is the last that a cell prints, or a thousandth.
ABSOLUTE, RELATIVE = 2e-4, 1e-3
# An array's or number's type, which NumPy prints since its release 2.
NUMPY_TYPE = re.compile(r"\bnp\.\w+\(([^()]*)\)")
# Where PyTorch keeps its types, as its errors say: once at, now c10.
NAMESPACE = re.compile(r"\b(?:at|c10)::")


class Alike(str):
    """A text that equals another with the same words and nearly the same numbers."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Compare in turn the words between numbers and the numbers."""
        pairs = zip_longest(parts(self), parts(str(other)))
        return all(a == b or close(a, b) for a, b in pairs)

    def __ne__(self, other: object) -> bool:
        """Be the opposite, which str has of its own."""
        return not self == other


def parts(text: str) -> list[str]:
    """Split a text into words and numbers, in turn; widths of columns do not count."""
    bare = NAMESPACE.sub("", NUMPY_TYPE.sub(r"\1", text))
    return [" ".join(part.split()) for part in NUMBER.split(bare)]


def close(a: str | None, b: str | None) -> bool:
    """Whether two parts are numbers, not both whole, within the tolerance."""
    if not all(part and NUMBER.fullmatch(part) for part in (a, b)):
        return False
    whole = all(re.fullmatch(r"[-+]?\d+", part) for part in (a, b))
    return not whole and math.isclose(
        float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --lax."""
    parser.addoption(
        "--lax",
        action="store_true",
        help="compare notebooks by what may not differ between versions",
    )


def relax(cell: pytest.Item) -> None:
    """Let nbval's own comparison find texts equal that are alike."""
    sanitize = cell.sanitize

    def alike(output: object) -> Alike:
        text = (
            output
            if isinstance(output, str)
            else json.dumps(output, sort_keys=True)
        )
        return Alike(sanitize(text))

    cell.sanitize = alike
    # PyTorch and NumPy word their errors anew from time to time.
    cell.parent.skip_compare = {*cell.parent.skip_compare, "evalue"}


def why_figures_may_differ(lock: str) -> str:
    """Say what here is not as it was when the figures were drawn; empty when all is the same."""
    here = (platform.system(), platform.machine())
    if here != DRAWN_ON:
        return f"this is {' '.join(here)}, not {' '.join(DRAWN_ON)}"
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE))
    for name in DRAWN_BY:
        try:
            # A local version (+cpu) names a build of the same release.
            installed = version(name).partition("+")[0]
        except PackageNotFoundError:
            installed = "missing"
        if installed != locked.get(name):
            return f"{name} is {installed}, and {locked.get(name)} drew them"
    return ""


def pytest_configure(config: pytest.Config) -> None:
    """Decide once whether figures are compared."""
    lock = config.rootpath / "requirements.txt"
    config.why_figures_may_differ = (
        "--lax"
        if config.option.lax
        else why_figures_may_differ(lock.read_text(encoding="utf-8"))
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say at the end that figures were not compared."""
    if config.why_figures_may_differ:
        terminalreporter.write_line(
            "WARNING: the figures in the notebooks are not compared: "
            f"{config.why_figures_may_differ}",
            yellow=True,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item):
    """Start a notebook's kernel in the surroundings in which its outputs were stored."""
    notebook = item.parent
    if not item.config.why_figures_may_differ:
        notebook.skip_compare = tuple(
            key for key in notebook.skip_compare if key != "image/png"
        )
    if item.config.option.lax:
        relax(item)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KERNEL_ENVIRONMENT.items():
            patch.setenv(name, value)
        return (yield)
