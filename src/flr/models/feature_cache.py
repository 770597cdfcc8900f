"""Features that were computed once, kept in the user's cache folder for every later run.

A file holds the features of a few hundred samples, and is found by the content of these samples
and by all that decides on the result. So an embedding that was stopped goes on where it was, and
several runs, sites and data sets share what they have in common.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import torch
from torch import Tensor

from flr.core import arrays
from flr.core.arrays import canonical_json
from flr.core.errors import DataError

VARIABLE = "FLR_CACHE"

_FORMAT = 1
_VALUES = "features"

log = logging.getLogger("flr")


def folder() -> Path:
    """$FLR_CACHE, else the user's cache folder; read now and not at import."""
    own = os.environ.get(VARIABLE, "").strip()
    return Path(own).expanduser() if own else Path(platformdirs.user_cache_dir("flr"))


class FeatureCache:
    """The features of one backbone with one setting."""

    def __init__(self, setting: Mapping[str, Any], full: threading.Lock | None = None) -> None:
        """`setting` is all that decides on features besides the samples, as JSON would hold it.

        `full` is taken, for good, by the first who cannot write; caches that share it speak once.
        """
        machine = f"{torch.__version__} {torch.backends.cpu.get_cpu_capability()}"
        known = canonical_json({"format": _FORMAT, "machine": machine, **setting})
        self.folder = folder() / "features" / hashlib.sha256(known.encode()).hexdigest()[:32]
        self.full = full or threading.Lock()

    def read(self, samples: str) -> Tensor | None:
        """The features of the samples with this hash; None where they are missing or damaged."""
        path = self.folder / f"{samples}.safetensors"
        if not os.path.exists(path):  # noqa: PTH110  # False, not an error, where nobody may look
            return None
        try:
            held, meta = arrays.load(path)
            whole = meta.get("digest") == _digest(held[_VALUES])
            if whole and meta.get("samples", samples) == samples:  # not a copy under another name
                return held[_VALUES]
        except (DataError, KeyError):
            pass
        log.warning("%s is damaged; its features are computed again", path)
        return None

    def write(self, samples: str, values: Tensor) -> None:
        """A cache that cannot be written is said once and done without: the run loses nothing."""
        if self.full.locked():
            return
        try:
            meta = {"kind": "features", "samples": samples, "digest": _digest(values)}
            arrays.save(self.folder / f"{samples}.safetensors", {_VALUES: values}, meta)
        except OSError as error:
            if not self.full.acquire(blocking=False):  # another thread has said it
                return
            log.warning(
                "features cannot be kept in %s (%s): this run goes on with them in memory, the "
                "next one computes the rest again. Make room there, or set %s to another folder",
                self.folder,
                error,
                VARIABLE,
            )


def _digest(values: Tensor) -> str:
    head = f"{values.dtype}{tuple(values.shape)}".encode()
    return hashlib.sha256(head + values.contiguous().numpy().tobytes()).hexdigest()
