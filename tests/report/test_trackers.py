"""Trackers: by name, lazily, refused in words."""

import sys
import time
from pathlib import Path

import pytest

from flr.core.errors import ConfigError
from flr.report import trackers


def test_tensorboard_writes_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (tracker,) = trackers.make(["tensorboard"], tmp_path)
    tracker.log(1, {"accuracy": 0.5})
    tracker.log(2, {"accuracy": 0.75})
    tracker.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("accuracy")] == [(1, 0.5), (2, 0.75)]


def test_a_resumed_run_takes_the_place_of_rounds_that_were_lost(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for session, rounds in ((1.0, (1, 2, 3)), (2.0, (2, 3, 4))):
        (tracker,) = trackers.make(["tensorboard"], tmp_path)
        for number in rounds:
            tracker.log(number, {"accuracy": session})
        tracker.close()
        time.sleep(1.1)  # event files are named by the second, and read in the order of names
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("accuracy")]
    assert found == [(1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)]


def test_unknown_tracker_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='Did you mean "tensorboard"'):
        trackers.make(["tensorboard", "tensorbord"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install \"flr\[tensorboard\]\""):
        trackers.make(["tensorboard"], tmp_path)


def test_no_tracker_needs_nothing(tmp_path: Path) -> None:
    assert trackers.make([], tmp_path) == []
