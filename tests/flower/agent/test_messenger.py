"""What Flower starts for every message of a site with an agent imports next to nothing of ours."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flr

BARE = """
import sys
import flwr.supernode.cli, flwr.supernode.runtime.run_clientapp
before = set(sys.modules)
from flr.flower.apps import client_app, server_app
client_app(), server_app()
print(*sorted(set(sys.modules) - before))
"""


def test_neither_torch_nor_the_rest_of_flr_is_imported():
    command = [sys.executable, "-c", BARE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    new = done.stdout.split()
    ours = {name for name in new if name.startswith("flr.")}
    assert ours == {
        "flr.core",
        "flr.core.bits",
        "flr.core.errors",
        "flr.flower",
        "flr.flower.agent",
        "flr.flower.agent.frames",
        "flr.flower.agent.messenger",
        "flr.flower.apps",
        "flr.flower.records",
    }
    heavy = {"torch", "sklearn", "scipy", "pydantic", "matplotlib", "safetensors"}
    assert not heavy & set(new)


def test_public_names_are_there_when_they_are_used():
    assert {name for name in flr.__all__ if getattr(flr, name) is None} == set()
    assert set(flr.__all__) <= set(dir(flr))
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        flr.rnu  # noqa: B018
