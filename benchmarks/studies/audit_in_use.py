"""The audit as a person uses it: from a folder to better labels, card by card, and a large table.

    export FLR_DATA=...                                                 # CIFAR-10 and CIFAR-10N
    python -m benchmarks.studies.audit_in_use runs/audit-in-use round-trip --seeds 1 2 3
    python -m benchmarks.studies.audit_in_use runs/audit-in-use pace    # 14 minutes, in Chromium
    python -m benchmarks.studies.audit_in_use runs/audit-in-use million

Each adds its line to results/audit-in-use.jsonl and writes the page again. The reviewer of the
round trip is a script that knows the truth: it accepts the true class where a label is wrong, and
keeps the label where it is right.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from benchmarks import RESULTS
from benchmarks.studies.audit_arms import provenance
from benchmarks.studies.audit_in_use_pace import reviewed
from benchmarks.studies.audit_in_use_page import page
from benchmarks.studies.audit_on_features_ways import out_of_fold
from flr.audit.features import compute, none
from flr.audit.labels_file import CORRECTIONS, as_csv, read_labels
from flr.config import parse
from flr.core import seeds
from flr.core.arrays import write_atomically
from flr.scenario.truth import Truth
from flr.simulation.build import load_raw_data, load_scenario

LINES, PAGE = RESULTS / "audit-in-use.jsonl", RESULTS / "audit-in-use.md"
IMAGES, REVIEWED = 1_500, 200
STRENGTH = 0.01  # C of the regression whose accuracy out of fold is measured
ROWS, CHANGED = 1_000_000, 20_000
CONFIG: dict[str, Any] = {
    "preset": "cifar10",
    "data": {"name": "cifar10"},
    "method": "fedavg",
    "noise": {"kind": "human", "labels": "worst"},
    "partition": {"kind": "iid", "clients": 50_000 // IMAGES},
}


def main() -> None:
    """Measures one thing, and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", choices=("round-trip", "pace", "million", "write"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.what == "round-trip":
        for seed in asked.seeds:
            keep({"what": asked.what, "seed": seed, **round_trip(asked.folder / str(seed), seed)})
    elif asked.what == "pace":
        found = asked.folder / str(asked.seeds[0]) / "audit" / "audit.html"
        keep({"what": asked.what, "seed": asked.seeds[0], **reviewed(found)})
    elif asked.what == "million":
        keep({"what": asked.what, "seed": 0, **million(asked.folder / "million")})
    write_atomically(PAGE, page(lines()))


def keep(line: Mapping[str, Any]) -> None:
    """In place of an older measurement of the same thing."""
    others = [one for one in lines() if (one["what"], one["seed"]) != (line["what"], line["seed"])]
    found = sorted([*others, {**line, **provenance()}], key=lambda one: (one["what"], one["seed"]))
    write_atomically(LINES, "".join(json.dumps(one, sort_keys=True) + "\n" for one in found))


def lines() -> list[dict[str, Any]]:
    """All that was measured."""
    text = LINES.read_text(encoding="utf-8") if LINES.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def round_trip(folder: Path, seed: int) -> dict[str, Any]:
    """Accuracy out of fold with the labels as given, after a review, and with all right."""
    pictures, given, true, classes = site(seed)
    write_folder(folder, pictures, [classes[label] for label in given.tolist()])
    audit, begun = folder / "audit", time.monotonic()
    if not audit.exists():
        command("audit", folder / "scans", folder / "labels.csv", "--out", audit)
    seconds = time.monotonic() - begun
    order = suspects(audit)[:REVIEWED]
    after = relabelled(folder, audit, order, given, true, classes)
    rng = seeds.generator(seed, "review in any order")
    anyhow = given.clone()
    chosen = torch.randperm(len(given), generator=rng)[: len(order)]
    anyhow[chosen] = true[chosen]
    features = compute(pictures, none)[0]

    def accuracy(labels: Tensor) -> float:
        said = out_of_fold(features.float().flatten(1), labels, STRENGTH, seed).argmax(1)
        return round(float((said == true).double().mean()), 5)

    return {
        "images": len(given),
        "wrong": round(float((given != true).double().mean()), 5),
        "reviewed": len(order),
        "found": int((given != true)[order].sum()),
        "before": accuracy(given),
        "after": accuracy(after),
        "anyhow": accuracy(anyhow),
        "right": accuracy(true),
        "seconds": round(seconds, 1),
    }


