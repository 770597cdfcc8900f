"""The count of an attack, which is run for its numbers."""

from __future__ import annotations

import time
from collections import Counter

OFTEN = 60.0  # seconds: an attack takes hours, and what it has found when it is stopped counts too


class Tally:
    """Counts what became of each fault."""

    def __init__(self, what: str) -> None:
        self.what, self.counts, self.lost = what, Counter[str](), list[str]()
        self.told = time.monotonic()

    def survived(self, how: str = "survived") -> None:
        self.counts[how] += 1
        self._tell_now_and_then()

    def lose(self, where: str) -> None:
        self.lost.append(where)
        self._tell_now_and_then()

    def say(self, line: str) -> None:
        """What a reader of the counts wants to know besides."""
        print(line, flush=True)  # noqa: T201

    def finish(self) -> None:
        """Prints the count; fails where anything was lost."""
        self._tell("tried")
        assert not self.lost, "\n".join(self.lost[:20])

    def _tell_now_and_then(self) -> None:
        if time.monotonic() - self.told > OFTEN:
            self._tell("so far")
            self.told = time.monotonic()

    def _tell(self, when: str) -> None:
        ways = ", ".join(f"{how} {number}" for how, number in self.counts.items())
        number = self.counts.total() + len(self.lost)
        text = f"\n{self.what}: {when} {number}, {ways or 'survived 0'}, lost {len(self.lost)}"
        print(text, *self.lost[:20], sep="\n", flush=True)  # noqa: T201
