"""How many labels are wrong: what the scenario asked for (nominal) and what came out (realised)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from flr.data.dataset import Parts, SiteTable
from flr.errors import DataError


@dataclass(frozen=True)
class NoiseRates:
    """Nominal and realised rates, overall (each sample counts once) and of each site."""

    nominal: float | None
    realised: float | None
    site_nominal: tuple[float | None, ...]
    site_realised: tuple[float | None, ...]  # None for a site without samples


def noise_rates(table: SiteTable, true: Sequence[Tensor], nominal: Sequence[float]) -> NoiseRates:
    """Compares the given labels of every site with the true ones."""
    truth = Parts.of(true).flat
    if len(truth) != len(table.given) or len(nominal) != len(table):
        raise DataError(
            f"Expected true labels for {len(table.given)} samples and noise rates for "
            f"{len(table)} sites; got {len(truth)} and {len(nominal)}. The scenario and its "
            "oracle do not belong together; make the scenario again."
        )
    before = torch.cat([torch.zeros(1, dtype=torch.int64), (table.given != truth).cumsum(0)])
    wrong = (before[table.offset[1:]] - before[table.offset[:-1]]).tolist()
    sizes = table.offset.diff().tolist()
    total = sum(sizes)
    return NoiseRates(
        nominal=sum(r * n for r, n in zip(nominal, sizes, strict=True)) / total if total else None,
        realised=sum(wrong) / total if total else None,
        site_nominal=tuple(float(rate) for rate in nominal),
        site_realised=tuple(w / n if n else None for w, n in zip(wrong, sizes, strict=True)),
    )
