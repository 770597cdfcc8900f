"""The shape of a config: every key with its type, bounds and default. Loading is in load.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PlainValidator,
    model_validator,
)

from flr.config import devices
from flr.config.entry import STRICT, ConfigEntry, as_toml, parse_entry
from flr.config.errors import ConfigProblem, ProblemsError
from flr.config.evaluation import Eval
from flr.config.fields import Count, default, read_list, reads
from flr.config.train import Train
from flr.core.arrays import canonical_json
from flr.core.bits import Bits
from flr.core.combine import stack
from flr.core.contract import Method
from flr.core.errors import ConfigError

Seed = Annotated[int, Field(ge=0)]


_BESIDE = ("train", "test", "augment", "backbone", "views")  # of [data], no options of its source


Partition = Annotated[ConfigEntry, reads("partition", "iid", key="kind")]
Noise = Annotated[ConfigEntry, reads("noise", "none", key="kind")]
Attack = Annotated[ConfigEntry, reads("attack", "none", key="kind")]


class Data(BaseModel):
    """`[data]`: a source with its options, and what is taken from it."""

    model_config = STRICT

    source: Annotated[ConfigEntry, reads("dataset", "digits", beside=_BESIDE)] = default(
        "dataset", "digits"
    )
    train: Count | None = None
    test: Count | None = None
    augment: Literal["auto", "none", "crop-flip", "window-flip"] = "auto"
    backbone: Annotated[ConfigEntry, reads("backbone", "efficientnet-lite0")] | None = None
    views: Annotated[int, Field(ge=1, le=64)] = 1

    @model_validator(mode="after")
    def _views_of_a_backbone(self) -> Data:
        found = []
        if self.backbone is None and self.views > 1:
            text = "are features of a backbone, and none is named. Add backbone, or remove views."
            found.append(ConfigProblem(("views",), text))
        if self.backbone is not None and self.augment not in ("auto", "none"):
            text = "changes images in training, where there are features only. Use views instead."
            found.append(ConfigProblem(("augment",), text))
        if found:
            raise ProblemsError(found)
        return self

    @model_validator(mode="before")
    @classmethod
    def _split(cls, raw: object) -> object:
        """In the file, the source's keys stand beside the others."""
        if isinstance(raw, str):
            return {"source": raw}
        if not isinstance(raw, dict) or isinstance(raw.get("source"), ConfigEntry):
            return raw
        own = {key: raw[key] for key in _BESIDE if key in raw}
        return {**own, "source": {key: raw[key] for key in raw if key not in _BESIDE}}

    def table(self) -> dict[str, Any]:
        """The TOML table of this section."""
        own = {key: getattr(self, key) for key in ("train", "test", "augment")}
        if self.backbone is not None:
            own |= {"backbone": self.backbone.short(), "views": self.views}
        return {**self.source.table("name"), **as_toml(own)}


class ScenarioConfig(BaseModel):
    """`[scenario]`: a saved split with its labels, or the seed to draw one (default: the run's).

    `benchmark` clean training samples go to the server, for methods that need supervision.
    """

    model_config = STRICT

    path: Annotated[Path, AfterValidator(Path.absolute)] | None = None
    seed: Seed | None = None
    benchmark: Annotated[int, Field(ge=0)] = 0


def _read_methods(raw: object) -> tuple[ConfigEntry, ...]:
    """A name, a table or a list of those."""
    if not isinstance(raw, list | tuple):
        return (parse_entry("method", raw, default="flr"),)
    if not raw:
        raise ProblemsError(
            [ConfigProblem((), 'should name at least one method, for instance "flr".')]
        )
    return read_list("method", raw, default="flr")


