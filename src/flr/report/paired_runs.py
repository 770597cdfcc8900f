"""Runs of several methods on the same scenarios, paired: means, differences, 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import stats

from flr import config
from flr.core import seal
from flr.core.arrays import canonical_json
from flr.core.errors import DataError
from flr.report import summary
from flr.report.memorization import mean
from flr.scenario import scenario

SCENARIO = "scenario.safetensors"
CHOSEN = "chosen"  # the accuracy of the model that held-out labels choose


@dataclass(frozen=True)
class RunRecord:
    """A finished run, as far as a comparison looks at it."""

    folder: Path
    method: str
    options: tuple[tuple[str, str], ...]  # the method's settings
    seed: int
    group: str  # what the config says besides seed and method
    scenario: str
    summary: dict[str, Any]


@dataclass(frozen=True)
class Estimate:
    """A mean over n values and the half-width of its 95 % t-interval (None below two values)."""

    mean: float | None
    half: float | None
    n: int


@dataclass(frozen=True)
class Row:
    """One method of one group; fractions, not percent."""

    group: int  # counts from 1
    method: str
    n: int
    best: Estimate
    last: Estimate
    last10: Estimate
    server: Estimate  # memorized, last round
    server_last10: Estimate  # the mean of the last ten: a single round's is chaotic
    client: Estimate
    client_last10: Estimate
    difference: Estimate | None  # of last10 to the group's first method, paired; None for itself
    measures: Mapping[str, Estimate] = field(default_factory=dict)  # what the runs have besides


@dataclass(frozen=True)
class ComparisonTable:
    """All methods, group by group; `groups` names each group by one of its runs."""

    rows: tuple[Row, ...]
    groups: tuple[str, ...]


def read_run(folder: Path) -> RunRecord:
    """The config and the summary of a finished run."""
    path = folder / "config.toml"
    if not path.is_file():
        raise DataError(
            f"Expected a run folder at {folder}; it has no config.toml. "
            "Give folders that flr run or flr demo wrote (of a demo: its sub-folders)."
        )
    for name in (path.name, SCENARIO):
        seal.check(folder / name)
    found, settings = summary.load(folder), config.load_run(folder, code=False)
    options = [item for part in settings.method for item in part.options.items()]
    made_by = [settings.partition.table("kind"), settings.noise.table("kind"), None]
    if settings.scenario.path is not None:
        spec = scenario.load(folder / SCENARIO).spec
        made_by = [spec.get(name) for name in ("partition", "noise", "attack")]
    return RunRecord(
        folder=folder,
        method=settings.label,
        options=tuple((name, str(value)) for name, value in options),
        seed=settings.seed,
        group=canonical_json([settings.group_key(), made_by]),
        scenario=found["scenario"],
        summary=found,
    )


def tabulate(runs: Sequence[RunRecord]) -> ComparisonTable:
    """The comparison itself; refuses runs that cannot be paired."""
    rows: list[Row] = []
    groups = _by(runs, lambda run: run.group)
    for number, members in enumerate(groups.values(), start=1):
        methods = _methods(members)
        _refuse_repeats(methods)
        _refuse_gaps(methods)
        first = next(iter(methods.values()))
        rows += [
            _row(number, method, found, None if found is first else _pairs(found, first, methods))
            for method, found in methods.items()
        ]
    return ComparisonTable(
        tuple(rows), tuple(str(members[0].folder) for members in groups.values())
    )


def estimate(values: Iterable[float | None]) -> Estimate:
    """Mean and interval of the values that are there: t(0.975, n - 1) * s / sqrt(n)."""
    known = [value for value in values if value is not None]
    n, middle = len(known), mean(known)
    if middle is None or n < 2:
        return Estimate(middle, None, n)
    deviation = math.sqrt(math.fsum((value - middle) ** 2 for value in known) / (n - 1))
    return Estimate(middle, float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n), n)


def _methods(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Runs by method; where one name came with several settings, these become part of it."""
    found: dict[str, list[RunRecord]] = {}
    for label, same in _by(runs, lambda run: run.method).items():
        variants = _by(same, lambda run: run.options)
        shared = set.intersection(*(set(options) for options in variants))
        for options, members in variants.items():
            own = ", ".join(
                f"{name}={value}" for name, value in options if (name, value) not in shared
            )
            found[f"{label} ({own})" if own else label] = members
    return found


