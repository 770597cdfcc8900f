"""The results in docs/results/reproduction are those of today's experiments."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from flr.reproduce import grids, page, tables
from flr.reproduce.experiment import load
from flr.reproduce.runner import Workshop, missing, perform

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results" / "reproduction"
RESULTS = dict.fromkeys(
    ("table-memorization", "fig-memorization-fedavg", "fig-memorization-flr"), (1, 2, 3)
)


def without_stale(text: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(text)))
    return [{key: value for key, value in row.items() if key != "stale"} for row in rows]


@pytest.mark.parametrize("name", RESULTS)
def test_every_run_is_there_and_the_table_is_made_of_them(name):
    experiment, workshop = load(name), Workshop(FOLDER)
    assert not missing(experiment, workshop, RESULTS[name])
    outcome = perform(experiment, workshop, RESULTS[name])
    written = (FOLDER / page.name_of(outcome) / "runs.csv").read_text()
    assert without_stale(written) == without_stale(grids.to_csv(tables.runs(outcome)))
