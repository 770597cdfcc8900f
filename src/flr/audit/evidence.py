"""What an audit starts from: given labels, and the federation's predictions of these samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.core.errors import DataError

OUTSIDE = ("site", "neighbours")  # formed without a sample's own label
TABLES = ("global", "local")  # kept while training, of the samples that training visited
VIEWS = (*OUTSIDE, *TABLES, "model")
_ROUNDING = 1e-2  # float16 tables and clamped predictions do not sum to one exactly


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a site has about its own labels: all of it is at the site already.

    Views are class probabilities, n x classes. "site" and "neighbours" are out of sample: formed at
    the site, of each sample without its own label (`out_of_sample.with_site_opinions`). "model" is
    the final global model; `trained` tells whether it may have memorized these labels. "global" and
    "local" are what the site has kept of predictions while it trained; `visited` says which of
    their rows mean something (None: nothing was kept). `features` are numbers that describe each
    sample, from a backbone or a table. `source` is a sentence for people.
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
        if (not self.views and self.features is None) or not set(self.views) <= set(VIEWS):
            raise DataError(
                f"{where}: expected features or views among {', '.join(VIEWS)}; got "
                f"{', '.join(self.views) or 'neither'}. Give class probabilities or features."
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
        if self.features is not None:
            self._check_features(where, self.features)

    def _check_features(self, where: str, features: Tensor) -> None:
        if features.dim() != 2 or len(features) != len(self.given):
            raise DataError(
                f"{where}: expected features of {len(self.given):,} samples, one row each; got "
                f"{' x '.join(f'{size:,}' for size in features.shape)}. Take them from the same "
                "rows as the labels."
            )
        bad = ~features.isfinite().all(1)
        if bad.any():
            raise DataError(
                f"{where}: expected numbers as features; {int(bad.sum()):,} of {len(bad):,} rows "
                "hold NaN or infinity. Leave these samples out, or fill the gaps."
            )

    def _check_view(self, expected: str, name: str, view: Tensor) -> None:
        n, classes = len(self.given), len(self.classes)
        if tuple(view.shape) != (n, classes):
            raise DataError(
                f"{expected} have {n:,} samples x {classes:,} classes; got "
                f"{' x '.join(f'{size:,}' for size in view.shape)}. "
                "Use the model and the tables that belong to this data."
            )
        meant = view[self.known(name)]
        bad = ~(((meant.sum(1) - 1).abs() < _ROUNDING) & (meant >= 0).all(1))  # NaN fails, too
        if bad.any():
            raise DataError(
                f"{expected} hold class probabilities; {int(bad.sum()):,} of {len(meant):,} rows "
                "hold NaN, a negative number or do not sum to 1. The model may have diverged: use "
                "an earlier one."
            )

    def __len__(self) -> int:
        return len(self.given)

    def known(self, view: str) -> Tensor:
        """Rows of which a view has something to say, bool, n."""
        if view in TABLES and self.visited is not None:
            return self.visited
        return torch.full((len(self),), view in self.views)
