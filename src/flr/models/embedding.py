"""Features once: what a backbone makes of all samples of a data set, each computed a single time.

Samples are embedded in pieces; a piece is what the cache keeps. Within a piece they pass the
network in batches of one fixed size, each on one thread, so that neither the number of workers nor
an interruption changes a bit.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from flr.config.entry import ConfigEntry
from flr.core.errors import ConfigError, DataError
from flr.data.batches import augment
from flr.data.build import normalization_of
from flr.data.dataset import Dataset
from flr.data.features import Features
from flr.data.on_disk import Inputs, Pictures
from flr.models.backbones.common import Backbone, Encoder
from flr.models.feature_cache import FeatureCache

PIECE = 256  # samples in one file of the cache
BATCH = 32  # in one forward pass; fixed, because another size changes the last bits
_PARTS = ("takes", "side", "fingerprint", "load")  # of a backbone, also of a user's own
_AHEAD = 2  # pieces of each worker that wait in memory
_SPEAK = 10.0  # seconds between two lines about progress

log = logging.getLogger("flr")

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Embedder:
    """A backbone with its name and options, as a config gives it; loads it when it must compute.

    Args:
        entry: The backbone as the config names it.
        workers: How many threads compute.
        device: Where the network computes.
    """

    entry: ConfigEntry
    workers: int = 1
    device: str = "cpu"
    _full: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def backbone(self) -> Backbone:
        """What the config names; nothing is read yet."""
        made: Backbone = self.entry.build()
        if missing := [part for part in _PARTS if not hasattr(made, part)]:
            raise ConfigError(
                f'[data] backbone = "{self.entry.name}" should give an object with '
                f"{', '.join(_PARTS)}; what it gives has no {', '.join(missing)}. See Backbone in "
                "flr.models.backbones.common."
            )
        return made

    @property
    def reading(self) -> dict[str, Any]:
        """How `read_samples` should read; a backbone of texts refuses pictures undecoded."""
        return {"side": self.backbone.side or 1, "texts": self.backbone.takes == "texts"}

    def identity(self) -> dict[str, object]:
        """Names the features that come out: backbone, options, and a hash of its files."""
        table = {k: v for k, v in self.entry.table("name").items() if k != "weights"}
        return {**table, "fingerprint": self.backbone.fingerprint()}

    def dataset(self, dataset: Dataset, views: int = 1) -> Dataset:
        """The data set with features in place of inputs; those for training in so many views."""
        train = self(dataset.train.x, views, f"{dataset.name}, training set")
        test = self(dataset.test.x, 1, f"{dataset.name}, test set")
        return replace(
            dataset,
            train=replace(dataset.train, x=train),
            test=replace(dataset.test, x=test),
            normalize=normalization_of(train),
            augment="none",
            origin=dataset.fingerprint,
        )

    def __call__(
        self,
        x: Inputs,
        views: int = 1,
        what: str = "samples",
        on_done: Callable[[int], None] | None = None,
    ) -> Features:
        """Features of all samples, from the cache or computed now.

        `on_done` hears how many are ready; without it, lines in the log tell of progress.
        """
        backbone = self.backbone
        _check(x, backbone, views, self.entry.name)
        setting = {**self.identity(), "views": views, "device": self.device}
        cache = FeatureCache(setting, self._full)
        network = _Once(backbone, self.device)
        found: Tensor | None = None
        tell = on_done or _Progress(len(x), what).done
        pieces = [slice(at, min(at + PIECE, len(x))) for at in range(0, len(x), PIECE)]

        def embed(rows: slice) -> tuple[slice, Tensor]:
            return rows, _piece(x, rows, views, cache, network)

        for rows, values in _in_threads(embed, pieces, self.workers):
            if found is None:
                found = torch.empty((len(x), *values.shape[1:]), dtype=torch.float16)
            found[rows] = values
            tell(rows.stop)
        return Features(torch.empty(0, views, 0, dtype=torch.float16) if found is None else found)


class _Once:
    """The network, loaded when a piece is first missing from the cache."""

    def __init__(self, backbone: Backbone, device: str) -> None:
        self.backbone, self.device = backbone, device
        self.lock = threading.Lock()
        self.encoder: Encoder | None = None

    def __call__(self) -> Encoder:
        with self.lock:
            if self.encoder is None:
                made = self.backbone.load()
                self.encoder = made.to(self.device) if isinstance(made, nn.Module) else made
        return self.encoder


def _piece(
    x: Inputs, rows: slice, views: int, cache: FeatureCache, network: Callable[[], Encoder]
) -> Tensor:
    """n x views x features, float16; the first view is the sample as it is."""
    digests = x.digests(rows) if isinstance(x, Pictures) else list(map(_digest, x[rows]))
    name = hashlib.sha256(b"".join(digests)).hexdigest()
    kept = cache.read(name)
    if kept is not None and kept.shape[:2] == (len(digests), views):
        return kept
    samples = x[rows]
    shown = [_encode(network(), samples)]
    shown += [_encode(network(), _glimpses(samples, digests, v)) for v in range(1, views)]
    values = torch.stack(shown, 1)
    cache.write(name, values)
    return values


@torch.no_grad()
def _encode(network: Encoder, samples: Tensor | list[str]) -> Tensor:
    """The last batch is filled up with its first sample: all batches have one size."""
    parts = []
    for start in range(0, len(samples), BATCH):
        part = samples[start : start + BATCH]
        n = len(part)
        if isinstance(part, Tensor):
            part = torch.cat([part, part[:1].expand(BATCH - n, *part.shape[1:])])
        features = network(part)
        if features.dim() != 2 or len(features) != len(part):
            raise DataError(
                f"Expected {len(part)} x features of the backbone for {len(part)} samples; it gave "
                f"the shape {tuple(features.shape)}. Flatten or average what it gives."
            )
        features = features[:n].cpu()
        if not features.isfinite().all() or features.abs().max() > torch.finfo(torch.float16).max:
            raise DataError(
                "Expected finite features within the range of half precision; the backbone gave "
                "others. Its weights may be damaged: install or get them again."
            )
        parts.append(features.to(torch.float16))
    return torch.cat(parts)


def _glimpses(images: Tensor | list[str], digests: Sequence[bytes], view: int) -> Tensor:
    """Each image cut and mirrored as its own content says: the same wherever it is embedded."""
    if not isinstance(images, Tensor):
        raise TypeError("views are of images; `_check` has refused others")
    shown = []
    for image, digest in zip(images, digests, strict=True):
        seed = int.from_bytes(hashlib.sha256(digest + bytes([view])).digest()[:8], "big") >> 1
        rng = torch.Generator().manual_seed(seed)
        shown.append(augment(image[None], "window-flip", rng, (0.0,)))
    return torch.cat(shown)


def _digest(sample: Tensor | str) -> bytes:
    """Of the content of a sample."""
    if isinstance(sample, str):
        return hashlib.sha256(sample.encode()).digest()
    head = f"{sample.dtype}{tuple(sample.shape)}".encode()
    return hashlib.sha256(head + sample.contiguous().numpy().tobytes()).digest()


def _check(x: Inputs, backbone: Backbone, views: int, name: str) -> None:
    """Refuses inputs that the backbone does not take."""
    images = isinstance(x, Pictures) or (isinstance(x, Tensor) and x.dim() == 4)
    texts = not isinstance(x, Tensor) and len(x.shape) == 1
    got = "images" if images else "texts" if texts else f"inputs of shape {tuple(x.shape[1:])}"
    if got != backbone.takes:
        raise ConfigError(
            f'[data] backbone = "{name}" takes {backbone.takes}; the data set has {got}. Use a '
            "backbone for these (`flr list backbones`), or none."
        )
    if isinstance(x, Tensor) and (x.dtype != torch.uint8 or x.shape[1] not in (1, 3)):
        raise ConfigError(
            f'[data] backbone = "{name}" takes images of 8 bits with one or three channels; the '
            f"data set has {x.shape[1]} channels of {x.dtype}. Convert them."
        )
    if views > 1 and backbone.takes != "images":
        raise ConfigError(
            f"[data] views = {views} shows parts of images; the data set has {got}. Use views = 1."
        )


def _in_threads(do: Callable[[T], R], items: Sequence[T], workers: int) -> Iterator[R]:
    """Results in order; torch leaves Python to others while it computes, so threads are enough."""
    waiting, rest = [], iter(items)
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        waiting = [pool.submit(do, item) for item in islice(rest, workers * _AHEAD)]
        while waiting:
            yield waiting.pop(0).result()
            waiting += [pool.submit(do, item) for item in islice(rest, 1)]
    finally:
        pool.shutdown(cancel_futures=True)


class _Progress:
    """A line every few seconds, and none where all comes out of the cache at once."""

    def __init__(self, total: int, what: str) -> None:
        self.total, self.what = total, what
        self.started = self.spoken = time.monotonic()

    def done(self, count: int) -> None:
        """So many of them are ready."""
        now = time.monotonic()
        if now - self.spoken < _SPEAK:
            return
        self.spoken = now
        left = (now - self.started) / count * (self.total - count)
        counted = f"{count:,} of {self.total:,}"
        log.info("features of %s: %s, %s left", self.what, counted, _duration(left))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
