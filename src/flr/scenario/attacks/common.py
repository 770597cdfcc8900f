"""What all attacks share.

Exactly round(share * N) clients attack, in every round they are asked; the scenario's seed decides
which. Extra arrays that a method sends stay as they are, and so do buffers.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from torch import Tensor

from flr.core import seeds
from flr.data.train_test_split import Indices

Share = Annotated[float, Ge(0), Le(1)]


class Attack:
    """What an attacker does; without changes, it is an honest client.

    Example:
        >>> import torch
        >>> from flr.scenario.attacks.common import Attack
        >>> class Silent(Attack):
        ...     def weights(self, sent, received, honest, rng):
        ...         return torch.zeros_like(sent)
        >>> Silent().weights(torch.ones(2), torch.ones(2), torch.ones(1, 2), None).tolist()
        [0.0, 0.0]
    """

    relabels: ClassVar[bool] = False  # whether labels are changed, and so the scenario

    @property
    def clients(self) -> float:
        """The share of attackers."""
        return 0.0

    def labels(self, given: Indices, classes: int) -> Indices:
        """What an attacker makes of the labels of its site."""
        return given

    def samples(self, own: int) -> int:
        """How many samples an attacker says that it has."""
        return own

    def weights(
        self, sent: Tensor, received: Tensor, honest: Tensor, rng: torch.Generator
    ) -> Tensor:
        """What an attacker answers in place of a trained parameter that was to be sent.

        `honest` (n x ...) is what the others of the round send: attackers may know everything.
        """
        return sent


def attackers(share: float, sites: int, seed: int) -> tuple[int, ...]:
    """Exactly round(share * N) clients, sorted."""
    order = seeds.numpy_generator(seed, "attack/clients").permutation(sites)
    return tuple(sorted(order[: round(share * sites)].tolist()))
