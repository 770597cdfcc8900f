"""Pictures over rounds: what becomes of labels, and test accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flr.report import style
from flr.report.style import Curve, LineStyle

_SHARES = {
    "correct": LineStyle(style.BLUE, "--", "s"),
    "wrong": LineStyle(style.GREY, ":", "^"),
    "memorized": LineStyle(style.RED, "-", "o"),
}
_LABELS = {"clean": ("correct", "wrong"), "noisy": ("correct", "wrong", "memorized")}
_SIDES = {  # title, y axis
    "server": ("(a) Server side", "share at all sites (%)"),
    "client_noisy": ("(b) Client side", "share at noisy participants (%)"),
}


def memorization(curves: Sequence[Curve], title: str) -> Figure:
    """Figures 2 and 3: clean and noisy labels at the server (a) and at noisy participants (b).

    Each curve is one seed. Of clean labels, predictions are correct or wrong; of noisy labels
    they are correct (the true class), memorized (the wrong label) or wrong (neither).
    """
    figure = style.sheet(style.WIDTH, 5.4)
    grid = figure.subplots(len(_SIDES), len(_LABELS), sharey=True)
    for row, (side, (where, share)) in zip(grid, _SIDES.items(), strict=True):
        for axes, (kind, outcomes) in zip(row, _LABELS.items(), strict=True):
            style.panel_title(axes, f"{where}: {kind} labels", style.WIDTH / 2)
            for outcome in outcomes:
                keys = ("memorization", side, f"{kind}_{outcome}")
                style.seeds(axes, curves, keys, outcome, _SHARES[outcome])
            _finish(axes)
            axes.set_ylim(-2, 102)
        row[0].set_ylabel(share, fontsize=9.5)
    style.legend_above(figure, [style.handle(*item) for item in _SHARES.items()], title)
    return figure


def accuracy(panels: Mapping[str, Mapping[str, Sequence[Curve]]]) -> Figure:
    """Learning curves: panel title -> method title -> one curve per seed."""
    columns = min(2, max(1, len(panels)))
    rows = -(-len(panels) // columns) or 1
    figure = style.sheet(style.WIDTH, 3.1 * rows if columns == 2 else 3.6)
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    looks = style.line_styles(name for methods in panels.values() for name in methods)
    for axes, (title, methods) in zip(grid.flat, panels.items(), strict=False):
        style.panel_title(axes, title, style.WIDTH / columns - 0.6)
        learning(axes, methods, looks)
    percent(grid[0, 0])
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    style.legend_above(figure, [style.handle(*item) for item in looks.items()])
    return figure


def learning(
    axes: Axes, methods: Mapping[str, Sequence[Curve]], looks: Mapping[str, LineStyle]
) -> None:
    """Test accuracy over rounds in one panel, on the part of the scale where there is something."""
    for name, curves in methods.items():
        style.seeds(axes, curves, ("accuracy",), name, looks[name])
    _finish(axes)
    if axes.get_subplotspec().is_first_col():  # type: ignore[union-attr]
        axes.set_ylabel("test accuracy (%)", fontsize=9.5)


def percent(axes: Axes) -> None:
    """No room for less than 0 or more than 100; panels that share the axis must all be drawn."""
    shown = any(each.lines for each in axes.get_shared_y_axes().get_siblings(axes))
    low, high = axes.get_ylim() if shown else (0, 100)
    axes.set_ylim(max(low, -2), min(high, 102))


def _finish(axes: Axes) -> None:
    style.plain(axes)
    style.whole_rounds(axes)
    axes.tick_params(labelleft=True)
    if axes.lines:
        axes.set_xlabel("round", fontsize=9.5)
    else:
        axes.set_xticks([])
        style.note(axes)
