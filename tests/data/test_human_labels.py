"""CIFAR-N label files: the published rates, from both formats; hostile ones run nothing."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections import OrderedDict
from typing import get_args

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from flr.cli.main import app
from flr.core.errors import DataError
from flr.data.download import SOURCES
from flr.data.readers import human_labels
from flr.data.readers.human_labels import Which
from flr.data.sources.cifar import Cifar10, Cifar100

# Percent of wrong labels, as counted in the published files.
RATES = {
    "aggregate": 9.01,
    "random1": 17.23,
    "random2": 18.12,
    "random3": 17.64,
    "worst": 40.21,
    "noisy": 40.20,
}


@pytest.mark.parametrize("suffix", ["npz", "pt"])
@pytest.mark.parametrize("which", get_args(Which))
def test_published_rates(publisher, which, suffix):
    found = human_labels.load(publisher / f"{human_labels.publication(which).stem}.{suffix}", which)
    assert len(found.clean) == len(found.given) == 50_000
    assert round(100 * float((found.clean != found.given).mean()), 2) == RATES[which]


@pytest.mark.parametrize("suffix", ["npz", "pt"])
@pytest.mark.parametrize("source", human_labels.PUBLICATIONS.values(), ids=lambda it: it.name)
def test_the_published_labels_have_the_checksum_that_data_get_expects(publisher, source, suffix):
    (checksum,) = SOURCES[source.name].files.values()
    found = human_labels.digest(publisher / f"{source.stem}.{suffix}", source)
    assert checksum == f"{source.name}:{found}"


@pytest.mark.parametrize("source", [Cifar10, Cifar100])
def test_the_files_have_the_order_of_the_images(publisher, source):
    which = "worst" if source is Cifar10 else "noisy"
    found = human_labels.load(publisher, which)
    assert torch.equal(source(publisher).load().train.y, torch.from_numpy(found.clean.copy()))


def test_the_environment_says_where(publisher, monkeypatch, tmp_path):
    monkeypatch.setenv("FLR_DATA", str(publisher))
    assert human_labels.load(None, "worst").file.parent == publisher
    monkeypatch.setenv("FLR_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"CIFAR-10_human\.npz.*CIFAR-10_human\.pt.*get cifar10n"):
        human_labels.load(None, "worst")
    with pytest.raises(DataError, match=r"CIFAR-100_human\.npz.*\[noise\] path"):
        human_labels.load(tmp_path, "noisy")


def small(**changes):
    arrays = {"clean_label": np.arange(10), "worse_label": np.arange(10)[::-1].copy(), **changes}
    return {key: value for key, value in arrays.items() if value is not None}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (small(worse_label=None), '"worse_label", for labels = "worst"; got none'),
        (small(clean_label=None), '"clean_label".* got none'),
        (small(worse_label=np.arange(10).reshape(2, 5)), "got something else"),
        (small(worse_label=np.arange(11)), "from 0 to 9"),
        (small(clean_label=np.arange(10) - 1), "from 0 to 9"),
        (small(worse_label=np.arange(9)), "got 9 for 10"),
    ],
)
@pytest.mark.parametrize("suffix", ["npz", "pt"])
def test_files_with_other_content(tmp_path, suffix, arrays, message):
    file = tmp_path / f"CIFAR-10_human.{suffix}"
    if suffix == "npz":
        np.savez(file, **arrays)
    else:
        torch.save(arrays, file)
    with pytest.raises(DataError, match=message) as error:
        human_labels.load(tmp_path, "worst")
    assert str(file) in str(error.value)


@pytest.mark.parametrize("values", [np.arange(10.0), np.arange(0.0), np.array(["a"])])
@pytest.mark.parametrize("suffix", ["npz", "pt"])
def test_arrays_of_other_types(tmp_path, suffix, values):
    """Of a .pt file already the unpickler refuses them."""
    file = tmp_path / f"CIFAR-10_human.{suffix}"
    if suffix == "npz":
        np.savez(file, **small(worse_label=values))
    else:
        torch.save(small(worse_label=values), file)
    with pytest.raises(DataError, match=r"got something else|Nothing of it was run") as error:
        human_labels.load(tmp_path, "worst")
    assert "trust" not in str(error.value), "torch's own advice is dangerous here"


def test_pt_files_of_either_numpy_and_of_tensors(tmp_path):
    torch.save(small(), tmp_path / "new.pt")
    with (
        zipfile.ZipFile(tmp_path / "new.pt") as new,
        zipfile.ZipFile(tmp_path / "old.pt", "w") as old,
    ):
        for name in new.namelist():
            content = new.read(name)
            assert b"numpy._core" in content or not name.endswith("data.pkl")
            old.writestr(name, content.replace(b"numpy._core.multi", b"numpy.core.multi"))
    torch.save({k: torch.from_numpy(v) for k, v in small().items()}, tmp_path / "tensors.pt")
    torch.save(small(), tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    for name in ("new", "old", "tensors", "legacy"):
        found = human_labels.load(tmp_path / f"{name}.pt", "worst")
        assert found.given.tolist() == list(range(9, -1, -1)), name


class Calls:
    """Pickles as a call."""

    def __init__(self, function, *arguments, state=None):
        self.call = (function, arguments, state)

    def __reduce__(self):
        return self.call


RECONSTRUCT = np.empty(0).__reduce__()[0]


def claimed(shape=(10,), content=None, name="i8", state=(None, None, None, -1, -1, 0)):
    """An array that is what it says, whether or not its bytes are."""
    kind = Calls(np.dtype, name, False, True, state=(3, "<", *state))
    raw = np.arange(10).tobytes() if content is None else content
    return Calls(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, shape, kind, False, raw))


def claimed_tensor(offset=0, shape=(10,), strides=(1,)):
    storage = torch.arange(10).storage()
    rebuild = torch._utils._rebuild_tensor_v2
    return Calls(rebuild, storage, offset, shape, strides, False, OrderedDict())


_I8, _FAR = np.dtype("i8"), 1_000_000
MISFITS = {
    "subarray": (claimed(state=((_I8, (_FAR,)), None, None, -1, -1, 0)), "unusual type"),
    "flags": (claimed(state=(None, None, None, -1, -1, 63), content=[1] * 10), "unusual type"),
    "all flags": (claimed(state=(None, None, None, -1, -1, 255)), "unusual type"),
    "item size": (claimed(state=(None, None, None, _FAR, 8, 0)), "unusual type"),
    "fields": (claimed(state=(None, ("a",), {"a": (_I8, _FAR)}, -1, -1, 0)), "unusual type"),
    "records": (np.zeros(10, dtype=[("a", "i8")]), "array of type V8"),
    "objects": (claimed(name="O8", content=b"A" * 80), "array of type O8"),
    "no type": (claimed(name=[]), "type without a name"),
    "long shape": (claimed(shape=(_FAR,)), "wrong number of bytes"),
    "huge shape": (claimed(shape=(2**40, 2**40)), "wrong number of bytes"),
    "negative shape": (claimed(shape=(-1, -10)), "without a shape"),
    "nested shape": (claimed(shape=([10],)), "without a shape"),
    "two axes": (claimed(shape=(5, 2)), "got something else"),
    "list as content": (claimed(content=[1] * 10), "without a shape, a type or its bytes"),
    "no state": (Calls(RECONSTRUCT, np.ndarray, (0,), b"b"), "got none"),
    "type as value": (Calls(np.dtype, "i8", False, True), "got something else"),
    "tensor's shape": (claimed_tensor(shape=(_FAR,)), "cannot be read|from 0 to 9"),
    "tensor's offset": (claimed_tensor(offset=-_FAR), "cannot be read"),
    "tensor's strides": (claimed_tensor(strides=(_FAR,)), "cannot be read|from 0 to 9"),
    "tensor's negative strides": (claimed_tensor(strides=(-_FAR,)), "cannot be read"),
    "tensor without content": (torch.empty(10, dtype=torch.int64, device="meta"), "cannot be"),
}

# Where NumPy's own types are allowed already, as a user's program may do it.
READ_EACH = """
import json, sys, numpy, torch
from pathlib import Path
from flr.data.readers import human_labels as human
from flr.core.errors import DataError
own = [numpy.ndarray, numpy.dtype, numpy.dtypes.Int64DType, numpy.empty(0).__reduce__()[0]]
torch.serialization.add_safe_globals(own)
for file in sys.argv[1:]:
    try:
        got = human.load(Path(file), "worst").given.tolist()
    except DataError as error:
        got = str(error)
    print(json.dumps([file, got]), flush=True)
