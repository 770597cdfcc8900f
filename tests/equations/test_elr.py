"""ELR against outputs of the authors' code."""

from __future__ import annotations

import torch

from flr.methods.elr import elr_loss


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_every_recorded_visit_is_reproduced(golden):
    for case in golden("elr")["cases"]:
        table = torch.zeros(case["num_examples"], case["num_classes"], dtype=torch.float64)
        index, y = torch.tensor(case["index"]), torch.tensor(case["labels"])
        for step in case["steps"]:
            z = double(step["logits"]).requires_grad_()
            loss, table[index] = elr_loss(z, y, table[index], case["beta"], case["lam"])
            loss.backward()
            torch.testing.assert_close(loss, double(step["loss"]), atol=1e-7, rtol=0)
            torch.testing.assert_close(z.grad, double(step["grad_logits"]), atol=1e-7, rtol=0)
            torch.testing.assert_close(table, double(step["target_after"]), atol=1e-7, rtol=0)


def test_saturated_predictions_are_clamped(golden):
    case = golden("elr")["saturated"]
    z = double(case["logits"]).requires_grad_()
    start = torch.zeros(z.shape, dtype=torch.float64)
    loss, target = elr_loss(z, torch.tensor(case["labels"]), start, case["beta"], case["lam"])
    loss.backward()
    torch.testing.assert_close(loss, double(case["loss"]), atol=1e-7, rtol=0)
    torch.testing.assert_close(z.grad, double(case["grad_logits"]), atol=1e-7, rtol=0)
    torch.testing.assert_close(target, double(case["target_after"]), atol=1e-7, rtol=0)
