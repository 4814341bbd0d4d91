"""Each checker accepts right answers, however written, and rejects those that people give."""

from __future__ import annotations

import inspect
import json
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from answers import Proof, proofs
from checkers import STORED, results

from attention import exercises
from attention.exercises import Verdict, _checking
from attention.exercises._checking import Case, check_function

PROOFS = proofs()
CHECKERS = [name for name in exercises.__all__ if name.startswith("check_")]


def cases(kind: str) -> list[Any]:
    """Return parameters: a proof and the name of one of its right or wrong answers."""
    return [
        pytest.param(proof, name, id=f"{proof.check.__name__[6:]}: {name}")
        for proof in PROOFS
        for name in getattr(proof, kind)
    ]


@pytest.mark.parametrize(("proof", "name"), cases("right"))
def test_a_right_answer_is_accepted(proof: Proof, name: str) -> None:
    verdict = proof.accepts(name)
    assert verdict, verdict.says


@pytest.mark.parametrize(("proof", "name"), cases("wrong"))
def test_a_wrong_answer_is_rejected_for_the_right_reason(
    proof: Proof, name: str
) -> None:
    verdict = proof.rejects(name)
    assert verdict.state == "wrong"
    assert verdict.first_input
    assert proof.wrong[name][1] in verdict.says


@pytest.mark.parametrize("name", CHECKERS)
def test_every_checker_has_its_proof(name: str) -> None:
    (proof,) = (p for p in PROOFS if p.check.__name__ == name)
    assert len(proof.right) >= 3
    assert len(proof.wrong) >= 6


@pytest.mark.parametrize("name", CHECKERS)
def test_a_blank_is_told_from_a_wrong_answer(name: str) -> None:
    for empty in (..., None):
        verdict = getattr(exercises, name)(empty)
        assert verdict.state == "blank"
        assert "still blank" in verdict.says


WANTS_A_FUNCTION = [
    proof
    for proof in PROOFS
    if all(map(inspect.isfunction, proof.right.values()))
]


def leaves_it_to_others(*_: Any) -> Any:
    raise NotImplementedError


def raises_too(*_: Any) -> Any:
    raise ValueError("too hard")


@pytest.mark.parametrize(
    "proof", WANTS_A_FUNCTION, ids=lambda proof: proof.check.__name__
)
def test_a_function_that_is_still_blank_or_fails_is_told_so(
    proof: Proof,
) -> None:
    verdict = proof.check(lambda *_: None)
    assert verdict.state == "blank"
    assert "returns nothing" in verdict.says
    verdict = proof.check(leaves_it_to_others)
    assert verdict.state == "blank"
    assert "raises NotImplementedError: put" in verdict.says
    verdict = proof.check(raises_too)
    assert verdict.state == "wrong"
    assert "too hard" in verdict.says
    for nonsense in ("x", (1, 2, 3, 4, 5, 6, 7)):
        verdict = proof.check(lambda *_, it=nonsense: it)
        assert verdict.state == "wrong"


@pytest.mark.parametrize("name", CHECKERS)
def test_a_checker_survives_whatever_it_is_handed(name: str) -> None:
    things = [
        True,
        "",
        "x",
        b"x",
        1j,
        {},
        object(),
        int,
        [[1], [2, 3]],
        np.nan,
    ]
    for thing in [*things, torch.empty(0), np.array("x"), range(3)]:
        verdict = getattr(exercises, name)(thing)
        assert isinstance(verdict, Verdict)
        assert verdict.state == "wrong", thing


@contextmanager
def settings_of_a_notebook() -> Iterator[None]:
    """Set what a careful or curious student may have set; see that it stays so."""
    dtype = torch.get_default_dtype()
    with (
        np.errstate(all="raise"),
        warnings.catch_warnings(),
        torch.device("meta"),
        torch.no_grad(),
    ):
        warnings.simplefilter("error")
        torch.set_default_dtype(torch.float64)
        filters = list(warnings.filters)
        try:
            yield
            assert set(np.geterr().values()) == {"raise"}
            assert torch.get_default_dtype() == torch.float64
            assert torch.empty(0).device.type == "meta"
            assert not torch.is_grad_enabled()
            assert warnings.filters == filters
        finally:
            torch.set_default_dtype(dtype)


