"""Attackers of a simulation: their replies are changed on the way, as if they had sent them so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from flr.client.worker import ClientResult
from flr.core import seeds
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Task
from flr.scenario.attacks.common import Attack


@dataclass(frozen=True)
class Adversary:
    """Who attacks, and how; `buffers` are never touched: a negative variance would be noticed."""

    attack: Attack
    clients: frozenset[int]
    seed: int
    buffers: frozenset[str]
    counted: Mapping[int, int] = field(default_factory=dict)  # samples, where claims change them

    def tamper(self, task: Task, results: Iterable[ClientResult]) -> list[ClientResult]:
        """The results as the server gets them."""
        replies = [self._counted(result) for result in results]
        honest = [r.reply.arrays for r in replies if r.reply.client not in self.clients]
        return [
            self._changed(task, r, honest) if r.reply.client in self.clients else r for r in replies
        ]

    def _counted(self, result: ClientResult) -> ClientResult:
        reply = result.reply
        examples = self.counted.get(reply.client, reply.examples)
        return replace(result, reply=replace(reply, examples=examples))

    def _changed(self, task: Task, result: ClientResult, honest: list[Arrays]) -> ClientResult:
        client = result.reply.client
        received = task.arrays | task.extra.get(client, {})
        rng = seeds.generator(self.seed, "attack", client, task.step)
        sent: Arrays = dict(result.reply.arrays)
        for name in sorted(sent):
            if name in received and self._is_trained(name, sent[name]):
                others = [arrays[name] for arrays in honest]
                known = torch.stack(others) if others else sent[name].new_empty(0)
                sent[name] = self.attack.weights(sent[name], received[name], known, rng)
        return replace(result, reply=replace(result.reply, arrays=sent))

    def _is_trained(self, name: str, value: Tensor) -> bool:
        return name.startswith(MODEL) and name not in self.buffers and value.is_floating_point()
