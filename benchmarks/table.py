"""Ratios with their spread, as rows, on a terminal and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cost import FEDAVG, FORWARDS, cost
from benchmarks.machine import Machine
from benchmarks.measurement import Measurement
from flr.core.arrays import write_atomically

PAGE = "table.md"
NOISY = 0.03  # of the machine, used by others: above it times are not to be trusted

Row = dict[str, Any]
Column = tuple[str, Callable[[Row], str]]


@dataclass(frozen=True)
class Spread:
    """A median over repeats, and its range."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class EngineRow:
    """One engine; ratios are to the unit of the same repeat."""

    engine: str
    version: str
    ratio: Spread  # of the round's time
    cpu: Spread | None  # ratio of processor time
    round: float  # seconds
    first_round: float  # seconds from the start of the process
    later: float  # seconds by which its first round ended later than the unit's
    memory: int | None  # bytes at most
    memory_ratio: float | None
    difference: float | None  # of the weights to the unit's; 0: the same bits


@dataclass(frozen=True)
class CostRow:
    """What FLR adds to FedAvg."""

    predictions: str  # server_predictions
    cost: Spread  # in forward passes
    unit: str
    fedavg: float  # seconds of a round
    flr: float
    forwards: float


def spread(values: Iterable[float]) -> Spread:
    """Of at least one value."""
    found = sorted(values)
    return Spread(median(found), found[0], found[-1])


def engine_rows(measured: Sequence[Measurement]) -> list[EngineRow]:
    """One row for each engine, in their order; repeat 0 is for memory alone."""
    names = list(dict.fromkeys(done.engine for done in measured))
    by = {(done.engine, done.repeat): done for done in measured}
    repeats = sorted({done.repeat for done in measured} - {0})
    memory = {name: by[name, 0].memory for name in names}
    base = memory[names[0]]
    rows = []
    for name in names:
        pairs = [(by[name, repeat], by[names[0], repeat]) for repeat in repeats]
        own = memory[name]
        used = [(a.cpu, b.cpu) for a, b in pairs]
        apart = [a.difference for a, _ in pairs]
        rows.append(
            EngineRow(
                engine=name,
                version=pairs[0][0].version,
                ratio=spread(paired(a, b) for a, b in pairs),
                cpu=spread(a / b for a, b in used if a and b) if all(map(all, used)) else None,
                round=median(a.round for a, _ in pairs),
                first_round=median(a.first_round for a, _ in pairs),
                later=median(a.first_round - b.first_round for a, b in pairs),
                memory=own,
                memory_ratio=own / base if own and base else None,
                difference=None if None in apart else max(d for d in apart if d is not None),
            )
        )
    return rows


def paired(engine: Measurement, unit: Measurement) -> float:
    """The middle of the ratios of rounds that were computed one right after the other."""
    return median(ours / theirs for ours, theirs in zip(engine.rounds, unit.rounds, strict=True))


def cost_rows(measured: Sequence[Measurement]) -> list[CostRow]:
    """One row for each form of FLR."""
    repeats: dict[int, dict[str, Measurement]] = {}
    for done in measured:
        repeats.setdefault(done.repeat, {})[done.engine] = done

    def middle(name: str) -> float:
        return median(by_name[name].round for by_name in repeats.values())

    return [
        CostRow(
            predictions=predictions,
            cost=spread(cost(by_name, predictions) for by_name in repeats.values()),
            unit={"steps": "of the same batches", "samples": "of each sample, once a round"}[each],
            fedavg=middle(FEDAVG),
            flr=middle(f"flr, {predictions}"),
            forwards=middle(f"forwards, {each}"),
        )
        for predictions, each in FORWARDS.items()
    ]


def _ranged(value: dict[str, float] | None) -> str:
    if value is None:
        return "-"
    return f"{value['median']:.2f} ({value['low']:.2f}-{value['high']:.2f})"


def _megabytes(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.0f}"


def _weights(difference: float | None) -> str:
    if difference is None:
        return "-"
    return "same" if difference == 0 else f"{difference:.0e}"


