"""`[train]`: the network, the steps, and the devices that compute them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PlainValidator,
    field_validator,
    model_validator,
)

from flr.config import devices
from flr.config.entry import STRICT, ConfigEntry, parse_entry
from flr.config.errors import ConfigProblem, ProblemsError
from flr.config.fields import Count, default, reads


def _read_model(raw: object) -> ConfigEntry:
    """A backbone inside a model is read as one in `[data]` is: checked, with absolute paths."""
    entry = parse_entry("model", raw, default="mlp")
    if not entry.is_backbone:
        return entry
    try:
        own = parse_entry("backbone", entry.options["backbone"], default="efficientnet-lite0")
    except ProblemsError as found:
        raise ProblemsError([problem.below(("backbone",)) for problem in found.found]) from None
    return replace(entry, options={**entry.options, "backbone": own.short()})


class Train(BaseModel):
    """`[train]`: how a client trains, and how many are asked."""

    model_config = STRICT

    model: Annotated[ConfigEntry, PlainValidator(_read_model)] = default("model", "mlp")
    trainable: Literal["head", "last", "all"] = "all"
    init: Annotated[Path, AfterValidator(Path.absolute)] | None = None
    participation: Annotated[float, Field(gt=0, le=1)] = 0.25
    epochs: Count = 5
    batch: Count = 10
    lr: Annotated[float, Field(gt=0)] = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    optimizer: Annotated[ConfigEntry, reads("optimizer", "sgd")] = default("optimizer", "sgd")
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Annotated[float, Field(gt=0)] | None = None
    lr_schedule: Annotated[ConfigEntry, reads("schedule", "constant")] = default(
        "schedule", "constant"
    )
    lr_warmup: Annotated[int, Field(ge=0)] = 0
    keep_optimizer: bool = False
    device: str = "cpu"
    devices: tuple[str, ...] = ()
    amp: Literal["none", "bf16"] = "none"
    threads: Annotated[int, Field(ge=1, le=256)] = 1

    @field_validator("device")
    @classmethod
    def _device_is_here(cls, device: str) -> str:
        return devices.checked(device)

    @field_validator("devices")
    @classmethod
    def _devices_are_here(cls, several: tuple[str, ...]) -> tuple[str, ...]:
        if "auto" in several:
            raise ValueError('names devices one by one, without "auto". Write device = "auto".')
        return tuple(devices.by_name(device) for device in several)

    @model_validator(mode="after")
    def _computes_here(self) -> Train:
        found = []
        if self.devices and "device" in self.model_fields_set:
            text = "says which device each worker takes, and device is given too. Remove one."
            found.append(ConfigProblem(("devices",), text))
        if self.amp == "bf16" and not devices.only_reads():
            for why in filter(None, map(devices.why_not_bf16, self.every_device())):
                text = f'= "bf16" cannot be computed here: {why}. Remove it, or use another device.'
                found.append(ConfigProblem(("amp",), text, head="key"))
        if found:
            raise ProblemsError(found)
        return self

    @model_validator(mode="after")
    def _one_beginning(self) -> Train:
        if self.init is not None and self.model.brings_weights:
            text = "gives the first weights, and so does pretrained = true. Remove one of them."
            raise ProblemsError([ConfigProblem(("init",), text)])
        return self

    def table(self) -> dict[str, Any]:
        """The TOML table of this section, without keys that came later and say nothing."""
        unused = {"trainable": "all", "lr_warmup": 0, "amp": "none", "devices": ()}
        table = {key: value for key, value in self if unused.get(key, ...) != value}
        if self.devices:
            del table["device"]
        entries = {key: getattr(self, key).short() for key in ("model", "optimizer", "lr_schedule")}
        return {**table, **entries}

    @property
    def main_device(self) -> str:
        """What the process computes on that the workers answer to."""
        return self.devices[0] if self.devices else devices.resolved(self.device)

    def every_device(self) -> tuple[str, ...]:
        """All that this computes on, by their names on this machine."""
        return self.devices or (self.main_device,)

    def of_workers(self, workers: int) -> tuple[str, ...]:
        """The device of each worker process.

        `devices` are dealt in turn. Without them one process has the GPU: each further one would
        take some of its memory for itself.
        """
        if self.devices:
            return tuple(self.devices[number % len(self.devices)] for number in range(workers))
        return (self.main_device,) * (workers if self.main_device == "cpu" else 1)

    def asked(self, clients: int) -> int:
        """How many of so many clients a round asks; the summand mends 0.29 * 100 = 28.999..."""
        return max(int(self.participation * clients + 1e-9), 1)
