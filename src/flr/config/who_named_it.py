"""Who named what is looked for: a user may make flr download, a file or a server may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_by_others: ContextVar[bool] = ContextVar("by_others", default=False)


@contextmanager
def named_by_others() -> Iterator[None]:
    """Names come from a file or a server meanwhile: nothing is downloaded because of them."""
    before = _by_others.set(True)
    try:
        yield
    finally:
        _by_others.reset(before)


def may_download() -> bool:
    """Whether the user has named what is looked for now."""
    return not _by_others.get()
