"""A blanked answer keeps what a student needs, loses all of the answer, and still runs."""

from __future__ import annotations

import ast
import copy
import io
import re
import tokenize

import pytest
import small_source
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from course import blanks
from course.blanks import BLANK, BlankError, blanked
from course.exercises import SourceError, read, tags

# Each: an answer, and what a student gets.
SHAPES = {
    "a function": (
        'def f(x):\n    """Do it."""\n    y = x\n    return y',
        f'def f(x):\n    """Do it."""\n    {BLANK}',
    ),
    "a function without docstring": (
        "def f(x):\n    return x",
        f"def f(x):\n    {BLANK}",
    ),
    "a function on one line": (
        "def f(x): return x",
        f"def f(x):\n    {BLANK}",
    ),
    "all on one line": (
        'def f(x): "Do it."; return x',
        f'def f(x):\n    "Do it."\n    {BLANK}',
    ),
    "nothing but a docstring": (
        'def f(x):\n    """Do it."""',
        'def f(x):\n    """Do it."""',
    ),
    "a docstring of several lines": (
        'def f(x):\n    """Do it.\n\n    # As told: y = 2\n    """\n\n    return x',
        f'def f(x):\n    """Do it.\n\n    # As told: y = 2\n    """\n    {BLANK}',
    ),
    "type hints": (
        "def f(x: list[int], *, y: str = 'a: b') -> dict[str, int]:\n    return {}",
        f"def f(x: list[int], *, y: str = 'a: b') -> dict[str, int]:\n    {BLANK}",
    ),
    "a signature of several lines": (
        "def f(\n    x,  # the scores\n    # more\n    *rest,\n    y=(1, 2),\n):\n    return x",
        f"def f(\n    x,\n    *rest,\n    y=(1, 2),\n):\n    {BLANK}",
    ),
    "decorators": (
        "import functools\n\n\n@functools.cache  # fast\n@functools.wraps(\n    len\n)\n"
        "def f(x):\n    return x",
        "import functools\n\n\n@functools.cache\n@functools.wraps(\n    len\n)\n"
        f"def f(x):\n    {BLANK}",
    ),
    "an async function": (
        "async def f(x):\n    await x\n    return x",
        f"async def f(x):\n    {BLANK}",
    ),
    "a generator": (
        "def f(x):\n    yield from x\n    yield 1",
        f"def f(x):\n    {BLANK}",
    ),
    "nested functions": (
        "def f(x):\n    @g\n    def inner(y):\n        return y\n    return inner\n\n\n"
        "def g(h):\n    return h",
        f"def f(x):\n    {BLANK}\n\n\ndef g(h):\n    {BLANK}",
    ),
    "a decorated function inside": (
        "def f(x):\n    @g\n    def inner(y): return y\n    return inner",
        f"def f(x):\n    {BLANK}",
    ),
    "a value": ("x = 3 + 4", "x = ..."),
    "a value in brackets": ("x = (\n    3\n    + 4\n)", "x = ..."),
    "a lambda": ("f = lambda x: x + 1", "f = ..."),
    "a text": ("x = '''a\n# b\n= c'''", "x = ..."),
    "a tuple": ("a, b = 1, 2", "a, b = ..., ..."),
    "a tuple of one": ("(a,) = [1]", "(a,) = ...,"),
    "a list of targets": ("[a, b] = 1, 2", "[a, b] = ..., ..."),
    "tuples in a tuple": (
        "(a, b), *c = (1, 2), 3, 4",
        "(a, b), *c = (..., ...), ...",
    ),
    "several targets": ("x = (a, b) = 1, 2", "x = (a, b) = ..., ..."),
    "an annotated value": (
        "x: dict[str, int] = {'a': 1}",
        "x: dict[str, int] = ...",
    ),
    "an annotation alone": ("x: int\ny = 1", "x: int\ny = ..."),
    "two values on a line": ("a = 1; b = 2", "a = ...\nb = ..."),
    "imports": (
        "import math  # for pi\nfrom os import (\n    path,  # why\n    sep,\n)\n\nx = math.pi",
        "import math\nfrom os import (\n    path,\n    sep,\n)\n\nx = ...",
    ),
    "a class": (
        'class A(dict, metaclass=type):\n    """Hold."""\n\n'
        "    size: int = 3\n    other = 4\n\n"
        "    def __init__(self, x):\n        super().__init__()\n        self.x = x\n\n"
        '    @property\n    def y(self) -> int:\n        """Get."""\n        return self.x',
        'class A(dict, metaclass=type):\n    """Hold."""\n\n'
        "    size: int = ...\n    other = ...\n\n"
        f"    def __init__(self, x):\n        {BLANK}\n\n"
        f'    @property\n    def y(self) -> int:\n        """Get."""\n        {BLANK}',
    ),
    "a class in a class": (
        "class A:\n    class B:\n        def f(self): return 1",
        f"class A:\n    class B:\n        def f(self):\n            {BLANK}",
    ),
    "a class on one line": (
        "class A: x = 1; y = 2",
        "class A:\n    x = ...\n    y = ...",
    ),
    "an empty class": (
        "class A(list):\n    pass",
        f"class A(list):\n    {BLANK}",
    ),
    "a class with a docstring only": (
        'class A:\n    "Hold."',
        'class A:\n    "Hold."',
    ),
    "comments": (
        "# First think.\nx = 1  # one\n\n# Then add.\n\n\ny = 2",
        "x = ...\n\n\ny = ...",
    ),
    "a comment sign in a string": (
        "def f(x='# no comment'):\n    return x",
        f"def f(x='# no comment'):\n    {BLANK}",
    ),
    "statements without a name": (
        "x = [1]\nx += [2]\nx.append(3)\nassert x\nx[0] = 4\ndel x[1]\nx",
        "x = ...",
    ),
    "letters beyond ASCII": (
        "é = 'ü'; λ = 2  # µ\ndef f(ö, ß='ä'): 'Ü'; return ö",
        "é = ...\nλ = ...\ndef f(ö, ß='ä'):\n    'Ü'\n    " + BLANK,
    ),
    "tabs": (
        'def f(x):\n\t"""Do it."""\n\treturn x',
        f'def f(x):\n\t"""Do it."""\n\t{BLANK}',
    ),
    "line ends of another system": (
        "def f(x):\r\n    # how\r\n    return x\r\n",
        f"def f(x):\n    {BLANK}",
    ),
}
each_shape = pytest.mark.parametrize("name", SHAPES)


