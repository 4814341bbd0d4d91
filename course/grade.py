"""Grade submissions: run each in a kernel of its own, check every answer, count the points.

    make grade FILES=submissions/

A submission is a student's notebook, with answers. Its cells are run from the first to the last in
a fresh, confined kernel (`course/confined.py`). After the place where its own check stands, or its
answer where that is gone, each exercise's check is run: the one of the source notebook, never the
student's. A right answer earns the exercise's level in points. What is answered in words is listed,
and left to a person.

Whatever a submission does costs its own points only: a cell that raises is followed by the next,
one that does not end is interrupted, a kernel that is lost ends what comes after, and a file that
is no submission is a row with the reason. The exit status is 0 if the grading worked, whatever the
marks.

What isolation this has and has not: course/README.md. It is no wall against people who mean harm.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from course.blanks import version
from course.confined import CHECK, REFUSED
from course.exercises import (
    ROOT,
    Exercise,
    SourceError,
    load,
    read,
    sources,
    title_of,
)

sys.path.append(str(ROOT / "tools"))

from execute import KERNEL_ENVIRONMENT, OneKernel

CONFINED = Path(__file__).with_name("confined.py")
# What a kernel gets of the environment, beside KERNEL_ENVIRONMENT.
PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "PATH", "SYSTEMROOT", "TZ")
# Where solutions are, or can be read from.
CLOSED = ("chapters", "course", "tests", "_build", ".git")
WRITTEN = ("grades.csv", "grades.json")
LARGEST_FILE = 100 << 20
LONGEST_REMARK = 200


@dataclass(frozen=True)
class Limits:
    """What a submission may use: seconds, megabytes, and numbers of processes."""

    # A check gives an answer that loops some time of its own before it says so.
    cell: float = 60
    whole: float = 600
    # To start, which is not the submission's; and to end after an interrupt.
    start: float = 120
    grace: float = 5
    memory: int = 2048
    file_size: int = 64
    processes: int = 256


@dataclass(frozen=True)
class Source:
    """The exercises of a source notebook."""

    name: str
    # Of the chapter.
    number: int
    title: str
    version: str
    exercises: list[Exercise]


@dataclass
class Mark:
    """What a submission has for one exercise."""

    # As on the pages: of the chapter, and in it.
    number: str
    exercise: str
    title: str
    of: int
    # right, wrong, blank, not reached or by hand
    state: str
    points: int = 0
    says: str = ""
    first_input: str = ""


@dataclass
class Result:
    """A submission's marks, and what is to be said of it."""

    submission: str
    exercises: str = ""
    points: int = 0
    of: int = 0
    remarks: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    walls: list[str] = field(default_factory=list)


class SubmissionError(ValueError):
    """A file is no submission; the message says why."""


class LostError(Exception):
    """The kernel is gone, or had to be ended; the message says which."""


class GradingError(Exception):
    """The grading itself does not work."""


# ------------------------------------------------------------------------------------ the kernel
@cache
def font_list() -> Path:
    """Return Matplotlib's list of fonts, for whose making it starts a program: once, out here.

    The list of another version would not do.
    """
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "from matplotlib.font_manager import FontManager;"
            " print(FontManager.__version__)",
        ],
        env=os.environ | KERNEL_ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    version = asked.stdout.split()[-1]
    folder = Path(KERNEL_ENVIRONMENT["MPLCONFIGDIR"])
    return folder / f"fontlist-v{version}.json"


class ConfinedKernel(OneKernel):
    """Knows one kernel: the confined one."""

    options: dict[str, Any]

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the interpreter's kernel, started within walls."""
        spec = super().get_kernel_spec(kernel_name)
        spec.argv = [
            self.python,
            "-P",
            str(CONFINED),
            json.dumps(self.options),
            "-f",
            "{connection_file}",
        ]
        return spec


