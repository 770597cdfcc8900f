"""Audit, correct, relabel, retrain: does it pay? The cells behind audit-round-trip.md.

    export FLR_DATA=...                                         # CIFAR-10 and CIFAR-10N
    python -m benchmarks.studies.audit_round_trip runs/audit    # finished runs and cells are kept
    python -m benchmarks.studies.audit_round_trip --write       # the page again, from the cells

Every site reviews so many of its labels, in the audit's order or in any order. The reviewer is a
script that knows the truth: it accepts the true class where the given label is wrong, and keeps the
label where it is right. Its decisions go through corrections.csv and `flr relabel`, as a person's.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.studies.audit_arms import provenance, sites_of
from benchmarks.studies.audit_comparison import ROUNDS, CellSpec, images, say
from benchmarks.studies.audit_page import joined, percent, rounded
from benchmarks.studies.common import markdown_table, trained
from benchmarks.studies.methods_on_digits import NOISES, SETTING
from flr.audit.evidence import Evidence
from flr.audit.findings import Audit, audit
from flr.audit.labels_file import CORRECTIONS, as_csv, read_labels, write_labels
from flr.audit.relabel import relabel
from flr.core import seeds
from flr.core.arrays import write_atomically
from flr.data.dataset import Dataset, Ragged
from flr.data.sources.digits import Digits
from flr.scenario import scenario as scenarios
from flr.scenario.scenario import Scenario
from flr.scenario.truth import Truth
from flr.simulation.api import Run

CELLS, PAGE = RESULTS / "audit-cells", RESULTS / "audit-round-trip.md"
TITLES = {"worst": "CIFAR-10N, worst", "digits": "digits, symmetric"}
BUDGETS = (0.1, 0.3)  # shares of each site's labels that are looked at
SEEDS = (1, 2, 3)
FORMAT = 1

PROSE = """\
# Audit, correct, relabel, retrain

A federation trains FLR on wrong labels. Each site audits its labels and reviews the first 10 or 30
percent of them, in the audit's order. The reviewer is a script that knows the truth: it accepts
the true class where the label is wrong (whatever the audit suggests) and keeps it where it is
right; the decisions go through `corrections.csv` and `flr relabel`. Then the same federation is
trained again from the beginning, with the same seed. Beside it: the same number of labels reviewed
in random order, and all labels right, which is the ceiling. CIFAR-10N is the row of
[the comparison](audit.md); digits is the setting of [every method on digits](methods-on-digits.md).

Numbers are percent, mean ± half-width of the 95 % t-interval over seeds {seeds}; accuracy is that
on the test set, mean of the last ten rounds. Made on {made} at {revision} on {machine}:

