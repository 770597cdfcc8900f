"""What an audit starts from: given labels, and the federation's predictions of these samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.core.errors import DataError

_ROUNDING = 1e-2  # float16 tables and clamped predictions do not sum to one exactly


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a site has about its own labels: all of it is at the site already.

    Views are class probabilities, n x classes: "model" is the final global model and is always
    there; "global" and "local" are what the site has kept of predictions while it trained.
    `visited` says which rows of these mean something (None: nothing was kept). `source` is a
    sentence for people. `trained` tells whether the model may have memorized these labels.
    """

    site: str
    names: Sequence[str]
    classes: tuple[str, ...]
    given: Tensor  # int64, n: positions in classes
    views: Mapping[str, Tensor]
    visited: Tensor | None  # bool, n
    source: str
    trained: bool = True
    features: Tensor | None = None  # float, n x d, not normalised

    def __post_init__(self) -> None:
        where, n, classes = f"Audit of {self.site}", len(self.given), len(self.classes)
        if "model" not in self.views:
            raise DataError(
                f'{where}: expected the view "model"; got {sorted(self.views)}. '
                "Give the final model's probabilities of these samples."
            )
        visited = n if self.visited is None else len(self.visited)
        if not n or not n == len(self.names) == visited:
            raise DataError(
                f"{where}: expected at least one sample, and a name and a label for each; "
                f"got {len(self.names):,} names and {n:,} labels. Take them from the same rows."
            )
        low, high = int(self.given.min()), int(self.given.max())
        if low < 0 or high >= classes:
            raise DataError(
                f"{where}: expected labels from 0 to {classes - 1}; got {low} to {high}. "
                "Give the class list that the model was trained with."
            )
        for name, view in self.views.items():
            self._check_view(f'{where}: expected the view "{name}" to', name, view)

    def _check_view(self, expected: str, name: str, view: Tensor) -> None:
        n, classes = len(self.given), len(self.classes)
        if tuple(view.shape) != (n, classes):
            raise DataError(
                f"{expected} have {n:,} samples x {classes:,} classes; got "
                f"{' x '.join(f'{size:,}' for size in view.shape)}. "
                "Use the model and the tables that belong to this data."
            )
        meant = view if name == "model" or self.visited is None else view[self.visited]
        bad = ~(((meant.sum(1) - 1).abs() < _ROUNDING) & (meant >= 0).all(1))  # NaN fails, too
        if bad.any():
            raise DataError(
                f"{expected} hold class probabilities; {int(bad.sum()):,} of {len(meant):,} rows "
                "hold NaN, a negative number or do not sum to 1. The model may have diverged: use "
                "an earlier one."
            )

    def __len__(self) -> int:
        return len(self.given)

    @property
    def tables(self) -> Tensor:
        """Rows of which the site has kept predictions, bool, n."""
        none = torch.zeros(len(self), dtype=torch.bool)
        return none if self.visited is None or len(self.views) == 1 else self.visited
