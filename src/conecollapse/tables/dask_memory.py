"""Freed memory that a task keeps until it ends.

Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``, so that they give memory back. The
same setting makes glibc map every array of more than 128 KiB anew and clear its pages, and a
product of blocks, which makes and drops many such arrays, then takes two to three times as long.
While a task of ours runs, freed memory is therefore kept, up to `KEPT`; afterwards it is given
back, and the worker's own setting holds again.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

KEPT = 2**26  # bytes of freed memory at the end of the heap that are kept
MAPPED = 2**25  # bytes from which an array is mapped by itself: the highest that glibc takes
MAPPED_BY_DEFAULT = 2**17
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h

_lock = Lock()
_tasks = 0  # that run now


@contextmanager
def freed_memory_is_kept() -> Iterator[None]:
    """Keep freed memory inside the block, if this process was told to give it back at once; tasks
    in several threads share the setting."""
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
    """The first task that begins changes the setting, and the last one that ends changes it
    back."""
    global _tasks
    with _lock:
        _tasks += step
        if _tasks == max(step, 0):
            trim, mapped = thresholds
            library.mallopt(M_TRIM_THRESHOLD, trim)
            library.mallopt(M_MMAP_THRESHOLD, mapped)
            if not _tasks:
                library.malloc_trim(trim)


@cache
def _library() -> Any:
    """The C library, or None where it has no such settings."""
    try:
        library = ctypes.CDLL(None)
        return library if library.mallopt and library.malloc_trim else None
    except (AttributeError, OSError, TypeError):
        return None
