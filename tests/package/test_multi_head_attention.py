"""The layer and its NumPy twin: against loops, against PyTorch's layer, and without memory."""

from __future__ import annotations

import copy
import gc
import io
import math
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from implementations import tolerance
from oracle import loop_multi_head_attention
from torch import nn

from attention import MultiHeadAttention, masks, multihead, reference

B, H, L, S, D_MODEL, D_K, D_V, KDIM, VDIM = 2, 3, 5, 7, 12, 2, 6, 10, 8
CLOSE = tolerance(torch.float64)


def _layer(device: str = "cpu", **options: Any) -> MultiHeadAttention:
    """Return a layer whose biases, too, are random: zeros would hide where they are added."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(
        D_MODEL, H, dtype=torch.float64, device=device, **options
    )
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return layer


def _inputs(
    device: str = "cpu",
    *leading: int,
    kdim: int = D_MODEL,
    vdim: int = D_MODEL,
) -> Any:
    torch.manual_seed(2)
    leading = leading or (B,)
    return [
        torch.randn(*leading, n, w, dtype=torch.float64, device=device)
        for n, w in ((L, D_MODEL), (S, kdim), (S, vdim))
    ]


def _parameters(layer: MultiHeadAttention) -> dict[str, np.ndarray]:
    """Return the layer's weights under the names, and in the layout, of the equation."""
    parameters = {}
    for letter, name in (
        ("Q", "q_proj"),
        ("K", "k_proj"),
        ("V", "v_proj"),
        ("O", "out_proj"),
    ):
        linear = getattr(layer, name)
        parameters[f"W_{letter}"] = (
            linear.weight.detach().cpu().numpy().T.copy()
        )
        if linear.bias is not None:
            parameters[f"b_{letter}"] = (
                linear.bias.detach().cpu().numpy().copy()
            )
    return parameters


def _mask(*shape: int) -> torch.Tensor:
    mask = (
        torch.rand(
            shape, generator=torch.Generator().manual_seed(sum(shape))
        )
        < 0.6
    )
    mask[..., 0] = True
    return mask


LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "d_k and d_v of their own": {"d_k": D_K, "d_v": D_V},
    "key and value widths of their own": {"kdim": KDIM, "vdim": VDIM},
    "one shared key/value head": {"num_kv_heads": 1},
    "all at once": {
        "d_k": D_K,
        "d_v": D_V,
        "kdim": KDIM,
        "vdim": VDIM,
        "num_kv_heads": 1,
        "bias": False,
    },
}
MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "(L, S)": {"attn_mask": _mask(L, S)},
    "padding": {"attn_mask": masks.padding([4, 7], S)},
    "per head": {"attn_mask": _mask(1, H, L, S)},
    "all axes": {"attn_mask": _mask(B, H, L, S)},
    "additive": {"attn_mask": masks.to_additive(_mask(L, S), torch.float64)},
    "causal": {"is_causal": True},
    "causal and padding": {
        "attn_mask": masks.padding([2, 7], S),
        "is_causal": True,
    },
    "a sequence of no length": {"attn_mask": masks.padding([0, 7], S)},
}


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("masked", MASKS.values(), ids=MASKS)
def test_layer_and_numpy_equal_a_loop_over_the_heads(
    options: dict[str, Any], masked: dict[str, Any], device: str
) -> None:
    layer = _layer(device, **options)
    tensors = _inputs(device, kdim=layer.kdim, vdim=layer.vdim)
    on_device = {
        k: v.to(device) if k == "attn_mask" else v for k, v in masked.items()
    }
    output, weights = layer(*tensors, **on_device, return_weights=True)
    fused = layer(*tensors, **on_device)

    arrays = [x.cpu().numpy() for x in tensors]
    numpy_options = {
        k: v.numpy() if k == "attn_mask" else v for k, v in masked.items()
    }
    numpy_options["num_kv_heads"] = layer.num_kv_heads
    parameters = _parameters(layer)
    expected = loop_multi_head_attention(
        *arrays, parameters, H, **numpy_options
    )
    twin = reference.multi_head_attention(
        *arrays, parameters, H, **numpy_options
    )
    assert output.shape == (B, L, D_MODEL)
    assert weights.shape == (B, H, L, S)
    for actual in (output, fused):
        np.testing.assert_allclose(
            actual.detach().cpu().numpy(), expected[0], **CLOSE
        )
    np.testing.assert_allclose(
        weights.detach().cpu().numpy(), expected[1], **CLOSE
    )
    for actual, x in zip(twin, expected, strict=True):
        np.testing.assert_allclose(actual, x, **CLOSE)


