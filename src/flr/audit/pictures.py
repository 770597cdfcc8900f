"""Thumbnails of suspects, made one by one when the page asks; or a few features in words."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from flr.core.errors import DataError
from flr.data import texts as data_texts
from flr.data.on_disk import Inputs, Numbers
from flr.data.readers.images import read_image

SIDE = 64  # of a thumbnail at most, in pixels; smaller pictures stay as they are
QUALITY = 85  # of JPEG
FEATURES = 12  # shown of a sample that is no picture

Thumbnails = Callable[[int], bytes | None]
Texts = Callable[[int], str]


def from_files(root: Path, names: Sequence[str]) -> Thumbnails:
    """From image files, in better quality than the scaled pixels that a model sees."""

    def thumbnail(row: int) -> bytes | None:
        try:
            return encode(Image.fromarray(read_image(root / names[row], None)))
        except DataError:
            return None

    return thumbnail


def from_inputs(x: Inputs, rows: Tensor) -> Thumbnails:
    """From pixels; `rows` says where each audited sample is. Features have no picture."""
    if isinstance(x, data_texts.Texts) or len(x.shape) != 4:
        return lambda _: None
    low, high = _range(x)

    def thumbnail(row: int) -> bytes | None:
        pixels = (x[rows[row : row + 1]][0].float() - low) / (high - low)
        pixels = pixels.clamp(0, 1).mul(255).round().to(torch.uint8)
        if pixels.shape[0] in (3, 4):  # colours; of any other number of channels, the mean in grey
            return encode(Image.fromarray(pixels[:3].permute(1, 2, 0).contiguous().numpy()))
        return encode(Image.fromarray(pixels.float().mean(0).round().to(torch.uint8).numpy()))

    return thumbnail


def features(x: Inputs, rows: Tensor, columns: Sequence[str] = ()) -> Texts:
    """A text, or the first features of a sample by the name of their column; of pictures none."""
    if isinstance(x, data_texts.Texts):
        return lambda row: x[rows[row : row + 1]][0]
    if len(x.shape) != 2:
        return lambda _: ""
    width = x.shape[1]
    names = columns or [f"feature {number}" for number in range(width)]
    more = f", and {width - FEATURES:,} more" if width > FEATURES else ""

    def text(row: int) -> str:
        values = x[rows[row : row + 1]][0, :FEATURES].tolist()
        pairs = zip(names[: len(values)], values, strict=True)
        return ", ".join(f"{name} {value:.4g}" for name, value in pairs) + more

    return text


def encode(image: Image.Image) -> bytes:
    """PNG or JPEG, whichever is smaller: drawings and photographs differ."""
    image.thumbnail((SIDE, SIDE))
    png, jpeg = io.BytesIO(), io.BytesIO()
    image.save(png, "PNG", optimize=True)
    image.save(jpeg, "JPEG", quality=QUALITY)
    return min(png.getvalue(), jpeg.getvalue(), key=len)


def _range(x: Numbers) -> tuple[float, float]:
    """What is shown as black and as white: dark sets, like digits of 0 to 16, are stretched."""
    if not isinstance(x, Tensor):  # pictures on disk
        return 0.0, 255.0
    low, high = float(x.min()), float(x.max())
    if x.dtype == torch.uint8:
        low, high = 0.0, 255.0 if high > 127 else high
    return low, high if high > low else low + 1
