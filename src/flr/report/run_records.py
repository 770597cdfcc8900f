"""Finished runs, as far as a comparison looks at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flr import config
from flr.config.overrides import dotted
from flr.core import seal
from flr.core.arrays import canonical_json
from flr.core.errors import DataError
from flr.report import summary
from flr.scenario import scenario

SCENARIO = "scenario.safetensors"


@dataclass(frozen=True)
class RunRecord:
    """A finished run, as far as a comparison looks at it."""

    folder: Path
    method: str
    options: tuple[tuple[str, str], ...]  # the method's settings
    seed: int
    group: str  # what the config says besides seed and method
    scenario: str
    summary: dict[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)  # the group's, by dotted key


def read_run(folder: Path) -> RunRecord:
    """The config and the summary of a finished run."""
    path = folder / "config.toml"
    if not path.is_file():
        raise DataError(
            f"Expected a run folder at {folder}; it has no config.toml. "
            "Give folders that flr run or flr demo wrote (of a demo: its sub-folders)."
        )
    for name in (path.name, SCENARIO):
        seal.check(folder / name)
    found, settings = summary.load(folder), config.load_run(folder, code=False)
    options = [item for part in settings.method for item in part.options.items()]
    made_by = [settings.partition.table("kind"), settings.noise.table("kind"), None]
    if settings.scenario.path is not None:
        spec = scenario.load(folder / SCENARIO).spec
        made_by = [spec.get(name) for name in ("partition", "noise", "attack")]
    tree = json.loads(settings.group_key())
    tree |= dict(zip(("partition", "noise", "attack"), made_by, strict=True))
    return RunRecord(
        folder=folder,
        method=settings.label,
        options=tuple((name, str(value)) for name, value in options),
        seed=settings.seed,
        group=canonical_json([settings.group_key(), made_by]),
        scenario=found["scenario"],
        summary=found,
        settings={key: value for key, value in dotted(tree) if value is not None},
    )
