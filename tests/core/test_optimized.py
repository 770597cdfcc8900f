"""PYTHONOPTIMIZE=2 drops docstrings, which the registry shows: they are read from the source."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

OPTIONS = ["rounds=1", "workers=2", "data.train=200", "data.test=50", "partition.clients=4"]


def flr_command(level: int, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "flr.cli.main", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONOPTIMIZE": str(level), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [("list", "methods", "--json"), ("describe", "flr")])
def test_without_docstrings_the_same_is_shown(words):
    assert flr_command(2, *words) == flr_command(0, *words)


def test_without_docstrings_a_run_is_trained(tmp_path):
    (tmp_path / "x.toml").write_text('method = "flr"\n')
    changes = [word for option in OPTIONS for word in ("--set", option)]
    flr_command(2, "run", str(tmp_path / "x.toml"), "--out", str(tmp_path / "r"), *changes)
    assert (tmp_path / "r" / "report.html").is_file()
