"""Why rows of methods-on-digits.md are below FedAvg: the runs behind its last sections.

    python -m benchmarks.studies.methods_on_digits runs/digits
    python -m benchmarks.studies.controls_on_digits runs/controls runs/digits

Finished runs are kept.

Every control is measured on a fifth of digits' training samples, with their true labels, which is
held out of all sites, so that nothing is chosen on the test set.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import correlation, mean
from typing import Any
from unittest import mock

import torch
from scipy.stats import spearmanr
from torch import Tensor

from benchmarks.studies.common import markdown_table
from benchmarks.studies.methods_on_digits import NOISES, SCHEDULE, SETTING, parts, train
from flr.config import parse
from flr.core import arrays
from flr.core.contract import Server
from flr.data.dataset import Dataset
from flr.data.sources.digits import Digits
from flr.data.train_test_split import stratified
from flr.methods.fedcorr import FedCorr
from flr.report.paired_runs import estimate
from flr.scenario import scenario
from flr.scenario.truth import Truth
from flr.simulation.api import Run
from flr.simulation.build import load_scenario

SEEDS = (1, 2, 3)
SHARPER = ["em", "fedlsr", "nls", "ts"]
BELOW = {  # in the page's tables; flr+ and flr~gce fail alike under both noises
    "symmetric": [*SHARPER, "feddyn", "flr+", "flr~gce"],
    "asymmetric": [*SHARPER, "coteaching", "er", "fedcorr", "feddyn", "fedrn", "gce", "sce", "slr"],
}
EITHER = sorted({*BELOW["symmetric"], *BELOW["asymmetric"]})
VARIANTS: dict[str, list[Any]] = {  # each turns off what a row is explained by
    "coteaching, forget_rate = 0": [{"name": "coteaching", "forget_rate": 0.0}],
    "em, lam = 1": [{"name": "em", "lam": 1.0}],
    "feddyn, alpha = 0.1": [{"name": "feddyn", "alpha": 0.1}],
    "flr+, CE warm-up": parts("flr+-ce"),
    "flr+, lam = 2": [{"name": "fedcorr", "inner": SCHEDULE | {"lam": 2.0}}],
    "flr~gce, CE warm-up": [{"name": "flr", "warmup": "ce"}, "gce"],
    "flr~gce, lam = 0.5": [SCHEDULE | {"lam": 0.5}, "gce"],
    "flr~gce, lam = 0.1": [SCHEDULE | {"lam": 0.1}, "gce"],
    "gce, no pruning": [{"name": "gce", "truncate": False}],
    "gce, q = 0.3": [{"name": "gce", "q": 0.3}],
    "slr, CE warm-up": [{"name": "slr", "warmup": "ce"}],
}
TOLD = "fedcorr, told which sites are noisy"
SUMMED = "rofl, sum over features"
ASYMMETRIC_ONLY = ("coteaching", "gce", "slr")
TRIED = {
    "symmetric": [name for name in VARIANTS if name.split(",")[0] not in ASYMMETRIC_ONLY],
    "asymmetric": [TOLD, "feddyn, alpha = 0.1"]
    + [name for name in VARIANTS if name.split(",")[0] in ASYMMETRIC_ONLY],
}
PAGE, SLOW, SLOWEST = 0.1, 0.03, 0.01  # learning rates, the first that of the page
FINER = [(PAGE, "none", "nls"), (SLOW, "none", "nls"), (SLOWEST, "symmetric", "ts")]


@dataclass(frozen=True)
class ControlRun:
    """One run."""

    lr: float
    noise: str
    method: str
    seed: int


def main() -> None:
    """Runs what is not there yet and prints Markdown tables; all numbers are percent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("page", type=Path, help="runs of methods_on_digits.py")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, context) as pool:
        list(pool.map(partial(run, arguments.folder), jobs()))
    tables = [make(arguments.folder) for make in (controls, finer, variants)]
    tables += [make(arguments.page) for make in (looks, corrections)]
    for head, rows in tables:
        print(markdown_table(head, rows))


