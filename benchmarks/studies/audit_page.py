"""Writes audit.md from the cells of audit_comparison.py: numbers, verdicts, and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.studies.common import markdown_table
from flr.report.paired_runs import Estimate, estimate

FORMAT = 1
ROWS = {
    "worst": "CIFAR-10N, worst",
    "aggregate": "CIFAR-10N, aggregate",
    "symmetric": "symmetric (1.0, 0.0)",
    "asymmetric": "asymmetric (0.6, 0.4)",
}
ARMS = {
    "flr": "audit",
    "a": "(a) FedAvg",
    "b": "(b) early",
    "c": "(c) 3-fold",
    "d": "(d) FLR model",
    "e": "(e) audit, FedAvg",
    "random": "random",
}
BASELINES = ("a", "b", "c", "d")
RANKED = "average_precision"
METRICS = {
    RANKED: "average precision",
    "client_average_precision": "the same, mean over sites",
    "auroc": "AUROC",
    "precision_at_errors": "precision at the number of errors",
    "precision_at_1_percent": "precision at 1 % of the samples",
    "precision_at_5_percent": "precision at 5 %",
    "suggestions_of_wrong": "right suggestions, of wrong labels",
    "suggestions_of_suspects": "right suggestions, of suspects",
    "calibration_error": "calibration error",
    "brier": "Brier score",
    "estimated_rate": "estimated noise rate",
    "rate_error": "its error, all sites",
    "client_rate_error": "its absolute error, mean over sites",
    "client_interval_covers": "sites whose 90 % interval covers",
    "client_interval_width": "width of that interval",
}
ORDER = (RANKED, "client_average_precision", "auroc", "precision_at")  # all that a random one has

INTRO = """\
# The label audit against cleanlab

Which finds more wrong labels: `flr audit` on what FLR's sites have, or cleanlab on what there is
today? {images} images of CIFAR-10 at 20 sites that are not alike (Bernoulli x Dirichlet, p = 1,
alpha = 1), a quarter of them asked each round, {rounds} rounds, the small CNN of `laptop-cifar10`;
{count} ({seeds}). All arms have the same network, rounds and scenario:

- **audit**: `flr audit` on a run of FLR, at each site alone: FLR's tables and the final model.
- **(a)** cleanlab on the final FedAvg model, as a user would do today.
- **(b)** cleanlab on FedAvg stopped after {third} rounds, a third of them: chosen without truth.
- **(c)** cleanlab on out-of-sample probabilities: three runs of FedAvg, each on two thirds of
  every site's samples, each predicting the third that it has not seen.
- **(d)** cleanlab on the FLR model's probabilities.
- **(e)** our scorer on the final FedAvg model: what it is worth without FLR's tables.
- **random** order, the floor.

cleanlab is used in every way that its users have: its three scores, two of them also adjusted for
unequal classes, and its filter; at each site alone, and on all sites' samples pooled, which no
federation could do. In each row it is represented by **the way that found most there**, which only
the truth can tell: it has its best chance. The audit has one way. Numbers are percent, mean ±
half-width of the 95 % t-interval over seeds; the ranking is over all sites' samples by probability.
The truth is used by this report alone. The scorer's constants were chosen with seed 0; the images,
and the human labels of CIFAR-10N, are the same for all seeds
([more](../docs/explanation/label-audit.md)).

```sh
export FLR_DATA=...                                    # CIFAR-10 and CIFAR-10N
python -m benchmarks.studies.audit_comparison runs/audit     # finished cells are kept
```