@pytest.mark.parametrize(
    "proof", PROOFS, ids=lambda proof: proof.check.__name__
)
def test_the_settings_of_a_notebook_change_no_verdict_and_stay(
    proof: Proof,
) -> None:
    with settings_of_a_notebook():
        says = {name: proof.accepts(name) for name in proof.right}
    assert all(says.values()), says


@pytest.mark.parametrize("name", CHECKERS)
def test_every_checker_computes_undisturbed(name: str) -> None:
    check = getattr(exercises, name)
    assert inspect.unwrap(check) is not check
    assert check(...).exercise == name[6:].replace("_", "-")


def test_an_answer_runs_with_the_dtype_of_the_notebook() -> None:
    @_checking.checker
    def check_double(answer: Any) -> Verdict:
        assert torch.get_default_dtype() == torch.float32
        return double(answer)

    def answer(x: Any) -> Any:
        return torch.as_tensor(x) @ torch.diag(torch.tensor([2.0, 2.0]))

    assert "RuntimeError" in check_double(answer).says
    with settings_of_a_notebook():
        assert check_double(answer)


class Odd:
    """Raises whatever is asked of it."""

    def fails(self, *_: Any) -> Any:
        raise OSError

    __eq__ = __ne__ = __bool__ = __len__ = __iter__ = __float__ = fails
    __array__ = __getattr__ = __repr__ = __str__ = __hash__ = fails


class OddError(Exception):
    """Cannot be shown."""

    def fails(self) -> str:
        raise OSError

    __repr__ = __str__ = fails


def raises_the_odd(*_: Any) -> Any:
    raise OddError


def in_itself() -> list[Any]:
    one: list[Any] = [1.0]
    one.append(one)
    return one


def and_twice_in_itself() -> tuple[list[Any], list[Any]]:
    one: list[Any] = []
    one += [one, one]
    return one, one


@pytest.mark.parametrize(
    "proof", PROOFS, ids=lambda proof: proof.check.__name__
)
def test_a_checker_survives_what_raises_when_it_is_looked_at(
    proof: Proof,
) -> None:
    odd = [
        Odd(),
        [Odd()],
        (Odd(), Odd()),
        in_itself(),
        and_twice_in_itself(),
    ]
    answers = [*odd, raises_the_odd]
    answers += [lambda *_, it=it: it for it in odd]
    for answer in answers:
        verdict = proof.check(answer)
        assert verdict.state == "wrong"
        assert len(verdict.says) > 40


def test_what_cannot_be_shown_is_told_so() -> None:
    says = double(raises_the_odd).says
    assert "it raises OddError: a message that cannot be shown." in says
    says = exercises.check_softmax_by_hand(in_itself()).says
    assert "This is a list, where numbers are expected" in says
    says = exercises.check_softmax_by_hand(Odd()).says
    assert "This is an Odd, where numbers are expected" in says
    says = double(lambda x: Odd()).says
    assert "it returns an Odd, where numbers are expected" in says


def test_what_escapes_a_checker_becomes_a_verdict() -> None:
    @_checking.checker
    def check_two_words(answer: Any) -> Verdict:
        raise OddError

    verdict = check_two_words(1)
    assert (verdict.exercise, verdict.state) == ("two-words", "wrong")
    assert "whoever tries gets OddError" in verdict.says


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ([1000, 0.1255], "wrong"),
        ([1000, 0.1251], "right"),
        ([1000.9, 0.125], "right"),
        ([1002, 0.125], "wrong"),
    ],
)
def test_each_number_has_its_own_tolerance(answer: Any, state: str) -> None:
    verdict = _checking.check_numbers("two", answer, [1000, 1 / 8], {})
    assert verdict.state == state


