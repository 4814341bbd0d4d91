"""Figures: what is labelled, what is returned, and that nothing global is left behind."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

mpl = pytest.importorskip("matplotlib", reason="figures need matplotlib")
mpl.use("Agg")

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.colors import rgb_to_hsv, to_rgb  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from attention import plotting  # noqa: E402

WEIGHTS = np.random.default_rng(0).dirichlet(
    np.ones(4), 3
)  # 3 queries, 4 keys


@pytest.fixture(autouse=True)
def no_figure_left() -> Iterator[None]:
    plt.close("all")
    yield
    plt.close("all")


def _labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def test_queries_go_down_and_keys_across_and_both_axes_say_so() -> None:
    ax = plotting.heatmap(WEIGHTS)
    assert isinstance(ax, Axes)
    assert ax.get_xlabel() == "key"
    assert ax.get_ylabel() == "query"
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array(), WEIGHTS)
    ax.figure.canvas.draw()
    left, right, bottom, top = image.get_extent()
    assert (left, right) == (-0.5, 3.5)
    assert (bottom, top) == (2.5, -0.5)  # query 0 on top
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_tokens_stand_at_their_positions() -> None:
    ax = plotting.heatmap(
        WEIGHTS,
        query_labels=list("abc"),
        key_labels=["one", "two", "3", "4"],
    )
    assert _labels(ax.yaxis) == ["a", "b", "c"]
    assert _labels(ax.xaxis) == ["one", "two", "3", "4"]
    assert list(ax.get_xticks()) == [0, 1, 2, 3]
    assert list(ax.get_yticks()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("keys", "degrees"),
    [(["the", "cat", "sat", "on"], 0), (["the", "cats", "sat", "on"], 45)],
)
def test_only_keys_of_more_than_three_letters_are_slanted(
    keys: list[str], degrees: int
) -> None:
    ax = plotting.heatmap(
        WEIGHTS, query_labels=["some", "long", "tokens"], key_labels=keys
    )
    assert {x.get_rotation() for x in ax.get_xticklabels()} == {degrees}
    assert {y.get_rotation() for y in ax.get_yticklabels()} == {0}


def test_each_position_is_marked_up_to_twelve() -> None:
    ax = plotting.heatmap(np.zeros((12, 3)))
    assert list(ax.get_xticks()) == [0, 1, 2]
    assert list(ax.get_yticks()) == list(range(12))


@pytest.mark.parametrize("size", [13, 50])
def test_beyond_twelve_fewer_positions_are_marked_all_of_them_whole(
    size: int,
) -> None:
    ax = plotting.heatmap(np.zeros((size, size)))
    ax.figure.canvas.draw()
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        assert all(float(tick).is_integer() for tick in ticks)
        assert 2 < len([tick for tick in ticks if 0 <= tick < size]) < 12


def test_it_draws_on_the_axes_given_and_returns_them() -> None:
    figure, axes = plt.subplots(1, 2)
    plt.sca(axes[1])
    drawn = plotting.heatmap(WEIGHTS, title="a head", ax=axes[0])
    assert drawn is axes[0]
    assert plt.gca() is axes[1]
    assert plt.gcf() is figure
    assert not axes[1].images
    assert [x.get_title() for x in axes] == ["a head", ""]
    assert plt.get_fignums() == [figure.number]


def test_it_draws_on_a_figure_that_pyplot_does_not_know() -> None:
    figure = Figure()
    ax = plotting.heatmap(WEIGHTS, ax=figure.subplots())
    assert figure.axes == [ax, ax.images[0].colorbar.ax]
    assert plt.get_fignums() == []


def test_the_colour_scale_starts_at_zero_and_can_be_shared() -> None:
    assert plotting.heatmap(WEIGHTS).images[0].norm.vmin == 0
    shared = plotting.heatmap(WEIGHTS, vmin=-1, vmax=2).images[0].norm
    assert (shared.vmin, shared.vmax) == (-1, 2)
    own = plotting.heatmap(WEIGHTS, vmin=None).images[0].norm
    assert (own.vmin, own.vmax) == (WEIGHTS.min(), WEIGHTS.max())
    below = plotting.heatmap(WEIGHTS, vmin=-2, vmax=0).images[0].norm
    assert (below.vmin, below.vmax) == (-2, 0)


def test_the_colour_bar_belongs_to_the_map() -> None:
    ax = plotting.heatmap(WEIGHTS, vmax=2)
    other = plotting.heatmap(WEIGHTS, vmax=3)
    bar, other_bar = (x.images[0].colorbar for x in (ax, other))
    assert bar.ax.figure is ax.figure
    assert bar.ax.get_ylim() == (0, 2)
    assert other_bar.ax.get_ylim() == (0, 3)
    # it takes its room from its own map's
    assert other_bar.ax.get_position().x0 > other.get_position().x1


@pytest.mark.parametrize("at", [0, 1])
def test_the_colour_bar_stands_beside_its_map_among_others(at: int) -> None:
    figure, axes = plt.subplots(1, 2)
    places = [ax.get_position().x0 for ax in axes]
    plotting.heatmap(WEIGHTS, ax=axes[at])
    bar = axes[at].images[0].colorbar
    assert figure.axes == [*axes, bar.ax]
    beside = axes[at].get_position()
    assert beside.x1 < bar.ax.get_position().x0 < places[at] + 0.4
    # The other map keeps its place.
    assert axes[1 - at].get_position().width > beside.width


def test_the_colour_map_is_the_styles_unless_another_is_asked_for() -> None:
    with plotting.style():
        assert plotting.heatmap(WEIGHTS).images[0].cmap.name == "cividis"
        ax = plotting.heatmap(WEIGHTS, cmap="PuOr")
    assert ax.images[0].cmap.name == "PuOr"


def test_cells_are_square_and_unframed_whatever_the_settings() -> None:
    with plotting.style(image_aspect="auto", axes_spines_top=True):
        ax = plotting.heatmap(WEIGHTS)
    assert ax.get_aspect() == 1
    assert [x.get_visible() for x in ax.spines.values()] == [False] * 4


def test_numbers_title_crosses_and_colour_bar_on_request() -> None:
    mask = np.ones((3, 4), dtype=bool)
    mask[1, 2] = False
    ax = plotting.heatmap(WEIGHTS, mask=mask, annotate=True, title="a head")
    assert ax.get_title() == "a head"
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert (
        written[(3, 0)] == f"{WEIGHTS[0, 3]:.2f}"
    )  # x is the key, y the query
    assert len(written) == 11
    for text in ax.texts:  # in the middle of its cell
        assert (text.get_ha(), text.get_va()) == ("center", "center")
    (cross,) = ax.lines
    assert (*cross.get_xdata(), *cross.get_ydata()) == (2, 1)
    assert cross.get_marker() == "x"
    assert len(ax.figure.axes) == 2  # the colour bar
    plain = plotting.heatmap(WEIGHTS, colorbar=False)
    assert len(plain.figure.axes) == 1
    assert not plain.texts
    assert not plain.lines


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16]
)
def test_tensors_of_any_precision_will_do_that_are_trained_or_not(
    dtype: torch.dtype, device: str
) -> None:
    weights = torch.tensor(WEIGHTS, device=device).to(dtype)
    mask = torch.ones(3, 4, device=device).tril().bool()
    ax = plotting.heatmap(weights.requires_grad_(), mask=mask)
    expected = weights.detach().cpu().double().numpy()
    np.testing.assert_array_equal(ax.images[0].get_array(), expected)
    assert len(ax.lines) == 6


def test_a_mask_can_itself_be_drawn_as_zeros_and_ones() -> None:
    ax = plotting.heatmap(np.eye(2, dtype=bool), annotate=True)
    written = [text.get_text() for text in ax.texts]
    assert written == ["1.00", "0.00", "0.00", "1.00"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            (
                {"weights": np.zeros(shape)},
                f"weights must have shape (L, S), got {shape}: pick one head",
            )
            for shape in ((2, 3, 4), (4,))
        ),
        ({"query_labels": ["a"]}, "query_labels must hold 3 labels, got 1"),
        (
            {"key_labels": list("abc")},
            "key_labels must hold 4 labels, got 3",
        ),
        (
            {"key_labels": list("abcde")},
            "key_labels must hold 4 labels, got 5",
        ),
        (
            {"query_labels": list("abcd")},
            "query_labels must hold 3 labels, got 4",
        ),
        (
            {"mask": np.ones((4, 3), dtype=bool)},
            "mask must have the weights' shape (3, 4), got (4, 3)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_a_figure_is_made(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError) as caught:
        plotting.heatmap(**({"weights": WEIGHTS} | changes))
    assert str(caught.value) == message
    assert plt.get_fignums() == []


# --- the style


def _settings() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # some settings are deprecated and say so when read
        return {name: mpl.rcParams[name] for name in mpl.rcParams}


def test_the_style_holds_inside_the_block_and_leaves_no_trace() -> None:
    before = _settings()
    with plotting.style():
        assert mpl.rcParams["image.cmap"] == "cividis"
        colors = [
            entry["color"] for entry in mpl.rcParams["axes.prop_cycle"]
        ]
        assert colors == list(plotting.COLORS.values())[:5]
        plotting.heatmap(WEIGHTS)
    assert _settings() == before


def test_the_style_leaves_no_trace_after_an_error() -> None:
    before = _settings()
    with pytest.raises(ZeroDivisionError), plotting.style(font_size=20):
        assert mpl.rcParams["font.size"] == 20
        raise ZeroDivisionError
    assert _settings() == before


def test_importing_and_drawing_change_no_setting() -> None:
    before = _settings()
    plotting.heatmap(WEIGHTS, annotate=True, mask=WEIGHTS > 0.1)
    assert _settings() == before


def test_settings_are_written_with_an_underscore_and_unknown_ones_are_named() -> (
    None
):
    with plotting.style(figure_figsize=(2.0, 1.0), axes_spines_top=True):
        assert list(mpl.rcParams["figure.figsize"]) == [2.0, 1.0]
        assert mpl.rcParams["axes.spines.top"] is True
    with (
        pytest.raises(
            ValueError,
            match=r"matplotlib has no settings named \['figure_sise'\]",
        ),
        plotting.style(figure_sise=3),
    ):
        pass


def test_no_two_lines_are_told_apart_by_colour_alone() -> None:
    with plotting.style():
        cycle = list(mpl.rcParams["axes.prop_cycle"])
    for what in ("color", "linestyle", "marker"):
        assert len({str(entry[what]) for entry in cycle}) == len(cycle) == 5


def test_the_colours_are_those_of_okabe_and_ito_and_differ_in_lightness_or_hue() -> (
    None
):
    assert set(plotting.COLORS.values()) <= {
        "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
    }  # fmt: skip
    rgb = np.array([to_rgb(color) for color in plotting.COLORS.values()])
    distances = np.linalg.norm(rgb[:, None] - rgb[None], axis=-1)[
        ~np.eye(len(rgb), dtype=bool)
    ]
    assert distances.min() > 0.25


def test_each_colour_is_the_one_that_its_name_says() -> None:
    """Green, sky, blue and pink by their hue; orange is Okabe and Ito's vermilion."""
    hues = {"orange": 26, "green": 164, "sky": 202, "blue": 202, "pink": 327}
    for name, hue in hues.items():
        found = rgb_to_hsv(to_rgb(plotting.COLORS[name]))[0]
        assert round(360 * found) == hue, name
    dark, bright = (
        sum(to_rgb(plotting.COLORS[name])) for name in ("blue", "sky")
    )
    assert sum(to_rgb(plotting.COLORS["black"])) == 0 < dark < bright


