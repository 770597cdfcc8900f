"""Our engine in a process of its own, as a user runs it; prints what every engine prints.

python -m benchmarks.flr_engine FOLDER [--workers 2] [--counted] [--turns]
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import counting, numbered, protocol, workloads
from benchmarks.protocol import Turn
from flr import __version__
from flr.core import arrays
from flr.core.contract import MODEL
from flr.engine.memory_allocator import keep_freed_memory
from flr.simulation import api

VERSION = f"flr {__version__}"
_FIRST = f"{MODEL}0."  # the only network


def train(
    folder: Path, workers: int, method: Any, turn: Turn, counts: Path | None = None
) -> dict[str, Any]:
    """The weights after training a prepared workload; a counting network writes to `counts`."""
    facts = protocol.read_workload(folder)
    workload = replace(workloads.get(facts["name"]), clients=facts["clients"])
    config = workload.config(
        folder,
        rounds=facts["rounds"],
        seed=facts["seed"],
        workers=workers,
        method=method,
        model=None if counts is None else counting.as_counted(dict(workload.model), counts),
    )
    out = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
    with numbered.cache_in(folder / "cache") if workload.views else nullcontext():
        done = api.run(config, out=out, on_round=lambda _: turn())
    trained, _ = arrays.load(done.folder / "model.safetensors")
    shutil.rmtree(out)
    return {name.removeprefix(_FIRST): value.numpy() for name, value in trained.items()}


def main() -> None:
    """Reads, trains and prints."""
    parser = protocol.parser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--counted", action="store_true", help="count the steps")
    options = parser.parse_args()
    keep_freed_memory(for_all_threads=True)  # as `flr run` does
    counts = Path(tempfile.mkdtemp(dir=options.folder)) / "counts" if options.counted else None
    ends = protocol.RoundEnds(options.turns)
    weights = train(options.folder, options.workers, "fedavg", ends, counts)
    steps = None if counts is None else counting.counted(counts)["backward"]
    protocol.finish(options.folder, ends, weights, steps, VERSION)


if __name__ == "__main__":
    main()
