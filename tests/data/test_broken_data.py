"""Whatever is wrong with a user's data: a DataError that names the place and says what to do."""

from __future__ import annotations

import contextlib
import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from flr.core.errors import DataError
from flr.data.build import from_arrays
from flr.data.sources.files import Csv, Folder, Npz, read_samples

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10) % 2


def changed(array, row, value):
    copy = array.astype(type(value) if isinstance(value, float) else array.dtype)
    copy[row] = value
    return copy


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "y": Y[:9]}, "10 samples and 9 labels"),
        ({"x": changed(X, 3, np.nan), "y": Y}, "the first is sample 3"),
        ({"x": changed(X, 4, np.inf), "y": Y}, "the first is sample 4"),
        ({"x": changed(X, 4, 1e300), "y": Y}, "the first is sample 4"),
        ({"x": X, "y": changed(Y, 2, -1)}, "got -1 in sample 2"),
        ({"x": X, "y": changed(Y, 2, 0.5)}, "got 0.5 in sample 2"),
        ({"x": X, "y": changed(Y, 2, np.nan)}, "got nan in sample 2"),
        ({"x": X, "y": changed(Y, 2, 10**12)}, "got 1000000000000 in sample 2"),
        ({"x": X, "y": Y * 2}, "class 1 has none"),
        ({"x": X, "y": Y * 0}, "at least two classes"),
        ({"x": X, "y": np.arange(10)}, "at least two samples"),
        ({"x": X, "y": np.eye(10)}, r"argmax\(1\)"),
        ({"x": X, "y": Y, "classes": ["a", "a"]}, '"a" more than once'),
        ({"x": X, "y": Y, "classes": ["a", ""]}, "more than once or empty"),
        ({"x": X, "y": Y, "classes": ["a", "b", "c"]}, '"c" has none'),
        ({"x": X, "y": Y * 2, "classes": ["a", "b"]}, "got 2 in sample 1"),
        ({"x": X, "y": ["a", "bee"] * 5, "classes": ["a", "be"]}, 'Did you mean "be"'),
        ({"x": X[:0], "y": Y[:0]}, "0 x 2"),
        ({"x": X[:, :0], "y": Y}, "10 x 0"),
        ({"x": X[:, 0], "y": Y}, "got shape 10"),
        ({"x": np.float32(1), "y": Y}, "single value"),
        ({"x": X.astype(str), "y": Y}, "expected numbers"),
        ({"x": X, "y": Y.astype(complex)}, "class numbers or class names"),
        ({"x": X}, "expected labels"),
        ({"y": Y, "images": X}, "got images, y|got y, images"),
        ({"x_train": X, "y_train": Y}, "expected an array x_test"),
        ({"x_train": X, "y_train": Y, "x_test": X}, "expected labels"),
        ({"x_train": X, "y_train": Y, "x_test": X[:, :1], "y_test": Y}, "got 1, float32"),
        ({"x_train": X, "y_train": Y, "x_test": X, "y_test": Y * 2}, "got 2 in sample 1"),
    ],
)
def test_npz_content(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        Npz(tmp_path / "a.npz").load()


def test_npz_with_pickled_objects_runs_nothing(tmp_path):
    ran = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return (ran.touch, ())

    objects = np.array([Bomb()], dtype=object)
    np.savez(tmp_path / "a.npz", allow_pickle=True, x=objects, y=Y)
    with pytest.raises(DataError, match="without objects"):
        Npz(tmp_path / "a.npz").load()
    assert not ran.exists()


def test_files_that_are_no_npz(tmp_path):
    np.save(tmp_path / "lone.npy", X)
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as file:
        file.writestr("x", b"not an array")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("lone.npy", "zip.npz", "text.npz", "empty.npz", "missing.npz", "."):
        with pytest.raises(DataError, match=r"[Ee]xpected .*npz|array"):
            Npz(tmp_path / name).load()


def npz_bytes():
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=X, y=Y, classes=["a", "b"])
    return buffer.getvalue()


