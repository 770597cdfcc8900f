"""The diagram of FLR: what travels, and what stays at the site."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from flr.report import style

_COLOURS = {"server": "#d3e6f3", "local": "#fbe3c0", "both": "#d8efe5", "data": "#ececec"}
_INK = "#222222"

Point = tuple[float, float]


def overview() -> Figure:
    """One round of FLR: global weights in, local weights out, everything per sample at the site.

    s and m are running averages of the server's and of the local predictions (beta, gamma); their
    mixture t (alpha) pulls the local prediction p away from a wrong label y (lambda).
    """
    file = resources.files("flr.paper.figures").joinpath("overview.toml")
    parts = tomllib.loads(file.read_text(encoding="utf-8"))
    figure = style.sheet(style.WIDTH, 4.1)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 57)
    axes.axis("off")
    for shift, colour in ((1.6, "#ffffff"), (0.8, "#ffffff"), (0, "#fafafa")):  # sites, one behind
        frame = Rectangle((27 + shift, 2.5 - shift), 71, 52, facecolor=colour, lw=1.2, ls="--")
        frame.set_edgecolor(style.GREY)
        axes.add_patch(frame)
    for box in parts["boxes"]:
        _box(axes, **box)
    for arrow in parts["arrows"]:
        _arrow(axes, **arrow)
    for text in parts["texts"]:
        _text(axes, **text)
    return figure


def _box(axes: Axes, corner: Point, size: Point, colour: str, text: str = "") -> None:
    # the rounding adds to the outside, so the box is drawn smaller by as much
    (x, y), (width, height), pad = corner, size, 0.6
    how: dict[str, Any] = {"facecolor": _COLOURS.get(colour, "#ffffff"), "edgecolor": _INK, "lw": 1}
    where = (x + pad, y + pad), width - 2 * pad, height - 2 * pad
    axes.add_patch(FancyBboxPatch(*where, boxstyle=f"round,pad={pad}", **how))
    _text(axes, (x + width / 2, y + height / 2), text)


def _arrow(axes: Axes, corners: Sequence[Point], heavy: bool = False) -> None:
    *before, last, tip = corners
    how: dict[str, Any] = {"color": _INK, "lw": 2.2 if heavy else 1.1}
    if before:
        axes.plot(*zip(*before, last, strict=True), solid_joinstyle="miter", **how)
    how |= {"mutation_scale": 15 if heavy else 9, "shrinkA": 0, "shrinkB": 0, "capstyle": "butt"}
    axes.add_patch(FancyArrowPatch(last, tip, arrowstyle="-|>", **how))


def _text(axes: Axes, at: Point, text: str, **how: Any) -> None:
    usual: dict[str, Any] = {"ha": "center", "va": "center", "color": _INK, "linespacing": 1.25}
    axes.text(at[0], at[1], text, **(usual | {"fontsize": 8.5} | how))
