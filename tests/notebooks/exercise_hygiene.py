"""What a notebook of exercises must be, beyond what every notebook must: its exercises' parts.

The editions for students and teachers, and the grading, cut these notebooks up at directives and
tags; what is missing or out of its place here would be wrong there.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from hygiene import parse
from nbformat import NotebookNode

KINDS = ("by hand", "by code", "from a figure", "find the bug", "break it")
# The answer may be words alone, which no checker reads.
IN_WORDS = {"by hand", "from a figure"}
SOLUTION_TAGS = {"answer", "check", "verify"}
DIRECTIVE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})"
    r"\{(?P<name>exercise|solution-start|solution-end|only)\}[ \t]*(?P<argument>.*)$",
    re.MULTILINE,
)
LABEL = re.compile(r"^:label:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
LEVEL = re.compile(
    rf"^\*Level [123] of 3 · [1-9]\d* minutes? · ({'|'.join(KINDS)})\*$",
    re.MULTILINE,
)
HINT = re.compile(
    r"^:{3,}\{admonition\} Hint\b.*\n:class: dropdown$", re.MULTILINE
)


@dataclass
class Exercise:
    """An exercise, from its statement to the end of its solution."""

    where: str
    title: str
    statement: str
    label: str
    given: list[NotebookNode] = field(default_factory=list)
    # The solution's label, None before it starts; its cells of code; whether it has ended.
    solution: str | None = None
    code: list[NotebookNode] = field(default_factory=list)
    ended: bool = False

    @property
    def kind(self) -> str:
        """What the one line on level, minutes and kind says; empty without it."""
        found = LEVEL.findall(self.statement)
        return found[0] if len(found) == 1 else ""

    @property
    def solving(self) -> bool:
        """Whether the solution has started and not ended."""
        return self.solution is not None and not self.ended

    def tagged(self, tag: str) -> list[NotebookNode]:
        """Return the cells of the solution that have a tag."""
        return [cell for cell in self.code if tag in tags(cell)]


def tags(cell: NotebookNode) -> set[str]:
    """Return a cell's tags."""
    return set(cell.metadata.get("tags", []))


def label(body: str) -> str:
    """Return the label that a directive's body gives; empty if it gives none."""
    found = LABEL.search(body)
    return found[1] if found else ""


def directives(cell: NotebookNode) -> Iterator[tuple[str, str, str]]:
    """Yield name, argument and body of the directives that exercises are made of."""
    for match in DIRECTIVE.finditer(cell.source):
        rest = cell.source[match.end() :]
        close = re.search(rf"^{match['fence']}[ \t]*$", rest, re.MULTILINE)
        body = rest[: close.start()] if close else rest
        yield match["name"], match["argument"].strip(), body


def read(notebook: NotebookNode) -> tuple[list[Exercise], list[str]]:
    """Return the exercises of a notebook, and complaints of what is out of its place."""
    found: list[Exercise] = []
    complaints = []
    for position, cell in enumerate(notebook.cells, start=1):
        where = f"cell {position} ({cell.id})"
        now = found[-1] if found else None
        if cell.cell_type == "code":
            if now and now.solving:
                now.code.append(cell)
            elif now and not now.ended:
                now.given.append(cell)
            continue
        for name, argument, body in directives(cell):
            now = found[-1] if found else None
            if name == "exercise":
                if now and not now.ended:
                    complaints.append(
                        f"{where} begins before {now.where} is solved"
                    )
                found.append(Exercise(where, argument, body, label(body)))
            elif name == "solution-start":
                if not now or now.solution is not None:
                    complaints.append(
                        f"{where} solves no exercise before it"
                    )
                elif argument != now.label:
                    complaints.append(
                        f"{where} solves {argument}, not {now.label}"
                    )
                else:
                    now.solution = label(body)
            elif not (now and now.solving):
                complaints.append(f"{where}: {name} is in no solution")
            elif name == "solution-end":
                now.ended = True
    if found and not found[-1].ended:
        complaints.append(f"{found[-1].where} has no solution that ends")
    return found, complaints


def parts_in_order(notebook: NotebookNode) -> list[str]:
    """Each exercise is followed by its solution, which ends; teachers' notes are in solutions."""
    return read(notebook)[1]


def enough_of_each(notebook: NotebookNode) -> list[str]:
    """At least four exercises of three kinds, among them one by hand and one by code."""
    kinds = Counter(exercise.kind for exercise in read(notebook)[0])
    complaints = []
    if kinds.total() < 4:
        complaints.append(f"{kinds.total()} exercises, not four or more")
    if len(set(kinds) - {""}) < 3:
        complaints.append(
            f"exercises of {len(kinds)} kinds, not three or more"
        )
    return complaints + [
        f"no exercise {kind}"
        for kind in ("by hand", "by code")
        if not kinds[kind]
    ]


def statements_complete(notebook: NotebookNode) -> list[str]:
    """Title, label, line on the level, hint; a label for the solution too."""
    complaints = []
    for exercise in read(notebook)[0]:
        if not exercise.title:
            complaints.append(f"{exercise.where} has no title")
        if not exercise.kind:
            complaints.append(
                f"{exercise.where} has not one line *Level L of 3 · M minutes · KIND*"
            )
        if not HINT.search(exercise.statement):
            complaints.append(f"{exercise.where} has no hint, folded away")
        wanted = f"sol-{exercise.label.removeprefix('ex-')}"
        if exercise.solution not in (None, wanted):
            complaints.append(
                f"{exercise.where} has a solution labelled {exercise.solution!r}, not {wanted!r}"
            )
    return complaints


