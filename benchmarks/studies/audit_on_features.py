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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from torch import Tensor

from benchmarks import RESULTS
from benchmarks.studies.audit_arms import provenance
from benchmarks.studies.audit_on_features_ways import (
    evidence_of,
    known_site,
    measured,
    opinions,
    site_opinions,
)
from benchmarks.studies.common import markdown_table
from flr.audit.features import of_rows
from flr.config import parse
from flr.core import arrays
from flr.core.arrays import write_atomically
from flr.data.dataset import Dataset
from flr.data.features import Features
from flr.report.audit_truth import Measured
from flr.report.paired_runs import estimate
from flr.scenario.truth import Truth
from flr.simulation.build import load_data, load_raw_data, load_scenario, make_embedder

CELLS, PAGE = RESULTS / "audit-on-features.jsonl", RESULTS / "audit-on-features.md"
SITE = 1_500
SWAPPED = 0.3  # of pair and instance noise: the site whose drawn rate is nearest
ROWS: dict[str, tuple[str, str, dict[str, Any]]] = {  # name -> head, preset, noise
    "worst": ("CIFAR-10N, worst", "features-cifar10", {"kind": "human", "labels": "worst"}),
    "random1": ("CIFAR-10N, random1", "features-cifar10", {"kind": "human", "labels": "random1"}),
    "aggregate": (
        "CIFAR-10N, aggregate",
        "features-cifar10",
        {"kind": "human", "labels": "aggregate"},
    ),
    "c100-human": ("CIFAR-100N", "features-cifar100", {"kind": "human", "labels": "noisy"}),
    "vader": ("VADER texts, one rater", "features-text", {"kind": "human"}),
    "sym0800": (
        "symmetric (0.8, 0.0)",
        "features-cifar10",
        {"kind": "symmetric", "clients": 0.8, "floor": 0.0},
    ),
    "sym1005": (
        "symmetric (1.0, 0.5)",
        "features-cifar10",
        {"kind": "symmetric", "clients": 1.0, "floor": 0.5},
    ),
    "asym0604": (
        "asymmetric (0.6, 0.4)",
        "features-cifar10",
        {"kind": "asymmetric", "clients": 0.6, "floor": 0.4},
    ),
    "pair": (f"pair, {SWAPPED:g}", "features-cifar10", {"kind": "pair", "clients": 1.0}),
    "instance": (
        f"instance, {SWAPPED:g}",
        "features-cifar10",
        {"kind": "instance", "clients": 1.0},
    ),
}
SEEDS = (1, 2, 3, 4, 5)


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
    _, preset, noise = ROWS[row]
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
        lines[key] = {**one, "ways": {**old, **one["ways"]}}
    order = list(ROWS)
    return [lines[key] for key in sorted(lines, key=lambda key: (order.index(key[0]), key[1]))]


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """Precision, rates and calibration, each beside the best of cleanlab's ways."""
    found = {row: [c["ways"] for c in lines if c["row"] == row] for row in ROWS}
    there = {row: ways for row, ways in found.items() if ways}
    ahead = {row: _ahead(ways) for row, ways in there.items()}
    won = sum(value > 0 for value in ahead.values())
    made = {key: ", ".join(sorted({line[key] for line in lines})) for key in _MADE}
    head = _HEAD.format(won=won, rows=len(there), mean=100 * fmean(ahead.values()), **made)
    precision = [_precision_row(row, ways, ahead[row]) for row, ways in there.items()]
    rates = [_rate_row(row, ways) for row, ways in there.items()]
    return "\n".join(
        (
            head,
            missing(lines),
            markdown_table(_PRECISION, precision),
            "## Rates and calibration\n",
            markdown_table(_RATES, rates),
        )
    )


def missing(lines: Sequence[Mapping[str, Any]]) -> str:
    """Which seeds of which rows are not there, and that scorers differ, where they do."""
    there = {row: {line["seed"] for line in lines if line["row"] == row} for row in ROWS}
    gaps = [
        f"{ROWS[row][0]} ({', '.join(str(seed) for seed in SEEDS if seed not in seeds)})"
        for row, seeds in there.items()
        if not seeds >= set(SEEDS)
    ]
    words = f"**Seeds that are missing: {'; '.join(gaps)}.**\n" if gaps else ""
    scorers: dict[str, list[str]] = {}
    for line in lines:
        scorers.setdefault(line["scorer"], []).append(f"{line['row']}-{line['seed']}")
    if len(scorers) > 1:
        told = "; ".join(f"{name}: {', '.join(which)}" for name, which in scorers.items())
        words += f"\n**Cells by the version of the scorer: {told}.**\n"
    return words


