"""Data sets of Hugging Face in place of `[data]`; runs where the package is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from datasets import ClassLabel, DatasetDict, Features, Image, List, Value
from datasets import Dataset as HuggingFace
from PIL import Image as Pictures
from sklearn.datasets import load_digits

import flr
from flr.config import parse
from flr.core.errors import DataError
from flr.data.build import from_arrays
from flr.data.dataset import Dataset
from flr.data.interfaces import adopted
from flr.data.texts import Texts
from flr.simulation.build import load_data

X, Y = (load_digits().images[:200].astype(np.uint8), load_digits().target[:200])
NAMES = [f"digit {number}" for number in range(10)]
CONFIG = {"rounds": 1, "workers": 1, "partition": {"clients": 4}, "train": {"epochs": 1}}
COLUMNS = Features({"image": Image(), "label": ClassLabel(names=NAMES), "id": Value("string")})


def read(data: Any) -> Dataset:
    return load_data(parse(CONFIG), data)


def images(rows: slice) -> HuggingFace:
    pictures = [Pictures.fromarray(x) for x in X[rows]]
    table = {"image": pictures, "label": Y[rows].tolist(), "id": [str(y) for y in Y[rows]]}
    return HuggingFace.from_dict(table, features=COLUMNS)


def test_images_with_classes_are_read_as_their_arrays_would_be():
    found = read(images(slice(None)))
    assert found.classes == tuple(NAMES)
    assert found.fingerprint == from_arrays(X, Y, classes=tuple(NAMES)).fingerprint


def test_splits_are_for_training_and_testing(tmp_path):
    data = DatasetDict({"train": images(slice(150)), "test": images(slice(150, 200))})
    parts = (X[:150], Y[:150], X[150:], Y[150:], tuple(NAMES))
    assert read(data).fingerprint == from_arrays(*parts).fingerprint
    assert read(tuple(data.values())).fingerprint == read(data).fingerprint
    run = flr.run(CONFIG, data=data, out=tmp_path / "run")
    assert run.model().classes == tuple(NAMES)


def test_columns_of_numbers_are_features():
    rows = X.reshape(len(X), -1).astype(np.float32)
    columns = Features({"values": List(Value("float32")), "label": Value("int64")})
    data = HuggingFace.from_dict({"values": rows.tolist(), "label": Y}, features=columns)
    assert read(data).fingerprint == from_arrays(rows, Y).fingerprint


def test_texts_stay_texts():
    columns = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
    words = [f"text {number}" for number in range(20)]
    data = HuggingFace.from_dict({"text": words, "label": [0, 1] * 10}, features=columns)
    found = adopted(data)
    assert isinstance(found.train.x, Texts)
    assert found.train.x[torch.arange(len(found.train))][0].startswith("text ")
    assert sorted([*found.train.x[:], *found.test.x[:]]) == sorted(words)
    gap = HuggingFace.from_dict({"text": [None, "b"], "label": [0, 1]}, features=columns)
    with pytest.raises(DataError, match="sample 0 holds NoneType"):
        adopted(gap)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (images(slice(20)).remove_columns("label"), "a column named label"),
        (images(slice(20)).select_columns("label"), "one column of images"),
        (images(slice(20)).to_iterable_dataset(), "streamed"),
        (DatasetDict({"a": images(slice(20)), "b": images(slice(20))}), "a split named train"),
    ],
    ids=["label", "nothing", "stream", "splits"],
)
def test_what_cannot_be_read_is_said(data, words):
    with pytest.raises(DataError) as caught:
        read(data)
    assert words in str(caught.value)
