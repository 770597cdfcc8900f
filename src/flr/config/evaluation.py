"""The shape of `[eval]`: what is measured of a run, when, and which round's model it ends with."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from flr.config.entry import STRICT

Metric = Literal[
    "balanced-accuracy", "macro-f1", "auroc", "calibration-error", "worst-site", "site-accuracy"
]


class Eval(BaseModel):
    """`[eval]`: rounds between two looks at the model (0 never looks), and which one is kept."""

    model_config = STRICT

    every: Annotated[int, Field(ge=0)] = 1
    memorization_every: Annotated[int, Field(ge=0)] = 1
    metrics: tuple[Metric, ...] = ()
    validation: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    select: Literal["last", "validation"] = "last"
    patience: Annotated[int, Field(ge=1)] | None = None

    def table(self) -> dict[str, Any]:
        """The TOML table of this section; of what is not asked for it says nothing."""
        asked = {"metrics": self.metrics, "validation": self.validation, "patience": self.patience}
        if self.select != "last":
            asked["select"] = self.select
        own = {"every": self.every, "memorization_every": self.memorization_every}
        return {**own, **{key: value for key, value in asked.items() if value}}
