"""Trains the cells of an experiment that are not there yet; a stopped one goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from flr import session
from flr.arrays import canonical_json, write_atomically
from flr.assemble import load_scenario
from flr.config import Config
from flr.data import sources
from flr.data.dataset import Dataset
from flr.errors import ConfigError, FlrError
from flr.registry import unknown
from flr.reproduce import cells
from flr.reproduce.cells import Cell
from flr.reproduce.experiment import Experiment, Models, Place, merge
from flr.scenario.scenario import Scenario
from flr.simulate import OnRound

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

    def run(self, config: Config, label: str, models: Models = "drop") -> Cell:
        """The cell of a config, trained if need be."""
        if self.has(config, models):
            return self.cell(config)
        name = cells.hash_of(config)
        run_folder, done = self.folder / "runs" / name, self.folder / "runs" / f".done-{name}"
        config = config.model_copy(update={"workers": self.workers})
        with self.watch(label, config.rounds) as on_round:
            run = self._train(config, run_folder, on_round)
        if models != "drop":
            write_atomically(self.model(name), (run_folder / "model.safetensors").read_bytes())
        if cells.read(self.folder, name) is None:  # one that came from elsewhere stays
            cells.write(self.folder, run)
        shutil.rmtree(done, ignore_errors=True)  # of a stop in the middle of the next two lines
        run_folder.rename(done)  # last: until then a stop costs nothing
        shutil.rmtree(done)
        return self.cell(config)

    @contextmanager
    def claimed(self, name: str, patience: float) -> Iterator[bool]:
        """Whether a cell is this process's to train, perhaps after some seconds; -1: for ever."""
        locks = self.folder / "runs" / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(locks / name)
        try:
            lock.acquire(timeout=patience)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def has(self, config: Config, models: Models = "drop") -> bool:
        """Whether nothing has to be trained."""
        name = cells.hash_of(config)
        there = models != "need" or self.model(name).exists()
        return there and cells.read(self.folder, name) is not None

    def cell(self, config: Config) -> Cell:
        """A cell that is there."""
        found = cells.read(self.folder, cells.hash_of(config))
        if found is None:
            raise LookupError(f"no cell of {config.label}, seed {config.seed}")
        return found

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

    def scenario(self, config: Config) -> tuple[Dataset, Scenario]:
        """The samples and labels of a run."""
        dataset = sources.subset(self.dataset(config), config.data.train, config.data.test)
        return dataset, load_scenario(config, dataset)

    def model(self, name: str) -> Path:
        """Where the model of a cell lies, if it was kept."""
        return self.folder / cells.MODELS / f"{name}.safetensors"


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

    def summaries(self, row: str, setting: str) -> dict[int, Mapping[str, Any]]:
        """What claims look at, by seed."""
        return {seed: cell.summary for seed, cell in self.at(row, setting).items()}

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

    @cached_property
    def stale(self) -> frozenset[Place]:
        """Runs whose method has changed since."""
        configs = self.configs
        return frozenset(p for p, cell in self.cells.items() if cells.stale(cell, configs[p]))

    @property
    def changes(self) -> str:
        """What the user has changed of every run, in words; the device cannot matter."""
        tree = merge(self.workshop.changes, {"train": {"device": None}})
        return ", ".join(f"{key} = {value}" for key, value in flat(tree) if value is not None)


def flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted key."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def plan(experiment: Experiment, workshop: Workshop, seeds: Sequence[int]) -> dict[Place, Config]:
    """The resolved config of every run; all mistakes show before anything is trained."""
    before, start = pretraining(experiment, workshop), {}
    if before is not None:
        start = {"train": {"init": str(workshop.model(cells.hash_of(before)))}}
    above = merge(start, workshop.changes)
    return {place: experiment.config(place, above) for place in experiment.places(tuple(seeds))}


def pretraining(experiment: Experiment, workshop: Workshop) -> Config | None:
    """The run whose model all others start from; its seed is always the same."""
    if experiment.pretrain is None:
        return None
    train, data = (workshop.changes.get(section, {}) for section in ("train", "data"))
    above = {
        "train": {key: train[key] for key in ("device", "threads", "model") if key in train},
        "data": {key: data[key] for key in ("path",) if key in data},
    }
    return experiment.resolve(1, experiment.pretrain, above=above)


def needed(experiment: Experiment, place: Place, seeds: Sequence[int]) -> Models:
    """Pictures of models are made of the first seed's."""
    later = experiment.models == "need" and place.seed != seeds[0]
    return "keep" if later else experiment.models


def missing(
    experiment: Experiment, workshop: Workshop, seeds: Sequence[int], only: Sequence[str] = ()
) -> dict[str, tuple[str, Config, Models]]:
    """What has to be trained, by hash: a label, the config, what becomes of the model."""
    configs = plan(experiment, workshop, seeds)
    keys = [list(experiment.rows), list(experiment.settings)]
    for name in only:
        if not any(name in some for some in keys):
            raise ConfigError(unknown("row or setting", name, [*keys[0], *keys[1]]))
    chosen = [[key for key in some if key in only] or some for some in keys]
    found: dict[str, tuple[str, Config, Models]] = {}
    for number, (place, config) in enumerate(configs.items(), start=1):
        models = needed(experiment, place, seeds)
        asked = place.row in chosen[0] and place.setting in chosen[1]
        if asked and not workshop.has(config, models):
            row, setting = experiment.rows[place.row], experiment.settings[place.setting]
            label = f"{number}/{len(configs)} {row.title}, {setting.title}, seed {place.seed}"
            found[cells.hash_of(config)] = (label, config, models)
    before = pretraining(experiment, workshop)
    if before is not None and found and not workshop.has(before, "need"):
        first = ("the network that all start from", before, "need")
        return {cells.hash_of(before): first, **found}  # type: ignore[dict-item]
    return found


def perform(
    experiment: Experiment, workshop: Workshop, seeds: Sequence[int], only: Sequence[str] = ()
) -> Outcome:
    """Trains what is missing and gathers all cells; processes that do the same share the work.

    `only` names rows or settings to be trained.
    """
    todo = missing(experiment, workshop, seeds, only)
    check_data(experiment, workshop, [config for _, config, _ in todo.values()])
    before = pretraining(experiment, workshop)
    first = None if before is None else cells.hash_of(before)  # all others need its model
    for patience in (0, -1):  # first what nobody else is at; then what is left, once it is free
        for name, (label, config, models) in todo.items():
            with workshop.claimed(name, -1 if name == first else patience) as mine:
                if mine:
                    workshop.run(config, label, models)
    return gather(experiment, workshop, seeds)


def gather(experiment: Experiment, workshop: Workshop, seeds: Sequence[int]) -> Outcome:
    """All cells that are there; nothing is trained."""
    configs = plan(experiment, workshop, seeds)
    read = {p: cells.read(workshop.folder, cells.hash_of(c)) for p, c in configs.items()}
    found = {place: cell for place, cell in read.items() if cell is not None}
    return Outcome(experiment, tuple(seeds), configs, found, workshop)


def check_data(experiment: Experiment, workshop: Workshop, configs: Sequence[Config]) -> None:
    """Deals every split out once, so that hours do not end at data that is not there."""
    different = {
        canonical_json([c.data.table(), c.partition.table("kind"), c.noise.table("kind")]): c
        for c in configs
    }
    for config in different.values():
        try:
            workshop.scenario(config)
        except FlrError as error:
            raise type(error)(f"{experiment.name} ({experiment.scale}): {error}") from error
