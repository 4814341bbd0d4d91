"""Start a kernel that a submission cannot leave: what `course/grade.py` runs in place of Jupyter's.

    python course/confined.py '{"folder": …, "memory": …}' -f kernel.json

Three walls, one behind the other; README.md beside this file says what each holds and what not:

1. the system's: no network, no other program, no writing outside the folder and no signal to
   another process, by Linux's namespaces and Landlock where they are to be had;
2. limits of memory, processor time, size of a file and number of processes;
3. Python's: an audit hook refuses the same everywhere, closes the files that hold solutions, and
   keeps a list of what was wanted.

None of them makes it safe to run code of somebody who means harm: do that in a container.
"""

from __future__ import annotations

import ast
import copy
import ctypes
import importlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None

# A request that begins so is the grader's: what follows is a check to run.
CHECK = "# the grader's check\n"
LONGEST = 2000
# How the message begins of what is refused.
REFUSED = "refused while grading"

# What the hook refuses, by the first part of an event's name or by all of it.
NETWORK = {
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyaddr",
    "socket.gethostbyname",
    "socket.getnameinfo",
    "socket.sendmsg",
    "socket.sendto",
}
PROGRAMS = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pty.spawn",
    "subprocess.Popen",
}
# Which arguments of an event are paths that it changes, and which descriptors they start from.
CHANGES = {
    "os.chflags": [(0, None)],
    "os.chmod": [(0, 2)],
    "os.chown": [(0, 3)],
    "os.link": [(1, 3)],
    "os.mkdir": [(0, 2)],
    "os.remove": [(0, 1)],
    "os.removexattr": [(0, None)],
    "os.rename": [(0, 2), (1, 3)],
    "os.rmdir": [(0, 1)],
    "os.setxattr": [(0, None)],
    "os.symlink": [(1, 2)],
    "os.truncate": [(0, None)],
    "os.utime": [(0, 3)],
    "sqlite3.connect": [(0, None)],
}
LIMITS = {"resource.prlimit", "resource.setrlimit"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC

# Modules that checks rest on, beside those of the checkers' own package.
TRUSTED = (
    "builtins",
    "math",
    "numpy",
    "numpy.linalg",
    "numpy.testing",
    "torch",
    "torch.linalg",
    "torch.nn.functional",
    "torch.testing",
)


# -------------------------------------------------------------------------------- the system's wall
def close_network() -> bool:
    """Move into a network without a way out; say whether the system allows it."""
    new_user, new_network = 0x10000000, 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    user = os.getuid()
    if user == 0 and libc.unshare(new_network) == 0:
        return True
    if libc.unshare(new_user | new_network) != 0:
        return False
    # Keep the name, where that is allowed.
    with suppress(OSError):
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    return True


class RulesetAttributes(ctypes.Structure):
    """What a Landlock ruleset handles: struct landlock_ruleset_attr."""

    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class PathAttributes(ctypes.Structure):
    """What is allowed beneath a path: struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def close_files(folder: str) -> list[str]:
    """Allow changes beneath a folder only, no program and no signal; say what the system closes."""
    libc = ctypes.CDLL(None, use_errno=True)
    create, add, restrict = 444, 445, 446
    abi = libc.syscall(create, None, 0, 1)
    if abi < 1:
        return []
    execute, write, make = 1, 1 << 1, sum(1 << bit for bit in range(4, 13))
    changes = write | make | (abi >= 2) << 13 | (abi >= 3) << 14
    handled = RulesetAttributes(execute | changes, 0b11, 0b11)
    size = 8 * (1 + (abi >= 4) + (abi >= 6))
    ruleset = libc.syscall(create, ctypes.byref(handled), size, 0)
    for path, allowed in ((folder, changes), (os.devnull, write)):
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = PathAttributes(allowed, parent)
        libc.syscall(add, ruleset, 1, ctypes.byref(rule), 0)
        os.close(parent)
    no_new_privileges = 38
    libc.prctl(no_new_privileges, 1, 0, 0, 0)
    refused = libc.syscall(restrict, ruleset, 0)
    os.close(ruleset)
    return (
        [] if refused else ["files", "programs", *["signals"] * (abi >= 6)]
    )


def close_by_the_system(folder: str) -> list[str]:
    """Close what the system can close; say what it has."""
    closed = []
    if sys.platform == "linux":
        if close_network():
            closed.append("network")
        closed += close_files(folder)
    return closed


# ----------------------------------------------------------------------------------------- limits
def limit(options: dict[str, Any], own_user: bool) -> list[str]:
    """Set limits of what the process may use; say which hold."""
    if resource is None:
        return []
    wanted = {
        "processor time": ("RLIMIT_CPU", options["processor"]),
        "size of a file": ("RLIMIT_FSIZE", options["file_size"] << 20),
        "core dumps": ("RLIMIT_CORE", 0),
    }
    if sys.platform == "linux":
        # What is written to: libraries take far more addresses than memory.
        wanted["memory"] = ("RLIMIT_DATA", options["memory"] << 20)
    if own_user:
        # Else all that the user runs would count.
        wanted["processes"] = ("RLIMIT_NPROC", options["processes"])
    for kind, most in wanted.values():
        number = getattr(resource, kind)
        hard = resource.getrlimit(number)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(number, (most, most))
    return list(wanted)


# ---------------------------------------------------------------------------------- Python's wall
class Hook:
    """Refuses what a submission may not do, and remembers what it wanted."""

    def __init__(self, folder: str, closed: list[str]) -> None:
        self.folder = os.path.realpath(folder)
        self.closed = [os.path.realpath(path) for path in closed]
        self.wanted: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise PermissionError, or let it pass."""
        if event == "open":
            self.opening(*arguments)
        elif event in NETWORK:
            self.refuse("wanted the network")
        elif event in PROGRAMS:
            self.refuse("wanted to start another program")
        elif event in CHANGES:
            for path, start in CHANGES[event]:
                self.change(
                    arguments[path],
                    arguments[start]
                    if start is not None and len(arguments) > start
                    else -1,
                )
        elif event in ("os.kill", "os.killpg"):
            if arguments[0] != os.getpid():
                self.refuse("wanted to end another process")
        elif event in LIMITS:
            self.refuse("wanted other limits")

    def refuse(self, what: str) -> None:
        """Note what was wanted, and refuse it."""
        if what not in self.wanted and len(self.wanted) < 20:
            self.wanted.append(what)
        raise PermissionError(f"{REFUSED}: the code {what}")

    def opening(self, path: Any, mode: Any, flags: int) -> None:
        """Refuse to write outside the folder, and to read where solutions are."""
        if isinstance(path, int):
            return
        if shown(path).startswith("/dev/pty"):
            # A terminal for it, where the system gives none.
            self.refuse("wanted to start another program")
        if flags & WRITING:
            self.change(path, -1)
        elif shown(path) != __file__ and any(
            within(place(path, -1), c) for c in self.closed
        ):
            # But for this file, whose lines a traceback through it shows.
            self.refuse(f"wanted to read {shown(path)}")

    def change(self, path: Any, start: int) -> None:
        """Refuse to change what is outside the folder."""
        if isinstance(path, int) or shown(path) in (os.devnull, ":memory:"):
            return
        if not within(place(path, start), self.folder):
            self.refuse(f"wanted to change {shown(path)}")


def shown(path: Any) -> str:
    """Return a path as text."""
    return os.fsdecode(path)


def place(path: Any, start: int) -> str:
    """Return where a path leads, from an open folder where there is one."""
    base = os.getcwd()
    if start not in (-1, None):
        base = os.path.realpath(f"/proc/self/fd/{start}")
    # A link is judged by what it leads to.
    return os.path.realpath(os.path.join(base, shown(path)))


def within(path: str, folder: str) -> bool:
    """Say whether a path is a folder or beneath it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


# ------------------------------------------------------------------------------------- the checks
# What a checker's limits, cases and mistakes are kept in.
KINDS = (float, int, str, dict, list)


def by_torch(where: str, name: str, now: Any, names: dict[str, Any]) -> bool:
    """Say whether PyTorch itself has put a thing of its own in the place of another.

    A default dtype comes with another class of storages, and what compiles wraps a function.
    """
    if (where, name) == ("torch", "Storage"):
        return any(now is thing for thing in names.values())
    if not isinstance(now, FunctionType):
        return False
    written_in = str(now.__globals__.get("__name__"))
    home = sys.modules.get(written_in)
    return (
        written_in.partition(".")[0] == "torch"
        and isinstance(home, ModuleType)
        and vars(home) is now.__globals__
        and any(
            c.cell_contents is names[name] for c in now.__closure__ or ()
        )
    )


class Checks:
    """The checkers as they were before a submission's first cell, and what they rest on."""

    def __init__(self, name: str) -> None:
        self.module = importlib.import_module(name)
        root = name.partition(".")[0]
        own = [
            module
            for known, module in sorted(sys.modules.items())
            if known.partition(".")[0] == root
        ]
        trusted = [sys.modules[m] for m in TRUSTED if m in sys.modules]
        places: list[ModuleType | type] = [*own, *trusted]
        for module in own:
            places += [
                thing
                for thing in vars(module).values()
                if isinstance(thing, type)
                and thing.__module__.partition(".")[0] == root
            ]
        self.kept = [(place, dict(vars(place))) for place in places]
        self.code = {
            thing: (thing.__code__, thing.__defaults__, thing.__kwdefaults__)
            for place, names in self.kept
            for outer in names.values()
            if isinstance(outer, FunctionType)
            for thing in (outer, inspect.unwrap(outer))  # of a decorator
            if isinstance(thing, FunctionType)
            and thing.__module__.partition(".")[0] == root
        }
        # Limits, tolerances, lists of cases and of mistakes, each with a copy and its text.
        self.constants = [
            (module, name, thing, copy.deepcopy(thing), repr(thing))
            for module in own
            for name, thing in vars(module).items()
            if name.strip("_").isupper() and isinstance(thing, KINDS)
        ]
        self.checkers = {
            name: getattr(self.module, name) for name in self.module.__all__
        }

    def put_back(self) -> Iterator[str]:
        """Undo what has been changed since, and yield its names."""
        for where, names in self.kept:
            for name, thing in names.items():
                now = vars(where).get(name)
                if callable(thing) and now is not thing:
                    setattr(where, name, thing)
                    if not by_torch(where.__name__, name, now, names):
                        yield f"{where.__name__}.{name}"
        for place, name, thing, kept, text in self.constants:
            now = vars(place).get(name)
            if now is not thing or repr(now) != text:
                if isinstance(thing, list) and now is thing:
                    thing[:] = copy.deepcopy(kept)
                elif isinstance(thing, dict) and now is thing:
                    thing.clear()
                    thing.update(copy.deepcopy(kept))
                else:
                    setattr(place, name, copy.deepcopy(kept))
                yield f"{place.__name__}.{name}"
        for function, parts in self.code.items():
            now = (
                function.__code__,
                function.__defaults__,
                function.__kwdefaults__,
            )
            if any(a is not b for a, b in zip(now, parts, strict=True)):
                (
                    function.__code__,
                    function.__defaults__,
                    function.__kwdefaults__,
                ) = parts
                yield f"{function.__module__}.{function.__name__}"

    def verdict(self, source: str, names: dict[str, Any]) -> dict[str, Any]:
        """Return what a check says of the names that a submission has given."""
        replaced = list(self.put_back())
        try:
            value = self.value(source, {**names, **self.checkers})
            found = {
                "state": value.state,
                "says": value.says[:LONGEST],
                "first_input": value.first_input[:LONGEST],
            }
        except NameError as error:
            found = {
                "state": "wrong",
                "says": f"The answer is missing: {error}",
            }
        except KeyboardInterrupt:
            found = {"state": "wrong", "says": "The check did not end."}
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"[:LONGEST]
            found = {"state": "wrong", "says": f"The check ended in {text}"}
        return {**found, "replaced": replaced[:20]}

    def value(self, source: str, scope: dict[str, Any]) -> Any:
        """Return the verdict in which a check ends."""
        *before, last = ast.parse(source).body
        exec(compile(ast.Module(before, []), "check", "exec"), scope)
        value = eval(
            compile(ast.Expression(last.value), "check", "eval"), scope
        )
        if not isinstance(value, self.module.Verdict):
            raise TypeError("it returned no verdict")
        return value


def kernel_class(hook: Hook, checks: Checks, walls: list[str]) -> type:
    """Return a kernel that also runs checks, and says in each reply what was refused."""
    from ipykernel.ipkernel import IPythonKernel

    class Kernel(IPythonKernel):
        """Replies with more than Jupyter's."""

        async def do_execute(
            self, code: str, *others: Any, **named: Any
        ) -> dict[str, Any]:
            """Run a cell of the submission, or a check of the grader."""
            if code.startswith(CHECK):
                reply = {"status": "ok", "walls": walls}
                if source := code.removeprefix(CHECK):
                    reply["verdict"] = checks.verdict(
                        source, self.shell.user_ns
                    )
            else:
                reply = await super().do_execute(code, *others, **named)
            reply["wanted"], hook.wanted = hook.wanted, []
            return reply

    return Kernel


def main(options: dict[str, Any], arguments: list[str]) -> None:
    """Put up the walls, then start the kernel."""
    # What an interrupt would end before the kernel listens is the kernel.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:0] = options["path"]
    walls = close_by_the_system(options["folder"])
    walls += limit(options, "network" in walls and os.getuid() != 0)
    from ipykernel.kernelapp import IPKernelApp

    checks = Checks(options["checkers"])
    hook = Hook(options["folder"], options["closed"])
    sys.addaudithook(hook)
    IPKernelApp.launch_instance(
        [*arguments, "--HistoryManager.enabled=False"],
        kernel_class=kernel_class(hook, checks, walls),
    )


if __name__ == "__main__":
    given, *rest = sys.argv[1:]
    sys.argv[1:] = []
    main(json.loads(given), rest)
