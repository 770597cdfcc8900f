"""Which device computes: one of this machine, unless somebody else's results are only read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

_KNOWN = re.compile(r"cpu|mps|cuda(:[0-9]+)?")
_only_read: ContextVar[bool] = ContextVar("only_read", default=False)


@contextmanager
def devices_of_others() -> Iterator[None]:
    """Configs that are read meanwhile may name a device that another machine has."""
    before = _only_read.set(True)
    try:
        yield
    finally:
        _only_read.reset(before)


def resolved(device: str) -> str:
    """A device of this machine; ValueError where it has no such one."""
    if _only_read.get() and _KNOWN.fullmatch(device):
        return device
    there = on_this_machine()
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if name in there)
    if device not in there:
        raise ValueError(f"is not on this machine. Use one of: auto, {', '.join(there)}.")
    return device


def on_this_machine() -> list[str]:
    """By the names that torch has for them."""
    there = ["cpu"]
    if torch.cuda.is_available():
        there += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there.append("mps")
    return there
