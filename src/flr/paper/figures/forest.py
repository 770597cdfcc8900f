"""The forest plot: the effect of every claim with its interval, a column for each scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from flr.paper.claims.stated import ScaledClaim, StatedClaim
from flr.report import style

LOOKS = {
    "holds": style.LineStyle(style.BLUE, "-", "o"),
    "does not hold": style.LineStyle(style.RED, "-", "D"),
    "undecided": style.LineStyle(style.GREY, "-", "o"),
}
ROW, SIZE = 0.205, 8.5  # inches, points
LINEAR = 2  # points to each side; beyond, the axis is logarithmic
TICKS = (-30, -10, -3, -1, 0, 1, 3, 10, 30)


def draw(scaled: Sequence[ScaledClaim]) -> Figure:
    """Claims from top to bottom; scales without runs are left out."""
    claims = list(dict.fromkeys(each.claim for each in scaled))
    scales = list(dict.fromkeys(each.scale for each in scaled if each.judged.run))
    figure = style.sheet(style.WIDTH + 0.8, ROW * len(claims) + 0.8)
    columns = figure.subplots(1, max(1, len(scales)), sharex=True, sharey=True, squeeze=False)[0]
    for axes, scale in zip(columns, scales, strict=False):
        column(axes, [each for each in scaled if each.scale == scale], claims)
        axes.set_title(scale, fontsize=10, fontweight="bold")
        axes.set_xticks(TICKS if len(scales) == 1 else TICKS[::2])
    name_rows(columns[0], claims)
    figure.supxlabel("percentage points; above 0 the paper is right", fontsize=9)
    style.legend_above(figure, [handle(verdict) for verdict in LOOKS])
    return figure


def column(axes: Axes, scaled: Sequence[ScaledClaim], claims: Sequence[StatedClaim]) -> None:
    """One scale: a point for each claim, and its 95 % interval."""
    for each in scaled:
        effect, look = each.judged.effect, LOOKS[each.judged.verdict]
        if effect.mean is None:
            continue
        place = 100 * effect.mean, claims.index(each.claim)
        if effect.half is not None:
            low, high = (100 * (effect.mean + sign * effect.half) for sign in (-1, 1))
            axes.hlines(place[1], low, high, color=look.colour, lw=1.6)
        axes.plot(*place, **marker(each.judged.verdict))
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1)
    axes.xaxis.set_major_formatter(FuncFormatter(signed))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.axvline(0, color=style.BLACK, lw=0.8)
    style.plain(axes)
    axes.tick_params(axis="y", labelsize=SIZE, length=0)


def signed(value: float, _: int) -> str:
    """A tick, with the minus of print."""
    return f"{value:+.0f}".replace("-", "−") if value else "0"


def name_rows(axes: Axes, claims: Sequence[StatedClaim]) -> None:
    """The claims beside the first column, the first on top."""
    axes.set_yticks(range(len(claims)), [each.short or each.says for each in claims], fontsize=SIZE)
    axes.set_ylim(len(claims) - 0.4, -0.6)


def marker(verdict: str) -> dict[str, Any]:
    """Filled where something is decided, hollow where nothing is."""
    look = LOOKS[verdict]
    filled = look.colour if verdict != "undecided" else "white"
    ink = {"color": look.colour, "markerfacecolor": filled, "linestyle": ""}
    return {**ink, "marker": look.marker, "markersize": 4.5}


def handle(verdict: str) -> Line2D:
    """The legend's."""
    words = "undecided (no line: one seed, or runs missing)" if verdict == "undecided" else verdict
    return Line2D([], [], **marker(verdict), label=words)
