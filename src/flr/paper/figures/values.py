"""Pictures of final numbers: bars for groups, lines over noise levels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from flr.report import style
from flr.report.style import LineStyle

Values = Sequence[float | None]  # one per seed, shares from 0 to 1 as in curves
Group = Mapping[str, Values]
Look = dict[str, Any]  # keyword arguments of matplotlib

_BARS_IN_A_ROW = 34
_HEIGHT = 2.9  # inches of one row of bars


def in_percent(values: Values) -> tuple[float, float]:
    """Mean and sample standard deviation (0 for one seed); NaN where nothing was measured."""
    known = [100 * value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return math.nan, math.nan
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0


def bars(groups: Mapping[str, Group], unit: str) -> Figure:
    """Means with whiskers of one standard deviation, in percent; `unit` is the axis' label.

    Where all bars are tall, the axis does not start at 0: bars and axis are then visibly broken,
    and the label says where the axis starts.
    """
    rows = _rows(groups)
    used = max(sum(_size(name, groups[name]) + 1 for name in row) - 1 for row in rows)
    slots = max(6, used)
    width = min(style.WIDTH, max(4.5, 0.5 * slots + 0.8))
    figure = style.sheet(width, _HEIGHT * len(rows))
    looks = style.line_styles(name for group in groups.values() for name in group)
    start, top = _limits([values for group in groups.values() for values in group.values()])
    slot = (width - 0.8) / slots
    upright = slot > 0.32
    head = 0.22 if upright else 0.42  # inches above the tallest bar, for its number
    for axes, row in zip(figure.subplots(len(rows), 1, squeeze=False).flat, rows, strict=True):
        left, ticks = (slots - used) / 2, {}
        for title in row:
            size = _size(title, groups[title])
            middle = left + (size - 1) / 2
            _group(axes, groups[title], middle, looks, 0 if upright else 90)
            ticks[middle] = style.wrapped(title, slot * (size + 0.6), 9.5)
            left += size + 1
        axes.set_xlim(-0.8, slots - 0.2)
        axes.set_ylim(start, start + (top - start) * (_HEIGHT - 0.4) / (_HEIGHT - 0.4 - head))
        style.plain(axes)
        axes.grid(visible=False, axis="x")
        axes.set_xticks(list(ticks), list(ticks.values()), fontsize=9.5, parse_math=False)
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel(unit, fontsize=9.5, parse_math=False)
        if start > 0:
            _break(axes, f"{unit}\n(axis starts at {start:g})")
    handles = [_patch(name, number, look) for number, (name, look) in enumerate(looks.items())]
    style.legend_above(figure, handles)
    return figure


def _rows(groups: Mapping[str, Group]) -> list[list[str]]:
    """Titles, row by row: a row holds as many groups as have room for a number over each bar."""
    rows: list[list[str]] = [[]]
    used = 0
    for title, group in groups.items():
        size = _size(title, group) + 1
        if rows[-1] and used + size > _BARS_IN_A_ROW:
            rows.append([])
            used = 0
        rows[-1].append(title)
        used += size
    return rows


def _size(title: str, group: Group) -> int:
    """Slots for bars; no fewer than the longest word below needs where bars are narrowest."""
    return max(1, len(group), min(8, max(map(len, title.split()), default=1) // 2 - 1))


def _group(
    axes: Axes, group: Group, middle: float, looks: Mapping[str, LineStyle], turned: float
) -> None:
    order = list(looks)
    left = middle - (len(group) - 1) / 2
    for place, (name, values) in enumerate(group.items()):
        mean, deviation = in_percent(values)
        if math.isnan(mean):
            _missing(axes, left + place)
            continue
        look = _patch(name, order.index(name), looks[name])
        x, colour, height = left + place, look.get_facecolor(), deviation or None
        filled: Look = {"color": colour, "hatch": look.get_hatch(), "edgecolor": "white"}
        whisker: Look = {"elinewidth": 1.1, "capsize": 2.5, "ecolor": "black"}
        axes.bar(x, mean, 0.86, linewidth=0, yerr=height, error_kw=whisker, **filled)
        above: Look = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 8}
        axes.annotate(f"{mean:.1f}", (x, mean + deviation), (0, 3), rotation=turned, **above)
    if not group:
        _missing(axes, middle)


def _missing(axes: Axes, place: float) -> None:
    """Upright in the place of the bar: a gap alone could be a bar of height 0."""
    upright: Look = {"ha": "center", "va": "bottom", "rotation": 90, "fontsize": 8}
    upright |= {"color": style.GREY, "transform": axes.get_xaxis_transform()}
    axes.text(place, 0.1, style.NOT_MEASURED, **upright)


def _limits(all_values: Sequence[Values]) -> tuple[float, float]:
    """Where the axis starts, and the top of the tallest whisker."""
    found = [pair for pair in map(in_percent, all_values) if not math.isnan(pair[0])]
    if not found:
        return 0.0, 1.0
    low = min(mean - deviation for mean, deviation in found)
    high = max(mean + deviation for mean, deviation in found)
    if low <= 0.5 * high:
        return min(0.0, low), max(0.0, high) or 1.0
    step = 10.0 ** math.floor(math.log10(high)) / 2
    return max(0.0, step * math.floor((low - max(0.4 * (high - low), step / 5)) / step)), high


def _break(axes: Axes, label: str) -> None:
    """A white zigzag through the feet of all bars and two strokes on the axis."""
    axes.set_ylabel(label, fontsize=9.5, parse_math=False)
    count = 120
    zigzag = [0.05 + 0.012 * (-1) ** step for step in range(count + 1)]
    across = [step / count for step in range(count + 1)]
    axes.plot(across, zigzag, color="white", lw=2.5, transform=axes.transAxes, zorder=5)
    stroke: Look = {"marker": [(-1.0, -0.5), (1.0, 0.5)], "markersize": 9, "linestyle": ""}
    stroke |= {"color": "black", "clip_on": False, "zorder": 6}
    axes.plot([0, 0], [0.04, 0.06], transform=axes.transAxes, **stroke)


def _patch(name: str, number: int, look: LineStyle) -> Patch:
    """Hatched where the colour has been used before."""
    hatch = ("", "///", "...")[min(2, number // 7)]
    colour = "#555555" if look.colour == style.BLACK else look.colour  # whiskers are black
    return Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0, label=name)


def lines(panels: Mapping[str, Mapping[str, Group]], x_label: str, unit: str) -> Figure:
    """Panel -> method -> place on the x axis (in order) -> shares per seed, drawn in percent."""
    places = {title: _places(methods) for title, methods in panels.items()}
    figure = style.sheet(style.WIDTH, 3.0)
    room = max((_width(figure, names) for names in places.values()), default=0)
    columns = 2 if len(panels) > 1 and room < 2.8 else 1
    rows = -(-len(panels) // columns) or 1
    figure.set_figheight(3.0 * rows)
    grid = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
    looks = style.line_styles(name for methods in panels.values() for name in methods)
    for number, (axes, (title, methods)) in enumerate(zip(grid, panels.items(), strict=False)):
        style.panel_title(axes, title, style.WIDTH / columns - 0.6)
        _means(axes, methods, places[title], looks)
        if axes.lines:
            axes.set_xlabel(x_label, fontsize=9.5, parse_math=False)
            turned = 90 if room > style.WIDTH - 0.9 else 0
            axes.tick_params(axis="x", rotation=turned)
        if number % columns == 0:
            axes.set_ylabel(unit, fontsize=9.5, parse_math=False)
    for axes in grid[len(panels) :]:
        axes.remove()
    style.legend_above(figure, [style.handle(*item) for item in looks.items()])
    return figure


def _places(methods: Mapping[str, Group]) -> list[str]:
    return list(dict.fromkeys(place for group in methods.values() for place in group))


def _width(figure: Figure, names: Sequence[str]) -> float:
    """Inches that the names take below an axis, with a little between them."""
    return len(names) * max((style.text_width(figure, name, 9) + 0.08 for name in names), default=0)


def _means(
    axes: Axes, methods: Mapping[str, Group], places: list[str], looks: Mapping[str, LineStyle]
) -> None:
    apart = min(0.05, 0.4 / max(1, len(methods)))  # or whiskers would lie on one another
    several = any(len(values) > 1 for group in methods.values() for values in group.values())
    for number, (name, group) in enumerate(methods.items()):
        shift = apart * (number - (len(methods) - 1) / 2) if several else 0.0
        found = [in_percent(group.get(place, ())) for place in places]
        if all(math.isnan(mean) for mean, _ in found):
            continue
        look, x = looks[name], [place + shift for place in range(len(places))]
        means, deviations = zip(*found, strict=True)
        line: Look = {"color": look.colour, "linestyle": look.style, "marker": look.marker}
        line |= {"markersize": 4.5, "lw": 1.8, "elinewidth": 0.9, "capsize": 2, "label": name}
        axes.errorbar(x, means, deviations if several else None, **line)
    style.plain(axes)
    axes.tick_params(labelleft=True)
    if not axes.lines:
        axes.set_xticks([])
        style.note(axes)
        return
    axes.set_xticks(range(len(places)), places, parse_math=False)
    axes.set_xlim(-0.4, len(places) - 0.6)
