"""Digests that vouch for files: what rots on a disk is noticed when it is read, and named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from flr.core.arrays import canonical_json, write_atomically
from flr.core.errors import DataError

RECORD = "run.json"  # in a run folder: what it was made with, and the digests of its files
FORMAT = 1
_PIECE = 1 << 20  # bytes read at a time


def sha256(data: bytes) -> str:
    """The digest of some bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_of(path: Path, size: int | None = None) -> str:
    """The digest of a file, or of so many first bytes of one that only grows."""
    found, left = hashlib.sha256(), path.stat().st_size if size is None else size
    with path.open("rb") as file:
        while left > 0 and (piece := file.read(min(_PIECE, left))):
            found.update(piece)
            left -= len(piece)
    return found.hexdigest()


def signed(facts: Mapping[str, Any]) -> str:
    """Facts as JSON text with a digest over all of them."""
    return canonical_json({**facts, "digest": sha256(canonical_json(facts).encode())})


def unverified(text: str) -> dict[str, Any]:
    """A JSON object, whatever it says; raises ValueError where there is none."""
    try:
        facts = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(facts, dict):
        raise ValueError("it is no JSON object")
    return facts


def unsigned(text: str) -> dict[str, Any]:
    """The inverse of `signed`; raises ValueError where text and digest differ."""
    facts = unverified(text)
    facts.pop("digest", None)
    if signed(facts) != text:  # the digest is in there
        raise ValueError("its content and its own digest differ")
    return facts


def read_record(folder: Path) -> dict[str, Any] | None:
    """What vouches for a run folder; None in one that an older version has made."""
    path = folder / RECORD
    try:
        facts = unsigned(path.read_text())
        if facts.get("format") != FORMAT:
            raise ValueError(f"its format is {facts.get('format')}, this version reads {FORMAT}")
        if not _is_record(facts):
            raise ValueError("its parts are not of the kinds that flr writes")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise DataError(
            f"Expected {path} as flr writes it; it is damaged ({error}). Take another copy of it, "
            "or delete it to go on without a check of the other files."
        ) from error
    return facts


def _is_record(facts: dict[str, Any]) -> bool:
    """Whether files have digests, and what the run was made with has names."""
    files, made_with = facts.get("files", {}), facts.get("made_with", [])
    settings = facts.get("settings", {"rounds": 1})
    return (
        isinstance(files, dict)
        and isinstance(settings, dict)
        and isinstance(settings.get("rounds"), int)
        and all(isinstance(digest, str) for digest in files.values())
        and isinstance(made_with, list)
        and all(isinstance(entry, dict) for entry in made_with)
        and isinstance(facts.get("backbone", ""), str)
    )


def write_record(folder: Path, facts: Mapping[str, Any], names: Iterable[str]) -> None:
    """Makes the record vouch for these files as they are now, and for no others."""
    files = {name: digest_of(folder / name) for name in names if (folder / name).is_file()}
    text = signed({**facts, "format": FORMAT, "files": files})
    write_atomically(folder / RECORD, text, sync=True)


def differs(path: Path) -> bool:
    """Whether the record beside a file vouches for other content than it has."""
    record = read_record(path.parent)
    expected = (record or {}).get("files", {}).get(path.name)
    return expected is not None and path.is_file() and digest_of(path) != expected


def check(path: Path, remedy: str = "take another copy of it") -> None:
    """Refuses a file that is not what the record beside it vouches for."""
    if differs(path):
        raise DataError(
            f"Expected {path} as the run has written it; its content and its digest in {RECORD} "
            f"differ. It was changed or damaged; {remedy}."
        )
