"""FedNoRo's loss, ramp, detection and rule at the server against the authors' code."""

from __future__ import annotations

import pytest
import torch

from flr.aggregate.common import weighted_average
from flr.methods.fednoro import fednoro_loss
from flr.methods.shared.noisy_clients import (
    adjusted_ce,
    class_counts,
    distance_weights,
    model_distance,
    noisy_clients,
    scaled_losses,
    sigmoid_ramp,
)


def double(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def close(made, expected, atol=1e-7) -> None:
    torch.testing.assert_close(made.detach(), double(expected), atol=atol, rtol=0)


def means(rows) -> torch.Tensor:
    return double([[float("nan") if value is None else value for value in row] for row in rows])


def test_losses_and_gradients(golden):
    for case in golden("fednoro_losses")["cases"]:
        y, counts = torch.tensor(case["labels"]), double(case["class_counts"])
        plain = case["logit_adjusted_ce"]
        logits = double(case["logits"]).requires_grad_()
        loss = adjusted_ce(logits, y, counts)
        close(loss, plain["loss"])
        close(torch.autograd.grad(loss, logits)[0], plain["grad"])
        soft = (double(case["teacher_logits"]) / 0.8).softmax(1)
        close(soft, case["soft_label"])
        for one in case["la_kd"]:
            loss = fednoro_loss(logits, soft, y, counts, one["w_kd"])
            close(loss, one["loss"])
            close(torch.autograd.grad(loss, logits)[0], one["grad"])


def test_soft_labels_of_present_classes_are_class_numbers_in_between():
    logits, counts = double([[0.3, -1.0, 2.0]]), double([3, 0, 1])
    ends = [adjusted_ce(logits, torch.tensor([k]), counts) for k in (0, 2)]
    mixed = adjusted_ce(logits, double([[0.25, 0.0, 0.75]]), counts)
    close(mixed, float(0.25 * ends[0] + 0.75 * ends[1]), 1e-12)


def test_ramp(golden):
    for case in golden("fednoro_schedule")["cases"]:
        made = [sigmoid_ramp(r, case["begin"], case["end"], case["a"]) for r in case["rounds"]]
        assert made == pytest.approx(case["w_kd"], abs=1e-12)


def test_detection(golden):
    for case in golden("fednoro_detection")["cases"]:
        losses = means(case["class_means"])
        close(scaled_losses(losses), case["scaled"], 1e-9)
        assert noisy_clients(losses).nonzero().flatten().tolist() == case["noisy"]


def test_columns_that_tell_nothing_are_left_out():
    assert scaled_losses(means([[1.0, None, 2.0], [1.0, None, 4.0]])).tolist() == [[0.0], [1.0]]
    assert not noisy_clients(means([[1.0, None]] * 5)).any()
    assert not noisy_clients(means([[1.0], [9.0]])).any()


def test_far_noisy_clients_count_less(golden):
    for case in golden("fednoro_aggregation")["cases"]:
        models = [{k: torch.tensor(v) for k, v in one.items()} for one in case["states"]]
        weights = double(case["examples"]) / sum(case["examples"])  # of one kind only: FedAvg
        if "noisy" in case:
            apart = [
                [model_distance(models[i], models[j]) for j in case["clean"]] for i in case["noisy"]
            ]
            close(double(apart), case["distance_noisy_to_clean"], 1e-5)  # recorded in float32
            noisy = [k in case["noisy"] for k in range(len(models))]
            weights = distance_weights(models, case["examples"], noisy)
        close(weights, case["weights"])
        for name, expected in case["aggregated"].items():
            made = weighted_average([model[name] for model in models], weights.tolist())
            close(made, expected, 1e-6)  # in float32 too, integers before they are cast back


def test_equal_models_count_by_their_samples():
    models = [{"w": torch.ones(2)}] * 3
    close(distance_weights(models, [1, 1, 2], [True, False, True]), [0.25, 0.25, 0.5], 1e-12)


def test_classes_are_counted_by_given_labels():
    assert class_counts(torch.tensor([2, 0, 2]), 4).tolist() == [1, 0, 2, 0]
