"""Runs engines, repeat after repeat, and checks that they all did the same work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flr.bench.engines import Engine
from flr.bench.measure import Measured, look_at
from flr.bench.prepare import Prepared
from flr.bench.turns import take_turns
from flr.errors import RunError

Say = Callable[[str], None]

_SAME = 0.1  # of what was learned: sums in another order differ by less, other samples by more


@dataclass(frozen=True)
class Entry:
    """An engine and the folder that it trains."""

    engine: Engine
    prepared: Prepared
    follows: bool = True  # trains on the plan's samples, so that its weights can be compared


def compare(entries: Sequence[Entry], repeats: int, say: Say) -> list[Measured]:
    """Every engine once alone, for its memory (repeat 0); then `repeats` times in turns.

    The first one is the unit. Each repeat begins with another engine, so that none has a
    place of its own.
    """
    found = compared(entries, [look(entry, say) for entry in entries])
    for repeat in range(1, repeats + 1):
        say(f"repeat {repeat} of {repeats}: {len(entries)} engines take turns")
        start = repeat % len(entries)
        found += compared(entries, turns([*entries[start:], *entries[:start]], repeat))
    return found


def look(entry: Entry, say: Say) -> Measured:
    """One engine alone: its memory, its steps."""
    engine = entry.engine
    say(f"memory and steps: {engine.name}")
    return checked(
        entry, look_at(engine.name, engine.call(entry.prepared.folder, *engine.counting))
    )


def turns(entries: Sequence[Entry], repeat: int) -> list[Measured]:
    """All engines once, for their times."""
    calls = [(entry.engine, entry.prepared.folder) for entry in entries]
    taken = take_turns(calls, repeat, entries[0].prepared.rounds)
    return [checked(entry, done) for entry, done in zip(entries, taken, strict=True)]


def checked(entry: Entry, done: Measured) -> Measured:
    """A measurement of as many steps as the plan has."""
    prepared = entry.prepared
    if done.steps is not None and done.steps != prepared.steps:
        raise RunError(
            f"Expected {prepared.steps:,} steps of {done.engine} in {prepared.rounds} rounds; it "
            f"took {done.steps:,}. It does other work, and its time says nothing: mend its adapter."
        )
    return done if entry.follows else replace(done, weights=None)


def compared(entries: Sequence[Entry], taken: Sequence[Measured]) -> list[Measured]:
    """Each run, in the entries' order, with how far its weights are from the unit's."""
    by_name = {done.engine: done for done in taken}
    unit = by_name[entries[0].engine.name]
    found = []
    for entry in entries:
        done = by_name[entry.engine.name]
        if unit.weights is not None and done.weights is not None:
            initial = entry.prepared.folder / "initial.npz"
            apart = distance(Path(unit.weights), Path(done.weights), initial)
            if apart > _SAME:
                raise RunError(
                    f"Expected {done.engine} to end with the weights of {unit.engine}; they are "
                    f"apart by {apart:.1%} of what was learned. It does other work: find out which."
                )
            done = replace(done, difference=apart)
        found.append(replace(done, weights=None))
    return found


def distance(unit: Path, other: Path, initial: Path) -> float:
    """|w - w_unit| / |w_unit - w_0| over all weights."""
    arrays = [dict(np.load(path)) for path in (unit, other, initial)]
    apart, learned = 0.0, 0.0
    for name in arrays[2]:
        theirs, own, first = (found[name].astype(np.float64) for found in arrays)
        apart += float(np.square(own - theirs).sum())
        learned += float(np.square(theirs - first).sum())
    return float(np.sqrt(apart / learned)) if learned else float(apart > 0)
