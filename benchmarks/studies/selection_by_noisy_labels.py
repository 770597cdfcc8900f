"""A model chosen by noisy held-out labels, against the best and the last: the runs of selection.md.

    export FLR_DATA=...                                   # CIFAR-10, for the features
    python -m benchmarks.studies.selection_by_noisy_labels runs/selection
    python -m benchmarks.studies.selection_by_noisy_labels runs/selection --places digits

Run again, it goes on where it stopped; several at a time share the work. What a finished run has
measured is a line of selection.jsonl, from which the page is made; run folders are deleted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from benchmarks import RESULTS
from benchmarks.studies.common import markdown_table, trained
from flr.config import parse
from flr.core.arrays import write_atomically
from flr.data.dataset import Dataset
from flr.report.paired_runs import estimate
from flr.simulation.api import Run
from flr.simulation.build import load_data

FOUND, PAGE = RESULTS / "selection.jsonl", RESULTS / "selection.md"
METHODS = ("fedavg", "elr", "flr", "gce")
SEEDS = (1, 2, 3, 4, 5)
NOISES: dict[str, dict[str, Any]] = {  # (rho, tau) as in the paper's tables
    "symmetric (0.8, 0.0)": {"kind": "symmetric", "clients": 0.8, "floor": 0.0},
    "symmetric (1.0, 0.5)": {"kind": "symmetric", "clients": 1.0, "floor": 0.5},
    "asymmetric (0.6, 0.4)": {"kind": "asymmetric", "clients": 0.6, "floor": 0.4},
}
PLACES: dict[str, dict[str, Any]] = {
    "digits": {
        "rounds": 40,
        "partition": {"kind": "iid", "clients": 20},
        "train": {"participation": 0.25, "epochs": 5, "batch": 10, "lr": 0.1, "momentum": 0.5},
    },
    "features": {"preset": "features-cifar10"},
}
COMMON: dict[str, Any] = {
    "workers": 1,  # as many runs at a time as there are cores
    "eval": {"memorization_every": 0, "validation": 0.1, "select": "validation"},
}


@dataclass(frozen=True)
class Cell:
    """One run."""

    place: str
    noise: str
    method: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.place}, {self.noise}, {self.method}, {self.seed}"

    def folder(self, root: Path) -> Path:
        kind = "".join(c if c.isalnum() else "-" for c in self.noise)
        return root / f"{self.place}-{kind}-{self.method}-{self.seed}"

    def config(self) -> dict[str, Any]:
        own = {"noise": NOISES[self.noise], "method": self.method, "seed": self.seed}
        return COMMON | PLACES[self.place] | own


def grid(places: Sequence[str] = tuple(PLACES)) -> Iterator[Cell]:
    """One seed of everything comes before the next one."""
    for place, seed, noise, method in product(places, SEEDS, NOISES, METHODS):
        yield Cell(place, noise, method, seed)


def main() -> None:
    """Trains what is missing and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--places", nargs="+", choices=PLACES, default=list(PLACES))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for cell in grid(asked.places):
        folder = cell.folder(asked.folder)
        try:
            with FileLock(asked.folder / f".{folder.name}.lock", timeout=0):
                if cell.name not in known():
                    keep(line_of(cell, folder))
        except Timeout:
            continue  # another process is at it
    with FileLock(FOUND.with_suffix(".lock")):
        write_atomically(PAGE, page(known()))


def line_of(cell: Cell, folder: Path) -> dict[str, Any]:
    """What the page needs of a run, which is trained for it."""
    started = time.monotonic()
    run = trained(folder, cell.config(), samples(cell.place))
    line = {"name": cell.name, **measured(run)}
    print(f"{cell.name}: {line['chosen']:.3f} ({time.monotonic() - started:.0f} s)", flush=True)
    shutil.rmtree(folder)
    return line


@cache
def samples(place: str) -> Dataset:
    """Read once for all runs of a place; features are made, or found in the cache."""
    return load_data(parse(next(grid([place])).config()))


def measured(run: Run) -> dict[str, Any]:
    """The chosen model beside the best and the last."""
    accuracy, chosen = run.summary["accuracy"], run.summary["selection"]
    return {
        "scenario": run.summary["scenario"],
        "chosen": chosen["accuracy"],
        "chosen_round": chosen["round"],
        "score": chosen["score"],
        "best": accuracy["best"],
        "best_round": accuracy["best_round"],
        "last": accuracy["last"],
        "last10": accuracy["last10"],
    }


def keep(line: Mapping[str, Any]) -> None:
    """One more line, whole, also where another process writes at the same time."""
    with FileLock(FOUND.with_suffix(".lock")), FOUND.open("a") as file:
        file.write(json.dumps(line) + "\n")


def known() -> dict[str, dict[str, Any]]:
    """What was found so far; read anew, as another process may add to it."""
    text = FOUND.read_text() if FOUND.exists() else ""
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


def page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A table for each place and noise with a run."""
    parts = [_HEAD.format(runs=len(found), of=len(list(grid())))]
    there = {(cell.place, cell.noise) for cell in grid() if cell.name in found}
    for place, noise in (both for both in product(PLACES, NOISES) if both in there):
        rows = [row(found, place, noise, method) for method in METHODS]
        parts.append(f"## {place}, {noise}\n\n{markdown_table(_COLUMNS, rows)}")
    return "\n".join(parts)


def row(found: Mapping[str, Mapping[str, Any]], place: str, noise: str, method: str) -> list[str]:
    """A method's means and paired differences over the seeds that are there."""
    names = [Cell(place, noise, method, seed).name for seed in SEEDS]
    runs = [found[name] for name in names if name in found]
    means = [_text([100 * run[key] for run in runs]) for key in ("chosen", "best", "last")]
    against = [
        _text([100 * (run["chosen"] - run[key]) for run in runs], "+")
        for key in ("best", "last", "last10")
    ]
    rounds = [_text([run[key] for run in runs], digits=0) for key in ("chosen_round", "best_round")]
    return [f"`{method}`", *means, *against, " / ".join(rounds) if runs else "–"]


def _text(values: Sequence[float], sign: str = "", digits: int = 1) -> str:
    found = estimate(values)
    if found.mean is None:
        return "–"
    half = "" if found.half is None or not digits else f" ± {found.half:.1f}"
    return f"{found.mean:{sign}.{digits}f}{half}"


_COLUMNS = (
    "method",
    "chosen",
    "best by truth",
    "last",
    "chosen − best",
    "chosen − last",
    "chosen − last ten",
    "rounds",
)

_HEAD = """# A model chosen by noisy labels

Every site holds a tenth of its samples out, with labels as they were given, and never trains on
them. After each round all sites count how many of these labels the global model repeats; the round
with the largest share is chosen (`[eval] validation = 0.1, select = "validation"`). "Best by truth"
is the round with the best accuracy on the clean test set, which no federation could know; "last
ten" is the mean over the last ten rounds. Test accuracy in percent, differences in points, mean
over the seeds that are there (five are planned) with the half-width of the 95 % t-interval from two
on; "rounds" are the chosen and the best one, on average. {runs} of {of} runs are there.

Digits: an MLP of pixels, 20 i.i.d. sites, a quarter asked in each of 40 rounds, methods with their
defaults. Features: the preset `features-cifar10` (CIFAR-10 as features of EfficientNet-Lite0, 100
sites, a tenth asked in each of 60 rounds), methods with its options. Made by

```sh
python -m benchmarks.studies.selection_by_noisy_labels runs/selection
```
"""


if __name__ == "__main__":
    main()
