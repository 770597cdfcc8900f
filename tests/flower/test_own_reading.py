"""Whatever fails when a site reads its own, or a server another's folder, ends in plain words."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct import DirectGrid, run_config
from toys import TINY, settings

from flr.core.errors import DataError, RunError
from flr.flower import site_cache
from flr.flower.server import serve
from flr.simulation.api import Run

CLASSES = ",".join("0123456789")
OWN = {"classes": CLASSES, "min-sites": 2, "wait": 0.3}


def wards(folder: Path) -> dict[int, dict[str, Any]]:
    """Three sites with data of their own."""
    for number in range(3):
        draw = np.random.default_rng(number)
        x, y = draw.random((30, 8), dtype=np.float32), draw.integers(0, 10, 30)
        np.savez(folder / f"{number}.npz", x=x, y=y)
    return {
        k: {"site": f"ward-{k}", "data": f"{folder}/{k}.npz", "state-dir": f"{folder}/s{k}"}
        for k in range(3)
    }


@pytest.mark.parametrize(
    "error", [RuntimeError, MemoryError, RecursionError, UnicodeError, KeyError, DataError, OSError]
)
@pytest.mark.parametrize("at", ["stamp_of", "samples"])
def test_whatever_a_reader_raises_refuses_one_site(at, error, tmp_path, monkeypatch, caplog):
    real = getattr(site_cache, at)

    def fail(what: Any, *more: Any) -> Any:
        if "1.npz" in str(getattr(what, "path", what)):
            raise error("/secret/path")
        return real(what, *more)

    monkeypatch.setattr(site_cache, at, fail)
    config = settings("fedavg", train={"model": "mlp"})
    serve(DirectGrid(wards(tmp_path)), run_config(config, tmp_path / "run", **OWN))
    run = Run(tmp_path / "run")
    assert len(run.metrics) == TINY["rounds"]
    assert "ward-1" not in {c["site"] for c in run.clients}
    (told,) = [r.getMessage() for r in caplog.records if "Left out" in r.getMessage()]
    assert 'site "ward-1": its data cannot be used with the classes 0, 1' in told
    assert "/secret/path" not in told
    assert "/secret/path" in caplog.text


def test_data_that_change_into_nonsense_refuse_a_task_too(tmp_path, monkeypatch):
    nodes = wards(tmp_path)
    grid = DirectGrid(nodes)
    push = grid.push_messages

    def spoil(messages: Any) -> list[str]:
        held = list(messages)
        if held[0].metadata.message_type == "train":
            (tmp_path / "1.npz").write_bytes(b"PK\x03\x04" + bytes(500))
        return push(held)

    monkeypatch.setattr(grid, "push_messages", spoil)
    config = settings("fedavg", train={"model": "mlp", "participation": 1.0})
    serve(grid, run_config(config, tmp_path / "run", **OWN))
    reasons = {(c["site"], c["reason"][:24]) for c in Run(tmp_path / "run").clients}
    assert reasons == {("ward-0", ""), ("ward-2", ""), ("ward-1", "its data cannot be used ")}


@pytest.mark.parametrize("own", [{"size": "large"}, {"partition-id": "x"}])
def test_a_node_config_that_cannot_be_used_is_told_by_the_sites_name(own, tmp_path):
    nodes = wards(tmp_path)
    nodes[1] |= own
    config = run_config(settings("fedavg"), tmp_path / "run", **(OWN | {"min-sites": 3}))
    (key,) = own
    with pytest.raises(RunError, match=f'site "ward-1": its node config has no usable {key}'):
        serve(DirectGrid(nodes), config)


def test_a_scenarios_files_that_cannot_be_read_refuse_the_site(tmp_path, monkeypatch):
    real = site_cache.scenario
    calls = iter(range(1000))

    def fail(*args: Any) -> Any:
        if next(calls) == 1:
            raise EOFError("cut off")
        return real(*args)

    monkeypatch.setattr(site_cache, "scenario", fail)
    nodes = {k: {"partition-id": k, "state-dir": str(tmp_path)} for k in range(6)}
    with pytest.raises(RunError, match='site "site-1": the data set that the run deals out cannot'):
        serve(DirectGrid(nodes), run_config(settings("fedavg"), tmp_path / "run", wait=0.3))


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was stopped, with a network of its own, in the hands of another user."""
    (tmp_path / "theirs.py").write_text("from flr.models.networks import mlp as net")
    (tmp_path / "policy.toml").write_text('code = ["theirs:net"]')
    monkeypatch.syspath_prepend(str(tmp_path))
    grid = DirectGrid(of_the_scenario(tmp_path))
    push = grid.push_messages

    def stop(messages: Any) -> list[str]:
        if len(grid.messages) > 12:
            raise ConnectionError
        return push(messages)

    monkeypatch.setattr(grid, "push_messages", stop)
    config = settings("fedavg", train={"model": "theirs:net"})
    with pytest.raises(ConnectionError):
        serve(grid, run_config(config, tmp_path / "run"))
    del sys.modules["theirs"]
    return tmp_path / "run"


def of_the_scenario(folder: Path) -> dict[int, dict[str, Any]]:
    return {k: {"partition-id": k, "state-dir": str(folder)} for k in range(6)}


def test_a_folder_of_ones_own_is_resumed_without_a_word(stopped):
    again = {"flower.out": str(stopped), "flower.resume": True}
    serve(DirectGrid(of_the_scenario(stopped.parent)), again)
    assert len(Run(stopped).metrics) == TINY["rounds"]


def test_resume_imports_nothing_of_another_users_folder_unless_trusted(stopped, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(stopped.parent / "another"))
    again = {"flower.out": str(stopped), "flower.resume": True}
    with pytest.raises(DataError, match=r"flower\.trust=true"):
        serve(DirectGrid(of_the_scenario(stopped.parent)), again)
    assert "theirs" not in sys.modules
    serve(DirectGrid(of_the_scenario(stopped.parent)), again | {"flower.trust": True})
    assert len(Run(stopped).metrics) == TINY["rounds"]
