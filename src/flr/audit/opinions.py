"""What the federation thinks of each sample: the final model's predictions, and FLR's tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from flr.arrays import Arrays
from flr.client import tables
from flr.client.desk import PREDICT_BATCH
from flr.client.saved import SavedModel
from flr.contract import Method
from flr.data.lazy import Inputs
from flr.errors import DataError
from flr.inside import Around
from flr.methods.flr import FLR
from flr.stack import parts_of

MODEL_ONLY = (
    "No tables of FLR: only the model's predictions were used. A model that was trained on these "
    "labels may have memorized wrong ones, and then agrees with them."
)

_KEPT = {"global": "s", "local": "m"}  # a view, and the letter of its table
_SEEN = re.compile(r"flr\.(\d+)\.seen")


@dataclass(frozen=True, eq=False)
class Tables:
    """FLR's running averages at a site as views, means over its networks; often there are none."""

    views: dict[str, Tensor] = field(default_factory=dict)  # n x classes
    visited: Tensor | None = None  # bool, n

    def at(self, rows: Tensor) -> Tables:
        """Of some samples only."""
        if self.visited is None:
            return self
        return Tables({name: view[rows] for name, view in self.views.items()}, self.visited[rows])

    @property
    def source(self) -> str:
        """Where the opinions come from, in words."""
        if self.visited is None:
            return MODEL_ONLY
        whose = " and ".join(f"the {name} model's" for name in self.views)
        return (
            f"FLR's running averages of {whose} predictions while it was trained, kept at the site "
            f"for {int(self.visited.sum()):,} of {len(self.visited):,} samples, and the final "
            "model's predictions."
        )


@torch.no_grad()
def predictions(networks: nn.ModuleList, parts: Iterable[Tensor]) -> Tensor:
    """Class probabilities, n x classes: the mean over the networks."""
    networks.eval()
    return torch.cat(
        [torch.stack([net(part).softmax(1) for net in networks]).mean(0) for part in parts]
    )


def prepared(
    x: Inputs, rows: Tensor, normalise: Callable[[Tensor], Tensor] | None
) -> Iterator[Tensor]:
    """The rows as a network sees them, a batch at a time: only that is ever held as float."""
    for some in rows.split(PREDICT_BATCH):
        yield x[some] if normalise is None else normalise(x[some])


def check_shape(model: SavedModel, shape: tuple[int, ...], where: str) -> None:
    """Refuses a model that was trained on inputs of another shape."""
    if shape == model.input_shape:
        return
    square = len(shape) == 3 and len(model.input_shape) == 3 and shape[0] == model.input_shape[0]
    hint = f", or scale images with --size {model.input_shape[-1]}" if square else ""
    raise DataError(
        f"{where}: expected inputs of shape {model.input_shape}, as the model takes; got {shape}. "
        f"Use the model that was trained on data of this kind{hint}."
    )


def read_tables(state: Arrays, samples: int, method: Method, classes: int, where: str) -> Tables:
    """FLR's s and m from what a site has kept, in whatever form; refuses another site's."""
    nets = sorted(int(match[1]) for name in state if (match := _SEEN.fullmatch(name)))
    if not nets:
        return Tables()
    letters = _KEPT if _asks_the_global_model(method) else {"local": "m"}
    try:
        seen = torch.stack([state[f"flr.{net}.seen"].bool() for net in nets]).all(0)
        views = {
            view: torch.stack([_rows(state, f"flr.{net}.{letter}", classes) for net in nets])
            for view, letter in letters.items()
        }
    except (KeyError, RuntimeError, IndexError) as error:
        raise DataError(
            f"{where}: expected FLR's tables s, m and seen; they are not whole ({error}). "
            "Take another copy of the state."
        ) from error
    for view in views.values():
        if tuple(view.shape[1:]) != (samples, classes) or len(seen) != samples:
            raise DataError(
                f"{where}: expected tables for {samples:,} samples and {classes:,} classes, as the "
                f"data and the model have; got {len(seen):,} and {view.shape[2]:,}. Use the data "
                "that this site was trained on, with the model and the state of one run."
            )
    even = torch.full((samples, classes), 1 / classes)  # for rows without a meaning
    means = {name: torch.where(seen[:, None], view.mean(0), even) for name, view in views.items()}
    return Tables(means, seen)


def doubt(found: Tables, model: Tensor) -> str | None:
    """A sentence if tables and model agree no more than by chance: are rows in another order?"""
    if found.visited is None or "global" not in found.views or not found.visited.any():
        return None
    ours = found.views["global"][found.visited].argmax(1)
    theirs = model[found.visited].argmax(1)
    classes = model.shape[1]
    shares = [own.bincount(minlength=classes).double() / len(own) for own in (ours, theirs)]
    chance = float((shares[0] * shares[1]).sum())
    error = (chance * (1 - chance) / len(ours)) ** 0.5
    agree = float((ours == theirs).double().mean())
    if error == 0 or agree > chance + 3 * error:
        return None
    return (
        "Whether FLR's tables belong to these samples: they agree with the model on "
        f"{100 * agree:.0f} %, no more than by chance. Use the data that was trained on, with its "
        "samples in the same order."
    )


def _rows(state: Arrays, name: str, classes: int) -> Tensor:
    """A table as whole rows that sum to one, n x classes."""
    values = state[name].float()
    if f"{name}_classes" in state:
        values = tables.whole(values, state[f"{name}_classes"], classes)
    return values / values.sum(1, keepdim=True).clamp(min=0.5)  # 0.5: rows never written are zero


def _asks_the_global_model(method: Method) -> bool:
    """FLR with alpha = 0 does not: its s is then an average of the local predictions, too."""
    return all(part.alpha for part in _single(method) if isinstance(part, FLR))


def _single(method: Method) -> Iterator[Method]:
    for part in parts_of(method):
        if isinstance(part, Around):
            yield from _single(part.part)
        else:
            yield part
