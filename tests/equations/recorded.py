"""One client of the recorded trainings: its network, its site, and batches in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from flr.client.worker import frozen_copy
from flr.config import Train
from flr.core.contract import Batch, Client, Method, Site
from flr.methods.shared.noisy_clients import NOISY


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(made: Tensor, expected: Any, atol: float = 1e-7) -> None:
    torch.testing.assert_close(made.detach(), double(expected), atol=atol, rtol=0)


class Net(nn.Module):
    """The network of the recorded trainings."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm, self.head = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(self.hidden(x)).relu())
        return logits


def in_order(c: Client) -> Iterator[Batch]:
    """One epoch in the order of the samples."""
    for rows in torch.arange(len(c.data)).split(c.train.batch):
        yield Batch(c.data.x[rows], c.data.y[rows], rows)


def noisy_client(
    method: Method,
    case: Mapping[str, Any],
    received: Mapping[str, Any],
    state: Mapping[str, Tensor],
    batches: Callable[[Client], Iterator[Batch]] = in_order,
    **train: Any,
) -> Client:
    """The recorded site in float64, which was told that it is noisy."""
    model = nn.ModuleList([Net().double()])
    model.train()
    weights = {
        f"model.0.{k}": torch.tensor(w, dtype=torch.int64) if "num_batches" in k else double(w)
        for k, w in received.items()
    }
    model.load_state_dict({k.removeprefix("model."): w for k, w in weights.items()})
    return Client(
        id=0,
        method=method,
        model=model,
        data=Site("site", double(case["x"]), torch.tensor(case["y"]), 3),
        state=dict(state),
        inbox=weights | {NOISY: torch.tensor(True)},
        step=0,
        round=0,
        rounds=1,
        train=Train(epochs=2, **train),
        order=torch.Generator(),
        augmentation=torch.Generator(),
        rng=torch.Generator(),
        make_batches=batches,
        make_reference=partial(frozen_copy, model),
    )
