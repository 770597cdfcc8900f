"""Draws headline.png, the README's picture, from the cells of fig-longer.

python docs/results/headline.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from flr.arrays import write_atomically
from flr.report.figures import Curve, style
from flr.report.pairing import estimate
from flr.reproduce.experiment import load
from flr.reproduce.runner import Outcome, Workshop, gather

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
BEGIN, END = "<!-- headline -->\n", "<!-- /headline -->\n"
BASELINES = ("a", "b", "c")  # of the audit's page: cleanlab without any part of FLR
ROWS = {"fedavg": "FedAvg", "elr": "ELR", "flr-2": "FLR, lam = 2"}
SPAN = 10  # rounds: a round's value depends on which five sites it asks
PANELS = {
    "Wrong labels that clients repeat (%)": ("memorization", "client_noisy", "noisy_memorized"),
    "Right answers on new images (%)": ("accuracy",),
}


def main() -> None:
    """Both."""
    outcome = longer()
    draw(outcome)
    text = README.read_text(encoding="utf-8")
    start, rest = text.split(BEGIN)
    end = rest.split(END)[1]
    write_atomically(README, f"{start}{BEGIN}{table(outcome)}{END}{end}")


def longer() -> Outcome:
    """The runs of three times the rounds, with the seeds that all rows of the picture have."""
    experiment = load("fig-longer")
    workshop = Workshop(HERE / "reproduction")
    found = gather(experiment, workshop, experiment.seeds)
    common = [s for s in found.seeds if all(s in found.at(row, "iid") for row in ROWS)]
    return gather(experiment, workshop, common)


def table(outcome: Outcome) -> str:
    """What a user gets, beside what there is without."""

    def percent(row: str, *path: str) -> str:
        return f"{100 * fmean(outcome.values(row, 'iid', *path)):.1f} %"

    def lead(rival: str, *path: str) -> str:
        both = (outcome.values(row, "iid", *path) for row in ("flr-2", rival))
        difference = estimate(ours - theirs for ours, theirs in zip(*both, strict=True))
        half = "" if difference.half is None else f" ± {100 * difference.half:.1f}"
        return f"{100 * (difference.mean or 0):+.1f}{half}"

    right = ("accuracy", "last10")
    wrong = ("memorization", "last10", "client_noisy", "noisy_memorized")
    cells = [json.loads(path.read_bytes()) for path in (HERE / "audit-cells").glob("worst-*.json")]
    arms = {arm: best_way([cell["arms"][arm] for cell in cells]) for arm in ("flr", *BASELINES)}
    bench = json.loads((HERE / "bench" / "main.json").read_bytes())
    ratios = {row["engine"]: row["ratio"]["median"] for row in bench["rows"]}
    ours, ray = ratios["flr, 2 workers"], ratios["Flower+Ray, 2 actors"]
    noise = percent("flr-2", "noise", "realised")
    seeds = "one seed" if len(outcome.seeds) == 1 else f"{len(outcome.seeds)} seeds"
    rows = [
        ("", "without", "with `flr`"),
        ("---", "---", "---"),
        (
            f"right answers on new images, CIFAR-10, last ten of 150 rounds, {seeds}",
            f"FedAvg {percent('fedavg', *right)}, ELR {percent('elr', *right)}",
            f"**FLR {percent('flr-2', *right)}** ({lead('elr', *right)} points on ELR)",
        ),
        (
            f"wrong labels that clients repeat then (of all labels {noise} are wrong)",
            f"FedAvg {percent('fedavg', *wrong)}, ELR {percent('elr', *wrong)}",
            f"**FLR {percent('flr-2', *wrong)}** ({lead('elr', *wrong)})",
        ),
        (
            f"wrong human labels found, CIFAR-10N, {len(cells)} seeds (average precision)",
            f"cleanlab {100 * max(arms[arm] for arm in BASELINES):.1f} %",
            f"**`flr audit` {100 * arms['flr']:.1f} %**",
        ),
        (
            "time of a round on two cores (a bare PyTorch loop: 1)",
            f"Flower with Ray {ray:.2f}",
            f"**{ours:.2f}**",
        ),
    ]
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def best_way(cells: Sequence[Mapping[str, Mapping[str, float]]]) -> float:
    """Average precision of the way of using an arm that found most, mean over seeds."""
    return max(fmean(cell[way]["average_precision"] for cell in cells) for way in cells[0])


def draw(outcome: Outcome) -> None:
    """Two panels: what clients memorize, and what the federation learns."""
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
