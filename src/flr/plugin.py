"""What the author of a method, data set, partition, noise, attack or tracker needs, in one place.

Everything here stays where it is from one version to the next; other modules may be rearranged.

Example:
    A method that leaves out samples that are probably wrong, after its first rounds:

    ```python
    from dataclasses import dataclass
    from flr import plugin

    @plugin.register("split", title="Split")
    @dataclass(frozen=True)
    class Split(plugin.Method):
        \"\"\"Trains on the samples of small loss alone.

        Leaves the site: weights and the number of samples.
        \"\"\"

        traits = plugin.Traits(approach=("selection",), owns=("batches",))
        warmup: int = 3

        def begin(self, c):
            losses = plugin.sample_losses(c.model[0], c.data)
            p = plugin.clean_probability(losses, plugin.draw_seed(c))
            c.scratch["rows"] = (p > 0.5).nonzero()[:, 0]

        def batches(self, c, epoch):
            rows = c.scratch["rows"]
            few = c.round < self.warmup or not len(rows)
            return c.make_batches(c) if few else plugin.batches_of(c, rows)
    ```
"""

from flr.aggregate import weighted_average
from flr.core.arrays import Arrays
from flr.core.contract import (
    MODEL,
    Batch,
    Client,
    Method,
    Reply,
    SamplePredictions,
    Server,
    Site,
    Task,
)
from flr.core.errors import ConfigError, DataError, FlrError, RunError
from flr.core.registry import register
from flr.core.traits import Declared, Traits
from flr.data.build import from_arrays
from flr.data.dataset import Dataset
from flr.methods.shared.mixtures import clean_probability, two_groups
from flr.methods.shared.selection import batches_of, draw_seed, sample_losses, small_loss
from flr.methods.shared.soft_labels import visited
from flr.methods.shared.wrapper import Wrapper
from flr.models.inference import evaluating, logits_of
from flr.models.networks import embed, head_of
from flr.report.trackers.common import Bookmark, Session, TrackedRun
from flr.scenario.attacks.common import Attack
from flr.scenario.noises.common import Noise, TransitionNoise
from flr.scenario.partitions.common import Partition

__all__ = [
    "MODEL",
    "Arrays",
    "Attack",
    "Batch",
    "Bookmark",
    "Client",
    "ConfigError",
    "DataError",
    "Dataset",
    "Declared",
    "FlrError",
    "Method",
    "Noise",
    "Partition",
    "Reply",
    "RunError",
    "SamplePredictions",
    "Server",
    "Session",
    "Site",
    "Task",
    "TrackedRun",
    "Traits",
    "TransitionNoise",
    "Wrapper",
    "batches_of",
    "clean_probability",
    "draw_seed",
    "embed",
    "evaluating",
    "from_arrays",
    "head_of",
    "logits_of",
    "register",
    "sample_losses",
    "small_loss",
    "two_groups",
    "visited",
    "weighted_average",
]
