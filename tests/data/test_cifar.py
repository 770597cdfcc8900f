"""CIFAR from the publisher's files: the published bytes, both layouts alike, nothing else runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flr.config import parse
from flr.core.errors import ConfigError, DataError
from flr.data import paths
from flr.data.build import subset
from flr.data.readers import pickles
from flr.data.sources.cifar import CIFAR10, CIFAR100, SUPERCLASSES, Cifar10, Cifar100, shift_inside
from flr.scenario.noises import asymmetric

# SHA-1 of the originals, as MXNet Gluon publishes them; of CIFAR-10 the beginnings are known here.
SHA1 = {
    "cifar-10-batches-bin/data_batch_1.bin": "aadd24ac",
    "cifar-10-batches-bin/data_batch_2.bin": "c0ba65cc",
    "cifar-10-batches-bin/data_batch_3.bin": "1dd00a74",
    "cifar-10-batches-bin/data_batch_4.bin": "aab85764",
    "cifar-10-batches-bin/data_batch_5.bin": "26e2849e",
    "cifar-10-batches-bin/test_batch.bin": "67eb016d",
    "cifar-100-binary/train.bin": "e207cd2e05b73b1393c74c7f5e7bea451d63e08e",
    "cifar-100-binary/test.bin": "8fb6623e830365ff53cf14adec797474f5478006",
}


@pytest.fixture(scope="module")
def ten(publisher):
    return Cifar10(publisher).load()


@pytest.fixture(scope="module")
def hundred(publisher):
    return Cifar100(publisher / "cifar-100-binary").load()


def records(data, *labels) -> bytes:
    """The publisher's binary records, from what was read."""
    columns = [torch.as_tensor(label, dtype=torch.uint8)[:, None] for label in labels]
    return torch.cat([*columns, data.x.flatten(1)], dim=1).numpy().tobytes()


def superclasses_of(labels) -> torch.Tensor:
    return torch.tensor(asymmetric._CIFAR100_COARSE)[labels]


def test_cifar10_is_the_published_one(ten):
    assert (len(ten.train), len(ten.test)) == (50_000, 10_000)
    assert ten.train.x.dtype == torch.uint8
    assert ten.input_shape == (3, 32, 32)
    assert ten.classes[:3] == ("airplane", "automobile", "bird")
    assert (ten.augment, ten.noise_map) == ("crop-flip", "cifar10")
    parts = [ten.train[torch.arange(i, i + 10_000)] for i in range(0, 50_000, 10_000)]
    found = [hashlib.sha1(records(part, part.y)).hexdigest() for part in [*parts, ten.test]]  # noqa: S324
    published = [sha for name, sha in SHA1.items() if "cifar-10-" in name]
    assert [sha[:8] for sha in found] == published
    assert torch.equal(ten.train.number, torch.arange(50_000))
    assert torch.equal(ten.test.number, torch.arange(10_000))


def test_cifar100_is_the_published_one(hundred):
    assert (len(hundred.train), len(hundred.test)) == (50_000, 10_000)
    assert hundred.classes[:2] == ("apple", "aquarium_fish")
    assert (hundred.augment, hundred.noise_map) == ("crop-flip", "cifar100")
    for part, name in ((hundred.train, "train"), (hundred.test, "test")):
        content = records(part, superclasses_of(part.y), part.y)
        sha = hashlib.sha1(content).hexdigest()  # noqa: S324
        assert sha == SHA1[f"cifar-100-binary/{name}.bin"]


def test_names_of_superclasses_are_the_files_own(publisher):
    text = (publisher / "cifar-100-binary" / "coarse_label_names.txt").read_text()
    assert tuple(text.split()) == SUPERCLASSES


def test_normalization_is_in_the_publishers_units(ten, hundred):
    white = torch.full((1, 3, 1, 1), 255, dtype=torch.uint8)
    expected = [(1 - m) / s for m, s in [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)]]
    assert ten.normalize(white).flatten().tolist() == pytest.approx(expected)
    expected = [(1 - m) / s for m, s in [(0.507, 0.267), (0.487, 0.256), (0.441, 0.276)]]
    assert hundred.normalize(white).flatten().tolist() == pytest.approx(expected)


