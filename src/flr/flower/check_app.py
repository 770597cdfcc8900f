"""Finds what is wrong with a Flower app of this library before a node is touched."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from flwr.common.config import flatten_dict, get_project_config, parse_config_args

from flr.core.errors import ConfigError, DataError
from flr.core.registry import nearest
from flr.flower import settings
from flr.flower.new_app import MAIN
from flr.flower.server import prepare

Scalar = str | int | float | bool
_PAIR = re.compile(r"""\S+?=('[^']*'|"[^"]*"|\S+)""")  # as Flower finds them; it drops the rest


def check_app(folder: Path, changes: Sequence[str] = ()) -> str:
    """Checks the app in a folder; gives what will be run in one sentence.

    `changes` are those of `flwr run --run-config`: "key=value ..." or the path of a TOML file.
    """
    with importable(folder):
        return check_run(run_config(folder, changes))


def check_run(values: Mapping[str, Any]) -> str:
    """Does with a run config all that the server does before it calls a node."""
    flower, tree, overrides = settings.read(values)
    config, data = prepare(flower, tree, overrides)
    head = f"{config.label}, {config.rounds} rounds"
    if flower.own_data:
        where = f"the data of {flower.min_sites} sites or more"
        return f"{head} on {where}, {len(flower.classes)} classes"
    sizes = data.expected.values()
    return (
        f"{head} on {config.data.source.name}, {len(sizes)} simulated sites with {min(sizes)} to "
        f"{max(sizes)} samples"
    )


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Finds the app's own package, with a model perhaps, where Flower would find it."""
    place = str(folder.absolute())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)


def run_config(folder: Path, changes: Sequence[str] = ()) -> dict[str, Scalar]:
    """The app's config as its server will get it: flat, and changed as Flower changes it."""
    try:
        project = get_project_config(folder)
        own = flatten_dict(project["tool"]["flwr"]["app"].get("config"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"Expected a Flower app in {folder}; its {MAIN} cannot be used: {error}. Give the "
            "folder of an app, or make one with `flr flower init DIR`."
        ) from None
    try:
        pairs = [text for text in changes if not text.endswith(".toml")]
        if rest := " ".join(_PAIR.sub("", text) for text in pairs).strip():
            raise ValueError(f'"{rest}" is no KEY=VALUE.')
        changed = parse_config_args(list(changes))
    except (OSError, ValueError, click.ClickException) as error:
        reason = error.message if isinstance(error, click.ClickException) else error
        raise ConfigError(
            f"Expected changes such as 'rounds=5 method=\"fedavg\"', or one TOML file, as "
            f"`flwr run --run-config` takes them; Flower says: {reason} Correct them."
        ) from None
    return fused(own, changed)


def fused(own: dict[str, Scalar], changed: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Flower changes only keys that the app has; all others are named at once."""
    unknown = [f"{key} is not there.{nearest(key, list(own))}" for key in changed if key not in own]
    if unknown:
        head = "Expected changes of keys of [tool.flwr.app.config]; Flower refuses others:"
        advice = f'Correct them, add them to {MAIN}, or put them into set = "KEY=VALUE; ...".'
        raise ConfigError("\n".join([head, *unknown, advice]))
    return {**own, **changed}
