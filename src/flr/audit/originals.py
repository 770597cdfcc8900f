"""Pictures as their files hold them: read for a person's eye, or linked for the browser."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from PIL import Image, ImageOps

from flr.core.errors import DataError
from flr.data import bombs
from flr.data.paths import BROKEN
from flr.data.readers import scans

_SHOWN = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp"})  # by every browser
_DEEP = ("I", "F")  # how Pillow's names of more than 8 bits begin


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
        if scans.is_dicom(path):
            return scans.read_dicom(path)
        with Image.open(path) as image:
            bombs.refuse_picture(path, *image.size)
            if image.mode.startswith(_DEEP):
                return scans.deep(path, image)
            if side is not None:
                image.draft(image.mode, (2 * side, 2 * side))  # only JPEG: reads a part of the file
            grey = image.mode in ("1", "L")
            return ImageOps.exif_transpose(image).convert("L" if grey else "RGB")
    except (*BROKEN, Image.DecompressionBombError) as error:
        raise DataError(
            f"{path}: expected a picture; it cannot be read ({error}). Replace or remove it."
        ) from error
