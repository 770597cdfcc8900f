"""Everything with a name in a config: methods, aggregators, models, data sets, noises, attacks...

An entry is a factory whose parameters are its options. Built-in entries register when their module
is imported; a third party's come through the entry-point group `flr`. Nothing else in the code base
knows a name.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import logging
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, TypeVar

from flr.errors import ConfigError

KINDS = {
    "method": ("flr.methods",),
    "aggregator": ("flr.aggregate",),
    "model": ("flr.client.models", "flr.client.resnets"),
    "dataset": ("flr.data.sources", "flr.data.cifar", "flr.data.idx", "flr.data.clothing"),
    "partition": ("flr.scenario.partition", "flr.scenario.skewed"),
    "noise": (
        "flr.scenario.noise",
        "flr.scenario.noise_matrix",
        "flr.scenario.noise_input",
        "flr.scenario.noise_human",
    ),
    "attack": ("flr.scenario.attack",),
}

log = logging.getLogger("flr")

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True)
class Entry:
    """One registered name."""

    kind: str
    name: str
    factory: Callable[..., Any]
    title: str
    paper: str = ""
    year: int | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)  # options an alias has decided
    summary: str = ""
    check: Callable[..., str] | None = None  # of an aggregator; see `register`

    @property
    def doc(self) -> str:
        """The factory's documentation, unindented."""
        return inspect.getdoc(self.factory) or ""


_entries: dict[tuple[str, str], Entry] = {}
_loaded: set[str] = set()


def register(
    name: str,
    *,
    kind: str = "method",
    title: str = "",
    paper: str = "",
    year: int | None = None,
    aliases: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
    check: Callable[..., str] | None = None,
) -> Callable[[T], T]:
    """Names a factory; an alias is (summary, options it fixes). Refuses incomplete entries.

    `check(asked, **options)` says why an aggregator cannot work with so many clients a round.
    """

    def add(factory: T) -> T:
        doc = inspect.getdoc(factory) or ""
        if kind not in KINDS:
            raise ValueError(f"register({name!r}): kind {kind!r} is not one of {', '.join(KINDS)}")
        if not doc:
            raise ValueError(f"register({name!r}): the docstring is what `describe` shows; add one")
        if kind == "method" and "Leaves the site:" not in doc:
            raise ValueError(f"register({name!r}): the docstring needs a 'Leaves the site:' line")
        summary = doc.splitlines()[0]
        _add(Entry(kind, name, factory, title or name, paper, year, {}, summary, check))
        for alias, (alias_summary, fixed) in (aliases or {}).items():
            _add(Entry(kind, alias, factory, alias, paper, None, dict(fixed), alias_summary))
        return factory

    return add


def _add(entry: Entry) -> None:
    known = _entries.get((entry.kind, entry.name))
    if known is not None and _origin(known) != _origin(entry):
        raise ValueError(
            f"{entry.kind} {entry.name!r} is registered twice: "
            f"{_origin(known)} and {_origin(entry)}"
        )
    _entries[entry.kind, entry.name] = entry


def _origin(entry: Entry) -> str:
    return f"{entry.factory.__module__}.{entry.factory.__qualname__}"


def entries(kind: str) -> dict[str, Entry]:
    """All entries of a kind by name, sorted."""
    _load(kind)
    return {name: e for (k, name), e in sorted(_entries.items()) if k == kind}


def get(kind: str, name: str) -> Entry:
    """The entry of that name; an unknown one is answered with the nearest."""
    known = entries(kind)
    if name not in known:
        raise ConfigError(unknown(kind, name, known))
    return known[name]


def find(name: str) -> list[Entry]:
    """Entries of that name of any kind, for `describe`."""
    return [e for kind in KINDS for e in entries(kind).values() if e.name == name]


def unknown(what: str, name: object, known: Mapping[str, Any] | list[str]) -> str:
    """Says that a name is not known, which one was probably meant, and which there are."""
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    return f'{what} "{name}" is not known.{hint} Known: {", ".join(names)}.'


def _load(kind: str) -> None:
    if kind in _loaded:
        return
    _loaded.add(kind)
    for root in KINDS[kind]:
        module = importlib.import_module(root)
        for info in pkgutil.iter_modules(getattr(module, "__path__", [])):
            importlib.import_module(f"{root}.{info.name}")
    for point in entry_points(group="flr"):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - a third party's module may do anything
            log.warning(
                "the plugin %s cannot be loaded: %s: %s", point.value, type(error).__name__, error
            )
