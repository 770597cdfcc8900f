"""The tables of a study: scores, differences, ranks, all measures, and every single run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from flr.config.overrides import dotted
from flr.report.paired_runs import Estimate, estimate
from flr.report.table import Table
from flr.study import statistics
from flr.study.experiment_results import ExperimentResults

NOTHING = "–"
INTERVAL = "±: half-width of the 95 % t-interval over seeds, from two on"
WORDS = {  # how heads call what has a long name
    "last10": "last 10",
    "server.noisy_memorized": "memorized: server",
    "client.noisy_memorized": "memorized: clients",
}


_ACCURACIES = ("accuracy.last10", "accuracy.last", "accuracy.best", "selection.accuracy")
_NO_MEASURES = ("seed", "attack", "per_client", "per_class")


def scores(results: ExperimentResults) -> Table:
    """Rows by settings, the best of each column in bold."""
    experiment = results.experiment
    rows, bold = [], []
    for number, row in enumerate(experiment.rows.values()):
        cells = [row.title]
        for column, key in enumerate(experiment.settings, start=1):
            found = statistics.mean(results, row.key, key)
            cells.append(spread(found) + _few(results, row.key, key))
            if row.key in statistics.best(results, key):
                bold.append((number, column))
        rows.append(cells)
    heads = ["method", *(setting.title for setting in experiment.settings.values())]
    caption = (
        f"{experiment.title.rstrip('.')}. {said(results)}, in %, mean of {_seeds(results)}. "
        f"{INTERVAL}. Bold: the best mean of a column."
    )
    return Table(heads, rows, caption, bold=bold)


def differences(results: ExperimentResults) -> Table:
    """Every row against the row of reference, paired by seed."""
    experiment = results.experiment
    reference = experiment.rows[experiment.document["reference"]]
    rows = [
        [row.title]
        + [
            spread(statistics.difference(results, row.key, key), signed=True)
            for key in experiment.settings
        ]
        for row in experiment.rows.values()
        if row.key != reference.key
    ]
    heads = ["method", *(setting.title for setting in experiment.settings.values())]
    caption = (
        f"{said(results)} minus that of {reference.title}, in points, paired by seed on the same "
        f"scenario. {INTERVAL}; one that does not reach 0 is a difference, as far as these seeds "
        "tell. With many columns some intervals miss 0 by chance."
    )
    return Table(heads, rows, caption)


def ranks(results: ExperimentResults) -> Table:
    """The mean place of each row among all."""
    found = statistics.ranks(results)
    rows = []
    for each in found:
        half = "" if each.rank.half is None else f" ± {each.rank.half:.2f}"
        title = results.experiment.rows[each.row].title
        rows.append([title, f"{each.rank.mean:.2f}{half}", f"{each.first} of {each.rank.n}"])
    caption = (
        "Place among all methods, mean over the scenarios (settings by seeds) on which all were "
        "run; 1 is the best. Scenarios of one setting are alike, so that the interval is a guide."
    )
    return Table(["method", "mean rank", "best on"], rows, caption)


def measures(results: ExperimentResults) -> Table:
    """Each place of the table in one line, with all that was measured in every run of it."""
    experiment = results.experiment
    numbers = {place: dict(_numbers(cell.summary)) for place, cell in results.cells.items()}
    paths = [key for key in dict.fromkeys(k for f in numbers.values() for k in f) if _shown(key)]
    rows: list[list[str]] = []
    rules: list[int] = []
    for setting in experiment.settings.values():
        rules.append(len(rows))
        for row in experiment.rows.values():
            found = results.at(row.key, setting.key)
            if not found:
                continue
            own = [numbers[p] for p in numbers if (p.row, p.setting) == (row.key, setting.key)]
            cells = [spread(estimate(each.get(path) for each in own)) for path in paths]
            minutes = fmean(each["seconds"] or 0.0 for each in own) / 60
            rows.append([setting.title, row.title, str(len(found)), *cells, f"{minutes:.1f}"])
    heads = ["setting", "method", "n", *map(_head, paths), "minutes"]
    caption = f"All in %; memorized and what follows it: means of the last ten rounds. {INTERVAL}."
    return Table(heads, rows, caption, align="ll", rules=[rule for rule in rules if rule])


def runs(results: ExperimentResults) -> list[dict[str, Any]]:
    """One entry for each finished run: what was varied, and every number of its summary."""
    experiment = results.experiment
    found = []
    for place, cell in results.cells.items():
        tree = dict(dotted(cell.content["config"]))
        varied = {key: _plain(tree, key) for key in experiment.document.get("varied", ())}
        names = {
            "setting": experiment.settings[place.setting].title,
            "row": experiment.rows[place.row].title,
            "seed": place.seed,
            "method": cell.summary["method"],
            "scenario": cell.summary["scenario"],
        }
        where = {"cell": cell.hash, "folder": results.runner.kept(cell.hash)}
        varied = {key: value for key, value in varied.items() if key not in names}
        found.append({**names, **varied, **dict(_numbers(cell.summary)), **where})
    return found


def as_table(entries: list[dict[str, Any]]) -> Table:
    """The same for a CSV file; an empty field is a value that does not exist."""
    heads = list(dict.fromkeys(key for entry in entries for key in entry))
    rows = [
        ["" if entry.get(key) is None else str(entry[key]) for key in heads] for entry in entries
    ]
    return Table(heads, rows)


def said(results: ExperimentResults) -> str:
    """The score in words."""
    score = results.experiment.score
    known = {
        "last10": "Mean accuracy of the last ten rounds",
        "last": "Accuracy of the last round",
        "best": "Accuracy of the best round, chosen on the test set",
    }
    return known.get(score, score)


def spread(found: Estimate, *, signed: bool = False) -> str:
    """Percent: the mean with its interval."""
    if found.mean is None:
        return NOTHING
    half = "" if found.half is None else f" ± {100 * found.half:.2f}"
    return f"{100 * found.mean:{'+' if signed else ''}.2f}{half}"


def _few(results: ExperimentResults, row: str, setting: str) -> str:
    """How many runs there are where some are missing."""
    there, planned = len(results.at(row, setting)), len(results.planned((row, setting)))
    return f" [{there} of {planned}]" if 0 < there < planned else ""


def _seeds(results: ExperimentResults) -> str:
    return f"{len(results.seeds)} seed{'' if len(results.seeds) == 1 else 's'}"


def _numbers(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float | None]]:
    """Every number of a summary by its dotted key; lists and single classes are left out."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and key not in _NO_MEASURES:
            yield from _numbers(value, f"{above}{key}.")
        elif (value is None or isinstance(value, int | float)) and key not in _NO_MEASURES:
            yield above + key, value


def _shown(key: str) -> bool:
    """Whether a measure is one for a page: accuracies, and what became of wrong labels."""
    kind, _, rest = key.partition(".")
    late = rest in ("last10.server.noisy_memorized", "last10.client.noisy_memorized")
    return late or key in _ACCURACIES or (kind == "metrics" and rest.endswith(".last10"))


def _head(key: str) -> str:
    name = key.partition(".")[2].removeprefix("last10.").removesuffix(".last10")
    name = "chosen" if key == "selection.accuracy" else name
    return WORDS.get(name, name.replace("_", " "))


def _plain(tree: Mapping[str, Any], key: str) -> Any:
    """What a run's config has under a key that was varied: a value, or a table as JSON."""
    if key in tree:
        value = tree[key]
        return json.dumps(value) if isinstance(value, list | Mapping) else value
    below = {k.removeprefix(f"{key}."): v for k, v in tree.items() if k.startswith(f"{key}.")}
    return json.dumps(below) if below else None
