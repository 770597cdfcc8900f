"""The clients of a simulated run, each as a site that audits its own labels.

What a client may know is rebuilt from the run folder: its inputs, the labels it was given, its own
state and the final model. The true labels of the data set take no part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from flr import config as configs
from flr.assemble import load_data, make_sites
from flr.audit import opinions, pictures
from flr.audit.case import Case, Labels
from flr.audit.evidence import Evidence
from flr.audit.opinions import Tables
from flr.client import saved
from flr.client.saved import SavedModel
from flr.client.state import StateFiles
from flr.data.dataset import Parts
from flr.data.lazy import Inputs
from flr.engine import checkpoint
from flr.errors import DataError
from flr.scenario import scenario as scenarios

FILES = ("config.toml", "scenario.safetensors")


@dataclass(frozen=True, eq=False)
class Simulation:
    """A finished run as its clients know it: no clean label is in here."""

    folder: Path
    classes: tuple[str, ...]
    sites: Parts  # positions in the training set
    given: Parts
    x: Inputs  # of the whole training set, with the noise that the scenario puts on inputs
    normalise: Callable[[Tensor], Tensor] | None  # None: x is normalised
    model: SavedModel
    versions: dict[int, int]  # of the clients' states

    def __len__(self) -> int:
        return len(self.sites)

    def evidence(self, client: int) -> Evidence:
        """What one client has about its labels; names are positions in the training set."""
        index, given = self.sites[client], self.given[client]
        parts = opinions.prepared(self.x, index, self.normalise)
        model = opinions.predictions(self.model.networks, parts)
        tables = self._tables(client, len(index))
        return Evidence(
            site=f"client {client}",
            names=[str(number) for number in index.tolist()],
            classes=self.classes,
            given=given,
            views={**tables.views, "model": model},
            visited=tables.visited,
            source=tables.source,
        )

    def case(self, client: int) -> Case:
        """The same with thumbnails, and with labels for `flr relabel`."""
        evidence, index = self.evidence(client), self.sites[client]
        return Case(
            evidence,
            pictures.from_inputs(self.x, index),
            pictures.features(self.x, index),
            Labels(evidence.names, [self.classes[label] for label in evidence.given.tolist()]),
        )

    def _tables(self, client: int, samples: int) -> Tables:
        """A client that was never asked has none; what a method keeps beside them is not read."""
        states, version = (
            StateFiles(self.folder / "checkpoint" / "state"),
            self.versions.get(client),
        )
        if version is None or not states.has(client, version):
            return Tables()
        state = states.read(client, version)
        where = str(states.path(client, version))
        return opinions.read_tables(state, samples, self.model.method, len(self.classes), where)


def open_run(folder: Path, data: Any = None) -> Simulation:
    """Rebuilds a finished run; `data` is needed where it was given in Python."""
    _require_run(folder)
    config = configs.load(folder / FILES[0])
    dataset = load_data(config, data)
    scenario = scenarios.load(folder / FILES[1])
    scenarios.check_fits(scenario, dataset)
    noisy_inputs = len(scenario.levels) > 0
    points = checkpoint.load_all(folder / "checkpoint")
    return Simulation(
        folder=folder,
        classes=dataset.classes,
        sites=scenario.sites,
        given=scenario.given,
        x=make_sites(dataset, scenario).x if noisy_inputs else dataset.train.x,
        normalise=None if noisy_inputs else dataset.normalise,
        model=saved.load(folder / "model.safetensors", trust=True),  # as its config is trusted
        versions=points[0].versions if points else {},
    )


def _require_run(folder: Path) -> None:
    if not all((folder / name).is_file() for name in FILES):
        raise DataError(
            f"Expected the folder of a simulated run with {' and '.join(FILES)}; {folder} is none. "
            "Give the folder that `flr run` has printed. A site of a federation audits its own "
            "data: flr audit --data DATA --model MODEL."
        )
    if not (folder / "model.safetensors").is_file():
        raise DataError(
            f"Expected a finished run; {folder} has no model.safetensors yet. Go on with it: "
            f"`flr resume {folder}`."
        )
