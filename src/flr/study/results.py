"""Finished runs, one line each in `cells/TABLE.jsonl`: enough for every table and picture.

The file is that of the table or figure which the run was trained for. A cell's hash names what
shapes its result: the config without places, devices and workers. So a cell that was trained for
one table serves all others, on another machine too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from flr.config import Config, ConfigEntry
from flr.core import registry
from flr.core.arrays import canonical_json, write_atomically
from flr.core.combine import parts_of
from flr.core.contract import Method
from flr.core.errors import DataError
from flr.methods.shared.wrapper import Wrapper
from flr.report import summary
from flr.report.memorization import KEYS
from flr.report.summary import SIDES
from flr.simulation import run_record
from flr.simulation.api import Run

FORMAT = 1
LARGEST = 20_000  # bytes
MODELS = "models"  # where models of cells are kept, named like them
_HASH = re.compile(rb'"hash": ?"([0-9a-f]{16})"')
_IRRELEVANT = ("workers", "checkpoint_every", "trackers", "min_replies", "bits")


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
    for name in _IRRELEVANT:
        tree.pop(name, None)
    for name in ("device", "devices"):
        tree["train"].pop(name, None)
    for kind, entry in (("data", config.data.source), ("noise", config.noise)):
        # files that are the same wherever they lie can be found without a path
        path = inspect.signature(_factory(entry)).parameters.get("path")
        if path is not None and path.default is None:
            tree.get(kind, {}).pop("path", None)
    if config.train.init is not None:
        tree["train"]["init"] = _content(config.train.init)
    methods = tree["method"] if isinstance(tree["method"], list) else [tree["method"]]
    for entry, method in zip(config.method, methods, strict=True):
        # options marked "later" came after cells had been kept: unused, they do not rename them
        factory = _factory(entry)
        for field in dataclasses.fields(factory) if dataclasses.is_dataclass(factory) else ():
            later = "later" in field.metadata and isinstance(method, dict)
            if later and method.get(field.name) == field.default:
                del method[field.name]
    return tree


def _factory(entry: ConfigEntry) -> Any:
    return registry.get(entry.kind, entry.name).factory


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


def lock(folder: Path, name: str) -> FileLock:
    """A lock among all processes that work in a folder."""
    locks = folder / "runs" / ".locks"
    locks.mkdir(parents=True, exist_ok=True)
    return FileLock(locks / name)


def names(folder: Path) -> list[str]:
    """The hashes of all cells."""
    return sorted({name for _, lines in _files(folder) for name in lines if name})


def _first(places: list[str], shown: int = 3) -> str:
    more = f" and {len(places) - shown} more" if len(places) > shown else ""
    return ", ".join(places[:shown]) + more


def read(folder: Path, name: str) -> Cell | None:
    """A finished cell, or None where there is none yet."""
    nameless = []
    for path, lines in _files(folder):
        if name in lines:
            return _parsed(name, lines[name][0][1], f"line {lines[name][0][0]} of {path}")
        nameless += [f"line {number} of {path}" for number, _ in lines.get("", ())]
    if nameless:
        raise DataError(
            f"Expected cells written by flr; {_first(nameless)} cannot be read and may be the "
            f"cell {name}. Delete the line to train it again, or take another copy."
        )
    return None


def _parsed(name: str, line: bytes, where: str) -> Cell:
    problem = "it is another one or lacks parts"
    try:
        cell = Cell(name, json.loads(line))
        fits = (cell.content["format"], cell.content["hash"]) == (FORMAT, name)
        noise = {"per_client": None, **cell.summary["noise"]}
        if fits and cell.curve and summary.complete({**cell.summary, "noise": noise}):
            return cell
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"it cannot be read ({error})"
    raise DataError(
        f"Expected the whole cell {name} of format {FORMAT} in {where}; {problem}. "
        "Delete the line to train it again, or take another copy."
    )


Lines = Mapping[str, Sequence[tuple[int, bytes]]]  # hash -> number and text; "" where none is said


def _files(folder: Path) -> Iterator[tuple[Path, Lines]]:
    """Files of cells with their lines; those named HASH.json are of earlier versions."""
    for path in sorted((folder / "cells").glob("*")):
        if path.suffix in (".jsonl", ".json"):
            found = path.stat()
            yield path, _lines(path, found.st_ino, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=40)  # a file that grows is another one each time
def _lines(path: Path, _inode: int, _changed: int, _size: int) -> Lines:
    """Read again only when another process has changed the file."""
    lines: dict[str, list[tuple[int, bytes]]] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if line.strip():
            lines.setdefault(_name(line), []).append((number, line))
    return lines


def _name(line: bytes) -> str:
    found = _HASH.search(line)
    return found[1].decode() if found else ""


def write(folder: Path, table: str, run: Run) -> Cell:
    """Keeps what tables and pictures need of a finished run, in the file of a table."""
    name = hash_of(run.config)
    noise = {key: value for key, value in run.summary["noise"].items() if key != "per_client"}
    content = {
        "format": FORMAT,
        "hash": name,
        "config": identity(run.config),
        "seed": run.config.seed,
        "summary": _rounded({**_small(run.summary), "noise": noise}),
        "curve": _curve(run.metrics),
        "revision": revision(),
        "revisions": revisions(run.config.build_method()),
        "made_with": run_record.made_with(run.config),
        "made": datetime.now(UTC).date().isoformat(),
    }
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    if len(text) > LARGEST:
        raise DataError(
            f"Expected a cell of at most {LARGEST:,} bytes for {run.folder}; got {len(text):,}. "
            "Measure less often: raise [eval] every."
        )
    add(folder, table, [text.encode()])
    return Cell(name, json.loads(text))


def _small(found: Mapping[str, Any]) -> dict[str, Any]:
    """A summary without the metrics of single sites, which may be a thousand."""
    if "metrics" not in found:
        return dict(found)
    metrics = {
        name: {key: value for key, value in both.items() if not isinstance(value, list)}
        for name, both in found["metrics"].items()
    }
    return {**found, "metrics": metrics}


def add(folder: Path, table: str, lines: Sequence[bytes]) -> None:
    """Adds lines to a table's file, sorted by hash; what stands there stays, readable or not."""
    path = folder / "cells" / f"{table}.jsonl"
    with lock(folder, path.name):
        there = path.read_bytes().splitlines() if path.exists() else []
        write_atomically(path, b"\n".join([*sorted([*there, *lines], key=_name), b""]))


