"""Whatever a submission does spoils its own mark only, and no other is left out."""

from __future__ import annotations

import csv
import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import execute
import nbformat
import pytest
import small_source
from nbformat import NotebookNode

from course import grade
from course.grade import Grader, Limits, Result

HERE = Path(__file__).parent
LIMITS = Limits(cell=3, whole=60, grace=2, memory=400, file_size=1)
posix = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system")


def with_cell(source: str) -> Callable[[NotebookNode], None]:
    """Return an edit that puts a cell before the second exercise, whose answer is the third."""

    def edit(notebook: NotebookNode) -> None:
        small_source.cell_of(notebook, "given-1").source = source

    return edit


def with_cells(*sources: str) -> Callable[[NotebookNode], None]:
    """Return an edit that puts cells at the top."""

    def edit(notebook: NotebookNode) -> None:
        notebook.cells[:0] = [nbformat.v4.new_code_cell(s) for s in sources]

    return edit


def as_from_colab(notebook: NotebookNode) -> None:
    """Save it as Colab does: ids in the cells' metadata, what it does not know is gone."""
    notebook.nbformat_minor = 0
    notebook.metadata = NotebookNode({"colab": {"provenance": []}})
    for cell in notebook.cells:
        cell.metadata = NotebookNode({"id": cell.pop("id")})


def without_title_either(notebook: NotebookNode) -> None:
    """Nothing but its checks says what it is."""
    as_from_colab(notebook)
    notebook.cells[0].source = "# My homework"


def older(notebook: NotebookNode) -> None:
    """It answers the exercises of last year."""
    notebook.metadata["course"]["version"] = "0" * 12


def without_checks(notebook: NotebookNode) -> None:
    """The student has deleted all check cells."""
    notebook.cells = [
        c for c in notebook.cells if not c.id.startswith("check-")
    ]


def with_own_checks(notebook: NotebookNode) -> None:
    """The answers are wrong, and the student's check cells say right."""
    for word in small_source.LEVELS:
        small_source.cell_of(notebook, f"code-{word}").source = f"{word} = 1"
        small_source.cell_of(
            notebook, f"check-{word}"
        ).source = (
            f"check_{word} = lambda *_: print('right')\ncheck_{word}({word})"
        )


def with_a_name_used_again(notebook: NotebookNode) -> None:
    """What follows an exercise gives its name to something else."""
    small_source.cell_of(
        notebook, "code-larger"
    ).source += "\nsteps = double = 0"


def notes(notebook: NotebookNode) -> None:
    """The names of checkers stand in a comment, in a text and in a trial, after their answers."""
    notebook.cells += [
        nbformat.v4.new_code_cell(source)
        for source in (
            "# check_double(double) was right\ndouble = None",
            "%precision 3\nsteps = print('why not check_steps(steps)?')",
            "for x in (min, max, print):\n    check_larger(x)\nlarger = x",
        )
    ]


def after_a_magic(notebook: NotebookNode) -> None:
    """Checks stand in cells of their own, by a magic and beside what is no Python."""
    without_checks(notebook)
    small_source.cell_of(notebook, "code-double").source = "double = None"
    notebook.cells += [
        nbformat.v4.new_code_cell(source)
        for source in (
            f"%%capture\n{small_source.ANSWERS['double']}\ncheck_double(double)",
            "steps = 7",
            "found = !true\ncheck_steps(steps)",
            "steps = 3",
        )
    ]


def in_a_function(notebook: NotebookNode) -> None:
    """All checks stand in a function that is written first and called last."""
    without_checks(notebook)
    every = ", ".join(
        f"check_{word}({word})" for word in small_source.LEVELS
    )
    notebook.cells.insert(
        1, nbformat.v4.new_code_cell(f"def all_checks(): return [{every}]")
    )
    notebook.cells.append(nbformat.v4.new_code_cell("all_checks()"))


def lost_in_c_when_checked(notebook: NotebookNode) -> None:
    """An answer runs in C, from which no check gets back."""
    small_source.cell_of(
        notebook, "code-larger"
    ).source = (
        "import itertools\ndef larger(*_): return sum(itertools.repeat(1))"
    )


