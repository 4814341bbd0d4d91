"""A small sound notebook, and what can be wrong with a notebook: each planter spoils a copy."""

import base64
import copy
import io
import re
from collections.abc import Callable

import nbformat
from execute import normalise
from nbformat import NotebookNode
from PIL import Image

ALT = "A line that rises from the lower left corner to the upper right one."
SOUND_CELLS = [
    "# A small chapter\n\nIt has what a chapter has, and nothing of attention.",
    "import matplotlib.pyplot as plt\nimport numpy as np",
    "print(f'{np.log(2):.4f}')",
    "'nothing is left to chance'",
    "np.arange(6).reshape(2, 3)",
    "fig, ax = plt.subplots(figsize=(2, 1))\nax.plot([0, 1])\nplt.show()",
    "raise ValueError('heads must divide the width')",
]


def sound_notebook() -> NotebookNode:
    """Build the notebook, not yet executed, long enough for a chapter."""
    sources = SOUND_CELLS + [
        f"x{i} = {i}" for i in range(15 - len(SOUND_CELLS))
    ]
    cells = [nbformat.v4.new_markdown_cell(sources[0])]
    cells += [nbformat.v4.new_code_cell(source) for source in sources[1:]]
    for position, cell in enumerate(cells):
        cell.id = f"cell-{position}"
    cells[5].metadata["mystnb"] = {
        "image": {"alt": ALT},
        "figure": {"caption": "A line."},
    }
    cells[6].metadata["tags"] = ["raises-exception"]
    description = "A small chapter that the tests spoil in every way that they must notice."
    metadata = {"myst": {"html_meta": {"description": description}}}
    return normalise(
        nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    )


def plant(
    notebook: NotebookNode, edit: Callable[[NotebookNode], bool | None]
) -> NotebookNode:
    """Return a copy in which `edit` has spoilt one code cell: the first that it can.

    `edit` returns False for a cell that lacks what it spoils, and has not touched it then.
    """
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code" and edit(cell) is not False:
            return notebook
    raise LookupError(f"no cell for {edit.__name__}")


# ------------------------------------------------------------------------- what nbval must reject
def wrong_digit(cell: NotebookNode) -> bool:
    """The last digit printed is another one."""
    for output in cell.outputs:
        if output.output_type == "stream" and re.search(r"\d", output.text):
            head, digit, tail = re.fullmatch(
                r"(.*)(\d)(.*)", output.text, re.DOTALL
            ).groups()
            output.text = f"{head}{(int(digit) + 1) % 10}{tail}"
            return True
    return False


def wrong_word(cell: NotebookNode) -> bool:
    """A value shown has another word or digit."""
    for output in cell.outputs:
        if output.output_type == "execute_result":
            text = output.data["text/plain"]
            output.data["text/plain"] = re.sub(
                r"\w+", "something", text, count=1
            )
            return True
    return False


def dropped_output(cell: NotebookNode) -> bool:
    """An output is gone."""
    return bool(cell.outputs) and (cell.outputs.pop() is not None)


def changed_figure(cell: NotebookNode) -> bool:
    """One pixel of a figure has another colour; the file is a valid PNG."""
    for output in cell.outputs:
        if encoded := output.get("data", {}).get("image/png"):
            image = Image.open(io.BytesIO(base64.b64decode(encoded)))
            red, *others = image.getpixel((3, 3))
            image.putpixel((3, 3), (red ^ 1, *others))
            image.save(buffer := io.BytesIO(), "png")
            output.data["image/png"] = (
                base64.b64encode(buffer.getvalue()).decode() + "\n"
            )
            return True
    return False


def wrong_message(cell: NotebookNode) -> bool:
    """The message of an error that is shown on purpose has another word."""
    for output in cell.outputs:
        if output.output_type == "error":
            output.evalue += " indeed"
            return True
    return False


def failing_code(cell: NotebookNode) -> bool:
    """The code raises what nobody expects."""
    if not cell.outputs:
        return False
    cell.source = f"missing\n{cell.source}"
    return True


NBVAL_REJECTS = [
    wrong_digit,
    wrong_word,
    dropped_output,
    changed_figure,
    wrong_message,
    failing_code,
]


# ------------------------------------------------------------- what the checks of hygiene.py must
def unrun_cell(cell: NotebookNode) -> bool:
    """A cell that shows something was never run."""
    if "print(" not in cell.source:
        return False
    cell.execution_count, cell.outputs = None, []
    return True


