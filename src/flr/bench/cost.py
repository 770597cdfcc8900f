"""What FLR adds to FedAvg, in forward passes without gradients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median

from flr.bench.engines import Engine, own, plain
from flr.bench.measure import Measured

FEDAVG = "fedavg"
FORWARDS = {"batch": "steps", "round": "samples"}  # by server_predictions: what the unit looks at


def players() -> list[Engine]:
    """FedAvg, FLR in both forms, and the units of both."""
    found = [own(1, name=FEDAVG)]
    for predictions, each in FORWARDS.items():
        # with the term in every round: rounds of a warm-up cost what FedAvg's do
        options = {"warmup": "schedule", "server_predictions": predictions}
        method = json.dumps({"name": "flr", **options})
        found.append(own(1, "--method", method, name=f"flr, {predictions}"))
        found.append(plain(f"forwards, {each}", "--threads", "1", "--forwards", each))
    return found


def cost(by_name: Mapping[str, Measured], predictions: str) -> float:
    """FLR minus FedAvg in one repeat, in units of the forward passes that it cannot do without."""
    flr, fedavg = by_name[f"flr, {predictions}"].rounds, by_name[FEDAVG].rounds
    more = median(ours - theirs for ours, theirs in zip(flr, fedavg, strict=True))
    return more / by_name[f"forwards, {FORWARDS[predictions]}"].round
