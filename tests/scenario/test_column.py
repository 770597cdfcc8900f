"""Sites that the data name: every source brings them, and a run trains on them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import flr
from flr.config import parse
from flr.core.errors import ConfigError, DataError
from flr.data.build import subset
from flr.data.dataset import Dataset, LabeledData
from flr.data.sources.digits import Digits
from flr.data.sources.files import Csv, Folder, Npz
from flr.scenario import scenario as scenarios
from flr.scenario.noises.symmetric import Symmetric
from flr.scenario.partitions.column import Column
from flr.scenario.partitions.iid import Iid

HOSPITALS = ("Bonn", "Köln", "Aachen")


@pytest.fixture
def table(tmp_path):
    """90 rows of two classes at three hospitals of different sizes."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(90):
        site, label = HOSPITALS[min(i % 6, 2)], i % 2
        values = ",".join(f"{v:.3f}" for v in rng.normal(size=3) + 3 * label)
        rows.append(f"{values},{site},{('ill', 'well')[label]}")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b,c,hospital,label", *rows]) + "\n", encoding="utf-8")
    return path


def test_samples_are_where_the_table_says(table):
    data = Csv(table, site="hospital").load()
    assert data.input_shape == (3,)  # the column is no feature
    assert data.site_names == tuple(sorted(HOSPITALS))
    scenario = scenarios.build(data, Column(), Symmetric(), seed=1)
    assert len(scenario.sites) == 3
    for number, samples in enumerate(scenario.sites):
        assert (data.train.site[samples] == number).all()
        for row in data.train.number[samples].tolist():
            assert HOSPITALS[min(row % 6, 2)] == data.site_names[number]
    assert sorted(scenario.index.tolist()) == list(range(len(data.train)))
    assert scenario.spec["partition"] == {"kind": "column"}
    assert scenario.spec["notes"] == [f"Site {k} is {n}." for k, n in enumerate(data.site_names)]


def test_the_file_comes_back_and_no_other_hash_changes(table, tmp_path):
    named, plain = Csv(table, site="hospital").load(), Csv(table, site="hospital").load()
    bare = LabeledData(plain.train.x, plain.train.y)
    plain = Dataset("t", bare, plain.test, plain.classes, plain.normalize)
    assert named.fingerprint == plain.fingerprint
    one, two = (scenarios.build(d, Iid(4), Symmetric(), seed=3) for d in (named, plain))
    assert one.hash == two.hash
    scenario = scenarios.build(named, Column(), Symmetric(), seed=3)
    scenario.save(tmp_path / "s")
    assert scenarios.load(tmp_path / "s").hash == scenario.hash


def test_sites_without_samples_are_left_out_and_named(table):
    data = Csv(table, site="hospital").load()
    keep = torch.nonzero(data.train.site != 1)[:, 0]
    few = Dataset(
        "t", data.train[keep], data.test, data.classes, data.normalize, site_names=data.site_names
    )
    scenario = scenarios.build(few, Column(), Symmetric(), seed=1, benchmark=4)
    assert len(scenario.sites) == 2
    assert scenario.spec["notes"][:2] == ["Site 0 is Aachen.", "Site 1 is Köln."]
    assert "left at Bonn" in scenario.spec["notes"][2]
    held = scenario.benchmark.tolist()
    assert sorted([*scenario.index.tolist(), *held]) == list(range(len(few.train)))


def test_a_subset_keeps_the_sites(table):
    data = subset(Csv(table, site="hospital").load(), 20, None)
    scenario = scenarios.build(data, Column(), Symmetric(), seed=1)
    for number, samples in enumerate(scenario.sites):
        assert (data.train.site[samples] == number).all()


def test_a_data_set_without_sites_is_refused():
    with pytest.raises(ConfigError, match=r'Name the column: \[data\] site = "hospital"'):
        scenarios.build(Digits().load(), Column(), Symmetric(), seed=1)


def test_npz_brings_sites(tmp_path):
    x, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    site = np.where(np.arange(20) < 8, 7, 30)
    parts = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    np.savez(tmp_path / "a.npz", **parts, site_train=site)
    data = Npz(tmp_path / "a.npz").load()
    assert data.site_names == ("7", "30")
    assert data.train.site.tolist() == [0] * 8 + [1] * 12
    np.savez(tmp_path / "a.npz", x=x, y=y, site=np.array(["n", "s"])[y])
    data = Npz(tmp_path / "a.npz").load()
    assert data.site_names == ("n", "s")
    assert torch.equal(data.train.site, data.train.y)
    np.savez(tmp_path / "a.npz", x=x, y=y, site=site[:5])
    with pytest.raises(DataError, match="20 samples and 5 sites"):
        Npz(tmp_path / "a.npz").load()


def test_folders_bring_sites(tmp_path):
    for site, classes in {"north": ("ant", "bee"), "south": ("bee",)}.items():
        for number, name in enumerate(classes):
            (tmp_path / site / name).mkdir(parents=True)
            for i in range(5):
                color = (len(site) + (site == "south"), number, i)
                Image.new("RGB", (4, 4), color).save(tmp_path / site / name / f"{i}.png")
    data = Folder(tmp_path, sites="folder").load()
    assert (data.classes, data.site_names) == (("ant", "bee"), ("north", "south"))
    assert torch.equal(data.train.site, (data.train.x[:, 0, 0, 0] == 6).long())
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="one sub-folder for each site"):
        Folder(empty, sites="folder").load()


def test_an_empty_site_names_its_line(table):
    table.write_text("a,hospital,label\n1,x,1\n2, ,0\n")
    with pytest.raises(DataError, match='line 3, column "hospital": expected a name'):
        Csv(table, site="hospital").load()


def settings(table, **more):
    data = {"name": "csv", "path": str(table), "site": "hospital"}
    return {"rounds": 2, "data": data, "partition": "column", "workers": 1, **more}


def test_a_run_on_the_sites_of_a_table(table, tmp_path):
    train = {"participation": 1.0, "batch": 5}
    config = settings(table, method="fedavg", noise={"kind": "symmetric"}, train=train)
    run = flr.run(config, out=tmp_path / "run")
    scenario = scenarios.load(tmp_path / "run" / "scenario.safetensors")
    assert scenario.sizes.tolist() == sorted(scenario.sizes.tolist(), reverse=True)
    assert len(scenario.sites) == 3
    assert run.summary["rounds"] == 2
    flr.run(config, out=tmp_path / "again")
    one, two = (tmp_path / name / "model.safetensors" for name in ("run", "again"))
    assert one.read_bytes() == two.read_bytes()


def test_what_needs_the_number_of_sites_waits_for_the_data(table):
    assert parse(settings(table, min_replies=9)).partition.build().sites is None
    parse(settings(table, rounds=100, method="fedcorr"))
    with pytest.raises(ConfigError, match="min_replies = 9 is more than"):
        flr.run(settings(table, min_replies=9))
    with pytest.raises(ConfigError, match="clients"):
        parse(settings(table, partition={"kind": "column", "clients": 3}))
