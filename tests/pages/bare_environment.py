"""An environment that has what Colab preinstalls and the notebooks use, and nothing else.

It is a virtual environment into which only the distributions of an allow-list, and what they need,
are linked from the environment of the tests. Making it takes a second and no network.
"""

from __future__ import annotations

import sys
import venv
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What a notebook may import, a kernel, and what installs the book's package.
ALLOWED = ["numpy", "torch", "matplotlib", "ipykernel", "pip"]


def needed(names: list[str]) -> set[str]:
    """Return distributions with all that they require here."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            if not requirement.marker or requirement.marker.evaluate(
                {"extra": ""}
            ):
                waiting.append(canonicalize_name(requirement.name))
    return found


def entries(name: str) -> Iterator[Path]:
    """Yield the files and folders of a distribution that lie directly in site-packages."""
    installed = distribution(name)
    site = Path(str(installed.locate_file("")))
    for top in {file.parts[0] for file in installed.files or []}:
        # Scripts lie outside, bytecode is made again.
        if top not in ("..", "__pycache__"):
            yield site / top


def make(folder: Path) -> Path:
    """Make the environment in a folder; return its interpreter."""
    venv.create(folder, with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    for name in needed(ALLOWED):
        for entry in entries(name):
            link = site / entry.name
            if not link.exists():
                link.symlink_to(entry)
    return folder / "bin" / "python"
