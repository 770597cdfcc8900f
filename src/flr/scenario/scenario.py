"""Who holds which samples under which labels, and the file of it. No clean label is in there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flr.core import arrays, registry, seeds
from flr.core.errors import ConfigError, DataError
from flr.data.dataset import Dataset, Ragged
from flr.data.train_test_split import Indices, balanced
from flr.scenario.attacks.common import Attack, attackers
from flr.scenario.noises.common import Floats, Noise, NoiseContext, corrupt
from flr.scenario.partitions.common import Partition

_FORMAT = 1
_ARRAYS = {"sizes", "index", "given", "nominal", "benchmark"}
_BLUR = {"levels", "blur_seed"}  # only where inputs are noisy


@dataclass(frozen=True, eq=False)
class Scenario:
    """Samples and given labels of every site of one data set, and how they came about."""

    fingerprint: str  # of the data set
    classes: int
    sites: Ragged  # sample numbers, int64, sorted
    given: Ragged  # labels as given, int64, aligned with `sites`
    nominal: tuple[float, ...]  # noise rate that each site drew
    benchmark: Tensor  # clean samples of the server's own, which no site holds; often none
    spec: dict[str, Any]  # seed, partition, noise, attack and notes, as JSON would hold them
    levels: Tensor = field(default_factory=lambda: torch.empty(0))  # of noise on inputs, see `blur`
    blur_seed: int = 0

    @property
    def sizes(self) -> Tensor:
        """How many samples each site has."""
        return self.sites.sizes

    @property
    def index(self) -> Tensor:
        """All sample numbers, site after site."""
        return self.sites.flat

    @property
    def labels(self) -> Tensor:
        """All given labels, aligned with `index`."""
        return self.given.flat

    @property
    def seed(self) -> int:
        """What drew it, and decides who attacks."""
        seed = self.spec.get("seed")
        return seed if isinstance(seed, int) else 0

    @cached_property
    def hash(self) -> str:
        """Names the content: data set, samples and labels of every site; not how they were made."""
        digest = hashlib.sha256(f"{self.fingerprint}/{self.classes}/".encode())
        for tensor in (self.sizes, self.index, self.labels, self.benchmark):
            digest.update(tensor.numpy().astype("<i8").tobytes())
        if len(self.levels):
            digest.update(self.levels.numpy().astype("<f4").tobytes())
            digest.update(f"/{self.blur_seed}".encode())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Writes one small file: four bytes for each sample number, one or two for each label."""
        types = (torch.uint8, torch.int16, torch.int32)
        label_type = next(t for t in types if self.classes - 1 <= torch.iinfo(t).max)
        tensors = {
            "sizes": self.sizes.to(torch.int32),
            "index": self.index.to(torch.int32),
            "given": self.labels.to(label_type),
            "nominal": torch.tensor(self.nominal, dtype=torch.float64),
            "benchmark": self.benchmark.to(torch.int32),
        }
        if len(self.levels):
            tensors |= {"levels": self.levels, "blur_seed": torch.tensor([self.blur_seed])}
        meta = {
            "kind": "scenario",
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "classes": self.classes,
            "hash": self.hash,
            "spec": self.spec,
        }
        arrays.save(path, tensors, meta)


