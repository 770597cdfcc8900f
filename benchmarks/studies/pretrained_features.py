"""The paper's federation on features of a frozen network: the runs behind features.md.

    python -m benchmarks.studies.pretrained_features runs/features    # finished runs are kept
    python -m benchmarks.studies.pretrained_features runs/features --page results/features.md

Every run is one preset with noise, method and seed: `flr run` with the same settings gives the same
numbers. What a finished run has measured is kept as a line of results/features.jsonl, from
which the page is made; runs that have their line there need not be in the folder any more.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.studies.common import markdown_table, trained
from flr.core.arrays import write_atomically
from flr.report.paired_runs import estimate
from flr.simulation.api import Run

CELLS = Path("results/features.jsonl")
METHODS = ("fedavg", "elr", "gce", "slr", "flr")
UNLIKE: dict[str, Any] = {"partition": {"kind": "dirichlet", "alpha": 1.0}}
COLUMNS: dict[str, tuple[str, str, dict[str, Any]]] = {  # name -> head, preset, settings
    "c10-sym0800": (
        "CIFAR-10, symmetric (0.8, 0.0)",
        "features-cifar10",
        {"noise": {"kind": "symmetric", "clients": 0.8, "floor": 0.0}},
    ),
    "c10-sym1005": (
        "CIFAR-10, symmetric (1.0, 0.5)",
        "features-cifar10",
        {"noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.5}},
    ),
    "c10-asym0604": (
        "CIFAR-10, asymmetric (0.6, 0.4)",
        "features-cifar10",
        {"noise": {"kind": "asymmetric", "clients": 0.6, "floor": 0.4}},
    ),
    "c10-worst": ("CIFAR-10N worst, Dirichlet 1.0", "features-cifar10n", UNLIKE),
    "c10-aggregate": (
        "CIFAR-10N aggregate, Dirichlet 1.0",
        "features-cifar10n",
        UNLIKE | {"noise": {"kind": "human", "labels": "aggregate"}},
    ),
    "c100-sym0800": (
        "CIFAR-100, symmetric (0.8, 0.0)",
        "features-cifar100",
        {"noise": {"kind": "symmetric", "clients": 0.8, "floor": 0.0}},
    ),
    "c100-asym0604": (
        "CIFAR-100, asymmetric (0.6, 0.4)",
        "features-cifar100",
        {"noise": {"kind": "asymmetric", "clients": 0.6, "floor": 0.4}},
    ),
    "c100-human": (
        "CIFAR-100N",
        "features-cifar100",
        {"noise": {"kind": "human", "labels": "noisy"}},
    ),
    "vader": (
        "VADER texts, one rater, four sites",
        "features-text",
        {"noise": {"kind": "human"}, "partition": {"kind": "column"}},
    ),
}
NETWORK = {"name": "mlp", "hidden": 256}  # the presets have a smaller one since
SEEDS = dict.fromkeys(COLUMNS, 3) | {"vader": 5}


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    column: str
    method: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.column}-{self.method}-{self.seed}"

    def config(self) -> dict[str, Any]:
        """One process: as many runs at a time as there are cores."""
        _, preset, settings = COLUMNS[self.column]
        own = {"preset": preset, "method": self.method, "seed": self.seed, "workers": 1}
        return {**own, "train": {"model": NETWORK}, **settings}


def grid() -> Iterator[Cell]:
    """One seed of everything comes before the next one."""
    for seed in range(1, max(SEEDS.values()) + 1):
        for column in (column for column in COLUMNS if seed <= SEEDS[column]):
            for method in METHODS:
                yield Cell(column, method, seed)


def main() -> None:
    """Trains what is missing, or writes the page of what is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--train", action="store_true", help="before the page is written, too")
    parser.add_argument("--lane", type=int, nargs=2, default=(0, 1), metavar=("I", "OF"))
    arguments = parser.parse_args()
    known = read_cells()
    if arguments.page is None or arguments.train:
        lane, lanes = arguments.lane
        missing = [cell for cell in grid() if cell.name not in known]
        for cell in missing[lane::lanes]:
            started = time.monotonic()
            accuracy = trained(arguments.folder / cell.name, cell.config()).summary["accuracy"]
            seconds = time.monotonic() - started
            print(f"{cell.name}: {accuracy['last10']:.3f} ({seconds:.0f} s)", flush=True)
    if arguments.page is not None:
        known |= finished(arguments.folder)
        lines = [json.dumps(known[name], sort_keys=True) for name in sorted(known)]
        write_atomically(CELLS, "\n".join(lines) + "\n")
        write_atomically(arguments.page, page(known))


