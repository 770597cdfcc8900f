"""A run in one small file: what was reached, what was memorized, on which noise, at what cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flr.arrays import write_atomically
from flr.errors import DataError
from flr.report.diary import LAST
from flr.report.memorization import KEYS, mean, mean_fractions
from flr.report.rates import NoiseRates

NAME = "summary.json"
SIDES = ("server", "client", "client_noisy")
LISTED = 1000  # more clients than this are not listed one by one


@dataclass(frozen=True)
class Facts:
    """What the lines of metrics do not say about a run."""

    method: str
    seed: int
    rounds: int
    scenario: str  # hash
    noise: NoiseRates
    seconds: float
    attack: dict[str, Any] | None = None  # kind, settings and attackers


def summarise(metrics: Sequence[dict[str, Any]], facts: Facts) -> dict[str, Any]:
    """The content of `summary.json`; made from the lines, so a resumed run gives the same."""
    return {
        "method": facts.method,
        "seed": facts.seed,
        "rounds": facts.rounds,
        "scenario": facts.scenario,
        "accuracy": _accuracy(metrics),
        "memorization": _memorization(metrics),
        "noise": _noise(facts.noise),
        "attack": facts.attack,
        "seconds": facts.seconds,
        "bytes": {
            "up": sum(line["bytes_up"] for line in metrics),
            "down": sum(line["bytes_down"] for line in metrics),
        },
        "dropped": sum(len(line["dropped"]) for line in metrics),
        "refused": sum(len(line["refused"]) for line in metrics),
    }


def save(folder: Path, summary: dict[str, Any]) -> Path:
    """Writes `summary.json` into a run folder."""
    path = folder / NAME
    write_atomically(
        path, json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    )
    return path


def load(folder: Path) -> dict[str, Any]:
    """Reads the summary of a finished run."""
    path = folder / NAME
    try:
        summary: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(
            f"Expected a finished run in {folder}; it has no {NAME}. "
            f"Check the path, or finish the run: flr resume {folder}"
        ) from None
    except (ValueError, OSError) as error:
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
        sides = [part[side] for part in _both(summary["memorization"]) for side in SIDES]
        numbers += [found[key] for found in sides for key in KEYS]
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


def _both(memorization: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return memorization, memorization["last10"]


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
    sites = list(zip(noise.site_nominal, noise.site_realised, strict=True))
    per_client = [{"client": k, "nominal": n, "realised": r} for k, (n, r) in enumerate(sites)]
    return {
        "nominal": noise.nominal,
        "realised": noise.realised,
        "per_client": per_client if len(sites) <= LISTED else None,
    }
