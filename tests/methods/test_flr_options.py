"""FLR's cheaper forms: what they compute, what they cost, what a site keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from toys import ROUNDS, train

import flr
from flr import config
from flr.core import arrays
from flr.core.errors import ConfigError
from flr.core.traits import Traits
from flr.methods.fedcorr import FedCorr
from flr.methods.flr import FLR
from flr.methods.shared.prediction_tables import TableFormat
from flr.methods.shared.soft_labels import FrozenPredictions, LabelMixture
from flr.report import html, plots
from flr.report.describe import stays_at_the_site

EPOCHS = 3
SPARSE = {"server_predictions": "round", "table_dtype": "float16", "top_k": 3}


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    monkeypatch.setattr(plots, "curves", lambda *_: None)
    monkeypatch.setattr(html, "run_page", lambda *_: None)


def variant(**options: Any) -> dict[str, Any]:
    return {"name": "flr", **options}


def weights(run: flr.Run) -> dict[str, Tensor]:
    return arrays.load(run.folder / "model.safetensors")[0]


@contextmanager
def forwarded() -> Iterator[list[int]]:
    """Counts the samples that pass the last layer of any network, copies included."""
    counts: list[int] = []

    def count(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, nn.Linear) and module.out_features == 10:
            counts.append(len(inputs[0]))

    handle = nn.modules.module.register_module_forward_pre_hook(count)
    try:
        yield counts
    finally:
        handle.remove()


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({"server_predictions": "batch"}, EPOCHS),
        ({"server_predictions": "round"}, 1),
        (SPARSE, 1),
        ({"server_predictions": "batch", "alpha": 0.0}, 0),
        ({"server_predictions": "round", "alpha": 0.0}, 0),
    ],
    ids=str,
)
def test_what_it_costs_beside_fedavg_in_samples_forwarded(options, passes, tmp_path):
    """In a round that has the term; in a warm-up nobody predicts (below)."""
    totals = []
    for name in ("fedavg", variant(warmup="schedule", **options)):
        with forwarded() as counts:
            run = train(name, tmp_path / str(len(totals)), train={"epochs": EPOCHS})
        totals.append(sum(counts))
    examples = sum(c["examples"] for c in run.clients)
    assert examples == ROUNDS * 3 * 21
    assert totals[1] - totals[0] == passes * examples


@pytest.mark.parametrize("beside", [[], ["mixup"], ["coteaching"]], ids=str)
def test_in_one_epoch_both_versions_are_the_same(beside, tmp_path):
    """Every visit is a sample's first one of the round, augmented as it is then."""
    augmented = {"data": {"augment": "crop-flip"}, "train": {"epochs": 1}}
    one, two = (
        weights(train([variant(server_predictions=name), *beside], tmp_path / name, **augmented))
        for name in ("batch", "round")
    )
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_first_looks_ask_the_network_once_for_each_sample():
    asked = []

    class Doubling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            asked.append(len(x))
            return 2 * x

    looks = FrozenPredictions(4, 3, TableFormat(torch.float16), torch.device("cpu"))
    first, second, third = (torch.rand(n, 3) for n in (3, 3, 4))
    index = torch.tensor([2, 0, 2])  # a sample twice: both rows are of this visit
    assert torch.equal(looks.predictions(Doubling(), first, index), (2 * first).softmax(1))
    found = looks.predictions(Doubling(), second, torch.tensor([0, 1, 2]))
    assert torch.equal(found[1], (2 * second[1]).softmax(0))  # as it is, not as it is stored
    torch.testing.assert_close(found[0], (2 * first[1]).softmax(0), atol=1e-3, rtol=0)
    last = looks.predictions(Doubling(), third, torch.tensor([3, 2, 1, 0]))
    assert torch.equal(last[0], (2 * third[0]).softmax(0))
    torch.testing.assert_close(last[2:], found[[1, 0]], atol=1e-3, rtol=0)
    looks.predictions(Doubling(), third, torch.tensor([3, 2, 1, 0]))
    assert asked == [3, 1, 1]