def test_the_style_is_seen_in_what_is_drawn() -> None:
    with plotting.style():
        figure, ax = plt.subplots()
        (line,) = ax.plot([0, 1], label="line")
        legend = ax.legend()
        title, label = ax.set_title("a"), ax.set_xlabel("b")
    assert tuple(figure.get_size_inches()) == (6.0, 3.4)
    assert figure.dpi == 120
    pads = figure.get_layout_engine().get()
    assert (pads["h_pad"], pads["w_pad"]) == (0.10, 0.08)
    for patch in (figure.patch, ax.patch):
        assert patch.get_facecolor() == (1, 1, 1, 1)
    seen = {side for side, x in ax.spines.items() if x.get_visible()}
    assert seen == {"left", "bottom"}
    assert title.get_fontsize() == label.get_fontsize() == 10
    assert not legend.get_frame_on()
    assert line.get_markersize() == 5
    assert line.get_color() == plotting.COLORS["blue"]
    assert (line.get_linestyle(), line.get_marker()) == ("-", "o")


def test_a_heatmap_can_be_read_without_colour() -> None:
    """Lightness of the colour map rises all the way, so that it prints in grey."""
    with plotting.style():
        ax = plotting.heatmap(WEIGHTS)
        grey = ax.images[0].cmap(np.linspace(0, 1, 64))[:, :3] @ [
            0.299,
            0.587,
            0.114,
        ]
    assert (np.diff(grey) > 0).all()


