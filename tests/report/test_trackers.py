"""Trackers: by name, lazily, refused in words; what every one keeps to."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from flr.config import parse
from flr.core import registry
from flr.core.errors import ConfigError, DataError
from flr.report.trackers.common import Bookmark, Session, TrackedRun, start
from flr.report.trackers.tensorboard import TensorBoard


def session(folder: Path) -> Session:
    (found,) = start({"tensorboard": TensorBoard()}, TrackedRun(folder, {}))
    return found


def scalars(folder: Path) -> list[tuple[int, float]]:
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars("accuracy")]


def test_tensorboard_writes_events(tmp_path):
    tracker = session(tmp_path)
    tracker.log(1, {"accuracy": 0.5})
    tracker.log(2, {"accuracy": 0.75})
    tracker.close()
    assert scalars(tmp_path) == [(1, 0.5), (2, 0.75)]


def test_a_resumed_run_takes_the_place_of_rounds_that_were_lost(tmp_path):
    for part, rounds in ((1.0, (1, 2, 3)), (2.0, (2, 3, 4))):
        tracker = session(tmp_path)
        for number in rounds:
            tracker.log(number, {"accuracy": part})
        tracker.close()
        time.sleep(1.1)  # event files are named by the second, and read in the order of names
    assert scalars(tmp_path) == [(1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)]


def test_an_unknown_tracker_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match='Did you mean "tensorboard"'):
        parse({"rounds": 1, "trackers": ["tensorbord"]})


def test_a_tracker_named_twice_is_refused():
    with pytest.raises(ConfigError, match="more than once"):
        parse({"rounds": 1, "trackers": ["tensorboard", {"name": "tensorboard"}]})


@pytest.mark.parametrize("name", registry.entries("tracker"))
def test_without_its_package_it_says_what_to_install(name, tmp_path, monkeypatch):
    """Before any of them has opened a file."""
    monkeypatch.setattr(registry, "is_installed", lambda _: False)
    monkeypatch.setattr("flr.report.trackers.common.is_installed", lambda _: False)
    advice = rf'pip install "flr\[{name}\]"'
    with pytest.raises(ConfigError, match=advice):
        parse({"rounds": 1, "trackers": [name]})
    with pytest.raises(ConfigError, match=advice):
        start({name: registry.get("tracker", name).factory()}, TrackedRun(tmp_path, {}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", registry.entries("tracker"))
def test_a_run_without_a_round_leaves_nothing(name, tmp_path):
    registry.get("tracker", name).factory().session(TrackedRun(tmp_path, {})).close()
    assert list(tmp_path.iterdir()) == []


def test_a_bookmark_is_found_again_and_says_what_is_new(tmp_path):
    run = TrackedRun(tmp_path, {})
    first = Bookmark(run, "mine")
    assert first.is_new(1)
    first.id = "abc"
    first.move(3)
    again = Bookmark(run, "mine")
    assert (again.id, again.is_new(3), again.is_new(4)) == ("abc", False, True)


@pytest.mark.parametrize("text", ["", "[]", '{"id": "abc"}', json.dumps({"id": 1, "round": "x"})])
def test_a_damaged_bookmark_is_named(text, tmp_path):
    path = tmp_path / "mine" / "flr.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(DataError, match=r"flr\.json as flr writes it; it is damaged"):
        Bookmark(TrackedRun(tmp_path, {}), "mine")


def test_no_tracker_needs_nothing(tmp_path):
    assert start({}, TrackedRun(tmp_path, {})) == []
