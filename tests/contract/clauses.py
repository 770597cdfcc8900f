"""The clauses of the contract: what every method promises, each as a check that can fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from toys import ROUNDS, bits, settings, train, train_until, train_until_killed

import flr
from flr import arrays, config, session
from flr.arrays import nbytes
from flr.client import desk
from flr.client.state import StateFiles
from flr.contract import MODEL, Client, Method
from flr.engine import checkpoint
from flr.report.describe import message_bytes
from flr.scenario.oracle import Oracle
from flr.stack import parts_of

WORDS = {"classes": 10, "samples": 21, "features": 12}  # at a site of the tiny federation


def rerun(method: Any, folder: Path, monkeypatch: Any) -> None:
    """The same seed gives the same bits."""
    assert bits(train(method, folder / "a")) == bits(train(method, folder / "b"))


def workers(method: Any, folder: Path, monkeypatch: Any) -> None:
    """One worker or two: the same bits."""
    one, two = train(method, folder / "one"), train(method, folder / "two", workers=2)
    assert bits(one) == bits(two)


def resume_at_every_step(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Stopped after any round, with a fresh or an older checkpoint, a run ends in the same bits."""
    whole = bits(train(method, folder / "whole"))
    for stop in range(1, ROUNDS):
        for every in (1, 3):
            out = folder / f"{stop}-{every}"
            train_until(method, out, stop, checkpoint_every=every)
            resumed = flr.resume(out)
            assert bits(resumed) == whole
            assert [m["round"] for m in resumed.metrics] == list(range(1, ROUNDS + 1))


def resume_after_kill(method: Any, folder: Path, monkeypatch: Any) -> None:
    """SIGKILL inside a round, before or after the client's state is written: the same bits."""
    whole = train(method, folder / "whole")
    stateful = any((whole.folder / "checkpoint" / "state").glob("*/*"))
    for after_state in (False, True) if stateful else (False,):
        out = folder / f"killed-{after_state}"
        train_until_killed(method, out, tasks=5, after_state=after_state)
        assert bits(flr.resume(out)) == bits(whole)


