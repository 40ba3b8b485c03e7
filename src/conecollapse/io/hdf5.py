"""HDF5 files from anyone: `.h5ad` of AnnData, and `.mat` of MATLAB 7.3.

A few wrong bytes in such a file can end the process inside the HDF5 library, keep it busy for ever,
or make it take all memory. So `reading_hdf5` lets another process look first: `hdf5_structure.py`
walks through all that the file holds, with limits on time and memory. Where that process ends well,
the file is opened here.
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
SECONDS = 120  # for the look of the other process, whose processor time is limited to a sixth
LOOK = Path(__file__).with_name("hdf5_structure.py")


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
    status = path.stat()
    _check_structure(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
    try:
        with h5py.File(path, "r") as file:
            yield file
    except ConeCollapseError:
        raise
    except H5PY_RAISES as error:
        raise unreadable(path, error) from error


@lru_cache(maxsize=256)  # a file that is read in blocks is opened for each of them
def _check_structure(path: Path, version: tuple[int, ...]) -> None:  # noqa: ARG001
    """Refuse a file with which another process comes to no end, or to a bad one."""
    command = [os.fsdecode(get_executable()), "-P", str(LOOK), str(path)]
    # the look needs no threads, and takes no lock from who holds the file open
    settings = os.environ | {"OPENBLAS_NUM_THREADS": "1", "HDF5_USE_FILE_LOCKING": "FALSE"}
    try:
        ended = subprocess.run(
            command, env=settings, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise unreadable(path, f"its structure was not read after {SECONDS} seconds") from None
    except OSError:  # no other process can be started here
        return
    if ended.returncode:
        raise unreadable(path, "the HDF5 library fails on its structure")
