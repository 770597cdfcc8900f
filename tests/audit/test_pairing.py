"""Names as people write them, beside the samples that they mean."""

from __future__ import annotations

import time
import unicodedata

import pytest

from flr.audit.pairing import pair

LETTER = "größe.png"


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("a.png", "a.png"),
        ("scans/a.png", "a.png"),
        ("a.png", "ward 1/a.png"),
        ("C:\\data\\ward 1\\a.png", "ward 1/a.png"),
        ("./ward 1/a.png", "ward 1/a.png"),
        ("a", "a.png"),
        ("a.png", "a"),
        ("A.PNG", "a.png"),
        ("ward.1/a.b", "x/ward.1/a.b.jpeg"),
        (unicodedata.normalize("NFD", LETTER), unicodedata.normalize("NFC", LETTER)),
        (unicodedata.normalize("NFC", LETTER), unicodedata.normalize("NFD", LETTER)),
        (" a.png ", "a.png"),
    ],
)
def test_the_same_sample(name, sample):
    found = pair(["other.png", name], ["b.png", sample])
    assert found.rows == [None, 1]
    assert found.otherwise == (name != sample)


@pytest.mark.parametrize(
    ("name", "sample"),
    [
        ("dogs/a.png", "cats/a.png"),
        ("a.jpg", "a.png"),
        ("ba.png", "a.png"),
        ("../../etc/passwd", "passwords"),
        ("a.png\n", "b.png"),
        ("", "a.png"),
        ("1.5", "1"),
    ],
)
def test_other_samples(name, sample):
    assert pair([name], [sample]).rows == [None]


def test_what_fits_more_than_once_is_said_and_never_guessed():
    found = pair(["a.png", "b"], ["x/a.png", "y/a.png", "b.png"])
    assert found.rows == [None, 2]
    assert found.unsure == {0: "its name fits several samples"}
    found = pair(["old/a.png", "new/a.png"], ["a.png"])
    assert found.rows == [None, None]
    assert set(found.unsure.values()) == {"several names fit the same sample"}


def test_an_equal_name_comes_first_and_the_longest_folder_next():
    assert pair(["a.png", "x/a.png"], ["x/a.png", "a.png"]).rows == [1, 0]
    assert pair(["C:/x/a.png"], ["a.png", "x/a.png"]).rows == [1]
    assert pair(["a.jpg", "a.png"], ["a.png"]).rows == [None, 0]


def test_a_hundred_thousand_names_in_equal_folders_take_seconds():
    samples = [f"p{n}/image.png" for n in range(100_000)]
    begun = time.monotonic()
    found = pair([f"D:\\study\\p{n}\\image.png" for n in range(100_000)], samples)
    assert found.rows == list(range(100_000))
    assert time.monotonic() - begun < 60
