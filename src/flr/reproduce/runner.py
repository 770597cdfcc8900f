"""Trains the cells of an experiment that are not there yet; a stopped one goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from flr import session
from flr.arrays import canonical_json
from flr.assemble import OnRound
from flr.config import Config
from flr.data.dataset import Dataset
from flr.errors import DataError
from flr.reproduce import cells
from flr.reproduce.cells import Cell
from flr.reproduce.experiment import Experiment, Place

Model = Literal["drop", "keep", "need"]  # a needed one is trained again if it is not there
Watch = Callable[[str, int], AbstractContextManager[OnRound | None]]  # label, rounds


@contextmanager
def unwatched(_label: str, _rounds: int) -> Iterator[OnRound | None]:
    """Shows nothing."""
    yield None


@dataclass(frozen=True)
class Workshop:
    """A folder of cells, and what is the same for all that are trained in it."""

    folder: Path
    changes: Mapping[str, Any] = field(default_factory=dict)  # laid over every config
    workers: int = 2
    watch: Watch = unwatched

    def run(self, config: Config, label: str, model: Model = "drop") -> Cell:
        """The cell of a config, trained if need be."""
        name = cells.hash_of(config)
        found = cells.read(self.folder, name)
        if found is not None and (model != "need" or self.model(name).exists()):
            return found
        run_folder = self.folder / "runs" / name
        config = config.model_copy(update={"workers": self.workers})
        with self.watch(label, config.rounds) as on_round:
            run = self._train(config, run_folder, on_round)
        if model != "drop":
            self.model(name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run_folder / "model.safetensors", self.model(name))
        cell = cells.write(self.folder, run)
        shutil.rmtree(run_folder)  # last: until then a stop costs nothing
        return cell

    def _train(self, config: Config, folder: Path, on_round: OnRound | None) -> session.Run:
        data = self.dataset(config)
        if (folder / "config.toml").exists():
            return session.resume(folder, data=data, on_round=on_round, workers=self.workers)
        return session.run(config, data=data, out=folder, on_round=on_round)

    def dataset(self, config: Config) -> Dataset:
        """The data set before any choice of samples; read once for all cells."""
        source = config.data.source
        key = canonical_json(source.table("name"))
        if key not in self._datasets:
            self._datasets.clear()  # one at a time: they are large
            self._datasets[key] = source.build().load()
        return self._datasets[key]

    @cached_property
    def _datasets(self) -> dict[str, Dataset]:
        return {}

    def model(self, name: str) -> Path:
        """Where the model of a cell lies, if it was kept."""
        return self.folder / "models" / f"{name}.safetensors"


@dataclass(frozen=True)
class Outcome:
    """An experiment with all its cells, by row, setting and seed."""

    experiment: Experiment
    seeds: tuple[int, ...]
    configs: Mapping[Place, Config]
    cells: Mapping[Place, Cell]
    workshop: Workshop

    def at(self, row: str, setting: str) -> dict[int, Cell]:
        """The cells of one place in a table, by seed; empty where nothing is run."""
        found = {seed: self.cells.get(Place(row, setting, seed)) for seed in self.seeds}
        return {seed: cell for seed, cell in found.items() if cell is not None}

    def values(self, row: str, setting: str, *path: str) -> list[float]:
        """A number of the summaries of one place, for each seed that has it."""
        values = []
        for cell in self.at(row, setting).values():
            value: Any = cell.summary
            for key in path:
                value = value[key]
            values += [] if value is None else [float(value)]
        return values

    def scores(self, row: str, setting: str) -> list[float]:
        """The accuracy that the paper reports, for each seed."""
        return self.values(row, setting, "accuracy", self.experiment.score)

    def curves(self, row: str, setting: str) -> list[list[dict[str, Any]]]:
        """The curves of one place, for each seed."""
        return [cell.curve for cell in self.at(row, setting).values()]


def plan(experiment: Experiment, workshop: Workshop, seeds: Sequence[int]) -> dict[Place, Config]:
    """The resolved config of every run; all mistakes show before anything is trained."""
    changes = dict(workshop.changes)
    before = pretraining(experiment, workshop)
    if before is not None:
        start = {"train": {"init": str(workshop.model(cells.hash_of(before)))}}
        changes = {**start, **changes, "train": {**start["train"], **changes.get("train", {})}}
    return {place: experiment.config(place, changes) for place in experiment.places(tuple(seeds))}


def pretraining(experiment: Experiment, workshop: Workshop) -> Config | None:
    """The run whose model all others start from; its seed is always the same."""
    if experiment.pretrain is None:
        return None
    device = workshop.changes.get("train", {}).get("device", "cpu")
    return experiment.resolve(1, experiment.pretrain, {"train": {"device": device}})


def perform(experiment: Experiment, workshop: Workshop, seeds: Sequence[int]) -> Outcome:
    """Trains what is missing and gathers all cells."""
    configs = plan(experiment, workshop, seeds)
    if configs:
        check_data(experiment, workshop, configs)
    before = pretraining(experiment, workshop)
    if before is not None:
        workshop.run(before, "the network that all start from", "need")
    found = {}
    for number, (place, config) in enumerate(configs.items(), start=1):
        row, setting = experiment.rows[place.row], experiment.settings[place.setting]
        label = f"{number}/{len(configs)} {row.title}, {setting.title}, seed {place.seed}"
        found[place] = workshop.run(config, label, experiment.models)
    return Outcome(experiment, tuple(seeds), configs, found, workshop)


def check_data(experiment: Experiment, workshop: Workshop, configs: Mapping[Place, Config]) -> None:
    """Looks for each data set once, so that hours do not end at one that is not there."""
    missing = [c for c in configs.values() if cells.read(workshop.folder, cells.hash_of(c)) is None]
    for config in {canonical_json(c.data.source.table("name")): c for c in missing}.values():
        try:
            workshop.dataset(config)
        except DataError as error:
            raise DataError(f"{experiment.name} ({experiment.scale}): {error}") from error
