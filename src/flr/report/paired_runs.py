"""Runs of several methods on the same scenarios, paired: means, differences, 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from flr.config.errors import show
from flr.core.errors import DataError
from flr.report.frames import to_frame
from flr.report.memorization import mean
from flr.report.run_records import RunRecord

if TYPE_CHECKING:
    import pandas as pd

CHOSEN = "chosen"  # the accuracy of the model that held-out labels choose
_NAMES = (".kind", ".name")


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

    def frame(self) -> pd.DataFrame:
        """One row for each method of each group: means, and half-widths of their intervals.

        Example:
            >>> flr.compare(["runs/fedavg-1", "runs/flr-1"]).frame()[["method", "last10"]]
        """
        return to_frame(
            {**dict(_flat(row)), "group": self.groups[row.group - 1]} for row in self.rows
        )


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ in seed and method alone."""

    what: str  # the settings in which it differs from the other groups
    methods: Mapping[str, list[RunRecord]]  # the first one is the reference

    @property
    def name(self) -> str:
        """One of its runs, and what is special about it."""
        folder = str(next(iter(self.methods.values()))[0].folder)
        return f"{folder} ({self.what})" if self.what else folder


def tabulate(runs: Sequence[RunRecord]) -> ComparisonTable:
    """The comparison itself; refuses runs that cannot be paired."""
    rows: list[Row] = []
    groups = grouped(runs)
    for number, group in enumerate(groups, start=1):
        for method, found in group.methods.items():
            rows.append(_row(number, method, found, pairs(group, method)))
    return ComparisonTable(tuple(rows), tuple(group.name for group in groups))


def grouped(runs: Sequence[RunRecord]) -> list[RunGroup]:
    """Runs that can be compared, group by group, by method; refuses what cannot be paired."""
    found = list(_by(runs, lambda run: run.group).values())
    groups = []
    for members, what in zip(found, special([m[0].settings for m in found]), strict=True):
        methods = _methods(members)
        _refuse_repeats(methods)
        _refuse_gaps(methods)
        groups.append(RunGroup(what, methods))
    return groups


def special(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each of several configs has that the others have not, in short words.

    Where kinds differ, of noise for instance, an option is named if namesakes differ in it.
    """
    keys = dict.fromkeys(key for each in settings for key in each)
    values = {key: [each[key] for each in settings if key in each] for key in keys}
    differing = [key for key in keys if any(value != values[key][0] for value in values[key])]
    named = {key.rpartition(".")[0] for key in differing if key.endswith(_NAMES)}
    some = (k for k in keys if len(values[k]) < len(settings) and k.rpartition(".")[0] not in named)
    differing = [*differing, *some]
    lasts = [key.rpartition(".")[2] for key in differing]
    said = {
        key: key.removesuffix(".kind").removesuffix(".name")
        if key.endswith(_NAMES) or lasts.count(last) > 1
        else last
        for key, last in zip(differing, lasts, strict=True)
    }
    return [
        ", ".join(f"{said[key]} = {_plain(each[key])}" for key in differing if key in each)
        for each in settings
    ]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else show(value)


def pairs(group: RunGroup, method: str) -> list[float | None] | None:
    """A method's differences to the first one of its group; the first one has none."""
    ours, first = group.methods[method], next(iter(group.methods.values()))
    return None if ours is first else _pairs(ours, first, group.methods)


def estimate(values: Iterable[float | None]) -> Estimate:
    """Mean and interval of the values that are there: t(0.975, n - 1) * s / sqrt(n)."""
    known = [value for value in values if value is not None]
    from scipy import stats  # a second, which `import flr` does not take

    n, middle = len(known), mean(known)
    deviation = spread(known)
    if middle is None or deviation is None:
        return Estimate(middle, None, n)
    return Estimate(middle, float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n), n)


def spread(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None below two values."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


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
    runs: list[RunRecord], first: list[RunRecord], methods: Mapping[str, list[RunRecord]]
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


def _flat(row: Row) -> Iterator[tuple[str, Any]]:
    """A row by names; an estimate is its mean, with its half-width beside it."""
    values = [(each.name, getattr(row, each.name)) for each in fields(row)]
    more = [item for _, value in values if isinstance(value, Mapping) for item in value.items()]
    for name, value in (*values, *more):
        if isinstance(value, Estimate):
            yield name, value.mean
            yield f"{name}_half", value.half
        elif not isinstance(value, Mapping):
            yield name, value


def _by(runs: Iterable[RunRecord], key: Callable[[RunRecord], Any]) -> dict[Any, list[RunRecord]]:
    """Runs by a key, in order of appearance."""
    found: dict[Any, list[RunRecord]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found