# --- one product for the three projections


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_kv_heads", [1, H])
def test_packed_projections_equal_separate_ones_forward_and_backward(
    num_kv_heads: int, bias: bool, device: str
) -> None:
    layer = _layer(
        device, d_k=D_K, d_v=D_V, num_kv_heads=num_kv_heads, bias=bias
    )
    x = _inputs(device)[0].requires_grad_()
    # Three tensors that are equal, but not the same one, are projected one by one.
    for inputs in ((x,), (x, x.clone(), x.clone())):
        layer.zero_grad()
        output = layer(*inputs)
        (x_grad,) = torch.autograd.grad(
            output.square().sum(), x, retain_graph=True
        )
        output.square().sum().backward()
        results = [output, x_grad, *(p.grad for p in layer.parameters())]
        if len(inputs) == 1:
            packed = [r.clone() for r in results]
    for one, other in zip(packed, results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_self_attention_is_projected_in_one_product_and_other_attention_in_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer, (x, y, _) = _layer(), _inputs()
    products = []
    own = nn.functional.linear

    def spy(*args: Any) -> torch.Tensor:
        products.append(args)
        return own(*args)

    monkeypatch.setattr(nn.functional, "linear", spy)
    layer(x)
    assert len(products) == 2  # and one for the output
    layer(x, y)
    assert len(products) == 2 + 4


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_projection_may_be_replaced_by_one_that_differs_in_its_bias(
    bias: bool, name: str
) -> None:
    layer, x = _layer(bias=bias), _inputs()[0]
    own = getattr(layer, name)
    replaced = nn.Linear(
        own.in_features,
        own.out_features,
        bias=not bias,
        dtype=own.weight.dtype,
    )
    setattr(layer, name, replaced)
    torch.testing.assert_close(layer(x), layer(x, x.clone()), **CLOSE)


@pytest.mark.parametrize("other", ["key", "value"])
def test_each_projection_reads_its_own_input_where_two_are_the_same_tensor(
    other: str,
) -> None:
    layer, (x, y) = _layer(), _inputs()[1:]
    inputs = {"query": x, "key": x, "value": x} | {other: y}
    copies = {name: tensor.clone() for name, tensor in inputs.items()}
    torch.testing.assert_close(layer(**inputs), layer(**copies), **CLOSE)
    assert not torch.allclose(layer(**inputs), layer(x))


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj"])
@pytest.mark.parametrize(
    "register",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ],
)
def test_who_listens_to_a_projection_is_heard_in_self_attention_too(
    register: str, name: str
) -> None:
    layer, x = _layer(), _inputs()[0].requires_grad_()
    heard = []
    projection = getattr(layer, name)
    getattr(projection, register)(lambda module, *_: heard.append(module))
    layer(x).sum().backward()
    assert heard == [projection]


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj"])
def test_a_projection_that_was_replaced_is_called_in_self_attention_too(
    name: str,
) -> None:
    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    layer, x = _layer(), _inputs()[0]
    other = copy.deepcopy(layer)
    projection = Doubled(D_MODEL, D_MODEL, dtype=torch.float64)
    projection.load_state_dict(getattr(layer, name).state_dict())
    setattr(layer, name, projection)
    with torch.no_grad():
        for parameter in getattr(other, name).parameters():
            parameter *= 2
    torch.testing.assert_close(layer(x), other(x), **CLOSE)


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj"])
def test_a_projection_whose_forward_was_replaced_is_called_in_self_attention_too(
    name: str,
) -> None:
    layer, x = _layer(), _inputs()[0]
    projection = getattr(layer, name)
    plain = projection.forward
    projection.forward = lambda x: 3 * plain(x)
    torch.testing.assert_close(layer(x), layer(x, x.clone()), **CLOSE)


def test_who_listens_to_all_modules_hears_each_projection_in_self_attention_too() -> (
    None
):
    layer, x, heard = _layer(), _inputs()[0], []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, *_: heard.append(module)
    )
    try:
        layer(x)
    finally:
        handle.remove()
    assert heard == [*layer.children(), layer]


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj", "out_proj"])
def test_a_projection_may_be_replaced_by_a_module_without_parameters(
    name: str,
) -> None:
    layer, x = _layer(), _inputs()[0]
    other = copy.deepcopy(layer)
    setattr(layer, name, nn.Identity())
    with torch.no_grad():
        projection = getattr(other, name)
        projection.weight.copy_(torch.eye(D_MODEL))
        projection.bias.zero_()
    torch.testing.assert_close(layer(x), other(x), **CLOSE)


# --- as PyTorch's layer


TORCH_LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "widths of their own": {"kdim": KDIM, "vdim": VDIM},
    "a value width of its own, no bias": {"vdim": VDIM, "bias": False},
    "a key width of its own": {"kdim": KDIM},
}


def _torch_layer(
    device: str = "cpu", **options: Any
) -> nn.MultiheadAttention:
    torch.manual_seed(3)
    module = nn.MultiheadAttention(
        D_MODEL,
        H,
        batch_first=True,
        dtype=torch.float64,
        device=device,
        **options,
    )
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return module


def _their_gradients(
    module: nn.MultiheadAttention,
) -> dict[str, torch.Tensor]:
    """Return the gradients of PyTorch's layer under our names: it packs three matrices in one."""
    names = ("q_proj", "k_proj", "v_proj")
    if module.in_proj_weight is not None:
        weights = module.in_proj_weight.grad.split(D_MODEL)
    else:
        weights = [getattr(module, f"{name}_weight").grad for name in names]
    gradients = {
        f"{name}.weight": w for name, w in zip(names, weights, strict=True)
    }
    gradients["out_proj.weight"] = module.out_proj.weight.grad
    if module.in_proj_bias is not None:
        biases = module.in_proj_bias.grad.split(D_MODEL)
        gradients |= {
            f"{name}.bias": b for name, b in zip(names, biases, strict=True)
        }
        gradients["out_proj.bias"] = module.out_proj.bias.grad
    return gradients


def _masks_of_both(keys: int) -> dict[str, tuple[dict, dict]]:
    """Return our masks beside theirs, whose True means the opposite."""
    some, padding = _mask(B, H, L, keys), masks.padding([2, keys], keys)
    generator = torch.Generator().manual_seed(keys)
    bias = torch.randn(some.shape, generator=generator, dtype=torch.float64)
    bias = bias.masked_fill(~some, -math.inf)
    added = masks.to_additive(padding, torch.float64)
    causal = masks.causal(L, keys)
    hidden = {"key_padding_mask": ~padding[:, 0, 0]}
    flat = ~some.reshape(B * H, L, keys)
    flat_bias = bias.reshape(B * H, L, keys)
    return {
        "none": ({}, {}),
        "(L, S)": (
            {"attn_mask": some[0, 0]},
            {"attn_mask": ~some[0, 0]},
        ),
        "(L, S), added": (
            {"attn_mask": bias[0, 0]},
            {"attn_mask": bias[0, 0]},
        ),
        "(B H, L, S)": ({"attn_mask": some}, {"attn_mask": flat}),
        "(B H, L, S), added": (
            {"attn_mask": bias},
            {"attn_mask": flat_bias},
        ),
        "padding": ({"attn_mask": padding}, hidden),
        "padding, added": (
            {"attn_mask": added},
            {"key_padding_mask": added[:, 0, 0]},
        ),
        "padding and (B H, L, S)": (
            {"attn_mask": padding & some},
            hidden | {"attn_mask": flat},
        ),
        "padding and (B H, L, S), added": (
            {"attn_mask": added + bias},
            {"key_padding_mask": added[:, 0, 0], "attn_mask": flat_bias},
        ),
        "causal": ({"is_causal": True}, {"attn_mask": ~causal}),
        "padding and causal": (
            {"attn_mask": padding, "is_causal": True},
            hidden | {"attn_mask": ~causal},
        ),
    }


