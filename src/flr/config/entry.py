"""A registry entry with all its options: what `method = "flr"` or `[noise]` becomes."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from flr.config import devices, timm_models
from flr.config.errors import ConfigProblem, ProblemsError, cut, show, translate
from flr.config.toml_lines import Place
from flr.core import registry
from flr.core.errors import ConfigError, FlrError
from flr.core.registry import nearest

M = typing.TypeVar("M", bound=BaseModel)

# Kinds that may be somebody's own "module:function", and what it takes besides its options.
_KEYS = {"model": "[train] model", "backbone": "[data] backbone"}  # where a config has it
_TAKES = {"model": "(input_shape, classes) and ", "backbone": ""}

_without_code: ContextVar[bool] = ContextVar("without_code", default=False)

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


@dataclasses.dataclass(frozen=True)
class ConfigEntry:
    """An entry by kind and name, with the value of every option, defaults included."""

    kind: str
    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def is_timm(self) -> bool:
        """Whether this is a network of the package timm."""
        return self.kind == "model" and self.name.startswith(timm_models.PREFIX)

    @property
    def is_backbone(self) -> bool:
        """Whether this is a network around a pretrained backbone (models/finetune.py)."""
        return self.kind == "model" and self.name == "backbone"

    @property
    def backbone(self) -> ConfigEntry | None:
        """The backbone inside such a network, as the config names it; imports nothing."""
        given = self.options.get("backbone") if self.is_backbone else None
        if given is None:
            return None
        table = {"name": given} if isinstance(given, str) else dict(given)
        return ConfigEntry("backbone", str(table.pop("name", "")), table)

    @property
    def is_code(self) -> bool:
        """Whether the name is that of somebody's own function, which is imported."""
        partitioner = str(self.options.get("partitioner", "flwr_datasets."))
        if self.kind == "partition":  # see scenario/partitions/flwr_datasets.py
            return not partitioner.startswith("flwr_datasets.")
        return is_import(self.kind, self.name) and not self.is_timm

    @property
    def is_missing(self) -> bool:
        """Whether it is a plugin's that is not here."""
        return not is_import(self.kind, self.name) and self.name not in registry.entries(self.kind)

    @property
    def brings_weights(self) -> bool:
        """Whether a first round starts from weights that timm has, or downloads."""
        return self.is_timm and self.options.get("pretrained") is True

    def build(self) -> Any:
        """The entry's value, or a function of the leading arguments that only the engine knows.

        A network is built without the weights that timm could bring: only a first round needs them.
        """
        if self.is_timm:
            own = {key: value for key, value in self.options.items() if key != "pretrained"}
            return functools.partial(timm_models.build, self.name[len(timm_models.PREFIX) :], **own)
        if is_import(self.kind, self.name):
            made = functools.partial(imported(self.name, self.kind), **self.options)
            return made if self.kind == "model" else made()
        factory = registry.get(self.kind, self.name).factory
        partly = any(p.kind is p.POSITIONAL_ONLY for p in _parameters(factory))
        return functools.partial(factory, **self.options) if partly else factory(**self.options)

    def table(self, key: str) -> dict[str, Any]:
        """The TOML table that gives this entry; what an alias fixes cannot be in it."""
        entry = registry.entries(self.kind).get(self.name)  # none of somebody's own function
        free = {k: v for k, v in self.options.items() if entry is None or k not in entry.fixed}
        return {key: self.name, **as_toml(free)}

    def short(self) -> str | dict[str, Any]:
        """The bare name where that is enough, else the table."""
        table = self.table("name")
        return table if len(table) > 1 else self.name


def parse_entry(
    kind: str, raw: object, *, key: str = "name", default: str, beside: Sequence[str] = ()
) -> ConfigEntry:
    """Reads a name or a table; `beside` are keys of the same table that are read elsewhere."""
    if isinstance(raw, ConfigEntry):
        return raw
    if not isinstance(raw, str | dict):
        raise _refusal((), f'should be a name in quotes or a table like {{ {key} = "{default}" }}.')
    table = {key: raw} if isinstance(raw, str) else dict(raw)
    at = () if isinstance(raw, str) else (key,)
    name = table.pop(key, default)
    if not isinstance(name, str):
        raise _refusal(at, f'should be a name in quotes, for instance "{default}".')
    known = registry.entries(kind)
    family, _, model = name.partition(":")
    if kind == "backbone" and model and family in known:  # "timm:resnet50" is timm's resnet50
        name, table = family, {"model": model, **table}
    if kind == "partition" and model:  # a class of Flower Datasets, with its own options
        name, table = "flwr-datasets", _foreign_options(name, table)
    if is_import(kind, name):
        return _import_entry(kind, name, table, at)
    if name not in known:
        if devices.only_reads():
            return ConfigEntry(kind, name, table)
        raise _refusal(at, f"is not known.{nearest(name, known)} Known: {', '.join(known)}.")
    return _complete(known[name], table, beside, at)


