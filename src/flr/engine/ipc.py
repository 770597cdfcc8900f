"""What passes between the main process and a worker: a job one way, its result the other.

Arrays go through shared memory, everything else through a pipe. Only plain values and NumPy arrays
are pickled, because torch would send each of its tensors as an open file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from flr.client.worker import ClientResult, ClientTask, Job, PredictJob
from flr.core import arrays
from flr.core.arrays import Arrays
from flr.core.contract import Reply
from flr.core.errors import FlrError, RunError

Layout = list[tuple[str, torch.dtype, tuple[int, ...]]]  # name, type and shape of each array
Note = Layout | bytes  # where arrays are in a buffer; those that do not fit go along, packed

_ALIGNED = 16  # bytes, as any type may want


class NoSharedMemoryError(RunError):
    """What processes would share does not fit into the system's shared memory."""


@contextmanager
def in_shared_memory() -> Iterator[None]:
    """Where torch puts tensors there; a container's /dev/shm is often small (Docker: 64 MB)."""
    try:
        yield
    except RuntimeError as error:
        if "</torch_" not in str(error):  # how torch names its files there
            raise
        raise NoSharedMemoryError(
            "Expected room in shared memory (/dev/shm) for what worker processes share; the system "
            f"says: {error}. Give it more (`docker run --shm-size=1g`), or set workers = 1."
        ) from error


@dataclass(frozen=True)
class SharedBuffer:
    """Shared memory that one process writes and others read, never at the same time."""

    memory: Tensor

    @classmethod
    def of(cls, size: int) -> SharedBuffer:
        """Pages that are never written take no memory; `share_memory_` would write them all."""
        shared = torch.UntypedStorage._new_shared(size)  # no public way is as lazy
        return cls(torch.empty(0, dtype=torch.uint8).set_(shared))

    def put(self, sent: Arrays) -> Note:
        """Writes arrays for the other side, which needs the note to find them."""
        layout = [(name, a.dtype, tuple(a.shape)) for name, a in sent.items()]
        starts, size = _starts(layout)
        if size > len(self.memory):
            return arrays.pack(sent)
        for array, start in zip(sent.values(), starts, strict=True):
            _view(self.memory, array.dtype, tuple(array.shape), start).copy_(array)
        return layout

    def get(self, note: Note) -> Arrays:
        """A copy of what was written."""
        if isinstance(note, bytes):
            return arrays.unpack(note)
        starts, size = _starts(note)
        copied = self.memory[:size].clone()
        return {
            name: _view(copied, dtype, shape, start)
            for (name, dtype, shape), start in zip(note, starts, strict=True)
        }


def _starts(layout: Layout) -> tuple[list[int], int]:
    """Where each array begins, and how many bytes all take."""
    starts, end = [], 0
    for _, dtype, shape in layout:
        starts.append(end)
        end += -(-math.prod(shape) * dtype.itemsize // _ALIGNED) * _ALIGNED
    return starts, end


def _view(memory: Tensor, dtype: torch.dtype, shape: tuple[int, ...], start: int) -> Tensor:
    size = math.prod(shape) * dtype.itemsize
    return memory[start : start + size].view(dtype).view(shape)


@dataclass(frozen=True)
class JobMessage:
    """To a worker: a client's task, or samples to classify."""

    broadcast: Note | None  # None: the worker has it already
    task: ClientTask | None = None  # without its arrays
    extra: bytes = b""  # the task's arrays, packed
    view: str = ""
    rows: NDArray[Any] | None = None
    logits: bool = False

    @classmethod
    def encode(cls, job: Job, broadcast: Note | None) -> JobMessage:
        if isinstance(job, PredictJob):
            return cls(broadcast, view=job.view, rows=job.rows.numpy(), logits=job.logits)
        extra = arrays.pack(job.extra) if job.extra else b""
        return cls(broadcast, task=replace(job, extra={}), extra=extra)

    def decode(self) -> Job:
        if self.task is None:
            return PredictJob(self.view, torch.from_numpy(self.rows), self.logits)
        return replace(self.task, extra=arrays.unpack(self.extra)) if self.extra else self.task


def is_long(job: Job) -> bool:
    """Whether a pipe may be too small for it: then both sides must not write at the same time."""
    return isinstance(job, ClientTask) and bool(job.extra)


@dataclass(frozen=True)
class ResultMessage:
    """From a worker: a client's result, predicted classes, or the error that came instead."""

    result: ClientResult | None = None  # without its arrays and predictions
    arrays: Note = b""
    predictions: NDArray[Any] | None = None
    error: tuple[type[FlrError], str] | None = None

    @classmethod
    def encode(cls, found: ClientResult | Tensor, buffer: SharedBuffer) -> ResultMessage:
        if isinstance(found, Tensor):
            return cls(predictions=found.numpy())
        predictions = None if found.predictions is None else found.predictions.numpy()
        bare = replace(found, reply=replace(found.reply, arrays={}), predictions=None)
        return cls(bare, buffer.put(found.reply.arrays), predictions)

    @classmethod
    def failed(cls, error: Exception) -> ResultMessage:
        kind = type(error) if isinstance(error, FlrError) else RunError
        return cls(error=(kind, str(error)))

    def decode(self, buffer: SharedBuffer) -> ClientResult | Tensor:
        """Raises the error that came instead."""
        if self.error is not None:
            kind, text = self.error
            raise kind(text)
        if self.result is None:
            return torch.from_numpy(self.predictions)
        predictions = None if self.predictions is None else torch.from_numpy(self.predictions)
        reply: Reply = replace(self.result.reply, arrays=buffer.get(self.arrays))
        return replace(self.result, reply=reply, predictions=predictions)
