"""The federation loop: plan, ask, screen, reduce; the same for every method and every transport."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from flr.arrays import Arrays, nbytes
from flr.client.desk import Answer
from flr.contract import MODEL, Declared, Method, Server, Task, by_name
from flr.engine import checkpoint
from flr.engine.checkpoint import Checkpoint
from flr.errors import RunError
from flr.probes import Outcome, Probe, RoundEnd

log = logging.getLogger("flr")

NOT_FINITE = "not finite"


class Transport(Protocol):
    """How clients are reached; all that differs between one machine and a federation."""

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[Answer]:
        """Answers, sorted by client; fewer than asked where clients were lost."""

    def name(self, client: int) -> str:
        """What a client is called in messages."""


class States(Protocol):
    """Where the clients' states are kept: which versions are still needed is decided here."""

    def has(self, site: int, version: int) -> bool: ...

    def drop(self, site: int, version: int) -> None: ...

    def keep_only(self, versions: Mapping[int, set[int]]) -> None: ...


@dataclass
class Federation:
    """A method, a server and a way to reach clients."""

    method: Method
    server: Server
    transport: Transport
    state: States
    folder: Path  # of the checkpoints
    min_replies: int
    checkpoint_every: int
    probe: Probe
    again: str = "`flr resume`"  # how to go on after a stop
    versions: dict[int, int] = field(default_factory=dict)  # accepted state of each site
    kept: dict[int, dict[int, int]] = field(default_factory=dict)  # by step, those of checkpoints
    boundary: Checkpoint | None = None  # the end of the last whole round

    def run(self) -> None:
        """Goes on until the method plans nothing more; Ctrl-C loses no whole round."""
        try:
            self.play()
        except KeyboardInterrupt:
            if self.boundary is not None and self.boundary.round:  # else there is nothing to keep
                self.save()
            raise

    def play(self) -> None:
        """Task after task, round after round."""
        method, server = self.method, self.server
        outcomes: list[Outcome] = []
        started = time.perf_counter()
        self.boundary = Checkpoint.of(server, self.versions)
        while (task := method.plan(server)) is not None:
            before = server.round
            outcomes += self.perform(task)
            if server.round > before:
                seconds = time.perf_counter() - started
                self.probe.round_end(
                    RoundEnd(
                        server.round, server.rounds, method.result(server), tuple(outcomes), seconds
                    )
                )
                outcomes, started = [], time.perf_counter()
                self.boundary = Checkpoint.of(server, self.versions)
                if server.round % self.checkpoint_every == 0 or server.round == server.rounds:
                    self.save()

    def perform(self, task: Task) -> list[Outcome]:
        """One exchange with clients; their replies are forgotten before the next one begins."""
        method, server = self.method, self.server
        predict = task.name == "fit" and self.probe.wants_predictions(server.round + 1)
        answers = self.transport.ask(task, self.versions, predict)
        accepted, outcomes = screen(task, answers, by_name(method.sends, method.models))
        self.require_replies(task, accepted, outcomes)
        self.accept(task, accepted)
        method.reduce(server, task, [answer.reply for answer in accepted])
        server.step += 1
        return outcomes

    def accept(self, task: Task, accepted: Sequence[Answer]) -> None:
        """Makes the new states count; an old one goes unless a checkpoint needs it."""
        for answer in accepted:
            site = answer.reply.client
            if not answer.stateful:
                continue
            old = self.versions.get(site)
            if old is not None and all(kept.get(site) != old for kept in self.needed()):
                self.state.drop(site, old)
            self.versions[site] = task.step

    def require_replies(
        self, task: Task, accepted: Sequence[Answer], seen: Sequence[Outcome]
    ) -> None:
        """Stops a run that has lost too many clients, with a checkpoint of what was reached."""
        if task.optional or len(accepted) >= min(self.min_replies, len(task.clients)):
            return
        self.save()
        reasons = [
            f"{self.transport.name(o.client)} {o.status} {o.reason}".strip()
            for o in seen
            if o.status != "ok"
        ]
        diverged = any(NOT_FINITE in reason for reason in reasons)
        advice = "Lower train.lr" if diverged else "Find out why they fail, or lower min_replies"
        raise RunError(
            f"Round {task.round + 1} needs at least {self.min_replies} replies (min_replies); "
            f"{len(accepted)} of {len(task.clients)} clients gave a usable one "
            f"({'; '.join(reasons)}). What was reached is in {self.folder.parent}. {advice} in its "
            f"config.toml; then go on with {self.again}."
        )

    def save(self) -> None:
        """Writes a checkpoint of the last whole round and forgets states that nothing needs."""
        point = self.boundary
        if point is None or point.step in self.kept:
            return
        checkpoint.save(self.folder, point)
        self.kept[point.step] = dict(point.versions)
        self.kept = dict(sorted(self.kept.items())[-checkpoint.KEPT :])
        self.forget()

    def resume(self, recorded: int) -> int:
        """Goes back to the newest whole checkpoint; the round it holds, 0 for the start.

        `recorded` is the last round of which the probe has a record: a checkpoint beyond it would
        leave a gap.
        """
        found = [
            point
            for point in checkpoint.load_all(self.folder)
            if point.round <= recorded and self.complete(point)
        ]
        if found:
            found[0].restore(self.server)
            self.versions = dict(found[0].versions)
        self.kept = {point.step: dict(point.versions) for point in reversed(found)}
        checkpoint.keep_only(self.folder, set(self.kept))
        self.forget()
        return self.server.round

    def needed(self) -> list[dict[int, int]]:
        """The versions of client states that somebody may go back to."""
        boundary = [] if self.boundary is None else [self.boundary.versions]
        return [*self.kept.values(), *boundary]

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
        for versions in (*self.needed(), self.versions):
            for site, version in versions.items():
                needed.setdefault(site, set()).add(version)
        self.state.keep_only(needed)


