"""What an audit looks at: given labels, and opinions on them from the federation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.errors import DataError

_ROUNDING = 1e-2  # float16 tables and clamped predictions do not sum to one exactly


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a site has about its own labels: all of it is at the site already.

    Views are class probabilities, n x classes: "global" and "local" are FLR's s and m, "model" is
    the final global model and is always there. `visited` says which rows of the tables mean
    something (None: there are no tables). `source` is a sentence for people. `trained` tells
    whether the model may have been trained on these labels, and so may have memorized them.
    """

    site: str
    names: Sequence[str]
    classes: tuple[str, ...]
    given: Tensor  # int64, n: positions in classes
    views: Mapping[str, Tensor]
    visited: Tensor | None  # bool, n
    source: str
    trained: bool = True

    def __post_init__(self) -> None:
        if "model" not in self.views:
            raise DataError(
                f'{self._where}: expected the view "model"; got {sorted(self.views)}. '
                "Give the final model's probabilities of these samples."
            )
        self._check_labels()
        for name, view in self.views.items():
            self._check_view(name, view)

    def __len__(self) -> int:
        return len(self.given)

    @property
    def _where(self) -> str:
        return f"Audit of {self.site}"

    def _check_labels(self) -> None:
        rows = {len(self.names), len(self.given)}
        rows |= set() if self.visited is None else {len(self.visited)}
        if len(rows) > 1 or not len(self.given):
            raise DataError(
                f"{self._where}: expected at least one sample, and a name and a label for each; "
                f"got {len(self.names):,} names and {len(self.given):,} labels. "
                "Take them from the same rows."
            )
        if int(self.given.min()) < 0 or int(self.given.max()) >= len(self.classes):
            raise DataError(
                f"{self._where}: expected labels from 0 to {len(self.classes) - 1}; got "
                f"{int(self.given.min())} to {int(self.given.max())}. "
                "Give the class list that the model was trained with."
            )

    def _check_view(self, name: str, view: Tensor) -> None:
        expected = (len(self.given), len(self.classes))
        if tuple(view.shape) != expected:
            raise DataError(
                f'{self._where}: expected the view "{name}" to have {expected[0]:,} samples x '
                f"{expected[1]:,} classes; got {' x '.join(f'{n:,}' for n in view.shape)}. "
                "Use the model and the tables that belong to this data."
            )
        meant = view if name == "model" or self.visited is None else view[self.visited]
        sums = meant.sum(1)
        bad = ~(((sums - 1).abs() < _ROUNDING) & (meant >= 0).all(1))  # NaN fails, too
        if bad.any():
            raise DataError(
                f'{self._where}: expected class probabilities in the view "{name}"; '
                f"{int(bad.sum()):,} of {len(meant):,} rows hold NaN, a negative number or do not "
                "sum to 1. The model may have diverged: use an earlier one."
            )

    @property
    def tables(self) -> Tensor:
        """Rows for which FLR's tables have something to say, n."""
        if self.visited is None or not {"global", "local"} & set(self.views):
            return torch.zeros(len(self.given), dtype=torch.bool)
        return self.visited