ALL, FIRST = 6, 1
# Each: the edit of a perfect submission, the points it keeps, a remark that says why.
HOSTILE = {
    "ends its kernel": ("import os; os._exit(3)", FIRST, "ended the kernel"),
    "is killed": (
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        FIRST,
        "ended the kernel",
    ),
    "hangs": ("while True: pass", ALL, "did not end within 3 s"),
    "hangs and holds on": (
        "import time\nwhile True:\n    try: time.sleep(1000)\n"
        "    except BaseException: pass",
        FIRST,
        "nor when interrupted",
    ),
    "sleeps": (
        "import time; time.sleep(1000)",
        ALL,
        "did not end within 3 s",
    ),
    "is lost in C": (
        "import itertools; sum(itertools.repeat(1))",
        FIRST,
        "nor when interrupted",
    ),
    "raises": ("1 / 0", ALL, "raised ZeroDivisionError"),
    "is no Python": ("def f(:", ALL, "raised SyntaxError"),
    "eats memory": (
        "kept = []\nwhile True: kept.append(bytearray(10 ** 7))",
        ALL,
        "raised MemoryError",
    ),
    "leaves a process behind": (
        "import ctypes, time\nif not ctypes.CDLL(None).fork(): time.sleep(1000)",
        ALL,
        "",
    ),
    "leaves a process behind and goes": (
        "import ctypes, os, time\n"
        "if not ctypes.CDLL(None).fork(): time.sleep(1000)\nos._exit(0)",
        FIRST,
        "ended the kernel",
    ),
    "changes its kernel's key": (
        "get_ipython().kernel.session.key = b'x'",
        FIRST,
        "nothing after that counts",
    ),
    "answers for its kernel": (
        "from ipykernel.ipkernel import IPythonKernel\n"
        "async def lie(*a, **k): return {'status': 'ok'}\n"
        "type(get_ipython().kernel).do_execute = lie",
        FIRST,
        "nothing after that counts",
    ),
    "fills the disk": (
        "open('big', 'wb').write(bytes(2 << 20))",
        ALL,
        "raised OSError",
    ),
    "asks": ("input('points?')", ALL, "raised StdinNotImplementedError"),
    "redefines print": ("print = len = None", ALL, ""),
    "breaks print for all": (
        "import builtins; builtins.print = builtins.divmod = None",
        ALL,
        "changed builtins.divmod, builtins.print",
    ),
    "prints much": ("for _ in range(10): print('x' * 10 ** 6)", ALL, ""),
    "steers the terminal": ("raise ValueError('\\x1b[2J')", ALL, "[2J"),
    "leaves early": ("raise SystemExit", ALL, "raised SystemExit"),
}
# Each: what a cell does, and the remark that it is refused.
REFUSED = {
    "calls": (
        "import socket\nsocket.socket().connect(('127.0.0.1', {port}))",
        "wanted the network",
    ),
    "calls in secret": (
        "import urllib.request\ntry: urllib.request.urlopen('http://example.org')\n"
        "except Exception: pass",
        "wanted the network",
    ),
    "sends": (
        "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "wanted the network",
    ),
    "starts a shell": (
        "import subprocess\nsubprocess.run(['touch', '{victim}'])",
        "wanted to start another program",
    ),
    "starts a shell by a magic": (
        "!rm {victim}",
        "wanted to start another program",
    ),
    "forks": ("import os; os.fork()", "wanted to start another program"),
    "overwrites": (
        "open('{victim}', 'w')",
        "wanted to change {victim}",
    ),
    "overwrites through a link": (
        "import os; os.symlink('{victim}', 'link'); open('link', 'a')",
        "wanted to change link",
    ),
    "deletes": ("import os; os.remove('{victim}')", "wanted to change"),
    "deletes a folder": (
        "import os; os.rmdir('{folder}')",
        "wanted to change",
    ),
    "renames": (
        "import pathlib; pathlib.Path('{victim}').rename('mine')",
        "wanted to change",
    ),
    "ends the grader": (
        "import os; os.kill(os.getppid(), 9)",
        "wanted to end another process",
    ),
    "reads the solutions": (
        "open('{root}/chapters/references.bib')",
        "wanted to read",
    ),
    "reads another's answers": (
        "open('{folder}/perfect.ipynb')",
        "wanted to read",
    ),
    "lifts the limits": (
        "import resource as r; r.setrlimit(r.RLIMIT_DATA, (-1, -1))",
        "wanted other limits",
    ),
}
# What no audit hook sees; the cells raise where it succeeds, or it shows outside.
BEYOND_PYTHON = [
    "import ctypes, socket; libc = ctypes.CDLL(None)",
    "libc.unlink(b'{victim}'); libc.close(libc.creat(b'{victim}-made', 0o644))",
    "if libc.system(b'true') == 0: raise ValueError",
    "libc.kill({sleeper}, 9)",
    "address = bytes([2, 0, {port} >> 8, {port} & 255, 127, 0, 0, 1, *[0] * 8])\n"
    "if libc.connect(socket.socket().fileno(), address, 16) == 0: raise ValueError",
]
# Each: what is done beside wrong answers, which may earn nothing.
CHEATS = {
    "replaces the checkers": (
        "import sample_checkers as c\n"
        "right = lambda answer: c.Verdict('', 'right', '')\n"
        "c.check_double = c.check_steps = c.check_larger = right",
        "changed sample_checkers.check_double",
    ),
    "replaces their code": (
        "import sample_checkers as c\n"
        "c.tried.__code__ = (lambda e, g, x: Verdict(e, 'right', '')).__code__",
        "changed sample_checkers.tried",
    ),
    "replaces what a decorator holds": (
        "import sample_checkers as c\n"
        "right = lambda answer: c.Verdict('', 'right', '')\n"
        "c.check_double.__wrapped__.__code__ = right.__code__",
        "changed sample_checkers.check_double",
    ),
    "replaces the verdict's truth": (
        "import sample_checkers as c\n"
        "c.Verdict.__init__ = lambda self, *a: vars(self).update("
        "exercise='', state='right', says='', first_input='')",
        "changed Verdict.__init__",
    ),
    "loosens a tolerance": (
        "import sample_checkers as c\nc.LIMITS[0] = float('inf')",
        "changed sample_checkers.LIMITS",
    ),
    "changes what is right": (
        "import sample_checkers as c\nc.RIGHT.update(double=0, steps=0)\n"
        "c.LIMITS = [1e9]",
        "changed sample_checkers.RIGHT, sample_checkers.LIMITS",
    ),
    "returns what equals all": (
        "class Any:\n    def __eq__(self, other): raise SystemExit",
        "",
    ),
}
EDITED = {
    "perfect": (lambda notebook: None, ALL, ""),
    "is from Colab": (as_from_colab, ALL, "found by its title"),
    "has another title": (without_title_either, ALL, "found by its checks"),
    "is of last year": (older, ALL, "another version"),
    "has no checks": (without_checks, ALL, ""),
    "uses a name again": (with_a_name_used_again, ALL, ""),
    "takes notes": (notes, ALL, ""),
    "checks in a function": (in_a_function, ALL, ""),
    "checks after a magic": (
        after_a_magic,
        ALL,
        "wanted to start another program",
    ),
    "checks itself": (with_own_checks, 0, ""),
    "is lost in C when checked": (
        lost_in_c_when_checked,
        3,
        "nor when interrupted",
    ),
}
NO_SUBMISSIONS = {
    "empty.ipynb": ("", "an empty file"),
    "text.ipynb": ("not JSON", "no JSON"),
    "list.ipynb": ("[]", "not a notebook of format 4"),
    "deep.ipynb": ("[" * 10**5, "no JSON"),
    "old.ipynb": ('{"nbformat": 3, "worksheets": []}', "format 4"),
    "odd.ipynb": (
        '{"cells": [1, {}, {"source": 3}]}',
        "none of the exercises",
    ),
    "other.ipynb": (
        '{"cells": [{"cell_type": "code", "source": ["x"], "metadata": []}]}',
        "none of the exercises",
    ),
    "answers.py": ("steps = 7", "not a notebook"),
}


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    """Return a socket that nobody is to reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.fixture(scope="module")
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that nobody is to end."""
    with subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"]
    ) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory,
    listener: socket.socket,
    sleeper: subprocess.Popen[bytes],
) -> Path:
    """Return a folder of submissions, some of them in folders of their own."""
    folder = tmp_path_factory.mktemp("submissions")
    victim = folder.with_name("victim")
    victim.write_text("still there")
    words = {
        "folder": folder.as_posix(),
        "port": listener.getsockname()[1],
        "root": grade.ROOT.as_posix(),
        "sleeper": sleeper.pid,
        "victim": victim.as_posix(),
    }

    def put(name: str, edit: Callable[[NotebookNode], None]) -> None:
        (folder / f"{name}.ipynb").write_text(
            small_source.changed(edit), "utf-8"
        )

    def filled(source: str) -> str:
        for word, value in words.items():
            source = source.replace(f"{{{word}}}", str(value))
        return source

    for name, (source, *_) in HOSTILE.items():
        put(name, with_cell(filled(source)))
    put("refused", with_cells(*(filled(s) for s, _ in REFUSED.values())))
    put("beyond Python", with_cells(*map(filled, BEYOND_PYTHON)))
    for name, (edit, *_) in EDITED.items():
        put(name, edit)
    for name, (source, _) in CHEATS.items():

        def edit(notebook: NotebookNode, source: str = source) -> None:
            with_own_checks(notebook)
            with_cell(source)(notebook)

        put(name, edit)
    (folder / "group" / "late").mkdir(parents=True)
    (folder / "group" / "late" / "ada.ipynb").write_text(
        execute.dumps(small_source.submission(steps="steps = 7")), "utf-8"
    )
    (folder / ".hidden").write_text("")
    for name, (text, _) in NO_SUBMISSIONS.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """Return the folder in which the kernels get theirs: a short path, for their sockets."""
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def grader(folder: Path) -> Grader:
    """Return a grader of the small notebook."""
    return Grader(
        [small_source.known()],
        LIMITS,
        "sample_checkers",
        [str(HERE)],
        [folder],
    )