SHORT: dict[str, list[Column]] = {
    "engines": [
        ("engine", lambda r: r["engine"]),
        ("ratio (range)", lambda r: _ranged(r["ratio"])),
        ("round s", lambda r: f"{r['round']:.3f}"),
        ("first s", lambda r: f"{r['first_round']:.1f}"),
        ("MB", lambda r: _megabytes(r["memory"])),
        ("CPU", lambda r: "-" if r["cpu"] is None else f"{r['cpu']['median']:.2f}"),
        ("weights", lambda r: _weights(r["difference"])),
    ],
    "cost": [
        ("server_predictions", lambda r: r["predictions"]),
        ("FLR - FedAvg (range)", lambda r: _ranged(r["cost"])),
        ("in forward passes", lambda r: r["unit"]),
    ],
}
SHORT["clients"] = SHORT["engines"][:-1]
SHORT["embedding"] = [*SHORT["engines"][:-1], ("features", SHORT["engines"][-1][1])]

LONG: dict[str, list[Column]] = {
    "engines": [
        *SHORT["engines"][:4],
        ("after the unit's (s)", lambda r: f"{r['later']:+.1f}"),
        SHORT["engines"][4],
        (
            "memory ratio",
            lambda r: "-" if r["memory_ratio"] is None else f"{r['memory_ratio']:.2f}",
        ),
        ("CPU ratio (range)", lambda r: _ranged(r["cpu"])),
        SHORT["engines"][6],
        ("version", lambda r: r["version"]),
    ],
    "cost": [
        *SHORT["cost"],
        ("FedAvg's round (s)", lambda r: f"{r['fedavg']:.3f}"),
        ("FLR's", lambda r: f"{r['flr']:.3f}"),
        ("forward passes", lambda r: f"{r['forwards']:.3f}"),
    ],
}
LONG["clients"] = [*LONG["engines"][:-2], LONG["engines"][-1]]
LONG["embedding"] = [*LONG["engines"][:-2], SHORT["embedding"][-1], LONG["engines"][-1]]


def notes(result: dict[str, Any]) -> list[str]:
    """What the numbers are, and whether they can be trusted."""
    said = [f"Repeats: {result['repeats']}; rounds: {result['rounds']}; seed: {result['seed']}."]
    rows = result["rows"]
    if result["kind"] == "clients" and rows[0]["memory"] is not None:
        more = (rows[-1]["memory"] - rows[0]["memory"]) / 1e6
        said.append(f"{rows[-1]['engine']} take {more:,.0f} MB more than {rows[0]['engine']}.")
    shares = {run["repeat"]: run["others"] for run in result["measured"]}
    others = [share for share in shares.values() if share is not None]
    if not others:
        return [*said, "Memory and the machine's other load are not measured on this system."]
    said.append(
        f"Other processes used {100 * median(others):.1f} % of the cores "
        f"(at most {100 * max(others):.1f} % in a repeat)."
    )
    if max(others) > NOISY:
        said.append("The machine was not quiet: measure again before you believe a ratio.")
    return said


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """A page of all results."""
    parts = ["# Benchmarks\n\n" + EXPLAINED]
    for result in results:
        columns = LONG[result["kind"]]
        lines = [
            f"## `{result['workload']}`",
            "",
            f"{result['what'][0].upper()}{result['what'][1:]}.",
            "",
        ]
        lines.append("| " + " | ".join(head for head, _ in columns) + " |")
        lines.append("|" + " --- |" * len(columns))
        lines += [
            "| " + " | ".join(show(row) for _, show in columns) + " |" for row in result["rows"]
        ]
        lines += ["", " ".join(notes(result)), "", Machine(**result["machine"]).words() + "."]
        lines += ["", "```sh", result["command"], "```", ""]
        parts.append("\n".join(lines))
    return "\n".join(parts)


EXPLAINED = """Ratios are to the first line of a table, the unit, in the same repeat: median and
range over repeats. In a repeat all engines live in fresh processes (in `flr`: as threads of one)
and take turns, round by round; its ratio is the median over all rounds but the first. "First s" is
from the start of a process to the end of its first round, while the others waited. Memory is the
most that it and its descendants had, shared pages counted once (PSS), in MB of 10^6 bytes; it was
looked at in a run that was not timed. "Weights" are compared with the unit's: "same" are the same
bits, a number is their distance as a share of what was learned; so are the features of an
embedding, which is a round there. Written by `python -m benchmarks`.
"""


def save(folder: Path, result: dict[str, Any]) -> list[Path]:
    """Writes the result, and the page of all results in the folder."""
    own, page = folder / f"{result['workload']}.json", folder / PAGE
    write_atomically(own, json.dumps(result, indent=1) + "\n")
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    write_atomically(page, markdown(found))
    return [own, page]