def reordered_count(cell: NotebookNode) -> None:
    """A cell was run after the others."""
    cell.execution_count += 100


def untagged_error(cell: NotebookNode) -> bool:
    """An error on the page, and no tag that says it is meant."""
    if any(output.output_type == "error" for output in cell.outputs):
        del cell.metadata["tags"]
    elif not cell.outputs:
        return False
    else:
        error = {
            "output_type": "error",
            "ename": "E",
            "evalue": "",
            "traceback": [],
        }
        cell.outputs.append(nbformat.from_dict(error))
    return True


def tag_without_error(cell: NotebookNode) -> None:
    """A cell is said to fail, and did not."""
    cell.metadata["tags"] = ["raises-exception"]


def shows(text: str) -> Callable[[NotebookNode], None]:
    """Return a planter of an output with the text."""

    def shown(cell: NotebookNode) -> None:
        cell.outputs.append(
            nbformat.v4.new_output("stream", text=f"it says {text}\n")
        )

    return shown


def has_source(source: str) -> Callable[[NotebookNode], None]:
    """Return a planter of a cell's code."""

    def replaced(cell: NotebookNode) -> None:
        cell.source = source

    return replaced


def skipped(cell: NotebookNode) -> None:
    """nbval is told to skip the cell."""
    cell.metadata["tags"] = ["nbval-skip"]


def figure_metadata(**entries: str) -> Callable[[NotebookNode], bool]:
    """Return a planter that sets the alt text or the caption of a figure."""

    def edited(cell: NotebookNode) -> bool:
        if not any(
            "image/png" in output.get("data", {}) for output in cell.outputs
        ):
            return False
        for key, value in entries.items():
            section = {"alt": "image", "caption": "figure"}[key]
            cell.metadata.setdefault("mystnb", {}).setdefault(section, {})[
                key
            ] = value
        return True

    return edited


def second_figure(cell: NotebookNode) -> bool:
    """A cell shows its figure twice."""
    for output in cell.outputs:
        if "image/png" in output.get("data", {}):
            cell.outputs.append(output)
            return True
    return False


def timed(cell: NotebookNode) -> None:
    """The time of the run is stored."""
    cell.metadata["execution"] = {
        "iopub.execute_input": "2026-01-01T00:00:00Z"
    }


def collapsed(cell: NotebookNode) -> None:
    """An editor's view is stored."""
    cell.metadata["collapsed"] = True


HYGIENE_REJECTS = {
    "unrun cell": ("outputs_present", unrun_cell),
    "unrun count": ("execution_order", unrun_cell),
    "reordered counts": ("execution_order", reordered_count),
    "untagged error": ("errors_tagged", untagged_error),
    "tag without error": ("errors_tagged", tag_without_error),
    "absolute path": (
        "nothing_of_this_machine",
        shows("/home/ada/book/attention/masks.py"),
    ),
    "Windows path": ("nothing_of_this_machine", shows(r"C:\Users\ada")),
    "memory address": (
        "nothing_of_this_machine",
        shows("<object at 0x7f3a5c0d2e80>"),
    ),
    "host": ("nothing_of_this_machine", shows("http" + "://localhost:8888")),
    "skip tag": ("all_compared", skipped),
    "skip comment": ("all_compared", has_source("# NBVAL_IGNORE_OUTPUT\n1")),
    "no alt text": ("figures_described", figure_metadata(alt="")),
    "file name as alt text": (
        "figures_described",
        figure_metadata(alt=f"../{'x' * 50}.png"),
    ),
    "caption as alt text": (
        "figures_described",
        figure_metadata(alt=ALT, caption=ALT),
    ),
    "no caption": ("figures_described", figure_metadata(caption="")),
    "two figures": ("figures_described", second_figure),
    "long cell": ("cell_sizes", has_source("x = 1\n" * 26)),
    "empty cell": ("cell_sizes", has_source("")),
    "work before imports": (
        "imports_first",
        has_source("import numpy as np\nx = np.ones(3)"),
    ),
    "magic": ("plain_python", has_source("%timeit x")),
    "shell": ("plain_python", has_source("!ls")),
    "download": (
        "plain_python",
        has_source("from urllib.request import urlopen"),
    ),
}
FORM_REJECTS = {"timing": timed, "collapsed": collapsed}
