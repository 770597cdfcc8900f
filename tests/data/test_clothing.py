"""Clothing1M from a small tree in its official layout: read lazily, trained on, and refused."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import flr
from flr import config as configs
from flr.cli.main import app
from flr.core.errors import ConfigError, DataError
from flr.data import on_disk
from flr.data.batches import augment, shape_after
from flr.data.sources.clothing import Clothing1M
from flr.scenario.partitions.iid import Iid
from flr.simulation import api

NAMES = ("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker", "Jacket")
NAMES += ("Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear")
TRAIN, TEST = 42, 16


def key(number: int) -> str:
    return f"images/{number % 10}/{number:02d}/{number},{number * 7}.jpg"


@pytest.fixture(scope="session")
def original(tmp_path_factory) -> Path:
    """Every kind of list, and photographs of different sizes whose colour says their number."""
    root = tmp_path_factory.mktemp("data") / "clothing1m"
    rng = np.random.default_rng(0)
    for number in range(TRAIN + TEST):
        file = root / key(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        height, width = rng.integers(5, 40, 2)
        Image.new("RGB", (int(width), int(height)), (4 * number, 30, 60)).save(file, quality=95)
    train, test = range(TRAIN), range(TRAIN, TRAIN + TEST)

    def write(name: str, lines: list[str]) -> None:
        (root / name).write_text("\n".join(lines) + "\n")

    write("category_names_eng.txt", list(NAMES))
    write("noisy_train_key_list.txt", [key(n) for n in train])
    write("clean_train_key_list.txt", [key(0)])
    write("clean_val_key_list.txt", [key(1)])
    write("clean_test_key_list.txt", [key(n) for n in test])
    write("noisy_label_kv.txt", [f"{key(n)} {n % 14}" for n in range(TRAIN + TEST)])
    write("clean_label_kv.txt", [f"{key(n)} {(n + 1) % 14}" for n in [0, 1, *test]])
    return root


@pytest.fixture
def tree(original, tmp_path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(original, tmp_path / "clothing1m"))


def config(path: Path, **changes) -> configs.Config:
    setting = {
        "rounds": 2,
        "seed": 3,
        "method": "fedavg",
        "workers": 1,
        "data": {"name": "clothing1m", "path": str(path)},
        "partition": {"kind": "iid", "clients": 5, "stratified": False},
        "train": {
            "model": {"name": "cnn", "width": 2},
            "participation": 0.4,
            "epochs": 1,
            "batch": 8,
            "lr": 0.01,
        },
    }
    return configs.parse(setting | changes)


def sites_of(path: Path, **changes):
    """What workers would get, and the sample numbers of every site."""
    from flr.simulation.build import make_sites

    settings = config(path, **changes)
    dataset = api.load_data(settings)
    scenario = api.load_scenario(settings, dataset)
    return make_sites(dataset, scenario), scenario.sites


def test_it_reads_the_official_lists(original, monkeypatch):
    monkeypatch.setenv("FLR_DATA", str(original.parent))
    data = Clothing1M().load()
    assert data.classes == NAMES
    assert data.train.x.shape == (TRAIN, 3, 256, 256)
    assert data.test.x.shape == (TEST, 3, 224, 224)
    assert data.train.y.tolist() == [n % 14 for n in range(TRAIN)]
    assert data.test.y.tolist() == [(n + 1) % 14 for n in range(TRAIN, TRAIN + TEST)]
    assert not data.verified
    assert Clothing1M(original).load().fingerprint == data.fingerprint
    assert Clothing1M(original.parent).load().fingerprint == data.fingerprint


def test_pictures_are_decoded_scaled_and_normalized(original):
    data = Clothing1M(original).load()
    rows = torch.tensor([7, 2, 30])
    raw = data.train.x[rows]
    assert raw.dtype == torch.uint8
    red = raw[:, 0].float().mean((1, 2))
    assert torch.allclose(red, 4.0 * rows, atol=4)
    lazily, now = data.normalize(data.train.x)[rows], data.normalize(raw)
    assert lazily.dtype == torch.float32
    assert torch.equal(lazily, now)
    assert abs(float(now[0, 2, 0, 0]) - (raw[0, 2, 0, 0] / 255 - 0.406) / 0.225) < 1e-5


def test_pictures_stand_where_a_tensor_would(original):
    pictures = Clothing1M(original).load().train.x
    tensor = pictures[:]
    assert len(pictures) == len(tensor)
    assert pictures.shape == tuple(tensor.shape)
    assert torch.equal(torch.cat(list(pictures.split(9))), tensor)
    index = torch.tensor([3, 3, 0])
    for rows in (index, index.numpy(), slice(4, 6)):
        assert torch.equal(pictures[rows], tensor[rows])
        assert torch.equal(pictures.take(rows)[:], tensor[rows])
    assert torch.equal(pickle.loads(pickle.dumps(pictures.share_memory_()))[index], tensor[index])


def test_a_million_paths_are_small():
    paths = [f"images/{n % 10}/{n % 100}/{n},{n}.jpg" for n in range(100_000)]
    pictures = on_disk.Pictures.of(Path("x"), paths, 8)
    assert pictures.path(0) == paths[0]
    assert pictures.path(99_999) == paths[-1]
    assert len(pickle.dumps(pictures)) < 1.05 * sum(map(len, paths)) + 8 * len(paths) + 5000


def test_the_fingerprint_hashes_paths_and_labels(tree):
    before = Clothing1M(tree).load().fingerprint
    Image.new("RGB", (9, 9)).save(tree / key(0))
    assert Clothing1M(tree).load().fingerprint == before
    labels = (tree / "noisy_label_kv.txt").read_text()
    (tree / "noisy_label_kv.txt").write_text(labels.replace(f"{key(0)} 0", f"{key(0)} 5"))
    relabelled = Clothing1M(tree).load().fingerprint
    list_file = tree / "noisy_train_key_list.txt"
    list_file.write_text("\n".join(reversed(list_file.read_text().split())))
    assert len({before, relabelled, Clothing1M(tree).load().fingerprint}) == 3


def test_only_the_files_of_the_site_that_is_asked_are_opened(tree):
    table, sites = sites_of(tree)
    wanted = {key(number) for number in sites[2].tolist()}
    for number in range(TRAIN + TEST):
        if key(number) not in wanted:
            (tree / key(number)).unlink()
    site = table[2]
    assert site.x.shape == (len(sites[2]), 3, 256, 256)
    assert site.y.tolist() == [number % 14 for number in sites[2].tolist()]
    with pytest.raises(DataError, match=r"Expected a picture at .*images/.*jpg; there is none"):
        table[1]


def test_fewer_samples_are_chosen_without_decoding(tree):
    shutil.rmtree(tree / "images")
    settings = config(tree, data={"name": "clothing1m", "path": str(tree), "train": 20, "test": 3})
    data = api.load_data(settings)
    assert data.train.x.shape == (20, 3, 256, 256)
    assert data.test.x.shape == (3, 3, 224, 224)


def broken_jpeg(tree: Path, number: int) -> None:
    whole = (tree / key(number)).read_bytes()
    (tree / key(number)).write_bytes(whole[: len(whole) // 2])


def test_a_broken_jpeg_matters_when_its_site_is_asked(tree, tmp_path):
    _, sites = sites_of(tree)
    for site in sites:
        broken_jpeg(tree, int(site[0]))
    assert Clothing1M(tree).load().verified is False
    with pytest.raises(DataError, match=r"\.jpg: expected an image; it cannot be read"):
        flr.run(config(tree), out=tmp_path / "run")


@pytest.fixture(scope="module")
def run(original, tmp_path_factory) -> flr.Run:
    """With one worker."""
    return flr.run(config(original), out=tmp_path_factory.mktemp("runs") / "one")


def test_two_workers_give_the_same_bits_as_one(run, original, tmp_path):
    other = flr.run(config(original, workers=2), out=tmp_path / "two")
    one, two = ((r.folder / "model.safetensors").read_bytes() for r in (run, other))
    assert one == two
    one, two = ([line["accuracy"] for line in r.metrics] for r in (run, other))
    assert one == two


def test_what_is_not_known_is_not_measured(run, original):
    assert all("memorization" not in line for line in run.metrics)
    assert all(line["memorization"] is None for line in run.clients)
    assert all(line["noise"]["realised"] is None for line in run.clients)
    assert run.metrics[-1]["accuracy"] is not None
    assert json.loads((run.folder / "summary.json").read_text())["noise"]["realised"] is None
    page = (run.folder / "report.html").read_text()
    assert "is not known" in page
    assert "0.0 % are wrong" not in page
    model = run.model()
    assert model.input_shape == (3, 224, 224)
    test = Clothing1M(original).load().test
    right = (model.probabilities(test.x).argmax(1) == test.y).double().mean()
    assert float(right) == pytest.approx(run.metrics[-1]["accuracy"])


def test_check_says_what_is_not_known(original, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(config(original).to_toml())
    seen = CliRunner().invoke(app, ["check", str(file)])
    assert "how many labels are wrong is not known" in " ".join(seen.output.split())
    assert "% wrong" not in seen.output


def test_clean_samples_and_noisy_inputs_are_refused(original, tmp_path):
    with pytest.raises(ConfigError, match="which training labels of clothing1m are right"):
        flr.run(config(original, scenario={"benchmark": 4}), out=tmp_path / "a")
    with pytest.raises(ConfigError, match="pictures on disk"):
        flr.run(config(original, noise={"kind": "features"}), out=tmp_path / "b")
    flat = {"model": "mlp", "participation": 0.4}
    with pytest.raises(ConfigError, match="averages over space"):
        flr.run(config(original, train=flat), out=tmp_path / "c")


def cut(name: str, lines: int):
    def damage(root: Path) -> None:
        kept = (root / name).read_text().splitlines()[:lines]
        (root / name).write_text("\n".join(kept))

    return damage


def add(name: str, line: str):
    def damage(root: Path) -> None:
        with (root / name).open("a") as file:
            file.write(line + "\n")

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: (root / "noisy_label_kv.txt").unlink(), "Expected a list of Clothing1M at"),
        (lambda root: (root / "clean_test_key_list.txt").unlink(), "there is none"),
        (cut("noisy_label_kv.txt", 40), '2 of 42 have none, the first is "images/0/40/40,280.jpg"'),
        (cut("noisy_train_key_list.txt", 0), "expected a line for each picture"),
        (cut("category_names_eng.txt", 13), "expected 14 class names; got 13"),
        (add("category_names_eng.txt", "Shirt"), "expected distinct names"),
        (add("noisy_label_kv.txt", "images/0/x.jpg 14"), r"line 59: .* from 0 to 13; got"),
        (add("noisy_label_kv.txt", "images/0/x.jpg -1"), "from 0 to 13"),
        (add("clean_label_kv.txt", "images/0/x.jpg"), "the path of a picture and a class number"),
        (add("noisy_train_key_list.txt", "images/../../secret.jpg"), "line 43: .*inside"),
        (add("clean_test_key_list.txt", "/etc/passwd"), "line 17: .*inside"),
        (add("clean_test_key_list.txt", "..\\x.jpg"), "inside"),
        (lambda root: (root / "noisy_label_kv.txt").write_bytes(b"\xff\xfe 1"), "in UTF-8"),
    ],
)
def test_broken_lists_are_named(tree, damage, message):
    damage(tree)
    with pytest.raises(DataError, match=message):
        Clothing1M(tree).load()


def test_a_file_or_nothing_in_place_of_the_folder(tmp_path):
    with pytest.raises(DataError, match="flr data get clothing1m"):
        Clothing1M(tmp_path / "nowhere").load()
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="got a file"):
        Clothing1M(tmp_path / "file").load()


def test_uniform_over_the_sites(original):
    parts, _ = Iid(5, stratified=False).split(
        Clothing1M(original).load().train.y.numpy(), 14, np.random.default_rng(0)
    )
    assert sorted(len(part) for part in parts) == [8, 8, 8, 9, 9]


def test_window_flip_cuts_and_mirrors_each_image():
    n = 3000
    grid = torch.arange(16.0)[:, None] * 100 + torch.arange(8.0)
    x = grid.expand(n, 2, 16, 8).clone()
    x[:, 1] += 0.5
    out = augment(x, "window-flip", torch.Generator().manual_seed(1), ())
    assert out.shape == (n, *shape_after("window-flip", (2, 16, 8))) == (n, 2, 14, 7)
    seen = set()
    for image in out:
        mirrored = bool(image[0, 0, 0] > image[0, 0, 1])
        straight = image.flip(2) if mirrored else image
        top, left = divmod(int(straight[0, 0, 0]), 100)
        assert torch.equal(straight, x[0, :, top : top + 14, left : left + 7])
        seen.add((top, left, mirrored))
    assert seen == {(t, c, m) for t in range(3) for c in range(2) for m in (False, True)}
    assert shape_after("window-flip", (3, 256, 256)) == (3, 224, 224)
