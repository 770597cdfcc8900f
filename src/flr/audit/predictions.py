"""What the federation thinks of each sample: the final model now, and what a site has kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from flr.audit.evidence import Evidence
from flr.core.arrays import Arrays
from flr.core.contract import SamplePredictions
from flr.core.errors import DataError
from flr.data.on_disk import Numbers
from flr.models.inference import in_batches
from flr.models.model_file import SavedModel


def gather_evidence(
    site: str,
    names: Sequence[str],
    given: Tensor,
    model: SavedModel,
    x: Numbers,
    rows: Tensor,
    normalize: Callable[[Tensor], Tensor] | None,
    kept: SamplePredictions | None,
) -> Evidence:
    """The final model's predictions of these rows of x, beside what was kept of the same rows.

    Class probabilities are means over the networks. Rows are read and normalized a batch at a
    time: only a batch is ever held as float.
    """

    def forward(some: Tensor) -> Tensor:
        part = x[some] if normalize is None else normalize(x[some])
        return torch.stack([net(part).softmax(1) for net in model.networks]).mean(0)

    predicted = in_batches(model.networks, forward, rows)
    return Evidence(
        site=site,
        names=names,
        classes=model.classes,
        given=given,
        views={**(kept.views if kept else {}), "model": predicted},
        visited=kept.visited if kept else None,
        source=_source(kept),
    )


def _source(kept: SamplePredictions | None) -> str:
    if kept is None:
        return (
            "No predictions from training: only the model's predictions were used. A model that "
            "was trained on these labels may have memorized wrong ones, and then agrees with them."
        )
    whose = " and ".join(f"the {name} model's" for name in kept.views)
    return (
        f"{kept.kept_by}'s running averages of {whose} predictions while it was trained, kept at "
        f"the site for {int(kept.visited.sum()):,} of {len(kept.visited):,} samples, and the final "
        "model's predictions."
    )


def read_kept(
    state: Arrays, samples: int, model: SavedModel, where: str, rows: Tensor | None = None
) -> SamplePredictions | None:
    """What the model's method has kept of each sample, or of some rows; refuses another site's."""
    classes = len(model.classes)
    try:
        found = model.method.sample_predictions(state, classes)
    except (KeyError, RuntimeError, IndexError) as error:
        raise DataError(
            f"{where}: expected the method's predictions of each sample; they are not whole "
            f"({error}). Take another copy of the state."
        ) from error
    if found is None:
        return None
    for view in found.views.values():
        if tuple(view.shape) != (samples, classes) or len(found.visited) != samples:
            raise DataError(
                f"{where}: expected predictions for {samples:,} samples and {classes:,} classes, "
                f"as the data and the model have; got {len(found.visited):,} and "
                f"{view.shape[1]:,}. Use the data that this site was trained on, with the model "
                "and the state of one run."
            )
    even, known = torch.full((samples, classes), 1 / classes), found.visited[:, None]
    chosen = torch.arange(samples) if rows is None else rows
    views = {name: torch.where(known, view, even)[chosen] for name, view in found.views.items()}
    return replace(found, views=views, visited=found.visited[chosen])


def refuse_other_rows(evidence: Evidence, kept: SamplePredictions) -> None:
    """What was kept agrees with the model no more than by chance: then its rows are others."""
    if "global" not in kept.views or not kept.visited.any():
        return
    ours, theirs = (evidence.views[name][kept.visited].argmax(1) for name in ("global", "model"))
    classes = len(evidence.classes)
    shares = [own.bincount(minlength=classes).double() / len(own) for own in (ours, theirs)]
    chance = float((shares[0] * shares[1]).sum())
    error = (chance * (1 - chance) / len(ours)) ** 0.5
    agree = float((ours == theirs).double().mean())
    if error > 0 and agree <= chance + 3 * error:
        raise DataError(
            f"{evidence.site}: expected {kept.kept_by}'s tables of these samples, in this order; "
            f"they agree with the model on {100 * agree:.0f} %, no more than by chance. Use the "
            "data that was trained on, with its samples in the same order."
        )
