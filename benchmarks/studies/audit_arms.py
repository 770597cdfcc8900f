"""The arms of audit_comparison.py: our audit, and cleanlab in every way that its users have.

cleanlab ranks by a score that they choose, corrected for unequal classes or not, and by its filter;
each is done at every site apart and on all sites' samples together, which no federation could. In
each row of the page it is represented by whichever of these found most, so it has its best chance.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from torch import Tensor

from benchmarks import machine
from flr.audit.evidence import Evidence
from flr.audit.findings import Rate, audit
from flr.audit.run_clients import open_run
from flr.audit.scores import Scores, from_posterior, score
from flr.core import seeds
from flr.data.dataset import Dataset
from flr.report.audit_truth import Measured, judge, overall
from flr.scenario.truth import Truth
from flr.study.results import revision

QUALITY = {  # cleanlab's score, and whether it is adjusted for unequal classes
    "self-confidence": ("self_confidence", False),
    "self-confidence, adjusted": ("self_confidence", True),
    "margin": ("normalized_margin", False),
    "margin, adjusted": ("normalized_margin", True),
    "entropy": ("confidence_weighted_entropy", False),
}
PARTS = tuple(field.name for field in fields(Scores))


@dataclass(frozen=True, eq=False)
class Predictions:
    """What is known of every sample: by site for our audit, else in the scenario's order."""

    flr: dict[int, Evidence]
    fedavg: dict[int, Evidence]
    early: Tensor  # FedAvg stopped early
    outside: Tensor  # FedAvg that was not trained on the sample


def sites_of(folder: Path, dataset: Dataset) -> dict[int, Evidence]:
    """What each client of a run has about its own labels."""
    run = open_run(folder, dataset)
    return {client: run.evidence(client) for client in range(len(run))}


def compare(known: Predictions, truth: Truth, seed: int) -> dict[str, dict[str, Measured]]:
    """Arm -> way to use it -> numbers."""
    predicted = {
        "a": torch.cat([site.views["model"] for site in known.fedavg.values()]),
        "b": known.early,
        "c": known.outside,
        "d": torch.cat([site.views["model"] for site in known.flr.values()]),
    }
    return {
        "flr": {"audit": ours(truth, known.flr)},
        **{arm: cleanlab_arms(truth, p) for arm, p in predicted.items()},
        "e": {"audit": ours(truth, known.fedavg)},
        "random": {"random": overall(judge(truth, at_random(truth, seed)))},
    }


def ours(truth: Truth, sites: dict[int, Evidence]) -> Measured:
    """The audit as it is, at each site alone."""
    rates = {client: audit(site).rate for client, site in sites.items()}
    found = {client: score(site) for client, site in sites.items()}
    return overall(judge(truth, found, rates))


def cleanlab_arms(truth: Truth, p: Tensor) -> dict[str, Measured]:
    """cleanlab on the same probabilities, in every way."""
    sizes = truth.given.sizes.tolist()
    scopes = {
        "by site": list(zip(truth.given, p.split(sizes), strict=True)),
        "pooled": [(truth.given.flat, p)],
    }
    found = {}
    for scope, parts in scopes.items():
        flagged = torch.cat([issues(given, part, "confident_learning") for given, part in parts])
        rates = {
            client: Rate(float(part.double().mean()), 0.0, 1.0)
            for client, part in enumerate(flagged.split(sizes))
        }
        for way, scores in joined([rankings(given, part) for given, part in parts]).items():
            split = dict(enumerate(apart(scores, sizes)))
            numbers = overall(judge(truth, split, rates))
            found[f"{way}, {scope}"] = {
                name: None if "interval" in name else value for name, value in numbers.items()
            }
    return found


def rankings(given: Tensor, p: Tensor) -> dict[str, Scores]:
    """Every ranking that cleanlab offers; the first is that of `flr audit --scorer cleanlab`."""
    labels, rows = given.numpy(), p.double().numpy()  # as float32, 1 - 1e-8 would be 1
    wrong = {
        name: 1 - get_label_quality_scores(labels, rows, method=method, adjust_pred_probs=adjusted)
        for name, (method, adjusted) in QUALITY.items()
    }
    flagged = issues(given, p, "prune_by_noise_rate").numpy()
    wrong["filter, then self-confidence"] = (wrong["self-confidence"] + flagged) / 2
    plain = from_posterior(given, p, p)
    return {way: replace(plain, wrong=torch.from_numpy(found)) for way, found in wrong.items()}


def issues(given: Tensor, p: Tensor, by: str) -> Tensor:
    """Which labels cleanlab flags; by "confident_learning" their share is its noise rate."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of rare classes
        flagged = find_label_issues(given.numpy(), p.double().numpy(), filter_by=by, n_jobs=1)
    return torch.from_numpy(flagged)


def joined(parts: Sequence[Mapping[str, Scores]]) -> dict[str, Scores]:
    """Scores of parts, one after another."""
    return {
        way: Scores(*(torch.cat([getattr(part[way], name) for part in parts]) for name in PARTS))
        for way in parts[0]
    }


def apart(scores: Scores, sizes: list[int]) -> list[Scores]:
    """The inverse: what each site has."""
    columns = [getattr(scores, name).split(sizes) for name in PARTS]
    return [Scores(*row) for row in zip(*columns, strict=True)]


def at_random(truth: Truth, seed: int) -> dict[int, Scores]:
    """The floor: any order, and any other class."""
    found = {}
    for client, given in enumerate(truth.given):
        rng = seeds.generator(seed, "random order", client)
        draws = torch.rand(len(given), int(truth.given.flat.max()) + 1, generator=rng)
        posterior = draws / draws.sum(1, keepdim=True)
        scores = from_posterior(given, posterior, posterior)
        found[client] = replace(scores, wrong=torch.rand(len(given), generator=rng))
    return found


def provenance() -> dict[str, Any]:
    """How a cell was made."""
    return {
        "scorer": scorer(),
        "revision": revision(),
        "machine": machine.describe().words(),
        "made": datetime.now(UTC).date().isoformat(),
    }


def scorer() -> str:
    """Names the code that decides the numbers, so that a page made of two versions is seen."""
    found: dict[str, str] = {}
    left = ["flr.audit.findings"]
    while left:
        module = importlib.import_module(left.pop())
        found[module.__name__] = inspect.getsource(module)
        used = (getattr(value, "__module__", value) for value in vars(module).values())
        names = {getattr(one, "__name__", str(one)) for one in used}
        left += [name for name in names if name.startswith("flr.audit.") and name not in found]
    text = "".join(found[name] for name in sorted(found))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