@each_shape
def test_each_shape_of_an_answer_has_its_blank(name: str) -> None:
    answer, made = SHAPES[name]
    assert blanked(answer) == made


@each_shape
def test_what_is_blanked_runs(name: str) -> None:
    scope: dict[str, object] = {"g": lambda function: function}
    exec(compile(blanked(SHAPES[name][0]), name, "exec"), scope)


@each_shape
def test_blanking_twice_is_blanking_once(name: str) -> None:
    once = blanked(SHAPES[name][0])
    assert blanked(once) == once


def statements(text: str) -> set[str]:
    """Return what code does, as text: all statements but definitions and imports."""
    kept = (
        ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        | ast.Import | ast.ImportFrom
    )  # fmt: skip
    docstrings = {
        id(node.body[0])
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kept) and hasattr(node, "body")
    }
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt)
        and not isinstance(node, kept)
        and id(node) not in docstrings
        and not (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
        )
        and not (isinstance(node, ast.AnnAssign) and node.value is None)
    }


@each_shape
def test_no_statement_of_the_answer_is_left(name: str) -> None:
    answer = SHAPES[name][0].replace("\r", "")
    assert statements(answer) & statements(blanked(answer)) == set()


@each_shape
def test_no_comment_but_the_blank_s_own_is_left(name: str) -> None:
    made = io.StringIO(blanked(SHAPES[name][0]))
    assert {
        token.string
        for token in tokenize.generate_tokens(made.readline)
        if token.type == tokenize.COMMENT
    } <= {"# your answer here"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("x = 1\nfor i in range(3):\n    x += i", "line 2: .*'for'"),
        ("if True:\n    x = 1", "line 1: .*'if'"),
        ("with open('a') as f:\n    x = 1", "line 1: .*'with'"),
        ("x = 1\n%timeit x", "line 2: an answer is plain Python"),
        ("print(1)  # done", "nothing of the answer would remain"),
    ],
)
def test_what_has_no_blank_is_refused_with_its_line(
    answer: str, why: str
) -> None:
    with pytest.raises(BlankError, match=why):
        blanked(answer)


# ----------------------------------------------------------------------------- whole notebooks
def shown(notebook: NotebookNode) -> list[str]:
    """Return the ids of the cells that a student sees."""
    return [c.id for c in notebook.cells if blanks.LEFT_OUT not in tags(c)]