@pytest.mark.parametrize(
    ("options", "attends_to"),
    [
        pytest.param(options, to, id=f"{name}, {to}")
        for name, options in TORCH_LAYERS.items()
        for to in ("itself", "another sequence")
        if to != "itself" or not options.keys() & {"kdim", "vdim"}
    ],
)
@pytest.mark.parametrize("masked", _masks_of_both(S))
@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("way", ["from_torch", "to_torch"])
def test_equal_to_pytorchs_layer_in_output_weights_and_every_gradient(
    way: str,
    options: dict[str, Any],
    attends_to: str,
    masked: str,
    return_weights: bool,
    device: str,
) -> None:
    if way == "from_torch":
        module = _torch_layer(device, **options)
        layer = MultiHeadAttention.from_torch(module)
    else:
        layer = _layer(device, **options)
        module = layer.to_torch()
    ours, theirs = (
        [
            x.requires_grad_()
            for x in _inputs(device, kdim=layer.kdim, vdim=layer.vdim)
        ]
        for _ in range(2)
    )
    if attends_to == "itself":  # one leaf collects all three gradients
        ours, theirs = ours[:1] * 3, theirs[:1] * 3
    our_mask, their_mask = (
        {
            k: v.to(device) if isinstance(v, torch.Tensor) else v
            for k, v in mask.items()
        }
        for mask in _masks_of_both(ours[1].shape[1])[masked]
    )
    expected, expected_weights = module(
        *theirs, average_attn_weights=False, **their_mask
    )
    if return_weights:
        output, weights = layer(*ours, **our_mask, return_weights=True)
        torch.testing.assert_close(weights, expected_weights, **CLOSE)
    else:
        output = layer(*ours, **our_mask)
    torch.testing.assert_close(output, expected, **CLOSE)

    grad = torch.randn_like(output)
    output.backward(grad)
    expected.backward(grad)
    for x, y in zip(ours, theirs, strict=True):
        torch.testing.assert_close(x.grad, y.grad, **CLOSE)
    expected_gradients = _their_gradients(module)
    gradients = {name: p.grad for name, p in layer.named_parameters()}
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient, expected_gradients[name], msg=name, **CLOSE
        )


@pytest.mark.parametrize("masked", ["none", "(L, S)", "(H, L, S)"])
def test_a_single_sequence_equals_pytorchs_layer(masked: str) -> None:
    module = _torch_layer()
    layer = MultiHeadAttention.from_torch(module)
    query, key, value = (x[0] for x in _inputs())
    mask = {"(L, S)": _mask(L, S), "(H, L, S)": _mask(H, L, S)}.get(masked)
    output, weights = layer(query, key, value, mask, return_weights=True)
    expected, expected_weights = module(
        query,
        key,
        value,
        attn_mask=None if mask is None else ~mask,
        average_attn_weights=False,
    )
    torch.testing.assert_close(output, expected, **CLOSE)
    torch.testing.assert_close(weights, expected_weights, **CLOSE)


def test_keys_and_values_are_the_query_where_they_are_not_given() -> None:
    layer = _layer()
    x = _inputs()[0]
    expected, expected_weights = layer(x, x, x, return_weights=True)
    for output, weights in (
        layer(x, return_weights=True),
        layer(x, x, return_weights=True),
    ):
        assert torch.equal(output, expected)
        assert torch.equal(weights, expected_weights)


def test_the_value_is_the_key_where_it_is_not_given() -> None:
    layer = _layer()
    query, key, _ = _inputs()
    torch.testing.assert_close(layer(query, key), layer(query, key, key))


def test_a_value_may_be_given_where_the_key_is_not() -> None:
    layer = _layer()
    query, _, value = _inputs()
    value = value[:, : query.shape[1]]
    expected = layer(query, query, value, return_weights=True)
    output, weights = layer(query, value=value, return_weights=True)
    assert torch.equal(output, expected[0])
    assert torch.equal(weights, expected[1])


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", TORCH_LAYERS.values(), ids=TORCH_LAYERS)
def test_from_and_to_torch_carry_weights_sizes_dropout_dtype_and_mode_there_and_back(
    options: dict[str, Any], training: bool
) -> None:
    module = _torch_layer(dropout=0.25, **options).train(training)
    layer = MultiHeadAttention.from_torch(module)
    assert layer.training is training
    assert layer.dropout == 0.25
    assert layer.q_proj.weight.dtype == torch.float64
    assert (layer.d_model, layer.num_heads, layer.kdim, layer.vdim) == (
        module.embed_dim,
        module.num_heads,
        module.kdim,
        module.vdim,
    )
    back = layer.to_torch()
    assert back.training is training
    assert back.dropout == 0.25
    assert back.batch_first
    for (name, p), (other_name, other) in zip(
        module.named_parameters(), back.named_parameters(), strict=True
    ):
        assert name == other_name
        assert torch.equal(p, other)
        assert p.dtype == other.dtype


def test_from_and_to_torch_copy_every_parameter() -> None:
    module = _torch_layer()
    layer = MultiHeadAttention.from_torch(module)
    back = layer.to_torch()
    before = copy.deepcopy(layer.state_dict())
    with torch.no_grad():
        for parameter in (*module.parameters(), *back.parameters()):
            parameter.zero_()
    for name, parameter in layer.state_dict().items():
        assert torch.equal(parameter, before[name]), name


@pytest.mark.parametrize("options", TORCH_LAYERS.values(), ids=TORCH_LAYERS)
def test_from_and_to_torch_keep_what_is_frozen_frozen(
    options: dict[str, Any],
) -> None:
    module = _torch_layer(**options)
    for number, parameter in enumerate(module.parameters()):
        parameter.requires_grad_(number % 2 == 1)
    back = MultiHeadAttention.from_torch(module).to_torch()
    flags = [
        [p.requires_grad for p in x.parameters()] for x in (module, back)
    ]
    assert flags[0] == flags[1]
    assert not all(flags[0])


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj"])
def test_a_packed_parameter_is_trained_if_a_part_of_it_is(name: str) -> None:
    layer = _layer().requires_grad_(False)
    assert not any(p.requires_grad for p in layer.to_torch().parameters())
    getattr(layer, name).weight.requires_grad_(True)
    module = layer.to_torch()
    trained = [n for n, p in module.named_parameters() if p.requires_grad]
    assert trained == ["in_proj_weight"]
    assert module.in_proj_weight.is_leaf