def build(
    dataset: Dataset,
    partition: Partition,
    noise: Noise,
    seed: int,
    benchmark: int = 0,
    attack: Attack | None = None,
) -> Scenario:
    """Deals the training samples out by true label, then corrupts the labels site by site.

    First, `benchmark` samples are set aside for the server, whichever method will use them.
    """
    labels, classes = dataset.train.y.numpy(), len(dataset.classes)
    held = hold_out(dataset, benchmark)
    pool = np.setdiff1d(np.arange(len(labels)), held)
    rng = seeds.numpy_generator(seed, "partition")
    own = None if dataset.train.site is None else dataset.train.site.numpy()[pool]
    told = partition.told(own, dataset.site_names)
    dealt, notes = told.split(labels[pool], classes, rng)
    sites = [pool[samples] for samples in dealt]
    given, nominal, levels = corrupt(noise, _context(dataset, sites, seed))
    if told.sites is not None and len(sites) > told.sites:
        sites, given, nominal, levels = _pooled(sites, given, nominal, levels)
    if attack is not None:
        for site in attackers(attack.clients, len(sites), seed):
            given[site] = attack.labels(given[site], classes)
    spec = {
        "dataset": dataset.name,
        "seed": seed,
        "partition": _describe("partition", partition),
        "noise": _describe("noise", noise),
        "attack": _describe("attack", attack) if attack is not None and attack.relabels else None,
        "benchmark": benchmark,
        "notes": notes,
    }
    return Scenario(
        dataset.fingerprint,
        classes,
        Ragged.of([torch.from_numpy(samples) for samples in sites]),
        Ragged.of([torch.from_numpy(own) for own in given]),
        tuple(nominal.tolist()),
        torch.from_numpy(held),
        spec,
        torch.from_numpy(levels).float(),
        seed if len(levels) else 0,
    )


def _context(dataset: Dataset, sites: list[Indices], seed: int) -> NoiseContext:
    train = dataset.train

    def inputs(samples: Indices) -> Floats:
        return dataset.normalize(train.inputs[samples]).flatten(1).double().numpy()

    numbers = None if train.number is None else train.number.numpy()
    labels, own = train.y.numpy(), dataset.noise_map
    return NoiseContext(sites, labels, dataset.classes, seed, own, inputs, numbers, dataset.raters)


def _pooled(
    sites: list[Indices], given: list[Indices], nominal: Floats, levels: Floats
) -> tuple[list[Indices], list[Indices], Floats, Floats]:
    """One site of all samples with the labels they were given apart; its rate is their mean."""
    index = np.concatenate(sites)
    order = np.argsort(index)
    rate = np.average(nominal, weights=[len(site) for site in sites])
    labels = np.concatenate(given)[order]
    return [index[order]], [labels], np.array([rate]), levels[order] if len(levels) else levels


def hold_out(dataset: Dataset, size: int) -> Indices:
    """The server's clean samples: classes as equal as can be, the same for every seed."""
    if size and not dataset.verified:
        raise ConfigError(
            f"[scenario] benchmark = {size:,} should set clean samples aside for the server; which "
            f"training labels of {dataset.name} are right is not known. Leave it out, and use a "
            "method that needs no clean samples."
        )
    if size >= len(dataset.train):
        raise ConfigError(
            f"[scenario] benchmark = {size:,} sets aside all {len(dataset.train):,} training "
            "samples; the sites need some. Use a smaller number."
        )
    return balanced(dataset.train.y.numpy(), size)


def load(path: Path) -> Scenario:
    """Reads what `save` wrote, and trusts none of it."""
    tensors, meta = arrays.load(path)
    reason = _why_broken(tensors, meta)
    if reason:
        raise DataError(
            f"Expected a scenario written by flr at {path}; {reason}. Take another copy, or build "
            "it again from its config."
        )
    sizes = tensors["sizes"].long()
    scenario = Scenario(
        meta["fingerprint"],
        meta["classes"],
        Ragged(tensors["index"].long(), sizes),
        Ragged(tensors["given"].long(), sizes),
        tuple(tensors["nominal"].tolist()),
        tensors["benchmark"].long(),
        meta["spec"],
        tensors.get("levels", torch.empty(0)),
        int(tensors.get("blur_seed", torch.zeros(1))),
    )
    if scenario.hash != meta["hash"]:
        raise DataError(
            f"Expected the content of {path} to have the hash {meta['hash'][:12]} written in it; "
            f"it has {scenario.hash[:12]}. The file was changed or damaged; take another copy."
        )
    return scenario


