"""A process that gets many messages reads data and builds networks once, and uses no stale ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct import DirectGrid, run_config, train_on_flower
from toys import TINY, bits, settings, train

from flr.core.errors import RunError
from flr.flower import site_cache
from flr.flower.server import serve
from flr.simulation.api import Run

SITES = TINY["partition"]["clients"]
EVERYONE = {"train": {"participation": 1.0}}
OWN = {"classes": "a, b, c", "mean": "0", "std": "1", "wait": 0.5, "min-sites": 1}


@pytest.fixture(autouse=True)
def empty() -> None:
    for kept in (site_cache.scenario, site_cache.samples, site_cache._raw, site_cache.worker):
        kept.cache_clear()


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    return fill(tmp_path / "ward.npz", seed=1)


def fill(path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 1, 8, 8)).astype(np.float32).reshape(30, 64)
    np.savez(path, x=x, y=np.arange(30) % 3)
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that sites have read, in order."""
    seen: list[Path] = []
    real = site_cache.read_samples

    def counted(path: Path, *args: Any, **options: Any) -> Any:
        seen.append(path)
        return real(path, *args, **options)

    monkeypatch.setattr(site_cache, "read_samples", counted)
    return seen


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The workers that were built."""
    built: list[Any] = []
    real = site_cache.ClientWorker

    def counted(spec: Any) -> Any:
        built.append(real(spec))
        return built[-1]

    monkeypatch.setattr(site_cache, "ClientWorker", counted)
    return built


def one_site(ward: Path, tmp_path: Path) -> DirectGrid:
    own = {"site": "ward", "data": str(ward), "state-dir": str(tmp_path / "state")}
    return DirectGrid({7: own})


def experiment(method: str = "flr", **changes: Any) -> dict[str, Any]:
    plain = {"train": {"model": {"name": "mlp", "hidden": 8}, "participation": 1.0}}
    return settings(method, **plain, **changes)


def test_own_data_are_read_and_networks_built_once(ward, tmp_path, reads, workers):
    serve(one_site(ward, tmp_path), run_config(experiment(), tmp_path / "run", **OWN))
    assert len(Run(tmp_path / "run").metrics) == TINY["rounds"] > 1
    assert reads == [ward]
    assert len(workers) == 1


def test_simulated_sites_share_a_worker(tmp_path, workers):
    everyone = settings("flr", **EVERYONE)
    train_on_flower(everyone, tmp_path / "run", tmp_path / "state", SITES)
    assert len(workers) == 1
    assert bits(Run(tmp_path / "run")) == bits(train("flr", tmp_path / "here", **EVERYONE))


def test_changed_data_are_read_again(ward, tmp_path, reads):
    grid = one_site(ward, tmp_path)
    grid.nodes = {n: own | {"accept-new-data": True} for n, own in grid.nodes.items()}
    real = grid.get_node_ids

    def change_once() -> list[int]:
        rounds = {m.metadata.group_id for m in grid.messages if m.metadata.group_id}
        if len(rounds) == 2 and len(reads) == 1:
            before = ward.stat()
            fill(ward, seed=2)  # as many bytes as before
            assert ward.stat().st_size == before.st_size
            os.utime(ward, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        return list(real())

    grid.get_node_ids = change_once  # type: ignore[method-assign]
    serve(grid, run_config(experiment("fedavg"), tmp_path / "changed", **OWN))
    assert reads == [ward, ward]

    fill(ward, seed=1)
    serve(one_site(ward, tmp_path), run_config(experiment("fedavg"), tmp_path / "same", **OWN))
    assert bits(Run(tmp_path / "changed")) != bits(Run(tmp_path / "same"))


def test_a_folder_is_another_one_after_any_change(tmp_path):
    inner = tmp_path / "data" / "cat"
    inner.mkdir(parents=True)
    (inner / "1.png").write_bytes(b"one")
    stamps = [site_cache.stamp_of(tmp_path / "data")]
    (inner / "2.png").write_bytes(b"two")
    stamps.append(site_cache.stamp_of(tmp_path / "data"))
    (inner / "2.png").write_bytes(b"three")
    stamps.append(site_cache.stamp_of(tmp_path / "data"))
    (inner / "1.png").unlink()
    stamps.append(site_cache.stamp_of(tmp_path / "data"))
    assert len(set(stamps)) == len(stamps)
    assert site_cache.stamp_of(tmp_path / "nowhere") == ()


def test_another_run_config_gets_another_worker(tmp_path, workers):
    for width in (8, 9):
        changed = experiment(seed=3) | {"rounds": 1}
        changed["train"] = {**changed["train"], "model": {"name": "mlp", "hidden": width}}
        train_on_flower(changed, tmp_path / f"run-{width}", tmp_path / "state", SITES)
    assert len(workers) == 2


def test_a_task_that_failed_leaves_no_trace_in_the_next_one(tmp_path, monkeypatch, workers):
    from flr.client import worker

    real, failed = worker.run_task, []

    def fail_once(client: Any, task: str) -> Any:
        if client.id == 2 and not failed:
            failed.append(client)
            real(client, task)  # trained, with a frozen weight besides
            next(client.model.parameters()).requires_grad_(False)
            client.model.register_forward_hook(lambda *_: 1 / 0)
            raise RunError("Expected more. Mend it.")
        return real(client, task)

    monkeypatch.setattr(worker, "run_task", fail_once)
    everyone = settings("fedavg", **EVERYONE)
    train_on_flower(everyone, tmp_path / "run", tmp_path / "state", SITES)
    statuses = [(c["round"], c["site"]) for c in Run(tmp_path / "run").clients if c["reason"]]
    assert statuses == [(1, "site-2")]
    assert len(workers) == 2
