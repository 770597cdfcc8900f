"""Aggregators against attackers on digits: the runs behind aggregators-under-attack.md.

    python -m benchmarks.studies.aggregators_under_attack runs/attacks    # finished runs are kept

FedAvg, 10 sites that are all asked every round, clean labels; only the rule and the attack differ.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from benchmarks.studies.common import markdown_table, trained

RULES: dict[str, Any] = {
    "mean": "mean",
    "unweighted": "unweighted",
    "median": "median",
    "trimmed-mean": {"name": "trimmed-mean", "share": 0.2},
    "krum": {"name": "krum", "byzantine": 0.2},
    "multi-krum": {"name": "krum", "byzantine": 0.2, "select": 5},
    "geometric-median": "geometric-median",
    "norm-clip": "norm-clip",
}
ATTACKS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "sign-flip 20 %": {"kind": "sign-flip", "clients": 0.2},
    "gaussian 20 %": {"kind": "gaussian", "clients": 0.2},
    "label-flip 20 %": {"kind": "label-flip", "clients": 0.2},
}
SETTING: dict[str, Any] = {
    "rounds": 12,
    "workers": 2,
    "method": "fedavg",
    "partition": {"kind": "iid", "clients": 10},
    "train": {"participation": 1.0, "epochs": 2, "batch": 10, "lr": 0.1, "momentum": 0.5},
    "eval": {"every": 12, "memorization_every": 12},
}
SEEDS = (1, 2, 3)


def main() -> None:
    """Runs what is not there yet and prints a Markdown table: last accuracy, mean and range."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rows = [[f"`{rule}`", *(cell(folder, rule, attack) for attack in ATTACKS)] for rule in RULES]
    print(markdown_table(["rule", *ATTACKS], rows))


def cell(folder: Path, rule: str, attack: str) -> str:
    """Accuracy after the last round over the seeds, in percent."""
    found = []
    for seed in SEEDS:
        config = SETTING | {"seed": seed, "aggregate": RULES[rule], "attack": ATTACKS[attack]}
        run = trained(folder / f"{rule}-{attack.split()[0]}-{seed}", config)
        found.append(100 * run.summary["accuracy"]["last"])
    return f"{statistics.mean(found):.1f} ({min(found):.1f} to {max(found):.1f})"


if __name__ == "__main__":
    main()
