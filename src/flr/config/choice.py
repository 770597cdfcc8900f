"""A registry entry with all its options: what `method = "flr"` or `[noise]` becomes."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from flr import registry
from flr.config import from_timm
from flr.config.locate import Place
from flr.config.problems import Problem, ProblemsError, cut, nearest, show, translate
from flr.errors import ConfigError, FlrError

STRICT = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


@dataclasses.dataclass(frozen=True)
class Choice:
    """An entry by kind and name, with the value of every option, defaults included."""

    kind: str
    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    @property
    def is_timm(self) -> bool:
        """Whether this is a network of the package timm."""
        return self.kind == "model" and self.name.startswith(from_timm.PREFIX)

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
            return functools.partial(from_timm.build, self.name[len(from_timm.PREFIX) :], **own)
        if _is_import(self.kind, self.name):
            return functools.partial(imported(self.name), **self.options)
        factory = registry.get(self.kind, self.name).factory
        if any(p.kind is p.POSITIONAL_ONLY for p in _parameters(factory)):
            return functools.partial(factory, **self.options)
        return factory(**self.options)

    def table(self, key: str) -> dict[str, Any]:
        """The TOML table that gives this choice; what an alias fixes cannot be in it."""
        imported = _is_import(self.kind, self.name)
        fixed = {} if imported else registry.get(self.kind, self.name).fixed
        free = {name: value for name, value in self.options.items() if name not in fixed}
        return {key: self.name, **_toml(free)}

    def short(self) -> str | dict[str, Any]:
        """The bare name where that is enough, else the table."""
        table = self.table("name")
        return table if len(table) > 1 else self.name


def choose(
    kind: str, raw: object, *, key: str = "name", default: str, beside: Sequence[str] = ()
) -> Choice:
    """Reads a name or a table; `beside` are keys of the same table that are read elsewhere."""
    if isinstance(raw, Choice):
        return raw
    if not isinstance(raw, str | dict):
        raise _refusal((), f'should be a name in quotes or a table like {{ {key} = "{default}" }}.')
    table = {key: raw} if isinstance(raw, str) else dict(raw)
    at = () if isinstance(raw, str) else (key,)
    name = table.pop(key, default)
    if not isinstance(name, str):
        raise _refusal(at, f'should be a name in quotes, for instance "{default}".')
    if _is_import(kind, name):
        return _choose_import(kind, name, table, at)
    known = registry.entries(kind)
    if name not in known:
        raise _refusal(at, f"is not known.{nearest(name, known)} Known: {', '.join(known)}.")
    return _complete(known[name], table, beside, at)


def _complete(
    entry: registry.Entry, given: dict[str, Any], beside: Sequence[str], at: Place
) -> Choice:
    model = _options_model(entry.factory)
    free = [name for name in model.model_fields if name not in entry.fixed]
    fixed = [_fixed(entry, name) for name in given if name in entry.fixed]
    rest = {name: value for name, value in given.items() if name not in entry.fixed}
    try:
        values = validate(model, {**_toml(entry.fixed), **rest})
    except ValidationError as error:
        words = functools.partial(_unknown_option, entry, free, beside)
        raise ProblemsError(fixed + translate(error, model, words)) from None
    if fixed:
        raise ProblemsError(fixed)
    # paths become absolute, so that a run can be resumed from anywhere
    found = {k: v.absolute() if isinstance(v, Path) else v for k, v in dict(values).items()}
    choice = Choice(entry.kind, entry.name, {**found, **entry.fixed})
    if isinstance(entry.factory, type):  # a class only checks its options; a function may read data
        try:
            choice.build()
        except (FlrError, ValueError) as error:
            raise ProblemsError([Problem(at, str(error), head="none")]) from None
    return choice


def validate(model: type[BaseModel], table: Mapping[str, Any]) -> BaseModel:
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
    makers = {}
    if dataclasses.is_dataclass(factory):
        makers = {field.name: field.default_factory for field in dataclasses.fields(factory)}
    fields: dict[str, Any] = {}
    for parameter in _parameters(factory):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        default = str(default) if isinstance(default, Path) else default  # as JSON has it
        maker = makers.get(parameter.name, dataclasses.MISSING)
        value = default if maker is dataclasses.MISSING else Field(default_factory=maker)
        fields[parameter.name] = (hints.get(parameter.name, Any), value)
    config = ConfigDict(**STRICT, validate_default=True)
    return create_model("Options", __config__=config, **fields)


def _parameters(factory: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(factory).parameters.values())


def _fixed(entry: registry.Entry, name: str) -> Problem:
    owner = next(
        e.name
        for e in registry.entries(entry.kind).values()
        if e.factory is entry.factory and name not in e.fixed
    )
    fixed = f"{entry.name} fixes {name} = {show(entry.fixed[name])}"
    return Problem((name,), f'{fixed}; use {entry.kind} "{owner}" to choose it.', head="none")


def _unknown_option(
    entry: registry.Entry, free: Sequence[str], beside: Sequence[str], place: Place
) -> str:
    known = [*free, *beside]
    listing = f"Known: {', '.join(known)}." if known else "It has none."
    near = nearest(str(place[-1]), known)
    what = f'{entry.kind} "{entry.name}"'
    return f"is not an option of {what}.{near} {listing} Correct or remove it."


def _is_import(kind: str, name: str) -> bool:
    return kind == "model" and ":" in name


def _choose_import(kind: str, name: str, options: dict[str, Any], at: Place) -> Choice:
    """A user's own model; all that can be checked is that it exists and takes these options."""
    choice = Choice(kind, name, options)
    try:
        if choice.is_timm:
            from_timm.check(name, options)
            return choice
        inspect.signature(imported(name)).bind((1,), 2, **options)
    except FlrError as error:
        raise ProblemsError([Problem(at, str(error), head="none")]) from None
    except TypeError as error:
        raise _refusal(
            at,
            f"should take (input_shape, classes) and the options given; it does not ({error}). "
            "Change the function or the options.",
        ) from None
    except ValueError:  # some built-in callables have no signature to check
        pass
    return choice


def imported(name: str) -> Callable[..., Any]:
    """The function behind "module:function"."""
    module, _, attribute = name.partition(":")
    advice = "Check the spelling, and that its folder is on PYTHONPATH."
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # noqa: BLE001  (importing runs the user's file)
        reason = cut(f"{type(error).__name__}: {error}", 120)
        raise ConfigError(
            f"[train] model = {show(name)} should be module:function; it cannot be imported "
            f"({reason}). {advice}"
        ) from None
    if not callable(found):
        raise ConfigError(
            f"[train] model = {show(name)} should be module:function; it is no function. {advice}"
        )
    return typing.cast(Callable[..., Any], found)


def _refusal(at: Place, text: str) -> ProblemsError:
    return ProblemsError([Problem(at, text)])


def _toml(value: Any) -> Any:
    """TOML has no paths, tuples or nothing."""
    if isinstance(value, Mapping):
        return {key: _toml(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_toml(item) for item in value]
    return str(value) if isinstance(value, Path) else value
