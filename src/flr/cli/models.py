"""`flr predict` and `flr evaluate`: a trained model on new data, with nothing else at hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from torch import Tensor

from flr.cli.terminal import put, say
from flr.config.own_runs import own_code
from flr.core import registry
from flr.core.arrays import write_atomically
from flr.core.errors import DataError
from flr.core.plain_text import plain, to_cell
from flr.data import checks
from flr.data.on_disk import Inputs
from flr.data.sources.files import read_samples
from flr.models import model_file
from flr.models.model_file import SavedModel
from flr.report.recorder import per_class_accuracy

ModelFile = Annotated[
    Path, typer.Argument(help="model.safetensors, or a run folder.", metavar="MODEL")
]
Data = Annotated[
    str, typer.Argument(help="npz, CSV, image folder, or the name of a data set.", metavar="DATA")
]
Trust = Annotated[bool, typer.Option("--trust", help="Import the code that the model file names.")]
Label = Annotated[str, typer.Option(help="The label column of a CSV file.")]


def predict(
    model: ModelFile,
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="Write CSV here instead of to the terminal.")
    ] = None,
    label: Label = "label",
    trust: Trust = False,
) -> None:
    """Classify DATA with MODEL: one CSV row for each sample, with class and probability."""
    loaded = open_model(model, trust)
    x, _, names = open_data(data, loaded, label)
    best = loaded.probabilities(x).max(1)
    found = zip(names, best.indices.tolist(), best.values.tolist(), strict=True)
    rows = ((to_cell(name), to_cell(loaded.classes[k]), f"{p:.4f}") for name, k, p in found)
    text = io.StringIO()
    csv.writer(text).writerows([("sample", "predicted", "probability"), *rows])
    if out is None:
        put(text.getvalue().replace("\r\n", "\n"))
    else:
        write_atomically(out, text.getvalue())
        say(f"{len(names)} predictions in {out}")


def evaluate(
    model: ModelFile,
    data: Data,
    label: Label = "label",
    trust: Trust = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Accuracy of MODEL on the labels of DATA, overall and for each class."""
    loaded = open_model(model, trust)
    x, y, _ = open_data(data, loaded, label)
    if y is None:
        raise DataError(
            f"Evaluating needs labels; {data} has none. Add them, or use `flr predict`."
        )
    predicted = loaded.probabilities(x).argmax(1)
    accuracy = float((predicted == y).double().mean())
    shares = per_class_accuracy(predicted, y, len(loaded.classes))
    each = dict(zip(loaded.classes, shares, strict=True))
    if as_json:
        found = {"accuracy": accuracy, "samples": len(y), "per_class": each}
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(f"accuracy {100 * accuracy:.2f} % of {len(y)} samples")
    for name, value in each.items():
        typer.echo(
            f"  {plain(name)}: " + ("no samples" if value is None else f"{100 * value:.1f} %")
        )


def open_model(path: Path, trust: bool) -> SavedModel:
    """With the code that this user's own run has used, where it lies in its run folder."""
    folder = path if path.is_dir() else path.parent
    return model_file.load(path, trust=trust or own_code(folder))


def open_data(data: str, model: SavedModel, label: str) -> tuple[Inputs, Tensor | None, list[str]]:
    """Inputs, labels if there are any, and a name for each sample."""
    path = Path(data)
    if not path.exists() and data in registry.entries("dataset"):
        try:
            dataset = registry.get("dataset", data).factory().load()
        except TypeError:
            raise DataError(
                f'"{data}" is a kind of file: give the path to the data instead of the name.'
            ) from None
        named = np.array(dataset.classes)[dataset.test.y.numpy()]
        labels = checks.encode(named, model.classes, data)
        return dataset.test.x, labels, [str(i) for i in range(len(labels))]
    x, y, _, names = read_samples(path, model.classes, label, **model.reading)
    return x, y, names
