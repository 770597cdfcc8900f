"""The clients of a simulated run, each as a site that audits its own labels.

What a client may know is rebuilt from the run folder: its inputs, the labels it was given, its own
state and the final model. The true labels of the data set take no part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from flr import config as configs
from flr.audit import pictures
from flr.audit.collect import Kind, as_pictures
from flr.audit.evidence import Evidence
from flr.audit.features import Progress, compute, none, of_rows
from flr.audit.other_issues import other_issues
from flr.audit.out_of_sample import with_site_opinions
from flr.audit.predictions import gather_evidence, read_kept
from flr.audit.site_audit import SiteAudit
from flr.client.state import StateFiles
from flr.config.own_runs import own_code
from flr.core import seal
from flr.core.contract import SamplePredictions
from flr.core.errors import DataError
from flr.data.dataset import LabeledData, Ragged
from flr.data.features import Features
from flr.data.on_disk import Inputs, Numbers
from flr.data.sources.files import Folder
from flr.data.texts import Texts
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
    names: Sequence[str]  # of the training set's samples, as their files are called
    files: Path | None  # the folder in which these are files
    versions: dict[int, int]  # of the clients' states
    digests: dict[int, str]

    def __len__(self) -> int:
        return len(self.sites)

    def evidence(self, client: int) -> Evidence:
        """What models of the federation say of one client's labels."""
        index, given = self.sites[client], self.given[client]
        names, kept = [self.names[row] for row in index.tolist()], self._kept(client, len(index))
        return gather_evidence(
            f"client {client}", names, given, self.model, self.x, index, self.normalize, kept
        )

    def site_audit(self, client: int, tell: Progress = none) -> SiteAudit:
        """The same with what the site can say itself, thumbnails, and labels for `flr relabel`."""
        index, evidence = self.sites[client], self.evidence(client)
        x, about = compute(self._described(index), tell)
        evidence = replace(evidence, features=x, source=f"{evidence.source} {about}")
        evidence = with_site_opinions(evidence, tell)
        return SiteAudit(
            evidence,
            self._thumbnails(evidence.names, index),
            pictures.features(self.shown, index),
            (evidence.names, [self.classes[label] for label in evidence.given.tolist()]),
            kind=self.kind,
            sources=self._source(evidence.names),
            other_issues=other_issues(evidence, ()),
        )

    @property
    def kind(self) -> Kind:
        """Of what people see."""
        if isinstance(self.shown, Texts):
            return "text"
        return "image" if len(self.shown.shape) == 4 else "table"

    def _described(self, index: Tensor) -> Inputs:
        """What features are made of: those of the run's backbone, if it had one."""
        if isinstance(self.x, Features):
            return self.x.take(index)
        rows = of_rows(self.shown, index)
        return as_pictures(rows) if isinstance(rows, Tensor) and rows.dim() == 4 else rows

    def _thumbnails(self, names: Sequence[str], index: Tensor) -> pictures.Thumbnails:
        if self.files is None:
            return pictures.from_inputs(self.shown, index)
        return pictures.from_files(self.files, names)

    def _source(self, names: Sequence[str]) -> Callable[[int], Path | None]:
        folder = self.files
        return lambda row: None if folder is None else folder.resolve() / names[row]

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
    names, files = _names(config, dataset.train, data)
    return Simulation(
        folder=folder,
        classes=dataset.classes,
        sites=scenario.sites,
        given=scenario.given,
        x=x,
        shown=x if config.data.backbone is None else load_raw_data(config, data).train.x,
        normalize=None if noisy_inputs else dataset.normalize,
        model=model_file.load(folder, trust=trust or own_code(folder)),
        names=names,
        files=files,
        versions=points[0].versions if points else {},
        digests=points[0].digests if points else {},
    )


def _names(
    config: configs.Config, train: LabeledData, data: Any
) -> tuple[Sequence[str], Path | None]:
    """What the samples are called in the user's own files, else their positions.

    The folder, where they are files in it.
    """
    source = config.data.source.build() if data is None else None
    if source is None or train.number is None or not hasattr(source, "names"):
        return [str(row) for row in range(len(train))], None
    listed = source.names()
    names = [listed[number] for number in train.number.tolist()]
    return names, source.path if isinstance(source, Folder) else None
