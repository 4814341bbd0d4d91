"""Execute chapters in place and store their outputs, byte for byte the same each time.

python tools/execute.py                        every chapter
python tools/execute.py multi-head-attention   one
python tools/execute.py --no-run               only bring the files to their normal form
python tools/execute.py --check                write nothing, fail if a file would change
"""

import argparse
import copy
import json
import logging
import os
import sys
from pathlib import Path

import ipykernel.kernelspec
import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import (
    CellControlSignal,
    CellExecutionError,
    DeadKernelError,
)
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = ROOT / "chapters"
CELL_TIMEOUT = 120

NOTEBOOK_METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    # Without the interpreter's version, which says nothing about the outputs.
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
# What an author may set; the rest is what editors leave behind.
KEPT_NOTEBOOK_METADATA = {"myst", "mystnb"}
KEPT_CELL_METADATA = {"tags", "mystnb"}


# What makes a kernel's outputs independent of who runs it: no settings of the user's for IPython
# and matplotlib, one thread unless told otherwise, no GPU, one order of sets.
THREADS = os.environ.get("NOTEBOOK_THREADS", "1")
KERNEL_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",
    "IPYTHONDIR": str(ROOT / ".make" / "ipython"),
    "MKL_NUM_THREADS": THREADS,
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "MPLCONFIGDIR": str(ROOT / ".make" / "matplotlib"),
    "OMP_NUM_THREADS": THREADS,
    "OPENBLAS_NUM_THREADS": THREADS,
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "",
    "VECLIB_MAXIMUM_THREADS": THREADS,
}


class OneKernel(KernelSpecManager):
    """Knows one kernel: that of an interpreter, whatever else the user has registered."""

    python = sys.executable

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the kernel of the interpreter."""
        kernel = ipykernel.kernelspec.get_kernel_dict()
        kernel["argv"][0] = self.python
        return KernelSpec(
            resource_dir=ipykernel.kernelspec.RESOURCES, **kernel
        )


class StoppedError(Exception):
    """A chapter could not be executed to its end; the message names the cell and says why."""


def load(path: Path) -> NotebookNode:
    """Read a notebook of format 4; a cell without an id gets one from its position."""
    notebook = nbformat.from_dict(
        json.loads(path.read_text(encoding="utf-8"))
    )
    if notebook.get("nbformat") != 4:
        raise ValueError("not a notebook of format 4")
    taken = set()
    for position, cell in enumerate(notebook.cells):
        if cell.get("id") in taken | {None}:
            cell.id = f"cell-{position:02}"
        taken.add(cell.id)
    notebook.nbformat_minor = max(5, notebook.nbformat_minor)
    return nbformat.reads(json.dumps(notebook), as_version=4)


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Return a copy without what may differ between two equal runs."""
    notebook = copy.deepcopy(notebook)
    kept = {
        key: value
        for key, value in notebook.metadata.items()
        if key in KEPT_NOTEBOOK_METADATA
    }
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA | kept)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {
                key: value
                for key, value in cell.metadata.items()
                if key in KEPT_CELL_METADATA and value
            }
        )
        cell.source = "\n".join(
            line.rstrip() for line in cell.source.strip("\n").split("\n")
        )
        cell.pop("attachments", None)
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                # The frames name files of this machine; a reader needs the message.
                output.traceback = [f"{output.ename}: {output.evalue}"]
            elif output.output_type == "execute_result":
                output.execution_count = cell.execution_count
    return notebook


