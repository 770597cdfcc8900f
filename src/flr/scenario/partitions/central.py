"""No federation at all."""

from __future__ import annotations

from dataclasses import dataclass

from flr.core.registry import register
from flr.scenario.partitions.common import Clients
from flr.scenario.partitions.iid import Iid


@register("central", kind="partition", title="One site")
@dataclass(frozen=True)
class Central(Iid):
    """One site holds everything: training as if there were no federation.

    Labels are made wrong as if `clients` i.i.d. sites held the samples, then all are pooled: for
    the same seed these are the labels of that federation.
    """

    clients: Clients = 1

    @property
    def sites(self) -> int:
        """Always one: `clients` only counts until labels are wrong."""
        return 1
