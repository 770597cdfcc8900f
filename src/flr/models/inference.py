"""Asking trained networks about many samples: the one loop of batched inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from flr.core.contract import Method
from flr.data.on_disk import Numbers

BATCH = 512  # samples in one forward pass; fixed, because another size changes the last bits


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """In eval mode for a moment; every module returns to the mode it had.

    Args:
        network: It or any of its parts may be in training mode.

    Example:
        >>> import torch
        >>> from flr.plugin import evaluating
        >>> network = torch.nn.Dropout()
        >>> with evaluating(network):
        ...     network.training
        False
        >>> network.training
        True
    """
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@torch.no_grad()
def in_batches(network: nn.Module, forward: Callable[[Tensor], Tensor], x: Numbers) -> Tensor:
    """Applies `forward` to x, a batch at a time, in eval mode and without gradients.

    Args:
        network: The network (or networks) that `forward` uses; decides on the device.
        forward: Turns a batch into a tensor with one row for each of its samples.
        x: The samples, or whatever `forward` can turn into samples, such as their row numbers.
    """
    weights = next(network.parameters(), None)
    device = torch.device("cpu") if weights is None else weights.device
    with evaluating(network):
        return torch.cat([forward(part.to(device)) for part in x.split(BATCH)])


def logits_of(network: nn.Module, x: Numbers) -> Tensor:
    """Logits of one network on many samples, in eval mode, in batches of one size.

    Args:
        network: One of `c.model`, say.
        x: The samples.

    Example:
        >>> import torch
        >>> from flr.plugin import logits_of
        >>> logits_of(torch.nn.Linear(4, 3), torch.rand(2000, 4)).shape
        torch.Size([2000, 3])
    """
    return in_batches(network, network, x)


def method_logits(method: Method, networks: nn.ModuleList, x: Numbers) -> Tensor:
    """Logits by the method's own rule, which may join several networks."""
    return in_batches(networks, lambda part: method.predict(networks, part), x)


def predict(method: Method, networks: nn.ModuleList, x: Numbers) -> Tensor:
    """Class numbers by the method's own rule."""
    return in_batches(networks, lambda part: method.predict(networks, part).argmax(1), x).cpu()


def predict_each(networks: nn.ModuleList, x: Numbers) -> dict[str, Tensor]:
    """Class numbers by each network alone ("1", "2"), and by the sum of logits ("ensemble")."""
    stacked = in_batches(networks, lambda part: torch.stack([net(part) for net in networks], 1), x)
    logits = stacked.cpu()
    found = {str(number): own.argmax(1) for number, own in enumerate(logits.unbind(1), start=1)}
    return found | {"ensemble": logits.sum(1).argmax(1)}
