"""Aggregators against attackers: the runs behind aggregators-under-attack.md.

    python -m benchmarks.studies.aggregators_under_attack runs/attacks    # finished runs are kept
    python -m benchmarks.studies.aggregators_under_attack runs/attacks --page PAGE.md

FedAvg and FLR, 10 sites that are all asked every round, symmetric noise (0.8, 0.0); only the rule
and the attack differ. What a finished run has measured is a line of the cells, from which the page
is made; run folders are deleted.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.studies.common import markdown_table, trained
from flr.core.arrays import write_atomically

CELLS = Path("results/under-attack.jsonl")
METHODS = ("fedavg", "flr")
RULES: dict[str, Any] = {
    "mean": "mean",
    "unweighted": "unweighted",
    "median": "median",
    "trimmed-mean": {"name": "trimmed-mean", "share": 0.3},
    "krum": {"name": "krum", "byzantine": 0.3},
    "multi-krum": {"name": "krum", "byzantine": 0.3, "select": 5},
    "geometric-median": "geometric-median",
    "norm-clip": "norm-clip",
}
KINDS: dict[str, dict[str, Any]] = {
    "sign-flip": {"kind": "sign-flip"},
    "gaussian": {"kind": "gaussian"},
    "replacement": {"kind": "replacement"},
    "alie": {"kind": "alie"},
    "3e38": {"kind": "constant", "value": 3e38},
    "1e18": {"kind": "constant", "value": 1e18},  # the largest that are not refused are near it
    "claimed-samples": {"kind": "claimed-samples"},
}
COMMON: dict[str, Any] = {
    "rounds": 20,
    "workers": 1,
    "checkpoint_every": 20,
    "partition": {"kind": "iid", "clients": 10},
    "noise": {"kind": "symmetric", "clients": 0.8, "floor": 0.0},
    "eval": {"every": 20, "memorization_every": 20},
}
PLACES: dict[str, dict[str, Any]] = {
    "digits": {
        "train": {"participation": 1.0, "epochs": 2, "batch": 10, "lr": 0.1, "momentum": 0.5}
    },
    "features": {
        "data": {
            "name": "cifar10",
            "backbone": "efficientnet-lite0",
            "train": 3000,
            "test": 2000,
        },
        "train": {
            "model": {"name": "mlp", "hidden": 256},
            "participation": 1.0,
            "epochs": 2,
            "batch": 10,
            "lr": 0.03,
            "momentum": 0.5,
        },
    },
}
ATTACKERS = (1, 3)
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Cell:
    """One run: `attackers` is 0 where the attack is "none"."""

    place: str
    method: str
    rule: str
    attack: str
    attackers: int
    seed: int

    @property
    def name(self) -> str:
        attack = f"{self.attack}-{self.attackers}"
        return f"{self.place}-{self.method}-{self.rule}-{attack}-{self.seed}"

    def config(self) -> dict[str, Any]:
        own: dict[str, Any] = {"method": self.method, "seed": self.seed}
        own["aggregate"] = RULES[self.rule]
        if self.attackers:
            own["attack"] = KINDS[self.attack] | {"clients": self.attackers / 10}
        return COMMON | PLACES[self.place] | own


def grid() -> Iterator[Cell]:
    """One seed of everything comes before the next one."""
    attacks = [("none", 0), *product(KINDS, ATTACKERS)]
    for seed, place, method in product(SEEDS, PLACES, METHODS):
        for (attack, attackers), rule in product(attacks, RULES):
            yield Cell(place, method, rule, attack, attackers, seed)


def main() -> None:
    """Trains what is missing, or writes the page of what is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--lane", type=int, nargs=2, default=(0, 1), metavar=("I", "OF"))
    arguments = parser.parse_args()
    known = read_lines(CELLS)
    if arguments.page is not None:
        for part in sorted(arguments.folder.glob("lane-*.jsonl")):
            known |= read_lines(part)
        lines = [json.dumps(known[name], sort_keys=True) for name in sorted(known)]
        write_atomically(CELLS, "\n".join(lines) + "\n")
        write_atomically(arguments.page, page(known))
        return
    lane, lanes = arguments.lane
    arguments.folder.mkdir(parents=True, exist_ok=True)
    own = arguments.folder / f"lane-{lane}-of-{lanes}.jsonl"
    known |= read_lines(own)
    with own.open("a") as file:
        for cell in list(grid())[lane::lanes]:
            if cell.name not in known:
                print(json.dumps(line_of(cell, arguments.folder)), file=file, flush=True)


