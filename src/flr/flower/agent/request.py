"""What an agent can be asked, checked before anything is done with it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le, Len
from flwr.app import DEFAULT_TTL, Message, Metadata, RecordDict
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from flr.flower.agent.frames import FrameError
from flr.flower.agent.messenger import listed, to_content
from flr.flower.records import ARRAYS, NOTE

_STRICT = ConfigDict(extra="forbid", strict=True)
_MOST_ARRAYS = 100_000
_MOST_BYTES = 1 << 40

Word = Annotated[str, Len(1, 1000)]


@checked(frozen=True, config=_STRICT)
class ArrayHeader:
    """One array of a frame; its bytes come after the header."""

    name: Word
    dtype: Annotated[str, Len(1, 32)]
    shape: Annotated[tuple[Annotated[int, Ge(0)], ...], Len(0, 32)]
    stype: Literal["numpy.ndarray"]
    bytes: Annotated[int, Ge(0), Le(_MOST_BYTES)]


@checked(frozen=True, config=_STRICT)
class Header:
    """What a messenger asks: a message of the server with flr's records and no other."""

    type: Literal["query.hello", "train", "train.private"]
    note: Annotated[dict[Word, int | float | str | bool], Len(0, 16)]
    arrays: Annotated[list[ArrayHeader], Len(0, _MOST_ARRAYS)] | None = None

    @classmethod
    def of(cls, sent: bytes) -> Header:
        """Refuses all that no messenger writes, deep nesting too."""
        try:
            return _HEADER.validate_json(sent)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"])) or "it"
            text = f"a header that no messenger writes: {where}: {first['msg']}"
            raise FrameError(text) from None

    @property
    def bytes(self) -> int:
        """Of all arrays."""
        return sum(each.bytes for each in self.arrays or ())


_HEADER = TypeAdapter(Header)


@dataclass(frozen=True)
class Request:
    """A header with the arrays that came after it."""

    header: Header
    parts: list[bytes]

    def message(self) -> Message:
        """As Flower would hand it to a ClientApp. Where it came from, nobody here needs to know."""
        arrays = self.header.arrays
        listed = None if arrays is None else [vars(each) for each in arrays]
        content = to_content(self.header.note, listed, self.parts)
        return message_of(content, self.header.type)


def message_of(content: RecordDict, kind: str) -> Message:
    """A message that came from nowhere and can be answered."""
    metadata = Metadata(
        run_id=0,
        message_id="",
        src_node_id=0,
        dst_node_id=0,
        reply_to_message_id="",
        group_id="",
        created_at=time.time(),
        ttl=DEFAULT_TTL,
        message_type=kind,
    )
    return Message(content=content, metadata=metadata)  # type: ignore[call-overload,no-any-return]


def answer_of(reply: Message) -> tuple[dict[str, Any], list[bytes]]:
    """A reply as a frame: its records, or what Flower says went wrong."""
    if reply.has_error():
        return {"error": {"code": reply.error.code, "reason": reply.error.reason}}, []
    note: Mapping[str, Any] = reply.content.config_records[NOTE]
    arrays = reply.content.array_records.get(ARRAYS)
    header = {"note": dict(note), ARRAYS: None if arrays is None else listed(arrays)}
    return header, [] if arrays is None else [array.data for array in arrays.values()]
