"""The same numbers as Flower's own strategies, on models without buffers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flr.aggregate.coordinates import median, trimmed_mean
from flr.aggregate.distances import krum
from flr.aggregate.means import mean
from flr.core.contract import Reply

flwr_app = pytest.importorskip("flwr.app", reason="flwr is not installed (extra: dev)")
strategies = pytest.importorskip("flwr.serverapp.strategy", reason="flwr is not installed")

SHAPES = {"model.0.w": (5, 3), "model.0.b": (3,), "model.0.s": ()}


def replies_of(n, seed):
    rng = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 90, (n,), generator=rng).tolist()
    return [
        Reply(k, sizes[k], {name: torch.randn(s, generator=rng) for name, s in SHAPES.items()})
        for k in range(n)
    ]


def flower(strategy, replies):
    """What a strategy makes of the same replies; real messages exist only inside a Flower run."""
    contents = [
        flwr_app.RecordDict(
            {
                "arrays": flwr_app.ArrayRecord(
                    {name: flwr_app.Array(v.numpy()) for name, v in reply.arrays.items()}
                ),
                "metrics": flwr_app.MetricRecord({"num-examples": reply.examples}),
            }
        )
        for reply in replies
    ]
    messages = [SimpleNamespace(content=content) for content in contents]
    strategy._check_and_log_replies = lambda replies, **_: (list(replies), [])
    arrays, _ = strategy.aggregate_train(1, messages)
    return {name: array.numpy() for name, array in arrays.items()}


CASES = [
    (mean, {}, lambda: strategies.FedAvg()),
    (median, {}, lambda: strategies.FedMedian()),
    (trimmed_mean, {"share": 0.2}, lambda: strategies.FedTrimmedAvg(beta=0.2)),
    (trimmed_mean, {"share": 0.34}, lambda: strategies.FedTrimmedAvg(beta=0.34)),
    (trimmed_mean, {"share": 0.0}, lambda: strategies.FedTrimmedAvg(beta=0.0)),
    (krum, {"byzantine": 1}, lambda: strategies.Krum(num_malicious_nodes=1)),
    (krum, {"byzantine": 2}, lambda: strategies.Krum(num_malicious_nodes=2)),
    (
        krum,
        {"byzantine": 1, "select": 3},
        lambda: strategies.MultiKrum(num_malicious_nodes=1, num_nodes_to_select=3),
    ),
]


@pytest.mark.parametrize("n", [5, 6, 9])
@pytest.mark.parametrize(("rule", "options", "strategy"), CASES)
def test_equal_to_flower(rule, options, strategy, n):
    for seed in range(5):
        replies = replies_of(n, seed)
        ours = rule(replies, "model.", dict(replies[0].arrays), **options)
        theirs = flower(strategy(), replies)
        assert sorted(ours) == sorted(theirs)
        for name, value in ours.items():
            np.testing.assert_allclose(value.numpy(), theirs[name], rtol=1e-5, atol=1e-6)
