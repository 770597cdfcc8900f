"""Engines that take turns, round by round: one computes, the others wait.

A machine has moods that last longer than a round, and a process may be lucky or unlucky with its
memory. So ratios are of rounds that were computed one right after the other, and every repeat has
fresh processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import processes
from benchmarks.engine_process import EngineProcess
from benchmarks.engines import Engine
from benchmarks.measurement import Measurement

T = TypeVar("T")


def interleave(
    engines: Sequence[tuple[Engine, Path]], repeat: int, rounds: int
) -> list[Measurement]:
    """Every engine computes all rounds; who begins changes from round to round."""
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        running: list[EngineProcess] = []
        for engine, folder in engines:
            running.append(stack.enter_context(EngineProcess(engine, folder)))
            running[-1].play()
        usage = CpuUsage([process.pid for process in running])
        for number in range(1, rounds):
            for process in rotated(running, number):
                process.play()
        own, others = usage.until_now()
        results = [process.result() for process in running]
    return [
        _measurement(name, repeat, seconds, result, load, cpu=cpu, others=others)
        for process, result, cpu in zip(running, results, own, strict=True)
        for name, seconds in _parts(process, result).items()
    ]


def measure_memory(engine: Engine, folder: Path, rounds: int) -> Measurement:
    """One engine alone, as repeat 0; looking costs time, so its rounds are not for timing."""
    load = os.getloadavg()[0]
    with (
        EngineProcess(engine, folder, *engine.counting) as process,
        processes.watched_memory(process.pid) as seen,
    ):
        for _ in range(rounds):
            process.play()
        result = process.result()
    peak = max(seen, default=None)
    return _measurement(engine.name, 0, process.rounds, result, load, memory=peak)


class CpuUsage:
    """Processor time since it was made: of sessions, and of all other processes."""

    def __init__(self, leaders: Sequence[int]) -> None:
        self.leaders, self.began = leaders, time.monotonic()
        self.before = self._now()

    def until_now(self) -> tuple[list[float | None], float | None]:
        """Seconds of each session, and the others' share of the cores; None where unknown."""
        if not processes.CAN_MEASURE:
            return [None] * len(self.leaders), None
        (busy_before, before), (busy, after) = self.before, self._now()
        # a process that has ended meanwhile counts with what it had before
        own = [
            sum((old | new).values()) - sum(old.values())
            for old, new in zip(before, after, strict=True)
        ]
        cores = (time.monotonic() - self.began) * (os.cpu_count() or 1)
        return [*own], max(busy - busy_before - sum(own), 0.0) / cores

    def _now(self) -> tuple[float, list[dict[Any, float]]]:
        if not processes.CAN_MEASURE:
            return 0.0, []
        own = [processes.cpu_seconds(leader) for leader in self.leaders]
        return processes.busy_seconds(), own


def _parts(process: EngineProcess, result: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of all rounds; of each part, where it has some that took turns themselves."""
    found: dict[str, list[float]] = result.get("parts", {process.name: process.rounds})
    return found


def _measurement(
    name: str,
    repeat: int,
    seconds: Sequence[float],
    result: dict[str, Any],
    load: float,
    *,
    cpu: float | None = None,
    memory: int | None = None,
    others: float | None = None,
) -> Measurement:
    return Measurement(
        engine=name,
        repeat=repeat,
        first_round=seconds[0],
        rounds=tuple(seconds[1:]),
        cpu=None if "parts" in result else cpu,
        memory=memory,
        others=others,
        load=load,
        steps=result.get("steps"),
        version=str(result.get("version", "")),
        weights=result.get("weights"),
    )


def rotated(items: Sequence[T], number: int) -> list[T]:
    """All of them, beginning with another one for each number."""
    start = number % len(items)
    return [*items[start:], *items[:start]]
