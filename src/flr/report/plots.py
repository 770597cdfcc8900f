"""Pictures of runs. Drawn without pyplot, so that nothing global is touched or left open."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from flr.arrays import write_atomically

Metrics = Sequence[dict[str, Any]]

# Okabe and Ito's palette: distinct with every kind of colour vision; styles repeat the difference
_BLUE, _ORANGE, _GREEN, _RED, _PINK, _SKY, _BLACK = (
    ("#0072B2", "-"),
    ("#E69F00", "--"),
    ("#009E73", "-."),
    ("#D55E00", "-"),
    ("#CC79A7", ":"),
    ("#56B4E9", "--"),
    ("#000000", "-."),
)
_RUNS = (_ORANGE, _GREEN, _BLUE, _RED, _PINK, _SKY, _BLACK)
_NOISY = {
    "noisy_memorized": ("memorized: repeats the wrong label", _RED),
    "noisy_correct": ("correct: sees through it", (_BLUE[0], "--")),
    "noisy_wrong": ("wrong: neither of the two", ("#767676", ":")),
}


def curves(metrics: Metrics, path: Path, title: str) -> None:
    """One run: test accuracy, and what becomes of wrong labels at the server and at clients."""
    figure, (accuracy, server, client) = _figure(title)
    accuracy.set_title("Test accuracy", loc="left")
    _line(accuracy, _points(metrics, "accuracy"), "global model", _BLUE)
    _finish(accuracy, "right on the test set (%)", "the accuracy was not measured")
    for axes, side, where in (
        (server, "server", "Wrong labels at the server: the global model on all sites' data"),
        (client, "client", "Wrong labels at clients: their models after local training"),
    ):
        axes.set_title(where, loc="left")
        for key, (label, look) in _NOISY.items():
            _line(axes, _points(metrics, "memorization", side, key), label, look)
        _finish(axes, "share of wrong labels (%)", "no wrong labels, or not measured")
        if axes.lines:
            axes.legend(fontsize=10, loc="best", framealpha=0.85)
    _write(figure, path)


def comparison(runs: Mapping[str, Metrics], path: Path) -> None:
    """Several runs over rounds: accuracy, and the share of wrong labels memorized on each side."""
    figure, (accuracy, server, client) = _figure("")
    panels = (
        (accuracy, ("accuracy",), "Test accuracy (higher is better)", "right (%)"),
        (
            server,
            ("memorization", "server", "noisy_memorized"),
            "Wrong labels memorized at the server (lower is better)",
            "share of wrong labels (%)",
        ),
        (
            client,
            ("memorization", "client", "noisy_memorized"),
            "Wrong labels memorized at clients (lower is better)",
            "share of wrong labels (%)",
        ),
    )
    for axes, keys, title, unit in panels:
        axes.set_title(title, loc="left")
        for (label, metrics), look in zip(runs.items(), cycle(_RUNS), strict=False):
            _line(axes, _points(metrics, *keys), label, look)
        _finish(axes, unit, "not measured")
    _legend_above(figure)
    _write(figure, path)


def _points(metrics: Metrics, *keys: str) -> list[tuple[int, float]]:
    """(round, percent) of every line in which the nested value is there."""
    found = []
    for line in metrics:
        value: Any = line
        for key in keys:
            value = value.get(key) if value is not None else None
        if value is not None:
            found.append((int(line["round"]), 100 * float(value)))
    return found


def _figure(title: str) -> tuple[Figure, tuple[Axes, Axes, Axes]]:
    # one narrow column: on a phone three panels side by side could not be read
    figure = Figure(figsize=(7.0, 9.6), dpi=130, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=13, fontweight="bold", parse_math=False)
    first, second, third = figure.subplots(3, 1, sharex=True)
    third.set_xlabel("round", fontsize=11)
    return figure, (first, second, third)


def _line(axes: Axes, points: list[tuple[int, float]], label: str, look: tuple[str, str]) -> None:
    if points:
        colour, style = look
        marker = "o" if len(points) <= 15 else ""
        rounds, values = zip(*points, strict=True)
        axes.plot(
            rounds, values, style, color=colour, label=label, lw=2, marker=marker, markersize=4
        )


def _finish(axes: Axes, unit: str, empty: str) -> None:
    axes.set_ylabel(unit, fontsize=11)
    axes.set_ylim(-2, 102)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(visible=True, color="#dddddd", linewidth=0.7)
    axes.tick_params(labelbottom=True, labelsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.lines:
        axes.text(0.5, 0.5, empty, ha="center", va="center", transform=axes.transAxes, fontsize=12)


def _legend_above(figure: Figure) -> None:
    """One legend for all panels, outside of them: with many runs it would hide lines."""
    lines = {line.get_label(): line for axes in figure.axes for line in axes.lines}
    if lines:
        legend = figure.legend(
            handles=list(lines.values()), loc="outside upper center", ncols=4, fontsize=10
        )
        for text in legend.get_texts():
            text.set_parse_math(False)


def _write(figure: Figure, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    write_atomically(path, buffer.getvalue())
