"""The bugs that people write, planted in copies of the package: the tests see each of them.

A bug that is no longer found in the source, since the source has changed, fails here too: write
it anew for the new source.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import Mutant, plant, run_tests

import attention

PACKAGE = Path(attention.__file__).resolve().parent

SDPA = "scaled_dot_product_attention"
MHA = "multi_head_attention"
LOOP = "loop_over_queries"
HEADS = "loop_over_the_heads"

_MAXIMUM = "maximum = x.max(axis=axis, keepdims=True, initial=-np.inf)"
_STEPS = "scores = _scores(query.to(dtype), key.to(dtype), scale)"
_NUMPY_SCORES = (
    "scores = self.scale * self.query @ self.key.swapaxes(-2, -1)"
)
_STEPS_WEIGHTS = "return torch.softmax(scores, dim=-1).masked_fill(~allowed, 0.0).to(query.dtype)"
_FILLS = "scores = scores.masked_fill(~allowed, -math.inf).masked_fill(empty, 0.0)"
_UNMASKED = "return torch.softmax(scores, dim=-1).to(query.dtype)"
_EMPTY_FUSED = (
    "return output if empty is None else output.masked_fill(empty, 0.0)"
)
_REPEAT = "{}.repeat_interleave(group, -3)"

MUTANTS: dict[str, Mutant] = {
    # --- softmax and scale
    "1 one maximum for the whole array": Mutant(
        "reference",
        {_MAXIMUM: "maximum = x.max(keepdims=True, initial=-np.inf)"},
        "softmax",
        "row",
    ),
    "2 no maximum": Mutant(
        "reference",
        {_MAXIMUM: "maximum = np.zeros_like(x)"},
        "softmax",
        "exact_to_rounding",
    ),
    "3 softmax over the queries, with weights": Mutant(
        "functional",
        {_UNMASKED: _UNMASKED.replace("dim=-1", "dim=-2")},
        SDPA,
        LOOP,
    ),
    "3 softmax over the queries, masked": Mutant(
        "functional",
        {_STEPS_WEIGHTS: _STEPS_WEIGHTS.replace("dim=-1", "dim=-2")},
        SDPA,
        LOOP,
    ),
    "3 softmax over the queries, NumPy": Mutant(
        "reference",
        {
            "return _softmax(np.broadcast_to(scores, self.scores_shape), out=out)": (
                "return _softmax(np.broadcast_to(scores, self.scores_shape), axis=-2)"
            )
        },
        SDPA,
        "sums_to_one",
    ),
    "4 divided by d_k": Mutant(
        "_checks",
        {"return 1.0 / math.sqrt(d_k)": "return 1.0 / d_k"},
        SDPA,
        "root_of_the_keys",
    ),
    "4 not divided": Mutant(
        "_checks",
        {"return 1.0 / math.sqrt(d_k)": "return 1.0"},
        SDPA,
        "root_of_the_keys",
    ),
    "4 divided twice": Mutant(
        "functional",
        {_STEPS: _STEPS.replace(", scale)", ", scale * scale)")},
        SDPA,
        LOOP,
    ),
    "4 divided twice by the layer": Mutant(
        "multihead",
        {
            "queries = split_heads(queries, self.num_heads)": (
                "queries = split_heads(queries, self.num_heads) / self.d_k**0.5"
            )
        },
        MHA,
        HEADS,
    ),
    "4 divided by the root of d_model": Mutant(
        "multihead",
        {"enable_gqa=": "scale=self.d_model**-0.5, enable_gqa="},
        MHA,
        "pytorchs_layer and plain",
    ),
    "4 the scale given is ignored": Mutant(
        "functional",
        {"is_causal, scale=scale)": "is_causal)"},
        SDPA,
        f"{LOOP} and scale",
    ),
    # --- masks
    "6 polarity swapped": Mutant(
        "functional",
        {
            "return mask if mask.dtype == torch": "return ~mask if mask.dtype == torch"
        },
        SDPA,
        f"{LOOP} and mask",
    ),
    "6 polarity kept on the way to PyTorch's layer": Mutant(
        "masks",
        {"return ~mask[:, 0, 0, :]": "return mask[:, 0, 0, :]"},
        "masks",
        "padding_mask",
    ),
    "6 polarity kept on the way from PyTorch's layer": Mutant(
        "masks",
        {"    return ~mask\n": "    return mask\n"},
        "masks",
        "from_module",
    ),
    "7 an integer mask is taken": Mutant(
        "functional",
        {
            "raise _checks.integer_mask(attn_mask.dtype)": "attn_mask = attn_mask.bool()"
        },
        "bad_input",
        "pytorchs_function and mask",
    ),
    "7 a mask of zeros and ones is added": Mutant(
        "_checks",
        {"    if only:\n": "    if False:\n"},
        "bad_input",
        "zeros_and_ones or ones",
    ),
    "8 a large negative number in place of minus infinity": Mutant(
        "masks",
        {"masked_fill(~mask, -math.inf)": "masked_fill(~mask, -10000.0)"},
        "masks",
        "additive",
    ),
    "8 a large negative number in the steps": Mutant(
        "functional",
        {
            _FILLS: "scores = scores.masked_fill(~allowed, -1e9)",
            _STEPS_WEIGHTS: _UNMASKED,
        },
        SDPA,
        "attend_to_nothing",
    ),
    "9 an empty row is 0/0 in the steps": Mutant(
        "functional",
        {_FILLS: _FILLS.replace(".masked_fill(empty, 0.0)", "")},
        SDPA,
        "attend_to_nothing",
    ),
    "9 an empty row is mended in the output alone": Mutant(
        "functional",
        {
            _FILLS: _FILLS.replace(".masked_fill(empty, 0.0)", ""),
            _STEPS_WEIGHTS: _STEPS_WEIGHTS.replace(
                ".to(query.dtype)",
                ".masked_fill(empty, 0.0).to(query.dtype)",
            ),
        },
        SDPA,
        "attend_to_nothing",
    ),
    "9 an empty row attends to everything": Mutant(
        "functional",
        {_EMPTY_FUSED: "return output"},
        SDPA,
        "attend_to_nothing",
    ),
    "9 an empty row is 0/0 in NumPy": Mutant(
        "reference",
        {
            "np.where(np.isneginf(maximum), x.dtype.type(0), maximum)": "maximum"
        },
        SDPA,
        "attend_to_nothing",
    ),
    "10 no numbers with weights, zeros without": Mutant(
        "functional",
        {
            _STEPS_WEIGHTS: "return torch.softmax(scores.masked_fill(empty, -math.inf), dim=-1)"
            ".to(query.dtype)"
        },
        SDPA,
        "same_with_and_without",
    ),
    "11 causal from the lower right": Mutant(
        "functional",
        {
            "masks.causal(*scores_shape[-2:], device=": (
                "masks.causal(*scores_shape[-2:], alignment='lower_right', device="
            )
        },
        SDPA,
        "upper_left or causal",
    ),
    "11 causal from the lower right in NumPy": Mutant(
        "reference",
        {
            "np.tri(*self.scores_shape[-2:], dtype=np.bool_)": (
                "np.tri(*self.scores_shape[-2:], k=self.scores_shape[-1] - self.scores_shape[-2],"
                " dtype=np.bool_)"
            )
        },
        SDPA,
        "upper_left",
    ),
    "11 causal excludes the query's own position": Mutant(
        "masks", {"return key <= at": "return key < at"}, "masks", "causal"
    ),
    "12 the flag is ignored beside a mask": Mutant(
        "functional",
        {"mask = _and_causal(mask, scores_shape, mask.device)": "pass"},
        SDPA,
        "both_masks_joined",
    ),
    "12 the mask is ignored beside the flag": Mutant(
        "reference",
        {
            "causal if self.allowed is None else self.allowed & causal": "causal"
        },
        SDPA,
        "both_masks_joined",
    ),
    "12 masks joined by or": Mutant(
        "functional",
        {"return mask & causal if": "return mask | causal if"},
        SDPA,
        "both_masks_joined",
    ),
    "13 a mask (B, S) is stretched to what it was not": Mutant(
        "_checks",
        {"all((m in (1, n) for m, n in aligned))": "True"},
        "bad_input",
        "mask",
    ),
    "13 a mask per batch entry is taken for one per head": Mutant(
        "_checks",
        {"if len(mask) > 2 and len(mask) != len(scores):": "if False:"},
        MHA,
        "three_dimensional",
    ),
    "13 heads and batch in the wrong order": Mutant(
        "masks",
        {
            "allowed.reshape(batch, num_heads, *allowed.shape[1:])": (
                "allowed.reshape(num_heads, batch, *allowed.shape[1:]).transpose(0, 1)"
            )
        },
        "masks",
        "from_module",
    ),
    "14 padding hides queries": Mutant(
        "masks",
        {"[:, None, None, :]": "[:, None, :, None]"},
        "masks",
        "padding",
    ),
    "15 a huge masked value leaks": Mutant(
        "functional",
        {"return float(largest.max()) < limit": "return True"},
        SDPA,
        "cannot_change",
    ),
    "15 a masked score overflows": Mutant(
        "functional",
        {"float(largest.max()) < limit": "float(largest.max()) < 1e25"},
        SDPA,
        "may_overflow",
    ),
    "15 a huge masked value leaks into the gradient": Mutant(
        "functional",
        {
            _STEPS_WEIGHTS: "return torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)"
            ".to(query.dtype)"
        },
        SDPA,
        "cannot_change",
    ),
    "15 a huge masked value leaks into NumPy's gradient": Mutant(
        "reference",
        {"grad_weights = np.where(inputs.allowed, grad_weights, 0)": "pass"},
        SDPA,
        "cannot_change",
    ),
    # --- dropout
    "16 dropout in eval": Mutant(
        "multihead",
        {"self.dropout if self.training else 0.0": "self.dropout"},
        "dropout",
        "training_alone",
    ),
    "16 no dropout in training": Mutant(
        "multihead",
        {"self.dropout if self.training else 0.0": "0.0"},
        "dropout",
        "training_alone",
    ),
    "17 dropout on the scores": Mutant(
        "functional",
        {
            "weights = _attention_weights(query, key,": (
                "weights = _attention_weights(F.dropout(query, dropout_p), key,"
            ),
            "F.dropout(weights, dropout_p) @ value": "weights @ value",
        },
        "dropout",
        "dropped_or_divided",
    ),
    "17 weights made to sum to one after dropout": Mutant(
        "functional",
        {
            "F.dropout(weights, dropout_p) @ value": (
                "F.normalize(F.dropout(weights, dropout_p), p=1, dim=-1) @ value"
            )
        },
        "dropout",
        "dropped_or_divided",
    ),
    "17 weights not scaled after dropout": Mutant(
        "functional",
        {
            "F.dropout(weights, dropout_p) @ value": (
                "F.dropout(weights, dropout_p) * (1 - dropout_p) @ value"
            )
        },
        "dropout",
        "dropped_or_divided",
    ),
    "17 dropout factors before the softmax in NumPy": Mutant(
        "reference",
        {_NUMPY_SCORES: f"{_NUMPY_SCORES} * self.dropout"},
        "dropout",
        "numpys",
    ),
    "18 the weights after dropout are returned": Mutant(
        "functional",
        {
            "output = F.dropout(weights, dropout_p) @ value": (
                "weights = F.dropout(weights, dropout_p)\n    output = weights @ value"
            )
        },
        "dropout",
        "before_dropout",
    ),
    # --- heads
    "19 view without transpose": Mutant(
        "multihead",
        {
            "x = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)\n"
            "    return x.transpose(-3, -2)": (
                "return x.reshape(*x.shape[:-2], num_heads, x.shape[-2], x.shape[-1] // num_heads)"
            )
        },
        MHA,
        "split_heads_puts or pytorchs_layer",
    ),
    "19 view without transpose in NumPy": Mutant(
        "reference",
        {
            "x = x.reshape(*leading, length, num_heads, width // num_heads)\n"
            "    return x.swapaxes(-3, -2)": (
                "return x.reshape(*leading, num_heads, length, width // num_heads)"
            )
        },
        MHA,
        "split_heads_puts",
    ),
    "19 heads interleaved": Mutant(
        "multihead",
        {
            "x = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)\n"
            "    return x.transpose(-3, -2)": (
                "x = x.reshape(*x.shape[:-1], x.shape[-1] // num_heads, num_heads)\n"
                "    return x.transpose(-1, -2).transpose(-3, -2)"
            )
        },
        MHA,
        "split_heads_puts",
    ),
    "20 merge without transpose": Mutant(
        "multihead",
        {
            "return x.transpose(-3, -2).flatten(-2)": (
                "return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])"
            )
        },
        MHA,
        "inverse",
    ),
    "22 projections start as copies": Mutant(
        "multihead",
        {
            "        self.reset_parameters()\n": (
                "        self.reset_parameters()\n"
                "        if self.q_proj.weight.shape == self.k_proj.weight.shape:\n"
                "            self.k_proj.load_state_dict(self.q_proj.state_dict())\n"
            )
        },
        MHA,
        "start_different",
    ),
    "22 queries and keys share a projection": Mutant(
        "multihead",
        {
            "        self.reset_parameters()\n": (
                "        self.reset_parameters()\n"
                "        if self.q_proj.weight.shape == self.k_proj.weight.shape:\n"
                "            self.k_proj = self.q_proj\n"
            )
        },
        MHA,
        "start_different or state_dict",
    ),
    "23 Xavier as for one stacked matrix": Mutant(
        "multihead",
        {
            "nn.init.xavier_uniform_(projection.weight)": (
                "nn.init.xavier_uniform_(projection.weight, gain=0.5**0.5)"
            )
        },
        MHA,
        "width_64",
    ),
    "24 output width h * d_k": Mutant(
        "multihead",
        {
            "nn.Linear(num_heads * self.d_v, d_model": "nn.Linear(num_heads * self.d_k, d_model"
        },
        MHA,
        HEADS,
    ),
    "26 sequence first in a batch-first layer": Mutant(
        "multihead",
        {
            "        queries = split_heads(": (
                "        query, key, value = (x.transpose(0, -2) for x in (query, key, value))\n"
                "        queries = split_heads("
            ),
            "self.out_proj(merge_heads(heads))": (
                "self.out_proj(merge_heads(heads)).transpose(0, -2)"
            ),
        },
        MHA,
        "do_not_see_each_other",
    ),
    "29 grouped heads tiled": Mutant(
        "functional",
        {
            _REPEAT.format(x): f"torch.cat([{x}] * group, -3)"
            for x in ("key", "value")
        },
        SDPA,
        "share_one_key",
    ),
    "29 grouped heads tiled in NumPy": Mutant(
        "reference",
        {"keys.repeat(group, axis=-3)": "np.tile(keys, (group, 1, 1))"},
        MHA,
        "repeated_and_not_tiled",
    ),
    "29 grouped heads repeated along the positions": Mutant(
        "functional",
        {
            _REPEAT.format(x): f"{x}.repeat_interleave(group, -2)"
            for x in ("key", "value")
        },
        SDPA,
        "share_one_key",
    ),
    "the key transposed by all its axes": Mutant(
        "reference", {"self.key.swapaxes(-2, -1)": "self.key.T"}, SDPA, LOOP
    ),
    # --- around the code
    "32 the weights are kept on the layer": Mutant(
        "multihead",
        {
            "        output = self.out_proj(": (
                "        self.attn = weights\n        output = self.out_proj("
            )
        },
        MHA,
        "leaves_nothing or lives_on",
    ),
    "32 the last output is kept out of sight": Mutant(
        "multihead",
        {
            "        output = self.out_proj(": (
                "        globals()['_last'] = heads\n        output = self.out_proj("
            )
        },
        MHA,
        "lives_on",
    ),
    "33 a heatmap drawn transposed": Mutant(
        "plotting",
        {"ax.imshow(matrix,": "ax.imshow(matrix.T,"},
        "plotting",
        "queries_go_down",
    ),
    "33 axes named the other way round": Mutant(
        "plotting",
        {"'y', 'query'": "'y', 'key'"},
        "plotting",
        "queries_go_down",
    ),
    # --- precision, gradients, inputs
    "softmax in half precision": Mutant(
        "functional",
        {
            "dtype = torch.promote_types(query.dtype, torch.float32)": "dtype = query.dtype"
        },
        "precision",
        "single_rounding",
    ),
    "half precision computed as such in NumPy": Mutant(
        "reference",
        {"np.asarray(x, np.promote_types(x.dtype, np.float32))": "x"},
        "precision",
        "numpy",
    ),
    "the backward forgets the sum over a row": Mutant(
        "reference",
        {"weights * (grad_weights - row_sums)": "weights * grad_weights"},
        SDPA,
        "finite_differences_of_the_loop",
    ),
    "the backward forgets the scale": Mutant(
        "reference",
        {
            "inputs.scale * grad_scores @ inputs.key": "grad_scores @ inputs.key"
        },
        SDPA,
        "finite_differences_of_the_loop",
    ),
    "the backward forgets dropout on the weights": Mutant(
        "reference",
        {"grad_weights = inputs.drop(": "grad_weights = ("},
        SDPA,
        "backward_with_dropout",
    ),
    "the backward forgets dropout on the values": Mutant(
        "reference",
        {"grad_value = inputs.drop(weights)": "grad_value = weights"},
        SDPA,
        "backward_with_dropout",
    ),
    "the backward takes a stretched axis for a full one": Mutant(
        "reference",
        {
            "grad.sum(axis=added + stretched)": "grad.mean(axis=added + stretched)"
        },
        SDPA,
        "finite_differences_of_the_loop",
    ),
    "the Jacobian without its outer product": Mutant(
        "reference",
        {
            "(np.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :])": "np.eye(p.shape[-1])"
        },
        "softmax",
        "jacobian",
    ),
    "a mask is written to": Mutant(
        "functional",
        {"return mask & causal if": "return mask.logical_and_(causal) if"},
        SDPA,
        "changes_none",
    ),
    "inputs are checked by assert": Mutant(
        "functional",
        {
            "    scores_shape = _check_inputs(": (
                "    assert query.shape[-1] == key.shape[-1]\n    scores_shape = _check_inputs("
            )
        },
        "bad_input",
        "by_assert or refuses",
    ),
    "dropout of one is let through": Mutant(
        "_checks",
        {"0.0 <= dropout_p < 1.0": "0.0 <= dropout_p <= 1.0"},
        "bad_input",
        "dropout",
    ),
    "heads that do not divide are cut off": Mutant(
        "_checks",
        {"    if num_heads % num_kv_heads:\n": "    if False:\n"},
        "bad_input",
        "divide",
    ),
    "packed projections are cut in the wrong order": Mutant(
        "multihead",
        {
            "tuple(torch.split_with_sizes(joined, widths, dim=-1))": (
                "tuple(torch.split_with_sizes(joined, widths, dim=-1))[::-1]"
            )
        },
        MHA,
        "packed",
    ),
    "packing passes over who listens to a projection": Mutant(
        "multihead",
        {
            "type(module) is nn.Linear and 'forward'": "type(module) is nn.Linear or 'forward'"
        },
        MHA,
        "listens or replaced",
    ),
    "packing passes over who listens to the way back": Mutant(
        "multihead",
        {"for way in ('forward', 'backward')": "for way in ('forward',)"},
        MHA,
        "listens",
    ),
    "packing takes two that are the same for three": Mutant(
        "multihead",
        {"query is key is value": "query is key"},
        MHA,
        "reads_its_own_input",
    ),
    "only large positive inputs are noticed": Mutant(
        "functional",
        {"torch.maximum(x.amax(), -x.amin())": "x.amax()"},
        SDPA,
        "either_sign",
    ),
    "the factor of the scores is left out of the product": Mutant(
        "functional",
        {"beta=0, alpha=scale": "beta=0"},
        SDPA,
        LOOP,
    ),
    "a conversion shares the biases": Mutant(
        "multihead",
        {
            "with torch.no_grad():\n                ours.copy_(theirs)": (
                "with torch.no_grad():\n                ours.data = theirs.data"
            )
        },
        MHA,
        "copy_every_parameter",
    ),
    # --- positions
    "27 positions are taken along the first axis": Mutant(
        "positions",
        {"torch.arange(x.shape[-2],": "torch.arange(x.shape[0],"},
        "positions",
        "count_from_zero",
    ),
    "27 positions of a batch are taken for those of heads": Mutant(
        "_checks",
        {
            "not (all_axes and _broadcasts(positions, x[:-1]))": (
                "not _broadcasts(positions, x[:-1])"
            )
        },
        "positions",
        "taken_for_positions_of_heads",
    ),
    "28 the pairings are mixed up": Mutant(
        "positions",
        {
            "if pairing == 'interleaved':": "if pairing == 'half_split':",
            "(*turned) if pairing == 'interleaved' else": (
                "(*turned) if pairing == 'half_split' else"
            ),
        },
        "positions",
        "two_by_two",
    ),
    "28 pairs are taken in one way and put back in the other": Mutant(
        "positions",
        {
            "(*turned) if pairing == 'interleaved' else": (
                "(*turned) if pairing == 'half_split' else"
            )
        },
        "positions",
        "keeps_every_length or two_by_two",
    ),
    "28 the order leads the other way": Mutant(
        "positions",
        {".view(-1, 2).T.flatten()": ".view(2, -1).T.flatten()"},
        "positions",
        "one_pairing_to_the_other",
    ),
    "rotations turn backwards": Mutant(
        "positions",
        {
            "a * cos - b * sin, a * sin + b * cos": (
                "a * cos + b * sin, b * cos - a * sin"
            )
        },
        "positions",
        "two_by_two",
    ),
    "angles are computed in the precision of the input": Mutant(
        "positions",
        {
            "angles = _angles(positions, x.shape[-1], base)": (
                "angles = _angles(positions, x.shape[-1], base).to(x.dtype)"
            )
        },
        "positions",
        "rounds_only_the_result",
    ),
    "codes are computed in their own precision": Mutant(
        "positions",
        {
            "angles = _angles(positions, d_model, base)": (
                "angles = _angles(positions, d_model, base).to(dtype)"
            )
        },
        "positions",
        "rounds_only_the_result",
    ),
    "all sines come before all cosines": Mutant(
        "positions",
        {
            "_interleave(angles.sin(), angles.cos())": (
                "torch.cat((angles.sin(), angles.cos()), dim=-1)"
            )
        },
        "positions",
        "sinusoidal_entry_by_entry",
    ),
    "the base is ignored": Mutant(
        "positions",
        {
            "omega = frequencies(width, base=base, ": "omega = frequencies(width, "
        },
        "positions",
        "two_by_two",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_planted_bug_is_seen(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    plant(mutant, PACKAGE, tmp_path)
    code, output = run_tests(tmp_path, mutant.tests, mutant.keyword)
    assert code == 1, (
        f"the tests passed, or did not run (pytest returned {code}):\n{output}"
    )


def test_the_same_tests_pass_on_a_copy_without_a_bug(tmp_path: Path) -> None:
    """Else they might fail for the copying alone."""
    plant(None, PACKAGE, tmp_path)
    code, output = run_tests(
        tmp_path, SDPA, "sums_to_one or root_of_the_keys or share_one_key"
    )
    assert code == 0, output


def test_a_bug_that_is_not_in_the_source_any_more_is_reported(
    tmp_path: Path,
) -> None:
    with pytest.raises(LookupError, match="no longer applies"):
        plant(
            Mutant("reference", {"no such code": ""}, SDPA, LOOP),
            PACKAGE,
            tmp_path,
        )


def test_at_least_the_kinds_of_bugs_that_belong_to_the_package_are_planted() -> (
    None
):
    kinds = {int(name.split()[0]) for name in MUTANTS if name[0].isdigit()}
    # 5, 21, 25, 30, 31 and 34 are bugs of chapters and exercises
    assert kinds >= {
        *range(1, 5),
        *range(6, 21),
        *range(22, 25),
        *range(26, 30),
        32,
        33,
    }
