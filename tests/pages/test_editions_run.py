"""The runner's editions run where there is only what Colab has, and give the stored outputs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import bare_environment
import execute
import nbformat
import pytest
from built_book import ROOT, exercise_pages, toc_pages
from nbformat import NotebookNode

from course.exercises import read

EXERCISES = exercise_pages()
PAGES = [page for page in toc_pages() if (ROOT / f"{page}.ipynb").is_file()]
PICTURES = ("image/png", "image/jpeg", "image/svg+xml")


class Place(NamedTuple):
    """A folder outside the book, and an interpreter that knows nothing of it."""

    folder: Path
    python: Path

    def run(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run some Python there."""
        return subprocess.run(
            [self.python, "-c", code],
            cwd=self.folder,
            env=execute.KERNEL_ENVIRONMENT,
            capture_output=True,
            text=True,
        )


def new_place(folder: Path, html: Path, wheel: bool = True) -> Place:
    """Make a bare environment, and beside it a folder with the editions."""
    python = bare_environment.make(folder / "environment")
    shutil.copytree(html / "notebooks", folder / "notebooks")
    if not wheel:
        for file in (folder / "notebooks").glob("*.whl"):
            file.unlink()
    return Place(folder / "notebooks", python)


def setup_source(html: Path) -> str:
    """Return the first code cell of an edition."""
    path = html / "notebooks" / f"{Path(PAGES[0]).name}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    return next(cell.source for cell in cells if cell.id == "setup")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, html: Path) -> Place:
    """Return a place where the setup cell has run once, from a folder with the wheel."""
    place = new_place(tmp_path_factory.mktemp("runner"), html)
    done = place.run(setup_source(html))
    assert done.returncode == 0, done.stderr
    return place


# ------------------------------------------------------------------------------- the environment
@pytest.mark.parametrize(
    "name",
    [
        "sphinx",
        "pytest",
        "nbformat",
        "yaml",
        "execute",
        "hygiene",
        "built_book",
        "onnx",
    ],
)
def test_the_environment_lacks_what_colab_need_not_have(
    place: Place, name: str
) -> None:
    done = place.run(f"import {name}")
    assert "ModuleNotFoundError" in done.stderr


def test_the_package_comes_from_the_wheel_and_torch_and_numpy_stay(
    place: Place,
) -> None:
    done = place.run(
        "import attention, numpy, sys, torch\n"
        "print(attention.__file__, *sys.path, sep='\\n')\n"
    )
    file, *path = done.stdout.splitlines()
    environment = place.python.parent.parent
    assert Path(file).is_relative_to(environment)
    assert not [entry for entry in path if entry.startswith(str(ROOT))]
    # A link still, to what was there: pip would have put a copy in its place.
    (site,) = environment.glob("lib/python*/site-packages")
    assert all((site / name).is_symlink() for name in ("numpy", "torch"))
    assert not (site / "attention").is_symlink()


# ----------------------------------------------------------------------------------- the setup cell
def test_the_setup_cell_says_what_runs_in_one_line_and_may_run_again(
    place: Place, html: Path
) -> None:
    shown = [place.run(setup_source(html)).stdout for _ in range(2)]
    assert shown[0] == shown[1]
    (line,) = shown[0].splitlines()
    for word in (
        "Python 3.",
        "PyTorch 2.",
        "NumPy 2.",
        "attention 0.",
        "on CPU",
    ):
        assert word in line


def test_without_wheel_and_address_the_setup_cell_says_what_to_do(
    tmp_path: Path, html: Path
) -> None:
    done = new_place(tmp_path, html, wheel=False).run(setup_source(html))
    assert done.returncode != 0
    (wheel,) = (html / "notebooks").glob("*.whl")
    said = done.stderr.splitlines()[-1]
    assert f"download {wheel.name} where you found this notebook" in said


