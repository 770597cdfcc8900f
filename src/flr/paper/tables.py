"""The tables: our numbers with the paper's beside them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from flr.core import registry
from flr.paper.experiment import published
from flr.report.memorization import KEYS
from flr.report.table import Table
from flr.study.experiment import Experiment, Part
from flr.study.experiment_results import ExperimentResults

NOTHING = "–"
_SHARES = [(side, key) for side in ("server", "client") for key in KEYS]
_SCORES = ("best", "last", "last10")
HEADLINE = "last10"  # stands first; the best, chosen on the test set, beside it
_APPROACHES = ("selection", "aggregation", "correction", "loss")


def accuracy(results: ExperimentResults) -> Table:
    """Rows by settings: the mean of the last ten rounds, the best, and the paper's number."""
    experiment = results.experiment
    groups = any(row.panel for row in experiment.rows.values())
    heads = (["setting"] if groups else []) + ["method"]
    published = bool(experiment.document.get("paper"))  # in a figure the numbers are not printed
    for setting in experiment.settings.values():
        heads += [f"{setting.title}: last 10", "best"] + (["paper"] if published else [])
    rows = []
    for row in experiment.rows.values():
        cells = ([row.panel] if groups else []) + [name_of(row)]
        for key in experiment.settings:
            late, best = (results.values(row.key, key, "accuracy", s) for s in (HEADLINE, "best"))
            cells += [spread(late) + _mark(results, row.key, key), spread(best)]
            cells += [paper(experiment, row.key, key)] if published else []
        rows.append(tuple(cells))
    what = "Mean accuracy of the last ten rounds, and the best round's"
    what += ", which the paper reports" if published else ""
    return Table(heads, rows, _caption(results, what), align="ll" if groups else "l")


def memorization(results: ExperimentResults) -> Table:
    """What became of right and wrong labels on both sides, ours above the paper's."""
    experiment = results.experiment
    sides = [f"{side}: {key.replace('_', ' ')}" for side, key in _SHARES]
    heads = ("setting", "pseudo label", "", *sides, "test accuracy")
    rows = []
    for setting in experiment.settings.values():
        for row in experiment.rows.values():
            place = row.key, setting.key
            names = setting.title, name_of(row) + _mark(results, *place)
            rows.append((*names, "ours, last 10", *_shares(results, *place, "last10")))
            rows.append((*names, "ours, last", *_shares(results, *place)))
            if known := published(experiment, *place):
                shown = (f"{value:.2f}" for value in known)
                rows.append((setting.title, row.title, "paper, last", *shown))
    caption = _caption(results, "Shares of labels, and accuracy: last ten rounds, and last round")
    return Table(heads, rows, caption, align="lll")


def _shares(results: ExperimentResults, row: str, setting: str, *last: str) -> list[str]:
    """All shares and the accuracy, of the last ten rounds or of the last."""
    found = [results.values(row, setting, "memorization", *last, *path) for path in _SHARES]
    found.append(results.values(row, setting, "accuracy", *(last or ("last",))))
    return [spread(values) for values in found]


def everything(results: ExperimentResults) -> Table:
    """Each run's place in one line: three accuracies and what was memorized, means over seeds."""
    experiment = results.experiment
    heads = ("setting", "method", "n", "last 10", "best", "last", "memorized: server", "client")
    paths: list[tuple[str, ...]] = [("accuracy", key) for key in (HEADLINE, "best", "last")]
    paths += [("memorization", HEADLINE, *path) for path in _SHARES if path[1] == "noisy_memorized"]
    rows = []
    for setting in experiment.settings.values():
        for row in experiment.rows.values():
            place = row.key, setting.key
            if found := results.at(*place):
                shown = [spread(results.values(*place, *path)) for path in paths]
                minutes = fmean(results.values(*place, "seconds")) / 60
                names = setting.title, name_of(row) + _mark(results, *place), str(len(found))
                rows.append((*names, *shown, f"{minutes:.1f}"))
    caption = _caption(results, "Accuracy, and wrong labels repeated in the last ten rounds")
    return Table((*heads, "minutes"), rows, caption, align="ll")


def runs(results: ExperimentResults) -> Table:
    """Every single run, for other programs."""
    heads = ["setting", "row", "seed", "cell", "stale", *_SCORES, "seconds"]
    heads += [f"{side}_{key}" for side, key in _SHARES]
    rows = []
    for place, cell in results.cells.items():
        stale, found = str(place in results.stale).lower(), cell.summary
        values = [found["accuracy"][key] for key in _SCORES] + [found["seconds"]]
        values += [found["memorization"][side][key] for side, key in _SHARES]
        shown = ("" if value is None else str(value) for value in values)
        rows.append((place.setting, place.row, str(place.seed), cell.hash, stale, *shown))
    return Table(heads, rows)


def related(results: ExperimentResults) -> Table:
    """P1 to P5 from what each method declares; P6 and P7 as its own experiments allow."""
    experiment, entries = results.experiment, registry.entries("method")
    rows = []
    for row in experiment.rows.values():
        factory: Any = entries[str(row.config["method"])].factory
        declared = [("✓" if kind in factory().traits.approach else "") for kind in _APPROACHES]
        declared.append("✗" if factory().traits.supervised else "○")
        signs = row.config["signs"]
        rows.append((name_of(row), *declared, *signs, paper(experiment, row.key, "table")))
    heads = ("method", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "the paper's row")
    return Table(heads, rows, experiment.caveat)


def spread(values: Sequence[float]) -> str:
    """Percent: the mean, with the standard deviation from two values on."""
    if not values:
        return NOTHING
    mean = f"{100 * fmean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * stdev(values):.2f}"


def paper(experiment: Experiment, row: str, setting: str) -> str:
    """The paper's number as it prints it."""
    known = published(experiment, row, setting)
    if known is None:
        return NOTHING
    if isinstance(known, str):
        return known
    mean, *deviation = known if isinstance(known, list) else [known]
    return f"{mean:.2f}" + (f" ± {deviation[0]:.2f}" if deviation else "")


def name_of(row: Part) -> str:
    """A row's title; one that the paper does not have says so."""
    return f"{row.title} (ours only)" if row.ours else row.title


def _mark(results: ExperimentResults, row: str, setting: str) -> str:
    """A star where a method's file has changed since the run; how many seeds, if not all."""
    star = "*" if any((p.row, p.setting) == (row, setting) for p in results.stale) else ""
    n = len(results.at(row, setting))
    return star if n in (0, len(results.seeds)) else f"{star} [{n}]"


def _caption(results: ExperimentResults, what: str) -> str:
    """What is shown, of how many seeds, and what has to be known of it."""
    experiment, n = results.experiment, len(results.seeds)
    seeds = f"seed {results.seeds[0]}" if n == 1 else f"mean ± standard deviation of {n} seeds"
    text = f"{experiment.title.rstrip('.')}. {what}, in %, {seeds}."
    if experiment.quick:
        text += " A quick run of a few rounds: its numbers mean nothing."
    if results.changes:
        text += f" Changed: {results.changes}."
    if experiment.caveat:
        text += f" {experiment.caveat}"
    if any(len(results.at(p.row, p.setting)) < n for p in results.cells):
        text += " [1], [2]: of so many seeds."
    if results.stale:
        text += " * The method's file has changed since the run."
    return text
