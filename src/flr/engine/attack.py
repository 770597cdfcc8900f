"""Attackers of a simulation: their replies are changed on the way, as if they had sent them so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from torch import Tensor

from flr import seeds
from flr.arrays import Arrays
from flr.client.desk import Answer
from flr.contract import MODEL, Task
from flr.scenario.attack import Attack


@dataclass(frozen=True)
class Adversary:
    """Who attacks, and how; `buffers` are never touched: a negative variance would be noticed."""

    attack: Attack
    clients: frozenset[int]
    seed: int
    buffers: frozenset[str]

    def tamper(self, task: Task, answers: Iterable[Answer]) -> list[Answer]:
        """The answers as they arrive."""
        return [self._changed(task, a) if a.reply.client in self.clients else a for a in answers]

    def _changed(self, task: Task, answer: Answer) -> Answer:
        client = answer.reply.client
        received = task.arrays | task.extra.get(client, {})
        rng = seeds.generator(self.seed, "attack", client, task.step)
        sent: Arrays = dict(answer.reply.arrays)
        for name in sorted(sent):
            if name in received and self._is_trained(name, sent[name]):
                sent[name] = self.attack.weights(sent[name], received[name], rng)
        return replace(answer, reply=replace(answer.reply, arrays=sent))

    def _is_trained(self, name: str, value: Tensor) -> bool:
        return name.startswith(MODEL) and name not in self.buffers and value.is_floating_point()
