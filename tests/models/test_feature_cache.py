"""A cache can be damaged, foreign, full or missing: features are the same bits all the same."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_backbone
import torch
from tiny_backbone import entry, images

from flr.core import arrays
from flr.models import feature_cache
from flr.models.embedding import BATCH, PIECE, Embedder

N = 2 * PIECE


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(tiny_backbone, "calls", [])


def embedded(workers: int = 1) -> torch.Tensor:
    return Embedder(entry(), workers)(images(N)).values


def files(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.safetensors"))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


# "other": a whole file under another name is one of other samples
@pytest.mark.parametrize("place", ["first", "header", "values", "cut", "empty", "other"])
def test_a_damaged_file_is_noticed_and_computed_again(place, cache, caplog):
    first = embedded()
    path, whole = files(cache)[0], files(cache)[1].read_bytes()
    content = bytearray(path.read_bytes())
    at = {"first": 0, "header": content.index(b"F16"), "values": -3}.get(place)
    if at is not None:
        content[at] ^= 4
    path.write_bytes({"cut": content[:-7], "empty": b"", "other": whole}.get(place, content))
    tiny_backbone.calls.clear()
    assert torch.equal(embedded(), first)
    assert len(tiny_backbone.calls) == PIECE // BATCH, "only the damaged piece"
    assert len(warnings(caplog)) == 1
    assert f"{path} is damaged" in warnings(caplog)[0]
    assert torch.equal(embedded(), first)
    assert len(warnings(caplog)) == 1, "it was mended"


def test_a_file_without_features_is_damaged(cache, caplog):
    first = embedded()
    arrays.save(files(cache)[0], {"other": torch.zeros(3)}, {"kind": "features"})
    assert torch.equal(embedded(), first)
    assert "is damaged" in warnings(caplog)[0]


@pytest.mark.parametrize("what", ["format", "torch"])
def test_a_cache_of_another_version_is_ignored(what, cache, caplog, monkeypatch):
    with monkeypatch.context() as before:
        if what == "format":
            before.setattr(feature_cache, "_FORMAT", 0)
        else:
            before.setattr(torch, "__version__", "1.0")
        first = embedded()
    assert torch.equal(embedded(), first)
    assert len(tiny_backbone.calls) == 2 * N // BATCH
    assert not warnings(caplog)


def test_the_folder_is_read_when_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("FLR_CACHE", "~/here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert feature_cache.folder() == tmp_path / "here"
    monkeypatch.setenv("FLR_CACHE", " ")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    assert feature_cache.folder() == tmp_path / "user" / "flr"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_that_cannot_be_made_is_said_once(workers, tmp_path, caplog, monkeypatch):
    first = embedded()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLR_CACHE", str(tmp_path / "file"))
    assert torch.equal(embedded(workers), first)
    (said,) = warnings(caplog)
    assert "features cannot be kept" in said
    assert "FLR_CACHE" in said


def test_training_and_test_set_share_one_warning(tmp_path, caplog, monkeypatch):
    from flr.data.build import from_arrays

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLR_CACHE", str(tmp_path / "file"))
    Embedder(entry()).dataset(from_arrays(images(40), torch.arange(40) % 2), views=2)
    assert len(warnings(caplog)) == 1


def test_a_full_disk_costs_the_cache_and_nothing_else(cache, tmp_path):
    """A disk that is full, as far as one process is concerned: a limit on the size of files."""
    first = embedded()
    script = (
        "import resource, signal, sys, torch\n"
        "from tiny_backbone import entry, images\n"
        "from flr.models.embedding import Embedder\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        f"values = Embedder(entry(), 2)(images({N})).values\n"
        "sys.stdout.buffer.write(values.numpy().tobytes())\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "FLR_CACHE": str(tmp_path / "full")}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a limit would leave half files of code
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == first.numpy().tobytes()
    assert done.stderr.count(b"features cannot be kept") == 1
    assert not [path for path in (tmp_path / "full").rglob("*") if path.is_file()], "no half files"
