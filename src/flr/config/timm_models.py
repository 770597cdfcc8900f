"""Networks of the package timm, by its own names; imported only when a config names one.

Such a name chooses from a list and runs no code of a model file, so that `flr predict` needs no
trust in it. What would make timm read other files or addresses is refused.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from flr.config.errors import cut, show
from flr.core.errors import ConfigError
from flr.core.registry import nearest

PREFIX = "timm:"
_MODEL = "[train] model"  # the setting that a message names

_REFUSED = {
    "num_classes": "comes from the data. Remove it.",
    "in_chans": "comes from the data. Remove it.",
    **dict.fromkeys(
        ("checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"),
        "would read weights from elsewhere. Give a file with [train] init.",
    ),
}


def package(name: str, key: str = _MODEL) -> Any:
    """The module, or what to install for a model of that name."""
    try:
        return importlib.import_module("timm")
    except Exception as error:  # noqa: BLE001 - a torchvision that does not fit fails in many ways
        missing = isinstance(error, ModuleNotFoundError) and error.name == "timm"
        found = "it is not installed" if missing else f"it cannot be imported ({short(error)})"
        raise ConfigError(
            f"{key} = {show(name)} needs the package timm; {found}. Install torchvision as "
            "https://pytorch.org/get-started/locally says for your PyTorch, then run: "
            'pip install "flr[timm]"'
        ) from None


def check(name: str, options: Mapping[str, Any], key: str = _MODEL) -> None:
    """Refuses names that timm does not have, and options that are not the user's to choose."""
    architecture = name.removeprefix(PREFIX)
    head = f"{key} = {show(name)}"
    if not re.fullmatch(r"\w[\w.-]*", architecture, re.ASCII):
        raise ConfigError(
            f'{head} should be "timm:" and a name from timm.list_models(); hubs and folders are '
            "not read. Use such a name, with a file for weights of your own."
        )
    for option in options.keys() & _REFUSED.keys():
        raise ConfigError(f"{head}: option {option} {_REFUSED[option]}")
    if not isinstance(options.get("pretrained", False), bool):
        raise ConfigError(
            f"{head}: option pretrained should be true or false; it is "
            f"{show(options['pretrained'])}. Change it."
        )
    timm = package(name, key)
    if not timm.is_model(architecture):
        near = nearest(architecture.partition(".")[0], timm.list_models())
        raise ConfigError(
            f"{head} is not known to timm {getattr(timm, '__version__', '')}.{near} "
            "Take a name from timm.list_models()."
        )


def build(
    architecture: str,
    input_shape: Sequence[int],
    classes: int,
    /,
    pretrained: bool = False,
    **options: Any,
) -> Any:
    """The network for these inputs and classes; `pretrained` ones may be downloaded."""
    name = PREFIX + architecture
    if len(input_shape) != 3:
        raise ConfigError(
            f"[train] model = {show(name)} needs images (channels x height x width); the data set "
            f'has inputs of shape {tuple(input_shape)}. Use model = "mlp".'
        )
    sizes = {"num_classes": classes, "in_chans": int(input_shape[0])}
    try:
        return package(name).create_model(architecture, pretrained=pretrained, **sizes, **options)
    except ConfigError:
        raise
    except Exception as error:  # constructors and downloads fail in many ways
        weights = " or get the weights into timm's cache first" if pretrained else ""
        raise ConfigError(
            f"[train] model = {show(name)} should be built for {input_shape[0]} channels and "
            f"{classes} classes; timm cannot ({short(error)}). Change its options{weights}."
        ) from error


def short(error: Exception) -> str:
    """What somebody else's code raised, in a line."""
    return cut(f"{type(error).__name__}: {error}", 160)
