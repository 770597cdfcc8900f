"""Everything with a name in a config: methods, aggregators, models, data sets, noises, attacks...

An entry is a factory whose parameters are its options. Built-in entries register when their module
is imported; a third party's come through the entry-point group `flr`. Nothing else in the code base
knows a name.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import logging
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from flr.core.errors import ConfigError

KINDS = {  # where a kind's entries are: a new one is a new file in that package
    "method": "flr.methods",
    "aggregator": "flr.aggregate",
    "model": "flr.models",
    "backbone": "flr.models.backbones",
    "dataset": "flr.data.sources",
    "partition": "flr.scenario.partitions",
    "noise": "flr.scenario.noises",
    "attack": "flr.scenario.attacks",
    "optimizer": "flr.client.optimizer",
    "schedule": "flr.client.schedules",
    "tracker": "flr.report.trackers",
}

_DROPPED = sys.flags.optimize >= 2  # python -OO and PYTHONOPTIMIZE=2 run without docstrings
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef)

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
        return documentation(self.factory)


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
    """Gives a factory a name that configs can use; its parameters are the entry's options.

    Args:
        name: What a config writes.
        kind: "method", "aggregator", "model", "backbone", "dataset", "partition", "noise",
            "attack", "optimizer", "schedule" or "tracker".
        title: What tables and pictures write; the name if left out.
        paper: Where it was published.
        year: When.
        aliases: Other names -> (summary, options that the alias fixes).
        check: Of an aggregator: `check(asked, **options)` says why it cannot work with so many
            clients a round; empty if it can.

    Example:
        >>> from dataclasses import dataclass
        >>> @flr.register("calm", title="Calm", year=2026)
        ... @dataclass(frozen=True)
        ... class Calm(flr.Method):
        ...     '''Adds the mean squared logit to the loss.
        ...
        ...     Leaves the site: weights.
        ...     '''
        ...     lam: float = 0.01
        ...     def regularize(self, c, net, logits, b):
        ...         return self.lam * logits.square().mean()
        >>> config = {"method": {"name": "calm", "lam": 0.1}, "rounds": 1}
        >>> flr.run(config, out="runs/calm").summary["method"]
        'calm'

    Raises:
        ValueError: The docstring is missing or, for a method, lacks a "Leaves the site:" line.
    """

    def add(factory: T) -> T:
        doc = documentation(factory)
        if kind not in KINDS:
            raise ValueError(f"register({name!r}): kind {kind!r} is not one of {', '.join(KINDS)}")
        if not doc and not _DROPPED:
            raise ValueError(f"register({name!r}): the docstring is what `describe` shows; add one")
        if kind == "method" and "Leaves the site:" not in doc and not _DROPPED:
            raise ValueError(f"register({name!r}): the docstring needs a 'Leaves the site:' line")
        summary = doc.split("\n")[0]
        _add(Entry(kind, name, factory, title or name, paper, year, {}, summary, check))
        for alias, (alias_summary, fixed) in (aliases or {}).items():
            _add(Entry(kind, alias, factory, alias, paper, None, dict(fixed), alias_summary))
        return factory

    return add


def documentation(factory: Callable[..., Any]) -> str:
    """The docstring of a factory, unindented; where Python drops them, as its source has it."""
    if not _DROPPED:
        return inspect.getdoc(factory) or ""
    for owner in getattr(factory, "__mro__", (factory,)):
        node: ast.AST | None = _source(owner.__module__)
        for name in owner.__qualname__.split("."):
            inside = {n.name: n for n in getattr(node, "body", ()) if isinstance(n, _DEFINITIONS)}
            node = inside.get(name)
        if isinstance(node, _DEFINITIONS) and (found := ast.get_docstring(node)):
            return found
    return ""


@cache
def _source(module: str) -> ast.Module | None:
    """What a module's file says; None where it came without one."""
    try:
        return ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return None


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


def brought() -> list[Entry]:
    """What others have registered so far; another process that gets it has registered it too."""
    return [e for e in _entries.values() if not e.factory.__module__.startswith("flr.")]


def adopt(found: Iterable[Entry]) -> None:
    """Registers what another process has brought, a notebook's own methods for instance."""
    for entry in found:
        _add(entry)


def find(name: str) -> list[Entry]:
    """Entries of that name of any kind, for `describe`."""
    return [e for kind in KINDS for e in entries(kind).values() if e.name == name]


def unknown(what: str, name: object, known: Mapping[str, Any] | list[str]) -> str:
    """Says that a name is not known, which one was probably meant, and which there are."""
    names = sorted(known)
    return f'{what} "{name}" is not known.{nearest(str(name), names)} Known: {", ".join(names)}.'


def nearest(name: str, known: Iterable[str]) -> str:
    """A question to append, or nothing when no known name is close."""
    near = difflib.get_close_matches(name[:60], list(known), n=1, cutoff=0.5)
    return f' Did you mean "{near[0]}"?' if near else ""


def is_installed(package: str) -> bool:
    """Whether a package that an entry needs can be imported here."""
    return importlib.util.find_spec(package) is not None


def _load(kind: str) -> None:
    if kind in _loaded:
        return
    _loaded.add(kind)
    package = importlib.import_module(KINDS[kind])
    for info in pkgutil.iter_modules(getattr(package, "__path__", [])):
        importlib.import_module(f"{package.__name__}.{info.name}")
    for point in entry_points(group="flr"):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - a third party's module may do anything
            log.warning(
                "the plugin %s cannot be loaded: %s: %s", point.value, type(error).__name__, error
            )