def jobs() -> list[ControlRun]:
    """All runs, the controls one after another."""
    wanted = [
        *((PAGE, noise, method) for noise in NOISES for method in ("rofl", SUMMED)),
        *((PAGE, "none", method) for method in ("fedavg", *EITHER)),
        *(
            (lr, noise, method)
            for noise, below in BELOW.items()
            for method in ("fedavg", *below)
            for lr in (PAGE, SLOW)
        ),
        *((lr, noise, name) for lr, noise, method in FINER[1:] for name in ("fedavg", method)),
        *((PAGE, noise, variant) for noise, tried in TRIED.items() for variant in tried),
    ]
    return [ControlRun(*one, seed) for one in wanted for seed in SEEDS]


def run(root: Path, job: ControlRun) -> None:
    """One job, unless it is done."""
    noise = NOISES.get(job.noise, {"kind": "none"})
    method = VARIANTS.get(job.method, parts(job.method.split(",")[0]))
    out = folder(root, job)
    setting = {"workers": 1, "train": SETTING["train"] | {"lr": job.lr}}
    with patched(job.method):
        train(method, noise, job.seed, out, held_out(), **setting)


def folder(root: Path, job: ControlRun) -> Path:
    """Where a run lies."""
    return root / f"lr {job.lr}" / job.noise / f"{job.method}-{job.seed}"


def patched(method: str) -> AbstractContextManager[Any]:
    """What no option of a method does."""
    if method == SUMMED:
        return mock.patch("flr.methods.rofl.centroid_loss", summed_over_features)
    if method == TOLD:
        return mock.patch("flr.methods.fedcorr.FedCorr.divide", divide_by_truth)
    return nullcontext()


def held_out() -> Dataset:
    """Digits with a fixed, stratified fifth of the training samples in place of the test set."""
    digits = Digits().load()
    fit, rest = (torch.from_numpy(part) for part in stratified(digits.train.y.numpy()))
    return replace(digits, train=digits.train[fit], test=digits.train[rest])


def summed_over_features(features: Tensor, f_k: Tensor, y: Tensor, mask: Tensor, _: str) -> Tensor:
    """RoFL's centroid term as a mean over samples alone."""
    return (mask[:, None] * (features - f_k[y]).square()).sum(1).mean()


def divide_by_truth(_: FedCorr, s: Server) -> None:
    """FedCorr.divide with the true set of noisy sites, at the levels that they reported."""
    config = parse(SETTING | {"seed": s.seed, "noise": NOISES["asymmetric"], "method": "fedcorr"})
    noisy = torch.tensor(load_scenario(config, held_out()).nominal) > 0
    s.state["fedcorr.noisy"] = noisy
    s.state["fedcorr.level"] = s.state["fedcorr.reported"] * noisy
    s.state["fedcorr.due"] = torch.tensor(1)


def controls(root: Path) -> tuple[list[str], list[list[str]]]:
    """Held-out accuracy in each control, and the difference to FedAvg."""
    rows = []
    for method in ("fedavg", *EITHER):
        cells = [f"`{method}`", with_difference(root, (PAGE,), "none", method)]
        for noise, below in BELOW.items():
            shown = method in ("fedavg", *below)
            cells.append(with_difference(root, (PAGE, SLOW), noise, method) if shown else "")
        rows.append(cells)
    return ["method", "no noise", *(f"{noise}, lr {PAGE} / {SLOW}" for noise in BELOW)], rows


def finer(root: Path) -> tuple[list[str], list[list[str]]]:
    """Both methods at one more learning rate, where two do not tell, with the norms of weights."""
    rows = []
    for lr, noise, method in FINER:
        cells = [f"`{method}`", noise, str(lr), with_difference(root, (lr,), noise, method)]
        for name in (method, "fedavg"):
            found = [Run(folder(root, ControlRun(lr, noise, name, seed))) for seed in SEEDS]
            cells.append(f"{mean(weight_norm(run) for run in found):.0f}")
        rows.append(cells)
    return ["method", "noise", "lr", "accuracy", "norm", "FedAvg's"], rows


def with_difference(root: Path, rates: Sequence[float], noise: str, method: str) -> str:
    """Means at the learning rates; the difference to FedAvg, each at the better of its own."""
    mine, theirs = (
        [accuracies(root, lr, noise, name) for lr in rates] for name in (method, "fedavg")
    )
    means = " / ".join(f"{100 * mean(values):.1f}" for values in mine)
    if method == "fedavg":
        return means
    return f"{means} ({words(max(mine, key=sum), max(theirs, key=sum))})"


