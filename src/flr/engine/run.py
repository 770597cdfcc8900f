"""The federation loop: plan, ask, screen, reduce; the same for every method and every transport."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from flr.arrays import Arrays, nbytes
from flr.client.desk import Answer
from flr.client.state import StateFiles
from flr.contract import MODEL, Method, Outcome, Probe, RoundEnd, Server, Task
from flr.engine import checkpoint
from flr.engine.checkpoint import Checkpoint
from flr.errors import RunError

log = logging.getLogger("flr")


class Transport(Protocol):
    """How clients are reached; all that differs between one machine and a federation."""

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[Answer]:
        """Answers, sorted by client; fewer than asked where clients were lost."""


@dataclass
class Federation:
    """A method, a server and a way to reach clients."""

    method: Method
    server: Server
    transport: Transport
    state: StateFiles
    folder: Path  # of the checkpoints
    min_replies: int
    checkpoint_every: int
    probe: Probe
    versions: dict[int, int] = field(default_factory=dict)  # accepted state of each site
    kept: list[dict[int, int]] = field(default_factory=list)  # versions that checkpoints refer to

    def run(self) -> None:
        """Goes on until the method plans nothing more."""
        method, server = self.method, self.server
        outcomes: list[Outcome] = []
        started = time.perf_counter()
        while (task := method.plan(server)) is not None:
            predict = task.name == "fit" and self.probe.wants_predictions(server.round + 1)
            answers = self.transport.ask(task, self.versions, predict)
            accepted, seen = screen(task, answers)
            outcomes += seen
            self.require_replies(task, accepted, seen)
            self.accept(task, accepted)

            before = server.round
            method.reduce(server, task, [answer.reply for answer in accepted])
            server.step += 1

            if server.round > before:
                seconds = time.perf_counter() - started
                self.probe.round_end(
                    RoundEnd(
                        server.round, server.rounds, method.result(server), tuple(outcomes), seconds
                    )
                )
                outcomes, started = [], time.perf_counter()
                if server.round % self.checkpoint_every == 0 or server.round == server.rounds:
                    self.save()

    def accept(self, task: Task, accepted: Sequence[Answer]) -> None:
        """Makes the new states count; an old one goes unless a checkpoint needs it."""
        for answer in accepted:
            site = answer.reply.client
            if not answer.stateful:
                continue
            old = self.versions.get(site)
            if old is not None and all(kept.get(site) != old for kept in self.kept):
                self.state.drop(site, old)
            self.versions[site] = task.step

    def require_replies(
        self, task: Task, accepted: Sequence[Answer], seen: Sequence[Outcome]
    ) -> None:
        """Stops a run that has lost too many clients, with a checkpoint of what was reached."""
        if len(accepted) >= self.min_replies:
            return
        self.save()
        reasons = [
            f"client {o.client} {o.status} {o.reason}".strip() for o in seen if o.status != "ok"
        ]
        raise RunError(
            f"Round {task.round + 1} needs at least {self.min_replies} replies (min_replies); "
            f"{len(accepted)} of "
            f"{len(task.clients)} clients gave a usable one ({'; '.join(reasons)}). What was "
            f"reached is in the "
            "checkpoint. Lower min_replies, ask more clients (participation), or find out why "
            "they fail."
        )

    def save(self) -> None:
        """Writes a checkpoint and forgets states that nothing refers to any more."""
        checkpoint.save(self.folder, Checkpoint.of(self.server, self.versions))
        self.kept = [*self.kept, dict(self.versions)][-checkpoint.KEPT :]
        self.forget()

    def resume(self) -> int:
        """Goes back to the newest whole checkpoint; the round it holds, 0 for the start."""
        found = [point for point in checkpoint.load_all(self.folder) if self.complete(point)]
        if found:
            found[0].restore(self.server)
            self.versions = dict(found[0].versions)
        self.kept = [dict(point.versions) for point in reversed(found)]
        self.forget()
        return self.server.round

    def complete(self, point: Checkpoint) -> bool:
        """Whether the clients' states that a checkpoint refers to are all there."""
        missing = [s for s, version in point.versions.items() if not self.state.has(s, version)]
        if missing:
            log.warning(
                "checkpoint %s lacks the state of clients %s; passed over", point.step, missing
            )
        return not missing

    def forget(self) -> None:
        """Deletes state files that neither a checkpoint nor the run refers to."""
        needed: dict[int, set[int]] = {}
        for versions in (*self.kept, self.versions):
            for site, version in versions.items():
                needed.setdefault(site, set()).add(version)
        self.state.keep_only(needed)


def screen(task: Task, answers: Sequence[Answer]) -> tuple[list[Answer], list[Outcome]]:
    """Separates usable replies from bad ones, which are named and left out; the round goes on."""
    accepted, outcomes = [], []
    missing = set(task.clients) - {answer.reply.client for answer in answers}
    outcomes += [Outcome(client, 0, "dropped") for client in sorted(missing)]
    for answer in answers:
        reply = answer.reply
        reason = fault(task, reply.arrays)
        if not reason:
            accepted.append(answer)
        outcomes.append(
            Outcome(
                client=reply.client,
                examples=reply.examples,
                status="refused" if reason else "ok",
                reason=reason,
                seconds=answer.seconds,
                bytes_down=nbytes(task.arrays) + nbytes(task.extra.get(reply.client, {})),
                bytes_up=nbytes(reply.arrays),
                predictions=answer.predictions,
            )
        )
    return accepted, outcomes


def fault(task: Task, sent: Arrays) -> str:
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
        if value.is_floating_point() and not torch.isfinite(value).all():
            return f"{name} has numbers that are not finite (NaN or Inf)"
    return ""
