"""Where a run can go on from: safetensors and JSON, the old one kept until the new is whole."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flr.core import arrays, seal
from flr.core.arrays import Arrays, sync_to_disk, write_atomically
from flr.core.contract import Server
from flr.core.errors import DataError

log = logging.getLogger("flr")

KEPT = 2  # the newest, and one to fall back on
FORMAT = 2
_OLD_KEYS = {"step", "round", "versions", "sha256"}  # of format 1, which had no digest of its own

# a checkpoint's files, and what a kill leaves of them: nothing else is ever deleted
_OURS = re.compile(r"([0-9]+)\.(?:safetensors|json)")
_HALF_WRITTEN = re.compile(r"\.[0-9]+\.(?:safetensors|json)\.\w+")


@dataclass(frozen=True)
class Checkpoint:
    """The server after a step, and which version of each site's state it has accepted."""

    step: int
    round: int
    arrays: Arrays
    state: Arrays
    versions: dict[int, int]
    digests: dict[int, str] = field(default_factory=dict)  # of those versions
    sizes: dict[str, int] = field(default_factory=dict)  # of the files that record the rounds
    records: dict[str, str] = field(default_factory=dict)  # digests of so many of their bytes

    @classmethod
    def of(
        cls,
        server: Server,
        versions: Mapping[int, int],
        digests: Mapping[int, str] | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> Checkpoint:
        return cls(
            server.step,
            server.round,
            dict(server.arrays),
            dict(server.state),
            dict(versions),
            dict(digests or {}),
            dict(sizes or {}),
        )

    def restore(self, server: Server) -> None:
        """Puts a fresh server into this state."""
        server.step, server.round = self.step, self.round
        server.arrays, server.state = dict(self.arrays), dict(self.state)


def save(folder: Path, point: Checkpoint) -> None:
    """Writes the tensors, then the JSON that vouches for them and itself: alone they are nothing.

    The states and the record of the rounds, for which it vouches too, are on disk already.
    """
    named = {f"arrays.{k}": v for k, v in point.arrays.items()}
    named |= {f"state.{k}": v for k, v in point.state.items()}
    tensors = arrays.pack(named)
    facts = {
        "format": FORMAT,
        "step": point.step,
        "round": point.round,
        "versions": _by_text(point.versions),
        "digests": _by_text(point.digests),
        "sizes": point.sizes,
        "records": {n: seal.digest_of(folder.parent / n, s) for n, s in point.sizes.items()},
        "sha256": seal.sha256(tensors),
    }
    write_atomically(folder / f"{point.step}.safetensors", tensors, sync=True)
    write_atomically(folder / f"{point.step}.json", seal.signed(facts), sync=True)
    sync_to_disk(folder.parent)  # a state may have made the folder, and states are not synced there
    keep_only(folder, set(sorted(_steps(folder))[-KEPT:]))


def keep_only(folder: Path, steps: set[int]) -> None:
    """Deletes the other checkpoints, damaged ones and what a kill left half-written.

    Files that we have not made stay, and so does whatever lies behind a link.
    """
    for path in () if folder.is_symlink() else folder.glob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        found = _OURS.fullmatch(path.name)
        if (found and int(found[1]) not in steps) or _HALF_WRITTEN.fullmatch(path.name):
            path.unlink()


def refuse_links(folder: Path) -> None:
    """Old checkpoints and states are replaced and deleted, so their folders must be our own."""
    for path in (folder, folder / "state", *(folder / "state").glob("*")):
        if path.is_symlink():
            raise DataError(
                f"Expected a folder of the run's own at {path}; it is a link to "
                f"{path.resolve()}, where flr would replace and delete files. Move what is there "
                "into its place, or link the whole run folder instead."
            )


def load_all(folder: Path) -> list[Checkpoint]:
    """Every whole checkpoint, newest first; a damaged one is named in the log and passed over."""
    found = []
    for step in sorted(_steps(folder), reverse=True):
        try:
            found.append(_load(folder, step))
        except (DataError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("checkpoint %s is damaged (%s); going on from the one before", step, error)
    return found


def damaged_record(folder: Path, point: Checkpoint) -> str:
    """Which file does not record the rounds as it did when the checkpoint was made; mostly none."""
    for name, size in point.sizes.items():
        path = folder.parent / name
        if not path.is_file() or seal.digest_of(path, size) != point.records[name]:
            return name
    return ""


def _load(folder: Path, step: int) -> Checkpoint:
    facts = _facts(folder / f"{step}.json")
    path = folder / f"{step}.safetensors"
    if seal.digest_of(path) != facts["sha256"]:
        raise DataError(f"{path.name} is not what {step}.json vouches for")
    if facts["step"] != step:
        raise DataError(f"{step}.json is about step {facts['step']}")
    named, _ = arrays.load(path)
    return Checkpoint(
        step=step,
        round=int(facts["round"]),
        arrays={k.removeprefix("arrays."): v for k, v in named.items() if k.startswith("arrays.")},
        state={k.removeprefix("state."): v for k, v in named.items() if k.startswith("state.")},
        versions={int(site): int(version) for site, version in facts["versions"].items()},
        digests={int(site): str(digest) for site, digest in facts["digests"].items()},
        sizes={str(name): int(size) for name, size in facts["sizes"].items()},
        records={str(name): str(digest) for name, digest in facts["records"].items()},
    )


def _facts(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself; one of format 1 says less."""
    text = path.read_text()
    old = seal.unverified(text)
    if old.keys() == _OLD_KEYS:
        log.warning(
            "checkpoint %s was made by an older version of flr, without digests of states and "
            "metrics; used without checking them",
            path.stem,
        )
        return {**old, "digests": {}, "sizes": {}, "records": {}}
    facts = seal.unsigned(text)
    if facts["format"] != FORMAT:
        raise DataError(f"its format is {facts['format']}, this version reads {FORMAT}")
    return facts


def _by_text(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(site): value for site, value in sorted(values.items())}


def _steps(folder: Path) -> list[int]:
    names = (_OURS.fullmatch(path.name) for path in folder.glob("*.json"))
    return [int(found[1]) for found in names if found]
