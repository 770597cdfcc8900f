"""What crosses the wire: arrays as Flower's records, everything else as one canonical JSON string.

Data types are kept as they are (counters of BatchNorm stay integers), and no object is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from flr.core.arrays import Arrays, canonical_json
from flr.core.errors import RunError

SCHEMA = 1  # of notes; a site refuses a server that speaks another one

_ARRAYS, _NOTE = "arrays", "note"  # names of the records in a message
_VERSION, _TEXT = "schema", "json"  # keys of the note


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
    return {name: torch.from_numpy(np.array(array.numpy())) for name, array in record.items()}


def write(
    note: Mapping[str, Any], arrays: Arrays | None = None, beside: Mapping[str, Any] | None = None
) -> RecordDict:
    """The content of a message: one note and, where there are arrays, one record of them.

    `beside` are entries for Flower's own modifiers, in the record that holds the note.
    """
    text: dict[str, Any] = {_VERSION: SCHEMA, _TEXT: canonical_json(note)}
    records: dict[str, Any] = {_NOTE: ConfigRecord({**text, **(beside or {})})}
    if arrays is not None:
        records[_ARRAYS] = to_record(arrays)
    return RecordDict(records)


def read(content: RecordDict) -> tuple[dict[str, Any], Arrays]:
    """The inverse of `write`; refuses what another version of flr, or another app, has sent."""
    record = content.config_records.get(_NOTE, ConfigRecord())
    if record.get(_VERSION) != SCHEMA:
        raise WireError(
            f"Expected a message of version {SCHEMA}; got version {record.get(_VERSION)!r}. "
            "Install the same version of flr at the server and at every site."
        )
    try:
        note = json.loads(str(record[_TEXT]))
        arrays = content.array_records.get(_ARRAYS)
        received = {} if arrays is None else from_record(arrays)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise WireError(
            f"Expected a note and arrays as flr writes them; they cannot be read "
            f"({type(error).__name__}). Run the same version of flr everywhere."
        ) from error
    return dict(note), received
