"""Means, paired differences and ranks of made-up runs, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flr.core.errors import ConfigError
from flr.report import table
from flr.study import statistics, tables
from flr.study.experiment import Coordinates, Experiment
from flr.study.experiment_results import ExperimentResults
from flr.study.results import Cell
from flr.study.runner import Runner

DOCUMENT: dict[str, Any] = {
    "title": "Made up",
    "score": "last10",
    "reference": "a",
    "seeds": [1, 2, 3],
    "rows": {key: {"title": key.upper()} for key in "abc"},
    "settings": {"x": {"title": "X"}, "y": {"title": "Y"}},
}
ACCURACY = {  # by setting, row and seed
    "x": {"a": (0.5, 0.6, 0.7), "b": (0.52, 0.61, 0.75), "c": (0.5, 0.7, 0.1)},
    "y": {"a": (0.9, 0.9, 0.9), "b": (0.8, 0.9, 0.7)},
}


def cell(value: float, scenario: str) -> Cell:
    shares = {"noisy_memorized": 1 - value}
    memorization = {"client": shares, "last10": {"client": shares}}
    summary = {
        "accuracy": {"last10": value},
        "memorization": memorization,
        "scenario": scenario,
        "seconds": 60.0,
        "method": "m",
    }
    return Cell("0", {"summary": summary, "config": {}})


def results(other: str = "", **changes: Any) -> ExperimentResults:
    """The made-up runs; those of row b in setting x may have `other` wrong labels."""
    cells, document = {}, DOCUMENT | changes
    for setting, rows in ACCURACY.items():
        for row, values in rows.items():
            for seed, value in enumerate(values, start=1):
                told = other if (row, setting, seed) == ("b", "x", 3) else ""
                place = Coordinates(row, setting, seed)
                cells[place] = cell(value, f"{setting}{seed}{told}")
    found = Experiment("made-up", document)
    return ExperimentResults(found, (1, 2, 3), {}, cells, Runner(Path()))


def test_differences_are_paired_by_seed_on_the_same_scenario():
    found = statistics.difference(results(), "b", "x")
    assert (found.n, found.mean) == (3, pytest.approx((0.02 + 0.01 + 0.05) / 3))
    found = statistics.difference(results("other labels"), "b", "x")
    assert (found.n, found.mean) == (2, pytest.approx(0.015))
    assert statistics.difference(results(), "c", "y").mean is None


def test_ranks_share_places_and_count_scenarios_that_all_rows_have():
    found = {rank.row: rank for rank in statistics.ranks(results())}
    # seed 1: b, then a and c alike; seed 2: c, b, a; seed 3: b, a, c; none of y, where c is missing
    assert {row: rank.rank.mean for row, rank in found.items()} == {
        "a": pytest.approx((2.5 + 3 + 2) / 3),
        "b": pytest.approx((1 + 2 + 1) / 3),
        "c": pytest.approx((2.5 + 1 + 3) / 3),
    }
    assert next(rank.row for rank in statistics.ranks(results())) == "b"
    assert {row: rank.first for row, rank in found.items()} == {"a": 0, "b": 2, "c": 1}


def test_the_best_mean_of_a_column_is_bold():
    assert statistics.best(results(), "x") == {"b"}
    assert statistics.best(results(), "y") == {"a"}
    assert statistics.best(results(better="lower"), "x") == {"c"}
    latex = table.to_latex(tables.scores(results()))
    assert latex.count(r"\mathbf") == 2
    assert r"B & $\mathbf{62.67} \pm 28.79$" in latex
    assert "**62.67 ± 28.79**" in table.to_markdown(tables.scores(results()))


def test_another_score_is_a_path_of_the_summary():
    found = results(score="memorization.client.noisy_memorized", better="lower")
    assert statistics.mean(found, "a", "y").mean == pytest.approx(0.1)
    assert next(rank.row for rank in statistics.ranks(found)) == "b"
    with pytest.raises(ConfigError, match="Use one of last10"):
        statistics.mean(results(score="lasst"), "a", "y")


def test_missing_runs_are_dashes_and_few_are_counted():
    rows = tables.scores(results()).rows
    assert rows[2][2] == tables.NOTHING
    measured = tables.measures(results())
    assert next(row[:3] for row in measured.rows) == ["X", "A", "3"]
    assert len(measured.rows) == 5
    assert list(measured.rules) == [3]
