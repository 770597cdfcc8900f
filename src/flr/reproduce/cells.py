"""One run in one small file, `cells/<hash>.json`: enough for every table and picture.

The hash names what shapes a result: the config without places, devices and workers. So a cell that
was trained for one table serves another, on another machine too.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from flr import registry
from flr.arrays import canonical_json, write_atomically
from flr.config import Choice, Config
from flr.contract import Method
from flr.errors import DataError
from flr.inside import Around
from flr.report import summary
from flr.report.memorization import KEYS
from flr.report.summary import SIDES
from flr.session import Run
from flr.stack import parts_of

FORMAT = 1
LARGEST = 20_000  # bytes
LATER = {"server_predictions": "batch", "table_dtype": "float32"}  # see `_as_first_named`
MODELS = "models"  # where models of cells are kept, named like them
_POINTS = {"accuracy": 200, "memorization": 40}  # kept, evenly spread from first to last


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
    def curve(self) -> list[dict[str, Any]]:
        """Lines like those of metrics.jsonl."""
        lines: dict[int, dict[str, Any]] = {}
        for number, value in self.content["curve"]["accuracy"]:
            lines.setdefault(number, {"round": number})["accuracy"] = value
        for side in SIDES:
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
    for kind, choice in (("data", config.data.source), ("noise", config.noise)):
        if _published(choice):
            tree.get(kind, {}).pop("path", None)
    if config.train.init is not None:
        tree["train"]["init"] = _content(config.train.init)
    methods = tree["method"] if isinstance(tree["method"], list) else [tree["method"]]
    for method in methods:
        _as_first_named(method)
    return tree


def _as_first_named(method: str | dict[str, Any]) -> None:
    """Takes out options that came after cells were kept, where they change nothing."""
    for name, value in LATER.items():
        if isinstance(method, dict) and method.get(name) == value:
            del method[name]


def _published(choice: Choice) -> bool:
    """Whether the files are the same wherever they lie: then they can be found without a path."""
    factory = registry.get(choice.kind, choice.name).factory
    path = inspect.signature(factory).parameters.get("path")
    return path is not None and path.default is None


def _content(path: Path) -> str:
    """A model of a cell by its name, which says how it was trained; any other file by its bytes."""
    if path.parent.name == MODELS and re.fullmatch(r"[0-9a-f]{16}", path.stem):
        return path.name
    if not path.is_file():  # said when the run begins
        return str(path)
    found = path.stat()
    return _digest(path, found.st_mtime_ns, found.st_size)


@cache
def _digest(path: Path, _changed: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        cell = Cell(name, json.loads(path.read_bytes()))
        fits = (cell.content["format"], cell.content["hash"]) == (FORMAT, name)
        noise = {"per_client": None, **cell.summary["noise"]}
        complete = fits and cell.curve and summary.complete({**cell.summary, "noise": noise})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"Expected a cell written by flr at {path}; it cannot be read ({error}). "
            "Delete the file to train it again, or take another copy."
        ) from None
    if not complete:
        raise DataError(
            f"Expected the whole cell {name} of format {FORMAT} at {path}; it is another one or "
            "lacks parts. Delete the file to train it again, or take another copy."
        )
    return cell


def stale(cell: Cell, config: Config) -> bool:
    """Whether a file of the method has changed since, so that a new run might differ.

    Its own files have to be named in the cell; of what they use, those that are named count.
    """
    now, then = sources(config), cell.content.get("sources")
    if not isinstance(then, Mapping):
        return True
    own = _modules(config.build_method())
    return any(then.get(m, None if m in own else now[m]) != now[m] for m in now)


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
        "sources": sources(run.config),
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


def _short(whole: Mapping[str, Any]) -> dict[str, Any]:
    noise = {key: value for key, value in whole["noise"].items() if key != "per_client"}
    rounded: dict[str, Any] = _rounded({**whole, "noise": noise})
    return rounded


def _curve(metrics: Sequence[Mapping[str, Any]]) -> dict[str, list[list[Any]]]:
    tested = _thinned([m for m in metrics if m.get("accuracy") is not None], "accuracy")
    curve = {"accuracy": [[m["round"], m["accuracy"]] for m in tested]}
    measured = _thinned([m for m in metrics if "memorization" in m], "memorization")
    for side in SIDES:
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


def sources(config: Config) -> dict[str, str]:
    """A digest of each file of the method, and of what these use from flr/client."""
    own = _modules(config.build_method())
    return {module: _source(module) for module in sorted({*own, *_helpers(own)})}


def _helpers(modules: Iterable[str]) -> set[str]:
    used = [value for m in modules for value in vars(importlib.import_module(m)).values()]
    names = {str(getattr(value, "__module__", "")) for value in used}
    return {name for name in names if name.startswith("flr.client.")}


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
    root = Path(__file__).parents[3]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--exclude=*"]
    if not (root / ".git").exists():  # installed, perhaps below somebody else's repository
        return version("flr")
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return version("flr")
    return found.stdout.strip()
