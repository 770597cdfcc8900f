"""FedELC's and MaskedOptim's labels, training and median against the authors' code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import nn

from flr.client.fit import fit
from flr.core.contract import Batch, Client
from flr.methods import fedelc, maskedoptim
from flr.methods.fedelc import FedELC
from flr.methods.maskedoptim import MaskedOptim, blended, easy_mask, geometric_median
from flr.methods.shared.label_variables import label_gradient, label_loss, merged_labels
from tests.equations.recorded import close, double, in_order, noisy_client

SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


def losses_and_gradients(case, masked: bool) -> None:
    y, v = torch.tensor(case["labels"]), double(case["label_variables"]).requires_grad_()
    logits = double(case["logits"]).requires_grad_()
    easy = None
    if masked:
        losses = nn.functional.cross_entropy(logits.detach(), y, reduction="none")
        easy = easy_mask(losses, 0.8)
        close(easy, case["mask"])
    loss = label_loss(logits, v, y, case["alpha"], case["beta"], easy)
    close(loss, case["loss"])
    for_logits, for_labels = torch.autograd.grad(loss, (logits, v))
    close(for_logits, case["grad_logits"])
    close(for_labels, case["grad_label_variables"])
    each = label_gradient(logits.detach().softmax(1), v.detach(), y, case["alpha"], easy)
    close(each / len(y), case["grad_label_variables"])


def test_loss_of_fedelc(golden):
    for case in golden("fedelc_loss")["cases"]:
        losses_and_gradients(case, masked=False)


def test_loss_of_maskedoptim(golden):
    for case in golden("maskedoptim")["loss_cases"]:
        losses_and_gradients(case, masked=True)


def noted(seen: list[torch.Tensor], key: str, c: Client) -> Iterator[Batch]:
    """Batches in order; notes the variables when an epoch begins."""
    seen.append(c.scratch[key].v)
    return in_order(c)


@pytest.mark.parametrize("name", ["fedelc", "maskedoptim"])
def test_a_whole_round_at_a_noisy_client(golden, name):
    file = golden("fedelc_local" if name == "fedelc" else "maskedoptim")
    recorded = file if name == "fedelc" else file["local"]
    case = file["case"] if name == "fedelc" else file["local"]
    batch = recorded.get("batch", 4)
    rate = recorded["lamda"] / batch  # lamda is a batch's, the rate one sample's
    method, key = (
        (FedELC(label_rate=rate), fedelc.LABELS)
        if name == "fedelc"
        else (MaskedOptim(label_rate=rate), maskedoptim.LABELS)
    )
    v = case["label_variables_at_first"]
    for one in case["rounds"]:
        seen: list[torch.Tensor] = []
        state = {key: double(v)}
        batches = partial(noted, seen, key)
        c = noisy_client(method, case, one["received"], state, batches, batch=batch, **SGD)
        sent = fit(c)
        expected = [v, *(epoch["label_variables"] for epoch in one["epochs"])]
        for made, wanted in zip([*seen, c.scratch[key].v], expected, strict=True):
            close(made, wanted)
        for entry, wanted in one["trained"].items():
            close(sent[f"model.0.{entry}"].double(), wanted)
        # the authors predict in training mode: given what theirs said, the labels are the same
        p = double(one["final_predictions"])
        close(merged_labels(c.scratch[key].v, p, 10.0), one["label_variables_after"])
        v = one["label_variables_after"]


def test_first_variables_are_ten_times_the_given_labels(golden):
    case = golden("fedelc_local")["case"]
    seen: list[torch.Tensor] = []
    first = case["rounds"][0]
    batches = partial(noted, seen, fedelc.LABELS)
    c = noisy_client(FedELC(), case, first["received"], {}, batches, batch=4, **SGD)
    fit(c)
    close(seen[0], case["label_variables_at_first"], 0)
    kept = c.state[fedelc.LABELS]
    close(kept.sum(1), [10.0] * len(kept), 1e-12)  # a mean of probabilities, K times


def test_median_of_each_tensor(golden):
    for case in golden("maskedoptim")["aggregation"]:
        for name, expected in case["aggregated"].items():
            if "num_batches" in name:
                continue  # integers are averaged as by FedAvg
            made = geometric_median(torch.tensor([one[name] for one in case["states"]]))
            torch.testing.assert_close(made, torch.tensor(expected), atol=1e-6, rtol=0)


def test_integers_are_blended_and_truncated():
    made = blended(torch.tensor(0), torch.tensor(4), 0.2)
    assert (made.dtype, int(made)) == (torch.int64, 3)


def test_the_mask_of_a_tiny_batch_may_be_empty():
    assert easy_mask(torch.tensor([0.3]), 0.8).tolist() == [0.0]
    assert easy_mask(torch.tensor([3.0, 1.0, 2.0]), 0.8).tolist() == [0.0, 1.0, 1.0]
