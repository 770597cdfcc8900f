"""Agents of sites in this process, each with a socket and a thread that works."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from direct import POLICY
from toys import settings

from flr.flower.agent import messenger
from flr.flower.agent.messenger import AgentError
from flr.flower.agent.peers import Peers
from flr.flower.agent.site_agent import SiteAgent

HELLO = {
    "experiment": "0" * 16,
    "config": settings("fedavg", train={"model": "mlp"}),
    "classes": None,
    "subject": None,
}


def ask(path: Path) -> Any:
    """A roll call, as any program of the machine could ask it."""
    header = {"type": "query.hello", "note": {"schema": 1, "json": json.dumps(HELLO)}}
    try:
        answer, _ = messenger.ask(path, {**header, "arrays": None}, [], wait=5.0)
    except AgentError as error:
        return str(error)
    return json.loads(answer["note"]["json"])


@contextmanager
def short_folder() -> Iterator[Path]:
    """A socket's path may have a hundred letters, and pytest's folders have nearly as many."""
    folder = Path(tempfile.mkdtemp(prefix="flr-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


class Agent:
    """A site's agent that can be stopped, and started again on the same folder."""

    def __init__(self, own: Mapping[str, Any], path: Path, who: Peers | None, most: int) -> None:
        self.own, self.path, self.who, self.most = {"policy": str(POLICY), **own}, path, who, most
        self.start()

    @property
    def state_dir(self) -> Path:
        return self.serving.site.state_dir

    def start(self) -> None:
        self.serving = SiteAgent(self.own, self.path, self.who, self.most, pause=0.0)
        self.thread = threading.Thread(target=self.serving.serve)
        self.thread.start()
        while not self.path.exists() and self.thread.is_alive():
            time.sleep(0.01)

    def stop(self) -> None:
        self.serving.stop()
        self.thread.join()


@contextmanager
def agents(
    nodes: Mapping[int, Mapping[str, Any]], who: Peers | None = None, most: int = 10**7
) -> Iterator[dict[int, Agent]]:
    """One for each node, by its number."""
    with short_folder() as folder:
        made = {k: Agent(own, folder / f"{k}.sock", who, most) for k, own in nodes.items()}
        try:
            yield made
        finally:
            for agent in made.values():
                agent.stop()
