"""FedRG as a whole: what is trained in which stage, what is sent, and what stays."""

from __future__ import annotations

import torch

from flr.aggregate.means import mean
from flr.client.fit import fit
from flr.core.arrays import with_prefix
from flr.core.contract import Reply, Server
from flr.methods.fedrg import KEPT, LAYERS, PROJECTOR, TRANSITION, FedRG
from tests.equations.recorded import noisy_client

METHOD = FedRG(warmup_rounds=2)


def client(golden, round: int):
    """A site of eight samples whose features are four."""
    recorded = golden("fedelc_local")["case"]
    c = noisy_client(METHOD, recorded, recorded["rounds"][0]["received"], {}, batch=4)
    c.round, c.rounds = round, 5
    return c


def server() -> Server:
    arrays = {"model.0.head.weight": torch.ones(3, 4), "model.0.head.bias": torch.ones(3)}
    s = Server(arrays, {}, 5, 2, 2, 1, mean)
    METHOD.start(s)
    return s


def test_stage_1_trains_the_features_and_a_projector_but_no_head(golden):
    c = client(golden, round=1)
    before = server().arrays
    c.inbox |= with_prefix(before, PROJECTOR)
    sent = fit(c)
    assert {name for name in sent if not name.startswith("model.")} == {d.name for d in LAYERS}
    for name in ("hidden.weight", "head.weight", "head.bias"):
        same = torch.equal(sent[f"model.0.{name}"], c.inbox[f"model.0.{name}"])
        assert same == name.startswith("head")
    assert not torch.equal(sent[PROJECTOR + "2.weight"].float(), before[PROJECTOR + "2.weight"])
    assert not c.state


def test_stage_2_trains_all_and_keeps_its_view_of_the_labels(golden):
    c = client(golden, round=2)
    sent = fit(c)
    assert not torch.equal(sent["model.0.head.weight"], c.inbox["model.0.head.weight"])
    assert set(sent) == {name for name in c.inbox if name.startswith("model.")}
    assert {d.name for d in METHOD.traits.keeps} == set(c.state)
    one = torch.ones(3).double()
    T, mu = c.state[TRANSITION], c.state[KEPT[0]]  # noqa: N806 - the paper's letter
    torch.testing.assert_close(T.sum(1).double(), one, atol=1e-6, rtol=0)
    torch.testing.assert_close(mu.norm(dim=1).double(), one, atol=1e-6, rtol=0)


def test_the_projector_is_averaged_in_stage_1_and_gone_afterwards():
    s = server()
    start = dict(s.arrays)
    for left in (True, False):
        task = METHOD.plan(s)
        moved = {name: value + 1 for name, value in task.arrays.items()}
        METHOD.reduce(s, task, [Reply(0, 10, moved), Reply(1, 30, dict(task.arrays))])
        assert bool(with_prefix(s.arrays, PROJECTOR)) == left
        if left:
            name = PROJECTOR + "0.bias"
            torch.testing.assert_close(s.arrays[name], start[name] + 0.25)


def test_clusters_may_be_more_than_classes(golden):
    c = client(golden, round=2)
    c.method = FedRG(warmup_rounds=2, clusters=7)
    fit(c)
    assert c.state[KEPT[0]].shape == (7, 4)
    assert c.method.traits.keeps[0].shape == (7, "features")
