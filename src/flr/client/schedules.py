"""Learning rates over the rounds, by name: each says what share of `[train] lr` a round has."""

from __future__ import annotations

import math
from typing import Annotated

from annotated_types import Ge, Gt, Le

from flr.core.contract import Client
from flr.core.registry import register


@register("constant", kind="schedule", title="Constant")
def constant(_round: int, _rounds: int, /) -> float:
    """The same in every round."""
    return 1.0


@register("cosine", kind="schedule", title="Cosine")
def cosine(round: int, rounds: int, /) -> float:
    """Half a cosine wave, from all of it in the first round to nearly nothing in the last."""
    return (1 + math.cos(math.pi * round / rounds)) / 2


@register("step", kind="schedule", title="Steps")
def step(
    round: int,
    _rounds: int,
    /,
    every: Annotated[int, Ge(1)] = 30,
    factor: Annotated[float, Gt(0), Le(1)] = 0.1,
) -> float:
    """Times `factor` after every so many rounds."""
    return factor ** (round // every)


def warmed_up(round: int, warmup: int) -> float:
    """The share in the first rounds, which grows in equal steps; 1 from round `warmup` on."""
    return min((round + 1) / (warmup + 1), 1.0)


def learning_rate(c: Client) -> float:
    """The step size of this round, the first of which is round 0."""
    share: float = c.train.lr_schedule.build()(c.round, c.rounds)
    return c.train.lr * share * warmed_up(c.round, c.train.lr_warmup)