assert set(torch.serialization.get_safe_globals()) >= set(own)
"""


def test_pt_files_whose_layout_is_a_lie_end_in_a_message(tmp_path):
    """In a process of its own: what is tested for would end it."""
    expected = {}
    for zipped in (True, False):
        for what, (content, message) in {**MISFITS, "right": (claimed(), None)}.items():
            file = tmp_path / f"{what}, {'zip' if zipped else 'legacy'}.pt"
            torch.save(small(worse_label=content), file, _use_new_zipfile_serialization=zipped)
            expected[str(file)] = message
    done = subprocess.run(
        [sys.executable, "-c", READ_EACH, *expected], capture_output=True, text=True, timeout=120
    )
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, (list(expected)[len(found) :][:1], done.stderr)
    for file, message in expected.items():
        if message is None:
            assert found[file] == list(range(10))
        else:
            assert re.search(message, found[file]), found[file]
            assert file in found[file]
            assert "et the file again" in found[file] or "get it again" in found[file]


@pytest.mark.parametrize("zipped", [True, False])
def test_hostile_pt_files_run_nothing(tmp_path, zipped):
    marker = tmp_path / "ran"
    mark = Calls(os.system, f"touch '{marker}'")
    objects = np.empty(1, dtype=object)
    objects[0] = mark
    code = f"open({str(marker)!r}, 'w')"
    for content in (
        small(worse_label=mark),
        small(worse_label=objects),
        small(worse_label=Calls(np.testing.runstring, code, {})),
        small(other=mark),
        mark,
    ):
        file = tmp_path / "CIFAR-10_human.pt"
        torch.save(content, file, _use_new_zipfile_serialization=zipped)
        with pytest.raises(DataError, match=r"Nothing of it was run.*its publisher") as error:
            human_labels.load(file, "worst")
        assert "trust" not in str(error.value), "torch's own advice is dangerous here"
        assert not marker.exists()
    assert "it asks for posix.system" in str(error.value)
    torch.load(file, weights_only=False)
    assert marker.exists(), "else this test could not fail"


def test_hostile_npz_files_run_nothing(tmp_path):
    marker = tmp_path / "ran"
    objects = np.empty(1, dtype=object)
    objects[0] = Calls(os.system, f"touch '{marker}'")
    np.savez(tmp_path / "CIFAR-10_human.npz", allow_pickle=True, **small(worse_label=objects))
    with pytest.raises(DataError, match="Nothing of it was run"):
        human_labels.load(tmp_path, "worst")
    assert not marker.exists()


@pytest.mark.parametrize("suffix", ["npz", "pt"])
@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:0], lambda b: b"x" * 99 + b]
)
def test_damaged_files(publisher, tmp_path, suffix, damage):
    file = tmp_path / f"CIFAR-10_human.{suffix}"
    file.write_bytes(damage((publisher / file.name).read_bytes()))
    with pytest.raises(DataError, match="cannot be read") as error:
        human_labels.load(tmp_path, "worst")
    assert str(file) in str(error.value)


def test_a_list_is_no_label_file(tmp_path):
    torch.save([1, 2], tmp_path / "CIFAR-10_human.pt")
    with pytest.raises(DataError, match="got list"):
        human_labels.load(tmp_path, "worst")
    (tmp_path / "other.pt").write_bytes(pickle.dumps({"clean_label": 1}, protocol=2))
    with pytest.raises(DataError, match=r"other\.pt"):
        human_labels.load(tmp_path / "other.pt", "worst")


def test_a_changed_file_is_read_again(tmp_path):
    file = tmp_path / "CIFAR-10_human.npz"
    np.savez(file, **small())
    first = human_labels.load(file, "worst")
    np.savez(file, **small(worse_label=np.zeros(10, dtype=np.int64)), more=np.arange(99))
    assert not np.array_equal(human_labels.load(file, "worst").given, first.given)


CONFIG = """rounds = 1
workers = 1
method = "fedavg"
[data]
name = "cifar10"
train = 300
test = 50
[partition]
kind = "iid"
clients = 3
[noise]
kind = "human"
labels = "worst"
[train]
model = { name = "cnn", width = 4 }
participation = 1.0
epochs = 1
batch = 50
"""


def test_check_and_run_from_the_command_line(publisher, tmp_path, monkeypatch):
    monkeypatch.setenv("FLR_DATA", str(publisher))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(CONFIG)
    checked = CliRunner().invoke(app, ["check", "e.toml"])
    assert checked.exit_code == 0, checked.output
    done = CliRunner().invoke(app, ["run", "e.toml", "--out", "r"])
    assert done.exit_code == 0, done.output
    noise = json.loads((tmp_path / "r" / "summary.json").read_text())["noise"]
    assert noise["nominal"] == pytest.approx(noise["realised"])
    assert 0.3 < noise["realised"] < 0.5
    assert f"{100 * noise['realised']:.1f} % wrong labels" in " ".join(checked.output.split())
