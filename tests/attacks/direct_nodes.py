"""A federation without a network whose nodes die before a file operation, server and all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from direct import DirectGrid, run_config
from faults import before_each_change, die_at, drawn_once
from toys import settings

from flr.flower.server import serve
from flr.simulation.api import Run

NODES = 2
ROUNDS = 2
SMALL: dict[str, Any] = {
    "rounds": ROUNDS,
    "partition": {"kind": "iid", "clients": NODES},
    "data": {"train": 42, "test": 20},
    "train": {"participation": 1.0},
}


def states(folder: Path) -> Path:
    """Has the state-dir of each node, by its number."""
    return folder / "states"


def go_on(folder: Path, method: str) -> Run:
    """Starts the federation of a folder, or resumes it."""
    nodes = {
        k: {"partition-id": k, "state-dir": str(states(folder) / f"{k}")} for k in range(NODES)
    }
    out = folder / "run"
    asked = run_config(settings(method, **SMALL), out)
    if (out / "config.toml").exists():
        asked = {"flower.out": str(out), "flower.resume": True}
    with drawn_once(folder.parent / "pictures"):
        serve(DirectGrid(nodes), asked)
    return Run(out)


def go_on_and_die(folder: Path, method: str, k: int) -> None:
    """In a child: killed before the k-th operation in a state-dir."""
    with before_each_change(states(folder), die_at(k)):
        go_on(folder, method)


def count(folder: Path, method: str) -> int:
    """How many operations the nodes of an undisturbed federation have."""
    seen = [0]

    def note(number: int, what: str) -> None:
        seen[0] = number

    with before_each_change(states(folder), note):
        go_on(folder, method)
    return seen[0]
