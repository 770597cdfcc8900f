"""`amp = "bf16"`: networks compute in bfloat16 while a client does a task, all else in float32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def bf16(networks: nn.ModuleList, device: torch.device) -> Iterator[None]:
    """Has each network compute in bfloat16 from its input to its logits, which are float32 again.

    Weights, gradients, losses and what a method does with logits stay in float32; so do
    evaluations, which happen outside. Copies that a method makes meanwhile compute alike.
    """
    handles = []
    for network in networks:
        handles.append(network.register_forward_pre_hook(_Enter(device.type)))
        handles.append(network.register_forward_hook(_leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Enter:
    """Begins autocast; `_leave` finds it on the network, the innermost call first."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, network: nn.Module, _inputs: Any) -> None:
        with ExitStack() as stack:
            stack.enter_context(torch.autocast(self.kind, dtype=torch.bfloat16))
            vars(network).setdefault("_bf16", []).append(stack.pop_all())


def _leave(network: nn.Module, _inputs: Any, logits: Any) -> Any:
    """Ends autocast, after an error in the network too, where there are no logits."""
    vars(network)["_bf16"].pop().close()
    return logits.float() if isinstance(logits, Tensor) else None
