"""The process that workers are forked from: killed, in a long TMPDIR, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import psutil
import pytest
from toys import bits, settings, train

import flr
from flr.core.errors import ConfigError, RunError
from flr.engine import fork_server, pool

SCRIPT = """
import os, signal, flr, toys
def end(metrics):
    if {kill}:
        os.kill(os.getpid(), signal.SIGKILL)
flr.run(toys.settings('flr', workers=2), out={out!r}, on_round=end)
"""


def run_in(temporary: Path, out: Path, kill: bool) -> int:
    """A run with two workers in a process of its own, which may kill itself after a round."""
    path = os.pathsep.join([str(Path(__file__).parents[1] / "contract"), *sys.path])
    command = [sys.executable, "-c", SCRIPT.format(kill=kill, out=str(out))]
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary)}
    return subprocess.run(command, env=environment, check=False, capture_output=True).returncode


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short path, as sockets need: pytest's own folders are often longer."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_what_a_kill_leaves_is_gone_after_the_next_run(tmp_path, temporary):
    assert run_in(temporary, tmp_path / "a", kill=True) == -signal.SIGKILL
    (left,) = temporary.iterdir()
    (temporary / "flr-workers-link").symlink_to(left)
    assert run_in(temporary, tmp_path / "b", kill=False) == 0
    assert [path.name for path in temporary.iterdir()] == ["flr-workers-link"]


def test_a_long_folder_for_temporary_files_is_no_hindrance(tmp_path):
    temporary = tmp_path / ("x" * 120)
    temporary.mkdir()
    assert run_in(temporary, tmp_path / "run", kill=False) == 0


def test_where_every_folder_is_too_long_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(fork_server, "_LONGEST", 2)
    with pytest.raises(ConfigError, match=r"at most 2 bytes; .* Set TMPDIR to a shorter one"):
        fork_server._base()


def test_one_that_is_killed_at_the_start_is_replaced(tmp_path, monkeypatch):
    real, killed = forkserver.ensure_running, []

    def kill_first() -> None:
        real()
        if not killed:
            killed.append(forkserver._forkserver._forkserver_pid)
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(fork_server.forkserver, "ensure_running", kill_first)
    run = flr.run(settings("flr", workers=2), out=tmp_path / "run")
    assert killed
    assert bits(run) == bits(train("flr", tmp_path / "whole"))


def test_one_that_is_killed_at_every_start_ends_the_run_with_advice(tmp_path, monkeypatch):
    def kill(*_: object) -> None:
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        os.waitpid(forkserver._forkserver._forkserver_pid, 0)

    real = fork_server.prepare
    monkeypatch.setattr(pool, "prepare", lambda: (real(), kill()))
    monkeypatch.setattr(forkserver._forkserver, "ensure_running", lambda: None)
    real_running = forkserver.ForkServer.ensure_running
    monkeypatch.setattr(
        fork_server.forkserver, "ensure_running", lambda: real_running(forkserver._forkserver)
    )
    with pytest.raises(RunError, match=r"it has ended 3 times .* set workers = 1"):
        flr.run(settings("flr", workers=2), out=tmp_path / "run")
    forkserver._forkserver._forkserver_pid = None


def test_a_worker_that_is_stopped_for_good_is_replaced(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(pool, "PATIENCE", 0.2)
    stopped: list[int] = []

    def stop(metrics: dict[str, object]) -> None:
        if metrics["round"] == 2:
            workers = psutil.Process(forkserver._forkserver._forkserver_pid).children()
            stopped.append(workers[0].pid)
            os.kill(workers[0].pid, signal.SIGSTOP)
            while workers[0].status() != psutil.STATUS_STOPPED:
                time.sleep(0.01)

    run = flr.run(settings("flr", workers=2), out=tmp_path / "run", on_round=stop)
    assert f"Worker process {stopped[0]} is stopped" in caplog.text
    assert bits(run) == bits(train("flr", tmp_path / "whole"))
