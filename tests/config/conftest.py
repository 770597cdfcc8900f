"""A registry with entries that are made to disagree, beside the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge
from torch import Tensor

from flr.core import registry
from flr.core.arrays import Arrays
from flr.core.contract import Batch, Client, Method, Reply
from flr.core.registry import register


@dataclass(frozen=True)
class Picky(Method):
    """Takes options of every type, and refuses long runs.

    Leaves the site: nothing.
    """

    strength: Annotated[float, Ge(0)] = 1
    steps: int = 3
    mode: Literal["soft", "hard"] = "soft"
    names: tuple[str, ...] = ("a",)
    table: dict[str, float] = field(default_factory=dict)
    file: Path | None = None
    map: str | dict[str, str] | list[int] = "own"

    def __post_init__(self) -> None:
        if self.steps == 13:
            raise ValueError("steps = 13 brings bad luck. Use 12.")

    def check(self, config: Any) -> list[str]:
        return ["picky runs at most 99 rounds: lower rounds"] if config.rounds > 99 else []


@dataclass(frozen=True)
class Loud(Method):
    """Owns the loss.

    Leaves the site: nothing.
    """

    def loss(self, c: Client, b: Batch) -> Tensor:
        return b.x.sum()


@dataclass(frozen=True)
class Quiet(Loud):
    """Owns the loss as well.

    Leaves the site: nothing.
    """


def middle(replies: list[Reply], prefix: str, previous: Arrays, /, *, share: float = 0.5) -> Arrays:
    """Takes an option, and what the engine supplies."""
    return {"share": share, "prefix": prefix}  # type: ignore[dict-item]


@pytest.fixture(autouse=True, scope="session")
def toys() -> Iterator[None]:
    """Adds the toys for this folder's tests only."""
    for kind in registry.KINDS:
        registry.entries(kind)
    before = dict(registry._entries)
    register("picky", aliases={"meek": ("Picky with little strength.", {"strength": 0.1})})(Picky)
    register("loud")(Loud)
    register("quiet")(Quiet)
    register("middle", kind="aggregator")(middle)
    yield
    registry._entries.clear()
    registry._entries.update(before)