def test_numbers_and_crosses_are_drawn_in_the_ink_that_stands_out() -> None:
    with plotting.style():
        numbers = plotting.heatmap([[0.0, 1.0]], annotate=True)
        crosses = plotting.heatmap([[0.0, 1.0]], mask=[[False, False]])
    for drawn in (numbers.texts, crosses.lines):
        assert [x.get_color() for x in drawn] == ["white", "black"]


def contrast(colour: np.ndarray, ink: str) -> float:
    """Return the contrast that WCAG 2 defines, between 1 and 21."""
    pair = np.stack([colour, mpl.colors.to_rgb(ink)])
    linear = np.where(
        pair <= 0.04045, pair / 12.92, ((pair + 0.055) / 1.055) ** 2.4
    )
    dark, bright = sorted(linear @ [0.2126, 0.7152, 0.0722])
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("alpha", [1.0, 0.6])
def test_the_ink_is_the_one_with_more_contrast(alpha: float) -> None:
    steps = np.linspace(0, 1, 9)
    for colour in itertools.product(steps, steps, steps):
        seen = alpha * np.array(colour) + 1 - alpha  # on white
        of = {ink: contrast(seen, ink) for ink in ("black", "white")}
        got = plotting._ink((*colour, alpha))
        assert of[got] > max(of.values()) - 0.15