def read_lines(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of runs that were finished, by name."""
    text = path.read_text() if path.exists() else ""
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


def line_of(cell: Cell, folder: Path) -> dict[str, Any]:
    """What the page needs of a run, which is trained for it."""
    run = trained(folder / cell.name, cell.config())
    line = {
        "name": cell.name,
        "last": run.summary["accuracy"]["last"],
        "refused": run.summary["refused"],
    }
    shutil.rmtree(folder / cell.name)
    return line


def page(known: Mapping[str, Mapping[str, Any]]) -> str:
    """Which rule for what, and a table for each place and method."""
    parts = [_HEAD.format(runs=len(known), of=len(list(grid()))), advice(known)]
    for place, method, attackers in product(PLACES, METHODS, ATTACKERS):
        columns = [("none", 0), *((attack, attackers) for attack in KINDS)]
        table = {
            rule: [_mean(known, place, method, rule, *column) for column in columns]
            for rule in RULES
        }
        plain = table["mean"][0]
        rows = [[f"`{rule}`", *map(_text, values)] for rule, values in table.items()]
        found = [
            _best(dict(zip(table, column, strict=True)))
            for column in zip(*table.values(), strict=True)
        ]
        rows.append(["best rule", *(f"`{rule}`" if rule else "–" for rule, _ in found)])
        lost = [None if b is None or plain is None else plain - b for _, b in found]
        rows.append(["lost with it", *map(_text, lost)])
        title = f"## {place}, {method}, {attackers} of 10 attack"
        parts.append(f"{title}\n\n{markdown_table(['rule', *(a for a, _ in columns)], rows)}")
    return "\n".join(parts)


def advice(known: Mapping[str, Mapping[str, Any]]) -> str:
    """Which rule for what: one that serves FedAvg and FLR, against each attack and against all."""
    columns = list(product(PLACES, ATTACKERS))
    rows = []
    for attack in KINDS:
        found = [_least(known, place, [attack], attackers) for place, attackers in columns]
        rows.append([f"`{attack}`", *found])
    unknown = [_least(known, place, list(KINDS), attackers) for place, attackers in columns]
    head = ["against", *(f"{place}, {attackers} of 10" for place, attackers in columns)]
    table = markdown_table(head, [*rows, ["not known which", *unknown]])
    return _ADVICE.format(table=table)


def _least(
    known: Mapping[str, Mapping[str, Any]], place: str, attacks: list[str], attackers: int
) -> str:
    """The rule that loses least where it loses most, over both methods and these attacks."""
    lost: dict[str, float] = {}
    for rule, method, attack in product(RULES, METHODS, attacks):
        plain = _mean(known, place, method, "mean", "none", 0)
        value = _mean(known, place, method, rule, attack, attackers)
        if plain is not None and value is not None:
            lost[rule] = max(lost.get(rule, -100.0), plain - value)
    if not lost:
        return "–"
    least = min(lost, key=lambda name: lost[name])
    return f"`{least}` {lost[least]:.1f}"


def _mean(
    known: Mapping[str, Mapping[str, Any]],
    place: str,
    method: str,
    rule: str,
    attack: str,
    attackers: int,
) -> float | None:
    names = [Cell(place, method, rule, attack, attackers, seed).name for seed in SEEDS]
    found = [100 * known[name]["last"] for name in names if name in known]
    return statistics.mean(found) if found else None


def _best(values: Mapping[str, float | None]) -> tuple[str | None, float | None]:
    known = {rule: value for rule, value in values.items() if value is not None}
    rule = max(known, key=lambda name: known[name], default=None)
    return rule, None if rule is None else known[rule]


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


_HEAD = """# Aggregators under attack

10 i.i.d. sites that are all asked in each of 20 rounds, 2 epochs, batch 10, symmetric noise
(0.8, 0.0); digits (an MLP of pixels) and CIFAR-10 (3,000 images, features of EfficientNet-Lite0).
Test accuracy in percent after the last round, mean over the seeds that are there (three are
planned); {runs} of {of} runs are there. `trimmed-mean` cuts 30 % off at each end, `krum` outlives
30 %, `multi-krum` is Krum that keeps five. "lost with it" is against the mean without an
attack. Made by (with `--page` and this file, the page)

```sh
python -m benchmarks.studies.aggregators_under_attack runs/attacks
```

Attackers send: their update turned round and four times as long (`sign-flip`); noise of deviation
10 in place of it (`gaussian`); ten times an update that was trained on labels turned round
(`replacement`); mean minus 1.5 deviations of the honest replies (`alie`); 3e38 (refused: not finite
once squared) or 1e18 (taken) for every weight; the update turned round with a claim of 10^9
samples, of which as much counts as on Flower: no site has more than a third (`claimed-samples`).
"""

_ADVICE = """## Which rule for what

For each attack the rule that loses least, for FedAvg and FLR alike, and how many points it loses at
most, against the mean without an attack (below 0: it gains). It is chosen by the same runs that
measure it. The last line is for those who do not know what will come: the largest loss to any of
the attacks.

{table}"""

if __name__ == "__main__":
    main()
