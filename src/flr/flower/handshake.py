"""The query that tells a ServerApp which site each Flower node is, and what data it has.

Flower's node ids are random, and change when a node restarts without a key; a site has a name.
Nodes that are not known yet are asked before every task; nothing waits for their answer longer
than it has to. Nothing that a node says is trusted to be of the right kind. Of two nodes with one
name the one that was there first has it, for as long as Flower sees it.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from flwr.app import Message
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from flr.core.errors import RunError
from flr.core.plain_text import plain
from flr.flower import wire
from flr.flower.answers import Said, SiteFacts, heard, pull
from flr.flower.run_spec import SITE_NAME

log = logging.getLogger("flr")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 2.0  # seconds between two looks at the SuperLink
AGAIN = 30.0  # seconds until a node that was left out is asked again: its data may be mended
GRACE = 15.0  # seconds that others wait for a node which does not answer


@dataclass
class Handshake:
    """Sites by name, with the node that answers for each."""

    grid: Grid
    note: Mapping[str, Any]  # the run spec, as nodes get it
    screen: Callable[[SiteFacts], str]  # why a site cannot take part; empty if it can
    keys: dict[str, str] | None = None  # of sites; a name stays with its key. None: without keys
    registered: bool = False  # a site is called what its node was registered as, if it has a name
    nodes: dict[str, int] = field(default_factory=dict)
    facts: dict[str, SiteFacts] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)  # by node: who it says it is, and why
    asked: dict[int, tuple[str, float]] = field(default_factory=dict)  # by node: message, when
    answered: dict[int, float] = field(default_factory=dict)  # by node: when
    rivals: dict[int, str] = field(default_factory=dict)  # by node: the name that another one has

    def call(self) -> set[int]:
        """Asks unknown nodes and hears those that have answered; gives the nodes there are."""
        present = {node.node_id: node for node in self.grid.get_nodes()}
        for gone in (self.asked.keys() | self.answered.keys()) - present.keys():
            for known in (self.asked, self.answered, self.refused, self.rivals):
                known.pop(gone, None)  # may come back, perhaps as another site
        for rival, site in list(self.rivals.items()):
            if self.nodes.get(site) not in present:  # its name is free
                del self.rivals[rival]
                self.answered.pop(rival, None)
        now = time.monotonic()
        unknown = sorted(
            node
            for node in present.keys() - self.asked.keys() - set(self.nodes.values())
            if now - self.answered.get(node, -AGAIN) >= AGAIN
        )
        messages = [Message(wire.write(self.note), node, "query.hello") for node in unknown]
        for node, sent in zip(unknown, push(self.grid, messages), strict=True):
            if sent is not None:
                self.asked[node] = (sent, time.monotonic())
        waiting = {sent: node for node, (sent, _) in self.asked.items()}
        for sent, reply in pull(self.grid, waiting):
            node = waiting[sent]
            del self.asked[node]
            self.answered[node] = time.monotonic()
            self._hear(node, present, reply)
        return set(present)

    def outstanding(self) -> bool:
        """Whether a node was asked a moment ago and may still answer."""
        return any(time.monotonic() - when < GRACE for _, when in self.asked.values())

    def wait_for(self, enough: Callable[[set[str]], bool], seconds: float) -> set[str]:
        """The sites that are there once they are enough, or when the time is up."""
        for _ in polling(seconds):
            present = self.call()
            sites = {site for site, node in self.nodes.items() if node in present}
            if enough(sites):
                break
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

    def _hear(self, node: int, present: Mapping[int, NodeInfo], reply: Message | None) -> None:
        """Enters the site that a node says it is, or refuses the node."""
        name, facts = f"node {node}", None
        try:
            if reply is not None and reply.has_error():
                raise ValueError(f"an error of Flower ({plain(reply.error.reason)})")
            said = heard(reply, Said)
            reason = plain(said.problem)
            if SITE_NAME.fullmatch(said.site):
                name = f'site "{said.site}"'
            elif not reason:
                raise ValueError("no site name")
            facts = None if reason else heard(reply, SiteFacts)
        except (wire.WireError, ValueError) as error:
            reason = f"it answers with {plain(error)}"
        if facts is not None:
            reason = self.screen(facts)
            if not_its := self._not_its_name(facts.site, node, present):
                name, reason = f"node {node}", not_its
        if facts is None or reason:
            self.refuse(node, name, reason)
            return
        if self.keys is not None:
            self.keys[facts.site] = _key(node, present)
        self.nodes[facts.site], self.facts[facts.site] = node, facts
        self.refused.pop(node, None)

    def _not_its_name(self, site: str, node: int, present: Mapping[int, NodeInfo]) -> str:
        """Why a node cannot have a site's name; empty if it can."""
        older, key = self.nodes.get(site, node), _key(node, present)
        if older != node and older in present:
            self.rivals[node] = site
            return (
                f'site "{site}" is there already, as node {older}. Give each node a name of its '
                "own; after a restart without a key, Flower takes a minute to forget the node of "
                "before"
            )
        if self.keys is not None and self.keys.get(site, key) != key:
            return f'site "{site}" belongs to a node with another key'
        known_as = present[node].name if node in present else ""
        if self.registered and known_as not in ("", site):
            return (
                f'it says that it is site "{site}", and was registered as "{plain(known_as)}". Use '
                "one name in its node config and in `flwr supernode register --name`"
            )
        return ""


def _key(node: int, present: Mapping[int, NodeInfo]) -> str:
    return present[node].public_key.hex() if node in present else ""


def is_count(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number from 0 on; in Python True would be one."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def polling(seconds: float) -> Iterator[None]:
    """One turn after the other until the time is up, with a pause between two of them.

    A pause is a twentieth of what was waited before it: little is lost by it, and the SuperLink can
    rest where work takes long.
    """
    start = time.monotonic()
    while True:
        yield
        waited = time.monotonic() - start
        if waited > seconds:
            return
        time.sleep(min(max(waited / 20, SHORTEST_PAUSE), LONGEST_PAUSE))


def push(grid: Grid, messages: list[Message]) -> list[str | None]:
    """Sends, and gives each message's number, or None where Flower did not take it."""
    sent: list[str | None] = list(grid.push_messages(messages)) if messages else []
    if len(sent) != len(messages):
        raise RunError(
            f"Expected the SuperLink to take {len(messages)} messages; it took {len(sent)}: they "
            "may be too large for it. Use a smaller model, or raise its message size limit."
        )
    return sent


def in_order(sites: Iterable[str]) -> list[str]:
    """Sorted by name, numbers in names by value: site-2 comes before site-10."""

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.split(r"([0-9]+)", name)
        return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts] + [(2, 0, name)]

    return sorted(sites, key=key)
