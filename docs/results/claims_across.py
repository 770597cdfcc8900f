"""Claims that look across settings or methods, where a comparison of two rows does not say it.

Functions are called as those of claims_within.py.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from claims_within import Line, Outcomes, line

from flr.report.pairing import estimate
from flr.reproduce.cells import Cell
from flr.reproduce.runner import Outcome


def lead_grows(found: Outcomes) -> list[Line]:
    """FLR minus FedAvg for alpha_Dir = 1, minus the same for 10, at each noise level."""
    outcome, lines = found["fig-dirichlet"], []
    for key, setting in outcome.experiment.settings.items():
        if not key.startswith("dir1-"):
            continue
        leads = [gap(outcome, key), gap(outcome, key.replace("dir1-", "dir10-"))]
        seeds = sorted(leads[0].keys() & leads[1].keys())
        difference = estimate(leads[0][seed] - leads[1][seed] for seed in seeds)
        words = "FLR's lead over FedAvg for alpha = 1 minus that for alpha = 10, best accuracy"
        lines.append(line(f"fig-dirichlet, (τ, ρ) = {setting.x}", words, difference))
    return lines


def skew_costs(found: Outcomes) -> list[Line]:
    """Accuracy for alpha_Dir = 10 minus that for 1, for each method and noise level."""
    outcome, lines = found["fig-dirichlet"], []
    for row in outcome.experiment.rows.values():
        for key, setting in outcome.experiment.settings.items():
            if key.startswith("dir1-"):
                even = outcome.at(row.key, key.replace("dir1-", "dir10-"))
                skewed = outcome.at(row.key, key)
                seeds = even.keys() & skewed.keys()
                difference = estimate(best(even[seed]) - best(skewed[seed]) for seed in seeds)
                words = f"{row.title}, alpha = 10 minus alpha = 1, best accuracy"
                lines.append(line(f"fig-dirichlet, (τ, ρ) = {setting.x}", words, difference))
    return lines


def noise_costs(found: Outcomes) -> list[Line]:
    """FedAvg's accuracy without noise minus that of each column: what can be won back."""
    outcome, lines = found["table-cifar100"], []
    clean = outcome.at("fedavg", "clean")
    for value, which in ((best, "best accuracy"), (last_ten, "mean of the last ten rounds")):
        for key, setting in outcome.experiment.settings.items():
            if key == "clean":
                continue
            noisy = outcome.at("fedavg", key)
            seeds = clean.keys() & noisy.keys()
            difference = estimate(value(clean[seed]) - value(noisy[seed]) for seed in seeds)
            words = f"FedAvg, without noise minus with it, {which}"
            lines.append(line(f"table-cifar100, {setting.title}", words, difference))
    return lines


def leads_late(found: Outcomes) -> list[Line]:
    """FLR minus FedAvg, mean of the last ten rounds, wherever both were trained with noise."""
    lines = []
    for name in ("fig-cifar10n", "table-cifar100", "fig-server-aware", "fig-dirichlet"):
        outcome = found[name]
        for key, setting in outcome.experiment.settings.items():
            if key != "clean":
                difference = estimate(gap(outcome, key, last_ten).values())
                words = "FLR minus FedAvg, mean of the last ten rounds"
                lines.append(line(f"{name}, {setting.title}", words, difference))
    return lines


def plus_is_best(found: Outcomes) -> list[Line]:
    """FLR+ minus the other method of the federation with the best mean; without noise reversed."""
    lines = []
    for name, reverse in (("fig-cifar10n", ""), ("table-cifar100", "clean")):
        outcome = found[name]
        for key, setting in outcome.experiment.settings.items():
            rival, leads = best_rival("flr-plus", outcome, key)
            sign = -1 if key == reverse else 1
            pair = [f"FLR+ minus {rival}", f"without noise: {rival} minus FLR+"][sign < 0]
            words = f"{pair}, the best of the others, best accuracy"
            difference = estimate(sign * lead for lead in leads)
            lines.append(line(f"{name}, {setting.title}", words, difference))
    return lines


def best(cell: Cell) -> float:
    return float(cell.summary["accuracy"]["best"])


def last_ten(cell: Cell) -> float:
    return float(cell.summary["accuracy"]["last10"])


def gap(outcome: Outcome, setting: str, value: Callable[[Cell], float] = best) -> dict[int, float]:
    """FLR minus FedAvg by seed."""
    ours, theirs = outcome.at("flr", setting), outcome.at("fedavg", setting)
    return {seed: value(ours[seed]) - value(theirs[seed]) for seed in ours.keys() & theirs.keys()}


def best_rival(row: str, outcome: Outcome, setting: str) -> tuple[str, list[float]]:
    """The paper's other method with the best mean over the row's seeds, and the row's lead."""
    ours = outcome.at(row, setting)
    rivals: dict[str, list[float]] = {}
    for other in outcome.experiment.rows.values():
        theirs = outcome.at(other.key, setting)
        counts = other.key != row and other.panel != "centralised" and not other.ours
        if ours and counts and theirs.keys() >= ours.keys():
            rivals[other.title] = [best(theirs[seed]) for seed in ours]
    if not rivals:
        return "", []
    name = max(rivals, key=lambda title: fmean(rivals[title]))
    return name, [best(o) - t for o, t in zip(ours.values(), rivals[name], strict=True)]
