"""What somebody may put into an app: a loader, a model, mods; and a plain app of their own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from direct import DirectGrid, run_config
from flwr.app import Context, Message, RecordDict
from safetensors.torch import load_file
from toys import settings

from flr.core.errors import ConfigError
from flr.engine.federation import Transport
from flr.flower.apps import client_app
from flr.flower.check_app import check_app
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import rendered, write_app
from flr.flower.server import serve
from flr.simulation.api import Run

SITES = 3
OWN = {"classes": "cat, dog", "min-sites": SITES, "wait": 0.5}
TRAIN = {"participation": 1.0, "model": "mlp"}

MODEL = """
from torch import nn

def tiny(input_shape, classes, width=4):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, classes))
"""


def read_rows(path: Path) -> tuple[Any, Any]:
    """A format that flr does not know: numbers, then a word, separated by bars."""
    rows = [line.split("|") for line in path.read_text().splitlines()]
    return np.array([row[:-1] for row in rows], dtype="float64"), [row[-1] for row in rows]


@pytest.fixture
def wards(tmp_path: Path) -> dict[int, dict[str, Any]]:
    for number in range(SITES):
        draw = np.random.default_rng(number)
        lines = [f"{a}|{b}|{'cat' if a > b else 'dog'}" for a, b in draw.random((20, 2))]
        (tmp_path / f"{number}.rows").write_text("\n".join(lines))
    return {
        k: {"site": f"ward-{k}", "data": f"{tmp_path}/{k}.rows", "state-dir": f"{tmp_path}/s{k}"}
        for k in range(SITES)
    }


def test_an_apps_own_loader_reads_what_flr_cannot(wards, tmp_path: Path) -> None:
    config = settings("flr", rounds=2, train=TRAIN)
    serve(DirectGrid(wards, client_app(data=read_rows)), run_config(config, tmp_path / "r", **OWN))
    lines = Run(tmp_path / "r").clients
    assert {(line["status"], line["examples"]) for line in lines} == {("ok", 20)}
    assert {line["site"] for line in lines} == {"ward-0", "ward-1", "ward-2"}


def test_mods_stand_around_what_a_site_answers_inside_of_its_ledger(wards, tmp_path: Path) -> None:
    seen: list[str] = []

    def mod(message: Message, context: Context, call_next: Any) -> Message:
        seen.append(message.metadata.message_type)
        return call_next(message, context)

    app = client_app(data=read_rows, mods=[mod])
    serve(DirectGrid(wards, app), run_config(settings("fedavg", rounds=1, train=TRAIN),
                                             tmp_path / "r", **OWN))  # fmt: skip
    assert seen == ["query.hello"] * SITES + ["train"] * SITES


def test_mods_of_the_server_stand_around_what_asks_the_sites(wards, tmp_path: Path) -> None:
    @dataclass
    class NotTheFirst:
        inner: Transport

        def ask(self, *args: Any) -> Any:
            return self.inner.ask(*args)[1:]

        def name(self, client: int) -> str:
            return self.inner.name(client)

    config = run_config(settings("fedavg", rounds=1, train=TRAIN), tmp_path / "r", **OWN)
    serve(DirectGrid(wards, client_app(data=read_rows)), config, [NotTheFirst])
    assert Run(tmp_path / "r").metrics[0]["participants"] == [1, 2]


def test_check_sees_a_model_in_the_apps_own_package(tmp_path: Path) -> None:
    app = write_app(tmp_path / "own-wards")
    (app / "own_wards" / "model.py").write_text(MODEL)
    try:
        said = check_app(app, ['train.model="own_wards.model:tiny"', "partition.clients=3"])
        assert "3 simulated sites" in said
        with pytest.raises(ConfigError, match="own_wards"):
            check_app(app, ['train.model="own_wards.model:large"'])
        assert str(app) not in sys.path
    finally:
        for name in [n for n in sys.modules if n.startswith("own_wards")]:
            del sys.modules[name]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    app = write_app(tmp_path / "bare-wards", bare=True)
    monkeypatch.syspath_prepend(app)
    yield app
    for name in [n for n in sys.modules if n.startswith("bare_wards")]:
        del sys.modules[name]


class LosesOne(DirectGrid):
    """The answer of node 1 to the second round never comes."""

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Any:
        held = list(messages)
        found = self.pull_messages(self.push_messages(held))
        if not held or held[0].content.config_records["config"]["server-round"] != 2:
            return found
        return [m for m in found if m.metadata.src_node_id != 1]


def test_the_bare_app_goes_on_from_tables_whose_reply_has_counted(bare: Path, tmp_path: Path):
    client = importlib.import_module("bare_wards.client_app")
    server = importlib.import_module("bare_wards.server_app")
    begun: list[bool] = []
    real = client.flr.LabelMixture.load_tables

    def spy(own: Any, tables: Any) -> None:
        begun.append(bool(tables["seen"].all()))
        real(own, tables)

    state, out, rounds = tmp_path / "state", tmp_path / "model.safetensors", 3
    nodes = {
        k: {"partition-id": k, "num-partitions": SITES, "state-dir": str(state)}
        for k in range(SITES)
    }
    grid = LosesOne(nodes, client.app)
    config = {"rounds": rounds, "sites": SITES, "lam": 2.0, "out": str(out)}
    client.flr.LabelMixture.load_tables = spy
    try:
        server.app(grid, Context(1, 0, {}, RecordDict(), config))
    finally:
        client.flr.LabelMixture.load_tables = real
    configs = [(m.metadata.dst_node_id, m.content["config"]) for m in grid.messages]
    told = {(node, own["server-round"]): own["accepted"] for node, own in configs}
    assert [told[0, r] for r in (1, 2, 3)] == [0, 1, 2]
    assert [told[1, r] for r in (1, 2, 3)] == [0, 1, 1]
    kept = {k: sorted(p.stem for p in state.glob(f"*/{k}/*.safetensors")) for k in range(SITES)}
    assert kept == {0: ["2", "3"], 1: ["1", "3"], 2: ["2", "3"]}
    assert begun == [True] * 2 * SITES
    assert all(torch.isfinite(value).all() for value in load_file(out).values())


def test_the_bare_app_is_small_and_complete(bare: Path) -> None:
    names = {place.as_posix() for place, _ in rendered("bare-wards", "bare_wards", bare=True)}
    assert {"LICENSE", ".gitignore", "README.md", "pyproject.toml"} <= names
    code = [line for path in (bare / "bare_wards").glob("*.py") for line in path.open()]
    assert sum(bool(line.strip()) for line in code) < 120


@pytest.mark.full
def test_the_bare_app_runs_on_a_superlink(bare: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    with Loopback(tmp_path / "federation") as federation:
        for number in range(SITES):
            own = {"partition-id": number, "num-partitions": SITES, "state-dir": str(tmp_path)}
            federation.add_node(f"ward-{number}", own)
        federation.wait_for_nodes()
        run = federation.run(bare, {"rounds": 2, "out": str(out)})
        assert federation.wait(run, 600) == "finished:completed", federation.run_log(run)
    assert out.exists()
