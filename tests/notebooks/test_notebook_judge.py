"""nbval, with the options and the conftest of the chapters, rejects every planted fault."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import execute
import pytest
import samples

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "chapters").rglob("*.ipynb"))
FAULTS = {edit.__name__: edit for edit in samples.NBVAL_REJECTS}


def judge(folder: Path, *options: str) -> tuple[dict[str, list[str]], str]:
    """Test the notebooks in a folder as the chapters are: failed cells of each, and its words."""
    shutil.copy(ROOT / "chapters" / "conftest.py", folder)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        ROOT,
    ]
    done = subprocess.run(
        [
            *command,
            "-p",
            "no:cacheprovider",
            "--color=no",
            "-rA",
            *options,
            folder,
        ],
        env={
            name: value
            for name, value in os.environ.items()
            if "PYTEST" not in name
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    failed: dict[str, list[str]] = {}
    for verdict, stem, cell in re.findall(
        r"^(PASSED|FAILED) .*?(\w+)\.ipynb::(.*)", done.stdout, re.M
    ):
        failed.setdefault(stem, []).extend(
            [cell] if verdict == "FAILED" else []
        )
    assert set(failed) == {path.stem for path in folder.glob("*.ipynb")}, (
        done.stdout
    )
    return failed, done.stdout


@pytest.fixture(scope="module")
def verdicts(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, list[str]], str]:
    """One run of nbval over the small notebook and a spoilt copy for each fault."""
    folder = tmp_path_factory.mktemp("small")
    sound = execute.execute(samples.sound_notebook(), folder)
    copies = {
        name: samples.plant(sound, edit) for name, edit in FAULTS.items()
    }
    for name, notebook in {"sound": sound, **copies}.items():
        (folder / f"{name}.ipynb").write_text(
            execute.dumps(notebook), encoding="utf-8"
        )
    return judge(folder)


def test_a_sound_notebook_passes(verdicts: tuple[dict[str, list[str]], str]):
    failed, words = verdicts
    assert failed["sound"] == [], words


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_fails_in_its_cell_alone(
    verdicts: tuple[dict[str, list[str]], str], fault: str
):
    failed, words = verdicts
    if fault == "changed_figure" and (
        warning := re.search("figures .* not compared.*", words)
    ):
        pytest.skip(warning.group())
    assert len(failed[fault]) == 1, words


def test_a_wrong_digit_in_a_chapter_fails(tmp_path: Path):
    assert NOTEBOOKS, "the book has no chapter that is executed"
    spoilt = samples.plant(execute.load(NOTEBOOKS[0]), samples.wrong_digit)
    (tmp_path / "chapter.ipynb").write_text(
        execute.dumps(spoilt), encoding="utf-8"
    )
    failed, words = judge(tmp_path, "--exitfirst")
    assert len(failed["chapter"]) == 1, words
