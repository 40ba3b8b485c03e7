"""Walk through all that a file holds: ``python structure.py hdf5 FILE SECONDS``, or ``matlab``.

`conecollapse.io.hdf5` runs this in a process of its own, which is allowed to crash, for so many
seconds of processor time. It imports nothing of this package. Errors that h5py and SciPy raise are
no matter here: the reader meets them again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MEMORY = 2**30  # bytes, beyond those of the interpreter
NAMES = 2**22  # strings of a column that are read: names are, at most


def limit(seconds: int) -> None:
    """Limits on processor time and memory, where the system has them."""
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(OSError, ValueError):
        seconds += int(time.process_time()) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


@contextmanager
def errors_of_h5py() -> Iterator[None]:
    """Go on after an error, but end badly where memory was the reason: the reader would take it."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MemoryError) or "alloc" in str(error):
            sys.exit("too little memory")


def walk_hdf5(path: str, seconds: int) -> None:
    """Look at every object, its attributes and its chunks, and read its strings."""
    try:
        import h5py
    except ImportError:
        return
    limit(seconds)

    def look(_: str, item: h5py.HLObject) -> None:
        with errors_of_h5py():
            dict(item.attrs)
        if not isinstance(item, h5py.Dataset):
            return
        with errors_of_h5py():
            if item.chunks is not None:
                item.id.chunk_iter(lambda _: None)
        with errors_of_h5py():
            if item.dtype.kind == "O" and item.size is not None and item.size <= NAMES:
                item[()]

    with errors_of_h5py(), h5py.File(path, "r") as file:
        dict(file.attrs)
        file.visititems(look)


def walk_matlab(path: str, seconds: int) -> None:
    """Read every array of a file of version 7.2 or before: SciPy follows an unknown type of numbers
    to an address that is none."""
    from scipy.io import loadmat

    limit(seconds)
    with suppress(Exception):
        loadmat(path)


if __name__ == "__main__":
    kind, name, most = sys.argv[1:]
    {"hdf5": walk_hdf5, "matlab": walk_matlab}[kind](name, int(most))
