"""Small files that unpack to huge ones are refused before they take any room."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from flr.core.errors import DataError
from flr.data import bombs
from flr.data.readers import human_labels, scans, workbooks
from flr.data.readers.images import read_images
from flr.data.readers.tables import read_npz
from flr.data.sources.mnist import read_idx


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A bomb of 40 MB stands for one of several GB; what it would take is measured."""
    monkeypatch.setattr(bombs, "PLENTY", 2**20)
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**23


def npz_of_zeros(path, name: str, size: int) -> None:
    """Written a piece at a time: the test takes no room either."""
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}".encode()
    packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
    with packed as archive, archive.open(f"{name}.npy", "w") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        for _ in range(size >> 16):
            file.write(bytes(1 << 16))


@pytest.mark.usefixtures("little_room")
def test_an_npz_bomb(tmp_path):
    npz_of_zeros(tmp_path / "x.npz", "x", 40 << 20)
    with pytest.raises(DataError, match=r"unpack to 41,943,\d+. If this is meant, store"):
        read_npz(tmp_path / "x.npz")


@pytest.mark.usefixtures("little_room")
def test_an_npz_bomb_of_labels(tmp_path):
    npz_of_zeros(tmp_path / "CIFAR-10_human.npz", "clean_label", 40 << 20)
    with pytest.raises(DataError, match="unpack to"):
        human_labels.load(tmp_path / "CIFAR-10_human.npz", "worst")


@pytest.mark.usefixtures("little_room")
def test_an_idx_bomb(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    with gzip.open(path, "wb") as file:
        file.write(bytes([0, 0, 8, 3]) + struct.pack(">3I", 40, 1024, 1024))
        for _ in range(40 << 4):
            file.write(bytes(1 << 16))
    with pytest.raises(DataError, match="unpack to 41,943,040"):
        read_idx(path, 3)


ROWS_AT_THE_END = b'<row r="999999999999"><c><v>1</v></c></row>'
FAR = b'<row><c r="XFD1"><v>1</v></c></row>'


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize(
    ("part", "end", "more", "said"),
    [
        ("sheet1", b"</sheetData>", ROWS_AT_THE_END, "at most 1,048,576 rows"),
        ("sheet1", b"</sheetData>", 100 * FAR, "unpack to"),
        ("sheet1", b"</row>", 2**21 * b"<c/>", "or 8 MB"),
        ("styles", b"</fonts>", 2**21 * b"<font/>", "or 8 MB"),
    ],
    ids=["rows", "columns", "cells", "fonts"],
)
def test_a_workbook_bomb(part, end, more, said, tmp_path):
    with_more(tmp_path / "x.xlsx", part, end, more)
    with pytest.raises(DataError, match=said):
        workbooks.read(tmp_path / "x.xlsx")


def with_more(path, part: str, end: bytes, more: bytes) -> None:
    """A small workbook, in one part of which something stands before a tag."""
    tracemalloc.stop()  # the bomb is not what is measured
    openpyxl = pytest.importorskip("openpyxl")
    book, plain = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["name", "label"])
    book.active.append(["a.png", "cat"])
    book.save(plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(end, more + end, 1) if part in name else content)
    tracemalloc.start()


def test_one_long_text_in_many_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(bombs, "PLENTY", 2**20)
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["name", "text"], *([str(k), 30_000 * "x"] for k in range(50))]:
        book.active.append(row)
    book.save(tmp_path / "x.xlsx")
    with pytest.raises(DataError, match="unpack to"):
        workbooks.read(tmp_path / "x.xlsx")


def test_a_deep_picture_counts_for_more(tmp_path, monkeypatch):
    monkeypatch.setattr(bombs, "LARGEST_PICTURE", 100 * 100)
    Image.fromarray(np.zeros((80, 80), np.uint16)).save(tmp_path / "a.tif")
    monkeypatch.setattr(scans, "stretched", None)
    with pytest.raises(DataError, match="Scale it down"):
        read_images([tmp_path / "a.tif"], 8)


def test_a_picture_bomb_is_not_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(bombs, "LARGEST_PICTURE", 500 * 500)
    Image.new("L", (501, 500)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image.Image, "convert", None)
    with pytest.raises(DataError, match=r"got 501 x 500\. Scale it down"):
        read_images([tmp_path / "a.png"], 8)


def test_many_pictures_that_are_bombs_together(tmp_path, monkeypatch):
    monkeypatch.setattr(bombs, "PLENTY", 2**20)
    files = [tmp_path / f"{k}.png" for k in range(4)]
    for file in files:
        Image.new("L", (2000, 2000)).save(file)
    with pytest.raises(DataError, match=r"unpack to 48,000,000\. Set `size`"):
        read_images(files, None)
    assert read_images(files, 8).shape == (4, 3, 8, 8)


def test_data_that_do_not_shrink_much_may_be_large(tmp_path, monkeypatch):
    monkeypatch.setattr(bombs, "PLENTY", 2**10)
    rng = np.random.default_rng(0)
    np.savez_compressed(tmp_path / "x.npz", x=rng.integers(0, 9, (500, 64), dtype=np.uint8))
    np.savez(tmp_path / "zeros.npz", x=np.zeros((500, 64)))
    assert read_npz(tmp_path / "x.npz")["x"].shape == (500, 64)
    assert read_npz(tmp_path / "zeros.npz")["x"].shape == (500, 64)
