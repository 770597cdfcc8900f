"""What leaves a site: each reply of a client passes `run_task`, which checks all that is sent."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flr.client.fit import fit
from flr.client.validate import validate
from flr.core.arrays import Arrays
from flr.core.contract import MODEL, Client
from flr.core.errors import RunError
from flr.core.traits import VALIDATE, VALIDATION_SENDS, by_name
from flr.models import networks

FIT = "fit"  # the task that trains; its networks are in training mode


def run_task(c: Client, name: str) -> Arrays:
    """Does what the server asks, and checks what would be sent.

    Only weights of the received names and what the method declares in `sends` may leave, each in
    its declared shape and type; of held-out samples, what every run that validates declares.
    """
    fitting = name == FIT
    allowed = {k: _format(v) for k, v in c.inbox.items() if fitting and k.startswith(MODEL)}
    own = {FIT: fit, VALIDATE: validate}
    sent = own[name](c) if name in own else c.method.tasks()[name](c)
    sends = VALIDATION_SENDS if name == VALIDATE else c.method.traits.sends
    if declared := by_name(sends, len(c.model)):
        words = shape_words(c)
        allowed |= {key: (d.size(words), d.dtype) for key, d in declared.items()}
    for key, value in sent.items():
        method = type(c.method).__name__
        if key not in allowed:
            known = ", ".join(sorted(d.name for d in c.method.traits.sends)) or "nothing"
            raise RunError(
                f'Task "{name}" of {method} wanted to send "{key}", which it does not declare '
                f"(declared besides the weights: {known}). Nothing was sent. Add it to `sends`, so "
                "that sites can see what leaves them."
            )
        if _format(value) != allowed[key]:
            raise RunError(
                f'Task "{name}" of {method} may send "{key}" as {allowed[key]}, but wanted to '
                f"send {_format(value)}. Nothing was sent. Correct the declaration or the array."
            )
    return sent


def _format(value: Tensor) -> tuple[tuple[int, ...], torch.dtype]:
    return tuple(value.shape), value.dtype


def shape_words(c: Client) -> dict[str, int]:
    """What the words in declared shapes mean at this client."""
    return {"samples": len(c.data), **common_words(c.model[0], c.data.classes)}


def common_words(network: nn.Module, classes: int) -> dict[str, int]:
    """What those words mean that mean the same at every client, and at the server."""
    return {
        "classes": classes,
        "features": networks.features(network),
        "parameters": sum(value.numel() for value in network.parameters()),
        "weights": sum(value.numel() for value in network.state_dict().values()),
    }
