"""An experiment with its cells: every number of a table, by row, setting and seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flr.config import Config
from flr.config.overrides import dotted
from flr.study import results
from flr.study.experiment import Coordinates, Experiment, merge
from flr.study.results import Cell

if TYPE_CHECKING:
    from flr.study.runner import Runner


@dataclass(frozen=True)
class ExperimentResults:
    """An experiment with all its cells, by row, setting and seed."""

    experiment: Experiment
    seeds: tuple[int, ...]
    configs: Mapping[Coordinates, Config]
    cells: Mapping[Coordinates, Cell]
    runner: Runner

    def at(self, row: str, setting: str) -> dict[int, Cell]:
        """The cells of one place in a table, by seed; empty where nothing is run."""
        found = {seed: self.cells.get(Coordinates(row, setting, seed)) for seed in self.seeds}
        return {seed: cell for seed, cell in found.items() if cell is not None}

    def by_seed(self, row: str, setting: str, *path: str) -> dict[int, float]:
        """A number of the summaries of one place, for each seed that has it."""
        found: dict[int, float] = {}
        for seed, cell in self.at(row, setting).items():
            value: Any = cell.summary
            for key in path:
                value = value[key]
            if value is not None:  # not measured, as where no label is wrong
                found[seed] = float(value)
        return found

    def values(self, row: str, setting: str, *path: str) -> list[float]:
        """The same without the seeds."""
        return list(self.by_seed(row, setting, *path).values())

    def accuracy(self, row: str, setting: str, which: str = "best") -> dict[int, float]:
        """Best, last or mean accuracy of the last ten rounds, by seed."""
        return self.by_seed(row, setting, "accuracy", which)

    def late(self, row: str, setting: str) -> list[float]:
        """The mean accuracy of the last ten rounds, for each seed: what pictures show."""
        return self.values(row, setting, "accuracy", "last10")

    def curves(self, row: str, setting: str) -> list[list[dict[str, Any]]]:
        """The curves of one place, for each seed."""
        return [cell.curve for cell in self.at(row, setting).values()]

    def planned(self, *places: tuple[str, str]) -> frozenset[int]:
        """The seeds with which each of these rows is to be run in its setting."""
        return frozenset.intersection(*(self._planned.get(place, frozenset()) for place in places))

    @cached_property
    def _planned(self) -> Mapping[tuple[str, str], frozenset[int]]:
        found: dict[tuple[str, str], frozenset[int]] = {}
        for p in self.experiment.places(self.seeds):
            found[p.row, p.setting] = found.get((p.row, p.setting), frozenset()) | {p.seed}
        return found

    def where(self, setting: str) -> str:
        """A column of the table, in words."""
        return f"{self.experiment.name}, {self.experiment.settings[setting].title}"

    @cached_property
    def stale(self) -> frozenset[Coordinates]:
        """Runs whose method has changed since."""
        configs = self.configs
        return frozenset(p for p, cell in self.cells.items() if results.stale(cell, configs[p]))

    @property
    def changes(self) -> str:
        """What the user has changed of every run, in words; the device cannot matter."""
        tree = merge(self.runner.changes, {"train": {"device": None}})
        return ", ".join(
            f"{key} = {value}" for key, value in dotted(tree) if value not in (None, {})
        )
