"""The clauses of the contract: what every method promises, each as a check that can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from direct import train_on_flower
from torch import Tensor, nn
from toys import ROUNDS, TINY, bits, settings, train, train_until, train_until_killed

import flr
from flr import config
from flr.client import worker
from flr.client.state import StateFiles
from flr.core import arrays
from flr.core.arrays import nbytes
from flr.core.combine import parts_of
from flr.core.contract import MODEL, Client, Method
from flr.core.traits import Declared, by_name
from flr.engine import checkpoint
from flr.report.describe import array_bytes, message_bytes
from flr.scenario.truth import Truth
from flr.simulation import api
from flr.simulation.api import Run

# at a site of the tiny federation
WORDS = {"classes": 10, "samples": 21, "features": 12, "parameters": 934, "weights": 959}

OTHER_BITS = "the same seed gave other bits"


def rerun(method: Any, folder: Path, monkeypatch: Any) -> None:
    """The same seed gives the same bits."""
    assert bits(train(method, folder / "a")) == bits(train(method, folder / "b")), OTHER_BITS


def workers(method: Any, folder: Path, monkeypatch: Any) -> None:
    """One worker or two: the same bits."""
    one, two = train(method, folder / "one"), train(method, folder / "two", workers=2)
    assert bits(one) == bits(two), OTHER_BITS
    for mine, other in zip(one.metrics, two.metrics, strict=True):  # workers also do evaluations
        assert {**mine, "seconds": 0} == {**other, "seconds": 0}, OTHER_BITS


def resume_at_every_step(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Stopped after any round, with a fresh or an older checkpoint, a run ends in the same bits."""
    whole = bits(train(method, folder / "whole"))
    for stop in range(1, ROUNDS):
        for every in (1, 3):
            out = folder / f"{stop}-{every}"
            train_until(method, out, stop, checkpoint_every=every)
            resumed = flr.resume(out)
            assert bits(resumed) == whole, OTHER_BITS
            assert [m["round"] for m in resumed.metrics] == list(range(1, ROUNDS + 1))


def resume_after_kill(method: Any, folder: Path, monkeypatch: Any) -> None:
    """SIGKILL inside a round, before or after the client's state is written: the same bits."""
    real, written = StateFiles.write, []

    def noted(*args: Any) -> str:
        written.append(args[1:3])
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(StateFiles, "write", noted)
        whole = train(method, folder / "whole")
    for after_state in (False, True) if written else (False,):
        out = folder / f"killed-{after_state}"
        # some keep a state at few clients only
        tasks = min(5, len(written)) if after_state else 5
        train_until_killed(method, out, tasks=tasks, after_state=after_state)
        assert bits(flr.resume(out)) == bits(whole), OTHER_BITS


def through_flower(method: Any, folder: Path, monkeypatch: Any) -> None:
    """As Flower's messages, at nodes with states of their own: the same bits as in process."""
    config, sites = settings(method), TINY["partition"]["clients"]
    train_on_flower(config, folder / "flower", folder / "state", sites)
    here = train(method, folder / "here")
    assert bits(Run(folder / "flower")) == bits(here), OTHER_BITS
    assert measured(Run(folder / "flower")) == measured(here)


def measured(run: Run) -> list[Any]:
    """What every server sees of a run: who took part in each round, how much was sent."""
    keys = ("round", "participants", "bytes_up", "bytes_down", "accuracy")
    return [[line[key] for key in keys] for line in run.metrics]


