"""From a config to a finished run folder, and back to a stopped one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flr import config as configs
from flr.arrays import write_atomically
from flr.assemble import check_fits, load_data, load_scenario
from flr.client import saved
from flr.config import Config
from flr.engine.workers import prepare
from flr.errors import ConfigError, DataError
from flr.folders import default_folder, locked, new_folder, refuse_other_runs
from flr.report import lines, summary
from flr.report.diary import CLIENTS, METRICS
from flr.scenario import scenario as scenarios
from flr.simulate import Material, OnRound, federate


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
        material = Material.of(resolved, dataset, scenario)
        del dataset  # a large one would be kept in memory for the whole run
        federate(resolved, material, scenario, folder, on_round)
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
        material = Material.of(config, dataset, scenario)
        del dataset
        federate(config, material, scenario, folder, on_round)
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
    if not isinstance(config, str | Path):
        raise ConfigError(
            f"Expected a config as a path, a dictionary or a Config; got {type(config).__name__}. "
            'Write for instance flr.run("experiment.toml").'
        )
    return configs.load(Path(config))
