"""The results in results are those of today's experiments."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from flr.paper import outputs, tables
from flr.paper.experiment import OVER, load, names
from flr.paper.pages import experiment as page
from flr.report import table as grids
from flr.study.runner import Runner

FOLDER = Path(__file__).resolve().parents[2] / "results"
SHOWN = [
    (name, scale)
    for scale in OVER
    for name in names()
    if (FOLDER / f"{name}-{scale}" / "runs.csv").exists()
]
COMPLETE = [
    (name, "laptop")
    for name in ("table-memorization", "fig-memorization-fedavg", "fig-memorization-flr")
]


def without_stale(text: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(text)))
    return [{key: value for key, value in row.items() if key != "stale"} for row in rows]


@pytest.mark.parametrize(("name", "scale"), SHOWN)
def test_a_written_table_is_made_of_the_cells_that_are_there(name, scale):
    experiment = load(name, scale)
    outcome = Runner(FOLDER).gather(experiment)
    assert (name, scale) not in COMPLETE or len(outcome.cells) == len(outcome.configs)
    written = page.folder_of(outcome)
    runs = grids.to_csv(tables.runs(outcome))
    assert without_stale((written / "runs.csv").read_text()) == without_stale(runs)
    if experiment.shows.endswith("-table"):
        table = grids.to_markdown(outputs.table(outcome))
        assert without_stars((written / "table.md").read_text()) == without_stars(table)


def without_stars(text: str) -> str:
    """A star says that a method's file has changed since."""
    return text.replace(r"\*", "").partition(" The method's file")[0]
