"""A say that nobody has earned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt

from flr.core.registry import register
from flr.scenario.attacks.common import Share
from flr.scenario.attacks.sign_flip import SignFlip


@register("claimed-samples", kind="attack", title="Claimed samples")
@dataclass(frozen=True)
class ClaimedSamples(SignFlip):
    """Attackers claim samples that they do not have, and send their update turned round.

    Claims count as they do on Flower: no site has more than a third of all that counts.
    """

    clients: Share = 0.1
    scale: Annotated[float, Gt(0)] = 1.0
    claim: Annotated[int, Gt(0)] = 10**9

    def samples(self, own: int) -> int:
        return self.claim
