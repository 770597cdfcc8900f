"""A whole benchmark: prepares a workload, runs whoever is compared, and makes the result of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks import embedding, engines, machine, table
from benchmarks.compare import PreparedEngine, Say, compare
from benchmarks.cost import measure_cost
from benchmarks.measurement import Measurement
from benchmarks.prepare import Prepared, prepare
from benchmarks.workloads import Workload

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
        measured = _measure(workload, setting, Path(made), say)
    make: Callable[[list[Measurement]], Sequence[Any]]
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


def _measure(workload: Workload, setting: Setting, folder: Path, say: Say) -> list[Measurement]:
    def ready(work: Workload, name: str = "data") -> Prepared:
        return prepare(work, folder / name, setting.rounds, setting.seed)

    if workload.kind == "cost":
        return measure_cost(ready(workload), setting.repeats, say)
    if workload.kind == "embedding":
        return compare(embedding.compared(ready(workload)), setting.repeats, say)
    if workload.kind == "engines":
        prepared = ready(workload)
        chosen = [PreparedEngine(engine, prepared) for engine in engines.compared()]
    else:
        chosen = [
            PreparedEngine(
                engines.own(2, name=f"{n:,} clients"),
                ready(replace(workload, clients=n), str(n)),
                follows=False,  # others train on other samples
            )
            for n in (FEW, workload.population or FEW)
        ]
    return compare(chosen, setting.repeats, say)
