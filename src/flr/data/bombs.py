"""Small files that unpack to very large ones: refused before room is made for what they hold."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from flr.core.errors import DataError

PLENTY = 2**30  # bytes: what unpacks to less is nobody's bomb
LARGEST_PICTURE = 2**26  # pixels

_DENSE = 25  # times that data may shrink when they are packed; pixels and measurements do not
_DENSE_PICTURES = 250  # flat drawings shrink to very little


def refuse_archive(path: Path, file: IO[bytes], plenty: int | None = None) -> None:
    """Refuses a zip file, as npz files are, whose members are far larger than itself."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        refuse_size(path, unpacked, plenty)
    file.seek(0)


def refuse_size(path: Path, unpacked: int, plenty: int | None = None) -> None:
    """Refuses a packed file that says it holds so many bytes; `plenty` of them are allowed."""
    packed, plenty = path.stat().st_size, plenty or PLENTY
    if unpacked > max(plenty, _DENSE * packed):
        raise DataError(
            f"{path}: expected packed data of at most {_DENSE} times the file's size, or "
            f"{plenty >> 20:,} MB; its {packed:,} bytes unpack to {unpacked:,}. If this is meant, "
            "store the data unpacked (numpy.savez instead of savez_compressed, `gunzip`, or a "
            "table as CSV)."
        )


def refuse_picture(path: Path, width: int, height: int) -> None:
    """Refuses one picture that is larger than any network takes."""
    if width * height > LARGEST_PICTURE:
        raise DataError(
            f"{path}: expected a picture of at most {LARGEST_PICTURE:,} pixels; got {width:,} x "
            f"{height:,}. Scale it down first, or remove it."
        )


def refuse_pictures(files: Iterable[Path], unpacked: int) -> None:
    """Refuses pictures that together take far more room than their files do."""
    packed = sum(file.stat().st_size for file in files)
    if unpacked > max(PLENTY, _DENSE_PICTURES * packed):
        raise DataError(
            f"Expected pictures that fit into memory; {packed:,} bytes of files unpack to "
            f"{unpacked:,}. Set `size` (in pixels) to scale all of them."
        )
