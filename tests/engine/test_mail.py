"""Shared memory between processes: what was laid down comes out; room not used costs nothing."""

from __future__ import annotations

import os

import pytest
import torch

from flr.bench import processes
from flr.engine.mail import Slot


def test_what_is_laid_down_comes_out_as_a_copy():
    slot = Slot.of(1 << 10)
    sent = {"a": torch.arange(5.0), "n": torch.tensor(7), "e": torch.empty(0, 3)}
    note = slot.put(sent)
    got = slot.get(note)
    slot.put({"a": torch.zeros(5)})
    assert list(got) == list(sent)
    for name, value in sent.items():
        assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)
        assert torch.equal(got[name], value)


def test_what_does_not_fit_goes_by_the_note():
    sent = {"a": torch.arange(100.0)}
    note = Slot.of(16).put(sent)
    assert isinstance(note, bytes)
    assert torch.equal(Slot.of(16).get(note)["a"], sent["a"])


@pytest.mark.skipif(not processes.can_measure(), reason="memory is measured on Linux only")
def test_room_that_is_not_written_takes_no_memory():
    before = processes.proportional_memory([os.getpid()])
    slot = Slot.of(64 << 20)
    assert processes.proportional_memory([os.getpid()]) - before < 8e6
    slot.put({"a": torch.ones(4 << 20)})  # 16 MB
    assert processes.proportional_memory([os.getpid()]) - before > 12e6
