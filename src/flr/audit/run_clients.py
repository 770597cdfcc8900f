"""The clients of a simulated run, each as a site that audits its own labels.

What a client may know is rebuilt from the run folder: its inputs, the labels it was given, its own
state and the final model. The true labels of the data set take no part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flr import config as configs
from flr.audit.evidence import Evidence
from flr.audit.features import Progress, none
from flr.audit.predictions import gather_evidence, read_kept
from flr.audit.run_parts import Part, own_names
from flr.audit.site_audit import SiteAudit
from flr.client.state import StateFiles
from flr.config.own_runs import own_code
from flr.core import seal
from flr.core.contract import SamplePredictions
from flr.core.errors import DataError
from flr.data.dataset import Ragged
from flr.engine import checkpoint
from flr.models import model_file
from flr.models.model_file import SavedModel
from flr.scenario import scenario as scenarios
from flr.simulation.build import held_out_mask, load_data, load_raw_data, make_sites

FILES = ("config.toml", "scenario.safetensors")


@dataclass(frozen=True, eq=False)
class Simulation:
    """A finished run as its clients know it: no clean label is in here."""

    folder: Path
    classes: tuple[str, ...]
    sites: Ragged  # positions in the training set
    given: Ragged
    train: Part  # with the noise that the scenario puts on inputs
    normalize: Callable[[Tensor], Tensor] | None  # None: inputs are normalised
    held_out: tuple[Part, Tensor] | None  # with labels; None: it is not the user's own
    model: SavedModel
    versions: dict[int, int]  # of the clients' states
    digests: dict[int, str]

    def __len__(self) -> int:
        return len(self.sites)

    def evidence(self, client: int) -> Evidence:
        """What models of the federation say of one client's labels."""
        index, given = self.sites[client], self.given[client]
        names = [self.train.names[row] for row in index.tolist()]
        kept, x = self._kept(client, len(index)), self.train.x
        return gather_evidence(
            f"client {client}", names, given, self.model, x, index, self.normalize, kept
        )

    def site_audit(self, client: int, tell: Progress = none) -> SiteAudit:
        """The same with what the site can say itself, thumbnails, and labels for `flr relabel`."""
        return self.train.site_audit(self.evidence(client), self.sites[client], tell)

    def held_out_audit(self, tell: Progress = none) -> SiteAudit | None:
        """The same of the part that nobody has trained on, if its labels are the user's own."""
        if self.held_out is None:
            return None
        part, given = self.held_out
        index = torch.arange(len(given))
        normalize = self.model.normalize
        evidence = gather_evidence(
            "test part", part.names, given, self.model, part.x, index, normalize, None
        )
        return part.site_audit(replace(evidence, trained=False), index, tell)

    def _kept(self, client: int, samples: int) -> SamplePredictions | None:
        """A client that was never asked has nothing."""
        states = StateFiles(self.folder / "checkpoint" / "state")
        version = self.versions.get(client)
        where = str(states.path(client, version or 0))
        if version is None or not Path(where).exists():
            return None
        if not states.has(client, version, self.digests.get(client, "")):
            raise DataError(
                f"Expected the state of client {client} as the run has written it at {where}; it "
                "is damaged. Take another copy of it, or leave the client out."
            )
        return read_kept(states.read(client, version), samples, self.model, where)


def is_run(folder: Path) -> bool:
    """Whether a folder is a run of ours, and no data."""
    return folder.is_dir() and all((folder / name).is_file() for name in FILES)


def open_run(folder: Path, data: Any = None, *, trust: bool = False) -> Simulation:
    """Rebuilds a finished run; `data` is needed where it was given in Python.

    With `trust`, code that somebody else's folder names is imported.
    """
    if not is_run(folder):
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
    for name in FILES:
        seal.check(folder / name)
    config = configs.load_run(folder, trust=trust).anywhere()
    dataset = load_data(config, data)
    scenario = scenarios.load(folder / FILES[1])
    scenarios.check_fits(scenario, dataset)
    noisy_inputs = len(scenario.levels) > 0
    points = checkpoint.load_all(folder / "checkpoint")
    x = make_sites(dataset, scenario).x if noisy_inputs else dataset.train.inputs
    raw = None if config.data.backbone is None else load_raw_data(config, data)
    own = own_names(config, data, dataset.train, dataset.test)
    held_out = None
    if own is not None:
        seen = dataset.test.inputs if raw is None else raw.test.x
        held_out = Part(dataset.test.inputs, seen, own[1], own[2]), dataset.test.y
    trained = ~held_out_mask(config, scenario)  # a client keeps nothing of what it holds out
    names, files = (own[0], own[2]) if own else (list(map(str, range(len(dataset.train)))), None)
    return Simulation(
        folder=folder,
        classes=dataset.classes,
        sites=scenario.sites.where(trained),
        given=scenario.given.where(trained),
        train=Part(x, x if raw is None else raw.train.x, names, files),
        normalize=None if noisy_inputs else dataset.normalize,
        held_out=held_out,
        model=model_file.load(folder, trust=trust or own_code(folder)),
        versions=points[0].versions if points else {},
        digests=points[0].digests if points else {},
    )
