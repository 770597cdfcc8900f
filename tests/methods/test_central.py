"""The paper's centralised rows: one pooled site, one epoch a round, momentum kept."""

from __future__ import annotations

import pytest
from toys import bits, train, train_until

import flr
from flr import config as configs
from flr.simulation import api

CENTRAL = {
    "partition": {"kind": "central"},
    "train": {"participation": 1.0, "epochs": 1, "keep_optimizer": True},
}


@pytest.mark.parametrize("method", ["fedavg", "gce", "coteaching", "dividemix", "elr"])
def test_pooled_training_runs_and_resumes(method, tmp_path):
    whole = train(method, tmp_path / "whole", **CENTRAL)
    assert [c["examples"] for c in whole.clients] == [126] * 4
    train_until(method, tmp_path / "stopped", 2, **CENTRAL)
    assert bits(flr.resume(tmp_path / "stopped")) == bits(whole)


def test_pooled_labels_are_those_of_the_federation():
    noise = {"kind": "symmetric", "clients": 0.5, "floor": 0.3}
    sites = {"iid": {"kind": "iid", "clients": 6}, "central": {"kind": "central", "clients": 6}}
    made = {
        name: api.load_scenario(config, api.load_data(config))
        for name, partition in sites.items()
        for config in [
            configs.parse({"rounds": 1, "noise": noise, "partition": partition, "seed": 5})
        ]
    }
    assert [len(scenario.sites) for scenario in made.values()] == [6, 1]
    labels = [dict(zip(s.index.tolist(), s.labels.tolist(), strict=True)) for s in made.values()]
    assert labels[0] == labels[1]


@pytest.mark.parametrize(("method", "main"), [("coteaching", "1"), ("dividemix", "ensemble")])
def test_two_networks_are_reported_alone_and_together(method, main, tmp_path):
    run = train(method, tmp_path / "run")
    for line in run.metrics:
        assert set(line["accuracy_networks"]) == {"1", "2", "ensemble"}
        assert line["accuracy"] == line["accuracy_networks"][main]


def test_one_network_needs_no_such_report(tmp_path):
    assert "accuracy_networks" not in train("fedavg", tmp_path / "run").metrics[-1]
