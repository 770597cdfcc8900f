"""The audit at sites of a federation of 100 on features, beside all that its users know.

    export FLR_DATA=...                                             # CIFAR-10 and CIFAR-10N
    python -m benchmarks.studies.audit_in_federation runs/audit-federation     # what is missing
    python -m benchmarks.studies.audit_in_federation runs/audit-federation --write    # the page

A cell is a kind of noise with a seed: the preset features-cifar10, trained with FedAvg and with
FLR, and 15 of its sites. What each site can say is kept in the folder, so that scoring again takes
a minute. Runs that were stopped go on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

import flr
from benchmarks import RESULTS
from benchmarks.studies import audit_in_federation_page as pages
from benchmarks.studies.audit_arms import provenance
from benchmarks.studies.audit_in_federation_ways import measured
from benchmarks.studies.audit_on_features_ways import Table, opinions
from flr.audit.evidence import Evidence
from flr.audit.run_clients import Simulation, open_run
from flr.config import parse
from flr.core import arrays
from flr.core.arrays import write_atomically
from flr.data.dataset import Dataset
from flr.models.model_file import SavedModel
from flr.models.networks import load_weights
from flr.scenario import scenario as scenarios
from flr.scenario.truth import Truth
from flr.simulation.api import Run
from flr.simulation.build import load_data

CELLS, PAGE = RESULTS / "audit-in-federation.jsonl", RESULTS / "audit-in-federation.md"
PRESET = "features-cifar10"
SITES, LOOKED_AT = 100, 15
ROUNDS, EARLY = 60, 20  # FedAvg is stopped early after a third of the rounds, whatever the truth is
UNLIKE = {"kind": "dirichlet", "alpha": 1.0, "least": 50, "clients": SITES}
ALIKE = {"kind": "iid", "clients": SITES}
SEEDS = pages.SEEDS
EARLY_MODEL = "early.safetensors"
# name -> partition, noise; in the order in which they are trained
NOISES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "worst": (UNLIKE, {"kind": "human", "labels": "worst"}),
    "asym0604": (ALIKE, {"kind": "asymmetric", "clients": 0.6, "floor": 0.4}),
    "aggregate": (UNLIKE, {"kind": "human", "labels": "aggregate"}),
    "sym1005": (ALIKE, {"kind": "symmetric", "clients": 1.0, "floor": 0.5}),
    "random1": (UNLIKE, {"kind": "human", "labels": "random1"}),
    "sym0800": (ALIKE, {"kind": "symmetric", "clients": 0.8, "floor": 0.0}),
    "pair": (ALIKE, {"kind": "pair", "clients": 0.6, "floor": 0.0}),
    "instance": (ALIKE, {"kind": "instance", "clients": 0.6, "floor": 0.0}),
}


def main() -> None:
    """Trains and forms what is missing, seed after seed, then measures all that is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--write", action="store_true", help="only measure, and write the page")
    parser.add_argument("--page", type=Path, default=PAGE)
    asked = parser.parse_args()
    for seed in [] if asked.write else asked.seeds:
        for row in asked.rows:
            if not path_of(asked.folder, row, seed).exists():
                begun = time.monotonic()
                form(asked.folder, row, seed)
                print(f"{row}, seed {seed}: {time.monotonic() - begun:.0f} s", flush=True)
    lines = list(cells(asked.folder, asked.rows, asked.seeds))
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    write_atomically(CELLS if asked.page == PAGE else asked.page.with_suffix(".jsonl"), text)
    write_atomically(asked.page, pages.page(lines))


def path_of(folder: Path, row: str, seed: int) -> Path:
    """Where what is known at the sites of a cell is kept."""
    return folder / f"{row}-{seed}.safetensors"


def config_of(row: str, seed: int, method: str) -> dict[str, Any]:
    """The preset's settings of the method; accuracy is measured once, at the end."""
    partition, noise = NOISES[row]
    looks = {"every": ROUNDS, "memorization_every": 0}
    own = {"preset": PRESET, "method": method, "seed": seed, "rounds": ROUNDS, "eval": looks}
    return {**own, "partition": partition, "noise": noise, "checkpoint_every": EARLY, "workers": 1}


