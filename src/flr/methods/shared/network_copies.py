"""Networks beside the one in training: kept as a vector, received by name, tuned at the head."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch
from torch import Tensor, nn

from flr.client.fit import fit
from flr.core.arrays import Arrays, with_prefix
from flr.core.contract import Client, Method
from flr.methods.shared.selection import subset


def copied(network: nn.Module, weights: Arrays) -> nn.Module:
    """Another network of the same shape, with these parameters and buffers."""
    other = copy.deepcopy(network)
    other.load_state_dict(weights)
    return other


def renamed(arrays: Arrays, old: str, new: str) -> Arrays:
    """The entries under a prefix, under another one."""
    return {new + name[len(old) :]: value for name, value in with_prefix(arrays, old).items()}


def flatten(network: nn.Module) -> Tensor:
    """All parameters and buffers as one vector."""
    return torch.cat([v.detach().flatten().float().cpu() for v in network.state_dict().values()])


def unflatten(network: nn.Module, flat: Tensor) -> Arrays:
    """The inverse of `flatten`, for a network of the same shape."""
    weights = network.state_dict()
    parts = flat.split([v.numel() for v in weights.values()])
    pairs = zip(weights.items(), parts, strict=True)
    return {name: part.view_as(value).to(value.dtype) for (name, value), part in pairs}


def with_tuned_head(c: Client, network: nn.Module, rows: Tensor) -> nn.Module:
    """The network after an epoch of its last linear layer on these samples, by the one loop.

    It learns by plain cross-entropy; batches and augmentation come from the method's own generator,
    so that those of the client's training are what they would be without it.
    """
    network.requires_grad_(False)
    head = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    head.requires_grad_(True)
    alone = replace(
        subset(c, rows),
        method=Method(),
        model=nn.ModuleList([network]),
        state={},
        scratch={},
        order=c.rng,
        augmentation=c.rng,
        train=c.train.model_copy(update={"epochs": 1}),
    )
    fit(alone)
    return network
