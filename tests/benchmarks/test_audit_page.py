"""results/audit.md: who is compared, who has won, and that it is made of the committed cells."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import RESULTS
from benchmarks.studies import audit_page


def make_cell(seed: int, **precision: float) -> dict[str, Any]:
    """A cell of the row "worst": cleanlab has two ways, the second better by 0.1."""

    def numbers(value: float) -> dict[str, float]:
        names = {*audit_page.METRICS, "samples", "rate"}
        return {name: value if name == audit_page.RANKED else 0.25 for name in names}

    arms = {"flr": {"audit": numbers(precision["flr"])}, "e": {"audit": numbers(0.5)}}
    arms["random"] = {"random": numbers(0.4)}
    for arm in audit_page.BASELINES:
        arms[arm] = {
            "self-confidence, by site": numbers(precision[arm] - 0.1),
            "margin, pooled": numbers(precision[arm]),
        }
    return {
        "format": audit_page.FORMAT,
        "row": "worst",
        "seed": seed,
        "rounds": 50,
        "third": 17,
        "arms": arms,
        "accuracy": {"flr": 0.4, "fedavg": 0.3},
        "seconds": {"flr": 60.0},
        "scorer": "abc",
        "revision": "abc",
        "versions": {"torch": "1"},
        "machine": "a machine",
        "made": "2026-01-01",
    }


def row_of(*cells: dict[str, Any]) -> audit_page.NoiseRow:
    return audit_page.NoiseRow("worst", cells)


def test_a_baseline_is_represented_by_its_best_way():
    row = row_of(make_cell(1, flr=0.7, a=0.6, b=0.5, c=0.65, d=0.6))
    assert row.way("a") == "margin, pooled"
    assert row.way("a", "by site") == "self-confidence, by site"
    assert row.margins("c") == pytest.approx([0.05])


def test_a_row_is_lost_if_one_baseline_found_more():
    good = make_cell(1, flr=0.7, a=0.6, b=0.5, c=0.65, d=0.6)
    near = make_cell(2, flr=0.7, a=0.6, b=0.5, c=0.72, d=0.6)
    far = make_cell(3, flr=0.7, a=0.6, b=0.5, c=0.9, d=0.6)
    assert row_of(good).verdict == "**won** in every seed"
    assert row_of(good, near).verdict == "**won**, 1 of 2 seeds"
    assert row_of(good, near, far).verdict == "**lost** to (c)"
    text = audit_page.page([good, near, far])
    assert "0 of 1 rows won" in text
    assert "**lost** to (c)" in text
    others = ", ".join(title for row, title in audit_page.ROWS.items() if row != good["row"])
    assert f"Not finished: {others}." in text


def test_cells_of_two_scorers_are_told_apart():
    cells = [make_cell(seed, flr=0.7, a=0.6, b=0.5, c=0.6, d=0.6) for seed in (1, 2)]
    assert "score again" not in audit_page.page(cells)
    cells[1]["scorer"] = "other"
    assert "score again" in audit_page.page(cells)


def test_the_committed_page_is_made_of_the_committed_cells():
    cells, written = audit_page.read(RESULTS / "audit-cells"), RESULTS / "audit.md"
    assert written.exists() == bool(cells)
    if cells:
        assert written.read_text(encoding="utf-8") == audit_page.page(cells)
