"""The results in results are those of today's experiments."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from flr.paper import outputs, results, tables
from flr.paper.experiment import load, names
from flr.paper.pages import experiment as page
from flr.paper.runner import Runner
from flr.report import table as grids

FOLDER = Path(__file__).resolve().parents[2] / "results"
SHOWN = [name for name in names() if (FOLDER / f"{name}-laptop" / "runs.csv").exists()]
COMPLETE = ("table-memorization", "fig-memorization-fedavg", "fig-memorization-flr")


def without_stale(text: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(text)))
    return [{key: value for key, value in row.items() if key != "stale"} for row in rows]


@pytest.mark.parametrize("name", SHOWN)
def test_a_written_table_is_made_of_the_cells_that_are_there(name):
    experiment = load(name)
    outcome = Runner(FOLDER).gather(experiment)
    assert name not in COMPLETE or len(outcome.cells) == len(outcome.configs)
    written = page.folder_of(outcome)
    runs = grids.to_csv(tables.runs(outcome))
    assert without_stale((written / "runs.csv").read_text()) == without_stale(runs)
    if experiment.shows.endswith("-table"):
        table = grids.to_markdown(outputs.table(outcome))
        assert without_stars((written / "table.md").read_text()) == without_stars(table)


def without_stars(text: str) -> str:
    """A star says that a method's file has changed since."""
    return text.replace(r"\*", "").partition(" The method's file")[0]


def test_no_cell_is_of_no_experiment():
    runner, known = Runner(FOLDER), set()
    for experiment in map(load, names()):
        configs = runner.plan(experiment, experiment.seeds)
        before = runner.pretraining(experiment)
        known |= {results.hash_of(config) for config in (*configs.values(), before) if config}
    assert set(results.names(FOLDER)) <= known
