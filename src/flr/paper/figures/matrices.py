"""Pictures of tables: which site holds which classes, and which labels became which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from flr.report import style

_NAMED = 20  # with more classes, names and numbers would need letters too small to read
_COUNTS, _SHARES = "viridis_r", "Blues"


def heat(
    axes: Axes,
    values: NDArray[Any],
    colours: str,
    written: Callable[[float], str] | None,
    size: float,
    norm: Normalize | None = None,
) -> AxesImage:
    """An image of the values with their text in the fields; grey with a dash where one is NaN."""
    image = axes.imshow(
        np.ma.masked_invalid(values), colours, norm, aspect="auto", interpolation="nearest"
    )
    axes.set_facecolor("#e4e4e4")
    axes.tick_params(length=2, labelsize=9)
    for (row, column), value in np.ndenumerate(values):
        if not written:
            break
        text, colour = "–", style.GREY
        if np.isfinite(value):
            text, colour = written(value), _readable_on(image.to_rgba(value))
        axes.text(column, row, text, ha="center", va="center", fontsize=size, color=colour)
    return image


def blank(axes: Axes) -> None:
    """Says that nothing was measured."""
    axes.set(xticks=[], yticks=[])
    style.note(axes)


def _readable_on(background: Any) -> str:
    red, green, blue, _ = background
    return "black" if 0.3 * red + 0.59 * green + 0.11 * blue > 0.55 else "white"


def partitions(panels: Mapping[str, NDArray[Any]], classes: Sequence[str]) -> Figure:
    """How the samples of each class lie over sites; each panel is sites x classes, counts.

    White: the site has no sample of the class. The strip above each panel is the sites' sizes.
    """
    tall = max(1.5, 0.15 * len(classes)) if len(classes) <= _NAMED else 2.4
    figure = style.sheet(style.WIDTH, max(1, len(panels)) * (tall + 1.2))
    figure.set_layout_engine("constrained", h_pad=0.02, hspace=0.0)
    if not panels:
        style.note(figure.subplots())
        return figure
    most = max((counts.max() for counts in panels.values() if counts.size), default=1)
    norm = PowerNorm(0.5, 1, max(2, most))  # roots: a few samples must differ from none
    grid = figure.subplots(2 * len(panels), 1, height_ratios=[0.45, tall] * len(panels))
    for number, (title, counts) in enumerate(panels.items()):
        style.panel_title(grid[2 * number], title, style.WIDTH - 1.5)
        _sites(grid[2 * number], grid[2 * number + 1], counts, classes, norm)
    _colour_bar(figure, list(grid), ScalarMappable(norm, _COUNTS), "samples of a class at a site")
    return figure


def _sites(
    strip: Axes, axes: Axes, counts: NDArray[Any], classes: Sequence[str], norm: Normalize
) -> None:
    sites = len(counts)
    strip.set_xticks([])
    strip.spines[["top", "right", "bottom"]].set_visible(False)
    if not counts.size:
        strip.set_yticks([])
        blank(axes)
        return
    strip.bar(range(sites), counts.sum(axis=1), 1.0, color=style.GREY, ec="white", lw=0.3)
    strip.set_xlim(-0.5, sites - 0.5)
    strip.yaxis.set_major_locator(MaxNLocator(1, integer=True, min_n_ticks=2))
    strip.tick_params(labelsize=8.5)
    strip.set_ylabel("size", fontsize=9)
    heat(axes, np.where(counts > 0, counts, np.nan).T, _COUNTS, None, 0, norm)
    axes.set_facecolor("white")
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.set_xlabel("site", fontsize=9.5)
    _class_ticks(axes, "y", classes, "class")


def transition(panels: Mapping[str, NDArray[Any]], classes: Sequence[str]) -> Figure:
    """Which true class (row) was given which label (column); rows are shares that sum to 1.

    Up to 20 classes the shares stand in the fields, in percent, without the zeros.
    """
    named = len(classes) <= _NAMED
    columns = 1 if len(panels) < 2 or 12 < len(classes) <= _NAMED else 2
    rows = -(-len(panels) // columns) or 1
    width = style.WIDTH if columns == 2 or len(classes) > 12 else 5.0
    figure = style.sheet(width, rows * (width / columns + (0.2 if columns == 2 else -0.3)))
    figure.set_layout_engine("compressed")  # the fields are square
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (title, matrix) in zip(grid, panels.items(), strict=False):
        style.panel_title(axes, title, width / columns - 1.5 if named else width / columns - 1)
        axes.set_xlabel("given label", fontsize=9.5)
        axes.set_ylabel("true label", fontsize=9.5)
        if not matrix.size:
            blank(axes)
            continue
        written = _percent if named else None
        heat(axes, 100 * matrix, _SHARES, written, 6.5, Normalize(0, 100))
        axes.set_aspect("equal")
        _class_ticks(axes, "x", classes, "given label")
        _class_ticks(axes, "y", classes, "true label")
    for axes in grid[len(panels) :]:
        axes.remove()
    if panels:
        scale = ScalarMappable(Normalize(0, 100), _SHARES)
        _colour_bar(figure, grid[: len(panels)], scale, "share of the true class (%)")
    else:
        style.note(figure.add_subplot())
    return figure


def _percent(value: float) -> str:
    return "" if value == 0 else "<1" if value < 0.5 else f"{value:.0f}"


def _class_ticks(axes: Axes, which: str, classes: Sequence[str], label: str) -> None:
    """Names while they can be read, else numbers in the given order."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    if len(classes) <= _NAMED:
        axis.set_ticks(range(len(classes)), [*classes], fontsize=8.5, parse_math=False)
        axis.set_tick_params(rotation=90 if which == "x" else 0)
        return
    axis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_label_text(f"{label} ({len(classes)} in order)", fontsize=9.5)


def _colour_bar(figure: Figure, axes: list[Axes], scale: ScalarMappable, label: str) -> None:
    bar = figure.colorbar(scale, ax=axes, pad=0.015, aspect=40, shrink=0.9)
    bar.set_label(label, fontsize=9)
    bar.ax.tick_params(labelsize=8.5)