def test_with_an_address_the_setup_cell_fetches_the_wheel(
    tmp_path: Path, html: Path
) -> None:
    place = new_place(tmp_path, html, wheel=False)
    folder = f"{(html / 'notebooks').as_uri()}/"
    source = setup_source(html)
    assert 'ADDRESS = ""' in source
    done = place.run(source.replace('ADDRESS = ""', f'ADDRESS = "{folder}"'))
    assert done.returncode == 0, done.stderr
    done = place.run(
        source.replace('ADDRESS = ""', 'ADDRESS = "file:///nowhere/"')
    )
    assert done.returncode == 0  # It is there now.


def test_a_wheel_that_cannot_be_fetched_is_named(
    tmp_path: Path, html: Path
) -> None:
    place = new_place(tmp_path, html, wheel=False)
    source = setup_source(html).replace(
        'ADDRESS = ""', 'ADDRESS = "file:///nowhere/"'
    )
    done = place.run(source)
    assert done.returncode != 0
    assert "could not be installed. pip says:" in done.stderr
    assert "Without a network, download attention_derived-" in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "{stem} (1).whl",
        "{stem}-1.whl",
        "../input/my-data/{stem} (1).whl",
    ],
)
def test_a_wheel_that_a_browser_renamed_or_that_kaggle_keeps_is_installed(
    tmp_path: Path, html: Path, name: str
) -> None:
    place = new_place(tmp_path, html, wheel=False)
    (wheel,) = (html / "notebooks").glob("*.whl")
    file = place.folder / name.format(stem=wheel.stem)
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(wheel, file)
    done = place.run(setup_source(html))
    assert done.returncode == 0, done.stderr
    assert file.is_file()


def test_a_wheel_of_another_version_is_none_of_this_notebook_s(
    tmp_path: Path, html: Path
) -> None:
    place = new_place(tmp_path, html, wheel=False)
    (wheel,) = (html / "notebooks").glob("*.whl")
    number = wheel.name.split("-")[1]
    shutil.copy(
        wheel, place.folder / wheel.name.replace(number, f"{number}1")
    )
    assert place.run(setup_source(html)).returncode != 0


def test_the_setup_cell_knows_all_modules_of_the_package(html: Path) -> None:
    named = re.search(
        r"^MODULES = \((.*?)\)", setup_source(html), re.S | re.M
    )
    files = (ROOT / "attention").glob("[a-z]*.py")
    assert named
    assert set(re.findall(r"\w+", named[1])) == {file.stem for file in files}


