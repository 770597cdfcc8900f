"""Measures besides accuracy: those of `[eval] metrics`, by scikit-learn's definitions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flr.report.memorization import mean

WORST_SITE, SITE_ACCURACY = "worst-site", "site-accuracy"
ON_SITES = (WORST_SITE, SITE_ACCURACY)  # by true labels: in simulation only
BINS = 15  # of the calibration error, by width

Measured = dict[str, Any]  # a number, or one for each site; None where it has no meaning


def balanced_accuracy(true: Tensor, predicted: Tensor) -> float | None:
    """The mean of the accuracies of all classes in the test set."""
    from sklearn.metrics import balanced_accuracy_score  # takes seconds, and few need it

    with warnings.catch_warnings():  # a class that is predicted and not there is no surprise
        warnings.simplefilter("ignore", UserWarning)
        return float(balanced_accuracy_score(true.numpy(), predicted.numpy()))


def macro_f1(true: Tensor, predicted: Tensor) -> float | None:
    """The mean over classes of the harmonic mean of precision and recall; 0 without any hit."""
    from sklearn.metrics import f1_score

    return float(f1_score(true.numpy(), predicted.numpy(), average="macro", zero_division=0))


def auroc(true: Tensor, probabilities: Tensor) -> float | None:
    """The mean over classes of the area under the ROC curve of one class against the others.

    None where a class is not in the test set, or a probability is no number.
    """
    from sklearn.metrics import roc_auc_score

    classes = probabilities.shape[1]
    if len(true.unique()) < max(classes, 2) or not probabilities.isfinite().all():
        return None
    if classes == 2:
        return float(roc_auc_score(true.numpy(), probabilities[:, 1].numpy()))
    return float(roc_auc_score(true.numpy(), probabilities.numpy(), multi_class="ovr"))


def top_label_calibration_error(true: Tensor, probabilities: Tensor) -> float | None:
    """How far the probability of the named class is from how often it is right (ECE)."""
    confidence, predicted = probabilities.max(1)
    if not confidence.isfinite().all():
        return None
    return calibration_error(confidence, predicted == true, BINS)


def calibration_error(said: Tensor, is_so: Tensor, bins: int) -> float:
    """Expected calibration error: |said - is|, weighted by samples, over bins of equal width."""
    place = (said * bins).long().clamp(0, bins - 1)
    expected, was = (
        torch.zeros(bins, dtype=torch.float64).index_add_(0, place, values.double())
        for values in (said, is_so)
    )
    return math.fsum((expected - was).abs().tolist()) / len(said)


_BY_CLASS: Mapping[str, Callable[[Tensor, Tensor], float | None]] = {
    "balanced-accuracy": balanced_accuracy,
    "macro-f1": macro_f1,
}
_BY_PROBABILITY: Mapping[str, Callable[[Tensor, Tensor], float | None]] = {
    "auroc": auroc,
    "calibration-error": top_label_calibration_error,
}


def need_logits(names: Sequence[str]) -> bool:
    """Whether class numbers are not enough for these."""
    return not _BY_PROBABILITY.keys().isdisjoint(names)


def asks_sites(names: Sequence[str]) -> bool:
    """Whether some of these are about the sites."""
    return not set(ON_SITES).isdisjoint(names)


def on_test(
    names: Sequence[str], true: Tensor, predicted: Tensor, logits: Tensor | None
) -> Measured:
    """Those of the names that are about the test set; None for all of an empty one."""
    known = [name for name in names if name in _BY_CLASS or name in _BY_PROBABILITY]
    if not len(true):
        return dict.fromkeys(known)
    found: Measured = {n: _BY_CLASS[n](true, predicted) for n in known if n in _BY_CLASS}
    if logits is not None:
        probabilities = logits.double().softmax(1)
        found |= {n: _BY_PROBABILITY[n](true, probabilities) for n in known if n in _BY_PROBABILITY}
    return {name: found.get(name) for name in known}


def on_sites(names: Sequence[str], each: Sequence[float | None]) -> Measured:
    """Those of the names that are about the sites, from the accuracy at each of them."""
    known = [accuracy for accuracy in each if accuracy is not None]
    found = {WORST_SITE: min(known, default=None), SITE_ACCURACY: list(each)}
    return {name: found[name] for name in names if name in ON_SITES}


def last_and_last10(measured: Sequence[Measured], late: Sequence[Measured]) -> Measured:
    """Every measure in the last round that has it, and its mean over the last ten."""
    if not measured:
        return {}
    return {
        name: {"last": value, "last10": _mean([one.get(name) for one in late])}
        for name, value in measured[-1].items()
    }


def _mean(values: Sequence[Any]) -> Any:
    """Of lists, one by one."""
    lists = [value for value in values if isinstance(value, list)]
    if lists:
        return [mean(column) for column in zip(*lists, strict=True)]
    return mean(values)


def scalars(found: Measured) -> dict[str, float]:
    """The plain numbers among them."""
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
