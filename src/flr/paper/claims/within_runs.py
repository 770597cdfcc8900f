"""Claims within a run: how its curves go. Each function gives a line for every place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from flr.paper.claims.judgement import Line, line, minus
from flr.paper.results import Cell
from flr.paper.runner import ExperimentResults

AllResults = Mapping[str, ExperimentResults]

GRADIENT = "gradient-sign.json"  # written by gradient_sign.py beside it
MEMORIZED = "noisy_memorized"
MEMORIZING = "table-memorization"
ABOUT_ALL = 0.95  # of the wrong labels: "100 %"
EARLY = {MEMORIZING: (20, 35), "fig-longer": (20, 50)}  # rounds, of 50 and of 150


def server_is_slower(found: AllResults) -> list[Line]:
    """FedAvg's clients minus its server, mean over the measured rounds."""

    def lead(cell: Cell) -> float:
        return fmean(minus(share(cell, "client"), share(cell, "server")).values())

    words = "FedAvg, memorized: clients minus server, mean over rounds"
    return over_settings(
        found[MEMORIZING], "fedavg", lead, words, found[MEMORIZING].experiment.settings
    )


def clients_memorize_all(found: AllResults) -> list[Line]:
    """FedAvg's clients with wrong labels, after the last round, against 95 %."""
    words = "FedAvg, memorized by noisy clients at the end, minus 95 %"
    path = "memorization", "client_noisy", MEMORIZED
    shares = found[MEMORIZING].values("fedavg", "iid", *path)
    return [line(found[MEMORIZING].where("iid"), words, (s - ABOUT_ALL for s in shares))]


def stays_below_ten(found: AllResults) -> list[Line]:
    """FLR's highest share over the measured rounds, on both sides, against 10 %."""
    lines = []
    for side, who in (("server", "the server"), ("client_noisy", "noisy clients")):

        def below(cell: Cell, side: str = side) -> float:
            return 0.10 - max(share(cell, side).values())

        words = f"FLR, 10 % minus the highest share memorized by {who}"
        lines += over_settings(found[MEMORIZING], "flr", below, words)
    return lines


def bends_after_warmup(found: AllResults) -> list[Line]:
    """Growth for each round from 5 to 10 minus that from 10 to 20; the warm-up ends at 8."""

    def bend(cell: Cell) -> float:
        points = share(cell, "client_noisy")  # measured every 5 rounds
        return (points[10] - points[5]) / 5 - (points[20] - points[10]) / 10

    lines = []
    for row, which in (("flr", "the term from round 0 on"), ("flr-ce", "CE warm-up")):
        words = f"FLR ({which}), growth of the noisy clients' share for each round: 5-10 less 10-20"
        lines += over_settings(found[MEMORIZING], row, bend, words)
    return lines


def learns_then_memorizes(found: AllResults) -> list[Line]:
    """FedAvg's wrong labels over rounds: seen through, memorized, and taken for a third class."""

    def rise(cell: Cell, key: str = MEMORIZED) -> float:
        first, *_, last = share(cell, "server", key).values()
        return last - first

    def fall(cell: Cell) -> float:
        return -rise(cell, "noisy_wrong")

    lines = []
    for name, (first, last) in EARLY.items():

        def decline(cell: Cell, first: int = first, last: int = last) -> float:
            points = share(cell, "server", "noisy_correct")
            end = max(points)
            early = [value for number, value in points.items() if first <= number <= last]
            return fmean(early) - fmean(v for number, v in points.items() if number > end - 10)

        for value, words in (
            (decline, "server, seen through: early rounds minus the last ten"),
            (rise, "server, memorized: last minus first"),
            (fall, "server, a third class: first minus last"),
        ):
            lines += over_settings(found[name], "fedavg", value, f"FedAvg, {words}")
    return lines


def is_smoother(found: AllResults) -> list[Line]:
    """Mean step of the server's share of seen-through labels, FedAvg's minus FLR's."""

    def step(cell: Cell) -> float:
        points = list(share(cell, "server", "noisy_correct").values())
        return fmean(abs(b - a) for a, b in pairwise(points))

    results = found[MEMORIZING]
    words = "mean step of the share of wrong labels that the server sees through: FedAvg minus FLR"
    steps = (measured(results, row, "iid", step) for row in ("fedavg", "flr"))
    return [line(results.where("iid"), words, minus(*steps).values())]


def falls_late(found: AllResults) -> list[Line]:
    """How far accuracy is below its peak at the end: ELR's and Mixup's minus FLR's and SLR's."""
    results, lines = found["fig-curves"], []
    for pair in product(("elr", "mixup"), ("flr", "slr")):
        names = [results.experiment.rows[key].title for key in pair]
        words = "best ten rounds minus the last ten: {} less {}".format(*names)
        for key in results.experiment.settings:
            falls = (measured(results, row, key, late_fall) for row in pair)
            lines.append(line(results.where(key), words, minus(*falls).values()))
    return lines


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


def term_at_true_class(found: AllResults) -> list[Line]:
    """The term's gradient at the true class of wrongly labelled samples, from gradient_sign.py."""
    path = found[MEMORIZING].runner.folder / GRADIENT
    if not path.exists():
        return [Line("gradient_sign.py", "", "not run", "not run", 0)]
    lines, shares = [], json.loads(path.read_text())["negative_share"]
    for alpha in (alpha for alpha in shares if float(alpha) >= 0.5):
        words = f"alpha = {alpha}, wrong labels with a negative term at the true class, minus 50 %"
        lines.append(line("round 8, i.i.d. (0.8, 0.0)", words, (s - 0.5 for s in shares[alpha])))
    return lines


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
    words: str,
    settings: Iterable[str] = ("iid",),
) -> list[Line]:
    """A number of each run that the claim wants above 0, for each setting."""
    return [
        line(results.where(key), words, measured(results, row, key, value).values())
        for key in settings
    ]
