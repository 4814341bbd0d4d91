"""A small source notebook of exercises, and submissions made of it."""

from __future__ import annotations

import copy
from collections.abc import Callable

import execute
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course.blanks import LEFT_OUT, student, version
from course.exercises import read, tags, title_of
from course.grade import Source

NAME = "small-exercises"
STATEMENT = """::::{{exercise}} {title}
:label: ex-small-{word}

*Level {level} of 3 · 5 minutes · {kind}*

Do it.

:::{{admonition}} Hint
:class: dropdown
Think.
:::
::::"""
START = "```{{solution-start}} ex-small-{word}\n:label: sol-small-{word}\n```\n\nSECRET words."
END = "SECRET reasons.\n\n```{solution-end}\n```"
ANSWERS = {
    "double": (
        'def double(x: int) -> int:\n    """Return twice x."""\n'
        "    SECRET = x\n    return SECRET + x"
    ),
    "steps": "steps = 3 + 4  # SECRET",
    "larger": ("def larger(x, y):\n    # SECRET\n    return max(x, y)"),
}
LEVELS = {"double": 1, "steps": 2, "larger": 3}


def text(source: str, name: str) -> NotebookNode:
    """Return a cell of text."""
    return new_markdown_cell(source, id=name)


def code(source: str, name: str, *tags: str) -> NotebookNode:
    """Return a cell of code."""
    metadata = {"tags": list(tags)} if tags else {}
    return new_code_cell(source, id=name, metadata=metadata)


def by_code(word: str) -> list[NotebookNode]:
    """Return the cells of an exercise with a checker."""
    statement = STATEMENT.format(
        title=f"To {word}", word=word, level=LEVELS[word], kind="by code"
    )
    return [
        text(statement, f"state-{word}"),
        text(START.format(word=word), f"start-{word}"),
        code(ANSWERS[word], f"code-{word}", "answer"),
        code(f"check_{word}({word})", f"check-{word}", "check"),
        text(END, f"end-{word}"),
    ]


def source() -> NotebookNode:
    """Return the notebook: three exercises by code, one by hand."""
    by_hand = STATEMENT.format(
        title="To prove", word="prove", level=3, kind="by hand"
    )
    cells = [
        text("(ex-small)=\n# Exercises: a small sample\n\nText.", "title"),
        code(
            "from sample_checkers import check_double, check_larger, check_steps",
            "imports",
        ),
        *by_code("double"),
        code("given = [1, 2]", "given-1", "given"),
        *by_code("steps"),
        text(by_hand, "state-prove"),
        text(START.format(word="prove"), "start-prove"),
        code("assert 1 + 1 == 2  # SECRET", "verify-prove", "verify"),
        text(END, "end-prove"),
        *by_code("larger"),
        text("The end.", "end"),
    ]
    notebook = new_notebook(cells=cells)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                {"output_type": "stream", "name": "stdout", "text": "SECRET"}
            ]
            cell.execution_count = 1
    return notebook


def known() -> Source:
    """Return the exercises of the notebook, as the grading knows them."""
    notebook = source()
    exercises = read(notebook)
    return Source(
        NAME, 12, title_of(notebook), version(exercises), exercises
    )


def submission(**answers: str) -> NotebookNode:
    """Return a student's notebook with some answers, by the words of their exercises."""
    notebook = student(source(), NAME)
    notebook.cells = [c for c in notebook.cells if LEFT_OUT not in tags(c)]
    for word, answer in answers.items():
        cell_of(notebook, f"code-{word}").source = answer
    return notebook


def perfect() -> NotebookNode:
    """Return a student's notebook with the right answers."""
    return submission(**ANSWERS)


def cell_of(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return a cell by its id."""
    return next(cell for cell in notebook.cells if cell.id == name)


def changed(edit: Callable[[NotebookNode], None]) -> str:
    """Return the text of a perfect submission that has been edited."""
    notebook = copy.deepcopy(perfect())
    edit(notebook)
    return execute.dumps(notebook)