def site(seed: int) -> tuple[Tensor, Tensor, Tensor, tuple[str, ...]]:
    """Pictures, given and true labels of the first of 33 alike sites."""
    config = parse(CONFIG | {"seed": seed})
    data = load_raw_data(config)
    scenario = load_scenario(config, data)
    pictures = data.train.x[scenario.sites[0]]
    true = Truth.of(scenario, data).true[0]
    return torch.as_tensor(pictures), scenario.given[0], true, data.classes


def write_folder(folder: Path, pictures: Tensor, labels: Sequence[str]) -> None:
    """What a steward has: pictures and a table."""
    scans = folder / "scans"
    scans.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(pictures):
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(scans / name_of(number))
    rows = [(name_of(number), label) for number, label in enumerate(labels)]
    write_atomically(folder / "labels.csv", as_csv(("name", "label"), rows))


def name_of(number: int) -> str:
    return f"scan-{number:04}.png"


def suspects(audit: Path) -> list[int]:
    """The rows of suspects.csv as numbers of pictures, the most probable first."""
    with (audit / "suspects.csv").open(newline="", encoding="utf-8") as file:
        return [int(row["name"].removeprefix("scan-")[:4]) for row in csv.DictReader(file)]


def relabelled(
    folder: Path, audit: Path, order: Sequence[int], given: Tensor, true: Tensor, classes: Any
) -> Tensor:
    """The labels after `flr relabel` with what the reviewer has decided."""
    key = json.loads((audit / "audit.json").read_text(encoding="utf-8"))["key"]
    rows = []
    for number in order:
        now, right = int(given[number]), int(true[number])
        decided = ("keep", "") if now == right else ("accept", classes[right])
        rows.append((name_of(number), classes[now], *decided, key))
    write_atomically(folder / "corrections.csv", as_csv(CORRECTIONS, rows))
    out = folder / "new.csv"
    for old in (out, out.with_name("new.csv.log.csv")):
        old.unlink(missing_ok=True)
    options = ("--labels", folder / "labels.csv", "--corrections", folder / "corrections.csv")
    command("relabel", *options, "--out", out)
    place = {name: number for number, name in enumerate(classes)}
    found = read_labels(out)
    labels = dict(zip(found.names, found.labels, strict=True))
    return torch.tensor([place[labels[name_of(number)]] for number in range(len(given))])


def million(folder: Path) -> dict[str, Any]:
    """`flr relabel` of a table as German Excel saves it, with names that are hard to bear."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{hard(row)};{'ja' if row % 3 else 'nein'};{row}\r\n" for row in range(ROWS))
    head = "\ufeffName;Label;Alter\r\n"
    (folder / "labels.csv").write_bytes((head + text).encode())
    step = ROWS // CHANGED
    rows = (
        (bare(row), "ja" if row % 3 else "nein", "accept", "vielleicht", "a" * 16)
        for row in range(0, ROWS, step)
    )
    write_atomically(folder / "corrections.csv", as_csv(CORRECTIONS, rows))
    out = folder / "new.csv"
    for old in (out, out.with_name("new.csv.log.csv")):
        old.unlink(missing_ok=True)
    options = ("--labels", folder / "labels.csv", "--corrections", folder / "corrections.csv")
    begun = time.monotonic()
    command("relabel", *options, "--out", out)
    seconds = time.monotonic() - begun
    changed = changed_lines(folder / "labels.csv", out)
    if changed != CHANGED:
        raise SystemExit(f"Expected {CHANGED:,} changed lines; got {changed:,}.")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rows": ROWS,
        "changed": changed,
        "seconds": round(seconds, 1),
        "cpu": round(used.ru_utime + used.ru_stime, 1),
        "megabytes": round(used.ru_maxrss / 1024),
        "file": round((folder / "labels.csv").stat().st_size / 2**20),
    }


def bare(row: int) -> str:
    """Names with separators, quotes, formulas, other scripts, and plain ones."""
    kinds = ('Station 7; "links"', "=SUMME(A1)", "кошка 🐈", "Größe", "scan")
    return f"{kinds[row % len(kinds)]} {row}.png"


def hard(row: int) -> str:
    """The same as Excel writes it into a file with semicolons."""
    name = bare(row)
    return '"' + name.replace('"', '""') + '"' if row % 5 == 0 else name


def changed_lines(before: Path, after: Path) -> int:
    """Of two files with the same number of lines; all else must be equal byte by byte."""
    with before.open("rb") as a, after.open("rb") as b:
        return sum(x != y for x, y in zip(a, b, strict=True))


def command(*words: object) -> None:
    """flr, as from a terminal."""
    asked: Iterable[str] = map(str, words)
    subprocess.run([sys.executable, "-m", "flr.cli.main", *asked], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