def read_cells() -> dict[str, dict[str, Any]]:
    """The lines of runs that were finished, by name."""
    text = CELLS.read_text() if CELLS.exists() else ""
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


def finished(folder: Path) -> dict[str, dict[str, Any]]:
    """A line for each run of the grid that is in the folder and has ended."""
    found = {}
    for cell in grid():
        if (folder / cell.name / "summary.json").exists():
            found[cell.name] = line_of(cell.name, trained(folder / cell.name, cell.config()))
    return found


def line_of(name: str, run: Run) -> dict[str, Any]:
    """What the page and later questions need of a run."""
    accuracy, memorized = run.summary["accuracy"], run.summary["memorization"]
    return {
        "name": name,
        "scenario": run.summary["scenario"],
        "best": accuracy["best"],
        "last": accuracy["last"],
        "last10": accuracy["last10"],
        "clients_memorized": memorized["last10"]["client"]["noisy_memorized"],
        "server_memorized": memorized["last10"]["server"]["noisy_memorized"],
        "curve": [line.get("accuracy") for line in run.metrics],
        "seconds": sum(line["seconds"] for line in run.metrics),
    }


def page(known: Mapping[str, Mapping[str, Any]]) -> str:
    """One table for each measure."""
    parts = [_HEAD.format(runs=len(known), of=len(list(grid())))]
    for title, key in _MEASURES.items():
        rows = []
        for column, (head, _, _) in COLUMNS.items():
            seeds = range(1, SEEDS[column] + 1)
            cells = ([Cell(column, m, seed).name for seed in seeds] for m in METHODS)
            values = ([known[name][key] for name in names if name in known] for names in cells)
            rows.append([head, *map(_text, values)])
        heads = ["", *METHODS]
        parts.append(f"## {title}\n\n{markdown_table(heads, rows)}")
    return "\n".join(parts)


def _text(values: Iterable[float]) -> str:
    found = estimate(values)
    if found.mean is None:
        return "–"
    half = "" if found.half is None else f" ± {100 * found.half:.1f}"
    return f"{100 * found.mean:.1f}{half}"


_MEASURES = {
    "Accuracy, mean of the last ten rounds": "last10",
    "Accuracy after the last round": "last",
    "Wrong labels that clients repeat, last ten measured rounds": "clients_memorized",
    "Wrong labels that the server's model repeats, last ten measured rounds": "server_memorized",
    "Best accuracy of any round (chosen on the test set)": "best",
}

_HEAD = """# The paper's federation on features of a frozen network

EfficientNet-Lite0 (ImageNet) at 128 pixels makes 1,280 features of every CIFAR image once; the
clients train an `mlp` of 256 on them. All 50,000 images, 100 clients (CIFAR-100: 50), a tenth asked
in each of 60 rounds, 5 epochs, batch 10, lr 0.03, momentum 0.5; lam is the paper's. i.i.d. unless a
head says otherwise. The texts are features of MiniLM (384), 30 rounds, all four sites in each.
Percent, mean over the seeds that are there (three are planned, of the texts five) with the
half-width of the 95 % t-interval from two on; {runs} of {of} runs are there. Made by

```sh
python -m benchmarks.studies.pretrained_features runs/features --train --page results/features.md
```
"""


if __name__ == "__main__":
    main()
