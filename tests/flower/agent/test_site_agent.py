"""A site's agent behind its socket: the bits of a site without one, and nothing undeclared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agents import Agent, agents
from direct import DirectGrid, run_config
from flwr.app import Message
from toys import TINY, bits, settings

import flr
from flr.flower.server import serve
from flr.simulation.api import Run

SITES = TINY["partition"]["clients"]


def simulated(folder: Path) -> dict[int, dict[str, Any]]:
    return {k: {"partition-id": k, "state-dir": str(folder / f"site-{k}")} for k in range(SITES)}


def asked_at(made: dict[int, Agent]) -> dict[int, dict[str, Any]]:
    """The node configs of SuperNodes whose sites have these agents."""
    return {k: {"agent": str(agent.path), "partition-id": k} for k, agent in made.items()}


class Keeping(DirectGrid):
    """Keeps the answers as the server gets them, by node."""

    def __init__(self, nodes: Any) -> None:
        super().__init__(nodes)
        self.heard: dict[int, list[Message]] = {node: [] for node in nodes}

    def push_messages(self, messages: Any) -> list[str]:
        held = list(messages)
        numbers = super().push_messages(held)
        for message, number in zip(held, numbers, strict=True):
            self.heard[message.metadata.dst_node_id].append(self.replies[number])
        return numbers


FEATURES = {"train": {"model": "mlp"}, "data": {"backbone": "tiny_backbone:projection"}}
METHODS = ["flr", "fedcorr", "coteaching", "feddyn"]


@pytest.mark.parametrize("method", [*METHODS, "flr+"])
def test_the_bits_are_those_of_one_process(method, tmp_path):
    config = settings(method)
    with agents(simulated(tmp_path)) as made:
        serve(DirectGrid(asked_at(made)), run_config(config, tmp_path / "there"))
    here = flr.run(config, out=tmp_path / "here")
    assert bits(Run(tmp_path / "there")) == bits(here)


def test_on_features_too(tmp_path):
    config = settings("flr", **FEATURES)
    with agents(simulated(tmp_path)) as made:
        serve(DirectGrid(asked_at(made)), run_config(config, tmp_path / "there"))
    assert bits(Run(tmp_path / "there")) == bits(flr.run(config, out=tmp_path / "here"))