def _foreign_options(name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Of a partitioner: the number of sites, under either name, is ours; the rest is its own."""
    rest = dict(table)
    ours = {"clients": rest.pop("clients")} if "clients" in rest else {}
    if not ours and "num_partitions" in rest:
        ours = {"clients": rest.pop("num_partitions")}
    return {"partitioner": name, **ours, **({"options": rest} if rest else {})}


def _complete(
    entry: registry.Entry, given: dict[str, Any], beside: Sequence[str], at: Place
) -> ConfigEntry:
    model = _options_model(entry.factory)
    known = [*(name for name in model.model_fields if name not in entry.fixed), *beside]

    def unknown_option(place: Place) -> str:
        listing = f"Known: {', '.join(known)}." if known else "It has none."
        near = nearest(str(place[-1]), known)
        what = f'{entry.kind} "{entry.name}"'
        return f"is not an option of {what}.{near} {listing} Correct or remove it."

    fixed = [_fixed(entry, name) for name in given if name in entry.fixed]
    rest = {name: value for name, value in given.items() if name not in entry.fixed}
    try:
        values = validate(model, {**as_toml(entry.fixed), **rest})
    except ValidationError as error:
        raise ProblemsError(fixed + translate(error, model, unknown_option)) from None
    if fixed:
        raise ProblemsError(fixed)
    # paths become absolute, so that a run can be resumed from anywhere
    found = {k: v.absolute() if isinstance(v, Path) else v for k, v in dict(values).items()}
    complete = ConfigEntry(entry.kind, entry.name, {**found, **entry.fixed})
    if isinstance(entry.factory, type):  # a class only checks its options; a function may read data
        try:
            complete.build()
        except (FlrError, ValueError) as error:
            raise ProblemsError([ConfigProblem(at, str(error), head="none")]) from None
    return complete


def validate(model: type[M], table: Mapping[str, Any]) -> M:
    """Strict about text, numbers and truth values, yet a list serves as tuple and text as path.

    That is what pydantic's strict mode does with JSON, and only with JSON.
    """
    return model.model_validate_json(json.dumps(table))


@functools.cache
def _options_model(factory: Callable[..., Any]) -> type[BaseModel]:
    """The options as a model, read off the factory's annotations."""
    plain_class = isinstance(factory, type) and not dataclasses.is_dataclass(factory)
    annotated = factory.__init__ if plain_class else factory
    hints = typing.get_type_hints(annotated, include_extras=True)
    makers: dict[str, Any] = {}
    if dataclasses.is_dataclass(factory):
        makers = {field.name: field.default_factory for field in dataclasses.fields(factory)}
    fields: dict[str, Any] = {}
    for parameter in _parameters(factory):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        default = str(default) if isinstance(default, Path) else default  # as JSON has it
        maker = makers.get(parameter.name, dataclasses.MISSING)
        # a class that came from another process has a copy of that sign
        made = not isinstance(maker, type(dataclasses.MISSING))
        value = Field(default_factory=maker) if made else default
        fields[parameter.name] = (hints.get(parameter.name, Any), value)
    config = ConfigDict(**STRICT, validate_default=True)
    return create_model("Options", __config__=config, **fields)


def _parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(factory).parameters.values())


def _fixed(entry: registry.Entry, name: str) -> ConfigProblem:
    owner = next(
        e.name
        for e in registry.entries(entry.kind).values()
        if e.factory is entry.factory and name not in e.fixed
    )
    fixed = f"{entry.name} fixes {name} = {show(entry.fixed[name])}"
    return ConfigProblem((name,), f'{fixed}; use {entry.kind} "{owner}" to choose it.', head="none")


def is_import(kind: str, name: str) -> bool:
    """Whether a name means code of somebody's own, "module:function"."""
    family, colon, _ = name.partition(":")
    registered = kind == "backbone" and family in registry.entries(kind)  # as "timm:resnet50"
    return kind in _TAKES and bool(colon) and not registered


def _import_entry(kind: str, name: str, options: dict[str, Any], at: Place) -> ConfigEntry:
    """A user's own model; all that can be checked is that it exists and takes these options."""
    entry = ConfigEntry(kind, name, options)
    if _without_code.get() and entry.is_code:
        return entry
    try:
        if entry.is_timm:
            timm_models.check(name, options)
        else:
            known = ((1,), 2) if kind == "model" else ()  # what only the engine knows
            inspect.signature(imported(name, kind)).bind(*known, **options)
    except FlrError as error:
        raise ProblemsError([ConfigProblem(at, str(error), head="none")]) from None
    except TypeError as error:
        raise _refusal(
            at,
            f"should take {_TAKES[kind]}the options given; it does not ({error}). "
            "Change the function or the options.",
        ) from None
    except ValueError:  # some built-in callables have no signature to check
        pass
    return entry


@contextmanager
def without_code() -> Iterator[None]:
    """Configs that are read meanwhile import nothing: functions they name stay names."""
    before = _without_code.set(True)
    try:
        yield
    finally:
        _without_code.reset(before)


def reads_code() -> bool:
    """Whether functions that a config names may be looked at now."""
    return not _without_code.get()


def imported(name: str, kind: str = "model") -> Callable[..., Any]:
    """The function behind "module:function"."""
    if _without_code.get():
        raise ConfigError(
            f"Expected to read a config without the code that it names; {show(name)} is needed. "
            "If you trust it, say --trust (in Python: trust=True)."
        )
    module, _, attribute = name.partition(":")
    advice = "Check the spelling, and that its folder is on PYTHONPATH."
    try:
        found = getattr(importlib.import_module(module), attribute)
        if callable(found):
            return typing.cast(Callable[..., Any], found)
        reason = "it is no function"
    except Exception as error:  # noqa: BLE001  (importing runs the user's file)
        reason = f"it cannot be imported ({cut(f'{type(error).__name__}: {error}', 120)})"
    key = _KEYS.get(kind, f"[{kind}] kind")
    raise ConfigError(f"{key} = {show(name)} should be module:function; {reason}. {advice}")


def _refusal(at: Place, text: str) -> ProblemsError:
    return ProblemsError([ConfigProblem(at, text)])


def as_toml(value: Any) -> Any:
    """A value as TOML has it: no None, paths as text, tuples as lists."""
    if isinstance(value, Mapping):
        return {key: as_toml(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [as_toml(item) for item in value]
    return str(value) if isinstance(value, Path) else value
