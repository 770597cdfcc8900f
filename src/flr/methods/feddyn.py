"""FedDyn: Acar et al., ICLR 2021.

*Federated Learning Based on Dynamic Regularization.*
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from flr.aggregate import mean, weighted_average
from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import MODEL, Client, Method, Reply, Server, Task
from flr.core.registry import register
from flr.core.traits import Declared, Traits

AVERAGE, SUM_H = "feddyn.average.", "feddyn.sum_h."


def local_alpha(alpha: float, n_k: int, mean_n: float) -> float:
    """alpha_k = alpha / (n_k / mean n)."""
    return alpha / (n_k / mean_n)


def dynamic_penalty(
    theta: Sequence[Tensor], theta_srv: Sequence[Tensor], h: Sequence[Tensor], alpha_k: float
) -> Tensor:
    """alpha_k * <theta, h - theta_srv> + alpha_k/2 * |theta|^2 over all parameters."""
    terms = [
        (t * (past - received)).sum() + t.square().sum() / 2
        for t, received, past in zip(theta, theta_srv, h, strict=True)
    ]
    return alpha_k * torch.stack(terms).sum()


def updated_h(h: Tensor, theta: Tensor, theta_srv: Tensor) -> Tensor:
    """h_k + theta_k - theta_srv, after training."""
    return h + theta - theta_srv


def server_update(
    theta: Sequence[Tensor],
    theta_srv: Tensor,
    sum_h: Tensor,
    N: int,  # noqa: N803 - the paper's letter
) -> tuple[Tensor, Tensor, Tensor]:
    """One parameter: avg = mean theta_k of the selected; sum h; cloud = avg + sum h / N."""
    avg = weighted_average(theta, [1.0] * len(theta))
    total = sum_h.double() + len(theta) * (avg - theta_srv.double())
    return avg, total, avg + total / N


@register("feddyn", title="FedDyn", paper="Acar et al., ICLR 2021", year=2021)
@dataclass(frozen=True)
class FedDyn(Method):
    """Corrects each client's drift by what it has drifted so far; stacks on any loss.

    Equation:
        alpha_k = alpha / (n_k / mean n)
        client  L = CE + alpha_k * <w, h_k - w_srv> + alpha_k/2 * |w|^2
                h_k <- h_k + w_k - w_srv
        server  avg   = mean of the selected w_k, not weighted
                cloud = avg + 1/N * sum of all h_k

    Clients start from cloud; avg is what is evaluated and saved.

    State: h_k (the size of the parameters); at the server avg and the sum of all h_k.
    Leaves the site: weights and the number of samples; the server finds the sum of h_k from the
    weights alone.
    Differs: BatchNorm's buffers, which the authors' networks do not have, are averaged like
    FedAvg's and left out of h. Clipping is the config's (the authors': train.clip = 10); it sees
    alpha_k * w too, which the authors give to SGD as weight decay, past their clipping.
    """

    alpha: Annotated[float, Ge(0)] = 0.01

    traits = Traits(
        keeps=(Declared("feddyn.{net}.h", ("parameters",), "its drift so far"),),
        receives=(Declared("feddyn.mean_samples", (), "mean number of samples of a site"),),
        aggregates=True,
    )

    def start(self, s: Server) -> None:
        s.arrays["feddyn.mean_samples"] = torch.tensor(sum(s.examples) / len(s.examples))
        for name in with_prefix(s.arrays, MODEL).keys() - s.buffers:
            s.state[SUM_H + name] = torch.zeros_like(s.arrays[name])

    def begin(self, c: Client) -> None:
        mean_n = c.inbox["feddyn.mean_samples"].item()
        c.scratch["feddyn.alpha"] = local_alpha(self.alpha, len(c.data), mean_n)
        for net, received in enumerate(c.reference):
            h = c.state.get(f"feddyn.{net}.h")
            start = [torch.zeros_like(w) for w in received.parameters()]
            c.scratch[f"feddyn.{net}"] = start if h is None else shaped(h, received)

    def penalty(self, c: Client, net: int) -> Tensor | float:
        w, received = list(c.model[net].parameters()), list(c.reference[net].parameters())
        return dynamic_penalty(w, received, c.scratch[f"feddyn.{net}"], c.scratch["feddyn.alpha"])

    def finish(self, c: Client) -> Arrays:
        for net, (network, received) in enumerate(zip(c.model, c.reference, strict=True)):
            drifts = c.scratch[f"feddyn.{net}"]
            trios = zip(drifts, network.parameters(), received.parameters(), strict=True)
            h = [updated_h(*trio).detach().flatten() for trio in trios]
            c.state[f"feddyn.{net}.h"] = torch.cat(h).cpu()
        return {}

    def reduce(self, s: Server, task: Task, replies: list[Reply]) -> None:
        s.arrays |= mean(replies, MODEL, {name: s.arrays[name] for name in s.buffers})
        for name in sorted(with_prefix(s.arrays, MODEL).keys() - s.buffers):
            replied, received = [r.arrays[name] for r in replies], s.arrays[name]
            made = server_update(replied, received, s.state[SUM_H + name], s.clients)
            avg, sum_h, cloud = (value.to(received.dtype) for value in made)
            s.state[AVERAGE + name], s.state[SUM_H + name], s.arrays[name] = avg, sum_h, cloud
        s.round += 1

    def result(self, s: Server) -> Arrays:
        averages = with_prefix(s.state, AVERAGE)
        named = {name.removeprefix(AVERAGE): value for name, value in averages.items()}
        return with_prefix(s.arrays, MODEL) | named


def shaped(h: Tensor, network: nn.Module) -> list[Tensor]:
    """A flat vector cut into the shapes of a network's parameters."""
    parameters = list(network.parameters())
    parts = h.to(parameters[0].device).split([w.numel() for w in parameters])
    return [part.view_as(w) for part, w in zip(parts, parameters, strict=True)]
