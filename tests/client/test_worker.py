"""A worker takes over the weights it gets, all of them, or refuses them."""

from __future__ import annotations

import pytest
import torch

from flr.client.state import StateFiles
from flr.client.worker import ClientTask, ClientWorker
from flr.config import parse
from flr.core.traits import COUNTS, VALIDATE
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


def test_validation_counts_held_out_labels_and_leaves_nothing_behind(tmp_path):
    config = parse({"rounds": 1, "method": "flr", "partition": {"clients": 2}})
    dataset = load_data(config)
    sites = make_sites(dataset, load_scenario(config, dataset))
    mask = torch.arange(len(sites.samples.flat)) % 5 == 0
    parts = sites.where(~mask), sites.where(mask)
    spec = make_worker_spec(
        config, dataset.task_spec(), parts[0], StateFiles(tmp_path), held_out=parts[1]
    )
    worker = ClientWorker(spec)
    worker.broadcast = weights_of(worker.model)
    result = worker.serve(ClientTask(VALIDATE, 1, 0, 0, 1))
    held = parts[1][1]
    with torch.no_grad():
        right = int((worker.model[0].eval()(held.x).argmax(1) == held.y).sum())
    assert set(result.reply.arrays) == {COUNTS}
    assert result.reply.arrays[COUNTS].tolist() == [right, len(held)]
    assert not result.stateful
    assert list(tmp_path.iterdir()) == []
    assert all(worker.broadcast[name].equal(v) for name, v in weights_of(worker.model).items())
