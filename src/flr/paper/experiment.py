"""The paper's tables and figures as files: settings, rows, the paper's numbers, its claims.

A file in `flr/paper/experiments/` is an experiment (see study/experiment.py) and has besides::

    shows = "accuracy-table" # how, see outputs.py
    preset = "cifar10"       # the settings below all others
    [paper.ROW]              # the paper's number for each setting
    [[claims]]               # what the paper concludes, see claims/judgement.py
    [laptop]                 # laid over all of this at laptop scale; so [features] and [middle]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, Literal

from flr.core.errors import ConfigError
from flr.core.registry import unknown
from flr.paper.claims.judgement import Claim
from flr.study.experiment import Experiment, merge

Scale = Literal["laptop", "features", "middle", "paper"]
OVER: dict[Scale, dict[str, Any]] = {
    "laptop": {"trials": 3},
    "features": {},
    "middle": {"trials": 1},
}
FIRST_SEEDS = 3  # of every table before any has more
FIRST = ("table-memorization", "table-regularizers", "fig-dirichlet", "table-cifar100")

# a run of seconds that meets every part of the code, FedCorr's stages included; its numbers mean
# nothing
QUICK: dict[str, Any] = {
    "rounds": 24,
    "data": {"train": 400, "test": 100},
    "train": {"epochs": 1, "batch": 20},
    "eval": {"every": 6, "memorization_every": 12},
}
# more sites need more samples, and more rounds to be asked in by FedCorr's first stage
QUICK_FEATURES: dict[str, Any] = {
    "rounds": 110,
    "data": {"train": 4000, "test": 400},
    "eval": {"every": 30, "memorization_every": 60},
}


def claims_of(experiment: Experiment) -> tuple[Claim, ...]:
    """What the paper concludes of rows that are there, each with the settings that are."""
    found = []
    for claim in (Claim(**raw) for raw in experiment.document.get("claims", [])):
        named = tuple(key for key in claim.settings if key in experiment.settings)
        if {claim.row, claim.than} <= experiment.rows.keys() and (named or not claim.settings):
            found.append(replace(claim, settings=named))
    return tuple(found)


def published(experiment: Experiment, row: str, setting: str) -> Any:
    """The paper's numbers for a cell: a mean, [mean, deviation], a longer list, or None."""
    return experiment.document.get("paper", {}).get(row, {}).get(setting)


def names() -> list[str]:
    """All experiments."""
    folder = resources.files("flr.paper").joinpath("experiments")
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith("toml"))


def papers_order() -> list[str]:
    """All experiments as in the paper, ours last."""
    file = resources.files("flr.paper").joinpath("experiments", "order.txt")
    return file.read_text(encoding="utf-8").split()


def load_all(name: str, scale: Scale = "laptop", quick: bool = False) -> list[Experiment]:
    """The experiment of that name, or all whose names begin so: "fig-partitions" is two."""
    parts = [found for found in names() if found.startswith(f"{name}-")]
    if name in names() or not parts:
        return [load(name, scale, quick)]
    return [load(part, scale, quick) for part in parts]


def load(name: str, scale: Scale = "laptop", quick: bool = False) -> Experiment:
    """An experiment by its name."""
    if name not in names():
        raise ConfigError(unknown("experiment", name, names()))
    if scale not in scales(name):
        raise ConfigError(
            f"Expected a table or figure of the scale {scale}; {name} has "
            f"{', '.join(scales(name))}. Use one of these."
        )
    document = _document(name)
    over = {each: document.pop(each, {}) for each in OVER}
    if scale != "paper":
        document = merge(document, {**OVER[scale], **over[scale]})
    return Experiment(name, document, scale, quick, _short(document, scale) if quick else {})


def _short(document: dict[str, Any], scale: str) -> dict[str, Any]:
    """What makes a run quick; what is only looked at takes no time."""
    if not document.get("rows"):
        return {}
    return merge(QUICK, QUICK_FEATURES) if scale == "features" else QUICK


def scales(name: str) -> Sequence[Scale]:
    """The scales of an experiment; what is only looked at is the same at all."""
    document = _document(name)
    trained = "rows" in document and "settings" in document
    return [*(each for each in OVER if each in document or not trained), "paper"]


def _document(name: str) -> dict[str, Any]:
    file = resources.files("flr.paper").joinpath("experiments", f"{name}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def queue(scale: Scale, quick: bool = False) -> Iterator[tuple[Experiment, tuple[int, ...]]]:
    """All that is trained, first with few seeds each, then with all: an early stop leaves a whole.

    Some tables come first: others take runs from them, or much hangs on what they say.
    """
    ordered = [*FIRST, *(name for name in papers_order() if name not in FIRST)]
    found = [load(name, scale, quick) for name in ordered if scale in scales(name)]
    trained = [each for each in found if each.rows and each.settings]
    yield from ((each, each.seeds[:FIRST_SEEDS]) for each in trained)
    yield from ((each, each.seeds) for each in trained if len(each.seeds) > FIRST_SEEDS)