def test_from_and_to_torch_draw_no_random_numbers() -> None:
    module = _torch_layer()
    state = torch.get_rng_state()
    MultiHeadAttention.from_torch(module).to_torch()
    assert torch.equal(torch.get_rng_state(), state)


def test_from_torch_of_a_sequence_first_layer_is_batch_first() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(
        D_MODEL, H, dtype=torch.float64
    )  # batch_first=False
    layer = MultiHeadAttention.from_torch(module)
    query, key, value = _inputs()
    expected, _ = module(*(x.transpose(0, 1) for x in (query, key, value)))
    torch.testing.assert_close(
        layer(query, key, value), expected.transpose(0, 1), **CLOSE
    )


# --- shapes


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("leading", [(), (B,), (1,), (B, 3), (2, 1, 3)])
def test_any_leading_axes_are_attended_to_one_entry_at_a_time(
    leading: tuple[int, ...], return_weights: bool, device: str
) -> None:
    layer = _layer(device)
    torch.manual_seed(2)
    query, key = (
        torch.randn(*leading, n, D_MODEL, dtype=torch.float64, device=device)
        for n in (L, S)
    )
    result = layer(query, key, return_weights=return_weights)
    output = result[0] if return_weights else result
    assert output.shape == (*leading, L, D_MODEL)
    if return_weights:
        assert result[1].shape == (*leading, H, L, S)
    for at in np.ndindex(*leading):
        torch.testing.assert_close(
            output[at], layer(query[at], key[at]), **CLOSE
        )


def test_leading_axes_of_size_one_stretch() -> None:
    layer = _layer()
    query, key, value = _inputs()
    shared = layer(query[:1], key, value)
    torch.testing.assert_close(
        shared[1], layer(query[0], key[1], value[1]), **CLOSE
    )
    own = layer(query, key[:1], value)
    torch.testing.assert_close(
        own[1], layer(query[1], key[0], value[1]), **CLOSE
    )


@pytest.mark.parametrize("batched", [0, 1, 2])
def test_a_mask_may_differ_between_entries_though_one_input_alone_has_a_batch(
    batched: int,
) -> None:
    layer = _layer()
    inputs = [x if i == batched else x[:1] for i, x in enumerate(_inputs())]
    mask = masks.padding([4, 7], S)
    expanded = [x.expand(B, -1, -1) for x in inputs]
    expected = layer(*expanded, mask)
    torch.testing.assert_close(layer(*inputs, mask), expected, **CLOSE)
    twin, _ = reference.multi_head_attention(
        *(x.numpy() for x in inputs), _parameters(layer), H, mask
    )
    np.testing.assert_allclose(twin, expected.detach().numpy(), **CLOSE)


def test_batch_entries_do_not_see_each_other() -> None:
    layer = _layer()
    query, key, value = _inputs()
    before = layer(query, key, value)
    key[1] += 3
    value[1] -= 2
    query[1] *= 5
    after = layer(query, key, value)
    torch.testing.assert_close(after[0], before[0], rtol=0, atol=0)
    assert not torch.allclose(after[1], before[1])


def test_an_unbatched_mask_may_have_the_heads_axis() -> None:
    layer = _layer()
    query, key, value = (x[0] for x in _inputs())
    mask = _mask(H, L, S)
    _, weights = layer(query, key, value, mask, return_weights=True)
    assert torch.equal(weights > 0, mask)


@pytest.mark.parametrize("n", [H, B])
def test_a_three_dimensional_mask_of_a_batch_is_refused_as_it_could_mean_either(
    n: int,
) -> None:
    layer = _layer()
    mask = torch.ones(n if n == H else 1, L, S, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"mask\[:, None\].*mask\[None\]"):
        layer(*_inputs(), mask)


@pytest.mark.parametrize("shape", [(L, S), (1, L, S), (1, 1, L, S)])
def test_a_mask_says_all_its_axes_or_two_also_where_there_are_two_batch_axes(
    shape: tuple[int, ...],
) -> None:
    """Four axes, in a batch the right number, would lack the first batch axis here."""
    layer = _layer()
    inputs = [x[None] for x in _inputs()]
    mask = torch.ones(shape, dtype=torch.bool)
    ways = (
        lambda: layer(*inputs, mask),
        lambda: reference.multi_head_attention(
            *(x.numpy() for x in inputs), _parameters(layer), H, mask
        ),
    )
    for attend in ways:
        if len(shape) == 2:
            attend()
        else:
            with pytest.raises(ValueError, match="all 5 axes"):
                attend()


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    ("batch", "queries", "keys"),
    [(0, L, S), (B, 0, S), (B, L, 0), (1, 1, 1)],
)
def test_sizes_of_zero_and_one_work_forward_and_backward(
    batch: int,
    queries: int,
    keys: int,
    is_causal: bool,
    return_weights: bool,
    device: str,
) -> None:
    layer = _layer(device)
    query, key = (
        torch.randn(batch, n, D_MODEL, dtype=torch.float64, device=device)
        for n in (queries, keys)
    )
    result = layer(
        query, key, is_causal=is_causal, return_weights=return_weights
    )
    output = result[0] if return_weights else result
    assert output.shape == (batch, queries, D_MODEL)
    if not keys:  # nothing to attend to: the output's bias alone
        assert torch.equal(output, layer.out_proj.bias.expand_as(output))
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


# --- what must hold as in the function


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("additive", [False, True])
def test_a_sequence_of_no_length_gives_the_outputs_bias_and_no_gradient(
    return_weights: bool, is_causal: bool, additive: bool, device: str
) -> None:
    layer = _layer(device)
    mask = masks.padding(torch.tensor([0, 4], device=device), S)
    mask = masks.to_additive(mask, torch.float64) if additive else mask
    tensors = [x.requires_grad_() for x in _inputs(device)]
    with torch.autograd.set_detect_anomaly(True):
        result = layer(
            *tensors, mask, is_causal, return_weights=return_weights
        )
        output = result[0] if return_weights else result
        output.square().sum().backward()
    assert torch.equal(output[0], layer.out_proj.bias.expand(L, -1))
    if return_weights:
        assert (result[1][0] == 0).all()
    for x in tensors:
        assert (x.grad[0] == 0).all()
        assert (x.grad[1] != 0).any()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("return_weights", [False, True])
