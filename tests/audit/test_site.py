"""`flr audit --data`: a steward's files in all their kinds, and what goes wrong with them."""

from __future__ import annotations

import csv
import io
import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from direct import DirectGrid, run_config
from PIL import Image
from toys import settings

import flr
from flr.audit.labels_file import CORRECTIONS, as_csv
from flr.audit.pictures import SIDE, encode, from_inputs
from flr.audit.site_files import SiteFiles, newest_state, open_site
from flr.core import seal
from flr.core.errors import DataError
from flr.core.plain_text import from_cell
from flr.data.sources.digits import Digits
from flr.flower.server import serve
from flr.models import model_file
from flr.models import networks as models
from flr.models.networks import mlp, weights_of

# one of them could end a page's script, one a CSV cell, one a line, one the terminal's colour
CLASSES = (
    "cat, tabby",
    'dog "big"',
    "</script><img src=x onerror=alert(1)>",
    "two\nlines",
    "=1+1",
    "[red]fish[/red]",
    "é 漢",
    "h",
    "\x1b[31mred",
    "j",
)
SAMPLES, ALL = 240, 300  # for training, and with those held out


def digits() -> tuple[Any, Any]:
    data = Digits().load()
    return data.train.x[:300, 0].numpy(), data.train.y[:300].numpy()


@pytest.fixture(scope="module")
def ward(tmp_path_factory) -> Path:
    """A site whose data, model and state belong together; every sixth label is wrong."""
    folder = tmp_path_factory.mktemp("ward")
    x, y = digits()
    y[:SAMPLES:6] = (y[:SAMPLES:6] + 1) % 10
    named = np.array(CLASSES)[y]
    np.savez(
        folder / "ward.npz",
        x_train=x[:SAMPLES],
        y_train=named[:SAMPLES],
        x_test=x[SAMPLES:],
        y_test=named[SAMPLES:],
        classes=np.array(CLASSES),
    )
    config = {
        "rounds": 4,
        "workers": 1,
        "method": "flr",
        "data": {"name": "npz", "path": str(folder / "ward.npz")},
        "partition": {"kind": "iid", "clients": 1},
        "train": {"participation": 1.0},
    }
    run = flr.run(config, out=folder / "run")
    shutil.copytree(run.folder / "checkpoint" / "state", folder / "st" / ("0" * 16) / "ward-7")
    return folder


def words(ward: Path, *more: object) -> list[object]:
    return ["audit", "--data", ward / "ward.npz", "--model", ward / "run", *more]


