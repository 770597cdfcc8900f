"""All that a folder or a file holds for an audit: samples, labels if it has some, odd files.

One file that cannot be read stops nothing: it is listed with the reason.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from flr.audit import table_rows
from flr.audit.labels_file import some
from flr.core.errors import ConfigError, DataError
from flr.data.on_disk import Inputs, Pictures
from flr.data.paths import require_file
from flr.data.readers import images, sheets, tables, text_files

Kind = Literal["image", "text", "table"]
Progress = Callable[[str, float], None]

SIDE = 128  # pixels that a backbone looks at, if it has no size of its own
PARTS = ("train", "test")

_WORKERS = 2
_USUAL = 0.9  # share of the images that have one size, from which on another one is odd
_FLAT = 2  # levels of grey: what differs by no more is one colour


@dataclass(frozen=True)
class Columns:
    """Which columns of a table to take, where they are not called as usual."""

    label: str | None = None
    name: str | None = None
    text: str | None = None


@dataclass(frozen=True, eq=False)
class Collection:
    """Every sample in a fixed order; what cannot be read is among them, and `unreadable` says it.

    `labels` are text (None: there are none; a sample without one has None). `files` are those of
    images. `features` are numbers that need no backbone.
    """

    path: Path
    kind: Kind
    names: list[str]
    labels: list[str | None] | None
    inputs: Inputs
    files: Sequence[Path] = ()
    columns: Sequence[str] = ()  # of the features, or else nothing
    label: str = "label"  # the column of labels
    features: Tensor | None = None
    classes: tuple[str, ...] | None = None  # of numbered labels, if the file names them
    unreadable: dict[int, str] = field(default_factory=dict)
    odd: tuple[tuple[int, str], ...] = ()  # samples that can be read, and what is odd about them
    other: tuple[tuple[str, str], ...] = ()  # files that are no samples
    notes: tuple[str, ...] = ()


def collect(path: Path, columns: Columns, tell: Progress, skip: Path | None = None) -> Collection:
    """Looks at every sample of a folder of images, an npz file, or a table.

    Args:
        path: The folder or file.
        columns: Of a table.
        tell: Hears what is done, and which share of it.
        skip: A file in the folder that is no sample: the table of labels.
    """
    if path.is_dir():
        return _folder(path, tell, skip)
    require_file(path, "data")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _npz(path)
    if suffix in text_files.JSON_LINES or suffix in sheets.SUFFIXES:
        return table_rows.read(path, columns)
    raise DataError(
        f"Expected a folder of images, a table (.csv, .tsv, .xlsx), texts (.jsonl) or an .npz "
        f'file; got "{path.name}". Convert it to one of these, or give the folder of an image.'
    )


def _folder(path: Path, tell: Progress, skip: Path | None) -> Collection:
    """Images at any depth. Their labels are the folders just below it, or below train and test."""
    found, others = images.files_below(path)
    own = None if skip is None else skip.resolve()
    others = [file for file in others if file.resolve() != own]
    if not found:
        raise DataError(
            f"{path}: expected images ({', '.join(sorted(images.SUFFIXES))}), in it or in folders "
            f"in it; got {some([file.name for file in others], 3) or 'nothing'}. Check the path."
        )
    names = [file.relative_to(path).as_posix() for file in found]
    pictures = Pictures.of(path, [_safe(name) for name in names], SIDE)
    unreadable, odd = _looked_at(found, names, tell)
    return Collection(
        path,
        "image",
        [_safe(name) for name in names],
        _folders_as_labels(path, names),
        pictures,
        found,
        unreadable=unreadable,
        odd=odd,
        other=tuple(
            (_safe(file.relative_to(path).as_posix()), "no image by its extension")
            for file in others
        ),
    )


def _safe(name: str) -> str:
    """As text: bytes of a name that are no UTF-8 become question marks."""
    return name.encode(errors="replace").decode()


def _folders_as_labels(path: Path, names: Sequence[str]) -> list[str | None] | None:
    """None where an image lies in no folder: then folders may mean anything."""
    parts = {folder.name for folder in images.subfolders(path)} >= set(PARTS)
    labels: list[str | None] = []
    for name in names:
        folders = name.split("/")[:-1]
        if parts and folders and folders[0] in PARTS:
            folders = folders[1:]
        if not folders:
            return None
        labels.append(_safe(folders[0]))
    return labels


@dataclass(frozen=True)
class _Look:
    size: tuple[int, int] = (0, 0)
    flat: bool = False
    reason: str = ""  # why it cannot be read


def _looked_at(
    files: Sequence[Path], names: Sequence[str], tell: Progress
) -> tuple[dict[int, str], tuple[tuple[int, str], ...]]:
    """Decodes every image once: what cannot be read, and what is unlike the others."""
    looks = []
    with ThreadPoolExecutor(_WORKERS) as pool:
        for number, look in enumerate(pool.map(_look, files), 1):
            looks.append(look)
            tell("Looking at the images", number / len(files))
    unreadable = {i: look.reason for i, look in enumerate(looks) if look.reason}
    for i, name in enumerate(names):
        if name != _safe(name):
            unreadable[i] = "its name is not UTF-8: rename it"
    sizes = Counter(look.size for look in looks if not look.reason)
    usual, count = sizes.most_common(1)[0] if sizes else ((0, 0), 0)
    one_size = len(sizes) > 1 and count >= _USUAL * sizes.total()
    odd = []
    for i, look in enumerate(looks):
        if look.flat and i not in unreadable:
            odd.append((i, "all pixels have one colour"))
        if one_size and look.size != usual and i not in unreadable:
            others = f"{usual[0]} x {usual[1]}"
            odd.append((i, f"{look.size[0]} x {look.size[1]} pixels; nearly all have {others}"))
    return unreadable, tuple(odd)


def _look(file: Path) -> _Look:
    try:
        if not file.stat().st_size:
            return _Look(reason="the file is empty")
        pixels = images.read_image(file, None)
    except ConfigError:  # a package is missing: that stops all
        raise
    except (DataError, OSError) as error:
        return _Look(reason=_short(error, file))
    flat = int(pixels.max()) - int(pixels.min()) <= _FLAT
    return _Look((pixels.shape[1], pixels.shape[0]), flat)


def _short(error: Exception, file: Path) -> str:
    """What is wrong, without the path, on one line."""
    text = str(error).removeprefix(f"{file}: ").replace(os.fspath(file), file.name)
    return " ".join(text.split())


def _npz(path: Path) -> Collection:
    """Both parts of a file that has two; samples of the test part are called test/0, test/1, ..."""
    arrays = tables.read_npz(path)
    classes = tables.npz_classes(path, arrays)
    suffixes = ("_train", "_test") if "x_train" in arrays else ("",)
    parts = [tables.npz_samples(path, arrays, s) for s in suffixes if f"x{s}" in arrays]
    names = [n if not i else f"test/{n}" for i, part in enumerate(parts) for n in part.names]
    x = torch.cat([torch.as_tensor(part.x) for part in parts])
    labels: list[str | None] | None = None
    if all(part.y is not None for part in parts):
        labels = [_class_name(y, classes) for part in parts for y in np.asarray(part.y).tolist()]
    if x.dim() == 2:
        numbered = [f"feature {number}" for number in range(x.shape[1])]
        return Collection(
            path, "table", names, labels, x, columns=numbered, features=x, classes=classes
        )
    return Collection(path, "image", names, labels, as_pictures(x), classes=classes)


def _class_name(label: int | str, classes: tuple[str, ...] | None) -> str:
    if isinstance(label, str) or classes is None or label >= len(classes):
        return str(label)
    return classes[label]


def as_pictures(x: Tensor) -> Tensor:
    """Images as backbones take them: 8 bits, one or three channels."""
    if x.dtype != torch.uint8:
        low, high = float(x.min()), float(x.max())
        x = ((x - low) / max(high - low, 1e-6) * 255).round().to(torch.uint8)
    elif int(x.max()) < 128:  # like digits of 0 to 16
        x = (x.float() * (255 / max(int(x.max()), 1))).round().to(torch.uint8)
    if x.shape[1] in (1, 3):
        return x
    return x[:, :3] if x.shape[1] == 4 else x.float().mean(1, keepdim=True).round().byte()
