"""What every picture shares: sheet, colours, lines over rounds, legend, and reproducible files."""

from __future__ import annotations

import io
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from flr.core.arrays import write_atomically

Curve = Sequence[Mapping[str, Any]]  # lines as in metrics.jsonl, shares from 0 to 1

WIDTH = 7.2  # inches, a page between its margins; 9-point text stays readable on 700 pixels
NOT_MEASURED = "not measured"
GREY, GRID = "#767676", "#dddddd"
# Okabe and Ito's palette: distinct with every kind of colour vision
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PINK, SKY, BLACK = "#CC79A7", "#56B4E9", "#000000"


class LineStyle(NamedTuple):
    """How one line is drawn; `spaced` puts markers on long lines too, about eight of them."""

    colour: str
    style: Any = "-"
    marker: str = "o"
    spaced: bool = False


_FIRST = (
    LineStyle(ORANGE, "--", "s"),
    LineStyle(GREEN, "-.", "^"),
    LineStyle(BLUE, "-", "o"),
    LineStyle(RED, "-", "D"),
    LineStyle(PINK, ":", "v"),
    LineStyle(SKY, "--", "P"),
    LineStyle(BLACK, "-.", "X"),
)
_AGAIN = (("-", "*"), ((0, (3, 1.2)), "<"), ("--", ">"), (":", "h"))  # (0, ...): short dashes
_OTHER = {"-": "--", "--": "-", "-.": ":", ":": "-."}


def line_styles(names: Iterable[str]) -> dict[str, LineStyle]:
    """A style for each name; where colours must repeat, dashes and marker differ."""
    names = list(dict.fromkeys(names))
    found = {}
    for number, name in enumerate(names):
        turn, place = divmod(number, len(_FIRST))
        own = _FIRST[place]
        if turn:
            dashes, marker = _AGAIN[(turn - 1) % len(_AGAIN)]
            dashes = _OTHER[own.style] if dashes == own.style else dashes
            own = own._replace(style=dashes, marker=marker)
        found[name] = own._replace(spaced=len(names) > len(_FIRST))
    return found


def sheet(width: float, height: float, dpi: int = 200) -> Figure:
    """An empty white figure with its own canvas: nothing global is touched or left open."""
    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def wrapped(text: str, inches: float, points: float) -> str:
    """The text in lines that fit the width; 0.6 em is what a letter takes on average, or less."""
    return "\n".join(textwrap.wrap(text, max(6, int(72 * inches / (0.6 * points))))) or text


def text_width(figure: Figure, text: str, size: float) -> float:
    """Inches of one line of plain text."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    width = renderer.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)[0]
    return float(width / figure.dpi)


def panel_title(axes: Axes, text: str, inches: float) -> None:
    lines = wrapped(text, inches, 10)
    axes.set_title(lines, loc="left", fontsize=10, fontweight="bold", parse_math=False)


def points(metrics: Curve, *keys: str) -> list[tuple[int, float]]:
    """(round, percent) of every line in which the nested value is there."""
    found = []
    for line in metrics:
        value: Any = line
        for key in keys:
            value = value.get(key) if value is not None else None
        if value is not None and math.isfinite(value):
            found.append((int(line["round"]), 100 * float(value)))
    return found


def line(axes: Axes, points: Sequence[tuple[float, float]], label: str, how: LineStyle) -> None:
    """Draws one line; few points are marked one by one."""
    if not points:
        return
    few = len(points) <= 15
    size = {"lw": 2, "markersize": 4} if few else {"lw": 1.5, "markersize": 5}
    axes.plot(
        *zip(*points, strict=True),
        **size,
        linestyle=how.style,
        color=how.colour,
        label=label,
        marker=how.marker if few or how.spaced else "",
        markevery=1 if few else len(points) // 8,
    )


def seeds(
    axes: Axes, curves: Sequence[Curve], keys: Sequence[str], label: str, how: LineStyle
) -> None:
    """The mean over the seeds that have a round, in a light band from the least to the greatest."""
    values: dict[int, list[float]] = defaultdict(list)
    for curve in curves:
        for number, value in points(curve, *keys):
            values[number].append(value)
    rounds = sorted(values)
    line(axes, [(r, math.fsum(values[r]) / len(values[r])) for r in rounds], label, how)
    least, greatest = ([pick(values[r]) for r in rounds] for pick in (min, max))
    if least == greatest:
        return
    if len(rounds) == 1:  # a band of no width would be invisible
        axes.vlines(rounds, least, greatest, color=how.colour, lw=2, alpha=0.4)
    else:
        axes.fill_between(rounds, least, greatest, color=how.colour, alpha=0.25, lw=0)


def plain(axes: Axes) -> None:
    """Light grid, no box, small figures."""
    axes.grid(visible=True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def whole_rounds(axes: Axes) -> None:
    steps = [1, 2, 5, 10]
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=steps, min_n_ticks=1))


def note(axes: Axes, text: str = NOT_MEASURED) -> None:
    """Says in an empty panel why it is empty."""
    found = axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=11, parse_math=False)
    found.set_transform(axes.transAxes)


def handle(label: str, how: LineStyle) -> Line2D:
    """The line of a legend, whether or not the method was drawn in the first panel."""
    drawn = {"color": how.colour, "linestyle": how.style, "marker": how.marker}
    return Line2D([], [], **drawn, lw=2, markersize=5, label=label)


def legend_above(figure: Figure, handles: Sequence[Artist], title: str = "") -> None:
    """One legend for all panels, outside of them; the sheet grows by as much as it takes."""
    size = 9
    if not handles:
        return
    labels = [wrapped(str(each.get_label()), 0.7 * figure.get_figwidth(), size) for each in handles]
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for most in range(min(len(handles), 7), 0, -1):
        columns = math.ceil(len(handles) / math.ceil(len(handles) / most))  # even rows
        legend = figure.legend(
            handles=handles,
            labels=labels,
            loc="outside upper center",
            ncols=columns,
            fontsize=size,
            frameon=False,
            handlelength=3.0,
            columnspacing=1.4,
            title=wrapped(title, figure.get_figwidth(), 11) or None,
            title_fontproperties={"weight": "bold", "size": 11},
        )
        for text in (legend.get_title(), *legend.get_texts()):
            text.set_parse_math(False)
        extent = legend.get_window_extent(renderer)
        if extent.width < 0.98 * figure.bbox.width or most == 1:
            figure.set_figheight(figure.get_figheight() + extent.height / figure.dpi)
            return
        legend.remove()


def png(figure: Figure) -> bytes:
    """The same bytes for the same picture: no date, no version of the drawing program."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def pdf(figure: Figure) -> bytes:
    """Reproducible as `png`; with TrueType letters, which publishers ask for."""
    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    with rc_context({"pdf.fonttype": 42}):
        figure.savefig(buffer, format="pdf", metadata=nothing)
    return buffer.getvalue()


def save(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """Writes `stem`.png and `stem`.pdf; a dot in the stem is part of the name."""
    paths = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.pdf")
    for path, form in zip(paths, (png, pdf), strict=True):
        write_atomically(path, form(figure))
    return paths