def drop(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Clients that vanish are counted, and the round goes on without them."""
    run = train(method, folder / "run", drop=0.5, seed=6)
    assert run.summary["dropped"] == len([c for c in run.clients if c["status"] == "dropped"]) > 0
    assert finite(run), "the model is not finite"


def refuse_bad_update(method: Any, folder: Path, monkeypatch: Any) -> None:
    """An update with NaN or a wrong shape is named and left out; its state does not count."""
    real = worker.run_task

    def spoiled(c: Client, task: str) -> arrays.Arrays:
        sent = real(c, task)
        name = next(iter(sorted(sent, key=lambda k: not k.startswith(MODEL))), None)
        if c.id == 1 and name is not None:
            sent[name] = torch.full_like(sent[name], float("nan"))
        if c.id == 2 and name is not None:
            sent[name] = sent[name].flatten()[:1]
        return sent

    monkeypatch.setattr(worker, "run_task", spoiled)
    run = train(method, folder / "run", train={"participation": 1.0})
    refused = {c["client"]: c["reason"] for c in run.clients if c["status"] == "refused"}
    assert sorted(refused) == [1, 2]
    assert "NaN" in refused[1]
    assert "shape" in refused[2]
    theirs = [c["status"] for c in run.clients if c["client"] in refused]
    assert theirs == ["refused"] * run.summary["refused"]
    point = checkpoint.load_all(run.folder / "checkpoint")[0]
    assert not {1, 2} & set(point.versions)
    assert finite(run), "the model is not finite"


def refuse_malformed_arrays(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Each array that is sent, spoiled in every way: its site is named, and the others go on."""
    made = config.parse(settings(method)).build_method()
    declared = by_name(made.traits.sends, made.traits.networks)
    real, spoiled = worker.run_task, dict[tuple[int, int], str]()
    for number, target in enumerate([MODEL, *declared]):
        ways = [dtype, missing, extra] if target == MODEL else list(WAYS[:-1])
        if target != MODEL and declared[target].least is None:
            ways.remove(negative)

        def spoil(c: Client, task: str, target: str = target, ways: Any = ways) -> arrays.Arrays:
            sent = real(c, task)
            names = [name for name in sorted(sent) if name.startswith(target)]
            if 1 <= c.id <= len(ways) and names:
                ways[c.id - 1](sent, names[0])
                spoiled[c.id, c.round] = "extra" if ways[c.id - 1] is extra else names[0]
            return sent

        spoiled.clear()
        monkeypatch.setattr(worker, "run_task", spoil)
        run = train(method, folder / f"{number}", train={"participation": 1.0})
        refused = {
            (c["client"], c["round"] - 1): c["reason"]
            for c in run.clients
            if c["status"] == "refused"
        }
        assert spoiled, f"{target} was never sent"
        assert refused.keys() == spoiled.keys(), "refuses other sites than those that spoil"
        assert all(spoiled[key] in reason for key, reason in refused.items()), refused
        assert len(run.metrics) == ROUNDS
        assert finite(run), "the model is not finite"


def dtype(sent: arrays.Arrays, name: str) -> None:
    sent[name] = sent[name].to(torch.float16)


def shape(sent: arrays.Arrays, name: str) -> None:
    sent[name] = sent[name].flatten().repeat(2)


def nan(sent: arrays.Arrays, name: str) -> None:
    sent[name] = torch.full_like(sent[name], float("nan") if sent[name].is_floating_point() else -1)


def missing(sent: arrays.Arrays, name: str) -> None:
    del sent[name]


def negative(sent: arrays.Arrays, name: str) -> None:
    sent[name] = -sent[name] - 1


def extra(sent: arrays.Arrays, name: str) -> None:
    sent["extra"] = torch.zeros(3)


WAYS = (dtype, shape, nan, missing, negative, extra)


def batchnorm_with_a_last_batch_of_one(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Sites of 21 samples and batches of 10; counters stay integers."""
    run = train(method, folder / "run")
    assert {c["examples"] for c in run.clients} == {21}
    weights, _ = arrays.load(run.folder / "model.safetensors")
    counters = {k: v for k, v in weights.items() if "num_batches" in k}
    assert counters
    assert all(v.dtype == torch.int64 for v in counters.values())
    assert all(v > 0 for v in counters.values())
    assert finite(run), "the model is not finite"


def site_of_one_sample(method: Any, folder: Path, monkeypatch: Any) -> None:
    """A federation where every site has a single sample."""
    partition = {"kind": "iid", "clients": 10}
    run = train(method, folder / "run", data={"train": 10}, partition=partition)
    assert {c["examples"] for c in run.clients} == {1}
    assert {c["status"] for c in run.clients} == {"ok"}, {c["reason"] for c in run.clients}
    assert finite(run), "the model is not finite"


def nothing_undeclared_leaves(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Replies hold the weights and what is declared, so that no site stops the run."""
    sent: list[set[str]] = []
    real = worker.run_task

    def seen(c: Client, task: str) -> arrays.Arrays:
        received = {k for k in c.inbox if k.startswith(MODEL)} if task == "fit" else set()
        result = real(c, task)
        sent.append(set(result) - received - set(by_name(c.method.traits.sends, len(c.model))))
        return result

    monkeypatch.setattr(worker, "run_task", seen)
    train(method, folder / "run")
    assert sent
    assert not set().union(*sent)


def no_clean_label_in_reach(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Nothing that a method can reach from its client holds the site's true labels."""
    settled = config.parse(settings(method))
    dataset = api.load_data(settled)
    scenario = api.load_scenario(settled, dataset)
    true = Truth.of(scenario, dataset).true
    seen = []
    real = worker.run_task

    def spying(c: Client, task: str) -> arrays.Arrays:
        result = real(c, task)
        if len(c.data) == len(scenario.benchmark):
            return result  # the server's own clean samples
        assert not torch.equal(c.data.y.cpu(), true[c.id]), "the scenario has no wrong labels"
        rows = scenario.sites[c.id]
        for tensor in reachable_tensors(c):
            if tensor.dim() != 1 or tensor.is_floating_point():
                continue
            found = [tensor.cpu()] + ([tensor.cpu()[rows]] if len(tensor) > rows.max() else [])
            same = any(values.tolist() == true[c.id].tolist() for values in found)
            assert not same, "the true labels are in reach"
        seen.append(c.id)
        return result

    monkeypatch.setattr(worker, "run_task", spying)
    train(method, folder / "run")
    assert seen


def state_round_trip(method: Any, folder: Path, monkeypatch: Any) -> None:
    """State is declared, comes back from disk bit for bit, and is never changed in place."""
    real_read, real_write = StateFiles.read, StateFiles.write
    handed: dict[int, tuple[arrays.Arrays, arrays.Arrays]] = {}

    def read(self: StateFiles, site: int, version: int | None) -> arrays.Arrays:
        state = real_read(self, site, version)
        handed[site] = (dict(state), {k: v.clone() for k, v in state.items()})
        return state

    def write(self: StateFiles, site: int, version: int, state: arrays.Arrays) -> str:
        before, copy = handed[site]
        assert all(torch.equal(before[k], copy[k]) for k in copy), "state was changed in place"
        digest = real_write(self, site, version, state)
        back = real_read(self, site, version)
        assert sorted(back) == sorted(state)
        assert all(torch.equal(back[k], state[k].cpu()) for k in state)
        return digest

    monkeypatch.setattr(StateFiles, "read", read)
    monkeypatch.setattr(StateFiles, "write", write)
    run = train(method, folder / "run")
    made = run.config.build_method()
    declared = by_name(made.traits.keeps, made.traits.networks)
    kept = list((run.folder / "checkpoint" / "state").glob("*/*"))
    assert bool(kept) == bool(declared), "keeps other things than it declares"
    always, found = {name for name, d in declared.items() if not d.when}, set()
    for path in kept:
        state, _ = arrays.load(path)
        assert always <= state.keys() <= declared.keys()
        found |= state.keys()
        for name, value in state.items():
            assert tuple(value.shape) == declared[name].size(WORDS)
            assert value.dtype == declared[name].dtype
    assert found == declared.keys(), "keeps less than it declares"


def message_bytes_as_described(method: Any, folder: Path, monkeypatch: Any) -> None:
    """What crosses the wire is what `describe` says: no other size, and nothing said in vain."""
    sent: set[str] = set()
    real = worker.run_task

    def noted(c: Client, task: str) -> arrays.Arrays:
        result = real(c, task)
        sent.update(result)
        return result

    monkeypatch.setattr(worker, "run_task", noted)
    run = train(method, folder / "run")
    made, size = run.config.build_method(), nbytes(arrays.load(run.folder / "model.safetensors")[0])
    down, up = message_bytes(made, size, WORDS)
    assert set(by_name(made.traits.sends, made.traits.networks)) <= sent, (
        "sends less than it declares"
    )
    assert {c["bytes_down"] for c in run.clients} <= sizes(down, made.traits.receives, made, size)
    allowed = sizes(up, made.traits.sends, made, size)
    if made.tasks():  # their answers hold no weights
        allowed |= {
            n - size
            for n in sizes(up, [replace(d, when="some") for d in made.traits.sends], made, size)
        }
    assert {c["bytes_up"] for c in run.clients} <= allowed, "sends other sizes than it declares"


def sizes(largest: int, declared: Iterable[Declared], made: Method, weights: int) -> set[int]:
    """The size of a message, and its sizes without what is declared for some messages only."""
    found = {largest}
    for one in (d for d in declared if d.when):
        found |= {n - array_bytes(one, weights // made.traits.networks, WORDS) for n in found}
    return found


def without_its_term_it_is_fedavg(method: Any, folder: Path, monkeypatch: Any) -> None:
    """lam = 0 gives FedAvg's weights bit for bit, where a method has such a knob."""
    weightless = {"name": method, "lam": 0.0}
    mine, _ = arrays.load(train(weightless, folder / "mine").folder / "model.safetensors")
    fedavg, _ = arrays.load(train("fedavg", folder / "fedavg").folder / "model.safetensors")
    assert all(torch.equal(mine[k], fedavg[k]) for k in fedavg), OTHER_BITS


def finite(run: Any) -> bool:
    """Whether the final model has only finite numbers."""
    weights, _ = arrays.load(run.folder / "model.safetensors")
    return all(bool(torch.isfinite(v).all()) for v in weights.values())


def reachable_tensors(root: object) -> Iterator[Tensor]:
    """Every tensor that can be reached through fields, containers, modules and class attributes."""
    pending, seen = [root], set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list | tuple | set):
            pending += item
        elif isinstance(item, nn.Module):
            pending += [*item.parameters(), *item.buffers()]
        elif isinstance(item, Method):
            for part in parts_of(item):
                pending += [*vars(part).values(), *vars(type(part)).values()]
        elif dataclasses.is_dataclass(item) or hasattr(item, "__self__"):
            pending += vars(item).values() if hasattr(item, "__dict__") else []
            pending += [item.__self__] if hasattr(item, "__self__") else []
        elif isinstance(item, worker.ClientWorker):
            pending += vars(item).values()


CLAUSES = (
    rerun,
    workers,
    resume_at_every_step,
    resume_after_kill,
    through_flower,
    drop,
    refuse_bad_update,
    refuse_malformed_arrays,
    batchnorm_with_a_last_batch_of_one,
    site_of_one_sample,
    nothing_undeclared_leaves,
    no_clean_label_in_reach,
    state_round_trip,
    message_bytes_as_described,
    without_its_term_it_is_fedavg,
)
