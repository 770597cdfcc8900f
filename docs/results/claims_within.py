"""Claims within a run: how its curves go.

Each function takes all outcomes and gives lines, as claims_page.py has them for comparisons of two
rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from flr.report.pairing import Estimate, estimate
from flr.reproduce.cells import Cell
from flr.reproduce.claims import Claim, verdict
from flr.reproduce.runner import Outcome

Outcomes = Mapping[str, Outcome]
GRADIENT = Path(__file__).parent / "gradient-sign.json"
MEMORIZED = "noisy_memorized"
MEMORIZING = "table-memorization"
ABOUT_ALL = 0.95  # of the wrong labels: "100 %"
EARLY = {MEMORIZING: (20, 35), "fig-longer": (20, 50)}  # rounds, of 50 and of 150


class Line(NamedTuple):
    """What one place says to one part of a claim."""

    where: str
    part: str  # what is compared; a claim may have several parts
    numbers: str
    verdict: str
    seeds: int


def server_is_slower(found: Outcomes) -> list[Line]:
    """FedAvg's clients minus its server, mean over the measured rounds."""

    def lead(cell: Cell) -> float:
        points = memorized(cell, "client"), memorized(cell, "server")
        rounds = sorted(points[0].keys() & points[1].keys())
        return sum(points[0][r] - points[1][r] for r in rounds) / len(rounds)

    words = "FedAvg, memorized: clients minus server, mean over rounds"
    return over_settings(found[MEMORIZING], "fedavg", lead, words)


def clients_memorize_all(found: Outcomes) -> list[Line]:
    """FedAvg's clients with wrong labels, after the last round, against 95 %."""

    def beyond(cell: Cell) -> float:
        return last(cell, "client_noisy") - ABOUT_ALL

    words = "FedAvg, memorized by noisy clients at the end, minus 95 %"
    return over_settings(found[MEMORIZING], "fedavg", beyond, words, ["iid"])


def stays_below_ten(found: Outcomes) -> list[Line]:
    """FLR's highest share over the measured rounds, on both sides, against 10 %."""
    lines = []
    for side, who in (("server", "the server"), ("client_noisy", "noisy clients")):

        def below(cell: Cell, side: str = side) -> float:
            return 0.10 - max(memorized(cell, side).values())

        words = f"FLR, 10 % minus the highest share memorized by {who}"
        lines += over_settings(found[MEMORIZING], "flr", below, words, ["iid"])
    return lines


def bends_after_warmup(found: Outcomes) -> list[Line]:
    """Growth for each round from 5 to 10 minus that from 10 to 20; the warm-up ends at 8."""
    lines = []
    for row, which in (("flr", "the term from round 0 on"), ("flr-ce", "CE warm-up")):

        def bend(cell: Cell) -> float:
            points = memorized(cell, "client_noisy")
            early, middle, late = 5, 10, 20  # measured every 5 rounds
            before = (points[middle] - points[early]) / (middle - early)
            return before - (points[late] - points[middle]) / (late - middle)

        words = f"FLR ({which}), growth of the noisy clients' share for each round: 5-10 less 10-20"
        lines += over_settings(found[MEMORIZING], row, bend, words, ["iid"])
    return lines


def learns_then_memorizes(found: Outcomes) -> list[Line]:
    """FedAvg's wrong labels over rounds: seen through, memorized, and taken for a third class."""

    def rise(cell: Cell) -> float:
        points = list(memorized(cell, "server").values())
        return points[-1] - points[0]

    def fall(cell: Cell) -> float:
        points = list(share(cell, "server", "noisy_wrong").values())
        return points[0] - points[-1]

    lines = []
    for name, (first, last_early) in EARLY.items():

        def decline(cell: Cell, first: int = first, last_early: int = last_early) -> float:
            points = share(cell, "server", "noisy_correct")
            end = max(points)
            early = [value for number, value in points.items() if first <= number <= last_early]
            return fmean(early) - fmean(v for number, v in points.items() if number > end - 10)

        for value, words in (
            (decline, "server, seen through: early rounds minus the last ten"),
            (rise, "server, memorized: last minus first"),
            (fall, "server, a third class: first minus last"),
        ):
            lines += over_settings(found[name], "fedavg", value, f"FedAvg, {words}", ["iid"])
    return lines