# What lies in the folder, and whether the module was imported before the setup cell.
IN_THE_WAY = {
    "a file": ("attention.py", ""),
    "a package": ("attention/__init__.py", ""),
    "a module that is imported": ("attention.py", "import attention\n"),
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_lies_in_the_package_s_way_is_named(
    place: Place, tmp_path: Path, html: Path, kind: str
) -> None:
    name, before = IN_THE_WAY[kind]
    see_it_named(Place(tmp_path, place.python), html, name, before)


def test_what_lies_in_the_way_is_named_where_the_package_is_to_be_installed(
    tmp_path: Path, html: Path
) -> None:
    see_it_named(new_place(tmp_path, html), html, "attention.py")


def test_a_stranger_s_installed_package_is_not_overwritten(
    tmp_path: Path, html: Path
) -> None:
    place = new_place(tmp_path, html)
    (installed,) = place.python.parents[1].glob("lib/python*/site-packages")
    stranger = installed / "attention" / "__init__.py"
    stranger.parent.mkdir()
    stranger.write_text("layers = 1\n", "utf-8")
    done = place.run(setup_source(html))
    assert done.returncode != 0
    assert f"{stranger} lies in the way" in done.stderr.splitlines()[-1]
    assert stranger.read_text("utf-8") == "layers = 1\n"
    assert list(stranger.parent.glob("*.py")) == [stranger]


def see_it_named(
    place: Place, html: Path, name: str, before: str = ""
) -> None:
    """Put a module of this name in the way, and see what the setup cell says."""
    file = place.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("print('this one was run')\n")
    done = place.run(before + setup_source(html))
    assert done.returncode != 0
    said = done.stderr.splitlines()[-1]
    assert f"{file} lies in the way of the book's package" in said
    assert said.count(". ") == 0
    assert ("this one was run" in done.stdout) == bool(before)
    file.unlink()
    shutil.rmtree(place.folder / "__pycache__", ignore_errors=True)
    # A folder without a module in it is passed over.
    assert place.run(setup_source(html)).returncode == 0


def test_another_version_in_the_working_folder_is_reported_as_what_runs(
    place: Place, tmp_path: Path, html: Path
) -> None:
    shutil.copytree(ROOT / "attention", tmp_path / "attention")
    file = tmp_path / "attention" / "__init__.py"
    text = file.read_text("utf-8")
    file.write_text(re.sub(r'(__version__ = ")', r"\g<1>9.", text), "utf-8")
    done = Place(tmp_path, place.python).run(setup_source(html))
    assert "attention 9.0" in done.stdout, done.stderr
    assert "(written for 0." in done.stdout


@pytest.mark.parametrize("gone", ["live.py", ""])
def test_what_was_deleted_by_hand_is_installed_anew(
    tmp_path: Path, html: Path, gone: str
) -> None:
    place = new_place(tmp_path, html)
    assert place.run(setup_source(html)).returncode == 0
    (package,) = place.python.parents[1].glob(
        "lib/*/site-packages/attention"
    )
    if gone:
        (package / gone).unlink()
    else:
        shutil.rmtree(package)
    done = place.run(setup_source(html))
    assert done.returncode == 0, done.stderr
    assert (package / "live.py").is_file()


def test_what_was_imported_before_it_was_replaced_asks_for_a_restart(
    tmp_path: Path, html: Path
) -> None:
    place = new_place(tmp_path, html)
    assert place.run(setup_source(html)).returncode == 0
    done = place.run(
        "import attention\nattention.__version__ = '0.0.9'\n"
        + setup_source(html)
    )
    assert "attention 0.0.9 (restart the kernel for 0." in done.stdout


# ------------------------------------------------------------------------------------- the editions
def as_text(cell: NotebookNode) -> list[dict]:
    """Return a cell's outputs without pictures and counts."""
    outputs = [dict(output) for output in cell.outputs]
    for output in outputs:
        for name in ("metadata", "execution_count"):
            output.pop(name, None)
        output["data"] = {
            kind: data
            for kind, data in output.get("data", {}).items()
            if kind not in PICTURES
        }
    return outputs


def executed(
    place: Place, page: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[NotebookNode, NotebookNode]:
    """Return an edition, and what it is after it has run there to its end."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    stored = execute.load(place.folder / f"{Path(page).name}.ipynb")
    return stored, execute.execute(stored, place.folder, str(place.python))


@pytest.mark.parametrize("page", [p for p in PAGES if p not in EXERCISES])
def test_an_edition_runs_and_gives_the_stored_outputs(
    place: Place, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, run = executed(place, page, monkeypatch)
    for now, before in zip(run.cells, stored.cells, strict=True):
        if now.cell_type == "code" and now.id != "setup":
            assert as_text(now) == as_text(before), now.id


@pytest.mark.parametrize("page", EXERCISES)
def test_exercises_run_with_blanks_left_in_and_each_check_says_so(
    place: Place, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = executed(place, page, monkeypatch)
    says = [
        output.data["text/plain"]
        for cell in run.cells
        if "check" in cell.metadata.get("tags", [])
        for output in cell.outputs
    ]
    checks = [
        e for e in read(execute.load(ROOT / f"{page}.ipynb")) if e.check
    ]
    assert len(says) == len(checks)
    assert [text for text in says if "still blank" not in text] == []
