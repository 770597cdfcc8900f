"""What FLR adds to FedAvg, in forward passes without gradients.

It is less than two processes of one program differ by, for one is luckier with its memory than the
other. So all are threads of one process, of which one computes at a time:

    python -m benchmarks.cost FOLDER [--turns]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from threading import Semaphore, Thread

import torch

from benchmarks import flr_engine, protocol, reference
from benchmarks.compare import Say
from benchmarks.engines import Engine
from benchmarks.interleave import interleave, rotated
from benchmarks.measurement import Measurement
from benchmarks.prepare import Prepared
from benchmarks.protocol import Turn
from flr.core.errors import RunError
from flr.engine.memory_allocator import keep_freed_memory

FEDAVG = "fedavg"
FORWARDS = {"batch": "steps", "round": "samples"}  # by server_predictions: what the unit looks at


class EngineThread(Thread):
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


def make_threads(folder: Path) -> list[EngineThread]:
    """FedAvg, FLR in both forms, and the units of both."""
    work = reference.read(folder)

    def training(method: str | dict[str, str], turn: Turn) -> None:
        flr_engine.train(folder, 1, method, turn)

    found = [EngineThread(FEDAVG, partial(training, "fedavg"))]
    for predictions, each in FORWARDS.items():
        # with the term in every round: rounds of a warm-up cost what FedAvg's do
        flr = {"name": "flr", "warmup": "schedule", "server_predictions": predictions}
        found.append(EngineThread(f"flr, {predictions}", partial(training, flr)))
        found.append(EngineThread(f"forwards, {each}", partial(reference.forwards, work, each)))
    return found


def interleave_threads(
    threads: Sequence[EngineThread], rounds: int, turn: Turn
) -> dict[str, list[float]]:
    """Seconds of each one's rounds; who begins changes from round to round."""
    seconds: dict[str, list[float]] = {thread.name: [] for thread in threads}
    for number in range(rounds):
        for thread in rotated(threads, number):
            seconds[thread.name].append(thread.play())
        turn()
    for thread in threads:
        thread.play()
    return seconds


def measure_cost(prepared: Prepared, repeats: int, say: Say) -> list[Measurement]:
    """Each repeat in a fresh process."""
    engine = Engine("FLR and FedAvg", (sys.executable, "-m", "benchmarks.cost"))
    found = []
    for repeat in range(1, repeats + 1):
        say(f"repeat {repeat} of {repeats}: FedAvg, FLR and forward passes take turns")
        found += interleave([(engine, prepared.folder)], repeat, prepared.rounds)
    return found


def cost(by_name: Mapping[str, Measurement], predictions: str) -> float:
    """FLR minus FedAvg in one repeat, in units of the forward passes that it cannot do without."""
    flr, fedavg = by_name[f"flr, {predictions}"].rounds, by_name[FEDAVG].rounds
    more = median(ours - theirs for ours, theirs in zip(flr, fedavg, strict=True))
    return more / by_name[f"forwards, {FORWARDS[predictions]}"].round


def main() -> None:
    """Lets them take turns and prints how long each took."""
    options = protocol.parser().parse_args()
    keep_freed_memory(for_all_threads=True)
    rounds = protocol.read_workload(options.folder)["rounds"]
    ends = protocol.RoundEnds(options.turns)
    parts = interleave_threads(make_threads(options.folder), rounds, ends)
    protocol.print_result(ends, parts=parts, version=flr_engine.VERSION)


if __name__ == "__main__":
    main()
