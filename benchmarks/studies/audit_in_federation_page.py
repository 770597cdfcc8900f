"""Writes audit-in-federation.md from the cells of audit_in_federation.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.studies.audit_in_federation_ways import AUDITS, ORDERS, SOURCES
from benchmarks.studies.common import markdown_table
from flr.report.paired_runs import estimate

TITLES = {
    "worst": "CIFAR-10N, worst",
    "random1": "CIFAR-10N, random1",
    "aggregate": "CIFAR-10N, aggregate",
    "sym0800": "symmetric (0.8, 0.0)",
    "sym1005": "symmetric (1.0, 0.5)",
    "asym0604": "asymmetric (0.6, 0.4)",
    "pair": "pair (0.6, 0.0)",
    "instance": "instance (0.6, 0.0)",
}
SEEDS = (1, 2, 3)  # that a row needs to be whole
NEAR = 0.03  # an error of a rate that is small
Cell = Mapping[str, Any]

_HEAD = """\
# The audit in a federation of 100, on features

CIFAR-10 as features of EfficientNet-Lite0 at 100 sites of 500 images (human labels: shared by
Dirichlet 1.0, drawn noise: i.i.d.), the preset `features-cifar10`, trained for 60 rounds with FLR
and with FedAvg; the first 15 sites are looked at, each alone. The audit has the site's features and
FLR's model and tables. cleanlab has out-of-sample heads on the same features (two strengths), the
final FedAvg model, FedAvg after 20 rounds, or FLR's model, each in six ways to rank; a cell of the
table shows the best way, chosen by the truth. Average precision is the mean over sites that have a
wrong label. Percent, mean ± half-width of the 95 % t-interval over seeds. The scorer's constants
were not chosen on CIFAR-10 (docs/explanation/label-audit.md).

Average precision: **{won} of {rows} rows won**, {mean:+.1f} points in the mean beside the best of
everything else.

```sh
python -m benchmarks.studies.audit_in_federation runs/audit-federation
```

