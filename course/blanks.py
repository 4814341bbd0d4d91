"""Blank worked solutions: make of an exercise notebook what students get, and what teachers get.

A student's notebook has nothing of a solution but its checks and its answer cells with blanks.
An answer cell keeps its imports, the headers of classes, the signatures and docstrings of
functions, and the names that it assigns. The body of each function, the right side of each
assignment, other statements and all comments go. What remains is formatted as it was, parses and
runs.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import io
import json
import tokenize
from collections.abc import Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from course.exercises import Exercise, SourceError, read, solved, tags

BLANK = "...  # your answer here"
# A cell of text that a student does not get, though its page counts the headings in it.
LEFT_OUT = "left-out"
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Statements that do something and leave no name behind that a check could ask for.
DROPPED = (
    ast.Expr,
    ast.AugAssign,
    ast.Assert,
    ast.Delete,
    ast.Pass,
)


class BlankError(ValueError):
    """An answer cell holds what cannot be blanked; the message names the line."""


class Source:
    """The text of a cell, by the positions of its syntax tree, without its comments."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        # Where a comment begins, by line.
        self.comments = {
            token.start[0]: token.start[1]
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT
        }

    def column(self, line: int, offset: int) -> int:
        """Return the place in a line that a syntax tree counts in bytes."""
        return len(self.lines[line - 1].encode()[:offset].decode())

    def indent(self, node: ast.AST) -> str:
        """Return the white space before a statement."""
        line = self.lines[node.lineno - 1]
        return line[: len(line) - len(line.lstrip())]

    def opens_line(self, node: ast.stmt) -> bool:
        """Say whether a statement is the first on its line."""
        return len(self.indent(node)) == self.column(
            node.lineno, node.col_offset
        )

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """Return what stands between two positions."""
        kept = []
        for number in range(start[0], end[0] + 1):
            line = self.lines[number - 1]
            first = self.column(*start) if number == start[0] else 0
            last = self.column(*end) if number == end[0] else len(line)
            comment = self.comments.get(number)
            if comment is not None and comment < last:
                line, last = line[:comment].rstrip(), comment
                if not line.strip():
                    continue
            kept.append(line[first:last])
        return "\n".join(kept).rstrip()

    def empty_before(self, node: ast.stmt) -> int:
        """Return how many empty lines, two at most, part a statement from what stands before it."""
        number = start_of(node)[0] - 1
        empty = 0
        while number:
            if not self.lines[number - 1].strip():
                empty += 1
            elif (
                self.comments.get(number) is None
                or self.lines[number - 1].lstrip()[:1] != "#"
            ):
                break
            number -= 1
        return min(empty, 2)


def start_of(node: ast.stmt) -> tuple[int, int]:
    """Return where a statement begins, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    return min(
        [node.lineno, *(d.lineno for d in decorators)]
    ), node.col_offset


def end_of(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Return where a node ends."""
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def has_docstring(node: Function | ast.ClassDef) -> bool:
    """Say whether a body begins with a docstring."""
    return ast.get_docstring(node, clean=False) is not None


def names(target: ast.expr) -> Iterator[ast.expr]:
    """Yield what a target assigns to, out of tuples and stars."""
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from names(element)
    elif isinstance(target, ast.Starred):
        yield from names(target.value)
    else:
        yield target


def blank_for(targets: list[ast.expr]) -> str:
    """Return dots that can be assigned to the targets: as many as a tuple unpacks."""
    unpacked = [t for t in targets if isinstance(t, ast.Tuple | ast.List)]
    if not unpacked:
        return "..."
    dots = [
        f"({blank_for([element])})"
        if isinstance(element, ast.Tuple | ast.List)
        else "..."
        for element in unpacked[0].elts
    ]
    return ", ".join(dots) + "," * (len(dots) == 1)


def header(source: Source, node: Function | ast.ClassDef) -> str:
    """Return a definition down to its docstring, if it has one, or else to its colon."""
    first = node.body[0]
    to_colon = source.between(start_of(node), start_of(first))
    if not has_docstring(node):
        return to_colon
    if not source.opens_line(first):
        # A statement that follows on the same line would have to stay there.
        docstring = source.between(start_of(first), end_of(first))
        return f"{to_colon}\n{inner_indent(source, node)}{docstring}"
    return source.between(start_of(node), end_of(first))


def inner_indent(source: Source, node: Function | ast.ClassDef) -> str:
    """Return the white space before the statements of a body."""
    first = node.body[0]
    own_line = source.opens_line(first)
    return source.indent(first if own_line else node) + "    " * (
        not own_line
    )


