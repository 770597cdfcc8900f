"""Pictures as their files hold them: read for a person's eye, or linked for the browser."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import numpy as np
from PIL import Image, ImageOps

from flr.core.errors import DataError
from flr.data import bombs
from flr.data.paths import BROKEN

_SHOWN = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"})  # by every browser
_DEEP = ("I", "F")  # how Pillow's names of more than 8 bits begin
_DICOM = frozenset({".dcm", ".dicom"})
_MAGIC = b"DICM"  # at byte 128 of a DICOM file, whatever its name
_CUT = (0.5, 99.5)  # per cent of the values between black and white, where a file does not say


def link(path: Path, folder: Path) -> str | None:
    """The address of a file, relative to the page's folder; None if browsers cannot show it.

    Pictures of 16 bits are among those: browsers show them, but X-rays of 12 bits as black.
    """
    if path.suffix.lower() not in _SHOWN or not path.is_file():
        return None
    try:
        with Image.open(path) as image:
            if image.mode.startswith(_DEEP):
                return None
    except (*BROKEN, Image.DecompressionBombError):
        return None
    try:
        near = os.path.relpath(path, folder)
    except ValueError:  # on another drive of Windows
        return path.absolute().as_uri()
    return quote(os.fsencode(Path(near).as_posix()))


def read(path: Path, side: int | None = None) -> Image.Image:
    """8 bits a channel, grey or RGB, upright; `side` says how large a picture is wanted."""
    try:
        if _is_dicom(path):
            return _dicom(path)
        with Image.open(path) as image:
            bombs.refuse_picture(path, *image.size)
            if image.mode.startswith(_DEEP):
                return _windowed(np.asarray(image, dtype=np.float64))
            if side is not None:
                image.draft(image.mode, (2 * side, 2 * side))  # only JPEG: reads a part of the file
            grey = image.mode in ("1", "L")
            return ImageOps.exif_transpose(image).convert("L" if grey else "RGB")
    except (*BROKEN, ImportError, Image.DecompressionBombError) as error:
        raise DataError(
            f"{path}: expected a picture; it cannot be read ({error}). Replace it, or install "
            'what reads its kind: pip install "flr[medical]" for DICOM.'
        ) from error


def _is_dicom(path: Path) -> bool:
    if path.suffix.lower() in _DICOM:
        return True
    if path.suffix.lower() in _SHOWN:
        return False
    with path.open("rb") as file:
        return file.read(132)[128:] == _MAGIC


def _dicom(path: Path) -> Image.Image:
    """The middle one of several slices, in the window that the file asks for."""
    import pydicom  # the extra [medical]

    file = pydicom.dcmread(path)
    bombs.refuse_picture(path, int(file.Columns), int(file.Rows))
    values = file.pixel_array
    if int(file.get("NumberOfFrames", 1) or 1) > 1:
        values = values[len(values) // 2]
    if int(file.get("SamplesPerPixel", 1)) == 3:
        return Image.fromarray(values.astype(np.uint8))
    values = values * float(file.get("RescaleSlope", 1)) + float(file.get("RescaleIntercept", 0))
    center, width = (_first(file.get(name)) for name in ("WindowCenter", "WindowWidth"))
    window = None
    if center is not None and width:
        window = (center - width / 2, center + width / 2)
    image = _windowed(values, window)
    white_is_zero = file.get("PhotometricInterpretation") == "MONOCHROME1"
    return ImageOps.invert(image) if white_is_zero else image


def _first(value: object) -> float | None:
    """A DICOM file may ask for several windows; the first is meant to be shown first."""
    if value is None or value == "":
        return None
    return float(value[0] if hasattr(value, "__getitem__") else value)  # type: ignore[arg-type]


def _windowed(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    window: tuple[float, float] | None = None,
) -> Image.Image:
    """Grey of 8 bits: what is below the window becomes black, what is above it white."""
    low, high = window or np.nanpercentile(values, _CUT)
    if not high > low:
        high = low + 1
    grey = (np.nan_to_num(values, nan=low) - low) / (high - low)
    return Image.fromarray((np.clip(grey, 0, 1) * 255).round().astype(np.uint8))
