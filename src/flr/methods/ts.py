"""TS: Guo et al., ICML 2017.

*On Calibration of Modern Neural Networks.*
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch.nn.functional as F
from annotated_types import Gt
from torch import Tensor

from flr.core.contract import Batch, Client, Method
from flr.core.registry import register
from flr.core.traits import Traits

Mode = Literal["sharpen", "soften"]


def ts_loss(logits: Tensor, y: Tensor, factor: float, mode: Mode = "sharpen") -> Tensor:
    """CE on factor * z (sharpen) or on z / factor (soften)."""
    return F.cross_entropy(logits * factor if mode == "sharpen" else logits / factor, y)


@register("ts", title="Temperature scaling", paper="Guo et al., ICML 2017", year=2017)
@dataclass(frozen=True)
class TemperatureScaling(Method):
    """Cross-entropy at another temperature; what the network predicts is unaffected.

    Equation:
        L = CE(y, softmax(factor * z))    mode = "sharpen"
        L = CE(y, softmax(z / factor))    mode = "soften"

    State: none.
    Leaves the site: weights and the number of samples.
    Differs: Guo et al. scale after training. The FLR paper writes "sharpening temperature 4"; its
    table puts TS with the methods that sharpen, so this is the default. Dividing by 4, as in
    calibration, is the other reading.
    """

    factor: Annotated[float, Gt(0)] = 4.0
    mode: Mode = "sharpen"

    traits = Traits(approach=("loss",))

    def criterion(self, c: Client, logits: Tensor, b: Batch) -> Tensor:
        return ts_loss(logits, b.y, self.factor, self.mode)
