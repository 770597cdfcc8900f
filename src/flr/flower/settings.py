"""The settings of a run on Flower: a config, flat as Flower has it, and what only Flower needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from flwr.common.config import unflatten_dict
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from flr import config as configs
from flr.config import Config
from flr.core.errors import ConfigError
from flr.core.registry import nearest
from flr.flower.run_spec import SIMULATED, Names, listed, of_every_site, with_hyphens
from flr.models.finetune import pinned

SECTION = "flower"


Floats = Annotated[tuple[float, ...], BeforeValidator(listed)]


class Flower(BaseModel):
    """`flower.*` of the run config: who takes part, where the server keeps things, privacy."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=with_hyphens, populate_by_name=True
    )

    out: str = ""  # the server's run folder; empty: a new one under runs/
    resume: bool = False  # go on with the run in `out`
    trust: bool = False  # import code that the config in `out` names, though made elsewhere
    min_sites: Annotated[int, Field(ge=0)] = 0  # 0: all sites of the scenario
    wait: Annotated[float, Field(gt=0)] = 600.0  # seconds for sites to appear
    timeout: Annotated[float, Field(gt=0)] = 3600.0  # seconds for the answers to a task, at most
    deadline: Annotated[float, Field(ge=0)] = 0.0  # seconds a task takes; 0: by the last rounds'
    quorum: Annotated[float, Field(ge=0, le=1)] = 0.5  # of the sites asked: without, no deadline
    refuse_norm: Annotated[float, Field(ge=0)] = 0.0  # updates above so many medians; 0: none
    metrics: Annotated[int, Field(ge=0, le=65535)] = 0  # port for Prometheus; 0: none
    # a site's name stays bound to its node's key; "auto": where the SuperLink has TLS
    node_keys: bool | Literal["auto"] = "auto"
    classes: Names = ()  # the class list where sites bring their own data
    test: str = ""  # the server's own test set: a folder, .csv or .npz
    benchmark: str = ""  # the server's own clean samples, for methods that need some
    label: str = "label"  # of these: the column of the classes in a .csv
    size: Annotated[int, Field(ge=0)] = 0  # of these: scales images to squares; 0: as they are
    mean: Floats = ()  # of the inputs in the publisher's units: one number, or one per channel
    std: Floats = ()
    augment: Literal["none", "crop-flip"] = "none"  # of the sites' own images
    privacy: Literal["none", "server-clipping", "client-clipping"] = "none"
    noise_multiplier: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    clipping_norm: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _is_sound(self) -> Flower:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("flower.classes should name each class once. Remove the double ones")
        if not all(map(math.isfinite, (*self.mean, *self.std))) or any(s <= 0 for s in self.std):
            raise ValueError("flower.mean and flower.std should be finite, std more than 0")
        return self

    @property
    def own_data(self) -> bool:
        """Whether sites bring their own data, rather than share of a scenario's."""
        return bool(self.classes)


def read(run_config: Mapping[str, Any]) -> tuple[Flower, dict[str, Any], list[str]]:
    """Flower's flat run config as its own settings, the config's tree, and overrides.

    `set` holds what has no key of its own there, or is a list: "method.lam=1; trackers=[]".
    """
    tree = unflatten_dict(dict(run_config))
    own = tree.pop(SECTION, {})
    if isinstance(tree.get("data"), dict) and tree["data"].get("backbone") == "":
        del tree["data"]["backbone"]  # Flower's configs have no other way to say: none
    overrides = [part.strip() for part in str(tree.pop("set", "")).split(";") if part.strip()]
    try:
        return Flower.model_validate(own), tree, overrides
    except ValidationError as error:
        lines = ["[tool.flwr.app.config] has errors. Correct these:"]
        known = [str(field.alias) for field in Flower.model_fields.values()]
        for found in error.errors():
            key = ".".join(str(part) for part in found["loc"])
            text = f"{SECTION}.{key} = {found['input']!r} is not valid: {found['msg'].lower()}."
            if not key:
                text = f"{found['msg'].removeprefix('Value error, ')}."
            elif found["type"] == "extra_forbidden":
                near = nearest(key, known)
                text = f"{SECTION}.{key} is not known.{near} Known: {', '.join(known)}."
            lines.append(text)
        raise ConfigError("\n".join(lines)) from None


def resolve(
    flower: Flower, tree: Mapping[str, Any], overrides: list[str], sites: int | None = None
) -> Config:
    """The config of this run, checked as for any other.

    Where sites bring their own data, nothing in it says how samples are dealt out; `sites` is how
    many there are, for checks that depend on it.
    """
    source = "[tool.flwr.app.config]"
    if not flower.own_data:
        return pinned(configs.parse(tree, source, overrides=overrides))
    own = {key: value for key, value in tree.items() if key not in SIMULATED}
    own["data"] = of_every_site(tree.get("data"))
    if "attack" in tree:
        own["attack"] = tree["attack"]  # is refused later, not forgotten
    own["partition"] = {"kind": "iid", "clients": sites or max(flower.min_sites, 1)}
    if flower.benchmark:
        own["scenario"] = {"benchmark": 1}
    return pinned(configs.parse(own, source, overrides=overrides))
