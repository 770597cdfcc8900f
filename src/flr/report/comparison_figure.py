"""Learning curves of the runs that `flr compare` compares, in bands over their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flr.core.arrays import write_atomically
from flr.core.errors import ConfigError
from flr.report import curves, jsonl, style
from flr.report.paired_runs import RunGroup
from flr.report.recorder import METRICS

FORMS = {".png": style.png, ".pdf": style.pdf}


def write(groups: Sequence[RunGroup], path: Path) -> None:
    """One panel for each group, one line for each method, as PNG or PDF."""
    if path.suffix not in FORMS:
        raise ConfigError(
            f"Expected a picture that ends in {' or '.join(FORMS)}; got {path}. Rename it."
        )
    panels = {
        group.what or "Test accuracy": {
            method: [jsonl.read(run.folder / METRICS) for run in runs]
            for method, runs in group.methods.items()
        }
        for group in groups
    }
    write_atomically(path, FORMS[path.suffix](curves.accuracy(panels)))
