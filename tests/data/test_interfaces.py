"""Data sets of torch in place of `[data]`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, Subset, TensorDataset

import flr
from flr.config import parse
from flr.core.errors import DataError
from flr.data.build import from_arrays
from flr.data.dataset import Dataset
from flr.data.interfaces import adopted
from flr.data.texts import Texts
from flr.simulation.build import load_data

X, Y = (load_digits().images[:200].astype(np.uint8), load_digits().target[:200])
CONFIG = {"rounds": 1, "workers": 1, "partition": {"clients": 4}, "train": {"epochs": 1}}


class Items(TorchDataset):  # type: ignore[type-arg]
    """Pairs from a list, as a user's own class has them."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.items[number]


def read(data: Any) -> Dataset:
    return load_data(parse(CONFIG), data)


@pytest.mark.parametrize(
    "data",
    [
        TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
        Items([(x, int(y)) for x, y in zip(X, Y, strict=True)]),
        Items([(Image.fromarray(x), str(y)) for x, y in zip(X, Y, strict=True)]),
        Subset(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), range(200)),
    ],
    ids=["tensors", "numpy", "pictures", "subset"],
)
def test_a_torch_data_set_is_read_as_its_arrays_would_be(data):
    assert read(data).fingerprint == from_arrays(X, Y).fingerprint


def test_two_data_sets_are_for_training_and_testing(tmp_path):
    whole = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    data = (Subset(whole, range(150)), Subset(whole, range(150, 200)))
    assert read(data).fingerprint == from_arrays(X[:150], Y[:150], X[150:], Y[150:]).fingerprint
    run = flr.run(CONFIG, data=data, out=tmp_path / "run")
    assert len(run.metrics) == 1


def test_class_names_of_a_data_set_are_kept():
    data = Items([(x, int(y)) for x, y in zip(X, Y, strict=True)])
    data.classes = [f"digit {number}" for number in range(10)]  # type: ignore[attr-defined]
    assert read(data).classes[3] == "digit 3"


def test_colours_other_than_grey_become_rgb():
    pictures = [Image.fromarray(x).convert("RGBA") for x in X]
    data = read(Items(list(zip(pictures, Y.tolist(), strict=True))))
    assert data.input_shape == (3, 8, 8)
    assert data.train.x.dtype == torch.uint8


def test_texts_stay_texts():
    data = adopted(Items([(f"text {number}", number % 2) for number in range(20)]))
    assert isinstance(data.train.x, Texts)
    assert len(data.train) + len(data.test) == 20


class Stream(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter([])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (Stream(), "map-style"),
        (Items([]), "got no item"),
        (Items([{"x": X[0], "y": 1}]), "items (input, label); got dict"),
        (Items([(X[0], 0), (X[1][:4], 1)]), "got 4 x 8 and 8 x 8"),
        (Items([(X[0], [0, 1]), (X[1], [1, 0])]), "argmax"),
        (TorchDataset, "got type"),
    ],
    ids=["stream", "empty", "tables", "sizes", "one-hot", "class"],
)
def test_what_cannot_be_read_is_said(data, words):
    with pytest.raises(DataError) as caught:
        read(data)
    assert words in str(caught.value)
