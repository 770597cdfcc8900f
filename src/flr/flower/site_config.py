"""What the people at a site have said about it: Flower's node config, checked."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from flwr.app import Context
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from flr.core.plain_text import plain
from flr.flower.run_spec import SITE_NAME, Names, with_hyphens

KEYS = (
    *("site", "data", "label", "size", "classes", "state-dir", "policy", "device"),
    *("accept-new-data", "agent"),
)

_BESIDE = ("partition-id", "num-partitions")  # Flower's own

Loader = Callable[[Path], tuple[Any, Any]]  # inputs and labels of what `data` names

UserPath = Annotated[Path, AfterValidator(Path.expanduser)]


class RefusalError(Exception):
    """Why this site cannot do what it was asked, in words that may leave it."""


class SiteConfig(BaseModel):
    """What the people at a site have said about it (`flower-supernode --node-config`)."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=with_hyphens, coerce_numbers_to_str=True
    )

    site: str
    data: UserPath | None = None  # None: the site of the scenario with the number `partition_id`
    partition_id: int | None = None
    label: str = "label"
    size: int | None = None
    classes: Names | None = None
    state_dir: UserPath
    policy: UserPath | None = None  # None: policy.toml in `state_dir`, if there is one
    device: str = "cpu"
    accept_new_data: bool = False  # where they have changed, its tables begin anew
    loader: Loader | None = None  # the app's own reader of `data`; no node config can name one

    @classmethod
    def of(cls, context: Context, loader: Loader | None = None) -> SiteConfig:
        """From Flower's node config; in a simulation only the partition's number is there."""
        own: dict[str, Any] = dict(context.node_config)
        for key in own.keys() - {*KEYS, *_BESIDE}:  # others may be there for other apps
            if near := difflib.get_close_matches(key.replace("_", "-"), KEYS, n=1, cutoff=0.75):
                raise RefusalError(
                    f"its node config has {plain(key)!r}; is {near[0]!r} meant? Known keys: "
                    f"{', '.join(KEYS)}"
                )
        number = own.get("partition-id")
        own["site"] = name_of(context)
        if not SITE_NAME.fullmatch(own["site"]):
            raise RefusalError(
                "expected a site name of letters, digits, spaces, dots and dashes; got "
                f"{own['site']!r}. Start the node with --node-config "
                '\'site="ward-7" data="/path/to/its/data"\''
            )
        if own.get("data") is None and number is None:
            raise RefusalError(f"its node config names no data. Known keys: {', '.join(KEYS)}")
        own |= {"state-dir": str(state_dir(own)), "loader": loader}
        try:
            return cls.model_validate(own)
        except ValidationError as error:
            keys = dict.fromkeys(str(found["loc"][0]) for found in error.errors())
            raise RefusalError(f"its node config has no usable {' and '.join(keys)}") from error


def name_of(context: Context) -> str:
    """What a site is called: the name in its node config, or its number in a scenario."""
    own = context.node_config
    number = own.get("partition-id")
    return str(own.get("site") or ("" if number is None else f"site-{number}"))


def state_dir(own: Mapping[str, Any]) -> Path:
    """Where a node with this config keeps what it keeps, its ledger too."""
    given = own.get("state-dir") or os.environ.get("FLR_STATE") or "~/.flr/state"
    return Path(str(given)).expanduser()
