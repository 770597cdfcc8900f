"""What a federation has agreed on; goes with every message, so that a site need not remember it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flr import config as configs
from flr.config import Config
from flr.data.dataset import Normalisation, Subject

SIMULATED = ("data", "scenario", "noise", "attack", "partition")  # not for sites with own data
SITE_NAME = re.compile(r"\w[\w .-]{0,79}")

_LOCAL = ("workers", "checkpoint_every", "trackers", "eval")  # of no concern to a site


@dataclass(frozen=True)
class Charter:
    """The experiment, its config, and what is classified where sites bring their own data."""

    experiment: str  # names the sites' state
    tree: dict[str, Any]  # the config as a site needs it
    classes: tuple[str, ...] | None = None  # None: the sites are those of the config's scenario
    subject: Subject | None = None  # with own data, once the sites have said what theirs are like

    @classmethod
    def of(cls, experiment: str, config: Config, classes: tuple[str, ...] | None) -> Charter:
        """Leaves out what is none of a site's business: the server's device, habits and weights."""
        tree = tomllib.loads(config.to_toml())
        for key in (*_LOCAL, *(SIMULATED if classes is not None else ())):
            tree.pop(key, None)
        if classes is not None and config.scenario.benchmark:  # that there are clean samples
            tree["scenario"] = {"benchmark": config.scenario.benchmark}
        for key in ("init", "device"):
            tree["train"].pop(key, None)
        return cls(experiment, tree, classes)

    def config(self, device: str) -> Config:
        """The config of a site, on its own device."""
        return configs.parse({**self.tree, "train": {**self.tree["train"], "device": device}})

    def to_note(self) -> dict[str, Any]:
        """Plain values, for a message."""
        return {
            "experiment": self.experiment,
            "config": self.tree,
            "classes": None if self.classes is None else list(self.classes),
            "subject": None if self.subject is None else subject_to_note(self.subject),
        }

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Charter:
        """The inverse of `to_note`."""
        classes, subject = note["classes"], note["subject"]
        return cls(
            str(note["experiment"]),
            dict(note["config"]),
            None if classes is None else tuple(classes),
            None if subject is None else subject_from_note(subject),
        )


def subject_to_note(subject: Subject) -> dict[str, Any]:
    """Plain values, for a message or a file."""
    return asdict(subject)


def subject_from_note(note: Mapping[str, Any]) -> Subject:
    """The inverse of `subject_to_note`."""
    norm = note["normalise"]
    return Subject(
        classes=tuple(note["classes"]),
        input_shape=tuple(note["input_shape"]),
        test_shape=tuple(note["test_shape"]),
        normalise=Normalisation(tuple(norm["mean"]), tuple(norm["std"])),
        augment=str(note["augment"]),
    )
