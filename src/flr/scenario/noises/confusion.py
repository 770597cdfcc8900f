"""Label noise by a matrix of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flr.core.errors import ConfigError
from flr.core.registry import register
from flr.data.dataset import NoiseMap
from flr.scenario.noises.common import Floats, Share, TransitionNoise


@register("confusion", kind="noise", title="Given confusion matrix")
@dataclass(frozen=True)
class Confusion(TransitionNoise):
    """A selected sample of true class t gets label c with the probability in row t, column c.

    `matrix` is a list of rows, or the path of a CSV file with one row of numbers per line. Rows are
    divided by their sums, so that counts will do. With `floor = 1`, as it is if left out, every
    sample of a noisy site is selected: the matrix alone decides how many labels are wrong.
    """

    floor: Share = 1.0
    matrix: list[list[float]] | Path = Path("confusion.csv")

    def transition(self, classes: tuple[str, ...], noise_map: NoiseMap | None) -> Floats:
        rows = _read(self.matrix) if isinstance(self.matrix, Path) else self.matrix
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


def _read(path: Path) -> list[list[float]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
        return [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"[noise] matrix: expected a CSV file of numbers at {path}; it cannot be read "
            f"({error}). Check the path, and that there is no heading."
        ) from None
