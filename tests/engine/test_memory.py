"""What a run no longer needs is not kept in memory while it goes on."""

from __future__ import annotations

from weakref import ref

import pytest
from toys import settings

import flr
from flr.engine.local import LocalTransport
from flr.simulation import api


def test_replies_are_forgotten_before_the_next_are_asked_for(tmp_path, monkeypatch):
    earlier: list[ref] = []
    alive = []
    ask = LocalTransport.ask

    def watched(self, *args):
        alive.append(sum(tensor() is not None for tensor in earlier))
        answers = ask(self, *args)
        earlier.extend(ref(t) for answer in answers for t in answer.reply.arrays.values())
        return answers

    monkeypatch.setattr(LocalTransport, "ask", watched)
    flr.run(settings("flr"), out=tmp_path / "run")
    assert earlier
    assert len(alive) > 1
    assert not any(alive)


@pytest.mark.parametrize("resumed", [False, True])
def test_raw_inputs_are_forgotten_before_training(tmp_path, monkeypatch, resumed):
    raw: list[ref] = []
    alive = []
    load = api.load_data

    def watched(*args):
        dataset = load(*args)
        raw.append(ref(dataset.train.x))
        return dataset

    def stop(_):
        raise KeyboardInterrupt

    if resumed:
        with pytest.raises(KeyboardInterrupt):
            flr.run(settings("flr"), out=tmp_path / "run", on_round=stop)
    monkeypatch.setattr(api, "load_data", watched)
    begin = flr.resume if resumed else lambda out, **more: flr.run(settings("flr"), out=out, **more)
    begin(tmp_path / "run", on_round=lambda _: alive.append(raw[0]() is not None))
    assert alive
    assert not any(alive)
