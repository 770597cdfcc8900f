"""Runs engines in turn, repeat after repeat, and checks that they all did the same work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from flr.bench.engines import Engine
from flr.bench.measure import Measured, measure
from flr.bench.prepare import Prepared
from flr.errors import RunError

Say = Callable[[str], None]

_SAME = 0.1  # of what was learned: sums in another order differ by less, other samples by more


@dataclass(frozen=True)
class Entry:
    """An engine and the folder that it trains."""

    engine: Engine
    prepared: Prepared
    follows: bool = True  # trains as the plan says, so that its weights can be compared


def compare(entries: Sequence[Entry], repeats: int, say: Say) -> list[Measured]:
    """Every engine once for its memory and steps (repeat 0), then `repeats` times for its time.

    The first one is the unit. Each repeat begins with another engine, so that none has a
    place of its own.
    """
    found = []
    for repeat in range(repeats + 1):
        start = repeat % len(entries)
        order = [*entries[start:], *entries[:start]]
        taken: list[Measured] = []
        for entry in order:
            name = entry.engine.name
            say(f"repeat {repeat} of {repeats}: {name}" if repeat else f"memory and steps: {name}")
            taken.append(take(entry, repeat))
        found += compared(entries, taken)
    return found


def take(entry: Entry, repeat: int) -> Measured:
    """One run of one engine."""
    engine, prepared = entry.engine, entry.prepared
    call = engine.call(prepared.folder, counted=repeat == 0)
    done = measure(engine.name, repeat, call, engine.env, memory=repeat == 0)
    if done.steps is not None and done.steps != prepared.steps:
        raise RunError(
            f"Expected {prepared.steps:,} steps of {engine.name} in {prepared.rounds} rounds; it "
            f"took {done.steps:,}. It does other work, and its time says nothing: mend its adapter."
        )
    return replace(done, weights=_kept(prepared.folder, done) if entry.follows else None)


def _kept(folder: Path, done: Measured) -> str | None:
    """The weights under a name of their own: the next run of a like engine writes over them."""
    if done.weights is None:
        return None
    number = sum(1 for _ in folder.glob("kept-*.npz"))
    kept = folder / f"kept-{number}.npz"
    Path(done.weights).rename(kept)
    return str(kept)


def compared(entries: Sequence[Entry], taken: Sequence[Measured]) -> list[Measured]:
    """Each run with how far its weights are from the unit's of the same repeat."""
    by_name = {done.engine: done for done in taken}
    unit = by_name[entries[0].engine.name]
    found = []
    for entry in entries:
        done = by_name[entry.engine.name]
        if unit.weights is None or done.weights is None:
            found.append(done)
            continue
        apart = distance(
            Path(unit.weights), Path(done.weights), entry.prepared.folder / "initial.npz"
        )
        if apart > _SAME:
            raise RunError(
                f"Expected {done.engine} to end with the weights of {unit.engine}; they are apart "
                f"by {apart:.1%} of what was learned. It does other work: find out which."
            )
        found.append(replace(done, difference=apart))
    for done in taken:
        if done.weights is not None:
            Path(done.weights).unlink()
    return [replace(done, weights=None) for done in found]


def distance(unit: Path, other: Path, initial: Path) -> float:
    """|w - w_unit| / |w_unit - w_0| over all weights."""
    arrays = [dict(np.load(path)) for path in (unit, other, initial)]
    apart, learned = 0.0, 0.0
    for name in arrays[2]:
        theirs, own, first = (found[name].astype(np.float64) for found in arrays)
        apart += float(np.square(own - theirs).sum())
        learned += float(np.square(theirs - first).sum())
    return float(np.sqrt(apart / learned)) if learned else float(apart > 0)