Made on {made} at {revision}, scorer {scorer}, on {machine}.
"""


def page(lines: Sequence[Cell]) -> str:
    """Precision, what each part brings, and rates; what is missing is said."""
    there = {row: found for row in TITLES if (found := [c for c in lines if c["row"] == row])}
    if not there:
        return "# The audit in a federation of 100, on features\n\nNothing is finished yet.\n"
    ahead = {row: ahead_of(cells) for row, cells in there.items()}
    made = {key: ", ".join(sorted({c[key] for c in lines})) for key in _MADE}
    won = sum(value > 0 for value in ahead.values())
    return "\n".join(
        (
            _HEAD.format(won=won, rows=len(there), mean=100 * fmean(ahead.values()), **made),
            missing(there),
            markdown_table(_PRECISION, [_precision(*row, ahead) for row in there.items()]),
            "## What models add\n",
            markdown_table(_PARTS, [_parts(*row) for row in there.items()]),
            "## Rates and calibration, site by site\n",
            markdown_table(_RATES, [_rates(*row) for row in there.items()]),
        )
    )


_MADE = ("made", "revision", "scorer", "machine")


def missing(there: Mapping[str, Sequence[Cell]]) -> str:
    """Which seeds and rows are not there, in a sentence."""
    gaps = [
        f"{TITLES[row]} (seed{'s' * (len(left) > 1)} {', '.join(map(str, left))})"
        for row in TITLES
        if (left := [s for s in SEEDS if s not in {c["seed"] for c in there.get(row, ())}])
    ]
    return f"**Not finished: {'; '.join(gaps)}.**\n" if gaps else ""


def sites(cell: Cell, way: str) -> list[Mapping[str, float | None]]:
    """What the audit found, site by site."""
    found = cell["audits"]
    numbers = range(len(found) // len(AUDITS))
    return [found[f"{way}, {number}"] for number in numbers]


def over_sites(cell: Cell, key: str, way: str = "audit") -> float:
    """The mean over the sites at which it means something."""
    return fmean(value for site in sites(cell, way) if (value := site[key]) is not None)


def best(cells: Sequence[Cell], source: str) -> str:
    """The way to use a source with the highest mean precision, which only the truth tells."""
    names: list[str] = [way for way in cells[0]["ways"] if way.startswith(f"{source}: ")]
    return max(names, key=lambda way: fmean(c["ways"][way]["average_precision"] for c in cells))


def rivals(cells: Sequence[Cell]) -> list[str]:
    """All that the audit is compared with, each source of cleanlab by its best way."""
    return [best(cells, source) for source in SOURCES] + list(ORDERS)


def ahead_of(cells: Sequence[Cell]) -> float:
    """Points of precision above the best of the rivals, in the mean over seeds."""
    ours = fmean(over_sites(cell, "average_precision") for cell in cells)
    return ours - max(
        fmean(c["ways"][way]["average_precision"] for c in cells) for way in rivals(cells)
    )


def _precision(row: str, cells: Sequence[Cell], ahead: Mapping[str, float]) -> list[str]:
    named = rivals(cells)
    mean = {way: fmean(c["ways"][way]["average_precision"] for c in cells) for way in named}
    strongest = max(named, key=lambda way: mean[way])
    return [
        TITLES[row],
        str(len(cells)),
        _text([over_sites(cell, "rate") for cell in cells]),
        _text([over_sites(cell, "average_precision") for cell in cells]),
        *(_text([c["ways"][way]["average_precision"] for c in cells]) for way in named),
        f"{'won' if ahead[row] > 0 else 'lost'}, {100 * ahead[row]:+.1f}",
        strongest,
    ]


def _parts(row: str, cells: Sequence[Cell]) -> list[str]:
    accuracy = [_text([cell["accuracy"][name] for cell in cells]) for name in ("fedavg", "flr")]
    found = [_text([over_sites(c, "average_precision", way) for c in cells]) for way in AUDITS]
    return [TITLES[row], *found, *accuracy]


def _rates(row: str, cells: Sequence[Cell]) -> list[str]:
    each = [site for cell in cells for site in sites(cell, "audit")]
    errors = [abs(site["rate_error"] or 0.0) for site in each]
    lowest = [
        min(v for w in c["ways"].values() if (v := w.get("calibration_error"))) for c in cells
    ]
    theirs = [min(v for w in c["ways"].values() if (v := w.get("rate_error"))) for c in cells]
    return [
        TITLES[row],
        f"{len(each)}",
        _text([fmean(site["rate_error"] or 0.0 for site in each)], signed=True),
        _text([fmean(errors)]),
        f"{100 * fmean(error <= NEAR for error in errors):.0f}",
        _text(theirs),
        f"{100 * fmean(site['interval_covers'] or 0.0 for site in each):.0f}",
        _text([over_sites(cell, "width") for cell in cells]),
        f"{100 * fmean(site['sure'] or 0.0 for site in each):.0f}",
        _text([over_sites(cell, "calibration_error") for cell in cells]),
        _text(lowest),
    ]


def least(cells: Sequence[Cell], key: str) -> list[float]:
    """The lowest of cleanlab's numbers in each cell, whichever way had it."""
    return [
        min(value for way in cell["ways"].values() if (value := way.get(key)) is not None)
        for cell in cells
    ]


def _text(values: Sequence[float], signed: bool = False) -> str:
    found = estimate(values)
    if found.mean is None:
        return "–"
    half = "" if found.half is None else f" ± {100 * found.half:.1f}"
    return f"{100 * found.mean:{'+' if signed else ''}.1f}{half}"


_PRECISION = (
    "noise",
    "seeds",
    "wrong labels",
    "audit",
    *(f"cleanlab, {source}" for source in SOURCES),
    "20 nearest disagree",
    "small loss",
    "AUM",
    "audit minus the best",
    "that one",
)
_PARTS = ("noise", *AUDITS, "accuracy of FedAvg", "of FLR")
_RATES = (
    "noise",
    "sites",
    "error of the rate, mean",
    "its size",
    "within 3 points",
    "cleanlab's least",
    "interval covers",
    "its width",
    "sure",
    "calibration error",
    "cleanlab's lowest",
)