@pytest.fixture(scope="module")
def results(folder: Path, scratch: Path) -> dict[str, Result]:
    """Return the results of all submissions, graded in one go."""
    files = grade.submissions(folder, folder)
    found = grade.grade_all(grader(folder), files, parallel=2)
    return {result.submission: result for result in found}


# ------------------------------------------------------------------------------------- each alone
@posix
@pytest.mark.parametrize("name", [*HOSTILE, *EDITED])
def test_a_submission_keeps_the_points_of_what_it_has_answered(
    results: dict[str, Result], name: str
) -> None:
    _, points, remark = (HOSTILE | EDITED)[name]
    result = results[name]
    assert (result.points, result.of) == (points, ALL), result
    remarks = "; ".join(result.remarks)
    assert remark in remarks
    assert bool(remark) == bool(remarks), remarks


@posix
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_cell_may_not_do_is_refused_and_remarked(
    results: dict[str, Result], name: str
) -> None:
    number = [*REFUSED].index(name) + 1
    remark = REFUSED[name][1].partition("{")[0]
    said = [r for r in results["refused"].remarks if f"cell {number} " in r]
    assert said[0].startswith(f"cell {number} {remark}")


@posix
def test_what_is_refused_costs_no_point(results: dict[str, Result]) -> None:
    assert results["refused"].points == ALL


