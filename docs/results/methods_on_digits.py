"""Every method on digits under two kinds of noise: the runs behind methods-on-digits.md.

    python docs/results/methods_on_digits.py runs/digits    # finished runs are kept
    flr compare runs/digits/symmetric/fedavg-? runs/digits/symmetric/* --markdown
    flr compare runs/digits/asymmetric/fedavg-? runs/digits/asymmetric/* --markdown

One setting for all, chosen on FedAvg alone (the demo's, shorter); every method with its defaults.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import flr
from flr import registry

NOISES: dict[str, dict[str, Any]] = {
    "symmetric": {"kind": "symmetric", "clients": 1.0, "floor": 0.0},
    "asymmetric": {"kind": "asymmetric", "clients": 0.6, "floor": 0.4},
}
SETTING: dict[str, Any] = {
    "rounds": 40,
    "workers": 2,
    "checkpoint_every": 40,
    "scenario": {"benchmark": 50},  # held out of all sites, for the two methods that need it
    "partition": {"kind": "iid", "clients": 20},
    "train": {"participation": 0.25, "epochs": 5, "batch": 10, "lr": 0.1, "momentum": 0.5},
    "eval": {"every": 5, "memorization_every": 10},
}
STACKS = [["flr", other] for other in ("mixup", "fedprox", "feddyn", "gce", "ls")]
VARIANTS: dict[str, list[Any]] = {  # other readings of what has a row of its own
    "flr-ce": [{"name": "flr", "warmup": "ce"}],
    "flr+-ce": [{"name": "fedcorr", "inner": {"name": "flr", "lam": 3.0, "warmup": "ce"}}],
}


def main() -> None:
    """Runs what is not there yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--methods", nargs="+", default=["fedavg", *others()])
    arguments = parser.parse_args()
    for seed in arguments.seeds:
        for noise in NOISES:
            for method in arguments.methods:
                out = arguments.folder / noise / f"{method}-{seed}"
                if not (out / "summary.json").exists():
                    train(method, noise, seed, out)


def others() -> list[str]:
    """All registered names but FedAvg, which comes first, and the paper's second name of slr."""
    names = set(registry.entries("method")) - {"fedavg", "global"}
    return [*sorted(names), *("~".join(stack) for stack in STACKS), *VARIANTS]


def train(method: str, noise: str, seed: int, out: Path) -> None:
    """One run; a line for whoever watches."""
    started = time.monotonic()
    parts = VARIANTS.get(method, method.split("~"))
    config = SETTING | {"seed": seed, "noise": NOISES[noise], "method": parts}
    accuracy = flr.run(config, out=out).summary["accuracy"]["last10"]
    seconds = time.monotonic() - started
    print(f"{noise} {method} {seed}: {accuracy:.3f} ({seconds:.0f} s)", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