def test_a_student_gets_all_but_the_solutions() -> None:
    made = blanks.student(small_source.source(), small_source.NAME)
    assert shown(made) == [
        "title",
        "imports",
        "state-double",
        "words-ex-small-double",
        "code-double",
        "check-double",
        "given-1",
        "state-steps",
        "words-ex-small-steps",
        "code-steps",
        "check-steps",
        "state-prove",
        "words-ex-small-prove",
        "state-larger",
        "words-ex-small-larger",
        "code-larger",
        "check-larger",
        "end",
    ]


def test_a_student_gets_no_output_and_nothing_secret() -> None:
    made = blanks.student(small_source.source(), small_source.NAME)
    seen = [c for c in made.cells if blanks.LEFT_OUT not in tags(c)]
    assert "SECRET" not in str(seen)
    code = [c for c in seen if c.cell_type == "code"]
    assert all(c.outputs == [] and c.execution_count is None for c in code)


def test_a_teacher_gets_all_of_it() -> None:
    source = small_source.source()
    assert blanks.teacher(source, small_source.NAME).cells == source.cells


def test_an_edition_says_which_exercises_it_holds() -> None:
    made = blanks.student(small_source.source(), small_source.NAME)
    version = blanks.version(read(small_source.source()))
    assert made.metadata["course"] == {
        "edition": "student",
        "exercises": "small-exercises",
        "version": version,
    }
    assert re.fullmatch("[0-9a-f]{12}", version)


def test_the_source_is_left_as_it_was() -> None:
    source = small_source.source()
    before = copy.deepcopy(source)
    blanks.student(source, small_source.NAME)
    blanks.teacher(source, small_source.NAME)
    assert source == before


def test_another_way_to_the_same_answer_is_the_same_version() -> None:
    source = small_source.source()
    before = blanks.version(read(source))
    small_source.cell_of(source, "code-steps").source = "steps = 7"
    assert blanks.version(read(source)) == before
    small_source.cell_of(source, "code-steps").source = "stages = 7"
    assert blanks.version(read(source)) != before


def start_in_the_middle(notebook: NotebookNode) -> None:
    """The statement and the solution share a cell."""
    start = small_source.cell_of(notebook, "start-double")
    start.source = f"Words before.\n\n{start.source}"


def more_after_the_end(notebook: NotebookNode) -> None:
    """The solution and what follows share a cell."""
    small_source.cell_of(notebook, "end-double").source += "\n\nMore."


def no_end(notebook: NotebookNode) -> None:
    """The last solution does not end."""
    small_source.cell_of(notebook, "end-larger").source = "The reasons."


def started_twice(notebook: NotebookNode) -> None:
    """A solution starts within another."""
    small_source.cell_of(notebook, "end-double").source = "The reasons."


def whole_solution(notebook: NotebookNode) -> None:
    """A solution is written in another of sphinx-exercise's ways."""
    notebook.cells.append(
        new_markdown_cell(":::{solution} ex-small-steps\nSeven.\n:::")
    )


def nested_start(notebook: NotebookNode) -> None:
    """A solution starts within a box."""
    notebook.cells.append(
        new_markdown_cell(
            "::::{note}\n:::{solution-start} ex-small-steps\n:::\nSeven.\n::::"
        )
    )


def answer_outside(notebook: NotebookNode) -> None:
    """An answer is in no solution."""
    notebook.cells.append(
        new_code_cell("x = 1", metadata={"tags": ["answer"]})
    )


def loop_in_answer(notebook: NotebookNode) -> None:
    """An answer cannot be blanked."""
    small_source.cell_of(notebook, "code-steps").source = "while True: pass"


def no_facts(notebook: NotebookNode) -> None:
    """An exercise does not say its level."""
    cell = small_source.cell_of(notebook, "state-steps")
    cell.source = cell.source.replace("Level 2", "Level 4")


def unsolved(notebook: NotebookNode) -> None:
    """An exercise is without a solution."""
    cell = small_source.cell_of(notebook, "state-steps")
    cell.source = cell.source.replace("ex-small-steps", "ex-small-other")


@pytest.mark.parametrize(
    "spoil",
    [
        start_in_the_middle,
        more_after_the_end,
        no_end,
        started_twice,
        whole_solution,
        nested_start,
        answer_outside,
        loop_in_answer,
        no_facts,
        unsolved,
    ],
)
def test_a_source_whose_solutions_cannot_be_told_from_the_rest_is_refused(
    spoil,
) -> None:
    source = small_source.source()
    spoil(source)
    with pytest.raises(SourceError):
        blanks.student(source, small_source.NAME)
