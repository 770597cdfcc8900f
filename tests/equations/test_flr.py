"""FLR's equations against the recorded goldens, the paper's gradient and autograd."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import flr
from flr.methods.flr import flr_gradient, flr_loss
from flr.methods.shared.soft_labels import agreement, default_warmup, schedule

TOLERANCE = {"atol": 1e-7, "rtol": 0.0}


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def visits(recorded, case):
    """Replays the recorded visits of one case through the pure function."""
    y = torch.tensor(recorded["labels"])
    s = m = torch.zeros(len(y), len(recorded["logits"][0][0]), dtype=torch.float64)
    seen = torch.zeros(len(y), dtype=torch.bool)
    for logits, server_logits, step in zip(
        recorded["logits"], recorded["server_logits"], case["steps"], strict=True
    ):
        z = double(logits).requires_grad_()
        visit = flr_loss(
            z,
            double(server_logits),
            y,
            s,
            m,
            seen,
            alpha=case["alpha"],
            beta=case["beta"],
            gamma=case["gamma"],
            lam=case["lam"],
            clamp=1e-4 if case["clamp"] else 0.0,
        )
        visit.loss.backward()
        yield visit, z, step
        s, m, seen = visit.s, visit.m, torch.ones_like(seen)


def test_every_recorded_visit_is_reproduced(golden):
    recorded = golden("flr_derived")
    for case in recorded["cases"]:
        for visit, z, step in visits(recorded, case):
            for name in ("s", "m", "t", "ce", "reg", "loss"):
                torch.testing.assert_close(
                    getattr(visit, name),
                    double(step[name]),
                    **TOLERANCE,
                    msg=f"{case['name']}: {name}",
                )
            torch.testing.assert_close(z.grad, double(step["grad_logits"]), **TOLERANCE)


def test_the_schedule_is_the_recorded_one(golden):
    for row in golden("flr_derived")["schedule"]:
        now = schedule(row["r"], row["R"], row["R_w"])
        assert now == pytest.approx((row["alpha"], row["beta"], row["gamma"]), abs=1e-12)


def test_constant_alpha_leaves_the_other_switches_on():
    assert schedule(0, 300, 50, linear=False) == (0.9, 0.0, 0.0)
    assert schedule(299, 300, 50, linear=False) == (0.9, 0.7, 0.5)


@pytest.mark.parametrize(("rounds", "expected"), [(300, 50), (600, 50), (60, 10), (1, 0)])
def test_a_short_run_warms_up_for_a_sixth(rounds, expected):
    assert default_warmup(rounds) == expected


@pytest.mark.parametrize("clamp", [0.0, 1e-4])
def test_autograd_equals_equation_2(clamp):
    """With the clamp off, and with it where it is inactive."""
    generator = torch.Generator().manual_seed(7)
    z = torch.randn(6, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    server = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    y = torch.randint(5, (6,), generator=generator)
    empty, unseen = torch.zeros(6, 5, dtype=torch.float64), torch.zeros(6, dtype=torch.bool)
    visit = flr_loss(
        z, server, y, empty, empty, unseen, alpha=0.6, beta=0.7, gamma=0.5, lam=3.0, clamp=clamp
    )
    visit.loss.backward()
    expected = flr_gradient(
        z.detach().softmax(1), F.one_hot(y, 5).double(), visit.t, lam=3.0
    ) / len(y)
    torch.testing.assert_close(z.grad, expected, atol=1e-12, rtol=0)


def test_t_is_detached(golden):
    """Letting the gradient through t would double the regulariser's at alpha = gamma = 0."""
    recorded = golden("flr_derived")
    trap = recorded["detach_trap"]
    case = next(c for c in recorded["cases"] if c["alpha"] == c["gamma"] == 0 and not c["clamp"])
    visit, _, _ = next(visits(recorded, case))
    z = double(recorded["logits"][0]).requires_grad_()
    agreement(z.softmax(1), visit.t).backward()
    torch.testing.assert_close(z.grad, double(trap["grad_detached"]), **TOLERANCE)
    torch.testing.assert_close(2 * z.grad, double(trap["grad_undetached"]), **TOLERANCE)


def test_the_module_gives_what_the_equations_give(golden):
    """LabelMixture, as a user's own loop calls it, on rows of a larger table in another order."""
    recorded = golden("flr_derived")
    rows = torch.tensor([9, 2, 7, 4])
    y = torch.tensor(recorded["labels"])
    for case in recorded["cases"]:
        module = flr.LabelMixture(
            samples=12,
            classes=5,
            lam=case["lam"],
            alpha=case["alpha"],
            beta=case["beta"],
            gamma=case["gamma"],
            clamp=1e-4 if case["clamp"] else 0.0,
            dtype=torch.float64,
        )
        for visit, z, step in visits(recorded, case):
            again = z.detach().clone().requires_grad_()
            server = double(recorded["server_logits"][case["steps"].index(step)])
            loss = F.cross_entropy(again, y) + module(again, server, rows)
            loss.backward()
            torch.testing.assert_close(loss, visit.loss, atol=1e-12, rtol=0)
            torch.testing.assert_close(again.grad, z.grad, atol=1e-12, rtol=0)
        torch.testing.assert_close(module.s[rows], visit.s, atol=1e-12, rtol=0)
        torch.testing.assert_close(module.m[rows], visit.m, atol=1e-12, rtol=0)
        assert module.seen.sum() == 4


def test_tables_never_slip_into_a_state_dict():
    client = torch.nn.ModuleDict(
        {"network": torch.nn.Linear(2, 3), "mixture": flr.LabelMixture(4, 3)}
    )
    assert sorted(client.state_dict()) == ["network.bias", "network.weight"]


def test_tables_round_trip_and_refuse_another_size():
    first = flr.LabelMixture(4, 3)
    first.schedule(round=5, rounds=10)
    first(torch.randn(2, 3), torch.randn(2, 3), torch.tensor([3, 1]))
    second = flr.LabelMixture(4, 3)
    second.load_tables(first.tables())
    assert all(torch.equal(a, second.tables()[name]) for name, a in first.tables().items())
    with pytest.raises(ValueError, match="another data set"):
        flr.LabelMixture(5, 3).load_tables(first.tables())


def test_tables_are_copies():
    module = flr.LabelMixture(2, 3)
    before = module.tables()
    module(torch.randn(2, 3), torch.randn(2, 3), torch.tensor([0, 1]))
    assert before["s"].count_nonzero() == 0


def test_a_certain_pseudo_label_outweighs_a_wrong_label_from_lam_1_on():
    """As docs/explanation/memorization.md says: the gradient at the true class is p_c (1 - lam)."""
    p = torch.rand(50, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    p /= p.sum(1, keepdim=True)
    true, given = torch.arange(50) % 7, (torch.arange(50) + 3) % 7
    t, y = (F.one_hot(label, 7).double() for label in (true, given))
    for lam in (0.5, 1.0, 2.0):
        at_true = flr_gradient(p, y, t, lam)[range(50), true]
        torch.testing.assert_close(at_true, p[range(50), true] * (1 - lam))
