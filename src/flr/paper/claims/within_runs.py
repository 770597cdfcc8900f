"""Claims within a run: how its curves go. Each function gives the places of one scale.

Rounds are shares of all rounds: 20 of a laptop's 50 are 24 of 60 on features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from flr.paper.claims.comparisons import AllResults, present, single
from flr.paper.claims.judgement import Place, minus
from flr.study.experiment_results import ExperimentResults
from flr.study.results import Cell

GRADIENT = "gradient-sign-{}.json"  # of a scale, written by gradient_sign.py
STUDIED = ("laptop", "features")  # by gradient_sign.py
MEMORIZED = "noisy_memorized"
MEMORIZING = "table-memorization"
ABOUT_ALL = 0.95  # of the wrong labels: "100 %"
# shares of all rounds
EARLY = {MEMORIZING: (0.4, 0.7), "fig-longer": (0.13, 0.34)}  # rounds 20 to 35 of 50, to 50 of 150
BEND = (0.1, 0.2, 0.4)  # before, about and after the warm-up's end, a sixth of the rounds


def server_is_slower(found: AllResults) -> Iterator[Place]:
    """FedAvg's clients minus its server, mean over the measured rounds."""

    def lead(cell: Cell) -> float:
        return fmean(minus(share(cell, "client"), share(cell, "server")).values())

    part = "FedAvg, memorized: clients minus server, mean over rounds"
    for results in present(found, MEMORIZING):
        yield from over_settings(results, "fedavg", lead, part, results.experiment.settings)


def clients_memorize_all(found: AllResults) -> Iterator[Place]:
    """FedAvg's clients with wrong labels against 95 %; the paper looks at the last round."""
    part = "FedAvg, memorized by noisy clients, minus 95 %"
    for results in present(found, MEMORIZING):
        late, last = (
            results.by_seed("fedavg", "iid", "memorization", *path, "client_noisy", MEMORIZED)
            for path in (("last10",), ())
        )
        over, papers = ({s: v - ABOUT_ALL for s, v in each.items()} for each in (late, last))
        where, planned = results.where("iid"), results.planned(("fedavg", "iid"))
        yield Place(where, part, over, planned, papers)


def stays_below_ten(found: AllResults) -> Iterator[Place]:
    """FLR's highest share over the measured rounds, on both sides, against 10 %."""
    for results in present(found, MEMORIZING):
        for side, who in (("server", "the server"), ("client_noisy", "noisy clients")):

            def below(cell: Cell, side: str = side) -> float:
                return 0.10 - max(share(cell, side).values())

            part = f"FLR, 10 % minus the highest share memorized by {who}"
            yield from over_settings(results, "flr", below, part)


def bends_after_warmup(found: AllResults) -> Iterator[Place]:
    """Growth for each round up to about the warm-up's end, minus that as long again after it."""

    def bend(cell: Cell) -> float:
        (a, first), (b, middle), (c, last) = nearest(share(cell, "client_noisy"), BEND)
        return (middle - first) / (b - a) - (last - middle) / (c - b)

    for results in present(found, MEMORIZING):
        for row, which in (("flr", "the term from round 0 on"), ("flr-ce", "CE warm-up")):
            part = (
                f"FLR ({which}), growth of the noisy clients' share in a round: before less after"
            )
            yield from over_settings(results, row, bend, part)


def nearest(points: Mapping[int, float], shares: Iterable[float]) -> list[tuple[int, float]]:
    """The measured rounds that are nearest to these shares of all, with what was measured."""
    found = []
    for part in shares:
        distances = {abs(number - part * max(points)): number for number in points}
        found.append(distances[min(distances)])
    return [(number, points[number]) for number in found]


def learns_then_memorizes(found: AllResults) -> Iterator[Place]:
    """FedAvg's wrong labels over rounds: seen through, memorized, and taken for a third class."""

    def rise(cell: Cell, key: str = MEMORIZED) -> float:
        first, *_, last = share(cell, "server", key).values()
        return last - first

    def fall(cell: Cell) -> float:
        return -rise(cell, "noisy_wrong")

    for results in present(found, *EARLY):
        first, last = EARLY[results.experiment.name]

        def decline(cell: Cell, first: float = first, last: float = last) -> float:
            points = share(cell, "server", "noisy_correct")
            end = max(points)
            early = [value for n, value in points.items() if first * end <= n <= last * end]
            return fmean(early) - fmean(v for number, v in points.items() if number > end - 10)

        for value, words in (
            (decline, "server, seen through: early rounds minus the last ten"),
            (rise, "server, memorized: last minus first"),
            (fall, "server, a third class: first minus last"),
        ):
            yield from over_settings(results, "fedavg", value, f"FedAvg, {words}")