def test_superclasses_keep_their_classes_and_the_shift_inside(publisher, hundred):
    names = ("vehicles_1", "fish")
    few = Cifar100(publisher, names).load()
    assert len(few.classes) == 10
    assert (len(few.train), len(few.test)) == (5_000, 1_000)
    assert list(few.classes) == sorted(few.classes), "in the order of their numbers"
    for part, whole in ((few.train, hundred.train), (few.test, hundred.test)):
        assert torch.equal(part.x, whole.x[part.number])
        old = whole.y[part.number]
        assert [few.classes[y] for y in part.y[:200]] == [hundred.classes[y] for y in old[:200]]
        assert {SUPERCLASSES[c] for c in superclasses_of(old).tolist()} == set(names)
    table = asymmetric.resolve("auto", few.classes, few.noise_map)
    whole_table = asymmetric.resolve("cifar100", hundred.classes, None)
    for source, target in enumerate(table):
        old = hundred.classes.index(few.classes[source])
        assert few.classes[target] == hundred.classes[whole_table[old]]


def test_numbers_outlive_a_subset(ten):
    few = subset(ten, 300, 50)
    assert torch.equal(few.train.x, ten.train.x[few.train.number])
    assert torch.equal(few.test.y, ten.test.y[few.test.number])
    assert torch.bincount(few.train.y).tolist() == [30] * 10


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_a_shift_inside_groups_is_a_permutation_of_each(groups):
    table = shift_inside(groups)
    assert sorted(table) == list(range(len(groups)))
    assert all(groups[table[c]] == groups[c] for c in range(len(groups)))


def python2(value) -> bytes:
    """As Python 2 pickled it with protocol 2: every text and every array's content is a `str`."""
    if isinstance(value, dict):
        return b"}(" + b"".join(python2(k) + python2(v) for k, v in value.items()) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(python2, value)) + b"e"
    if isinstance(value, int):
        return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, np.ndarray):
        make = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"
        kind = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR(K\x03U\x01|NNN" + 2 * b"J\xff\xff\xff\xff"
        shape = b"(" + b"".join(b"J" + struct.pack("<i", n) for n in value.shape) + b"t"
        return make + b"(K\x01" + shape + kind + b"K\x00tb\x89" + python2(value.tobytes()) + b"tb"
    short = len(value) < 256
    return (b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))) + value


def of_python2(value) -> bytes:
    return b"\x80\x02" + python2(value) + b"."


def python_layout(folder: Path, packing, data, labels, dump) -> None:
    """Writes the Python version of what was read, in the structure of the originals."""
    folder.mkdir()
    for part, files, columns in zip(
        (data.train, data.test), (packing.train, packing.test), labels, strict=True
    ):
        start = 0
        for name, count in files.items():
            rows = slice(start, start + count)
            start += count
            content = {b"batch_label": f"part {name}".encode()}
            content |= {key: column[rows].tolist() for key, column in columns.items()}
            content[b"data"] = part.x[rows].flatten(1).numpy()
            content[b"filenames"] = [f"picture_s_{row:06}.png".encode() for row in range(20)]
            (folder / name).write_bytes(dump(name, content))
    meta = {packing.meta[1].encode(): [name.encode() for name in data.classes], b"num_vis": 3072}
    (folder / packing.meta[0]).write_bytes(dump("meta", meta))


def as_text(value):
    """Python 3's `str` in place of bytes."""
    if isinstance(value, dict):
        return {as_text(k): as_text(v) for k, v in value.items()}
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return value.decode() if isinstance(value, bytes) else value


def same(one, two) -> bool:
    parts = ((one.train, two.train), (one.test, two.test))
    return one.classes == two.classes and all(
        torch.equal(a.x, b.x) and torch.equal(a.y, b.y) and torch.equal(a.number, b.number)
        for a, b in parts
    )


