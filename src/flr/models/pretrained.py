"""What the first round starts from: fresh weights, or those of a file that fits by name and shape.

A file is a model.safetensors of a run, any other safetensors file, or a .pth / .pt file of tensors.
Nothing in it is executed.
"""

from __future__ import annotations

import functools
import logging
import pickle
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from flr.config.errors import cut
from flr.core import arrays
from flr.core.arrays import Arrays
from flr.core.contract import MODEL
from flr.core.errors import DataError
from flr.data.paths import require_file
from flr.models import networks as models

if TYPE_CHECKING:
    from flr.config import Train

_COUNTER = "num_batches_tracked"  # files older than PyTorch 0.4.1 do not have it
_SHOWN = 3  # names in a message

log = logging.getLogger("flr")


def first_networks(
    train: Train,
    factory: Callable[..., nn.Module],  # of (input_shape, classes)
    input_shape: Sequence[int],
    classes: int,
    networks: int,
    seed: int,
) -> nn.ModuleList:
    """Networks as `models.build` makes them, then filled as `[train]` says."""
    if train.model.brings_weights:
        factory = functools.partial(factory, pretrained=True)
    made = models.build(factory, input_shape, classes, networks, seed)
    if train.init is not None:
        saved = read(train.init)
        whole = [fill(net, saved[i % len(saved)], train.init) for i, net in enumerate(made)]
        if all(whole) and len(made) > len(saved):
            log.warning(
                "the %s networks start equal: %s has one for all, with a head of %s classes too",
                len(made),
                train.init,
                classes,
            )
    return made


def read(path: Path, what: str = "a file with initial weights ([train] init)") -> list[Arrays]:
    """The weights in a file, by the names of the network's state; a run may have saved several."""
    require_file(path, what)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    try:
        raw = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))  # the rest advises to trust the file
        raise DataError(
            f"Expected a file of tensors saved by PyTorch at {path}; it holds something else"
            f"{f' ({found[1]})' if found else ''}, and nothing of it was run. Write the weights "
            "alone, with torch.save(model.state_dict(), path), or take another file."
        ) from error
    except Exception as error:  # broken bytes may raise anything
        reason = cut(f"{type(error).__name__}: {error}", 160)
        raise DataError(
            f"Expected a file of tensors saved by PyTorch at {path}; it cannot be read ({reason}). "
            "It may be truncated or of another kind; take another copy."
        ) from error
    return [_without_wrapping(path, raw)]


def _read_safetensors(path: Path) -> list[Arrays]:
    try:
        named, meta = arrays.load(path)
    except DataError as error:
        raise DataError(
            f"Expected a safetensors file with weights at {path}; it cannot be read "
            f"({error.__cause__}). It may be truncated or of another kind; take another copy."
        ) from error
    if meta.get("kind") != "model":
        return [_without_wrapping(path, named)]
    networks: dict[str, Arrays] = {}
    for name, value in named.items():
        if found := re.fullmatch(rf"{re.escape(MODEL)}(\d+)\.(.+)", name):
            networks.setdefault(found[1], {})[found[2]] = value
    return list(networks.values()) or [{}]  # what is missing then is said where it is needed


def _without_wrapping(path: Path, raw: Any) -> Arrays:
    """Takes the weights out of a training checkpoint, and off what DataParallel puts before."""
    for key in ("state_dict", "model"):
        if isinstance(raw, Mapping) and isinstance(raw.get(key), Mapping):
            raw = raw[key]
    if not isinstance(raw, Mapping) or not raw:
        what = "an empty table" if isinstance(raw, Mapping) else f"a {type(raw).__name__}"
        raise DataError(
            f"{path}: expected a table of named tensors; it holds {what}. Write the file "
            "with torch.save(model.state_dict(), path)."
        )
    for name, value in raw.items():
        if not isinstance(name, str) or not _is_plain(value):
            raise DataError(
                f"{path}: expected names with plain tensors; {cut(repr(name), 80)} is none. "
                "Write the file with torch.save(model.state_dict(), path)."
            )
    parallel = all(name.startswith("module.") for name in raw)
    return {name.removeprefix("module.") if parallel else name: raw[name] for name in raw}


def _is_plain(value: object) -> bool:
    return (
        isinstance(value, Tensor)
        and value.layout is torch.strided
        and value.device.type == "cpu"
        and not value.is_quantized
    )


def fill(network: nn.Module, weights: Arrays, path: Path) -> bool:
    """Loads weights; a head for other classes stays fresh. Says whether the head was loaded too."""
    fresh = _fresh_head(network, weights)
    _load(network, weights, path, "[train] model", fresh)
    return not fresh


def fill_all(network: nn.Module, weights: Arrays, path: Path, of: str) -> None:
    """Loads weights into a network without a head; `of` is what a message calls the network."""
    _load(network, weights, path, of, fresh=set())


def _load(network: nn.Module, weights: Arrays, path: Path, of: str, fresh: set[str]) -> None:
    own = network.state_dict()
    kept = {name for name in own if name.endswith(_COUNTER) and name not in weights} | fresh
    _check(own.keys() - kept, own, weights, path, of)
    network.load_state_dict({name: own[name] if name in kept else weights[name] for name in own})


def _fresh_head(network: nn.Module, weights: Arrays) -> set[str]:
    """The names of a head that the file does not have, or has for another number of classes."""
    head = models.head_of(network)
    if head is None:
        return set()
    names = {key: f"{head[0]}.{key}".lstrip(".") for key in head[1].state_dict()}
    if not weights.keys() & set(names.values()):
        return set(names.values())
    saved = weights.get(names["weight"])
    if saved is None or saved.ndim != 2 or saved.shape[1] != head[1].in_features:
        return set()
    return set(names.values()) if saved.shape[0] != head[1].out_features else set()


def _check(names: set[str], own: Arrays, weights: Arrays, path: Path, of: str) -> None:
    """Each of these must be there in its own shape, finite; the file has no others than `own`."""
    missing = [name for name in own if name in names and name not in weights]
    unexpected = [name for name in weights if name not in own]
    shapes = [
        f"{name}: {_size(weights[name])} instead of {_size(own[name])}"
        for name in own
        if name in names and name in weights and weights[name].shape != own[name].shape
    ]
    wrong = {"missing": missing, "unexpected": unexpected, "of another shape": shapes}
    if any(wrong.values()):
        found = ", ".join(f"{len(of)} {what} ({_some(of)})" for what, of in wrong.items() if of)
        raise DataError(
            f"{path}: expected the {len(own)} weights of {of}; it holds {len(weights)}: "
            f"{found}. Choose the model and options that it was saved from, or another file."
        )
    for name in sorted(names):
        if not weights[name].isfinite().all():
            raise DataError(
                f"{path}: expected finite weights; {name} has infinite ones or NaN. Use a file "
                "from before the training diverged."
            )


def _some(names: Sequence[str]) -> str:
    shown = [cut(name, 80) for name in names[:_SHOWN]]
    return ", ".join([*shown, "..."] if len(names) > _SHOWN else shown)


def _size(value: Tensor) -> str:
    return " x ".join(str(length) for length in value.shape) or "a number"
