"""Every line of code on the cheat sheet runs, and says the truth of the package and of PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from built_book import ROOT
from torch import nn
from torch.nn import functional as F

import attention
from attention import masks, positions, reference

SHEET = (ROOT / "chapters" / "cheat-sheet.md").read_text("utf-8")
NAMES: dict[str, Any] = {
    "F": F,
    "MultiHeadAttention": attention.MultiHeadAttention,
    "attention": attention,
    "masks": masks,
    "nn": nn,
    "np": np,
    "positions": positions,
    "reference": reference,
    "scaled_dot_product_attention": attention.scaled_dot_product_attention,
    "torch": torch,
}


def section(title: str) -> str:
    """Return what stands under a heading."""
    found = re.search(
        rf"^## {title}\n(.*?)(?=^## |\Z)", SHEET, re.MULTILINE | re.DOTALL
    )
    assert found is not None, title
    return found[1]


def rows(title: str, table: int = 0) -> list[list[str]]:
    """Return the cells of a table under a heading, without its head."""
    tables = re.findall(r"(?:^\|.*\n)+", section(title), re.MULTILINE)
    lines = tables[table].splitlines()[2:]
    return [
        [c.strip() for c in line.strip("|").split(" | ")] for line in lines
    ]


def code(cell: str) -> str:
    """Return the code that opens a cell."""
    found = re.match(r"`([^`]+)`", cell)
    assert found is not None, cell
    return found[1]


LINES = section("The package in ten lines").split("```")[1].splitlines()[1:]


def shapes(comment: str) -> list[tuple[int, ...]]:
    """Return the shapes that a comment gives in numbers."""
    return [
        tuple(map(int, found.split(",")))
        for found in re.findall(r"\((\d+(?:, \d+)+)\)", comment)
    ]


@pytest.fixture(scope="module")
def ran() -> list[tuple[str, str, dict[str, Any]]]:
    """Run the ten lines; return each with its comment and the names as it left them."""
    torch.manual_seed(0)
    names = dict(NAMES)
    states = []
    for line in LINES:
        statement, _, comment = line.partition("  # ")
        exec(statement, names)
        states.append((statement, comment, dict(names)))
    return states


def test_there_are_ten_lines() -> None:
    assert len(LINES) == 10


def test_each_line_gives_the_shapes_in_its_comment(
    ran: list[tuple[str, str, dict[str, Any]]],
) -> None:
    checked = 0
    for statement, comment, names in ran:
        assigned = statement.partition(" = ")[0].split(", ")
        given = shapes(comment)
        if given:
            assert [tuple(names[n].shape) for n in assigned] == given, (
                statement
            )
            checked += len(given)
    assert checked >= 10


def test_the_sizes_in_the_other_comments_are_true(
    ran: list[tuple[str, str, dict[str, Any]]],
) -> None:
    (_, first, names), (_, second, later) = ran[:2]
    sizes = re.search(r"B, L, S, d_model = (.*)", first)
    assert sizes is not None
    B, L, S, d_model = map(int, sizes[1].split(", "))
    assert names["x"].shape == (B, L, d_model)
    assert names["y"].shape == (B, S, d_model)
    layer = later["layer"]
    assert second == f"d_k = d_v = {layer.d_k}" and layer.d_k == layer.d_v


def test_the_gradients_of_the_last_line_are_pytorchs(
    ran: list[tuple[str, str, dict[str, Any]]],
) -> None:
    names = ran[-1][2]
    inputs = [names[n].clone().requires_grad_() for n in "qkv"]
    output = F.scaled_dot_product_attention(*inputs, names["mask"])
    output.sum().backward()
    for n, tensor in zip("qkv", inputs, strict=True):
        ours = torch.as_tensor(names[f"d{n}"])
        torch.testing.assert_close(ours, tensor.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        pytest.param(code(a), code(b), id=code(a))
        for a, b in rows("In PyTorch's words")
    ],
)
def test_pytorchs_words_mean_the_same(here: str, there: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    layer = attention.MultiHeadAttention(12, 3, dtype=torch.float64).eval()
    names = NAMES | {
        "x": normal(2, 5, 12),
        "q": normal(2, 3, 5, 4),
        "k": normal(2, 3, 7, 4),
        "v": normal(2, 3, 7, 6),
        "mask": masks.causal(5, 7),
        "real": torch.arange(5) < torch.tensor([5, 3])[:, None],
        "layer": layer,
        "module": layer.to_torch(),
    }
    torch.testing.assert_close(eval(here, names), eval(there, names))


# ---------------------------------------------------------------------------------- the masks
def weights(where: str, argument: str, mask: torch.Tensor) -> torch.Tensor:
    """Return the weights, (4, 5), that a function or layer gives under a mask."""
    x, y = torch.randn(2, 4, 12), torch.randn(2, 5, 12)
    if where == "attention.MultiHeadAttention":
        layer = attention.MultiHeadAttention(12, 3)
        return layer(x, y, attn_mask=mask, return_weights=True)[1][0, 0]
    if where == "nn.MultiheadAttention":
        module = nn.MultiheadAttention(12, 3, batch_first=True)
        return module(x, y, y, **{argument: mask})[1][0]
    function = eval(where, NAMES)
    # With the identity for values the output is the weights.
    return function(x, y, torch.eye(5).expand(2, 5, 5), attn_mask=mask)[0]


@pytest.mark.parametrize(
    ("where", "argument", "meaning"),
    [
        pytest.param(code(a), code(b), c, id=f"{code(a)} {code(b)}")
        for a, b, c, _ in rows("Masks")
    ],
)
def test_true_means_what_the_sheet_says(
    where: str, argument: str, meaning: str
) -> None:
    marked = torch.tensor([True, False, False, True, False])
    padding = argument == "key_padding_mask"
    mask = marked.expand(2, 5) if padding else marked.expand(4, 5)
    seen = weights(where, argument, mask) > 0
    means = {
        "may attend": marked,
        "may not attend": ~marked,
        "ignore this key": ~marked,
    }
    assert torch.equal(seen, means[meaning].expand(4, 5))


@pytest.mark.parametrize(
    ("where", "argument", "shapes"),
    [
        pytest.param(code(a), code(b), d, id=f"{code(a)} {code(b)}")
        for a, b, _, d in rows("Masks")
    ],
)
def test_masks_may_have_the_shapes_that_the_sheet_says(
    where: str, argument: str, shapes: str
) -> None:
    sizes = {"B": 2, "H": 3, "L": 4, "S": 5}
    for written in re.findall(r"`\(([^)]*)\)`", shapes):
        text = written.replace("...", "B").removesuffix(",")
        if "broadcasts" in shapes:
            text = text.removeprefix(
                "B, "
            )  # where these functions have no heads
        shape = [eval(size, sizes) for size in text.split(", ")]
        mask = torch.zeros(shape, dtype=torch.bool)
        allowed = "attention.MultiHead" in where or "scaled" in where
        mask = ~mask if allowed else mask
        assert weights(where, argument, mask).shape == (4, 5)


@pytest.mark.parametrize(
    ("call", "seen"),
    [
        pytest.param(code(call), (first, second), id=code(call))
        for call, _, first, second in rows("Masks", table=1)
    ],
)
def test_causality_starts_where_the_sheet_says(
    call: str, seen: tuple[str, str]
) -> None:
    mask = eval(call, NAMES).int().tolist()
    assert [" ".join(map(str, row)) for row in mask] == list(seen)


def test_the_first_corner_is_that_of_the_flag() -> None:
    q, k, v = torch.randn(2, 3), torch.randn(4, 3), torch.eye(4)
    flagged = attention.scaled_dot_product_attention(q, k, v, is_causal=True)
    masked = attention.scaled_dot_product_attention(
        q, k, v, masks.causal(2, 4)
    )
    torch.testing.assert_close(flagged, masked)


@pytest.mark.parametrize(
    "mask",
    [torch.ones(2, 4, dtype=torch.int64), torch.tensor([[0.0, 1, 1, 0]])],
)
def test_masks_of_integers_and_of_zeros_and_ones_are_refused(
    mask: torch.Tensor,
) -> None:
    q, k = torch.randn(2, 3), torch.randn(4, 3)
    with pytest.raises((TypeError, ValueError)):
        attention.scaled_dot_product_attention(q, k, k, mask)


def test_a_query_with_nothing_to_attend_to_gets_zero_everywhere() -> None:
    q, k = torch.randn(2, 3, requires_grad=True), torch.randn(4, 3)
    nothing = torch.zeros(2, 4, dtype=torch.bool)
    output, weights = attention.scaled_dot_product_attention(
        q, k, k, nothing, return_weights=True
    )
    output.sum().backward()
    assert q.grad is not None
    assert not (output.any() or weights.any() or q.grad.any())


# ------------------------------------------------------------------------------- the pitfalls
def test_every_item_of_the_gallery_is_a_line_of_the_sheet() -> None:
    lines = section("Pitfalls").strip().splitlines()
    numbers = [
        re.match(r"- \{ref\}`(\d+) <wrong-(\d+)>` \S", line)
        for line in lines
    ]
    assert all(numbers)
    found = [(int(n[1]), int(n[2])) for n in numbers if n]
    assert found == [(n, n) for n in range(1, 35)]


def test_the_links_lead_to_the_items(
    soup: Callable[[str], Any], html: Path
) -> None:
    links = soup("chapters/cheat-sheet").select("#pitfalls li a")
    assert len(links) == 34
    for link in links:
        page, _, anchor = str(link["href"]).partition("#")
        target = soup(f"chapters/{page.removesuffix('.html')}").find(
            id=anchor
        )
        heading = target.find_next("h3")
        assert heading.get_text().startswith(f"{link.get_text()}. ")
