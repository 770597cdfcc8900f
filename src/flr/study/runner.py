"""Trains the cells of an experiment that are not there yet; a stopped one goes on where it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import Timeout

from flr.config import Config
from flr.core.arrays import canonical_json, write_atomically
from flr.core.errors import ConfigError, FlrError
from flr.core.registry import unknown
from flr.data.build import subset
from flr.data.dataset import Dataset
from flr.report import summary
from flr.scenario.scenario import Scenario
from flr.simulation import api
from flr.simulation.build import load_data, load_scenario
from flr.simulation.run import OnRound
from flr.study import results
from flr.study.estimate_time import Sizes
from flr.study.experiment import Coordinates, Experiment, Models, merge
from flr.study.experiment_results import ExperimentResults

Watch = Callable[[str, int], AbstractContextManager[OnRound | None]]  # label, rounds


def unseen(_label: str, _rounds: int) -> AbstractContextManager[None]:
    """Shows nothing."""
    return nullcontext()


@dataclass(frozen=True)
class MissingRun:
    """A run that has to be trained."""

    config: Config
    label: str
    models: Models  # what becomes of the trained model


@dataclass(frozen=True)
class Runner:
    """A folder of cells, and what is the same for all that are trained in it."""

    folder: Path
    changes: Mapping[str, Any] = field(default_factory=dict)  # laid over every config
    workers: int = 2
    watch: Watch = unseen
    keep: bool = False  # run folders, besides their cells
    share: tuple[int, int] | None = None  # (i, n): only the i-th of every n runs, from 0
    _datasets: dict[str, Dataset] = field(default_factory=dict, init=False, repr=False)

    def reproduce(
        self, experiment: Experiment, seeds: Sequence[int], only: Sequence[str] = ()
    ) -> ExperimentResults:
        """Trains what is missing and gathers all cells; processes that do the same share the work.

        `only` names rows or settings to be trained.
        """
        todo = self.missing(experiment, seeds, only)
        self.check_data(experiment, [run.config for run in todo.values()])
        for patience in (0, -1):  # first what nobody else is at; then what is left, once it is free
            for name, run in todo.items():
                self.finish(experiment, name, run, patience)
        return self.gather(experiment, seeds)

    def finish(self, experiment: Experiment, name: str, run: MissingRun, patience: float) -> None:
        """Trains a run that no other process is at, or stops being at; all need the first model."""
        before = self.pretraining(experiment)
        first = before is not None and name == results.hash_of(before)
        with self.claimed(name, -1 if first else patience) as mine:
            if mine:
                self._train(experiment.name, name, run)

    def gather(
        self, experiment: Experiment, seeds: Sequence[int] | None = None
    ) -> ExperimentResults:
        """All cells that are there; nothing is trained."""
        chosen = experiment.seeds if seeds is None else tuple(seeds)
        configs = self.plan(experiment, chosen)
        read = {p: results.read(self.folder, results.hash_of(c)) for p, c in configs.items()}
        found = {place: cell for place, cell in read.items() if cell is not None}
        return ExperimentResults(experiment, chosen, configs, found, self)

    def plan(self, experiment: Experiment, seeds: Sequence[int]) -> dict[Coordinates, Config]:
        """The resolved config of every run; all mistakes show before anything is trained."""
        before, start = self.pretraining(experiment), {}
        if before is not None:
            start = {"train": {"init": str(self.model(results.hash_of(before)))}}
        above = merge(start, self.changes)
        return {place: experiment.config(place, above) for place in experiment.places(tuple(seeds))}

    def pretraining(self, experiment: Experiment) -> Config | None:
        """The run whose model all others start from; its seed is always the same."""
        if experiment.pretrain is None:
            return None
        train, data = (self.changes.get(section, {}) for section in ("train", "data"))
        above = {
            "train": {key: train[key] for key in ("device", "threads", "model") if key in train},
            "data": {key: data[key] for key in ("path",) if key in data},
        }
        return experiment.resolve(1, experiment.pretrain, above=above)

    def missing(
        self, experiment: Experiment, seeds: Sequence[int], only: Sequence[str] = ()
    ) -> dict[str, MissingRun]:
        """What has to be trained, by hash."""
        configs = self.plan(experiment, seeds)
        keys = [list(experiment.rows), list(experiment.settings)]
        for name in only:
            if not any(name in some for some in keys):
                raise ConfigError(unknown("row or setting", name, [*keys[0], *keys[1]]))
        rows, settings = ([key for key in some if key in only] or some for some in keys)
        found: dict[str, MissingRun] = {}
        for number, (place, config) in enumerate(configs.items(), start=1):
            models = experiment.models
            if models == "need" and place.seed != seeds[0]:  # pictures are of the first seed's
                models = "keep"
            asked = place.row in rows and place.setting in settings and self._shares(number - 1)
            if asked and not self._has(name := results.hash_of(config), models):
                row, setting = experiment.rows[place.row], experiment.settings[place.setting]
                label = f"{number}/{len(configs)} {row.title}, {setting.title}, seed {place.seed}"
                found[name] = MissingRun(config, label, models)
        before = self.pretraining(experiment)
        if before is not None and found and not self._has(results.hash_of(before), "need"):
            first = MissingRun(before, "the network that all start from", "need")
            return {results.hash_of(before): first, **found}
        return found

    def _shares(self, number: int) -> bool:
        """Whether a run is this process's where a cluster has dealt them out."""
        return self.share is None or number % self.share[1] == self.share[0]

    def kept(self, name: str) -> str:
        """The run folder of a cell, or nothing where there is none."""
        folder = self.folder / "runs" / name
        return str(folder) if (folder / summary.NAME).exists() else ""

    def _has(self, name: str, models: Models) -> bool:
        """Whether nothing has to be trained."""
        there = models != "need" or self.model(name).exists()
        return there and results.read(self.folder, name) is not None

    @contextmanager
    def claimed(self, name: str, patience: float) -> Iterator[bool]:
        """Whether a cell is this process's to train, perhaps after some seconds; -1: for ever."""
        lock = results.lock(self.folder, name)
        try:
            lock.acquire(timeout=patience)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _train(self, table: str, name: str, missing: MissingRun) -> None:
        """Trains a run, unless another process has done so since, and keeps its cell."""
        if self._has(name, missing.models):
            return
        run_folder, done = self.folder / "runs" / name, self.folder / "runs" / f".done-{name}"
        config = missing.config.model_copy(update={"workers": self.workers})
        with self.watch(missing.label, config.rounds) as on_round:
            data = self.dataset(config)
            if (run_folder / "config.toml").exists():
                run = api.resume(run_folder, data=data, on_round=on_round, workers=self.workers)
            else:
                run = api.run(config, data=data, out=run_folder, on_round=on_round)
        if missing.models != "drop":
            write_atomically(self.model(name), (run_folder / "model.safetensors").read_bytes())
        if results.read(self.folder, name) is None:  # one that came from elsewhere stays
            results.write(self.folder, table, run)
        if self.keep:
            return
        shutil.rmtree(done, ignore_errors=True)  # of a stop in the middle of the next two lines
        run_folder.rename(done)  # last: until then a stop costs nothing
        shutil.rmtree(done)

    def dataset(self, config: Config) -> Dataset:
        """The data set before any choice of samples, or its features; read once for all cells."""
        source, settings = config.data.source, config.data
        key = canonical_json(
            source.table("name") if settings.backbone is None else settings.table()
        )
        if key not in self._datasets:
            self._datasets.clear()  # one at a time: they are large
            read = source.build().load()
            own = config.model_copy(update={"workers": self.workers})
            self._datasets[key] = read if settings.backbone is None else load_data(own, read)
        return self._datasets[key]

    def scenario(self, config: Config) -> tuple[Dataset, Scenario]:
        """The samples and labels of a run."""
        dataset = self.dataset(config)
        if config.data.backbone is None:
            dataset = subset(dataset, config.data.train, config.data.test)
        return dataset, load_scenario(config, dataset)

    def sizes(self, config: Config) -> Sizes:
        """What of a run's data decides how long it takes."""
        dataset = self.dataset(config)
        samples = config.data.train or len(dataset.train.y)
        return Sizes(dataset.input_shape, len(dataset.classes), samples)

    def model(self, name: str) -> Path:
        """Where the model of a cell lies, if it was kept."""
        return self.folder / results.MODELS / f"{name}.safetensors"

    def check_data(self, experiment: Experiment, configs: Sequence[Config]) -> None:
        """Deals every split out once, so that hours do not end at data that is not there."""
        different = {
            canonical_json([c.data.table(), c.partition.table("kind"), c.noise.table("kind")]): c
            for c in configs
        }
        for config in different.values():
            try:
                self.scenario(config)
            except FlrError as error:
                raise type(error)(f"{experiment.label}: {error}") from error