def blanked_function(source: Source, node: Function) -> str:
    """Return a function without its body."""
    if has_docstring(node) and len(node.body) == 1:
        return header(source, node)
    return f"{header(source, node)}\n{inner_indent(source, node)}{BLANK}"


def blanked_class(source: Source, node: ast.ClassDef) -> str:
    """Return a class without the bodies of its methods."""
    body = node.body[has_docstring(node) :]
    indent = inner_indent(source, node)
    inside = blanked_body(source, body, indent)
    if not inside and body:
        inside = f"\n{indent}{BLANK}"
    return header(source, node) + inside


def blanked_assignment(
    source: Source, node: ast.Assign | ast.AnnAssign
) -> str | None:
    """Return an assignment of dots; nothing where it changes an object, for there is none."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if not all(isinstance(n, ast.Name) for t in targets for n in names(t)):
        return None
    if isinstance(node, ast.AnnAssign):
        hinted = source.between(start_of(node), end_of(node.annotation))
        return f"{hinted} = ..." if node.value else hinted
    assigned = source.between(start_of(node), end_of(targets[-1]))
    return f"{assigned} = {blank_for(targets)}"


def blanked_statement(source: Source, node: ast.stmt) -> str | None:
    """Return what remains of a statement, if anything."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return source.between(start_of(node), end_of(node))
    if isinstance(node, Function):
        return blanked_function(source, node)
    if isinstance(node, ast.ClassDef):
        return blanked_class(source, node)
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return blanked_assignment(source, node)
    if isinstance(node, DROPPED):
        return None
    kind = type(node).__name__.lower()
    raise BlankError(
        f"line {node.lineno}: an answer has no blank for a statement of the kind"
        f" {kind!r}: put it into a function"
    )


def blanked_body(source: Source, body: list[ast.stmt], indent: str) -> str:
    """Return what remains of statements, each on new lines of its own."""
    remains = ""
    for node in body:
        text = blanked_statement(source, node)
        if text is not None:
            gap = "\n" * (1 + source.empty_before(node))
            remains += f"{gap}{indent}{text}"
    return remains


def blanked(text: str) -> str:
    """Return the source of an answer cell with blanks in place of the answer."""
    text = text.replace("\r\n", "\n")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BlankError(
            f"line {error.lineno}: an answer is plain Python: {error.msg}"
        ) from None
    remains = blanked_body(Source(text), tree.body, "").lstrip("\n")
    if not remains:
        raise BlankError("nothing of the answer would remain")
    return remains


# ----------------------------------------------------------------------------- whole notebooks
def blanked_cell(cell: NotebookNode) -> str:
    """Return the source of an answer cell with blanks, or raise SourceError naming the cell."""
    try:
        return blanked(cell.source)
    except BlankError as error:
        raise SourceError(f"cell {cell.id}, {error}") from None


def version(exercises: list[Exercise]) -> str:
    """Return a digest of what a submission answers: blanks, checks and levels."""
    content = [
        [
            exercise.label,
            exercise.level,
            [blanked_cell(cell) for cell in exercise.answers],
            exercise.check.source if exercise.check else "",
        ]
        for exercise in exercises
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def marked(notebook: NotebookNode, name: str, edition: str) -> NotebookNode:
    """Return a copy that says in its metadata which exercises it holds, and for whom."""
    notebook = copy.deepcopy(notebook)
    notebook.metadata["course"] = {
        "edition": edition,
        "exercises": name,
        "version": version(read(notebook)),
    }
    return notebook


def teacher(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return the teacher's notebook: all of the source."""
    return marked(notebook, name, "teacher")


def student(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return the student's notebook: without outputs and solutions, with room for the answers."""
    notebook = marked(notebook, name, "student")
    room = {
        e.label: "*Your working, which no check reads:*"
        if e.answers
        else "*Your answer:*"
        for e in read(notebook)
    }
    cells = []
    for cell, label in zip(notebook.cells, solved(notebook), strict=True):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if not label or "check" in tags(cell):
            cells.append(cell)
        elif "answer" in tags(cell):
            cell.source = blanked_cell(cell)
            cells.append(cell)
        elif cell.cell_type == "markdown":
            cell.metadata["tags"] = [LEFT_OUT]
            cells.append(cell)
            if text := room.pop(label, ""):
                cells.append(
                    new_markdown_cell(text, id=f"words-{label}"[:64])
                )
    notebook.cells = cells
    return notebook
