"""Where else the numbers of a run can go; `metrics.jsonl` is written in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from flr.core.errors import ConfigError
from flr.core.registry import unknown


class Tracker(Protocol):
    """Takes the numbers of each round as they come, until it is closed."""

    def log(self, round: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in `<run>/tensorboard`, for `tensorboard --logdir`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError(
                'Tracker "tensorboard" needs the package tensorboard, which is not installed. '
                'Run: pip install "flr[tensorboard]", or leave the tracker out.'
            ) from error
        self._open = partial(SummaryWriter, str(folder / "tensorboard"))
        self._writer: Any = None

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """One scalar for each name; what a stopped run wrote of this round and later is void."""
        if self._writer is None:
            self._writer = self._open(purge_step=round)
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def close(self) -> None:
        """Completes the event file."""
        if self._writer is not None:
            self._writer.close()


_KNOWN: dict[str, Callable[[Path], Tracker]] = {"tensorboard": TensorBoard}


def make(names: Iterable[str], folder: Path) -> list[Tracker]:
    """The trackers of a run, by name; refuses an unknown name before any of them opens a file."""
    wanted = list(names)
    for name in wanted:
        if name not in _KNOWN:
            nearest = unknown("tracker", name, _KNOWN)
            raise ConfigError(f"{nearest} Change the name or leave it out.")
    return [_KNOWN[name](folder) for name in wanted]