def test_a_small_number_is_not_mistaken_for_the_one_of_a_mistake() -> None:
    mistakes = {"half of it.": [1000, 0.0625], "none.": [1000, 0]}
    for answer, words in (
        ([1000, 0.0625], "That is half of it."),
        ([1000, 0.0635], "Look again at the second number."),
        ([1000, 0.0], "That is none."),
    ):
        verdict = _checking.check_numbers(
            "two", answer, [1000, 1 / 8], mistakes
        )
        assert words in verdict.says


def test_the_page_shows_what_exposes_each_wrong_answer() -> None:
    stored = json.loads(STORED.read_text("utf-8"))
    assert stored == results(), "run make checkers WRITE=1"


def test_a_list_with_a_blank_in_it_is_still_blank() -> None:
    assert exercises.check_softmax_by_hand([1 / 8, ..., 1 / 2]).state == (
        "blank"
    )
    assert exercises.check_masks_lines(["B", ...]).state == "blank"


def test_half_of_a_pair_is_still_blank() -> None:
    array = np.zeros((3, 4))
    assert exercises.check_scale_blind((array, ...)).state == "blank"
    assert exercises.check_scale_blind((array, "x")).state == "wrong"


# --- the framework, on one small exercise
def double(answer: Any) -> Verdict:
    """Check a function that doubles an array."""
    given = (np.array([1.0, 2.0]),)
    return check_function(
        "double", answer, lambda x: 2 * x, [Case("two numbers", given)]
    )


def raises_exit(x: Any) -> Any:
    sys.exit(3)


def raises_interrupt(x: Any) -> Any:
    raise KeyboardInterrupt


def recurses(x: Any) -> Any:
    return recurses(x)


def prints(x: Any) -> Any:
    print("loud")
    print("loud", file=sys.stderr)
    return 2 * x


def warns(x: Any) -> Any:
    np.log(np.zeros(1))
    return 2 * x


def returns_a_text(x: Any) -> Any:
    return "2, 4"


def returns_objects(x: Any) -> Any:
    return [[1], [2, 3]]


def returns_itself(x: Any) -> Any:
    return returns_itself


def swallows_everything(x: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            continue


def takes_no_argument() -> Any:
    return 2


def changes_its_input(x: Any) -> Any:
    x *= 2
    return x


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raises_exit, "raises SystemExit"),
        (raises_interrupt, "raises KeyboardInterrupt"),
        (recurses, "raises RecursionError"),
        (returns_a_text, "a str"),
        (returns_objects, "a list"),
        (returns_itself, "a function"),
        (swallows_everything, "did not end"),
        (takes_no_argument, "raises TypeError"),
        (changes_its_input, "in place"),
        (lambda x: (2 * x)[:, None], "shape (2, 1), where (2,)"),
        (lambda x: x > 0, "holds booleans"),
        (lambda x: np.array([2.0, np.nan]), "nan at index [1]"),
        (lambda x: 2 * x + 1e-6, "is expected"),
        (2.0, "a float, and a function is expected"),
        (Verdict, "without calling it"),
    ],
)
def test_an_answer_that_misbehaves_is_told_how(
    answer: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_checking, "SECONDS", 2.0)
    verdict = double(answer)
    assert verdict.state == "wrong"
    assert words in verdict.says


def test_a_return_that_is_missing_on_one_way_is_wrong_and_not_blank() -> (
    None
):
    cases = [
        Case("one number", (np.array([1.0]),)),
        Case("no number", (np.array([]),)),
    ]
    verdict = check_function(
        "double", lambda x: 2 * x if x.size else None, lambda x: 2 * x, cases
    )
    assert verdict.state == "wrong"
    assert "With no number, it returns nothing: a return is" in verdict.says


def test_an_answer_that_is_a_single_number_is_judged() -> None:
    def total(answer: Any) -> Verdict:
        given = (np.array([1.0, 2.0]),)
        return check_function(
            "total", answer, np.sum, [Case("two numbers", given)]
        )

    assert total(lambda x: x[0] + x[1])
    assert "is 2, where 3 is expected" in total(lambda x: x.max()).says


