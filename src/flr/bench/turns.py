"""Engines that take turns, round by round: one computes, the others wait.

A machine has moods that last longer than a round, and a process may be lucky or unlucky with its
memory. So ratios are of rounds that were computed one right after the other, and every repeat has
fresh processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Any

from flr.bench import processes
from flr.bench.engines import Engine
from flr.bench.measure import LINES, QUIET, Measured, Watch, end
from flr.errors import RunError

LIMIT = 300.0  # seconds for one round; an engine that takes longer hangs


@dataclass
class Player:
    """A process that computes one round when it is told to."""

    name: str
    process: subprocess.Popen[str]
    errors: IO[str]
    first_round: float = 0.0
    rounds: list[float] = field(default_factory=list)

    def play(self) -> None:
        """One more round."""
        began = time.monotonic()
        self.go_on()
        self.await_turn()
        self.rounds.append(time.monotonic() - began)

    def go_on(self) -> None:
        """Says that it is its turn; one that has died is noticed when its answer is awaited."""
        try:
            _there(self.process.stdin).write("\n")
            _there(self.process.stdin).flush()
        except BrokenPipeError:
            return

    def await_turn(self) -> None:
        """Until a round is over."""
        with limited(self.process):
            for line in _there(self.process.stdout):
                if line == "turn\n":
                    return
        raise self.failed("train another round")

    def result(self) -> dict[str, Any]:
        """What it says when all rounds are over."""
        self.go_on()
        with limited(self.process):
            said = _there(self.process.stdout).read().strip().splitlines()
        self.process.wait()
        try:
            found: dict[str, Any] = json.loads(said[-1])
        except (ValueError, IndexError):
            raise self.failed("end with one line of JSON") from None
        return found

    def parts(self, result: dict[str, Any]) -> dict[str, list[float]]:
        """Seconds of all rounds; of each part, where it has some that took turns themselves."""
        found: dict[str, list[float]] = result.get(
            "parts", {self.name: [self.first_round, *self.rounds]}
        )
        return found

    def failed(self, expected: str) -> RunError:
        """Why it cannot be measured, with its last words."""
        end(self.process)
        self.errors.seek(0)
        last = "\n".join(self.errors.read().strip().splitlines()[-LINES:])
        return RunError(
            f"Expected {self.name} to {expected} within {LIMIT:.0f} s; it ended with code "
            f"{self.process.returncode}. Mend it, or leave it out. Its last lines:\n{last}"
        )


def take_turns(engines: Sequence[tuple[Engine, Path]], repeat: int, rounds: int) -> list[Measured]:
    """Every engine plays all rounds; who begins changes from round to round."""
    load = os.getloadavg()[0]
    with started(engines) as playing:
        watches = [Watch(player.process.pid, memory=False) for player in playing]
        before, began = usage(watches), time.monotonic()
        for turn in range(1, rounds):
            place = turn % len(playing)
            for player in (*playing[place:], *playing[:place]):
                player.play()
        after, elapsed = usage(watches), time.monotonic() - began
        said = [player.result() for player in playing]
    used = None if before is None or after is None else after.since(before)
    return [
        Measured(
            engine=name,
            repeat=repeat,
            first_round=first,
            rounds=tuple(rounds),
            cpu=None if used is None or "parts" in result else used.own[place],
            memory=None,
            others=None if used is None else used.others(elapsed),
            load=load,
            steps=result.get("steps"),
            version=str(result.get("version", "")),
            weights=result.get("weights"),
        )
        for place, (player, result) in enumerate(zip(playing, said, strict=True))
        for name, (first, *rounds) in player.parts(result).items()
    ]


@contextmanager
def started(engines: Sequence[tuple[Engine, Path]]) -> Iterator[list[Player]]:
    """Processes that have a first round behind them; all are ended afterwards."""
    playing: list[Player] = []
    try:
        for engine, folder in engines:
            errors = TemporaryFile("w+")  # noqa: SIM115 - closed below, with its process
            began = time.monotonic()
            process = subprocess.Popen(  # noqa: S603 - our own engines, and those the user named
                engine.call(folder, "--turns"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **QUIET},
                start_new_session=True,
            )
            playing.append(Player(engine.name, process, errors))
            playing[-1].await_turn()
            playing[-1].first_round = time.monotonic() - began
        yield playing
    finally:
        for player in playing:
            end(player.process)
            player.process.communicate()
            player.errors.close()


@contextmanager
def limited(process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends a process that does not answer in time."""
    timer = Timer(LIMIT, end, [process])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be waiting for the process, which two threads cannot do at once


@dataclass(frozen=True)
class Usage:
    """Processor seconds until now: of the machine, and of each player with its descendants."""

    machine: float
    own: tuple[float, ...]

    def since(self, before: Usage) -> Usage:
        """What was used between two looks."""
        own = tuple(after - earlier for after, earlier in zip(self.own, before.own, strict=True))
        return Usage(self.machine - before.machine, own)

    def others(self, elapsed: float) -> float:
        """Which share of the cores everybody else had."""
        return max(self.machine - sum(self.own), 0.0) / (elapsed * (os.cpu_count() or 1))


def usage(watches: Sequence[Watch]) -> Usage | None:
    """None where the system does not tell."""
    if not processes.can_measure():
        return None
    for watch in watches:
        watch.look()
    return Usage(processes.busy_seconds(), tuple(sum(w.seconds.values()) for w in watches))


def _there(pipe: IO[str] | None) -> IO[str]:
    """An end of a pipe, which is there because it was asked for."""
    assert pipe is not None  # noqa: S101 - all three were asked for
    return pipe
