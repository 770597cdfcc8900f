"""Sites that the data themselves name: hospitals, wards, corpora."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from flr.core.errors import ConfigError
from flr.core.registry import register
from flr.data.train_test_split import Indices
from flr.scenario.partitions.common import Partition


@register("column", kind="partition", title="Sites of the data set")
@dataclass(frozen=True)
class Column(Partition):
    """Every sample is where the data set says: nothing is drawn.

    The data set has to name the site of each sample: a column of a table or of texts
    ([data] site = "hospital"), an array of an npz file, folders ([data] sites = "folder"), or a
    source that has sites of its own. How many there are is known when it has been read.
    """

    clients: int = field(default=0, init=False)  # no option: the data set decides

    @property
    def sites(self) -> None:
        """Known only with the data."""
        return

    def told(self, own: Indices | None, names: tuple[str, ...]) -> Partition:
        """With the sites that have samples; others were left without any by what was set aside."""
        if own is None:
            raise ConfigError(
                '[partition] kind = "column" needs a data set that names the site of each sample; '
                'this one does not. Name the column: [data] site = "hospital", say (csv, texts); '
                'for images in <site>/<class>, set [data] sites = "folder"; into an npz file, put '
                "an array site_train (or site). Or use another [partition] kind."
            )
        present, owner = np.unique(own, return_inverse=True)
        notes = [f"Site {number} is {names[k]}." for number, k in enumerate(present)]
        absent = [name for k, name in enumerate(names) if k not in present]
        if absent:
            notes.append(f"No training sample is left at {', '.join(absent)}: no sites of the run.")
        return _Known(len(present), owner.reshape(-1), tuple(notes))


@dataclass(frozen=True, eq=False)
class _Known(Partition):
    """What `Column` becomes once the sites of the samples are known."""

    owner: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    notes: tuple[str, ...] = ()

    def assign(
        self, labels: Indices, counts: Indices, rng: np.random.Generator
    ) -> tuple[Indices, list[str]]:
        """As the data set says."""
        return self.owner, list(self.notes)
