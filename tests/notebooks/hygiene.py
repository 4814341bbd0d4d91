"""What a stored notebook must be, beyond what nbval compares: each check returns its complaints."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from nbformat import NotebookNode

# Notebook and cell of an output that nbval may leave uncompared, and why. Meant to stay empty.
UNCOMPARED: dict[tuple[str, str], str] = {}

IMAGES = ("image/png", "image/jpeg", "image/svg+xml")
FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
NBVAL_TAGS = {"nbval-ignore-output", "nbval-skip", "nbval-raises-exception"}
NBVAL_COMMENT = re.compile(
    r"^\s*#\s*(NBVAL_|PYTEST_VALIDATE_)", re.MULTILINE
)
FOREIGN = {
    "an absolute path": re.compile(
        r"(?<![\w.:/])/(?:bin|content|data|etc|home|lib|mnt|opt|private|root|srv|tmp|usr|Users|var"
        r"|venv|Volumes|work|workspace)/|\b[A-Za-z]:\\\w|(?<!\w)~/\w"
    ),
    "a memory address": re.compile(r"\b0x[0-9a-fA-F]{4,}"),
    "an address on the network": re.compile(
        r"\b\w+://|\blocalhost\b|\b\d+\.\d+\.\d+\.\d+\b"
    ),
}
DOWNLOAD = re.compile(
    r"\burlopen\b|\burlretrieve\b|\brequests\.|\bhttpx\.|\bwget\b|\bcurl\b|\bpip\b"
    r"|\btorch\.hub\b|\bfrom_pretrained\b|\bsnapshot_download\b|\bdownload=True"
)
LABEL = re.compile(
    r"^\(([\w:.-]+)\)=\s*$"  # (target)=
    r"|^\s*:(?:label|name):\s*(\S+)\s*$"  # option of a directive
    r"|\$\$\s*\(([\w:.-]+)\)\s*$"  # $$ … $$ (label)
    r"|\\label\{([^}]+)\}",
    re.MULTILINE,
)


def code_cells(notebook: NotebookNode) -> Iterator[tuple[str, NotebookNode]]:
    """Code cells with the words by which a complaint names them."""
    for position, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code":
            yield f"cell {position} ({cell.id})", cell


def texts(cell: NotebookNode) -> Iterator[str]:
    """All text that a cell's outputs put on the page."""
    for output in cell.outputs:
        yield from (
            output[key]
            for key in ("text", "ename", "evalue")
            if key in output
        )
        yield from output.get("traceback", [])
        for kind, data in output.get("data", {}).items():
            if kind not in IMAGES:
                yield data if isinstance(data, str) else repr(data)


def has_image(cell: NotebookNode) -> bool:
    """Whether the cell shows a picture."""
    return any(
        kind in output.get("data", {})
        for output in cell.outputs
        for kind in IMAGES
    )


def parse(cell: NotebookNode) -> ast.Module:
    """Syntax tree of a cell; one that is not plain Python counts as a bare expression."""
    try:
        return ast.parse(cell.source)
    except SyntaxError:
        return ast.parse("None")