def labels_of_one_chapter(notebook: NotebookNode) -> list[str]:
    """Labels are ex-, the chapter's short name, which all share, and a word."""
    found = read(notebook)[0]
    complaints = [
        f"{exercise.where} has the label {exercise.label!r}, not ex-CHAPTER-WORD"
        for exercise in found
        if not re.fullmatch(r"ex(?:-[a-z0-9]+){2,}", exercise.label)
    ]
    chapters = Counter(
        exercise.label.split("-")[1:2][0]
        for exercise in found
        if "-" in exercise.label
    )
    if len(chapters) > 1:
        complaints.append(
            f"labels of several chapters: {', '.join(chapters)}"
        )
    return complaints


def code_tagged(notebook: NotebookNode) -> list[str]:
    """Code before a solution is given; in it, it answers, checks or verifies."""
    complaints = []
    for exercise in read(notebook)[0]:
        complaints += [
            f"{cell.id}, before the solution of {exercise.where}, is not tagged given"
            for cell in exercise.given
            if "given" not in tags(cell)
        ]
        complaints += [
            f"{cell.id}, in the solution of {exercise.where}, is to have one tag of"
            f" {', '.join(sorted(SOLUTION_TAGS))}"
            for cell in exercise.code
            if len(tags(cell) & SOLUTION_TAGS) != 1 or "given" in tags(cell)
        ]
    return complaints


def answers_checked(notebook: NotebookNode) -> list[str]:
    """An answer is followed by its check; only words need neither."""
    complaints = []
    for exercise in read(notebook)[0]:
        roles = [
            next(iter(tags(cell) & SOLUTION_TAGS), "")
            for cell in exercise.code
        ]
        pairs = list(pairwise([*roles, ""]))
        answers = roles.count("answer")
        if answers != pairs.count(("answer", "check")) or (
            answers != roles.count("check")
        ):
            complaints.append(
                f"{exercise.where}: an answer is not followed by its check"
            )
        if not answers and exercise.kind not in IN_WORDS:
            complaints.append(f"{exercise.where} has no answer and no check")
    return complaints


def defined(cell: NotebookNode) -> list[str]:
    """Return the names that a cell gives, in order: functions, classes, values."""
    names = []
    for node in parse(cell).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names += [
                inner.id
                for inner in ast.walk(node)
                if isinstance(inner, ast.Name)
                and isinstance(inner.ctx, ast.Store)
            ]
    return names


def answers_can_be_blanked(notebook: NotebookNode) -> list[str]:
    """An answer only imports, defines and assigns; a function has a docstring."""
    complaints = []
    allowed = (
        ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
        | ast.Assign | ast.AnnAssign
    )  # fmt: skip
    for exercise in read(notebook)[0]:
        for cell in exercise.tagged("answer"):
            body = parse(cell).body
            if not defined(cell) or not all(
                isinstance(node, allowed) for node in body
            ):
                complaints.append(
                    f"{cell.id} answers with more than definitions and assignments"
                )
            complaints += [
                f"{cell.id}: {node.name} has no docstring to tell a student what is wanted"
                for node in body
                if isinstance(node, ast.FunctionDef)
                and not ast.get_docstring(node)
            ]
    return complaints


def answers_named_once(notebook: NotebookNode) -> list[str]:
    """No answer takes the name of another: a blank one would pass by what came before."""
    names = Counter(
        name
        for exercise in read(notebook)[0]
        for cell in exercise.tagged("answer")
        for name in defined(cell)
    )
    return [
        f"{name} is the name of {times} answers"
        for name, times in names.items()
        if times > 1
    ]


def checks_end_in_their_call(notebook: NotebookNode) -> list[str]:
    """The last line of a check calls the exercise's checker on the answer, and shows its value."""
    complaints = []
    for exercise in read(notebook)[0]:
        wanted = (
            f"check_{exercise.label.removeprefix('ex-').replace('-', '_')}"
        )
        answers: list[str] = []
        for cell in exercise.code:
            if "answer" in tags(cell):
                answers += defined(cell)
            if "check" in tags(cell) and not calls(cell, wanted, answers):
                complaints.append(
                    f"{cell.id} does not end in one call {wanted}(…) of its answer"
                )
    return complaints


def checks_say_right(notebook: NotebookNode) -> list[str]:
    """Every check's stored value says that the answer is right."""
    return [
        f"{cell.id} does not show the verdict “right” on {exercise.label}"
        for exercise in read(notebook)[0]
        for cell in exercise.tagged("check")
        if [
            output.get("data", {}).get("text/plain")
            for output in cell.outputs
        ]
        != [f"✓ {exercise.label.removeprefix('ex-')}: right."]
    ]


def calls(cell: NotebookNode, name: str, answers: list[str]) -> bool:
    """Whether a cell's last line, and nothing before it, calls a checker on answers alone."""
    body = parse(cell).body
    checkers = [
        inner
        for inner in ast.walk(parse(cell))
        if isinstance(inner, ast.Name) and inner.id.startswith("check_")
    ]
    match body[-1:]:
        case [
            ast.Expr(ast.Call(ast.Name(called), [*given], []), lineno=line)
        ]:
            return (
                called == name
                and len(checkers) == 1
                and line == len(cell.source.splitlines())
                and bool(given)
                and all(
                    isinstance(one, ast.Name) and one.id in answers
                    for one in given
                )
            )
    return False


CHECKS = [
    parts_in_order,
    enough_of_each,
    statements_complete,
    labels_of_one_chapter,
    code_tagged,
    answers_checked,
    answers_can_be_blanked,
    answers_named_once,
    checks_end_in_their_call,
    checks_say_right,
]