def is_smoother(found: AllResults) -> Iterator[Place]:
    """Mean step of the server's share of seen-through labels, FedAvg's minus FLR's."""

    def step(cell: Cell) -> float:
        points = list(share(cell, "server", "noisy_correct").values())
        return fmean(abs(b - a) for a, b in pairwise(points))

    part = "mean step of the share of wrong labels that the server sees through: FedAvg minus FLR"
    for results in present(found, MEMORIZING):
        steps = (measured(results, row, "iid", step) for row in ("fedavg", "flr"))
        planned = results.planned(("fedavg", "iid"), ("flr", "iid"))
        yield from single(results.where("iid"), part, planned, minus(*steps))


def falls_late(found: AllResults) -> Iterator[Place]:
    """How far accuracy is below its peak at the end: ELR's and Mixup's minus FLR's and SLR's."""
    for results in present(found, "fig-curves"):
        for pair in product(("elr", "mixup"), ("flr", "slr")):
            names = [results.experiment.rows[key].title for key in pair]
            part = "best ten rounds minus the last ten: {} less {}".format(*names)
            for key in results.experiment.settings:
                falls = (measured(results, row, key, late_fall) for row in pair)
                planned = results.planned(*((row, key) for row in pair))
                yield from single(results.where(key), part, planned, minus(*falls))


def late_fall(cell: Cell) -> float:
    """The highest mean accuracy of ten rounds minus that of the last ten.

    Every round of the last ten is measured, and fewer before: as few are taken here, for the mean
    of fewer rounds has higher peaks.
    """
    points = {entry["round"]: entry["accuracy"] for entry in cell.curve if "accuracy" in entry}
    first, second, *_ = points
    spaced = {n: value for n, value in points.items() if (n - first) % (second - first) == 0}
    means = [
        fmean(value for number, value in spaced.items() if end - 10 < number <= end)
        for end in spaced
        if end >= 10
    ]
    return max(means) - means[-1]


def term_at_true_class(found: AllResults) -> Iterator[Place]:
    """The term's gradient at the true class of wrongly labelled samples, from gradient_sign.py."""
    for results in present(found, MEMORIZING):
        scale, folder = results.experiment.scale, results.runner.folder
        if scale not in STUDIED:
            continue
        path = folder / GRADIENT.format(scale)
        where, part = results.where("iid"), "wrong labels with a negative term, minus 50 %"
        if not path.exists():
            yield from single(where, part, frozenset(results.seeds), {})
            continue
        study = json.loads(path.read_text())
        for alpha in (alpha for alpha in study["negative_share"] if float(alpha) >= 0.5):
            shares = zip(study["seeds"], study["negative_share"][alpha], strict=True)
            over = {seed: share - 0.5 for seed, share in shares}
            yield from single(where, f"alpha = {alpha}, {part}", frozenset(over), over)


def share(cell: Cell, side: str, key: str = MEMORIZED) -> dict[int, float]:
    """A share of wrong labels by round, where it was measured."""
    points: dict[int, Any] = {
        entry["round"]: entry["memorization"][side][key]
        for entry in cell.curve
        if "memorization" in entry
    }
    return {number: value for number, value in points.items() if value is not None}


def measured(
    results: ExperimentResults, row: str, setting: str, value: Callable[[Cell], float]
) -> dict[int, float]:
    """A number of each run of one place, by seed."""
    return {seed: value(cell) for seed, cell in results.at(row, setting).items()}


def over_settings(
    results: ExperimentResults,
    row: str,
    value: Callable[[Cell], float],
    part: str,
    settings: Iterable[str] = ("iid",),
) -> Iterator[Place]:
    """A number of each run that the claim wants above 0, for each setting."""
    for key in settings:
        found, planned = measured(results, row, key, value), results.planned((row, key))
        yield from single(results.where(key), part, planned, found)
