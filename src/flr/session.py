"""From a config to a finished run folder, and back to a stopped one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from flr import config as configs
from flr.arrays import write_atomically
from flr.assemble import OnRound, check_fits, federate
from flr.client import saved
from flr.config import Config
from flr.data import sources
from flr.data.dataset import Dataset
from flr.engine.workers import prepare
from flr.errors import DataError
from flr.report import lines, summary
from flr.report.recorder import CLIENTS, METRICS
from flr.scenario import scenario as scenarios
from flr.scenario.scenario import Scenario


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, and what is in it."""

    folder: Path

    @cached_property
    def config(self) -> Config:
        return configs.load(self.folder / "config.toml")

    @cached_property
    def summary(self) -> dict[str, Any]:
        return summary.load(self.folder)

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One entry for each round."""
        return lines.read(self.folder / METRICS)

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        """One entry for each client asked in each round."""
        return lines.read(self.folder / CLIENTS)

    def model(self) -> saved.SavedModel:
        """The trained classifier."""
        return saved.load(self.folder / "model.safetensors", trust=True)


def run(
    config: Config | Mapping[str, Any] | str | Path,
    *,
    data: Any = None,
    out: Path | str | None = None,
    on_round: OnRound | None = None,
) -> Run:
    """Trains as the config says and returns the run.

    `data` may be a `Dataset`, `(x, y)` or `(x, y, x_test, y_test)` and takes the place of `[data]`.
    `out` is the run's folder; without it one is made under `runs/`.
    """
    resolved = as_config(config)
    if resolved.workers > 1:
        prepare()
    dataset = load_data(resolved, data)
    scenario = load_scenario(resolved, dataset)
    check_fits(resolved, dataset, scenario)
    folder = new_folder(Path(out) if out is not None else default_folder(resolved))
    with locked(folder):
        refuse_other_runs(folder)
        scenario.save(folder / "scenario.safetensors")
        # last: a folder with a config is a run that can be resumed
        write_atomically(folder / "config.toml", resolved.to_toml())
        federate(resolved, dataset, scenario, folder, on_round)
    return Run(folder)


def resume(
    folder: Path | str,
    *,
    data: Any = None,
    on_round: OnRound | None = None,
    workers: int | None = None,
) -> Run:
    """Goes on with a run that was stopped, to the same bits as if it never had been.

    `data` is needed again where it was given in Python; `workers` may differ from before.
    """
    folder = Path(folder)
    config = read_config(folder)
    if workers is not None:
        config = config.model_copy(update={"workers": workers})
    if config.workers > 1:
        prepare()
    with locked(folder):
        dataset = load_data(config, data)
        scenario = scenarios.load(folder / "scenario.safetensors")
        scenarios.check_fits(scenario, dataset)
        federate(config, dataset, scenario, folder, on_round)
    return Run(folder)


def read_config(folder: Path) -> Config:
    """The resolved config of a run that was started."""
    if not (folder / "config.toml").is_file() or not (folder / "scenario.safetensors").is_file():
        raise DataError(
            f"Expected a run folder with config.toml and scenario.safetensors; {folder} is none. "
            "Give the folder that `flr run` has printed; what never started has to be run again."
        )
    return configs.load(folder / "config.toml")


def as_config(config: Config | Mapping[str, Any] | str | Path) -> Config:
    """A config from what a user has: itself, a dictionary, or a path."""
    if isinstance(config, Config):
        return config
    if isinstance(config, Mapping):
        return configs.parse(config)
    return configs.load(Path(config))


def load_data(config: Config, data: Any = None) -> Dataset:
    """The data set of a config, or the one given in Python."""
    if data is None:
        dataset = config.data.source.build().load()
    else:
        dataset = data if isinstance(data, Dataset) else sources.from_arrays(*data)
    return sources.subset(dataset, config.data.train, config.data.test)


def load_scenario(config: Config, dataset: Dataset) -> Scenario:
    """The scenario of a config: read from a file, or made from partition, noise and attack."""
    if config.scenario.path is not None:
        scenario = scenarios.load(config.scenario.path)
        scenarios.check_fits(scenario, dataset)
        return scenario
    seed = config.seed if config.scenario.seed is None else config.scenario.seed
    return scenarios.build(
        dataset,
        config.partition.build(),
        config.noise.build(),
        seed,
        config.scenario.benchmark,
        config.attack.build(),
    )


def default_folder(config: Config) -> Path:
    """Where a run goes that was not told where."""
    return first_free(Path("runs") / f"{config.label}-{config.seed}")


def new_folder(out: Path) -> Path:
    """Makes the folder of a new run; never one that holds something else."""
    refuse_other_runs(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"Expected to make a folder for the run at {out}; the system says: {error.strerror}. "
            "Choose another --out."
        ) from None
    return out


def refuse_other_runs(out: Path) -> None:
    """A start that was cut short leaves no config and may be tried again."""
    if (out / "config.toml").exists():
        raise DataError(
            f"Expected a new folder for the run; {out} already holds one. "
            f"Go on with it (`flr resume {out}`), or choose another --out."
        )
    if out.is_dir():
        others = [p.name for p in out.iterdir() if not p.name.startswith((".", "scenario."))]
        if others:
            raise DataError(
                f"Expected a new or empty folder for the run; {out.resolve()} holds "
                f"{', '.join(sorted(others)[:3])}. Choose another --out."
            )


def first_free(base: Path) -> Path:
    """The path itself, or the first of base-2, base-3, ... that does not exist."""
    numbered = (base.with_name(f"{base.name}-{number}") for number in count(2))
    return next(path for path in chain([base], numbered) if not path.exists())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time in a run folder."""
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise DataError(
            f"Expected {folder} to be free; another flr process is working in it. Wait for it to "
            f"end or stop it."
        ) from None
    try:
        yield
    finally:
        lock.release()
