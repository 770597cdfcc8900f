"""A comparison by any numbers of a run's summary, with intervals or standard deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flr.core.errors import ConfigError
from flr.core.registry import nearest
from flr.report import table as tables
from flr.report.paired_runs import Estimate, RunGroup, estimate, pairs, spread
from flr.report.table import Table

SHORT = {  # for what is asked for most
    "best": "accuracy.best",
    "last": "accuracy.last",
    "last10": "accuracy.last10",
    "server": "memorization.server.noisy_memorized",
    "client": "memorization.client.noisy_memorized",
}
DIFFERENCE = "difference"
USUAL = (*SHORT, DIFFERENCE)
_PLAIN = ("seconds", "bytes", "dropped", "refused", "rounds", "seed")  # are no shares
_LESS = ("memorized", "wrong", "error", "seconds", "bytes")  # is better


def numbers(groups: Sequence[RunGroup], columns: Sequence[str], *, std: bool) -> Table:
    """Fractions in full precision, for programs."""
    second = "std" if std else "half"
    heads = ["group", "method", "n"]
    heads += [f"{name}{part}" for name in columns for part in ("", f"_{second}")]
    rows = []
    for group in groups:
        for method, runs in group.methods.items():
            found = [_both(group, method, name, std) for name in columns]
            exact = ["" if v is None else str(v) for both in found for v in both]
            rows.append([group.what, method, str(len(runs)), *exact])
    return Table(heads, rows)


def table(groups: Sequence[RunGroup], columns: Sequence[str], *, std: bool) -> Table:
    """In percent, for people; the best of a group's column is bold."""
    several = len(groups) > 1
    rows: list[list[str]] = []
    bold, rules = set(), []
    for group in groups:
        rules.append(len(rows))
        found = {m: [_both(group, m, name, std) for name in columns] for m in group.methods}
        for method, both in found.items():
            for column, name in enumerate(columns):
                if _is_best(name, both[column][0], [each[column][0] for each in found.values()]):
                    bold.add((len(rows), column + 2 + several))
            cells = [_said(name, *each) for name, each in zip(columns, both, strict=True)]
            first = len(rows) == rules[-1]
            own = [group.what if first else ""] if several else []
            rows.append([*own, method, str(len(group.methods[method])), *cells])
    heads = [*(["group"] if several else []), "method", "n", *columns]
    plus = "standard deviation over runs" if std else "half-width of the 95 % t-interval"
    caption = f"Shares in %. ±: {plus}, from two runs on. Bold: the best mean."
    if DIFFERENCE in columns:
        caption += " Difference: accuracy of the last 10 rounds minus the first method's, paired."
    return Table(heads, rows, caption, "ll" if several else "l", rules[1:], bold)


def to_csv(groups: Sequence[RunGroup], columns: Sequence[str], *, std: bool) -> str:
    """The exact numbers as a file has them."""
    return tables.to_csv(numbers(groups, columns, std=std))


def _both(group: RunGroup, method: str, name: str, std: bool) -> tuple[float | None, float | None]:
    """Mean, and half-width or standard deviation."""
    if name == DIFFERENCE:
        values = pairs(group, method) or []
    else:
        values = [value_of(run.summary, name) for run in group.methods[method]]
    known = [value for value in values if value is not None]
    found: Estimate = estimate(known)
    return found.mean, spread(known) if std else found.half


def value_of(summary: Mapping[str, Any], name: str) -> float | None:
    """A number of a summary by its short name or its path; None where it was not measured."""
    value: Any = summary
    path = SHORT.get(name, name).split(".")
    for number, key in enumerate(path):
        if not isinstance(value, Mapping) or key not in value:
            known = [*SHORT, DIFFERENCE] if number == 0 else []
            known += list(value) if isinstance(value, Mapping) else []
            raise ConfigError(
                f'Expected columns of numbers in summary.json; "{name}" is none.'
                f"{nearest(key, known)} Use {', '.join(USUAL)}, or a path such as "
                "memorization.last10.client.noisy_memorized."
            )
        value = value[key]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(
            f'Expected columns of numbers in summary.json; "{name}" is a '
            f"{type(value).__name__}. Name a number in it, as in accuracy.last10."
        )
    return value


def _is_best(name: str, value: float | None, column: Sequence[float | None]) -> bool:
    known = [each for each in column if each is not None]
    if value is None or len(known) < 2:
        return False
    less = any(word in SHORT.get(name, name) for word in _LESS)
    return value == (min(known) if less else max(known))


def _said(name: str, mean: float | None, second: float | None) -> str:
    if mean is None:
        return "–"
    times = 1 if SHORT.get(name, name).startswith(_PLAIN) else 100
    text = f"{times * mean:{'+' if name == DIFFERENCE else ''}.1f}"
    return text if second is None else f"{text} ± {times * second:.1f}"
