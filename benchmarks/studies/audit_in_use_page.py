"""Writes audit-in-use.md from the lines of audit_in_use.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.studies.audit_page import joined, percent
from benchmarks.studies.common import markdown_table

Line = Mapping[str, Any]

_HEAD = """\
# The audit in use

```sh
export FLR_DATA=...                                                 # CIFAR-10 and CIFAR-10N
python -m benchmarks.studies.audit_in_use runs/audit-in-use round-trip --seeds {seeds}
python -m benchmarks.studies.audit_in_use runs/audit-in-use pace
python -m benchmarks.studies.audit_in_use runs/audit-in-use million
```

Made on {made} at {revision}, scorer {scorer}, on {machine}; the machine was shared with other jobs,
so that times are upper bounds.
"""
_TRIP = """\
## From a folder to better labels

About 1,500 images of CIFAR-10 as PNG files and a table of the labels that people gave them
(CIFAR-10N, worst): `flr audit scans labels.csv`, the first 200 suspects reviewed by a script that
knows the truth, `flr relabel`. Accuracy is that of logistic regression (C = 0.01) on features of
EfficientNet-Lite0, of each image by five folds without it, against the true labels. Percent; the
last line is the mean with the half-width of the 95 % t-interval.
"""
_PACE = """\
## 200 suspects, 4 seconds a card

The page of that audit in Chromium: {cards} cards were decided by keys, each after 4 seconds of
reading, in **{minutes:.1f} minutes**. From a key to the next card with its picture it took
{median:,} ms in the median and {slowest:,} ms at most; {longer} took longer than a second. The
page opened in {opened:,} ms. It said at the end: "{said}".
"""
_MILLION = """\
## A million rows

A table of {rows:,} rows as German Excel saves it (semicolons, UTF-8 with a mark, {file} MB) with
separators, quotes, formulas and other scripts in its names; {changed:,} accepted corrections:
`flr relabel` took {seconds:.0f} s ({cpu:.0f} s of one core) and {megabytes:,} MB of memory. Exactly
these {changed:,} lines had changed, all others were equal byte by byte.
"""


def page(lines: Sequence[Line]) -> str:
    """All of audit-in-use.md."""
    if not lines:
        return "# The audit in use\n\nNothing is finished yet.\n"
    trips = [line for line in lines if line["what"] == "round-trip"]
    made = {
        key: joined(sorted({line[key] for line in lines}))
        for key in ("made", "revision", "scorer", "machine")
    }
    parts = [_HEAD.format(seeds=" ".join(str(line["seed"]) for line in trips) or "1", **made)]
    if trips:
        parts += [_TRIP, markdown_table(_COLUMNS, [*map(_trip, trips), _mean(trips)])]
    parts += [_PACE.format(**line) for line in lines if line["what"] == "pace"]
    parts += [_MILLION.format(**line) for line in lines if line["what"] == "million"]
    return "\n".join(parts)


_COLUMNS = (
    "seed",
    "images",
    "wrong labels",
    "reviewed",
    "of these wrong",
    "accuracy before",
    "after",
    "after 200 in any order",
    "all right",
    "audit, seconds",
)
_SHARES = ("before", "after", "anyhow", "right")


def _trip(line: Line) -> list[str]:
    counts = [f"{line['images']:,}", f"{100 * line['wrong']:.1f}"]
    counts += [str(line["reviewed"]), str(line["found"])]
    return [
        str(line["seed"]),
        *counts,
        *(f"{100 * line[key]:.1f}" for key in _SHARES),
        f"{line['seconds']:.0f}",
    ]


def _mean(trips: Sequence[Line]) -> list[str]:
    shares = [percent([line[key] for line in trips]) for key in _SHARES]
    return ["mean", "", percent([line["wrong"] for line in trips]), "", "", *shares, ""]
