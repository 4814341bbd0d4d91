"""Masks: entry by entry against their definition, and against PyTorch's own classes."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attention import masks

SIZES = [(5, 7), (7, 5), (4, 4), (1, 6), (6, 1), (0, 3), (3, 0), (0, 0)]
ALIGNMENTS: list[masks.Alignment] = ["upper_left", "lower_right"]


@pytest.mark.parametrize(("L", "S"), SIZES)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_causal_entry_by_entry(
    L: int, S: int, alignment: masks.Alignment, device: str
) -> None:
    mask = masks.causal(L, S, alignment=alignment, device=device)
    assert mask.dtype == torch.bool
    assert mask.shape == (L, S)
    assert mask.device.type == device
    shift = S - L if alignment == "lower_right" else 0
    for i, j in itertools.product(range(L), range(S)):
        assert bool(mask[i, j]) == (j <= i + shift), (i, j)


@pytest.mark.parametrize(("L", "S"), [(5, 7), (4, 4), (1, 6)])
def test_causal_allows_what_pytorchs_biases_allow(L: int, S: int) -> None:
    query, key = torch.randn(1, 1, L, 8), torch.randn(1, 1, S, 8)
    value = torch.eye(S)[None, None]  # the output is the weights
    for alignment, bias in (
        ("upper_left", causal_upper_left),
        ("lower_right", causal_lower_right),
    ):
        weights = nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias(L, S)
        )
        assert torch.equal(
            weights[0, 0] > 0, masks.causal(L, S, alignment=alignment)
        )


def test_causal_is_square_and_upper_left_by_default() -> None:
    assert torch.equal(masks.causal(4), torch.ones(4, 4).tril().bool())
    assert torch.equal(
        masks.causal(2, 4), torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0]]).bool()
    )


def test_padding_stays_with_its_lengths_wherever_pytorch_makes_tensors() -> (
    None
):
    lengths = torch.tensor([1, 3])
    with torch.device("meta"):
        mask = masks.padding(lengths)
    assert torch.equal(mask, masks.padding(lengths))


def test_what_is_written_into_one_mask_is_in_no_other() -> None:
    """A mask kept for the next call would carry over what its first caller wrote."""
    for make in (
        lambda: masks.causal(3),
        lambda: masks.sliding_window(3, left=1),
        lambda: masks.padding([2, 3]),
    ):
        first = make()
        expected = first.clone()
        first.logical_not_()
        assert torch.equal(make(), expected)


def test_the_two_alignments_are_the_same_for_as_many_queries_as_keys() -> (
    None
):
    assert torch.equal(
        masks.causal(5), masks.causal(5, alignment="lower_right")
    )


def test_a_single_query_at_the_end_of_a_cache_sees_all_or_only_the_first_key() -> (
    None
):
    assert masks.causal(1, 4, alignment="lower_right").tolist() == [
        [True] * 4
    ]
    assert masks.causal(1, 4).tolist() == [[True, False, False, False]]


def test_lower_right_leaves_the_first_queries_nothing_where_keys_are_fewer() -> (
    None
):
    seen = masks.causal(5, 3, alignment="lower_right").sum(-1)
    assert seen.tolist() == [0, 0, 1, 2, 3]


@pytest.mark.parametrize(("L", "S"), SIZES)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize(
    ("left", "right"),
    [(0, 0), (2, 0), (0, 1), (1, 2), (100, 100), (1, 2**63), (2**63, 0)],
)
def test_a_sliding_window_entry_by_entry(
    L: int,
    S: int,
    alignment: masks.Alignment,
    left: int,
    right: int,
    device: str,
) -> None:
    mask = masks.sliding_window(
        L, S, left=left, right=right, alignment=alignment, device=device
    )
    assert mask.dtype == torch.bool
    assert mask.shape == (L, S)
    assert mask.device.type == device
    shift = S - L if alignment == "lower_right" else 0
    for i, j in itertools.product(range(L), range(S)):
        assert bool(mask[i, j]) == (-left <= j - (i + shift) <= right), (
            i,
            j,
        )


def test_a_window_away_from_the_edges_holds_left_plus_one_plus_right_keys() -> (
    None
):
    mask = masks.sliding_window(9, left=2, right=1)
    assert mask[3:8].sum(-1).tolist() == [4] * 5
    assert masks.sliding_window(9, left=2)[2:].sum(-1).tolist() == [3] * 7


def test_a_window_as_wide_as_the_sequence_is_causal() -> None:
    assert torch.equal(masks.sliding_window(6, left=5), masks.causal(6))


def test_padding_lets_every_query_see_the_real_keys_alone(
    device: str,
) -> None:
    mask = masks.padding(torch.tensor([3, 0, 5], device=device), 5)
    assert mask.shape == (3, 1, 1, 5)
    assert mask.dtype == torch.bool
    assert mask.device.type == device
    assert mask[:, 0, 0].tolist() == [
        [True] * 3 + [False] * 2,
        [False] * 5,
        [True] * 5,
    ]


@pytest.mark.parametrize(
    "lengths", [[3, 1], torch.tensor([3, 1], dtype=torch.uint8), (3, 1)]
)
def test_padding_takes_the_longest_length_by_default(
    lengths: object,
) -> None:
    assert masks.padding(lengths).shape == (2, 1, 1, 3)


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.uint16, torch.uint32, torch.uint64],
)
def test_padding_counts_more_keys_than_the_type_of_the_lengths_can(
    dtype: torch.dtype,
) -> None:
    mask = masks.padding(torch.tensor([3, 100], dtype=dtype), 300)
    assert mask.sum(-1).flatten().tolist() == [3, 100]


def test_padding_of_no_sequences_and_of_empty_ones() -> None:
    assert masks.padding([]).shape == (0, 1, 1, 0)
    assert masks.padding([], 4).shape == (0, 1, 1, 4)
    assert masks.padding([0, 0]).shape == (2, 1, 1, 0)


def test_masks_combine_by_and() -> None:
    mask = masks.causal(3) & masks.padding([2, 3])
    assert mask.shape == (2, 1, 3, 3)
    for b, i, j in itertools.product(range(2), range(3), range(3)):
        assert bool(mask[b, 0, i, j]) == (j <= i and j < (2, 3)[b])


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16]
)
def test_additive_is_zero_where_true_and_minus_infinity_elsewhere(
    dtype: torch.dtype, device: str
) -> None:
    mask = masks.causal(2, 3, device=device)
    additive = masks.to_additive(mask, dtype)
    assert additive.dtype == dtype
    assert additive.device.type == device
    inf = float("inf")
    assert additive.tolist() == [[0, -inf, -inf], [0, 0, -inf]]
    assert torch.equal(masks.from_additive(additive), mask)


def test_additive_is_float32_by_default_and_keeps_any_shape() -> None:
    for shape in ((), (0,), (2, 1, 3), (0, 4)):
        mask = torch.rand(shape) < 0.5
        additive = masks.to_additive(mask)
        assert additive.dtype == torch.float32
        assert torch.equal(masks.from_additive(additive), mask)


@pytest.mark.parametrize(
    "entry",
    [
        -1e9,
        1.0,
        0.5,
        float("nan"),
        float("inf"),
        torch.finfo(torch.float32).min,
    ],
)
def test_from_additive_refuses_what_a_boolean_cannot_express(
    entry: float,
) -> None:
    with pytest.raises(ValueError, match=r"values other than 0 and -inf"):
        masks.from_additive(torch.tensor([0.0, entry]))


# --- PyTorch's layer, which means the opposite by True, is run to check the translations

B, H, L, S, D_MODEL = 2, 3, 5, 7, 12


def _module_weights(**translated: torch.Tensor) -> torch.Tensor:
    """Return the weights (B, H, L, S) of a PyTorch layer under its own masks."""
    torch.manual_seed(0)
    module = nn.MultiheadAttention(D_MODEL, H, batch_first=True).eval()
    query, key = torch.randn(B, L, D_MODEL), torch.randn(B, S, D_MODEL)
    _, weights = module(
        query, key, key, average_attn_weights=False, **translated
    )
    return weights.detach()


def _some_mask(*shape: int) -> torch.Tensor:
    mask = (
        torch.rand(
            shape, generator=torch.Generator().manual_seed(sum(shape))
        )
        < 0.5
    )
    mask[..., 0] = True  # PyTorch's layer gives NaN for a row with nothing
    return mask


MODULE_SHAPES = [
    (L, S),
    (B, H, L, S),
    (1, H, L, S),
    (B, 1, L, S),
    (B, 1, 1, S),
    (1, S),
]


@pytest.mark.parametrize("batch_size", [B, H])
def test_to_module_attn_mask_refuses_three_axes_which_could_mean_either(
    batch_size: int,
) -> None:
    with pytest.raises(ValueError, match=r"mask\[:, None\].*mask\[None\]"):
        masks.to_module_attn_mask(
            torch.ones(H, L, S, dtype=torch.bool), batch_size, H, L
        )


def test_a_mask_of_no_queries_comes_back_from_pytorchs_layer() -> None:
    given = torch.zeros(2 * 3, 0, 5, dtype=torch.bool)
    assert masks.from_module_masks(given, num_heads=3).shape == (2, 3, 0, 5)


@pytest.mark.parametrize("shape", MODULE_SHAPES)
def test_to_module_attn_mask_makes_pytorchs_layer_attend_where_ours_is_true(
    shape: tuple[int, ...],
) -> None:
    mask = _some_mask(*shape)
    translated = masks.to_module_attn_mask(mask, B, H, L)
    assert translated.shape == ((L, S) if len(shape) == 2 else (B * H, L, S))
    weights = _module_weights(attn_mask=translated)
    assert torch.equal(weights > 0, mask.expand(B, H, L, S))
    assert torch.equal(
        masks.from_module_masks(translated, num_heads=H).expand(B, H, L, S),
        mask.expand(B, H, L, S),
    )


def test_to_module_attn_mask_takes_a_mask_of_one_axis_and_a_query_axis_of_size_one() -> (
    None
):
    mask = _some_mask(S)
    assert torch.equal(
        masks.to_module_attn_mask(mask, B, H, L), ~mask.expand(L, S)
    )
    column = torch.ones(L, 1, dtype=torch.bool)
    assert masks.to_module_attn_mask(column, B, H, L).shape == (L, 1)


def test_masks_of_a_layer_with_a_single_head_are_translated_too() -> None:
    mask = _some_mask(B, 1, L, S)
    translated = masks.to_module_attn_mask(mask, B, 1, L)
    assert torch.equal(translated, ~mask[:, 0])
    assert torch.equal(
        masks.from_module_masks(translated, num_heads=1), mask
    )


def test_to_module_padding_mask_makes_pytorchs_layer_attend_where_ours_is_true() -> (
    None
):
    mask = masks.padding([4, 6], S)
    translated = masks.to_module_padding_mask(mask)
    assert translated.shape == (B, S)
    weights = _module_weights(key_padding_mask=translated)
    assert torch.equal(weights > 0, mask.expand(B, H, L, S))


@pytest.mark.parametrize("shape", [(1, S), (B, 1), (1, 1), (0, S)])
def test_to_module_padding_mask_keeps_both_axes_whatever_their_sizes(
    shape: tuple[int, int],
) -> None:
    mask = _some_mask(*shape)
    translated = masks.to_module_padding_mask(mask[:, None, None])
    assert translated.shape == shape
    assert torch.equal(translated, ~mask)


@pytest.mark.parametrize(
    ("attn_shape", "padded"),
    [
        (None, True),
        ((L, S), False),
        ((L, S), True),
        ((B * H, L, S), False),
        ((B * H, L, S), True),
    ],
)
@pytest.mark.parametrize("floating", [False, True])
def test_from_module_masks_is_true_where_pytorchs_layer_attends(
    attn_shape: tuple[int, ...] | None, padded: bool, floating: bool
) -> None:
    given = {}
    if attn_shape is not None:
        given["attn_mask"] = ~_some_mask(*attn_shape)
    if padded:
        given["key_padding_mask"] = ~masks.padding([4, 6], S)[:, 0, 0]
    if floating:
        given = {
            name: masks.to_additive(~mask) for name, mask in given.items()
        }
    weights = _module_weights(**given)
    ours = masks.from_module_masks(**given, num_heads=H)
    assert ours.dtype == torch.bool
    assert torch.equal(weights > 0, ours.expand(B, H, L, S))


def test_from_module_masks_reads_the_padding_mask_of_a_single_sequence() -> (
    None
):
    ours = masks.from_module_masks(
        key_padding_mask=torch.arange(S) > 3, num_heads=H
    )
    assert ours.shape == (1, 1, S)
    assert ours[0, 0].tolist() == [True] * 4 + [False] * 3


def test_from_module_masks_reads_both_masks_of_a_single_sequence() -> None:
    attn_mask, padded = ~_some_mask(H, L, S), torch.arange(S) > 3
    ours = masks.from_module_masks(attn_mask, padded, num_heads=H)
    assert torch.equal(ours[0], ~attn_mask & ~padded)


def test_translations_change_none_of_their_inputs() -> None:
    mask = _some_mask(B, 1, 1, S)
    copy = mask.clone()
    for result in (
        masks.to_module_padding_mask(mask),
        masks.to_module_attn_mask(mask, B, H, L),
        masks.from_module_masks(key_padding_mask=mask[:, 0, 0], num_heads=H),
        masks.to_additive(mask),
    ):
        result.logical_not_() if result.dtype == torch.bool else result.fill_(
            3
        )
        assert torch.equal(mask, copy)


def test_masks_are_made_on_the_device_that_is_asked_for() -> None:
    assert masks.causal(3, device="meta").is_meta
    assert masks.sliding_window(3, 4, left=1, device="meta").is_meta


def test_an_additive_mask_is_made_where_the_boolean_one_is() -> None:
    assert masks.to_additive(masks.causal(3, device="meta")).is_meta
