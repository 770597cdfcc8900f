"""One run in one small file, `cells/<hash>.json`: enough for every table and picture.

The hash names what shapes a result: the config without places, devices and workers. So a cell that
was trained for one table serves another, on another machine too.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from flr.arrays import canonical_json, write_atomically
from flr.config import Config
from flr.contract import Method
from flr.errors import DataError
from flr.inside import Around
from flr.report.memorization import KEYS
from flr.session import Run
from flr.stack import parts_of

FORMAT = 1
LARGEST = 20_000  # bytes
_POINTS = {"accuracy": 200, "memorization": 40}  # kept, evenly spread from first to last
_SIDES = ("server", "client", "client_noisy")


@dataclass(frozen=True)
class Cell:
    """What was kept of a finished run."""

    hash: str
    content: Mapping[str, Any]

    @property
    def summary(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.content["summary"]
        return found

    @property
    def stale(self) -> bool:
        """Whether a method's file has changed since, so that a new run might differ."""
        then: Mapping[str, str] = self.content["sources"]
        return any(_source(module) != digest for module, digest in then.items())

    @property
    def curve(self) -> list[dict[str, Any]]:
        """Lines like those of metrics.jsonl."""
        lines: dict[int, dict[str, Any]] = {}
        for number, value in self.content["curve"]["accuracy"]:
            lines.setdefault(number, {"round": number})["accuracy"] = value
        for side in _SIDES:
            for number, *values in self.content["curve"][side]:
                line = lines.setdefault(number, {"round": number})
                line.setdefault("memorization", {})[side] = dict(zip(KEYS, values, strict=True))
        return [lines[number] for number in sorted(lines)]


def identity(config: Config) -> dict[str, Any]:
    """The config without what cannot change a result."""
    tree = tomllib.loads(config.to_toml())
    for name in ("workers", "checkpoint_every", "trackers", "min_replies"):
        tree.pop(name, None)
    tree["train"].pop("device", None)
    for section in ("data", "noise"):
        tree.get(section, {}).pop("path", None)
    if "init" in tree["train"]:  # a file that is named after its own content
        tree["train"]["init"] = Path(tree["train"]["init"]).name
    return tree


def hash_of(config: Config) -> str:
    """The name of a config's cell."""
    return hashlib.sha256(canonical_json(identity(config)).encode()).hexdigest()[:16]


def path_of(folder: Path, name: str) -> Path:
    """Where a cell lies."""
    return folder / "cells" / f"{name}.json"


def read(folder: Path, name: str) -> Cell | None:
    """A finished cell, or None where there is none yet."""
    path = path_of(folder, name)
    try:
        content = json.loads(path.read_bytes())
        fits = content["format"] == FORMAT and content["hash"] == name
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"Expected a cell written by flr at {path}; it cannot be read ({error}). "
            "Delete the file to train it again, or take another copy."
        ) from None
    if not fits:
        raise DataError(
            f"Expected cell {name} of format {FORMAT} at {path}; it is another one. "
            "Delete the file to train it again."
        )
    return Cell(name, content)


def write(folder: Path, run: Run) -> Cell:
    """Keeps what tables and pictures need of a finished run."""
    name = hash_of(run.config)
    content = {
        "format": FORMAT,
        "hash": name,
        "config": identity(run.config),
        "seed": run.config.seed,
        "summary": _short(run.summary),
        "curve": _curve(run.metrics),
        "revision": revision(),
        "sources": {m: _source(m) for m in _modules(run.config.build_method())},
        "torch": torch.__version__,
        "made": datetime.now(UTC).date().isoformat(),
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    if len(text) > LARGEST:
        raise DataError(
            f"Expected a cell of at most {LARGEST:,} bytes for {run.folder}; got {len(text):,}. "
            "Measure less often: raise [eval] every."
        )
    write_atomically(path_of(folder, name), text + "\n")
    return Cell(name, json.loads(text))


def _short(summary: Mapping[str, Any]) -> dict[str, Any]:
    noise = {key: value for key, value in summary["noise"].items() if key != "per_client"}
    rounded: dict[str, Any] = _rounded({**summary, "noise": noise})
    return rounded


def _curve(metrics: Sequence[Mapping[str, Any]]) -> dict[str, list[list[Any]]]:
    tested = _thinned([m for m in metrics if m.get("accuracy") is not None], "accuracy")
    curve = {"accuracy": [[m["round"], m["accuracy"]] for m in tested]}
    measured = _thinned([m for m in metrics if "memorization" in m], "memorization")
    for side in _SIDES:
        curve[side] = [
            [m["round"], *(m["memorization"][side][key] for key in KEYS)] for m in measured
        ]
    rounded: dict[str, list[list[Any]]] = _rounded(curve)
    return rounded


def _thinned(lines: Sequence[Any], what: str) -> list[Any]:
    """At most so many, evenly spread from the first to the last."""
    most = _POINTS[what]
    if len(lines) <= most:
        return list(lines)
    return [lines[round(i * (len(lines) - 1) / (most - 1))] for i in range(most)]


def _rounded(value: Any) -> Any:
    """Four decimals: a hundredth of a percent."""
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def _modules(method: Method) -> list[str]:
    """The modules of a method, of its parts, and of those inside another."""
    found = set()
    for part in parts_of(method):
        found.add(type(part).__module__)
        if isinstance(part, Around):
            found |= set(_modules(part.part))
    return sorted(found)


@cache
def _source(module: str) -> str:
    """A digest of a module's file."""
    source = inspect.getsource(importlib.import_module(module))
    return hashlib.sha256(source.encode()).hexdigest()[:16]


@cache
def revision() -> str:
    """The commit of a checkout, with a plus where files differ from it; else the version."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return version("flr")
    return found.stdout.strip()
