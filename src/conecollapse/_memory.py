"""Freed memory: when it is given back to the system, and when it is kept.

The C library of Linux keeps what is freed for later requests. After a cone of a large table that is
several times the data, in pieces into which what comes next, such as the check of the certificate,
does not always fit: `give_back`.

Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``, so that they give memory back. The
same setting makes glibc map every array of more than 128 KiB anew and clear its pages, and a cone
found on a worker, which makes and drops many such arrays, takes up to 1.75 times as long: inside
`freed_memory_is_kept` freed memory is kept, up to `KEPT`. Products of blocks with thin matrices do
not need it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

MANY_ENTRIES = 2**20  # of points, from which on giving memory back pays
KEPT = 2**26  # bytes of freed memory at the end of the heap that are kept
MAPPED = 2**25  # bytes from which an array is mapped by itself: the highest that glibc takes
MAPPED_BY_DEFAULT = 2**17
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h

_lock = Lock()
_keeping = 0  # pieces of work for which freed memory is kept now


def give_back(n_entries: int) -> None:
    """Give freed memory back, where the C library can, after work on points with so many entries: a
    few milliseconds if they are many."""
    library = _library() if n_entries >= MANY_ENTRIES else None
    if library is not None:
        library.malloc_trim(0)


@contextmanager
def freed_memory_is_kept() -> Iterator[None]:
    """Keep freed memory inside the block, if this process was told to give it back at once, and
    give it back afterwards; work in several threads shares the setting."""
    own = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    library = _library() if own.isdigit() else None
    if library is None:
        yield
        return
    _count(1, library, (KEPT, MAPPED))
    try:
        yield
    finally:
        _count(-1, library, (int(own), MAPPED_BY_DEFAULT))


def _count(step: int, library: Any, thresholds: tuple[int, int]) -> None:
    """The first piece of work that begins changes the setting, and the last one that ends changes
    it back."""
    global _keeping
    with _lock:
        _keeping += step
        if _keeping == max(step, 0):
            trim, mapped = thresholds
            library.mallopt(M_TRIM_THRESHOLD, trim)
            library.mallopt(M_MMAP_THRESHOLD, mapped)
            if not _keeping:
                library.malloc_trim(trim)


@cache
def _library() -> Any:
    """The C library, None where it has no such functions: another system, or another library."""
    try:
        library = ctypes.CDLL(None)
        return library if library.malloc_trim and library.mallopt else None
    except (OSError, TypeError, AttributeError):
        return None
