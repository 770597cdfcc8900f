"""Model files that somebody else has made, or a disk has changed."""

from __future__ import annotations

import math

import pytest
import torch
from toys import train

from flr.core import arrays
from flr.core.errors import DataError
from flr.models import model_file


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The weights and the meta part of a trained model."""
    run = train("fedavg", tmp_path_factory.mktemp("model") / "run", train={"model": "mlp"})
    return arrays.load(run.folder / "model.safetensors")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_no_numbers_are_refused(value, saved, tmp_path):
    weights, meta = saved
    name = next(name for name, weight in weights.items() if weight.is_floating_point())
    spoiled = weights[name].clone()
    spoiled.view(-1)[0] = value
    arrays.save(tmp_path / "m.safetensors", {**weights, name: spoiled}, meta)
    with pytest.raises(DataError, match="no finite numbers"):
        model_file.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("change", [{"std": [0.0]}, {"std": [-1.0]}, {"std": []}, {"mean": ["x"]}])
def test_a_normalisation_that_divides_by_nothing_is_refused(change, saved, tmp_path):
    weights, meta = saved
    arrays.save(tmp_path / "m.safetensors", weights, {**meta, **change})
    with pytest.raises(DataError, match="Take another copy"):
        model_file.load(tmp_path / "m.safetensors")


def test_the_file_as_it_was_is_fine(saved, tmp_path):
    arrays.save(tmp_path / "m.safetensors", *saved)
    model = model_file.load(tmp_path / "m.safetensors")
    assert torch.isfinite(model.probabilities(torch.zeros(2, *model.input_shape))).all()


@pytest.mark.parametrize("as_given", [str, lambda name: {"name": name}], ids=["name", "table"])
def test_code_waits_for_trust_however_it_is_named(as_given, saved, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil_model.py").write_text("print('imported')")
    weights, meta = saved
    meta = {**meta, "model": as_given("evil_model:net")}
    arrays.save(tmp_path / "m.safetensors", weights, meta)
    with pytest.raises(DataError, match="--trust"):
        model_file.load(tmp_path / "m.safetensors")
    assert "imported" not in capsys.readouterr().out
