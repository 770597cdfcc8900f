"""Labels that people gave: looked up by published number, checked against the true ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flr.config import parse
from flr.core.errors import ConfigError, DataError
from flr.data.build import subset
from flr.data.dataset import Dataset, LabeledData, Normalization
from flr.data.sources.digits import Digits
from flr.scenario import scenario as scenarios
from flr.scenario.noises.common import NoiseContext, corrupt
from flr.scenario.noises.human import Human
from flr.scenario.noises.symmetric import Symmetric
from flr.scenario.partitions.central import Central
from flr.scenario.partitions.iid import Iid

TEN = tuple("0123456789")


def write(folder, clean, given, name="CIFAR-10_human", key="worse_label"):
    np.savez(folder / f"{name}.npz", **{"clean_label": clean, key: given})
    return folder


def dataset_of(labels, classes=10, number=None):
    """Pictures of one pixel, in the publisher's order unless numbers say otherwise."""
    y = torch.from_numpy(labels)
    number = torch.arange(len(y)) if number is None else number
    data = LabeledData(torch.zeros(len(y), 1, 1, 1, dtype=torch.uint8), y, number)
    names = tuple(f"class {c}" for c in range(classes))
    return Dataset("made", data, data, names, Normalization((0.0,), (1.0,)))


@pytest.fixture
def made(tmp_path):
    """400 samples, a third of which has another label."""
    rng = np.random.default_rng(0)
    clean = rng.permutation(np.arange(400) % 10)
    given = np.where(rng.random(400) < 1 / 3, (clean + rng.integers(1, 10, 400)) % 10, clean)
    return write(tmp_path, clean, given), clean, given


def test_every_sample_gets_the_label_of_its_number(made):
    folder, clean, given = made
    scenario = scenarios.build(dataset_of(clean), Iid(7), Human(path=folder), seed=1)
    assert np.array_equal(scenario.labels.numpy(), given[scenario.index])
    assert scenario.nominal == pytest.approx([(clean != given).mean()] * 7)
    assert scenario.spec["noise"] == {"kind": "human", "labels": "worst", "path": str(folder)}
    again = scenarios.build(dataset_of(clean), Iid(7), Human(path=folder), seed=1)
    assert again.hash == scenario.hash


def test_a_subset_keeps_the_labels_of_its_samples(made):
    folder, clean, given = made
    few = subset(dataset_of(clean), 50, None)
    scenario = scenarios.build(few, Central(), Human(path=folder), seed=1)
    expected = given[few.train.number]
    assert np.array_equal(scenario.labels.numpy(), expected[scenario.index])
    assert scenario.nominal[0] == pytest.approx((expected != few.train.y.numpy()).mean())


def test_another_order_is_refused(made):
    folder, clean, _ = made
    for labels, number in ((np.roll(clean, 1), None), (clean, torch.arange(400).flip(0))):
        with pytest.raises(DataError, match="TensorFlow's differs"):
            scenarios.build(dataset_of(labels, 10, number), Iid(4), Human(path=folder), seed=1)


def test_another_data_set_is_refused(made):
    folder, clean, _ = made
    more = np.concatenate([clean, clean])
    with pytest.raises(DataError, match="has 400 labels, too few"):
        scenarios.build(dataset_of(more), Iid(4), Human(path=folder), seed=1)
    with pytest.raises(DataError, match="has 10 classes there, the data set 100"):
        scenarios.build(dataset_of(clean, classes=100), Iid(4), Human(path=folder), seed=1)


def test_a_data_set_without_published_numbers_is_refused():
    digits = Digits().load()
    with pytest.raises(ConfigError, match='Use \\[data\\] name = "cifar10"'):
        scenarios.build(digits, Iid(4), Human(), seed=1)


def test_classes_that_were_numbered_anew(tmp_path):
    """Of 100 classes some are kept; labels outside of them cannot be given."""
    clean = np.arange(600) % 100
    kept = np.array([3, 40, 77])
    rows = np.flatnonzero(np.isin(clean, kept))
    y = np.searchsorted(kept, clean[rows])
    few = dataset_of(y, classes=3, number=torch.from_numpy(rows))
    inside = clean.copy()
    inside[rows[:2]] = kept[[2, 0]]
    folder = write(tmp_path, clean, inside, "CIFAR-100_human", "noisy_label")
    scenario = scenarios.build(few, Central(), Human("noisy", folder), seed=1)
    assert scenario.labels[:2].tolist() == [2, 0]
    assert torch.equal(scenario.labels[2:], few.train.y[2:])
    inside[rows[5]] = 99
    write(tmp_path, clean, inside, "CIFAR-100_human", "noisy_label")
    with pytest.raises(ConfigError, match="1 of 18 samples a label outside of its 3"):
        scenarios.build(few, Central(), Human("noisy", folder), seed=1)


def test_a_wrong_name_is_found_before_data_is_read():
    config = {"rounds": 1, "data": {"name": "cifar10"}, "noise": {"kind": "human"}}
    assert parse(config).noise.build() == Human("worst", None)
    config["noise"] = {"kind": "human", "labels": "wurst"}
    with pytest.raises(ConfigError, match='Did you mean "worst"'):
        parse(config)


def test_published_numbers_change_no_hash():
    digits = Digits().load()
    numbered = LabeledData(digits.train.x, digits.train.y, torch.arange(len(digits.train)))
    other = Dataset("digits", numbered, digits.test, digits.classes, digits.normalize)
    assert other.fingerprint == digits.fingerprint
    one, two = (scenarios.build(d, Iid(5), Symmetric(), seed=3) for d in (digits, other))
    assert one.hash == two.hash


def test_numbers_reach_the_noise(made):
    folder, clean, given = made
    rows = np.arange(0, 400, 4)
    new, _, _ = corrupt(
        Human(path=folder), NoiseContext([np.arange(100)], clean[rows], TEN, seed=0, numbers=rows)
    )
    assert np.array_equal(new[0], given[rows])
