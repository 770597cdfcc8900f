"""The tables: our numbers with the paper's beside them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from flr import registry
from flr.report.memorization import KEYS
from flr.reproduce.experiment import Experiment, Part
from flr.reproduce.grids import Grid
from flr.reproduce.runner import Outcome

NOTHING = "–"
_SIDES = ("server", "client")
_SCORES = {
    "best": "Best accuracy over rounds",
    "last": "Accuracy after the last round",
    "last10": "Mean accuracy of the last ten rounds",
}
_APPROACHES = ("selection", "aggregation", "correction", "loss")


def accuracy(outcome: Outcome) -> Grid:
    """Rows by settings: our accuracy and the paper's, side by side."""
    experiment = outcome.experiment
    groups = any(row.panel for row in experiment.rows.values())
    heads = (["setting"] if groups else []) + ["method"]
    published = bool(experiment.document.get("paper"))  # in a figure the numbers are not printed
    for setting in experiment.settings.values():
        heads += [setting.title, "paper"] if published else [setting.title]
    rows = []
    for row in experiment.rows.values():
        cells = ([row.panel] if groups else []) + [name_of(row)]
        for key in experiment.settings:
            cells.append(spread(outcome.scores(row.key, key)) + _mark(outcome, row.key, key))
            cells += [paper(experiment, row.key, key)] if published else []
        rows.append(tuple(cells))
    caption = _caption(outcome, _SCORES[experiment.score])
    return Grid(caption, tuple(heads), tuple(rows), words=2 if groups else 1)


def memorization(outcome: Outcome) -> Grid:
    """What became of right and wrong labels on both sides, ours above the paper's."""
    experiment = outcome.experiment
    sides = [f"{side}: {key.replace('_', ' ')}" for side in _SIDES for key in KEYS]
    heads = ("setting", "pseudo label", "", *sides, "test accuracy")
    rows = []
    for setting in experiment.settings.values():
        for row in experiment.rows.values():
            ours = [
                spread(outcome.values(row.key, setting.key, "memorization", side, key))
                for side in _SIDES
                for key in KEYS
            ]
            ours.append(spread(outcome.scores(row.key, setting.key)))
            mark = _mark(outcome, row.key, setting.key)
            rows.append((setting.title, name_of(row) + mark, "ours", *ours))
            known = experiment.paper(row.key, setting.key)
            if known is not None:
                shown = (f"{value:.2f}" for value in known)
                rows.append((setting.title, row.title, "paper", *shown))
    caption = _caption(outcome, f"Shares of labels, and {_SCORES[experiment.score].lower()}")
    return Grid(caption, heads, tuple(rows), words=3)


def everything(outcome: Outcome) -> Grid:
    """Each run's place in one line: three accuracies and what was memorized, means over seeds."""
    experiment = outcome.experiment
    heads = ("setting", "method", "n", "best", "last", "last 10", "memorized: server", "client")
    rows = []
    for setting in experiment.settings.values():
        for row in experiment.rows.values():
            found = outcome.at(row.key, setting.key)
            if not found:
                continue
            paths = [("accuracy", key) for key in ("best", "last", "last10")]
            shown = [spread(outcome.values(row.key, setting.key, *path)) for path in paths]
            shown += [
                spread(outcome.values(row.key, setting.key, "memorization", s, "noisy_memorized"))
                for s in _SIDES
            ]
            minutes = fmean(outcome.values(row.key, setting.key, "seconds")) / 60
            title = name_of(row) + _mark(outcome, row.key, setting.key)
            rows.append((setting.title, title, str(len(found)), *shown, f"{minutes:.1f}"))
    caption = _caption(outcome, "Accuracy, and wrong labels repeated after the last round")
    return Grid(caption, (*heads, "minutes"), tuple(rows), words=2)


def runs(outcome: Outcome) -> Grid:
    """Every single run, for other programs."""
    heads = ["setting", "row", "seed", "cell", "stale", "best", "last", "last10", "seconds"]
    heads += [f"{side}_{key}" for side in _SIDES for key in KEYS]
    rows = []
    for place, cell in outcome.cells.items():
        accuracy, memorized = cell.summary["accuracy"], cell.summary["memorization"]
        values = [accuracy[key] for key in ("best", "last", "last10")] + [cell.summary["seconds"]]
        values += [memorized[side][key] for side in _SIDES for key in KEYS]
        shown = ("" if value is None else str(value) for value in values)
        names = (
            place.setting,
            place.row,
            str(place.seed),
            cell.hash,
            str(place in outcome.stale).lower(),
        )
        rows.append((*names, *shown))
    return Grid("", tuple(heads), tuple(rows), words=5)


def related(experiment: Experiment) -> Grid:
    """P1 to P5 from what each method declares; P6 and P7 as its own experiments allow."""
    entries = registry.entries("method")
    rows = []
    for row in experiment.rows.values():
        factory: Any = entries[str(row.config["method"])].factory
        declared = [("✓" if kind in factory.approach else "") for kind in _APPROACHES]
        declared.append("✗" if factory.supervised else "○")
        signs = row.config["signs"]
        rows.append((name_of(row), *declared, *signs, paper(experiment, row.key, "table")))
    heads = ("method", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "the paper's row")
    return Grid(experiment.caveat, heads, tuple(rows))


def spread(values: Sequence[float]) -> str:
    """Percent: the mean, with the standard deviation from two values on."""
    if not values:
        return NOTHING
    mean = f"{100 * fmean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * stdev(values):.2f}"


def paper(experiment: Experiment, row: str, setting: str) -> str:
    """The paper's number as it prints it."""
    known = experiment.paper(row, setting)
    if known is None:
        return NOTHING
    if isinstance(known, str):
        return known
    mean, *deviation = known if isinstance(known, list) else [known]
    return f"{mean:.2f}" + (f" ± {deviation[0]:.2f}" if deviation else "")


def name_of(row: Part) -> str:
    """A row's title; one that the paper does not have says so."""
    return f"{row.title} (ours only)" if row.ours else row.title


def _mark(outcome: Outcome, row: str, setting: str) -> str:
    """A star where a method's file has changed since the run; how many seeds, if not all."""
    star = "*" if any((p.row, p.setting) == (row, setting) for p in outcome.stale) else ""
    n = len(outcome.at(row, setting))
    return star if n in (0, len(outcome.seeds)) else f"{star} [{n}]"


def _caption(outcome: Outcome, what: str) -> str:
    """What is shown, of how many seeds, and what has to be known of it."""
    experiment, n = outcome.experiment, len(outcome.seeds)
    seeds = f"seed {outcome.seeds[0]}" if n == 1 else f"mean ± standard deviation of {n} seeds"
    text = f"{experiment.title.rstrip('.')}. {what}, in %, {seeds}."
    if experiment.quick:
        text += " A quick run of a few rounds: its numbers mean nothing."
    if outcome.changes:
        text += f" Changed: {outcome.changes}."
    if experiment.caveat:
        text += f" {experiment.caveat}"
    if any(len(outcome.at(p.row, p.setting)) < n for p in outcome.cells):
        text += " [1], [2]: of so many seeds."
    if outcome.stale:
        text += " * The method's file has changed since the run."
    return text
