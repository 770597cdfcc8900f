"""Label noise by a matrix of one's own, and noise that grows from client to client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from flr.data.dataset import NoiseMap
from flr.errors import ConfigError
from flr.registry import register
from flr.scenario.noise import (
    Drawn,
    Floats,
    Indices,
    Pair,
    Ratio,
    Share,
    Struck,
    Symmetric,
    World,
    flip,
    pick,
)

Base = Literal["symmetric", "pair"]


@register("confusion", kind="noise", title="Given confusion matrix")
@dataclass(frozen=True)
class Confusion(Drawn):
    """A struck sample of true class t gets label c with the probability in row t, column c.

    `matrix` is a list of rows, or the path of a CSV file with one row of numbers per line. Rows are
    divided by their sums, so that counts will do. With `floor = 1`, as it is if left out, every
    sample of a noisy site is struck: the matrix alone decides how many labels are wrong.
    """

    floor: Share = 1.0
    matrix: list[list[float]] | Path = Path("confusion.csv")

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        """The matrix, with rows that sum to 1."""
        rows = read_matrix(self.matrix) if isinstance(self.matrix, Path) else self.matrix
        n = len(classes)
        if len(rows) != n or any(len(row) != n for row in rows):
            shape = f"{len(rows)} rows of {' or '.join(sorted({str(len(r)) for r in rows})) or 0}"
            raise ConfigError(
                f"[noise] matrix: expected {n} rows of {n} numbers, one for each class of the data "
                f"set; got {shape}. Correct the matrix."
            )
        table = np.array(rows, dtype=np.float64)
        if not (np.isfinite(table).all() and (table >= 0).all() and (table.sum(axis=1) > 0).all()):
            raise ConfigError(
                "[noise] matrix: expected probabilities or counts, none below 0 and some above it "
                "in every row; got others. Correct the matrix."
            )
        return np.asarray(table / table.sum(axis=1, keepdims=True))


def read_matrix(path: Path) -> list[list[float]]:
    """Rows of numbers from a CSV file."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        return [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"[noise] matrix: expected a CSV file of numbers at {path}; it cannot be read "
            f"({error}). Check the path, and that there is no heading."
        ) from None


@register("ramp", kind="noise", title="Ramps", paper="Kim et al., CIKM 2022 (FedRN)", year=2022)
@dataclass(frozen=True)
class Ramp:
    """Rates grow linearly from client to client, from `low` to `high`, in each group of clients.

    `groups` names the noise of each group: "symmetric" (never the true class) or "pair" (y + 1).
    Clients are cut into equal groups by their number; client j of m in its group has the rate
    low + (high - low) j / (m - 1), and exactly int(r n) of its n samples are struck, or each with
    probability r (`ratio = "bernoulli"`).
    """

    low: Share = 0.0
    high: Share = 0.4
    groups: tuple[Base, ...] = ("symmetric",)
    ratio: Ratio = "exact"

    def __post_init__(self) -> None:
        if self.low > self.high or not self.groups:
            raise ConfigError(
                f"[noise] ramp: expected low <= high and a group; got low = {self.low}, high = "
                f"{self.high} and {len(self.groups)} groups. Correct them."
            )

    @property
    def level(self) -> float:
        """Inputs stay as they are."""
        return 0.0

    def noisy(self, sites: int, rng: np.random.Generator) -> Indices:
        """All, though the rate of some may be 0."""
        return np.arange(sites)

    def rate(self, site: int, world: World, rng: np.random.Generator) -> float:
        """By the client's place in its group."""
        group = self.group_of(np.array([site]), world.sites)[0]
        members = self.members(world.sites)[group]
        return float(np.linspace(self.low, self.high, len(members))[site - members[0]])

    def choose(
        self, samples: Indices, rate: float, world: World, rng: np.random.Generator
    ) -> Indices:
        """Exactly int(r n) samples, or each with probability r."""
        return pick(len(samples), rate, self.ratio, rng)

    def relabel(self, struck: Struck, world: World) -> Indices:
        """By the noise of each sample's group."""
        kinds: dict[Base, Drawn] = {"symmetric": Symmetric(include_true=False), "pair": Pair()}
        group = self.group_of(struck.site, world.sites)
        new = world.labels[struck.sample]
        for number, base in enumerate(self.groups):
            mine = group == number
            transition = kinds[base].transition(world.classes, None)
            new[mine] = flip(new[mine], transition, struck.draw[mine])
        return new

    def members(self, sites: int) -> list[Indices]:
        """The clients of each group; the first groups have one more where they are unequal."""
        return np.array_split(np.arange(sites), len(self.groups))

    def group_of(self, site: Indices, sites: int) -> Indices:
        """The group of each client."""
        ends = np.cumsum([len(group) for group in self.members(sites)])
        return np.searchsorted(ends, site, side="right")
