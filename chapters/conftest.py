"""Here nbval gets the kernel that wrote the outputs, and compares figures too."""

import platform
import re
from importlib.metadata import PackageNotFoundError, version

import pytest
from execute import KERNEL_ENVIRONMENT

# What a figure's bytes depend on, beside the numbers it shows.
DRAWN_BY = ["matplotlib", "numpy", "pillow", "torch"]
DRAWN_ON = ("Linux", "x86_64")


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
    config.why_figures_may_differ = why_figures_may_differ(
        lock.read_text(encoding="utf-8")
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
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KERNEL_ENVIRONMENT.items():
            patch.setenv(name, value)
        return (yield)
