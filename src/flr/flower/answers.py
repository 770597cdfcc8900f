"""What a site may answer: nothing that a node has sent is used before it has passed here.

First comes who answers, then what its note says, and its arrays last. Notes are short, JSON nested
deeper than any of ours is refused by the parser, and numbers have bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from annotated_types import Ge, Le, Len
from flwr.app import Message
from flwr.serverapp import Grid
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from flr.core.plain_text import plain
from flr.flower import wire
from flr.flower.run_spec import SITE_NAME

MOST_SAMPLES = 10**9  # of one site; more is no claim that anybody can check
LARGEST_INPUT = 2**24  # numbers in one sample: a network is built for as many
LONGEST_NOTE = 2**16  # letters

# what Flower raises where a message's parts are none of its own; a lost link is another matter
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError, DecodeError)


def _named(site: str) -> str:
    if not SITE_NAME.fullmatch(site):
        raise ValueError("no site name")
    return site


def _buildable(shape: tuple[int, ...]) -> tuple[int, ...]:
    if math.prod(shape) > LARGEST_INPUT:
        raise ValueError(f"more than {LARGEST_INPUT} numbers in a sample")
    return shape


@dataclass(frozen=True)
class Said:
    """What every answer has: a name, and why there is no more where that is so."""

    site: str = ""
    problem: str = ""


@dataclass(frozen=True)
class SiteFacts:
    """What a site says of itself."""

    site: Annotated[str, AfterValidator(_named)]
    examples: Annotated[int, Ge(0), Le(MOST_SAMPLES)]
    shape: Annotated[
        tuple[Annotated[int, Ge(1)], ...], Len(1, 8), AfterValidator(_buildable)
    ]  # of one sample
    dtype: Literal["uint8", "float32"]


@dataclass(frozen=True)
class Done:
    """What a site says of a task that it has done; the arrays are beside it."""

    site: str
    examples: int  # has to be the number of the roll call, which is bounded
    stateful: bool
    seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


Schema = TypeVar("Schema")


def heard(message: Message | None, schema: type[Schema]) -> Schema:
    """A site's note as one of the above; WireError where it is none."""
    if message is None or not message.has_content():
        raise wire.WireError("Expected an answer of flr; Flower cannot read what the node sent")
    text = wire.note_text(message.content)
    if len(text) > LONGEST_NOTE:
        raise wire.WireError(
            f"Expected a note of at most {LONGEST_NOTE} letters; it has {len(text)}"
        )
    try:
        return TypeAdapter(schema).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "its note"
        raise wire.WireError(f"{plain(where)} that no site of flr says: {first['msg']}") from None
    except ValueError:  # letters that cannot be written down
        raise wire.WireError("Expected a note in Unicode; it is none") from None


def pull(grid: Grid, waiting: Iterable[str]) -> Iterator[tuple[str, Message | None]]:
    """The answers that have come, by the message they answer; None for one that is unreadable.

    One at a time: Flower hands over a batch whole or, where one of it is broken, not at all.
    """
    for number in list(waiting):
        try:
            replies: list[Message | None] = list(grid.pull_messages([number]))
        except _UNREADABLE:
            replies = [None]
        for reply in replies[:1]:
            yield number, reply
