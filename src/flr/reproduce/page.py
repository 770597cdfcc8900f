"""One folder for each table or figure: its written forms, its pictures, and one page."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from flr.arrays import write_atomically
from flr.report import figures, html
from flr.reproduce import grids, shows, tables
from flr.reproduce.cells import revision
from flr.reproduce.claims import Judged, judge
from flr.reproduce.orderings import as_grid, orderings
from flr.reproduce.runner import Outcome

INDEX = "index.html"


@dataclass(frozen=True)
class Written:
    """What a reproduction has left behind."""

    folder: Path
    files: tuple[Path, ...]
    judged: tuple[Judged, ...]


def write(outcome: Outcome, command: str) -> Written:
    """Table, picture and page of an experiment; `command` gives them again."""
    experiment = outcome.experiment
    folder = outcome.workshop.folder / name_of(outcome)
    shown = shows.show(outcome)
    files: list[Path] = []
    if shown.grid is not None:
        files += grids.save(shown.grid, folder / "table")
    if shown.figure is not None:
        files += figures.save(shown.figure, folder / "figure")
    if outcome.cells:
        write_atomically(folder / "runs.csv", grids.to_csv(tables.runs(outcome)))
        files.append(folder / "runs.csv")
    pairs = orderings(outcome)
    if pairs:
        write_atomically(folder / "orderings.csv", grids.to_csv(as_grid(pairs)))
        files.append(folder / "orderings.csv")
    judged = verdicts(outcome)
    html.render(
        folder / INDEX,
        "reproduction.html",
        title=experiment.title,
        experiment=experiment,
        seeds=outcome.seeds if outcome.cells else (),
        grid=shown.grid,
        all=tables.everything(outcome) if outcome.cells else None,
        picture=html.picture(folder / "figure.png"),
        judged=[(found, words(outcome, found)) for found in judged],
        revisions=sorted({str(cell.content["revision"]) for cell in outcome.cells.values()}),
        revision=revision(),
        changes=outcome.changes,
        stale=len(outcome.stale),
        command=command,
    )
    return Written(folder, (*files, folder / INDEX), tuple(judged))


def name_of(outcome: Outcome) -> str:
    """The folder of a table or figure; changed runs have one of their own."""
    experiment = outcome.experiment
    name = f"{experiment.name}-{experiment.scale}" + ("-quick" if experiment.quick else "")
    if not outcome.changes:
        return name
    return f"{name}-changed-{hashlib.sha256(outcome.changes.encode()).hexdigest()[:8]}"


def verdicts(outcome: Outcome) -> list[Judged]:
    """Every claim of an experiment in every setting it is made for; quick runs say nothing."""
    experiment = outcome.experiment
    if experiment.quick:
        return []
    settings = [key for key, setting in experiment.settings.items() if not setting.ours]
    return [
        found for claim in experiment.claims for found in judge(claim, settings, outcome.summaries)
    ]


def words(outcome: Outcome, judged: Judged) -> str:
    """A difference as a reader wants it: between whom, of what, how sure."""
    claim, difference = judged.claim, judged.difference
    if difference.mean is None:
        return "not run"
    rows = outcome.experiment.rows
    half = "" if difference.half is None else f" ± {100 * difference.half:.1f}"
    what = claim.value.replace(".", " ").replace("_", " ")
    who = f"{rows[claim.row].title} minus {rows[claim.than].title}"
    return f"{who}, {what}: {100 * difference.mean:+.1f}{half} points, n = {difference.n}"
