"""A part of a run's data, for training or held out: as a model takes it, and as people see it."""

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
from flr.audit.features import Progress, compute, of_rows
from flr.audit.other_issues import other_issues
from flr.audit.out_of_sample import with_site_opinions
from flr.audit.site_audit import SiteAudit
from flr.data.dataset import LabeledData
from flr.data.features import Features
from flr.data.on_disk import Inputs, Numbers
from flr.data.sources.files import Folder
from flr.data.texts import Texts


@dataclass(frozen=True, eq=False)
class Part:
    """Samples in the order of the data set."""

    x: Numbers
    shown: Inputs  # what a person looks at: the same, or what features were made from
    names: Sequence[str]  # as the user's files call them, else positions
    files: Path | None  # the folder in which they are files

    def site_audit(self, evidence: Evidence, index: Tensor, tell: Progress) -> SiteAudit:
        """What models say of some samples, and what these say themselves; with thumbnails."""
        x, about = compute(self._described(index), tell)
        evidence = replace(evidence, features=x, source=f"{evidence.source} {about}")
        evidence = with_site_opinions(evidence, tell)
        return SiteAudit(
            evidence,
            self._thumbnails(evidence.names, index),
            pictures.features(self.shown, index),
            (evidence.names, [evidence.classes[label] for label in evidence.given.tolist()]),
            kind=self._kind,
            sources=self._source(evidence.names),
            other_issues=other_issues(evidence, ()),
        )

    @property
    def _kind(self) -> Kind:
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


def own_names(
    config: configs.Config, data: Any, train: LabeledData, test: LabeledData
) -> tuple[list[str], list[str], Path | None] | None:
    """What training and test samples are called in the user's own files, and their folder.

    None where the data are somebody else's, or were given in Python.
    """
    source = config.data.source.build() if data is None else None
    if source is None or not hasattr(source, "names"):
        return None
    found = []
    for listed, part in zip(source.names(), (train, test), strict=True):
        rows = range(len(part)) if part.number is None else part.number.tolist()
        found.append([listed[row] for row in rows])
    return found[0], found[1], source.path if isinstance(source, Folder) else None
