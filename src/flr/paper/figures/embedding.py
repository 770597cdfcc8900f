"""Latent features in two dimensions, coloured by label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from flr.core.errors import DataError
from flr.report import style

# Tol's muted palette, which ten kinds of points can share; markers repeat the difference
_COLOURS = ["#332288", "#CC6677", "#DDCC77", "#117733", "#88CCEE", "#882255", "#44AA99"]
_COLOURS += ["#999933", "#AA4499", "#777777"]
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")  # 11: no pair before 110 classes
_FEWEST = 4


@dataclass(frozen=True)
class Embedded:
    """One model's features of the same samples: n points, their given and their true classes."""

    title: str
    points: NDArray[Any]  # n x 2
    noisy: NDArray[Any]  # n
    true: NDArray[Any]  # n


def tsne(features: NDArray[Any], seed: int) -> NDArray[np.float32]:
    """n x d features -> n x 2 points. One thread, since sums in another order move points."""
    if len(features) < _FEWEST:
        raise DataError(
            f"t-SNE needs at least {_FEWEST} samples, but there are {len(features)}. "
            "Take more samples, for example those of more sites."
        )
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    flat = np.ascontiguousarray(features.reshape(len(features), -1), dtype=np.float32)
    perplexity = min(30.0, (len(flat) - 1) / 3)
    with threadpool_limits(limits=1):
        if min(flat.shape) > 50:  # as van der Maaten advises: faster, and less noise
            flat = PCA(50, svd_solver="full").fit_transform(flat)
        found = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(flat)
    return np.asarray(found, dtype=np.float32)


def embedding(panels: Sequence[Embedded], classes: Sequence[str]) -> Figure:
    """A column for each model; above by noisy label, below the same points by true label."""
    columns = max(1, len(panels))
    figure = style.sheet(style.WIDTH, 2 * min(3.3, style.WIDTH / columns) + 0.4)
    grid = figure.subplots(2, columns, squeeze=False)
    for column, panel in enumerate(panels):
        both = (panel.noisy, "noisy label y"), (panel.true, "true label y*")
        for row, (labels, words) in enumerate(both):
            letter = chr(ord("a") + row * columns + column)
            title = f"({letter}) {panel.title}, {words}"
            style.panel_title(grid[row, column], title, style.WIDTH / columns - 0.2)
            _scatter(grid[row, column], panel.points, labels, len(classes))
    if not panels:
        for axes in grid.flat:
            _scatter(axes, np.empty((0, 2)), np.empty(0), 0)
    style.legend_above(figure, [_handle(name, number) for number, name in enumerate(classes)])
    return figure


def _scatter(axes: Axes, points: NDArray[Any], labels: NDArray[Any], classes: int) -> None:
    size = 5 if len(points) > 1500 else 9
    for number in range(classes):
        chosen = points[labels == number]
        if len(chosen):
            colour, marker = _look(number)
            how: dict[str, Any] = {"s": size, "c": colour, "marker": marker, "linewidths": 0}
            how |= {"rasterized": True}  # thousands of points would make the PDF slow to turn
            axes.scatter(chosen[:, 0], chosen[:, 1], alpha=0.85, gid=str(number), **how)
    axes.set_xticks([])  # distances in t-SNE have no unit
    axes.set_yticks([])
    if not len(points):
        style.note(axes)


def _look(number: int) -> tuple[str, str]:
    return _COLOURS[number % len(_COLOURS)], _MARKERS[number % len(_MARKERS)]


def _handle(name: str, number: int) -> Line2D:
    colour, marker = _look(number)
    return Line2D([], [], color=colour, marker=marker, linestyle="", markersize=6, label=name)
