"""Pictures are pictures, whatever was measured."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from flr.report import plots


def check(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        image.verify()
    with Image.open(path) as image:
        assert image.format == "PNG"
        assert image.width >= 600
        plain = image.convert("RGB")
    assert len(plain.getcolors(2**24) or ()) > 20
    return np.asarray(plain)


def test_curves(tmp_path: Path, metrics) -> None:
    plots.curves(metrics, tmp_path / "curves.png", "a title with $ and \\frac{")
    pixels = check(tmp_path / "curves.png")
    red = np.array([0xD5, 0x5E, 0x00])
    assert (pixels == red).all(axis=2).sum() > 500  # the memorized line is there


@pytest.mark.parametrize("missing", ["accuracy", "memorization"])
def test_curves_say_what_was_not_measured(tmp_path: Path, metrics, missing: str) -> None:
    for line in metrics:
        del line[missing]
    plots.curves(metrics, tmp_path / "a.png", "t")
    plots.curves([], tmp_path / "b.png", "t")
    assert not np.array_equal(check(tmp_path / "a.png"), check(tmp_path / "b.png"))


def test_equal_runs_give_equal_bytes(tmp_path: Path, metrics) -> None:
    for name in ("a", "b"):
        plots.curves(metrics, tmp_path / name, "t")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_comparison_of_more_runs_than_colours(tmp_path: Path, make_run) -> None:
    runs = {f"m{i}": make_run(12, top=0.5 + i / 30) for i in range(9)}
    plots.comparison(runs, tmp_path / "comparison.png")
    check(tmp_path / "comparison.png")
