"""Students get the exercises and none of the solutions, teachers get both, from one source."""

from __future__ import annotations

import json
import re
from pathlib import Path

import execute
import pytest
from built_book import ROOT, exercise_pages
from nbformat import NotebookNode

from course import editions
from course.exercises import directives, read, solved, sources, tags
from course.grade import Grader, Limits, known_sources

EXERCISES = list(exercise_pages())
each_page = pytest.mark.parametrize("page", EXERCISES)
# As many words in a row are no chance.
RUN = 6
# Cells that an edition has beside those of its source.
OWN = re.compile(
    r"to-run|setup|references|about-this-notebook|caption-.*|words-ex-.*|.*-part-\d+"
)


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, html: Path
) -> dict[str, Path]:
    """Return the folders of both kinds of edition."""
    folders = {}
    for kind in editions.KINDS:
        folders[kind] = tmp_path_factory.mktemp(kind) / "new"
        editions.make(kind, folders[kind])
    return folders


def edition(made: dict[str, Path], kind: str, page: str) -> NotebookNode:
    """Return an edition of a page."""
    return execute.load(made[kind] / f"{Path(page).name}.ipynb")


def source(page: str) -> NotebookNode:
    """Return a page's notebook."""
    return execute.load(ROOT / f"{page}.ipynb")


def parts(page: str) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """Return the cells of a page in solutions, without checks, and all others."""
    notebook = source(page)
    cells = list(zip(notebook.cells, solved(notebook), strict=True))
    secret = [c for c, s in cells if s and "check" not in tags(c)]
    return secret, [c for c, s in cells if not s or "check" in tags(c)]


def runs_of_words(cells: list[NotebookNode]) -> set[tuple[str, ...]]:
    """Return all runs of so many words in the cells."""
    found = set()
    for cell in cells:
        # The words of a figure are in its cell's metadata.
        words = re.findall(r"\w+", f"{cell.source} {cell.metadata}")
        found |= set(zip(*(words[i:] for i in range(RUN)), strict=False))
    return found


def is_heading(line: str) -> bool:
    """Say whether a line of code is a definition's or an import's, which a student gets."""
    return bool(re.match(r"(?:async )?def |class |@|import |from |$", line))


# -------------------------------------------------------------------------------------- students
def test_there_are_exercises_and_each_is_listed_below_its_chapter() -> None:
    assert [path.stem for path in sources()] == [
        Path(page).name for page in EXERCISES
    ]
    assert EXERCISES


@each_page
def test_a_grade_s_numbers_are_those_of_the_notebook(
    made: dict[str, Path], page: str
) -> None:
    (known,) = (s for s in known_sources() if s.name == Path(page).name)
    text = "\n".join(c.source for c in edition(made, "student", page).cells)
    for place, exercise in enumerate(known.exercises, start=1):
        heading = f"Exercise {known.number}.{place} ({exercise.title})"
        assert heading in text


@each_page
def test_no_words_of_a_solution_are_in_a_student_s_notebook(
    made: dict[str, Path], page: str
) -> None:
    secret, open_to_all = parts(page)
    words = [c for c in secret if c.cell_type == "markdown"]
    found = runs_of_words(edition(made, "student", page).cells)
    leaked = (runs_of_words(words) - runs_of_words(open_to_all)) & found
    assert leaked == set()


@each_page
def test_no_line_of_a_solution_s_code_is_in_a_student_s_notebook(
    made: dict[str, Path], page: str
) -> None:
    secret, open_to_all = parts(page)
    known = {
        line.strip() for c in open_to_all for line in c.source.split("\n")
    }
    lines = {
        line.strip()
        for cell in secret
        if cell.cell_type == "code"
        for line in re.sub(r'"""[\s\S]*?"""', "", cell.source).split("\n")
    }
    shown = {
        line.strip()
        for cell in edition(made, "student", page).cells
        if cell.id != "setup"
        for line in cell.source.split("\n")
    }
    # A bracket that closes a signature is no secret.
    leaked = {x for x in lines & shown - known if not is_heading(x)}
    assert {x for x in leaked if re.search(r"\w", x)} == set()


