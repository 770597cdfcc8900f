"""The model file: weights, and everything needed to use them without the run they come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flr import arrays
from flr.arrays import Arrays
from flr.client import models
from flr.client.desk import PREDICT_BATCH
from flr.client.fit import load_weights
from flr.config import from_timm
from flr.config.choice import choose, imported
from flr.contract import Method
from flr.data.dataset import Normalisation
from flr.data.lazy import Inputs
from flr.errors import DataError, FlrError
from flr.stack import stack

FORMAT = 1


@dataclass(frozen=True)
class SavedModel:
    """A trained classifier that takes inputs in the publisher's units."""

    method: Method
    networks: nn.ModuleList
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    normalise: Normalisation

    @torch.no_grad()
    def probabilities(self, x: Inputs) -> Tensor:
        """Class probabilities, n x classes."""
        if tuple(x.shape[1:]) != self.input_shape:
            raise DataError(
                f"The model expects inputs of shape {self.input_shape}; "
                f"these have {tuple(x.shape[1:])}. "
                "Use data of the kind the model was trained on."
            )
        self.networks.eval()
        parts = (self.normalise(part) for part in x.split(PREDICT_BATCH))
        return torch.cat([self.method.predict(self.networks, part).softmax(1) for part in parts])


def save(path: Path, weights: Arrays, meta: dict[str, Any]) -> None:
    """Writes the model file; `meta` is what `load` needs to rebuild it."""
    arrays.save(path, weights, {"kind": "model", "format": FORMAT, **meta})


def load(path: Path, *, trust: bool = False) -> SavedModel:
    """Reads a model file; code that it names as "module:function" is imported only on trust."""
    weights, meta = arrays.load(path)
    if meta.get("kind") != "model" or meta.get("format") != FORMAT:
        raise DataError(
            f"Expected a model written by flr (format {FORMAT}); {path} holds a "
            f"{meta.get('kind', 'file of another kind')}, format {meta.get('format')}. "
            "Use the model.safetensors of a run folder."
        )
    model = meta.get("model")
    name = str(model.get("name")) if isinstance(model, dict) else ""
    if name.startswith(from_timm.PREFIX):
        from_timm.package(name)  # where it is missing, the file is not to blame
    elif ":" in name and not trust:
        raise DataError(
            f'{path} needs the code "{name}", which loading would import and run. '
            "If you trust it, say --trust (in Python: trust=True)."
        )
    elif ":" in name:
        imported(name)  # nor where its module is not found
    try:
        method = stack([choose("method", m, default="").build() for m in meta["method"]])
        shape, classes = tuple(meta["input_shape"]), tuple(meta["classes"])
        factory = choose("model", model, default="").build()
        networks = models.build(factory, shape, len(classes), method.models, seed=0)
        load_weights(networks, weights)
        normalise = Normalisation(tuple(meta["mean"]), tuple(meta["std"]))
    except (KeyError, TypeError, ValueError, RuntimeError, FlrError) as error:
        raise DataError(
            f"The weights in {path} do not fit the model it describes ({error}). Take another "
            f"copy of the file."
        ) from error
    return SavedModel(method, networks, classes, shape, normalise)
