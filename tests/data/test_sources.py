"""Every source on good data: values, layout, classes, splits and normalisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from flr.core import registry
from flr.core.errors import ConfigError, DataError
from flr.data.build import from_arrays, subset
from flr.data.sources.digits import Digits
from flr.data.sources.files import Csv, Folder, Npz, read_samples


def images(n=30, shape=(6, 5, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def write_folder(root, sizes=None, classes=("cat", "ant", "bee"), per_class=5):
    """Image i of a class is one colour: (class number, i, 0)."""
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(per_class):
            size = sizes[i % len(sizes)] if sizes else (8, 6)
            Image.new("RGB", size, (number, i, 0)).save(root / name / f"{i}.png")


def test_digits_are_scikit_learns_in_a_fixed_split():
    data = Digits().load()
    assert (len(data.train), len(data.test)) == (1437, 360)
    assert data.train.x.dtype == torch.uint8
    assert data.input_shape == (1, 8, 8)
    assert data.noise_map == "digits"
    bunch = load_digits()
    published = sorted(
        (int(y), x.astype(np.uint8).tobytes())
        for x, y in zip(bunch.images, bunch.target, strict=True)
    )
    ours = sorted(
        (int(y), x.numpy().tobytes())
        for part in (data.train, data.test)
        for x, y in zip(part.x, part.y, strict=True)
    )
    assert ours == published
    assert Digits().load().fingerprint == data.fingerprint
    assert data.normalize(data.train.x).max() == 1.0


def test_digits_split_is_stratified():
    data = Digits().load()
    counts = torch.bincount(torch.cat([data.train.y, data.test.y]))
    assert ((torch.bincount(data.test.y) - counts * 360 / 1797).abs() <= 1).all()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((6, 5, 3), (3, 6, 5)),
        ((3, 6, 5), (3, 6, 5)),
        ((6, 5), (1, 6, 5)),
        ((6, 5, 1), (1, 6, 5)),
        ((1, 6, 5), (1, 6, 5)),
        ((13, 20, 20), (13, 20, 20)),
        ((20, 20, 13), (13, 20, 20)),
        ((4, 4, 3), (3, 4, 4)),
        ((3, 3, 3), (3, 3, 3)),
    ],
)
def test_channels_are_found(shape, expected):
    x = images(10, shape)
    data = from_arrays(x, np.arange(10) % 2)
    assert data.input_shape == expected
    assert data.train.x.dtype == torch.uint8


@pytest.mark.parametrize("shape", [(6, 5, 3), (3, 3, 3)])
def test_channels_last_keeps_every_pixel_in_place(shape):
    x = images(10, shape)
    data = from_arrays(x, np.arange(10) % 2, x, np.arange(10) % 2)
    assert torch.equal(data.train.x[7, 2], torch.from_numpy(x[7, :, :, 2]))


def test_normalization_is_that_of_the_training_part_only():
    x = np.random.default_rng(0).normal([5e6, -2, 0], [3, 1e-3, 0], (5000, 3)).astype(np.float32)
    data = from_arrays(x, np.arange(5000) % 4)
    z = data.normalize(data.train.x).double()
    assert z.mean(0).abs().max() < 0.1  # 5e6 itself is known to 0.25 only
    assert z.std(0, correction=0)[:2].sub(1).abs().max() < 0.01
    assert data.normalize.std[2] == 1.0
    train = data.train.x.double()
    assert data.normalize.mean == pytest.approx(train.mean(0).tolist(), rel=1e-9)


def test_image_normalization_is_per_channel():
    x = images(9000, (2, 2, 3))
    data = from_arrays(x, np.arange(9000) % 2)
    expected = data.train.x.double().mean((0, 2, 3))
    assert data.normalize.mean == pytest.approx(expected.tolist())
    spread = data.train.x.double().std((0, 2, 3), correction=0)
    assert data.normalize.std == pytest.approx(spread.tolist())


def test_npz_with_its_own_split_and_class_names(tmp_path):
    x, y = images(12), np.arange(12) % 3
    np.savez(
        tmp_path / "a.npz", x_train=x[:9], y_train=y[:9], x_test=x[9:], y_test=y[9:],
        classes=["red", "green", "blue"], x=x, y=y,
    )  # fmt: skip
    data = Npz(tmp_path / "a.npz").load()
    assert data.classes == ("red", "green", "blue")
    assert data.train.y.tolist() == y[:9].tolist()
    assert torch.equal(data.test.x, torch.from_numpy(x[9:]).permute(0, 3, 1, 2))
    assert torch.equal(read_samples(tmp_path / "a.npz", None)[0], data.test.x)


def test_npz_without_a_split_gets_the_same_one_every_time(tmp_path):
    np.savez(tmp_path / "a.npz", x=images(50), y=np.arange(50) % 5)
    first, second = (Npz(tmp_path / "a.npz").load() for _ in range(2))
    assert (len(first.train), len(first.test)) == (40, 10)
    assert first.fingerprint == second.fingerprint
    assert torch.bincount(first.test.y).tolist() == [2] * 5


def test_labels_as_text_columns_or_whole_floats():
    x = np.eye(4)
    for y in (["b", "a", "b", "a"], [[1], [0], [1], [0]], [1.0, 0.0, 1.0, 0.0], [b"b", b"a"] * 2):
        data = from_arrays(x, np.array(y), x, np.array(y))
        assert data.train.y.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
def test_from_arrays_takes_tensors_and_keeps_no_reference(dtype):
    x, y = torch.arange(1, 241).view(10, 1, 4, 6).to(dtype), torch.arange(10) % 2
    data = from_arrays(x, y, x, y)
    before = data.train.x.clone()
    x.zero_()
    y.zero_()
    assert torch.equal(data.train.x, before)
    assert data.train.y.sum() == 5


def test_folder_reads_sorted_classes_and_files(tmp_path):
    write_folder(tmp_path / "shots")
    data = Folder(tmp_path / "shots").load()
    assert data.name == "shots"
    assert data.classes == ("ant", "bee", "cat")
    assert data.augment == "crop-flip"
    assert data.input_shape == (3, 6, 8)
    red = torch.cat([data.train.x, data.test.x])[:, 0, 0, 0]
    y = torch.cat([data.train.y, data.test.y])
    assert torch.equal(red.long(), torch.tensor([1, 2, 0])[y])


def test_folder_with_its_own_split(tmp_path):
    write_folder(tmp_path / "train", per_class=3)
    write_folder(tmp_path / "test", per_class=2, classes=("bee", "cat"))
    data = Folder(tmp_path).load()
    assert (len(data.train), len(data.test)) == (9, 4)
    assert data.test.y.tolist() == [1, 1, 2, 2]


def test_folder_scales_to_size_and_converts_to_rgb(tmp_path):
    write_folder(tmp_path, sizes=[(8, 6), (5, 9)])
    Image.new("L", (3, 3), 77).save(tmp_path / "cat" / "grey.png")
    with pytest.raises(DataError, match="Set `size`"):
        Folder(tmp_path).load()
    data = Folder(tmp_path, size=4).load()
    assert data.input_shape == (3, 4, 4)
    grey = [x for x in torch.cat([data.train.x, data.test.x]) if (x == 77).all()]
    assert len(grey) == 1


def test_csv_with_text_labels_quotes_and_a_byte_order_mark(tmp_path):
    rows = "".join(f'"very, {"good" if i % 2 else "bad"}",{i},{i * 0.5}\n' for i in range(10))
    (tmp_path / "t.csv").write_text("\ufeffverdict,a,b\n\n" + rows, encoding="utf-8")
    data = Csv(tmp_path / "t.csv", label="verdict").load()
    assert data.classes == ("very, bad", "very, good")
    assert len(data.test) == 2
    assert torch.equal(data.train.x[:, 0], 2 * data.train.x[:, 1])
    assert torch.equal(data.train.y, data.train.x[:, 0].long() % 2)


def test_csv_classes_that_are_numbers_sort_as_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n" + "".join(f"{i},{i}\n1,{i}\n" for i in range(11)))
    assert Csv(tmp_path / "t.csv").load().classes == tuple(str(i) for i in range(11))


def test_subset_is_balanced_and_changes_the_fingerprint():
    data = Digits().load()
    few = subset(data, 100, 55)
    assert torch.bincount(few.train.y).tolist() == [10] * 10
    assert sorted(torch.bincount(few.test.y).tolist()) == [5] * 5 + [6] * 5
    assert few.fingerprint != data.fingerprint
    assert few.normalize == data.normalize
    assert subset(data, None, None).fingerprint == data.fingerprint


@pytest.mark.parametrize(("train", "test"), [(1438, None), (None, 361), (9, None), (None, 0)])
def test_subset_of_more_than_there_is(train, test):
    with pytest.raises(ConfigError, match="Expected from"):
        subset(Digits().load(), train, test)


def test_all_sources_are_registered():
    assert set(registry.entries("dataset")) >= {"digits", "npz", "folder", "csv"}


def test_read_maps_npz_numbers_by_the_files_own_names(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=[0, 1, 1], classes=["cat", "dog"])
    x, y, classes, names = read_samples(tmp_path / "a.npz", ("dog", "owl", "cat"))
    assert y.tolist() == [2, 0, 0]
    assert classes == ("dog", "owl", "cat")
    assert names == ["0", "1", "2"]
    assert x.shape == (3, 3)


def test_read_takes_bare_numbers_as_positions(tmp_path):
    np.savez(tmp_path / "a.npz", x_test=np.eye(3), y_test=[2, 0, 2])
    assert read_samples(tmp_path / "a.npz", ("a", "b", "c"))[1].tolist() == [2, 0, 2]
    assert read_samples(tmp_path / "a.npz", None)[1:3] == (pytest.approx([2, 0, 2]), None)


def test_read_folder_with_and_without_classes(tmp_path):
    write_folder(tmp_path / "classes", per_class=2)
    _, y, classes, names = read_samples(tmp_path / "classes", ("cat", "bee", "ant", "dog"))
    assert y.tolist() == [2, 2, 1, 1, 0, 0]
    assert names[0] == "ant/0.png"
    x, y, classes, names = read_samples(tmp_path / "classes" / "cat", ("cat", "dog"), size=4)
    assert (x.shape, y, classes, names) == ((2, 3, 4, 4), None, ("cat", "dog"), ["0.png", "1.png"])


def test_read_csv_with_and_without_labels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,kind\n1,x\n\n2,y\n")
    _, y, classes, names = read_samples(path, None, label="kind")
    assert (y.tolist(), classes, names) == ([0, 1], ("x", "y"), ["2", "4"])
    path.write_text("a,b\n1,2\n")
    assert read_samples(path, ("x", "y"))[1] is None