def test_padding_holds_what_it_will_without_changing_anything(
    return_weights: bool, device: str
) -> None:
    layer = _layer(device)
    query, key, value = _inputs(device)
    mask = masks.padding(torch.tensor([4, 5], device=device), S)
    results = []
    for filling in (0.0, 1e30, -1e30):
        key[0, 4:], key[1, 5:] = filling, filling
        value[0, 4:], value[1, 5:] = -filling, filling
        layer.zero_grad()
        result = layer(
            query, key, value, mask, return_weights=return_weights
        )
        output = result[0] if return_weights else result
        output.square().sum().backward()
        results.append(
            [output, *(p.grad.clone() for p in layer.parameters())]
        )
    for other in results[1:]:
        for x, y in zip(results[0], other, strict=True):
            torch.testing.assert_close(y, x, **CLOSE)


@pytest.mark.parametrize("kind", ["padding", "additive", "(S,)", "(L, S)"])
@pytest.mark.parametrize("return_weights", [False, True])
def test_what_no_query_may_see_cannot_overflow_in_the_projections(
    return_weights: bool, kind: str
) -> None:
    layer = _layer()
    query, key, value = _inputs()
    lengths = (
        [S - 2, S - 1] if kind in ("padding", "additive") else [S - 2] * B
    )
    padding = masks.padding(lengths, S)
    mask = {
        "padding": padding,
        "additive": masks.to_additive(padding, torch.float64),
        "(S,)": padding[0, 0, 0],
        "(L, S)": padding[0, 0].expand(L, S),
    }[kind]
    unseen = ~padding[:, 0, 0, :, None]
    spoilt = [
        x.masked_fill(unseen, torch.finfo(x.dtype).max) for x in (key, value)
    ]
    results = []
    for pair in ((key, value), spoilt):
        leaves = [x.clone().requires_grad_() for x in (query, *pair)]
        output = layer(*leaves, mask, return_weights=return_weights)
        output = output[0] if return_weights else output
        results.append((output, *torch.autograd.grad(output.sum(), leaves)))
    for clean, other in zip(*results, strict=True):
        torch.testing.assert_close(other, clean, **CLOSE)
    arrays = [x.numpy() for x in (query, *spoilt)]
    output, _ = reference.multi_head_attention(
        *arrays, _parameters(layer), H, mask
    )
    np.testing.assert_allclose(output, results[0][0].detach(), **CLOSE)


@pytest.mark.parametrize("mask", [None, "all", "the first key hidden"])
@pytest.mark.parametrize("return_weights", [False, True])
def test_a_key_after_every_query_cannot_overflow_in_the_projections(
    return_weights: bool, mask: str | None
) -> None:
    layer = _layer()
    query, key, value = _inputs()
    allowed = torch.ones(L, S, dtype=torch.bool)
    hidden = [*range(L, S)]
    if mask == "the first key hidden":
        allowed[:, 0] = False
        hidden.append(0)
    options: dict[str, Any] = {
        "attn_mask": None if mask is None else allowed,
        "is_causal": True,
    }
    spoilt = [x.clone() for x in (key, value)]
    for x in spoilt:
        x[:, hidden] = torch.finfo(x.dtype).max
    results = [
        layer(query, *pair, **options, return_weights=return_weights)
        for pair in ((key, value), spoilt)
    ]
    clean, other = (r[0] if return_weights else r for r in results)
    assert L < S
    torch.testing.assert_close(other, clean, **CLOSE)
    arrays = [x.numpy() for x in (query, *spoilt)]
    output, _ = reference.multi_head_attention(
        *arrays, _parameters(layer), H, **options
    )
    np.testing.assert_allclose(output, clean.detach(), **CLOSE)


@pytest.mark.parametrize("return_weights", [False, True])
def test_what_stands_for_an_unseen_position_cannot_overflow_either(
    return_weights: bool,
) -> None:
    """A layer for inputs of 1e-3 would make infinities of ones."""
    layer, (x, _, _) = _layer(), _inputs()
    with torch.no_grad():
        layer.v_proj.weight.fill_(torch.finfo(x.dtype).max / 4)
        layer.out_proj.weight.fill_(1 / torch.finfo(x.dtype).max)
    small = (x.abs() + 1) * 1e-3
    allowed = torch.ones(L, L, dtype=torch.bool)
    allowed[:, -1] = False
    result = layer(small, attn_mask=allowed, return_weights=return_weights)
    output = result[0] if return_weights else result
    assert output.isfinite().all()
    array = small.numpy()
    parameters = _parameters(layer)
    output, _ = reference.multi_head_attention(
        array, array, array, parameters, H, allowed.numpy()
    )
    assert np.isfinite(output).all()


def test_a_key_that_mask_and_flag_hide_together_cannot_overflow_in_the_projections() -> (
    None
):
    layer, (x, _, _) = _layer(), _inputs()
    allowed = torch.ones(L, L, dtype=torch.bool)
    allowed[3:, 3] = False  # which only earlier queries may see by the mask
    spoilt = x.clone()
    spoilt[:, 3] = torch.finfo(x.dtype).max
    clean, other = (
        layer(x, y, attn_mask=allowed, is_causal=True) for y in (x, spoilt)
    )
    torch.testing.assert_close(other, clean, **CLOSE)
    output, _ = reference.multi_head_attention(
        *(y.numpy() for y in (x, spoilt, spoilt)),
        _parameters(layer),
        H,
        allowed,
        is_causal=True,
    )
    np.testing.assert_allclose(output, clean.detach(), **CLOSE)


def test_a_layer_that_hides_later_keys_makes_its_mask_where_its_inputs_are() -> (
    None
):
    layer, (query, key, value) = _layer(), _inputs()
    inputs = (x.to("meta") for x in (query, key, value))
    assert layer.to("meta")(*inputs, is_causal=True).shape == query.shape


