"""The folder of a study: its tables in every form, its pictures, and one page."""

from __future__ import annotations

import importlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flr.core.arrays import write_atomically
from flr.report import curves, forest, html, style, table
from flr.study import results as cells
from flr.study import statistics, tables
from flr.study.experiment_results import ExperimentResults
from flr.study.queue import Failures

log = logging.getLogger("flr")

INDEX = "index.html"


@dataclass(frozen=True)
class Written:
    """What a study has left behind."""

    folder: Path
    files: tuple[Path, ...]


def write(results: ExperimentResults, failed: Failures, command: str) -> Written:
    """Everything that is made of the cells that are there; `command` gives it again."""
    folder = results.runner.folder / results.experiment.folder
    found = {"table": tables.scores(results)}
    if len(results.experiment.rows) > 1:
        found |= {"differences": tables.differences(results), "ranks": tables.ranks(results)}
    found["measures"] = tables.measures(results)
    found = {name: each for name, each in found.items() if each.rows}
    files = [path for name, each in found.items() for path in table.save(each, folder / name)]
    files += write_runs(results, folder)
    pictures = draw(results, folder)
    html.render(
        folder / INDEX,
        "study.html",
        package="flr.study",
        title=results.experiment.title,
        results=results,
        tables=found,
        pictures={name: html.picture(folder / f"{name}.png") for name in pictures},
        said=tables.said(results),
        reference=results.experiment.rows[results.experiment.document["reference"]].title,
        failed=failed,
        links=links(results, folder),
        revision=cells.revision(),
        latex=table.to_latex(found["table"]),
        command=command,
    )
    return Written(folder, (*files, folder / INDEX))


def write_runs(results: ExperimentResults, folder: Path) -> list[Path]:
    """Every run in one line, as CSV, and as Parquet where pyarrow is installed."""
    entries = tables.runs(results)
    write_atomically(folder / "runs.csv", table.to_csv(tables.as_table(entries)))
    try:
        arrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        log.info("No runs.parquet: pip install pyarrow writes one, too")
        return [folder / "runs.csv"]
    heads = list(dict.fromkeys(key for entry in entries for key in entry))
    columns = {key: [entry.get(key) for entry in entries] for key in heads}
    buffer = arrow.BufferOutputStream()
    parquet.write_table(arrow.table({k: _of_one_kind(v) for k, v in columns.items()}), buffer)
    write_atomically(folder / "runs.parquet", buffer.getvalue().to_pybytes())
    return [folder / "runs.csv", folder / "runs.parquet"]


def _of_one_kind(values: list[Any]) -> list[Any]:
    """As a column has it: numbers, or text where a study mixed them."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return values if len(kinds) < 2 else [None if v is None else float(v) for v in values]
    return values if len(kinds) < 2 else [None if v is None else str(v) for v in values]


def draw(results: ExperimentResults, folder: Path) -> list[str]:
    """Learning curves with bands, and differences to the row of reference."""
    experiment = results.experiment
    if not results.cells:
        return []
    panels = {
        setting.title: {
            row.title: results.curves(row.key, key)
            for row in experiment.rows_in(key)
            if results.at(row.key, key)
        }
        for key, setting in experiment.settings.items()
    }
    style.save(curves.accuracy(panels), folder / "curves")
    differences = {
        setting.title: {
            row.title: statistics.difference(results, row.key, key)
            for row in experiment.rows.values()
            if row.key != experiment.document["reference"]
        }
        for key, setting in experiment.settings.items()
    }
    if len(experiment.rows) < 2:
        return ["curves"]
    reference = experiment.rows[experiment.document["reference"]].title
    lower = statistics.sign_of(results) < 0
    figure = forest.draw(differences, f"points against {reference}", lower_is_better=lower)
    style.save(figure, folder / "forest")
    return ["curves", "forest"]


def links(results: ExperimentResults, folder: Path) -> list[tuple[str, str]]:
    """Every run that is kept, in words, with its report as seen from the page."""
    experiment = results.experiment
    found = []
    for place, cell in results.cells.items():
        kept = results.runner.kept(cell.hash)
        setting, row = experiment.settings[place.setting], experiment.rows[place.row]
        where = os.path.relpath(Path(kept, html.NAME), folder) if kept else ""
        found.append((f"{setting.title}: {row.title}, seed {place.seed}", where))
    return found
