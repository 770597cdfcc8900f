"""What is measured of an engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Measurement:
    """What became of one run of an engine."""

    engine: str
    repeat: int
    first_round: float  # seconds from the start of the process to the end of its first round
    rounds: tuple[float, ...]  # seconds of each round but the first
    cpu: float | None  # seconds of all its processes, in these rounds
    memory: int | None  # bytes at most; None where nobody looked
    others: float | None  # share of the machine's cores that other processes used meanwhile
    load: float  # the system's load average before
    steps: int | None
    version: str = ""
    difference: float | None = None  # of its weights to the unit's, as a share of what was learned
    weights: str | None = field(default=None, compare=False)

    @property
    def round(self) -> float:
        """Seconds of a round in the middle."""
        return median(self.rounds)
