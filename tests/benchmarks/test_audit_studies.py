"""Studies of the audit: what wins, what is missing, and pages that are made of their lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies import (
    audit_all_clear,
    audit_in_federation,
    audit_in_federation_page,
    audit_in_use,
    audit_in_use_page,
    audit_on_features,
)
from benchmarks.studies.audit_in_federation_ways import AUDITS, ORDERS, SOURCES

MADE = {"made": "2026-01-01", "revision": "abc", "scorer": "abc", "machine": "a machine"}


def site(precision: float, **changes: float) -> dict[str, float]:
    usual = {"rate": 0.3, "rate_error": 0.02, "average_precision": precision}
    usual |= {"calibration_error": 0.05, "interval_covers": 1.0, "width": 0.2, "sure": 1.0}
    return usual | changes


def federation(seed: int, ours: float, theirs: float) -> dict[str, Any]:
    """Two sites; cleanlab has two ways on FedAvg, the second better by 0.1."""
    ways = {f"{source}: p, margin": site(theirs - 0.2) for source in SOURCES}
    ways["FedAvg: p, entropy"] = site(theirs)
    ways |= {way: {"average_precision": 0.1} for way in ORDERS}
    audits = {f"{way}, {k}": site(ours, rate_error=0.04 * k) for way in AUDITS for k in range(2)}
    reached = {"fedavg": 0.7, "flr": 0.8}
    return {
        "row": "worst",
        "seed": seed,
        "accuracy": reached,
        "audits": audits,
        "ways": ways,
    } | MADE


def test_a_federations_row_is_won_against_the_best_of_all_ways() -> None:
    page = audit_in_federation_page.page([federation(1, 0.9, 0.8), federation(2, 0.8, 0.8)])
    assert "**1 of 1 rows won**, +5.0 points" in page
    assert "| won, +5.0 | FedAvg: p, entropy |" in page
    assert "CIFAR-10N, worst (seed 3)" in page
    assert "instance (0.6, 0.0) (seeds 1, 2, 3)" in page
    lost = audit_in_federation_page.page([federation(1, 0.7, 0.8)])
    assert "**0 of 1 rows won**" in lost
    assert "lost, -10.0" in lost


def test_half_of_these_sites_have_a_rate_that_is_near() -> None:
    rates = audit_in_federation_page.page([federation(1, 0.9, 0.8)]).rpartition("## Rates")[2]
    assert "| CIFAR-10N, worst | 2 | +2.0 | 2.0 | 50 |" in rates


@pytest.mark.parametrize("row", audit_in_federation.NOISES)
def test_every_row_has_a_title_and_a_config(row: str) -> None:
    from flr.config import parse

    assert row in audit_in_federation_page.TITLES
    assert parse(audit_in_federation.config_of(row, 1, "flr")).rounds == audit_in_federation.ROUNDS


def line(precision: float, wrong: int = 300, **ways: Any) -> dict[str, Any]:
    audit = {"average_precision": precision, "wrong": wrong}
    return {"row": "vader", "seed": 1, "ways": {"audit": audit} | ways, **MADE}


def test_what_is_scored_again_keeps_the_other_ways(tmp_path: Path) -> None:
    kept = tmp_path / "lines.jsonl"
    kept.write_text(json.dumps(line(0.5, nearest={"average_precision": 0.4})) + "\n")
    (found,) = audit_on_features.merged(kept, [line(0.7)])
    assert found["ways"]["audit"]["average_precision"] == 0.7
    assert found["ways"]["nearest"]["average_precision"] == 0.4
    with pytest.raises(SystemExit, match="its labels are others"):
        audit_on_features.merged(kept, [line(0.7, wrong=299)])


@pytest.mark.parametrize(
    ("said", "false"),
    [((0.1, 0.05, 0.2), True), ((0.1, 0.05, 0.4), False), ((0.15, 0.1, 0.2), False)],
)
def test_a_false_all_clear_is_far_too_low_and_sure(said: Any, false: bool) -> None:
    looked = {"rate": 0.36, "said": said, "sure": True, "model": "weak", "noise": "even", **MADE}
    assert audit_all_clear.is_false(looked) == false
    assert f"**{int(false)} of 1**" in audit_all_clear.page([looked])


def test_hard_names_are_one_cell_each(tmp_path: Path) -> None:
    from flr.audit.labels_file import read_labels

    path = tmp_path / "labels.csv"
    rows = "".join(f"{audit_in_use.hard(row)};ja\r\n" for row in range(10))
    path.write_bytes(("\ufeffName;Label\r\n" + rows).encode())
    assert read_labels(path).names == [audit_in_use.bare(row) for row in range(10)]


def test_the_committed_pages_are_made_of_the_committed_lines() -> None:
    lines = audit_on_features.read(audit_on_features.CELLS)
    assert audit_on_features.PAGE.read_text(encoding="utf-8") == audit_on_features.page(lines)
    used = audit_in_use.lines()
    assert audit_in_use.PAGE.read_text(encoding="utf-8") == audit_in_use_page.page(used)
