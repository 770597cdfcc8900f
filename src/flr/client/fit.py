"""The one training loop, and `run_task`, through which every answer of a client leaves its site."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flr.arrays import Arrays, summed
from flr.client import models
from flr.client import optimisers as optimising
from flr.contract import MODEL, Client, by_name
from flr.errors import RunError

FIT = "fit"  # the task that trains; its networks are in training mode


def run_task(c: Client, name: str) -> Arrays:
    """Does what the server asks; refuses to let anything undeclared leave the site."""
    fitting = name == FIT
    allowed = {k: as_is(v) for k, v in c.inbox.items() if fitting and k.startswith(MODEL)}
    sent = fit(c) if fitting else c.method.tasks()[name](c)
    if declared := by_name(c.method.sends, len(c.model)):
        here = words(c)
        allowed |= {key: (d.size(here), d.dtype) for key, d in declared.items()}
    check_declared(c, name, sent, allowed)
    return sent


Form = tuple[tuple[int, ...], torch.dtype]


def as_is(value: Tensor) -> Form:
    """Shape and type of an array."""
    return tuple(value.shape), value.dtype


def check_declared(c: Client, task: str, sent: Arrays, allowed: dict[str, Form]) -> None:
    """Only weights of the received names and what `sends` declares may leave, in their own form."""
    for name, value in sent.items():
        method = type(c.method).__name__
        if name not in allowed:
            declared = [d.name for d in c.method.sends]
            known = ", ".join(sorted(declared)) or "nothing"
            raise RunError(
                f'Task "{task}" of {method} wanted to send "{name}", which it does not declare '
                f"(declared besides the "
                f"weights: {known}). Nothing was sent. Add it to `sends`, so that sites can see "
                f"what leaves them."
            )
        if as_is(value) != allowed[name]:
            raise RunError(
                f'Task "{task}" of {method} may send "{name}" as {allowed[name]}, but wanted to '
                f"send {as_is(value)}. Nothing was sent. Correct the declaration or the array."
            )


def words(c: Client) -> dict[str, int]:
    """What the words in declared shapes mean at this client."""
    return {
        "classes": c.data.classes,
        "samples": len(c.data),
        "features": models.features(c.model[0]),
        "parameters": sum(value.numel() for value in c.model[0].parameters()),
        "weights": sum(value.numel() for value in c.model[0].state_dict().values()),
    }


def fit(c: Client) -> Arrays:
    """Trains from the received weights; returns the new ones and what `finish` adds."""
    freeze_norms_for_single_samples(c)
    c.method.begin(c)
    optimisers = [optimising.make(c, net) for net in range(len(c.model))]
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
                optimisers[net].step()

    extra = c.method.finish(c)
    if c.train.keep_optimizer:
        for net, optimiser in enumerate(optimisers):
            optimising.keep(c, net, optimiser)
    return extra | weights_of(c.model)


def weights_of(model: nn.ModuleList) -> Arrays:
    """A copy of all parameters and buffers, named as they cross the wire."""
    return {MODEL + key: value.detach().cpu().clone() for key, value in model.state_dict().items()}


def load_weights(model: nn.ModuleList, arrays: Arrays) -> None:
    """The inverse of `weights_of`; ignores what does not belong to the networks."""
    model.load_state_dict({k[len(MODEL) :]: v for k, v in arrays.items() if k.startswith(MODEL)})


def freeze_norms_for_single_samples(c: Client) -> None:
    """A batch of one has no variance: where all are, BatchNorm uses its running statistics."""
    if min(len(c.data), c.train.batch) > 1:
        return
    for module in c.model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()
