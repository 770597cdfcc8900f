"""The model file: weights, and everything needed to use them without the run they come from."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from flr.config import timm_models
from flr.config.entry import imported, is_import, parse_entry
from flr.config.errors import cut
from flr.config.who_named_it import named_by_others
from flr.core import arrays, seal
from flr.core.arrays import Arrays
from flr.core.combine import stack
from flr.core.contract import Method
from flr.core.errors import ConfigError, DataError, FlrError
from flr.data.dataset import Normalization
from flr.data.on_disk import Inputs, Numbers, as_numbers
from flr.models import finetune
from flr.models import networks as models
from flr.models.embedding import Embedder
from flr.models.inference import in_batches
from flr.models.networks import load_weights

FORMAT = 1
NAME = "model.safetensors"
# what networks and methods raise that were built after a description that is wrong
_UNFIT = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError),
    FlrError,
)


@dataclass(frozen=True)
class SavedModel:
    """A trained classifier that takes inputs in the publisher's units.

    Args:
        method: How its networks predict together.
        networks: One, or several that were trained side by side.
        classes: The names of the classes, in the order of the probabilities.
        input_shape: What it takes, without the samples' axis.
        normalize: Turns the publisher's units into the network's.
        embedder: Makes features of raw inputs, where it was trained on those of a backbone.

    Example:
        >>> model = flr.Run(Path("runs/flr-1")).model()
        >>> model.classes[model.probabilities(x)[0].argmax()]
    """

    method: Method
    networks: nn.ModuleList
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    normalize: Normalization
    embedder: Embedder | None = None

    @property
    def reading(self) -> dict[str, Any]:
        """How `read_samples` should read what the model is asked about."""
        return self.embedder.reading if self.embedder else {}

    def features(self, x: Inputs) -> Numbers:
        """What the networks take: features of raw inputs, or the inputs themselves."""
        if self.embedder is None or tuple(x.shape[1:]) == self.input_shape:
            return as_numbers(x)
        try:
            return self.embedder(x)
        except ConfigError as error:
            raise DataError(
                f"The model expects {self.embedder.backbone.takes} for its backbone, or features "
                f"of shape {self.input_shape}; these inputs are others ({error}). Use data of the "
                "kind the model was trained on."
            ) from error

    def probabilities(self, x: Inputs) -> Tensor:
        """Class probabilities, n x classes."""
        x = self.features(x)
        if tuple(x.shape[1:]) != self.input_shape:
            raise DataError(
                f"The model expects inputs of shape {self.input_shape}; "
                f"these have {tuple(x.shape[1:])}. "
                "Use data of the kind the model was trained on."
            )

        def forward(part: Tensor) -> Tensor:
            return self.method.predict(self.networks, self.normalize(part)).softmax(1)

        return in_batches(self.networks, forward, x)


def save(path: Path, weights: Arrays, meta: dict[str, Any]) -> None:
    """Writes the model file; `meta` is what `load` needs to rebuild it."""
    arrays.save(path, weights, {"kind": "model", "format": FORMAT, **meta})


def load(path: Path, *, trust: bool | Collection[str] = False) -> SavedModel:
    """Reads a model file, or that of a run folder.

    Args:
        path: `model.safetensors`, or a run folder.
        trust: Whether code that the file names as "module:function" may be imported, or which.

    Raises:
        DataError: It is no model file, does not fit what it describes, or wants to be trusted.

    Example:
        >>> load(Path("runs/flr-1/model.safetensors")).classes
    """
    path = path / NAME if path.is_dir() else path
    seal.check(path, "take another copy of it, or go on from the checkpoint: flr resume")
    weights, meta = arrays.load(path)
    if meta.get("kind") != "model" or meta.get("format") != FORMAT:
        raise DataError(
            f"Expected a model written by flr (format {FORMAT}); {path} holds a "
            f"{meta.get('kind', 'file of another kind')}, format {meta.get('format')}. "
            "Use the model.safetensors of a run folder."
        )
    model = meta.get("model")
    model = {"name": model} if isinstance(model, str) else model
    if isinstance(model, dict):
        if isinstance(model.get("backbone"), dict):
            own = _own_weights(path.parent / "config.toml", "train", "model", "backbone")
            model = {**model, "backbone": {**model["backbone"], **own}}
        _check_here(path, model, trust)
    backbone = _read_backbone(path, meta.get("backbone"), trust)
    try:
        method = stack([parse_entry("method", m, default="").build() for m in meta["method"]])
        shape, classes = tuple(meta["input_shape"]), tuple(meta["classes"])
        _check_kinds(shape, classes)
        normalize = Normalization(tuple(meta["mean"]), tuple(meta["std"]))
        entry = parse_entry("model", model, default="")
        factory = finetune.factory_of(entry, normalize, meta.get("trainable", "all"))
        networks = models.build(factory, shape, len(classes), method.traits.networks, seed=0)
        load_weights(networks, weights)
        _check_numbers(weights, normalize, shape)
    except _UNFIT as error:
        raise DataError(
            f"The weights in {path} do not fit the model it describes ({error}). Take another "
            f"copy of the file."
        ) from error
    return SavedModel(method, networks.eval(), classes, shape, normalize, backbone)


def _check_kinds(shape: tuple[Any, ...], classes: tuple[Any, ...]) -> None:
    """Raises ValueError for a shape without sizes, and for classes without names."""
    if not shape or not all(isinstance(size, int) and 0 < size < 2**31 for size in shape):
        raise ValueError("the shape of the inputs is no list of sizes")
    if not classes or not all(isinstance(name, str) for name in classes):
        raise ValueError("the classes are no list of names")


def _check_numbers(weights: Arrays, normalize: Normalization, shape: tuple[int, ...]) -> None:
    """Raises ValueError for what would make every prediction the same, or none at all."""
    for name, weight in weights.items():
        if not torch.isfinite(weight).all():
            raise ValueError(f"{name} has values that are no finite numbers")
    if not (normalize.mean or normalize.std):
        return  # numbers of tokens
    if not all(map(math.isfinite, (*normalize.mean, *normalize.std))) or min(normalize.std) <= 0:
        raise ValueError("mean and std of the inputs are not finite, or std is not above 0")
    if {len(normalize.mean), len(normalize.std)} - {1, shape[0]}:
        raise ValueError("mean and std are not as many as the inputs have channels or features")


def _check_here(path: Path, model: dict[str, Any], trust: bool | Collection[str]) -> None:
    """Refuses what is missing on this machine or not trusted: the file is not to blame for it."""
    name, frozen = str(model.get("name")), model.get("backbone")
    if name == "backbone" and isinstance(frozen, str | dict):
        _check_code(path, "backbone", frozen, trust)
        finetune.FrozenBackbone.of(frozen, str(model.get("fingerprint", "")))
    elif name.startswith(timm_models.PREFIX):
        timm_models.package(name)
    else:
        _check_code(path, "model", name, trust)


def _read_backbone(path: Path, saved: Any, trust: bool | Collection[str]) -> Embedder | None:
    """The backbone whose features the model takes; with other weights these would be others."""
    if saved is None:
        return None
    if not isinstance(saved, dict) or not isinstance(saved.get("fingerprint"), str):
        raise DataError(
            f"{path}: expected a backbone with its fingerprint; got {cut(str(saved), 80)}. Take "
            "another copy of the file."
        )
    _check_code(path, "backbone", saved, trust)
    table = {key: value for key, value in saved.items() if key != "fingerprint"}
    try:
        table |= _own_weights(path.parent / "config.toml", "data", "backbone")
        embedder = Embedder(parse_entry("backbone", table, default=""))
    except (FlrError, ValueError) as error:
        raise DataError(
            f"{path}: expected a backbone that this flr knows; got {cut(str(table), 60)} "
            f"({error}). Update flr, or install the package that brings it."
        ) from error
    with nullcontext() if trust is True else named_by_others():
        found = embedder.backbone.fingerprint()
    if found != saved["fingerprint"]:
        raise DataError(
            f"{path}: expected the backbone {saved['name']} with the weights that the model was "
            f"trained on (fingerprint {saved['fingerprint'][:12]}); those here have "
            f"{found[:12]}. Install the version of its package that the training had; if it had a "
            "file of weights, give the run folder, whose config.toml says where that is."
        )
    return embedder


def _own_weights(config: Path, *keys: str) -> dict[str, str]:
    """The backbone's file of weights, which a run folder names; a model file holds no paths."""
    try:
        found: Any = tomllib.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # a model file alone, or beside something else
    for key in (*keys, "weights"):
        found = found.get(key) if isinstance(found, dict) else None
    return {} if found is None else {"weights": str(found)}


def _check_code(
    path: Path, kind: str, entry: str | dict[str, Any], trust: bool | Collection[str]
) -> None:
    """Code that a file names as "module:function" is imported only where it is trusted."""
    name = str(entry.get("name") if isinstance(entry, dict) else entry)
    if not is_import(kind, name):
        return
    if trust is not True and (trust is False or name not in trust):
        raise DataError(
            f'{path} needs the code "{name}", which loading would import and run. '
            "If you trust it, say --trust (in Python: trust=True)."
        )
    imported(name, kind)
