"""Gets data sets from their publishers: resumed where it stopped, checked before it counts.

Nothing here runs unless somebody asks for it by name (`flr data get NAME`).
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flr.data import fetch, human
from flr.data.fetch import Report
from flr.errors import DataError

_BLOCK = 1 << 20


@dataclass(frozen=True)
class File:
    """One file of a publisher; without a checksum, its reader decides whether it is good."""

    name: str
    checksum: str  # "md5:...", or empty
    reader: Callable[[Path], object] | None = None


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and what it looks like below the data folder."""

    base: str  # URL of the folder that has the files
    files: tuple[File, ...]
    folder: str  # of the files, or what an archive unpacks to
    content: Mapping[str, str] = field(default_factory=dict)  # checksums of unpacked files

    @property
    def packed(self) -> bool:
        """Whether it comes as an archive."""
        return bool(self.content)


def _idx_files(*checksums: str) -> tuple[File, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    pairs = zip(names, checksums, strict=True)
    return tuple(File(f"{name}-ubyte.gz", f"md5:{checksum}") for name, checksum in pairs)


_TORONTO = "https://www.cs.toronto.edu/~kriz/"
_CIFAR_N = "https://raw.githubusercontent.com/UCSC-REAL/cifar-10-100n/main/data/"

# The archives' checksums are the publishers' own, those of unpacked files MXNet Gluon's.
SOURCES: dict[str, Source] = {
    "cifar10": Source(
        _TORONTO,
        (File("cifar-10-binary.tar.gz", "md5:c32a1d4ab5d03f1284b67883e8d87530"),),
        "cifar-10-batches-bin",
        {
            "data_batch_1.bin": "sha1:aadd24acce27caa71bf4b10992e9e7b2d74c2540",
            "data_batch_2.bin": "sha1:c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
            "data_batch_3.bin": "sha1:1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
            "data_batch_4.bin": "sha1:aab85764eb3584312d3c7f65fd2fd016e36a258e",
            "data_batch_5.bin": "sha1:26e2849e66a845b7f1e4614ae70f4889ae604628",
            "test_batch.bin": "sha1:67eb016db431130d61cd03c7ad570b013799c88c",
        },
    ),
    "cifar100": Source(
        _TORONTO,
        (File("cifar-100-binary.tar.gz", "md5:03b5dce01913d631647c71ecec9e9cb8"),),
        "cifar-100-binary",
        {
            "train.bin": "sha1:e207cd2e05b73b1393c74c7f5e7bea451d63e08e",
            "test.bin": "sha1:8fb6623e830365ff53cf14adec797474f5478006",
        },
    ),
    "cifar10n": Source(
        _CIFAR_N, (File("CIFAR-10_human.pt", "", lambda path: human.load(path, "worst")),), "."
    ),
    "cifar100n": Source(
        _CIFAR_N, (File("CIFAR-100_human.pt", "", lambda path: human.load(path, "noisy")),), "."
    ),
    "mnist": Source(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        _idx_files(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        "mnist",
    ),
    "fashion-mnist": Source(
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        _idx_files(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        "fashion-mnist",
    ),
}


@dataclass(frozen=True)
class Got:
    """What a data set was found to be, or was made."""

    path: Path  # what its reader reads
    new: bool  # false: everything was already there, and good
    unchecked: tuple[str, ...]  # files for which no checksum is known
    archive: Path | None = None  # not needed any more


def get(name: str, folder: Path, base: str | None, report: Report) -> Got:
    """Brings a data set into the data folder, or finds it there; never overwrites a good file.

    `base` is another address (a mirror) that has the publisher's files. A complete archive that
    somebody put into the folder is unpacked without a network.
    """
    source = SOURCES[name]
    target = folder / source.folder
    if source.packed and target.exists():
        reason = _why_incomplete(target, source)
        if reason:
            raise DataError(
                f"Expected the publisher's files in {target}; {reason}. Remove or rename the "
                "folder, then start again: it is not overwritten."
            )
        return Got(target, False, ())
    place = folder if source.packed else target
    place.mkdir(parents=True, exist_ok=True)
    address = (base or source.base).rstrip("/") + "/"
    missing = [file for file in source.files if not _is_there(place / file.name, file)]
    try:
        for file in missing:
            _fetch(address + file.name, place / file.name, file, report)
    except fetch.UnreachableError as error:
        raise DataError(_by_other_means(error, name, folder, place, address, source)) from error
    unchecked = tuple(file.name for file in source.files if not file.checksum)
    if not source.packed:
        path = target if len(source.files) > 1 else place / source.files[0].name
        return Got(path, bool(missing), unchecked)
    archive = place / source.files[0].name
    unpack(archive, source, folder)
    return Got(target, True, unchecked, archive)


def _is_there(path: Path, file: File) -> bool:
    """Whether a file needs no download; one that is there and wrong is the user's to remove."""
    if not path.exists():
        return False
    reason = _why_bad(path, file)
    if reason:
        raise DataError(
            f"Expected {path} to be the publisher's file; {reason}. Remove or rename it, then "
            "start again: it is not overwritten."
        )
    return True


def _fetch(url: str, path: Path, file: File, report: Report) -> None:
    """Downloads beside the path, checks, then renames.

    What was begun goes on only where a checksum can tell whether the two halves belong together;
    if they do not, it starts afresh.
    """
    part = path.with_name(path.name + ".part")
    if not file.checksum:
        part.unlink(missing_ok=True)
    resumed = part.exists()
    fetch.download(url, part, report)
    reason = _why_bad(part, file)
    if reason and resumed:
        part.unlink()
        fetch.download(url, part, report)
        reason = _why_bad(part, file)
    if reason:
        part.unlink()
        raise DataError(
            f"Expected the publisher's {file.name} at {url}; {reason}. It was thrown away. Try "
            "again later, or another address with --from."
        )
    part.replace(path)


def _why_bad(path: Path, file: File) -> str | None:
    """What is wrong with a file's content, in words."""
    if file.checksum:
        return _why_other(path, file.checksum)
    if file.reader is not None:
        try:
            file.reader(path)
        except DataError as error:
            return f"its content is not right: {error}".rstrip(".")
    return None


def _why_other(path: Path, checksum: str) -> str | None:
    algorithm, _, expected = checksum.partition(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    found = digest.hexdigest()
    return None if found == expected else f"its {algorithm} should be {expected} and is {found}"


def _why_incomplete(target: Path, source: Source) -> str | None:
    """The first unpacked file that is missing or another one."""
    for name, checksum in source.content.items():
        path = target / name
        if not path.is_file():
            return f"{name} is missing"
        reason = _why_other(path, checksum)
        if reason:
            return f"{name} is another file: {reason}"
    return None


def unpack(archive: Path, source: Source, folder: Path) -> None:
    """Unpacks into a temporary folder, checks what came out, and moves it into place at once.

    Whatever is no plain file or folder inside of it is refused.
    """
    temporary = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder))
    try:
        try:
            with tarfile.open(archive, "r:gz") as tar:
                _extract(tar, temporary)
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"Expected an archive of plain files at {archive}; it cannot be unpacked "
                f"({type(error).__name__}: {error}). Remove it, then start again."
            ) from error
        reason = _why_incomplete(temporary / source.folder, source)
        if reason:
            raise DataError(
                f"Expected the folder {source.folder} with the publisher's files in {archive}; "
                f"{reason}. Remove the archive, then start again."
            )
        (temporary / source.folder).rename(folder / source.folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """By hand: tarfile has its own filter for this only from Python 3.11.4 on."""
    for member in tar:
        target = (folder / member.name).resolve()
        inside = target.is_relative_to(folder.resolve())
        if not inside or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is no plain file inside of the archive")
        place = target if member.isdir() else target.parent
        place.mkdir(parents=True, exist_ok=True)
        if (content := tar.extractfile(member)) is not None:
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)


def _by_other_means(
    error: Exception, name: str, folder: Path, place: Path, address: str, source: Source
) -> str:
    """What to do by hand where the network does not help."""
    lines = [f"Expected to download {name} from {address}; {error}."]
    lines.append("Without this network, get by other means:")
    for file in source.files:
        if not (place / file.name).exists():
            kind, _, value = file.checksum.partition(":")
            must = f"with {kind} {value}" if file.checksum else "for which no checksum is known"
            lines.append(f"  {address}{file.name}\n    {must}, as {place / file.name}")
    lines.append(f"Then `flr data get {name} --to {folder}` goes on from there.")
    return "\n".join(lines)