GOOD_NPZ = npz_bytes()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, len(GOOD_NPZ) - 1), at=st.integers(0, len(GOOD_NPZ) - 1), bit=st.data())
def test_a_damaged_npz_is_refused_or_read_but_never_crashes(tmp_path, cut, at, bit):
    path = tmp_path / "a.npz"
    path.write_bytes(GOOD_NPZ[:cut])
    with pytest.raises(DataError):
        Npz(path).load()
    damaged = bytearray(GOOD_NPZ)
    damaged[at] ^= 1 << bit.draw(st.integers(0, 7))
    path.write_bytes(damaged)
    with contextlib.suppress(DataError):
        assert len(Npz(path).load().classes) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,label\n", "header and at least one row"),
        ("a,label\n1,x\n2\n", "line 3: expected 2 cells"),
        ("a,label\n1,x\n2,y,z\n", "line 3: expected 2 cells"),
        ("a,label\n1,x\n\ntwo,y\n", 'line 4, column "a": expected a finite number; got "two"'),
        ("a,b,label\n1,two,x\n1.5.2,,y\n", 'line 3, column "a".*got "1.5.2"'),
        ("a,b,label\n1,,x\n2,,y\n", 'column "b": expected numbers or text; all its cells'),
        ("a,b,label\n1,nan,x\n", 'column "b": expected numbers or text; all its cells'),
        ("a,b,label\n1,,x\n1,inf,y\n", 'line 3, column "b".*got "inf"'),
        ("a,b,label\n1,1e39,x\n", 'line 2, column "b".*"1e39"'),
        ("a,label\n1,x\n1, \n", 'line 3, column "label"'),
        ("a,a,label\n1,1,x\n", '"a" as columns 1 and 2'),
        (",a,label\n0,1,x\n", "column 1 has none"),
        ("a,lable\n1,x\n", 'Did you mean "lable"'),
        ("a,Label\n1,x\n", 'Did you mean "Label"'),
        ("a;label\n1;x\ny;x\n", 'line 3, column "a".*got "y"'),
        ("label\nx\n", "feature columns besides"),
        ('a,label\n1,"x\n', "cannot be read"),
        ("a,label\n1,x\n2,x\n", "at least two classes"),
        ("a,label\n1,x\n2,y\n", "at least two samples"),
    ],
)
def test_csv_content(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        Csv(tmp_path / "t.csv").load()


def test_csv_that_is_no_text(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,label\n\0\x01,x\n")
    with pytest.raises(DataError, match="binary"):
        Csv(tmp_path / "t.csv").load()
    with pytest.raises(DataError, match="got a folder"):
        Csv(tmp_path).load()
    with pytest.raises(DataError, match="there is none"):
        Csv(tmp_path / "no.csv").load()


def folder(root, names=("a", "b")):
    for name in names:
        (root / name).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (4, 4), (i, i, i)).save(root / name / f"{i}.png")
    return root


def test_folder_problems(tmp_path):
    with pytest.raises(DataError, match="there is none"):
        Folder(tmp_path / "no").load()
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="got a file"):
        Folder(tmp_path / "file").load()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="one sub-folder for each class"):
        Folder(tmp_path / "empty").load()
    with pytest.raises(DataError, match="at least two classes"):
        Folder(folder(tmp_path / "one", ("a",))).load()
    root = folder(tmp_path / "gap")
    (root / "c").mkdir()
    (root / "c" / "notes.txt").touch()
    with pytest.raises(DataError, match="expected images"):
        Folder(root).load()
    folder(tmp_path / "half" / "train")
    with pytest.raises(DataError, match="Add test"):
        Folder(tmp_path / "half").load()
    folder(tmp_path / "new" / "train")
    folder(tmp_path / "new" / "test", ("a", "z"))
    with pytest.raises(DataError, match='class "z" is not known'):
        Folder(tmp_path / "new").load()


def test_corrupt_images(tmp_path):
    root = folder(tmp_path)
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / "a" / "bad.png")
    good = (root / "a" / "bad.png").read_bytes()
    for content in (good[:40], good[: len(good) // 2], b"", b"\x89PNG\r\n\x1a\n"):
        (root / "a" / "bad.png").write_bytes(content)
        with pytest.raises(DataError, match=r"bad\.png: expected an image"):
            Folder(root).load()
    Image.fromarray(np.full((4, 4), 4000, dtype=np.uint16)).save(root / "a" / "bad.png")
    assert len(Folder(root).load().train.x) + len(Folder(root).load().test.x) == 7


def test_arrays_that_do_not_belong_together():
    with pytest.raises(DataError, match="Pass the other"):
        from_arrays(X, Y, X)
    with pytest.raises(DataError, match="rows of different lengths"):
        from_arrays([[1, 2], [3]], Y)
    with pytest.raises(DataError, match=r"x_test, y_test: .* 10 samples and 3 labels"):
        from_arrays(X, Y, X, Y[:3])


def test_read_refuses_what_the_model_does_not_know(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=Y + 1)
    with pytest.raises(DataError, match="from 0 to 1; got 2"):
        read_samples(tmp_path / "a.npz", ("a", "b"))
    with pytest.raises(DataError, match='class "b" is not known'):
        read_samples(folder(tmp_path / "f"), ("a", "c"))
    (tmp_path / "t.csv").write_text("a,LABEL\n1,x\n")
    with pytest.raises(DataError, match='Did you mean "LABEL"'):
        read_samples(tmp_path / "t.csv", ("x", "y"))
    (tmp_path / "t.parquet").touch()
    with pytest.raises(DataError, match="Convert it"):
        read_samples(tmp_path / "t.parquet", None)
    with pytest.raises(DataError, match="there is none"):
        read_samples(tmp_path / "nothing", None)
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError, match="got neither"):
        read_samples(tmp_path / "bare", None)
