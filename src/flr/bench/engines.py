"""Who is compared: the bare loop, our engine, and the peers for which an environment is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flr.bench import bare
from flr.errors import ConfigError

ADAPTERS = Path("benchmarks")  # of a checkout, in which the command is given


@dataclass(frozen=True)
class Engine:
    """A program that trains a prepared folder and prints what became of it."""

    name: str
    command: tuple[str, ...]  # before the folder
    options: tuple[str, ...] = ()  # behind it
    counting: tuple[str, ...] = ()  # one more option, with which it counts its steps

    def call(self, folder: Path, *more: str) -> list[str]:
        """The command for a folder."""
        return [*self.command, str(folder), *self.options, *more]


@dataclass(frozen=True)
class Peer:
    """An engine of somebody else, by an adapter."""

    name: str
    adapter: str
    variable: str  # of the environment: holds the path of a Python that has it


PEERS = (
    Peer("Flower+Ray, 2 actors", "flower_ray.py", "FLR_BENCH_FLOWER_RAY"),
    Peer("pfl", "pfl_engine.py", "FLR_BENCH_PFL"),
    Peer("FedJAX", "fedjax_engine.py", "FLR_BENCH_FEDJAX"),
)


def plain(name: str, *options: str) -> Engine:
    """The bare loop, by its path: `-m` would import all of `flr`."""
    return Engine(name, (sys.executable, bare.__file__), options)


def own(workers: int, name: str = "") -> Engine:
    """Our engine."""
    shown = name or f"flr, {workers} worker{'s' if workers > 1 else ''}"
    command = (sys.executable, "-m", "flr.bench.ours")
    return Engine(shown, command, ("--workers", str(workers)), ("--counted",))


def unit() -> Engine:
    """What all others are divided by."""
    return plain("bare loop", "--threads", "1")


def compared() -> list[Engine]:
    """All engines of this machine, the unit first."""
    default = plain("bare, torch's threads")
    return [unit(), default, own(1), own(2), *peers(os.environ)]


def peers(environment: Mapping[str, str]) -> list[Engine]:
    """Those whose variable names a Python."""
    named = [(peer, environment[peer.variable]) for peer in PEERS if environment.get(peer.variable)]
    for peer, python in named:
        adapter = ADAPTERS / peer.adapter
        for path, what in ((Path(python).expanduser(), "a Python"), (adapter, "an adapter")):
            if not path.is_file():
                raise ConfigError(
                    f"Expected {what} for {peer.name} at {path}, as {peer.variable} is set; there "
                    f"is none. Correct or unset {peer.variable}, or change to the folder of the "
                    "checkout."
                )
    return [
        Engine(peer.name, (str(Path(python).expanduser()), str(ADAPTERS / peer.adapter)))
        for peer, python in named
    ]
