"""What a run is made from is made once."""

from __future__ import annotations

from typing import Any

import pytest
from direct import train_on_flower
from toys import TINY, settings, train

import flr
from flr.models import pretrained


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many networks were built each time that first ones were asked for."""
    counts: list[int] = []
    real = pretrained.first_networks

    def counted(*args: Any) -> Any:
        networks = real(*args)
        counts.append(len(networks))
        return networks

    monkeypatch.setattr(pretrained, "first_networks", counted)
    return counts


@pytest.mark.parametrize(("method", "networks"), [("flr", 1), ("coteaching", 2)])
def test_the_first_networks_are_built_once(method, networks, built, tmp_path):
    train(method, tmp_path / "run")
    flr.resume(tmp_path / "run")
    assert built == [networks] * 2


def test_the_server_on_flower_builds_them_once(built, tmp_path):
    sites = TINY["partition"]["clients"]
    train_on_flower(settings("coteaching", rounds=1), tmp_path / "run", tmp_path / "state", sites)
    assert built == [2]
