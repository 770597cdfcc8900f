"""A real SuperLink and three SuperNodes on this machine: the same bits as in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toys import bits

import flr
from flr.flower.local.loopback import Loopback
from flr.flower.new_app import write_app
from flr.simulation.api import Run

SITES = 3
ROUNDS = {"flr": 3, "flr+": 3, "coteaching": 2, "feddyn": 2}


def settings(method: str, rounds: int) -> dict[str, Any]:
    """Small enough that starting processes is what takes the time."""
    several = {"name": method, "iterations": 1} if method == "flr+" else method
    return {
        "seed": 3,
        "rounds": rounds,
        "method": several,
        "data": {"name": "digits", "train": 180, "test": 60},
        "partition": {"kind": "iid", "clients": SITES},
        "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
        "train": {"model": "mlp", "participation": 1.0, "epochs": 1, "batch": 10},
    }


def flat(config: dict[str, Any], out: Path) -> dict[str, str | int | float | bool]:
    """The same as the generated app's run config: what it has no key for goes into `set`."""
    method, data, noise = config["method"], config["data"], config["noise"]
    more = [f"data.train={data['train']}", f"data.test={data['test']}"]
    more += [f"noise.{key}={noise[key]}" for key in ("clients", "floor")]
    if isinstance(method, dict):
        more.append(f"method.iterations={method['iterations']}")
        method = method["name"]
    return {
        "seed": config["seed"],
        "rounds": config["rounds"],
        "method": method,
        "set": "; ".join(more),
        "partition.clients": SITES,
        "train.participation": 1.0,
        "train.epochs": 1,
        "flower.out": str(out),
        "flower.wait": 300.0,
    }


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_app(tmp_path_factory.mktemp("app") / "three-wards")


def started(folder: Path, *, secure: bool) -> Loopback:
    federation = Loopback(folder, secure=secure)
    try:
        federation.start()
        for number in range(SITES):
            state = str(folder / f"state-{number}")
            federation.add_node(f"ward-{number}", {"partition-id": number, "state-dir": state})
        federation.wait_for_nodes()
    except BaseException:
        federation.close()
        raise
    return federation


def train(federation: Loopback, app: Path, config: dict[str, Any], out: Path) -> Run:
    number = federation.run(app, flat(config, out))
    status = federation.wait(number, timeout=900)
    assert status == "finished:completed", federation.run_log(number).read_text()
    return Run(out)


def test_a_federation_gives_the_bits_of_one_machine(app, tmp_path):
    federation = started(tmp_path / "plain", secure=False)  # one for all: starting it takes long
    try:
        for method, rounds in ROUNDS.items():
            config = settings(method, rounds)
            there = train(federation, app, config, tmp_path / f"there-{method}")
            here = flr.run({**config, "workers": 1}, out=tmp_path / f"here-{method}")
            for key in ("participants", "accuracy"):
                assert [m[key] for m in there.metrics] == [m[key] for m in here.metrics], method
            assert bits(there) == bits(here), method
    finally:
        federation.close()


def test_with_tls_and_node_keys_too_and_no_other_key_gets_in(app, tmp_path):
    federation = started(tmp_path / "secure", secure=True)
    try:
        stranger = federation.add_node("stranger", {"partition-id": 0}, registered=False)
        config = settings("flr", 2)
        there = train(federation, app, config, tmp_path / "there")
        assert not stranger.wait_for_answer()
        assert stranger.refused
    finally:
        federation.close()
    assert bits(there) == bits(flr.run({**config, "workers": 1}, out=tmp_path / "here"))
    bound = json.loads((tmp_path / "there" / "federation.json").read_text())["keys"]
    assert len(bound) == len(set(bound.values())) == SITES, "by itself, because there is TLS"
