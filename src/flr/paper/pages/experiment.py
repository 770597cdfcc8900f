"""One folder for each table or figure: its written forms, its pictures, and one page."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from flr.core.arrays import write_atomically
from flr.paper import outputs, tables
from flr.paper.claims.comparisons import compared
from flr.paper.claims.judgement import Place
from flr.paper.claims.orderings import as_table, orderings
from flr.paper.experiment import claims_of
from flr.report import html, style, table
from flr.report.paired_runs import estimate
from flr.report.table import Table
from flr.study.experiment_results import ExperimentResults
from flr.study.results import revision

INDEX = "index.html"


@dataclass(frozen=True)
class Written:
    """What a reproduction has left behind."""

    folder: Path
    files: tuple[Path, ...]
    compared: tuple[Place, ...]


def write(results: ExperimentResults, command: str) -> Written:
    """Table, picture and page of an experiment; `command` gives them again."""
    folder = folder_of(results)
    shown = outputs.table(results)
    files = write_tables(results, shown)
    figure = outputs.figure(results)
    if figure is not None:
        files += style.save(figure, folder / "figure")
    places = comparisons(results)
    html.render(
        folder / INDEX,
        "reproduction.html",
        package="flr.paper",
        title=results.experiment.title,
        experiment=results.experiment,
        results=results,
        grid=shown,
        all=tables.everything(results) if results.cells else None,
        picture=html.picture(folder / "figure.png"),
        compared=[(place, words(place)) for place in places],
        revisions=sorted({str(cell.content["revision"]) for cell in results.cells.values()}),
        revision=revision(),
        command=command,
    )
    return Written(folder, (*files, folder / INDEX), tuple(places))


def write_tables(results: ExperimentResults, shown: Table | None) -> list[Path]:
    """The table, every run, and every ordering of the paper's, as far as there are such."""
    folder = folder_of(results)
    files = [] if shown is None else table.save(shown, folder / "table")
    lists = {"runs.csv": tables.runs(results), "orderings.csv": as_table(orderings(results))}
    for name, found in lists.items():
        if found.rows:
            write_atomically(folder / name, table.to_csv(found))
            files.append(folder / name)
    return files


def folder_of(results: ExperimentResults) -> Path:
    """The folder of a table or figure; changed runs have one of their own."""
    experiment = results.experiment
    name = experiment.folder
    if results.changes:
        name += f"-changed-{hashlib.sha256(results.changes.encode()).hexdigest()[:8]}"
    return results.runner.folder / name


def comparisons(results: ExperimentResults) -> list[Place]:
    """What the paper compares in this table; quick runs say nothing."""
    claims = () if results.experiment.quick else claims_of(results.experiment)
    return [place for claim in claims for place in compared(results, claim)]


def words(place: Place) -> str:
    """By how much the paper is right in one place, and how sure that is."""
    found = estimate(place.leads.values())
    if found.mean is None:
        return "not run"
    half = "" if found.half is None else f" ± {100 * found.half:.1f}"
    return f"{100 * found.mean:+.1f}{half} points, n = {found.n}"