def test_cifar10_from_pickles_of_either_python_is_the_same(ten, tmp_path):
    def dump(name, content):
        if name in ("data_batch_2", "meta"):
            return pickle.dumps(as_text(content), protocol=2)
        return pickle.dumps(content, 2) if name == "data_batch_1" else of_python2(content)

    folder = tmp_path / "cifar-10-batches-py"
    labels = [{b"labels": part.y} for part in (ten.train, ten.test)]
    python_layout(folder, CIFAR10, ten, labels, dump)
    assert same(Cifar10(tmp_path).load(), ten)
    shutil.rmtree(folder)


def test_cifar100_from_pickles_of_python_2_is_the_same(hundred, tmp_path):
    folder = tmp_path / "cifar-100-python"
    labels = [
        {b"fine_labels": part.y, b"coarse_labels": superclasses_of(part.y)}
        for part in (hundred.train, hundred.test)
    ]
    python_layout(folder, CIFAR100, hundred, labels, lambda _, content: of_python2(content))
    assert same(Cifar100(folder).load(), hundred)
    shutil.rmtree(folder)


def linked(source: Path, target: Path) -> Path:
    """A copy that costs nothing, to break one file of."""
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).symlink_to(file)
    return target


def flipped(content: bytes, at: int, value: int) -> bytes:
    return content[:at] + bytes([value]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("test.bin", lambda b: b[:-1], "expected 30,740,000 bytes .* got 30,739,999"),
        ("test.bin", lambda b: b + b"0", "got 30,740,001"),
        ("test.bin", lambda b: b[:0], "got 0"),
        ("test.bin", lambda b: flipped(b, 3 * 3074, 20), "coarse_labels from 0 to 19; got 20"),
        ("test.bin", lambda b: flipped(b, 3 * 3074 + 1, 100), "got 100 in sample 3"),
        ("test.bin", lambda b: flipped(b, 0, (b[0] + 1) % 20), "have one superclass"),
        ("test.bin", None, "test.bin; there is none"),
        ("fine_label_names.txt", None, "fine_label_names.txt; there is none"),
        ("fine_label_names.txt", lambda b: b[:-9], "expected 100 class names|got .* more than"),
        ("fine_label_names.txt", lambda b: b[:0] + b"a\n" * 100, '"a" more than once'),
        ("fine_label_names.txt", lambda b: b"\xff\xfe" + b, "cannot be read"),
    ],
)
def test_damaged_binary_files(publisher, tmp_path, name, damage, message):
    folder = linked(publisher / "cifar-100-binary", tmp_path / "cifar-100-binary")
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if damage is not None:
        (folder / name).write_bytes(damage(content))
    with pytest.raises(DataError, match=message) as error:
        Cifar100(tmp_path).load()
    assert str(folder / name) in str(error.value) or "superclass" in message
    (folder / name).unlink(missing_ok=True)


def part_of_ten(**changes):
    """A first file of the Python version, with few pictures, but right labels."""
    right = {"data": np.zeros((5, 3072), np.uint8), "labels": [0] * 10_000}
    return {key: value for key, value in {**right, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (part_of_ten(), '"data" of 10,000 x 3,072 bytes; got an array of 5 x 3072, uint8'),
        (part_of_ten(data=None), "got none"),
        (part_of_ten(data=[1, 2]), "got list"),
        (part_of_ten(data=np.zeros((10_000, 3072), np.int8)), "got an array .* int8"),
        (part_of_ten(labels=None), '"labels", a list of 10,000 whole numbers; got none'),
        (part_of_ten(labels=[0] * 9), "got a list of 9"),
        (part_of_ten(labels=["0"] * 10_000), "whole numbers"),
        (part_of_ten(labels=[2**80] * 10_000), "whole numbers"),
        (part_of_ten(labels=[0, 0, 10] + [0] * 9_997), "from 0 to 9; got 10 in sample 2"),
        (part_of_ten(labels=[-1] + [0] * 9_999), "got -1 in sample 0"),
        ([1, 2], "pickled dictionary .* got list"),
    ],
)
def test_pickles_with_other_content(tmp_path, content, message):
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=message) as error:
        Cifar10(tmp_path).load()
    assert str(tmp_path / "data_batch_1") in str(error.value)


