"""Where a client's reply is refused: what is missing, undeclared, misshapen or not finite."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from flr.client.worker import ClientResult
from flr.core.arrays import Arrays, nbytes
from flr.core.contract import MODEL, Reply, Task
from flr.core.observers import ClientOutcome
from flr.core.plain_text import plain
from flr.core.traits import Declared

NOT_FINITE = "not finite"
LARGEST = math.sqrt(torch.finfo(torch.float32).max)  # for all types: no trained weight comes near


def screen(
    task: Task,
    results: Sequence[ClientResult],
    sends: Mapping[str, Declared],
    words: Mapping[str, int] | None = None,
) -> tuple[list[ClientResult], list[ClientOutcome]]:
    """Separates usable replies from bad ones, which are named and left out; the round goes on.

    `words` are those in declared shapes that mean the same at every client.
    """
    accepted, outcomes = [], []
    missing = set(task.clients) - {result.reply.client for result in results}
    to_all = nbytes(task.arrays)
    outcomes += [ClientOutcome(client, 0, "dropped") for client in sorted(missing)]
    for result in results:
        reply = result.reply
        reason = result.problem or plain(
            fault(task, reply.arrays, sends, words)
        )  # may quote a site
        if not reason:
            accepted.append(result)
        outcomes.append(
            ClientOutcome(
                client=reply.client,
                examples=reply.examples,
                status="refused" if reason else "ok",
                reason=reason,
                seconds=result.seconds,
                bytes_down=to_all + nbytes(task.extra.get(reply.client, {})),
                bytes_up=nbytes(reply.arrays),
                norm=result.norm,
                predictions=result.predictions,
            )
        )
    return accepted, outcomes


def fault(
    task: Task,
    sent: Arrays,
    sends: Mapping[str, Declared],
    words: Mapping[str, int] | None = None,
) -> str:
    """Why a reply cannot be used; empty if it can."""
    expected = (
        {k: v for k, v in task.arrays.items() if k.startswith(MODEL)} if task.name == "fit" else {}
    )
    for name, value in expected.items():
        if name not in sent:
            return f"{name} is missing"
        if sent[name].shape != value.shape:
            return f"{name} has shape {tuple(sent[name].shape)}, expected {tuple(value.shape)}"
        if sent[name].dtype != value.dtype:
            return f"{name} is {sent[name].dtype}, expected {value.dtype}"
    for name, value in sent.items():
        if name in expected:
            continue
        if name not in sends:
            return f"{name} was not declared"
        declared = sends[name]
        # what the other words mean is known at the site alone, which has compared it there
        sizes = tuple(n if isinstance(n, int) else (words or {}).get(n) for n in declared.shape)
        fits = len(sizes) == value.dim() and all(
            n in (None, size) for n, size in zip(sizes, value.shape, strict=True)
        )
        if not fits:
            return f"{name} has shape {tuple(value.shape)}, expected {declared.shape}"
        if value.dtype != declared.dtype:
            return f"{name} is {value.dtype}, expected {declared.dtype}"
        if declared.least is not None and (value < declared.least).any():
            return f"{name} has numbers below {declared.least:g}"
    return not_finite(sent)


class MissingArrayError(KeyError):
    """A method has looked for an array that a client has not sent."""

    def __init__(self, client: int, name: str) -> None:
        super().__init__(name)
        self.client, self.name = client, name


class SentArrays(dict[str, Tensor]):
    """What a client has sent; whoever looks for more learns whose it was."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.arrays)
        self.client = reply.client

    def __missing__(self, name: str) -> Tensor:
        raise MissingArrayError(self.client, name)


def as_sent(reply: Reply) -> Reply:
    """The reply as a method gets it."""
    return replace(reply, arrays=SentArrays(reply))


def without_the_cause(
    error: Exception, results: Sequence[ClientResult]
) -> tuple[list[ClientResult], str]:
    """The replies without those that made a method fail, and why; all where none is to blame.

    What nobody has sent is a mistake of the method.
    """
    if not isinstance(error, MissingArrayError):
        return like_most(results), "it sent other arrays than most"
    others = [r for r in results if r.reply.client != error.client]
    sent_by_some = any(error.name in result.reply.arrays for result in results)
    kept = others if sent_by_some or len(results) == 1 else list(results)
    return kept, f"{error.name} is missing"


def like_most(results: Sequence[ClientResult]) -> list[ClientResult]:
    """Those with the same arrays, in the same shapes, as more than half of all; else all."""
    forms = [frozenset((n, v.shape) for n, v in r.reply.arrays.items()) for r in results]
    form, count = Counter(forms).most_common(1)[0] if forms else (frozenset(), 0)
    if 2 * count <= len(results):
        return list(results)
    return [result for result, own in zip(results, forms, strict=True) if own == form]


def refuse_others(
    outcomes: Sequence[ClientOutcome], kept: Sequence[ClientResult], reason: str
) -> list[ClientOutcome]:
    """The outcomes, where replies that were taken and are not kept are refused."""
    clients = {result.reply.client for result in kept}
    return [
        replace(o, status="refused", reason=reason)
        if o.status == "ok" and o.client not in clients
        else o
        for o in outcomes
    ]


def not_finite(sent: Arrays) -> str:
    """Which array has a NaN, an Inf, or a number whose square is one: no distance can hold it.

    The sum of all squares, which is quick, is not finite then either, or has grown too large.
    """
    floats = {name: value for name, value in sent.items() if value.is_floating_point()}
    flat = [value.flatten().float() for value in floats.values()]
    if not flat or math.isfinite((joined := torch.cat(flat)) @ joined):
        return ""
    for name, value in floats.items():
        if not torch.isfinite(value).all():
            return f"{name} has numbers that are {NOT_FINITE} (NaN or Inf)"
        if (value.abs() > LARGEST).any():
            return f"{name} has numbers that are {NOT_FINITE} once squared (above {LARGEST:.2g})"
    return ""
