"""What a ServerApp tells its ClientApps about the run, with every message: a site keeps nothing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, TypeAdapter

from flr.config import Config
from flr.data.dataset import TaskSpec
from flr.models.embedding import Embedder

SIMULATED = ("data", "scenario", "noise", "attack", "partition")  # not for sites with own data
SITE_NAME = re.compile(r"\w[\w .-]{0,79}")

_LOCAL = ("workers", "checkpoint_every", "trackers", "eval")  # of no concern to a site


@dataclass(frozen=True)
class RunSpec:
    """The experiment, its config, and what is classified where sites bring their own data."""

    experiment: str  # names the sites' state
    tree: dict[str, Any]  # the config as a site needs it
    classes: tuple[str, ...] | None = None  # None: the sites are those of the config's scenario
    task_spec: TaskSpec | None = None  # with own data, once sites have said what theirs are like
    fingerprint: str = ""  # of the backbone's weights: with others a site's features would not fit

    @classmethod
    def of(cls, experiment: str, config: Config, classes: tuple[str, ...]) -> RunSpec:
        """Leaves out what is none of a site's business: the server's device, habits and weights."""
        tree = tomllib.loads(config.to_toml())
        shared = of_every_site(tree.get("data"))
        for key in (*_LOCAL, *(SIMULATED if classes else ())):
            tree.pop(key, None)
        if classes and shared:
            tree["data"] = shared
        if classes and config.scenario.benchmark:  # that there are clean samples
            tree["scenario"] = {"benchmark": config.scenario.benchmark}
        for key in ("init", "device", "devices"):
            tree["train"].pop(key, None)
        tree = _without_paths(tree) if classes else tree
        backbone = config.data.backbone
        fingerprint = Embedder(backbone).backbone.fingerprint() if backbone else ""
        return cls(experiment, tree, classes or None, fingerprint=fingerprint)

    def to_note(self) -> dict[str, Any]:
        """Plain values, for a message."""
        return {
            "experiment": self.experiment,
            "config": self.tree,
            "classes": None if self.classes is None else list(self.classes),
            "subject": None if self.task_spec is None else task_to_note(self.task_spec),
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> RunSpec:
        """The inverse of `to_note`."""
        classes, task_spec = note["classes"], note["subject"]
        return cls(
            str(note["experiment"]),
            dict(note["config"]) if classes is None else _without_paths(note["config"]),
            None if classes is None else tuple(classes),
            None if task_spec is None else task_from_note(task_spec),
            str(note.get("fingerprint", "")),
        )


def of_every_site(data: object) -> dict[str, Any]:
    """What `[data]` says of samples wherever they are; where they are is each site's own matter."""
    table = data if isinstance(data, Mapping) else {}
    return {key: table[key] for key in ("backbone", "views") if key in table}


def _without_paths(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The config without files of weights: a site has its own, and reads none that a server names.

    That they are the same is known by their fingerprint.
    """
    model = _table(_table(tree.get("train")).get("model"))
    for backbone in (_table(tree.get("data")).get("backbone"), model.get("backbone")):
        _table(backbone).pop("weights", None)
    return dict(tree)


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def task_to_note(task_spec: TaskSpec) -> dict[str, Any]:
    """Plain values, for a message or a file."""
    note = asdict(task_spec)
    note["normalise"] = note.pop("normalize")  # as it is called on the wire
    return note


def task_from_note(note: Mapping[str, Any]) -> TaskSpec:
    """The inverse of `task_to_note`; ValidationError where a value is of another kind."""
    return TypeAdapter(TaskSpec).validate_python({**note, "normalize": note["normalise"]})


def listed(value: Any) -> Any:
    """Flower's configs have no lists: text with commas, or a single number, stands for one."""
    if isinstance(value, int | float):
        return (value,)
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def with_hyphens(name: str) -> str:
    """A field's name as a key of Flower's configs."""
    return name.replace("_", "-")


Names = Annotated[tuple[str, ...], BeforeValidator(listed)]
