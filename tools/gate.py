"""The gate for a refactoring: everything that must not change, recorded from two checkouts.

    python tools/gate.py record ../before before.json     # a checkout of the commit before
    python tools/gate.py record .         after.json      # on the same machine
    python tools/gate.py compare before.json after.json   # exit code 1 where anything differs

Recorded are the model file of every registered method and of ten stacks (digits, four rounds; one
worker, two workers, through Flower's messages), the files of ten scenarios, the resolved config of
every preset, and every number of the committed results. Of `flr` only what both checkouts have is
used: `flr.run`, `flr.config`, and the Flower apps, with a checkout's own tests/contract/direct.py.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STACKS: list[list[Any]] = [
    ["flr", "mixup"],
    ["flr", "dividemix"],
    ["flr", "fedprox"],
    ["flr", "feddyn"],
    ["flr", "gce"],
    ["flr", "ls"],
    ["elr", "fedprox"],
    ["em", "mixup", "feddyn"],
    ["flr", "fedprox", "mixup"],
    ["sce", "fedprox", "em"],
]
VARIANTS: list[Any] = [
    {"name": "flr", "server_predictions": "round", "table_dtype": "float16", "top_k": 3},
    {"name": "fedcorr", "iterations": 1, "inner": "elr"},
]
NOISES: list[Any] = [
    "none",
    {"kind": "symmetric", "clients": 0.8, "floor": 0.0},
    {"kind": "symmetric", "clients": 1.0, "floor": 0.5, "ratio": "bernoulli"},
    {"kind": "asymmetric", "clients": 0.6, "floor": 0.4},
    {"kind": "pair", "clients": 1.0, "floor": 0.3},
]
PARTITIONS: list[Any] = [
    {"kind": "iid", "clients": 6},
    {"kind": "bernoulli-dirichlet", "clients": 6, "p": 0.7, "alpha": 10.0},
    {"kind": "dirichlet", "clients": 6, "alpha": 1.0},
    {"kind": "shards", "clients": 6},
    {"kind": "long-tail", "clients": 6},
]
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
OLD_RESULTS, NEW_RESULTS = Path("docs/results"), Path("results")


def digest(content: bytes | str) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def record(checkout: Path) -> dict[str, Any]:
    """Everything that is compared, by name."""
    import_from(checkout)
    logging.getLogger("flr").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as folder:
        found = dict(models(Path(folder))) | dict(scenarios(Path(folder)))
    return found | dict(presets()) | dict(results(checkout))


def import_from(checkout: Path) -> None:
    """Of this checkout, whichever is installed; worker processes look at the environment."""
    places = [str(checkout / "src"), str(checkout / "tests" / "contract")]
    sys.path[:0] = places
    os.environ["PYTHONPATH"] = os.pathsep.join(places)
    import flr

    if not Path(flr.__file__).is_relative_to(checkout / "src"):
        raise SystemExit(f"Expected flr of {checkout}; got {flr.__file__}.")


def models(folder: Path) -> Iterator[tuple[str, Any]]:
    """Model files by method, worker count and transport."""
    from direct import train_on_flower
    from toys import settings

    import flr

    listed = subprocess.run(
        [sys.executable, "-c", "from flr.cli.main import main; main()", "list", "methods"],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = re.findall(r"^([a-z][a-z+0-9]*)  ", listed, re.M)
    methods: list[Any] = [name for name in names if name != "name"]
    for number, method in enumerate([*methods, *STACKS, *VARIANTS]):
        label = method if isinstance(method, str) else json.dumps(method)
        for workers in (1, 2):
            out = folder / f"{number}-{workers}"
            flr.run(settings(method, workers=workers), out=out)
            yield f"model: {label}, {workers} workers", digest_of_model(out)
        out = folder / f"{number}-flower"
        train_on_flower(settings(method), out, folder / f"{number}-state", 6)
        yield f"model: {label}, on Flower", digest_of_model(out)
        print(label, flush=True)


def digest_of_model(run: Path) -> str:
    return digest((run / "model.safetensors").read_bytes())


def scenarios(folder: Path) -> Iterator[tuple[str, Any]]:
    """Who holds which samples with which labels, for five noises and five partitions."""
    from toys import settings

    import flr

    settled = [(noise, PARTITIONS[0]) for noise in NOISES]
    settled += [(NOISES[1], partition) for partition in PARTITIONS]
    for number, (noise, partition) in enumerate(settled):
        out = folder / f"scenario-{number}"
        changes = {"noise": noise, "partition": partition, "rounds": 1}
        flr.run(settings("fedavg", **changes, data={"train": 600}), out=out)
        label = f"scenario: {json.dumps(noise)}, {json.dumps(partition)}"
        yield label, digest((out / "scenario.safetensors").read_bytes())


def presets() -> Iterator[tuple[str, Any]]:
    """Resolved configs, for each kind of noise that a preset may tune for."""
    from flr import config
    from flr.config import preset

    for name in preset.known():
        for noise in ("none", "symmetric", "asymmetric"):
            for method in ("flr", "fedavg", "elr", "flr+"):
                parsed = config.parse({"preset": name, "noise": noise, "method": method})
                yield f"preset: {name}, {noise}, {method}", digest(parsed.to_toml())


def results(checkout: Path) -> Iterator[tuple[str, Any]]:
    """Every cell, and the numbers in the tables of every page."""
    folder = checkout / (NEW_RESULTS if (checkout / NEW_RESULTS).is_dir() else OLD_RESULTS)
    for cell in cells(folder):
        kept = {key: cell[key] for key in ("hash", "config", "seed", "summary", "curve")}
        yield f"cell: {cell['hash']}", digest(json.dumps(kept, sort_keys=True))
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".csv", ".md", ".tex"):
            name = path.relative_to(folder).as_posix().removeprefix("reproduction/")
            text = path.read_text(encoding="utf-8")
            rows = text.splitlines() if path.suffix != ".md" else tables(text)
            yield f"numbers: {name}", [n for row in rows for n in NUMBER.findall(row)]


def cells(folder: Path) -> Iterator[dict[str, Any]]:
    """One file a run, as it was once, or one line of a table's file; a run may serve several."""
    for path in sorted(folder.rglob("cells/*.json")):
        yield json.loads(path.read_bytes())
    for path in sorted(folder.rglob("cells/*.jsonl")):
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())


def tables(page: str) -> list[str]:
    """The rows of a page's tables without their links, which are no results."""
    return [re.sub(r"\]\([^)]*\)", "]", row) for row in page.splitlines() if row.startswith("|")]


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Prints what differs; how many things do."""
    differing = [name for name in before | after if before.get(name) != after.get(name)]
    for name in differing:
        state = "differs" if name in before and name in after else "is in one of them only"
        print(f"{name}: {state}")
    print(f"{len(before)} things recorded before, {len(after)} after; {len(differing)} differ")
    return len(differing)


def main() -> None:
    match sys.argv[1:]:
        case ["record", checkout, out]:
            found = record(Path(checkout).resolve())
            Path(out).write_text(json.dumps(found, indent=1, sort_keys=True))
            print(f"{len(found)} things recorded in {out}")
        case ["compare", before, after]:
            told = (json.loads(Path(path).read_text()) for path in (before, after))
            sys.exit(compare(*told) > 0)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
