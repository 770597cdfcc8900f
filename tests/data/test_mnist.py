"""MNIST and Fashion-MNIST from idx files, plain and packed; damaged ones are named."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
import torch

from flr.core.errors import DataError
from flr.data.sources.mnist import FashionMnist, Mnist, read_idx
from flr.scenario.noises import asymmetric


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


def arrays(count, seed):
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    return rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), rng.permutation(labels)


def write(folder, packed=False):
    """A small data set of that layout: 30 images to train, 20 to test."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for prefix, count in (("train", 30), ("t10k", 20)):
        made[prefix] = arrays(count, seed=count)
        for kind, array in zip(("images-idx3", "labels-idx1"), made[prefix], strict=True):
            name, content = f"{prefix}-{kind}-ubyte", idx(array)
            if packed:
                name, content = f"{name}.gz", gzip.compress(content)
            (folder / name).write_bytes(content)
    return made


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("source", "folder"),
    [
        (Mnist, "mnist"),
        (Mnist, "MNIST/raw"),
        (FashionMnist, "fashion-mnist"),
        (FashionMnist, "FashionMNIST/raw"),
    ],
)
def test_what_was_written_is_read(tmp_path, monkeypatch, source, folder, packed):
    made = write(tmp_path / folder, packed)
    monkeypatch.setenv("FLR_DATA", str(tmp_path))
    for data in (source().load(), source(tmp_path).load(), source(tmp_path / folder).load()):
        for part, (x, y) in zip((data.train, data.test), made.values(), strict=True):
            assert torch.equal(part.x, torch.from_numpy(x)[:, None])
            assert part.y.tolist() == y.tolist()
            assert part.number.tolist() == list(range(len(y)))
        assert len(set(data.classes)) == 10
        assert data.augment == "none"


def test_constants(tmp_path):
    write(tmp_path)
    mnist, fashion = Mnist(tmp_path).load(), FashionMnist(tmp_path).load()
    white = torch.full((1, 1, 1, 1), 255, dtype=torch.uint8)
    assert float(mnist.normalize(white)) == pytest.approx((1 - 0.1307) / 0.3081)
    assert float(fashion.normalize(white)) == pytest.approx((1 - 0.2860) / 0.3530)
    assert asymmetric.resolve("auto", mnist.classes, mnist.noise_map)[2] == 7
    assert fashion.classes[9] == "Ankle boot"


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
SOME = np.arange(30) % 10


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (IMAGES, idx(np.zeros((30, 28, 28)))[:-1], "expected 23,520 bytes .* got 23,519"),
        (IMAGES, idx(np.zeros((30, 28, 28))) + b"0", "got more"),
        (IMAGES, idx(np.zeros((29, 28, 28))), "got 30 and 29"),
        (IMAGES, idx(SOME), "begins with 00000803; got 00000801"),
        (IMAGES, b"\x00\x00\x08\x03\x00", "begins with 00000803"),
        (IMAGES, b"", "an empty file"),
        (
            IMAGES,
            b"\x00\x00\x08\x03" + b"\xff" * 12,
            "at most 2,147,483,648; got a header",
        ),
        (IMAGES, b"\x00\x00\x08\x03" + bytes(12), "at least one value"),
        (IMAGES, None, "train-images-idx3-ubyte.gz beside it; there is neither"),
        (LABELS, idx(SOME + 1), "from 0 to 9; got 10 in sample 9"),
        (LABELS, idx(np.zeros((30, 28, 28))), "begins with 00000801; got 00000803"),
        (LABELS, None, "there is neither"),
    ],
)
def test_damaged_files(tmp_path, name, content, message):
    write(tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        Mnist(tmp_path).load()
    assert str(tmp_path / name) in str(error.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-9],
        lambda b: b[:20],
        lambda b: b[:0],
        lambda b: b"no gz" + b,
        lambda b: b[:60] + bytes([b[60] ^ 255]) + b[61:],
        lambda b: b[:-8] + bytes(8),
    ],
)
def test_damaged_gz(tmp_path, damage):
    file = tmp_path / f"{IMAGES}.gz"
    file.write_bytes(damage(gzip.compress(idx(arrays(30, 1)[0]))))
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: expected"):
        read_idx(file, 3)


def test_nothing_there(tmp_path, monkeypatch):
    monkeypatch.setenv("FLR_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"fashion-mnist.*there is nothing.*get fashion-mnist"):
        FashionMnist().load()
