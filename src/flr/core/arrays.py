"""Named tensors: the only thing that crosses a wire or a disk, and the files they are kept in."""

from __future__ import annotations

import glob
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from flr.core.errors import DataError

Arrays = dict[str, Tensor]

# what readers raise on files that are damaged, or made to harm
_BROKEN = (safetensors.SafetensorError, OSError, ValueError, TypeError, RecursionError)
_SYNCED_TOGETHER = 32
_RANDOM = re.compile(r"\.[a-z0-9_]{8}")  # what `mkstemp` puts behind a name
_META = "flr"  # one metadata key: safetensors writes several keys in random order


def nbytes(arrays: Mapping[str, Tensor]) -> int:
    """The size of a message: the tensors' own bytes, without framing."""
    return sum(a.numel() * a.element_size() for a in arrays.values())


def with_prefix(arrays: Mapping[str, Tensor], prefix: str) -> Arrays:
    """The entries whose name starts with `prefix`, in a fixed order."""
    return {name: arrays[name] for name in sorted(arrays) if name.startswith(prefix)}


def summed(terms: Iterable[Tensor | float]) -> Tensor:
    """Adds terms of a loss; a plain 0.0, as most hooks give, costs no operation."""
    first, *others = [term for term in terms if isinstance(term, Tensor) or term]
    total: Tensor = torch.as_tensor(first)
    for term in others:
        total = total + term
    return total


def pack(arrays: Mapping[str, Tensor], meta: Mapping[str, Any] | None = None) -> bytes:
    """Arrays as safetensors bytes; equal arrays and meta give equal bytes."""
    plain = {name: arrays[name].detach().cpu().contiguous() for name in sorted(arrays)}
    return safetensors.torch.save(plain, {_META: canonical_json(meta or {})})


def unpack(data: bytes) -> Arrays:
    """The inverse of `pack`, without the meta part."""
    return dict(safetensors.torch.load(data))


def save(path: Path, arrays: Mapping[str, Tensor], meta: Mapping[str, Any] | None = None) -> None:
    """Writes arrays atomically: a reader sees the whole file or none, after a power cut too."""
    write_atomically(path, pack(arrays, meta), sync=True)


def load(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Reads what `save` wrote. Safetensors cannot hold code, so any file is safe to try."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            meta = json.loads((file.metadata() or {}).get(_META, "{}"))
            return {name: file.get_tensor(name) for name in sorted(file.keys())}, dict(meta)
    except FileNotFoundError:
        raise DataError(f"Expected a file at {path}; there is none. Check the path.") from None
    except _BROKEN as error:
        raise DataError(
            f"Expected a safetensors file written by flr at {path}; it cannot be read ({error}). "
            "It may be truncated or of another kind; take another copy."
        ) from error


def canonical_json(value: Any) -> str:
    """JSON whose text depends on the value only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def write_atomically(
    path: Path, data: bytes | str, *, sync: bool = False, mode: int = 0o644
) -> None:
    """Writes beside the target and renames over it; with `sync` it also survives a power cut."""
    new = [] if path.parent.is_dir() else [p for p in path.parents if not p.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode() if isinstance(data, str) else data
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if sync:
        for folder in (path.parent, *(made.parent for made in new)):
            sync_to_disk(folder)


def clear_half_written(path: Path) -> None:
    """Deletes what a kill has left of writing this file, while nobody else writes it."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if _RANDOM.fullmatch(left.suffix) and left.is_file() and not left.is_symlink():
            left.unlink(missing_ok=True)


def sync_all(paths: Sequence[Path]) -> None:
    """The same for many at a time: the disk then writes them together, in a fifth of the time."""
    if paths:
        with ThreadPoolExecutor(min(len(paths), _SYNCED_TOGETHER)) as threads:
            list(threads.map(sync_to_disk, paths))


def sync_to_disk(path: Path) -> None:
    """Has a file, or the names in a folder, reach the disk: else a power cut may take them."""
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        if not path.is_dir():  # a folder may be none of ours, or of a system that cannot do it
            raise