@posix
@pytest.mark.parametrize("name", CHEATS)
def test_a_wrong_answer_earns_nothing_by_a_changed_checker(
    results: dict[str, Result], name: str
) -> None:
    assert results[name].points == 0
    assert CHEATS[name][1] in "; ".join(results[name].remarks)


@posix
@pytest.mark.parametrize("name", NO_SUBMISSIONS)
def test_a_file_that_is_no_submission_is_a_row_with_the_reason(
    results: dict[str, Result], name: str
) -> None:
    result = results[name.removesuffix(".ipynb")]
    assert result.exercises == ""
    assert NO_SUBMISSIONS[name][1] in result.remarks[0]


@posix
def test_every_file_is_graded_but_the_hidden(
    results: dict[str, Result],
) -> None:
    names = {n.removesuffix(".ipynb") for n in NO_SUBMISSIONS}
    assert set(results) == {
        *names,
        *HOSTILE,
        *EDITED,
        *CHEATS,
        "refused",
        "beyond Python",
        "group/late/ada",
    }


@posix
def test_a_blank_is_told_from_a_wrong_answer_and_from_what_a_person_reads(
    results: dict[str, Result],
) -> None:
    marks = results["group/late/ada"].marks
    assert [(m.exercise, m.state, m.points, m.of) for m in marks] == [
        ("small-double", "blank", 0, 1),
        ("small-steps", "right", 2, 2),
        ("small-prove", "by hand", 0, 0),
        ("small-larger", "blank", 0, 3),
    ]


@posix
def test_what_comes_after_a_lost_kernel_is_not_reached(
    results: dict[str, Result],
) -> None:
    states = [m.state for m in results["ends its kernel"].marks]
    assert states == ["right", "not reached", "by hand", "not reached"]


