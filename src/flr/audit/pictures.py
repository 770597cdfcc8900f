"""Pictures of samples, made one by one when the page asks; or the sample in words."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import torch
from PIL import Image
from torch import Tensor

from flr.audit import originals
from flr.core.errors import ConfigError, DataError
from flr.data import texts as data_texts
from flr.data.on_disk import Inputs, Numbers

SIDE = 96  # of a thumbnail at most, in pixels; smaller pictures stay as they are
LARGE = 4096  # of the picture behind it: no screen shows more
QUALITY, LARGE_QUALITY = 85, 92  # of JPEG
FEATURES = 40  # shown of a sample that is no picture

Words = str | Sequence[tuple[str, str]]  # a text, or names with their values
Texts = Callable[[int], Words]


class Thumbnails(Protocol):
    """Gives the picture of an audited row as PNG or JPEG, `side` pixels at most; or None."""

    def __call__(self, row: int, side: int = SIDE) -> bytes | None: ...


def from_files(root: Path, names: Sequence[str]) -> Thumbnails:
    """From image files, in better quality than the scaled pixels that a model sees."""

    def picture(row: int, side: int = SIDE) -> bytes | None:
        try:
            return encode(originals.read(root / names[row], side), side)
        except (DataError, ConfigError):  # nothing that reads this kind is installed
            return None

    return picture


def from_inputs(x: Inputs, rows: Tensor) -> Thumbnails:
    """From pixels; `rows` says where each audited sample is. Features have no picture."""
    if isinstance(x, data_texts.Texts) or len(x.shape) != 4:
        return no_picture
    low, high = _range(x)

    def picture(row: int, side: int = SIDE) -> bytes | None:
        pixels = (x[rows[row : row + 1]][0].float() - low) / (high - low)
        pixels = pixels.clamp(0, 1).mul(255).round().to(torch.uint8)
        if pixels.shape[0] in (3, 4):  # colours; of any other number of channels, the mean in grey
            image = Image.fromarray(pixels[:3].permute(1, 2, 0).contiguous().numpy())
        else:
            image = Image.fromarray(pixels.float().mean(0).round().to(torch.uint8).numpy())
        return encode(image, side)

    return picture


def features(x: Inputs, rows: Tensor, columns: Sequence[str] = ()) -> Texts:
    """A text, or the first features of a sample by the name of their column; of pictures none."""
    if isinstance(x, data_texts.Texts):
        return lambda row: x[rows[row : row + 1]][0]
    if len(x.shape) != 2:
        return lambda _: ""
    width = x.shape[1]
    names = columns or [f"feature {number}" for number in range(width)]
    more = [("and", f"{width - FEATURES:,} more")] if width > FEATURES else []

    def values(row: int) -> Words:
        numbers = x[rows[row : row + 1]][0, :FEATURES].tolist()
        pairs = zip(names[: len(numbers)], numbers, strict=True)
        return [(name, f"{number:.4g}") for name, number in pairs] + more

    return values


def encode(image: Image.Image, side: int = SIDE) -> bytes:
    """PNG or JPEG: of a thumbnail the smaller one, of a large grey picture always PNG.

    X-rays and scans are grey, and a trace of JPEG on them could be taken for a finding.
    """
    image.thumbnail((side, side))
    large = max(image.size) > SIDE
    png, jpeg = io.BytesIO(), io.BytesIO()
    image.save(png, "PNG", optimize=not large)
    if large and image.mode == "L":
        return png.getvalue()
    image.save(jpeg, "JPEG", quality=LARGE_QUALITY if large else QUALITY)
    return min(png.getvalue(), jpeg.getvalue(), key=len)


def no_picture(row: int, side: int = SIDE) -> None:
    """Of a text or a row of a table."""


def _range(x: Numbers) -> tuple[float, float]:
    """What is shown as black and as white: dark sets, like digits of 0 to 16, are stretched."""
    if not isinstance(x, Tensor):  # pictures on disk
        return 0.0, 255.0
    low, high = float(x.min()), float(x.max())
    if x.dtype == torch.uint8:
        low, high = 0.0, 255.0 if high > 127 else high
    return low, high if high > low else low + 1
