"""`flr embed`: features of images or texts as a file, for everybody who wants them."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from flr import config as configs
from flr.cli.terminal import say
from flr.config.entry import ConfigEntry
from flr.core import registry
from flr.core.arrays import write_atomically
from flr.core.errors import ConfigError, DataError
from flr.data.readers import images, tables
from flr.data.sources.files import read_samples
from flr.models.embedding import Embedder


def embed(
    data: Annotated[
        str, typer.Argument(help="Images, texts, npz, or the name of a data set.", metavar="DATA")
    ],
    backbone: Annotated[str, typer.Option(help="`flr list backbones` names them.")],
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="KEY=VALUE of the backbone; may be repeated."),
    ] = None,
    label: Annotated[str, typer.Option(help="The label column of a CSV file.")] = "label",
    workers: Annotated[int, typer.Option(min=1, help="How many threads compute.")] = 2,
) -> None:
    """Compute the features of DATA once, and write them as an npz file that `flr run` reads."""
    if out.suffix != ".npz":
        raise ConfigError(f'Expected an .npz file to write; got "{out}". Add the suffix .npz.')
    tree = {"rounds": 1, "data": {"backbone": {"name": backbone}}}  # to be checked as any config
    options = [f"data.backbone.{text}" for text in option or []]
    chosen = configs.parse(tree, "--backbone", overrides=options).data.backbone
    embedder = Embedder(cast(ConfigEntry, chosen), workers)
    path = Path(data)
    if not path.exists() and data in registry.entries("dataset"):
        found = _of_dataset(data, embedder)
    else:
        found = _of_files(path, embedder, label)
    file = io.BytesIO()
    np.savez(file, **found)
    write_atomically(out, file.getvalue())
    shapes = ", ".join(f"{name} {' x '.join(map(str, a.shape))}" for name, a in found.items())
    say(f"{out}: {shapes}")


def _of_dataset(name: str, embedder: Embedder) -> dict[str, Any]:
    try:
        source = registry.get("dataset", name).factory()
    except TypeError:
        raise DataError(
            f'"{name}" is a kind of file: give the path to the data instead of the name.'
        ) from None
    dataset = embedder.dataset(source.load())
    found = {"classes": np.array(dataset.classes)}
    for part, held in (("train", dataset.train), ("test", dataset.test)):
        found |= {f"x_{part}": held.inputs[:].half().numpy(), f"y_{part}": held.y.numpy()}
    return found


def _of_files(path: Path, embedder: Embedder, label: str) -> dict[str, Any]:
    """Both parts of a folder or file that has some, else all; with labels where there are any."""
    two = images.parts(path) is not None if path.is_dir() else _has_parts(path)
    found: dict[str, Any] = {}
    for part, training in (("_train", True), ("_test", False)) if two else (("", True),):
        x, y, known, names = read_samples(path, None, label, training=training, **embedder.reading)
        found[f"x{part}"] = embedder(x, what=os.fspath(path))[:].half().numpy()
        if y is not None:
            labels = y.numpy()
            found[f"y{part}"] = labels if known is None else np.array(known)[labels]
        found[f"names{part}"] = np.array(names)
    return found


def _has_parts(path: Path) -> bool:
    return path.suffix.lower() == ".npz" and {"x_train", "x_test"} <= tables.read_npz(path).keys()
