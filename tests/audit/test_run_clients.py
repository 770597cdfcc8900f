"""`flr audit RUN`: each client of a simulated run from what it has, and from nothing else."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from toys import settings

import flr
from flr.audit import predictions
from flr.audit.run_clients import open_run
from flr.audit.site_audit import examine
from flr.cli.main import app
from flr.core.errors import DataError
from flr.methods.shared.soft_labels import LabelMixture
from flr.scenario import scenario as scenarios
from flr.simulation.build import load_data, make_sites

ROOT = Path(__file__).resolve().parents[2]
FILES = {"suspects.csv", "audit.json", "audit.html", "labels.csv", "scores.csv"}
SITES = settings("flr")["partition"]["clients"]


def train(method: Any, out: Path, **changes: Any) -> Path:
    every = {"train": {"participation": 1.0}} | changes
    return flr.run(settings(method, **every), out=out).folder


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """FLR on digits, with tables at every client."""
    return train("flr", tmp_path_factory.mktemp("runs") / "flr")


def test_every_client_gets_its_files(cli, run):
    done = cli("audit", run)
    assert done.code == 0, done.err
    assert all(len(line) <= 80 for line in done.out.splitlines() if str(run) not in line)
    scenario = scenarios.load(run / "scenario.safetensors")
    for client in range(SITES):
        folder = run / "audit" / str(client)
        assert {path.name for path in folder.iterdir()} >= FILES
        held = zip(scenario.sites[client].tolist(), scenario.given[client].tolist(), strict=True)
        given = dict(held)
        with (folder / "labels.csv").open(newline="") as file:
            labels = {int(row["name"]): int(row["label"]) for row in csv.DictReader(file)}
        assert labels == given
        with (folder / "suspects.csv").open(newline="") as file:
            suspects = list(csv.DictReader(file))
        assert suspects
        assert all(given[int(row["name"])] == int(row["given"]) for row in suspects)
        assert json.loads((folder / "audit.json").read_text())["samples"] == len(given)
        assert f"{client}  " in done.out


def test_one_client_and_another_folder(cli, run, tmp_path):
    done = cli("audit", run, "--client", 2, "--client", 4, "--out", tmp_path / "here")
    assert done.code == 0, done.err
    found = sorted(path.name for path in (tmp_path / "here").iterdir())
    assert found == ["2", "4", "truth.json"]


def test_a_simulation_is_measured_against_the_truth(cli, run):
    done = cli("audit", run, "--overwrite", "--out", run / "audit")
    scenario = scenarios.load(run / "scenario.safetensors")
    true = load_data(flr.simulation.api.read_config(run)).train.y
    pairs = zip(scenario.given, scenario.sites, strict=True)
    errors = [given != true[site] for given, site in pairs]
    measured = json.loads((run / "audit" / "truth.json").read_text())
    assert measured["all"]["wrong"] == sum(int(wrong.sum()) for wrong in errors)
    assert [one["wrong"] for one in measured["per_client"]] == [int(w.sum()) for w in errors]
    assert f"{measured['all']['average_precision']:.3f}" in done.out


def test_clients_that_do_not_exist_or_are_too_many(cli, run, tmp_path):
    assert "from 0 to 5" in cli("audit", run, "--client", 6).message
    assert cli("audit", run, "--client", 6).code == 4
    many = train("fedavg", tmp_path / "many", partition={"kind": "iid", "clients": 21}, rounds=1)
    refused = cli("audit", many)
    assert refused.code == 4
    assert "--all" in refused.message
    assert not (many / "audit").exists()
    assert cli("audit", many, "--all").code == 0
    assert len(list((many / "audit").iterdir())) == 21 + 1  # and truth.json


def test_views_are_the_tables_and_the_model(run):
    opened = open_run(run)
    found = opened.evidence(1)
    state = sorted((run / "checkpoint" / "state" / "1").iterdir(), key=lambda p: int(p.stem))[-1]
    kept, _ = flr.core.arrays.load(state)
    for view, letter in (("global", "s"), ("local", "m")):
        assert torch.allclose(found.views[view], kept[f"flr.0.{letter}"], atol=1e-5)
    raw = load_data(flr.simulation.api.read_config(run)).train.x[opened.sites[1]]
    assert torch.allclose(found.views["model"], opened.model.probabilities(raw), atol=1e-6)
    assert found.visited is not None
    assert found.visited.all()
    assert "global model's and the local model's" in found.source


def test_elr_has_the_local_models_predictions(tmp_path):
    found = open_run(train("elr", tmp_path / "r")).evidence(0)
    assert set(found.views) == {"local", "model"}
    assert found.visited is not None
    assert found.source.startswith("ELR's running averages of the local model's predictions")


@pytest.mark.parametrize("method", ["fedavg", {"name": "fedcorr", "iterations": 1}])
def test_other_methods_have_the_models_predictions_only(method, tmp_path):
    opened = open_run(train(method, tmp_path / "r"))
    found = opened.evidence(0)
    assert set(found.views) == {"model"}
    assert found.visited is None
    assert "only the model's predictions" in found.source
    assert torch.equal(found.given, opened.given[0]), "not the labels that FedCorr has corrected"


def test_flr_inside_another_method_has_tables(tmp_path):
    folder = train({"name": "fedcorr", "iterations": 1, "inner": "flr"}, tmp_path / "r")
    found = open_run(folder).evidence(0)
    assert set(found.views) == {"global", "local", "model"}


def test_several_networks_are_averaged(tmp_path):
    folder = train(["coteaching", "flr"], tmp_path / "r")
    opened = open_run(folder)
    found = opened.evidence(3)
    version = opened.versions[3]
    kept, _ = flr.core.arrays.load(folder / "checkpoint" / "state" / "3" / f"{version}.safetensors")
    mean = (kept["flr.0.s"] + kept["flr.1.s"]) / 2
    assert torch.allclose(found.views["global"], mean, atol=1e-5)
    dataset = load_data(flr.simulation.api.read_config(folder))
    x = dataset.normalize(dataset.train.x[opened.sites[3]])
    with torch.no_grad():
        each = [network.eval()(x).softmax(1) for network in opened.model.networks]
    assert torch.allclose(found.views["model"], sum(each) / 2, atol=1e-6)


def test_what_never_saw_the_global_model_is_not_called_global(tmp_path):
    found = open_run(train("local", tmp_path / "r")).evidence(0)
    assert set(found.views) == {"local", "model"}


FORMS = [{}, {"dtype": torch.float16}, {"dtype": torch.float16, "top_k": 3}, {"top_k": 7}]


@pytest.mark.parametrize("form", FORMS)
def test_tables_in_every_form(form, run):
    generator = torch.Generator().manual_seed(4)
    tables = LabelMixture(20, 7, **form)
    rows = torch.arange(0, 20, 2)
    p, p_srv = (torch.randn(10, 7, generator=generator).softmax(1) for _ in range(2))
    tables.update(p, p_srv, rows)
    state = {f"flr.0.{name}": array for name, array in tables.tables().items()}
    model = replace(open_run(run).model, classes=tuple("abcdefg"))
    found = predictions.read_kept(state, 20, model, "here")
    assert found is not None
    assert found.visited.nonzero().flatten().tolist() == rows.tolist()
    for view, table in (("global", tables.s), ("local", tables.m)):
        assert found.views[view].dtype == torch.float32
        assert torch.allclose(found.views[view].sum(1), torch.ones(20), atol=1e-5)
        assert torch.allclose(found.views[view][rows], table[rows], atol=2e-3)
    with pytest.raises(DataError, match="21 samples"):
        predictions.read_kept(state, 21, model, "here")
    if form.get("top_k") is None:
        with pytest.raises(DataError, match="6 classes"):
            predictions.read_kept(state, 20, replace(model, classes=tuple("abcdef")), "here")
    del state["flr.0.m"]
    with pytest.raises(DataError, match="not whole"):
        predictions.read_kept(state, 20, model, "here")


def test_no_clean_label_takes_part(run, tmp_path):
    """The same inputs under other true labels: not a byte of the result differs."""
    dataset = load_data(flr.simulation.api.read_config(run))
    train_part = replace(dataset.train, y=(dataset.train.y + 3) % 10)
    other = replace(dataset, train=train_part)
    folder = tmp_path / "other"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("audit", "run.json"))
    scenario = scenarios.load(run / "scenario.safetensors")
    replace(scenario, fingerprint=other.fingerprint).save(folder / "scenario.safetensors")
    for place, data in ((run, None), (folder, other)):
        examine(open_run(place, data).site_audit(0), tmp_path / f"{place.name}-audit")
    for name in FILES:
        one, two = (tmp_path / f"{place.name}-audit" / name for place in (run, folder))
        assert one.read_bytes() == two.read_bytes()


def test_a_client_is_audited_on_the_inputs_it_has(tmp_path):
    noise = {"kind": "features", "floor": 0.5, "std": 2.0}
    folder = train("fedavg", tmp_path / "r", noise=noise)
    opened = open_run(folder)
    dataset = load_data(flr.simulation.api.read_config(folder))
    site = make_sites(dataset, scenarios.load(folder / "scenario.safetensors"))[0]
    with torch.no_grad():
        seen = opened.model.networks[0].eval()(site.x).softmax(1)
    assert torch.allclose(opened.evidence(0).views["model"], seen, atol=1e-6)


def test_without_its_checkpoint_a_run_has_no_tables(run, tmp_path):
    shutil.copytree(run, tmp_path / "r", ignore=shutil.ignore_patterns("checkpoint"))
    assert set(open_run(tmp_path / "r").evidence(0).views) == {"model"}


def test_data_of_a_python_run_is_needed_again(cli, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    y = np.arange(60) % 3
    config = {"rounds": 1, "workers": 1, "partition": {"kind": "iid", "clients": 3}}
    folder = flr.run(config, data=(x, y), out=tmp_path / "r").folder
    refused = cli("audit", folder)
    assert refused.code == 4
    assert "Use the data set that it was made from" in refused.message
    site = open_run(folder, (x, y)).site_audit(0)
    assert site.pictures(0) is None
    assert site.features(0)[0][0] == "feature 0"


def test_what_is_no_finished_run_is_refused(cli, run, tmp_path):
    nothing = cli("audit", tmp_path)
    assert nothing.code == 4
    assert "expected images" in nothing.message
    shutil.copytree(run, tmp_path / "r", ignore=shutil.ignore_patterns("model.safetensors"))
    unfinished = cli("audit", tmp_path / "r")
    assert unfinished.code == 4
    assert "flr resume" in unfinished.message


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["r", "--data", "x.npz", "--model", "m"],
        ["r", "--client", "1", "--all"],
        ["x.npz", "--data", "x.npz"],
        ["x.npz", "l.csv", "--labels", "l.csv"],
        ["x.npz", "--state", "s"],
        ["--data", "x.npz", "--model", "m", "--all"],
        ["r", "--out", "audit.html"],
        ["r", "--scorer", "guess"],
    ],
)
def test_options_that_do_not_go_together(words, cli):
    assert cli("audit", *words).code == 2


@pytest.mark.parametrize("words", [["--share"], ["--label", "y"], ["l.csv"], ["--model", "m"]])
def test_what_a_run_does_not_take(words, cli, run):
    assert cli("audit", run, *words).code == 2


@pytest.mark.parametrize("name", ["audit", "relabel"])
def test_the_reference_has_every_option(name):
    page = (ROOT / "docs/reference/cli.md").read_text()
    rows = "".join(re.findall(rf"^\| `flr {name} .*$", page, re.M))
    for option in typer.main.get_command(app).commands[name].params:
        assert option.param_type_name != "option" or option.opts[0] in rows, option.name
