"""A worker takes over the weights it gets, all of them, or refuses them."""

from __future__ import annotations

import pytest
import torch

from flr.client.state import StateFiles
from flr.client.worker import ClientWorker
from flr.config import parse
from flr.models.networks import weights_of
from flr.simulation.build import load_data, load_scenario, make_sites, make_worker_spec


@pytest.fixture
def worker(tmp_path) -> ClientWorker:
    model = {"name": "mlp", "hidden": 4}
    config = parse({"rounds": 1, "partition": {"clients": 2}, "train": {"model": model}})
    dataset = load_data(config)
    sites = make_sites(dataset, load_scenario(config, dataset))
    return ClientWorker(make_worker_spec(config, dataset.task_spec(), sites, StateFiles(tmp_path)))


def test_every_weight_is_taken_over(worker):
    sent = {name: value + 1 for name, value in weights_of(worker.model).items()}
    worker.load(sent | {"fedcorr.labels": torch.zeros(3)})  # what is no weight is the method's
    assert all(value.equal(sent[name]) for name, value in weights_of(worker.model).items())


@pytest.mark.parametrize("harm", ["missing", "unknown", "smaller"])
def test_weights_that_do_not_fit_are_refused(worker, harm):
    sent = weights_of(worker.model)
    name = "model.0.head.bias"
    if harm == "missing":
        del sent[name]
    elif harm == "unknown":
        sent["model.0.tail.bias"] = sent[name]
    else:
        sent[name] = sent[name][:1]  # one number, which torch would copy to all
    with pytest.raises(RuntimeError, match="state_dict"):
        worker.load(sent)
