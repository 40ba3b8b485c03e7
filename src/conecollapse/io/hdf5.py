"""HDF5 files from anyone: `.h5ad` of AnnData, and `.mat` of MATLAB 7.3.

A few wrong bytes in such a file can end the process inside the HDF5 library, keep it busy for ever,
or make it take all memory. So `reading_hdf5` lets another process look first: `structure.py` walks
through all that the file holds, with limits on time and memory. Where that process ends well, the
file is opened here. Older files of MATLAB, which can end the process inside SciPy, are looked at in
the same way.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing.spawn import get_executable
from pathlib import Path
from typing import Any

from conecollapse._errors import ConeCollapseError, MissingDependencyError
from conecollapse.io.limits import unreadable

# what h5py raises for a damaged file, or one of another layout
H5PY_RAISES = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    NotImplementedError,
    OverflowError,
    MemoryError,
)
# processor time of the look of the other process: for any file, and for each second more so many
# bytes; strings, which take longest, are read five times as fast
SECONDS, BYTES_PER_SECOND = 5, 2**23
PATIENCE = 20  # the same in seconds of the clock, where many processes share a processor
LOOK = Path(__file__).with_name("structure.py")


@contextmanager
def reading_hdf5(path: Path) -> Iterator[Any]:
    """The file as h5py opens it for reading, after a look at its structure. What h5py raises inside
    the block is the refusal of the file, so there is only work of h5py in it."""
    try:
        import h5py
    except ImportError as error:
        raise MissingDependencyError(
            f"{path.name} is an HDF5 file and needs the package h5py; install it with: pip install"
            ' "conecollapse[bio]".'
        ) from error
    check_structure("hdf5", path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except ConeCollapseError:
        raise
    except H5PY_RAISES as error:
        raise unreadable(path, error) from error


def check_structure(kind: str, path: Path) -> None:
    """Refuse a file with which another process comes to no end, or to a bad one. ``kind`` is "hdf5"
    or "matlab"."""
    status = path.stat()
    version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    _check_version(kind, path, SECONDS + status.st_size // BYTES_PER_SECOND, version)


@lru_cache(maxsize=256)  # a file that is read in blocks is opened for each of them
def _check_version(kind: str, path: Path, seconds: int, version: tuple[int, ...]) -> None:  # noqa: ARG001
    command = [os.fsdecode(get_executable()), "-P", str(LOOK), kind, str(path), str(seconds)]
    # the look needs no threads, and takes no lock from who holds the file open
    settings = os.environ | {"OPENBLAS_NUM_THREADS": "1", "HDF5_USE_FILE_LOCKING": "FALSE"}
    most = PATIENCE * seconds
    try:
        ended = subprocess.run(
            command, env=settings, capture_output=True, timeout=most, check=False
        )
    except subprocess.TimeoutExpired:
        raise unreadable(path, f"its structure was not read after {most} seconds") from None
    except OSError:  # no other process can be started here
        return
    if ended.returncode:
        library = {"hdf5": "the HDF5 library", "matlab": "SciPy"}[kind]
        raise unreadable(path, f"{library} fails on its structure")
