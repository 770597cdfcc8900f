"""Offline runs are read back by the library's own command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flr


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stopped_and_resumed):
    folder = tmp_path_factory.mktemp("wandb") / "run"
    assert stopped_and_resumed({"name": "wandb", "project": "mine"}, folder) == []
    return folder


def records(path: Path) -> list[dict[str, Any]]:
    """As `wandb leet inspect` prints them."""
    command = [str(Path(sys.executable).with_name("wandb")), "leet", "inspect", "--json", str(path)]
    quiet = {**os.environ, "WANDB_ERROR_REPORTING": "false"}
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_resumed_run_has_one_id_and_each_round_once(folder):
    files = sorted((folder / "wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    assert len({file.name for file in files}) == 1  # named by the id
    found = [record for file in files for record in records(file)]
    steps = [record["history"]["item"] for record in found if record["type"] == "history"]
    assert {s["_step"]: s["accuracy"] for s in steps} == {
        line["round"]: line["accuracy"] for line in flr.Run(folder).metrics
    }
    assert [step["_step"] for step in steps] == [1, 2, 3, 4, 5]
    assert "mine" in json.dumps([record for record in found if record["type"] == "run"])
