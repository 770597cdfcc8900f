"""TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from flr.core.registry import register
from flr.report.trackers.common import TrackedRun


@register("tensorboard", kind="tracker", title="TensorBoard")
@dataclass(frozen=True)
class TensorBoard:
    """Event files in `<run>/tensorboard`, for `tensorboard --logdir`."""

    package: ClassVar[str] = "tensorboard"

    def session(self, run: TrackedRun) -> EventFiles:
        return EventFiles(run.folder / "tensorboard")


class EventFiles:
    """One scalar for each name; what a stopped run wrote of a round and later ones is void."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writer: Any = None

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """Opens the file at the first round, which takes the place of those that were lost."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(self.folder), purge_step=round)
        for name, value in values.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def close(self) -> None:
        """Completes the event file."""
        if self._writer is not None:
            self._writer.close()
