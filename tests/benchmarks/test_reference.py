"""The unit of all ratios does what our engine does: same networks, same steps, same bits."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from benchmarks import ROOT, counting, flr_engine, protocol, reference, workloads
from benchmarks.compare import distance
from benchmarks.prepare import prepare
from benchmarks.workloads import Workload
from flr.core import registry

NORMED = Workload(
    "normed",
    "BatchNorm, whose counters are averaged too, and a last batch of one",
    2,
    {"name": "resnet18", "width": 2},
    (3, 8, 8),
    clients=4,
    per_round=2,
    samples=13,
    batch=4,
    epochs=2,
)


@pytest.mark.parametrize("name", ["main", "digits", "resnet"])
def test_the_networks_are_those_of_the_registry(name):
    work = workloads.get(name)
    model = dict(work.model)
    theirs = registry.get("model", model.pop("name")).factory(work.shape, 10, **model)
    own = reference.network({"model": work.model, "input_shape": work.shape, "classes": 10})
    own.load_state_dict(theirs.state_dict())
    x = torch.randn(3, *work.shape)
    assert torch.equal(own(x), theirs(x))


@pytest.mark.parametrize("work", [workloads.get("digits"), NORMED], ids=lambda work: work.name)
def test_the_same_bits_as_our_engine(work, tmp_path, monkeypatch, one_thread):
    monkeypatch.setitem(workloads.WORKLOADS, work.name, work)
    prepared = prepare(work, tmp_path, rounds=2, seed=3)
    ends = [protocol.RoundEnds(), protocol.RoundEnds()]
    steps, weights = reference.train(reference.read(tmp_path), ends[0])
    assert steps == prepared.steps
    counts = tmp_path / "counts"
    found = flr_engine.train(tmp_path, 1, "fedavg", ends[1], counts)
    assert counting.counted(counts)["backward"] == prepared.steps
    assert [len(each.times) for each in ends] == [2, 2]
    unit, other, initial = (tmp_path / f"{name}.npz" for name in ("unit", "other", "initial"))
    np.savez(unit, **{name: value.numpy() for name, value in weights.items()})
    np.savez(other, **found)
    assert distance(unit, other, initial) == 0.0
    assert distance(unit, initial, initial) == pytest.approx(1.0)  # what was learned
    assert not list(tmp_path.glob("run-*"))


def test_forward_passes_of_every_step_or_of_every_sample(tmp_path):
    prepare(workloads.get("digits"), tmp_path, rounds=2, seed=1)
    work = reference.read(tmp_path)
    steps = reference.forwards(work, "steps", protocol.RoundEnds())
    once = reference.forwards(work, "samples", protocol.RoundEnds())
    assert steps == 5 * once
    shown = [rows for client in work.plan[0] for rows in client[: len(client) // 5]]
    assert len(torch.cat(shown).unique()) == len(torch.cat(shown)) == sum(work.samples[0])


def test_it_needs_nothing_of_flr(tmp_path):
    prepare(NORMED, tmp_path, rounds=2, seed=1)
    code = (
        "import sys\n"
        "from benchmarks import reference\n"
        "reference.main()\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'flr']\n"
    )
    call = [sys.executable, "-c", code, str(tmp_path), "--threads", "1"]
    done = subprocess.run(call, capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout)["steps"] == 2 * 2 * 2 * 3  # 13 = 4 + 4 + 5


def test_clients_of_a_large_population_have_the_same_samples_in_a_small_one(tmp_path):
    large = Workload("l", "", 2, workloads.MLP, (4,), samples=3, batch=10, population=300)
    plans = []
    for clients in (20, 300):
        work = Workload(**(vars(large) | {"clients": clients, "per_round": 2}))
        prepare(work, tmp_path / str(clients), rounds=2, seed=1)
        plans.append(dict(np.load(tmp_path / str(clients) / "plan.npz")))
    assert [len(plan["offset"]) - 1 for plan in plans] == [20, 300]
    assert (plans[0]["index"] == plans[1]["index"][:60]).all()
