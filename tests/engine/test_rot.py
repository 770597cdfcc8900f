"""Files that rot on a disk: what does not match its digest is named, and never used in silence."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from toys import ROUNDS, bits, train, train_until

import flr
from flr.core import seal
from flr.core.arrays import canonical_json
from flr.core.errors import ConfigError, DataError
from flr.engine import checkpoint
from flr.models import model_file
from flr.report import run_records


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run of a method that keeps client state."""
    return train("flr", tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    """The same, stopped when it has two checkpoints."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    train_until("flr", out, 3)
    return out


@pytest.fixture
def stopped(stopped_once, tmp_path):
    return Path(shutil.copytree(stopped_once, tmp_path / "run"))


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_in_a_state_goes_back_to_the_checkpoint_before(whole, stopped, caplog):
    newest, older = checkpoint.load_all(stopped / "checkpoint")
    site = next(s for s, v in newest.versions.items() if older.versions.get(s) != v)
    flip(stopped / f"checkpoint/state/{site}/{newest.versions[site]}.safetensors", -3)
    assert bits(flr.resume(stopped)) == bits(whole)
    assert f"lacks the state of clients [{site}]: gone or damaged" in caplog.text


def test_every_byte_of_a_checkpoints_json_counts(stopped, caplog):
    path = stopped / "checkpoint" / "2.json"
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in (1, 16):
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            assert [point.step for point in checkpoint.load_all(path.parent)] == [1], place
    assert "checkpoint 2 is damaged" in caplog.text


def test_a_changed_line_of_the_record_goes_back_to_the_checkpoint_before(whole, stopped, caplog):
    path = stopped / "metrics.jsonl"
    first, second, *rest = path.read_text().splitlines(keepends=True)
    changed = second.replace('"accuracy": 0.', '"accuracy": 1.')
    assert changed != second
    path.write_text("".join([first, changed, *rest]))
    done = flr.resume(stopped)
    assert "metrics.jsonl is not what checkpoint 2 vouches for" in caplog.text
    assert [m["accuracy"] for m in done.metrics] == [m["accuracy"] for m in whole.metrics]
    assert bits(done) == bits(whole)


def test_a_line_that_is_no_json_any_more_goes_back_too(whole, stopped):
    path = stopped / "clients.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if json.loads(line)["round"] == 2)
    lines[at] = b"\xff" + lines[at][1:]
    path.write_bytes(b"".join(lines))
    done = flr.resume(stopped)
    assert bits(done) == bits(whole)
    assert len(done.clients) == len(whole.clients)


def test_a_record_that_fits_no_checkpoint_costs_no_checkpoint(stopped):
    flip(stopped / "metrics.jsonl", 12)
    with pytest.raises(DataError, match=r"metrics\.jsonl as the run has written it.*delete it"):
        flr.resume(stopped)
    assert len(checkpoint.load_all(stopped / "checkpoint")) == 2


def test_a_damaged_scenario_is_refused(stopped):
    flip(stopped / "scenario.safetensors", 60)
    with pytest.raises(DataError, match=r"scenario\.safetensors as the run has written it"):
        flr.resume(stopped)


def change(folder: Path, before: str, after: str) -> None:
    path = folder / "config.toml"
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, after))


def test_a_run_may_get_more_rounds(stopped):
    change(stopped, f"rounds = {ROUNDS}", f"rounds = {ROUNDS + 1}")
    assert flr.resume(stopped).summary["rounds"] == ROUNDS + 1
    assert seal.read_record(stopped)["settings"]["rounds"] == ROUNDS + 1


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("seed = 5\n", "seed = 2\n", "seed 5, now 2"),
        ("\nlr = ", "\nlr = 9", "train.lr"),
        (f"rounds = {ROUNDS}", "rounds = 1", f"rounds {ROUNDS}, now 1"),
    ],
)
def test_other_settings_are_another_run(before, after, named, stopped, whole):
    was = (stopped / "config.toml").read_text()
    change(stopped, before, after)
    with pytest.raises(ConfigError, match=re.escape(named)) as refused:
        flr.resume(stopped)
    assert "Put them back" in str(refused.value)
    (stopped / "config.toml").write_text(was)
    assert bits(flr.resume(stopped)) == bits(whole)


def test_a_changed_config_of_an_older_run_is_named_and_used(stopped, caplog):
    record = seal.read_record(stopped)
    seal.write_record(
        stopped, {"made_with": record["made_with"]}, ["config.toml", "scenario.safetensors"]
    )
    change(stopped, f"rounds = {ROUNDS}", f"rounds = {ROUNDS + 1}")
    assert flr.resume(stopped).summary["rounds"] == ROUNDS + 1
    assert "config.toml is not what the run began with" in caplog.text


@pytest.mark.parametrize("name", ["model.safetensors", "summary.json", "metrics.jsonl", "run.json"])
def test_a_damaged_result_is_refused_until_it_is_made_again(name, whole, tmp_path):
    folder = Path(shutil.copytree(whole.folder, tmp_path / "run"))
    flip(folder / name, -5)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):  # noqa: PT012 - any of three
        model_file.load(folder, trust=True)
        run_records.read_run(folder)
        flr.Run(folder).metrics  # noqa: B018 - reading is what fails
    if name == "run.json":
        (folder / name).unlink()
    assert bits(flr.resume(folder)) == bits(whole)
    assert len(flr.Run(folder).metrics) == ROUNDS


def test_a_run_of_an_older_version_goes_on_with_a_warning(whole, stopped, caplog):
    (stopped / seal.RECORD).unlink()
    for path in (stopped / "checkpoint").glob("*.json"):
        facts = json.loads(path.read_text())
        old = {key: facts[key] for key in ("step", "round", "versions", "sha256")}
        path.write_text(canonical_json(old))
    assert bits(flr.resume(stopped)) == bits(whole)
    assert "checkpoint 2 was made by an older version" in caplog.text
    assert "has no run.json" in caplog.text


def test_other_versions_are_named_with_what_is_still_promised(stopped, caplog):
    record = seal.read_record(stopped)
    (made_with,) = record["made_with"]
    assert made_with.keys() == {"bits", "flr", "torch", "numpy", "numpy_cpu", "cpu", "device"}
    before = {**made_with, "torch": "1.0", "cpu": "ABACUS"}
    seal.write_record(stopped, {"made_with": [before]}, ["config.toml", "scenario.safetensors"])
    flr.resume(stopped)
    assert "torch 1.0 (now " in caplog.text
    assert "cpu ABACUS (now " in caplog.text
    assert "numpy" not in caplog.text
    assert "not promised to be the bits" in caplog.text
    assert seal.read_record(stopped)["made_with"] == [before, made_with]


def test_the_same_versions_are_no_matter(stopped, caplog):
    flr.resume(stopped)
    assert not caplog.records
