"""Metrics beside accuracy: scikit-learn's numbers, and None where there is no number."""

from typing import get_args

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score

from flr.config.evaluation import Metric
from flr.report import metrics
from flr.report.metrics import BINS, ON_SITES, last_and_last10, on_sites, on_test

ON_TEST = [name for name in get_args(Metric) if name not in ON_SITES]
TRUE = torch.tensor([0, 1, 2, 2, 1, 0, 0, 2, 2, 1] * 20)


@pytest.fixture
def logits() -> torch.Tensor:
    """Better than chance, and far from sure."""
    noise = torch.randn(len(TRUE), 3, generator=torch.Generator().manual_seed(0))
    return noise + torch.nn.functional.one_hot(TRUE, 3)


def test_they_are_those_of_scikit_learn(logits: torch.Tensor) -> None:
    predicted, probabilities = logits.argmax(1), logits.double().softmax(1)
    found = on_test(ON_TEST, TRUE, predicted, logits)
    assert found == {
        "balanced-accuracy": pytest.approx(balanced_accuracy_score(TRUE, predicted)),
        "macro-f1": pytest.approx(f1_score(TRUE, predicted, average="macro")),
        "auroc": pytest.approx(
            np.mean([roc_auc_score(c == TRUE, probabilities[:, c]) for c in range(3)])
        ),
        "calibration-error": pytest.approx(expected_error(probabilities, predicted)),
    }
    assert all(0 < value < 1 for value in found.values())


def expected_error(probabilities: torch.Tensor, predicted: torch.Tensor) -> float:
    """By the bins of scikit-learn, which gives no sizes of them."""
    confidence, right = probabilities.amax(1).numpy(), (predicted == TRUE).numpy()
    is_so, said = calibration_curve(right, confidence, n_bins=BINS)
    sizes = np.histogram(confidence, np.linspace(0, 1, BINS + 1))[0]
    return float(np.average(np.abs(is_so - said), weights=sizes[sizes > 0]))


def test_two_classes_have_the_area_of_the_second() -> None:
    true, logits = torch.tensor([0, 0, 1, 1]), torch.tensor([[3.0, 0], [0, 1], [1, 0], [0, 2]])
    assert on_test(["auroc"], true, logits.argmax(1), logits)["auroc"] == 0.75


def test_what_has_no_meaning_is_none(logits: torch.Tensor) -> None:
    predicted = logits.argmax(1)
    some = TRUE < 2  # the third class is not in this test set
    found = on_test(ON_TEST, TRUE[some], predicted[some], logits[some])
    assert found["auroc"] is None
    assert 0 < found["balanced-accuracy"] < 1
    spoilt = logits.clone()
    spoilt[0, 0] = torch.inf
    found = on_test(ON_TEST, TRUE, predicted, spoilt)
    assert found["auroc"] is found["calibration-error"] is None
    empty = on_test(ON_TEST, TRUE[:0], predicted[:0], None)
    assert empty == dict.fromkeys(ON_TEST)


def test_every_name_of_the_config_is_measured(logits: torch.Tensor) -> None:
    names = get_args(Metric)
    found = on_test(names, TRUE, logits.argmax(1), logits) | on_sites(names, [0.5, None, 0.25])
    assert set(found) == set(names)
    assert (found["worst-site"], found["site-accuracy"]) == (0.25, [0.5, None, 0.25])


def test_means_of_the_last_ten_are_of_what_is_there() -> None:
    rounds = [
        {"macro-f1": 0.2, "site-accuracy": [0.0, None]},
        {"macro-f1": None, "site-accuracy": [1.0, 0.5]},
        {"macro-f1": 0.4, "site-accuracy": [0.5, None]},
    ]
    assert last_and_last10(rounds, rounds) == {
        "macro-f1": {"last": 0.4, "last10": pytest.approx(0.3)},
        "site-accuracy": {"last": [0.5, None], "last10": [0.5, 0.5]},
    }
    assert last_and_last10([], []) == {}
    assert metrics.scalars(rounds[0]) == {"macro-f1": 0.2}