def test_a_small_input_is_shown_as_it_was_before_the_answer_saw_it() -> None:
    says = double(lambda x: x).says
    assert says.endswith("4 is expected. The input: [1, 2].")
    assert double(changes_its_input).says.endswith(" The input: [1, 2].")


def test_a_large_input_is_not_shown() -> None:
    given = Case("many numbers", (np.arange(13.0),))
    verdict = check_function("same", np.negative, lambda x: x, [given])
    assert "The input" not in verdict.says
    few = Case("a dozen numbers", (np.arange(6.0), np.arange(6.0)))
    verdict = check_function("sum", np.subtract, np.add, [few])
    assert "The input: [0, 1, 2, 3, 4, 5]; [0, " in verdict.says


def test_a_mapping_is_not_shown() -> None:
    given = Case("a mapping", ({"x": np.arange(2.0)},))
    verdict = check_function(
        "same", lambda it: -it["x"], lambda it: it["x"], [given]
    )
    assert not verdict
    assert "The input" not in verdict.says


def test_booleans_are_told_in_words() -> None:
    given = Case("two numbers", (np.array([1.0, 2.0]),))
    verdict = check_function("sign", lambda x: x < 0, np.signbit, [given])
    assert verdict
    verdict = check_function("sign", lambda x: x > 1, np.signbit, [given])
    assert "is True at index [1], where False is expected" in verdict.says


def test_a_fraction_is_a_number() -> None:
    assert exercises.check_softmax_by_hand(
        [Fraction(1, 8), 3 / 8, Fraction(1, 2)]
    )
    assert double(lambda x: Fraction(2)).state == "wrong"


def test_what_is_no_number_in_a_list_is_named() -> None:
    says = exercises.check_softmax_by_hand([1 / 8, "3/8", 1 / 2]).says
    assert "This is a list with a str in it, where numbers" in says
    assert "a list, where numbers" in double(lambda x: [[1], [2, 3]]).says


def test_numbers_to_look_at_again_are_counted_in_words() -> None:
    says = exercises.check_softmax_by_hand([0.2, 3 / 8, 0.6]).says
    assert says.endswith("Look again at the first and the third number.")
    says = exercises.check_softmax_by_hand([0.2, 0.2, 0.6]).says
    assert says.endswith("at the first, second and the third number.")


def parts(answer: Any) -> Verdict:
    """Check a function that returns the double, the half and the whole of an array."""
    given = Case("two numbers", (np.array([1.0, 2.0]),))
    return check_function(
        "parts",
        answer,
        lambda x: (2 * x, x / 2, x),
        [given],
        results=("the double", "the half", "the whole"),
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda x: (2 * x, x, x), "the half is 2 at index [1], where 1 is"),
        (
            lambda x: (x, 2 * x, x / 2),
            "another order than the double, the h",
        ),
        (lambda x: (2 * x, x / 2), "a tuple of 3 results is expected"),
        (lambda x: (x, x, x), "the double is 2 at index [1], where 4 is"),
    ],
)
def test_several_results_are_told_apart(answer: Any, words: str) -> None:
    assert words in parts(answer).says


def test_what_a_wrong_answer_prints_is_shown_shortened() -> None:
    def answer(x: Any) -> Any:
        print("half:", x / 2)
        print("long " * 10000)
        return x

    says = double(answer).says
    assert "It prints: half: [0.5 1. ] long long" in says
    assert len(says) < 500


def test_single_precision_is_recognised() -> None:
    def answer(x: Any) -> Any:
        return (2 * x / 3).astype(np.float32)

    given = Case("two numbers", (np.array([1.0, 2.0]),))
    verdict = check_function("thirds", answer, lambda x: 2 * x / 3, [given])
    assert "single precision" in verdict.says
    wrong = check_function("thirds", answer, lambda x: x / 3, [given])
    assert "single precision" not in wrong.says


def test_a_tensor_made_of_plain_numbers_may_be_in_single_precision() -> None:
    given = Case("the number 3", (3.0,))
    third = check_function(
        "third", lambda x: torch.tensor(1 / x), lambda x: 1 / x, [given]
    )
    assert third
    assert not check_function(
        "third", lambda x: torch.tensor(1.01 / x), lambda x: 1 / x, [given]
    )


