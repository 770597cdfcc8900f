"""What the studies share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import flr
from flr.config import parse
from flr.data.dataset import Dataset
from flr.simulation.api import Run


def trained(folder: Path, config: Mapping[str, Any], data: Dataset | None = None) -> Run:
    """A run that is there, goes on, or begins."""
    if not (folder / "config.toml").exists():
        return flr.run(config, data=data, out=folder)
    if Run(folder).config != parse(config):
        raise SystemExit(
            f"Expected a run with the settings of this study in {folder}; it has others. "
            "Choose another folder, or delete it."
        )
    return Run(folder) if (folder / "summary.json").exists() else flr.resume(folder, data=data)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column to the left, all others to the right; cells may hold Markdown."""
    marks = [":--"] + ["--:"] * (len(head) - 1)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, marks, *rows))
