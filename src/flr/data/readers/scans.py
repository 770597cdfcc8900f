"""Pictures of more than 8 bits, and DICOM files, in 8 bits as people see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flr.core.errors import ConfigError, DataError
from flr.data import bombs
from flr.data.checks import Array

SUFFIXES = frozenset({".dcm", ".dicom"})

_MAGIC_AT, _MAGIC = 128, b"DICM"
_DEEP = 2  # as many pixels as one that is deep: it takes more room until it is scaled
_DARKEST, _LIGHTEST = 0.1, 99.9  # percentiles: a few dead or glaring pixels decide nothing


def is_dicom(file: Path) -> bool:
    """By its suffix; scanners often leave that out, and the file says it then."""
    if file.suffix:
        return file.suffix.lower() in SUFFIXES
    with file.open("rb") as opened:
        return opened.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] == _MAGIC


def read_dicom(file: Path) -> Image.Image:
    """The picture in a DICOM file with its window level; of several, the one in the middle."""
    try:
        import pydicom
        from pydicom.pixels.processing import apply_modality_lut
    except ImportError:
        raise ConfigError(
            f"{file} needs the package pydicom to be read; it is not installed. Install it with "
            '`pip install "flr[medical]"`, or save the scans as PNG.'
        ) from None
    try:
        _refuse_deflated(file, pydicom.filereader.read_file_meta_info(file))
        return _picture(file, pydicom.dcmread(file), apply_modality_lut)
    except DataError:
        raise
    except Exception as error:  # its decoders raise what they like
        raise DataError(
            f"{file}: expected a DICOM file; it cannot be read ({error}). Replace or remove it."
        ) from error


def _picture(file: Path, found: Any, rescaled: Callable[[Array, Any], Array]) -> Image.Image:
    samples, frames = int(found.SamplesPerPixel), int(found.get("NumberOfFrames") or 1)
    bombs.refuse_picture(file, int(found.Columns) * samples * _DEEP, int(found.Rows) * frames)
    pixels = found.pixel_array
    colored = samples > 1
    if pixels.ndim == (4 if colored else 3):
        pixels = pixels[len(pixels) // 2]
    if colored:
        return Image.fromarray(pixels if pixels.dtype == np.uint8 else stretched(file, pixels))
    grey = _windowed(file, found, rescaled(pixels, found))
    if found.PhotometricInterpretation == "MONOCHROME1":  # the lowest value is white
        grey = 255 - grey
    return Image.fromarray(grey)


def _refuse_deflated(file: Path, meta: Any) -> None:
    """Its reader unpacks such a file as a whole, however large that is, before it says its size."""
    from pydicom.uid import DeflatedExplicitVRLittleEndian

    if meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        raise DataError(
            f"{file}: expected a DICOM file that is not packed as a whole; it is deflated. Unpack "
            "it first (dcmconv +te)."
        )


def _windowed(file: Path, found: Any, values: Array) -> Array:
    """By the first window that the file has, as its scanner wants it seen; else stretched."""
    center, width = (found.get(name) for name in ("WindowCenter", "WindowWidth"))
    if center is None or width is None:
        return stretched(file, values)
    middle, wide = (float(v[0] if hasattr(v, "__len__") else v) for v in (center, width))
    return _between(values, middle - wide / 2, middle + wide / 2)


def deep(file: Path, image: Image.Image) -> Image.Image:
    """A picture of 16 or 32 bits in 8: from its darkest pixels to its lightest."""
    bombs.refuse_picture(file, image.width * _DEEP, image.height)
    return Image.fromarray(stretched(file, np.asarray(image)))


def stretched(file: Path, values: Array) -> Array:
    """So that nearly all values lie between black and white, as a viewer shows them."""
    real = values.astype(np.float32)
    if not np.isfinite(real).all():
        raise DataError(
            f"{file}: expected finite pixels; got NaN or infinity. Replace or remove it."
        )
    low, high = np.percentile(real, (_DARKEST, _LIGHTEST))
    if high <= low:  # a few pixels only
        low, high = float(real.min()), float(real.max())
    return _between(real, float(low), float(high))


def _between(values: Array, low: float, high: float) -> Array:
    scaled = values.astype(np.float32)  # changed in its place: scans are large
    scaled -= low
    scaled /= max(high - low, 1e-6)
    np.clip(scaled, 0, 1, out=scaled)
    scaled *= 255
    return np.round(scaled, out=scaled).astype(np.uint8)
