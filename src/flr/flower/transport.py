"""Asks sites through Flower; the same interface as asking simulated clients in this process."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message

from flr.client.worker import ClientResult
from flr.core.contract import Reply, Task
from flr.core.plain_text import plain
from flr.flower import wire
from flr.flower.answers import Done, Said, heard, pull
from flr.flower.deadline import Deadline
from flr.flower.handshake import Handshake, polling, push
from flr.flower.membership import Membership

log = logging.getLogger("flr")


class RemoteStates:
    """The sites' states lie on their own disks; every message says which versions to keep."""

    def __init__(self) -> None:
        self.kept: dict[int, set[int]] = {}

    def has(self, site: int, version: int, digest: str = "") -> bool:
        """A site that has lost its state says so itself, when it is asked to go on from it."""
        return True

    def sync(self, versions: Mapping[int, int]) -> None:
        """A site has its state on disk before it answers."""

    def drop(self, site: int, version: int) -> None:
        self.kept.get(site, set()).discard(version)

    def keep_only(self, versions: Mapping[int, set[int]]) -> None:
        self.kept = {site: set(kept) for site, kept in versions.items()}


@dataclass(frozen=True)
class Owed:
    """A task whose round has ended without its answer."""

    client: int
    task: str
    step: int
    sent: float  # monotonic


@dataclass
class FlowerTransport:
    """Sends tasks to sites, each under its number: its place in the list of sites."""

    handshake: Handshake
    membership: Membership
    note: Mapping[str, Any]  # the run spec, which goes with every task
    least: int  # a task waits until so many of its sites are there
    owed: dict[str, Owed] = field(default_factory=dict)  # by message: answers nobody waits for
    late: Counter[int] = field(default_factory=Counter)  # by client: answers that came too late
    states: RemoteStates = field(default_factory=RemoteStates)
    message_type: str = "train"
    extra: Mapping[str, Any] = field(default_factory=dict)  # entries of the note's record

    def __post_init__(self) -> None:
        flower = self.membership.flower
        self.deadline = Deadline(flower.deadline, flower.quorum)

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[ClientResult]:
        """The results of the sites that are there, sorted: float sums depend on the order.

        A site that still owes an answer is not asked again: it would never get out of its debt.
        """
        asked = {self.membership.sites[client]: client for client in task.clients}
        enough = 0 if task.optional else min(self.least, len(asked))

        def free(sites: set[str]) -> set[str]:
            return (sites & asked.keys()) - self._owing()

        wait = self.membership.flower.wait
        there = free(self.handshake.wait_for(lambda sites: len(free(sites)) >= enough, wait))
        clients = [client for site, client in asked.items() if site in there]
        messages = [self._message(task, client, versions) for client in clients]
        sent = zip(push(self.handshake.grid, messages), clients, strict=True)
        waiting = {number: client for number, client in sent if number is not None}
        return sorted(self._results(task, waiting), key=lambda result: result.reply.client)

    def name(self, client: int) -> str:
        """Sites have names."""
        return f'site "{self.membership.sites[client]}"'

    def _message(self, task: Task, client: int, versions: Mapping[int, int]) -> Message:
        version = versions.get(client)
        keep = self.states.kept.get(client, set()) | ({version} if version is not None else set())
        asked = {
            "task": task.name,
            "client": client,
            "step": task.step,
            "round": task.round,
            "rounds": task.rounds,
            "version": version,
            "keep": sorted(keep),
            "attempt": self.membership.attempt,
        }
        arrays = task.arrays | task.extra.get(client, {})
        return Message(
            wire.write({**self.note, "order": asked}, arrays, self.extra),
            self.handshake.nodes[self.membership.sites[client]],
            self.message_type,
            ttl=self.membership.flower.timeout,
            group_id=str(task.step),
        )

    def _results(self, task: Task, waiting: dict[str, int]) -> list[ClientResult]:
        results: list[ClientResult | None] = []
        answers: list[float] = []  # when those came that can be used
        enough = 0 if task.optional else self.deadline.needed(len(waiting), self.least)
        sent, timeout = time.monotonic(), self.membership.flower.timeout
        for _ in polling(timeout):
            for number, reply in pull(self.handshake.grid, waiting):
                result = self._read(waiting.pop(number), reply)
                results.append(result)
                answers += [time.monotonic()] if result and not result.problem else []
            if not waiting:
                break
            if len(answers) >= enough and self.deadline.is_over(
                task.name, time.monotonic(), sent, answers
            ):
                break
        if answers:
            self.deadline.learn(task.name, max(answers) - sent)
        for number, client in waiting.items():
            seconds = f"{time.monotonic() - sent:.0f}"
            log.warning("%s has not answered within %s s.", self.name(client), seconds)
            self.owed[number] = Owed(client, task.name, task.step, sent)
        return [result for result in results if result is not None]

    def _owing(self) -> set[str]:
        """The sites that are still busy with a task whose end was not waited for."""
        for number, reply in pull(self.handshake.grid, self.owed):
            owed = self.owed.pop(number)
            if reply is not None and reply.has_error():
                continue  # it will not come; the round has ended without it
            seconds = time.monotonic() - owed.sent
            self.deadline.learn(owed.task, seconds)
            self.late[owed.client] += 1
            log.warning(
                "%s has answered step %s after %.0f s, too late: dropped (%s so far).",
                self.name(owed.client),
                owed.step,
                seconds,
                self.late[owed.client],
            )
        expired = time.monotonic() - self.membership.flower.timeout
        self.owed = {number: owed for number, owed in self.owed.items() if owed.sent > expired}
        return {self.membership.sites[owed.client] for owed in self.owed.values()}

    def _read(self, client: int, reply: Message | None) -> ClientResult | None:
        """The result in a reply, perhaps with a problem; None where Flower lost the site."""
        if reply is not None and reply.has_error():
            log.warning("%s is lost: %s", self.name(client), plain(reply.error.reason))
            return None
        try:
            problem = self._misfit(client, reply)
            if not problem and reply is not None:
                done, arrays = heard(reply, Done), wire.read_arrays(reply.content)
                sent = Reply(client, self.membership.counted[client], arrays)
                return ClientResult(sent, done.stateful, done.seconds, None)
        except wire.WireError as error:
            problem = f"it answers with {plain(error)}"
        log.warning("%s: %s.", self.name(client), problem)
        return ClientResult(Reply(client, 0, {}), False, 0.0, None, problem)

    def _misfit(self, client: int, reply: Message | None) -> str:
        """Why there is no result: it says so, another site answers, or it has other data."""
        said = heard(reply, Said)
        if said.problem:
            return plain(said.problem)
        if said.site != self.membership.sites[client]:
            return "the node that answers for it is another one now"
        return self.membership.other_size(client, heard(reply, Done).examples)
