"""Threads over independent pieces of work, without a threading layer of numba's.

Kernels are compiled with ``nogil=True`` and called on ranges of items from ordinary Python threads. numba's own
``prange`` is not used: its default layer aborts the process when two Python threads (two Dask workers, say) enter a
parallel kernel at once, and compiling for it costs seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from conecollapse._types import AnyArray

_LIMIT: ContextVar[int | None] = ContextVar("conecollapse_threads", default=None)


def available_threads() -> int:
    """Threads this process may use: its CPU affinity, less what the usual environment variables forbid."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        value = os.environ.get(name, "")
        if value.isdigit() and int(value) > 0:
            count = min(count, int(value))
    return max(count, 1)


def current_threads() -> int:
    """Threads in force here: the innermost `limit_threads`, else all that are available."""
    return _LIMIT.get() or available_threads()


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[int]:
    """Hold our kernels and BLAS to ``n_jobs`` threads inside the block; None or -1 leaves both as they are."""
    if n_jobs is None or n_jobs == -1:
        yield current_threads()
        return
    token = _LIMIT.set(n_jobs)
    try:
        with _controller().limit(limits=n_jobs):
            yield n_jobs
    finally:
        _LIMIT.reset(token)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def serial_blas() -> Iterator[None]:
    """Hold BLAS to one thread inside the block, for work that is spread over our own threads.

    Idle OpenBLAS workers spin for tens of milliseconds after each product and would take the cores from our kernels.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


def for_ranges(work: Callable[[int, int], object], n_items: int, smallest: int = 1) -> None:
    """Call ``work(start, stop)`` over pieces that cover ``range(n_items)``, on the threads in force.

    Pieces are handed out as threads become free, several for each thread, so that uneven items balance. ``smallest``
    is the number of items below which a piece is not worth a thread.
    """
    n_threads = min(current_threads(), -(-n_items // max(smallest, 1)))
    if n_threads <= 1:
        if n_items:
            work(0, n_items)
        return
    step = max(-(-n_items // (8 * n_threads)), smallest)

    def alone(start: int) -> None:
        _LIMIT.set(1)  # threads do not nest; the setting is this worker's own
        work(start, min(start + step, n_items))

    with ThreadPoolExecutor(n_threads) as pool:
        for future in [pool.submit(alone, start) for start in range(0, n_items, step)]:
            future.result()


def threaded_product(A: AnyArray, B: AnyArray) -> AnyArray:
    """``A @ B.T`` with its rows spread over our threads; for use under `serial_blas`."""
    out = np.empty((len(A), len(B)), A.dtype)

    def work(start: int, stop: int) -> None:
        np.matmul(A[start:stop], B.T, out=out[start:stop])

    for_ranges(work, len(A), smallest=32)
    return out
