"""Any partitioner of Flower Datasets, by the name of its class."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flr.config.entry import imported, reads_code
from flr.core.errors import ConfigError
from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.partitions.common import Partition

_LABEL, _ROW = "label", "row"  # columns of the data set that a partitioner sees
_OURS = {"seed": "comes from [scenario] seed", "num_partitions": "is clients here"}


@register("flwr-datasets", kind="partition", title="A partitioner of Flower Datasets")
@dataclass(frozen=True)
class FlwrDatasets(Partition):
    """A partitioner of Flower Datasets, or one of your own with its interface, deals labels out.

    `kind = "module:class"` chooses it, with its own options beside it; `num_partitions` may be
    called `clients`. It sees the samples in random order, in a column "label", and draws from the
    scenario's seed.
    """

    partitioner: str = "flwr_datasets.partitioner:IidPartitioner"
    options: dict[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for name in (self.options or {}).keys() & _OURS.keys():
            raise ConfigError(
                f"[partition] {name} {_OURS[name]}; it is given as an option of the partitioner, "
                "too. Remove it."
            )
        if self._is_missing() or not reads_code():  # configs of runs that are over can be read
            return
        try:
            inspect.signature(self._class()).bind(**self._arguments(0))
        except TypeError as error:
            raise ConfigError(
                f'[partition] kind = "{self.partitioner}" should take the options given; it does '
                f"not ({error}). Change the options."
            ) from None

    @property
    def sites(self) -> int:
        """As many as sizes, where the partitioner is given a list of those."""
        sizes = (self.options or {}).get("partition_sizes")
        return len(sizes) if isinstance(sizes, list) else self.clients

    def split(
        self, labels: Indices, classes: int, rng: np.random.Generator
    ) -> tuple[list[Indices], list[str]]:
        """Each site's sample numbers, sorted; refuses a split that no federation can have."""
        if self._is_missing():
            raise ConfigError(
                f'[partition] kind = "{self.partitioner}" needs Flower Datasets, which is not '
                'installed. Run: pip install "flr[datasets]"'
            )
        order = rng.permutation(len(labels))
        seed = int(rng.integers(2**31))
        try:
            dealt = self._deal(labels[order], order, seed)
        except Exception as error:  # a partitioner says in many ways that it cannot
            raise ConfigError(
                f'[partition] kind = "{self.partitioner}" should deal {len(labels):,} samples of '
                f"{classes} classes to {self.sites} sites; it cannot ({error}). Change its options."
            ) from error
        everyone, times = np.unique(np.concatenate(dealt), return_counts=True)
        if min(map(len, dealt)) == 0 or times.max() > 1:
            raise ConfigError(
                f'[partition] kind = "{self.partitioner}" should give each site a sample and no '
                "sample to two sites; it leaves a site empty or gives one twice. Change its "
                "options, use fewer sites or more data."
            )
        out = len(labels) - len(everyone)
        notes = [f"The partitioner leaves out {out:,} of {len(labels):,} samples."] if out else []
        return dealt, notes

    def _deal(self, labels: Indices, rows: Indices, seed: int) -> list[Indices]:
        from datasets import Dataset

        partitioner = self._class()(**self._arguments(seed))
        partitioner.dataset = Dataset.from_dict({_LABEL: labels, _ROW: rows})
        parts = [partitioner.load_partition(site)[_ROW][:] for site in range(self.sites)]
        return [np.sort(np.asarray(part, dtype=np.int64)) for part in parts]

    def _is_missing(self) -> bool:
        needed = {"datasets", self.partitioner.partition(":")[0].partition(".")[0]}
        packages = needed & {"datasets", "flwr_datasets"}
        return any(importlib.util.find_spec(package) is None for package in packages)

    def _class(self) -> Callable[..., Any]:
        return imported(self.partitioner, "partition")

    def _arguments(self, seed: int) -> dict[str, Any]:
        """The options, and what the class takes of what we know."""
        ours = {"num_partitions": self.clients, "partition_by": _LABEL, "seed": seed}
        takes = inspect.signature(self._class()).parameters
        return {name: value for name, value in ours.items() if name in takes} | (self.options or {})
