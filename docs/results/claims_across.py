"""Claims that look across settings or methods, where a comparison of two rows does not say it.

Functions are called as those of claims_within.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from claims_within import Line, Outcomes, line
from scipy import stats

from flr.report.pairing import estimate
from flr.reproduce.cells import Cell
from flr.reproduce.runner import Outcome

OPPOSITE = {
    "holds": "contradicted",
    "leans that way": "leans against",
    "open": "open",
    "leans against": "leans that way",
    "contradicted": "holds",
}


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
    """FLR+ against every other method of the federation; without noise, that it is not best."""
    lines = []
    for name in ("fig-cifar10n", "table-cifar100", "table-clothing1m"):
        outcome = found[name]
        for key, setting in outcome.experiment.settings.items():
            where, leads = f"{name}, {setting.title}", leads_over_rivals("flr-plus", outcome, key)
            if not leads:
                lines.append(Line(where, "FLR+", "not run", "not run", 0))
                continue
            said = best_of_all(list(leads.values()))
            rival = min(leads, key=lambda title: fmean(leads[title]))
            part = "without noise FLR+ is not best" if key == "clean" else "FLR+ is best"
            words = f"FLR+ minus {rival}, the best of {len(leads)} others, best accuracy"
            closest = line(where, words, estimate(leads[rival]))
            said = OPPOSITE[said] if key == "clean" else said
            lines.append(closest._replace(part=part, verdict=said))
    return lines


def best_of_all(leads: Sequence[Sequence[float]]) -> str:
    """Whether leads over all others are sure, or, for so many chances of one, a lag behind any."""
    found = [estimate(lead) for lead in leads]
    lowest = min(each.mean for each in found if each.mean is not None)
    sure = [each for each in found if each.mean is not None and each.half is not None]
    if len(sure) == len(found) and all(each.mean > each.half for each in sure):
        return "holds"
    for each in sure:
        wider = stats.t.ppf(1 - 0.025 / len(found), each.n - 1) / stats.t.ppf(0.975, each.n - 1)
        if each.mean + wider * each.half < 0:
            return "contradicted"
    return "leans that way" if lowest > 0 else "open" if lowest == 0 else "leans against"


def advantage_is_lost(found: Outcomes) -> list[Line]:
    """DivideMix minus CE in one place, less the same in the federation, where there is noise."""
    outcome, lines = found["table-cifar100"], []
    pairs = (("central-dividemix", "central-ce"), ("dividemix", "fedavg"))
    for key, setting in outcome.experiment.settings.items():
        if key == "clean":  # the paper has no such column
            continue
        alone, together = (
            {s: best(own[s]) - best(base[s]) for s in own.keys() & base.keys()}
            for own, base in ((outcome.at(a, key), outcome.at(b, key)) for a, b in pairs)
        )
        difference = estimate(alone[seed] - together[seed] for seed in alone.keys() & together)
        words = "DivideMix minus CE in one place, less the same in the federation, best accuracy"
        lines.append(line(f"table-cifar100, {setting.title}", words, difference))
    return lines


def best(cell: Cell) -> float:
    return float(cell.summary["accuracy"]["best"])


def last_ten(cell: Cell) -> float:
    return float(cell.summary["accuracy"]["last10"])


def gap(outcome: Outcome, setting: str, value: Callable[[Cell], float] = best) -> dict[int, float]:
    """FLR minus FedAvg by seed."""
    ours, theirs = outcome.at("flr", setting), outcome.at("fedavg", setting)
    return {seed: value(ours[seed]) - value(theirs[seed]) for seed in ours.keys() & theirs.keys()}


def leads_over_rivals(row: str, outcome: Outcome, setting: str) -> dict[str, list[float]]:
    """What a row is ahead of each other method of the paper by, with the seeds that both have."""
    ours, leads = outcome.at(row, setting), {}
    for other in outcome.experiment.rows.values():
        theirs = outcome.at(other.key, setting)
        seeds = sorted(ours.keys() & theirs.keys())
        if seeds and other.key != row and other.panel != "centralised" and not other.ours:
            leads[other.title] = [best(ours[seed]) - best(theirs[seed]) for seed in seeds]
    return leads