def test_a_folder_with_something_else(tmp_path):
    with pytest.raises(DataError, match=r"data_batch_1.bin .* got neither.*flr data get cifar10"):
        Cifar10(tmp_path).load()


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "cifar-10-binary.tar.gz").touch()
    with pytest.raises(DataError, match="got neither"):
        Cifar10(tmp_path / "cifar-10-binary.tar.gz").load()


class Calls:
    """Pickles as a call."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def hostile(marker: Path):
    """Content that leaves a mark if anything of it is run."""
    mark = Calls(os.system, f"touch '{marker}'")
    code = f"open({str(marker)!r}, 'w')"
    array = np.empty(1, dtype=object)
    array[0] = mark
    yield "a call", part_of_ten(labels=mark)
    yield "a call as key", {mark: 1}
    yield "the file itself", mark
    yield "eval", part_of_ten(labels=Calls(eval, code))
    yield "numpy's exec", part_of_ten(data=Calls(np.testing.runstring, code, {}))
    yield "numpy's reader of pickles", Calls(np.load, str(marker), None, True)
    yield "a call in an array of objects", part_of_ten(data=array)
    yield "a call in numpy's own", part_of_ten(data=Calls(np.dtype, mark))
    yield "a record type", part_of_ten(data=np.zeros(2, dtype=[("a", "u1")]))
    yield "a method", part_of_ten(data=Calls(np.zeros(3, np.uint8).tofile, str(marker)))
    yield "another codec", Calls(__import__("_codecs").encode, "a", "rot13")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_hostile_pickles_run_nothing(tmp_path, protocol):
    marker = tmp_path / "ran"
    for what, content in hostile(marker):
        (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, protocol))
        with pytest.raises(DataError, match=r"which such data do not need\. Nothing"):
            Cifar10(tmp_path).load()
        assert not marker.exists(), what


def test_the_hostile_pickles_would_run(tmp_path):
    """Else the test above could not fail."""
    marker = tmp_path / "ran"
    pickle.loads(pickle.dumps(dict(hostile(marker))["a call"]))
    assert marker.exists()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "cannot be read"),
        (b"\x80\x02}", "cannot be read"),
        (b"hello", "cannot be read"),
        (b"\x80\x02P1\n.", "cannot be read|not in the file"),
        (b"\x80\x02U\x01aQ.", "not in the file"),
        (b"\x80\x02\x82\x01.", "cannot be read"),
        (b"\x80\x02c_codecs\nencode\n}U\x04nameK\x01s\x86b.", "cannot be read"),
        (b"\x80\x02c_codecs\nencode\nN}U\x06targetK\x01s\x86b.", "another state"),
        (b"\x80\x02](K\x00K\x01u.", "no dictionary"),
        (b"\x80\x02}(K\x00K\x01u.", "key that is no text"),
        (b"(I1\nI2\nd.", "key that is no text"),
        (b"\x80\x04\x8f.", "cannot be read"),
        (b"\x80\x05\x96" + b"\xff" * 6 + b"\x00\x00.", "cannot be read"),
        (b"\x80\x02cnumpy\nndarray\n)\x81.", "cannot be read"),
        (b"\x80\x02(K\x01icnumpy\nndarray\n.", "asks for|cannot be read"),
    ],
)
def test_pickles_of_nonsense(tmp_path, raw, message):
    (tmp_path / "p").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        pickles.read_dict(tmp_path / "p")


def doubled(first: bytes, times: int, pair: bytes) -> bytes:
    """A value that holds the one before twice, and so on: short, but 2^times long as text."""
    return first + (b"q\x01" + pair) * times


_LISTS = doubled(b"]", 60, b"0]h\x01ah\x01a")
_TUPLES = doubled(b")", 60, b"h\x01\x86")
_DTYPE, _ARRAY = b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n)R"
BOMBS = {
    "names": (b"}U\x10fine_label_names](" + _LISTS + b"h\x01" * 99 + b"es.", "as text; got list"),
    "a key": (b"}" + _TUPLES + b"K\x01s.", "key that is no text"),
    "keys": (b"}(" + _TUPLES + b"K\x01u.", "key that is no text"),
    "a deep key": (b"})" + b"\x85" * 1_000_000 + b"K\x01s.", "key that is no text"),
    "a type": (_DTYPE + _LISTS + b"\x85R.", "type without a name"),
    "the state of a type": (_DTYPE + b"U\x02u1\x85R(K\x03" + _LISTS + b"tb.", "unusual type"),
    "a shape": (_ARRAY + b"(K\x01" + _LISTS + b"NNU\x00tb.", "cannot be read"),
    "a place in memory": (b"K\x05r\xff\xff\xff\xff.", "got int"),
}

READ_EACH = """
import json, sys
from pathlib import Path
from flr.data.sources import cifar
from flr.core.errors import DataError
for folder in map(Path, sys.argv[1:]):
    try:
        got = cifar._class_names(cifar.CIFAR100, folder, binary=False)
    except DataError as error:
        got = str(error)
    print(json.dumps([folder.name, got]), flush=True)
