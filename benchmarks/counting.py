"""A network that writes down what it is used for; works in any number of processes.

One byte in a file for each event, appended in one system call, so that processes cannot mix up.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from flr.core import registry

BUILT, FORWARD, NO_GRAD, BACKWARD = b"m", b"g", b"n", b"b"
_NAMES = {b"m": "built", b"g": "forward", b"n": "no_grad", b"b": "backward"}


def network(
    input_shape: Sequence[int], classes: int, /, inner: str, counts: str, **options: Any
) -> nn.Module:
    """The registered model `inner`; its forward and backward passes go to the file `counts`."""
    made: nn.Module = registry.get("model", inner).factory(input_shape, classes, **options)
    write(counts, BUILT)
    made.register_forward_hook(partial(_passed, counts))
    return made


def as_counted(model: dict[str, Any], counts: Path) -> dict[str, Any]:
    """The config of a model with counting around it."""
    options = {key: value for key, value in model.items() if key != "name"}
    inner = {"inner": model["name"], "counts": str(counts)}
    return {"name": f"{__name__}:network", **inner, **options}


def counted(counts: Path) -> dict[str, int]:
    """How often a network was built, run forward with and without gradients, and backward."""
    seen = Counter(counts.read_bytes()) if counts.exists() else Counter[int]()
    return {name: seen[ord(event)] for event, name in _NAMES.items()}


def write(counts: str, event: bytes) -> None:
    """Adds one event."""
    os.write(_opened(counts), event)


@cache
def _opened(counts: str) -> int:
    return os.open(counts, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _passed(counts: str, _: nn.Module, __: Any, logits: Tensor) -> None:
    if not logits.requires_grad:
        write(counts, NO_GRAD)
        return
    write(counts, FORWARD)
    logits.register_hook(lambda _: write(counts, BACKWARD))