def check_fits(scenario: Scenario, dataset: Dataset) -> None:
    """Refuses a scenario that was made for other samples, labels or classes."""
    if scenario.fingerprint != dataset.fingerprint:
        made_for = scenario.spec.get("dataset", "another data set")
        raise DataError(
            f"Expected a scenario for this data set ({dataset.name}, fingerprint "
            f"{dataset.fingerprint[:12]}); got one for {made_for}, fingerprint "
            f"{scenario.fingerprint[:12]}. Use the data set that it was made from."
        )
    largest = int(torch.cat([scenario.index, scenario.benchmark]).max())
    if scenario.classes != len(dataset.classes) or largest >= len(dataset.train):
        raise DataError(
            f"Expected a scenario of {len(dataset.classes)} classes and {len(dataset.train):,} "
            f"samples; got {scenario.classes} classes and sample number {largest:,}. "
            "The file was changed; build it again."
        )


def _why_broken(tensors: arrays.Arrays, meta: dict[str, Any]) -> str | None:
    """The first thing that is wrong with a file's content, in words."""
    if meta.get("kind") != "scenario":
        return "it holds something else"
    if meta.get("format") != _FORMAT:
        return f"its format is {meta.get('format')}, this version reads {_FORMAT}"
    types = {"fingerprint": str, "classes": int, "hash": str, "spec": dict}
    for name, kind in types.items():
        if not isinstance(meta.get(name), kind):
            return f'its "{name}" is missing or of the wrong type'
    if not 0 < meta["classes"] < 2**31:
        return f"its number of classes is {meta['classes']}"
    if set(tensors) not in (_ARRAYS, _ARRAYS | _BLUR):
        return f"it holds the arrays {', '.join(sorted(tensors)) or 'none'}"
    if any(tensor.dim() != 1 for tensor in tensors.values()):
        return "its arrays are not one-dimensional"
    floats = {"nominal": torch.float64, "levels": torch.float32}
    for name, tensor in tensors.items():
        is_right = (
            tensor.dtype == floats[name] if name in floats else not tensor.is_floating_point()
        )
        if not is_right:
            return "its arrays have the wrong types"
    return _why_inconsistent(tensors, meta["classes"])


def _why_inconsistent(tensors: arrays.Arrays, classes: int) -> str | None:
    sizes, index, given = (tensors[name].long() for name in ("sizes", "index", "given"))
    nominal, everywhere = tensors["nominal"], torch.cat([index, tensors["benchmark"].long()])
    if len(sizes) == 0 or len(sizes) != len(nominal) or (sizes < 1).any():
        return "its sites are empty or not as many as their noise rates"
    if int(sizes.sum()) != len(index) or len(index) != len(given):
        return "its sites' sizes do not add up to its samples and labels"
    if everywhere.min() < 0 or (everywhere.sort().values.diff() == 0).any():
        return "a sample is in two places, or has a negative number"
    if given.min() < 0 or given.max() >= classes:
        return f"a label is not from 0 to {classes - 1}"
    if not ((nominal >= 0) & (nominal <= 1)).all():
        return "a noise rate is not from 0 to 1"
    if "levels" in tensors:
        levels = tensors["levels"]
        if len(levels) != len(index) or len(tensors["blur_seed"]) != 1:
            return "its levels of noise on inputs are not as many as its samples"
        if not (torch.isfinite(levels) & (levels >= 0)).all():
            return "a level of noise on inputs is not a number from 0"
    return None


def _describe(kind: str, value: Any) -> dict[str, Any]:
    """The options of a value, under the name it has in a config; others have their class's name."""
    names = [n for n, e in registry.entries(kind).items() if e.factory is type(value)]
    options = {}
    if is_dataclass(value) and not isinstance(value, type):
        shown = {field.name for field in fields(value) if field.init}
        options = {name: option for name, option in asdict(value).items() if name in shown}
    plain = json.loads(json.dumps(options, default=str))  # paths as text
    return {"kind": names[0] if names else type(value).__name__, **plain}
