"""What crosses the wire: arrays as Flower's records, everything else as one canonical JSON string.

Data types are kept as they are (counters of BatchNorm stay integers), and no object is pickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.common.constant import SType

from flr.core.arrays import Arrays, canonical_json
from flr.core.errors import RunError
from flr.flower.records import ARRAYS, NOTE, SCHEMA, TEXT, VERSION


class WireError(RunError):
    """A message that is none of ours: of another version of flr, or damaged."""


def to_record(arrays: Arrays) -> ArrayRecord:
    """Arrays as Flower carries them, in a fixed order."""
    record = ArrayRecord()
    for name, value in sorted(arrays.items()):
        try:
            record[name] = Array(value.detach().cpu().numpy())
        except TypeError:
            raise RunError(
                f"Expected numbers of a type that NumPy knows too; {name} is {value.dtype}, which "
                "Flower cannot carry unchanged. Convert the model to float32."
            ) from None
    return record


def from_record(record: ArrayRecord) -> Arrays:
    """The inverse of `to_record`; the tensors own their memory."""
    return {name: torch.from_numpy(_numbers(array)) for name, array in record.items()}


def _numbers(array: Array) -> np.ndarray[Any, Any]:
    """The array in Flower's bytes; ValueError where they say one thing and hold another.

    NumPy's own reader makes room for as many numbers as a header claims before it looks, and takes
    archives too.
    """
    stream = BytesIO(array.data)
    if np.lib.format.read_magic(stream) != (1, 0) or array.stype != SType.NUMPY:
        raise ValueError("bytes of another format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    held = len(array.data) - stream.tell()
    if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != held:
        raise ValueError("another size or type than it claims")
    flat = np.frombuffer(array.data, dtype, offset=stream.tell()).copy()
    return flat.reshape(shape, order="F" if fortran else "C")


def write(
    note: Mapping[str, Any], arrays: Arrays | None = None, beside: Mapping[str, Any] | None = None
) -> RecordDict:
    """The content of a message: one note and, where there are arrays, one record of them.

    `beside` are entries for Flower's own modifiers, in the record that holds the note.
    """
    text: dict[str, Any] = {VERSION: SCHEMA, TEXT: canonical_json(note)}
    records: dict[str, Any] = {NOTE: ConfigRecord({**text, **(beside or {})})}
    if arrays is not None:
        records[ARRAYS] = to_record(arrays)
    return RecordDict(records)


def read(content: RecordDict) -> tuple[dict[str, Any], Arrays]:
    """The inverse of `write`; refuses what another version of flr, or another app, has sent."""
    try:
        note = dict(json.loads(note_text(content)))
    except (TypeError, ValueError, RecursionError) as error:
        raise _unreadable(error) from error
    return note, read_arrays(content)


def note_text(content: RecordDict) -> str:
    """The note as it was sent; looks at nothing but its version."""
    record = content.config_records.get(NOTE, ConfigRecord())
    version, text = record.get(VERSION), record.get(TEXT)
    if type(version) is not int or version != SCHEMA:
        raise WireError(
            f"Expected a message of version {SCHEMA}; got version {version!r:.40}. "
            "Install the same version of flr at the server and at every site."
        )
    if not isinstance(text, str):
        raise _unreadable(TypeError())
    return text


def read_arrays(content: RecordDict) -> Arrays:
    """The arrays of a message, none where it has none."""
    record = content.array_records.get(ARRAYS)
    try:
        return {} if record is None else from_record(record)
    except Exception as error:  # NumPy reads headers as Python text: much can be wrong with them
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> WireError:
    return WireError(
        f"Expected a note and arrays as flr writes them; they cannot be read "
        f"({type(error).__name__}). Run the same version of flr everywhere."
    )
