"""`kill -9` at random moments, again and again until a run is through: the same bits, nothing left.

A run with two workers is hit in any of its processes. CI tries a few; all of them:
`pytest -m attack --kills 200 tests/attacks -s`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from faults import go_on, start, what_is_wrong
from tally import Tally
from toys import train

METHODS = ["flr", "fedcorr", "feddyn", "coteaching"]
SAMPLE = 3
A_SLOW_IMPORT = 120.0  # seconds
IN_TURN = (1, 2)  # workers: a start of two takes longer


def in_a_session(out: Path, method: str, begun: Path, workers: int, temporary: Path) -> None:
    """In a child: a run whose processes, and what they leave behind, can be told from others."""
    os.setsid()
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    multiprocessing.current_process()._config.pop("tempdir", None)  # that of whoever forked us
    go_on(out, method, begun, workers)


def processes_of(session: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


class Attacker:
    """Kills until it has killed often enough."""

    def __init__(self, tmp_path: Path, kills: int) -> None:
        self.folder, self.left = tmp_path, kills
        self.hits: list[str] = []  # of the run that is going on
        self.rng = random.Random(22)  # noqa: S311
        self.whole = {method: train(method, tmp_path / f"whole-{method}") for method in METHODS}
        self.seconds = {workers: self.measure(workers) for workers in IN_TURN}

    def measure(self, workers: int) -> float:
        """What an undisturbed run takes."""
        out, begun = self.folder / f"timed-{workers}", self.folder / f"timed-{workers}.rounds"
        started = time.time()
        child = start(in_a_session, out, METHODS[0], begun, workers, self.folder)
        child.join()
        return time.time() - started

    def one_run(self, number: int) -> str:
        """What is wrong with a run in the end."""
        method, workers = METHODS[number % len(METHODS)], IN_TURN[number // 4 % len(IN_TURN)]
        out, begun = self.folder / f"{number}", self.folder / f"{number}.rounds"
        temporary = self.folder / f"{number}.tmp"
        temporary.mkdir()
        begun.touch()
        while True:
            started, new = time.monotonic(), not out.exists()
            child = start(in_a_session, out, method, begun, workers, temporary)
            self.kill_one(child, self.rng.uniform(0, self.seconds[workers]))
            child.join()
            if child.exitcode == 0 and new:  # a machine is busy now and then
                self.seconds[workers] = time.monotonic() - started
            remains = self.wait_for_the_end(child.pid)
            if child.exitcode == 0:
                break
            if remains or child.exitcode != -signal.SIGKILL:
                return f"exit {child.exitcode}, processes left {remains}"
        left = sorted(path.name for path in temporary.iterdir())
        whole = self.whole[method]
        problem = what_is_wrong(go_on(out, method, begun), whole, begun)
        return f"{problem} {left or ''}".strip()

    def kill_one(self, child: Any, delay: float) -> None:
        """The run's main process, or one that it has started."""
        child.join(delay)
        if child.exitcode is not None or not self.left:
            return
        found = [p for p in processes_of(child.pid) if p.pid != child.pid]
        victim = self.rng.choice([child.pid, *(p.pid for p in found)])
        try:
            os.kill(victim, signal.SIGKILL)
            self.left -= 1
            self.hits.append("main process" if victim == child.pid else "process beside it")
        except ProcessLookupError:
            return

    def wait_for_the_end(self, session: int) -> list[str]:
        """Workers end when they see that their parent has; none may stay.

        A fork server looks for its parent when it has imported torch, which takes its time.
        """
        until = time.monotonic() + A_SLOW_IMPORT
        while found := processes_of(session):
            if time.monotonic() > until:
                break
            time.sleep(0.1)
        return [" ".join(process.cmdline())[:80] for process in found]


def attack(tmp_path: Path, kills: int) -> None:
    tally, attacker, number = (
        Tally("kill -9, survived by what was hit"),
        Attacker(tmp_path, kills),
        0,
    )
    while attacker.left:
        problem = attacker.one_run(number)
        for hit in attacker.hits:
            tally.survived(hit) if not problem else tally.lose(f"run {number}: {problem}")
        number, attacker.hits = number + 1, []
    tally.finish()


def test_a_sample_of_kills_changes_nothing(tmp_path):
    attack(tmp_path, SAMPLE)


@pytest.mark.attack
def test_no_kill_changes_anything(tmp_path, request):
    attack(tmp_path, request.config.getoption("--kills"))
