r"""Live figures: pictures that a reader turns, without a kernel and without a network.

Each function here returns a :class:`LiveFigure`. What a notebook stores of it are its numbers, as
JSON, a still picture and a line of text. The pages of the book draw the numbers with ``live.js``,
which lies beside this module; print, GitHub and a page without JavaScript show the picture. Where
somebody sits before the notebook, in Jupyter or on Colab, the output also holds HTML that brings
the script along.

The script computes anew what a slider or a click changes, as :mod:`attention.reference` and
:mod:`attention.masks` would. Numbers are rounded before they are stored, so that every machine
stores the same.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from attention import _checks, masks, plotting, reference

__all__ = ["LiveFigure", "heads", "heads_axis", "mask", "weights"]

MIME = "application/vnd.attention-derived.live+json"
"""The kind of output by which the book's pages know a live figure."""

TEMPERATURES = (
    *(0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0),
)
"""Where a slider of the temperature stops, unless told otherwise."""

_KINDS = ("weights", "mask", "heads_axis", "heads")


class LiveFigure:
    """A figure that a reader can turn: its numbers, and a still picture of its start.

    Parameters
    ----------
    data
        What ``live.js`` is given, in types that JSON knows; ``"kind"`` names the figure.
    still
        Draws the still picture, and returns it as PNG.

    Raises
    ------
    ValueError
        If there is no figure of this kind.
    """

    def __init__(
        self, data: Mapping[str, Any], still: Callable[[], bytes]
    ) -> None:
        if data.get("kind") not in _KINDS:
            raise ValueError(
                f"data['kind'] must be one of {_KINDS}, got {data.get('kind')!r}"
            )
        self.data = dict(data)
        self.png = still

    def __repr__(self) -> str:
        """Say what is shown to those who see neither figure nor picture."""
        return f"<live figure of attention.live.{self.data['kind']}>"

    def html(self) -> str:
        """Return HTML that needs nothing else: numbers, picture and script.

        Returns
        -------
        str
            A custom element, ``attention-live``, and the script that draws it.
        """
        # What closes the script element may not stand in it.
        numbers = json.dumps(self.data).replace("<", "\\u003c")
        script = resources.files("attention").joinpath("live.js")
        return (
            f'<attention-live><script type="application/json">{numbers}</script>'
            f'<img alt="still picture" src="data:image/png;base64,{self._base64()}">'
            f"</attention-live><script>{script.read_text('utf-8')}</script>"
        )

    def _base64(self) -> str:
        return base64.b64encode(self.png()).decode("ascii")

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, Any]:
        """Return what a notebook stores."""
        bundle = {
            MIME: self.data,
            "image/png": self._base64(),
            "text/plain": repr(self),
        }
        return (
            bundle | {"text/html": self.html()} if _is_watched() else bundle
        )


