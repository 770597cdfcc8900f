"""Co-teaching against outputs of the authors' code, and the guards of its selection."""

from __future__ import annotations

import pytest
import torch

from flr.methods.coteaching import exchange
from flr.methods.shared.selection import forget_rate_at, off_diagonal, small_loss

TOLERANCE = {"atol": 1e-7, "rtol": 0.0}


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_every_recorded_exchange_is_reproduced(golden):
    recorded = golden("coteaching")
    y = torch.tensor(recorded["labels"])
    for case in recorded["cases"]:
        z1 = double(recorded["logits1"]).requires_grad_()
        z2 = double(recorded["logits2"]).requires_grad_()
        made = exchange(z1, z2, y, case["forget_rate"])
        kept = case["num_remember"]
        assert made.chosen1.tolist() == case["selected_by_net1"]
        assert made.chosen2.tolist() == case["selected_by_net2"]
        torch.testing.assert_close(made.loss1, double(case["loss1_mean"]), **TOLERANCE)
        torch.testing.assert_close(made.loss2, double(case["loss2_mean"]), **TOLERANCE)
        # the authors divide by the number of kept samples once more
        (made.loss1 / kept + made.loss2 / kept).backward()
        for loss, z, net in ((made.loss1, z1, 1), (made.loss2, z2, 2)):
            recorded_loss = double(case[f"loss{net}_as_in_repo"])
            torch.testing.assert_close(loss / kept, recorded_loss, **TOLERANCE)
            torch.testing.assert_close(z.grad, double(case[f"grad{net}_as_in_repo"]), **TOLERANCE)


def test_the_schedules_are_the_recorded_ones(golden):
    for row in golden("coteaching")["schedules"]:
        made = [
            forget_rate_at(t, row["forget_rate"], row["num_gradual"], row["exponent"])
            for t in range(row["n_epoch"])
        ]
        assert made == pytest.approx(row["schedule"], abs=1e-12)


def test_a_ramp_of_one_round_starts_at_zero():
    assert [forget_rate_at(t, 0.3, 1) for t in range(3)] == [0.0, 0.3, 0.3]


@pytest.mark.parametrize(("samples", "rate"), [(1, 0.2), (3, 0.99), (2, 1.0)])
def test_at_least_one_sample_is_kept(samples, rate):
    assert small_loss(torch.arange(samples).flip(0).double(), rate).tolist() == [samples - 1]


def test_equal_losses_keep_their_order():
    assert small_loss(torch.ones(10), 0.5).tolist() == [0, 1, 2, 3, 4]


def test_sure_networks_find_the_share_of_wrong_labels():
    true = torch.arange(1000) % 4
    given = torch.where(torch.arange(1000) % 5 == 0, (true + 1) % 4, true)  # a fifth is wrong
    p = torch.nn.functional.one_hot(true, 4).double() * 0.9 + 0.025
    assert off_diagonal(p, given) == pytest.approx(0.2)
    assert off_diagonal(p, true) == 0


def test_unsure_mistakes_are_no_wrong_labels():
    label = torch.arange(1000) % 4
    p = torch.nn.functional.one_hot(label, 4).double() * 0.9 + 0.025
    hard = torch.arange(1000) % 10 < 3  # right on seven of ten, and unsure of the others
    p[hard] = torch.tensor([0.26, 0.25, 0.25, 0.24], dtype=p.dtype)
    assert (p.argmax(1) != label).double().mean() >= 0.2
    assert off_diagonal(p, label) == 0
