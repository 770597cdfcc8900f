"""Draws headline.png, the README's picture, from the cells of fig-longer.

python docs/results/headline.py
"""

from __future__ import annotations

from pathlib import Path

from flr.arrays import write_atomically
from flr.report.figures import style
from flr.reproduce.experiment import load
from flr.reproduce.runner import Workshop, gather

HERE = Path(__file__).parent
PANELS = {
    "Wrong labels that clients repeat (%)": ("memorization", "client_noisy", "noisy_memorized"),
    "Right answers on new images (%)": ("accuracy",),
}


def main() -> None:
    """Two panels: what clients memorize, and what the federation learns."""
    experiment = load("fig-longer")
    outcome = gather(experiment, Workshop(HERE / "reproduction"), experiment.seeds)
    looks = style.looks(row.title for row in experiment.rows.values())
    figure = style.sheet(style.WIDTH, 2.9)
    for axes, (title, keys) in zip(figure.subplots(1, 2), PANELS.items(), strict=True):
        style.panel_title(axes, title, style.WIDTH / 2)
        for row in experiment.rows.values():
            style.seeds(axes, outcome.curves(row.key, "iid"), keys, row.title, looks[row.title])
        style.plain(axes)
        style.whole_rounds(axes)
        axes.set_xlabel("round", fontsize=9.5)
        axes.set_ylim(bottom=0)
    style.legend_above(figure, [style.handle(*item) for item in looks.items()])
    write_atomically(HERE / "headline.png", style.png(figure))


if __name__ == "__main__":
    main()
