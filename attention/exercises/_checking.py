"""How an answer is tried: on many inputs, within a time limit, whatever it does."""

from __future__ import annotations

import ctypes
import io
import numbers
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import wraps
from itertools import permutations
from typing import Any, Literal

import numpy as np
import torch

SECONDS = 20.0
"""How long one call of an answer may take.

An answer that computes in Python is ended, unless it catches all exceptions in a loop. One that
waits inside a function written in C which lets other threads run, as most of NumPy's and PyTorch's
do, is told so, and goes on until that function returns. One inside a function which lets none run,
such as ``pow(10, 10**9)``, holds up the whole notebook, and its check says nothing before it is
over: nothing within a process can end it.
"""

# How far a right answer may be from ours: relative to the largest number expected.
TOLERANCES = {"float32": 2e-4, "float64": 1e-8}


@dataclass(frozen=True)
class Verdict:
    """What a checker says of an answer; true if the answer is right.

    Attributes
    ----------
    exercise : str
        The exercise's name.
    state : str
        "right", "wrong", or "blank" for what has not been answered yet.
    says : str
        The verdict in words, which a notebook shows.
    first_input : str
        The input that exposed a wrong answer, in words.
    """

    exercise: str
    state: Literal["right", "wrong", "blank"]
    says: str
    first_input: str = ""

    def __bool__(self) -> bool:
        """Whether the answer is right."""
        return self.state == "right"

    def __repr__(self) -> str:
        """Return the verdict in words."""
        return self.says


@dataclass(frozen=True)
class Case:
    """One input of a function that is checked.

    `what` completes "with …"; `arguments` are handed over in their order, each time as copies.
    """

    what: str
    arguments: tuple[Any, ...]

    @property
    def tolerance(self) -> float:
        """How far a right answer may be off, by the coarsest dtype among the arguments."""
        coarse = any(
            str(getattr(x, "dtype", "")).endswith("float32")
            for x in self.arguments
        )
        return TOLERANCES["float32" if coarse else "float64"]


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give, and what is said to it.

    An answer makes this mistake if it returns what `function` returns; where that is nothing but
    zeros, or nothing but NaN, in a second case too, unless it is `constant` always.
    """

    function: Callable[..., Any]
    says: str
    constant: bool = False


def right(exercise: str) -> Verdict:
    """Return the verdict on a right answer."""
    return Verdict(exercise, "right", f"✓ {exercise}: right.")


def wrong(exercise: str, says: str, first_input: str) -> Verdict:
    """Return the verdict on a wrong answer."""
    return Verdict(
        exercise, "wrong", f"✗ {exercise}: not yet. {says}", first_input
    )


def blank(exercise: str, says: str = "") -> Verdict:
    """Return the verdict on an answer that has not been given."""
    says = says or "replace the ... by your answer, and run the cell again."
    return Verdict(exercise, "blank", f"… {exercise}: still blank; {says}")


def unanswered(answer: Any, within: tuple[Any, ...] = ()) -> bool:
    """Whether an answer, or a part of it, is still the blank that stood there."""
    if isinstance(answer, list | tuple | set):
        if any(answer is whole for whole in within):  # a list in itself
            return False
        within = (*within, answer)
        return any(unanswered(part, within) for part in answer)
    return answer is ... or answer is None


def no_function(exercise: str, answer: Any) -> Verdict | None:
    """Return the verdict on what is still blank or no function; None on a function."""
    if unanswered(answer):
        return blank(exercise)
    if callable(answer) and not isinstance(answer, type):
        return None
    return wrong(
        exercise,
        f"This is {described(answer)}, and a function is expected: hand over"
        " its name, without calling it.",
        "anything",
    )


def returns_nothing(exercise: str, result: Any) -> Verdict | None:
    """Return the verdict on a function that is still blank, by its result; None on another."""
    if result is None or result is ...:
        return blank(
            exercise,
            "the function returns nothing: replace its ... by your answer,"
            " and end it with return; what it prints is not its result.",
        )
    if result is NotImplemented:
        return blank(
            exercise,
            "the function raises NotImplementedError: put your answer in its"
            " place.",
        )
    return None


# ------------------------------------------------------------------------------- around a checker
_their_dtype: ContextVar[torch.dtype | None] = ContextVar(
    "_their_dtype", default=None
)
"""PyTorch's default dtype outside the checker: what an answer runs with."""