@pytest.fixture
def watched(monkeypatch) -> Callable[..., list[tuple[Tensor, Tensor, Tensor]]]:
    """Runs one round of a method; gives (samples, predictions of the server, targets) of visits."""

    def visits(method: Any, out: Any, **changes: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
        found = []
        real = LabelMixture.update

        def update(self: LabelMixture, p: Tensor, p_srv: Tensor, index: Tensor) -> Tensor:
            t = real(self, p, p_srv, index)
            found.append((index.clone(), p_srv.clone(), t.clone()))
            return t

        with monkeypatch.context() as patched:
            patched.setattr(LabelMixture, "update", update)
            train(method, out, rounds=1, **changes)
        return found

    return visits


@pytest.mark.parametrize("beside", [[], ["mixup"], ["coteaching"]], ids=str)
def test_without_augmentation_both_versions_give_the_same_targets(beside, watched, tmp_path):
    """Up to the rounding of another batch size; over all epochs, as the server does not move."""
    shown = {"train": {"epochs": EPOCHS}}
    one, two = (
        watched([variant(linear=False, server_predictions=name), *beside], tmp_path / name, **shown)
        for name in ("batch", "round")
    )
    assert len(one) == len(two) > EPOCHS
    for (index, p_srv, t), (index_2, p_srv_2, t_2) in zip(one, two, strict=True):
        assert torch.equal(index, index_2)
        torch.testing.assert_close(p_srv, p_srv_2, rtol=0, atol=1e-5)
        torch.testing.assert_close(t, t_2, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("name", "same"), [("batch", False), ("round", True)])
def test_with_augmentation_only_those_of_a_round_stay_the_same(name, same, watched, tmp_path):
    changes = {"train": {"epochs": 2}, "data": {"augment": "crop-flip"}}
    seen = watched(variant(server_predictions=name), tmp_path / name, **changes)
    epochs: list[dict[int, Tensor]] = [{}, {}]
    for position, (index, p_srv, _) in enumerate(seen[:4]):  # of the first client
        epochs[position // 2] |= dict(zip(index.tolist(), p_srv, strict=True))
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(21))
    assert all(torch.equal(epochs[0][i], epochs[1][i]) for i in range(21)) == same


@pytest.mark.parametrize("options", [{"server_predictions": "round"}, SPARSE], ids=str)
def test_predictions_of_the_server_leave_no_trace(options, tmp_path):
    """BatchNorm's statistics and the modes of its layers are FedAvg's where the term is off."""
    mine = weights(train(variant(lam=0.0, **options), tmp_path / "mine"))
    fedavg = weights(train("fedavg", tmp_path / "fedavg"))
    assert all(torch.equal(mine[name], fedavg[name]) for name in fedavg)


def test_a_warm_up_by_cross_entropy_predicts_nothing(tmp_path):
    totals = []
    warming = variant(server_predictions="round", warmup="ce", warmup_rounds=ROUNDS - 1)
    for method in ("fedavg", warming):
        with forwarded() as counts:
            train(method, tmp_path / str(len(totals)))
        totals.append(sum(counts))
    assert totals[1] - totals[0] == 3 * 21  # the last round


def test_each_option_changes_the_result(tmp_path):
    augmented = {"data": {"augment": "crop-flip"}, "train": {"epochs": 2}}
    plain = weights(train("flr", tmp_path / "plain", **augmented))
    for key, value in SPARSE.items():
        other = weights(train(variant(**{key: value}), tmp_path / key, **augmented))
        assert any(not torch.equal(plain[name], other[name]) for name in plain), key


def test_the_defaults_are_the_exact_version(tmp_path):
    options = {"server_predictions": "batch", "table_dtype": "float32"}
    written, plain = (
        weights(train(method, tmp_path / name))
        for name, method in (("written", variant(**options)), ("plain", "flr"))
    )
    assert all(torch.equal(plain[name], written[name]) for name in plain)


def test_what_a_site_keeps_follows_the_options():
    kept = {d.name: (d.shape, d.dtype) for d in FLR(table_dtype="float16", top_k=5).traits.keeps}
    assert kept == {
        **{f"flr.{{net}}.{x}": (("samples", 5), torch.float16) for x in "sm"},
        **{f"flr.{{net}}.{x}_classes": (("samples", 5), torch.int16) for x in "sm"},
        "flr.{net}.seen": (("samples",), torch.bool),
    }
    inside = FedCorr(inner={"name": "flr", "top_k": 5})
    assert set(FLR(top_k=5).traits.keeps) <= set(inside.traits.keeps)
    assert "flr.{net}.s (samples x 5, float32)" in " ".join(stays_at_the_site(inside))


def test_the_cost_follows_the_options():
    costs = [
        FLR().traits.cost,
        FLR(server_predictions="round").traits.cost,
        FLR(alpha=0.0).traits.cost,
        FLR(alpha=0.0, server_predictions="round").traits.cost,
    ]
    assert "global model" in costs[0]
    assert "over the site in each round" in costs[1]
    assert costs[2] == costs[3] == Traits.cost


def test_more_entries_than_classes_are_all_classes(tmp_path):
    run = train(variant(top_k=50), tmp_path / "run")
    for path in (run.folder / "checkpoint" / "state").glob("*/*"):
        assert arrays.load(path)[0]["flr.0.s"].shape == (21, 10)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"top_k": 0}, "top_k"),
        ({"table_dtype": "bfloat16"}, "float16"),
        ({"server_predictions": "epoch"}, "round"),
    ],
    ids=str,
)
def test_other_values_are_refused(option, said):
    with pytest.raises(ConfigError, match=said):
        config.parse({"rounds": 10, "method": variant(**option)})
