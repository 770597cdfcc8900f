"""One folder for each table or figure: its written forms, its pictures, and one page."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flr.core.arrays import write_atomically
from flr.paper import outputs, tables
from flr.paper.claims.judgement import Judged, in_words, judge
from flr.paper.claims.orderings import as_table, orderings
from flr.paper.results import revision
from flr.paper.runner import ExperimentResults
from flr.report import html, style, table
from flr.report.table import Table

INDEX = "index.html"


@dataclass(frozen=True)
class Written:
    """What a reproduction has left behind."""

    folder: Path
    files: tuple[Path, ...]
    judged: tuple[Judged, ...]


def write(results: ExperimentResults, command: str) -> Written:
    """Table, picture and page of an experiment; `command` gives them again."""
    folder = folder_of(results)
    shown = outputs.table(results)
    files = write_tables(results, shown)
    figure = outputs.figure(results)
    if figure is not None:
        files += style.save(figure, folder / "figure")
    judged = verdicts(results)
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
        judged=[(found, words(results, found)) for found in judged],
        revisions=sorted({str(cell.content["revision"]) for cell in results.cells.values()}),
        revision=revision(),
        command=command,
    )
    return Written(folder, (*files, folder / INDEX), tuple(judged))


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
    name = f"{experiment.name}-{experiment.scale}" + ("-quick" if experiment.quick else "")
    if results.changes:
        name += f"-changed-{hashlib.sha256(results.changes.encode()).hexdigest()[:8]}"
    return results.runner.folder / name


def verdicts(results: ExperimentResults) -> list[Judged]:
    """Every claim of an experiment in every setting it is made for; quick runs say nothing."""
    experiment = results.experiment
    settings = [key for key, setting in experiment.settings.items() if not setting.ours]
    claims = () if experiment.quick else experiment.claims
    return [found for claim in claims for found in judge(claim, settings, results.by_seed)]


def counted(verdicts: Iterable[str]) -> str:
    """How many of each there are."""
    return ", ".join(f"{verdict}: {count}" for verdict, count in Counter(verdicts).most_common())


def words(results: ExperimentResults, judged: Judged) -> str:
    """Between whom a difference is, of what, and how sure."""
    claim, rows = judged.claim, results.experiment.rows
    what = claim.value.replace(".", " ").replace("_", " ")
    who = f"{rows[claim.row].title} minus {rows[claim.than].title}"
    return in_words(f"{who}, {what}", judged.difference)
