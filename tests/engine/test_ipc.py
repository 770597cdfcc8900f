"""Shared memory between processes: what was laid down comes out; room not used costs nothing."""

from __future__ import annotations

import psutil
import pytest
import torch

from flr.engine.ipc import SharedBuffer


def test_what_is_laid_down_comes_out_as_a_copy():
    slot = SharedBuffer.of(1 << 10)
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
    note = SharedBuffer.of(16).put(sent)
    assert isinstance(note, bytes)
    assert torch.equal(SharedBuffer.of(16).get(note)["a"], sent["a"])


@pytest.mark.skipif(not psutil.LINUX, reason="memory is measured on Linux only")
def test_room_that_is_not_written_takes_no_memory():
    before = psutil.Process().memory_full_info().pss
    slot = SharedBuffer.of(64 << 20)
    assert psutil.Process().memory_full_info().pss - before < 8e6
    slot.put({"a": torch.ones(4 << 20)})  # 16 MB
    assert psutil.Process().memory_full_info().pss - before > 12e6
