"""The book's figures: one style, heatmaps with named axes, colours that everybody can tell apart.

Nothing here changes matplotlib's global state: :func:`style` is a context manager.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

__all__ = ["COLORS", "heatmap", "style"]

COLORS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#000000",
}
"""Colours of Okabe and Ito's palette, distinguishable with any colour vision. Give each line a
marker or dash of its own as well, as :func:`style` does."""


@contextmanager
def style(**settings: object) -> Iterator[None]:
    """Draw in the book's style inside a ``with`` block, and leave no trace after it.

    Lines cycle through :data:`COLORS` with a dash and a marker of their own, so that they can be
    told apart in print.

    Parameters
    ----------
    **settings
        Further matplotlib settings, with ``_`` in place of ``.``: ``figure_figsize=(6, 3)``.

    Yields
    ------
    None
        The settings hold until the block is left, also by an exception.

    Raises
    ------
    ValueError
        If matplotlib has no such setting.
    """
    known = {name.replace(".", "_"): name for name in mpl.rcParams}
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(f"matplotlib has no settings named {unknown}")
    cycle = cycler(color=list(COLORS.values())[:5])
    dashes: list[Any] = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]
    cycle += cycler(linestyle=dashes)
    cycle += cycler(marker=["o", "s", "^", "D", "v"])
    book: dict[Any, Any] = {
        "figure.figsize": (6.0, 3.4),
        "figure.dpi": 120,
        "figure.constrained_layout.use": True,
        # Room between panels: a label does not touch the title below it.
        "figure.constrained_layout.h_pad": 0.10,
        "figure.constrained_layout.w_pad": 0.08,
        "figure.facecolor": "white",
        "axes.facecolor": "white",
        "axes.prop_cycle": cycle,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
        "font.size": 10.0,
        "legend.frameon": False,
        "lines.markersize": 5.0,
        "image.cmap": "cividis",
    }
    with mpl.rc_context(
        book | {known[name]: value for name, value in settings.items()}
    ):
        yield


def heatmap(
    weights: ArrayLike | torch.Tensor,
    *,
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    mask: ArrayLike | torch.Tensor | None = None,
    title: str | None = None,
    annotate: bool = False,
    vmin: float | None = 0.0,
    vmax: float | None = None,
    cmap: str | None = None,
    colorbar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a matrix of weights or scores: queries down, keys across, both axes named.

    Parameters
    ----------
    weights
        Shape (L, S): row i belongs to query i, column j to key j. A tensor will do, on any device.
    query_labels, key_labels
        Tick labels, for example tokens; where they are None, each position, or round ones if
        there are more than twelve. Key labels of more than three letters are slanted, so that
        they do not run into each other.
    mask
        Boolean, shape (L, S), True = may attend: the others are crossed out.
    title
        Title of the axes.
    annotate
        Whether each number is written into its cell, with two decimals.
    vmin, vmax
        Values of the two ends of the colour scale; None takes the data's own. Maps that are to be
        compared need the same.
    cmap
        Name of matplotlib's colour map: the style's own, dark to bright, where it is None; for
        values of both signs take a diverging one such as ``"PuOr"``.
    colorbar
        Whether the scale is drawn.
    ax
        Where to draw; new axes where it is None.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    Raises
    ------
    ValueError
        If ``weights`` is not a matrix, or labels or mask do not fit it.
    """
    matrix = np.asarray(_plain(weights), dtype=float)
    if matrix.ndim != 2:
        raise ValueError(
            f"weights must have shape (L, S), got {matrix.shape}: pick one head"
        )
    for name, labels, size in (
        ("query_labels", query_labels, matrix.shape[0]),
        ("key_labels", key_labels, matrix.shape[1]),
    ):
        if labels is not None and len(labels) != size:
            raise ValueError(
                f"{name} must hold {size} labels, got {len(labels)}"
            )
    blocked = (
        np.zeros(matrix.shape, dtype=bool)
        if mask is None
        else ~np.asarray(_plain(mask), dtype=bool)
    )
    if blocked.shape != matrix.shape:
        raise ValueError(
            f"mask must have the weights' shape {matrix.shape}, got {blocked.shape}"
        )

    if ax is None:
        _, ax = plt.subplots()
    image = ax.imshow(
        matrix, vmin=vmin, vmax=vmax, cmap=cmap, aspect="equal"
    )
    _label_axis(ax, "y", "query", matrix.shape[0], query_labels)
    _label_axis(ax, "x", "key", matrix.shape[1], key_labels)
    ax.spines[:].set_visible(False)
    if title is not None:
        ax.set_title(title)
    # As they are drawn: what is not finite has no colour.
    colours = image.to_rgba(np.ma.masked_invalid(matrix))
    for i, j in np.argwhere(blocked):
        ink = _ink(colours[i, j])
        ax.plot(j, i, marker="x", color=ink, markersize=4)
    if annotate:
        for i, j in np.argwhere(~blocked):
            ink = _ink(colours[i, j])
            ax.text(
                j,
                i,
                f"{matrix[i, j]:.2f}",
                ha="center",
                va="center",
                color=ink,
                size=9,
            )
    if colorbar:
        ax.figure.colorbar(image, shrink=0.8)
    return ax


def _plain(x: ArrayLike | torch.Tensor) -> ArrayLike:
    """Take a tensor out of its graph and off its device, so that NumPy can read it."""
    if not isinstance(x, torch.Tensor):
        return x
    return x.detach().to("cpu", torch.promote_types(x.dtype, torch.float32))


def _label_axis(
    ax: Axes, axis: str, name: str, size: int, labels: Sequence[str] | None
) -> None:
    """Name an axis and mark its positions: with the labels, or with few round numbers."""
    axis_object = ax.yaxis if axis == "y" else ax.xaxis
    axis_object.set_label_text(name)
    if labels is not None:
        long = any(len(label) > 3 for label in labels)
        rotation = 45 if axis == "x" and long else 0
        axis_object.set_ticks(np.arange(size), labels, rotation=rotation)
    elif size <= 12:
        axis_object.set_ticks(np.arange(size))
    else:
        axis_object.set_major_locator(MaxNLocator(integer=True))


def _ink(rgba: ArrayLike) -> str:
    """Return black or white, whichever is read more easily on the colour, or on white under it."""
    *colour, alpha = np.asarray(rgba)
    seen = alpha * np.asarray(colour) + 1 - alpha
    luminance = seen**2.2 @ (0.2126, 0.7152, 0.0722)
    # From here on black stands out more: (luminance + 0.05) ** 2 = 1.05 * 0.05.
    return "black" if luminance > 0.179 else "white"
