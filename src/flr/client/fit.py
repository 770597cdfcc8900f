"""The one training loop."""

from __future__ import annotations

from torch import nn

from flr.client.optimizer import keep, make
from flr.core.arrays import Arrays, summed
from flr.core.contract import Client
from flr.models.networks import weights_of


def fit(c: Client) -> Arrays:
    """Trains from the received weights; returns the new ones and what `finish` adds."""
    freeze_norms_for_single_samples(c)
    c.method.begin(c)
    optimizers = [make(c, net) for net in range(len(c.model))]
    weights = list(c.model.parameters())  # looked up once: the walk through modules takes longer

    for epoch in range(c.train.epochs):
        for b in c.method.batches(c, epoch):
            trained = range(len(c.model)) if b.networks is None else b.networks
            penalties = (c.method.penalty(c, net) for net in trained)
            loss = summed([c.method.loss(c, b), *penalties])
            for weight in weights:
                weight.grad = None
            loss.backward()
            for net in trained:
                if c.train.clip is not None:
                    nn.utils.clip_grad_norm_(c.model[net].parameters(), c.train.clip)
                optimizers[net].step()

    extra = c.method.finish(c)
    if c.train.keep_optimizer:
        for net, optimizer in enumerate(optimizers):
            keep(c, net, optimizer)
    return extra | weights_of(c.model)


def freeze_norms_for_single_samples(c: Client) -> None:
    """A batch of one has no variance: where all are, BatchNorm uses its running statistics."""
    if min(len(c.data), c.train.batch) > 1:
        return
    for module in c.model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