def test_all_projections_may_be_replaced_by_modules_without_parameters() -> (
    None
):
    layer, (query, _, _) = _layer(), _inputs()
    for name, _ in [*layer.named_children()]:
        setattr(layer, name, nn.Identity())
    heads = multihead.split_heads(query, H)
    attended = nn.functional.scaled_dot_product_attention(
        heads, heads, heads
    )
    torch.testing.assert_close(
        layer(query), multihead.merge_heads(attended), **CLOSE
    )


def test_head_h_is_the_h_th_block_of_the_matrices() -> None:
    """With the other heads' rows of the output matrix at zero, one head alone speaks."""
    layer = _layer(d_k=D_K, d_v=D_V, bias=False)
    query, key, value = _inputs()
    _, weights = layer(query, key, value, return_weights=True)
    for h in range(H):
        rows = slice(h * D_K, (h + 1) * D_K)
        scores = (query @ layer.q_proj.weight[rows].T) @ (
            key @ layer.k_proj.weight[rows].T
        ).transpose(1, 2)
        expected = torch.softmax(scores / math.sqrt(D_K), -1)
        torch.testing.assert_close(weights[:, h], expected, **CLOSE)
        alone = copy.deepcopy(layer)
        columns = slice(h * D_V, (h + 1) * D_V)
        with torch.no_grad():
            alone.out_proj.weight.zero_()
            alone.out_proj.weight[:, columns] = layer.out_proj.weight[
                :, columns
            ]
        head = expected @ (value @ layer.v_proj.weight[columns].T)
        torch.testing.assert_close(
            alone(query, key, value),
            head @ layer.out_proj.weight[:, columns].T,
            **CLOSE,
        )


def test_grouped_heads_equal_a_layer_whose_heads_are_copies_within_a_group() -> (
    None
):
    torch.manual_seed(0)
    grouped = MultiHeadAttention(12, 6, num_kv_heads=2, dtype=torch.float64)
    full = MultiHeadAttention(12, 6, dtype=torch.float64)
    d = grouped.d_k
    with torch.no_grad():
        full.q_proj.load_state_dict(grouped.q_proj.state_dict())
        full.out_proj.load_state_dict(grouped.out_proj.state_dict())
        for ours, theirs in (
            (full.k_proj, grouped.k_proj),
            (full.v_proj, grouped.v_proj),
        ):
            for h in range(6):
                shared = h // 3
                ours.weight[h * d : (h + 1) * d] = theirs.weight[
                    shared * d : (shared + 1) * d
                ]
    query, key, value = _inputs()
    mask = masks.causal(L, S) & masks.padding([4, 7], S)
    for x, y in zip(
        grouped(query, key, value, mask, return_weights=True),
        full(query, key, value, mask, return_weights=True),
        strict=True,
    ):
        torch.testing.assert_close(x, y, **CLOSE)
    torch.testing.assert_close(
        grouped(query, key, value), full(query, key, value), **CLOSE
    )


def test_grouped_heads_are_repeated_and_not_tiled_in_numpy(
    rng: np.random.Generator,
) -> None:
    """With one shared head the two are the same: here two heads serve four."""
    arrays = [rng.standard_normal((B, n, 8)) for n in (L, S, S)]
    parameters = {
        "W_Q": rng.standard_normal((8, 8)),
        "W_K": rng.standard_normal((8, 4)),
        "W_V": rng.standard_normal((8, 6)),
        "W_O": rng.standard_normal((12, 8)),
    }
    actual = reference.multi_head_attention(
        *arrays, parameters, 4, num_kv_heads=2
    )
    expected = loop_multi_head_attention(
        *arrays, parameters, 4, num_kv_heads=2
    )
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_allclose(x, y, **CLOSE)