def best(ways: Sequence[Mapping[str, Measured]]) -> str:
    """The way of cleanlab with the highest mean precision in a row, which only the truth tells."""
    names = [name for name in ways[0] if name.startswith("cleanlab")]
    return max(names, key=lambda name: fmean(_values(ways, name, "average_precision")))


def _ahead(ways: Sequence[Mapping[str, Measured]]) -> float:
    ours, theirs = (_values(ways, name, "average_precision") for name in ("audit", best(ways)))
    return fmean(a - b for a, b in zip(ours, theirs, strict=True))


def _values(ways: Sequence[Mapping[str, Measured]], way: str, key: str) -> list[float]:
    return [value for one in ways if (value := one[way][key]) is not None]


def _text(values: Sequence[float], signed: bool = False) -> str:
    found = estimate(values)
    if found.mean is None:
        return "–"
    half = "" if found.half is None else f" ± {100 * found.half:.1f}"
    return f"{100 * found.mean:{'+' if signed else ''}.1f}{half}"


def _precision_row(row: str, ways: Sequence[Mapping[str, Measured]], ahead: float) -> list[str]:
    theirs = best(ways)
    wrong = [_text(_values(ways, "audit", "rate"))]
    named = ("audit", theirs, "nearest", "loss", "margin")
    numbers = [_text(_values(ways, way, "average_precision")) for way in named]
    verdict = f"{'won' if ahead > 0 else 'lost'}, {100 * ahead:+.1f}"
    return [ROWS[row][0], str(len(ways)), *wrong, *numbers, verdict, theirs.partition(", ")[2]]


def _rate_row(row: str, ways: Sequence[Mapping[str, Measured]]) -> list[str]:
    errors = _values(ways, "audit", "rate_error")
    near = fmean(abs(error) <= 0.03 for error in errors)
    calibrated = [
        min(
            _values([one], name, "calibration_error")[0] for name in one if name.startswith("clean")
        )
        for one in ways
    ]
    return [
        ROWS[row][0],
        _text(errors, signed=True),
        f"{100 * near:.0f}",
        _text(_values(ways, best(ways), "rate_error"), signed=True),
        f"{100 * fmean(_values(ways, 'audit', 'interval_covers')):.0f}",
        _text(_values(ways, "audit", "width")),
        f"{100 * fmean(_values(ways, 'audit', 'sure')):.0f}",
        _text(_values(ways, "audit", "calibration_error")),
        _text(calibrated),
    ]


_MADE = ("made", "revision", "scorer", "machine")
_PRECISION = (
    "noise",
    "seeds",
    "wrong labels",
    "audit",
    "cleanlab, its best way",
    "20 nearest disagree",
    "small loss",
    "AUM",
    "audit minus cleanlab",
    "that way",
)
_RATES = (
    "noise",
    "error of the rate",
    "within 3 points",
    "cleanlab's error",
    "interval covers",
    "its width",
    "sure",
    "calibration error",
    "cleanlab's lowest",
)
_HEAD = """\
# The audit on features, one site alone

A site of about 1,500 samples with its labels and features of a frozen network (images:
EfficientNet-Lite0 at 128 pixels; texts: MiniLM), no model and no federation. The scorer's
constants were chosen on digits, synthetic sites and CIFAR-100; one sample each of CIFAR-10N worst
and aggregate had been looked at before the mean of rho was set (docs/explanation/label-audit.md).
cleanlab has out-of-sample logistic regression on the same features, strong and weak, in six ways
each; a row shows the best of the twelve, chosen by the truth, and of the calibration errors the
lowest in each cell. Percent, mean ± half-width of the 95 % t-interval over seeds. Rates of pair and
instance noise are near 30 %, those of the other drawn noises as their scenario draws them.

Average precision: **{won} of {rows} rows won**, {mean:+.1f} points in the mean.

```sh
python -m benchmarks.studies.audit_on_features runs/audit-features
```

Made on {made} at {revision}, scorer {scorer}, on {machine}.
"""


if __name__ == "__main__":
    main()
