"""Writes audit-on-features.md from the lines of audit_on_features.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.studies.common import markdown_table
from flr.report.audit_truth import Measured
from flr.report.paired_runs import estimate

SEEDS = (1, 2, 3, 4, 5)
NEAR = 0.03  # an error of a rate that is small
TITLES = {
    "worst": "CIFAR-10N, worst",
    "random1": "CIFAR-10N, random1",
    "aggregate": "CIFAR-10N, aggregate",
    "c100-human": "CIFAR-100N",
    "vader": "VADER texts, one rater",
    "sym0800": "symmetric (0.8, 0.0)",
    "sym1005": "symmetric (1.0, 0.5)",
    "asym0604": "asymmetric (0.6, 0.4)",
    "pair": "pair, 0.3",
    "instance": "instance, 0.3",
}


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """Precision, rates and calibration, each beside the best of cleanlab's ways."""
    found = {row: [c["ways"] for c in lines if c["row"] == row] for row in TITLES}
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
            pooled([ways for found in there.values() for ways in found]),
            missing(lines),
            markdown_table(_PRECISION, precision),
            "## Rates and calibration\n",
            markdown_table(_RATES, rates),
        )
    )


def pooled(sites: Sequence[Mapping[str, Measured]]) -> str:
    """Rates and intervals of all sites together, in a sentence."""
    errors, covered = (_values(sites, "audit", key) for key in ("rate_error", "interval_covers"))
    near = sum(abs(error) <= NEAR for error in errors)
    return (
        f"Of all {len(errors)} sites, the rate is off by at most {100 * NEAR:.0f} points at {near}"
        f" ({100 * near / len(errors):.0f} %; the aim is 90), and the 90 % interval covers the "
        f"true one at {sum(covered):.0f} ({100 * fmean(covered):.0f} %; the aim is 85 to 95).\n"
    )


def missing(lines: Sequence[Mapping[str, Any]]) -> str:
    """Which seeds of which rows are not there, and that scorers differ, where they do."""
    there = {row: {line["seed"] for line in lines if line["row"] == row} for row in TITLES}
    gaps = [
        f"{TITLES[row]} ({', '.join(str(seed) for seed in SEEDS if seed not in seeds)})"
        for row, seeds in there.items()
        if not seeds >= set(SEEDS)
    ]
    words = f"**Seeds that are missing: {'; '.join(gaps)}.**\n" if gaps else ""
    scorers: dict[str, list[str]] = {}
    for line in lines:
        scorers.setdefault(line["scorer"], []).append(f"{line['row']}-{line['seed']}")
    if any(line["revision"] == _OLDER for line in lines):
        words += f"\nCells made at {_OLDER}: {_OLDER_HEADS}\n"
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
    return [TITLES[row], str(len(ways)), *wrong, *numbers, verdict, theirs.partition(", ")[2]]


def _rate_row(row: str, ways: Sequence[Mapping[str, Measured]]) -> list[str]:
    errors = _values(ways, "audit", "rate_error")
    near = fmean(abs(error) <= NEAR for error in errors)
    calibrated = [
        min(
            _values([one], name, "calibration_error")[0] for name in one if name.startswith("clean")
        )
        for one in ways
    ]
    return [
        TITLES[row],
        _text(errors, signed=True),
        f"{100 * near:.0f}",
        _text(_values(ways, best(ways), "rate_error"), signed=True),
        f"{100 * fmean(_values(ways, 'audit', 'interval_covers')):.0f}",
        _text(_values(ways, "audit", "width")),
        f"{100 * fmean(_values(ways, 'audit', 'sure')):.0f}",
        _text(_values(ways, "audit", "calibration_error")),
        _text(calibrated),
    ]


_OLDER = "04f4ba2"
_OLDER_HEADS = (
    "their opinions were formed by the heads of e809781, without the second start from anchors, "
    "which finds classes that are mostly given as another one (docs/explanation/label-audit.md)."
)
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