def _curve(metrics: Sequence[Mapping[str, Any]]) -> Any:
    tested = _thinned([m for m in metrics if m.get("accuracy") is not None], 200)
    measured = _thinned([m for m in metrics if "memorization" in m], 40)
    curve = {"accuracy": [[m["round"], m["accuracy"]] for m in tested]}
    for side in SIDES:
        shares = ((m["round"], m["memorization"][side]) for m in measured)
        curve[side] = [[number, *(share[key] for key in KEYS)] for number, share in shares]
    return _rounded(curve)


def _thinned(lines: Sequence[Any], most: int) -> Sequence[Any]:
    """At most so many, evenly spread from the first to the last."""
    if len(lines) <= most:
        return lines
    return [lines[round(i * (len(lines) - 1) / (most - 1))] for i in range(most)]


def _rounded(value: Any) -> Any:
    """Four decimals: a hundredth of a percent."""
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def stale(cell: Cell, config: Config) -> bool:
    """Whether a method has a later revision than at the run, so that a new run would differ."""
    kept = cell.content.get("revisions")
    then = kept if isinstance(kept, Mapping) else {}
    now = revisions(config.build_method())
    return any(not isinstance(then.get(name), int) or then[name] < now[name] for name in now)


def revisions(method: Method) -> dict[str, int]:
    """The revision of every part of a method, and of those inside another, by class."""
    found = {}
    for part in parts_of(method):
        found[type(part).__name__] = part.traits.revision
        found |= revisions(part.part) if isinstance(part, Wrapper) else {}
    return found


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