def drop(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Clients that vanish are counted, and the round goes on without them."""
    run = train(method, folder / "run", drop=0.5, seed=6)
    assert run.summary["dropped"] == len([c for c in run.clients if c["status"] == "dropped"]) > 0
    assert finite(run)


def refuse_bad_update(method: Any, folder: Path, monkeypatch: Any) -> None:
    """An update with NaN or a wrong shape is named and left out; its state does not count."""
    real, steps = desk.run_task, []

    def spoiled(c: Client, task: str) -> arrays.Arrays:
        sent = real(c, task)
        name = next(iter(k for k in sent if k.startswith(MODEL)))
        steps.append((c.step, c.id))
        if c.id == 1:
            sent[name] = torch.full_like(sent[name], float("nan"))
        if c.id == 2:
            sent[name] = sent[name].flatten()[:1]
        return sent

    monkeypatch.setattr(desk, "run_task", spoiled)
    run = train(method, folder / "run", train={"participation": 1.0})
    refused = {c["client"]: c["reason"] for c in run.clients if c["status"] == "refused"}
    assert sorted(refused) == [1, 2]
    assert "NaN" in refused[1]
    assert "shape" in refused[2]
    assert run.summary["refused"] == 2 * ROUNDS
    point = checkpoint.load_all(run.folder / "checkpoint")[0]
    assert not {1, 2} & set(point.versions)
    assert finite(run)


def batchnorm_with_a_last_batch_of_one(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Sites of 21 samples and batches of 10; counters stay integers."""
    run = train(method, folder / "run")
    assert {c["examples"] for c in run.clients} == {21}
    weights, _ = arrays.load(run.folder / "model.safetensors")
    counters = {k: v for k, v in weights.items() if "num_batches" in k}
    assert counters
    assert all(v.dtype == torch.int64 for v in counters.values())
    assert all(v > 0 for v in counters.values())
    assert finite(run)


def site_of_one_sample(method: Any, folder: Path, monkeypatch: Any) -> None:
    """A federation where every site has a single sample."""
    partition = {"kind": "iid", "clients": 10}
    run = train(method, folder / "run", data={"train": 10}, partition=partition)
    assert {c["examples"] for c in run.clients} == {1}
    assert {c["status"] for c in run.clients} == {"ok"}
    assert finite(run)


def nothing_undeclared_leaves(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Replies hold the weights and what is declared, so that no site stops the run."""
    sent: list[set[str]] = []
    real = desk.run_task

    def seen(c: Client, task: str) -> arrays.Arrays:
        result = real(c, task)
        declared = {d.name for d in c.method.sends}
        sent.append({k for k in result if not k.startswith(MODEL)} - declared)
        return result

    monkeypatch.setattr(desk, "run_task", seen)
    train(method, folder / "run")
    assert sent
    assert not set().union(*sent)


def no_clean_label_in_reach(method: Any, folder: Path, monkeypatch: Any) -> None:
    """Nothing that a method can reach from its client holds the site's true labels."""
    settled = config.parse(settings(method, data={"name": "digits", "train": 126, "test": 50}))
    dataset = session.load_data(settled)
    true = Oracle.of(session.load_scenario(settled, dataset), dataset).true
    seen = []
    real = desk.run_task

    def spying(c: Client, task: str) -> arrays.Arrays:
        result = real(c, task)
        assert not torch.equal(c.data.y.cpu(), true[c.id]), "the scenario has no wrong labels"
        for tensor in reachable_tensors(c):
            same = tensor.dim() == 1 and tensor.cpu().tolist() == true[c.id].tolist()
            assert not same, "the true labels are in reach"
        seen.append(c.id)
        return result

    monkeypatch.setattr(desk, "run_task", spying)
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

    def write(self: StateFiles, site: int, version: int, state: arrays.Arrays) -> None:
        before, copy = handed[site]
        assert all(torch.equal(before[k], copy[k]) for k in copy), "state was changed in place"
        real_write(self, site, version, state)
        back = real_read(self, site, version)
        assert sorted(back) == sorted(state)
        assert all(torch.equal(back[k], state[k].cpu()) for k in state)

    monkeypatch.setattr(StateFiles, "read", read)
    monkeypatch.setattr(StateFiles, "write", write)
    run = train(method, folder / "run")
    made = run.config.build_method()
    declared = {d.name.format(net=net): d for d in made.keeps for net in range(made.models)}
    kept = list((run.folder / "checkpoint" / "state").glob("*/*"))
    assert bool(kept) == bool(declared)
    for path in kept:
        state, _ = arrays.load(path)
        assert sorted(state) == sorted(declared)
        for name, value in state.items():
            assert tuple(value.shape) == declared[name].size(WORDS)
            assert value.dtype == declared[name].dtype


def message_bytes_as_described(method: Any, folder: Path, monkeypatch: Any) -> None:
    """What crossed the wire is what `describe` says."""
    run = train(method, folder / "run")
    weights, _ = arrays.load(run.folder / "model.safetensors")
    down, up = message_bytes(run.config.build_method(), nbytes(weights), WORDS)
    assert {(c["bytes_down"], c["bytes_up"]) for c in run.clients} == {(down, up)}


def without_its_term_it_is_fedavg(method: Any, folder: Path, monkeypatch: Any) -> None:
    """lam = 0 gives FedAvg's weights bit for bit, where a method has such a knob."""
    weightless = {"name": method, "lam": 0.0}
    mine, _ = arrays.load(train(weightless, folder / "mine").folder / "model.safetensors")
    fedavg, _ = arrays.load(train("fedavg", folder / "fedavg").folder / "model.safetensors")
    assert all(torch.equal(mine[k], fedavg[k]) for k in fedavg)


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
        elif isinstance(item, desk.Desk):
            pending += vars(item).values()


CLAUSES = (
    rerun,
    workers,
    resume_at_every_step,
    resume_after_kill,
    drop,
    refuse_bad_update,
    batchnorm_with_a_last_batch_of_one,
    site_of_one_sample,
    nothing_undeclared_leaves,
    no_clean_label_in_reach,
    state_round_trip,
    message_bytes_as_described,
    without_its_term_it_is_fedavg,
)
