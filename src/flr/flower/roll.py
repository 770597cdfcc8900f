"""The roll call: which node is which site.

Flower's node ids are random, and change when a node restarts without a key; a site has a name.
Nodes that nobody has heard of are asked before every task; nothing waits for their answer longer
than it has to.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from flr.errors import RunError
from flr.flower import wire

log = logging.getLogger("flr")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two looks at the SuperLink


@dataclass(frozen=True)
class Facts:
    """What a site says of itself."""

    site: str
    examples: int
    shape: tuple[int, ...]
    dtype: str


@dataclass
class Roll:
    """Sites by name, with the node that answers for each."""

    grid: Grid
    note: Mapping[str, Any]  # the charter, as nodes get it
    screen: Callable[[Facts], str]  # why a site cannot take part; empty if it can
    keys: dict[str, str] | None = None  # of sites; a name stays with its key. None: without keys
    nodes: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # by site, or by node where it has none
    asked: dict[int, str] = field(default_factory=dict)  # by node, the message it was asked with

    def call(self) -> set[int]:
        """Asks unknown nodes and hears those that have answered; gives the nodes there are."""
        present = {node.node_id: node.public_key.hex() for node in self.grid.get_nodes()}
        unknown = sorted(present.keys() - self.asked.keys())
        messages = [Message(wire.write(self.note), node, "query.hello") for node in unknown]
        for node, sent in zip(unknown, push(self.grid, messages), strict=True):
            if sent is not None:
                self.asked[node] = sent
        for node in self.asked.keys() - present.keys():
            del self.asked[node]  # may come back, perhaps as another site
        waiting = {sent: node for node, sent in self.asked.items() if sent}
        for reply in pull(self.grid, waiting):
            node = waiting[reply.metadata.reply_to_message_id]
            self.asked[node] = ""
            self._hear(node, present.get(node, ""), reply)
        return set(present)

    def wait_for(self, enough: Callable[[set[str]], bool], seconds: float) -> set[str]:
        """The sites that are there once they are enough, or when the time is up."""
        end = time.monotonic() + seconds
        for pause in pauses():
            present = self.call()
            sites = {site for site, node in self.nodes.items() if node in present}
            if enough(sites) or time.monotonic() > end:
                break
            time.sleep(pause)
        return sites

    def refuse(self, name: str, reason: str) -> None:
        """Leaves a site or node out, and says so where the people at the server read it."""
        self.refused[name] = reason
        self.nodes.pop(name, None)
        log.warning("%s is left out: %s.", name, reason)

    def complaints(self) -> str:
        """Who was left out and why, for an error message."""
        lines = [f"{name}: {reason}." for name, reason in sorted(self.refused.items())]
        return "\n".join(["Left out:", *lines]) if lines else "No other node has connected."

    def _hear(self, node: int, key: str, reply: Message) -> None:
        if reply.has_error():
            return self.refuse(f"node {node}", f"it does not answer ({reply.error.reason})")
        try:
            said, _ = wire.read(reply.content)
        except wire.OtherSchemaError as error:
            return self.refuse(f"node {node}", str(error).rstrip("."))
        name = f'site "{said["site"]}"' if said.get("site") else f"node {node}"
        if said.get("problem"):
            return self.refuse(name, said["problem"])
        facts = Facts(said["site"], said["examples"], tuple(said["shape"]), said["dtype"])
        older = self.nodes.get(facts.site)
        if self.keys is not None and self.keys.setdefault(facts.site, key) != key:
            return self.refuse(f"node {node}", f"{name} belongs to a node with another key")
        reason = self.screen(facts)
        if reason:
            return self.refuse(name, reason)
        if older is not None and older != node:
            log.warning("%s: node %s takes the place of node %s.", name, node, older)
        self.nodes[facts.site], self.facts[facts.site] = node, facts
        self.refused.pop(name, None)
        return None


def pauses() -> Iterator[float]:
    """Short at first, so that small work is quick; longer later, so that the SuperLink can rest."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(pause * 1.2, LONGEST_PAUSE)


def push(grid: Grid, messages: list[Message]) -> list[str | None]:
    """Sends, and gives each message's number, or None where Flower did not take it."""
    if not messages:
        return []
    sent: list[str | None] = list(grid.push_messages(messages))
    if len(sent) != len(messages):
        raise RunError(
            f"Expected the SuperLink to take {len(messages)} messages; it took {len(sent)}: they "
            "may be too large for it. Use a smaller model, or raise its message size limit."
        )
    return sent


def pull(grid: Grid, waiting: Iterable[str]) -> list[Message]:
    """The answers that have come."""
    numbers = list(waiting)
    return list(grid.pull_messages(numbers)) if numbers else []


def in_order(sites: Iterable[str]) -> list[str]:
    """Sorted by name, numbers in names by value: site-2 comes before site-10."""

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.split(r"(\d+)", name)
        return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts] + [(2, 0, name)]

    return sorted(sites, key=key)
