"""What a ClientApp's process keeps from one message to the next: data that were read, networks.

Flower may start a process for every message, or send all messages of a run, and in a simulation
those of many sites, to one. Kept are one scenario, one site's own data and one worker. Each is
found by the content of what it is made from, files by name, size and time of change.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from flr import config as configs
from flr.client.state import NoState
from flr.client.worker import ClientWorker
from flr.config.entry import parse_entry
from flr.config.errors import ProblemsError
from flr.config.who_named_it import named_by_others
from flr.core.contract import Site
from flr.core.errors import ConfigError, RunError
from flr.data import checks
from flr.data.dataset import SiteTable, TaskSpec
from flr.data.features import Features
from flr.data.on_disk import Inputs, Numbers, as_numbers
from flr.data.sources.files import read_samples
from flr.flower.site_config import Loader
from flr.models.embedding import Embedder
from flr.simulation.build import load_data, load_scenario, make_sites, make_worker_spec

Stamp = tuple[tuple[str, int, int], ...]  # files with their sizes and times of change
Names = tuple[str, ...]


@dataclass(frozen=True)
class OwnSite:
    """The one site of this machine, whatever number the server gave it; the server has none."""

    classes: int
    site: Site | None = None

    def __getitem__(self, client: int) -> Site:
        if self.site is None:
            raise RunError(
                f"Expected client {client} to be asked at its site. Report this as a bug."
            )
        return self.site


def stamp_of(path: Path) -> Stamp:
    """Changes when a file, or any file in a folder, is changed, added or taken away."""
    inside = (Path(at, name) for at, _, names in os.walk(path) for name in names)
    files = sorted(inside) if path.is_dir() else [path]
    found = [(str(file), file.stat()) for file in files if file.exists()]
    # a copy may set the time of its content back, but not that of its last change
    times = {name: max(stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in found}
    return tuple((name, stat.st_size, times[name]) for name, stat in found)


@lru_cache(maxsize=1)
def scenario(
    tree: str, _stamps: tuple[Stamp, ...], fingerprint: str = ""
) -> tuple[SiteTable, TaskSpec]:
    """All sites of the simulated split that a config, as JSON, describes."""
    config = configs.parse(json.loads(tree))
    if config.data.backbone is not None:
        check_weights(Embedder(config.data.backbone), fingerprint)
    dataset = load_data(config)
    sites = make_sites(dataset, load_scenario(config, dataset))
    return sites, dataset.task_spec(config.data.augment)


@dataclass(frozen=True)
class Source:
    """Where a site's own samples are, and how all sites prepare theirs."""

    path: Path
    stamp: Stamp
    classes: Names
    label: str
    size: int | None
    shared: str  # what [data] says for every site, as JSON
    fingerprint: str = ""  # of the weights of the server's backbone
    loader: Loader | None = None  # the app's own reader

    @property
    def embedder(self) -> Embedder | None:
        """Of the backbone that all sites use."""
        backbone = json.loads(self.shared).get("backbone")
        if backbone is None:
            return None
        try:
            entry = parse_entry("backbone", backbone, default="")
        except ProblemsError as error:
            raise ConfigError(f"[data] backbone: {error}") from None
        return Embedder(entry, os.cpu_count() or 1)

    def read(self) -> tuple[Inputs, Tensor | None]:
        """As they are; images for a backbone stay on disk."""
        if self.loader is not None:
            given, labels = self.loader(self.path)
            where = f"the app's own loader, {self.path}"
            own, names = checks.inputs(given, where), checks.labels(labels, where)
            checks.same_length(own, names, where)
            return own, checks.encode(names, self.classes, where)
        how = self.embedder.reading if self.embedder else {}
        x, y, _, _ = read_samples(
            self.path, self.classes, self.label, self.size, training=True, **how
        )
        return x, y


@lru_cache(maxsize=2)  # as a roll call and a task want them
def samples(source: Source, task: TaskSpec | None) -> tuple[Numbers, Tensor | None]:
    """A site's own samples; for a task they are normalised, if they have the shape it asks for.

    Without a task the first sample stands for all: who takes part is asked again and again.
    """
    raw, y = _raw(source)
    if task is None:
        raw = raw[:1].clone() if isinstance(raw, Tensor) else raw.take(slice(0, 1))
    if (embed := source.embedder) is not None:
        check_weights(embed, source.fingerprint)
        views = 1 if task is None else json.loads(source.shared).get("views", 1)
        raw = embed(raw, views, "this site")
    x = as_numbers(raw)
    if task is not None and tuple(x.shape[1:]) == task.input_shape:
        _raw.cache_clear()  # raw inputs would stay in memory beside the normalised ones
        x = task.normalize(x)
    return x, y


def check_weights(embedder: Embedder, fingerprint: str) -> None:
    """Features of other weights have the same shape, and would spoil the model unnoticed."""
    with named_by_others():
        found = embedder.backbone.fingerprint()
    if fingerprint not in ("", found):
        raise ConfigError(
            f"[data] backbone = {embedder.entry.name!r}: expected the weights that the server has "
            f"(fingerprint {fingerprint[:12]}); those here have {found[:12]}. Install the same "
            "version of its package."
        )


@lru_cache(maxsize=1)
def _raw(source: Source) -> tuple[Inputs, Tensor | None]:
    return source.read()


def dtype_of(x: Numbers) -> str:
    """What a site says about its inputs' type: pictures on disk have bytes, features are floats."""
    if isinstance(x, Tensor):
        return str(x.dtype).removeprefix("torch.")
    return "float32" if isinstance(x, Features) else "uint8"


@lru_cache(maxsize=1)
def worker(tree: str, device: str, task: TaskSpec) -> ClientWorker:
    """Built once for all sites of a process: the site and its state are set for each task.

    Every task loads all weights anew. After a task that failed, the worker must not be used again.
    """
    tables = json.loads(tree)
    tables["train"]["device"] = device
    sites = OwnSite(len(task.classes))
    return ClientWorker(make_worker_spec(configs.parse(tables), task, sites, NoState(Path())))
