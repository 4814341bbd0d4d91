"""Positions: codes and rotations against loops, complex numbers and what they are for."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from attention import positions

B, H, L, S, D_K, D_MODEL = 2, 3, 5, 7, 4, 6
PAIRINGS: list[positions.Pairing] = ["half_split", "interleaved"]
ROTARY_DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
]


@pytest.fixture(params=PAIRINGS)
def pairing(request: pytest.FixtureRequest) -> positions.Pairing:
    return request.param


def _random(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.from_numpy(rng.normal(size=shape))


def _turned_by_loop(
    x: Tensor, at: Tensor, pairing: str, base: float
) -> Tensor:
    """Multiply each pair of one (L, d_k) matrix by its own rotation matrix."""
    turned, width = torch.empty_like(x), x.shape[-1]
    for row, r in itertools.product(range(len(x)), range(width // 2)):
        phi = float(at[row]) / base ** (2 * r / width)
        matrix = torch.tensor(
            [
                [math.cos(phi), -math.sin(phi)],
                [math.sin(phi), math.cos(phi)],
            ],
            dtype=x.dtype,
        )
        pair = (
            [2 * r, 2 * r + 1]
            if pairing == "interleaved"
            else [r, r + width // 2]
        )
        turned[row, pair] = matrix @ x[row, pair]
    return turned


# --- frequencies and sinusoidal codes


def test_frequencies_entry_by_entry(device: str) -> None:
    omega = positions.frequencies(6, base=50.0, device=device)
    assert omega.dtype == torch.float64
    assert omega.device.type == device
    assert omega.tolist() == pytest.approx(
        [1.0, 50.0 ** (-1 / 3), 50.0 ** (-2 / 3)], rel=1e-14
    )


def test_a_base_below_one_is_a_base_too() -> None:
    omega = positions.frequencies(4, base=0.25)
    assert omega.tolist() == pytest.approx([1.0, 2.0], rel=1e-14)


def test_frequencies_stay_exact_when_the_default_dtype_is_narrow() -> None:
    torch.set_default_dtype(torch.float16)
    try:
        omega = positions.frequencies(6, base=50.0)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(omega, positions.frequencies(6, base=50.0))


def test_frequencies_are_made_where_pytorch_makes_tensors() -> None:
    with torch.device("meta"):
        assert positions.frequencies(6).device.type == "meta"


def test_a_device_without_float64_gets_float32() -> None:
    assert positions._widest(torch.device("mps")) == torch.float32


@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_sinusoidal_entry_by_entry(base: float, device: str) -> None:
    codes = positions.sinusoidal(
        L, D_MODEL, base=base, device=device, dtype=torch.float64
    )
    assert codes.shape == (L, D_MODEL)
    assert codes.device.type == device
    for t, r in itertools.product(range(L), range(D_MODEL // 2)):
        angle = t / base ** (2 * r / D_MODEL)
        assert codes[t, 2 * r].item() == pytest.approx(math.sin(angle))
        assert codes[t, 2 * r + 1].item() == pytest.approx(math.cos(angle))


def test_sinusoidal_takes_positions_of_any_shape_and_kind(
    device: str,
) -> None:
    whole = positions.sinusoidal(9, D_MODEL, dtype=torch.float64)
    at = torch.tensor([[8, 0, 3], [1, 1, 5]], device=device)  # (2, 3)
    codes = positions.sinusoidal(at, D_MODEL, dtype=torch.float64)
    assert codes.device.type == device
    assert torch.allclose(codes.cpu(), whole[at.cpu()], atol=1e-14)
    halfway = positions.sinusoidal(
        torch.tensor([-0.5]), D_MODEL, dtype=torch.float64
    )
    assert halfway[0, 0].item() == pytest.approx(math.sin(-0.5))


def test_sinusoidal_moves_to_the_device_that_is_asked_for() -> None:
    at = torch.arange(L)
    codes = positions.sinusoidal(at, D_MODEL, device="meta")
    assert codes.device.type == "meta"


@pytest.mark.parametrize("dtype", ROTARY_DTYPES)
def test_sinusoidal_rounds_only_the_result(dtype: torch.dtype) -> None:
    at = torch.tensor([100_000, 100_001])
    exact = positions.sinusoidal(at, D_MODEL, dtype=torch.float64)
    codes = positions.sinusoidal(at, D_MODEL, dtype=dtype)
    assert codes.dtype == dtype
    assert torch.equal(codes, exact.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_too_every_code_up_to_a_number_is_its_own_positions(
    dtype: torch.dtype,
) -> None:
    """Beyond 2048 float16 has no odd numbers, nor has bfloat16 beyond 256."""
    length = 2050
    assert torch.equal(
        positions.sinusoidal(length, 2, dtype=dtype),
        positions.sinusoidal(torch.arange(length), 2, dtype=dtype),
    )


def test_positions_are_not_rounded_to_single_precision(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    at = torch.tensor([1 / 3, 2.0**24 + 1], dtype=torch.float64)
    code = positions.sinusoidal(at, 2, dtype=torch.float64)
    expected = torch.stack((at.sin(), at.cos()), dim=-1)
    assert torch.allclose(code, expected, rtol=0, atol=1e-12)
    turned = positions.rope(
        torch.eye(2).double()[:1].expand(2, 2), at, pairing=pairing
    )
    assert torch.allclose(turned, expected.flip(-1), rtol=0, atol=1e-12)


def test_what_is_made_is_made_on_the_device_that_is_asked_for() -> None:
    assert positions.sinusoidal(L, D_MODEL, device="meta").is_meta
    assert positions.half_split_order(D_K, device="meta").is_meta
    with torch.device(
        "meta"
    ):  # PyTorch's default does not overrule the input's
        turned = positions.rope(
            torch.ones(L, D_K, device="cpu"), pairing="half_split"
        )
    assert turned.device.type == "cpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sinusoidal_is_of_pytorchs_default_dtype(dtype: torch.dtype) -> None:
    torch.set_default_dtype(dtype)
    try:
        codes = positions.sinusoidal(L, D_MODEL)
    finally:
        torch.set_default_dtype(torch.float32)
    assert codes.dtype == dtype


@pytest.mark.parametrize("shift", [1, -3, 40])
def test_a_shift_turns_every_pair_of_a_code_by_the_same_angles_anywhere(
    shift: int,
) -> None:
    at = torch.arange(0, 60, 7)
    before = positions.sinusoidal(at, D_MODEL, dtype=torch.float64)
    after = positions.sinusoidal(at + shift, D_MODEL, dtype=torch.float64)
    angles = shift * positions.frequencies(D_MODEL)
    # (sin, cos) is a pair that turns backwards
    turned = positions.rotate(
        before, angles.cos(), -angles.sin(), pairing="interleaved"
    )
    assert torch.allclose(turned, after, rtol=0, atol=1e-13)


# --- rotations


@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_rope_equals_a_loop_over_two_by_two_matrices(
    pairing: positions.Pairing,
    base: float,
    rng: np.random.Generator,
    device: str,
) -> None:
    x = _random(rng, B, H, L, D_K)
    at = torch.tensor([4, 0, 11, 2, 7])
    turned = positions.rope(
        x.to(device), at.to(device), pairing=pairing, base=base
    )
    assert turned.device.type == device
    for b, h in itertools.product(range(B), range(H)):
        expected = _turned_by_loop(x[b, h], at, pairing, base)
        assert torch.allclose(turned[b, h].cpu(), expected, atol=1e-13)


def test_interleaved_rope_is_a_product_of_complex_numbers(
    rng: np.random.Generator,
) -> None:
    x = _random(rng, B, H, L, 8)
    numbers = torch.view_as_complex(x.view(B, H, L, 4, 2))
    angles = torch.arange(L)[:, None] * 10_000.0 ** -(torch.arange(4) / 4)
    spins = torch.polar(torch.ones(L, 4).double(), angles.double())
    expected = torch.view_as_real(numbers * spins).flatten(-2)
    turned = positions.rope(x, pairing="interleaved")
    assert torch.allclose(turned, expected, rtol=0, atol=1e-6)


def test_positions_count_from_zero_where_none_are_given(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    x = _random(rng, B, H, L, D_K)
    turned = positions.rope(x, pairing=pairing)
    assert torch.equal(turned[..., 0, :], x[..., 0, :])
    assert torch.equal(
        turned, positions.rope(x, torch.arange(L), pairing=pairing)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_too_every_position_is_counted(
    pairing: positions.Pairing, dtype: torch.dtype
) -> None:
    """Beyond 2048 float16 has no odd numbers, nor has bfloat16 beyond 256."""
    length = 2050
    x = torch.ones(length, 2, dtype=dtype)
    turned = positions.rope(x, pairing=pairing)
    assert torch.equal(
        turned, positions.rope(x, torch.arange(length), pairing=pairing)
    )


def test_each_sequence_may_have_positions_of_its_own(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    x = _random(rng, B, H, L, D_K)
    at = torch.stack([torch.arange(L), torch.arange(L) + 6])  # (B, L)
    turned = positions.rope(x, at[:, None], pairing=pairing)
    for b in range(B):
        alone = positions.rope(x[b], at[b], pairing=pairing)
        assert torch.equal(turned[b], alone)


def test_a_part_of_a_sequence_behind_a_cache_is_turned_as_in_the_whole(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    x = _random(rng, B, H, S, D_K)
    whole = positions.rope(x, pairing=pairing)
    part = positions.rope(x[..., 4:, :], torch.arange(4, S), pairing=pairing)
    assert torch.equal(part, whole[..., 4:, :])


@pytest.mark.parametrize("shift", [1, 12, -5])
def test_scores_depend_on_the_distance_alone(
    pairing: positions.Pairing, shift: int, rng: np.random.Generator
) -> None:
    query, key = _random(rng, B, H, L, D_K), _random(rng, B, H, S, D_K)

    def scores(offset: int) -> Tensor:
        q = positions.rope(query, torch.arange(L) + offset, pairing=pairing)
        k = positions.rope(key, torch.arange(S) + offset, pairing=pairing)
        return q @ k.mT

    assert torch.allclose(scores(0), scores(shift), rtol=0, atol=1e-12)
    assert not torch.allclose(scores(0), query @ key.mT)


def test_scores_of_the_same_vectors_are_equal_along_diagonals(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    q, k = _random(rng, D_K), _random(rng, D_K)
    turned_q = positions.rope(q.expand(S, D_K), pairing=pairing)
    turned_k = positions.rope(k.expand(S, D_K), pairing=pairing)
    scores = turned_q @ turned_k.T
    assert torch.allclose(scores[1:, 1:], scores[:-1, :-1], atol=1e-13)


def test_rope_keeps_every_length(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    x = _random(rng, B, H, L, D_K)
    turned = positions.rope(x, pairing=pairing)
    assert torch.allclose(turned.norm(dim=-1), x.norm(dim=-1))


def test_the_order_leads_from_one_pairing_to_the_other_and_back(
    rng: np.random.Generator, device: str
) -> None:
    x = _random(rng, B, H, L, 8).to(device)
    order = positions.half_split_order(8, device=device)
    assert order.dtype == torch.int64
    assert order.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = positions.rope(x, pairing="interleaved")
    half_split = positions.rope(x[..., order], pairing="half_split")
    assert torch.equal(interleaved[..., order], half_split)
    assert torch.equal(half_split[..., order.argsort()], interleaved)


def test_the_two_pairings_differ_where_there_is_more_than_one_pair(
    rng: np.random.Generator,
) -> None:
    x = _random(rng, L, D_K)
    assert not torch.allclose(
        positions.rope(x, pairing="half_split"),
        positions.rope(x, pairing="interleaved"),
    )
    narrow = x[:, :2]
    assert torch.equal(
        positions.rope(narrow, pairing="half_split"),
        positions.rope(narrow, pairing="interleaved"),
    )


def test_rotate_takes_any_cosines_and_sines_that_broadcast(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    x = _random(rng, B, H, L, D_K)
    cos, sin = _random(rng, B, 1, L, D_K // 2), _random(rng, D_K // 2)
    turned = positions.rotate(x, cos, sin, pairing=pairing)
    full = torch.broadcast_to(sin, (B, 1, L, D_K // 2))
    assert torch.equal(
        turned, positions.rotate(x, cos, full, pairing=pairing)
    )
    first = slice(0, None, 2) if pairing == "interleaved" else slice(0, 2)
    second = slice(1, None, 2) if pairing == "interleaved" else slice(2, 4)
    a, b = x[..., first], x[..., second]
    assert torch.allclose(turned[..., first], a * cos - b * sin)
    assert torch.allclose(turned[..., second], a * sin + b * cos)


@pytest.mark.parametrize("dtype", ROTARY_DTYPES)
def test_rope_rounds_only_the_result(
    pairing: positions.Pairing, dtype: torch.dtype, rng: np.random.Generator
) -> None:
    """Positions beyond 2048 do not fit in float16, nor beyond 256 in bfloat16."""
    x = _random(rng, H, L, D_K).to(dtype)
    at = torch.arange(L) + 50_001
    turned = positions.rope(x, at, pairing=pairing)
    exact = positions.rope(x.double(), at, pairing=pairing)
    assert turned.dtype == dtype
    unit = torch.finfo(dtype).eps
    if dtype in (torch.float16, torch.bfloat16):
        assert torch.allclose(turned.double(), exact, rtol=unit, atol=1e-6)
    else:
        assert torch.allclose(turned.double(), exact, atol=8 * unit)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rotate_rounds_only_the_result_though_all_its_inputs_are_half_precision(
    pairing: positions.Pairing, dtype: torch.dtype, rng: np.random.Generator
) -> None:
    x = _random(rng, H, L, D_K).to(dtype)
    cos, sin = (_random(rng, L, D_K // 2).to(dtype) for _ in range(2))
    turned = positions.rotate(x, cos, sin, pairing=pairing)
    exact = positions.rotate(
        x.double(), cos.double(), sin.double(), pairing=pairing
    )
    assert torch.equal(turned, exact.to(dtype))


def test_gradients_turn_back(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    x = _random(rng, B, L, D_K).requires_grad_()
    arriving = _random(rng, B, L, D_K)
    positions.rope(x, pairing=pairing).backward(arriving)
    back = positions.rope(arriving, -torch.arange(L), pairing=pairing)
    assert x.grad is not None
    assert torch.allclose(x.grad, back, rtol=0, atol=1e-14)


def test_rope_changes_none_of_its_inputs(
    pairing: positions.Pairing, rng: np.random.Generator
) -> None:
    x, at = _random(rng, B, L, D_K), torch.arange(L)
    before = x.clone()
    positions.rope(x, at, pairing=pairing)
    assert torch.equal(x, before)
    assert torch.equal(at, torch.arange(L))


@pytest.mark.parametrize("length", [0, 1])
def test_short_sequences_are_ordinary(
    pairing: positions.Pairing, length: int, device: str
) -> None:
    x = torch.ones(B, H, length, D_K, device=device)
    assert positions.rope(x, pairing=pairing).shape == x.shape
    assert positions.sinusoidal(length, D_MODEL).shape == (length, D_MODEL)


# --- what is not guessed


def test_neither_pairing_is_the_default() -> None:
    for function, arguments in (
        (positions.rope, 1),
        (positions.rotate, 3),
    ):
        with pytest.raises(TypeError, match="'pairing'"):
            function(*[torch.zeros(1, 2)] * arguments)


def test_positions_of_a_batch_are_not_taken_for_positions_of_heads() -> None:
    """With as many heads as sequences (B, L) would broadcast, along the wrong axis."""
    square = torch.zeros(3, 3, L, D_K)
    with pytest.raises(ValueError, match=r"write positions\[:, None\]"):
        positions.rope(square, torch.zeros(3, L), pairing="interleaved")
