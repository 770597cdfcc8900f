"""What turns gradients into steps: one optimiser for each network, fresh in each task.

A new one is a registered function of parameters, step size, momentum and weight decay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor
from torch.optim import sgd as kernels

from flr.client.schedules import learning_rate
from flr.core.arrays import Arrays
from flr.core.contract import Client
from flr.core.registry import register


class Optimizer(Protocol):
    """Its arrays are what a client remembers with `keep_optimizer`."""

    def step(self) -> None: ...

    def arrays(self) -> Arrays: ...

    def load(self, arrays: Arrays) -> None: ...


class SGD:
    """SGD with momentum by torch's own kernels.

    Without the class around them: it imports torch's compiler, which takes seconds in each
    process, and its bookkeeping takes as long as a small network's step.
    """

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, momentum: float, weight_decay: float
    ) -> None:
        self.parameters = list(parameters)
        self.momenta: list[Tensor | None] = [None] * len(self.parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.fused = all(p.device.type in ("cpu", "cuda") for p in self.parameters)

    @torch.no_grad()
    def step(self) -> None:
        """A kernel wants all momenta or none: what has its first gradient only now goes apart."""
        learning = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        known = [i for i in learning if self.momenta[i] is not None]
        if len(known) in (0, len(learning)):
            self._step(learning)
        else:
            self._step(known)
            self._step([i for i in learning if self.momenta[i] is None])

    def _step(self, places: list[int]) -> None:
        parameters = [self.parameters[i] for i in places]
        momenta = [self.momenta[i] for i in places] if self.momentum else []
        kernels.sgd(
            parameters,
            [p.grad for p in parameters if p.grad is not None],
            momenta,
            fused=self.fused,
            foreach=False,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        for i, momentum in zip(places, momenta, strict=False):  # none without momentum
            self.momenta[i] = momentum

    def arrays(self) -> Arrays:
        return {
            f"{i}.momentum_buffer": momentum.cpu().clone()
            for i, momentum in enumerate(self.momenta)
            if momentum is not None
        }

    def load(self, arrays: Arrays) -> None:
        for name, value in arrays.items():
            i = int(name.partition(".")[0])
            self.momenta[i] = laid_out_like(self.parameters[i], value)


class Adam:
    """torch's Adam, with what it remembers under names; AdamW takes decay out of the gradient."""

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, weight_decay: float, decoupled: bool = False
    ) -> None:
        self.parameters = list(parameters)
        fused = all(p.device.type in ("cpu", "cuda") for p in self.parameters)
        family = torch.optim.AdamW if decoupled else torch.optim.Adam
        self.inner = family(self.parameters, lr, weight_decay=weight_decay, fused=fused)

    def step(self) -> None:
        self.inner.step()

    def arrays(self) -> Arrays:
        return {
            f"{number}.{key}": value.detach().cpu().clone()
            for number, entry in self.inner.state_dict()["state"].items()
            for key, value in entry.items()
        }

    def load(self, arrays: Arrays) -> None:
        entries: dict[int, dict[str, Tensor]] = {}
        for name, value in arrays.items():
            number, key = name.split(".", 1)
            like = self.parameters[int(number)]
            kept = laid_out_like(like, value) if value.shape == like.shape else value.clone()
            entries.setdefault(int(number), {})[key] = kept
        self.inner.load_state_dict(self.inner.state_dict() | {"state": entries})


def laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """A copy in the parameter's memory format: fused kernels go through both side by side."""
    return torch.empty_like(parameter.detach()).copy_(value)


@register("sgd", kind="optimizer", title="SGD")
def sgd(
    parameters: Iterable[Tensor], lr: float, momentum: float, weight_decay: float, /
) -> Optimizer:
    """Stochastic gradient descent with `momentum` and `weight_decay`."""
    return SGD(parameters, lr, momentum, weight_decay)


@register("adam", kind="optimizer", title="Adam")
def adam(
    parameters: Iterable[Tensor], lr: float, _momentum: float, weight_decay: float, /
) -> Optimizer:
    """Adam; `weight_decay` is added to the gradient, as in torch."""
    return Adam(parameters, lr, weight_decay)


@register("adamw", kind="optimizer", title="AdamW")
def adamw(
    parameters: Iterable[Tensor], lr: float, _momentum: float, weight_decay: float, /
) -> Optimizer:
    """Adam with `weight_decay` beside the gradient; 0, as everywhere here, unless it is given."""
    return Adam(parameters, lr, weight_decay, decoupled=True)


def make(c: Client, net: int) -> Optimizer:
    """A fresh optimiser for one network; `keep_optimizer` goes on with the last task's momentum."""
    parameters, train = c.model[net].parameters(), c.train
    made: Optimizer = train.optimizer.build()(
        parameters, learning_rate(c), train.momentum, train.weight_decay
    )
    prefix = _prefix(net)
    kept = {k.removeprefix(prefix): v for k, v in c.state.items() if k.startswith(prefix)}
    if c.train.keep_optimizer and kept:
        made.load(kept)
    return made


def keep(c: Client, net: int, optimizer: Optimizer) -> None:
    """Writes its arrays into the client's state."""
    c.state |= {_prefix(net) + name: value for name, value in optimizer.arrays().items()}


def _prefix(net: int) -> str:
    return f"optimizer.{net}."
