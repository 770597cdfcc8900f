"""Reads folders of images: one sub-folder for each class, or no classes at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from flr.core.errors import DataError
from flr.data import bombs
from flr.data.checks import Samples
from flr.data.on_disk import Inputs, Pictures
from flr.data.paths import BROKEN, require_folder
from flr.data.readers import scans

SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
    | scans.SUFFIXES
)


def parts(path: Path) -> tuple[Path, Path] | None:
    """The `train` and `test` folders inside `path`; None if its sub-folders are the classes."""
    require_folder(path)
    names = {folder.name for folder in subfolders(path)}
    train, test = path / "train", path / "test"
    if {"train", "test"} <= names:
        return train, test
    if "train" in names and subfolders(train):
        raise DataError(
            f"{path}: expected folders train and test, or one folder for each class; "
            f"got {', '.join(sorted(names))}. Add test, or give {train} itself."
        )
    return None


def subfolders(path: Path) -> list[Path]:
    """Sorted by name; hidden ones do not count."""
    try:
        return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    except OSError as error:
        raise DataError(
            f"Expected a readable folder at {path}; {error}. Check its rights."
        ) from None


Read = Callable[[Path, list[Path]], Inputs]  # of a folder and files in it


def at_once(size: int | None) -> Read:
    """Reads all images into memory; `size` makes all of them squares."""
    return lambda _, files: read_images(files, size)


def one_by_one(side: int) -> Read:
    """Leaves the images on disk until they are looked at, as squares of so many pixels."""
    return lambda root, files: Pictures.of(
        root, [file.relative_to(root).as_posix() for file in files], side
    )


def read_classes(path: Path, read: Read) -> Samples:
    """Images of path/<class>/..., labelled by the folder's name."""
    files, labels = _labeled_files(path)
    names = [file.relative_to(path).as_posix() for file in files]
    return Samples(read(path, files), np.array(labels), names)


def read_sites(path: Path, read: Read) -> Samples:
    """Images of path/<site>/<class>/...; a site need not have every class."""
    folders = subfolders(path)
    if not folders:
        raise DataError(
            f"{path}: expected one sub-folder for each site, with one for each class inside; got "
            'none. Leave sites = "folder" out if the images are not sorted by site.'
        )
    files: list[Path] = []
    labels: list[str] = []
    sites: list[str] = []
    for folder in folders:
        found, classes = _labeled_files(folder)
        files += found
        labels += classes
        sites += [folder.name] * len(found)
    names = [file.relative_to(path).as_posix() for file in files]
    return Samples(read(path, files), np.array(labels), names, np.array(sites))


def _labeled_files(path: Path) -> tuple[list[Path], list[str]]:
    folders = subfolders(path)
    if not folders:
        raise DataError(
            f"{path}: expected one sub-folder for each class; got none. "
            "Put the images of each class into a folder of its own."
        )
    files: list[Path] = []
    labels: list[str] = []
    for folder in folders:
        found = image_files(folder)
        if not found:
            raise DataError(
                f"{folder}: expected images ({', '.join(sorted(SUFFIXES))}); got none. "
                "Add images or remove the folder."
            )
        files += found
        labels += [folder.name] * len(found)
    return files, labels


def read_flat(path: Path, read: Read) -> Samples:
    """Images that lie in the folder itself; they have no labels."""
    files = image_files(path)
    if not files:
        raise DataError(
            f"{path}: expected images ({', '.join(sorted(SUFFIXES))}) or one sub-folder for each "
            "class; got neither. Check the path."
        )
    return Samples(read(path, files), None, [file.name for file in files])


def image_files(folder: Path) -> list[Path]:
    """Sorted by name; hidden files and files that are no images by their suffix do not count."""
    return sorted(
        p
        for p in folder.iterdir()
        if p.suffix.lower() in SUFFIXES and not p.name.startswith(".") and p.is_file()
    )


def files_below(folder: Path) -> tuple[list[Path], list[Path]]:
    """Images in the folder and in all folders in it, and what is there besides; none is hidden."""
    found: list[Path] = []
    for place, inside, names in os.walk(folder):
        inside[:] = [name for name in inside if not name.startswith(".")]
        found += [Path(place, name) for name in names if not name.startswith(".")]
    by_kind: tuple[list[Path], list[Path]] = ([], [])
    for file in sorted(found):
        is_image = file.suffix.lower() in SUFFIXES or (not file.suffix and _says_dicom(file))
        by_kind[0 if is_image else 1].append(file)
    return by_kind


def _says_dicom(file: Path) -> bool:
    try:
        return file.is_file() and scans.is_dicom(file)
    except OSError:
        return False


def read_images(files: list[Path], size: int | None) -> Tensor:
    """RGB, n x 3 x height x width, uint8; `size` makes all of them squares."""
    height, width = read_image(files[0], size).shape[:2]
    bombs.refuse_pictures(files, len(files) * 3 * height * width)
    pixels = torch.empty((len(files), 3, height, width), dtype=torch.uint8)
    for i, file in enumerate(files):
        image = read_image(file, size)
        if image.shape[:2] != (height, width):
            raise DataError(
                f"Expected images of one size; {files[0]} has {width} x {height} pixels and "
                f"{file} has {image.shape[1]} x {image.shape[0]}. "
                "Set `size` (in pixels) to scale all of them."
            )
        pixels[i] = torch.from_numpy(image).permute(2, 0, 1)
    return pixels


def read_image(file: Path, size: int | None) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """RGB, height x width x 3; `size` makes it a square. More bits than 8 are scaled to 8."""
    try:
        plain = _open(file).convert("RGB")
    except DataError:
        raise
    except (*BROKEN, Image.DecompressionBombError) as error:
        raise DataError(
            f"{file}: expected an image; it cannot be read ({error}). Replace or remove it."
        ) from error
    if size is not None and plain.size != (size, size):
        plain = plain.resize((size, size), Image.Resampling.BILINEAR)
    return np.array(plain, dtype=np.uint8)


def _open(file: Path) -> Image.Image:
    if scans.is_dicom(file):
        return scans.read_dicom(file)
    with Image.open(file) as image:
        bombs.refuse_picture(file, *image.size)
        if image.mode.startswith(("I", "F")):  # Pillow would cut these off at 255
            return scans.deep(file, image)
        image.load()
        return image
