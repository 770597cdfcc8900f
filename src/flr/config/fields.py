"""What the sections of a config are made of: counts, and entries of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import Field, PlainValidator

from flr.config.entry import ConfigEntry, parse_entry
from flr.config.errors import ProblemsError

Count = Annotated[int, Field(ge=1)]


def reads(kind: str, default: str, **more: Any) -> PlainValidator:
    """A field that holds an entry: a name or a table."""
    return PlainValidator(partial(parse_entry, kind, default=default, **more))


def default(kind: str, name: str) -> Any:
    """The entry of that name, where a config says nothing."""
    return Field(default_factory=partial(parse_entry, kind, name, default=name))


def read_list(kind: str, raw: Sequence[object], default: str) -> tuple[ConfigEntry, ...]:
    """Each a name or a table; all mistakes at once."""
    entries, problems = [], []
    for index, item in enumerate(raw):
        try:
            entries.append(parse_entry(kind, item, default=default))
        except ProblemsError as found:
            problems += [problem.below((index,)) for problem in found.found]
    if problems:
        raise ProblemsError(problems)
    return tuple(entries)
