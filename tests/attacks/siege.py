"""A real federation under attack: whose processes are killed when, and what is started again."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from flr.core.errors import DataError
from flr.flower import ledger
from flr.flower.agent.status import Status
from flr.flower.local.agents import Agents
from flr.flower.local.loopback import Loopback
from flr.simulation.api import Run
from flr.simulation.folders import locked

SITES, ROUNDS = 2, 3
VICTIMS = ("SuperNode", "agent", "SuperLink", "ServerApp")
STALLS = 6  # runs in a row without a kill and without a round; each one waits twice as long
MOST = 8  # kills of a run: its end has to be seen
AGAIN = 0.7  # how often the next kill comes before anybody has looked at the last one's outcome,
AGAIN_AFTER = 0.4  # and where the server is gone, so that no task is on its way
START = 3  # times what a round takes: imports, roll call and the first round
AT_WORK = 0.5  # how often an agent is killed while it works
TASK = 0.5  # seconds that it works at most, when nobody else wants the machine
QUIET = 20  # times what a round may take: nothing at all is written then
CALM = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5"}  # ten questions a second cost more than tasks
LEAST = 15.0  # seconds that a message gets on any machine: Flower looks for one every three

# all replies are needed: a round that a dead node misses stops the run, and nothing is lost.
# So many epochs that an agent is at work for a part of each round
CONFIG: dict[str, Any] = {
    "seed": 3,
    "rounds": ROUNDS,
    "method": "flr",
    "min_replies": SITES,
    "set": "data.train=120; data.test=60",
    "partition.clients": SITES,
    "train.participation": 1.0,
    "train.epochs": 50,
    "flower.wait": 300.0,
}

# what `write_atomically` leaves when it is killed: a hidden name with eight letters behind
_HALF_WRITTEN = re.compile(r"\..+\.[a-z0-9_]{8}")


class StuckError(Exception):
    """Nothing moves any more, however long one waits."""


class Siege:
    """One federation; its runs are hit until there were enough kills.

    How long it waits depends on what moves, not on a clock: a loaded machine is slow, not wrong.

    Args:
        federation: Has no nodes yet.
        agents: Has none yet.
        app: Of Flower.
        kills: How many there will be.
        guarded: Sites with an agent. At the others the SuperNode's app reads data and trains.
    """

    def __init__(
        self, federation: Loopback, agents: Agents, app: Path, kills: int, guarded: tuple[int, ...]
    ) -> None:
        self.federation, self.agents, self.app, self.left = federation, agents, app, kills
        self.guarded = guarded
        self.rng = random.Random(22)  # noqa: S311
        self.round = 20.0  # seconds of one; this and the next as the run before took them
        self.timeout = 300.0  # what a node that is alive needs for a round
        self.deck: list[str] = []  # of victims: all are hit equally often
        self.hits: list[str] = []
        self.when: list[str] = []
        for number in range(SITES):
            own: dict[str, Any] = {"state-dir": str(self.state_dir(number))}
            if number in guarded:
                agent = agents.add(f"{number}", {"partition-id": str(number)})
                agent.start()
                own = {"agent": str(agent.socket)}
            federation.add_node(f"site-{number}", {"partition-id": number, **own})
        federation.wait_for_nodes()

    def state_dir(self, number: int) -> Path:
        if number in self.guarded:
            return self.agents.folder / f"{number}" / "state"
        return self.federation.folder / f"state-{number}"

    def undisturbed(self, out: Path) -> Run:
        """A run that nobody is hit in: how long one takes, and which files it has."""
        status = self.wait(self.start(out), out)
        if status != "finished:completed":
            raise StuckError(f"without a kill: {status}")
        self.measure(out)
        return Run(out)

    def measure(self, out: Path) -> None:
        """How slow the machine is now."""
        self.round = max(metrics["seconds"] for metrics in Run(out).metrics)
        self.timeout = max(LEAST, 4 * self.round)

    def one_run(self, out: Path) -> str:
        """Starts or resumes a run until it is through; gives what Flower says in the end."""
        stalls, self.hits, self.when = 0, [], []
        status = ""
        while stalls < STALLS:
            rounds = rounds_of(out)
            number = self.start(out)
            victims = self.kill_some(out)
            if victims & {"SuperLink", "ServerApp"}:  # nobody is left to finish that run
                continue
            status = self.wait(number, out)
            if status == "finished:completed":
                self.measure(out)
                return status
            if rounds_of(out) == rounds:  # for lack of a node, or of time
                self.timeout *= 1.25 if victims else 2
            stalls = 0 if victims or rounds_of(out) > rounds else stalls + 1
        return f"{status}, {STALLS} times without a round"

    def start(self, out: Path) -> int:
        begun = (out / "config.toml").exists()
        more = {"flower.out": str(out), "flower.resume": begun, "flower.timeout": self.timeout}
        return self.federation.run(self.app, {**CONFIG, **more})

    def wait(self, number: int, out: Path) -> str:
        """The status in the end, or that it is stuck.

        Each word of `flwr` takes as much of a processor as a round: asked when a ServerApp ends.
        """
        look = self.patience(out)
        try:
            while True:
                while self.server_apps():
                    look()
                    time.sleep(2)
                status = self.federation.status(number)
                # a SuperLink starts what the one before it had not begun
                if status.startswith("finished") and not busy(out):
                    return status
                look()
                time.sleep(3)
        except StuckError:
            return f"stuck for {QUIET} times {self.timeout:g} s"

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

    def kill_some(self, out: Path) -> set[str]:
        """Who was hit, until somebody looks at what came of it."""
        victims: set[str] = set()
        if self.more:
            self.wait_for_a_round(out)
        while self.more:
            victim = self.kill_one(out)
            victims |= {victim} - {""}
            server = victims & {"SuperLink", "ServerApp"}
            if self.rng.random() > (AGAIN_AFTER if server else AGAIN):
                break
            time.sleep(self.rng.uniform(0, self.round))
        return victims

    def wait_for_a_round(self, out: Path) -> None:
        """Until a moment in one of the rounds to come, or in the start of the next one."""
        begun = time.monotonic()
        coming = range(rounds_of(out), ROUNDS)
        chosen = self.rng.choice(coming) if coming else 0
        if chosen == coming.start:
            time.sleep(self.rng.uniform(0, START * self.round))
            return
        while rounds_of(out) < chosen and time.monotonic() < begun + (ROUNDS + START) * self.round:
            time.sleep(0.5)
        time.sleep(self.rng.uniform(0, self.round))

    def kill_one(self, out: Path) -> str:
        """Kills, and starts again what a supervisor would."""
        if not self.deck:
            self.deck = self.rng.sample(VICTIMS, len(VICTIMS))
        victim, place, more = self.deck.pop(), place_of(out), ""
        if victim == "SuperNode":
            node = self.rng.choice(list(self.federation.nodes.values()))
            more = f" of {node.name}"
            assert node.restart()
        elif victim == "agent":
            more = self.kill_agent()
        elif victim == "SuperLink":
            self.federation.kill_superlink()
            self.federation.start()
        elif found := self.server_apps():
            os.kill(found[0], signal.SIGKILL)
        else:
            self.deck.insert(0, victim)  # it has not begun, or is through
            return ""
        self.left -= 1
        self.hits.append(f"{victim}{' at work' if 'at work' in more else ''}")
        self.when.append(f"{victim}{more} in {place}")
        return victim

    def kill_agent(self) -> str:
        """One of them; gives which, and what it was doing."""
        agent, until = self.rng.choice(list(self.agents.all.values())), 0.0
        if self.rng.random() < AT_WORK and self.server_apps():  # it rarely is, at a random moment
            until = time.monotonic() + self.timeout
        while not Status.load(agent.state_dir).now and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(self.rng.uniform(0, TASK) if until else 0.0)
        working = Status.load(agent.state_dir).now
        agent.kill()
        agent.start()
        return f" of site-{agent.socket.parent.name}{' at work' if working else ''}"

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

    def wrong_at_sites(self) -> list[str]:
        """Ledgers that were damaged, and files that a kill has left half-written."""
        found = []
        for number in range(SITES):
            folder = self.state_dir(number)
            found += [f"site-{number}: {problem}" for problem in ledger.read(folder).problems]
            found += [f"site-{number} has {path.name}" for path in half_written(folder)]
        return found


def half_written(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if _HALF_WRITTEN.fullmatch(path.name)]


def busy(out: Path) -> bool:
    """Whether a run is going on in a folder."""
    try:
        with locked(out) if out.exists() else contextlib.nullcontext():
            return False
    except DataError:
        return True


def place_of(out: Path) -> str:
    """Where a run is, in words."""
    if not (out / "config.toml").exists():
        return "the roll call"
    return f"round {rounds_of(out) + 1}" if rounds_of(out) < ROUNDS else "the report"


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
