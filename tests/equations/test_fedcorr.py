"""FedCorr's statistics against outputs of the authors' code, and its other equations by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from flr.methods.fedcorr import proximal, stage_ends
from flr.methods.shared.lid import candidates, corrected, lid, output_losses


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(actual, expected) -> None:
    torch.testing.assert_close(actual, double(expected), atol=1e-7, rtol=0)


def test_lid_is_the_recorded_one(golden):
    recorded = golden("fedcorr_lid")
    for case in recorded["cases"]:
        found = lid(double(recorded["X"]), case["k"])
        close(found, case["lid"])
        close(found.mean(), case["mean"])


def test_lid_of_fewer_samples_than_neighbours(golden):
    recorded = golden("fedcorr_lid")
    few, k = double(recorded["X"])[: recorded["small"]["n"]], recorded["small"]["k"]
    close(lid(few, k, repo_quirks=True), recorded["small"]["lid"])
    ours = lid(few, k) * k / (len(few) - 1)  # k is the number of neighbours that there are
    close(ours, recorded["small"]["lid"])


def test_lid_of_duplicates_is_zero(golden):
    recorded = golden("fedcorr_lid")["duplicates"]
    close(lid(double(recorded["X"]), recorded["k"]), recorded["lid"])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_lid_of_hardly_any_samples_is_finite(n):
    found = lid(torch.eye(3)[:n])
    assert found.shape == (n,)
    assert found.isfinite().all()


def test_lid_does_not_depend_on_how_many_rows_are_measured_at_once(monkeypatch):
    o = torch.rand(50, 4, generator=torch.Generator().manual_seed(1)).softmax(1)
    whole = lid(o, 5)
    monkeypatch.setattr("flr.methods.shared.lid.ROWS", 7)
    assert torch.equal(lid(o, 5), whole)


def test_losses_are_the_recorded_ones(golden):
    recorded = golden("fedcorr_get_output")
    logits, y = double(recorded["logits"]), torch.tensor(recorded["labels"])
    close(output_losses(logits, y, repo_quirks=True), recorded["loss_as_in_repo"])
    close(output_losses(logits, y), recorded["true_ce"])


def test_candidates_are_the_largest_losses():
    losses = torch.tensor([0.1, 0.9, 0.5, 0.7, 0.3])
    assert candidates(losses, 0.8, 0.5).tolist() == [1, 3]  # floor(5 * 0.8 * 0.5)
    assert candidates(losses, 0.0, 0.5).tolist() == []
    assert len(candidates(torch.zeros(100), 0.29, 1.0)) == 29


def test_only_sure_predictions_among_the_rows_relabel():
    y = torch.tensor([0, 0, 0, 0])
    p = torch.tensor([[0.1, 0.9], [0.5, 0.5], [0.2, 0.8], [0.4, 0.6]])
    rows = torch.tensor([3, 1, 0])
    assert corrected(y, p, rows, 0.5).tolist() == [1, 0, 0, 1]
    assert corrected(y, p, rows, 0.8).tolist() == [1, 0, 0, 0]
    assert y.tolist() == [0, 0, 0, 0]


def test_the_proximal_term_is_one_norm_not_squared():
    generator = torch.Generator().manual_seed(2)
    w = [torch.randn(3, 2, generator=generator, dtype=torch.float64).requires_grad_()]
    w += [torch.randn(2, generator=generator, dtype=torch.float64).requires_grad_()]
    w_srv = [torch.zeros(3, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)]
    term = proximal(w, w_srv, mu=0.4, beta=5.0)
    norm = sum(part.detach().square().sum() for part in w).sqrt()
    torch.testing.assert_close(term.detach(), 2.0 * norm)
    term.backward()
    for part in w:
        torch.testing.assert_close(part.grad, 2.0 * part.detach() / norm)


def test_the_proximal_term_has_a_gradient_where_nothing_moved():
    w = torch.ones(3, requires_grad=True)
    F.relu(proximal([w], [torch.ones(3)], mu=1.0, beta=5.0)).backward()
    assert w.grad.tolist() == [0.0, 0.0, 0.0]


def test_stages_share_the_papers_budget():
    assert stage_ends(650, 100, 10, 5, 0.5) == (50, 350)
    assert stage_ends(800, 50, 5, 10, 3 / 7) == (100, 400)
    assert stage_ends(200, 500, 10, 2, 0.5) == (100, 150)


def test_a_short_budget_leaves_a_round_for_each_stage():
    assert stage_ends(4, 6, 3, 1, 0.5) == (2, 3)
    assert stage_ends(4, 6, 3, 1, 0.99) == (2, 3)
    assert stage_ends(5, 7, 3, 1, 0.01) == (3, 4)
