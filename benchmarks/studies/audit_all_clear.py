"""Random sites with random models: is one with many wrong labels ever called clean?

    python -m benchmarks.studies.audit_all_clear runs/audit-all-clear     # what is missing

The settings are those of tests/audit/test_false_all_clear.py, which fails on the first false
all-clear; here all are counted. A false all-clear is a rate below a third of the true one with an
interval that excludes it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import RESULTS
from benchmarks.studies.audit_arms import provenance
from benchmarks.studies.common import markdown_table
from flr.core.arrays import write_atomically
from tests.audit.test_false_all_clear import MODELS, NOISES, audited, setting

LINES, PAGE = RESULTS / "audit-all-clear.jsonl", RESULTS / "audit-all-clear.md"
SETTINGS = 200

_HEAD = """\
# No false all-clear

{n} random settings: sites of 60 to 300 samples of 2 to 7 classes that are more or less far apart,
up to 45 % of the labels wrong (even noise: up to 80 % of what would be chance), with models that
are weak, overfitted, constant, shuffled or swear that every label is right, said to be trained on
the labels or not, with and without features. A false all-clear is an estimated rate below a third
of the true one, with a 90 % interval that excludes it: **{false} of {n}**.

```sh
python -m benchmarks.studies.audit_all_clear
```

Made on {made} at {revision}, scorer {scorer}, on {machine}.
"""


def main() -> None:
    """Goes on where it was stopped, and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=int, default=SETTINGS)
    parser.add_argument("--write", action="store_true", help="only write the page again")
    asked = parser.parse_args()
    text = LINES.read_text(encoding="utf-8") if LINES.exists() else ""
    lines: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines()]
    made = provenance()
    lines = [line for line in lines if line["scorer"] == made["scorer"]]  # of no older audit
    for number in range(len(lines), 0 if asked.write else asked.settings):
        lines.append({**looked_at(number), **made})
        write_atomically(LINES, "".join(json.dumps(one, sort_keys=True) + "\n" for one in lines))
    write_atomically(PAGE, page(lines))


def looked_at(number: int) -> dict[str, Any]:
    """One setting: what is so, and what the audit says."""
    asked = setting(number)
    found, rate = audited(asked)
    said = found.rate
    return {
        "number": number,
        "noise": asked.noise,
        "model": asked.model,
        "features": asked.features,
        "rate": round(rate, 5),
        "said": [round(value, 5) for value in (said.estimate, said.low, said.high)],
        "sure": found.sure,
    }


def is_false(line: Mapping[str, Any]) -> bool:
    """Far too low, and sure of it."""
    estimate, _, high = line["said"]
    return bool(estimate < line["rate"] / 3 and high < line["rate"])


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """All of audit-all-clear.md."""
    if not lines:
        return "# No false all-clear\n\nNothing is finished yet.\n"
    false = sum(map(is_false, lines))
    kinds = [("model", name) for name in MODELS] + [("noise", name) for name in NOISES]
    rows = [
        _row(f"{key}: {name}", own)
        for key, name in kinds
        if (own := [line for line in lines if line[key] == name])
    ]
    head = _HEAD.format(n=len(lines), false=false, **lines[-1])
    return f"{head}\n{markdown_table(_COLUMNS, [*rows, _row('all', lines)])}"


_COLUMNS = ("settings", "number", "false all-clear", "the audit is sure", "interval covers")


def _row(title: str, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    sure = [line for line in lines if line["sure"]]
    covers = sum(line["said"][1] <= line["rate"] <= line["said"][2] for line in sure)
    told = f"{covers} of {len(sure)} sure ones"
    return [title, str(len(lines)), str(sum(map(is_false, lines))), str(len(sure)), told]


if __name__ == "__main__":
    main()
