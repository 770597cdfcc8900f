"""Which round's model a run ends with, where nobody knows a right label.

Sites hold some of their samples out, with labels as they were given. After every round each counts
how many of these labels the global model repeats; the model of the round with the largest share,
over all sites and their samples, is the one to keep. What is known of it stands in the server's
state, so that every checkpoint has it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from flr.client.worker import ClientResult
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Server, Task
from flr.core.observers import RoundScore
from flr.core.traits import COUNTS, VALIDATE, VALIDATION_SENDS, by_name
from flr.engine.refuse_replies import screen

log = logging.getLogger("flr")

_KEPT = "selection."  # before the names of the model's arrays, too
_ROUND, _BEST = _KEPT + "round", _KEPT + "best"  # the round, and its counts


@dataclass(frozen=True)
class Selection:
    """How a model is chosen by noisy labels, as `[eval]` says.

    Args:
        keeps: Whether the run ends with the best round's model; else rounds are only scored.
        patience: After so many rounds without a better score there are no more; None: all rounds.
    """

    keeps: bool = True
    patience: int | None = None

    def task(self, server: Server, model: Arrays) -> Task:
        """Asks all sites, in the step that ended the round: scores of rounds are of the same."""
        everybody, step = tuple(range(server.clients)), server.step - 1
        return Task(
            VALIDATE, everybody, model, step, server.round - 1, server.rounds, optional=True
        )

    def look(
        self, server: Server, task: Task, results: Sequence[ClientResult], words: Mapping[str, int]
    ) -> RoundScore | None:
        """The score of a round, whose model is remembered if it is the best; None without one."""
        accepted, outcomes = screen(task, results, by_name(VALIDATION_SENDS, 1), words)
        counts = [_counts(server, result) for result in accepted]
        right, samples = (sum(part) for part in zip(*counts, strict=True)) if counts else (0, 0)
        if not samples:
            log.warning("Round %s has no score: no site has counted anything.", server.round)
            return None
        before = server.state.get(_BEST, torch.tensor([-1, 1])).tolist()
        best = right * before[1] > before[0] * samples  # exact, as shares would not be
        if best:
            server.state[_ROUND] = torch.tensor(server.round)
            server.state[_BEST] = torch.tensor([right, samples])
            if self.keeps:
                # copies: a checkpoint has what is broadcast next to it, and no tensor twice
                server.state |= {_KEPT + name: v.clone() for name, v in task.arrays.items()}
        down, up = (sum(o.bytes_down for o in outcomes), sum(o.bytes_up for o in outcomes))
        return RoundScore(right, samples, best, down, up)

    def ended(self, server: Server) -> bool:
        """Whether the patience has run out."""
        if self.patience is None or _ROUND not in server.state:
            return False
        return server.round - int(server.state[_ROUND]) >= self.patience

    def model(self, server: Server, last: Arrays) -> Arrays:
        """What the run ends with; the last model where no round has a score."""
        kept = {
            name.removeprefix(_KEPT): value
            for name, value in server.state.items()
            if name.startswith(_KEPT + MODEL)
        }
        return kept or last


def _counts(server: Server, result: ClientResult) -> tuple[int, int]:
    """What a site has counted; no more than it trains on, and nothing where that cannot be."""
    right, samples = result.reply.arrays[COUNTS].tolist()
    if right > samples or samples > server.examples[result.reply.client]:
        log.warning("client %s: %s of %s is no count.", result.reply.client, right, samples)
        return 0, 0
    return right, samples