@posix
def test_a_submission_has_so_much_time_in_all(folder: Path) -> None:
    slow = grader(folder)
    slow.limits = replace(LIMITS, whole=2.5)
    (folder / "slow").mkdir()
    path = folder / "slow" / "slow.ipynb"
    edit = with_cell("import time; time.sleep(9)")
    path.write_text(small_source.changed(edit), "utf-8")
    result = slow.grade(path, "slow")
    assert result.points == FIRST
    assert "which is all the time there is" in result.remarks[-1]


@posix
def test_a_kernel_that_does_not_start_is_no_fault_of_a_submission(
    folder: Path,
) -> None:
    broken = grader(folder)
    broken.checkers = "no_such_checkers"
    with pytest.raises(grade.GradingError, match="no_such_checkers"):
        broken.grade(folder / "perfect.ipynb", "perfect")


# ------------------------------------------------------------------------------------ the outside
@posix
def test_nothing_outside_was_changed(
    results: dict[str, Result], folder: Path
) -> None:
    assert folder.with_name("victim").read_text() == "still there"
    assert (folder / "perfect.ipynb").is_file()


@posix
def test_nobody_was_called(
    results: dict[str, Result], listener: socket.socket
) -> None:
    with pytest.raises(BlockingIOError):
        listener.accept()


linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the system's walls are Linux's"
)


def walled(results: dict[str, Result], wall: str) -> None:
    """See that a wall is up, or skip the test where the system does not have it."""
    if wall == "network":
        probe = (
            "import ctypes; exit(ctypes.CDLL(None).unshare(0x50000000) != 0)"
        )
        has_it = not subprocess.run([sys.executable, "-c", probe]).returncode
    else:
        version = ctypes.CDLL(None).syscall(444, None, 0, 1)  # of Landlock
        has_it = version >= (6 if wall == "signals" else 1)
    if not has_it:
        pytest.skip(f"this system leaves {wall} to Python")
    assert wall in results["beyond Python"].walls


@linux
def test_the_system_refuses_files_to_what_python_does_not_see(
    results: dict[str, Result], folder: Path
) -> None:
    walled(results, "files")
    assert folder.with_name("victim").read_text() == "still there"
    assert not folder.with_name("victim-made").exists()


@linux
def test_the_system_refuses_programs_to_what_python_does_not_see(
    results: dict[str, Result], folder: Path
) -> None:
    walled(results, "programs")
    assert "cell 3 raised" not in "; ".join(results["beyond Python"].remarks)


@linux
def test_the_system_refuses_signals_to_what_python_does_not_see(
    results: dict[str, Result], sleeper: subprocess.Popen[bytes]
) -> None:
    walled(results, "signals")
    assert sleeper.poll() is None


@linux
def test_the_system_refuses_the_network_to_what_python_does_not_see(
    results: dict[str, Result],
) -> None:
    walled(results, "network")
    assert "cell 5 raised" not in "; ".join(results["beyond Python"].remarks)


@posix
def test_no_folder_of_a_kernel_is_left(
    results: dict[str, Result], scratch: Path
) -> None:
    assert list(scratch.iterdir()) == []


@posix
def test_a_folder_too_deep_for_python_is_removed_too(scratch: Path) -> None:
    deep = "for i in $(seq 1500); do mkdir d && cd d || exit; done"
    with grade.Session(
        LIMITS, "sample_checkers", [str(HERE)], []
    ) as session:
        subprocess.run(["sh", "-c", deep], cwd=session.work, check=True)
    assert not Path(session.folder.name).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_no_process_is_left(
    results: dict[str, Result], scratch: Path
) -> None:
    left = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(scratch).encode() in command.read_bytes():
                left.append(command.parent.name)
    assert left == []


# ------------------------------------------------------------------------------------- the output
@posix
def test_csv_has_a_row_for_each_file_and_json_what_was_said(
    results: dict[str, Result], tmp_path: Path
) -> None:
    found = list(results.values())
    table, details = grade.write(found, tmp_path / "new" / "folder")
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [row["submission"] for row in rows] == list(results)
    row = next(r for r in rows if r["submission"] == "ends its kernel")
    assert row["small-double"] == "1"
    assert row["small-prove"] == "by hand"
    assert row["small-larger"] == "not reached"
    assert [*row][4:-1] == [
        "small-double",
        "small-steps",
        "small-prove",
        "small-larger",
    ]
    assert row["points"] == "1"
    row = next(r for r in rows if r["submission"] == "group/late/ada")
    assert (row["small-double"], row["points"]) == ("blank", "2")
    said = json.loads(details.read_text("utf-8"))
    ada = next(r for r in said if r["submission"] == "group/late/ada")
    assert ada["marks"][0]["says"] == "small-double: still blank"


