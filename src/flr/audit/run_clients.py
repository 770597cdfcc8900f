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
from flr.audit import pictures
from flr.audit.evidence import Evidence
from flr.audit.predictions import gather_evidence, read_kept
from flr.audit.site_audit import SiteAudit
from flr.client.state import StateFiles
from flr.config.own_runs import own_code
from flr.core import seal
from flr.core.contract import SamplePredictions
from flr.core.errors import DataError
from flr.data.dataset import Ragged
from flr.data.on_disk import Inputs, Numbers
from flr.engine import checkpoint
from flr.models import model_file
from flr.models.model_file import SavedModel
from flr.scenario import scenario as scenarios
from flr.simulation.build import load_data, load_raw_data, make_sites

FILES = ("config.toml", "scenario.safetensors")


@dataclass(frozen=True, eq=False)
class Simulation:
    """A finished run as its clients know it: no clean label is in here."""

    folder: Path
    classes: tuple[str, ...]
    sites: Ragged  # positions in the training set
    given: Ragged
    x: Numbers  # of the whole training set, with the noise that the scenario puts on inputs
    shown: Inputs  # what a person looks at: the same, or what features were made from
    normalize: Callable[[Tensor], Tensor] | None  # None: x is normalised
    model: SavedModel
    versions: dict[int, int]  # of the clients' states
    digests: dict[int, str]

    def __len__(self) -> int:
        return len(self.sites)

    def evidence(self, client: int) -> Evidence:
        """What one client has about its labels; names are positions in the training set."""
        index, given = self.sites[client], self.given[client]
        names, kept = [str(number) for number in index.tolist()], self._kept(client, len(index))
        return gather_evidence(
            f"client {client}", names, given, self.model, self.x, index, self.normalize, kept
        )

    def site_audit(self, client: int) -> SiteAudit:
        """The same with thumbnails, and with labels for `flr relabel`."""
        evidence, index = self.evidence(client), self.sites[client]
        return SiteAudit(
            evidence,
            pictures.from_inputs(self.shown, index),
            pictures.features(self.shown, index),
            (evidence.names, [self.classes[label] for label in evidence.given.tolist()]),
        )

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
    config = configs.load_run(folder, trust=trust)
    dataset = load_data(config, data)
    scenario = scenarios.load(folder / FILES[1])
    scenarios.check_fits(scenario, dataset)
    noisy_inputs = len(scenario.levels) > 0
    points = checkpoint.load_all(folder / "checkpoint")
    x = make_sites(dataset, scenario).x if noisy_inputs else dataset.train.inputs
    return Simulation(
        folder=folder,
        classes=dataset.classes,
        sites=scenario.sites,
        given=scenario.given,
        x=x,
        shown=x if config.data.backbone is None else load_raw_data(config, data).train.x,
        normalize=None if noisy_inputs else dataset.normalize,
        model=model_file.load(folder, trust=trust or own_code(folder)),
        versions=points[0].versions if points else {},
        digests=points[0].digests if points else {},
    )
