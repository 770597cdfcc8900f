"""Labels that people gave: looked up by published number, checked against the true ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from flr.config import parse
from flr.core.errors import ConfigError, DataError
from flr.data.build import subset
from flr.data.dataset import Dataset, LabeledData, Normalization, Ragged
from flr.data.sources.digits import Digits
from flr.data.sources.files import Csv
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


# ---- a file of one's own, and raters


@pytest.fixture
def table(tmp_path):
    """A CSV file of 60 rows, and given labels of which every third is another one."""
    true = ["cat", "dog", "eel"] * 20
    rows = "".join(f"{i},{name}\n" for i, name in enumerate(true))
    (tmp_path / "t.csv").write_text("a,label\n" + rows)
    given = ["eel" if i % 3 == 0 else name for i, name in enumerate(true)]
    return Csv(tmp_path / "t.csv").load(), true, given


def write_given(folder, kind, given, true):
    numbers = np.array([["cat", "dog", "eel"].index(name) for name in given])
    path = folder / f"given.{kind}"
    if kind == "csv":
        rows = "".join(f"{t},{g}\n" for t, g in zip(true, given, strict=True))
        path.write_text("true,given\n" + rows)
    elif kind == "npy":
        np.save(path, numbers)
    else:
        np.savez(path, given=np.array(given), true=np.array(true))
    return path


@pytest.mark.parametrize("kind", ["csv", "npy", "npz"])
def test_a_file_of_given_labels(tmp_path, table, kind):
    """By the number of the row in the data set's file: rows held out for testing count."""
    data, true, given = table
    path = write_given(tmp_path, kind, given, true)
    scenario = scenarios.build(data, Iid(4), Human(path=path), seed=1)
    names = [data.classes[label] for label in scenario.labels]
    rows = data.train.number[scenario.index].tolist()
    assert names == [given[row] for row in rows]
    assert scenario.nominal == pytest.approx([sum(row % 3 == 0 for row in rows) / len(rows)] * 4)
    few = scenarios.build(subset(data, 12, None), Iid(2), Human(path=path), seed=1)
    assert {data.classes[label] for label in few.labels} <= {"dog", "eel"}


def test_one_column_of_any_name_and_class_numbers(tmp_path, table):
    data, true, given = table
    numbers = [["cat", "dog", "eel"].index(name) for name in given]
    (tmp_path / "one.csv").write_text("\n".join(["by Ann", *map(str, numbers)]))
    one = scenarios.build(data, Iid(4), Human(path=tmp_path / "one.csv"), seed=1)
    other = Human(path=write_given(tmp_path, "npy", given, true))
    assert one.hash == scenarios.build(data, Iid(4), other, seed=1).hash


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.csv", "given\n" + "cat\n" * 40, "got 40 labels, and there is a sample number 5"),
        ("g.csv", "given\n" + "rat\n" * 60, 'class "rat" is not known. Did you mean "cat"'),
        ("g.csv", "given\n" + "3\n" * 60, "from 0 to 2; got 3"),
        ("g.csv", "a,b\n" + "1,2\n" * 60, 'under the name "given"; got a, b'),
        ("g.csv", "a,given\n" + "1,cat\n" * 59 + "1,\n", 'line 61, column "given"'),
        ("g.csv", "true,given\n" + "cat,cat\n" * 60, "differs for 32 of 48"),
        ("g.npy", "nothing", "cannot be read"),
        ("g.npz", "nothing", "cannot be read"),
    ],
)
def test_files_that_do_not_fit(tmp_path, table, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        scenarios.build(table[0], Iid(4), Human(path=tmp_path / name), seed=1)


def test_arrays_that_do_not_fit(tmp_path, table):
    path = tmp_path / "g.npz"
    for arrays, message in (
        ({"labels": np.zeros(60, int)}, 'under the name "given"; got labels'),
        ({"given": np.zeros(60, int), "true": np.zeros(9, int)}, "60 given labels beside 9"),
        ({"given": np.full(60, 0.5)}, "got 0.5 in sample 0"),
        ({"given": np.array([None] * 60)}, "without objects"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(DataError, match=message):
            scenarios.build(table[0], Iid(4), Human(path=path), seed=1)
    with pytest.raises(DataError, match=r"a file of given labels at .*; there is none"):
        scenarios.build(table[0], Iid(4), Human(path=tmp_path / "none.csv"), seed=1)


def test_a_file_goes_before_raters(tmp_path, table):
    data, true, given = table
    rated = replace(data, raters=Ragged.of([torch.tensor([0, 0])] * 60))
    drawn = scenarios.build(rated, Iid(4), Human(), seed=1)
    assert drawn.labels.unique().tolist() == [0]
    assert sum(drawn.nominal) / 4 == pytest.approx(2 / 3)
    path = write_given(tmp_path, "csv", given, true)
    one, two = (scenarios.build(d, Iid(4), Human(path=path), seed=1) for d in (data, rated))
    assert one.hash == two.hash
