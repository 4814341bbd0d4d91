"""Wide formulas: in parts, which stand in one line where it is long enough, else in several."""

from __future__ import annotations

import maths
import pytest
from maths import RELATIONS, SIGNS, SPACES, Formula
from windows import DESKTOP, PHONE, Watch, needs_browser


@pytest.mark.parametrize(
    ("tex", "before", "expected"),
    [
        (r"a = b \le c", RELATIONS, ["a ", "= b ", r"\le c"]),
        (r"a = -b + c", RELATIONS | SIGNS, ["a ", "= -b ", "+ c"]),
        (r"-a + b", SIGNS, ["-a ", "+ b"]),
        (
            r"q = 1, \quad k, \qquad v",
            SPACES,
            ["q = 1, ", r"\quad k, ", r"\qquad v"],
        ),
        (
            r"f(x = 1) \to \{y = 2\}",
            RELATIONS,
            ["f(x = 1) ", r"\to \{y = 2\}"],
        ),
        (
            r"\frac{a = b}{c} < \left(d = e\right)",
            RELATIONS,
            [r"\frac{a = b}{c} ", r"< \left(d = e\right)"],
        ),
        (
            r"\begin{cases} a = b \end{cases} > c",
            RELATIONS,
            [r"\begin{cases} a = b \end{cases} ", "> c"],
        ),
        (
            r"\sum_{j=1}^S \leftarrow \qquad b",
            SPACES,
            [r"\sum_{j=1}^S \leftarrow ", r"\qquad b"],
        ),
        (
            r"x \in [0, 1) = I, \quad ( a",
            SPACES,
            [r"x \in [0, 1) = I, \quad ( a"],
        ),
        (r"a \not= b", RELATIONS, [r"a \not= b"]),
    ],
)
def test_a_formula_is_cut_outside_of_all_brackets(
    tex: str, before: set[str], expected: list[str]
) -> None:
    assert maths.cut(tex, before) == expected
    assert "".join(maths.cut(tex, before)) == tex


def test_a_part_keeps_the_space_before_it_and_a_relation_its_own() -> None:
    wide = Formula(r"a = b, \qquad c", True)
    assert maths.parts(wide, SPACES) == [
        ("", Formula("a = b,", True)),
        (r"\qquad", Formula("c", True)),
    ]
    assert maths.parts(Formula("a = b", True), RELATIONS) == [
        ("", Formula("a", True)),
        ("", Formula("{}= b", True)),
    ]


# Of each display formula: the part of it that its box hides, and the lines that its parts take.
BOXES = """() => [...document.querySelectorAll("div.math > .formula")].map((box) => {
  const parts = [...box.querySelectorAll("mjx-container")].map((p) => p.getBoundingClientRect());
  let lines = 0, right = Infinity;
  for (const part of parts) {
    if (part.left < right - 1) lines += 1;
    right = part.right;
  }
  return { hidden: box.scrollWidth - box.clientWidth, parts: parts.length, lines };
})"""


@needs_browser
def test_parts_stand_in_one_line_on_a_wide_page_and_in_several_on_a_phone(
    watch: Watch,
) -> None:
    tab = watch.open("chapters/scaled-dot-product-attention")
    tab.add_style_tag(content="* {content-visibility: visible !important}")
    tab.set_viewport_size(DESKTOP)
    wide = tab.evaluate(BOXES)
    tab.set_viewport_size(PHONE)
    narrow = tab.evaluate(BOXES)
    cut = [i for i, box in enumerate(wide) if box["parts"] > 1]
    assert len(cut) >= 5
    for i in cut:
        assert wide[i]["lines"] == 1
        assert wide[i]["hidden"] <= 1
        assert narrow[i]["hidden"] <= 1
    assert sum(narrow[i]["lines"] > 1 for i in cut) >= 4
