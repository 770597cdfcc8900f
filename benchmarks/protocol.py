"""What every engine process has in common: its arguments, its turns, its result (see README.md).

Needs NumPy alone, so that engines without torch and without `flr` can use it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Turn = Callable[[], None]  # is called at the end of a round

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def parser() -> argparse.ArgumentParser:
    """The arguments that every engine takes."""
    made = argparse.ArgumentParser()
    made.add_argument("folder", type=Path, help="what benchmarks.prepare has written")
    made.add_argument("--turns", action="store_true", help="wait for a line after each round")
    return made


def read_workload(folder: Path) -> dict[str, Any]:
    """What is to be trained, and how."""
    workload: dict[str, Any] = json.loads((folder / "workload.json").read_text())
    return workload


def write_workload(folder: Path, facts: Mapping[str, Any]) -> None:
    """The other way round."""
    (folder / "workload.json").write_text(json.dumps(facts, indent=2))


class RoundEnds:
    """Notes when each round was over; with `waits` the next one begins when somebody says so."""

    def __init__(self, waits: bool = False) -> None:
        self.waits = waits
        self.times: list[float] = []

    def __call__(self) -> None:
        self.times.append(time.monotonic())
        if self.waits:
            sys.stdout.write("turn\n")
            sys.stdout.flush()
            sys.stdin.readline()


def print_result(ends: RoundEnds, **result: Any) -> None:
    """The last line of an engine."""
    sys.stdout.write(json.dumps({"ends": ends.times, **result}) + "\n")


def finish(
    folder: Path, ends: RoundEnds, weights: Mapping[str, Any], steps: int | None, version: str
) -> None:
    """Keeps the last weights for a comparison, and prints the result."""
    path = folder / f"weights-{os.getpid()}.npz"
    np.savez(path, **weights)
    print_result(ends, steps=steps, weights=str(path), version=version)