@pytest.mark.parametrize("return_weights", [False, True])
def test_gradcheck_of_the_layer(return_weights: bool, device: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(
        4, 2, d_v=3, dtype=torch.float64, device=device
    )
    tensors = [
        torch.randn(
            1, n, 4, dtype=torch.float64, device=device, requires_grad=True
        )
        for n in (2, 3)
    ]
    mask = torch.tensor(
        [[True, True, False], [False, False, False]], device=device
    )

    def run(
        query: torch.Tensor, key: torch.Tensor, *parameters: torch.Tensor
    ) -> Any:
        named = dict(
            zip(dict(layer.named_parameters()), parameters, strict=True)
        )
        return torch.func.functional_call(
            layer,
            named,
            (query, key, key, mask),
            {"return_weights": return_weights},
        )

    assert torch.autograd.gradcheck(run, (*tensors, *layer.parameters()))


# --- initialisation


def test_each_projection_is_drawn_within_xaviers_bound_for_its_own_shape() -> (
    None
):
    torch.manual_seed(0)
    layer = MultiHeadAttention(
        64, 4, d_k=8, d_v=24, kdim=96, vdim=48, num_kv_heads=2
    )
    for linear in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        bound = math.sqrt(6 / sum(linear.weight.shape))
        assert linear.weight.abs().max() <= bound
        # uniform on [-bound, bound]: the largest of hundreds of draws is close to it, and the
        # standard deviation is bound / sqrt(3), here from 1500 draws or more, to 1 part in 30
        assert linear.weight.abs().max() > 0.99 * bound
        assert (
            abs(linear.weight.std().item() * math.sqrt(3) / bound - 1) < 0.06
        )


def test_at_width_64_the_standard_deviation_is_an_eighth() -> None:
    """Drawn as one stacked matrix of queries, keys and values it would be 0.088."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(64, 8)
    for linear in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        assert abs(linear.weight.std().item() - 0.125) < 0.004


def test_the_four_projections_start_different_and_share_nothing() -> None:
    layer = MultiHeadAttention(16, 4)
    weights = [
        x.weight
        for x in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    ]
    for i, x in enumerate(weights):
        for y in weights[:i]:
            assert not torch.equal(x, y)
            assert x.data_ptr() != y.data_ptr()
    assert len(list(layer.parameters())) == 8


def test_the_scores_at_the_start_are_not_symmetric() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 4)
    queries, keys = (p(torch.eye(16)) for p in (layer.q_proj, layer.k_proj))
    scores = queries @ keys.T
    assert (scores - scores.T).abs().max() > 0.1


def test_biases_start_at_zero_and_may_be_left_out() -> None:
    layer = MultiHeadAttention(16, 4)
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        assert (getattr(layer, name).bias == 0).all()
        assert (
            getattr(MultiHeadAttention(16, 4, bias=False), name).bias is None
        )


def test_reset_parameters_draws_anew_and_a_seed_decides_the_draw() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 4)
    first = {name: x.clone() for name, x in layer.state_dict().items()}
    with torch.no_grad():
        layer.q_proj.bias.fill_(1)
    layer.reset_parameters()
    assert not torch.equal(layer.q_proj.weight, first["q_proj.weight"])
    assert (layer.q_proj.bias == 0).all()
    torch.manual_seed(0)
    again = MultiHeadAttention(16, 4)
    assert all(
        torch.equal(x, first[name]) for name, x in again.state_dict().items()
    )


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_the_number_of_parameters_does_not_depend_on_the_number_of_heads(
    num_heads: int,
) -> None:
    layer = MultiHeadAttention(12, num_heads)
    assert sum(p.numel() for p in layer.parameters()) == 4 * (12 * 12 + 12)


def test_sizes_follow_from_the_arguments() -> None:
    layer = MultiHeadAttention(
        12, 6, d_k=2, d_v=5, kdim=7, vdim=9, num_kv_heads=3
    )
    assert layer.q_proj.weight.shape == (6 * 2, 12)
    assert layer.k_proj.weight.shape == (3 * 2, 7)
    assert layer.v_proj.weight.shape == (3 * 5, 9)
    assert layer.out_proj.weight.shape == (12, 6 * 5)
    assert (
        MultiHeadAttention(10, 3, d_k=2, d_v=5).d_v == 5
    )  # 3 need not divide 10 then
    assert MultiHeadAttention(12, 6, d_k=5).d_v == 2
    assert MultiHeadAttention(12, 6, d_v=5).d_k == 2
    for said in (
        "d_model=12",
        "num_heads=6",
        "num_kv_heads=3",
        "d_k=2",
        "d_v=5",
        "dropout=0.0",
    ):
        assert said in repr(layer)


def test_a_layer_may_have_a_single_head_and_widths_of_one() -> None:
    layer = MultiHeadAttention(
        1, 1, d_k=1, d_v=1, kdim=1, vdim=1, num_kv_heads=1
    )
    assert {p.numel() for p in layer.parameters()} == {1}
    x = torch.randn(B, 1, 1)  # one key to attend to: its value
    torch.testing.assert_close(layer(x), layer.out_proj(layer.v_proj(x)))


# --- no hidden state


def _state(module: nn.Module) -> dict[str, Any]:
    """Return everything that hangs on a module and its parts, by identity and value."""
    return {
        f"{name}.{key}": dict(value) if isinstance(value, dict) else value
        for name, part in module.named_modules()
        for key, value in vars(part).items()
    }


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_call_leaves_nothing_on_the_layer(return_weights: bool) -> None:
    layer = _layer(dropout=0.1)
    before = _state(layer)
    buffers, parameters = (
        list(layer.buffers()),
        [p.detach().clone() for p in layer.parameters()],
    )
    layer(*_inputs(), _mask(L, S), True, return_weights=return_weights)
    after = _state(layer)
    assert after.keys() == before.keys()
    for key, value in before.items():
        assert after[key] is value or after[key] == value, key
    assert list(layer.buffers()) == buffers == []
    for p, copied in zip(layer.parameters(), parameters, strict=True):
        assert torch.equal(p, copied)
        assert p.grad is None


def _tensors_with_a_graph() -> int:
    return sum(
        type(x) is torch.Tensor and x.grad_fn is not None
        for x in gc.get_objects()
    )


@pytest.mark.parametrize("return_weights", [False, True])
def test_nothing_of_a_call_lives_on_once_its_result_is_dropped(
    return_weights: bool,
) -> None:
    layer = _layer()
    gc.collect()
    before = _tensors_with_a_graph()
    query, key, value = (x.requires_grad_() for x in _inputs())
    result = layer(query, key, value, return_weights=return_weights)
    tensors = result if return_weights else (result,)
    witnesses = [weakref.ref(x) for x in (*tensors, query, key, value)]
    del result, tensors, query, key, value
    gc.collect()
    assert [witness() for witness in witnesses] == [None] * len(witnesses)
    assert _tensors_with_a_graph() == before


def test_calls_do_not_influence_each_other() -> None:
    layer = _layer().eval()
    tensors = _inputs()
    first = layer(*tensors)
    layer(*tensors, _mask(L, S), return_weights=True)
    layer(tensors[0][:, :2])
    assert torch.equal(layer(*tensors), first)


@pytest.mark.parametrize("return_weights", [False, True])
def test_a_call_changes_none_of_its_inputs(return_weights: bool) -> None:
    layer = _layer()
    tensors = [*_inputs(), _mask(B, 1, L, S)]
    copies, versions = (
        [x.clone() for x in tensors],
        [x._version for x in tensors],
    )
    layer(*tensors, True, return_weights=return_weights)
    assert all(
        torch.equal(x, y) for x, y in zip(tensors, copies, strict=True)
    )
    assert [x._version for x in tensors] == versions


# --- an ordinary module


def test_state_dict_makes_the_round_trip_through_a_file() -> None:
    layer, other = _layer(num_kv_heads=1, d_v=D_V), MultiHeadAttention(
        D_MODEL, H, num_kv_heads=1, d_v=D_V, dtype=torch.float64
    )  # fmt: skip
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(layer(*_inputs()), other(*_inputs()))
    assert set(layer.state_dict()) == {
        f"{name}.{kind}"
        for name in ("q_proj", "k_proj", "v_proj", "out_proj")
        for kind in ("weight", "bias")
    }


def test_a_deep_copy_is_equal_and_independent() -> None:
    layer = _layer()
    copied = copy.deepcopy(layer)
    assert torch.equal(layer(*_inputs()), copied(*_inputs()))
    with torch.no_grad():
        copied.q_proj.weight.zero_()
    assert (layer.q_proj.weight != 0).any()


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32]
)
@pytest.mark.parametrize("return_weights", [False, True])
def test_the_layer_works_in_every_floating_dtype(
    dtype: torch.dtype, return_weights: bool, device: str
) -> None:
    layer = _layer(device)
    tensors = _inputs(device)
    mask = masks.padding(torch.tensor([0, 5], device=device), S)
    expected = layer(*tensors, mask)
    layer = layer.to(dtype)
    result = layer(
        *(x.to(dtype) for x in tensors), mask, return_weights=return_weights
    )
    output = result[0] if return_weights else result
    assert output.dtype == dtype
    # four products of width 12 with entries up to 3, each rounded
    torch.testing.assert_close(
        output.double(), expected, rtol=0, atol=40 * torch.finfo(dtype).eps
    )
    output.sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_the_layer_can_be_made_in_a_dtype_and_on_the_meta_device() -> None:
    layer = MultiHeadAttention(12, 3, dtype=torch.bfloat16)
    assert {p.dtype for p in layer.parameters()} == {torch.bfloat16}
    assert {
        p.device.type
        for p in MultiHeadAttention(12, 3, device="meta").parameters()
    } == {"meta"}


def test_the_layer_trains() -> None:
    """A layer learns to copy the previous token, which takes every part of it."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 2)
    place = torch.eye(16)[None, :8]  # each position has a code of its own
    target = torch.roll(place, 1, dims=1)[:, 1:]
    optimizer = torch.optim.Adam(layer.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        loss = (layer(place, is_causal=True)[:, 1:] - target).square().mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3


# --- heads


def test_split_heads_puts_slice_h_of_the_width_in_head_h() -> None:
    x = torch.arange(2 * 4 * 6).reshape(2, 4, 6)
    for split in (
        multihead.split_heads(x, 3),
        reference.split_heads(x.numpy(), 3),
    ):
        assert split.shape == (2, 3, 4, 2)
        for b, h, position, c in np.ndindex(2, 3, 4, 2):
            assert split[b, h, position, c] == x[b, position, h * 2 + c]


@pytest.mark.parametrize("leading", [(), (2,), (2, 5), (0,)])
@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_merge_heads_is_the_inverse_of_split_heads(
    leading: tuple[int, ...], num_heads: int
) -> None:
    x = torch.randn(*leading, 4, 6)
    assert torch.equal(
        multihead.merge_heads(multihead.split_heads(x, num_heads)), x
    )
    array = x.numpy()
    np.testing.assert_array_equal(
        reference.merge_heads(reference.split_heads(array, num_heads)), array
    )
    heads = torch.randn(*leading, num_heads, 4, 5)
    assert torch.equal(
        multihead.split_heads(multihead.merge_heads(heads), num_heads), heads
    )
    np.testing.assert_array_equal(
        reference.split_heads(
            reference.merge_heads(heads.numpy()), num_heads
        ),
        heads.numpy(),
    )


def test_split_heads_copies_nothing_and_takes_any_layout() -> None:
    x = torch.randn(2, 4, 6)
    assert multihead.split_heads(x, 3).data_ptr() == x.data_ptr()
    strided = torch.randn(6, 4, 2).permute(2, 1, 0)
    assert torch.equal(
        multihead.split_heads(strided, 3),
        multihead.split_heads(strided.contiguous(), 3),
    )


def test_heads_of_length_zero_split_and_merge() -> None:
    assert multihead.merge_heads(
        multihead.split_heads(torch.zeros(2, 0, 6), 3)
    ).shape == (2, 0, 6)
    assert reference.merge_heads(
        reference.split_heads(np.zeros((2, 0, 6)), 3)
    ).shape == (2, 0, 6)


# --- the NumPy twin alone


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numpys_layer_keeps_the_dtype_and_computes_in_float32(
    dtype: type,
) -> None:
    layer = _layer()
    arrays = [x.numpy().astype(dtype) for x in _inputs()]
    parameters = {
        name: x.astype(dtype) for name, x in _parameters(layer).items()
    }
    output, weights = reference.multi_head_attention(*arrays, parameters, H)
    exact = loop_multi_head_attention(
        *(x.astype(np.float64) for x in arrays),
        {name: x.astype(np.float64) for name, x in parameters.items()},
        H,
    )
    assert output.dtype == weights.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    rounding = (
        {"rtol": 0.51 * eps, "atol": 1e-5}
        if dtype is np.float16
        else tolerance(dtype)
    )
    np.testing.assert_allclose(output, exact[0], **rounding)
    np.testing.assert_allclose(weights, exact[1], **rounding)


def test_numpys_layer_takes_a_single_sequence() -> None:
    arrays = [x.numpy() for x in _inputs()]
    parameters = _parameters(_layer())
    batch = reference.multi_head_attention(*arrays, parameters, H)
    alone = reference.multi_head_attention(
        *(x[1] for x in arrays), parameters, H
    )
    for x, y in zip(alone, batch, strict=True):
        np.testing.assert_allclose(x, y[1], **CLOSE)


def test_numpys_layer_applies_the_dropout_factors_and_changes_no_input(
    rng: np.random.Generator,
) -> None:
    layer = _layer()
    arrays = [x.numpy() for x in _inputs()]
    parameters = _parameters(layer)
    for array in (*arrays, *parameters.values()):
        array.flags.writeable = False
    nothing = np.zeros((B, H, L, S))
    output, weights = reference.multi_head_attention(
        *arrays, parameters, H, dropout_mask=nothing
    )
    np.testing.assert_allclose(
        output, np.broadcast_to(parameters["b_O"], output.shape)
    )
    np.testing.assert_allclose(weights.sum(-1), 1)
    once = reference.dropout_mask((B, H, L, S), 0.4, rng)
    halves = [
        reference.multi_head_attention(
            *arrays, parameters, H, dropout_mask=x
        )[0]
        for x in (once, 2 * once)
    ]
    np.testing.assert_allclose(
        halves[1] - parameters["b_O"],
        2 * (halves[0] - parameters["b_O"]),
        **CLOSE,
    )