def weights(
    scores: ArrayLike,
    *,
    keys: Sequence[str] | None = None,
    widths: Sequence[int] | None = None,
    width: int | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
    temperature: float = 1.0,
    reach: int = 0,
) -> LiveFigure:
    r"""Show how scores become weights, with sliders for width, temperature and the scores.

    .. math:: p = \softmax\!\left(\frac{z}{\tau}\right), \qquad
              p = \softmax\!\left(\frac{z}{\tau\sqrt{d_k}}\right)

    Beside the weights stand their entropy and the softmax's Jacobian. With widths there are two
    panels, raw scores on the left and scores divided by :math:`\sqrt{d_k}` on the right.

    Parameters
    ----------
    scores
        Of one query, shape (S,); with ``widths`` one row for each of them.
    keys
        Names of the keys; ``"key 0"`` and so on where they are None.
    widths
        Values of :math:`d_k` at which the scores were computed, not yet divided by anything.
    width
        The width at the start; the first where it is None.
    temperatures
        Where the temperature's slider stops; 22 values from 0.1 to 64 unless told otherwise.
    temperature
        The temperature at the start, one of ``temperatures``.
    reach
        How much may be added to each score or taken off; with 0 there are no sliders for it.

    Returns
    -------
    LiveFigure
        Of the scores, rounded to four decimals.

    Raises
    ------
    TypeError, ValueError
        If shapes, names or starting values do not fit one another, or a score is not finite.
    """
    rows = np.atleast_2d(np.asarray(scores, dtype=float))
    known = [1] if widths is None else [int(d_k) for d_k in widths]
    if rows.ndim != 2 or len(rows) != len(known):
        raise ValueError(
            f"scores must have one row for each of {len(known)} widths, "
            f"got shape {np.shape(scores)}"
        )
    names = _names(keys, "key", rows.shape[1])
    width = known[0] if width is None else width
    if width not in known or temperature not in temperatures:
        raise ValueError(
            f"width and temperature must be among {known} and {list(temperatures)}, "
            f"got {width} and {temperature}"
        )
    panels = [{"name": "the scores x / τ", "scaled": False}]
    if widths is not None:
        panels = [
            {"name": "raw scores", "scaled": False},
            {"name": "scaled scores", "scaled": True},
        ]
    at = known.index(width)
    rows = _rounded("scores", rows)
    data = {
        "kind": "weights",
        "keys": names,
        "widths": known,
        "scores": rows.tolist(),
        "temperatures": [float(tau) for tau in temperatures],
        "reach": _checks.size(reach, "reach"),
        "panels": panels,
        "start": {
            "width": at,
            "temperature": list(temperatures).index(temperature),
        },
    }

    def draw(figure: Figure) -> None:
        axes = np.asarray(figure.subplots(len(panels), 2, squeeze=False))
        for (bars, square), panel in zip(axes, panels, strict=True):
            root = np.sqrt(width) if panel["scaled"] else 1.0
            z = rows[at] / (temperature * root)
            p = reference.softmax(z)
            bars.barh(names, p, color=plotting.COLORS["blue"])
            bars.invert_yaxis()
            ent = reference.log_sum_exp(z) - p @ z
            bars.set(xlim=(0, 1), xlabel="weight")
            bars.set_title(f"{panel['name']}: entropy {ent:.3f}")
            plotting.heatmap(
                reference.softmax_jacobian(z),
                vmin=-0.25,
                vmax=0.25,
                cmap="PuOr",
                title="Jacobian",
                ax=square,
            ).set(xlabel="score of key", ylabel="weight of key")
            square.tick_params(axis="x", labelsize=8)

    return LiveFigure(data, partial(_still, (6.6, 2.9 * len(panels)), draw))


def mask(
    scores: ArrayLike,
    *,
    causal: masks.Alignment | None = None,
    keys: int | None = None,
    back: int | None = None,
    ahead: int | None = None,
    painted: Sequence[tuple[int, int]] = (),
) -> LiveFigure:
    r"""Show what a mask does to weights; the reader chooses masks, and paints on them.

    .. math:: p_{ij} = \frac{e^{z_{ij}}\,[\,j \in \mathcal{A}_i\,]}
              {\sum_{j' \in \mathcal{A}_i} e^{z_{ij'}}}, \qquad
              \mathcal{A}_i = \emptyset \;\Rightarrow\; p_{ij} = 0

    Beside the weights stands the mask in both polarities: True = may attend, and the opposite,
    which :class:`torch.nn.MultiheadAttention` wants. The other arguments are the start.

    Parameters
    ----------
    scores
        Shape (L, S).
    causal
        The corner of a causal mask, as in :func:`attention.masks.causal`; None for no such mask.
    keys
        How many of the keys are no padding; all where it is None.
    back, ahead
        How many keys a window holds before and after the query's position, as in
        :func:`attention.masks.sliding_window`; all where it is None, or S or more.
    painted
        Pairs (query, key) at which the mask made of the above is turned into its opposite.

    Returns
    -------
    LiveFigure
        Of the scores, rounded to four decimals.

    Raises
    ------
    TypeError, ValueError
        If ``scores`` is no matrix of finite numbers, or as the functions of
        :mod:`attention.masks`.
    """
    z = _rounded("scores", np.asarray(scores, dtype=float))
    if z.ndim != 2:
        raise ValueError(f"scores must have shape (L, S), got {z.shape}")
    L, S = z.shape
    keys = S if keys is None else _checks.size(keys, "keys")
    back = S if back is None else min(_checks.size(back, "back"), S)
    ahead = S if ahead is None else min(_checks.size(ahead, "ahead"), S)
    padding = masks.padding([keys], S)[0, 0]
    window = masks.sliding_window(
        L,
        S,
        left=L + S if back == S else back,
        right=L + S if ahead == S else ahead,
        alignment=causal or "upper_left",
    )
    allowed = (padding & window).numpy()  # (L, S)
    if causal is not None:
        allowed = allowed & masks.causal(L, S, alignment=causal).numpy()
    for i, j in painted:
        if not (0 <= i < L and 0 <= j < S):
            raise ValueError(
                f"painted must hold pairs below {(L, S)}, got {(i, j)}"
            )
        allowed[i, j] = not allowed[i, j]
    data = {
        "kind": "mask",
        "scores": z.tolist(),
        "start": {
            "causal": causal,
            "keys": keys,
            "back": back,
            "ahead": ahead,
            "painted": [[int(i), int(j)] for i, j in painted],
        },
    }

    def draw(figure: Figure) -> None:
        left, middle, right = np.asarray(
            figure.subplots(1, 3, width_ratios=(1.8, 1, 1))
        )
        p = reference.softmax(np.where(allowed, z, -np.inf))
        plotting.heatmap(
            p,
            mask=allowed,
            vmax=1.0,
            annotate=True,
            colorbar=False,
            title="weights",
            ax=left,
        )
        letters = np.where(allowed, "T", "F")
        opposite = np.where(allowed, "F", "T")
        _cells(middle, letters, allowed, "True =\nmay attend")
        _cells(right, opposite, ~allowed, "True =\nmay not attend")

    return LiveFigure(data, partial(_still, (7.0, 2.6), draw))


