"""What FLR adds to FedAvg, in forward passes without gradients.

It is less than two processes of one program differ by, for one is luckier with its memory than the
other. So all are threads of one process, of which one computes at a time:

    python -m flr.bench.cost FOLDER [--turns]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from threading import Semaphore, Thread

import torch

from flr import __version__
from flr.bench import bare, ours
from flr.bench.bare import Turn, at_once, wait_for_turn
from flr.bench.engines import Engine
from flr.bench.measure import Measured
from flr.bench.prepare import Prepared
from flr.bench.runner import Say
from flr.bench.turns import take_turns
from flr.engine.allocator import keep_freed_memory
from flr.errors import RunError

FEDAVG = "fedavg"
FORWARDS = {"batch": "steps", "round": "samples"}  # by server_predictions: what the unit looks at


class Contestant(Thread):
    """A program that computes one round when it is told to."""

    def __init__(self, name: str, program: Callable[[Turn], object]) -> None:
        super().__init__(name=name, daemon=True)
        self.program = program
        self.told, self.over = Semaphore(0), Semaphore(0)
        self.ended = False
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        """Until the program ends."""
        torch.set_num_threads(1)  # each thread has a number of its own
        self.told.acquire()
        try:
            self.program(self.turn)
        except Exception as error:  # noqa: BLE001 - whatever it is, who waits for us raises it
            self.error = error
        finally:
            self.ended = True
            self.over.release()

    def turn(self) -> None:
        """A round is over."""
        self.over.release()
        self.told.acquire()

    def play(self) -> float:
        """One more round, or what comes after the last; in seconds."""
        if self.ended:
            raise RunError(
                f"Expected another round of {self.name}; it has ended. Mend it: all have to train "
                "the same number of rounds."
            )
        began = time.monotonic()
        self.told.release()
        self.over.acquire()
        if self.error is not None:
            raise self.error
        return time.monotonic() - began


def contestants(folder: Path) -> list[Contestant]:
    """FedAvg, FLR in both forms, and the units of both."""
    work = bare.read(folder)

    def training(method: str | dict[str, str], turn: Turn) -> None:
        ours.run(folder, 1, method, turn=turn)

    found = [Contestant(FEDAVG, partial(training, "fedavg"))]
    for predictions, each in FORWARDS.items():
        # with the term in every round: rounds of a warm-up cost what FedAvg's do
        flr = {"name": "flr", "warmup": "schedule", "server_predictions": predictions}
        found.append(Contestant(f"flr, {predictions}", partial(training, flr)))
        found.append(Contestant(f"forwards, {each}", partial(bare.forwards, work, each)))
    return found


def compete(playing: Sequence[Contestant], rounds: int, turn: Turn) -> dict[str, list[float]]:
    """Seconds of each one's rounds; who begins changes from round to round."""
    seconds: dict[str, list[float]] = {player.name: [] for player in playing}
    for number in range(rounds):
        place = number % len(playing)
        for player in (*playing[place:], *playing[:place]):
            seconds[player.name].append(player.play())
        turn()
    for player in playing:
        player.play()
    return seconds


def repeated(prepared: Prepared, repeats: int, say: Say) -> list[Measured]:
    """Each repeat in a fresh process."""
    engine = Engine("FLR and FedAvg", (sys.executable, "-m", "flr.bench.cost"))
    found = []
    for repeat in range(1, repeats + 1):
        say(f"repeat {repeat} of {repeats}: FedAvg, FLR and forward passes take turns")
        found += take_turns([(engine, prepared.folder)], repeat, prepared.rounds)
    return found


def cost(by_name: Mapping[str, Measured], predictions: str) -> float:
    """FLR minus FedAvg in one repeat, in units of the forward passes that it cannot do without."""
    flr, fedavg = by_name[f"flr, {predictions}"].rounds, by_name[FEDAVG].rounds
    more = median(ours - theirs for ours, theirs in zip(flr, fedavg, strict=True))
    return more / by_name[f"forwards, {FORWARDS[predictions]}"].round


def main() -> None:
    """Lets them compete and prints how long each took."""
    parser = argparse.ArgumentParser(prog="python -m flr.bench.cost")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--turns", action="store_true")
    options = parser.parse_args()
    keep_freed_memory(for_all_threads=True)
    rounds = json.loads((options.folder / "workload.json").read_text())["rounds"]
    turn = wait_for_turn if options.turns else at_once
    parts = compete(contestants(options.folder), rounds, turn)
    sys.stdout.write(json.dumps({"parts": parts, "version": f"flr {__version__}"}) + "\n")


if __name__ == "__main__":
    main()
