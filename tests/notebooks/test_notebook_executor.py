"""make run stores the same bytes each time, or leaves the file as it was."""

from pathlib import Path

import execute
import pytest
import samples


@pytest.fixture
def chapter(tmp_path: Path) -> Path:
    """A file with the small notebook, not yet executed."""
    path = tmp_path / "small.ipynb"
    path.write_text(
        execute.dumps(samples.sound_notebook()), encoding="utf-8"
    )
    return path


def test_a_second_run_changes_no_byte(chapter: Path):
    assert execute.refresh(chapter)
    first, written = chapter.read_bytes(), chapter.stat().st_mtime_ns
    assert not execute.refresh(chapter)
    assert chapter.read_bytes() == first
    assert chapter.stat().st_mtime_ns == written
    assert [path.name for path in chapter.parent.iterdir()] == [chapter.name]


@pytest.mark.parametrize(
    ("source", "tags", "message"),
    [
        (
            "x = 1\nx / 0",
            [],
            r"cell 3 \(cell-2: x = 1\) raised ZeroDivisionError",
        ),
        ("x = 1", ["raises-exception"], r"cell 3 .* raised nothing"),
        ("import os; os._exit(3)", [], r"cell 3 .* lost its kernel"),
    ],
)
def test_a_cell_that_fails_is_named_and_the_file_stays(
    chapter: Path, source: str, tags: list[str], message: str
):
    notebook = execute.load(chapter)
    notebook.cells[2].source, notebook.cells[2].metadata["tags"] = (
        source,
        tags,
    )
    before = execute.dumps(notebook)
    chapter.write_text(before, encoding="utf-8")
    with pytest.raises(execute.StoppedError, match=message):
        execute.refresh(chapter)
    assert chapter.read_text(encoding="utf-8") == before


def test_a_cell_without_an_id_gets_a_lasting_one(chapter: Path):
    text = chapter.read_text(encoding="utf-8").replace(
        '"id": "cell-2"', '"metadata": {}', 1
    )
    chapter.write_text(text, encoding="utf-8")
    assert (
        execute.load(chapter).cells[2].id
        == execute.load(chapter).cells[2].id
        == "cell-02"
    )