def heads_axis(L: int, num_heads: int, d: int) -> LiveFigure:
    """Show where each number goes when a projection is split into heads, and merged.

    An entry 23 stands for position 2, component 3. The reader changes the sizes, and splits and
    merges in the right and in the wrong way.

    Parameters
    ----------
    L
        Number of positions at the start, up to 6.
    num_heads
        Number of heads at the start, up to 3.
    d
        Width of a head at the start, up to 3.

    Returns
    -------
    LiveFigure
        It starts with the right split and the right merge.

    Raises
    ------
    TypeError, ValueError
        If a size is no integer, or not between 1 and its largest value.
    """
    most = {"L": 6, "H": 3, "d": 3}
    L, num_heads, d = (
        _checks.size(size, name)
        for name, size in (("L", L), ("H", num_heads), ("d", d))
    )
    start = {"L": L, "H": num_heads, "d": d}
    for name, size in start.items():
        if not 1 <= size <= most[name]:
            raise ValueError(
                f"{name} must lie between 1 and {most[name]}, got {size}"
            )
    data = {
        "kind": "heads_axis",
        "most": most,
        "start": start | {"split": "right", "merge": "right"},
    }
    wide = num_heads * d
    place = np.arange(L * wide).reshape(L, wide)  # in memory
    right = reference.split_heads(place, num_heads)  # (H, L, d)
    wrong = place.reshape(num_heads, L, d)

    def draw(figure: Figure) -> None:
        top, *below = np.asarray(figure.subfigures(3, 1))
        for part, name, grids in (
            (top, "the projection", place[None]),
            (below[0], "view, then transpose: right", right),
            (below[1], "view alone: wrong", wrong),
        ):
            part.suptitle(name, fontsize="medium")
            axes = np.asarray(part.subplots(1, num_heads, squeeze=False))[0]
            for ax in axes[len(grids) :]:
                ax.axis("off")
            for h, (ax, grid) in enumerate(zip(axes, grids, strict=False)):
                position, component = np.divmod(grid, wide)
                labels = np.char.add(
                    position.astype(str), component.astype(str)
                )
                title = "" if part is top else f"head {h}"
                _cells(ax, labels, component // d, title)
                ax.set_ylabel("position" if part is top else "query")

    return LiveFigure(
        data, partial(_still, (2.2 * num_heads, 1.7 * L), draw)
    )


def heads(
    weights: ArrayLike,
    tokens: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    places: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    query: int = 0,
) -> LiveFigure:
    """Show where each head looks from the token that the reader chooses.

    Parameters
    ----------
    weights
        Of several heads over one sequence, shape (..., L, L); the leading axes are the heads.
    tokens
        The L tokens.
    names
        Names of the heads; ``"head 0"`` and so on where they are None.
    places
        Names of places of interest, each with its queries and, of the same length, its keys.
    query
        The query at the start.

    Returns
    -------
    LiveFigure
        Of the weights, rounded to three decimals, which are all that are shown.

    Raises
    ------
    TypeError, ValueError
        If the shapes or lengths do not fit one another, a weight is not finite, or there is no
        such query.
    """
    matrices = np.asarray(weights, dtype=float)
    L = len(tokens)
    if matrices.ndim < 2 or matrices.shape[-2:] != (L, L):
        raise ValueError(
            f"weights must have shape (..., {L}, {L}) for {L} tokens, got {matrices.shape}"
        )
    query = _checks.size(query, "query")
    if query >= L:
        raise ValueError(
            f"query must lie between 0 and {L - 1}, got {query}"
        )
    matrices = _rounded("weights", matrices.reshape(-1, L, L), digits=3)
    labels = _names(names, "head", len(matrices))
    causal = not np.triu(matrices, k=1).any()
    marked = {}
    for name, (queries, where) in (places or {}).items():
        pairs = zip(
            np.asarray(queries).tolist(),
            np.asarray(where).tolist(),
            strict=True,
        )
        key_of = dict(pairs)
        marked[name] = [key_of.get(i) for i in range(L)]
    data = {
        "kind": "heads",
        "names": labels,
        "tokens": [str(token) for token in tokens],
        "weights": matrices.tolist(),
        "places": marked,
        "causal": causal,
        "start": query,
    }

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        seen = np.arange(L) <= (query if causal else L)
        plotting.heatmap(
            matrices[:, query],
            mask=np.tile(seen, (len(matrices), 1)),
            query_labels=labels,
            key_labels=data["tokens"],
            annotate=True,
            vmax=1.0,
            title=f"query {query}, token {tokens[query]}",
            colorbar=False,
            ax=ax,
        ).set(xlabel="token (key)", ylabel="head")

    size = (0.5 * L + 1.0, 0.42 * len(matrices) + 1.0)
    return LiveFigure(data, partial(_still, size, draw))


def _names(names: Sequence[str] | None, word: str, count: int) -> list[str]:
    """Return the names given, or the word with a number."""
    if names is None:
        return [f"{word} {i}" for i in range(count)]
    if len(names) != count:
        raise ValueError(
            f"there must be {count} names, one for each {word}, got {len(names)}"
        )
    return list(names)


def _rounded(name: str, x: NDArray[Any], digits: int = 4) -> NDArray[Any]:
    """Return what all machines agree on, without a minus before a zero.

    JSON knows no number that is not finite.
    """
    if not np.isfinite(x).all():
        raise ValueError(f"{name} must be finite")
    rounded: NDArray[Any] = x.round(digits) + 0.0
    return rounded


def _still(
    size: tuple[float, float], draw: Callable[[Figure], None]
) -> bytes:
    """Return the picture that a function draws, in the book's style, as PNG."""
    with plotting.style():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _cells(
    ax: Axes, labels: NDArray[np.str_], kinds: NDArray[Any], title: str
) -> None:
    """Draw a grid of labels, each kind in a colour and a hatch of its own."""
    look = (("#ffffff", ""), ("#cfe6f5", "////"), ("#fbe0cc", "...."))
    for (i, j), label in np.ndenumerate(labels):
        color, hatch = look[int(kinds[i, j])]
        box = {"facecolor": color, "edgecolor": "none", "pad": 0.8}
        ax.add_patch(
            Rectangle(
                (j - 0.5, i - 0.5),
                1,
                1,
                facecolor=color,
                hatch=hatch,
                edgecolor="#777777",
            )
        )
        ax.text(j, i, str(label), ha="center", va="center", size=8, bbox=box)
    L, S = labels.shape
    ax.set(xlim=(-0.5, S - 0.5), ylim=(L - 0.5, -0.5), aspect="equal")
    ax.set(xticks=[], yticks=np.arange(L), title=title)
    ax.spines[:].set_visible(False)


def _is_watched() -> bool:
    """Say whether somebody sits before the notebook: a kernel run by a program takes no input."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    kernel = getattr(shell, "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))
