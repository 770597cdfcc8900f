"""Which sample a name in somebody's table means: folders, extensions and letters may differ.

No rule guesses. A name that fits several samples, or a sample that several names fit, is said.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from flr.data.readers.images import SUFFIXES

Form = Callable[[str], str | None]  # a name as it is compared; None: not in this way

_SEVERAL = "its name fits several samples"
_SHARED = "several names fit the same sample"


@dataclass(frozen=True)
class Pairing:
    """For each name of a table, the position of the sample that it means."""

    rows: list[int | None]
    otherwise: int  # of these are written in another way than the sample's own name
    unsure: dict[int, str]  # by position in the table: why a name that may mean some means none


def pair(names: Sequence[str], samples: Sequence[str]) -> Pairing:
    """Looks for equal names first; then for those equal but for how paths are written.

    A name may have more folders before it than the sample's own, or fewer.
    """
    position = {sample: row for row, sample in enumerate(samples)}
    rows = [position.get(name) for name in names]
    equal, unsure = sum(row is not None for row in rows), dict[int, str]()
    for of_name, of_sample in _FORMS:
        taken = {row for row in rows if row is not None}
        left = [i for i, row in enumerate(rows) if row is None and i not in unsure]
        if not left or len(taken) == len(samples):
            break
        written = _forms(of_name, ((i, names[i]) for i in left))
        free = _forms(of_sample, ((r, s) for r, s in enumerate(samples) if r not in taken))
        found, doubtful = _alike(list(written), list(free))
        unsure |= doubtful
        for i, row in found.items():
            rows[i] = row
    return Pairing(rows, sum(row is not None for row in rows) - equal, unsure)


def _alike(
    written: list[tuple[int, str]], free: list[tuple[int, str]]
) -> tuple[dict[int, int], dict[int, str]]:
    """Pairs of which one is the end of the other, folder by folder; and what fits more than once.

    Every end of every path is in a table, so that a million names take seconds.
    """
    whole, ends = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for row, path in free:
        whole[path].append(row)
        for end in _ends(path):
            ends[end].append(row)
    found, unsure = dict[int, int](), dict[int, str]()
    for i, path in written:
        longest = next((end for end in _ends(path) if end in whole), None)
        fits = ends.get(path, []) if longest is None else whole[longest]
        if len(fits) == 1:
            found[i] = fits[0]
        elif fits:
            unsure[i] = _SEVERAL
    shared = {row for row, count in Counter(found.values()).items() if count > 1}
    unsure |= {i: _SHARED for i, row in found.items() if row in shared}
    return {i: row for i, row in found.items() if row not in shared}, unsure


def _ends(path: str) -> Iterator[str]:
    """The path, and what is left of it without its first folders."""
    while path:
        yield path
        path = path.partition("/")[2]


def _forms(form: Form, names: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for position, name in names:
        if (written := form(name)) is not None:
            yield position, written


def _plain(name: str) -> str:
    """Composed letters, slashes as on Unix, nothing around it."""
    path = unicodedata.normalize("NFC", name).replace("\\", "/")
    return path.strip().strip("/").removeprefix("./")


def _folded(name: str) -> str:
    return _plain(name).casefold()


def _has_suffix(folded: str) -> bool:
    return any(folded.endswith(suffix) for suffix in SUFFIXES)


def _stem(name: str) -> str | None:
    """Without its extension, if it is one of a picture; 3.5 has none."""
    folded = _folded(name)
    return folded.rpartition(".")[0] if _has_suffix(folded) else None


def _bare(name: str) -> str | None:
    """A name that has no such extension."""
    folded = _folded(name)
    return None if _has_suffix(folded) else folded


_FORMS: tuple[tuple[Form, Form], ...] = (
    (_plain, _plain),
    (_folded, _folded),
    (_bare, _stem),
    (_stem, _bare),
)