@each_page
def test_a_student_s_notebook_has_all_else_that_the_page_has(
    made: dict[str, Path], page: str
) -> None:
    notebook = edition(made, "student", page)
    ids = [c.id for c in notebook.cells if not OWN.fullmatch(c.id)]
    cells = source(page).cells
    _, open_to_all = parts(page)
    kept = [c.id for c in open_to_all]
    assert ids == [
        c.id for c in cells if c.id in kept or "answer" in tags(c)
    ]


@each_page
def test_a_student_s_notebook_has_no_outputs(
    made: dict[str, Path], page: str
) -> None:
    for cell in edition(made, "student", page).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@each_page
def test_a_student_s_notebook_has_room_for_each_answer(
    made: dict[str, Path], page: str
) -> None:
    notebook = edition(made, "student", page)
    text = {cell.id: cell.source for cell in notebook.cells}
    for exercise in read(source(page)):
        kind = "working" if exercise.answers else "answer"
        assert f"Your {kind}" in text[f"words-{exercise.label}"]
        for answer in exercise.answers:
            assert "..." in text[answer.id]


@each_page
def test_the_page_s_buttons_lead_to_the_student_s_notebook(
    made: dict[str, Path], page: str
) -> None:
    name = f"{Path(page).name}.ipynb"
    published = ROOT / "_build" / "html" / "notebooks" / name
    assert published.read_bytes() == (made["student"] / name).read_bytes()


# -------------------------------------------------------------------------------------- teachers
@each_page
def test_a_teacher_s_notebook_has_all_code_with_its_outputs(
    made: dict[str, Path], page: str
) -> None:
    cells = [
        c
        for c in edition(made, "teacher", page).cells
        if c.cell_type == "code" and c.id != "setup"
    ]
    assert [(c.id, c.source, c.outputs) for c in cells] == [
        (c.id, c.source, c.outputs)
        for c in source(page).cells
        if c.cell_type == "code"
    ]


@each_page
def test_a_teacher_s_notebook_has_the_words_of_all_solutions_and_notes(
    made: dict[str, Path], page: str
) -> None:
    secret, _ = parts(page)
    words = [c for c in secret if c.cell_type == "markdown"]
    text = {c.id: c.source for c in edition(made, "teacher", page).cells}
    for cell in words:
        assert text[cell.id]
        notes = [d for d in directives(cell) if d.name == "only"]
        assert text[cell.id].count("> **For teachers**") == len(notes)


@pytest.mark.parametrize("kind", editions.KINDS)
@each_page
def test_an_edition_says_for_whom_it_is(
    made: dict[str, Path], page: str, kind: str
) -> None:
    notebook = edition(made, kind, page)
    assert notebook.metadata["course"]["edition"] == kind
    assert f"{kind}'s edition" in notebook.cells[-1].source


@pytest.mark.parametrize("kind", editions.KINDS)
def test_the_package_s_wheel_lies_beside_the_notebooks(
    made: dict[str, Path], kind: str
) -> None:
    names = sorted(path.suffix for path in made[kind].iterdir())
    assert names == [".ipynb"] * len(EXERCISES) + [".whl"]


# --------------------------------------------------------------------------------------- grading
def test_the_grading_finds_the_solutions_right_and_blanks_blank(
    made: dict[str, Path], tmp_path: Path
) -> None:
    page = EXERCISES[0]
    notebook = edition(made, "student", page)
    exercises = read(source(page))
    # Every other one is answered.
    solved_ = exercises[::2]
    answers = {c.id: c.source for e in solved_ for c in e.answers}
    for cell in notebook.cells:
        cell.source = answers.get(cell.id, cell.source)
    path = tmp_path / "any name.ipynb"
    path.write_text(json.dumps(notebook), "utf-8")
    result = Grader(known_sources(), Limits()).grade(path, "ada")
    assert {m.exercise: m.state for m in result.marks if m.of} == {
        e.name: "right" if e in solved_ else "blank"
        for e in exercises
        if e.check
    }
    assert result.points == sum(e.points for e in solved_) > 0
    assert result.remarks == []
