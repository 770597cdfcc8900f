"""Who is compared: the reference loop, our engine, and peers for which an environment is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from flr.core.errors import ConfigError


@dataclass(frozen=True)
class Engine:
    """A program that trains a prepared folder and prints what became of it."""

    name: str
    command: tuple[str, ...]  # before the folder
    options: tuple[str, ...] = ()  # behind it
    counting: tuple[str, ...] = ()  # one more option, with which it counts its steps

    def call(self, folder: Path, *more: str) -> list[str]:
        """The command for a folder."""
        return [*self.command, str(folder.absolute()), *self.options, *more]


@dataclass(frozen=True)
class Peer:
    """An engine of somebody else, by an adapter."""

    name: str
    module: str  # of benchmarks.peers
    variable: str  # of the environment: holds the path of a Python that has it


PEERS = (
    Peer("Flower+Ray, 2 actors", "flower_ray", "FLR_BENCH_FLOWER_RAY"),
    Peer("pfl", "pfl_engine", "FLR_BENCH_PFL"),
    Peer("FedJAX", "fedjax_engine", "FLR_BENCH_FEDJAX"),
)


def reference(name: str, *options: str) -> Engine:
    """The plain PyTorch loop."""
    return Engine(name, (sys.executable, "-m", "benchmarks.reference"), options)


def own(workers: int, name: str = "") -> Engine:
    """Our engine."""
    shown = name or f"flr, {workers} worker{'s' if workers > 1 else ''}"
    command = (sys.executable, "-m", "benchmarks.flr_engine")
    return Engine(shown, command, ("--workers", str(workers)), ("--counted",))


def unit() -> Engine:
    """What all others are divided by."""
    return reference("bare loop", "--threads", "1")


def compared() -> list[Engine]:
    """All engines of this machine, the unit first."""
    return [unit(), reference("bare, torch's threads"), own(1), own(2), *peers(os.environ)]


def peers(environment: Mapping[str, str]) -> list[Engine]:
    """Those whose variable names a Python."""
    found = []
    for peer in PEERS:
        if environment.get(peer.variable):
            python = Path(environment[peer.variable]).expanduser().absolute()
            if not python.is_file():
                raise ConfigError(
                    f"Expected a Python for {peer.name} at {python}, as {peer.variable} is set; "
                    f"there is none. Correct or unset {peer.variable}."
                )
            found.append(Engine(peer.name, (str(python), "-m", f"benchmarks.peers.{peer.module}")))
    return found
