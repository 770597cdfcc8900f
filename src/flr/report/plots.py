"""Pictures of runs. Drawn without pyplot, so that nothing global is touched or left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flr.core.arrays import write_atomically
from flr.report import style
from flr.report.style import LineStyle

Metrics = Sequence[dict[str, Any]]

_NOISY = {
    "noisy_memorized": ("memorized: repeats the wrong label", LineStyle(style.RED, "-")),
    "noisy_correct": ("correct: sees through it", LineStyle(style.BLUE, "--")),
    "noisy_wrong": ("wrong: neither of the two", LineStyle(style.GREY, ":")),
}


def curves(metrics: Metrics, path: Path, title: str) -> None:
    """One run: test accuracy, and what becomes of wrong labels at the server and at clients.

    Where nobody knows which labels are wrong, as in a real federation, only the first.
    """
    known = any("memorization" in line for line in metrics)
    figure, (accuracy, *sides) = _figure(title, panels=3 if known else 1)
    accuracy.set_title("Test accuracy", loc="left")
    blue = LineStyle(style.BLUE)
    style.line(accuracy, style.points(metrics, "accuracy"), "global model", blue)
    repeated = style.points(metrics, "validation", "accuracy")
    if repeated:
        how = LineStyle(style.GREY, ":")
        style.line(accuracy, repeated, "held-out labels, right or wrong, that it repeats", how)
        accuracy.legend(fontsize=10, loc="best", framealpha=0.85)
    _finish(accuracy, "right on the test set (%)", "the accuracy was not measured")
    wheres = (
        ("server", "Wrong labels at the server: the global model on all sites' data"),
        ("client", "Wrong labels at clients: their models after local training"),
    )
    for axes, (side, where) in zip(sides, wheres, strict=False):
        axes.set_title(where, loc="left")
        for key, (label, how) in _NOISY.items():
            style.line(axes, style.points(metrics, "memorization", side, key), label, how)
        _finish(axes, "share of wrong labels (%)", "no wrong labels, or not measured")
        if axes.lines:
            axes.legend(fontsize=10, loc="best", framealpha=0.85)
    write_atomically(path, style.png(figure))


def comparison(runs: Mapping[str, Metrics], path: Path) -> None:
    """Several runs over rounds: accuracy, and the share of wrong labels memorized on each side."""
    figure, column = _figure("")
    share = "share of wrong labels (%)"
    panels = [(["accuracy"], "Test accuracy (higher is better)", "right (%)")]
    for side, where in (("server", "the server"), ("client", "clients")):
        keys = ["memorization", side, "noisy_memorized"]
        panels.append((keys, f"Wrong labels memorized at {where} (lower is better)", share))
    styles = style.line_styles(runs)
    for axes, (keys, title, unit) in zip(column, panels, strict=True):
        axes.set_title(title, loc="left")
        for label, metrics in runs.items():
            style.line(axes, style.points(metrics, *keys), label, styles[label])
        _finish(axes, unit, "not measured")
    style.legend_above(figure, [style.handle(*item) for item in styles.items()])
    write_atomically(path, style.png(figure))


def _figure(title: str, panels: int = 3) -> tuple[Figure, list[Axes]]:
    # one narrow column: on a phone three panels side by side could not be read
    figure = style.sheet(7.0, 3.2 * panels, dpi=130)
    if title:
        figure.suptitle(title, fontsize=13, fontweight="bold", parse_math=False)
    column = [row[0] for row in figure.subplots(panels, 1, sharex=True, squeeze=False)]
    column[-1].set_xlabel("round", fontsize=11)
    return figure, column


def _finish(axes: Axes, unit: str, empty: str) -> None:
    axes.set_ylabel(unit, fontsize=11)
    axes.set_ylim(-2, 102)
    style.plain(axes)
    style.whole_rounds(axes)
    axes.tick_params(labelbottom=True, labelsize=10)
    if not axes.lines:
        style.note(axes, empty)
