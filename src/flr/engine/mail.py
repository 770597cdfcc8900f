"""What passes between the main process and a worker: small words by pipe, arrays by shared memory.

Nothing is pickled but plain values: torch would send its tensors as open files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flr import arrays
from flr.client.desk import Answer, Job, Look, Order
from flr.contract import Reply

Note = int | bytes  # how many bytes lie in a slot, or, where they do not fit, the bytes themselves


@dataclass(frozen=True)
class Slot:
    """Shared memory that one process writes and others read, never at the same time."""

    memory: Tensor

    @classmethod
    def of(cls, size: int) -> Slot:
        """Pages that are never written take no memory."""
        return cls(torch.empty(size, dtype=torch.uint8).share_memory_())

    def put(self, data: bytes) -> Note:
        """Lays bytes down for the other side, which needs the note to find them."""
        if len(data) > len(self.memory):
            return data
        self.memory.numpy()[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def get(self, note: Note) -> bytes:
        """A copy of what was laid down."""
        return self.memory.numpy()[:note].tobytes() if isinstance(note, int) else note


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
        "arrays": slot.put(arrays.pack(answer.reply.arrays)),
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
    sent = arrays.unpack(slot.get(message["arrays"]))
    predictions = message["predictions"]
    if predictions is not None:
        predictions = torch.from_numpy(predictions)
    reply = Reply(message["client"], message["examples"], sent)
    return Answer(reply, message["stateful"], message["seconds"], predictions)
