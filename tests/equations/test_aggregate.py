"""FedAvg's mean against the recorded reference, and integer buffers."""

from __future__ import annotations

import torch

from flr.aggregate import mean, weighted_average
from flr.core.contract import Reply


def test_weighted_average_is_the_recorded_one(golden):
    recorded = golden("fedavg")
    for name, expected in recorded["result"].items():
        values = [torch.tensor(w[name], dtype=torch.float64) for w in recorded["weights"]]
        result = weighted_average(values, recorded["lens"])
        torch.testing.assert_close(
            result, torch.tensor(expected, dtype=torch.float64), atol=1e-7, rtol=0
        )


def test_integer_buffers_stay_integers(golden):
    recorded = golden("fedavg")
    replies = [
        Reply(
            client,
            examples,
            {"model.a": torch.tensor(w["a"]), "model.n": torch.tensor(w["num_batches_tracked"])},
        )
        for client, (w, examples) in enumerate(
            zip(recorded["weights"], recorded["lens"], strict=True)
        )
    ]
    result = mean(replies, "model.", dict(replies[0].arrays))
    assert result["model.n"].dtype == torch.int64
    assert result["model.n"].item() == int(recorded["result"]["num_batches_tracked"])
    assert result["model.a"].dtype == torch.float32


def test_only_the_prefix_is_averaged():
    replies = [Reply(0, 1, {"model.a": torch.ones(1), "other": torch.ones(1)})]
    assert list(mean(replies, "model.", {"model.a": torch.zeros(1), "other": torch.zeros(1)})) == [
        "model.a"
    ]
