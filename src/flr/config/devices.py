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


def only_reads() -> bool:
    """Whether a config is read for its results, with nothing that only training needs."""
    return _only_read.get()


def checked(device: str) -> str:
    """A device of this machine, or "auto"; ValueError where it has no such one."""
    return device if device == "auto" else by_name(device, "auto")


def by_name(device: str, *besides: str) -> str:
    """A device of this machine; ValueError, with words that would do besides, where it has not."""
    there = on_this_machine()
    if device not in there and not (only_reads() and _KNOWN.fullmatch(device)):
        listed = ", ".join((*besides, *there))
        raise ValueError(f"is not on this machine. Use one of: {listed}.")
    return device


def resolved(device: str) -> str:
    """What "auto" is on this machine; any other device is itself."""
    if device != "auto":
        return device
    there = on_this_machine()
    return next(name for name in ("cuda", "mps", "cpu") if name in there)


def why_not_bf16(device: str) -> str:
    """Why bfloat16 is not computed on a device of this machine; empty where it is."""
    kind = device.partition(":")[0]
    if kind == "mps":
        return "not on mps, where nobody has tried it"
    if kind == "cuda":
        with torch.cuda.device(device):
            if not torch.cuda.is_bf16_supported(including_emulation=False):
                return f"not on {device}, which is older than bfloat16"
    return ""


def on_this_machine() -> list[str]:
    """By the names that torch has for them."""
    there = ["cpu"]
    if torch.cuda.is_available():
        there += ["cuda", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        there.append("mps")
    return there