```sh
export FLR_DATA=...                                       # CIFAR-10 and CIFAR-10N
python -m benchmarks.studies.audit_round_trip runs/audit        # finished cells are kept
```
"""


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """One data set with one seed."""

    name: str
    seed: int
    folder: Path
    dataset: Dataset
    config: dict[str, Any]

    def retrain(self, arm: str, given: Tensor, scenario: Scenario) -> Run:
        """The same federation with other labels; their hash tells reviews of one name apart."""
        changed = replace(scenario, given=Ragged(given, scenario.sizes))
        folder = self.folder / f"{arm}-{changed.hash[:8]}"
        path = folder.with_suffix(".safetensors")
        changed.save(path)
        config = {k: v for k, v in self.config.items() if k not in ("partition", "noise")}
        config["scenario"] = {"path": str(path)}
        return trained(folder, config, self.dataset)


def main() -> None:
    """Does what is not there yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/audit"))
    parser.add_argument("--names", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rounds", type=int, help="fewer, to try it out")
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--write", action="store_true", help="only write the page again")
    asked = parser.parse_args()
    for seed in [] if asked.write else asked.seeds:
        for name in asked.names:
            path = asked.cells / f"round-trip-{name}-{seed}.json"
            if not path.exists():
                cell = travel(trip(name, seed, asked.rounds, asked.folder))
                write_atomically(path, json.dumps(rounded(cell), separators=(",", ":")) + "\n")
                say(f"{name}, seed {seed}: done")
    found = sorted(asked.cells.glob("round-trip-*.json"))
    write_atomically(asked.page, page([json.loads(path.read_bytes()) for path in found]))


def trip(name: str, seed: int, rounds: int | None, folder: Path) -> RoundTrip:
    """CIFAR-10N goes on from the comparison's run of FLR; digits is trained here."""
    folder = folder / f"{name}-{seed}"
    if name == "worst":
        job = CellSpec(name, seed, rounds or ROUNDS, folder)
        return RoundTrip(name, seed, folder, images(), job.config("flr"))
    rounds = rounds or SETTING["rounds"]
    looks = {"every": rounds, "memorization_every": 0}
    own = {"seed": seed, "rounds": rounds, "method": "flr", "noise": NOISES["symmetric"]}
    return RoundTrip(name, seed, folder, Digits().load(), SETTING | own | {"eval": looks})


def travel(trip: RoundTrip) -> dict[str, Any]:
    """One cell: before, after each review, and with all labels right."""
    before = trained(trip.folder / "flr", trip.config, trip.dataset)
    scenario = scenarios.load(before.folder / "scenario.safetensors")
    truth = Truth.of(scenario, trip.dataset)
    sites = sites_of(before.folder, trip.dataset)
    audits = {client: audit(site) for client, site in sites.items()}
    arms = {"before": facts(before, truth, scenario.labels, 0)}
    for share in BUDGETS:
        for order in (by_audit, at_random):
            arm = f"{order.__name__}-{round(100 * share)}"
            parts, seen = [], 0
            for client, site in sites.items():
                rows = order(trip.seed, audits[client], max(1, round(share * len(site))))
                decided = decisions(site, rows, truth.true[client], audits[client].key)
                parts.append(relabelled(site, decided, trip.folder / f"review-{arm}" / str(client)))
                seen += len(rows)
            given = torch.cat(parts)
            arms[arm] = facts(trip.retrain(arm, given, scenario), truth, given, seen)
    after = trip.retrain("all-right", truth.true.flat, scenario)
    arms["all-right"] = facts(after, truth, truth.true.flat, len(scenario.labels))
    return {"trips": arms, **origin(trip)}


def origin(trip: RoundTrip) -> dict[str, Any]:
    """How a cell was made."""
    return {
        "format": FORMAT,
        "name": trip.name,
        "seed": trip.seed,
        "rounds": trip.config["rounds"],
        **provenance(),
    }


def by_audit(_: int, found: Audit, most: int) -> list[int]:
    """Suspects only, the most probable first."""
    return [suspect.row for suspect in found.suspects[:most]]


def at_random(seed: int, found: Audit, most: int) -> list[int]:
    """As many labels as by the audit, in any order."""
    rng = seeds.generator(seed, f"review of {found.site}")
    shuffled: list[int] = torch.randperm(found.samples, generator=rng).tolist()
    return shuffled[: len(found.suspects[:most])]


def decisions(
    site: Evidence, rows: Sequence[int], true: Tensor, key: str
) -> Iterator[tuple[str, ...]]:
    """Rows of corrections.csv by a person who is never wrong."""
    for row in rows:
        given, right = site.classes[int(site.given[row])], site.classes[int(true[row])]
        decision = ("keep", "") if right == given else ("accept", right)
        yield (site.names[row], given, *decision, key)


def relabelled(site: Evidence, decided: Iterable[tuple[str, ...]], folder: Path) -> Tensor:
    """The site's labels after a review; all by way of the files that a person would have."""
    shutil.rmtree(folder, ignore_errors=True)  # of a review that was cut short
    given = [site.classes[label] for label in site.given.tolist()]
    write_labels(folder / "labels.csv", site.names, given)
    write_atomically(folder / "corrections.csv", as_csv(CORRECTIONS, decided))
    relabel(folder / "labels.csv", [folder / "corrections.csv"], folder / "new.csv")
    place = {name: number for number, name in enumerate(site.classes)}
    return torch.tensor([place[name] for name in read_labels(folder / "new.csv").labels])


def facts(run: Run, truth: Truth, given: Tensor, seen: int) -> dict[str, Any]:
    """What a run was trained on, and what came of it."""
    wrong = given != truth.true.flat
    found = int(truth.wrong.sum() - wrong.sum())
    accuracy = {name: run.summary["accuracy"][name] for name in ("last", "last10", "best")}
    return {"reviewed": seen, "found": found, "wrong": float(wrong.double().mean()), **accuracy}


def page(cells: Sequence[dict[str, Any]]) -> str:
    """All of audit-round-trip.md."""
    if not cells:
        return "# Audit, correct, relabel, retrain\n\nNothing is finished yet.\n"
    prose = PROSE.format(
        seeds=joined(map(str, sorted({cell["seed"] for cell in cells}))),
        made=joined(sorted({cell["made"] for cell in cells})),
        revision=joined(sorted({cell["revision"] for cell in cells})),
        machine=joined(sorted({cell["machine"] for cell in cells})),
    )
    parts = [prose]
    for name, title in TITLES.items():
        own = sorted((cell for cell in cells if cell["name"] == name), key=lambda c: c["seed"])
        if own:
            parts += [f"## {title}\n", section([cell["trips"] for cell in own])]
    return "\n".join(parts)


def section(trips: Sequence[dict[str, Any]]) -> str:
    """One table; gains are to the run before, paired by seed."""
    head = ["labels", "reviewed", "found wrong", "wrong after", "accuracy", "gain", "last", "best"]
    lines = []
    for arm in trips[0]:
        own, before = [trip[arm] for trip in trips], [trip["before"] for trip in trips]
        gains = [a["last10"] - b["last10"] for a, b in zip(own, before, strict=True)]
        counts = [f"{mean(one[key] for one in own):,.0f}" for key in ("reviewed", "found")]
        shares = [percent(one[key] for one in own) for key in ("wrong", "last10")]
        rest = [percent(one[key] for one in own) for key in ("last", "best")]
        lines.append([words(arm), *counts, *shares, percent(gains, "+"), *rest])
    return markdown_table(head, lines)


def words(arm: str) -> str:
    """An arm in the table."""
    plain = {"before": "as given", "all-right": "all right"}
    order, _, share = arm.partition("-")
    return plain.get(arm) or f"{share} % reviewed, {order.replace('_', ' ')}"


if __name__ == "__main__":
    main()
