"""GCE, SCE, label smoothing, entropy minimisation, temperature scaling: goldens and definitions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flr.core.contract import Batch, Site
from flr.methods.em import entropy
from flr.methods.gce import GCE, gce_loss, gce_weights, lq, prunings_due
from flr.methods.ls import ls_loss
from flr.methods.mixup import mixed
from flr.methods.sce import sce_loss
from flr.methods.ts import ts_loss

TOLERANCE = {"atol": 1e-7, "rtol": 0.0}


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected) -> None:
    torch.testing.assert_close(actual, double(expected), **TOLERANCE)


def inputs(recorded):
    return double(recorded["logits"]).requires_grad_(), torch.tensor(recorded["labels"])


def noise(*shape, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_gce_and_its_truncation_are_the_recorded_ones(golden):
    recorded = golden("gce")
    index = torch.tensor(recorded["index"])
    for case in recorded["cases"]:
        z, y = inputs(recorded)
        w = torch.ones(len(case["weight_after_prune"]), dtype=torch.bool)
        loss = gce_loss(z, y, w[index], case["q"], case["k"])
        loss.backward()
        close(loss, case["loss_all_weights_one"])
        close(z.grad, case["grad_all_weights_one"])
        close(lq(z, y, case["q"]).mean(), case["plain_Lq_mean"])

        w[index] = gce_weights(double(case["prune_logits"]), y, case["k"])
        assert w.tolist() == [bool(value) for (value,) in case["weight_after_prune"]]
        z, y = inputs(recorded)
        loss = gce_loss(z, y, w[index], case["q"], case["k"])
        loss.backward()
        close(loss, case["loss_after_prune"])
        close(z.grad, case["grad_after_prune"])


def test_gce_goes_from_cross_entropy_to_absolute_error():
    z, y = noise(5, 4), torch.tensor([0, 1, 2, 3, 0])
    p = z.softmax(1)[torch.arange(5), y]
    torch.testing.assert_close(lq(z, y, 1.0), 1 - p)
    torch.testing.assert_close(lq(z, y, 1e-7), -p.log(), atol=1e-5, rtol=0)


def test_gce_has_a_finite_gradient_where_a_probability_underflows():
    z = torch.tensor([[0.0, 500.0]], requires_grad=True)
    gce_loss(z, torch.tensor([0]), torch.ones(1), 0.7, 0.1).backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(
    ("rounds", "first", "again"), [(300, 100, 125), (120, 40, 50), (12, 4, 5), (4, 2, 3), (1, 1, 2)]
)
def test_gce_prunes_at_a_third_and_every_twelfth(rounds, first, again):
    assert prunings_due(first - 1, rounds) == 0
    assert [prunings_due(r, rounds) for r in (first, again - 1, again)] == [1, 1, 2]


def gce_client(method, round, state):
    """As much of a client as GCE touches: the received network finds class 0 everywhere."""
    x, y = torch.zeros(3, 2), torch.tensor([0, 1, 0])
    network = nn.Linear(2, 2)
    nn.init.zeros_(network.weight)
    network.bias.data = torch.tensor([5.0, -5.0])
    return SimpleNamespace(
        method=method,
        data=Site("site", x, y, 2),
        state=state,
        reference=nn.ModuleList([network]),
        round=round,
        rounds=12,
        scratch={},
    )


def gce_task(round, state, **options):
    method = GCE(**options)
    client = gce_client(method, round, dict(state))
    method.begin(client)
    method.finish(client)
    return client.state


def test_gce_keeps_its_flags_until_the_next_pruning_is_due():
    state = gce_task(3, {})
    assert state["gce.w"].tolist() == [True, True, True]
    state = gce_task(6, state)  # due at round 4, but not asked until now
    assert state["gce.w"].tolist() == [True, False, True]
    kept = gce_task(6, state | {"gce.w": torch.tensor([False, False, False])})
    assert kept["gce.w"].tolist() == [False, False, False]
    assert gce_task(7, kept)["gce.w"].tolist() == [True, False, True]
    assert gce_task(7, {}, truncate=False)["gce.w"].tolist() == [True, True, True]


def test_gce_on_a_mixed_batch_leaves_out_the_pruned_share_only():
    method, z = GCE(), noise(3, 2)
    client = gce_client(method, 6, {})
    method.begin(client)  # sample 1 is pruned
    plain = Batch(torch.zeros(3, 2), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 2]))
    b = mixed(plain, 2, torch.tensor([1, 2, 0]), 0.3)
    gain = (1 - z.softmax(1) ** 0.7) / 0.7 - (1 - 0.1**0.7) / 0.7
    rows = [0.3 * gain[0, 0], 0.7 * gain[1, 0], gain[2, 0]]
    torch.testing.assert_close(method.criterion(client, z, b), sum(rows) / 3)


def test_label_smoothing_is_the_recorded_one(golden):
    recorded = golden("label_smoothing")
    for case in recorded["cases"]:
        z, y = inputs(recorded)
        loss = ls_loss(z, y, case["smooth_rate"])
        loss.backward()
        close(loss, case["loss"])
        close(z.grad, case["grad_logits"])


def test_entropy_minimisation_is_the_recorded_one(golden):
    recorded = golden("em_ts_derived")
    z, y = inputs(recorded)
    loss = F.cross_entropy(z, y) + recorded["em"]["coef"] * entropy(z)
    loss.backward()
    close(entropy(z), recorded["em"]["entropy"])
    close(loss, recorded["em"]["loss"])
    close(z.grad, recorded["em"]["grad_logits"])


def test_temperature_scaling_is_the_recorded_one(golden):
    recorded = golden("em_ts_derived")
    assert [case["mode"].split(":")[0] for case in recorded["ts"]] == ["sharpen", "soften"]
    for case in recorded["ts"]:
        z, y = inputs(recorded)
        loss = ts_loss(z, y, 4.0, case["mode"].split(":")[0])
        loss.backward()
        close(loss, case["loss"])
        close(z.grad, case["grad_logits"])


def test_symmetric_cross_entropy_is_its_definition():
    z, y = noise(6, 5), torch.tensor([0, 1, 2, 3, 4, 0])
    log_y = F.one_hot(y, 5).double().log().clamp(min=-4.0)
    reverse = -(z.softmax(1) * log_y).sum(1).mean()
    expected = 0.1 * F.cross_entropy(z, y) + 1.0 * reverse
    torch.testing.assert_close(sce_loss(z, y, 0.1, 1.0), expected)


@pytest.mark.parametrize(
    "loss",
    [
        lambda z, y: gce_loss(z, y, torch.tensor([1.0, 0.0, 1.0]), 0.7, 0.1),
        lambda z, y: sce_loss(z, y, 0.1, 1.0),
        lambda z, y: ls_loss(z, y, -0.05),
        lambda z, y: ts_loss(z, y, 4.0),
    ],
    ids=["gce", "sce", "ls", "ts"],
)
def test_losses_are_linear_in_soft_labels(loss):
    z, a, b = noise(3, 4), torch.tensor([0, 1, 2]), torch.tensor([3, 1, 0])
    soft = 0.3 * F.one_hot(a, 4).double() + 0.7 * F.one_hot(b, 4).double()
    torch.testing.assert_close(loss(z, soft), 0.3 * loss(z, a) + 0.7 * loss(z, b))