@contextmanager
def _dtype_by_default(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _as_from_the_start() -> Iterator[None]:
    """Let a checker compute as if NumPy, PyTorch and the warnings had just been imported.

    What a notebook has set is back afterwards.
    """
    theirs = _their_dtype.set(torch.get_default_dtype())
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            _dtype_by_default(torch.float32),
            torch.device("cpu"),
            torch.inference_mode(False),
            torch.enable_grad(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        _their_dtype.reset(theirs)


def checker(check: Callable[[Any], Verdict]) -> Callable[[Any], Verdict]:
    """Let a checker compute undisturbed by a notebook's settings, and by what answers can do."""
    exercise = check.__name__.removeprefix("check_").replace("_", "-")

    @wraps(check)
    def undisturbed(answer: Any) -> Verdict:
        with _as_from_the_start():
            try:
                return check(answer)
            except (Exception, SystemExit) as error:
                return wrong(
                    exercise,
                    "This is nothing that can be looked at: whoever tries gets"
                    f" {type(error).__name__}.",
                    "the answer",
                )

    return undisturbed


# ------------------------------------------------------------------------------- calling an answer
class _OutOfTimeError(BaseException):
    """Ends an answer that takes too long; no `except Exception` holds it up."""


class _Printed(io.TextIOBase):
    """Takes what an answer prints, however much, and keeps its beginning."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def write(self, text: str) -> int:
        """Keep what comes first, and drop the rest."""
        if len(self.text) < 1000:
            self.text += text[:1000]
        return len(text)


class AnswerError(Exception):
    """An answer failed in a way that the message says."""

    def __init__(self, says: str, cause: BaseException | None = None):
        super().__init__(says)
        self.cause = cause


def call(
    answer: Callable[..., Any],
    arguments: Sequence[Any],
    seconds: float | None = None,
    printed: _Printed | None = None,
) -> Any:
    """Return what an answer returns for some arguments; what it prints is not shown.

    It runs in a thread of its own, so that it can be left when the time is up, and with the
    default dtype that the notebook has given to PyTorch. One that only raises
    NotImplementedError returns NotImplemented.

    Raises
    ------
    AnswerError
        It raised, or took longer than `seconds` (by default `SECONDS`).
    """
    seconds = SECONDS if seconds is None else seconds
    printed = _Printed() if printed is None else printed
    returned: list[Any] = []
    raised: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            with np.errstate(all="ignore"):
                returned.append(answer(*arguments))
        except BaseException as error:
            raised.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, daemon=True)
    with (
        _dtype_by_default(_their_dtype.get() or torch.get_default_dtype()),
        redirect_stdout(printed),
        redirect_stderr(printed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        thread.start()
        try:
            # A join that is interrupted would take the thread for ended.
            done.wait(seconds)
        finally:
            if late := not done.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident or 0),
                    ctypes.py_object(_OutOfTimeError),
                )
                done.wait(1.0)
    if late:
        raise AnswerError(
            f"it did not end within {seconds:g} seconds: look whether every loop ends",
            TimeoutError(),
        )
    if raised:
        error = raised[0]
        if isinstance(error, AnswerError):  # of what a checker put around it
            raise error
        if isinstance(error, NotImplementedError) and not error.args:
            return (
                NotImplemented  # what some leave in the place of an answer
            )
        name, said = type(error).__name__, _short(error)
        raise AnswerError(
            f"it raises {name}: {said}" if said else f"it raises {name}",
            error,
        )
    return returned[0]


def shown(arguments: Sequence[Any], most: int = 12) -> str:
    """Return the numbers of arguments as a line to copy; nothing where they are too many."""
    parts, size = [], 0
    for argument in arguments:
        if isinstance(argument, dict):
            return ""
        array = np.asarray(argument)
        size += array.size
        parts.append(
            np.array2string(
                array,
                separator=", ",
                formatter={"float_kind": "{:.6g}".format},
            )
            if array.ndim
            else repr(argument)
        )
        if size > most:
            return ""
    return f" The input: {' '.join('; '.join(parts).split())}."


def _short(thing: object, limit: int = 200) -> str:
    try:
        text = " ".join(str(thing).split())
    except Exception:
        text = "a message that cannot be shown"
    return text if len(text) <= limit else text[: limit - 1] + "…"


def copied(argument: Any, torch_too: bool) -> Any:
    """Return a copy of an argument, arrays as tensors where PyTorch is spoken."""
    if isinstance(argument, np.ndarray):
        copy = argument.copy()
        return torch.from_numpy(copy) if torch_too else copy
    if isinstance(argument, torch.Tensor):
        return argument.clone()
    if isinstance(argument, dict):
        return {k: copied(v, torch_too) for k, v in argument.items()}
    if isinstance(argument, list | tuple):
        return type(argument)(copied(x, torch_too) for x in argument)
    return argument


def unchanged(before: Any, after: Any) -> bool:
    """Whether an argument still holds what it held."""
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(
            unchanged(before[key], after[key]) for key in before
        )
    if isinstance(before, list | tuple):
        return len(before) == len(after) and all(
            map(unchanged, before, after)
        )
    if isinstance(before, np.ndarray | torch.Tensor):
        first, second = (
            np.asarray(x.detach() if isinstance(x, torch.Tensor) else x)
            for x in (before, after)
        )
        return first.shape == second.shape and bool(
            np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")
        )
    return True


# ------------------------------------------------------------------------------ judging its result
def as_array(result: Any) -> np.ndarray[Any, Any]:
    """Return a result as an array of float64, or of booleans.

    Raises
    ------
    AnswerError
        It is nothing that holds numbers.
    """
    if isinstance(result, torch.Tensor):
        result = result.detach().cpu()
        if result.dtype in (torch.bfloat16, torch.float16):
            result = result.float()
    try:
        array = np.asarray(None if _in_itself(result) else result)
        if array.dtype == object and all(
            isinstance(x, numbers.Real | Decimal) for x in array.flat
        ):
            array = array.astype(np.float64)  # fractions, for example
    except (Exception, SystemExit):  # an object may raise what it likes
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise AnswerError(
            f"it returns {described(result)}{_odd_part(result)}, where"
            " numbers are expected"
        )
    return array if array.dtype.kind == "b" else array.astype(np.float64)


def _in_itself(thing: object, within: tuple[object, ...] = ()) -> bool:
    """Whether a list holds itself, at some depth: NumPy would follow it for years."""
    if not isinstance(thing, list | tuple):
        return False
    if any(thing is whole for whole in within):
        return True
    within = (*within, thing)
    return any(_in_itself(part, within) for part in thing)


def _odd_part(thing: object) -> str:
    """Say what is in a list that is no number."""
    if not isinstance(thing, list | tuple):
        return ""
    for part in thing:
        if not isinstance(part, numbers.Real | Decimal | list | tuple):
            return f" with {described(part)} in it"
    return ""


def described(thing: object) -> str:
    """Say what a thing is, by type and shape."""
    kind = type(thing).__name__
    article = "an" if kind[:1].lower() in "aeiou" else "a"
    try:
        of_shape = f" of shape {tuple(thing.shape)}"  # type: ignore[attr-defined]
    except Exception:  # most things have none
        of_shape = ""
    return f"{article} {kind}{of_shape}"


def differs(
    got: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    tolerance: float,
) -> tuple[int, ...] | None:
    """Return where an array of the same shape is farthest off, None if it is close everywhere."""
    if expected.dtype.kind == "b":
        off = (got != expected).astype(float)
        limit = 0.0
    else:
        finite = np.abs(expected[np.isfinite(expected)])
        limit = tolerance * max(1.0, finite.max(initial=0.0))
        with np.errstate(invalid="ignore"):
            off = np.asarray(np.abs(got - expected))
        off[got == expected] = 0.0  # infinities
        off = np.where(np.isnan(got) & ~np.isnan(expected), np.inf, off)
        off = np.where(np.isnan(got) & np.isnan(expected), 0.0, off)
    if not off.size or off.max() <= limit:
        return None
    return tuple(int(i) for i in np.unravel_index(off.argmax(), off.shape))


def complaint(
    result: Any,
    expected: Any,
    tolerance: float,
    called: str = "the result",
    parts: Sequence[str] = (),
) -> str:
    """Say how a result differs from what is expected; nothing if it does not.

    A tuple is compared part by part, which `parts` gives the names of.

    Raises
    ------
    AnswerError
        The result, or a part of it, is not what holds numbers.
    """
    if isinstance(expected, tuple):
        if not isinstance(result, tuple | list) or len(result) != len(
            expected
        ):
            return (
                f"{called} is {described(result)}, where a tuple of"
                f" {len(expected)} results is expected"
            )
        return _parts_complaint(result, expected, tolerance, parts)
    got, expected = as_array(result), as_array(expected)
    if not expected.shape and got.size == 1:
        got = got.reshape(())
    if got.shape != expected.shape:
        return (
            f"{called} has shape {got.shape}, where {expected.shape} is"
            " expected"
        )
    if (got.dtype.kind == "b") != (expected.dtype.kind == "b"):
        kinds = {True: "booleans", False: "numbers"}
        return (
            f"{called} holds {kinds[got.dtype.kind == 'b']}, where"
            f" {kinds[expected.dtype.kind == 'b']} are expected"
        )
    at = differs(got, expected, tolerance)
    if at is None:
        return ""
    where = f" at index {list(at)}" if at else ""
    # Zero is added, so that no -0 is shown.
    found, wanted = f"{got[at] + 0.0:.6g}", f"{expected[at] + 0.0:.6g}"
    if expected.dtype.kind == "b":
        found, wanted = str(bool(got[at])), str(bool(expected[at]))
    elif found == wanted:
        found, wanted = f"{got[at]:.12g}", f"{expected[at]:.12g}"
    return f"{called} is {found}{where}, where {wanted} is expected"


def _parts_complaint(
    results: Sequence[Any],
    expected: tuple[Any, ...],
    tolerance: float,
    wanted: Sequence[str],
) -> str:
    """Say how one of several results differs; nothing if none does."""
    names = wanted or [
        f"result {i} of {len(expected)}" for i in range(1, 1 + len(expected))
    ]

    def first(order: Sequence[Any]) -> str:
        found = (
            complaint(one, other, tolerance, name)
            for name, one, other in zip(names, order, expected, strict=True)
        )
        return next(filter(None, found), "")

    says = first(results)
    if says and any(not first(other) for other in permutations(results)):
        return "the results stand in another order than " + (
            ", ".join(wanted) or "asked for"
        )
    return says


def check_function(
    exercise: str,
    answer: Any,
    expected: Callable[..., Any],
    cases: Sequence[Case],
    mistakes: Sequence[Mistake] = (),
    *,
    results: Sequence[str] = (),
    torch_too: bool = True,
) -> Verdict:
    """Return the verdict on a function, from the first case that it gets wrong.

    Parameters
    ----------
    exercise : str
        The exercise's name.
    answer : Any
        What is to be a function that takes the arguments of each case.
    expected : Callable
        A right function, of NumPy arrays.
    cases : sequence of Case
        The inputs, the simplest first.
    mistakes : sequence of Mistake
        What wrong answers return, the likeliest first.
    results : sequence of str
        What several results are called, in their order.
    torch_too : bool
        Also try tensors, where arrays make the answer raise an error or fail from the start.
    """
    if (verdict := no_function(exercise, answer)) is not None:
        return verdict

    def fault_with(tensors: bool) -> _Fault | None:
        return _first_fault(
            exercise, answer, expected, cases, results, tensors=tensors
        )

    fault = fault_with(tensors=False)
    if fault and torch_too and not isinstance(fault.raised, TimeoutError):
        if fault.raised or fault.result is NotImplemented:
            fault = _farther(fault, fault_with(tensors=True))
        # What is PyTorch's need not raise: arrays have some methods of the same names.
        elif fault.position == 0 and fault.result is not None:
            fault = fault_with(tensors=True) and fault
    if fault is None:
        return right(exercise)
    case = fault.case
    if fault.position == 0 and fault.blank is not None:
        return fault.blank
    hint = fault.hint or _diagnosis(answer, fault, cases, expected, mistakes)
    if text := fault.printed.strip():
        hint += f" It prints: {_short(text)}"
    return wrong(
        exercise,
        f"With {case.what}, {fault.says.rstrip('.')}.{hint}"
        f"{shown(case.arguments)}",
        case.what,
    )


@dataclass(frozen=True)
class _Fault:
    """The first case that an answer gets wrong, and what it does there."""

    position: int
    case: Case
    tensors: bool
    says: str
    result: Any
    hint: str
    printed: str
    raised: BaseException | None
    blank: Verdict | None


def _first_fault(
    exercise: str,
    answer: Callable[..., Any],
    expected: Callable[..., Any],
    cases: Sequence[Case],
    names: Sequence[str],
    *,
    tensors: bool,
) -> _Fault | None:
    """Return the first case that an answer gets wrong, handed arrays or tensors; None if none."""
    for position, case in enumerate(cases):
        printed, result, hint = _Printed(), None, ""
        raised: BaseException | None = None
        blank: Verdict | None = None
        try:
            result = _result(answer, case, tensors, printed)
            blank = returns_nothing(exercise, result)
            if blank is not None:
                raise AnswerError(
                    "it raises NotImplementedError"
                    if result is NotImplemented
                    else "it returns nothing: a return is missing on one of"
                    " its ways"
                )
            with np.errstate(all="ignore"):
                right_one = expected(*case.arguments)
            says = complaint(
                result, right_one, _tolerance(case, result), parts=names
            )
            if says and _single(result):
                coarse = TOLERANCES["float32"]
                if not complaint(result, right_one, coarse):
                    hint = SINGLE
        except AnswerError as error:
            says, raised = str(error), error.cause
        if says:
            return _Fault(
                position,
                case,
                tensors,
                says,
                result,
                hint,
                printed.text,
                raised,
                blank,
            )
    return None


def _farther(arrays: _Fault, tensors: _Fault | None) -> _Fault | None:
    """Return what counts of an answer that raises where it is handed arrays.

    It may speak PyTorch, and then gets farther with tensors. Where it raises with both, what
    PyTorch says of the shapes is worth reading too.
    """
    if tensors is None or tensors.position > arrays.position:
        return tensors
    if tensors.position < arrays.position:
        return arrays
    if tensors.raised is None:
        return tensors
    if type(tensors.raised) in (RuntimeError, IndexError):
        says = (
            f"handed arrays, {arrays.says}; handed tensors, {tensors.says}"
        )
        return replace(tensors, says=says)
    return arrays


SINGLE = (
    " This looks like single precision (float32), where the inputs are in"
    " double."
)


def _single(result: Any) -> bool:
    """Whether a result, or one of several, is in float32."""
    if isinstance(result, list | tuple):
        return any(map(_single, result))
    return str(getattr(result, "dtype", "")).endswith("float32")


def _tolerance(case: Case, result: Any) -> float:
    """Return how far a result may be off; what is made of plain numbers may come from a tensor."""
    if any(hasattr(x, "dtype") for x in case.arguments):
        return case.tolerance
    return TOLERANCES["float32"] if _single(result) else 1e-6


def _result(
    answer: Callable[..., Any],
    case: Case,
    tensors: bool,
    printed: _Printed,
) -> Any:
    """Return an answer's result for a case, and see that it leaves its inputs alone."""
    given = copied(case.arguments, tensors)
    result = call(answer, given, printed=printed)
    if not unchanged(case.arguments, given):
        raise AnswerError(
            "it changes its input in place: a caller would not expect that;"
            " work on a copy"
        )
    return result


def _diagnosis(
    answer: Callable[..., Any],
    fault: _Fault,
    cases: Sequence[Case],
    expected: Callable[..., Any],
    mistakes: Sequence[Mistake],
) -> str:
    """Return what a wrong result looks like, if it is known."""
    result, case = fault.result, fault.case
    if result is None:
        return ""
    for mistake in mistakes:
        try:
            made = call(mistake.function, copied(case.arguments, False))
            alike = not complaint(result, made, case.tolerance)
        except AnswerError:
            continue
        if (
            alike
            and complaint(made, expected(*case.arguments), case.tolerance)
            and (
                mistake.constant
                or not _constant(made)
                or _alike_elsewhere(answer, fault, cases, mistake)
            )
        ):
            return f" This looks like {mistake.says}"
    return ""


def _alike_elsewhere(
    answer: Callable[..., Any],
    fault: _Fault,
    cases: Sequence[Case],
    mistake: Mistake,
) -> bool:
    """Whether an answer makes a mistake in the next case too whose result has more to tell."""
    for case in cases:
        try:
            made = call(mistake.function, copied(case.arguments, False))
            if _constant(made):
                continue
            result = _result(answer, case, fault.tensors, _Printed())
            return not complaint(result, made, case.tolerance)
        except AnswerError:
            continue
    return False


def _constant(result: Any) -> bool:
    """Whether an array, or each of several results, holds nothing but zeros, or but NaN."""
    parts = [
        as_array(part)
        for part in (result if isinstance(result, tuple) else (result,))
    ]
    return any(part.ndim and part.size for part in parts) and all(
        part.dtype.kind != "b"
        and ((part == 0).all() or np.isnan(part).all())
        for part in parts
    )


# ------------------------------------------------------------------------- numbers and choices
def check_numbers(
    exercise: str,
    answer: Any,
    expected: Any,
    mistakes: Mapping[str, Any],
    *,
    tolerance: float | Sequence[float] = 1e-3,
) -> Verdict:
    """Return the verdict on a number, or on several in a list or an array.

    What is right is not said. `mistakes` maps what is said to a wrong answer ("that is …") to
    the answer. The tolerance is relative to each number, and may be one for each; it is
    absolute where that number is 0.
    """
    if unanswered(answer):
        return blank(exercise)
    right_one = np.asarray(expected, dtype=float)
    try:
        if isinstance(answer, bool):
            raise AnswerError("it is a boolean, where a number is expected")
        got = as_array(answer)
    except AnswerError as error:
        says = str(error).replace("it returns", "this is").rstrip(".")
        return wrong(
            exercise, f"{says[:1].upper()}{says[1:]}.", "the answer"
        )
    if not right_one.shape and got.size == 1:
        got = got.reshape(())
    if got.shape != right_one.shape:
        how_many = (
            f"{right_one.size} numbers of shape {right_one.shape} are"
            if right_one.shape
            else "one number is"
        )
        return wrong(
            exercise,
            f"This has shape {got.shape}, and {how_many} expected.",
            "the answer",
        )
    got, within = got.astype(float), np.asarray(tolerance, dtype=float)

    def off(other: Any) -> np.ndarray[Any, Any]:
        size = np.where(other == 0, 1.0, np.abs(other))
        return np.asarray(~(np.abs(got - other) <= within * size))

    if not off(right_one).any():
        return right(exercise)
    for says, value in mistakes.items():
        other = np.asarray(value, dtype=float)
        if other.shape == got.shape and not off(other).any():
            return wrong(exercise, f"That is {says}", "the answer")
    says = _how_far(got, right_one, off(right_one))
    return wrong(exercise, says, "the answer")


def _how_far(
    got: np.ndarray[Any, Any],
    expected: np.ndarray[Any, Any],
    wrong_there: np.ndarray[Any, Any],
) -> str:
    """Say which way numbers are off, without saying what is right."""
    if not np.isfinite(got).all():
        return "It is not finite."
    if not expected.shape:
        return f"It is too {'large' if got > expected else 'small'}."
    off = np.argwhere(wrong_there)
    if got.ndim == 1 and got.size <= len(ORDINALS):
        *others, last = (ORDINALS[int(place)] for (place,) in off)
        several = f"{', '.join(others)} and the " if others else ""
        return f"Look again at the {several}{last} number."
    places = ", ".join(str(place.tolist()) for place in off[:3])
    more = " and elsewhere" if len(off) > 3 else ""
    return f"Look again at index {places}{more}."


EXACT = 1e-9
"""The tolerance of counts, and of numbers that a statement wants exactly."""

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def check_choice(
    exercise: str,
    answer: Any,
    correct: str,
    why_not: Mapping[str, str],
    *,
    several: bool = False,
) -> Verdict:
    """Return the verdict on a letter, or with `several` on the letters of all that holds.

    `why_not` says of each wrong letter what speaks against it; with `several`, also of each right
    one what to look at where it is left out, without naming it.
    """
    if unanswered(answer):
        return blank(exercise)
    letters = sorted({*correct, *why_not})
    allowed = f"{letters[0]} to {letters[-1]}"
    if isinstance(answer, np.ndarray):
        answer = answer.tolist()
    if isinstance(answer, set | list | tuple):
        answer = "".join(map(str, answer))
    given = (
        set("".join(answer.upper().split())) - set(",;")
        if isinstance(answer, str)
        else set()
    )
    if not given or not given <= {*letters}:
        wanted = "letters" if several else "one letter"
        return wrong(
            exercise,
            f"The answer is to be {wanted} from {allowed}, in quotes: a string"
            f' such as "{letters[0]}".',
            "the answer",
        )
    if len(given) > 1 and not several:
        return wrong(
            exercise, "One letter is wanted, not several.", "the answer"
        )
    if given == {*correct}:
        return right(exercise)
    if surplus := sorted(given - {*correct}):
        verb = "does not belong here" if several else "is not it"
        says = f"{surplus[0]} {verb}: {why_not[surplus[0]]}"
    else:
        missing = sorted({*correct} - given)[0]
        says = f"A letter is missing: {why_not[missing]}"
    return wrong(exercise, says, "the answer")