@pytest.mark.parametrize(
    ("colour", "ink"),
    [("lime", "black"), ("red", "black"), ("blue", "white")],
)
def test_the_ink_goes_by_how_bright_a_colour_looks(
    colour: str, ink: str
) -> None:
    """Pure green looks bright, pure blue dark; red lies above the middle."""
    colours = mpl.colors.ListedColormap([colour])
    ax = plotting.heatmap([[1.0]], annotate=True, cmap=colours)
    assert ax.texts[0].get_color() == ink


@pytest.mark.parametrize(
    ("limits", "inks"),
    [
        ({}, ["white", "black"]),
        ({"vmax": 1000.0}, ["white", "white"]),
        ({"vmin": -1000.0}, ["black", "black"]),
        ({"vmin": 30.0, "vmax": 31.0}, ["white", "black"]),
    ],
)
def test_the_ink_goes_by_the_colour_on_the_scale_that_is_drawn(
    limits: dict[str, float], inks: list[str]
) -> None:
    with plotting.style():
        ax = plotting.heatmap([[10.0, 40.0]], annotate=True, **limits)
    assert [x.get_color() for x in ax.texts] == inks


@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_what_is_not_finite_leaves_its_cell_white_and_is_drawn_in_black(
    bad: float,
) -> None:
    scores = np.array([[0.0, bad]])
    with plotting.style():
        numbers = plotting.heatmap(scores, annotate=True)
        crosses = plotting.heatmap(scores, mask=[[False, False]])
    for drawn in (numbers.texts, crosses.lines):
        assert [x.get_color() for x in drawn] == ["white", "black"]


def test_each_map_without_axes_gets_a_figure_of_its_own() -> None:
    first, second = (
        plotting.heatmap(np.eye(2), colorbar=False) for _ in range(2)
    )
    assert first.figure is not second.figure