def _row(group: int, method: str, runs: list[RunRecord], pairs: list[float | None] | None) -> Row:
    accuracy = [run.summary["accuracy"] for run in runs]
    memorization = [run.summary["memorization"] for run in runs]
    looks = {"": memorization, "_last10": [found["last10"] for found in memorization]}
    return Row(
        group=group,
        method=method,
        n=len(runs),
        best=estimate(found["best"] for found in accuracy),
        last=estimate(found["last"] for found in accuracy),
        last10=estimate(found["last10"] for found in accuracy),
        difference=None if pairs is None else estimate(pairs),
        measures=_measures([run.summary for run in runs]),
        **{
            f"{side}{name}": estimate(found[side]["noisy_memorized"] for found in each)
            for name, each in looks.items()
            for side in ("server", "client")
        },
    )


def _measures(summaries: Sequence[dict[str, Any]]) -> dict[str, Estimate]:
    """The chosen model's accuracy and the metrics that every run has, means of the last ten."""
    found: dict[str, Estimate] = {}
    chosen = [one.get("selection") for one in summaries]
    if all(chosen):
        found[CHOSEN] = estimate(one["accuracy"] for one in chosen if one is not None)
    every = [one.get("metrics") or {} for one in summaries]
    for name in every[0]:
        values = [one.get(name, {}).get("last10") for one in every]
        if not any(isinstance(value, list) for value in values):  # one for each site
            found[name] = estimate(values)
    return found


def _pairs(
    runs: list[RunRecord], first: list[RunRecord], methods: dict[str, list[RunRecord]]
) -> list[float | None]:
    """Differences of last10: run by run where the seeds agree too, else scenario by scenario."""
    units = [{(run.scenario, run.seed) for run in found} for found in methods.values()]
    same_seeds = all(unit == units[0] for unit in units)

    def last10(runs: list[RunRecord]) -> dict[Any, float | None]:
        by_unit = _by(runs, lambda run: (run.scenario, run.seed) if same_seeds else run.scenario)
        return {
            unit: mean(run.summary["accuracy"]["last10"] for run in found)
            for unit, found in by_unit.items()
        }

    ours = last10(runs)
    pairs = [(ours[unit], theirs) for unit, theirs in last10(first).items()]
    return [None if a is None or b is None else a - b for a, b in pairs]


def _refuse_repeats(methods: dict[str, list[RunRecord]]) -> None:
    for method, runs in methods.items():
        for same in _by(runs, lambda run: (run.scenario, run.seed)).values():
            if len(same) > 1:
                raise DataError(
                    f'Expected one run of method "{method}" for each scenario and seed; '
                    f"{' and '.join(str(run.folder) for run in same)} share scenario "
                    f"{same[0].scenario[:12]} and seed {same[0].seed}. Leave all but one out."
                )


def _refuse_gaps(methods: dict[str, list[RunRecord]]) -> None:
    """Every gap at once: which method lacks which scenario, and a run that has it."""
    holders = _by([run for runs in methods.values() for run in runs], lambda run: run.scenario)
    gaps = []
    for method, runs in methods.items():
        names = [str(run.folder) for run in runs]
        names[3:] = [f"and {len(names) - 3} more"] if len(names) > 3 else []
        gaps += [
            f'"{method}" ({", ".join(names)}) lacks scenario {scenario[:12]} '
            f"(which {owners[0].folder} has)"
            for scenario, owners in holders.items()
            if all(run.scenario != scenario for run in runs)
        ]
    if gaps:
        raise DataError(
            f"Expected every method on the same scenarios; {'; '.join(gaps)}. "
            "Run the missing ones with the same seed and config, or leave the others out."
        )


def _by(runs: Iterable[RunRecord], key: Callable[[RunRecord], Any]) -> dict[Any, list[RunRecord]]:
    """Runs by a key, in order of appearance."""
    found: dict[Any, list[RunRecord]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found