def screen(
    task: Task, answers: Sequence[Answer], sends: Mapping[str, Declared]
) -> tuple[list[Answer], list[Outcome]]:
    """Separates usable replies from bad ones, which are named and left out; the round goes on."""
    accepted, outcomes = [], []
    missing = set(task.clients) - {answer.reply.client for answer in answers}
    to_all = nbytes(task.arrays)
    outcomes += [Outcome(client, 0, "dropped") for client in sorted(missing)]
    for answer in answers:
        reply = answer.reply
        reason = answer.problem or fault(task, reply.arrays, sends)
        if not reason:
            accepted.append(answer)
        outcomes.append(
            Outcome(
                client=reply.client,
                examples=reply.examples,
                status="refused" if reason else "ok",
                reason=reason,
                seconds=answer.seconds,
                bytes_down=to_all + nbytes(task.extra.get(reply.client, {})),
                bytes_up=nbytes(reply.arrays),
                predictions=answer.predictions,
            )
        )
    return accepted, outcomes


def fault(task: Task, sent: Arrays, sends: Mapping[str, Declared]) -> str:
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
        # what the words in a shape mean is known at the site, which has compared it there
        sizes = tuple(n if isinstance(n, int) else None for n in declared.shape)
        fits = len(sizes) == value.dim() and all(
            n in (None, size) for n, size in zip(sizes, value.shape, strict=True)
        )
        if not fits:
            return f"{name} has shape {tuple(value.shape)}, expected {declared.shape}"
        if value.dtype != declared.dtype:
            return f"{name} is {value.dtype}, expected {declared.dtype}"
    return not_finite(sent)


def not_finite(sent: Arrays) -> str:
    """Which array has a NaN or Inf; a sum, which is quick, has one too, or has grown too large."""
    floats = {name: value for name, value in sent.items() if value.is_floating_point()}
    flat = [value.flatten() for value in floats.values()]
    if not flat or math.isfinite(torch.cat(flat).sum()):
        return ""
    for name, value in floats.items():
        if not torch.isfinite(value).all():
            return f"{name} has numbers that are {NOT_FINITE} (NaN or Inf)"
    return ""
