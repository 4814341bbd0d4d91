"""The figures of exercises show what their answers say."""

from __future__ import annotations

import numpy as np

from attention import exercises


def test_each_head_sees_as_many_keys_as_its_number_says() -> None:
    weights = exercises.mask_panels()
    assert weights.shape == (4, 4, 4)
    for h, head in enumerate(weights):
        assert (head[:, : h + 1] > 0).all()
        assert (head[:, h + 1 :] == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1)


def test_one_panel_has_rows_and_columns_in_the_new_order() -> None:
    panels = exercises.shuffle_panels()
    weights = panels.pop("a b c d")
    order = np.array([2, 0, 3, 1])
    right = [
        letter
        for letter, shown in panels.items()
        if np.array_equal(shown, weights[order][:, order])
    ]
    assert len(right) == 1
    for letter in panels:
        accepted = exercises.check_order_shuffle(letter).state == "right"
        assert accepted == (letter in right)


def test_maps_look_where_their_kinds_of_heads_do() -> None:
    panels = exercises.map_panels()
    assert sorted(panels) == list("ABCDE")
    strongest = {letter: p.argmax(-1) for letter, p in panels.items()}
    i = np.arange(8)
    np.testing.assert_array_equal(strongest["A"][4:], i[4:] - 4)
    np.testing.assert_array_equal(strongest["B"][1:], i[1:] - 1)
    np.testing.assert_array_equal(strongest["C"][4:], i[4:] - 3)
    np.testing.assert_array_equal(strongest["D"], i)
    for letter in "ABCD":  # the last is none that a causal head can have
        assert (np.triu(panels[letter], 1) == 0).all()
        np.testing.assert_allclose(panels[letter].sum(-1), 1)
    assert np.triu(panels["E"], 1).any()


def test_the_heads_have_scores_of_two_components() -> None:
    for weights in exercises.head_panels().values():
        np.testing.assert_allclose(weights.sum(-1), 1)
        scores = np.log(weights)
        scores -= scores.mean(-1, keepdims=True)
        assert np.linalg.matrix_rank(scores, tol=1e-8) <= 2
