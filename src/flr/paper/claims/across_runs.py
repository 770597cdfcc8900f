"""Claims across settings or methods, where a comparison of two rows does not say it.

Each function gives a line for every place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from scipy import stats

from flr.paper.claims.judgement import Line, Verdict, line, minus
from flr.paper.claims.within_runs import AllResults
from flr.paper.runner import ExperimentResults
from flr.report.paired_runs import estimate

OPPOSITE: Mapping[Verdict, Verdict] = {
    "holds": "contradicted",
    "leans that way": "leans against",
    "open": "open",
    "leans against": "leans that way",
    "contradicted": "holds",
}


def lead_grows(found: AllResults) -> list[Line]:
    """FLR minus FedAvg for alpha_Dir = 1, minus the same for 10, at each noise level."""
    results, lines = found["fig-dirichlet"], []
    words = "FLR's lead over FedAvg for alpha = 1 minus that for alpha = 10, best accuracy"
    for where, skewed, even in _dirichlet(results):
        leads = (_lead(results, "flr", "fedavg", key) for key in (skewed, even))
        lines.append(line(where, words, minus(*leads).values()))
    return lines


def skew_costs(found: AllResults) -> list[Line]:
    """Accuracy for alpha_Dir = 10 minus that for 1, for each method and noise level."""
    results, lines = found["fig-dirichlet"], []
    for row in results.experiment.rows.values():
        words = f"{row.title}, alpha = 10 minus alpha = 1, best accuracy"
        for where, skewed, even in _dirichlet(results):
            both = (results.accuracy(row.key, key) for key in (even, skewed))
            lines.append(line(where, words, minus(*both).values()))
    return lines


def _dirichlet(results: ExperimentResults) -> list[tuple[str, str, str]]:
    """Each noise level with its settings of alpha_Dir = 1 and 10."""
    return [
        (f"fig-dirichlet, (τ, ρ) = {setting.x}", key, key.replace("dir1-", "dir10-"))
        for key, setting in results.experiment.settings.items()
        if key.startswith("dir1-")
    ]


def noise_costs(found: AllResults) -> list[Line]:
    """FedAvg's accuracy without noise minus that of each column: what can be won back."""
    results, lines = found["table-cifar100"], []
    for which, name in (("best", "best accuracy"), ("last10", "mean of the last ten rounds")):
        clean = results.accuracy("fedavg", "clean", which)
        for key in _noisy(results):
            words = f"FedAvg, without noise minus with it, {name}"
            lost = minus(clean, results.accuracy("fedavg", key, which))
            lines.append(line(results.where(key), words, lost.values()))
    return lines


def leads_late(found: AllResults) -> list[Line]:
    """FLR minus FedAvg, mean of the last ten rounds, wherever both were trained with noise."""
    words, lines = "FLR minus FedAvg, mean of the last ten rounds", []
    for name in ("fig-cifar10n", "table-cifar100", "fig-server-aware", "fig-dirichlet"):
        for key in _noisy(found[name]):
            lead = _lead(found[name], "flr", "fedavg", key, "last10")
            lines.append(line(found[name].where(key), words, lead.values()))
    return lines


def plus_is_best(found: AllResults) -> list[Line]:
    """FLR+ against every other method of the federation; without noise, that it is not best."""
    lines = []
    for name in ("fig-cifar10n", "table-cifar100", "table-clothing1m"):
        for key in found[name].experiment.settings:
            where, leads = found[name].where(key), leads_over_rivals("flr-plus", found[name], key)
            if not leads:
                lines.append(Line(where, "FLR+", "not run", "not run", 0))
                continue
            said = best_of_all(list(leads.values()))
            rival = min(leads, key=lambda title: fmean(leads[title]))
            part = "without noise FLR+ is not best" if key == "clean" else "FLR+ is best"
            words = f"FLR+ minus {rival}, the best of {len(leads)} others, best accuracy"
            said = OPPOSITE[said] if key == "clean" else said
            lines.append(line(where, words, leads[rival])._replace(part=part, verdict=said))
    return lines


def leads_over_rivals(row: str, results: ExperimentResults, setting: str) -> dict[str, list[float]]:
    """What a row is ahead of each other method of the paper by, with the seeds that both have."""
    leads: dict[str, list[float]] = {}
    for other in results.experiment.rows.values():
        if other.key != row and other.panel != "centralised" and not other.ours:
            lead = _lead(results, row, other.key, setting)
            leads |= {other.title: list(lead.values())} if lead else {}
    return leads


def best_of_all(leads: Sequence[Sequence[float]]) -> Verdict:
    """Whether leads over all others are sure, or, for so many chances of one, a lag behind any."""
    found = [estimate(lead) for lead in leads]
    lowest = min(each.mean for each in found if each.mean is not None)
    sure = [
        (each.mean, each.half, each.n)
        for each in found
        if each.mean is not None and each.half is not None
    ]
    if len(sure) == len(found) and all(mean > half for mean, half, _ in sure):
        return "holds"
    for mean, half, n in sure:
        wider = stats.t.ppf(1 - 0.025 / len(found), n - 1) / stats.t.ppf(0.975, n - 1)
        if mean + wider * half < 0:
            return "contradicted"
    return "leans that way" if lowest > 0 else "open" if lowest == 0 else "leans against"


def advantage_is_lost(found: AllResults) -> list[Line]:
    """DivideMix minus CE in one place, less the same in the federation, where there is noise."""
    results, lines = found["table-cifar100"], []
    words = "DivideMix minus CE in one place, less the same in the federation, best accuracy"
    for key in _noisy(results):  # the paper has no column without noise
        alone = _lead(results, "central-dividemix", "central-ce", key)
        lost = minus(alone, _lead(results, "dividemix", "fedavg", key))
        lines.append(line(results.where(key), words, lost.values()))
    return lines


def _noisy(results: ExperimentResults) -> list[str]:
    return [key for key in results.experiment.settings if key != "clean"]


def _lead(
    results: ExperimentResults, row: str, than: str, setting: str, which: str = "best"
) -> dict[int, float]:
    """One row's accuracy minus another's, by seed."""
    both = (results.accuracy(key, setting, which) for key in (row, than))
    return minus(*both)
