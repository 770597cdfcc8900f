"""How a process that does nothing but train gets its memory."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # as malloc.h numbers them


def keep_freed_memory(*, for_all_threads: bool = False) -> None:
    """Every step frees what the next one needs: glibc would give it back, and fetch it again.

    Its pages are up to a quarter of a small CNN's step. Not for a process that is the user's own:
    it would keep what training has freed. Other C libraries are left alone. Each thread has memory
    of its own unless one is kept for all.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)  # larger blocks, as a data set's, are given back
    mallopt(_TRIM_THRESHOLD, 256 << 20)
    if for_all_threads:
        mallopt(_ARENA_MAX, 1)
