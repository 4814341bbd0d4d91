"""A small sound notebook of exercises, and what can be wrong with one: each fault spoils a copy."""

import copy
from collections.abc import Callable

from execute import normalise
from nbformat import NotebookNode
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
)

Cells = list[tuple[str, str]]


def statement(word: str, title: str, level: int, kind: str) -> str:
    """Return the text of an exercise."""
    return (
        f"::::{{exercise}} {title}\n:label: ex-small-{word}\n\n"
        f"*Level {level} of 3 · {5 * level} minutes · {kind}*\n\n"
        f"What is wanted of {word}.\n\n"
        ":::{admonition} Hint\n:class: dropdown\nLook closely.\n:::\n::::"
    )


def opening(word: str) -> str:
    """Return the beginning of a solution."""
    return (
        f"```{{solution-start}} ex-small-{word}\n:label: sol-small-{word}\n```"
        f"\n\nThis leads to {word}."
    )


CLOSING = (
    "Others are wrong.\n\n:::{only} teacher\nAsk why.\n:::\n\n"
    "```{solution-end}\n```"
)


def answered(word: str, answer: str, name: str) -> Cells:
    """Return the cells of a solution with an answer and its check."""
    return [
        ("markdown", opening(word)),
        ("answer", answer),
        ("check", f"check_small_{word}({name})"),
        ("markdown", CLOSING),
    ]


SOUND_CELLS: Cells = [
    ("markdown", "# Exercises: small\n\nThey are of {ref}`ch-small`."),
    ("", "import numpy as np"),
    ("markdown", statement("double", "Twice", 1, "by code")),
    *answered(
        "double",
        'def double(x):\n    """Return twice x."""\n    return 2 * x',
        "double",
    ),
    ("markdown", statement("sum", "A sum", 1, "by hand")),
    (
        "markdown",
        f"{opening('sum')}\n\nIt is 3.\n\n```{{solution-end}}\n```",
    ),
    ("markdown", statement("proof", "A proof", 3, "by hand")),
    ("markdown", opening("proof")),
    ("verify", "1 + 2 == 3"),
    ("markdown", CLOSING),
    ("markdown", statement("bug", "Once too often", 2, "find the bug")),
    ("given", "def half(x):\n    return x / 4"),
    *answered("bug", "import math\n\nline = 2", "line"),
]


def sound_notebook() -> NotebookNode:
    """Build the notebook, not executed: its parts are what counts."""
    cells = []
    for position, (kind, source) in enumerate(SOUND_CELLS):
        cell = (
            new_markdown_cell(source)
            if kind == "markdown"
            else new_code_cell(source)
        )
        if cell.cell_type == "code" and kind:
            cell.metadata["tags"] = [kind]
        cell.id = f"cell-{position}"
        if kind == "check":
            word = source.removeprefix("check_small_").partition("(")[0]
            shown = {"text/plain": f"✓ small-{word}: right."}
            cell.outputs = [new_output("execute_result", shown)]
        cells.append(cell)
    return normalise(new_notebook(cells=cells))


def plant(
    notebook: NotebookNode, edit: Callable[[NotebookNode], bool | None]
) -> NotebookNode:
    """Return a copy in which `edit` has spoilt the first cell that it can."""
    notebook = copy.deepcopy(notebook)
    if not any(edit(cell) for cell in notebook.cells):
        raise LookupError("no cell to spoil")
    return notebook


def writes(old: str, new: str) -> Callable[[NotebookNode], bool]:
    """Return an edit that puts one text in the place of another."""

    def edit(cell: NotebookNode) -> bool:
        found = old in cell.source
        cell.source = cell.source.replace(old, new)
        return found

    return edit


def tags(old: str, *new: str) -> Callable[[NotebookNode], bool]:
    """Return an edit that puts other tags in the place of one."""

    def edit(cell: NotebookNode) -> bool:
        found = cell.metadata.get("tags") == [old]
        if found:
            cell.metadata["tags"] = list(new)
        return found

    return edit


def shows(text: str) -> Callable[[NotebookNode], bool]:
    """Return an edit that stores another value."""

    def edit(cell: NotebookNode) -> bool:
        found = bool(cell.get("outputs"))
        if found:
            cell.outputs[0].data["text/plain"] = text
        return found

    return edit


