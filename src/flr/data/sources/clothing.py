"""Reads Clothing1M as its authors hand it out: lists of pictures, labels, and folders of JPEGs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from flr.core.errors import DataError
from flr.core.registry import register
from flr.data import checks, paths
from flr.data.dataset import Dataset, LabeledData, Normalization
from flr.data.on_disk import Pictures

CLASSES = 14
TRAIN_SIDE, TEST_SIDE = 256, 224  # pixels; training pictures are cut to 224 at random
_AGAIN = "Take the file from the publisher's archive again."


@register(
    "clothing1m", kind="dataset", title="Clothing1M", paper="Xiao et al., CVPR 2015", year=2015
)
@dataclass(frozen=True)
class Clothing1M:
    """A million photographs of clothes from shops, in 14 classes, labelled by their surroundings.

    Many labels are wrong, but nobody knows which: memorizing is not measured. Train:
    noisy_train_key_list.txt, scaled to 256 x 256, of which a window of 224 x 224 is shown and
    mirrored at random; test: clean_test_key_list.txt, scaled to 224 x 224. Pictures stay on disk
    and are decoded when their site is asked. `path` is the folder with these lists, or the one
    that holds it.
    """

    path: Path | None = None

    def load(self) -> Dataset:
        """Reads lists and labels; a picture that is missing or broken shows when it is decoded."""
        root = paths.find(self.path, ("clothing1m", "Clothing1M"), "clothing1m").absolute()
        paths.require_folder(root)
        return Dataset(
            "clothing1m",
            _part(root, "noisy_train_key_list.txt", "noisy_label_kv.txt", TRAIN_SIDE),
            _part(root, "clean_test_key_list.txt", "clean_label_kv.txt", TEST_SIDE),
            _classes(root / "category_names_eng.txt"),
            Normalization.of_pixels((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            "window-flip",
            verified=False,
        )


def _part(root: Path, list_name: str, labels_name: str, side: int) -> LabeledData:
    keys, labels = _keys(root / list_name), _labels(root / labels_name)
    without = [key for key in keys if key not in labels]
    if without:
        raise DataError(
            f"{root / labels_name}: expected a label for every picture of {list_name}; "
            f'{len(without):,} of {len(keys):,} have none, the first is "{without[0]}". {_AGAIN}'
        )
    return LabeledData(Pictures.of(root, keys, side), torch.tensor([labels[key] for key in keys]))


def _classes(file: Path) -> tuple[str, ...]:
    names = checks.class_list([line for _, line in _lines(file)], str(file))
    if len(names) != CLASSES:
        raise DataError(f"{file}: expected {CLASSES} class names; got {len(names)}. {_AGAIN}")
    return names


def _keys(file: Path) -> list[str]:
    """Paths of pictures, none of which leads out of the folder."""
    keys = []
    for number, key in _lines(file):
        if key.startswith("/") or "\\" in key or "\0" in key or ".." in key.split("/"):
            raise DataError(
                f"{file}, line {number}: expected the path of a picture inside {file.parent}; "
                f"got {key!r}, which is none. {_AGAIN}"
            )
        keys.append(key)
    return keys


def _labels(file: Path) -> dict[str, int]:
    known = {str(label): label for label in range(CLASSES)}
    found = {}
    for number, line in _lines(file):
        *key, label = line.rsplit(maxsplit=1)
        if not key or label not in known:
            raise DataError(
                f"{file}, line {number}: expected the path of a picture and a class number from 0 "
                f"to {CLASSES - 1}; got {line!r}. {_AGAIN}"
            )
        found[key[0]] = known[label]
    return found


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1."""
    paths.require_file(file, "a list of Clothing1M")
    empty = True
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if text := line.strip():
                    empty = False
                    yield number, text
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: expected text in UTF-8; it cannot be read ({error}). {_AGAIN}"
        ) from None
    if empty:
        raise DataError(f"{file}: expected a line for each picture or class; got none. {_AGAIN}")
