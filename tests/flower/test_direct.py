"""The server and the sites of a run on Flower, with its real messages and without its network."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from direct import DirectGrid, run_config, train_on_flower
from flwr.app import Message
from flwr.proto.node_pb2 import NodeInfo
from toys import TINY, bits, settings, train

from flr import config
from flr.aggregate.claims import capped
from flr.core import arrays, registry
from flr.core.errors import ConfigError, DataError, RunError
from flr.data.sources.files import read_samples
from flr.flower import handshake, site_cache, wire
from flr.flower import node as nodes
from flr.flower.handshake import in_order
from flr.flower.server import serve
from flr.simulation.api import Run
from flr.simulation.build import load_data, load_scenario

SITES = TINY["partition"]["clients"]
AGGREGATORS = [entry.name for entry in registry.entries("aggregator").values()]
DIGITS = ", ".join(str(digit) for digit in range(10))
OWN = {"classes": DIGITS, "mean": "0", "std": "16", "wait": 0.5}


@pytest.fixture
def site_files(tmp_path: Path) -> dict[str, Path]:
    """What the sites of the tiny federation hold, as a file at each of them."""
    settled = config.parse(settings("flr"))
    dataset = load_data(settled)
    scenario = load_scenario(settled, dataset)
    files = {}
    for number, (rows, given) in enumerate(zip(scenario.sites, scenario.given, strict=True)):
        path = tmp_path / f"ward-{number}.npz"
        np.savez(path, x=dataset.train.x[rows].numpy(), y=given.numpy())
        files[f"ward-{number}"] = path
    np.savez(tmp_path / "test.npz", x=dataset.test.x.numpy(), y=dataset.test.y.numpy())
    return files


def own_nodes(files: dict[str, Path], state: Path, **changes: Any) -> dict[int, dict[str, Any]]:
    return {
        100 + k: {"site": site, "data": str(path), "state-dir": str(state), **changes}
        for k, (site, path) in enumerate(files.items())
    }


class Failing(DirectGrid):
    """Does something else when the n-th task goes out."""

    def __init__(self, nodes: Any, at: int, act: Callable[[Failing], None]) -> None:
        super().__init__(nodes)
        self.at, self.act, self.tasks = at, act, 0

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        if held and held[0].metadata.message_type == "train":
            self.tasks += 1
            if self.tasks == self.at:
                self.act(self)
        return super().push_messages(held)


def scenario_nodes(state: Path, first: int = 1) -> dict[int, dict[str, Any]]:
    return {first + k: {"partition-id": k, "state-dir": str(state)} for k in range(SITES)}


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_every_aggregator_gives_the_same_bits(aggregator, tmp_path):
    changed = settings("fedavg", aggregate=aggregator, train={"participation": 1.0})
    train_on_flower(changed, tmp_path / "flower", tmp_path / "state", SITES)
    here = train("fedavg", tmp_path / "here", aggregate=aggregator, train={"participation": 1.0})
    assert bits(Run(tmp_path / "flower")) == bits(here)


def test_sites_with_files_of_their_own_give_the_same_bits(site_files, tmp_path):
    grid = DirectGrid(own_nodes(site_files, tmp_path / "state"))
    out, test = tmp_path / "flower", str(tmp_path / "test.npz")
    own = OWN | {"min-sites": SITES, "test": test}
    serve(grid, run_config(settings("flr"), out, **own))
    here = train("flr", tmp_path / "here")
    ours, theirs = (arrays.load(run / "model.safetensors")[0] for run in (here.folder, out))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert [m["accuracy"] for m in Run(out).metrics] == [m["accuracy"] for m in here.metrics]
    assert {line["site"] for line in Run(out).clients} <= site_files.keys()
    text = str(next(m for m in grid.messages if m.metadata.message_type == "train").content)
    assert str(tmp_path) not in text  # the server's paths are its own


def test_a_stopped_server_goes_on_with_the_round_it_had(tmp_path):
    def crash(grid: Failing) -> None:
        raise ConnectionError("the SuperLink is gone")

    out, state = tmp_path / "run", tmp_path / "state"
    with pytest.raises(ConnectionError):
        serve(Failing(scenario_nodes(state), 3, crash), run_config(settings("flr"), out))
    rounds = len(Run(out).metrics)
    serve(
        DirectGrid(scenario_nodes(state, first=50)), {"flower.out": str(out), "flower.resume": True}
    )
    assert rounds == 2
    assert [m["round"] for m in Run(out).metrics] == list(range(1, TINY["rounds"] + 1))
    assert bits(Run(out)) == bits(train("flr", tmp_path / "here"))


def test_nodes_that_restart_under_new_ids_go_on_with_their_state(tmp_path):
    state, out = tmp_path / "state", tmp_path / "run"
    old, new = scenario_nodes(state), scenario_nodes(state, first=500)
    grid = DirectGrid(old)

    def present() -> list[int]:
        rounds = {m.metadata.group_id for m in grid.messages if m.metadata.group_id}
        grid.nodes = new if len(rounds) >= 2 else old
        return list(grid.nodes)

    grid.get_node_ids = present  # type: ignore[method-assign]
    serve(grid, run_config(settings("flr"), out))
    assert min(grid.nodes) == 500
    assert bits(Run(out)) == bits(train("flr", tmp_path / "here"))


def test_a_node_that_is_gone_is_dropped_and_the_run_goes_on(tmp_path):
    grid = DirectGrid(scenario_nodes(tmp_path / "state"))
    real = grid.get_node_ids

    def some() -> list[int]:
        done = len([m for m in grid.messages if m.metadata.message_type == "train"])
        return [n for n in real() if n != 2 or done < 6]

    grid.get_node_ids = some  # type: ignore[method-assign]
    everyone = settings("flr", train={"participation": 1.0})
    serve(grid, run_config(everyone, tmp_path / "run"))
    dropped = {(m["round"], tuple(m["dropped"])) for m in Run(tmp_path / "run").metrics}
    assert dropped == {(1, ()), (2, (1,)), (3, (1,)), (4, (1,))}


def test_a_site_keeps_only_the_versions_that_a_checkpoint_needs(tmp_path):
    everyone = settings("flr", rounds=6, train={"participation": 1.0})
    train_on_flower(everyone, tmp_path / "run", tmp_path / "state", SITES)
    folders = [path for path in (tmp_path / "state").glob("*/*/*") if path.is_dir()]
    kept = [sorted(path.stem for path in folder.glob("*.safetensors")) for folder in folders]
    assert len(kept) == SITES
    assert max(map(len, kept)) <= 3
    assert kept == [sorted(path.stem for path in folder.glob("*.sha256")) for folder in folders]


def test_a_site_that_lost_its_state_is_named(tmp_path):
    def lose(grid: Failing) -> None:
        for path in (tmp_path / "state").glob("*/site-1/*/*"):
            path.unlink()

    everyone = settings("flr", train={"participation": 1.0})
    serve(
        Failing(scenario_nodes(tmp_path / "state"), 3, lose),
        run_config(everyone, tmp_path / "run"),
    )
    lost = [c for c in Run(tmp_path / "run").clients if c["status"] == "refused"]
    assert {c["site"] for c in lost} == {"site-1"}
    assert "state-dir" in lost[0]["reason"]


def test_a_site_whose_state_has_rotted_is_named(tmp_path):
    def rot(grid: Failing) -> None:
        for path in (tmp_path / "state").glob("*/site-1/*/*.safetensors"):
            content = bytearray(path.read_bytes())
            content[-3] ^= 1
            path.write_bytes(content)

    everyone = settings("flr", train={"participation": 1.0})
    serve(
        Failing(scenario_nodes(tmp_path / "state"), 3, rot),
        run_config(everyone, tmp_path / "run"),
    )
    lost = [c for c in Run(tmp_path / "run").clients if c["status"] == "refused"]
    assert {c["site"] for c in lost} == {"site-1"}
    assert "gone or damaged" in lost[0]["reason"]


def spoil(files: dict[str, Path], changes: dict[int, dict[str, Any]], state: Path) -> DirectGrid:
    nodes = own_nodes(files, state)
    for number, change in changes.items():
        nodes[100 + number] |= change
    return DirectGrid(nodes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": "a, b"}, ["class list is a, b", "leave it out"]),
        ({"data": "/nowhere/at/all.npz"}, ["no data", "node config"]),
        ({"data": "{tmp}/wide.npz"}, ["shape (1, 9, 9)", "takes (1, 8, 8)", "alike"]),
        ({"data": "{tmp}/names.npz"}, ["cannot be used with the classes", "is in its log"]),
        ({"site": "../ward"}, ["site name", "--node-config"]),
    ],
    ids=["classes", "nothing", "shape", "labels", "name"],
)
def test_a_site_that_does_not_fit_is_refused_by_name(change, words, site_files, tmp_path):
    np.savez(tmp_path / "wide.npz", x=np.zeros((4, 9, 9), np.uint8), y=np.arange(4))
    np.savez(tmp_path / "names.npz", x=np.zeros((4, 8, 8), np.uint8), y=np.array(["cat"] * 4))
    change = {key: value.format(tmp=tmp_path) for key, value in change.items()}
    grid = spoil(site_files, {2: change}, tmp_path / "state")
    own = OWN | {"min-sites": SITES}
    with pytest.raises(RunError) as caught:
        serve(grid, run_config(settings("flr"), tmp_path / "run", **own))
    said = str(caught.value)
    assert f"{SITES} sites" in said
    assert all(word in said for word in words), said
    assert ("node 102" if "site" in change else 'site "ward-2"') in said
    assert str(tmp_path) not in said  # nothing of a site's own paths leaves it

    own["min-sites"] = SITES - 1  # the others can do without it
    serve(spoil(site_files, {2: change}, tmp_path / "state"),
          run_config(settings("flr"), tmp_path / "fewer", **own))  # fmt: skip
    assert "ward-2" not in json.loads((tmp_path / "fewer" / "federation.json").read_text())["sites"]


def test_a_misfit_is_named_at_once_not_when_the_time_is_up(site_files, tmp_path, caplog):
    np.savez(tmp_path / "wide.npz", x=np.zeros((4, 9, 9), np.uint8), y=np.arange(4))
    grid = spoil(site_files, {2: {"data": str(tmp_path / "wide.npz")}}, tmp_path / "state")
    with pytest.raises(RunError):
        serve(grid, run_config(settings("flr"), tmp_path / "run", **OWN | {"min-sites": SITES}))
    said = [record.getMessage() for record in caplog.records if record.name == "flr"]
    misfit = next(i for i, text in enumerate(said) if 'site "ward-2" does not fit' in text)
    assert misfit < next(i for i, text in enumerate(said) if text.startswith("Left out"))
    assert sum('"ward-2" does not fit' in text for text in said) == 1
    assert any(text.startswith(f"There: {SITES - 1} of {SITES} (ward-0") for text in said)


def test_a_site_refuses_a_message_of_another_version(site_files, tmp_path, monkeypatch):
    grid = DirectGrid(own_nodes(site_files, tmp_path / "state"))
    real = grid.push_messages

    def as_of_tomorrow(messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        for message in held:
            message.content.config_records["note"]["schema"] = wire.SCHEMA + 1
        return real(held)

    monkeypatch.setattr(grid, "push_messages", as_of_tomorrow)
    with pytest.raises(RunError, match='site "ward-0": Expected a message of version 1; got ver'):
        serve(grid, run_config(settings("flr"), tmp_path / "run", **OWN, **{"min-sites": SITES}))


def test_a_reply_of_another_shape_is_refused_by_name(tmp_path, monkeypatch):
    real = nodes.execute

    def cut(node: Any, *args: Any) -> Any:
        found = real(node, *args)
        if node.site == "site-1":
            sent = found.reply.arrays
            name = next(n for n in sent if n.endswith("4.weight"))
            sent[name] = sent[name][:5]
        return found

    monkeypatch.setattr(nodes, "execute", cut)
    everyone = settings("flr", train={"participation": 1.0})
    train_on_flower(everyone, tmp_path / "run", tmp_path / "state", SITES)
    refused = {c["site"]: c["reason"] for c in Run(tmp_path / "run").clients if c["reason"]}
    assert refused.keys() == {"site-1"}
    assert "has shape (5, 12), expected (10, 12)" in refused["site-1"]


def test_weights_that_do_not_fit_the_sites_model_are_refused_there(tmp_path, monkeypatch):
    real = nodes.execute

    def other(own: Any, run_spec: Any, *args: Any) -> Any:
        if own.site == "site-3":
            wider = {**run_spec.tree["train"], "model": {"name": "toys:batchnorm_net", "width": 20}}
            run_spec = replace(run_spec, tree={**run_spec.tree, "train": wider})
        return real(own, run_spec, *args)

    monkeypatch.setattr(nodes, "execute", other)
    everyone = settings("flr", train={"participation": 1.0})
    train_on_flower(everyone, tmp_path / "run", tmp_path / "state", SITES)
    reasons = {c["site"]: c["reason"] for c in Run(tmp_path / "run").clients if c["reason"]}
    assert reasons.keys() == {"site-3"}
    assert "do not fit its model" in reasons["site-3"]


class Twins(DirectGrid):
    """Once training has begun, node 900 says that it is a site that is there; later that leaves."""

    def __init__(self, state: Path, *, leaves: int = 99) -> None:
        twin = {900: {"partition-id": 1, "state-dir": str(state / "other")}}
        super().__init__(scenario_nodes(state) | twin)
        self.leaves = leaves

    def get_nodes(self) -> list[NodeInfo]:
        step = len({m.metadata.group_id for m in self.messages if m.metadata.group_id})
        there = [n for n in self.nodes if step >= (1 if n == 900 else 0)]
        there = [n for n in there if n != 2 or step < self.leaves]
        return [NodeInfo(node_id=n, public_key=b"key of %d" % n) for n in there]

    def asked(self) -> list[list[int]]:
        """The nodes that were asked, by step."""
        steps: dict[str, list[int]] = {}
        for message in self.messages:
            if message.metadata.message_type == "train":
                steps.setdefault(message.metadata.group_id, []).append(message.metadata.dst_node_id)
        return list(steps.values())


@pytest.mark.parametrize("keys", [False, True])
def test_a_second_node_with_the_name_of_a_healthy_one_is_refused(keys, tmp_path, caplog):
    grid = Twins(tmp_path / "state")
    everyone = settings("fedavg", train={"participation": 1.0})
    serve(grid, run_config(everyone, tmp_path / "run", **{"node-keys": keys}))
    assert [900 in step for step in grid.asked()] == [False] * TINY["rounds"]
    assert all(2 in step for step in grid.asked())
    assert 'site "site-1" is there already, as node 2' in caplog.text


def test_a_name_is_free_when_its_node_has_gone_unless_it_is_bound_to_a_key(tmp_path, caplog):
    for bound in (False, True):
        grid = Twins(tmp_path / f"state-{bound}", leaves=2)
        everyone = settings("fedavg", train={"participation": 1.0})
        serve(grid, run_config(everyone, tmp_path / f"run-{bound}", **{"node-keys": bound}))
        assert [900 in step for step in grid.asked()][2:] == [not bound] * (TINY["rounds"] - 2)
    assert 'site "site-1" belongs to a node with another key' in caplog.text


def test_with_tls_names_are_bound_to_keys_and_to_the_names_of_registration(
    site_files, tmp_path, caplog
):
    grid = DirectGrid(own_nodes(site_files, tmp_path / "state"))
    grid._insecure = False  # type: ignore[attr-defined]  # as Flower's own says it
    names = {node: own["site"] for node, own in grid.nodes.items()} | {102: "ward-77"}
    grid.get_nodes = lambda: [  # type: ignore[method-assign]
        NodeInfo(node_id=node, public_key=b"key of %d" % node, name=name)
        for node, name in names.items()
    ]
    own = OWN | {"min-sites": SITES - 1}
    serve(grid, run_config(settings("flr"), tmp_path / "run", **own))
    record = json.loads((tmp_path / "run" / "federation.json").read_text())
    assert sorted(record["keys"]) == sorted(site_files.keys() - {"ward-2"})
    assert 'it says that it is site "ward-2", and was registered as "ward-77"' in caplog.text


def test_an_order_of_before_a_resume_is_refused(tmp_path):
    def crash(grid: Failing) -> None:
        raise ConnectionError("the SuperLink is gone")

    out, state = tmp_path / "run", tmp_path / "state"
    everyone = settings("flr", train={"participation": 1.0})
    first = Failing(scenario_nodes(state), 3, crash)
    with pytest.raises(ConnectionError):
        serve(first, run_config(everyone, out))
    serve(
        DirectGrid(scenario_nodes(state, first=50)),
        {"flower.out": str(out), "flower.resume": True},
    )
    before = {path: path.read_bytes() for path in state.rglob("*.safetensors")}
    late = [m for m in first.messages if m.metadata.group_id == "1"]
    for number in first.push_messages(late):
        said, _ = wire.read(first.replies.pop(number).content)
        assert "resumed since" in said["problem"]
    assert len(late) == SITES
    assert {path: path.read_bytes() for path in state.rglob("*.safetensors")} == before


def altered(grid: DirectGrid, change: Callable[[str, dict[str, Any]], None]) -> DirectGrid:
    """Answers as a broken or hostile site would give them."""
    real = grid.pull_messages

    def pull(numbers: Iterable[str]) -> list[Message]:
        replies = real(numbers)
        for reply in replies:
            record = reply.content.config_records["note"]
            note = json.loads(record["json"])
            change(note.get("site", ""), note)
            record["json"] = json.dumps(note)
        return replies

    grid.pull_messages = pull  # type: ignore[method-assign]
    return grid


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"examples": 10**15}, "began with 21 samples and now has 1000000000000000"),
        ({"examples": -21}, "began with 21 samples and now has -21"),
        ({"site": "site-4"}, "another one now"),
        ({"seconds": None}, "seconds that no site of flr says"),
    ],
    ids=str,
)
def test_a_reply_that_is_not_the_sites_own_is_refused(change, words, tmp_path):
    def spoil_replies(site: str, note: dict[str, Any]) -> None:
        if site == "site-2" and "stateful" in note:
            note.update(change)

    everyone = settings("fedavg", train={"participation": 1.0})
    grid = altered(DirectGrid(scenario_nodes(tmp_path / "state")), spoil_replies)
    serve(grid, run_config(everyone, tmp_path / "run"))
    refused = [c for c in Run(tmp_path / "run").clients if c["status"] == "refused"]
    assert {c["site"] for c in refused} == {"site-2"}
    assert all(words in c["reason"] for c in refused)


@pytest.mark.parametrize(
    "change", [{"examples": None}, {"shape": "wide"}, {"dtype": "pickle"}, {"site": "a\nflr: b"}]
)
def test_a_site_that_says_nonsense_at_the_roll_call_is_left_out(change, site_files, tmp_path):
    def spoil_hello(site: str, note: dict[str, Any]) -> None:
        if site == "ward-2" and "shape" in note:
            note.update(change)

    grid = altered(DirectGrid(own_nodes(site_files, tmp_path / "state")), spoil_hello)
    own = OWN | {"min-sites": SITES - 1}
    serve(grid, run_config(settings("fedavg"), tmp_path / "run", **own))
    sites = json.loads((tmp_path / "run" / "federation.json").read_text())["sites"]
    assert len(sites) == SITES - 1
    assert "ward-2" not in sites


def test_a_member_that_comes_back_with_other_data_is_left_out(site_files, tmp_path):
    grid = DirectGrid(own_nodes(site_files, tmp_path / "state"))
    real = grid.get_node_ids

    def some() -> list[int]:  # ward-1 restarts after the second round, under the same node id
        rounds = {m.metadata.group_id for m in grid.messages if m.metadata.group_id}
        if len(rounds) == 2 and "gone" not in grid.nodes[101]:
            held = np.load(site_files["ward-1"])
            np.savez(site_files["ward-1"], x=held["x"][:5], y=held["y"][:5])
            grid.nodes[101]["gone"] = 1
            return [n for n in real() if n != 101]
        return list(real())

    grid.get_node_ids = some  # type: ignore[method-assign]
    everyone = settings("fedavg", rounds=5, train={"participation": 1.0})
    serve(grid, run_config(everyone, tmp_path / "run", **OWN, **{"min-sites": SITES}))
    theirs = [c for c in Run(tmp_path / "run").clients if c["site"] == "ward-1"]
    assert [c["status"] for c in theirs][:2] == ["ok", "ok"]
    assert {c["status"] for c in theirs[3:]} == {"refused"}


def test_all_nodes_that_are_there_take_part_not_only_the_quickest(site_files, tmp_path):
    grid = DirectGrid(own_nodes(site_files, tmp_path / "state"))
    real = grid.pull_messages
    grid.pull_messages = lambda numbers: real(list(numbers)[:1])  # type: ignore[method-assign]
    serve(
        grid,
        run_config(settings("fedavg"), tmp_path / "run", **OWN | {"wait": 60}, **{"min-sites": 2}),
    )
    record = json.loads((tmp_path / "run" / "federation.json").read_text())
    assert record["sites"] == sorted(site_files)


def test_a_node_that_was_left_out_is_asked_again(site_files, tmp_path, monkeypatch):
    monkeypatch.setattr(handshake, "AGAIN", 0.3)
    hidden = site_files["ward-3"].rename(tmp_path / "elsewhere.npz")
    grid = DirectGrid(own_nodes(site_files, tmp_path / "state"))
    real, calls = grid.get_node_ids, []

    def mend() -> list[int]:
        calls.append(1)
        if len(calls) == 3:
            hidden.rename(site_files["ward-3"])
        return list(real())

    grid.get_node_ids = mend  # type: ignore[method-assign]
    own = OWN | {"wait": 60, "min-sites": SITES}
    serve(grid, run_config(settings("fedavg"), tmp_path / "run", **own))
    assert len(Run(tmp_path / "run").metrics) == TINY["rounds"]


def test_supervised_methods_get_the_servers_clean_samples(site_files, tmp_path):
    own = OWN | {"min-sites": SITES, "benchmark": str(tmp_path / "test.npz")}
    for method in ("focus", "tuor"):
        grid = DirectGrid(own_nodes(site_files, tmp_path / method))
        serve(grid, run_config(settings(method), tmp_path / f"run-{method}", **own))
        clients = Run(tmp_path / f"run-{method}").clients
        assert {c["status"] for c in clients} == {"ok"}, {c["reason"] for c in clients}


def test_an_order_cannot_name_files_of_its_own(tmp_path):
    grid = DirectGrid(scenario_nodes(tmp_path / "state"))
    real = grid.push_messages

    def hostile(messages: Iterable[Message]) -> list[str]:
        held = list(messages)
        for message in held:
            record = message.content.config_records["note"]
            note = json.loads(str(record["json"]))
            if "order" in note:
                note["order"]["client"] = "../../../evil"
                record["json"] = json.dumps(note)
        return real(held)

    grid.push_messages = hostile  # type: ignore[method-assign]
    with pytest.raises(RunError, match="not one that flr gives"):
        serve(grid, run_config(settings("flr"), tmp_path / "run"))
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state_dir": "/x"}, "is 'state-dir' meant?"),
        ({"lable": "kind"}, "is 'label' meant?"),
        ({"site": "site-0"}, "Leave `site` out"),
    ],
    ids=str,
)
def test_slips_in_a_node_config_are_named(change, words, tmp_path):
    nodes_ = scenario_nodes(tmp_path / "state")
    nodes_[2] |= change
    with pytest.raises(RunError) as caught:
        serve(DirectGrid(nodes_), run_config(settings("flr"), tmp_path / "run", wait=0.5))
    assert words in str(caught.value)


def test_what_a_site_says_when_it_fails_names_no_file(tmp_path, monkeypatch):
    def broken(*_: Any) -> Any:
        raise ConfigError("[train] model: '/home/alice/patients-2024.csv' is not there.")

    monkeypatch.setattr(site_cache, "worker", broken)
    with pytest.raises(RunError) as caught:
        serve(
            DirectGrid(scenario_nodes(tmp_path / "s")), run_config(settings("flr"), tmp_path / "r")
        )
    assert "cannot be used there" in str(caught.value)
    assert "alice" not in str(caught.value)


def test_numbers_as_class_names_mean_the_same_in_every_format(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(3, dtype=np.float32), y=np.array([1, 2, 3]))
    (tmp_path / "a.csv").write_text("u,v,w,label\n1,0,0,1\n0,1,0,2\n0,0,1,3\n")
    found = [read_samples(tmp_path / name, ("1", "2", "3"))[1] for name in ("a.npz", "a.csv")]
    assert found[0].tolist() == found[1].tolist() == [0, 1, 2]


def test_mistakes_cost_no_node_a_message(tmp_path):
    grid = DirectGrid(scenario_nodes(tmp_path / "state"))
    wrong = run_config(settings("flr", drop=0.5), tmp_path / "run")
    with pytest.raises(ConfigError, match="drop is for simulated clients"):
        serve(grid, wrong)
    with pytest.raises(
        ConfigError, match=r'flower\.min-sits is not known\. Did you mean "min-sites"'
    ):
        serve(grid, run_config(settings("flr"), tmp_path / "run", **{"min-sits": 2}))
    with pytest.raises(ConfigError, match="needs clean samples"):
        serve(grid, run_config(settings("focus"), tmp_path / "run", **OWN, **{"min-sites": 2}))
    with pytest.raises(DataError, match="run that has begun"):
        serve(grid, {"flower.resume": True, "flower.out": str(tmp_path / "none")})
    for change, words in (
        ({"std": "0"}, "std more than 0"),
        ({"classes": "a, b, a", "min-sites": 2}, "each class once"),
        ({"min-sites": 200}, "the scenario has 6 sites"),
        ({"mean": "many"}, "flower.mean"),
    ):
        with pytest.raises(ConfigError, match=words):
            serve(grid, run_config(settings("flr"), tmp_path / "run", **change))
    assert not grid.messages
    assert not (tmp_path / "run").exists()


def test_sites_are_ordered_as_people_count():
    names = ["site-10", "site-9", "Ward", "site-1", "ward 2b", "ward 2", "7"]
    assert in_order(names) == ["7", "Ward", "site-1", "site-9", "site-10", "ward 2", "ward 2b"]


def test_arrays_cross_the_wire_unchanged():
    sent = {
        "model.0.weight": torch.randn(3, 2),
        "model.0.counter": torch.tensor(7),
        "bytes": torch.arange(4, dtype=torch.uint8),
        "flags": torch.tensor([True, False]),
        "half": torch.randn(2).half(),
        "none": torch.empty(0, 5),
    }
    _, came = wire.read(wire.write({}, sent))
    assert sorted(came) == sorted(sent)
    for name, value in sent.items():
        assert came[name].dtype == value.dtype
        assert torch.equal(came[name], value)
        came[name].zero_()  # owns its memory
    with pytest.raises(RunError, match="bfloat16"):
        wire.write({}, {"x": torch.zeros(1).bfloat16()})


def test_the_core_does_not_import_flower():
    look = "import sys, flr, flr.cli.main, flr.study.runner; sys.exit('flwr' in sys.modules)"
    subprocess.run([sys.executable, "-c", look], check=True)


@pytest.mark.parametrize(
    ("claimed", "counted"),
    [
        ((5, 5, 5), (5, 5, 5)),
        ((10**9, 1, 1), (10**9, 1, 1)),
        ((20, 21, 19, 22), (20, 21, 19, 22)),
        ((10**9, 20, 20, 20), (30, 20, 20, 20)),
        ((10**9, 10**9, 20, 20), (40, 40, 20, 20)),
        ((10**9, 10**8, 10**7, 1), (10**7 + 1, 10**7 + 1, 10**7, 1)),
        ((5, 0, 0, 0), (1, 0, 0, 0)),
    ],
)
def test_no_site_counts_for_more_than_a_third(claimed, counted):
    assert capped(claimed) == counted


@pytest.mark.parametrize("claim", [10**9, 10**9 + 1, 10**400])
def test_a_site_cannot_own_the_mean_by_what_it_claims(claim, site_files, tmp_path, caplog):
    def boast(site: str, note: dict[str, Any]) -> None:
        if site == "ward-2":
            note["examples"] = claim

    grid = altered(DirectGrid(own_nodes(site_files, tmp_path / "state")), boast)
    own = OWN | {"min-sites": SITES - 1}
    everyone = settings("fedavg", train={"participation": 1.0})
    serve(grid, run_config(everyone, tmp_path / "run", **own))
    run = Run(tmp_path / "run")
    sizes = {c["site"]: c["examples"] for c in run.clients}
    assert len(run.metrics) == TINY["rounds"]
    if claim <= 10**9:
        assert sizes["ward-2"] <= sum(sizes.values()) / 3
        assert 'site "ward-2" says that it has 1000000000' in caplog.text
        assert "unweighted" in caplog.text
    else:
        assert "ward-2" not in sizes
        assert 'site "ward-2": it answers with examples that no site of flr says' in caplog.text
