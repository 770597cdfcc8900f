"""What is wrong with a config, in words: what came, what was expected, what to do."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from flr.config.toml_lines import Place
from flr.core.registry import nearest

SECTIONS = ("data", "scenario", "partition", "noise", "attack", "train", "eval")


@dataclass(frozen=True)
class ConfigProblem:
    """One mistake; the text goes on from the key and its value, or stands alone."""

    at: Place
    text: str
    head: Literal["value", "key", "none"] = "value"

    def below(self, place: Place) -> ConfigProblem:
        """The same problem, seen from further up."""
        return replace(self, at=place + self.at)


class ProblemsError(ValueError):
    """Several mistakes at once; carries them through validators, which can raise but one error."""

    def __init__(self, found: Iterable[ConfigProblem]) -> None:
        self.found = list(found)
        super().__init__("; ".join(problem.text for problem in self.found))


def translate(
    error: ValidationError, model: type[BaseModel], unknown_key: Callable[[Place], str]
) -> list[ConfigProblem]:
    """Pydantic's errors in words, one for each key however many alternatives its type has."""
    problems: dict[Place, list[ConfigProblem]] = {}
    for detail in error.errors(include_url=False):
        place, field = _resolve(detail["loc"], model)
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, ProblemsError):
            found = [problem.below(place) for problem in cause.found]
        elif isinstance(cause, ValueError):
            found = [ConfigProblem(place, str(cause))]
        elif field is None:
            found = [ConfigProblem(place, unknown_key(place), head="key")]
        elif detail["type"] == "missing":
            text = f"is missing. Expected {expected(field.annotation, field.metadata)}: write it."
            found = [ConfigProblem(place, text)]
        else:
            found = [ConfigProblem(place, _wrong(field, detail["input"]))]
        problems.setdefault(place, found)
    return [problem for found in problems.values() for problem in found]


def _resolve(loc: tuple[int | str, ...], model: type[BaseModel]) -> tuple[Place, FieldInfo | None]:
    """Cuts a location at the key it lies in, and finds the field of that key."""
    for depth, part in enumerate(loc, start=1):
        field = model.model_fields.get(str(part))
        inner = field.annotation if field else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)) or depth == len(loc):
            return tuple(loc[:depth]), field
        model = inner
    return (), None


def _wrong(field: FieldInfo, value: object) -> str:
    near = otherwise = ""
    if isinstance(value, str) and typing.get_origin(field.annotation) is Literal:
        near = nearest(value, typing.get_args(field.annotation))
    if not field.is_required():
        default = field.get_default(call_default_factory=False)
        plain = isinstance(default, str | int | float)
        otherwise = f", or leave it out{f' for {show(default)}' if plain else ''}"
    wanted = expected(field.annotation, field.metadata)
    return f"should be {wanted}.{near} Change it{otherwise}."


_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    Path: "a path in quotes",
    Any: "a value",
}


def expected(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """An annotation in plain words, with its bounds."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return expected(arguments[0], [*arguments[1:], *metadata])
    if origin is Literal:
        words = " or ".join(show(value) for value in arguments)
    elif origin in (typing.Union, types.UnionType):
        kinds = [expected(kind) for kind in arguments if kind is not type(None)]
        words = " or ".join(dict.fromkeys(kinds))
    elif origin in (list, tuple):
        words = f"a list, each item {expected(arguments[0])}" if arguments else "a list"
    elif annotation in _WORDS:
        words = _WORDS[annotation]
    else:
        words = "a list" if annotation in (list, tuple) else "a table"
    flat = [m for item in metadata for m in getattr(item, "metadata", [item])]  # also of FieldInfo
    bounds = [
        f"{limit} {show(getattr(bound, attribute))}"
        for bound in flat
        for attribute, limit in _BOUNDS.items()
        if hasattr(bound, attribute)
    ]
    return f"{words}, {' and '.join(bounds)}" if bounds else words


def show(value: object) -> str:
    """A value as TOML would write it, cut to a readable length."""
    try:
        return cut(json.dumps(value, ensure_ascii=False, default=str), 40)
    except (ValueError, RecursionError):
        return "..."


def cut(text: str, length: int) -> str:
    """Keeps a line of output a line: no control characters, and not much longer than asked."""
    printable = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: length + 1])
    return printable if len(text) <= length else f"{printable[:length]}..."


def name_of(place: Place) -> str:
    """A key as a reader of the file would point at it: `[train] lr`, `method[1].mu`."""
    section = ""
    if len(place) > 1 and place[0] in SECTIONS:
        section, place = f"[{place[0]}] ", place[1:]
    words = ""
    for part in place:
        if isinstance(part, int):
            words += f"[{part}]"
        else:
            bare = re.fullmatch(r"[\w-]+", part, re.ASCII)
            words += ("." if words else "") + (cut(part, 40) if bare else show(part))
    return section + words