@cache
def dataset() -> Dataset:
    """Features of CIFAR-10, from the cache."""
    return load_data(parse({"preset": PRESET, "method": "fedavg"}))


def trained(folder: Path, config: dict[str, Any]) -> Run:
    """A run that is there, goes on, or begins; what the model was early on is kept beside it."""

    def keep(_: object) -> None:
        early, now = folder / EARLY_MODEL, folder / "checkpoint" / f"{EARLY}.safetensors"
        if now.exists() and not early.exists():
            shutil.copyfile(now, early)

    if (folder / "summary.json").exists():
        return Run(folder)
    if (folder / "config.toml").exists():
        return flr.resume(folder, data=dataset(), on_round=keep)
    return flr.run(config, data=dataset(), out=folder, on_round=keep)


def form(folder: Path, row: str, seed: int) -> None:
    """Everything that is slow, into one file."""
    runs = folder / f"{row}-{seed}"
    runs.mkdir(parents=True, exist_ok=True)
    fedavg, own = (trained(runs / m, config_of(row, seed, m)) for m in ("fedavg", "flr"))
    theirs, ours = (open_run(run.folder, dataset()) for run in (fedavg, own))
    truth = Truth.of(scenarios.load(own.folder / "scenario.safetensors"), dataset())
    early = early_of(fedavg)
    found: Table = {}
    for client in range(LOOKED_AT):
        known = at_site(ours, theirs, early, client, seed)
        known |= {"given": ours.given[client], "true": truth.true[client]}
        found |= {f"{client}.{name}": values.contiguous() for name, values in known.items()}
    reached = {m: run.summary["accuracy"]["last"] for m, run in (("fedavg", fedavg), ("flr", own))}
    meta = {"kind": "sites", "accuracy": reached, "classes": list(ours.classes)}
    arrays.save(path_of(folder, row, seed), found, meta)


def early_of(run: Run) -> SavedModel:
    """FedAvg as it was after a third of the rounds."""
    kept = arrays.load(run.folder / EARLY_MODEL)[0]
    model, prefix = run.model(), "arrays."
    weights = {name.removeprefix(prefix): value for name, value in kept.items()}
    load_weights(model.networks, weights)
    return model


def at_site(
    ours: Simulation, theirs: Simulation, early: SavedModel, client: int, seed: int
) -> Table:
    """What the federation's models and the site itself say of its samples."""
    evidence = ours.evidence(client)
    x = dataset().train.inputs[ours.sites[client]]
    alone = Evidence(
        "site",
        evidence.names,
        evidence.classes,
        evidence.given,
        {},
        None,
        "features",
        features=x.float().flatten(1),
    )
    known = opinions(alone, seed)
    known |= {f"flr {name}": view.float() for name, view in evidence.views.items()}
    if evidence.visited is not None:
        known["visited"] = evidence.visited
    known["fedavg"] = theirs.evidence(client).views["model"].float()
    known["early"] = early.probabilities(x).float()
    return known


def sites_of(folder: Path, row: str, seed: int) -> list[dict[str, Tensor]]:
    """The same, read again: a table for each site."""
    known = arrays.load(path_of(folder, row, seed))[0]
    sites: list[dict[str, Tensor]] = [{} for _ in range(LOOKED_AT)]
    for name, values in known.items():
        client, _, what = name.partition(".")
        sites[int(client)][what] = values
    return sites


def cells(folder: Path, rows: Sequence[str], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The numbers of each cell that is there."""
    made = provenance()
    for row in rows:
        for seed in (seed for seed in seeds if path_of(folder, row, seed).exists()):
            meta = arrays.load(path_of(folder, row, seed))[1]
            classes, accuracy = tuple(meta["classes"]), meta["accuracy"]
            found = measured(classes, sites_of(folder, row, seed))
            yield {"row": row, "seed": seed, "accuracy": accuracy, **found, **made}


if __name__ == "__main__":
    main()
