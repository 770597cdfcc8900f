"""`flr audit scans/ labels.csv`: files as people have them, and no model."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import flr
from flr.audit import features
from flr.audit.run_clients import open_run
from flr.audit.site_audit import SCORE_COLUMNS, examine
from flr.audit.site_files import SiteFiles, open_site
from flr.core.errors import DataError

COUNT = 60
KINDS = ("dunkel", "grau", "hell")


def picture(number: int) -> Image.Image:
    """Stripes whose direction and shade go with the class."""
    rng, kind = np.random.default_rng(number), number % 3
    pixels = 70 * kind + rng.integers(0, 50, (24, 20, 3))
    pixels[:: kind + 2] += 40
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty images in one folder; the labels of the first four are wrong."""
    folder = tmp_path_factory.mktemp("own") / "scans"
    folder.mkdir()
    for number in range(COUNT):
        picture(number).save(folder / f"{number:02}.png")
    return folder


def labels(names: Sequence[str] | None = None) -> list[tuple[str, str]]:
    given = [KINDS[(number + (number < 4)) % 3] for number in range(COUNT)]
    return list(zip(names or [f"{n:02}.png" for n in range(COUNT)], given, strict=True))


def german(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    text = "Nr;Name;Label\r\n" + "".join(f"{i};{n};{y}\r\n" for i, (n, y) in enumerate(rows))
    path.write_bytes(text.encode("cp1252"))
    return path


def test_the_one_command(cli, scans, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    german(Path("labels.csv"), labels())
    done = cli("audit", scans, "labels.csv")
    assert done.code == 0, done.err
    assert all(len(line) <= 80 for line in done.out.splitlines())
    assert 'labels.csv (semicolons): names from "Name", labels from "Label".' in done.out
    assert "flr relabel --labels labels.csv --corrections corrections.csv" in done.out
    out = Path("audit-scans")
    rows = rows_of(out / "scores.csv")
    assert tuple(rows[0]) == SCORE_COLUMNS
    assert [row["name"] for row in rows] == [f"{n:02}.png" for n in range(COUNT)]
    worst = sorted(rows, key=lambda row: float(row["label_score"]))[:4]
    assert {row["name"] for row in worst} == {"00.png", "01.png", "02.png", "03.png"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (out, *out.iterdir()))
    assert sorted(path.name for path in scans.iterdir()) == [f"{n:02}.png" for n in range(COUNT)]
    again = cli("audit", scans, "labels.csv")
    assert again.code == 0, again.err
    assert "audit-scans-2/audit.html" in again.out
    for name, audited in (("audit-scans", "--overwrite to replace"), ("x", "holds mine.txt")):
        Path("x").mkdir(exist_ok=True)
        Path("x", "mine.txt").touch()
        refused = cli("audit", scans, "labels.csv", "--out", name)
        assert refused.code == 4
        assert audited in refused.message
    inside = cli("audit", scans, "labels.csv", "--out", scans / "audit")
    assert inside.code == 4
    assert "outside of the data" in inside.message


def test_from_inside_the_data_the_result_lies_beside_it(scans, tmp_path, monkeypatch):
    from flr.cli.audit import free_folder

    shutil.copytree(scans, tmp_path / "scans")
    monkeypatch.chdir(tmp_path / "scans")
    assert free_folder(Path()) == tmp_path / "audit-scans"


def test_without_labels_it_says_how(scans):
    with pytest.raises(DataError, match=r"flr audit .*scans labels\.csv"):
        open_site(SiteFiles(scans))


def test_class_folders_with_a_part_for_testing(scans, tmp_path):
    for number in range(COUNT):
        part = "test" if number % 5 == 0 else "train"
        target = tmp_path / "photos" / part / KINDS[number % 3] / "deep" / f"{number}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(scans / f"{number:02}.png", target)
    site = open_site(SiteFiles(tmp_path / "photos"))
    assert len(site.evidence) == COUNT, "the part for testing is audited, too"
    assert site.evidence.classes == KINDS
    assert site.evidence.names[0] == "test/dunkel/deep/0.png"
    assert site.sources(0) == tmp_path / "photos" / "test" / "dunkel" / "deep" / "0.png"
    assert site.kind == "image"
    assert site.evidence.features is not None
    assert len(site.evidence.features) == COUNT


def test_files_that_cannot_be_read_stop_nothing(scans, tmp_path):
    folder = tmp_path / "scans"
    shutil.copytree(scans, folder)
    whole = (folder / "10.png").read_bytes()
    (folder / "10.png").write_bytes(whole[: len(whole) // 2])
    (folder / "11.png").write_bytes(b"")
    (folder / "12.png").write_bytes(b"=1+1")
    Image.new("RGB", (20, 24), "grey").save(folder / "13.png")
    Image.fromarray(np.zeros((7, 9, 3), np.uint8) + np.arange(9, dtype=np.uint8)[:, None]).save(
        folder / "14.png"
    )
    (folder / "notes.docx").touch()
    (folder / ".hidden").touch()
    shutil.copy(folder / "20.png", folder / "21.png")
    german(folder / "labels.csv", labels())
    site = open_site(SiteFiles(folder, labels=folder / "labels.csv"))
    examine(site, tmp_path / "out")
    found = {row["name"]: row["reason"] for row in rows_of(tmp_path / "out" / "unchecked.csv")}
    assert set(found) == {"10.png", "11.png", "12.png", "notes.docx"}
    assert "truncated" in found["10.png"]
    assert found["11.png"] == "the file is empty"
    assert len(site.evidence) == COUNT - 3
    issues = rows_of(tmp_path / "out" / "other_issues.csv")
    kinds = {(row["name"], row["issue"]) for row in issues}
    assert {("13.png", "odd_file"), ("14.png", "odd_file")} <= kinds
    assert {("20.png", "conflict"), ("21.png", "conflict")} <= kinds, "one picture, two labels"


def test_names_and_labels_that_could_be_code(scans, tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    odd = ["=1+1.png", "<b>x<b>.png", "two\nlines.png", "a,b;c.png", "'quoted'.png"]
    names = [*odd, *(f"{n:02}.png" for n in range(len(odd), COUNT))]
    for number, name in enumerate(names):
        picture(number).save(folder / name)
    rows = [*labels(names), ("../../etc/passwd", "hell"), ("C:\\Windows\\x.png", "hell")]
    with (tmp_path / "l.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("name", "label"), *rows])
    site = open_site(SiteFiles(folder, labels=tmp_path / "l.csv"))
    examine(site, tmp_path / "out")
    assert len(site.evidence) == COUNT
    assert [name for name, _ in site.left_out] == ["../../etc/passwd", "C:\\Windows\\x.png"]
    scores = rows_of(tmp_path / "out" / "scores.csv")
    assert "'=1+1.png" in {row["name"] for row in scores}
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["samples"] == COUNT


def test_what_is_lost_without_pretrained_networks_is_said(scans, tmp_path, monkeypatch):
    monkeypatch.setattr(features.importlib.util, "find_spec", lambda _: None)
    german(tmp_path / "l.csv", labels())
    site = open_site(SiteFiles(scans, labels=tmp_path / "l.csv"))
    assert "Features of the backbone hog." in site.evidence.source
    assert 'pip install "flr[backbones]"' in site.evidence.source
    assert site.evidence.features is not None
    assert site.evidence.features.shape == (COUNT, 672)


def table(path: Path, lines: Sequence[str]) -> Path:
    path.write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))
    return path


def test_a_table_from_german_excel(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    lines = ["ID;Größe;Station;Notiz;Klasse"]
    for number in range(COUNT):
        size = f"{rng.normal() + 4 * (number % 2):.3f}".replace(".", ",")
        ward, note = ("", "A", "B")[number % 3], f"x{number}" if number % 2 else "3"
        lines.append(f"{number + 100};{size};{ward};{note};{('krank', 'gesund')[number % 2]}")
    table(Path("werte.csv"), lines)
    site = open_site(SiteFiles(Path("werte.csv")))
    assert site.kind == "table"
    assert site.evidence.classes == ("gesund", "krank")
    assert site.evidence.names[0] == "2"
    assert site.evidence.features is not None
    assert site.evidence.features.shape == (COUNT, 4), "size, and three wards"
    assert any('"ID", "Notiz"' in note for note in site.notes)
    done = cli("audit", "werte.csv")
    assert done.code == 0, done.err
    assert "flr relabel --labels werte.csv --corrections corrections.csv" in done.out
    key = json.loads(Path("audit-werte/audit.json").read_text())["key"]
    Path("corrections.csv").write_text(
        f"name;given;decision;label;audit\n2;krank;accept;gesund;{key}\n"
    )
    command = "relabel --labels werte.csv --corrections corrections.csv --out new.csv"
    done = cli(*command.split())
    assert done.code == 0, done.err
    lines[1] = lines[1].replace("krank", "gesund")
    assert Path("new.csv").read_bytes() == table(Path("expected.csv"), lines).read_bytes()


def test_texts_in_a_workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["Befund", "Label"])
    for number in range(40):
        words = ("clear lungs and no fracture", "a broken rib on the left side")[number % 2]
        book.active.append([f"{words}, case {number}", number % 2])
    book.active.append(["", 0])
    book.save(tmp_path / "texts.xlsx")
    site = open_site(SiteFiles(tmp_path / "texts.xlsx"))
    assert site.kind == "text"
    assert site.evidence.classes == ("0", "1")
    assert site.features(1) == "a broken rib on the left side, case 1"
    assert site.left_out == (("42", "the text is empty"),)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a,label", *(f"{n},{n}" for n in range(30))], "expected classes"),
        (["a,label", *(f"{n},x" for n in range(30))], "two classes or more"),
        (["name,label", *(f"{n},{n % 2}" for n in range(30))], "flr audit FOLDER LABELS"),
        (["a,b", *(f"{n},{n % 2}" for n in range(30))], "expected labels with the data"),
    ],
)
def test_a_table_that_is_none_of_samples(lines, words, tmp_path):
    with pytest.raises(DataError, match=words):
        open_site(SiteFiles(table(tmp_path / "t.csv", lines)))


def test_scans_of_many_bits(tmp_path):
    folder = tmp_path / "scans"
    folder.mkdir()
    for number in range(COUNT):
        grey = np.asarray(picture(number).convert("L")).astype(np.uint16) * 16
        suffix = "png" if number % 2 else "tiff"
        Image.fromarray(grey).save(folder / f"{number:02}.{suffix}")
    german(tmp_path / "l.csv", labels([f"{n:02}" for n in range(COUNT)]))
    site = open_site(SiteFiles(folder, labels=tmp_path / "l.csv"))
    assert len(site.evidence) == COUNT
    assert site.pictures(0) is not None


@pytest.fixture(scope="module")
def trained(scans, tmp_path_factory) -> Path:
    """A run on photographs in class folders, of which the last ones are for testing."""
    folder = tmp_path_factory.mktemp("trained")
    for number in range(COUNT):
        part = "test" if number >= 45 else "train"
        target = folder / "photos" / part / KINDS[number % 3] / f"{number:02}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(scans / f"{number:02}.png", target)
    config = {
        "rounds": 2,
        "workers": 1,
        "method": "flr",
        "data": {"name": "folder", "path": str(folder / "photos"), "size": 12},
        "partition": {"kind": "iid", "clients": 2},
        "train": {"participation": 1.0},
    }
    flr.run(config, out=folder / "run")
    return folder


def test_after_a_run_samples_are_called_by_their_files(cli, trained, tmp_path):
    done = cli("audit", trained / "run", "--out", tmp_path / "a")
    assert done.code == 0, done.err
    assert "In truth" not in done.out, "nobody has made a label wrong, so nobody knows"
    assert not (tmp_path / "a" / "truth.json").exists()
    found: dict[str, str] = {}
    for part in ("0", "1", "test"):
        rows = rows_of(tmp_path / "a" / part / "scores.csv")
        assert {row["name"].split("/")[0] for row in rows} == {
            "test" if part == "test" else "train"
        }
        found |= {row["name"]: row["given_label"] for row in rows}
    assert len(found) == COUNT
    assert all(name.split("/")[1] == label for name, label in found.items())
    site = open_run(trained / "run").site_audit(0)
    source = site.sources(0)
    assert source is not None
    assert source.is_file()
    assert source.match(site.evidence.names[0])


def test_the_state_of_a_simulated_client_is_in_another_order_than_the_files(trained):
    state = trained / "run" / "checkpoint" / "state" / "0"
    files = SiteFiles(trained / "photos", trained / "run", state=state, size=12)
    with pytest.raises(DataError, match="flr audit RUN"):
        open_site(files)