def labels_of(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8", newline="") as file:
        return {from_cell(row["name"]): from_cell(row["label"]) for row in csv.DictReader(file)}


def write_labels(path: Path, labels: dict[str, str]) -> Path:
    path.write_bytes(as_csv(("name", "label"), labels.items()).encode())
    return path


def test_a_state_that_has_rotted_is_refused(cli, ward, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ward / "st", "st")
    for path in list(Path("st").rglob("*.safetensors")):
        path.with_suffix(".sha256").write_text(seal.digest_of(path))
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
    done = cli(*words(ward, "--state", "st"))
    assert done.code == 4
    assert "it is damaged" in done.message


def test_the_whole_way_with_labels_that_could_be_code(cli, ward, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli(*words(ward, "--state", ward / "st", "--share"))
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    lines = done.out.splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("flr relabel"))
    audit = Path("audit-ward")
    assert {p.name for p in audit.iterdir()} >= {
        *("audit.html", "audit.json", "labels.csv", "share.json", "suspects.csv", "scores.csv")
    }
    assert all(path.stat().st_mode & 0o077 == 0 for path in (audit, *audit.iterdir()))
    with np.load(ward / "ward.npz") as arrays:
        given = [*arrays["y_train"].tolist(), *arrays["y_test"].tolist()]
    assert list(labels_of(audit / "labels.csv").values()) == given
    found = json.loads((audit / "audit.json").read_text())
    assert (found["site"], found["samples"]) == ("ward-7", ALL)
    assert tuple(found["classes"]) == CLASSES
    page = (audit / "audit.html").read_text()
    assert "<img src=x" not in page
    rows = [
        (s["name"], s["given"], "accept", s["suggested"], found["key"]) for s in found["suspects"]
    ]
    Path("corrections.csv").write_bytes(as_csv(CORRECTIONS, rows).encode())
    command = "relabel --labels audit-ward/labels.csv --corrections corrections.csv --out new.csv"
    changed = cli(*command.split())
    assert changed.code == 0, changed.err
    new = labels_of(Path("new.csv"))
    accepted = {row[0]: row[3] for row in rows}
    names = list(labels_of(audit / "labels.csv"))
    expected = {n: accepted.get(n, label) for n, label in zip(names, given, strict=True)}
    assert new == {name: label.strip() for name, label in expected.items()}
    again = cli(*words(ward, "--labels", "new.csv", "--out", "again"))
    assert again.code == 0, again.err


def test_sharing_is_the_rate_and_no_more(cli, ward, tmp_path):
    done = cli(*words(ward, "--out", tmp_path / "a", "--share"))
    text = (tmp_path / "a" / "share.json").read_text()
    assert text in done.out
    shared = json.loads(text)
    rate = json.loads((tmp_path / "a" / "audit.json").read_text())["rate"]
    assert shared == {
        "wrong_labels": pytest.approx(rate["estimate"], abs=1e-4),
        "low": pytest.approx(rate["low"], abs=1e-4),
        "high": pytest.approx(rate["high"], abs=1e-4),
    }
    for out in ("a", "b"):  # nor does that of an earlier audit stay
        cli(*words(ward, "--out", tmp_path / out, "--overwrite"))
        assert not (tmp_path / out / "share.json").exists()


def test_nothing_opens_a_connection(cli, ward, tmp_path, monkeypatch):
    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    assert cli(*words(ward, "--state", ward / "st", "--share", "--out", tmp_path / "a")).code == 0


def test_without_state_the_page_says_what_that_means(cli, ward, tmp_path):
    done = cli(*words(ward, "--out", tmp_path / "a"))
    said = " ".join(done.out.split())
    source = json.loads((tmp_path / "a" / "audit.json").read_text())["source"]
    assert "only the model's predictions were used" in source
    assert "memorized" in source
    assert source in said


def test_labels_of_their_own_go_by_name(cli, ward, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with np.load(ward / "ward.npz") as arrays:
        given = {str(row): label for row, label in enumerate(arrays["y_train"].tolist())}
    shuffled = dict(reversed(given.items()))
    shuffled |= {"3": "hh", "4": "", "900": "h"}
    del shuffled["5"]
    path = write_labels(Path("mine.csv"), shuffled)
    done = cli(*words(ward, "--labels", path, "--state", ward / "st"))
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert 'Samples without a label in mine.csv: 62 ("4", "5", "test/0" and 59 more)' in said
    assert 'no class of the model, so look at them yourself: 1 ("hh")' in said
    assert 'not in the data: 1 ("900")' in said
    assert not Path("audit-ward/labels.csv").exists(), "they are in a file already"
    held_out = {f"test/{row}" for row in range(ALL - SAMPLES)}
    with Path("audit-ward/unchecked.csv").open(newline="") as file:
        assert {row["name"] for row in csv.DictReader(file)} == {"3", "4", "5", "900", *held_out}
    found = json.loads(Path("audit-ward/audit.json").read_text())
    assert found["samples"] == SAMPLES - 3
    assert len(found["unchecked"]) >= 4
    for suspect in found["suspects"]:
        assert suspect["given"] == given[suspect["name"]]
    site = open_site(SiteFiles(ward / "ward.npz", ward / "run", path, ward / "st"))
    whole = open_site(SiteFiles(ward / "ward.npz", ward / "run", None, ward / "st"))
    kept = [row for row in range(SAMPLES) if row not in (3, 4, 5)]
    assert list(site.evidence.names) == [str(row) for row in kept]
    for name in ("global", "local", "model"):
        view = whole.evidence.views[name][kept]
        assert torch.allclose(site.evidence.views[name], view, atol=1e-6), name
    assert not whole.evidence.visited[SAMPLES:].any(), "nobody trained on what was held out"


def test_labels_of_other_classes_or_samples_are_refused(cli, ward, tmp_path):
    many = {str(row): "lion" if row % 5 else "\x1b[31mre" for row in range(SAMPLES)}
    refused = cli(*words(ward, "--labels", write_labels(tmp_path / "l.csv", many)))
    assert refused.code == 4
    assert '"lion" (192)' in refused.message
    assert '"\\x1b[31mre" (48; did you mean "\\x1b[31mred"?)' in refused.message
    other = {f"scan {row}.png": "h" for row in range(5)}
    refused = cli(*words(ward, "--labels", write_labels(tmp_path / "l.csv", other)))
    assert refused.code == 4
    assert "none of its 5 names is there" in refused.message
    assert '"scan 0.png"' in refused.message
    none = {str(row): "" for row in range(5)}
    refused = cli(*words(ward, "--labels", write_labels(tmp_path / "l.csv", none)))
    assert "at least one readable sample with a label" in refused.message


def test_somebodys_labels_file_in_the_folder_stays(cli, ward, tmp_path):
    (tmp_path / "labels.csv").write_text("name,label\n1,mine\n")
    for more in ([], ["--overwrite"]):
        refused = cli(*words(ward, "--out", tmp_path, *more))
        assert refused.code == 4
        assert "holds labels.csv" in refused.message
    assert (tmp_path / "labels.csv").read_text() == "name,label\n1,mine\n"


def test_data_without_labels_needs_a_file(cli, ward, tmp_path):
    with np.load(ward / "ward.npz") as arrays:
        np.savez(tmp_path / "x.npz", x=arrays["x_train"])
    refused = cli("audit", "--data", tmp_path / "x.npz", "--model", ward / "run")
    assert refused.code == 4
    assert f"flr audit {tmp_path / 'x.npz'} labels.csv" in refused.message


def test_a_model_of_another_shape(cli, ward, tmp_path):
    x, y = digits()
    wide = np.pad(x, ((0, 0), (0, 4), (0, 4)))
    np.savez(tmp_path / "wide.npz", x=wide, y=y)
    refused = cli("audit", "--data", tmp_path / "wide.npz", "--model", ward / "run")
    assert refused.code == 4
    assert "shape (1, 8, 8)" in refused.message
    assert "got (1, 12, 12)" in refused.message
    for path in (tmp_path / "gone.safetensors", tmp_path / "wide.npz", tmp_path):
        refused = cli("audit", "--data", ward / "ward.npz", "--model", path)
        assert refused.code == 4
        assert "Traceback" not in refused.err


def test_a_state_of_other_data_is_refused(cli, ward, tmp_path):
    with np.load(ward / "ward.npz") as arrays:
        np.savez(tmp_path / "less.npz", x=arrays["x_train"][1:], y=arrays["y_train"][1:])
    command = ["audit", "--data", tmp_path / "less.npz", "--model", ward / "run"]
    refused = cli(*command, "--state", ward / "st", "--out", tmp_path / "a")
    assert refused.code == 4
    assert "239 samples" in refused.message
    assert not (tmp_path / "a").exists()
    order = np.random.default_rng(0).permutation(SAMPLES)
    with np.load(ward / "ward.npz") as arrays:
        np.savez(tmp_path / "mixed.npz", x=arrays["x_train"][order], y=arrays["y_train"][order])
    mixed = SiteFiles(tmp_path / "mixed.npz", ward / "run", state=ward / "st")
    with pytest.raises(DataError, match="no more than by chance"):
        open_site(mixed)
    right = SiteFiles(ward / "ward.npz", ward / "run", state=ward / "st")
    assert open_site(right).notes == ()


def test_which_state_is_meant(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        newest_state(tmp_path / "gone")
    with pytest.raises(DataError, match="there is none"):
        newest_state(tmp_path)
    place = tmp_path / ("a" * 16) / "ward-7" / "2"
    place.mkdir(parents=True)
    (place.parent / "attempt").write_text("1")
    for step in (9, 10):
        (place / f"{step}.safetensors").touch()
    for folder in (tmp_path, place.parent.parent, place.parent, place):
        assert newest_state(folder) == place / "10.safetensors"
    other = tmp_path / ("b" * 16) / "ward-7" / "0"
    other.mkdir(parents=True)
    (other / "3.safetensors").touch()
    with pytest.raises(DataError) as error:
        newest_state(tmp_path)
    assert str(place) in str(error.value)
    assert str(other) in str(error.value)


def test_a_state_without_tables_is_said(ward, tmp_path):
    flr.core.arrays.save(
        tmp_path / "0" / "3.safetensors", {"elr.0.target": torch.zeros(SAMPLES, 10)}
    )
    site = open_site(SiteFiles(ward / "ward.npz", ward / "run", state=tmp_path))
    assert not {"global", "local"} & set(site.evidence.views)
    assert any("has none" in note for note in site.notes)


def test_after_a_federation_on_flower(cli, tmp_path):
    """The state directory as real nodes leave it, each with its own file."""
    x, y = digits()
    nodes = {}
    for number in range(2):
        path = tmp_path / f"ward-{number}.npz"
        np.savez(path, x=x[number::2], y=y[number::2])
        node = {"site": path.stem, "data": str(path), "state-dir": str(tmp_path / "state")}
        nodes[100 + number] = node
    listed = {"classes": ", ".join("0123456789"), "mean": "0", "std": "16", "wait": 0.5}
    config = settings("flr", train={"participation": 1.0})
    own = run_config(config, tmp_path / "run", **listed, **{"min-sites": 2})
    serve(DirectGrid(nodes), own)
    shared = ["audit", "--data", tmp_path / "ward-1.npz", "--model", tmp_path / "run", "--trust"]
    several = cli(*shared, "--state", tmp_path / "state")
    assert several.code == 4
    assert "ward-0" in several.message
    (mine,) = (tmp_path / "state").glob("*/ward-1")
    done = cli(*shared, "--state", mine, "--out", tmp_path / "a")
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "a" / "audit.json").read_text())
    assert found["site"] == "ward-1"
    assert "150 of 150 samples" in found["source"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Path:
    """Small scans in three folders, and a model of them."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(1)
    for number in range(60):
        shade, name = 80 * (number % 3), ("dark", "grey", "light")[number % 3]
        pixels = np.clip(shade + rng.integers(0, 60, (100, 80, 3)), 0, 255).astype(np.uint8)
        path = folder / "scans" / name / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    config = {
        "rounds": 2,
        "workers": 1,
        "data": {"name": "folder", "path": str(folder / "scans"), "size": 16},
        "partition": {"kind": "iid", "clients": 2},
        "train": {"model": "cnn"},
    }
    flr.run(config, out=folder / "run")
    return folder


def test_a_folder_of_images(cli, pictures, tmp_path):
    command = ["audit", "--data", pictures / "scans", "--model", pictures / "run"]
    refused = cli(*command, "--out", tmp_path / "a")
    assert "--size 16" in refused.message
    done = cli(*command, "--size", 16, "--out", tmp_path / "a")
    assert done.code == 0, done.err
    labels = labels_of(tmp_path / "a" / "labels.csv")
    assert len(labels) == 60
    assert all(name.split("/")[0] == label for name, label in labels.items())
    site = open_site(SiteFiles(pictures / "scans", pictures / "run", size=16))
    thumbnail = Image.open(io.BytesIO(site.pictures(0) or b""))
    assert thumbnail.size == (77, SIDE), "from the file, not from the 16 pixels of the model"


def test_images_without_folders_and_images_that_are_gone(cli, pictures, tmp_path):
    (tmp_path / "flat").mkdir()
    labels = {}
    for path in (pictures / "scans").glob("*/*.png"):
        shutil.copy(path, tmp_path / "flat")
        labels[path.name] = path.parent.name
    (tmp_path / "flat" / "07.png").unlink()
    del labels["08.png"]
    command = ["audit", "--data", tmp_path / "flat", "--model", pictures / "run", "--size", 16]
    done = cli(
        *command, "--labels", write_labels(tmp_path / "l.csv", labels), "--out", tmp_path / "a"
    )
    assert done.code == 0, done.err
    with (tmp_path / "a" / "unchecked.csv").open(newline="") as file:
        assert {row["name"] for row in csv.DictReader(file)} == {"07.png", "08.png"}
    assert json.loads((tmp_path / "a" / "audit.json").read_text())["samples"] == 58
    (tmp_path / "flat" / "09.png").write_bytes(b"no picture")
    broken = cli(*command, "--labels", tmp_path / "l.csv", "--out", tmp_path / "b")
    assert broken.code == 0, broken.err
    assert "09.png,expected an image" in (tmp_path / "b" / "unchecked.csv").read_text()


def test_a_name_that_is_no_text_is_listed(cli, pictures, tmp_path):
    folder = tmp_path / "scans"
    shutil.copytree(pictures / "scans", folder)
    try:
        (folder / "dark" / "00.png").rename(folder / "dark" / "\udcff.png")
    except OSError:
        pytest.skip("this file system has no such names")
    command = ["audit", "--data", folder, "--model", pictures / "run", "--size", 16]
    done = cli(*command, "--out", tmp_path / "a")
    assert done.code == 0, done.err
    assert "dark/?.png,its name is not UTF-8" in (tmp_path / "a" / "unchecked.csv").read_text()


def test_a_table(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    y = np.arange(90) % 3
    x = rng.normal(size=(90, 20)) + 3 * y[:, None]
    header = ["diagnosis", *(f"f{n}" for n in range(20))]
    rows = [[f"type, {label}", *map(str, row)] for label, row in zip(y, x, strict=True)]
    Path("t.csv").write_text(as_csv(header, rows))
    config = {
        "rounds": 2,
        "workers": 1,
        "data": {"name": "csv", "path": "t.csv", "label": "diagnosis"},
        "partition": {"kind": "iid", "clients": 2},
    }
    flr.run(config, out="run")
    command = ["audit", "--data", "t.csv", "--model", "run"]
    done = cli(*command)
    assert done.code == 0, done.err
    labels = labels_of(Path("audit-t/labels.csv"))
    assert labels["2"] == "type, 0", "line 1 is the header"
    site = open_site(SiteFiles(Path("t.csv"), Path("run"), label="diagnosis"))
    assert site.pictures(0) is None
    assert site.features(0)[0] == ("f0", f"{x[0, 0]:.4g}")
    assert len(site.features(0)) == 20


def test_ten_thousand_classes(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    classes = [f"species {number}" for number in range(10_000)]
    networks = models.build(lambda shape, n: mlp(shape, n, hidden=4), (3,), 10_000, 1, seed=1)
    meta = {
        "model": {"name": "mlp", "hidden": 4},
        "method": [{"name": "fedavg"}],
        "classes": classes,
        "input_shape": [3],
        "mean": [0.0] * 3,
        "std": [1.0] * 3,
    }
    model_file.save(Path("m.safetensors"), weights_of(networks), meta)
    rng = np.random.default_rng(3)
    names = np.array(classes)[rng.integers(0, 10_000, 120)]
    np.savez("d.npz", x=rng.normal(size=(120, 3)).astype(np.float32), y=names)
    done = cli("audit", "--data", "d.npz", "--model", "m.safetensors")
    assert done.code == 0, done.err
    assert json.loads(Path("audit-d/audit.json").read_text())["samples"] == 120
    np.savez("e.npz", x=np.zeros((9, 3), np.float32), y=np.array(["no species"] * 9))
    refused = cli("audit", "--data", "e.npz", "--model", "m.safetensors")
    assert refused.code == 4
    assert "10,000 classes" in refused.message
    assert len(refused.message) < 600


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("side", [8, 200])
def test_thumbnails_of_any_array(channels, side):
    x = torch.randint(0, 17, (3, channels, side, side), dtype=torch.uint8)
    data = from_inputs(x, torch.tensor([2, 0]))(0)
    assert data is not None
    image = Image.open(io.BytesIO(data))
    assert max(image.size) == min(side, SIDE)
    assert len(data) < 20_000
    if channels == 1 and side == 8:
        pixels = np.asarray(image.convert("L"), dtype=float)
        seen = x[2, 0].double().numpy() * 255 / int(x.max())
        assert np.abs(pixels - seen).max() <= 1, "the third sample, stretched to full contrast"


def test_a_thumbnail_is_small():
    noise = torch.randint(0, 256, (500, 500, 3), dtype=torch.uint8).numpy()
    assert len(encode(Image.fromarray(noise))) < 8_000
