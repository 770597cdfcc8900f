"""When the server stops to wait for a task: by the clock that was set, or by how long others took.

Flower answers for a node that it has lost, after a minute. A site that hangs, or whose network
holds, is not lost, and without a deadline each round waits `flower.timeout` for it.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field

LEAST = 60.0  # seconds: below it a pause of a machine or a network would count
TIMES = 3.0  # how much slower than the slowest of before an answer may be
STEPS = 5  # of which the slowest answer counts


@dataclass
class Deadline:
    """For how long a task may stay without all its answers.

    With `seconds` a task ends so many after it was sent. Without, it may take as long as it needs
    at first; later it ends when for three times the slowest answer of the last steps, at least a
    minute, no answer has come. Neither ends it before a quorum has answered.
    """

    seconds: float  # 0: by itself
    quorum: float  # share of the sites that were asked
    slowest: dict[str, deque[float]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=STEPS))
    )  # answers of the last steps, by task

    def patience(self, task: str) -> float:
        """Seconds without an answer after which a task ends; infinite where nothing is known."""
        known = self.slowest.get(task)
        return max(LEAST, TIMES * max(known)) if known else math.inf

    def needed(self, asked: int, least: int) -> int:
        """How many answers a task has to have before it may end without the rest."""
        return max(1, least, math.ceil(self.quorum * asked))

    def is_over(self, task: str, now: float, sent: float, answers: list[float]) -> bool:
        """Whether a task that was sent and answered at these times has to end, if enough have."""
        if self.seconds:
            return now - sent >= self.seconds
        return now - max([sent, *answers]) >= self.patience(task)

    def learn(self, task: str, seconds: float) -> None:
        """Takes note of the slowest answer of a step, or of one that came too late for it."""
        self.slowest[task].append(seconds)
