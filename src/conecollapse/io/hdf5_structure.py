"""Walk through all that an HDF5 file holds: ``python hdf5_structure.py FILE``.

`conecollapse.io.hdf5` runs this in a process of its own, which is allowed to crash. It imports
nothing of this package. Errors that h5py raises are no matter here: the reader meets them again.
"""

from __future__ import annotations

import sys
from contextlib import suppress

CPU_SECONDS = 20
MEMORY = 2**30  # bytes, beyond those of the interpreter
NAMES = 2**22  # strings of a column that are read: names are, at most
MOST = 10**6  # objects that are looked at


def limit() -> None:
    """Limits on processor time and memory, where the system has them."""
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def walk(path: str) -> None:
    """Look at every object, its attributes and its chunks, and read its strings."""
    try:
        import h5py
    except ImportError:
        return
    limit()

    def look(_: str, item: h5py.HLObject) -> None:
        with suppress(Exception):
            dict(item.attrs)
        if not isinstance(item, h5py.Dataset):
            return
        with suppress(Exception):
            if item.chunks is not None:
                item.id.chunk_iter(lambda _: None)
        with suppress(Exception):
            if item.dtype.kind == "O" and item.size is not None and item.size <= NAMES:
                item[()]

    with suppress(Exception), h5py.File(path, "r") as file:
        dict(file.attrs)
        file.visititems(look)


if __name__ == "__main__":
    walk(sys.argv[1])
