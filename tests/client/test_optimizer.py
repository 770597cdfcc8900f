"""Our SGD takes torch's steps, whatever the layout, and goes on where it was."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from flr.client.optimizer import SGD, Adam


def network(memory_format: torch.memory_format) -> nn.Module:
    torch.manual_seed(3)
    made = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    return made.to(memory_format=memory_format)


def learn(model: nn.Module, optimizer: object, steps: int, start: int = 0) -> None:
    for step in range(start, start + steps):
        x = torch.randn(5, 3, 4, 4, generator=torch.Generator().manual_seed(step))
        for weight in model.parameters():
            weight.grad = None
        model(x).square().mean().backward()
        optimizer.step()


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.5, 0.0), (0.9, 0.01)])
def test_the_steps_of_torch(memory_format, momentum, decay):
    own = network(memory_format)
    theirs = copy.deepcopy(own)
    learn(own, SGD(own.parameters(), 0.1, momentum, decay), 4)
    reference = torch.optim.SGD(theirs.parameters(), 0.1, momentum, weight_decay=decay, fused=True)
    learn(theirs, reference, 4)
    assert same(own, theirs)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "make",
    [lambda p: SGD(p, 0.1, 0.9, 0.0), lambda p: Adam(p, 0.01, 0.0)],
    ids=["sgd", "adam"],
)
def test_goes_on_from_its_arrays(memory_format, make):
    whole = network(memory_format)
    learn(whole, make(whole.parameters()), 0)
    halved = copy.deepcopy(whole)
    learn(whole, make(whole.parameters()), 4)
    first = make(halved.parameters())
    learn(halved, first, 2)
    second = make(halved.parameters())
    second.load({name: array.contiguous() for name, array in first.arrays().items()})
    learn(halved, second, 2, start=2)
    assert same(whole, halved)


def test_a_parameter_that_learns_later_than_others():
    early, late = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimizer = SGD([early, late], 0.5, 0.5, 0.0)
    early.grad = torch.ones(2)
    optimizer.step()
    late.grad = torch.ones(2)
    optimizer.step()
    assert torch.equal(early.detach(), torch.full((2,), 1 - 0.5 - 0.5 * 1.5))
    assert torch.equal(late.detach(), torch.full((2,), 0.5))


def test_training_does_not_import_the_compiler(tmp_path):
    """Seconds in each process, and in each message to a Flower node."""
    code = (
        "import sys, flr\n"
        "flr.run({'rounds': 1, 'data': 'digits', 'workers': 1}, out=sys.argv[1])\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True)
