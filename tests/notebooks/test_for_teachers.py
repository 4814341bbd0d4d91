"""What the page for teachers says of minutes and of code holds."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "chapters" / "for-teachers.md").read_text("utf-8")
EXERCISE = re.compile(r"\{ref\}`(ex-[\w-]+)`")
PLANS = {
    int(minutes): text.split("\n(misconceptions)=")[0]
    for minutes, text in re.findall(
        r"^### (\d+) minutes:.*?\n(.*?)(?=^### |\Z)",
        PAGE,
        re.MULTILINE | re.DOTALL,
    )
}
QUESTIONS = re.findall(
    r"^\*\*Question (\d+)\.\*\*(.*?)^:::\{admonition\} Answer to question (\d+)\n"
    r":class: dropdown\n(.*?)^:::$",
    PAGE,
    re.MULTILINE | re.DOTALL,
)
ANSWERS = {int(q[0]): q[3][2] for q in QUESTIONS}


def minutes_of_exercises() -> dict[str, int]:
    """Return the minutes of every exercise of the book, by its label."""
    found = {}
    for path in (ROOT / "chapters").glob("*-exercises.ipynb"):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            text = "".join(cell["source"])
            label = re.search(r"^:label: (ex-\S+)$", text, re.MULTILINE)
            minutes = re.search(r"^\*Level .* · (\d+) minutes ·", text, re.M)
            if label and minutes:
                found[label[1]] = int(minutes[1])
    return found


MINUTES = minutes_of_exercises()


def rows(plan: str) -> list[tuple[int, int, list[str]]]:
    """Return the rows of a plan: from when, to when, and the exercises."""
    return [
        (int(start), int(end), EXERCISE.findall(rest))
        for start, end, rest in re.findall(
            r"^\| (\d+)–(\d+) \|(.*)$", plan, re.MULTILINE
        )
    ]


# --- the plans
def test_there_are_plans_of_three_lengths() -> None:
    assert list(PLANS) == [60, 90, 180]


@pytest.mark.parametrize("length", PLANS)
def test_a_plan_fills_its_time_without_gaps(length: int) -> None:
    plan = rows(PLANS[length])
    assert plan[0][0] == 0
    assert plan[-1][1] == length
    assert all(one[1] == next_one[0] for one, next_one in pairwise(plan))


@pytest.mark.parametrize("length", PLANS)
def test_the_exercises_of_a_row_leave_time_to_speak(length: int) -> None:
    for start, end, exercises in rows(PLANS[length]):
        work = sum(MINUTES[name] for name in exercises)
        assert work <= 0.85 * (end - start), (start, end, work)


@pytest.mark.parametrize("length", PLANS)
def test_the_minutes_at_home_are_those_of_the_exercises(length: int) -> None:
    ((minutes, names),) = re.findall(
        r"^At home, (\d+) minutes: (.*)$", PLANS[length], re.MULTILINE
    )
    home = EXERCISE.findall(names)
    assert int(minutes) == sum(MINUTES[name] for name in home)
    in_class = [name for row in rows(PLANS[length]) for name in row[2]]
    assert len({*home, *in_class}) == len(home) + len(in_class)


# --- the questions
def test_there_are_twelve_questions_each_with_its_own_answer() -> None:
    assert [int(q[0]) for q in QUESTIONS] == list(range(1, 13))
    assert [int(q[2]) for q in QUESTIONS] == list(range(1, 13))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q[0])
def test_an_answer_names_one_option_and_explains_the_others(
    question: tuple[str, str, str, str],
) -> None:
    options = re.findall(r"^- \*\*([A-D])\.\*\*", question[1], re.MULTILINE)
    assert options == [*"ABCD"]
    (right,) = re.findall(r"^\*\*([A-D])\.\*\*", question[3])
    explained = set(re.findall(r"\b([A-D])\b", question[3]))
    assert explained == {*"ABCD"}, {*"ABCD"} - explained
    assert re.search(r"\{ref\}`\d+ <wrong-\d+>`", question[3])
    assert right in options


def test_no_letter_is_right_too_often() -> None:
    letters = [*ANSWERS.values()]
    assert max(map(letters.count, "ABCD")) <= 4
    assert min(map(letters.count, "ABCD")) >= 2


def test_items_are_called_by_their_numbers() -> None:
    for number, item in re.findall(r"\{ref\}`(\d+) <wrong-(\d+)>`", PAGE):
        assert number == item


# --- what the answers say of code
def test_question_1_one_maximum_gives_nan_in_the_second_row() -> None:
    scores = np.array([[0.0, 1, 2], [-2000, -2001, -2002]])
    powers = np.exp(scores - scores.max())
    with np.errstate(invalid="ignore"):
        weights = powers / powers.sum(axis=1, keepdims=True)
    assert ANSWERS[1] == "B"
    assert np.isfinite(weights[0]).all()
    assert np.isnan(weights[1]).all()


def test_question_2_the_weights_sum_to_1_over_the_heads() -> None:
    weights = torch.softmax(torch.randn(2, 3, 5, 7), dim=1)
    assert ANSWERS[2] == "C"
    assert torch.allclose(weights.sum(1), torch.ones(2, 5, 7))
    assert not torch.allclose(weights.sum(-1), torch.ones(2, 3, 5))


def test_question_3_whole_numbers_see_no_scale_but_other_mistakes() -> None:
    rng = np.random.default_rng(0)
    q, k = (
        torch.from_numpy(rng.integers(-100, 101, (n, 16)).astype(float))
        for n in (5, 7)
    )
    scores = q @ k.T
    right = torch.softmax(scores / math.sqrt(16), dim=1)
    mask = torch.ones(5, 7).tril().bool()
    masked = torch.softmax(scores.masked_fill(~mask, -torch.inf) / 4, dim=1)
    turned = torch.softmax(scores.masked_fill(mask, -torch.inf) / 4, dim=1)
    assert ANSWERS[3] == "A"
    assert torch.allclose(torch.softmax(scores / 16, dim=1), right)
    assert not torch.allclose(torch.softmax(scores / 4, dim=0), right)
    assert not torch.allclose(masked, turned)
    assert 1000 < (scores / 4).std() < 10_000
    assert 100 < (scores / 16).std() < 1000


def test_question_4_the_module_lets_query_0_see_the_future_alone() -> None:
    layer, x = (
        nn.MultiheadAttention(12, 3, batch_first=True),
        torch.randn(2, 5, 12),
    )
    causal = torch.ones(5, 5).tril().bool()
    _, weights = layer(x, x, x, attn_mask=causal)
    assert ANSWERS[4] == "D"
    assert (weights[0, 0] > 0).tolist() == [False, True, True, True, True]
    assert weights[0, -1].isnan().all()


def test_question_5_a_mask_of_ones_and_zeros_leaves_about_0_27() -> None:
    q, k = torch.zeros(1, 4), torch.randn(2, 4)
    weights = F.scaled_dot_product_attention(
        q, k, torch.eye(2), torch.tensor([[1.0, 0.0]])
    )
    assert ANSWERS[5] == "C"
    assert f"{weights[0, 1]:.2f}" == "0.27"


def test_question_6_a_large_negative_number_leaves_equal_weights() -> None:
    weights = torch.softmax(torch.full((5,), -1e9), dim=0)
    assert ANSWERS[6] == "C"
    assert torch.equal(weights, torch.full((5,), 0.2))
    assert torch.softmax(torch.full((5,), -torch.inf), dim=0).isnan().all()


def test_question_7_the_flag_lets_a_new_query_see_the_oldest_key() -> None:
    q, k = torch.randn(1, 4), torch.randn(10, 4)
    weights = F.scaled_dot_product_attention(
        q, k, torch.eye(10), is_causal=True
    )
    assert ANSWERS[7] == "A"
    assert weights[0].tolist() == [1.0] + 9 * [0.0]


def test_question_8_zero_values_still_take_weight() -> None:
    q, k = torch.zeros(1, 4), torch.randn(8, 4)
    values = torch.eye(8)
    values[5:] = 0  # padding
    zeroed = F.scaled_dot_product_attention(q, k, values)
    keys = torch.arange(8) < 5
    masked = F.scaled_dot_product_attention(q, k, values, keys[None])
    assert ANSWERS[8] == "D"
    assert zeroed.sum() < 0.9
    assert torch.isclose(masked.sum(), torch.tensor(1.0))


def test_question_9_the_sum_of_a_dropped_row_is_1_in_expectation() -> None:
    torch.manual_seed(0)
    weights = torch.tensor([0.7, 0.1, 0.1, 0.1], dtype=torch.float64)
    dropped = F.dropout(weights.expand(20_000, 4), 0.5)
    kept = dropped[dropped.sum(1) > 0]
    divided = kept / kept.sum(1, keepdim=True)
    assert ANSWERS[9] == "B"
    assert abs(dropped.sum(1).mean() - 1) < 0.03
    assert abs(dropped[:, 0].mean() - 0.7) < 0.03
    assert abs(divided[:, 0].mean() - 0.7) > 0.1


def test_question_10_a_view_gives_head_0_the_first_two_positions() -> None:
    x = 10 * torch.arange(4)[:, None] + torch.arange(6)
    head = x.view(2, 4, 3)[0]
    assert ANSWERS[10] == "B"
    assert set((head // 10).flatten().tolist()) == {0, 1}
    assert len(head.unique()) == 12
    right = x.view(4, 2, 3).transpose(0, 1)[0]
    assert (right % 10).unique().tolist() == [0, 1, 2]


def test_question_11_more_heads_are_no_more_parameters() -> None:
    four, eight = (
        sum(p.numel() for p in nn.MultiheadAttention(64, h).parameters())
        for h in (4, 8)
    )
    assert ANSWERS[11] == "C"
    assert four == eight == 4 * 64 * 64 + 4 * 64


def test_question_12_each_position_of_a_sequence_gets_one_code() -> None:
    x, codes = torch.zeros(3, 5, 12), torch.randn(9, 12)
    added = x + codes[: x.shape[0], None]
    assert ANSWERS[12] == "A"
    assert torch.equal(added, codes[:3, None].expand(3, 5, 12))
