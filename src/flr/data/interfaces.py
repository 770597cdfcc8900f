"""Data sets of other libraries in place of `[data]`: Hugging Face's `datasets`, and torch's.

They are read once, into memory. Neither package is imported for it: an object knows where its type
comes from, and torch is here anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.utils.data
from torch import Tensor

from flr.core.errors import DataError
from flr.data import checks
from flr.data.build import assemble
from flr.data.checks import Array, Samples
from flr.data.texts import Texts

_TEST = ("test", "validation", "valid")  # splits to test on, the first that is there
_NAMES = ("Dataset", "DatasetDict")  # what the types of Hugging Face's library end in
_TEXTS = ("string", "large_string")  # what a column of texts holds
_PLAIN_MODES = ("L", "RGB")  # of pictures, as Pillow calls them; others become RGB


def adopted(data: Any) -> Any:
    """A `Dataset` of what these libraries bring, alone or as (train, test); all else unchanged."""
    parts = _parts(data)
    if parts is None:
        return data
    read = _from_hugging_face if _is_hugging_face(parts[0]) else _from_torch
    (train, classes, name), *rest = [read(part) for part in parts if part is not None]
    return assemble(name, train, rest[0][0] if rest else None, classes)


def _parts(data: Any) -> tuple[Any, Any] | None:
    """The training part and the test part, if there is one; None if it is none of these."""
    if _is_hugging_face(data) and hasattr(data, "keys"):
        return _splits(data)
    if _is_hugging_face(data) or isinstance(data, torch.utils.data.Dataset):
        return data, None
    if isinstance(data, tuple | list) and len(data) == 2:
        both = [_is_hugging_face(one) or isinstance(one, torch.utils.data.Dataset) for one in data]
        return (data[0], data[1]) if all(both) else None
    return None


def _is_hugging_face(data: Any) -> bool:
    return any(
        base.__module__.partition(".")[0] == "datasets" and base.__name__.endswith(_NAMES)
        for base in type(data).__mro__
    )


def _splits(data: Any) -> tuple[Any, Any]:
    names = list(data.keys())
    if "train" not in names and len(names) > 1:
        raise DataError(
            f"Expected a DatasetDict with a split named train; it has {', '.join(names)}. Rename "
            "the split to train on, or pass one split alone."
        )
    test = next((name for name in _TEST if name in names and len(names) > 1), None)
    return data["train" if "train" in names else names[0]], test and data[test]


Found = tuple[Samples, tuple[str, ...] | None, str]


def _from_hugging_face(data: Any) -> Found:
    where = str(getattr(data.info, "dataset_name", None) or "datasets.Dataset")
    if not hasattr(data, "__len__"):
        raise DataError(
            f"{where}: expected a data set with a length; got {type(data).__name__}, which is "
            "streamed. Load it without streaming = True."
        )
    label = _label_column(data.features, where)
    column = _input_column(data.features, label, where)
    names = getattr(data.features[label], "names", None)
    y = checks.labels(data[label][:], f"{where}, column {label}")
    values = data[column][:]
    is_text = _kind(data.features[column]) in _TEXTS
    x = _texts(values, where) if is_text else _numbers(values, f"{where}, column {column}")
    return Samples(x, y, []), None if names is None else tuple(names), where


def _label_column(features: Mapping[str, Any], where: str) -> str:
    """The one named label, or the only one that holds classes."""
    classes = [name for name, feature in features.items() if _kind(feature) == "ClassLabel"]
    if "label" in features:
        return "label"
    if len(classes) != 1:
        raise DataError(
            f"{where}: expected a column named label, or one of classes (ClassLabel); it has "
            f'{", ".join(features)}. Say rename_column(..., "label").'
        )
    return classes[0]


def _input_column(features: Mapping[str, Any], label: str, where: str) -> str:
    """The only image; else the only column that is no number, or the only one at all."""
    rest = {name: _kind(feature) for name, feature in features.items() if name != label}
    for wanted in (["Image"], ["Array2D", "Array3D", "List", "Sequence"], _TEXTS):
        found = [name for name, kind in rest.items() if kind in wanted]
        if len(found) == 1:
            return found[0]
    raise DataError(
        f"{where}: expected one column of images, arrays or texts beside {label}; it has "
        f"{', '.join(rest) or 'none'}. Keep the one to train on: select_columns([..., "
        f'"{label}"]).'
    )


def _kind(feature: Any) -> str:
    """What a column holds: the type that a plain value has, or else the name of its feature."""
    name = type(feature).__name__
    return str(feature.dtype) if name == "Value" else name


def _from_torch(data: Any) -> Found:
    where = type(data).__name__
    if isinstance(data, torch.utils.data.IterableDataset) or not hasattr(data, "__len__"):
        raise DataError(
            f"{where}: expected a map-style torch Dataset, with a length and items by number; got "
            "one that can only be iterated. Collect its samples into tensors: (x, y)."
        )
    items = [data[number] for number in range(len(data))]
    if not items or not all(isinstance(item, tuple | list) and len(item) == 2 for item in items):
        raise DataError(
            f"{where}: expected items (input, label); got "
            f"{type(items[0]).__name__ if items else 'no item'}. Return such pairs from "
            "__getitem__."
        )
    values = [item[0] for item in items]
    is_text = isinstance(values[0], str)
    x = _texts(values, where) if is_text else _numbers(values, f"{where}, inputs")
    y = checks.labels([_plain(item[1]) for item in items], f"{where}, labels")
    names = list(getattr(data, "classes", None) or [])
    named = names and all(isinstance(name, str) for name in names)
    return Samples(x, y, []), checks.class_list(names, where) if named else None, where


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, torch.Tensor) and label.ndim == 0 else label


def _texts(values: Sequence[Any], where: str) -> Texts:
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(
                f"{where}: expected a text in every sample; sample {number} holds "
                f"{type(value).__name__}. Fill it, or leave it out."
            )
    return Texts.of(values)


def _numbers(values: Sequence[Any], where: str) -> Tensor:
    """All inputs in one tensor; pictures of Pillow become bytes."""
    arrays = [_array(value, where) for value in values]
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        raise DataError(
            f"{where}: expected inputs of one shape; got {checks.times(shapes[0])} and "
            f"{checks.times(shapes[1])}, among others. Scale or crop them to one size first."
        )
    if not arrays:
        raise DataError(f"{where}: expected at least one sample; got none. Add samples.")
    return checks.inputs(np.stack(arrays), where)


def _array(value: Any, where: str) -> Array:
    mode = getattr(value, "mode", None)
    if isinstance(mode, str) and hasattr(value, "convert"):
        return np.asarray(value if mode in _PLAIN_MODES else value.convert("RGB"))
    return checks.to_array(value, where)
