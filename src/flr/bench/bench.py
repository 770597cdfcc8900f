"""A whole benchmark: prepares a workload, runs whoever is compared, and makes the result of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flr.bench import cost, engines, machine, table
from flr.bench.measure import Measured
from flr.bench.prepare import Prepared, prepare
from flr.bench.runner import Entry, Say, compare
from flr.bench.workloads import Workload

FEW = 100  # clients, which a large population is compared with


@dataclass(frozen=True)
class Setting:
    """How long, how often, on which draws."""

    rounds: int
    repeats: int
    seed: int
    command: str  # that gives the same table again


def run(workload: Workload, setting: Setting, say: Say) -> dict[str, Any]:
    """The content of a result file."""
    with tempfile.TemporaryDirectory(prefix="flr-bench-") as made:
        measured = _measured(workload, setting, Path(made), say)
    make: Callable[[list[Measured]], Sequence[Any]]
    make = table.cost_rows if workload.kind == "cost" else table.engine_rows
    return {
        "workload": workload.name,
        "what": workload.what,
        "kind": workload.kind,
        **asdict(setting),
        "machine": asdict(machine.describe()),
        "rows": [asdict(row) for row in make(measured)],
        "measured": [asdict(run) for run in measured],
    }


def _measured(workload: Workload, setting: Setting, folder: Path, say: Say) -> list[Measured]:
    def ready(work: Workload, name: str) -> Prepared:
        return prepare(work, folder / name, setting.rounds, setting.seed)

    if workload.kind == "cost":
        prepared = ready(workload, "data")
        return cost.repeated(prepared, setting.repeats, say)
    if workload.kind == "engines":
        prepared = ready(workload, "data")
        entries = [Entry(engine, prepared) for engine in engines.compared()]
    else:
        populations = (FEW, workload.population or FEW)
        entries = [
            Entry(
                engines.own(2, name=f"{n:,} clients"),
                ready(replace(workload, clients=n), str(n)),
                follows=False,  # others train on other samples
            )
            for n in populations
        ]
    return compare(entries, setting.repeats, say)