"""


def test_short_pickles_of_endless_values_end_in_a_message(tmp_path):
    """In a process of its own: it would fill the memory, or never end."""
    for what, (content, _) in BOMBS.items():
        (tmp_path / what).mkdir()
        (tmp_path / what / "meta").write_bytes(b"\x80\x02" + content)
    folders = [str(tmp_path / what) for what in BOMBS]
    done = subprocess.run(
        [sys.executable, "-c", READ_EACH, *folders], capture_output=True, text=True, timeout=60
    )
    found = dict(map(json.loads, done.stdout.splitlines()))
    assert done.returncode == 0, (folders[len(found) :][:1], done.stderr)
    for what, (_, message) in BOMBS.items():
        assert message in found[what], found[what]
        assert str(tmp_path / what / "meta") in found[what]


SMALL = {
    b"data": np.arange(6, dtype=np.uint8).reshape(2, 3),
    b"labels": [1, 2],
    b"name": b"x" * 300,
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.data())
def test_a_damaged_pickle_is_read_or_refused(tmp_path, data):
    raw = of_python2(SMALL) if data.draw(st.booleans()) else pickle.dumps(SMALL, 2)
    at = data.draw(st.integers(0, len(raw) - 1))
    value = data.draw(st.integers(0, 255))
    damaged = flipped(raw, at, value) if data.draw(st.booleans()) else raw[:at]
    (tmp_path / "p").write_bytes(damaged)
    with contextlib.suppress(DataError):
        pickles.read_dict(tmp_path / "p")


def test_arrays_of_either_order_and_numpys_other_names(tmp_path):
    for array in (np.arange(6.0).reshape(2, 3).T, np.arange(3, dtype=">i4"), np.array([True])):
        raw = pickle.dumps({"a": array}, 2).replace(b"numpy._core", b"numpy.core")
        (tmp_path / "p").write_bytes(raw)
        found = pickles.read_dict(tmp_path / "p")["a"]
        assert found.dtype == array.dtype
        assert np.array_equal(found, array)


def test_unknown_superclasses_are_found_before_data_is_read():
    data = {"name": "cifar100", "superclasses": ["fishes"]}
    with pytest.raises(ConfigError, match=r'"fishes" is not known\. Did you mean "fish"'):
        parse({"rounds": 1, "data": data})


def test_data_are_found_by_path_and_by_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(paths.VARIABLE, raising=False)
    with pytest.raises(DataError, match=r"neither FLR_DATA nor \[data\] path .*flr data get two"):
        paths.find(None, ["one", "two"], "two")
    (tmp_path / "a" / "two").mkdir(parents=True)
    two = tmp_path / "a" / "two"
    assert paths.find(two, ["one", "two"], "two") == two
    assert paths.find(tmp_path / "a", ["one", "two"], "two") == two
    monkeypatch.setenv(paths.VARIABLE, str(tmp_path / "a"))
    assert paths.find(None, ["one", "two"], "two") == two
    monkeypatch.setenv(paths.VARIABLE, str(tmp_path))
    with pytest.raises(DataError) as error:
        paths.find(None, ["one", "two"], "two")
    assert all(str(tmp_path / name) in str(error.value) for name in ("one", "two"))
    with pytest.raises(DataError, match=r"nowhere/one.*nowhere; there is nothing"):
        paths.find(tmp_path / "nowhere", ["one", "two"], "two")
