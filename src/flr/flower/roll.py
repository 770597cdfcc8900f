"""The roll call: which node is which site.

Flower's node ids are random, and change when a node restarts without a key; a site has a name.
Nodes that nobody has heard of are asked before every task; nothing waits for their answer longer
than it has to. Nothing that a node says is trusted to be of the right kind.
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
from flr.flower.charter import SITE_NAME

log = logging.getLogger("flr")

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two looks at the SuperLink
AGAIN = 30.0  # seconds until a node that was left out is asked again: its data may be mended
GRACE = 15.0  # seconds that others wait for a node which does not answer the roll call

_LONGEST = 500  # letters of what a site says, in a log


@dataclass(frozen=True)
class Facts:
    """What a site says of itself."""

    site: str
    examples: int
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Facts:
        """Refuses, with ValueError, what no site of ours would say."""
        examples, shape, dtype = said.get("examples"), said.get("shape"), said.get("dtype")
        if not is_count(examples) or not isinstance(shape, list) or not all(map(is_count, shape)):
            raise ValueError("sizes that are no numbers")
        if dtype not in ("uint8", "float32"):
            raise ValueError("samples of an unknown type")
        return cls(said["site"], int(examples or 0), tuple(shape), str(dtype))


@dataclass
class Roll:
    """Sites by name, with the node that answers for each."""

    grid: Grid
    note: Mapping[str, Any]  # the charter, as nodes get it
    screen: Callable[[Facts], str]  # why a site cannot take part; empty if it can
    keys: dict[str, str] | None = None  # of sites; a name stays with its key. None: without keys
    nodes: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Facts] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)  # by node: who it says it is, and why
    asked: dict[int, tuple[str, float]] = field(default_factory=dict)  # by node: message, when
    answered: dict[int, float] = field(default_factory=dict)  # by node: when

    def call(self) -> set[int]:
        """Asks unknown nodes and hears those that have answered; gives the nodes there are."""
        present = {node.node_id: node.public_key.hex() for node in self.grid.get_nodes()}
        for gone in (self.asked.keys() | self.answered.keys()) - present.keys():
            self.asked.pop(gone, None)  # may come back, perhaps as another site
            self.answered.pop(gone, None)
            self.refused.pop(gone, None)
        unknown = sorted(node for node in present if self._is_unknown(node))
        messages = [Message(wire.write(self.note), node, "query.hello") for node in unknown]
        for node, sent in zip(unknown, push(self.grid, messages), strict=True):
            if sent is not None:
                self.asked[node] = (sent, time.monotonic())
        waiting = {sent: node for node, (sent, _) in self.asked.items()}
        for reply in pull(self.grid, waiting):
            node = waiting[reply.metadata.reply_to_message_id]
            del self.asked[node]
            self.answered[node] = time.monotonic()
            self._hear(node, present.get(node, ""), reply)
        return set(present)

    def outstanding(self) -> bool:
        """Whether a node was asked a moment ago and may still answer."""
        return any(time.monotonic() - when < GRACE for _, when in self.asked.values())

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

    def refuse(self, node: int, name: str, reason: str) -> None:
        """Leaves a node out, and says so where the people at the server read it."""
        complaint = f"{name}: {reason}."
        if self.refused.get(node) != complaint:
            log.warning("Left out: %s", complaint)
        self.refused[node] = complaint

    def forget(self, site: str) -> None:
        """Takes a site off the list; its node is asked again, and its name is free."""
        self.nodes.pop(site, None)
        if self.keys is not None:
            self.keys.pop(site, None)

    def complaints(self) -> str:
        """Who was left out and why, for an error message."""
        if not self.refused:
            return "No other node has connected."
        return "\n".join(["Left out:", *sorted(self.refused.values())])

    def _is_unknown(self, node: int) -> bool:
        if node in self.asked or node in self.nodes.values():
            return False
        return time.monotonic() - self.answered.get(node, -AGAIN) >= AGAIN

    def _hear(self, node: int, key: str, reply: Message) -> None:
        name = f"node {node}"
        try:
            said = read(reply)
            if SITE_NAME.fullmatch(str(said.get("site") or "")):
                name = f'site "{said["site"]}"'
            elif "problem" not in said:
                raise ValueError("no site name")
            problem = "" if "problem" not in said else plain(said["problem"])
            facts = None if problem else Facts.of(said)
        except (wire.WireError, ValueError) as error:
            return self.refuse(node, name, f"it answers with {plain(error)}")
        if facts is None:
            return self.refuse(node, name, problem)
        return self._enter(node, key, name, facts)

    def _enter(self, node: int, key: str, name: str, facts: Facts) -> None:
        if self.keys is not None and self.keys.get(facts.site, key) != key:
            return self.refuse(node, f"node {node}", f"{name} belongs to a node with another key")
        reason = self.screen(facts)
        if reason:
            return self.refuse(node, name, reason)
        older = self.nodes.get(facts.site)
        if older is not None and older != node:
            log.warning("%s: node %s takes the place of node %s.", name, node, older)
        if self.keys is not None:
            self.keys[facts.site] = key
        self.nodes[facts.site], self.facts[facts.site] = node, facts
        self.refused.pop(node, None)
        return None


def read(reply: Message) -> dict[str, Any]:
    """The note of an answer; ValueError where Flower says that there is none."""
    if reply.has_error():
        raise ValueError(f"an error of Flower ({plain(reply.error.reason)})")
    said, _ = wire.read(reply.content)
    return said


def plain(text: object) -> str:
    """What a site says as one line: nobody writes lines into our log."""
    return " ".join(str(text).split())[:_LONGEST].rstrip(".")


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 0 on; in Python True would be one."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


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
        parts = re.split(r"([0-9]+)", name)
        return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts] + [(2, 0, name)]

    return sorted(sites, key=key)