def dumps(notebook: NotebookNode) -> str:
    """Return the text of a file that holds the notebook."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def execute(
    notebook: NotebookNode, folder: Path, python: str = sys.executable
) -> NotebookNode:
    """Return a normalised copy with the outputs of a fresh kernel started in `folder`.

    The kernel is that of the interpreter `python`.

    Raises `StoppedError` at the first cell that raises without being tagged raises-exception, is
    tagged so and does not raise, takes too long, or ends the kernel.
    """
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    # Else an interrupted run ends with what asyncio thinks of it.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    reached = {"cell": notebook.cells[0], "cell_index": 0}
    kernels = OneKernel()
    kernels.python = python
    client = NotebookClient(
        notebook,
        km=AsyncKernelManager(kernel_spec_manager=kernels),
        extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        coalesce_streams=True,
        record_timing=False,
        timeout=CELL_TIMEOUT,
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=reached.update,
    )

    def stopped(reason: str) -> StoppedError:
        cell = reached["cell"]
        first_line = cell.source.strip().partition("\n")[0]
        return StoppedError(
            f"cell {reached['cell_index'] + 1} ({cell.id}: {first_line}) {reason}"
        )

    try:
        client.execute(env=os.environ | KERNEL_ENVIRONMENT)
    except CellExecutionError as error:
        raise stopped(f"raised {error.ename}: {error.evalue}") from None
    except DeadKernelError:
        raise stopped(
            "lost its kernel: it crashed, or the run was interrupted"
        ) from None
    except (CellControlSignal, TimeoutError):
        raise stopped(f"took more than {CELL_TIMEOUT} s") from None
    for position, cell in enumerate(notebook.cells):
        failed = any(
            output.output_type == "error"
            for output in cell.get("outputs", [])
        )
        if (
            "raises-exception" in cell.metadata.get("tags", [])
            and not failed
        ):
            reached.update(cell=cell, cell_index=position)
            raise stopped("is tagged raises-exception and raised nothing")
    return normalise(notebook)


def write(path: Path, text: str) -> bool:
    """Replace the file in one step unless it holds the text already; say whether it changed."""
    if path.read_text(encoding="utf-8") == text:
        return False
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text, encoding="utf-8", newline="\n")
        new.chmod(path.stat().st_mode)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return True


def refresh(path: Path, *, run: bool = True, check: bool = False) -> bool:
    """Execute or only normalise one file; say whether it changed, or with `check` would."""
    notebook = load(path)
    text = dumps(
        execute(notebook, path.parent) if run else normalise(notebook)
    )
    if check:
        return path.read_text(encoding="utf-8") != text
    return write(path, text)


def find(name: str) -> Path:
    """Return the chapter that goes by a name, with or without folder and suffix."""
    path = CHAPTERS / f"{Path(name).name.removesuffix('.ipynb')}.ipynb"
    if not path.is_file():
        known = ", ".join(
            sorted(chapter.stem for chapter in CHAPTERS.glob("*.ipynb"))
        )
        raise SystemExit(
            f"make: there is no chapter {name}; there are: {known or 'none'}"
        )
    return path


def main() -> int:
    """Execute the chapters named on the command line."""
    parser = argparse.ArgumentParser(
        description="Execute chapters in place."
    )
    parser.add_argument(
        "chapter", nargs="*", help="name of a chapter (default: all)"
    )
    parser.add_argument(
        "--no-run", action="store_true", help="only normalise the files"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing, fail on a change",
    )
    options = parser.parse_args()
    differing = []
    paths = [find(name) for name in options.chapter] or sorted(
        CHAPTERS.glob("*.ipynb")
    )
    for path in paths:
        print(f"{path.stem}:", end=" ", flush=True)
        try:
            changed = refresh(
                path, run=not options.no_run, check=options.check
            )
        except (StoppedError, ValueError, OSError) as error:
            print("stopped", flush=True)
            print(
                f"make: {path.name} is left as it was: {error}",
                file=sys.stderr,
            )
            return 1
        except KeyboardInterrupt:
            print("stopped; the file is left as it was", flush=True)
            return 130
        if options.check:
            differing += [path.name] * changed
            print("differs" if changed else "the same bytes", flush=True)
        else:
            print("rewritten" if changed else "unchanged", flush=True)
    if differing:
        print(
            f"make: another run gives other bytes: {', '.join(differing)}",
            file=sys.stderr,
        )
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main())
