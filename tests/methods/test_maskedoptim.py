"""MaskedOptim's server: medians in all rounds, counters by samples, a later second stage."""

from __future__ import annotations

import torch

from flr.aggregate.means import mean
from flr.core.contract import Reply, Server
from flr.methods.fedelc import FedELC
from flr.methods.maskedoptim import MaskedOptim


def test_one_far_model_hardly_moves_the_median_and_counters_are_averaged():
    s = Server({"model.0.w": torch.zeros(2), "model.0.n": torch.tensor(0)}, {}, 4, 3, 3, 1, mean)
    values = [torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1.0]), torch.tensor([900.0, 1.0])]
    replies = [
        Reply(k, 10 * k + 10, {"model.0.w": w, "model.0.n": torch.tensor(4 * k)})
        for k, w in enumerate(values)
    ]
    method = MaskedOptim()
    method.reduce(s, method.plan(s), replies)
    # ten steps from the mean, 450, where FedAvg would stay
    torch.testing.assert_close(s.arrays["model.0.w"], torch.ones(2), atol=0.5, rtol=0)
    assert int(s.arrays["model.0.n"]) == (20 * 4 + 30 * 8) // 60


def test_the_first_stage_is_a_quarter_of_the_rounds():
    assert (MaskedOptim().warmup(120), FedELC().warmup(120)) == (30, 20)
