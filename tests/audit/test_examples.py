"""Samples to compare a suspect with, and pictures as files hold them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from flr.audit import examples, originals
from flr.audit.evidence import Evidence
from flr.audit.findings import Suspect
from flr.audit.pictures import LARGE, SIDE, encode, features, from_files, from_inputs
from flr.core.errors import DataError

CLASSES = ("a", "b", "c")


def evidence(given: list[int], values: torch.Tensor | None) -> Evidence:
    n = len(given)
    view = torch.full((n, 3), 1 / 3)
    names = [str(i) for i in range(n)]
    return Evidence(
        "s", names, CLASSES, torch.tensor(given), {"model": view}, None, "", features=values
    )


def suspect(row: int, given: str, suggested: str) -> Suspect:
    return Suspect(row, str(row), given, suggested, 0.9, 0.9, 0.5, None, "")


def test_the_nearest_are_those_that_a_plain_search_finds() -> None:
    generator = torch.Generator().manual_seed(3)
    given = torch.randint(0, 3, (400,), generator=generator)
    values = torch.randn(400, 8, generator=generator) * torch.logspace(0, 5, 8)
    rows = [5, 17, 100, 399]
    suspects = [suspect(r, CLASSES[given[r]], CLASSES[(given[r] + 1) % 3]) for r in rows]
    found = examples.find(evidence(given.tolist(), values), suspects)
    scaled = ((values - values.mean(0)) / values.std(0, correction=0)).numpy()
    for one, (same, other) in zip(suspects, found.nearest, strict=True):
        cosine = scaled @ scaled[one.row]
        cosine /= np.linalg.norm(scaled, axis=1) * np.linalg.norm(scaled[one.row])
        for near, name in ((same, one.given), (other, one.suggested)):
            of_class = [r for r in range(400) if CLASSES[given[r]] == name and r not in rows]
            assert near == tuple(sorted(of_class, key=lambda r: -cosine[r])[:3])


def test_doubted_labels_are_no_examples_while_others_are_left() -> None:
    values = torch.eye(6)
    suspects = [suspect(0, "a", "b"), suspect(1, "a", "b"), suspect(4, "c", "b")]
    found = examples.find(evidence([0, 0, 0, 1, 2, 1], values), suspects)
    assert found.nearest[0][0] == (2,)
    assert set(found.nearest[0][1]) == {3, 5}
    assert found.nearest[2][0] == (), "a class of one sample has no other"
    assert found.typical[0] == (2,)
    assert found.typical[2] == (4,), "of a class without any trusted label, what there is"


def test_without_features_nothing_is_alike() -> None:
    found = examples.find(evidence([0, 1, 1, 0], None), [suspect(0, "a", "b")])
    assert found.nearest == [((), ())]
    assert found.typical == {0: (3,), 1: (1, 2)}
    assert examples.find(evidence([0], None), []).nearest == []


def pixels(data: bytes | None) -> Any:
    assert data is not None
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bits_are_spread_over_black_and_white(tmp_path: Path, name: str) -> None:
    values = np.linspace(1000, 3000, 120 * 100).reshape(120, 100).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / name)
    grey = pixels(from_files(tmp_path, [name])(0, LARGE))
    assert grey.shape == (120, 100)
    assert (grey.min(), grey.max()) == (0, 255)
    assert abs(int(grey[60, 0]) - 128) < 4
    assert originals.link(tmp_path / name, tmp_path) is None, "browsers would show it black"
    assert max(pixels(from_files(tmp_path, [name])(0)).shape) == SIDE


def test_a_float_picture_and_one_that_nothing_can_show(tmp_path: Path) -> None:
    values = np.array([[0.0, 0.5], [0.7, 1.0]], np.float32)
    Image.fromarray(values).save(tmp_path / "float.tif")
    assert pixels(from_files(tmp_path, ["float.tif"])(0)).max() > 200
    Image.fromarray(values * np.nan).save(tmp_path / "nan.tif")
    assert from_files(tmp_path, ["nan.tif"])(0) is None


def test_photographs_stand_upright(tmp_path: Path) -> None:
    image = Image.new("RGB", (40, 20), "white")
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was held sideways
    image.save(tmp_path / "photo.jpg", exif=turned)
    assert pixels(from_files(tmp_path, ["photo.jpg"])(0)).shape[:2] == (40, 20)


def test_what_is_no_picture_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"x\.png: expected a picture; it cannot be read"):
        originals.read(tmp_path / "x.png")
    assert from_files(tmp_path, ["x.png"])(0) is None
    assert originals.link(tmp_path / "x.png", tmp_path) is None
    assert originals.link(tmp_path / "gone.png", tmp_path) is None


def test_a_link_leads_from_the_page_to_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "ward 7 #1 % ü" / "scans"
    folder.mkdir(parents=True)
    Image.new("L", (4, 4)).save(folder / "a?b.png")
    page = tmp_path / "audit" / "site"
    link = originals.link(folder / "a?b.png", page)
    assert link == "../../ward%207%20%231%20%25%20%C3%BC/scans/a%3Fb.png"


def test_large_grey_pictures_are_not_pressed() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (300, 200), np.uint8)
    assert np.array_equal(pixels(encode(Image.fromarray(noise), LARGE)), noise)
    x = torch.from_numpy(noise)[None, None]
    assert np.array_equal(pixels(from_inputs(x, torch.tensor([0]))(0, LARGE)), noise)


def test_many_columns_are_counted() -> None:
    words = features(torch.arange(100.0)[None], torch.tensor([0]))(0)
    assert words[:2] == [("feature 0", "0"), ("feature 1", "1")]
    assert words[-1] == ("and", "60 more")