class Session:
    """A confined kernel in a folder of its own, that runs cells and checks within limits.

    Nobody listens to what the cells show: what they print, however much, is dropped.
    """

    def __init__(
        self,
        limits: Limits,
        checkers: str,
        path: list[str],
        closed: list[str],
    ) -> None:
        self.limits = limits
        self.folder = tempfile.TemporaryDirectory(
            prefix="grade-", ignore_cleanup_errors=True
        )
        self.work = Path(self.folder.name, "work")
        specs = ConfinedKernel()
        specs.options = {
            "checkers": checkers,
            "closed": closed,
            "file_size": limits.file_size,
            "folder": self.folder.name,
            "memory": limits.memory,
            "path": path,
            "processes": limits.processes,
            "processor": int(limits.whole + limits.start) + 1,
        }
        self.manager = KernelManager(
            kernel_spec_manager=specs,
            connection_file=str(Path(self.folder.name, "kernel.json")),
            transport="ipc" if os.name == "posix" else "tcp",
        )
        self.deadline = 0.0

    def __enter__(self) -> Session:
        """Start the kernel, and wait until it listens."""
        self.work.mkdir()
        environment = self.environment()
        self.log = Path(self.folder.name, "kernel.log").open("wb")
        try:
            self.manager.start_kernel(
                cwd=str(self.work),
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=self.log,
            )
            self.client = self.manager.client()
            self.client.start_channels(
                iopub=False, stdin=False, hb=False, control=False
            )
            self.walls = self.ask(CHECK, self.limits.start)["walls"]
        except LostError as error:
            said = Path(self.log.name).read_text("utf-8", "replace").strip()
            self.__exit__()
            raise GradingError(
                f"the kernel does not start: {error}: {said[-2000:]}"
            ) from None
        self.deadline = time.monotonic() + self.limits.whole
        return self

    def environment(self) -> dict[str, str]:
        """Return the kernel's environment: nothing of the grader's, and a home that is empty."""
        passed = {n: os.environ[n] for n in PASSED_ON if n in os.environ}
        fonts = self.work / ".matplotlib"
        fonts.mkdir()
        if font_list().is_file():  # where one can be kept
            shutil.copy(font_list(), fonts)
        home = dict.fromkeys(("HOME", "TMPDIR", "TEMP"), str(self.work))
        own = {
            "IPYTHONDIR": str(self.work / ".ipython"),
            "MPLCONFIGDIR": str(fonts),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return passed | KERNEL_ENVIRONMENT | home | own

    def __exit__(self, *_: object) -> None:
        """End the kernel and all that it has started, and remove its folder."""
        with suppress(Exception):
            # With all of its process group.
            self.manager.shutdown_kernel(now=True)
        with suppress(Exception):
            self.client.stop_channels()
        self.log.close()
        with suppress(Exception):  # folders too deep for Python, for example
            self.folder.cleanup()
        with suppress(OSError):
            if Path(self.folder.name).exists():
                subprocess.run(["rm", "-rf", self.folder.name], check=False)

    def reply(self, request: str, seconds: float) -> dict[str, Any] | None:
        """Return the answer to a request, None if there is none in time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                message = self.client.get_shell_msg(timeout=min(left, 0.5))
            except queue.Empty:
                if not self.manager.is_alive():
                    raise LostError("ended the kernel") from None
                continue
            if message["parent_header"].get("msg_id") == request:
                return message["content"]
        return None

    def ask(self, code: str, seconds: float) -> dict[str, Any]:
        """Return the kernel's reply to some code; interrupt it when its time is up."""
        started = time.monotonic()
        request = self.client.execute(
            code, store_history=False, allow_stdin=False, stop_on_error=False
        )
        found = self.reply(request, seconds)
        if found is None:
            self.manager.interrupt_kernel()
            found = self.reply(request, self.limits.grace)
            if found is None:
                raise LostError(
                    f"did not end within {seconds:.3g} s, nor when interrupted"
                )
            found["late"] = seconds
        found["seconds"] = time.monotonic() - started
        return found

    def run(self, code: str) -> dict[str, Any]:
        """Return the reply to a cell or a check, within what is left of the time."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise LostError(
                f"came after {self.limits.whole:g} s, which is all the time there is"
            )
        return self.ask(code, min(self.limits.cell, left))


# --------------------------------------------------------------------------------- the submission
def cells_of(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the cells and the metadata of a submission, in whatever program it was saved."""
    if path.suffix != ".ipynb":
        raise SubmissionError("not a notebook (.ipynb)")
    if path.stat().st_size > LARGEST_FILE:
        raise SubmissionError(f"larger than {LARGEST_FILE >> 20} MB")
    try:
        content = json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise SubmissionError(f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        empty = not path.stat().st_size
        raise SubmissionError(
            "an empty file" if empty else "not a notebook: no JSON"
        ) from None
    cells = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        raise SubmissionError("not a notebook of format 4")
    metadata = content.get("metadata")
    return [
        {
            "id": text_of(cell.get("id") or inner(cell).get("id")),
            "type": cell.get("cell_type"),
            "source": text_of(cell.get("source")),
        }
        for cell in cells
        if isinstance(cell, dict)
    ], metadata if isinstance(metadata, dict) else {}


def inner(cell: dict[str, Any]) -> dict[str, Any]:
    """Return a cell's metadata, where Colab keeps ids."""
    metadata = cell.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def text_of(source: object) -> str:
    """Return text that a notebook keeps as one string or as lines."""
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""


def caller(exercise: Exercise) -> re.Pattern[str]:
    """Return what finds a call of an exercise's checker."""
    last = exercise.check.source.rstrip().rpartition("\n")[2]
    return re.compile(rf"\b{re.escape(last.partition('(')[0].strip())}\s*\(")


def calls(source: str, exercise: Exercise, *, as_handed_out: bool) -> bool:
    """Say whether a cell calls an exercise's checker, in its code and not in a comment or a text.

    As handed out is a call with the same argument.
    """
    wanted = ast.parse(exercise.check.source).body[-1].value
    # A magic stands on a line of its own.
    code = re.sub(r"^([ \t]*)[%!].*$", r"\1pass", source, flags=re.M)
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return bool(caller(exercise).search(source))
    return any(
        isinstance(node, ast.Call)
        and name_of(node.func) == name_of(wanted.func)
        and (
            not as_handed_out
            or [*map(ast.dump, node.args)] == [*map(ast.dump, wanted.args)]
        )
        for node in run_at_once(tree)
    )


def run_at_once(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of code that run where they stand, not what a function will do."""
    later = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, later)
        ]


def name_of(function: ast.expr) -> str | None:
    """Return the name that a function is called by, in a module or not."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None


def source_of(
    cells: list[dict[str, Any]],
    metadata: dict[str, Any],
    known: list[Source],
) -> tuple[Source, list[str]]:
    """Return the exercises that a submission answers, and remarks on how they were found."""
    course = metadata.get("course")
    course = course if isinstance(course, dict) else {}
    for source in known:
        if course.get("exercises") == source.name:
            other = course.get("version") != source.version
            return source, [
                "made from another version of the exercises, and graded by this one"
            ] * other
    remark = ["it does not say which exercises it answers: found by its {}"]
    title = next(
        (
            found[1]
            for cell in cells
            if cell["type"] == "markdown"
            and (found := re.search(r"^# +(.+)$", cell["source"], re.M))
        ),
        "",
    )
    for source in known:
        if source.title and same_title(title, source.title):
            return source, [remark[0].format("title")]
    code = "\n".join(c["source"] for c in cells if c["type"] == "code")
    counts = [
        sum(bool(e.check and caller(e).search(code)) for e in s.exercises)
        for s in known
    ]
    if not any(counts):
        raise SubmissionError("answers none of the exercises of this book")
    return known[counts.index(max(counts))], [remark[0].format("checks")]


def same_title(shown: str, title: str) -> bool:
    """Say whether a notebook's title is a source's, with or without a number."""
    shown, title = (
        " ".join(re.findall(r"\w+", t.lower())) for t in (shown, title)
    )
    return bool(re.fullmatch(rf"[\d ]*{re.escape(title)}", shown))


def places(
    cells: list[dict[str, Any]], exercises: list[Exercise]
) -> dict[str, int]:
    """Return for each exercise with a check the cell after which it is run, the last if none."""
    code = [
        (position, cell)
        for position, cell in enumerate(cells)
        if cell["type"] == "code"
    ]
    found = {}
    for exercise in exercises:
        if exercise.check is None:
            continue
        ways: list[Callable[[dict[str, Any]], bool]] = [
            lambda cell, e=exercise: calls(
                cell["source"], e, as_handed_out=True
            ),
            lambda cell, e=exercise: calls(
                cell["source"], e, as_handed_out=False
            ),
            lambda cell, e=exercise: cell["id"] == e.check.id,
            lambda cell, e=exercise: cell["id"] in [a.id for a in e.answers],
        ]
        where = [
            max(position for position, cell in code if way(cell))
            for way in ways
            if any(way(cell) for _, cell in code)
        ]
        found[exercise.label] = where[0] if where else len(cells) - 1
    return found


# --------------------------------------------------------------------------------------- grading
def plain(text: object, longest: int = LONGEST_REMARK) -> str:
    """Return text of a submission as one line that a terminal cannot be steered with."""
    line = " ".join(
        "".join(c if c.isprintable() else " " for c in str(text)).split()
    )
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


class Grader:
    """Grades submissions against source notebooks."""

    def __init__(
        self,
        known: list[Source],
        limits: Limits,
        checkers: str = "attention.exercises",
        path: Iterable[str] = (),
        closed: Iterable[Path] = (),
    ) -> None:
        self.known, self.limits, self.checkers = known, limits, checkers
        self.path = list(path)
        needed = [Path(sys.prefix), ROOT / "attention"]
        # Not what the kernel itself has to read.
        self.closed = [
            str(folder)
            for folder in [*(ROOT / name for name in CLOSED), *closed]
            if not any(n.is_relative_to(folder.resolve()) for n in needed)
        ]

    def grade(self, path: Path, name: str) -> Result:
        """Return the result of a file, whatever is in it."""
        result = Result(plain(name))
        try:
            cells, metadata = cells_of(path)
            source, result.remarks = source_of(cells, metadata, self.known)
        except SubmissionError as error:
            result.remarks = [str(error)]
            return result
        except Exception as error:  # whatever a file may hold
            result.remarks = [f"cannot be read: {plain(repr(error))}"]
            return result
        result.exercises = source.name
        result.marks = [
            Mark(
                f"{source.number}.{place}",
                e.name,
                e.title,
                e.points,
                "not reached" if e.check else "by hand",
            )
            for place, e in enumerate(source.exercises, start=1)
        ]
        result.of = sum(exercise.points for exercise in source.exercises)
        with Session(
            self.limits, self.checkers, self.path, self.closed
        ) as session:
            result.walls = session.walls
            try:
                self.run(session, cells, source, result)
            except Exception as error:  # a submission may change its kernel
                result.remarks.append(
                    "the kernel answers what cannot be read, and nothing after"
                    f" that counts: {plain(repr(error))}"
                )
        result.points = sum(mark.points for mark in result.marks)
        return result

    def run(
        self,
        session: Session,
        cells: list[dict[str, Any]],
        source: Source,
        result: Result,
    ) -> None:
        """Run the cells, each check at its place, until all is done or the kernel is lost."""
        where = places(cells, source.exercises)
        checks = {e.check.source for e in source.exercises if e.check}
        replaced: list[str] = []
        for position, cell in enumerate(cells):
            number = f"cell {position + 1}"
            try:
                # A check that is as it was is run only once.
                if cell["type"] == "code" and cell["source"] not in checks:
                    reply = session.run(cell["source"])
                    result.remarks += self.remarks(number, reply)
                for exercise, mark in zip(
                    source.exercises, result.marks, strict=True
                ):
                    if where.get(exercise.label) == position:
                        number = f"the check of {exercise.name}"
                        reply = session.run(CHECK + exercise.check.source)
                        replaced += self.judge(mark, reply)
                        result.remarks += self.remarks(number, reply)
            except LostError as error:
                result.remarks.append(
                    f"{number} {error}: nothing after it counts"
                )
                break
        if replaced:
            names = ", ".join(plain(n) for n in dict.fromkeys(replaced))
            result.remarks.append(
                f"changed {names}: put back before each check"
            )

    def remarks(self, number: str, reply: dict[str, Any]) -> Iterator[str]:
        """Yield what is to be said of a cell's reply."""
        for wanted in reply.get("wanted", []):
            yield f"{number} {plain(wanted)}"
        if reply.get("late"):
            yield f"{number} did not end within {reply['late']:.3g} s"
        elif reply.get("status") == "error" and not reply[
            "evalue"
        ].startswith(REFUSED):
            yield f"{number} raised {plain(reply['ename'])}: {plain(reply['evalue'])}"

    def judge(self, mark: Mark, reply: dict[str, Any]) -> list[str]:
        """Write what a check says into a mark; return what had to be put back before it."""
        verdict = reply["verdict"]
        mark.state = verdict["state"]
        mark.says = plain(verdict["says"], 2000)
        mark.first_input = plain(verdict.get("first_input", ""), 2000)
        mark.points = mark.of if mark.state == "right" else 0
        return verdict["replaced"]


# ----------------------------------------------------------------------------------------- output
def cell_text(mark: Mark) -> str:
    """Return what a table says of a mark; a blank is no 0."""
    if not mark.of:
        return mark.state
    points = "–" if mark.state == "blank" else mark.points
    return f"{points}/{mark.of}"


def total(result: Result) -> str:
    """Return the points of a submission, and how much is left to a person."""
    to_read = sum(mark.state == "by hand" for mark in result.marks)
    rest = f", {to_read} to read" if to_read else ""
    return f"{result.points}/{result.of}{rest}"


def aligned(rows: list[list[str]]) -> Iterator[str]:
    """Yield rows as lines of a table, the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(t.rjust(w) for t, w in others)]
        yield "  ".join(cells)


def beneath(result: Result) -> list[str]:
    """Return the remarks on a submission, to stand below its name."""
    return [f"    {remark}" for remark in result.remarks]


def graded(name: str, results: list[Result]) -> list[str]:
    """Return the table of a set of exercises, by their numbers, with the remarks."""
    first = results[0].marks
    heads = [mark.number for mark in first]
    rows = [["", *heads, "points"]]
    rows += [
        [r.submission, *map(cell_text, r.marks), total(r)] for r in results
    ]
    head, *body = aligned(rows)
    lines = [name]
    lines += [
        f"  {n}  {mark.title} ({mark.exercise})"
        for n, mark in zip(heads, first, strict=True)
    ]
    lines.append(head)
    for line, result in zip(body, results, strict=True):
        lines += [line, *beneath(result)]
    return lines


def chapter(item: tuple[str, list[Result]]) -> int:
    """Return the number of the chapter that a set of exercises belongs to."""
    return int(item[1][0].marks[0].number.partition(".")[0])


def table(results: list[Result]) -> str:
    """Return the results as text: a table for each set of exercises, then what is not graded."""
    lines: list[str] = []
    sets: dict[str, list[Result]] = {}
    for result in results:
        if result.exercises:
            sets.setdefault(result.exercises, []).append(result)
    for name, found in sorted(sets.items(), key=chapter):
        lines += [*graded(name, found), ""]
    refused = [result for result in results if not result.exercises]
    lines += ["Not graded"] * bool(refused)
    for result in refused:
        lines += [result.submission, *beneath(result)]
    return "\n".join(lines).rstrip("\n")


def harmless(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def write(results: list[Result], folder: Path) -> list[Path]:
    """Write the results as CSV, a row for each submission, and as JSON, with all that was said."""
    places = {m.exercise: m.number for r in results for m in r.marks}
    names = sorted(
        places, key=lambda name: [*map(int, places[name].split("."))]
    )
    head = ["submission", "exercises", "points", "of", *names, "remarks"]
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in WRITTEN]
    with paths[0].open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(head)
        for r in results:
            marks = {
                m.exercise: str(m.points)
                if m.state in {"right", "wrong"}
                else m.state
                for m in r.marks
            }
            rows.writerow(
                [
                    harmless(r.submission),
                    r.exercises,
                    r.points if r.exercises else "",
                    r.of if r.exercises else "",
                    *(marks.get(name, "") for name in names),
                    harmless("; ".join(r.remarks)),
                ]
            )
    text = json.dumps(
        [asdict(r) for r in results], indent=1, ensure_ascii=False
    )
    paths[1].write_text(f"{text}\n", "utf-8")
    return paths


# ----------------------------------------------------------------------------------- command line
def known_sources() -> list[Source]:
    """Return all exercises of the book."""
    found = []
    for number, path in enumerate(sources(), start=1):
        notebook = load(path)
        try:
            exercises = read(notebook)
            digest = version(exercises)
        except SourceError as error:
            raise GradingError(f"{path.name}: {error}") from None
        found.append(
            Source(path.stem, number, title_of(notebook), digest, exercises)
        )
    return found


def submissions(where: Path, written: Path) -> list[tuple[Path, str]]:
    """Return the files to grade, each with its name: one, or those of a folder and its folders."""
    if where.is_file():
        return [(where, where.stem)]
    outputs = {
        folder / name for folder in (where, written) for name in WRITTEN
    }
    found = []
    for path in sorted(where.rglob("*")):
        inside = path.relative_to(where)
        hidden = any(
            p.startswith(".") or p in ("__pycache__", "__MACOSX")
            for p in inside.parts
        )
        handed_out = path.suffix == ".whl"
        if not (hidden or handed_out or path in outputs) and path.is_file():
            name = (
                inside.with_suffix("") if path.suffix == ".ipynb" else inside
            )
            found.append((path, name.as_posix()))
    return found


def grade_all(
    grader: Grader, files: list[tuple[Path, str]], parallel: int
) -> list[Result]:
    """Return the results of all files, and show each as it comes."""
    results = []
    font_list()  # by one, before several ask for it
    with ThreadPoolExecutor(parallel) as pool:
        coming = pool.map(lambda file: grader.grade(*file), files)
        try:
            for number, result in enumerate(coming, start=1):
                told = (
                    total(result) if result.exercises else result.remarks[0]
                )
                print(
                    f"[{number}/{len(files)}] {result.submission} … {told}",
                    flush=True,
                )
                results.append(result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results


def options() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        description="Grade a submission, or all in a folder."
    )
    parser.add_argument("files", type=Path, help="a notebook, or a folder")
    parser.add_argument(
        "--out", type=Path, help="folder for grades.csv and grades.json"
    )
    parser.add_argument("--parallel", type=int, default=1)
    for name, what in (
        ("cell", "seconds for a cell"),
        ("whole", "seconds for a submission"),
        ("memory", "megabytes for a submission"),
    ):
        default = getattr(Limits, name)
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help=what
        )
    return parser.parse_args()


def main() -> int:
    """Grade, and return the exit status: 0 whatever the marks are."""
    given = options()
    files = given.files
    if not files.exists():
        print(f"make: there is no {files}", file=sys.stderr)
        return 2
    folder = files if files.is_dir() else files.parent
    out = given.out or folder
    chosen = submissions(files, out)
    if not chosen:
        print(f"make: {files} holds no file to grade", file=sys.stderr)
        return 2
    limits = Limits(cell=given.cell, whole=given.whole, memory=given.memory)
    try:
        grader = Grader(known_sources(), limits, closed=[folder])
        results = grade_all(grader, chosen, given.parallel)
    except GradingError as error:
        print(f"make: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make: stopped; nothing is written", file=sys.stderr)
        return 130
    print(f"\n{table(results)}\n")
    for path in write(results, out):
        print(f"Written: {path}")
    walls = next((r.walls for r in results if r.walls), [])
    print(
        "What the system keeps a submission from here:"
        f" {', '.join(walls) or 'nothing'}. See course/README.md."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