def test_no_zero_is_shown_with_a_sign() -> None:
    given = Case("two numbers", (np.array([1.0, 2.0]),))
    verdict = check_function("none", np.sign, lambda x: x * -0.0, [given])
    assert "where 0 is expected" in verdict.says


def test_numbers_that_differ_late_are_shown_with_more_digits() -> None:
    says = double(lambda x: 2 * x + 1e-7).says
    assert "is 4.0000001 at index [1], where 4 is expected" in says


def test_what_an_answer_prints_is_not_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert double(prints)
    assert capfd.readouterr() == ("", "")


def test_a_warning_of_an_answer_does_not_get_out() -> None:
    assert double(warns)


def test_an_answer_may_use_tensors_alone() -> None:
    assert double(lambda x: x.add(x))


def test_an_answer_may_move_axes_as_tensors_do() -> None:
    """NumPy's transpose raises ValueError for it, which says nothing about the answer."""
    assert double(lambda x: (2 * x)[None, None].transpose(0, 1)[0, 0])


def either_way(answer: Any) -> Verdict:
    """Check a function that doubles an array of one axis or of two."""
    given = [np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])]
    cases = [Case(f"{x.ndim} axes", (x,)) for x in given]
    return check_function("double", answer, lambda x: 2 * x, cases)


@pytest.mark.parametrize("axes", [1, 2])
def test_an_answer_may_use_tensors_alone_on_one_of_its_ways(
    axes: int,
) -> None:
    assert either_way(lambda x: x.add(x) if x.ndim == axes else 2 * x)


def test_an_answer_that_speaks_pytorch_is_judged_by_its_result_on_tensors() -> (
    None
):
    says = either_way(lambda x: x.add(1) if x.ndim == 2 else 2 * x).says
    assert "With 2 axes, the result is 5 at index [1, 1], where 8" in says
    says = either_way(lambda x: x.nothing if x.ndim == 2 else 2 * x).says
    assert "With 2 axes, it raises AttributeError: 'numpy.nd" in says


def test_what_pytorch_says_of_shapes_is_told() -> None:
    verdict = double(lambda x: x[None, None].transpose(0, 1).view(7))
    assert "handed arrays, it raises ValueError" in verdict.says
    assert "handed tensors, it raises RuntimeError: shape" in verdict.says


def test_a_result_in_half_precision_is_a_number_too() -> None:
    assert double(lambda x: torch.tensor([2.0, 4.0]).bfloat16())


def test_an_answer_may_ask_for_gradients() -> None:
    assert double(lambda x: 2 * x.requires_grad_())


def test_the_result_may_be_a_single_number() -> None:
    given = Case("two numbers", (np.array([1.0, 2.0]),))
    assert check_function("total", np.sum, lambda x: x.sum(), [given])
    assert not check_function("total", np.sum, lambda x: x.prod(), [given])


def test_an_answer_cannot_reach_the_inputs_of_the_next_one() -> None:
    assert not double(changes_its_input)
    assert double(lambda x: 2 * x)


def test_one_number_may_come_as_an_array_of_one() -> None:
    given = [Case("two numbers", (np.array([1.0, 2.0]),))]
    for answer in (
        lambda x: x.sum(keepdims=True),
        lambda x: torch.tensor([[x.sum()]]),
    ):
        assert check_function("total", answer, np.sum, given)
    assert _checking.check_numbers("two", np.array([2.0]), 2, {})
    assert not _checking.check_numbers("two", np.array([2.0, 2.0]), 2, {})


