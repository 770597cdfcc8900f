"""Tables with text and gaps: learned from the training rows, and numbers stay what they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flr.core.errors import DataError
from flr.data.build import from_arrays
from flr.data.sources.files import Csv, read_samples


def write(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def both(data):
    """All inputs in the order of the file."""
    x = torch.empty(len(data.train) + len(data.test), *data.input_shape)
    x[data.train.number], x[data.test.number] = data.train.x, data.test.x
    return x


def test_numbers_give_the_same_bits_as_arrays(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    y = np.arange(40) % 3
    rows = [[*(repr(float(v)) for v in row), label] for row, label in zip(x, y, strict=True)]
    data = Csv(write(tmp_path / "t.csv", "a,b,c,label", rows)).load()
    plain = from_arrays(x, y)
    assert torch.equal(data.train.x, plain.train.x)
    assert torch.equal(data.test.x, plain.test.x)
    assert data.normalize == plain.normalize
    assert data.fingerprint == plain.fingerprint


def test_text_becomes_one_feature_for_each_category(tmp_path):
    colors = ["red", "green", "", "red", "blue"] * 8
    rows = [[i, color, i % 2] for i, color in enumerate(colors)]
    x = both(Csv(write(tmp_path / "t.csv", "n,color,label", rows)).load())
    assert torch.equal(x[:, 0], torch.arange(40.0))
    names = ["", "blue", "green", "red"]  # an empty cell is a category, too
    expected = torch.tensor([[float(color == name) for name in names] for color in colors])
    assert torch.equal(x[:, 1:], expected)


@pytest.mark.parametrize("gap", ["", "NA", "nan", " "])
def test_gaps_become_the_median_of_the_training_rows_and_are_marked(tmp_path, gap):
    values = [gap if i % 4 == 0 else i for i in range(40)]
    rows = [[value, i, i % 2] for i, value in enumerate(values)]
    data = Csv(write(tmp_path / "t.csv", "a,b,label", rows)).load()
    there = [i for i in data.train.number.tolist() if i % 4]
    x = both(data)
    missing = torch.arange(40) % 4 == 0
    assert (x[missing, 0] == float(np.median(there))).all()
    assert torch.equal(x[~missing, 0], torch.arange(40.0)[~missing])
    assert torch.equal(x[:, 1], torch.arange(40.0))
    assert torch.equal(x[:, 2], missing.float())


def test_only_training_rows_are_learned_from(tmp_path):
    held = Csv(write(tmp_path / "t.csv", "a,label", [[i, i % 2] for i in range(40)])).load()
    one = int(held.test.number[0])
    rows = [["rare" if i == one else "often", i % 2] for i in range(40)]
    data = Csv(write(tmp_path / "t.csv", "a,label", rows)).load()
    assert data.input_shape == (1,)  # no feature for what only the test set has
    assert data.test.x[data.test.number == one].tolist() == [[0.0]]
    gap = [["" if i == one else i, i % 2] for i in range(40)]
    assert Csv(write(tmp_path / "t.csv", "a,label", gap)).load().input_shape == (1,)


@pytest.mark.parametrize(("rows", "different"), [(2002, 1001), (30, 30)])
def test_what_tells_rows_apart_is_no_category(tmp_path, rows, different):
    rows = [[f"patient {i % different}", i % 2] for i in range(rows)]
    with pytest.raises(DataError, match=r'column "name": expected categories, .*"texts"'):
        Csv(write(tmp_path / "t.csv", "name,label", rows)).load()


def test_sites_on_their_own_take_numbers_only(tmp_path):
    path = write(tmp_path / "t.csv", "a,color,label", [[1, "red", "x"], [2, "blue", "y"]])
    with pytest.raises(DataError, match=r'column "color".*got "red".*categories differently'):
        read_samples(path, ("x", "y"), training=True)
    path = write(tmp_path / "t.csv", "a,b,label", [[1, "", "x"], [2, 3, "y"]])
    with pytest.raises(DataError, match=r'line 2, column "b".*an empty cell'):
        read_samples(path, ("x", "y"))
    path = write(tmp_path / "t.csv", "a,b,label", [[1, "nan", "x"], [2, 3, "y"]])
    with pytest.raises(DataError, match=r'line 2, column "b".*"nan"'):
        read_samples(path, ("x", "y"))
