"""Rows by settings by seeds, as data: a table or figure of the paper, or a study of one's own.

Its document is shaped so::

    title = "..."            # what it shows
    score = "best"           # the accuracy it is about: best, last or last10
    trials = 5               # seeds 1 to 5; or seeds = [7, 8]
    [config]                 # below all others; may name a preset
    [settings.KEY]           # columns: a title and sections of a config
    [rows.KEY]               # a title, a method, sections of a config

A run is made from config, setting and row, each laid over the one before. Equal runs of two files
are one cell and are trained once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from flr import config as configs
from flr.config import Config
from flr.config.overrides import as_table

Models = Literal["drop", "keep", "need"]  # a needed one is trained again if it is not there
GIVEN = "given"  # as a row's forget_rate: the share of wrong labels of the setting
# of a setting or row; the rest is config
WORDS = ("title", "only", "ours", "panel", "x", "trials", "wrong")


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
    """All runs of a table; one of the paper's is made at a scale, and may be a quick look."""

    name: str
    document: Mapping[str, Any]
    scale: str = ""
    quick: bool = False
    on_top: Mapping[str, Any] = field(default_factory=dict)  # laid over rows and settings

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{self.name} ({self.scale})" if self.scale else self.name

    @property
    def folder(self) -> str:
        """The folder of what is made of its cells."""
        return "-".join([self.name, *filter(None, [self.scale, "quick" if self.quick else ""])])

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
        if "seeds" in self.document:
            return tuple(self.document["seeds"])
        trials = 1 if self.quick else int(self.document.get("trials", 5))
        return tuple(range(1, trials + 1))

    @cached_property
    def settings(self) -> dict[str, Part]:
        return _parts(self.document.get("settings", {}))

    @cached_property
    def rows(self) -> dict[str, Part]:
        return _parts(self.document.get("rows", {}))

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
        for layer in (*layers, self.on_top, above or {}):
            tree = merge(tree, layer)
        return configs.parse(tree | {"seed": seed}, source=self.label)

    @property
    def pretrain(self) -> Mapping[str, Any] | None:
        """The config of a run whose model all others start from."""
        found: Mapping[str, Any] | None = self.document.get("pretrain")
        return found


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
        if isinstance(old, str) and isinstance(value, Mapping):
            old = as_table(key, old)  # "flr" and { lam = 3 }
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
        words = {name: value for name, value in table.items() if name in WORDS}
        config = {name: value for name, value in table.items() if name not in WORDS}
        if words.get("trials") != 0:
            found[key] = Part(key=key, config=config, **words)
    return found
