"""FedSIR's identification, relabelling and loss against the authors' code."""

from __future__ import annotations

import pytest
import torch

from flr.client.fit import fit
from flr.methods.fedsir import DISTILLED, LABELS, FedSIR, clean_clients, fedsir_loss
from flr.methods.shared.class_directions import (
    ROWS,
    ClassDirections,
    agreed,
    agreed_on,
    alikeness,
    class_directions,
    direction_scores,
    leading,
    relabelled,
    residual_scores,
)
from flr.methods.shared.mixtures import smaller_first_mean
from flr.methods.shared.noisy_clients import adjusted_ce
from tests.equations.recorded import close, double, noisy_client


def of_classes(by_class) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and given labels of a site, class after class."""
    parts = {int(c): double(rows) for c, rows in by_class.items()}
    y = torch.cat([torch.full((len(rows),), c) for c, rows in parts.items()])
    return torch.cat(list(parts.values())), y


def test_identification(golden):
    recorded, u = golden("fedsir_identification"), []
    for client in recorded["clients"]:
        found = class_directions(*of_classes(client["features_by_class"]), recorded["classes"])
        used = torch.tensor(client["classes_used"])
        assert used.tolist() == (found.samples >= 20).nonzero().flatten().tolist()
        v = found.direction[used]
        similar = [[client["similarity"][i][j] for j in used] for i in used]
        close((v @ v.T).abs(), similar, 2e-6)  # recorded in float32
        u.append(alikeness(v))
        close(u[-1], [client["off_mean"], client["off_energy"]], 2e-6)
    p = smaller_first_mean(torch.stack(u), 42)
    close(p, recorded["clean_probability"], 1e-5)
    assert clean_clients(torch.stack(u)).nonzero().flatten().tolist() == recorded["clean"]


@pytest.mark.parametrize("weighted", [True, False])
def test_relabelling(golden, weighted):
    recorded = golden("fedsir_relabel")
    case = recorded["cases"][0 if weighted else 1]
    assert case["weight"] == ("n_gap_s1" if weighted else "n")
    sites = []
    for client, by_class in recorded["clean_features"].items():
        found = class_directions(*of_classes(by_class), recorded["classes"])
        close(found.gap, list(recorded["gap"][client].values()), 1e-6)
        close(found.ratio, list(recorded["s1_ratio"][client].values()), 1e-6)
        samples = double(list(recorded["reported_n"][client].values()))
        one = torch.ones_like(samples)
        plain = found._replace(samples=samples)
        sites.append(plain if weighted else plain._replace(gap=one, ratio=one))
    directions, residuals = agreed(sites)
    h, y = of_classes(recorded["noisy_features"])
    close(direction_scores(h, directions), case["score_direction"], 2e-6)
    close(residual_scores(h, residuals), case["score_residual"], 5e-6)
    labels, apart = relabelled(h, y, directions, residuals)
    assert labels.tolist() == case["label"]
    assert (~apart).tolist() == case["agree"]


def test_a_whole_round_at_a_noisy_client(golden):
    recorded = golden("fedsir_local")
    method = FedSIR(weight=recorded["w_kd"], ramp_begin=0, ramp_end=1)
    adam = {"optimizer": "adam", "lr": 1e-3, "weight_decay": 5e-4}
    for case in recorded["cases"]:
        state = {}
        if case["labels"] is not None:
            distilled = torch.zeros(len(case["labels"]), dtype=torch.bool)
            distilled[case["distilled"]] = True
            state = {LABELS: torch.tensor(case["labels"]), DISTILLED: distilled}
        c = noisy_client(method, recorded, recorded["received"], state, batch=4, **adam)
        c.round = 1
        sent = fit(c)
        assert c.scratch["fedsir.counts"].tolist() == recorded["class_counts"]
        for entry, expected in case["trained"].items():
            close(sent[f"model.0.{entry}"].double(), expected)


def test_ramp(golden):
    made = [FedSIR().weight_at(one["round"], 100) for one in golden("fedsir_local")["ramp"]]
    assert made == pytest.approx([one["w_kd"] for one in golden("fedsir_local")["ramp"]], abs=1e-12)


def test_without_weights_the_loss_is_the_adjusted_one():
    logits, y, counts = torch.randn(4, 3).double(), torch.tensor([0, 1, 2, 1]), double([1, 2, 1])
    made = fedsir_loss(logits, logits.softmax(1), y, counts, torch.zeros(4).double())
    close(made, float(adjusted_ce(logits, y, counts)), 1e-12)


def test_singular_values_before_the_residual():
    assert leading(double([10.0, 1.0])) == 1
    assert leading(double([10.0, 1.1])) == 2
    assert leading(double([3.0])) == 1


def test_edges():
    """A class that nobody has, one without residual, one that clients see in different ways."""
    assert alikeness(torch.eye(3)[:1]).tolist() == [0.0, 0.0]
    assert clean_clients(torch.ones(5, 2)).all()
    assert clean_clients(torch.tensor([[0.0, 0.0], [1.0, 1.0]])).all()

    h = double([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    alone = class_directions(h, torch.tensor([0, 2]), 3)
    assert alone.samples.tolist() == [1, 0, 1]
    assert not alone.residual.any()
    labels, apart = relabelled(h, torch.tensor([2, 1]), *agreed([alone]))
    assert labels.tolist() == [2, 1]
    assert apart.all()

    axes, none = torch.eye(2).double(), torch.zeros(2, ROWS, 2).double()
    n, one = double([100, 101]), double([1, 1])
    close(agreed_on(axes, none, n, one, one)[0], [0, 1])  # as good as no agreement
    direction, residual = agreed_on(axes, none, double([200, 100]), one, one)
    close(direction.abs(), [1, 0], 1e-12)
    assert not residual.any()


def test_directions_of_nothing_are_zeros():
    found = class_directions(torch.zeros(3, 2), torch.tensor([0, 0, 1]), 2)
    assert all(not part.any() for part in found)
    assert isinstance(found, ClassDirections)
