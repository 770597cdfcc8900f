"""How a site stores a row of probabilities for each sample: whole, or by its largest entries.

A million samples of a thousand classes are 4 GB in float32 for each table. In float16 they are
half of that; by their ten largest entries in float16 they are 40 MB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flr.core.arrays import Arrays
from flr.core.traits import Declared

NUMBERS = torch.int16  # of classes; one type for all sites, so that it can be declared
MOST_CLASSES = torch.iinfo(NUMBERS).max + 1


@dataclass(frozen=True)
class TableFormat:
    """What is kept of a row between two visits; it is computed with in float32 or better."""

    dtype: torch.dtype = torch.float32
    top_k: int | None = None  # None: all entries

    def declared(self, name: str, what: str) -> tuple[Declared, ...]:
        """The arrays of a table, as a method says what a site keeps."""
        if self.top_k is None:
            return (Declared(name, ("samples", "classes"), what, self.dtype),)
        k = self.top_k
        largest = f"{what}, the {k} largest of a row (all, where there are fewer classes)"
        return (
            Declared(name, ("samples", k), largest, self.dtype),
            Declared(f"{name}_classes", ("samples", k), f"which classes {name} is of", NUMBERS),
        )

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{dtype}, " + ("whole rows" if self.top_k is None else f"top_k = {self.top_k}")


def largest(p: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest entries of each row, largest first, and the numbers of their classes."""
    values, classes = p.topk(k, dim=1)
    return values, classes


def whole(values: Tensor, classes: Tensor, number: int) -> Tensor:
    """Rows of probabilities from their largest entries: the rest is even over all other classes.

    What rounding has added, or taken where there are no other classes, is shared in proportion.
    """
    total = values.sum(1, keepdim=True)
    others = number - values.shape[1]
    rest = (1 - total).clamp(min=0) / max(others, 1)
    least = 1.0 if others else 0.5  # 0.5: for rows that were never written, to divide by
    return rest.repeat(1, number).scatter_(1, classes.long(), values / total.clamp(min=least))


def rows_of(state: Mapping[str, Tensor], name: str, classes: int) -> Tensor:
    """A kept table as whole rows that sum to one, samples x classes."""
    values = state[name].float()
    if f"{name}_classes" in state:
        values = whole(values, state[f"{name}_classes"], classes)
    return values / values.sum(1, keepdim=True).clamp(min=1e-6)  # rows never written are zero


class PredictionTable(nn.Module):
    """A row of probabilities for each sample; `table[index]` reads and writes whole rows.

    The buffers stay out of `state_dict()`. A row that was never written has no meaning.
    """

    values: Tensor  # samples x classes, or samples x top_k
    classes: Tensor | None  # samples x top_k

    def __init__(self, samples: int, classes: int, form: TableFormat) -> None:
        super().__init__()
        if form.top_k is not None and classes > MOST_CLASSES:
            raise ValueError(
                f"Expected at most {MOST_CLASSES:,} classes for rows of {form}; got {classes:,}. "
                "Leave top_k out."
            )
        self.number = classes
        kept = classes if form.top_k is None else min(form.top_k, classes)
        values = torch.zeros(samples, kept, dtype=form.dtype)
        numbers = None if form.top_k is None else torch.zeros(samples, kept, dtype=NUMBERS)
        self.register_buffer("values", values, persistent=False)
        self.register_buffer("classes", numbers, persistent=False)

    def __getitem__(self, index: Tensor) -> Tensor:
        """Whole rows, in float32 or better."""
        values = self.values[index]
        values = values.to(torch.promote_types(values.dtype, torch.float32))
        return values if self.classes is None else whole(values, self.classes[index], self.number)

    def __setitem__(self, index: Tensor, rows: Tensor) -> None:
        if self.classes is not None:
            rows, classes = largest(rows, self.values.shape[1])
            self.classes[index] = classes.to(self.classes.dtype)
        self.values[index] = rows.to(self.values.dtype)

    def arrays(self, name: str) -> Arrays:
        """The buffers themselves, named as `Form.declared` names them."""
        found = {name: self.values}
        return found if self.classes is None else {**found, f"{name}_classes": self.classes}


def fill(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    """Copies kept arrays into those of the same names; refuses another form or another size."""
    forms = [
        {name: str(a.dtype).removeprefix("torch.") for name, a in sorted(arrays.items())}
        for arrays in (mine, theirs)
    ]
    if forms[0] != forms[1]:
        raise ValueError(
            f"Expected tables in the form {_listed(forms[0])}; got {_listed(forms[1])}. "
            "Use the dtype and top_k that they were kept with, or start with new ones."
        )
    for name, array in mine.items():
        if array.shape != theirs[name].shape:
            raise ValueError(
                f"Expected a table {name} of shape {tuple(array.shape)}; got "
                f"{tuple(theirs[name].shape)}. "
                "It belongs to another data set or top_k; start with new ones."
            )
    for name, array in mine.items():
        array.copy_(theirs[name])


def _listed(form: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({dtype})" for name, dtype in form.items())
