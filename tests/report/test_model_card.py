"""The card beside a model file says what it was trained on, and nothing of this machine."""

from pathlib import Path

import pytest

from flr.config import parse
from flr.report import model_card, summary

CONFIG = {
    "rounds": 60,
    "method": "flr",
    "data": {"name": "folder", "path": "/secret/ward-7"},
    "noise": {"kind": "symmetric", "clients": 1.0, "floor": 0.3},
}
MODEL = {
    "model": {"name": "mlp", "hidden": 128},
    "method": [{"name": "flr", "lam": 2.0}, {"name": "mixup", "alpha": 0.2}],
    "classes": ["cat", "<script>alert(1)</script>", "a | b\n# head"],
    "input_shape": [1, 8, 8],
}


@pytest.fixture
def write(run_folder: Path):
    def written(found=None, model=MODEL) -> str:
        found = found or summary.load(run_folder)
        path = model_card.write(run_folder, parse(CONFIG), found, model, ["weights"], "photos")
        assert path == run_folder / "model-card.md"
        return path.read_text()

    return written


def test_it_says_what_was_trained_on_what_and_how_well(write, metrics):
    text = write()
    assert text.startswith("# flr on photos\n")
    assert "flr (lam = 2.0); mixup (alpha = 0.2)" in text
    assert "18.0 % of the labels were wrong in training" in text
    assert f"| last round (this file) | {100 * metrics[-1]['accuracy']:.1f} % |" in text
    memorized = metrics[-1]["memorization"]["client"]["noisy_memorized"]
    assert f"training, on {100 * memorized:.1f} %" in text
    assert "What has left each site: weights." in text
    assert "## Limits" in text


def test_no_path_of_this_machine_is_in_it(write):
    assert "secret" not in write()


def test_names_of_classes_cannot_break_it(write):
    text = write()
    assert "<script>" not in text
    assert "\n# head" not in text


def test_many_classes_are_counted(write):
    names = [f"c{number}" for number in range(100)]
    text = write(model={**MODEL, "classes": names})
    assert "Classes (100): c0, " in text
    assert "c29 and 70 more." in text


def test_what_nobody_knows_is_not_claimed(write, run_folder):
    found = summary.load(run_folder)
    found["noise"]["realised"] = None
    found["accuracy"] |= {"last": None, "per_class": None}
    for side in ("server", "client"):
        found["memorization"][side]["noisy_memorized"] = None
    text = write(found)
    assert "How many labels are wrong is not known." in text
    assert "Its accuracy was not measured." in text
    assert "What it has memorized was not measured." in text
