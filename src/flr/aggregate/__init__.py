"""Updates -> model: rules that turn the replies of a round into the next weights.

A rule is a function (replies, prefix, previous, buffers, /, *, options) that gives the entries of
`previous` under the prefix. `buffers` are names of what is not trained: BatchNorm's statistics.
Norms and distances look at trained parameters only, and each network ("model.0.", "model.1.") is
decided on alone; the decision then holds for all entries of the network, buffers included. Rules
that go coordinate by coordinate treat float buffers as parameters and take integer counters from
the reply with the most samples.
"""

from flr.aggregate.common import knowing, weighted_average
from flr.aggregate.means import mean

__all__ = ["knowing", "mean", "weighted_average"]