# What spoils the notebook, and the check that must notice.
REJECTS = {
    "solution that does not end": (
        "parts_in_order",
        writes("```{solution-end}\n```", ""),
    ),
    "solution of another exercise": (
        "parts_in_order",
        writes(
            "{solution-start} ex-small-sum", "{solution-start} ex-small-s"
        ),
    ),
    "exercise without solution": (
        "parts_in_order",
        writes(opening("sum"), ""),
    ),
    "note to teachers in sight": (
        "parts_in_order",
        writes("What is wanted", ":::{only} teacher\nAsk.\n:::\n\nWhat"),
    ),
    "note to teachers after the solution": (
        "parts_in_order",
        writes(CLOSING, f"{CLOSING}\n\n:::{{only}} teacher\nAsk.\n:::"),
    ),
    "three exercises": (
        "enough_of_each",
        writes("{exercise} A sum", "{note} A sum"),
    ),
    "two kinds": ("enough_of_each", writes("find the bug", "by code")),
    "none by code": ("enough_of_each", writes("by code", "break it")),
    "no title": (
        "statements_complete",
        writes("{exercise} A sum", "{exercise}"),
    ),
    "no level": ("statements_complete", writes("*Level 1", "*Stage 1")),
    "level out of range": (
        "statements_complete",
        writes("Level 3", "Level 4"),
    ),
    "no minutes": ("statements_complete", writes("5 minutes", "0 minutes")),
    "unknown kind": ("statements_complete", writes("by hand", "by heart")),
    "no hint": ("statements_complete", writes("Hint", "Note")),
    "hint in sight": (
        "statements_complete",
        writes(":class: dropdown\n", ""),
    ),
    "solution without label": (
        "statements_complete",
        writes(":label: sol-small-sum\n", ""),
    ),
    "no label": (
        "labels_of_one_chapter",
        writes(":label: ex-small-sum\n", ""),
    ),
    "label without chapter": (
        "labels_of_one_chapter",
        writes(":label: ex-small-sum\n", ":label: ex-sum\n"),
    ),
    "label of another chapter": (
        "labels_of_one_chapter",
        writes(":label: ex-small-sum\n", ":label: ex-large-sum\n"),
    ),
    "code that nobody gave": ("code_tagged", tags("given")),
    "solution's code without tag": ("code_tagged", tags("verify")),
    "code with two tags": ("code_tagged", tags("answer", "answer", "check")),
    "given in a solution": (
        "code_tagged",
        tags("verify", "verify", "given"),
    ),
    "answer without check": ("answers_checked", tags("check", "verify")),
    "check without answer": ("answers_checked", tags("answer", "verify")),
    "code without an answer": (
        "answers_checked",
        writes(
            statement("sum", "A sum", 1, "by hand"),
            statement("sum", "A sum", 1, "by code"),
        ),
    ),
    "answer that prints": (
        "answers_can_be_blanked",
        writes("line = 2", "line = 2\nprint(line)"),
    ),
    "answer of nothing": (
        "answers_can_be_blanked",
        writes("\n\nline = 2", ""),
    ),
    "answer without docstring": (
        "answers_can_be_blanked",
        writes('    """Return twice x."""\n', ""),
    ),
    "two answers of one name": (
        "answers_named_once",
        writes("line = 2", "double = 2"),
    ),
    "check of another exercise": (
        "checks_end_in_their_call",
        writes("check_small_bug", "check_small_double"),
    ),
    "check of no answer": (
        "checks_end_in_their_call",
        writes("check_small_bug(line)", "check_small_bug(2)"),
    ),
    "two checks in a cell": (
        "checks_end_in_their_call",
        writes(
            "check_small_bug(line)",
            "check_small_bug(line)\ncheck_small_bug(line)",
        ),
    ),
    "check that shows nothing": (
        "checks_end_in_their_call",
        writes("check_small_bug(line)", "verdict = check_small_bug(line)"),
    ),
    "verdict on a wrong answer": (
        "checks_say_right",
        shows("✗ small-double: 2 is expected."),
    ),
    "verdict on another exercise": (
        "checks_say_right",
        shows("✓ small-bug: right."),
    ),
    "check not at the end": (
        "checks_end_in_their_call",
        writes("check_small_bug(line)", "check_small_bug(line)\n# Done."),
    ),
}
