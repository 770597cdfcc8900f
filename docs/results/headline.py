"""Draws headline.png, the README's picture, from the cells of fig-longer.

python docs/results/headline.py
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from flr.arrays import write_atomically
from flr.report.figures import Curve, style
from flr.reproduce.experiment import load
from flr.reproduce.runner import Workshop, gather

HERE = Path(__file__).parent
ROWS = {"fedavg": "FedAvg", "elr": "ELR", "flr-2": "FLR"}
SPAN = 10  # rounds: a round's value depends on which five sites it asks
PANELS = {
    "Wrong labels that clients repeat (%)": ("memorization", "client_noisy", "noisy_memorized"),
    "Right answers on new images (%)": ("accuracy",),
}


def main() -> None:
    """Two panels: what clients memorize, and what the federation learns."""
    experiment = load("fig-longer")
    outcome = gather(experiment, Workshop(HERE / "reproduction"), experiment.seeds)
    looks = style.looks(ROWS.values())
    figure = style.sheet(style.WIDTH, 2.9)
    for axes, (title, keys) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        style.panel_title(axes, title, style.WIDTH / 2)
        for row, name in ROWS.items():
            curves = [smooth(curve, keys) for curve in outcome.curves(row, "iid")]
            style.seeds(axes, curves, ("value",), name, looks[name])
        style.plain(axes)
        style.whole_rounds(axes)
        axes.set_xlabel("round", fontsize=9.5)
    style.legend_above(figure, [style.handle(*item) for item in looks.items()])
    write_atomically(HERE / "headline.png", style.png(figure))


def smooth(curve: Curve, keys: tuple[str, ...]) -> list[dict[str, float]]:
    """The mean over the rounds since SPAN rounds ago, where something was measured."""
    points = {}
    for entry in curve:
        value: Any = entry
        for key in keys:
            value = value.get(key, {}) if isinstance(value, dict) else None
        if isinstance(value, float):
            points[entry["round"]] = value
    means = []
    for number in points:
        near = [v for r, v in points.items() if number - SPAN < r <= number]
        means.append({"round": number, "value": fmean(near)})
    return means


if __name__ == "__main__":
    main()