def variants(root: Path) -> tuple[list[str], list[list[str]]]:
    """Each variant beside the method as it is and beside FedAvg, seed by seed."""
    rows = []
    for noise in NOISES:
        for variant in (SUMMED, *TRIED[noise]):
            names = (variant, variant.split(",")[0], "fedavg")
            found = [accuracies(root, PAGE, noise, name) for name in names]
            cells = [", ".join(f"{100 * value:.1f}" for value in values) for values in found]
            rows.append([variant, noise, *cells, words(found[0], found[2])])
    return ["variant", "noise", "accuracy", "as it is", "FedAvg", "difference to FedAvg"], rows


def accuracies(root: Path, lr: float, noise: str, method: str) -> list[float]:
    """Held-out accuracy over the last ten rounds, for each seed."""
    runs = [Run(folder(root, ControlRun(lr, noise, method, seed))) for seed in SEEDS]
    return [run.summary["accuracy"]["last10"] for run in runs]


def words(mine: list[float], theirs: list[float]) -> str:
    """Mean and interval of paired differences."""
    found = estimate(a - b for a, b in zip(mine, theirs, strict=True))
    return f"{100 * (found.mean or 0):+.1f} ± {100 * (found.half or 0):.1f}"


def looks(page: Path) -> tuple[list[str], list[list[str]]]:
    """What the page's runs did in their last ten rounds."""
    rows = []
    for method in ("fedavg", *EITHER):
        cells = [f"`{method}`"]
        for noise in NOISES:
            runs = [Run(page / noise / f"{method}-{seed}") for seed in SEEDS]
            seen = [run.summary["memorization"]["last10"]["server"] for run in runs]
            cells.append(f"{100 * mean(part['noisy_memorized'] for part in seen):.1f}")
            cells.append(f"{mean(weight_norm(run) for run in runs):.0f}")
            cells.append(f"{mean(sway(run) for run in runs):.2f}")
        rows.append(cells)
    parts = ("memorized", "norm", "correlation")
    return ["method", *(f"{noise}: {part}" for noise in NOISES for part in parts)], rows


def weight_norm(run: Run) -> float:
    """The norm of all parameters of the last model."""
    model, _ = arrays.load(run.folder / "model.safetensors")
    return float(torch.cat([value.flatten() for value in model.values()]).norm())


def sway(run: Run) -> float:
    """How accuracy goes with the share of wrong labels at the sites asked, last ten rounds."""
    rates = {site["client"]: site["realised"] for site in run.summary["noise"]["per_client"]}
    last = run.metrics[-10:]
    wrong = [mean(rates[client] for client in line["participants"]) for line in last]
    reached = [line["accuracy"] for line in last]
    return correlation(wrong, reached) if len(set(reached)) > 1 else 0.0


def corrections(page: Path) -> tuple[list[str], list[list[str]]]:
    """Which sites FedCorr took for noisy, and what its corrections did to their labels."""
    rows = []
    for noise in NOISES:
        for seed in SEEDS:
            folder = page / noise / f"fedcorr-{seed}"
            truth = Truth.of(scenario.load(folder / "scenario.safetensors"), Digits().load())
            state, _ = arrays.load(next((folder / "checkpoint").glob("*.safetensors")))
            noisy, called = truth.realised > 0, state["state.fedcorr.noisy"]
            after = torch.cat([corrected_labels(folder, site) for site in range(len(noisy))])
            true, given = truth.true.flat, truth.given.flat
            counts = [noisy.sum(), (called & noisy).sum(), (called & ~noisy).sum()]
            counts += [(given != true).sum(), ((given != true) & (after == true)).sum()]
            counts += [((given == true) & (after != true)).sum()]
            rank = spearmanr(state["state.fedcorr.lid"], truth.realised).statistic
            rows.append([noise, str(seed), *(str(int(count)) for count in counts), f"{rank:.2f}"])
    head = ["noise", "seed", "noisy sites", "of them found", "clean ones taken for noisy"]
    return [*head, "wrong labels", "corrected", "right ones spoilt", "LID with noise"], rows


def corrected_labels(folder: Path, site: int) -> Tensor:
    """A site's labels at the end of a run of FedCorr."""
    state, _ = arrays.load(
        next((folder / "checkpoint" / "state" / str(site)).glob("*.safetensors"))
    )
    return state["fedcorr.labels"]


if __name__ == "__main__":
    main()
