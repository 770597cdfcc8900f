"""What trackers share: what they are told, and how they go on after a stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flr.core.arrays import write_atomically
from flr.core.errors import ConfigError, DataError
from flr.core.registry import is_installed


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of a run before its first number.

    Args:
        folder: The run folder; what a tracker writes on this machine goes below it.
        settings: Every setting by its dotted key.

    Example:
        >>> from pathlib import Path
        >>> from flr.plugin import TrackedRun
        >>> TrackedRun(Path("runs/flr-1"), {"train.lr": 0.1}).settings["train.lr"]
        0.1
    """

    folder: Path
    settings: Mapping[str, Any]


class Session(Protocol):
    """What a tracker makes: it takes the numbers of each round as they come, until it is closed.

    Example:
        >>> class Lines:
        ...     def log(self, round, values):
        ...         print(round, dict(values))
        ...     def close(self):
        ...         print("closed")
        >>> Lines().log(1, {"accuracy": 0.5})
        1 {'accuracy': 0.5}
    """

    def log(self, round: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class Tracker(Protocol):
    """An entry of kind "tracker": its fields are its options.

    `package` is what has to be installed for it; the extra of flr has the tracker's name.
    """

    package: str

    def session(self, run: TrackedRun) -> Session:
        """Begins, or goes on where a stopped run was; opens nothing before the first number."""


def start(trackers: Mapping[str, Tracker], run: TrackedRun) -> list[Session]:
    """The sessions of a run by the trackers' names; refuses one whose package is not here."""
    for name, tracker in trackers.items():
        if not is_installed(tracker.package):
            raise ConfigError(
                f'Tracker "{name}" needs the package {tracker.package}, which is not installed. '
                f'Run: pip install "flr[{name}]", or leave the tracker out.'
            )
    return [tracker.session(run) for tracker in trackers.values()]


class Bookmark:
    """Which run of a tracker is this one, and its last round there: `<run>/<tracker>/flr.json`.

    A resumed run repeats rounds, with the same numbers: what was logged is not logged again. It is
    written before a round is logged, so that a kill between the two loses one and doubles none.

    Args:
        run: What the tracker was told.
        tracker: Its name.

    Example:
        >>> from pathlib import Path
        >>> from flr.plugin import Bookmark, TrackedRun
        >>> mark = Bookmark(TrackedRun(Path("runs/flr-1"), {}), "lines")
        >>> mark.move(1)
        >>> mark.is_new(1), mark.is_new(2)
        (False, True)
    """

    def __init__(self, run: TrackedRun, tracker: str) -> None:
        self.path = run.folder / tracker / "flr.json"
        self.id, self.round = self._read()

    def _read(self) -> tuple[str, int]:
        try:
            found = json.loads(self.path.read_text())
            return str(found["id"]), int(found["round"])
        except FileNotFoundError:
            return "", 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"Expected {self.path} as flr writes it; it is damaged ({error}). Take another "
                "copy of it, or delete it to begin a new run of the tracker."
            ) from error

    def is_new(self, round: int) -> bool:
        """Whether a round is still to be logged."""
        return round > self.round

    def move(self, round: int) -> None:
        """Says that this round is logged now."""
        self.round = round
        write_atomically(self.path, json.dumps({"id": self.id, "round": round}))
