"""Whether a site's data are still those that its tables belong to: a record beside its states.

What a method remembers of a sample it finds by the sample's place. Were rows to change places
between two rounds, tables would belong to other samples and nothing would fail, so a site keeps a
digest of its data, their order included, and compares it before every task.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from flr.core import seal
from flr.core.arrays import canonical_json, write_atomically
from flr.flower.run_spec import RunSpec
from flr.flower.site_config import RefusalError, SiteConfig

log = logging.getLogger("flr")

RECORD = "site.json"  # beside the states of an experiment

CHANGED = (
    "its data are not those that it began this run with: other samples, another order or other "
    "labels, and what it remembers belongs to those. Bring them back as they were, or have it "
    "begin anew with accept-new-data=true in its node config (as many samples as before), or start "
    "a new run"
)


@dataclass(frozen=True)
class SiteRecord:
    """Which run a folder of states belongs to, and with which data."""

    run: str
    site: str
    method: str
    rounds: int
    began: str  # UTC
    data: str = ""  # digest of the site's own data; empty where it has a share of a scenario's
    stamp: str = ""  # of the files when they were read for the digest
    anew: int = 0  # the first step on these data; states of steps before belong to others


def version_for(
    own: SiteConfig, run_spec: RunSpec, step: int, version: int | None, folder: Path
) -> int | None:
    """The state that a task may go on from: the version asked for, or none after a change of data.

    Refuses where data have changed and the people at the site have not said that they may.
    """
    known = read(folder)
    found = current(own, run_spec, known)
    if known is not None and known.data != found.data:
        if not own.accept_new_data:
            raise RefusalError(CHANGED)
        log.warning("%s: its data are new, as its node config allows; it begins anew", own.site)
        found = replace(found, anew=step)
    if found != known:
        write_atomically(folder / RECORD, seal.signed(asdict(found)), sync=True)
    return None if version is not None and version < found.anew else version


def current(own: SiteConfig, run_spec: RunSpec, known: SiteRecord | None) -> SiteRecord:
    """The record as it would be now; files that are as they were are not read again."""
    fresh = known or SiteRecord(
        run=run_spec.experiment,
        site=own.site,
        method=_method(run_spec),
        rounds=int(run_spec.tree.get("rounds", 0)),
        began=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if own.data is None:
        return fresh
    stamp = _stamp(own)
    if known is not None and known.stamp == stamp:
        return known
    return replace(fresh, data=digest(own), stamp=stamp)


def read(folder: Path) -> SiteRecord | None:
    """The record of a folder of states; None where there is none that can be read."""
    try:
        facts = seal.unsigned((folder / RECORD).read_text())
        return TypeAdapter(SiteRecord).validate_python(facts)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning("%s is damaged (%s); it is made anew", folder / RECORD, error)
        return None


def digest(own: SiteConfig) -> str:
    """Of the bytes of all files in the order in which they are read, and of how labels are read."""
    found = hashlib.sha256(canonical_json([own.label, own.size]).encode())
    for file, inside in _files(own):
        with file.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        found.update(canonical_json([inside, content]).encode())
    return found.hexdigest()


def _stamp(own: SiteConfig) -> str:
    """Changes with every file that is written, also where size and time of change are set back."""
    facts = [canonical_json([own.label, own.size])]
    for file, _ in _files(own):
        stat = file.stat()
        facts.append(f"{file} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}")
    return seal.sha256("\n".join(facts).encode())


def _files(own: SiteConfig) -> Iterator[tuple[Path, str]]:
    """Each file with its name inside the folder; a single file may be called anything."""
    path = own.data or Path()
    if not path.is_dir():
        yield path, ""
        return
    for at, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            file = Path(at, name)
            yield file, file.relative_to(path).as_posix()


def _method(run_spec: RunSpec) -> str:
    """The names of the methods that a run stacks, without their settings."""
    named = run_spec.tree.get("method", "")
    several = named if isinstance(named, list) else [named]
    return " + ".join(str(one.get("name", "") if isinstance(one, dict) else one) for one in several)
