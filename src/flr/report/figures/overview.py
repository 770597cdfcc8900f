"""The diagram of FLR: what travels, and what stays at the site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from flr.report.figures import style

_SERVER, _LOCAL, _BOTH, _DATA = "#d3e6f3", "#fbe3c0", "#d8efe5", "#ececec"
_INK = "#222222"

Point = tuple[float, float]


def overview() -> Figure:
    """One round of FLR: global weights in, local weights out, everything per sample at the site.

    s and m are running averages of the server's and of the local predictions (beta, gamma); their
    mixture t (alpha) pulls the local prediction p away from a wrong label y (lambda).
    """
    figure = style.sheet(style.WIDTH, 4.1)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 57)
    axes.axis("off")
    _frames(axes)
    _boxes(axes)
    _arrows(axes)
    return figure


def _frames(axes: Axes) -> None:
    for shift in (1.6, 0.8):  # the other sites, behind
        axes.add_patch(_frame(27 + shift, 2.5 - shift, "#ffffff"))
    axes.add_patch(_frame(27, 2.5, "#fafafa"))
    _text(axes, 29, 51.3, "Site $k$ of $N$", 10, ha="left", fontweight="bold")
    _text(axes, 97, 51.3, "data, labels, predictions and averages stay here", 8.5, ha="right")


def _frame(x: float, y: float, colour: str) -> Rectangle:
    return Rectangle((x, y), 71, 52, facecolor=colour, edgecolor=style.GREY, lw=1.2, ls="--")


def _boxes(axes: Axes) -> None:
    _box(axes, (2, 8), (13.5, 38), _SERVER, "")
    _text(axes, 8.75, 42.5, "Server", 10, fontweight="bold")
    _text(axes, 8.75, 27, "averages the\nsites' weights\n\n" + r"$w=\sum_k\frac{n_k}{n}\,w_k$")
    _box(axes, (30, 37), (16, 10.5), _SERVER, "global model $w$\n(frozen)")
    _box(axes, (30, 22), (13, 9), _DATA, "images $x$,\nlabels $y$\n(some wrong)")
    _box(axes, (30, 5.5), (16, 10.5), _LOCAL, "local model $w_k$\n(starts as $w$)")
    _box(
        axes,
        (53, 37),
        (24, 10.5),
        _SERVER,
        "server's running average\n" + r"$s\leftarrow\beta\,s+(1-\beta)\,p^{\mathrm{srv}}$",
    )
    _box(
        axes,
        (53, 5.5),
        (24, 10.5),
        _LOCAL,
        "local running average\n" + r"$m\leftarrow\gamma\,m+(1-\gamma)\,p$",
    )
    _box(
        axes,
        (53, 20),
        (24, 13),
        "#ffffff",
        "loss\n" + r"$\mathrm{CE}(y,p)$" + "\n" + r"$+\;\lambda\,\log(1-\langle p,t\rangle)$",
    )
    _box(
        axes,
        (82, 20),
        (14.5, 13),
        _BOTH,
        "label mixture\n" + r"$t=\alpha\,s$" + "\n" + r"$+\;(1-\alpha)\,m$",
    )


def _arrows(axes: Axes) -> None:
    _arrow(axes, [(15.5, 42.25), (30, 42.25)], heavy=True)
    _text(axes, 21.3, 45.2, "global\nweights")
    _arrow(axes, [(30, 10.75), (15.5, 10.75)], heavy=True)
    _text(axes, 21.3, 13.7, "weights\nonly")
    _arrow(axes, [(34, 31), (34, 37)])
    _text(axes, 35.6, 34, "$x$")
    _arrow(axes, [(34, 22), (34, 16)])
    _text(axes, 35.6, 19, "$x$")
    _arrow(axes, [(46, 42.25), (53, 42.25)])
    _text(axes, 49.3, 44.6, r"$p^{\mathrm{srv}}$")
    _arrow(axes, [(46, 10.75), (53, 10.75)])
    _text(axes, 48, 12.6, "$p$")
    _arrow(axes, [(50.5, 10.75), (50.5, 22.5), (53, 22.5)])
    _arrow(axes, [(43, 30), (53, 30)])
    _text(axes, 47.5, 31.8, "$y$")
    _arrow(axes, [(53, 26.2), (45, 26.2), (45, 16)])
    _text(axes, 41.3, 19, "local\nupdate")
    _arrow(axes, [(77, 42.25), (89.25, 42.25), (89.25, 33)])
    _text(axes, 83.5, 44.2, "$s$")
    _arrow(axes, [(77, 10.75), (89.25, 10.75), (89.25, 20)])
    _text(axes, 83.5, 12.6, "$m$")
    _arrow(axes, [(82, 26.5), (77, 26.5)])
    _text(axes, 79.7, 28.4, "$t$")


def _box(axes: Axes, corner: Point, size: Point, colour: str, text: str) -> None:
    # the rounding adds to the outside, so the box is drawn smaller by as much
    (x, y), (width, height), pad = corner, size, 0.6
    axes.add_patch(
        FancyBboxPatch(
            (x + pad, y + pad),
            width - 2 * pad,
            height - 2 * pad,
            boxstyle=f"round,pad={pad}",
            facecolor=colour,
            edgecolor=_INK,
            lw=1,
        )
    )
    _text(axes, x + width / 2, y + height / 2, text)


def _arrow(axes: Axes, corners: Sequence[Point], heavy: bool = False) -> None:
    *before, last, tip = corners
    width = 2.2 if heavy else 1.1
    if before:
        axes.plot(*zip(*before, last, strict=True), color=_INK, lw=width, solid_joinstyle="miter")
    axes.add_patch(
        FancyArrowPatch(
            last,
            tip,
            arrowstyle="-|>",
            mutation_scale=15 if heavy else 9,
            color=_INK,
            lw=width,
            capstyle="butt",
            shrinkA=0,
            shrinkB=0,
        )
    )


def _text(axes: Axes, x: float, y: float, text: str, size: float = 8.5, **how: Any) -> None:
    usual: dict[str, Any] = {"ha": "center", "va": "center", "color": _INK, "linespacing": 1.25}
    axes.text(x, y, text, fontsize=size, **(usual | how))
