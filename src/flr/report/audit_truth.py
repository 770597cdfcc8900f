"""An audit beside the truth, in simulations only: does it find the wrong labels, and know how sure?

The audit itself never sees this. Nothing here imports it either: whatever has a probability and a
suggestion for each sample can be measured, also what the audit is compared with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from flr import config as configs
from flr.core.arrays import write_atomically
from flr.core.errors import DataError
from flr.data.build import read
from flr.data.dataset import Dataset
from flr.report.memorization import mean
from flr.report.metrics import calibration_error
from flr.scenario import scenario as scenarios
from flr.scenario.truth import Truth
from flr.scenario.validation import held_out

NAME = "truth.json"
BINS = 10
SUSPECT = 0.5  # from this probability on a label counts as suspect

Measured = dict[str, float | None]  # None where a number has no meaning


class Scored(Protocol):
    """What an audit says of each sample: how probably its label is wrong, and another class."""

    @property
    def wrong(self) -> Tensor: ...

    @property
    def suggested(self) -> Tensor: ...


class Interval(Protocol):
    """A site's estimated share of wrong labels."""

    @property
    def estimate(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


@dataclass(frozen=True, eq=False)
class Judged:
    """One site: what was said, and what is so."""

    wrong: Tensor
    suggested: Tensor
    given: Tensor
    true: Tensor
    rate: Interval | None = None  # None: nothing but the mean of `wrong` was said

    @property
    def errors(self) -> Tensor:
        return self.given != self.true

    @property
    def estimated(self) -> float:
        return self.rate.estimate if self.rate else float(self.wrong.double().mean())


def report(
    folder: Path,
    scores: Mapping[int, Scored],
    rates: Mapping[int, Interval] | None = None,
    *,
    out: Path | None = None,
    dataset: Dataset | None = None,
) -> dict[str, Any] | None:
    """Measures the audit of a run's clients and writes truth.json to `out`, by default RUN/audit.

    None, and no file, where nobody knows which labels are wrong: they were not looked through, or
    the run made none wrong. `dataset` is
    needed where the run's data were given in Python.
    """
    config = configs.load_run(folder, code=False)
    if dataset is None:
        dataset = read(config.data)
    if not dataset.verified:
        return None
    scenario = scenarios.load(folder / "scenario.safetensors")
    mask = held_out(scenario.sizes.tolist(), config.eval.validation, scenario.seed)
    truth = Truth.of(scenario, dataset).where(~mask)
    judged = judge(truth, scores, rates)
    if not any(site.errors.any() for site in judged.values()):  # nobody made any wrong, or said so
        return None
    found: dict[str, Any] = {
        "all": overall(judged),
        "per_client": [{"client": k, **measure(site)} for k, site in judged.items()],
    }
    text = json.dumps(found, indent=2, allow_nan=False) + "\n"
    write_atomically((out or folder / "audit") / NAME, text)
    return found


def judge(
    truth: Truth, scores: Mapping[int, Scored], rates: Mapping[int, Interval] | None = None
) -> dict[int, Judged]:
    """Puts the truth beside the scores of each client."""
    judged = {}
    for client, found in sorted(scores.items()):
        samples = len(truth.true[client]) if client in range(len(truth.true)) else 0
        if not samples or not len(found.wrong) == len(found.suggested) == samples:
            raise DataError(
                f"Expected scores of the {samples:,} samples that client {client} has in this "
                f"scenario; got {len(found.wrong):,}. Audit the clients of the same run."
            )
        rate = None if rates is None else rates[client]
        given, true = truth.given[client], truth.true[client]
        judged[client] = Judged(found.wrong, found.suggested, given, true, rate)
    return judged


def overall(judged: Mapping[int, Judged]) -> Measured:
    """All clients as one list, by probability; what is a mean over clients is named so."""
    sites = list(judged.values())

    def cat(part: str) -> Tensor:
        return torch.cat([getattr(site, part) for site in sites])

    joined = Judged(cat("wrong"), cat("suggested"), cat("given"), cat("true"))
    estimated = sum(site.estimated * len(site.given) for site in sites) / len(joined.given)
    each = [measure(site) for site in sites]
    widths = [site.rate.high - site.rate.low for site in sites if site.rate]
    return {
        **measure(joined),
        **_rate(estimated, joined.errors),
        "client_average_precision": mean(one["average_precision"] for one in each),
        "client_rate_error": mean(abs(one["rate_error"] or 0.0) for one in each),
        "client_interval_covers": mean(one["interval_covers"] for one in each),
        "client_interval_width": mean(widths),
    }


def measure(site: Judged) -> Measured:
    """Every number for one list of samples."""
    errors, wrong, right = site.errors, site.wrong.double(), site.suggested == site.true
    n, suspects, true_rate = len(errors), wrong >= SUSPECT, float(errors.double().mean())
    covers = None if site.rate is None else float(site.rate.low <= true_rate <= site.rate.high)
    return {
        "samples": n,
        "wrong": int(errors.sum()),
        "auroc": auroc(wrong, errors),
        "average_precision": average_precision(wrong, errors),
        "precision_at_errors": precision_at(wrong, errors, int(errors.sum())),
        "precision_at_1_percent": precision_at(wrong, errors, max(1, round(0.01 * n))),
        "precision_at_5_percent": precision_at(wrong, errors, max(1, round(0.05 * n))),
        "suspects": int(suspects.sum()),
        "suggestions_of_wrong": _share(right[errors]),
        "suggestions_of_suspects": _share(right[suspects]),
        "calibration_error": calibration_error(wrong, errors, BINS),
        "brier": float((wrong - errors.double()).square().mean()),
        **_rate(site.estimated, errors),
        "interval_covers": covers,
    }


def auroc(wrong: Tensor, errors: Tensor) -> float | None:
    """How often a wrong label is above a right one; None where there is but one kind."""
    from sklearn.metrics import roc_auc_score  # takes seconds, and few need it

    if errors.all() or not errors.any():
        return None
    return float(roc_auc_score(errors.numpy(), wrong.numpy()))


def average_precision(wrong: Tensor, errors: Tensor) -> float | None:
    """The mean precision at each wrong label found; None where there is none."""
    from sklearn.metrics import average_precision_score

    if not errors.any():
        return None
    return float(average_precision_score(errors.numpy(), wrong.numpy()))


def precision_at(wrong: Tensor, errors: Tensor, count: int) -> float | None:
    """The share of wrong labels among the first so many; of equal scores, as if drawn at random."""
    if not errors.any() or not count:
        return None
    last = wrong.topk(count).values[-1]
    above, level = wrong > last, wrong == last
    drawn = (count - int(above.sum())) * float(errors[level].double().mean())
    return (int(errors[above].sum()) + drawn) / count


def _rate(estimated: float, errors: Tensor) -> Measured:
    true = float(errors.double().mean())
    return {"rate": true, "estimated_rate": estimated, "rate_error": estimated - true}


def _share(hits: Tensor) -> float | None:
    return float(hits.double().mean()) if len(hits) else None
