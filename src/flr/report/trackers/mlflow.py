"""MLflow's store of runs: files beside the run, or a server that the user names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from flr.core.registry import register
from flr.report.trackers.common import Bookmark, TrackedRun

# Read by MLflow when it is imported: files in place of a database, and no word to its makers.
_QUIET = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
_LONGEST = 500  # characters of a parameter that every version takes


@register("mlflow", kind="tracker", title="MLflow")
@dataclass(frozen=True)
class MLflow:
    """MLflow's file store in `<run>/mlflow`; `MLFLOW_TRACKING_URI` in the environment moves it."""

    experiment: str = "flr"

    package: ClassVar[str] = "mlflow"

    def session(self, run: TrackedRun) -> MLflowRun:
        return MLflowRun(self.experiment, run)


class MLflowRun:
    """One run of the store, which a resumed run goes on with."""

    def __init__(self, experiment: str, run: TrackedRun) -> None:
        self.experiment, self.run = experiment, run
        self.bookmark = Bookmark(run, "mlflow")
        self._client: Any = None

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """All numbers of a round at once."""
        if not self.bookmark.is_new(round):
            return
        if self._client is None:
            self._open()
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, round) for name, value in values.items()]
        self.bookmark.move(round)
        self._client.log_batch(self.bookmark.id, metrics=metrics)

    def _open(self) -> None:
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient

        own = (self.run.folder / "mlflow").resolve().as_uri()
        self._client = MlflowClient(tracking_uri=os.environ.get("MLFLOW_TRACKING_URI") or own)
        if self.bookmark.id:
            self._client.update_run(self.bookmark.id, status="RUNNING")
            return
        known = self._client.get_experiment_by_name(self.experiment)
        number = known.experiment_id if known else self._client.create_experiment(self.experiment)
        made = self._client.create_run(number, run_name=self.run.folder.resolve().name)
        self.bookmark.id = made.info.run_id
        for name, value in self.run.settings.items():
            self._client.log_param(self.bookmark.id, name, str(value)[:_LONGEST])

    def close(self) -> None:
        """Says that the run has ended."""
        if self._client is not None:
            self._client.set_terminated(self.bookmark.id)
