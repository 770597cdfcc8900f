"""Claims across settings or methods, where a comparison of two rows does not say it.

Each function gives the places of one scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flr.paper.claims.comparisons import AllResults, contrast, noisy, present
from flr.paper.claims.judgement import Place
from flr.study.experiment_results import ExperimentResults


def lead_grows(found: AllResults) -> Iterator[Place]:
    """FLR minus FedAvg for alpha_Dir = 1, minus the same for 10, at each noise level."""
    part = "FLR's lead over FedAvg for alpha = 1 minus that for alpha = 10"
    for results in present(found, "fig-dirichlet"):
        for where, skewed, even in _dirichlet(results):
            more, less = [("flr", skewed), ("fedavg", even)], [("fedavg", skewed), ("flr", even)]
            yield from contrast(results, where, part, more, less)


def skew_costs(found: AllResults) -> Iterator[Place]:
    """Accuracy for alpha_Dir = 10 minus that for 1, for each of the paper's methods."""
    for results in present(found, "fig-dirichlet"):
        for row in (row for row in results.experiment.rows.values() if not row.ours):
            for where, skewed, even in _dirichlet(results):
                part = f"{row.title}, alpha = 10 minus alpha = 1"
                yield from contrast(results, where, part, [(row.key, even)], [(row.key, skewed)])


def _dirichlet(results: ExperimentResults) -> list[tuple[str, str, str]]:
    """Each noise level with its settings of alpha_Dir = 1 and 10."""
    return [
        (f"fig-dirichlet, (τ, ρ) = {setting.x}", key, key.replace("dir1-", "dir10-"))
        for key, setting in results.experiment.settings.items()
        if key.startswith("dir1-")
    ]


def noise_costs(found: AllResults) -> Iterator[Place]:
    """FedAvg's accuracy without noise minus that of each column: what can be won back."""
    part = "FedAvg, without noise minus with it"
    for results in present(found, "table-cifar100"):
        for key in noisy(results):
            where = results.where(key)
            yield from contrast(results, where, part, [("fedavg", "clean")], [("fedavg", key)])


def leads_late(found: AllResults) -> Iterator[Place]:
    """FLR minus FedAvg, wherever both were trained with noise."""
    names = ("fig-cifar10n", "table-cifar100", "fig-server-aware", "fig-dirichlet")
    for results in present(found, *names):
        for key in noisy(results):
            where, pair = results.where(key), ([("flr", key)], [("fedavg", key)])
            yield from contrast(results, where, "FLR minus FedAvg", *pair)


def plus_is_best(found: AllResults) -> Iterator[Place]:
    """FLR+ against every other method of the federation; without noise, that one is better."""
    for results in present(found, "fig-cifar10n", "table-cifar100", "table-clothing1m"):
        for key in results.experiment.settings:
            for rival, title in _rivals(results):
                where, pair = results.where(key), ([("flr-plus", key)], [(rival, key)])
                if key == "clean":
                    part = "without noise some method is better than FLR+"
                    where, pair = f"{where}: {title}", pair[::-1]
                else:
                    part = f"FLR+ minus {title}"
                for place in contrast(results, where, part, *pair):
                    yield replace(place, some=key == "clean")


def _rivals(results: ExperimentResults) -> list[tuple[str, str]]:
    """The paper's other methods of the federation, with their titles."""
    return [
        (row.key, row.title)
        for row in results.experiment.rows.values()
        if row.key != "flr-plus" and row.panel != "centralised" and not row.ours
    ]


def advantage_is_lost(found: AllResults) -> Iterator[Place]:
    """DivideMix minus CE in one place, less the same in the federation, where there is noise."""
    part = "DivideMix minus CE in one place, less the same in the federation"
    for results in present(found, "table-cifar100"):
        for key in noisy(results):  # the paper has no column without noise
            more = [("central-dividemix", key), ("fedavg", key)]
            less = [("central-ce", key), ("dividemix", key)]
            yield from contrast(results, results.where(key), part, more, less)
