"""Asks sites through Flower; the same interface as asking simulated clients in this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message

from flr.client.desk import Answer
from flr.contract import Reply, Task
from flr.flower import wire
from flr.flower.roll import Roll, pauses, plain, pull, push

log = logging.getLogger("flr")


class RemoteStates:
    """The sites' states lie on their own disks; every message says which versions to keep."""

    def __init__(self) -> None:
        self.kept: dict[int, set[int]] = {}

    def has(self, site: int, version: int) -> bool:
        """A site that has lost its state says so itself, when it is asked to go on from it."""
        return True

    def drop(self, site: int, version: int) -> None:
        self.kept.get(site, set()).discard(version)

    def keep_only(self, versions: Mapping[int, set[int]]) -> None:
        self.kept = {site: set(kept) for site, kept in versions.items()}


@dataclass
class FlowerTransport:
    """Answers of sites, each under its number: its place in the list of names."""

    roll: Roll
    sites: Sequence[str]
    examples: Sequence[int]  # of each site
    attempt: int  # how often this run was started: a site does nothing for an earlier one
    charter: Mapping[str, Any]
    states: RemoteStates
    least: int  # a task waits until so many of its sites are there
    wait: float  # seconds, for that
    timeout: float  # seconds, for the answers
    message_type: str = "train"
    extra: Mapping[str, Any] = field(default_factory=dict)  # entries of the note's record

    def ask(self, task: Task, versions: Mapping[int, int], predict: bool) -> list[Answer]:
        """What the sites that are there answer, sorted: float sums depend on the order."""
        asked = {self.sites[client]: client for client in task.clients}
        enough = 0 if task.optional else min(self.least, len(asked))
        there = self.roll.wait_for(lambda s: len(s & asked.keys()) >= enough, self.wait)
        clients = [client for site, client in asked.items() if site in there]
        messages = [self._message(task, client, versions) for client in clients]
        waiting = {
            number: client
            for number, client in zip(push(self.roll.grid, messages), clients, strict=True)
            if number is not None
        }
        answers = self._answers(waiting)
        return sorted(answers, key=lambda a: a.reply.client)

    def name(self, client: int) -> str:
        """Sites have names."""
        return f'site "{self.sites[client]}"'

    def _message(self, task: Task, client: int, versions: Mapping[int, int]) -> Message:
        version = versions.get(client)
        keep = self.states.kept.get(client, set()) | ({version} if version is not None else set())
        order = {
            "task": task.name,
            "client": client,
            "step": task.step,
            "round": task.round,
            "rounds": task.rounds,
            "version": version,
            "keep": sorted(keep),
            "attempt": self.attempt,
        }
        content = wire.write(
            {**self.charter, "order": order}, task.arrays | task.extra.get(client, {}), self.extra
        )
        node = self.roll.nodes[self.sites[client]]
        return Message(content, node, self.message_type, ttl=self.timeout, group_id=str(task.step))

    def _answers(self, waiting: dict[str, int]) -> list[Answer]:
        answers = []
        end = time.monotonic() + self.timeout
        for pause in pauses():
            for reply in pull(self.roll.grid, waiting):
                client = waiting.pop(reply.metadata.reply_to_message_id)
                answer = self._read(client, reply)
                if answer is not None:
                    answers.append(answer)
            if not waiting or time.monotonic() > end:
                break
            time.sleep(pause)
        for client in waiting.values():
            log.warning("%s has not answered within %s s.", self.name(client), self.timeout)
        return answers

    def _read(self, client: int, reply: Message) -> Answer | None:
        if reply.has_error():
            log.warning("%s is lost: %s", self.name(client), plain(reply.error.reason))
            return None
        try:
            note, arrays = wire.read(reply.content)
            problem = plain(note["problem"]) if "problem" in note else self._misfit(client, note)
        except wire.WireError as error:
            note, arrays, problem = {}, {}, plain(error)
        if problem:
            log.warning("%s: %s.", self.name(client), problem)
            return Answer(Reply(client, 0, {}), False, 0.0, None, problem)
        sent = Reply(client, self.examples[client], arrays)
        return Answer(sent, note["stateful"] is True, float(note["seconds"]), None)

    def _misfit(self, client: int, note: Mapping[str, Any]) -> str:
        """Whether another site answers, or the same one with other data."""
        site, examples, seconds = (note.get(key) for key in ("site", "examples", "seconds"))
        if site != self.sites[client] or not isinstance(seconds, int | float):
            return "the node that answers for it is another one now"
        if examples != self.examples[client]:
            return (
                f"it began with {self.examples[client]} samples and now has {plain(examples)}. "
                "Bring its data back as they were, or start a new run"
            )
        return ""
