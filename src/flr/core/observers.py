"""How a run is watched from outside: the engine knows nothing else of reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from flr.core.arrays import Arrays


@dataclass(frozen=True)
class ClientOutcome:
    """What the engine saw of a client in a step; no part of the reply."""

    client: int
    examples: int
    status: str  # "ok", "dropped" or "refused"
    reason: str = ""
    seconds: float = 0.0
    bytes_down: int = 0
    bytes_up: int = 0
    predictions: Tensor | None = None  # in simulation: the local model's on its own data, int16
    norm: float | None = None  # of its update, where that is watched


@dataclass(frozen=True)
class RoundScore:
    """How many noisy labels that no site trains on the model of a round repeats, over all sites."""

    right: int
    samples: int
    best: bool  # no earlier round has as many
    bytes_down: int = 0
    bytes_up: int = 0


@dataclass(frozen=True)
class RoundEnd:
    """A finished round, as observers see it."""

    round: int  # counts from 1
    rounds: int
    model: Arrays
    outcomes: tuple[ClientOutcome, ...]
    seconds: float
    score: RoundScore | None = None  # where sites hold labels out


class Observer(Protocol):
    """Is told what happens, and asked what it wants to know."""

    def wants_predictions(self, round: int) -> bool:
        """Whether the clients of this round are to predict their own data after training."""

    def round_end(self, event: RoundEnd) -> None:
        """A round is over."""
