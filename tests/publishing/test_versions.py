"""What `make versions` would install, and what it tells of it."""

import re
import sys
from pathlib import Path

import pytest
import versions
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]


def required(choice: versions.Choice) -> dict[str, str]:
    """Return what a choice asks pip for: name and bounds."""
    wanted = map(Requirement, choice.requirements())
    return {each.name: str(each.specifier) for each in wanted}


def test_the_lock_is_what_requirements_say():
    lock = (ROOT / "requirements.txt").read_text("utf-8")
    asked = required(versions.Choice())
    assert {"torch", "numpy", "matplotlib", "pytest", "nbval"} <= set(asked)
    for name, bounds in asked.items():
        assert re.search(rf"^{name}{bounds}$", lock, re.MULTILINE), name


@pytest.mark.parametrize("package", versions.PACKAGES)
def test_the_oldest_is_the_lowest_that_is_promised(package: str):
    bounds = required(versions.Choice(**{package: "oldest"}))[package]
    number = bounds.removeprefix("==")
    promises = re.findall(
        rf'"{package}(>=[\d.]+)"',
        (ROOT / "pyproject.toml").read_text("utf-8"),
    )
    assert promises == [f">={number}"]
    assert number in SpecifierSet(promises[0])


def test_a_word_or_number_becomes_a_requirement():
    choice = versions.Choice(
        torch="newest", numpy="installed", matplotlib="3.8.4"
    )
    asked = required(choice)
    assert asked["torch"] == ""
    assert "numpy" not in asked
    assert asked["matplotlib"] == "==3.8.4"
    assert not choice.is_lock


def test_this_interpreter_is_found_by_its_version():
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = versions.version_of(versions.interpreter(mine))
    assert found.startswith(f"{mine}.")


def test_a_python_that_is_not_there_is_refused():
    with pytest.raises(versions.NotPossibleError, match=r"3\.99"):
        versions.interpreter("3.99")


def test_the_table_shows_what_was_tried_and_what_failed():
    good = versions.Result(
        "a",
        {"python": "3.11.2", "torch": "2", "numpy": "1", "matplotlib": "3"},
        {"package": "5 passed", "notebooks": "4 passed, strict"},
        12.3,
        True,
    )
    bad = versions.Result("python-3.99", {}, {"": "no such"}, 0.0, False)
    head, rule, first, second = versions.table([good, bad]).splitlines()
    assert len({len(head), len(rule), len(first), len(second)}) == 1
    assert first.startswith("| 3.11.2 ") and first.rstrip(" |").endswith(
        "passed"
    )
    assert "no such" in second and second.rstrip(" |").endswith("FAILED")


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((7, 0, 0, 0), "7 passed"),
        ((7, 1, 2, 3), "1 passed, 1 failed, 2 errors, 3 skipped"),
    ],
)
def test_a_report_is_counted(
    tmp_path: Path, counts: tuple[int, ...], told: str
):
    report = tmp_path / "report.xml"
    names = ("tests", "failures", "errors", "skipped")
    attributes = " ".join(
        f'{name}="{count}"'
        for name, count in zip(names, counts, strict=True)
    )
    report.write_text(f"<testsuites><testsuite {attributes}/></testsuites>")
    assert versions.outcome(report) == told
    assert versions.outcome(tmp_path / "none.xml") == "did not run"
