"""Freed memory, given back to the system.

The C library of Linux keeps what is freed for later requests. After a cone of a large table that is
several times the data, in pieces into which what comes next, such as the check of the certificate,
does not always fit.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

MANY_ENTRIES = 2**20  # of points, from which on it pays


def give_back(n_entries: int) -> None:
    """Give freed memory back, where the C library can, after work on points with so many entries: a
    few milliseconds if they are many."""
    trim = _trim() if n_entries >= MANY_ENTRIES else None
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """The function ``malloc_trim`` of the C library, None where there is no such function."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # another system, or another C library
        return None
