"""What passes between the main process and a worker: small words by pipe, arrays by shared memory.

Nothing is pickled but plain values: torch would send its tensors as open files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flr import arrays
from flr.arrays import Arrays
from flr.client.desk import Answer, Job, Look, Order
from flr.contract import Reply

Layout = list[tuple[str, torch.dtype, tuple[int, ...]]]
Note = Layout | bytes  # what lies in a slot, or, where it does not fit, the packed arrays

_ALIGNED = 16  # bytes, as any type may want


@dataclass(frozen=True)
class Slot:
    """Shared memory that one process writes and others read, never at the same time."""

    memory: Tensor

    @classmethod
    def of(cls, size: int) -> Slot:
        """Pages that are never written take no memory; `share_memory_` would write them all."""
        shared = torch.UntypedStorage._new_shared(size)  # no public way is as lazy
        return cls(torch.empty(0, dtype=torch.uint8).set_(shared))

    def put(self, sent: Arrays) -> Note:
        """Lays arrays down for the other side, which needs the note to find them."""
        layout = [(name, a.dtype, tuple(a.shape)) for name, a in sent.items()]
        places, size = _places(layout)
        if size > len(self.memory):
            return arrays.pack(sent)
        for array, place in zip(sent.values(), places, strict=True):
            _part(self.memory, array.dtype, tuple(array.shape), place).copy_(array)
        return layout

    def get(self, note: Note) -> Arrays:
        """A copy of what was laid down."""
        if isinstance(note, bytes):
            return arrays.unpack(note)
        places, size = _places(note)
        copied = self.memory[:size].clone()
        return {
            name: _part(copied, dtype, shape, place)
            for (name, dtype, shape), place in zip(note, places, strict=True)
        }


def _places(layout: Layout) -> tuple[list[int], int]:
    """Where each array begins, and how many bytes all take."""
    places, end = [], 0
    for _, dtype, shape in layout:
        places.append(end)
        end += -(-math.prod(shape) * dtype.itemsize // _ALIGNED) * _ALIGNED
    return places, end


def _part(memory: Tensor, dtype: torch.dtype, shape: tuple[int, ...], place: int) -> Tensor:
    size = math.prod(shape) * dtype.itemsize
    return memory[place : place + size].view(dtype).view(shape)


def is_long(job: Job) -> bool:
    """Whether a pipe may be too small for it: then both sides must not write at the same time."""
    return not isinstance(job, Look) and bool(job.extra)


def wrapped(job: Job) -> tuple[Any, Any]:
    """A job as plain values."""
    if isinstance(job, Look):
        return job.view, job.rows.numpy()
    return replace(job, extra={}), arrays.pack(job.extra) if job.extra else None


def unwrapped(head: Any, body: Any) -> Job:
    if isinstance(head, str):
        return Look(head, torch.from_numpy(body))
    order: Order = head if body is None else replace(head, extra=arrays.unpack(body))
    return order


def sealed(answer: Answer | Tensor, slot: Slot) -> Any:
    """What became of a job; the arrays of a reply go into the slot."""
    if isinstance(answer, Tensor):
        return answer.numpy()
    predictions = None if answer.predictions is None else answer.predictions.numpy()
    return {
        "client": answer.reply.client,
        "examples": answer.reply.examples,
        "arrays": slot.put(answer.reply.arrays),
        "stateful": answer.stateful,
        "seconds": answer.seconds,
        "predictions": predictions,
    }


def opened(message: Any, slot: Slot) -> Answer | Tensor:
    """The answer; raises the error that came instead."""
    if isinstance(message, tuple):
        kind, text = message
        raise kind(text)
    if isinstance(message, np.ndarray):
        return torch.from_numpy(message)
    sent = slot.get(message["arrays"])
    predictions = message["predictions"]
    if predictions is not None:
        predictions = torch.from_numpy(predictions)
    reply = Reply(message["client"], message["examples"], sent)
    return Answer(reply, message["stateful"], message["seconds"], predictions)