def test_nothing_but_zeros_or_nan_is_no_sign_of_a_mistake() -> None:
    given = [np.array([1.0, -2.0]), np.array([-1.0, -2.0])]
    cases = [Case("some numbers", (x,)) for x in given[::-1]]
    for mistake, answer in (
        (lambda x: np.maximum(x, 0), np.zeros_like),
        (lambda x: np.sqrt(x), lambda x: x * np.nan),
    ):

        def says(answer: Any, mistake: Any = mistake) -> str:
            known = [_checking.Mistake(mistake, "a known one.")]
            return check_function(
                "square", answer, np.square, cases, known
            ).says

        assert "a known one" in says(mistake)
        assert "a known one" not in says(answer)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (
            exercises.check_gradient_backward,
            lambda g, q, k, v, a: tuple(map(np.zeros_like, (q, k, v))),
        ),
        (
            exercises.check_sdpa_attend,
            lambda q, k, v, a: (0 * (q @ k.mT @ v), 0 * (q @ k.mT)),
        ),
    ],
)
def test_zeros_are_not_taken_for_a_mask(check: Any, answer: Any) -> None:
    says = check(answer).says
    assert "is 0 at index" in says
    assert "This looks like" not in says


def test_a_decimal_number_is_a_number() -> None:
    assert exercises.check_softmax_by_hand(
        [Decimal("0.125"), Decimal("0.375"), 0.5]
    )


@pytest.mark.parametrize(
    "answer", [np.array(["B", "E"]), "B;E", "BE\n", "b, e", ["B", "E"]]
)
def test_letters_may_stand_in_many_ways(answer: Any) -> None:
    says = {letter: "not this one." for letter in "ABCDE"}
    assert _checking.check_choice("two", answer, "BE", says, several=True)


def test_an_error_without_a_message_stands_for_a_blank() -> None:
    verdict = double(leaves_it_to_others)
    assert verdict.state == "blank"
    assert "raises NotImplementedError: put your answer" in verdict.says
    says = either_way(
        lambda x: 2 * x if x.ndim == 1 else leaves_it_to_others(x)
    ).says
    assert "With 2 axes, it raises NotImplementedError. The input" in says


def raises_without_a_word(x: Any) -> Any:
    raise ValueError


def test_an_error_without_a_message_is_told_without_a_colon() -> None:
    assert "it raises ValueError. The" in double(raises_without_a_word).says


class Exits:
    """Ends the interpreter where it is looked at."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        sys.exit(3)


def test_an_exit_within_a_result_does_not_escape() -> None:
    assert (
        "it returns an Exits, where numbers"
        in double(lambda x: Exits()).says
    )
    assert not exercises.check_softmax_by_hand(Exits())


def loops(x: Any) -> Any:
    while True:
        pass


INTERRUPTED = """
import signal, threading, time
from attention.exercises import check_lookup_regression

def loops(*_):
    while True:
        pass

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
me = threading.main_thread().ident
threading.Timer(0.5, signal.pthread_kill, [me, signal.SIGINT]).start()
try:
    print(check_lookup_regression(loops))
except KeyboardInterrupt:
    time.sleep(0.5)
    print("interrupted, and left:", threading.active_count())
"""


@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="needs a POSIX system"
)
def test_an_interrupted_check_leaves_no_answer_running() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True
    )
    assert done.stdout == "interrupted, and left: 1\n", done.stderr


def test_an_answer_that_does_not_end_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_checking, "SECONDS", 0.3)
    before = threading.active_count()
    assert "did not end" in double(loops).says
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() == before


def test_a_verdict_is_shown_by_its_words() -> None:
    assert repr(double(lambda x: x + x)) == "✓ double: right."


def test_a_result_of_zeros_is_no_mistake_where_no_other_case_tells_it() -> (
    None
):
    def zeros_once(x: np.ndarray) -> np.ndarray:
        if x.size > 2:
            raise ValueError("too many")
        return 0 * x

    cases = [
        Case("two numbers", (np.array([1.0, 2.0]),)),
        Case("three numbers", (np.array([1.0, 2.0, 3.0]),)),
    ]
    mistakes = [
        _checking.Mistake(lambda x: 0 * x, "ALWAYS ZEROS."),
        _checking.Mistake(lambda x: (x > 2) * x, "SMALL ONES LOST."),
    ]
    verdict = check_function(
        "double", zeros_once, lambda x: 2 * x, cases, mistakes
    )
    assert verdict.state == "wrong"
    assert "This looks like" not in verdict.says
