"""`kill -9` of SuperNodes, SuperLink and ServerApp at random moments: resumed, the same bits.

CI tries a few; all: `pytest -m attack --federation-kills 50 -s`, with this file.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tally import Tally
from toys import bits

import flr
from flr.core.errors import DataError
from flr.flower.check_app import run_config
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.flower.settings import read, resolve
from flr.simulation.api import Run
from flr.simulation.folders import locked

SITES, ROUNDS = 2, 3
SAMPLE = 2
VICTIMS = ("SuperNode", "SuperLink", "ServerApp")
STALLS = 6  # runs in a row without a kill and without a round; each one waits twice as long
MOST = 5  # kills of a run: its end has to be seen
QUIET = 20  # times what a round may take: nothing at all is written then
FOREVER = float("inf")

# all replies are needed: a round that a dead node misses stops the run, and nothing is lost
CONFIG: dict[str, Any] = {
    "seed": 3,
    "rounds": ROUNDS,
    "method": "flr",
    "min_replies": SITES,
    "set": "data.train=180; data.test=60",
    "partition.clients": SITES,
    "train.participation": 1.0,
    "train.epochs": 1,
    "flower.wait": 300.0,
}


def busy(out: Path) -> bool:
    """Whether a run is going on in a folder."""
    try:
        with locked(out) if out.exists() else contextlib.nullcontext():
            return False
    except DataError:
        return True


def rounds_of(out: Path) -> int:
    """How many rounds a run has that perhaps has not begun."""
    found = out / "metrics.jsonl"
    return len(found.read_bytes().splitlines()) if found.exists() else 0


def written(folder: Path) -> int:
    """Grows, or changes, with whatever is written there."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            found = path.stat()
            total += found.st_size + found.st_mtime_ns
    return total


class StuckError(Exception):
    """Nothing moves any more, however long one waits."""


class Siege:
    """One federation; its runs are hit until there were enough kills.

    How long it waits depends on what moves, not on a clock: a loaded machine is slow, not wrong.
    """

    def __init__(self, federation: Loopback, app: Path, kills: int) -> None:
        self.federation, self.app, self.left = federation, app, kills
        self.rng = random.Random(22)  # noqa: S311
        self.seconds = 20.0  # of a run: the first one is the measure
        self.timeout = 60.0  # what a node that is alive needs for a round
        self.hits: list[str] = []

    def one_run(self, out: Path) -> str:
        """Starts or resumes a run until it is through; gives what Flower says in the end."""
        stalls = 0
        while stalls < STALLS:
            rounds, started = rounds_of(out), time.monotonic()
            number = self.start(out)
            victim = self.kill_some()
            if victim in ("SuperLink", "ServerApp"):  # nobody is left to finish that run
                self.seconds *= 1.0 if rounds_of(out) > rounds else 1.2  # a later moment next time
                continue
            status = self.wait(number, out)
            if status == "finished:completed":
                self.seconds = self.seconds if victim else time.monotonic() - started
                return status
            if victim or rounds_of(out) > rounds:
                stalls = 0
            else:
                stalls, self.timeout = stalls + 1, 2 * self.timeout
        return f"{status}, {STALLS} times without a round"

    def start(self, out: Path) -> int:
        begun = (out / "config.toml").exists()
        more = {"flower.out": str(out), "flower.resume": begun, "flower.timeout": self.timeout}
        return self.federation.run(self.app, {**CONFIG, **more})

    def wait(self, number: int, out: Path) -> str:
        """The status in the end, or that it is stuck."""
        try:
            status = self.federation.wait(number, FOREVER, self.patience(out))
            look = self.patience(out)
            while busy(out):  # a SuperLink starts what the one before it had not begun
                look()
                time.sleep(0.5)
        except StuckError:
            return f"stuck for {QUIET} times {self.timeout:g} s"
        return status

    def patience(self, out: Path) -> Callable[[], None]:
        """To be called now and then; raises StuckError if nothing at all is written any more."""
        moved, before = time.monotonic(), 0

        def look() -> None:
            nonlocal moved, before
            now = written(self.federation.folder / "logs") + written(out)
            if now != before:
                moved, before = time.monotonic(), now
            if time.monotonic() - moved > QUIET * self.timeout:
                raise StuckError

        return look

    @property
    def more(self) -> bool:
        """Whether this run is to be hit again."""
        return self.left > 0 and len(self.hits) < MOST

    def kill_some(self) -> str:
        """The last one that was hit: a run that lacks a node is doomed, and mostly hit again."""
        victim = self.kill_one() if self.more else ""
        while victim == "SuperNode" and self.more and self.rng.random() < 0.7:
            victim = self.kill_one() or victim
        return victim

    def kill_one(self) -> str:
        """Kills after a while, and starts again what a supervisor would."""
        time.sleep(self.rng.uniform(0, self.seconds))
        victim = self.rng.choice(VICTIMS)
        if victim == "SuperNode":
            assert self.rng.choice(list(self.federation.nodes.values())).restart()
        elif victim == "SuperLink":
            self.federation.kill_superlink()
            self.federation.start()
        elif not (found := self.server_apps()):
            return ""  # it has not begun, or is through
        else:
            os.kill(found[0], signal.SIGKILL)
        self.left -= 1
        self.hits.append(victim)
        return victim

    def server_apps(self) -> list[int]:
        """Those of this federation, not of another one on this machine."""
        home = str(self.federation.folder / "superlink")
        found = []
        for process in psutil.process_iter():
            try:
                named = any("flwr-serverapp" in part for part in process.cmdline())
                if named and process.environ().get("FLWR_HOME", "").startswith(home):
                    found.append(process.pid)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found


def attack(tmp_path: Path, kills: int) -> None:
    tally, app = (
        Tally("kill -9 in a federation, survived by what was hit"),
        write_app(tmp_path / "w"),
    )
    flower, tree, overrides = read({**run_config(app), **CONFIG})
    whole = flr.run(resolve(flower, tree, overrides), out=tmp_path / "whole")
    with Loopback(tmp_path / "federation") as federation:
        for number in range(SITES):
            state = str(tmp_path / f"state-{number}")
            federation.add_node(f"site-{number}", {"partition-id": number, "state-dir": state})
        federation.wait_for_nodes()
        siege, number = Siege(federation, app, kills), 0
        while siege.left:
            siege.hits, out = [], tmp_path / f"{number}"
            status, run = siege.one_run(out), Run(out)
            problem = "" if status == "finished:completed" else status
            if not problem and bits(run) != bits(whole):
                problem = "other bits"
            if not problem and [m["round"] for m in run.metrics] != list(range(1, ROUNDS + 1)):
                problem = "other rounds"
            for hit in siege.hits:
                tally.lose(f"run {number}, {hit}: {problem}") if problem else tally.survived(hit)
            number += 1
    tally.finish()


def test_a_sample_of_kills_loses_nothing(tmp_path):
    attack(tmp_path, SAMPLE)


@pytest.mark.attack
def test_no_kill_loses_anything(tmp_path, request):
    attack(tmp_path, request.config.getoption("--federation-kills"))