Made on {made} in {minutes:.0f} minutes of training and scoring, at {revision}, with {versions},
on {machine}. The cells are in [audit-cells](audit-cells).
"""


@dataclass(frozen=True)
class NoiseRow:
    """The cells of one kind of noise, by seed."""

    name: str
    cells: Sequence[Mapping[str, Any]]

    def way(self, arm: str, scope: str = "") -> str:
        """The way of using an arm that found most, over all seeds; perhaps of one scope only."""
        ways: list[str] = [way for way in self.cells[0]["arms"][arm] if way.endswith(scope)]
        return max(ways, key=lambda way: mean(self.found(arm, way, RANKED)))

    def found(self, arm: str, way: str, metric: str) -> list[Any]:
        """A number for each seed."""
        return [cell["arms"][arm][way][metric] for cell in self.cells]

    def values(self, arm: str, metric: str) -> list[Any]:
        """The same, of the way that represents the arm."""
        if arm == "random" and not metric.startswith(ORDER):
            return [None] * len(self.cells)
        return self.found(arm, self.way(arm), metric)

    def margins(self, arm: str) -> list[float]:
        """How much more average precision the audit has than an arm, seed by seed."""
        ours, theirs = self.values("flr", RANKED), self.values(arm, RANKED)
        return [a - b for a, b in zip(ours, theirs, strict=True)]

    @property
    def lost_to(self) -> list[str]:
        """The baselines that are not below the audit in the mean."""
        return [arm for arm in BASELINES if mean(self.margins(arm)) <= 0]

    @property
    def verdict(self) -> str:
        """Against all baselines."""
        if self.lost_to:
            return f"**lost** to {', '.join(f'({arm})' for arm in self.lost_to)}"
        seeds = [min(found) > 0 for found in zip(*map(self.margins, BASELINES), strict=True)]
        return (
            "**won** in every seed"
            if all(seeds)
            else f"**won**, {sum(seeds)} of {len(seeds)} seeds"
        )


def read(folder: Path) -> list[dict[str, Any]]:
    """All finished cells; of another format none."""
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    return [cell for cell in found if cell.get("format") == FORMAT and "arms" in cell]


def rounded(value: Any) -> Any:
    """Five decimals."""
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    return round(value, 5) if isinstance(value, float) else value


def page(cells: Sequence[Mapping[str, Any]]) -> str:
    """All of audit.md."""
    rows = [
        NoiseRow(name, sorted((c for c in cells if c["row"] == name), key=lambda c: c["seed"]))
        for name in ROWS
    ]
    rows = [row for row in rows if row.cells]
    if not rows:
        return "# The label audit against cleanlab\n\nNothing is finished yet.\n"
    baselines = [ARMS[arm] for arm in BASELINES]
    won = sum(not row.lost_to for row in rows)
    parts = [
        intro(cells, rows),
        f"## Average precision: {won} of {len(rows)} rows won\n",
        markdown_table(["noise", "wrong labels", *ARMS.values()], map(precision, rows)),
        "The audit minus each baseline, paired by seed, and in how many seeds it is ahead:\n",
        markdown_table(["noise", *baselines, "verdict"], map(verdicts, rows)),
        "The way that represents cleanlab:\n",
        markdown_table(["noise", *baselines], map(ways, rows)),
        "Where no sample leaves its site, cleanlab's best way has:\n",
        markdown_table(["noise", "audit", *baselines], map(alone, rows)),
        "## All numbers\n",
        *(everything(row) for row in rows),
        "## Accuracy of the models after the last round, and time\n",
        markdown_table(["noise", *models(rows), "seconds for one seed"], map(costs, rows)),
    ]
    return "\n".join(parts).rstrip() + "\n"


def intro(cells: Sequence[Mapping[str, Any]], rows: Sequence[NoiseRow]) -> str:
    """What was done, by what the cells say."""
    numbers = sorted({cell["seed"] for cell in cells})
    samples = {way["samples"] for cell in cells for way in cell["arms"]["flr"].values()}
    text = INTRO.format(
        images=joined(f"{n:,}" for n in sorted(samples)),
        rounds=joined(str(n) for n in sorted({cell["rounds"] for cell in cells})),
        third=joined(str(n) for n in sorted({cell["third"] for cell in cells})),
        count="one seed" if len(numbers) == 1 else f"{len(numbers)} seeds",
        seeds=joined(map(str, numbers)),
        made=joined(sorted({cell["made"] for cell in cells})),
        minutes=sum(sum(cell["seconds"].values()) for cell in cells) / 60,
        revision=joined(sorted({cell["revision"] for cell in cells})),
        versions=joined(sorted({f"{k} {v}" for c in cells for k, v in c["versions"].items()})),
        machine=joined(sorted({cell["machine"] for cell in cells})),
    )
    scorers = sorted({cell["scorer"] for cell in cells})
    if len(scorers) > 1:
        text += (
            f"\n**The cells were scored by {len(scorers)} versions of the audit: score again.**\n"
        )
    gaps = [ROWS[row.name] for row in rows if len(row.cells) < len(numbers)]
    if gaps or len(rows) < len(ROWS):
        missing = [*gaps, *(title for name, title in ROWS.items() if name not in _names(rows))]
        text += f"\n**Not finished: {joined(missing)}.**\n"
    return text


def _names(rows: Sequence[NoiseRow]) -> set[str]:
    return {row.name for row in rows}


def precision(row: NoiseRow) -> list[str]:
    """One line of the main table; the largest of all that are compared stands out."""
    middles = {arm: mean(row.values(arm, RANKED)) for arm in ("flr", *BASELINES)}
    best = max(middles, key=lambda arm: middles[arm])
    shown = {arm: percent(row.values(arm, RANKED)) for arm in ARMS}
    shown[best] = f"**{shown[best]}**"
    return [ROWS[row.name], percent(row.values("flr", "rate")), *shown.values()]


def verdicts(row: NoiseRow) -> list[str]:
    """Won or lost, against each."""
    cells = []
    for arm in BASELINES:
        margins = row.margins(arm)
        word = "won" if mean(margins) > 0 else "lost"
        ahead = sum(margin > 0 for margin in margins)
        cells.append(f"{word}, {percent(margins, '+')} ({ahead} of {len(margins)})")
    return [ROWS[row.name], *cells, row.verdict]


def alone(row: NoiseRow) -> list[str]:
    """Average precision without pooling."""
    found = [row.found(arm, row.way(arm, "by site"), RANKED) for arm in BASELINES]
    return [ROWS[row.name], *(percent(values) for values in (row.values("flr", RANKED), *found))]


def ways(row: NoiseRow) -> list[str]:
    """How cleanlab was used."""
    return [ROWS[row.name], *(row.way(arm) for arm in BASELINES)]


def everything(row: NoiseRow) -> str:
    """All metrics of one row."""
    lines = [
        [title, *(percent(row.values(arm, metric)) for arm in ARMS)]
        for metric, title in METRICS.items()
    ]
    title = f"### {ROWS[row.name]} ({percent(row.values('flr', 'rate'))} % wrong)"
    return f"{title}\n\n{markdown_table(['', *ARMS.values()], lines)}"


def models(rows: Sequence[NoiseRow]) -> list[str]:
    """The trained runs."""
    return list(rows[0].cells[0]["accuracy"])


def costs(row: NoiseRow) -> list[str]:
    """Test accuracy of each model, and the time of one cell."""
    names = row.cells[0]["accuracy"]
    reached = [percent([cell["accuracy"][name] for cell in row.cells]) for name in names]
    return [ROWS[row.name], *reached, f"{mean(sum(c['seconds'].values()) for c in row.cells):.0f}"]


def percent(values: Iterable[float | None], sign: str = "") -> str:
    """Mean and interval; a dash where there is nothing to say."""
    found: Estimate = estimate(values)
    if found.mean is None:
        return "–"
    middle = format(100 * found.mean, f"{sign}.1f")
    return middle if found.half is None else f"{middle} ± {100 * found.half:.1f}"


def joined(words: Iterable[str]) -> str:
    """In one sentence."""
    return ", ".join(words)
