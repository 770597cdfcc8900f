"""flr.audit_labels: a table in, a table out."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

import flr
from flr.core.errors import ConfigError, DataError

N = 200


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features in three clumps, class probabilities, and labels of which every tenth is wrong."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 3, N)
    features = 4 * np.eye(3)[true] + rng.normal(size=(N, 3))
    probs = np.exp(2 * features)
    given = np.where(np.arange(N) % 10 == 0, (true + 1) % 3, true)
    return given, features, probs / probs.sum(1, keepdims=True)


def accuracy(table: pd.DataFrame) -> float:
    return float((table.is_label_issue.to_numpy() == (np.arange(N) % 10 == 0)).mean())


def test_features_are_enough_and_the_columns_are_those_of_cleanlab(samples) -> None:
    given, features, _ = samples
    table = flr.audit_labels(given, features=features)
    assert list(table.columns) == [
        "is_label_issue",
        "label_score",
        "given_label",
        "predicted_label",
    ]
    assert accuracy(table) > 0.95
    assert table.label_score.between(0, 1).all()
    assert table.given_label.tolist() == given.tolist()
    assert table.attrs["sure"]
    assert table.attrs["rate"]["low"] <= 0.1 <= table.attrs["rate"]["high"]
    assert "look wrong" in table.attrs["verdict"]


def test_predictions_are_taken_as_out_of_sample_unless_said_otherwise(samples) -> None:
    given, _, probs = samples
    table = flr.audit_labels(given.tolist(), pred_probs=probs)
    assert table.attrs["sure"]
    assert accuracy(table) > 0.95
    trained = flr.audit_labels(given, pred_probs=probs, in_sample=True)
    assert not trained.attrs["sure"]


def test_pandas_in_and_out(samples) -> None:
    given, features, probs = samples
    names = np.array(["ant", "bee", "cow"])
    labels = pd.Series(names[given], index=[f"scan {row}" for row in range(N)])
    columns = pd.DataFrame(probs[:, [2, 0, 1]], columns=["cow", "ant", "bee"])
    table = flr.audit_labels(labels, pred_probs=columns, features=pd.DataFrame(features))
    assert table.index.tolist() == labels.index.tolist()
    assert accuracy(table) > 0.95
    assert set(table.predicted_label) == set(names)
    assert (table.given_label == labels).all()


def test_what_does_not_fit_is_said(samples) -> None:
    given, features, probs = samples
    wrong = [
        ({"labels": given}, "features or views"),
        ({"labels": given, "features": features[1:]}, "features of 200 samples"),
        ({"labels": given, "features": features[:, 0]}, "two-dimensional"),
        ({"labels": given, "features": [["a"]] * N}, "expected numbers as features"),
        ({"labels": [*given[:-1], None], "features": features}, "first in row 199"),
        ({"labels": [], "features": features}, "one label for each sample"),
        ({"labels": given + 5, "pred_probs": probs, "classes": [0, 1, 2]}, "among 3 classes"),
        ({"labels": given, "pred_probs": probs, "classes": ["a"]}, "each of 1 classes"),
        ({"labels": given, "images": np.zeros((N, 8, 8))}, "uint8"),
    ]
    for arguments, said in wrong:
        with pytest.raises(DataError, match=said):
            flr.audit_labels(**arguments)


def test_without_pandas_the_error_says_how_to_get_it(samples, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"not installed. Install it with `pip install pandas`"):
        flr.audit_labels(samples[0], features=samples[1])


def test_images_are_enough(samples, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("FLR_CACHE", str(tmp_path))
    given, _, _ = samples
    true = np.where(np.arange(N) % 10 == 0, (given - 1) % 3, given)
    images = np.random.default_rng(1).integers(0, 40, (N, 24, 24), dtype=np.uint8)
    for row, kind in enumerate(true):  # an empty square, one with a bar across, one with one down
        images[row, 10:14, :] += np.uint8(200 * (kind == 1))
        images[row, :, 10:14] += np.uint8(200 * (kind == 2))
    table = flr.audit_labels(given, images=images)
    suspects = table.label_score.nsmallest(N // 10).index
    assert set(suspects) == set(range(0, N, 10))
