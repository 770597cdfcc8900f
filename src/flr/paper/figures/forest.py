"""The forest plot: the effect of every claim with its interval, a column for each scale."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from flr.paper.claims.stated import ScaledClaim, StatedClaim
from flr.report import forest, style

LOOKS = {
    "holds": forest.LOOKS["better"],
    "does not hold": forest.LOOKS["worse"],
    "undecided": forest.LOOKS["undecided"],
}
LINEAR = 2  # points to each side; beyond, the axis is logarithmic
TICKS = (-30, -10, -3, -1, 0, 1, 3, 10, 30)
_WORDS = {"undecided": "undecided (no line: one seed, or runs missing)"}


def draw(scaled: Sequence[ScaledClaim]) -> Figure:
    """Claims from top to bottom; scales without runs are left out."""
    claims = list(dict.fromkeys(each.claim for each in scaled))
    scales = list(dict.fromkeys(each.scale for each in scaled if each.judged.run))
    figure = style.sheet(style.WIDTH + 0.8, forest.ROW * len(claims) + 0.8)
    columns = figure.subplots(1, max(1, len(scales)), sharex=True, sharey=True, squeeze=False)[0]
    for axes, scale in zip(columns, scales, strict=False):
        column(axes, [each for each in scaled if each.scale == scale], claims)
        axes.set_title(scale, fontsize=10, fontweight="bold")
        axes.set_xticks(TICKS if len(scales) == 1 else TICKS[::2])
    forest.name_rows(columns[0], [each.short or each.says for each in claims])
    figure.supxlabel("percentage points; above 0 the paper is right", fontsize=9)
    handles = [
        forest.handle(look, verdict != "undecided", _WORDS.get(verdict, verdict))
        for verdict, look in LOOKS.items()
    ]
    style.legend_above(figure, handles)
    return figure


def column(axes: Axes, scaled: Sequence[ScaledClaim], claims: Sequence[StatedClaim]) -> None:
    """One scale: a point for each claim, filled where something is decided."""
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1)
    verdicts = [(each, each.judged.verdict) for each in scaled]
    forest.column(
        axes,
        [
            forest.Effect(
                claims.index(each.claim),
                each.judged.effect,
                LOOKS[verdict],
                verdict != "undecided",
            )
            for each, verdict in verdicts
        ],
    )
    axes.xaxis.set_minor_locator(NullLocator())
