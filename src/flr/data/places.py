"""Where data sets lie: at the path that the config gives, or below the folder `FLR_DATA` names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from flr.errors import DataError

VARIABLE = "FLR_DATA"


def find(path: Path | None, names: Sequence[str], what: str, key: str = "[data] path") -> Path:
    """The folder (or file) of a data set that publishers give one of these names.

    `path` is it or holds it. Without a path it lies below $FLR_DATA, which is read now and not at
    import. `what` is the data set's name for `flr data get`; `key` is the setting that gave `path`.
    """
    root = path if path is not None else _from_environment(names, what, key)
    looked = [root / name for name in names]
    for place in looked:
        if place.exists():
            return place
    if path is not None and path.exists():
        return path
    places = [*looked, path] if path is not None else looked
    raise DataError(
        f'Expected the files of "{what}" in one of these places: '
        f"{', '.join(str(place) for place in places)}; there is nothing. {advice(what, key)}"
    )


def _from_environment(names: Sequence[str], what: str, key: str) -> Path:
    root = os.environ.get(VARIABLE, "").strip()
    if root:
        return Path(root).expanduser()
    raise DataError(
        f'Expected to be told where the files of "{what}" are; neither {VARIABLE} nor {key} is '
        f"set, so {_either([f'${VARIABLE}/{name}' for name in names])} could not be looked at. "
        f"{advice(what, key)}"
    )


def advice(what: str, key: str = "[data] path") -> str:
    """How to get a data set, and how to say where it is."""
    return (
        f"Get it with `flr data get {what}`, set the environment variable {VARIABLE} to the folder "
        f"that holds your data sets, or give {key}."
    )


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)
