"""Every method on digits under two kinds of noise: the runs behind methods-on-digits.md.

    python -m benchmarks.studies.methods_on_digits runs/digits    # finished runs are kept
    flr compare runs/digits/symmetric/fedavg-? runs/digits/symmetric/* --markdown
    flr compare runs/digits/asymmetric/fedavg-? runs/digits/asymmetric/* --markdown

One setting for all, chosen on FedAvg alone (the demo's, shorter); every method with its defaults,
as they were then.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.studies.common import trained
from flr.core import registry

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
KIN = ("er", "flr", "local", "slr")
SCHEDULE: dict[str, Any] = {"name": "flr", "warmup": "schedule"}
THEN: dict[str, dict[str, Any]] = {  # the default of `warmup` has become "ce" since
    **{name: SCHEDULE | {"name": name} for name in KIN},
    "flr+": {"name": "fedcorr", "inner": SCHEDULE | {"lam": 3.0}},
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
                train(parts(method), NOISES[noise], seed, out)


def others() -> list[str]:
    """All registered names but FedAvg, which comes first, and the paper's second name of slr."""
    names = set(registry.entries("method")) - {"fedavg", "global"}
    return [*sorted(names), *("~".join(stack) for stack in STACKS), *VARIANTS]


def parts(method: str) -> list[Any]:
    """The methods of a stack, as a config has them."""
    return VARIANTS.get(method, [THEN.get(name, name) for name in method.split("~")])


def train(
    method: list[Any], noise: dict[str, Any], seed: int, out: Path, data: Any = None, **other: Any
) -> None:
    """One run unless it is there; a line for whoever watches. `other` goes before SETTING."""
    if (out / "summary.json").exists():
        return
    started = time.monotonic()
    config = SETTING | {"seed": seed, "noise": noise, "method": method} | other
    accuracy = trained(out, config, data).summary["accuracy"]["last10"]
    seconds = time.monotonic() - started
    print(f"{out}: {accuracy:.3f} ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
