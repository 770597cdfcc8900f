"""What FLR adds to FedAvg, in forward passes without gradients.

A difference of two long times is lost in a machine's moods unless both are taken together. So all
processes live at the same time and take turns, round by round: one computes, the others wait.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from tempfile import TemporaryFile
from typing import IO, Any

from flr.bench import processes
from flr.bench.engines import Engine, own, plain
from flr.bench.measure import QUIET, Watch, end
from flr.bench.prepare import Prepared
from flr.bench.runner import Say
from flr.errors import RunError

FEDAVG = "fedavg"
FORWARDS = {"batch": "steps", "round": "samples"}  # by server_predictions: what the unit looks at


@dataclass(frozen=True)
class Turns:
    """The seconds of every round but the first, by who took them."""

    repeat: int
    seconds: Mapping[str, tuple[float, ...]]
    others: float | None  # share of the machine's cores that other processes used meanwhile

    def cost(self, predictions: str) -> float:
        """FLR minus FedAvg, in units of the forward passes that it cannot do without."""
        flr, fedavg = self.seconds[f"flr, {predictions}"], self.seconds[FEDAVG]
        more = median(ours - theirs for ours, theirs in zip(flr, fedavg, strict=True))
        return more / median(self.seconds[f"forwards, {FORWARDS[predictions]}"])


def players() -> list[Engine]:
    """FedAvg, FLR in both forms, and the units of both."""
    found = [own(1, "--turns", name=FEDAVG)]
    for predictions, each in FORWARDS.items():
        method = json.dumps({"name": "flr", "server_predictions": predictions})
        found.append(own(1, "--turns", "--method", method, name=f"flr, {predictions}"))
        found.append(plain(f"forwards, {each}", "--threads", "1", "--forwards", each))
    return found


def take_turns(prepared: Prepared, repeats: int, say: Say) -> list[Turns]:
    """All repeats, each with fresh processes."""
    found = []
    for repeat in range(1, repeats + 1):
        say(f"repeat {repeat} of {repeats}: FedAvg, FLR and forward passes take turns")
        found.append(one_repeat(prepared, repeat))
    return found


def one_repeat(prepared: Prepared, repeat: int) -> Turns:
    """Every process plays all rounds; who begins changes from round to round."""
    engines = players()
    seconds: dict[str, list[float]] = {engine.name: [] for engine in engines}
    with started(engines, prepared) as playing:
        watches = [Watch(player.process.pid, memory=False) for player in playing]
        before, began = _usage(watches), time.monotonic()
        for turn in range(1, prepared.rounds):
            place = turn % len(playing)
            for player in (*playing[place:], *playing[:place]):
                seconds[player.name].append(player.play())
        used, elapsed = _usage(watches), time.monotonic() - began
    others = None
    if processes.can_measure():
        spent = used.machine - before.machine - (used.own - before.own)
        others = max(spent, 0.0) / (elapsed * (os.cpu_count() or 1))
    return Turns(repeat, {name: tuple(taken) for name, taken in seconds.items()}, others)


@dataclass(frozen=True)
class Player:
    """A process that computes one round when it is told to."""

    name: str
    process: subprocess.Popen[str]
    errors: IO[str]

    def play(self) -> float:
        """The seconds of one round."""
        began = time.monotonic()
        _there(self.process.stdin).write("\n")
        _there(self.process.stdin).flush()
        self.await_turn()
        return time.monotonic() - began

    def await_turn(self) -> None:
        """Until a round is over."""
        for line in _there(self.process.stdout):
            if line == "turn\n":
                return
        self.errors.seek(0)
        last = "\n".join(self.errors.read().strip().splitlines()[-12:])
        raise RunError(
            f"Expected {self.name} to train another round; it ended with code "
            f"{self.process.wait()}. Mend it and run again. Its last lines:\n{last}"
        )


@contextmanager
def started(engines: Sequence[Engine], prepared: Prepared) -> Iterator[list[Player]]:
    """Processes that have a first round behind them; all are ended afterwards."""
    playing: list[Player] = []
    try:
        for engine in engines:
            errors = TemporaryFile("w+")  # noqa: SIM115 - closed below, with its process
            process = subprocess.Popen(  # noqa: S603 - our own engines
                engine.call(prepared.folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **QUIET},
                start_new_session=True,
            )
            playing.append(Player(engine.name, process, errors))
            playing[-1].await_turn()
        yield playing
    finally:
        for player in playing:
            end(player.process)
            player.process.communicate()
            player.errors.close()


@dataclass(frozen=True)
class Usage:
    """Processor seconds until now."""

    machine: float
    own: float


def _usage(watches: Sequence[Watch]) -> Usage:
    if not processes.can_measure():
        return Usage(0.0, 0.0)
    for watch in watches:
        watch.look()
    return Usage(processes.busy_seconds(), sum(sum(w.seconds.values()) for w in watches))


def _there(pipe: Any) -> IO[str]:
    """An end of a pipe, which is there because it was asked for."""
    found: IO[str] = pipe
    return found
