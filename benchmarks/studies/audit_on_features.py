"""The audit on features of one site alone, beside all that its users know.

    export FLR_DATA=... FLR_CACHE=...      # CIFAR-10, CIFAR-100, CIFAR-N; vader: `flr data get`
    python -m benchmarks.studies.audit_on_features runs/audit-features          # what is missing
    python -m benchmarks.studies.audit_on_features runs/audit-features --write  # the page alone

A cell is a kind of noise with a seed: one of the sites of about 1,500 samples into which the
scenario of that seed deals the training set. Nothing is trained but heads on features of a frozen
network. Opinions are kept in the folder, so that scoring again takes seconds. The constants of the
scorer were chosen on digits, synthetic sites and CIFAR-100 (docs/explanation/label-audit.md).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from benchmarks import RESULTS
from benchmarks.studies.audit_arms import provenance
from benchmarks.studies.audit_on_features_page import SEEDS, page
from benchmarks.studies.audit_on_features_ways import (
    evidence_of,
    known_site,
    measured,
    opinions,
    site_opinions,
)
from flr.audit.features import of_rows
from flr.config import parse
from flr.core import arrays
from flr.core.arrays import write_atomically
from flr.data.dataset import Dataset
from flr.data.features import Features
from flr.scenario.truth import Truth
from flr.simulation.build import load_data, load_raw_data, load_scenario, make_embedder

CELLS, PAGE = RESULTS / "audit-on-features.jsonl", RESULTS / "audit-on-features.md"
SITE = 1_500
SWAPPED = 0.3  # of pair and instance noise: the site whose drawn rate is nearest
ROWS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> preset, noise
    "worst": ("features-cifar10", {"kind": "human", "labels": "worst"}),
    "random1": ("features-cifar10", {"kind": "human", "labels": "random1"}),
    "aggregate": ("features-cifar10", {"kind": "human", "labels": "aggregate"}),
    "c100-human": ("features-cifar100", {"kind": "human", "labels": "noisy"}),
    "vader": ("features-text", {"kind": "human"}),
    "sym0800": ("features-cifar10", {"kind": "symmetric", "clients": 0.8, "floor": 0.0}),
    "sym1005": ("features-cifar10", {"kind": "symmetric", "clients": 1.0, "floor": 0.5}),
    "asym0604": ("features-cifar10", {"kind": "asymmetric", "clients": 0.6, "floor": 0.4}),
    "pair": ("features-cifar10", {"kind": "pair", "clients": 1.0}),
    "instance": ("features-cifar10", {"kind": "instance", "clients": 1.0}),
}


def main() -> None:
    """Forms the opinions that are missing, then measures everything that is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--write", action="store_true", help="only measure, and write the page")
    parser.add_argument("--page", type=Path, default=PAGE)
    asked = parser.parse_args()
    kept = CELLS if asked.page == PAGE else asked.page.with_suffix(".jsonl")
    there = {(line["row"], line["seed"]) for line in read(kept)}
    for seed in [] if asked.write else asked.seeds:
        for row in asked.rows:
            if not path_of(asked.folder, row, seed).exists():
                begun = time.monotonic()
                form(asked.folder, row, seed, (row, seed) in there)
                print(f"{row}, seed {seed}: {time.monotonic() - begun:.0f} s", flush=True)
    lines = merged(kept, cells(asked.folder, asked.rows, asked.seeds))
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    write_atomically(kept, text)
    write_atomically(asked.page, page(lines))


def path_of(folder: Path, row: str, seed: int) -> Path:
    """Where the opinions of a cell are kept."""
    return folder / f"{row}-{seed}.safetensors"


def form(folder: Path, row: str, seed: int, again: bool = False) -> None:
    """Everything that is slow, into one file, with given and true labels.

    With `again`, only what the audit itself forms: other ways keep the numbers that they have.
    """
    features, given, true, classes = site(row, seed)
    evidence = evidence_of(features, given, classes)
    found = site_opinions(evidence) if again else opinions(evidence, seed)
    found |= {"given": given, "true": true}
    folder.mkdir(parents=True, exist_ok=True)
    arrays.save(path_of(folder, row, seed), found, {"kind": "opinions", "classes": list(classes)})


@cache
def dataset(preset: str) -> Dataset:
    """CIFAR-10 as features, from the cache that its federations share; others as published."""
    config = parse({"preset": preset, "method": "fedavg"})
    return load_data(config) if preset == "features-cifar10" else load_raw_data(config)


def site(row: str, seed: int) -> tuple[Tensor, Tensor, Tensor, tuple[str, ...]]:
    """Features, given and true labels of a noisy site: the first, or that with a rate near 0.3."""
    preset, noise = ROWS[row]
    data = dataset(preset)
    partition = {"kind": "iid", "clients": max(len(data.train.y) // SITE, 1)}
    config = parse(
        {"preset": preset, "method": "fedavg", "seed": seed}
        | {"noise": noise, "partition": partition}
    )
    scenario = load_scenario(config, data)
    noisy = [k for k, rate in enumerate(scenario.nominal) if rate > 0]
    near = {k: abs(scenario.nominal[k] - SWAPPED) for k in noisy}
    chosen = min(noisy, key=lambda k: near[k]) if row in ("pair", "instance") else noisy[0]
    x = of_rows(data.train.x, scenario.sites[chosen])
    if not isinstance(x, Features):  # of this site only: the whole set would take half an hour
        assert config.data.backbone is not None  # noqa: S101  # as the presets have it
        x = make_embedder(config, config.data.backbone)(x)
    true = Truth.of(scenario, data).true[chosen]
    return x[:].float().flatten(1), scenario.given[chosen], true, data.classes


def cells(folder: Path, rows: Sequence[str], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The numbers of each cell whose opinions are there."""
    made = provenance()
    for row in rows:
        for seed in (seed for seed in seeds if path_of(folder, row, seed).exists()):
            known, meta = arrays.load(path_of(folder, row, seed))
            evidence = known_site(known, tuple(meta["classes"]))
            ways = measured(evidence, known, known["true"])
            yield {"row": row, "seed": seed, "ways": ways, **made}


def read(kept: Path) -> list[dict[str, Any]]:
    """The lines that are there."""
    text = kept.read_text(encoding="utf-8") if kept.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def merged(kept: Path, found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines that are there, with new numbers where opinions were formed anew; by row and seed.

    A way that was not formed again keeps its numbers: those of cleanlab do not depend on us.
    """
    lines = {(one["row"], one["seed"]): one for one in read(kept)}
    for one in found:
        key = one["row"], one["seed"]
        old = lines[key]["ways"] if key in lines else {}
        if old and old["audit"]["wrong"] != one["ways"]["audit"]["wrong"]:
            raise SystemExit(f"Expected the site of {key} as before; its labels are others.")
        lines[key] = {**one, "ways": {**old, **one["ways"]}}
    order = list(ROWS)
    return [lines[key] for key in sorted(lines, key=lambda key: (order.index(key[0]), key[1]))]


if __name__ == "__main__":
    main()
