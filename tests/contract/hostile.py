"""Clients that end their worker or fail, for the engine's tests; importable by worker processes."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from flr.core.contract import Client, Method
from flr.core.registry import register


@register("lethal")
@dataclass(frozen=True)
class Lethal(Method):
    """Kills the process it trains in.

    Leaves the site: nothing.
    """

    def begin(self, c: Client) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@register("failing")
@dataclass(frozen=True)
class Failing(Method):
    """Raises at the client.

    Leaves the site: nothing.
    """

    def begin(self, c: Client) -> None:
        raise ArithmeticError("no such luck")


@register("lethal-once")
@dataclass(frozen=True)
class LethalOnce(Method):
    """Kills the process it trains in, unless the file `scar` is there.

    Leaves the site: nothing.
    """

    scar: Path = Path("scar")

    def penalty(self, c: Client, net: int) -> float:
        if not self.scar.exists():
            self.scar.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.0
