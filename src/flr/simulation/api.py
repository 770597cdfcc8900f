"""The public way to train: from a config to a finished run folder, and back to a stopped one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flr import config as configs
from flr.config import Config, own_runs
from flr.core import bits
from flr.core.arrays import write_atomically
from flr.core.errors import ConfigError, DataError
from flr.engine.fork_server import prepare
from flr.models import model_file
from flr.models.finetune import pinned
from flr.report import html, jsonl, summary
from flr.report.frames import flat, to_frame
from flr.report.recorder import CLIENTS, METRICS
from flr.scenario import scenario as scenarios
from flr.simulation import notebook, run_record
from flr.simulation.build import check_fits, first_networks, load_data, load_scenario
from flr.simulation.folders import locked, new_folder, own_folder, refuse_other_runs
from flr.simulation.in_process import TrainingData, run_in_process
from flr.simulation.run import OnRound

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, and what is in it.

    Args:
        folder: Where `flr.run` or `flr run` has put it; text is taken as a path.
        trust: Whether code that somebody else's folder names may be imported.

    Example:
        >>> finished = flr.Run("runs/flr-1")
        >>> len(finished.metrics) == finished.summary["rounds"]
        True
        >>> 0 <= finished.metrics[-1]["accuracy"] <= 1
        True
    """

    folder: Path
    trust: bool = False

    def __init__(self, folder: str | Path, trust: bool = False) -> None:
        # a frozen value; whoever types one in a notebook writes text
        self.__dict__.update(folder=Path(folder), trust=trust)

    @cached_property
    def config(self) -> Config:
        """The config it was run with, all defaults filled in; read without missing plugins, too."""
        return configs.load_run(self.folder, trust=self.trust, plugins=False)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The content of `summary.json`: accuracies, memorization, noise."""
        return summary.load(self.folder)

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One entry for each round."""
        return jsonl.read(self.folder / METRICS)

    @cached_property
    def clients(self) -> list[dict[str, Any]]:
        """One entry for each client asked in each round."""
        return jsonl.read(self.folder / CLIENTS)

    def frame(self) -> pd.DataFrame:
        """One row for each round: every number of `metrics.jsonl` under its dotted name.

        Example:
            >>> run.frame().plot(x="round", y="accuracy")
        """
        return to_frame(dict(flat(line)) for line in self.metrics)

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, a few numbers and the curves."""
        return html.run_card(self.folder)

    def model(self) -> model_file.SavedModel:
        """The trained classifier."""
        trust = self.trust or own_runs.own_code(self.folder)
        return model_file.load(self.folder / "model.safetensors", trust=trust)


def run(
    config: Config | Mapping[str, Any] | str | Path,
    *,
    data: Any = None,
    out: Path | str | None = None,
    on_round: OnRound | None = None,
) -> Run:
    """Trains a simulated federation as the config says.

    Args:
        config: The path of a TOML file, a dictionary like one, or a `Config`.
        data: A `Dataset` (of flr, torch or Hugging Face), `(x, y)` or `(x, y, x_test, y_test)` in
            place of the config's `[data]`.
        out: The run's folder, new or empty; without it one is made under `runs/`.
        on_round: Called after every round with its line of `metrics.jsonl`; without it, a notebook
            shows a bar.

    Returns:
        The finished run.

    Raises:
        FlrError: The config, the data or the folder cannot be used, or too many clients failed.

    Example:
        >>> config = {"method": "flr", "rounds": 2, "partition": {"kind": "iid", "clients": 5}}
        >>> done = flr.run(config, out="runs/first")
        >>> done.summary["accuracy"]["last"] <= done.summary["accuracy"]["best"]
        True
    """
    resolved = pinned(as_config(config))
    bits.require(resolved.bits)
    on_round = notebook.watched(on_round, resolved.label, resolved.rounds)
    with own_folder(resolved) if out is None else nullcontext(Path(out)) as folder:
        return _run_in(folder, resolved, data, on_round)


def _run_in(folder: Path, resolved: Config, data: Any, on_round: OnRound | None) -> Run:
    if resolved.workers > 1:
        prepare()
    dataset = load_data(resolved, data)
    scenario = load_scenario(resolved, dataset)
    networks = check_fits(resolved, dataset, scenario)
    with locked(new_folder(folder)):
        refuse_other_runs(folder)
        scenario.save(folder / "scenario.safetensors")
        own_runs.seal(folder, resolved)
        # last: a folder with a config is a run that can be resumed
        write_atomically(folder / "config.toml", resolved.to_toml(), sync=True)
        run_record.begin(folder, resolved)
        training_data = TrainingData.of(resolved, dataset, scenario)
        del dataset  # a large one would be kept in memory for the whole run
        run_in_process(resolved, training_data, scenario, networks, folder, on_round)
    return Run(folder)


def resume(
    folder: Path | str,
    *,
    data: Any = None,
    on_round: OnRound | None = None,
    workers: int | None = None,
    device: str | None = None,
    trust: bool = False,
) -> Run:
    """Goes on with a run that was stopped, to the same bits as if it never had been.

    Args:
        folder: The run's folder.
        data: The same data again, where `flr.run` was given some.
        on_round: Called after every round with its line of `metrics.jsonl`.
        workers: How many processes train clients; may differ from before.
        device: What trains from here on (default: as before); another one has other last bits.
        trust: Whether code that somebody else's folder names may be imported.

    Returns:
        The finished run.

    Raises:
        FlrError: The folder holds no run that was started, or its data have changed.

    Example:
        >>> flr.resume("runs/flr-1").summary["method"]
        'flr'
    """
    folder = Path(folder)
    config = read_config(folder, trust=trust)
    config = config.here() if device is None else config.on_device(device)
    on_round = notebook.watched(on_round, config.label, config.rounds)
    if workers is not None:
        config = config.model_copy(update={"workers": workers})
    if config.workers > 1:
        prepare()
    with locked(folder):
        run_record.go_on(folder, config)
        dataset = load_data(config, data)
        scenario = scenarios.load(folder / "scenario.safetensors")
        scenarios.check_fits(scenario, dataset)
        networks = first_networks(config, dataset.task_spec())
        training_data = TrainingData.of(config, dataset, scenario)
        del dataset
        run_in_process(config, training_data, scenario, networks, folder, on_round)
    return Run(folder, trust)


def read_config(folder: Path, *, trust: bool = False) -> Config:
    """The resolved config of a run that was started."""
    if not (folder / "config.toml").is_file() or not (folder / "scenario.safetensors").is_file():
        raise DataError(
            f"Expected a run folder with config.toml and scenario.safetensors; {folder} is none. "
            "Give the folder that `flr run` has printed; what never started has to be run again."
        )
    return configs.load_run(folder, trust=trust)


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