def is_smoother(found: Outcomes) -> list[Line]:
    """Mean step of the server's share of seen-through labels, FedAvg's minus FLR's."""

    def step(cell: Cell) -> float:
        points = list(share(cell, "server", "noisy_correct").values())
        return sum(abs(b - a) for a, b in pairwise(points)) / (len(points) - 1)

    outcome = found[MEMORIZING]
    ours, theirs = outcome.at("flr", "iid"), outcome.at("fedavg", "iid")
    difference = estimate(step(theirs[s]) - step(ours[s]) for s in ours.keys() & theirs.keys())
    words = "mean step of the share of wrong labels that the server sees through: FedAvg minus FLR"
    title = outcome.experiment.settings["iid"].title
    return [line(f"{MEMORIZING}, {title}", words, difference)]


def falls_late(found: Outcomes) -> list[Line]:
    """How far accuracy is below its peak at the end: ELR's and Mixup's minus FLR's and SLR's."""
    outcome, lines = found["fig-curves"], []
    for falling, holding in product(("elr", "mixup"), ("flr", "slr")):
        names = [outcome.experiment.rows[key].title for key in (falling, holding)]
        words = "best ten rounds minus the last ten: {} less {}".format(*names)
        for key, setting in outcome.experiment.settings.items():
            theirs, ours = outcome.at(falling, key), outcome.at(holding, key)
            seeds = theirs.keys() & ours.keys()
            difference = estimate(late_fall(theirs[seed]) - late_fall(ours[seed]) for seed in seeds)
            lines.append(line(f"fig-curves, {setting.title}", words, difference))
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


def term_at_true_class(_found: Outcomes) -> list[Line]:
    """The term's gradient at the true class of wrongly labelled samples, from gradient_sign.py."""
    if not GRADIENT.exists():
        return [Line("gradient_sign.py", "", "not run", "not run", 0)]
    lines = []
    measured: dict[str, Any] = json.loads(GRADIENT.read_text())
    for alpha, by_seed in measured["negative_share"].items():
        if float(alpha) < 0.5:
            continue
        words = f"alpha = {alpha}, wrong labels with a negative term at the true class, minus 50 %"
        lines.append(line("round 8, i.i.d. (0.8, 0.0)", words, estimate(s - 0.5 for s in by_seed)))
    return lines


def memorized(cell: Cell, side: str) -> dict[int, float]:
    """The memorized share of wrong labels by round."""
    return share(cell, side, MEMORIZED)


def share(cell: Cell, side: str, key: str) -> dict[int, float]:
    """A share by round, where it was measured."""
    curve = [entry for entry in cell.curve if "memorization" in entry]
    points = {entry["round"]: entry["memorization"][side][key] for entry in curve}
    return {number: value for number, value in points.items() if value is not None}


def last(cell: Cell, side: str) -> float:
    """The share after the last round."""
    return float(cell.summary["memorization"][side][MEMORIZED])


def over_settings(
    outcome: Outcome,
    row: str,
    value: Callable[[Cell], float],
    words: str,
    settings: Iterable[str] = (),
) -> list[Line]:
    """A number of each run that the claim wants above 0, for each setting."""
    lines = []
    for setting in settings or outcome.experiment.settings:
        difference = estimate(value(cell) for cell in outcome.at(row, setting).values())
        where = f"{outcome.experiment.name}, {outcome.experiment.settings[setting].title}"
        lines.append(line(where, words, difference))
    return lines


def line(where: str, words: str, difference: Estimate) -> Line:
    """As for a claim that wants a difference above 0."""
    if difference.mean is None:
        return Line(where, words, "not run", "not run", 0)
    half = "" if difference.half is None else f" ± {100 * difference.half:.1f}"
    numbers = f"{words}: {100 * difference.mean:+.1f}{half} points, n = {difference.n}"
    return Line(where, words, numbers, verdict(Claim("", "", ""), difference), difference.n)
