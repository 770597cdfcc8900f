"""Spoiled scans, workbooks, tables and decisions through `flr audit` and `flr relabel`.

Never a traceback, a hang or 2 GB; and what `flr relabel` writes differs in what was decided alone.
CI tries a few of each; all of them: `pytest -m attack --tries 500 -s`, with this file.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_files as files
import numpy as np
import pytest
from mutations import spoil
from PIL import Image
from tally import Tally
from test_mutations import TOO_MUCH, Target, attack, bounded

from flr.audit import originals, pictures, table_rows
from flr.audit.collect import Columns
from flr.audit.labels_file import read_labels
from flr.audit.relabel import read_corrections
from flr.core.errors import FlrError
from flr.data.readers import images

SAMPLE = 6
SCAN = (np.arange(120).reshape(12, 10) * 30).astype(np.uint16)
TABLES = ("labels.csv", "labels-16.csv", "labels.xlsx")


def audited(at: Path, *what: object) -> list[list[Any]]:
    return [["audit", *what, "--out", at / "out"]]


def scans(suffix: str) -> Callable[[Path], Target]:
    """A folder of pictures beside its labels."""

    def target(folder: Path) -> Target:
        folder.mkdir()
        names = files.write_scans(folder / "s", suffix)
        files.write_csv(folder / "labels.csv", files.rows_of_labels(names), "cp1252", ";")
        return Target(folder, names, lambda at: audited(at, at / "s", at / "labels.csv"))

    return target


def labels(folder: Path) -> Target:
    """The same labels in each form, of which one is spoiled and read."""
    folder.mkdir()
    names = files.write_scans(folder / "s", ".png")
    write_tables(folder, names)

    def commands(at: Path) -> list[list[Any]]:
        table = next(name for name in TABLES if not same(at / name, folder / name))
        return audited(at, at / "s", at / table)

    return Target(folder, TABLES, commands)


def write_tables(folder: Path, names: tuple[str, ...]) -> None:
    for name, encoding, mark in (("labels.csv", "utf-8", ","), ("labels-16.csv", "utf-16", "\t")):
        files.write_csv(folder / name, files.rows_of_labels(names), encoding, mark)
    files.write_xlsx(folder / "labels.xlsx", files.rows_of_labels(names))


def same(one: Path, other: Path) -> bool:
    return one.read_bytes() == other.read_bytes()


def table(name: str) -> Callable[[Path], Target]:
    """Data that are a table: they are audited, and trained on."""

    def target(folder: Path) -> Target:
        folder.mkdir()
        write = {
            "t.xlsx": lambda at: files.write_xlsx(at, files.rows_of_numbers()),
            "t.tsv": lambda at: files.write_csv(at, files.rows_of_numbers(), "utf-16", "\t"),
            "t.jsonl": files.write_jsonl,
        }[name]
        write(folder / name)
        return Target(folder, (name,), lambda at: audited(at, at / name))

    return target


def decisions(folder: Path) -> Target:
    """A table of labels in each form and what was decided about it; any of them is spoiled."""
    folder.mkdir()
    write_tables(folder, tuple(f"s/{number}.png" for number in range(files.COUNT)))
    files.write_csv(folder / "corrections.csv", files.rows_of_decisions(), "utf-8", ",")

    def commands(at: Path) -> list[list[Any]]:
        decided = ["--corrections", at / "corrections.csv"]
        return [
            ["relabel", "--labels", at / name, *decided, "--out", at / f"new-{name}"]
            for name in TABLES
        ]

    return Target(folder, (*TABLES, "corrections.csv"), commands)


def changed_more(at: Path) -> str:
    """What `flr relabel` did to a table besides what was decided; mostly nothing."""
    for name in TABLES:
        if not (at / f"new-{name}").exists():
            continue
        before, after = read_labels(at / name), read_labels(at / f"new-{name}")
        decided = read_corrections(at / "corrections.csv")
        accepted = {Path(one.name).name for one in decided if one.label.strip()}
        for old, new in zip(before.sheet.rows, after.sheet.rows, strict=True):
            old[before.at] = new[before.at] = ""
        if before.sheet.rows != after.sheet.rows or before.names != after.names:
            return f"{name}: other cells have changed"
        labels = zip(before.names, before.labels, after.labels, strict=True)
        wrong = [n for n, old, new in labels if old != new and Path(n).name not in accepted]
        if wrong:
            return f"{name}: labels that nobody decided on have changed: {wrong[:3]}"
    return ""


MAKE: dict[str, Callable[[Path], Target]] = {
    "scans.dcm": scans(".dcm"),
    "scans.tiff": scans(".tiff"),
    "scans.png, 16 bits": scans(".png"),
    "labels.csv, UTF-16, xlsx": labels,
    "table.xlsx": table("t.xlsx"),
    "table.tsv, UTF-16": table("t.tsv"),
    "texts.jsonl": table("t.jsonl"),
    "relabel": decisions,
}


def one_kind(name: str, tries: int, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    target = MAKE[name](tmp_path / "whole")
    look = changed_more if name == "relabel" else None
    attack(name, target, tries, tmp_path, patch, look)
    shutil.rmtree(tmp_path / "whole")


def picture(path: Path) -> None:
    """As a network, a page and a browser get it."""
    found = originals.read(path, 96)
    pictures.encode(found)
    originals.link(path, path.parent)
    images.read_image(path, 8)


def rows(path: Path) -> None:
    """As labels, and as data."""
    for read in (read_labels, lambda at: table_rows.read(at, Columns())):
        with contextlib.suppress(FlrError):
            read(path)


WRITE: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "a.dcm": (lambda at: files.write_scan(at, SCAN), picture),
    "a.tiff": (lambda at: files.write_scan(at, SCAN), picture),
    "a.png": (lambda at: files.write_scan(at, SCAN), picture),
    "a.jpg": (lambda at: Image.fromarray(SCAN.astype(np.uint8)).save(at), picture),
    "a.webp": (lambda at: Image.fromarray(SCAN.astype(np.uint8)).save(at), picture),
    "a.xlsx": (lambda at: files.write_xlsx(at, files.rows_of_numbers()), rows),
    "a.csv": (lambda at: files.write_csv(at, files.rows_of_numbers(), "utf-16", ";"), rows),
    "a.tsv": (lambda at: files.write_csv(at, files.rows_of_numbers(), "cp1252", "\t"), rows),
    "a.jsonl": (files.write_jsonl, lambda at: table_rows.read(at, Columns())),
}


def read_alone(name: str, tries: int, tmp_path: Path) -> None:
    """The same without a command around it, which takes most of the time."""
    write, read = WRITE[name]
    tally, whole, copy = Tally(f"readers of {name}"), tmp_path / name, tmp_path / f"b{name}"
    write(whole)
    read(whole)
    for seed in range(tries):
        shutil.copy(whole, copy)
        how = spoil(copy, random.Random(f"{name} {seed}"))  # noqa: S311
        problem = ""
        with bounded() as most:
            try:
                read(copy)
            except FlrError:
                pass  # in words
            except BaseException as error:  # noqa: BLE001 - whatever it is, a user would see it
                problem = f"{type(error).__name__}: {str(error)[:200]}"
            problem = problem or ("too much memory" if most() > TOO_MUCH else "")
        tally.lose(f"{seed}, {how}: {problem}") if problem else tally.survived()
    tally.finish()


@pytest.mark.parametrize("name", WRITE)
def test_a_sample_of_readers_says_what_is_wrong(name, tmp_path):
    read_alone(name, 10 * SAMPLE, tmp_path)


@pytest.mark.attack
@pytest.mark.parametrize("name", WRITE)
def test_no_reader_falls(name, tmp_path, tries):
    read_alone(name, tries, tmp_path)


@pytest.mark.parametrize("name", MAKE)
def test_a_sample_of_foreign_files_is_refused_in_words(name, tmp_path, monkeypatch):
    one_kind(name, SAMPLE, tmp_path, monkeypatch)


@pytest.mark.attack
@pytest.mark.parametrize("name", MAKE)
def test_no_foreign_file_gives_a_traceback(name, tmp_path, monkeypatch, tries):
    one_kind(name, tries, tmp_path, monkeypatch)
