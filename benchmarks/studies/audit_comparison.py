"""The label audit against cleanlab on real and drawn noise: the cells behind audit.md.

    export FLR_DATA=...                                         # CIFAR-10 and CIFAR-10N
    python -m benchmarks.studies.audit_comparison runs/audit    # finished runs and cells are kept
    python -m benchmarks.studies.audit_comparison --write       # audit.md again, from the cells

A cell is one row (kind of noise) with one seed: six trained federations, scored against the truth.
The truth is seen by this report alone; the scorer's constants were chosen with seed 0, which has
the same images and human labels (docs/explanation/label-audit.md). To score again what was trained,
delete the cell and keep the run folders.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.studies import audit_page
from benchmarks.studies.audit_arms import Predictions, compare, provenance, sites_of
from benchmarks.studies.common import trained
from flr.config import parse
from flr.core import seeds
from flr.core.arrays import write_atomically
from flr.data.dataset import Dataset, Ragged
from flr.scenario import scenario as scenarios
from flr.scenario.scenario import Scenario
from flr.scenario.truth import Truth
from flr.simulation.api import Run
from flr.simulation.build import load_data

CELLS, PAGE = RESULTS / "audit-cells", RESULTS / "audit.md"
NOISES: dict[str, dict[str, Any]] = {  # drawn ones: as in the paper
    "worst": {"kind": "human", "labels": "worst"},
    "aggregate": {"kind": "human", "labels": "aggregate"},
    "symmetric": {"kind": "symmetric", "clients": 1.0, "floor": 0.0},
    "asymmetric": {"kind": "asymmetric", "clients": 0.6, "floor": 0.4},
}
SETTING: dict[str, Any] = {
    "preset": "laptop-cifar10",
    "data": {"name": "cifar10"},
    "partition": {"kind": "bernoulli-dirichlet", "p": 1.0, "alpha": 1.0},
    "workers": 2,
}
SEEDS = (1, 2, 3)
ROUNDS = 50
FOLDS = 3
METHODS: dict[str, Any] = {"flr": {"name": "flr", "lam": 2.0}}  # the paper's lam
RUNS = ("fedavg", "third", *(f"fold-{fold}" for fold in range(FOLDS)), "flr")


@dataclass(frozen=True)
class CellSpec:
    """One cell, and where its runs lie."""

    row: str
    seed: int
    rounds: int
    folder: Path

    def config(self, method: str, rounds: int | None = None) -> dict[str, Any]:
        """Accuracy is measured in the last rounds only, and what was memorized never."""
        rounds = rounds or self.rounds
        looks = {"every": rounds, "memorization_every": 0}
        named = METHODS.get(method, method)
        own = {"seed": self.seed, "rounds": rounds, "method": named, "noise": NOISES[self.row]}
        return SETTING | own | {"eval": looks}


def main() -> None:
    """Does what is not there yet, cell by cell, seed after seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/audit"))
    parser.add_argument("--rows", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--plan", action="store_true", help="only say what there is to do")
    parser.add_argument("--write", action="store_true", help="only write the page again")
    asked = parser.parse_args()
    jobs = [
        CellSpec(row, seed, asked.rounds, asked.folder / f"{row}-{seed}")
        for seed in asked.seeds
        for row in asked.rows
    ]
    missing = [job for job in jobs if not path_of(asked.cells, job).exists()]
    if asked.plan:
        return say(plan(missing, audit_page.read(asked.cells)))
    for job in [] if asked.write else missing:
        cell = work(job)
        write_atomically(path_of(asked.cells, job), json.dumps(cell, separators=(",", ":")) + "\n")
        say(f"{job.row}, seed {job.seed}: {sum(cell['seconds'].values()):.0f} s")
    return write_atomically(asked.page, audit_page.page(audit_page.read(asked.cells)))


def say(text: str) -> None:
    """For whoever watches."""
    print(text, flush=True)


def path_of(cells: Path, job: CellSpec) -> Path:
    """Where a cell is kept."""
    return cells / f"{job.row}-{job.seed}.json"


def plan(missing: list[CellSpec], done: list[dict[str, Any]]) -> str:
    """What is to be trained, and how long it will take by what the finished cells took."""
    lines = []
    for job in missing:
        left = [name for name in RUNS if not (job.folder / name / "summary.json").exists()]
        lines.append(f"{job.row}, seed {job.seed}: {', '.join(left) or 'scores only'}")
    if done and missing:
        each = sum(sum(cell["seconds"].values()) for cell in done) / len(done)
        lines.append(f"about {each * len(missing) / 60:.0f} minutes")
    return "\n".join(lines) or "nothing is left to do"


def work(job: CellSpec) -> dict[str, Any]:
    """Trains, scores, and compares with the truth."""
    dataset = images()
    runs = train(job, dataset)
    scenario = scenarios.load(job.folder / "flr" / "scenario.safetensors")
    begun = time.monotonic()
    arms = compare(predictions(job, dataset, scenario), Truth.of(scenario, dataset), job.seed)
    trained = {name: float(run.summary["seconds"]) for name, run in runs.items()}
    return {
        "format": audit_page.FORMAT,
        "row": job.row,
        "seed": job.seed,
        "rounds": job.rounds,
        "third": third(job),
        "scenario": scenario.hash,
        "accuracy": {name: run.summary["accuracy"]["last"] for name, run in runs.items()},
        "arms": audit_page.rounded(arms),
        "seconds": audit_page.rounded({**trained, "scores": time.monotonic() - begun}),
        "versions": {name: version(name) for name in ("torch", "cleanlab", "scikit-learn")},
        **provenance(),
    }


@cache
def images() -> Dataset:
    """The same part of CIFAR-10 for every cell."""
    return load_data(parse(SETTING | {"method": "fedavg"}))


def third(job: CellSpec) -> int:
    """Where FedAvg is stopped early: a third of the rounds, whatever the truth says."""
    return max(round(job.rounds / 3), 1)


def train(job: CellSpec, dataset: Dataset) -> dict[str, Run]:
    """Six runs, in the same scenario; those for out-of-sample predictions lack a fold each."""
    done = {
        "fedavg": trained(job.folder / "fedavg", job.config("fedavg"), dataset),
        "third": trained(job.folder / "third", job.config("fedavg", third(job)), dataset),
    }
    scenario = scenarios.load(job.folder / "fedavg" / "scenario.safetensors")
    for fold in range(FOLDS):
        path = job.folder / f"without-{fold}.safetensors"
        without(scenario, folds(scenario, job.seed) == fold).save(path)
        config = job.config("fedavg")
        del config["partition"], config["noise"]
        name = f"fold-{fold}"
        done[name] = trained(job.folder / name, config | {"scenario": {"path": str(path)}}, dataset)
    done["flr"] = trained(job.folder / "flr", job.config("flr"), dataset)
    return done


def folds(scenario: Scenario, seed: int) -> Tensor:
    """A fold for each sample: at each site, each given class is dealt out in turn."""
    parts = []
    for site, given in enumerate(scenario.given):
        shuffled = torch.randperm(len(given), generator=seeds.generator(seed, "folds", site))
        by_class = shuffled[given[shuffled].argsort(stable=True)]
        fold = torch.empty_like(given)
        fold[by_class] = torch.arange(len(given)) % FOLDS
        parts.append(fold)
    return torch.cat(parts)


def without(scenario: Scenario, out: Tensor) -> Scenario:
    """The same sites without some of their samples."""
    sizes = torch.stack([(~part).sum() for part in out.split(scenario.sizes.tolist())])
    index, given = scenario.index[~out], scenario.labels[~out]
    return replace(scenario, sites=Ragged(index, sizes), given=Ragged(given, sizes))


def predictions(job: CellSpec, dataset: Dataset, scenario: Scenario) -> Predictions:
    """What every trained model says of every sample, and what FLR's sites have besides."""
    x, fold = dataset.train.inputs[scenario.index], folds(scenario, job.seed)
    outside = torch.empty(len(x), scenario.classes)
    for number in range(FOLDS):
        model = Run(job.folder / f"fold-{number}").model()
        outside[fold == number] = model.probabilities(x[fold == number])
    return Predictions(
        flr=sites_of(job.folder / "flr", dataset),
        fedavg=sites_of(job.folder / "fedavg", dataset),
        early=Run(job.folder / "third").model().probabilities(x),
        outside=outside,
    )


if __name__ == "__main__":
    main()
