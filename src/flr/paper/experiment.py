"""A table or figure of the paper as data: settings, rows, the paper's numbers, its claims.

A file in `flr/paper/experiments/` is shaped so::

    title = "..."            # what it shows
    shows = "accuracy-table" # how, see outputs.py
    preset = "cifar10"       # the settings below all others
    score = "best"           # which accuracy the paper reports: best, last or last10
    trials = 5               # seeds of the paper; three on a laptop unless [laptop] says otherwise
    [settings.KEY]           # columns: a title and sections of a config
    [rows.KEY]               # a title, a method, sections of a config
    [paper.ROW]              # the paper's number for each setting
    [[claims]]               # what the paper concludes, see claims/judgement.py
    [laptop]                 # laid over all of this at laptop scale; so [features] and [middle]

A run is made from preset, setting and row, each laid over the one before. Equal runs of two files
are one cell and are trained once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from typing import Any, Literal

from flr import config as configs
from flr.config import Config
from flr.core.errors import ConfigError
from flr.core.registry import unknown
from flr.paper.claims.judgement import Claim

Scale = Literal["laptop", "features", "middle", "paper"]
Models = Literal["drop", "keep", "need"]  # a needed one is trained again if it is not there
OVER: dict[Scale, dict[str, Any]] = {
    "laptop": {"trials": 3},
    "features": {},
    "middle": {"trials": 1},
}
FIRST_SEEDS = 3  # of every table before any has more
FIRST = ("table-memorization", "table-regularizers", "fig-dirichlet", "table-cifar100")
GIVEN = "given"  # as a row's forget_rate: the share of wrong labels of the setting

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
# of a setting or row; the rest is config
_WORDS = ("title", "only", "ours", "panel", "x", "trials", "wrong")


@dataclass(frozen=True)
class Part:
    """A setting (column) or a row: how it is called, and what it adds to the config."""

    key: str
    title: str
    config: Mapping[str, Any]
    only: Sequence[str] = ()  # of a row: the settings it is run in; empty means all
    ours: bool = False  # the paper has no such row or column
    panel: str = ""  # of a picture with several
    x: str = ""  # where it stands on the axis
    trials: int | None = None  # run with the first so many seeds alone; 0: left out at this scale
    wrong: float = 0.0  # of a setting: the expected share of wrong labels


@dataclass(frozen=True)
class Coordinates:
    """One run of an experiment."""

    row: str
    setting: str
    seed: int


@dataclass(frozen=True)
class Experiment:
    """A table or figure at one scale."""

    name: str
    scale: Scale
    quick: bool
    document: Mapping[str, Any]

    @property
    def title(self) -> str:
        return str(self.document["title"])

    @property
    def shows(self) -> str:
        return str(self.document["shows"])

    @property
    def score(self) -> str:
        """The accuracy that the paper reports."""
        return str(self.document.get("score", "best"))

    @property
    def caveat(self) -> str:
        """What a reader has to know of this scale before the numbers."""
        return str(self.document.get("caveat", ""))

    @property
    def models(self) -> Models:
        """What becomes of the trained models: another experiment may need what this one keeps."""
        found: Models = self.document.get("models", "drop")
        return found

    @property
    def seeds(self) -> tuple[int, ...]:
        """The default; a part may have fewer."""
        trials = 1 if self.quick else int(self.document.get("trials", 5))
        return tuple(range(1, trials + 1))

    @cached_property
    def settings(self) -> dict[str, Part]:
        return _parts(self.document.get("settings", {}))

    @cached_property
    def rows(self) -> dict[str, Part]:
        return _parts(self.document.get("rows", {}))

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Those on rows that are there, each with the settings that are."""
        found = []
        for claim in (Claim(**raw) for raw in self.document.get("claims", [])):
            named = tuple(key for key in claim.settings if key in self.settings)
            if {claim.row, claim.than} <= self.rows.keys() and (named or not claim.settings):
                found.append(replace(claim, settings=named))
        return tuple(found)

    def paper(self, row: str, setting: str) -> Any:
        """The paper's numbers for a cell: a mean, [mean, deviation], a longer list, or None."""
        return self.document.get("paper", {}).get(row, {}).get(setting)

    def rows_in(self, setting: str) -> list[Part]:
        """The rows that are run in a setting."""
        return [row for row in self.rows.values() if not row.only or setting in row.only]

    def places(self, seeds: tuple[int, ...]) -> Iterator[Coordinates]:
        """All runs, seed after seed, so that an early stop leaves a smaller whole."""
        for number, seed in enumerate(seeds):
            for setting in self.settings.values():
                for row in self.rows_in(setting.key):
                    if all(part.trials is None or number < part.trials for part in (row, setting)):
                        yield Coordinates(row.key, setting.key, seed)

    def config(self, place: Coordinates, above: Mapping[str, Any] | None = None) -> Config:
        """The resolved config of a run; `above` wins over everything."""
        layers = [self.settings[place.setting].config]
        if place.row:  # what is only looked at before training has no row
            layers.append(_told(self.rows[place.row].config, self.settings[place.setting].wrong))
        return self.resolve(place.seed, *layers, above=above)

    def resolve(
        self, seed: int, *layers: Mapping[str, Any], above: Mapping[str, Any] | None = None
    ) -> Config:
        """A config from the preset and what is laid over it."""
        tree: dict[str, Any] = dict(self.document.get("config", {}))
        if "preset" in self.document:
            tree["preset"] = self.document["preset"]
        quick = QUICK if self.quick and self.rows else {}  # what is only looked at takes no time
        if quick and self.scale == "features":
            quick = merge(quick, QUICK_FEATURES)
        for layer in (*layers, quick, above or {}):
            tree = merge(tree, layer)
        return configs.parse(tree | {"seed": seed}, source=f"{self.name} ({self.scale})")

    @property
    def pretrain(self) -> Mapping[str, Any] | None:
        """The config of a run whose model all others start from."""
        found: Mapping[str, Any] | None = self.document.get("pretrain")
        return found


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
    return Experiment(name, scale, quick, document)


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


def _told(row: Mapping[str, Any], wrong: float) -> Mapping[str, Any]:
    """A row with the true share of wrong labels, where its method's authors give it."""
    method = row.get("method")
    if isinstance(method, Mapping) and method.get("forget_rate") == GIVEN:
        return {**row, "method": {**method, "forget_rate": wrong}}
    return row


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both trees in one; the one above wins, and a table with another kind or name replaces."""
    joined = dict(below)
    for key, value in above.items():
        old = joined.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            # options of one kind of noise, say, are none of another's
            same = all(old.get(k) == value.get(k, old.get(k)) for k in ("kind", "name"))
            joined[key] = merge(old, value) if same else value
        else:
            joined[key] = value
    return joined


def _parts(tables: Mapping[str, Any]) -> dict[str, Part]:
    found = {}
    for key, table in tables.items():
        words = {name: value for name, value in table.items() if name in _WORDS}
        config = {name: value for name, value in table.items() if name not in _WORDS}
        if words.get("trials") != 0:
            found[key] = Part(key=key, config=config, **words)
    return found
