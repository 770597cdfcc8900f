"""Forest plots: differences with their 95 % intervals, one below the other, around a line at 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from flr.report import style
from flr.report.paired_runs import Estimate

ROW, SIZE = 0.205, 8.5  # inches, points
LOOKS = {
    "better": style.LineStyle(style.BLUE, "-", "o"),
    "worse": style.LineStyle(style.RED, "-", "D"),
    "undecided": style.LineStyle(style.GREY, "-", "o"),
}
_WORDS = {"undecided": "the interval reaches 0 (no line: one seed)"}


class Effect(NamedTuple):
    """A difference in fractions, on a line of the plot."""

    line: int
    found: Estimate
    how: style.LineStyle
    filled: bool  # hollow where nothing is decided


def draw(
    panels: Mapping[str, Mapping[str, Estimate]], x_label: str, *, lower_is_better: bool = False
) -> Figure:
    """Panel title -> row title -> its difference; rows without any are left out."""
    names = list(dict.fromkeys(name for rows in panels.values() for name in rows))
    columns = min(3, max(1, len(panels)))
    lines = -(-len(panels) // columns) or 1
    height = lines * (ROW * 1.3 * len(names) + 0.75) + 0.3
    figure = style.sheet(style.WIDTH + 0.8, height)
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for axes, (title, rows) in zip(grid.flat, panels.items(), strict=False):
        style.panel_title(axes, title, style.WIDTH / columns - 0.5)
        effects = []
        for name, found in rows.items():
            what = verdict(found, lower_is_better)
            filled = what != "undecided"
            effects.append(Effect(names.index(name), found, LOOKS[what], filled))
        column(axes, effects)
        axes.tick_params(labelbottom=True)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    name_rows(grid[0, 0], names)
    figure.supxlabel(x_label, fontsize=9)
    handles = [handle(look, what != "undecided", _WORDS.get(what, what)) for what, look in
               LOOKS.items()]  # fmt: skip
    style.legend_above(figure, handles)
    return figure


def verdict(found: Estimate, lower_is_better: bool) -> str:
    """On which side of 0 an interval lies."""
    if found.mean is None or found.half is None or abs(found.mean) <= found.half:
        return "undecided"
    return "better" if (found.mean < 0) == lower_is_better else "worse"


def column(axes: Axes, effects: Iterable[Effect]) -> None:
    """One panel: a point for each effect, and its interval."""
    for line, found, how, filled in effects:
        if found.mean is None:
            continue
        if found.half is not None:
            low, high = (100 * (found.mean + sign * found.half) for sign in (-1, 1))
            axes.hlines(line, low, high, color=how.colour, lw=1.6)
        axes.plot(100 * found.mean, line, **marker(how, filled))
    axes.xaxis.set_major_formatter(FuncFormatter(signed))
    axes.axvline(0, color=style.BLACK, lw=0.8)
    style.plain(axes)
    axes.tick_params(axis="y", labelsize=SIZE, length=0)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """The names beside the first column, the first on top."""
    axes.set_yticks(range(len(names)), names, fontsize=SIZE, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)


def marker(how: style.LineStyle, filled: bool) -> dict[str, Any]:
    """A point as it is drawn, in the plot and in its legend."""
    ink = {"color": how.colour, "markerfacecolor": how.colour if filled else "white"}
    return {**ink, "linestyle": "", "marker": how.marker, "markersize": 4.5}


def handle(how: style.LineStyle, filled: bool, label: str) -> Line2D:
    """The legend's."""
    return Line2D([], [], **marker(how, filled), label=label)


def signed(value: float, _: int) -> str:
    """A tick, with the minus of print."""
    return f"{value:+g}".replace("-", "−") if value else "0"