def surely_shows(cell: NotebookNode) -> bool:
    """Whether the cell must have an output, as far as its text tells.

    Certain are print, display and show at the top level, and a last expression that is not a call;
    a call may well return None, and nbval sees what it returns.
    """
    body = parse(cell).body
    calls = [
        node.value.func
        for node in body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    names = {
        getattr(call, "id", getattr(call, "attr", "")) for call in calls
    }
    last = body[-1] if body else None
    value = isinstance(last, ast.Expr) and not isinstance(
        last.value, ast.Call | ast.Constant
    )
    return value or bool(names & {"print", "display", "show"})


def execution_order(notebook: NotebookNode) -> list[str]:
    """Run from the first cell to the last in one go: counts are 1 … n."""
    return [
        f"{name} has execution count {cell.execution_count}, not {expected}: run the chapter anew"
        for expected, (name, cell) in enumerate(
            code_cells(notebook), start=1
        )
        if cell.execution_count != expected
        or any(
            output.get("execution_count", expected) != expected
            for output in cell.outputs
        )
    ]


def outputs_present(notebook: NotebookNode) -> list[str]:
    """What prints or shows has an output."""
    return [
        f"{name} shows something, and no output is stored"
        for name, cell in code_cells(notebook)
        if not cell.outputs and surely_shows(cell)
    ]


def errors_tagged(notebook: NotebookNode) -> list[str]:
    """A cell has an error exactly when it is tagged raises-exception."""
    complaints = []
    for name, cell in code_cells(notebook):
        failed = any(
            output.output_type == "error" for output in cell.outputs
        )
        if failed != ("raises-exception" in cell.metadata.get("tags", [])):
            complaints.append(
                f"{name} {'has an error' if failed else 'has none'}, and its tags say otherwise"
            )
    return complaints


def nothing_of_this_machine(notebook: NotebookNode) -> list[str]:
    """Outputs name no path, address or host."""
    return [
        f"{name} shows {what}: {found.group()!r}"
        for name, cell in code_cells(notebook)
        for text in texts(cell)
        for what, pattern in FOREIGN.items()
        if (found := pattern.search(text))
    ]


def all_compared(notebook: NotebookNode, stem: str = "") -> list[str]:
    """No output is kept from nbval."""
    return [
        f"{name} keeps its output from being compared"
        for name, cell in code_cells(notebook)
        if (stem, cell.id) not in UNCOMPARED
        and (
            NBVAL_TAGS & set(cell.metadata.get("tags", []))
            or NBVAL_COMMENT.search(cell.source)
        )
    ]


def alt_text(cell: NotebookNode) -> str:
    """Words for a reader who cannot see the cell's figure."""
    return str(
        cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
    ).strip()


def figures_described(notebook: NotebookNode) -> list[str]:
    """Every figure has an alt text of substance and a caption that is another text."""
    complaints = []
    for name, cell in code_cells(notebook):
        if not has_image(cell):
            continue
        alt = alt_text(cell)
        caption = str(
            cell.metadata.get("mystnb", {})
            .get("figure", {})
            .get("caption", "")
        ).strip()
        if len(alt) < 40 or re.fullmatch(r"\S+", alt):
            complaints.append(
                f"{name} needs an alt text (mystnb.image.alt) that says what is seen"
            )
        if not caption:
            complaints.append(
                f"{name} needs a caption (mystnb.figure.caption)"
            )
        elif caption == alt:
            complaints.append(f"{name} repeats its caption as alt text")
        if (
            sum(
                any(kind in out.get("data", {}) for kind in IMAGES)
                for out in cell.outputs
            )
            > 1
        ):
            complaints.append(
                f"{name} shows several figures and can describe only one"
            )
    return complaints


def alike(first: str, second: str) -> bool:
    """Whether two texts are the same but for case and spacing."""
    return first.lower().split() == second.lower().split()


def alt_texts_differ(notebook: NotebookNode) -> list[str]:
    """No two figures are described alike."""
    described = sorted(
        (alt_text(cell), name) for name, cell in code_cells(notebook)
    )
    return [
        f"{second} repeats the alt text of {first}"
        for (one, first), (other, second) in pairwise(described)
        if one and alike(one, other)
    ]


def cell_sizes(notebook: NotebookNode) -> list[str]:
    """Cells a reader takes in at a glance.

    A house rule wants a median of 8 lines; what is over 12 is refused. Cells whose code is folded
    away on the page do not count in it.
    """
    cells = list(code_cells(notebook))
    lines = {name: len(cell.source.splitlines()) for name, cell in cells}
    complaints = [
        f"{name} has {count} lines: 1 to 25"
        for name, count in lines.items()
        if not 1 <= count <= 25
    ]
    seen = [
        lines[name]
        for name, cell in cells
        if not FOLDED & set(cell.metadata.get("tags", []))
    ]
    if seen and median(seen) > 12:
        complaints.append(
            f"the median cell has {median(seen)} lines, over 12"
        )
    return complaints


def chapter_length(notebook: NotebookNode) -> list[str]:
    """Enough for a chapter, and no more than for one sitting."""
    code, cells = len(list(code_cells(notebook))), len(notebook.cells)
    if code > 35 or cells < 15:
        return [
            f"{code} code cells of {cells} in all:"
            " 15 or more in all, 35 or fewer of code"
        ]
    return []


def imports_first(notebook: NotebookNode) -> list[str]:
    """The first code cell imports, and does nothing else."""
    return [
        f"{name} is the first code cell and does more than import"
        for name, cell in list(code_cells(notebook))[:1]
        if not all(
            isinstance(node, ast.Import | ast.ImportFrom)
            for node in parse(cell).body
        )
        or not cell.source.strip()
    ]


def plain_python(notebook: NotebookNode) -> list[str]:
    """No magics, no shell, nothing fetched: it runs anywhere, offline."""
    complaints = []
    for name, cell in code_cells(notebook):
        try:
            ast.parse(cell.source)
        except SyntaxError:
            complaints.append(f"{name} is not plain Python")
        if found := DOWNLOAD.search(cell.source):
            complaints.append(
                f"{name} may fetch something: {found.group()!r}"
            )
    return complaints


def opening(notebook: NotebookNode) -> list[str]:
    """One title, at the top, and a description for the page's head."""
    complaints = []
    first = notebook.cells[0] if notebook.cells else None
    lines = (
        []
        if first is None
        else [
            line
            for line in first.source.splitlines()
            if line.strip() and not LABEL.match(line)
        ]
    )
    if (
        first is None
        or first.cell_type != "markdown"
        or not lines
        or lines[0][:2] != "# "
    ):
        complaints.append(
            "the first cell is not Markdown that opens with a title (# …)"
        )
    text = "\n".join(
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "markdown"
    )
    titles = re.findall(
        r"^# ",
        re.sub(r"^(`{3,}|~{3,}).*?^\1", "", text, flags=re.M | re.S),
        re.M,
    )
    if len(titles) != 1:
        complaints.append(f"{len(titles)} titles (# …), not one")
    description = description_of(notebook)
    if not 50 <= len(description) <= 200:
        complaints.append(
            "myst.html_meta.description needs 50 to 200 characters"
        )
    return complaints


def description_of(notebook: NotebookNode) -> str:
    """The page's description for search engines and link previews."""
    html_meta = notebook.metadata.get("myst", {}).get("html_meta", {})
    return str(html_meta.get("description", "")).strip()


def labels(notebook: NotebookNode) -> list[str]:
    """Names that the notebook gives to sections, equations, theorems and figures."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            found += [
                next(filter(None, match.groups()))
                for match in LABEL.finditer(cell.source)
            ]
        elif (
            name := cell.metadata.get("mystnb", {})
            .get("figure", {})
            .get("name")
        ):
            found.append(name)
    return found


CHECKS = [
    execution_order,
    outputs_present,
    errors_tagged,
    nothing_of_this_machine,
    all_compared,
    figures_described,
    alt_texts_differ,
    cell_sizes,
    imports_first,
    plain_python,
    opening,
]
# Of what is read, not of exercises, which exercise_hygiene.py looks at.
CHAPTER_CHECKS = [chapter_length]
