"""Ratios are paired within a repeat; what cannot be trusted says so."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import RESULTS, machine, table
from benchmarks.measurement import Measurement
from benchmarks.workloads import WORKLOADS


def measured(engine: str, repeat: int, second: float, **changes: Any) -> Measurement:
    values: dict[str, Any] = {
        "first_round": 2.0 + second,
        "rounds": (second, second, 9 * second),
        "cpu": 5 * second,
        "memory": None if repeat else 300_000_000,
        "others": 0.01,
        "load": 0.1,
        "steps": 30,
        "difference": 0.0,
    }
    return Measurement(engine, repeat, **(values | changes))


def runs() -> list[Measurement]:
    """The machine gets slower from repeat to repeat; the ratio hardly changes."""
    found = [measured("bare loop", 0, 1.0), measured("flr, 2 workers", 0, 0.6, memory=450_000_000)]
    for repeat, (unit, ratio) in enumerate([(1.0, 0.5), (2.0, 0.6), (4.0, 0.55)], start=1):
        found.append(measured("bare loop", repeat, unit))
        found.append(measured("flr, 2 workers", repeat, unit * ratio, difference=1e-7))
    return found


def result(**changes: Any) -> dict[str, Any]:
    made = {
        "workload": "main",
        "what": "CNN",
        "kind": "engines",
        "rounds": 4,
        "repeats": 3,
        "seed": 1,
        "command": "python -m benchmarks main",
        "machine": asdict(machine.describe()),
        "rows": [asdict(row) for row in table.engine_rows(runs())],
        "measured": [asdict(run) for run in runs()],
    }
    return made | changes


def test_ratios_are_paired_and_the_middle_round_counts():
    unit, ours = table.engine_rows(runs())
    assert unit.ratio == table.Spread(1.0, 1.0, 1.0)
    assert asdict(ours.ratio) == pytest.approx({"median": 0.55, "low": 0.5, "high": 0.6})
    assert ours.cpu is not None
    assert ours.cpu.median == pytest.approx(0.55)
    assert ours.memory_ratio == pytest.approx(1.5)
    assert ours.later == pytest.approx(-0.8)  # 1.2 - 2.0, in the middle repeat
    assert ours.difference == 1e-7


def test_what_was_not_measured_is_a_dash():
    rows = table.engine_rows(
        [measured("bare loop", r, 1.0, memory=None, cpu=None, difference=None) for r in (0, 1)]
    )
    cells = [cell(asdict(rows[0])) for _, cell in table.LONG["engines"]]
    assert cells.count("-") == 4  # memory, its ratio, processor time, weights
    unknown = [asdict(measured("bare loop", 1, 1.0, others=None))]
    assert "not measured" in table.notes(result(measured=unknown))[-1]


def test_the_cost_of_flr_is_a_difference_in_forward_passes():
    rounds = {
        "fedavg": (4.0, 8.0, 4.0),
        "flr, batch": (5.0, 9.2, 5.1),
        "flr, round": (4.2, 8.2, 4.3),
        "forwards, steps": (1.0, 1.0, 9.0),
        "forwards, samples": (0.2, 0.2, 0.2),
    }
    batch, once = table.cost_rows(
        [measured(name, 1, 1.0, rounds=taken) for name, taken in rounds.items()]
    )
    assert batch.cost.median == pytest.approx(1.1)  # the middle of 1.0, 1.2, 1.1
    assert once.cost.median == pytest.approx(1.0)
    assert [cell(asdict(once)) for _, cell in table.SHORT["cost"]] == [
        "round",
        "1.00 (1.00-1.00)",
        "of each sample, once a round",
    ]


def test_a_machine_that_is_not_quiet_is_noted():
    busy = [
        asdict(measured("bare loop", r, 1.0, others=share)) for r, share in ((1, 0.01), (2, 0.2))
    ]
    quiet, noisy = table.notes(result()), table.notes(result(measured=busy))
    assert not any("not quiet" in note for note in quiet)
    assert "The machine was not quiet" in noisy[-1]
    assert "at most 20.0 %" in noisy[-2]


def test_more_memory_for_more_clients_is_said():
    notes = table.notes(result(kind="clients"))
    assert "flr, 2 workers take 150 MB more than bare loop." in notes


def test_the_page_holds_all_results_of_a_folder(tmp_path):
    table.save(tmp_path, result(workload="tiny"))
    own, page = table.save(tmp_path, result())
    assert json.loads(own.read_text())["rows"][1]["memory"] == 450_000_000
    text = page.read_text()
    assert text.index("## `main`") < text.index("## `tiny`")
    assert "| flr, 2 workers | 0.55 (0.50-0.60) |" in text
    assert "python -m benchmarks main" in text
    assert machine.describe().words() in text


def test_the_committed_page_is_of_the_committed_results():
    folder = RESULTS / "bench"
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    assert (folder / table.PAGE).read_text() == table.markdown(found)


def test_the_page_about_it_lists_every_workload():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "benchmark.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    listed = {name.strip("| `"): int(rounds.strip(" |")) for name, _, rounds in rows}
    assert listed == {name: work.rounds for name, work in WORKLOADS.items()}