@posix
def test_the_table_shows_points_for_each_exercise_and_remarks_beneath(
    results: dict[str, Result],
) -> None:
    lines = grade.table(
        [results["ends its kernel"], results["empty"]]
    ).splitlines()
    assert "  12.3  To prove (small-prove)" in lines
    row = "ends its kernel   1/1   0/2  by hand   0/3  1/6, 1 to read"
    assert row in lines
    assert lines[-1] == "    an empty file"


@posix
def test_the_table_tells_a_blank_from_a_wrong_answer(
    results: dict[str, Result],
) -> None:
    lines = grade.table([results["group/late/ada"]]).splitlines()
    assert (
        "group/late/ada   –/1   2/2  by hand   –/3  2/6, 1 to read" in lines
    )


def test_a_formula_in_a_name_stays_text_in_a_spreadsheet(
    tmp_path: Path,
) -> None:
    table, _ = grade.write([Result("=1+1", remarks=["@x"])], tmp_path)
    row = next(csv.DictReader(table.open(encoding="utf-8")))
    assert (row["submission"], row["remarks"]) == ("'=1+1", "'@x")


# ------------------------------------------------------------------------------------ the command
def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command that make runs."""
    return subprocess.run(
        [sys.executable, "-m", "course.grade", *map(str, arguments)],
        cwd=grade.ROOT,
        capture_output=True,
        text=True,
    )


def test_the_exit_status_is_0_whatever_the_marks(tmp_path: Path) -> None:
    (tmp_path / "empty.ipynb").write_text("")
    done = command(tmp_path, "--out", tmp_path / "marks")
    assert done.returncode == 0, done.stderr
    assert "[1/1] empty … an empty file" in done.stdout
    assert (tmp_path / "marks" / "grades.csv").is_file()


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = command(tmp_path / "nowhere")
    assert done.returncode == 2
    assert f"there is no {tmp_path / 'nowhere'}" in done.stderr


def test_what_was_handed_out_or_written_by_an_earlier_run_is_no_submission(
    tmp_path: Path,
) -> None:
    (tmp_path / "ada.ipynb").write_text("")
    (tmp_path / "attention-0.1-py3-none-any.whl").write_text("")
    grade.write([], tmp_path)
    assert [name for _, name in grade.submissions(tmp_path, tmp_path)] == [
        "ada"
    ]


def test_the_list_of_fonts_is_made_before_a_submission_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where nothing has been drawn yet: inside the walls its making is refused.
    monkeypatch.setitem(
        grade.KERNEL_ENVIRONMENT, "MPLCONFIGDIR", str(tmp_path)
    )
    older = tmp_path / "fontlist-v1.json"
    older.write_text("{}", "utf-8")
    grade.font_list.cache_clear()
    made = grade.font_list()
    grade.font_list.cache_clear()
    assert made != older
    assert made.is_file()
    made_for = json.loads(made.read_text("utf-8"))["_version"]
    assert f"-v{made_for}." in made.name


def test_what_pytorch_replaces_itself_is_told_from_what_a_student_replaces() -> (
    None
):
    lines = [
        "import json, torch",
        "from course.confined import Checks",
        "checks, seed = Checks('sample_checkers'), torch.manual_seed",
        "torch.set_default_dtype(torch.float64)",
        "torch.optim.Adam([torch.zeros(2, requires_grad=True)])",
        "found = [list(checks.put_back())]",
        "assert torch.manual_seed is seed",
        "def own(*_): return seed",
        "own.__module__ = 'torch.random'",
        "torch.manual_seed, torch.Storage = own, type('Storage', (), {})",
        "found.append(sorted(checks.put_back()))",
        "assert torch.manual_seed is seed",
        "print(json.dumps(found))",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=grade.ROOT,
        env=os.environ | {"PYTHONPATH": f"{grade.ROOT}{os.pathsep}{HERE}"},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout) == [
        [],
        ["torch.Storage", "torch.manual_seed"],
    ]
