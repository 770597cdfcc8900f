"""FLR's own numbers: alpha against gamma, and learning curves for several beta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flr.paper.figures import matrices
from flr.paper.figures.values import Values, in_percent
from flr.report import style
from flr.report.curves import learning, percent
from flr.report.style import Curve


def ablation(
    heat: Mapping[tuple[float, float], Values], beta: Mapping[str, Sequence[Curve]]
) -> Figure:
    """(a) mean share over seeds for each (alpha, gamma), in percent; (b) a curve for each beta.

    A wide grid of (a) gets the whole width of the page, with (b) below.
    """
    wide = len({alpha for alpha, _ in heat}) > 6
    figure = style.sheet(style.WIDTH, 6.4 if wide else 3.2)
    left, right = figure.subplots(*((2, 1) if wide else (1, 2)))
    style.panel_title(left, "(a) accuracy over α and γ", style.WIDTH / 2)
    _heat(left, heat)
    style.panel_title(right, "(b) learning curves for β", style.WIDTH / 2)
    looks = style.line_styles(beta)
    learning(right, beta, looks)
    percent(right)
    right.set_ylabel("test accuracy (%)", fontsize=9.5)
    style.legend_above(figure, [style.handle(*item) for item in looks.items()])
    return figure


def _heat(axes: Axes, heat: Mapping[tuple[float, float], Values]) -> None:
    alphas = sorted({alpha for alpha, _ in heat})
    gammas = sorted({gamma for _, gamma in heat})
    means = [[in_percent(heat.get((a, g), ()))[0] for a in alphas] for g in gammas]
    axes.set_xlabel("α: share of the server's average s in t", fontsize=9.5)
    axes.set_ylabel("γ: what m keeps", fontsize=9.5)
    if not heat or np.isnan(means).all():
        matrices.blank(axes)
        return
    image = matrices.heat(axes, np.array(means), "cividis", "{:.1f}".format, 8.5)
    axes.set_xticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas], fontsize=9)
    axes.set_yticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas], fontsize=9)
    axes.invert_yaxis()  # greater gamma higher, as on any axis
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, shrink=0.9)
    bar.set_label("test accuracy (%)", fontsize=9)
    bar.ax.tick_params(labelsize=8.5)
