"""What is deleted: only files that flr has made, and never behind a link."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from toys import bits, train, train_until

import flr
from flr.client.state import StateFiles
from flr.core.errors import DataError
from flr.engine import checkpoint


def test_a_users_own_notes_in_the_checkpoint_folder_stay(tmp_path):
    train_until("flr", tmp_path / "run", 3)
    folder = tmp_path / "run" / "checkpoint"
    site = next((folder / "state").iterdir())
    own = [folder / "notes.txt", folder / "2.txt", folder / ".hidden", site / "why.md"]
    own += [folder / "old.json", site / "old.safetensors", folder / "state" / "a" / "1.safetensors"]
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    assert bits(flr.resume(tmp_path / "run")) == bits(train("flr", tmp_path / "whole"))
    assert [path.read_text() for path in own] == ["mine"] * len(own)


@pytest.mark.parametrize("name", ["checkpoint", "checkpoint/state", "checkpoint/state/1"])
def test_a_link_in_place_of_a_folder_is_refused_and_not_followed(name, tmp_path):
    train_until("flr", tmp_path / "run", 3)
    elsewhere = tmp_path / "home"
    shutil.move(tmp_path / "run" / name, elsewhere)
    (elsewhere / "9.json").write_text("mine")
    (tmp_path / "run" / name).symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    with pytest.raises(DataError, match="it is a link to"):
        flr.resume(tmp_path / "run")
    assert sorted(elsewhere.rglob("*")) == before


def test_nothing_is_deleted_through_links(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "1.safetensors").write_text("mine")
    states, points = tmp_path / "state", tmp_path / "checkpoint"
    for folder in (states / "0", points):
        folder.mkdir(parents=True)
    (states / "1").symlink_to(home)
    (states / "0" / "1.safetensors").symlink_to(home / "1.safetensors")
    (points / "1.safetensors").symlink_to(home / "1.safetensors")
    (tmp_path / "link").symlink_to(home)
    for folder in (states, tmp_path / "link"):
        StateFiles(folder).keep_only({})
        StateFiles(folder).drop(1, 1)
    StateFiles(states).drop(0, 1)
    checkpoint.keep_only(points, set())
    checkpoint.keep_only(tmp_path / "link", set())
    assert (home / "1.safetensors").read_text() == "mine"
    assert Path(points / "1.safetensors").is_symlink()
    assert (states / "0" / "1.safetensors").is_symlink()
