"""Runs engines, repeat after repeat, and checks that they all did the same work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.engines import Engine
from benchmarks.interleave import interleave, measure_memory, rotated
from benchmarks.measurement import Measurement
from benchmarks.prepare import Prepared
from flr.core.errors import RunError

Say = Callable[[str], None]

_SAME = 0.1  # of what was learned: sums in another order differ by less, other samples by more


@dataclass(frozen=True)
class PreparedEngine:
    """An engine and the folder that it trains."""

    engine: Engine
    prepared: Prepared
    follows: bool = True  # trains on the plan's samples, so that its weights can be compared


def compare(engines: Sequence[PreparedEngine], repeats: int, say: Say) -> list[Measurement]:
    """Every engine once alone, for its memory (repeat 0); then `repeats` times in turns.

    The first one is the unit. Each repeat begins with another engine, so that none has a
    place of its own.
    """
    alone = []
    for each in engines:
        say(f"memory and steps: {each.engine.name}")
        alone.append(measure_memory(each.engine, each.prepared.folder, each.prepared.rounds))
    found = checked(engines, alone)
    for repeat in range(1, repeats + 1):
        say(f"repeat {repeat} of {repeats}: {len(engines)} engines take turns")
        found += checked(engines, timed(rotated(engines, repeat), repeat))
    return found


def timed(engines: Sequence[PreparedEngine], repeat: int) -> list[Measurement]:
    """All engines once, in turns."""
    calls = [(each.engine, each.prepared.folder) for each in engines]
    return interleave(calls, repeat, engines[0].prepared.rounds)


def checked(
    engines: Sequence[PreparedEngine], measured: Sequence[Measurement]
) -> list[Measurement]:
    """Each run, in the engines' order, with how far its weights are from the unit's."""
    by_name = {done.engine: done for done in measured}
    unit = by_name[engines[0].engine.name]
    found = []
    for each in engines:
        done = by_name[each.engine.name]
        check_steps(done, each.prepared)
        if each.follows and unit.weights is not None and done.weights is not None:
            initial = each.prepared.folder / "initial.npz"
            apart = distance(Path(unit.weights), Path(done.weights), initial)
            if apart > _SAME:
                raise RunError(
                    f"Expected {done.engine} to end with the weights of {unit.engine}; they are "
                    f"apart by {apart:.1%} of what was learned. It does other work: find out which."
                )
            done = replace(done, difference=apart)
        found.append(replace(done, weights=None))
    return found


def check_steps(done: Measurement, prepared: Prepared) -> None:
    """As many as the plan has."""
    if done.steps is not None and done.steps != prepared.steps:
        raise RunError(
            f"Expected {prepared.steps:,} steps of {done.engine} in {prepared.rounds} rounds; it "
            f"took {done.steps:,}. It does other work, and its time says nothing: mend its adapter."
        )


def distance(unit: Path, other: Path, initial: Path) -> float:
    """|w - w_unit| / |w_unit - w_0| over all weights."""
    arrays = [dict(np.load(path)) for path in (unit, other, initial)]
    apart, learned = 0.0, 0.0
    for name in arrays[2]:
        theirs, own, first = (found[name].astype(np.float64) for found in arrays)
        apart += float(np.square(own - theirs).sum())
        learned += float(np.square(theirs - first).sum())
    return float(np.sqrt(apart / learned)) if learned else float(apart > 0)
