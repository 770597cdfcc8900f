"""Our engine in a process of its own, as a user runs it; prints what an adapter has to print.

python -m flr.bench.ours FOLDER [--workers 2] [--counted] [--turns]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flr import __version__, arrays, session
from flr.bench import counting, workloads
from flr.bench.bare import Turn, at_once, wait_for_turn
from flr.contract import MODEL
from flr.engine.allocator import keep_freed_memory

_FIRST = f"{MODEL}0."  # the only network


def run(
    folder: Path, workers: int, method: Any, *, counts: Path | None = None, turn: Turn = at_once
) -> dict[str, Any]:
    """Trains a prepared workload; `counts` is where a counting network writes."""
    facts = json.loads((folder / "workload.json").read_text())
    workload = replace(workloads.get(facts["name"]), clients=facts["clients"])
    model = None if counts is None else counting.as_counted(dict(workload.model), counts)
    config = workload.config(
        folder,
        rounds=facts["rounds"],
        seed=facts["seed"],
        workers=workers,
        method=method,
        model=model,
    )
    ends: list[float] = []

    def ended(_: dict[str, Any]) -> None:
        ends.append(time.monotonic())
        turn()

    out = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
    done = session.run(config, out=out, on_round=ended)
    trained, _ = arrays.load(done.folder / "model.safetensors")
    weights: dict[str, Any] = {
        name.removeprefix(_FIRST): value.numpy() for name, value in trained.items()
    }
    kept = folder / f"ours-{os.getpid()}.npz"
    np.savez(kept, **weights)
    shutil.rmtree(out)
    return {"ends": ends, "weights": str(kept), "version": f"flr {__version__}"}


def main() -> None:
    """Reads, trains and prints."""
    parser = argparse.ArgumentParser(prog="python -m flr.bench.ours")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--counted", action="store_true")
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    keep_freed_memory()  # as `flr run` does
    counts = options.folder / "counts" if options.counted else None
    if counts is not None:
        counts.unlink(missing_ok=True)
    turn = wait_for_turn if options.turns else at_once
    result = run(options.folder, options.workers, "fedavg", counts=counts, turn=turn)
    if counts is not None:
        result["steps"] = counting.counted(counts)["backward"]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
