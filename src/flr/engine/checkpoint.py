"""Where a run can go on from: safetensors and JSON, the old one kept until the new is whole."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

from flr.core import arrays
from flr.core.arrays import Arrays, canonical_json, write_atomically
from flr.core.contract import Server
from flr.core.errors import DataError

log = logging.getLogger("flr")

KEPT = 2  # the newest, and one to fall back on


@dataclass(frozen=True)
class Checkpoint:
    """The server after a step, and which version of each site's state it has accepted."""

    step: int
    round: int
    arrays: Arrays
    state: Arrays
    versions: dict[int, int]

    @classmethod
    def of(cls, server: Server, versions: dict[int, int]) -> Checkpoint:
        return cls(
            server.step, server.round, dict(server.arrays), dict(server.state), dict(versions)
        )

    def restore(self, server: Server) -> None:
        """Puts a fresh server into this state."""
        server.step, server.round = self.step, self.round
        server.arrays, server.state = dict(self.arrays), dict(self.state)


def save(folder: Path, point: Checkpoint) -> None:
    """Writes the tensors, then the JSON that vouches for them: without it they do not count."""
    named = {f"arrays.{k}": v for k, v in point.arrays.items()}
    named |= {f"state.{k}": v for k, v in point.state.items()}
    tensors = arrays.pack(named)
    facts = {
        "step": point.step,
        "round": point.round,
        "versions": {str(site): step for site, step in sorted(point.versions.items())},
        "sha256": hashlib.sha256(tensors).hexdigest(),
    }
    write_atomically(folder / f"{point.step}.safetensors", tensors, sync=True)
    write_atomically(folder / f"{point.step}.json", canonical_json(facts), sync=True)
    keep_only(folder, set(sorted(_steps(folder))[-KEPT:]))


def keep_only(folder: Path, steps: set[int]) -> None:
    """Deletes the other checkpoints, damaged ones and what a kill left half-written."""
    for path in folder.glob("*"):
        if path.is_file() and not (path.stem.isdigit() and int(path.stem) in steps):
            path.unlink()


def load_all(folder: Path) -> list[Checkpoint]:
    """Every whole checkpoint, newest first; a damaged one is named in the log and passed over."""
    found = []
    for step in sorted(_steps(folder), reverse=True):
        try:
            found.append(_load(folder, step))
        except (DataError, OSError, ValueError, KeyError, TypeError) as error:
            log.warning("checkpoint %s is damaged (%s); going on from the one before", step, error)
    return found


def _load(folder: Path, step: int) -> Checkpoint:
    facts = json.loads((folder / f"{step}.json").read_text())
    path = folder / f"{step}.safetensors"
    if hashlib.sha256(path.read_bytes()).hexdigest() != facts["sha256"]:
        raise DataError(f"{path.name} is not what {step}.json vouches for")
    named, _ = arrays.load(path)
    return Checkpoint(
        step=int(facts["step"]),
        round=int(facts["round"]),
        arrays={k.removeprefix("arrays."): v for k, v in named.items() if k.startswith("arrays.")},
        state={k.removeprefix("state."): v for k, v in named.items() if k.startswith("state.")},
        versions={int(site): int(version) for site, version in facts["versions"].items()},
    )


def _steps(folder: Path) -> list[int]:
    return [int(path.stem) for path in folder.glob("*.json") if path.stem.isdigit()]
