"""Options of `[train]`: each has its own bits, and the same ones on any number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from direct import train_on_flower
from torch import nn
from toys import TINY, bits, settings, train, train_until

import flr
from flr.client.precision import bf16
from flr.client.schedules import warmed_up
from flr.client.worker import seeded
from flr.config import parse
from flr.core import registry
from flr.report import html, plots

DROPOUT = {"name": "mlp", "hidden": 8, "dropout": 0.5}
OPTIONS: dict[str, dict[str, Any]] = {
    **{
        name: {"optimizer": name, "lr": 0.01, "keep_optimizer": True, "weight_decay": 0.1}
        for name in registry.entries("optimizer")
        if name != "sgd"
    },
    "cosine": {"lr_schedule": "cosine"},
    "step": {"lr_schedule": {"name": "step", "every": 1, "factor": 0.5}},
    "warm-up": {"lr_warmup": 2},
    "dropout": {"model": DROPOUT},
    "bf16": {"amp": "bf16", "keep_optimizer": True},
    "bf16-dropout": {"amp": "bf16", "model": DROPOUT},
}


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    monkeypatch.setattr(plots, "curves", lambda *_: None)
    monkeypatch.setattr(html, "run_page", lambda *_: None)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return bits(train("flr", tmp_path_factory.mktemp("plain") / "run"))


@pytest.mark.parametrize("option", OPTIONS)
def test_its_bits_are_its_own_and_the_same_on_two_workers_and_after_a_stop(option, plain, tmp_path):
    change = {"train": OPTIONS[option]}
    whole = bits(train("flr", tmp_path / "one", **change))
    assert whole != plain
    assert bits(train("flr", tmp_path / "two", workers=2, **change)) == whole
    train_until("flr", tmp_path / "stopped", 2, **change)
    assert bits(flr.resume(tmp_path / "stopped", workers=2)) == whole


@pytest.mark.parametrize("option", ["bf16-dropout", "step"])
def test_on_flower_they_are_the_same(option, tmp_path):
    config = settings("flr", train=OPTIONS[option])
    train_on_flower(config, tmp_path / "flower", tmp_path / "state", TINY["partition"]["clients"])
    here = train("flr", tmp_path / "here", train=OPTIONS[option])
    assert bits(flr.Run(tmp_path / "flower")) == bits(here)


def test_devices_by_name_change_no_bit_and_are_free_on_resume(plain, tmp_path):
    change = {"train": {"devices": ["cpu", "cpu"]}, "workers": 3}
    train_until("flr", tmp_path / "run", 2, **change)
    saved = flr.Run(tmp_path / "run").config
    assert saved.train.of_workers(3) == ("cpu",) * 3
    assert bits(flr.resume(tmp_path / "run", device="cpu")) == plain


def share(schedule: Any, rounds: int) -> list[float]:
    made = parse({"rounds": rounds, "train": {"lr_schedule": schedule}}).train.lr_schedule.build()
    return [made(number, rounds) for number in range(rounds)]


def test_schedules_are_those_of_torch():
    rounds, optimizer = 12, torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1.0)
    theirs = {
        "cosine": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, rounds),
        "step": torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.3),
    }
    ours = {"cosine": "cosine", "step": {"name": "step", "every": 5, "factor": 0.3}}
    for name, scheduler in theirs.items():
        optimizer.param_groups[0]["lr"] = 1.0
        for expected in share(ours[name], rounds):
            assert scheduler.get_last_lr()[0] == pytest.approx(expected, abs=1e-12)
            optimizer.step()
            scheduler.step()


def test_a_warm_up_grows_in_equal_steps():
    assert [warmed_up(number, 3) for number in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert warmed_up(0, 0) == 1.0


class Seen(nn.Module):
    """Notes the types of what it computes; fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.types, self.fails = nn.Linear(3, 2), [], False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.inner(x)
        self.types.append(made.dtype)
        if self.fails:
            raise ValueError("told to")
        return made


def test_bf16_is_inside_of_networks_and_of_tasks_alone():
    networks, x = nn.ModuleList([Seen(), Seen()]), torch.ones(1, 3)
    with bf16(networks, torch.device("cpu")):
        made = networks[0](x)
        made.sum().backward()
        assert (x @ x.T).dtype == torch.float32
        networks[1].fails = True
        with pytest.raises(ValueError, match="told to"):
            networks[1](x)
        assert (x @ x.T).dtype == torch.float32
    assert made.dtype == torch.float32
    assert {weight.grad.dtype for weight in networks[0].parameters()} == {torch.float32}
    networks[0](x)
    assert networks[0].types == [torch.bfloat16, torch.float32]


def test_dropout_of_a_task_is_drawn_from_its_own_seed():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    drawn = []
    for _ in range(2):
        with seeded(torch.device("cpu"), 7):
            drawn.append(nn.functional.dropout(torch.ones(50)))
    assert torch.equal(*drawn)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.full
@pytest.mark.parametrize("name", registry.entries("method"))
def test_every_method_trains_in_bf16(name: str, tmp_path: Path):
    run = train(name, tmp_path / "run", train={"amp": "bf16"})
    assert run.summary["refused"] == 0
