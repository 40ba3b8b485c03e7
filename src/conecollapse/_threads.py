"""Threads over independent pieces of work, without a threading layer of numba's.

Kernels are compiled with ``nogil=True`` and called on ranges of items from ordinary Python threads.
numba's own ``prange`` is not used: its default layer aborts the process when two Python threads
(two Dask workers, say) enter a parallel kernel at once, and compiling for it costs seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from numbers import Integral
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

from conecollapse._errors import InvalidInputError

_LIMIT: ContextVar[int | None] = ContextVar("conecollapse_threads", default=None)


def available_threads() -> int:
    """Threads this process may use: its CPU affinity, less what the usual environment variables
    forbid."""
    count = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
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
    """Hold our kernels and BLAS to ``n_jobs`` threads inside the block; None or -1 leaves both as
    they are."""
    if n_jobs is not None and (
        isinstance(n_jobs, bool)
        or not isinstance(n_jobs, Integral)
        or (n_jobs < 1 and n_jobs != -1)
    ):
        raise InvalidInputError(
            f"n_jobs must be a number of threads, or None or -1 for all; got {n_jobs!r}."
        )
    if n_jobs is None or n_jobs == -1:
        yield current_threads()
        return
    token = _LIMIT.set(int(n_jobs))
    try:
        with _BLAS.limited(int(n_jobs)):
            yield int(n_jobs)
    finally:
        _LIMIT.reset(token)


@contextmanager
def serial_blas() -> Iterator[None]:
    """Hold BLAS to one thread inside the block, for work that is spread over our own threads.

    Idle OpenBLAS workers spin for tens of milliseconds after each product and would take the cores
    from our kernels.
    """
    with _BLAS.limited(1):
        yield


class _BlasLimit:
    """The number of BLAS threads is one for the whole process: the first to limit it saves it, the
    last to leave restores it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.wishes: list[int] = []
        self.original: list[int] = []

    @contextmanager
    def limited(self, n: int) -> Iterator[None]:
        self._change(n, enter=True)
        try:
            yield
        finally:
            self._change(n, enter=False)

    def _change(self, n: int, *, enter: bool) -> None:
        with self.lock:
            before = min(self.wishes, default=None)
            if enter:
                self.wishes.append(n)
            else:
                self.wishes.remove(n)
            now = min(self.wishes, default=None)
            if now == before:
                return
            libraries = _libraries()
            if before is None:
                self.original = [library.num_threads for library in libraries]
            for library, original in zip(libraries, self.original, strict=True):
                library.set_num_threads(original if now is None else now)


_BLAS = _BlasLimit()


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries of this process; asking them directly takes a tenth of the time that a
    limit of threadpoolctl's takes."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="conecollapse")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def for_ranges(work: Callable[[int, int], object], n_items: int, smallest: int = 1) -> None:
    """Call ``work(start, stop)`` over pieces that cover ``range(n_items)``, on the threads in
    force.

    Pieces are handed out as threads become free, several for each thread, so that uneven items
    balance. The calling thread takes part, so nothing waits for a pool that others keep busy.
    ``smallest`` is the number of items below which a piece is not worth a thread. Threads do not
    nest: inside ``work`` one thread is in force.
    """
    n_pieces = -(-n_items // max(smallest, 1))
    n_threads = min(current_threads(), n_pieces) if n_pieces > 1 else 1
    if n_threads <= 1:
        if n_items:
            work(0, n_items)
        return
    step = max(-(-n_items // (8 * n_threads)), smallest)
    starts, lock = iter(range(0, n_items, step)), Lock()
    errors: list[BaseException] = []

    def take_part() -> None:
        token = _LIMIT.set(1)
        try:
            while not errors:
                with lock:
                    start = next(starts, None)
                if start is None:
                    return
                work(start, min(start + step, n_items))
        except BaseException as error:  # everybody stops; the first error is raised by the caller
            errors.append(error)
        finally:
            _LIMIT.reset(token)

    helpers = [
        _pool(max(n_threads, available_threads())).submit(take_part) for _ in range(n_threads - 1)
    ]
    take_part()
    # one that has not begun is not needed any more
    wait([helper for helper in helpers if not helper.cancel()])
    if errors:
        raise errors[0]
