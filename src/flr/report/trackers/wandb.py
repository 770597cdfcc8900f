"""Weights & Biases: files that `wandb sync` sends if the user wishes, or online if he says so."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from flr.core.registry import register
from flr.report.trackers.common import Bookmark, TrackedRun


@register("wandb", kind="tracker", title="Weights & Biases")
@dataclass(frozen=True)
class WandB:
    """Offline runs in `<run>/wandb`, for `wandb sync`; `WANDB_MODE=online` sends them at once.

    A run that was stopped and resumed has a folder for each part, all with one run id, which
    `wandb sync` joins.
    """

    project: str = "flr"

    package: ClassVar[str] = "wandb"

    def session(self, run: TrackedRun) -> WandBRun:
        return WandBRun(self.project, run)


class WandBRun:
    """One run of the library, under an id that a resumed run has too."""

    def __init__(self, project: str, run: TrackedRun) -> None:
        self.project, self.run = project, run
        self.bookmark = Bookmark(run, "wandb")
        self._open_run: Any = None

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """All numbers of a round as one step."""
        if not self.bookmark.is_new(round):
            return
        if self._open_run is None:
            self._open_run = self._open()
        self.bookmark.move(round)
        self._open_run.log(dict(values), step=round, commit=True)

    def _open(self) -> Any:
        # read when it is imported: otherwise it looks up the host that takes its crash reports
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        self.bookmark.id = self.bookmark.id or secrets.token_hex(4)
        return wandb.init(
            project=self.project,
            id=self.bookmark.id,
            name=self.run.folder.resolve().name,
            dir=str(self.run.folder),
            config=dict(self.run.settings),
            mode=os.environ.get("WANDB_MODE") or "offline",
            resume="allow",
            reinit="create_new",  # a run of the user's own stays open
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                save_code=False,
                x_disable_stats=True,  # of the machine
                x_transaction_log_flush_interval=1.0,  # a kill loses no more seconds than that
            ),
        )

    def close(self) -> None:
        """Completes the file."""
        if self._open_run is not None:
            self._open_run.finish()
