"""The federation loop: plan, ask, screen, reduce; the same for every method and every transport."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from flr.client.worker import ClientResult
from flr.core.arrays import Arrays, sync_to_disk
from flr.core.contract import Method, Server, Task
from flr.core.errors import DataError, FlrError, RunError
from flr.core.interrupts import ctrl_c_waits, stops_like_ctrl_c
from flr.core.observers import ClientOutcome, Observer, RoundEnd, RoundScore
from flr.core.traits import by_name
from flr.engine import checkpoint
from flr.engine.checkpoint import Checkpoint
from flr.engine.refuse_replies import (
    NOT_FINITE,
    as_sent,
    refuse_others,
    screen,
    without_the_cause,
)
from flr.engine.selection import Selection

log = logging.getLogger("flr")


class Transport(Protocol):
    """How clients are reached; all that differs between one machine and a federation."""

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[ClientResult]:
        """Results, sorted by client; fewer than asked where clients were lost."""

    def name(self, client: int) -> str:
        """What a client is called in messages."""


class States(Protocol):
    """Where the clients' states are kept: which versions are still needed is decided here."""

    def has(self, site: int, version: int, digest: str = "") -> bool: ...

    def sync(self, versions: Mapping[int, int]) -> None: ...

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
    observer: Observer
    again: str = "`flr resume`"  # how to go on after a stop
    belongs: str = ""  # a file beside `folder` without which nothing is written there
    records: Sequence[str] = ()  # files beside `folder` that the observer appends to
    words: Mapping[str, int] = field(default_factory=dict)  # that declared shapes have
    selection: Selection | None = None  # where sites hold labels out
    versions: dict[int, int] = field(default_factory=dict)  # accepted state of each site
    digests: dict[int, str] = field(default_factory=dict)  # of its file, where it is here
    kept: dict[int, dict[int, int]] = field(default_factory=dict)  # the same, by checkpoint
    boundary: Checkpoint | None = None  # the end of the last whole round

    def run(self) -> None:
        """Goes on until the method plans nothing more; Ctrl-C loses no whole round.

        Nor does a signal that asks for an end, from a batch system or a terminal that is closed.
        """
        with stops_like_ctrl_c():
            try:
                self._rounds()
            except KeyboardInterrupt:
                if self.boundary is not None and self.boundary.round:  # else nothing is to be kept
                    with ctrl_c_waits():  # whoever asks once often asks again
                        self.save()
                raise

    def _rounds(self) -> None:
        """One task after another; at the end of a round observers are told and it is kept."""
        method, server = self.method, self.server
        outcomes: list[ClientOutcome] = []
        started = time.perf_counter()
        self.boundary = self.point()
        while not self.ended() and (task := method.plan(server)) is not None:
            before = server.round
            outcomes += self.step(task)
            self.require_folder()
            if server.round > before:
                seconds = time.perf_counter() - started
                model, seen = method.result(server), tuple(outcomes)
                numbers, score = (server.round, server.rounds), self.score(model)
                self.observer.round_end(RoundEnd(*numbers, model, seen, seconds, score))
                outcomes, started = [], time.perf_counter()
                self.boundary = self.point()
                last = server.round == server.rounds or self.ended()
                if last or server.round % self.checkpoint_every == 0:
                    self.save()

    def score(self, model: Arrays) -> RoundScore | None:
        """What the sites' held-out labels say of a round's model."""
        if self.selection is None:
            return None
        task = self.selection.task(self.server, model)
        results = self.transport.ask(task, self.versions, predict=False)
        return self.selection.look(self.server, task, results, self.words)

    def ended(self) -> bool:
        """Whether no better model is to be expected."""
        return self.selection is not None and self.selection.ended(self.server)

    def step(self, task: Task) -> list[ClientOutcome]:
        """One exchange with clients; their replies are forgotten before the next one begins."""
        method, server = self.method, self.server
        predict = task.name == "fit" and self.observer.wants_predictions(server.round + 1)
        results = self.transport.ask(task, self.versions, predict)
        sends = by_name(method.traits.sends, method.traits.networks)
        accepted, outcomes = screen(task, results, sends, self.words)
        accepted, outcomes = self.reduce(task, accepted, outcomes)
        self.accept(task, accepted)
        server.step += 1
        return outcomes

    def reduce(
        self, task: Task, accepted: list[ClientResult], outcomes: list[ClientOutcome]
    ) -> tuple[list[ClientResult], list[ClientOutcome]]:
        """Hands the replies to the method; gives those that it could use.

        Only the method knows which of the declared arrays it needs now. A reply without one that
        it looks for is left out, and then it tries again. Where it fails in another way, and some
        replies have other arrays than most, it is these.
        """
        before = Checkpoint.of(self.server, self.versions)
        while True:
            self.require_replies(task, accepted, outcomes)
            try:
                self.method.reduce(self.server, task, [as_sent(r.reply) for r in accepted])
                return accepted, outcomes
            except FlrError:
                raise
            except Exception as error:
                kept, reason = without_the_cause(error, accepted)
                if len(kept) == len(accepted):
                    raise
            before.restore(self.server)
            accepted, outcomes = kept, refuse_others(outcomes, kept, reason)

    def accept(self, task: Task, accepted: Sequence[ClientResult]) -> None:
        """Makes the new states count; an old one goes unless a checkpoint needs it."""
        for result in accepted:
            site = result.reply.client
            if not result.stateful:
                continue
            old = self.versions.get(site)
            if old is not None and all(kept.get(site) != old for kept in self.needed()):
                self.state.drop(site, old)
            self.versions[site] = task.step
            self.digests.pop(site, None)
            if result.digest:
                self.digests[site] = result.digest

    def require_replies(
        self, task: Task, accepted: Sequence[ClientResult], seen: Sequence[ClientOutcome]
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

    def point(self) -> Checkpoint:
        """Everything as it is now; the record may grow before this is written."""
        beside = {name: self.folder.parent / name for name in self.records}
        sizes = {name: path.stat().st_size for name, path in beside.items() if path.exists()}
        return Checkpoint.of(self.server, self.versions, self.digests, sizes)

    def require_folder(self) -> None:
        """Stops a run whose folder was removed: writing would make another one, with holes."""
        if self.belongs and not (self.folder.parent / self.belongs).exists():
            raise RunError(
                f"Expected the run folder {self.folder.parent} with its {self.belongs}; it was "
                "moved or removed while the run was working in it. Bring it back and go on with "
                f"{self.again}, or run again."
            )

    def save(self) -> None:
        """Writes a checkpoint of the last whole round and forgets states that nothing needs.

        All that it vouches for reaches the disk before it does.
        """
        point = self.boundary
        if point is None or point.step in self.kept:
            return
        on_disk = {item for kept in self.kept.values() for item in kept.items()}
        self.state.sync(dict(point.versions.items() - on_disk))
        for name in point.sizes:
            sync_to_disk(self.folder.parent / name)
        checkpoint.save(self.folder, point)
        self.kept[point.step] = dict(point.versions)
        self.kept = dict(sorted(self.kept.items())[-checkpoint.KEPT :])
        self.forget()

    def resume(self, recorded: int) -> int:
        """Goes back to the newest whole checkpoint; the round it holds, 0 for the start.

        `recorded` is the last round that the observer has recorded: a checkpoint beyond it would
        leave a gap.
        """
        checkpoint.refuse_links(self.folder)
        found = [
            point
            for point in self.with_record(checkpoint.load_all(self.folder))
            if point.round <= recorded and self.complete(point)
        ][: checkpoint.KEPT]  # a kill may have left an older one
        if found:
            found[0].restore(self.server)
            self.versions, self.digests = dict(found[0].versions), dict(found[0].digests)
        self.kept = {point.step: dict(point.versions) for point in reversed(found)}
        checkpoint.keep_only(self.folder, set(self.kept))
        self.forget()
        return self.server.round

    def needed(self) -> list[dict[int, int]]:
        """The versions of client states that somebody may go back to."""
        boundary = [] if self.boundary is None else [self.boundary.versions]
        return [*self.kept.values(), *boundary]

    def with_record(self, points: Sequence[Checkpoint]) -> list[Checkpoint]:
        """Those before whose end the record of the rounds is what it was; names what is not."""
        damaged = {point.step: checkpoint.damaged_record(self.folder, point) for point in points}
        for step, name in damaged.items():
            if name:
                log.warning(
                    "%s is not what checkpoint %s vouches for; going on from the one before",
                    name,
                    step,
                )
        found = [self.folder.parent / name for name in damaged.values()]
        if all(damaged.values()) and any(path.is_file() for path in found):
            raise DataError(  # a line in a log is no reason to train anew
                f"Expected {found[0]} as the run has written it; lines of its first rounds were "
                "changed or damaged. Take another copy of it, or delete it to train from the "
                "first round again."
            )
        return [point for point in points if not damaged[point.step]]

    def complete(self, point: Checkpoint) -> bool:
        """Whether the clients' states that a checkpoint refers to are all there."""
        missing = [
            site
            for site, version in point.versions.items()
            if not self.state.has(site, version, point.digests.get(site, ""))
        ]
        if missing:
            log.warning(
                "checkpoint %s lacks the state of clients %s: gone or damaged; passed over",
                point.step,
                missing,
            )
        return not missing

    def forget(self) -> None:
        """Deletes state files that neither a checkpoint nor the run refers to."""
        needed: dict[int, set[int]] = {}
        for versions in (*self.needed(), self.versions):
            for site, version in versions.items():
                needed.setdefault(site, set()).add(version)
        self.state.keep_only(needed)