def _read_trackers(raw: object) -> tuple[ConfigEntry, ...]:
    """A list of names and tables."""
    if not isinstance(raw, list | tuple):
        raise ProblemsError([ConfigProblem((), 'should be a list, for instance ["tensorboard"].')])
    found = read_list("tracker", raw, default="tensorboard")
    names = [entry.name for entry in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        text = f"names {' and '.join(twice)} more than once. Keep one of each."
        raise ProblemsError([ConfigProblem((), text)])
    return found


class Config(BaseModel):
    """A whole experiment. Frozen: what was checked is what runs."""

    model_config = STRICT

    seed: Seed = 1
    rounds: Count
    method: Annotated[tuple[ConfigEntry, ...], PlainValidator(_read_methods)] = Field(
        default_factory=lambda: _read_methods("flr")
    )
    aggregate: Annotated[ConfigEntry, reads("aggregator", "mean")] = default("aggregator", "mean")
    workers: Count = 2
    min_replies: Count = 1
    drop: Annotated[float, Field(ge=0, lt=1)] = 0.0
    checkpoint_every: Count = 10
    trackers: Annotated[tuple[ConfigEntry, ...], PlainValidator(_read_trackers)] = ()
    bits: Bits = "machine"
    data: Data = Field(default_factory=Data)
    scenario: ScenarioConfig = Field(default_factory=ScenarioConfig)
    partition: Partition = default("partition", "iid")
    noise: Noise = default("noise", "none")
    attack: Attack = default("attack", "none")
    train: Train = Field(default_factory=Train)
    eval: Eval = Field(default_factory=Eval)

    @property
    def label(self) -> str:
        """The method's name in tables and pictures: "flr" or "flr+fedprox"."""
        return "+".join(entry.name for entry in self.method)

    def backbones(self) -> list[ConfigEntry]:
        """The pretrained networks: one that is trained further, one that makes features."""
        found = [self.train.model.backbone, self.data.backbone]
        return [entry for entry in found if entry is not None]

    def missing(self) -> list[ConfigEntry]:
        """What plugins have registered that are not here; only results can be read without them."""
        one_each = (self.aggregate, self.data.source, self.partition, self.noise, self.attack)
        training = (self.train.model, self.train.optimizer, self.train.lr_schedule)
        every = (*self.method, *one_each, *self.trackers, *training, *self.backbones())
        return [entry for entry in every if entry.is_missing]

    def code(self) -> list[ConfigEntry]:
        """What names somebody's own functions, which a run imports."""
        entries = [self.train.model, *self.backbones(), self.partition]
        return [entry for entry in entries if entry.is_code]

    def on_device(self, device: str) -> Config:
        """The same, computed on a device of this machine."""
        return self._moved_to(device).here()

    def here(self) -> Config:
        """The same; refused where this machine lacks a device of it, or cannot compute on it."""
        device = self.train.device
        try:
            for device in self.train.every_device():
                devices.by_name(device, "auto")
                if self.train.amp == "bf16" and (why := devices.why_not_bf16(device)):
                    raise ValueError(f'cannot compute amp = "bf16": {why}.')
        except ValueError as error:
            raise ConfigError(
                f'Expected a device that trains; "{device}" {error} (`flr resume RUN --device cpu` '
                "goes on with a run that another one began.)"
            ) from None
        return self

    def anywhere(self) -> Config:
        """The same on its own device, or, where this machine lacks that, on what there is."""
        known = self.train.main_device in devices.on_this_machine()
        return self if known else self._moved_to("auto")

    def _moved_to(self, device: str) -> Config:
        train = self.train.model_copy(update={"device": device, "devices": ()})
        return self.model_copy(update={"train": train})

    def build_method(self) -> Method:
        """The stack of all methods named."""
        return stack([entry.build() for entry in self.method])

    def to_toml(self) -> str:
        """The resolved config with every default; loading it gives an equal one."""
        return tomli_w.dumps(self._tree())

    def group_key(self) -> str:
        """What `compare` groups by besides the scenario: all that shapes a result, method aside."""
        free = {"seed", "method", "workers", "checkpoint_every", "trackers", "bits"}
        free |= {"scenario", "partition", "noise"}
        tree = {k: v for k, v in self._tree().items() if k not in free}
        tree["data"].pop("path", None)  # the scenario's hash holds the content
        tree["eval"].pop("metrics", None)  # they measure a result and do not shape it
        tree["train"].pop("devices", None)
        for table in (tree["data"], tree["train"].get("model")):
            backbone = table.get("backbone") if isinstance(table, dict) else None
            if isinstance(backbone, dict) and "weights" in backbone:  # wherever the file lies
                backbone["weights"] = Path(str(backbone["weights"])).name
        return canonical_json(tree)

    def _tree(self) -> dict[str, Any]:
        methods = [entry.short() for entry in self.method]
        plain = ("seed", "rounds", "workers", "min_replies", "drop", "checkpoint_every")
        drawn = self.scenario.path is None  # a saved scenario has its own partition and noise
        tree: dict[str, Any] = as_toml(
            {
                **{key: getattr(self, key) for key in plain},
                "method": methods[0] if len(methods) == 1 else methods,
                "aggregate": self.aggregate.short(),
                "trackers": [entry.short() for entry in self.trackers],
                "bits": None if self.bits == "machine" else self.bits,
                "data": self.data.table(),
                "scenario": dict(self.scenario),
                "partition": self.partition.table("kind") if drawn else None,
                "noise": self.noise.table("kind") if drawn else None,
                "attack": self.attack.table("kind"),
                "train": self.train.table(),
                "eval": self.eval.table(),
            }
        )
        return tree
