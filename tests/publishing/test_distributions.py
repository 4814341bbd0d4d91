"""The wheel holds the package and nothing else; the sdist makes that wheel and brings its tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import attention

ROOT = Path(__file__).resolve().parents[2]
NAME = f"attention_derived-{attention.__version__}"


# What is no source: made by tools, or left by them.
MADE = (".*", "_build", "build", "*.egg-info", "__pycache__")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist from a copy of the tree, and the wheel from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    tree = shutil.copytree(
        ROOT, folder / "tree", ignore=shutil.ignore_patterns(*MADE)
    )
    command = [sys.executable, "-m", "build", "--no-isolation"]
    done = subprocess.run(
        [*command, "--outdir", folder, tree],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return folder


def files(folder: str) -> set[str]:
    """Return the sources in a folder, as the archives name them."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    info = {name for name in names if name.startswith(f"{NAME}.dist-info/")}
    assert names - info == files("attention")
    assert f"{NAME}.dist-info/licenses/LICENSE" in info


def test_the_wheel_says_what_it_needs(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode()
    needs = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
    plain = {need for need in needs if ";" not in need}
    assert plain == {"numpy>=1.26", "torch>=2.8"}
    assert "Requires-Python: >=3.11" in metadata


def test_the_sdist_holds_what_builds_and_tests_the_package(
    dist: Path,
) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        members = [member for member in archive if member.isfile()]
    names = {member.name.partition("/")[2] for member in members}
    made = {name for name in names if ".egg-info/" in name}
    made |= {"PKG-INFO", "setup.cfg"}
    documents = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"}
    builds = {"pyproject.toml", "MANIFEST.in"}
    expected = files("attention") | files("tests/package")
    assert names - made == expected | documents | builds


def test_the_sdist_can_be_tested(dist: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(dist / f"{NAME}.tar.gz", tmp_path)
    tree = tmp_path / NAME
    # What was installed from the wheel is tested, not the folder beside the tests.
    installed = tmp_path / "installed"
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        wheel.extractall(installed)
    for path in (tree / "attention").iterdir():
        if path.suffix == ".py":
            path.write_text("raise ImportError('not the installed one')")
    variables = {k: v for k, v in os.environ.items() if "PYTEST" not in k}
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "pytest",
            "-q",
            "tests/package/test_masks.py",
        ],
        cwd=tree,
        env=variables | {"PYTHONPATH": str(installed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_citation_names_the_packages_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == attention.__version__


def test_the_changelog_begins_with_the_packages_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[(.*?)\]", text, re.MULTILINE)
    assert versions[0] == attention.__version__
    assert len(versions) == len(set(versions))
