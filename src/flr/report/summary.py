"""A run in one small file: what was reached, what was memorized, on which noise, at what cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from torch import Tensor

from flr.core import seal
from flr.core.arrays import write_atomically
from flr.core.errors import DataError
from flr.data.dataset import Ragged, SiteTable
from flr.report.memorization import KEYS, mean, mean_fractions
from flr.report.metrics import last_and_last10
from flr.report.recorder import LAST
from flr.report.remarks import remarks

NAME = "summary.json"
SIDES = ("server", "client", "client_noisy")
LISTED = 1000  # more clients than this are not listed one by one


@dataclass(frozen=True)
class NoiseRates:
    """Nominal and realised rates, overall (each sample counts once) and of each site."""

    nominal: float | None
    realised: float | None
    site_nominal: tuple[float | None, ...]
    site_realised: tuple[float | None, ...]  # None for a site without samples


def noise_rates(table: SiteTable, true: Sequence[Tensor], nominal: Sequence[float]) -> NoiseRates:
    """Compares the given labels of every site with the true ones."""
    truth, given = Ragged.of(true).flat, table.given
    if len(truth) != len(given.flat) or len(nominal) != len(table):
        raise DataError(
            f"Expected true labels for {len(given.flat)} samples and noise rates for "
            f"{len(table)} sites; got {len(truth)} and {len(nominal)}. The scenario and its "
            "true labels do not belong together; make the scenario again."
        )
    wrong, sizes = given.sums(given.flat != truth).tolist(), given.sizes.tolist()
    total = sum(sizes)
    return NoiseRates(
        nominal=sum(r * n for r, n in zip(nominal, sizes, strict=True)) / total if total else None,
        realised=sum(wrong) / total if total else None,
        site_nominal=tuple(float(rate) for rate in nominal),
        site_realised=tuple(w / n if n else None for w, n in zip(wrong, sizes, strict=True)),
    )


def summarize(
    metrics: Sequence[dict[str, Any]],
    *,
    method: str,
    seed: int,
    rounds: int,
    scenario: str,
    noise: NoiseRates,
    attack: dict[str, Any] | None = None,
    selects: bool = False,
    commonest: float | None = None,
    largest: float | None = None,
    planned: int | None = None,
) -> dict[str, Any]:
    """The content of `summary.json`; made from the lines, so a resumed run gives the same.

    `scenario` is its hash, `attack` its kind, settings and attackers; `selects` says whether the
    model is that of the best round by held-out labels. `commonest` is the share of the test set's
    commonest class, `largest` the model's largest weight. `rounds` are those that were trained,
    of so many `planned`.
    """
    accuracy = {**_accuracy(metrics), "commonest": commonest}
    measured = [line["metrics"] for line in metrics if "metrics" in line]
    late = [line["metrics"] for line in _last(metrics) if "metrics" in line]
    return {
        "method": method,
        "seed": seed,
        "rounds": rounds,
        "scenario": scenario,
        "accuracy": accuracy,
        "metrics": _listed(last_and_last10(measured, late)),
        "selection": _selection(metrics, accuracy, selects, planned),
        "remarks": remarks(accuracy, largest),
        "memorization": _memorization(metrics),
        "noise": _noise(noise),
        "attack": attack,
        "seconds": sum(line["seconds"] for line in metrics),
        "bytes": {
            "up": sum(line["bytes_up"] for line in metrics),
            "down": sum(line["bytes_down"] for line in metrics),
        },
        "dropped": sum(len(line["dropped"]) for line in metrics),
        "refused": sum(len(line["refused"]) for line in metrics),
    }


def save(folder: Path, summary: dict[str, Any]) -> Path:
    """Writes `summary.json` into a run folder."""
    text = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False)
    write_atomically(folder / NAME, text + "\n", sync=True)
    return folder / NAME


def load(folder: Path) -> dict[str, Any]:
    """Reads the summary of a finished run."""
    path = folder / NAME
    seal.check(path, f"write it again: flr resume {folder}")
    try:
        summary: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"Expected a finished run in {folder}; it has no {NAME}. "
            f"Check the path, or finish the run: flr resume {folder}"
        ) from None
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(
            f"Expected the summary of a run in {path}; it cannot be read ({error}). "
            f"Write it again: flr resume {folder}"
        ) from error
    if not complete(summary):
        raise DataError(
            f"Expected a summary as flr writes it in {path}; parts of it are missing or of another "
            f"kind. Write it again: flr resume {folder}"
        )
    return summary


def complete(summary: dict[str, Any]) -> bool:
    """Whether every number that reports read is there."""
    try:
        numbers = [summary["accuracy"][key] for key in ("best", "best_round", "last", "last10")]
        numbers += summary["accuracy"]["per_class"].values()
        numbers += [summary["noise"][key] for key in ("nominal", "realised")]
        whole = summary["memorization"]
        numbers += [
            p[side][key] for p in (whole, whole["last10"]) for side in SIDES for key in KEYS
        ]
        counts = [summary[key] for key in ("seed", "rounds", "seconds", "dropped", "refused")]
        counts += summary["bytes"]["up"], summary["bytes"]["down"]
        words = [summary["method"], summary["scenario"]]
    except (KeyError, TypeError, AttributeError):
        return False
    return (
        all(value is None or isinstance(value, int | float) for value in numbers)
        and all(isinstance(value, int | float) for value in counts)
        and all(isinstance(value, str) for value in words)
        and "per_client" in summary["noise"]
    )


def _accuracy(metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    measured = [line for line in metrics if line.get("accuracy") is not None]
    if not measured:
        return {"best": None, "best_round": None, "last": None, "last10": None, "per_class": {}}
    best = max(measured, key=lambda line: line["accuracy"])  # the first of equal ones
    return {
        "best": best["accuracy"],
        "best_round": best["round"],
        "last": measured[-1]["accuracy"],
        "last10": mean(line.get("accuracy") for line in _last(metrics)),
        "per_class": measured[-1]["accuracy_per_class"],
    }


def _selection(
    metrics: Sequence[dict[str, Any]], accuracy: dict[str, Any], selects: bool, planned: int | None
) -> dict[str, Any] | None:
    """The best round by held-out labels, and what it costs against the best by the test set."""
    scored = [line for line in metrics if "validation" in line]
    if not scored:
        return None
    best = max(scored, key=lambda line: _share(line["validation"]))  # the first of equal ones
    reached = best.get("accuracy")
    known = reached is not None
    return {
        "kept": "validation" if selects else "last",
        "planned": planned,
        "round": best["round"],
        "score": best["validation"]["accuracy"],
        "samples": best["validation"]["samples"],
        "accuracy": reached,
        "cost": accuracy["best"] - reached if known else None,
        "gain": reached - accuracy["last"] if known else None,
    }


def _share(counts: dict[str, Any]) -> Fraction:
    """Exact, so that equal ones are equal."""
    return Fraction(counts["right"], counts["samples"])


def _listed(measured: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers of each site where there are too many sites."""
    return {
        name: {k: None if isinstance(v, list) and len(v) > LISTED else v for k, v in both.items()}
        for name, both in measured.items()
    }


def _memorization(metrics: Sequence[dict[str, Any]]) -> dict[str, Any]:
    measured = [line["memorization"] for line in metrics if "memorization" in line]
    last = [line["memorization"] for line in _last(metrics) if "memorization" in line]
    nothing = dict.fromkeys(KEYS)
    return {
        **{side: measured[-1][side] if measured else nothing for side in SIDES},
        "last10": {side: mean_fractions(found[side] for found in last) for side in SIDES},
    }


def _last(metrics: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in metrics if line["round"] > metrics[-1]["round"] - LAST]


def _noise(noise: NoiseRates) -> dict[str, Any]:
    sites = enumerate(zip(noise.site_nominal, noise.site_realised, strict=True))
    per_client = [{"client": k, "nominal": n, "realised": r} for k, (n, r) in sites]
    return {
        "nominal": noise.nominal,
        "realised": noise.realised,
        "per_client": per_client if len(per_client) <= LISTED else None,
    }
