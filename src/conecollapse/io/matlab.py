"""Arrays in MATLAB files: of version 7.2 and before by SciPy, of version 7.3 by h5py."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._types import AnyArray
from conecollapse.io.hdf5 import check_structure, reading_hdf5
from conecollapse.io.limits import NUMBER_BYTES, check_room, unreadable

HDF5 = b"\x89HDF"
NUMBERS = (
    "double",
    "single",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)

Shapes = dict[str, tuple[int, ...]]


def arrays_of_mat(path: Path) -> tuple[Shapes, Callable[[str], AnyArray]]:
    """The shapes of the numeric arrays in a ``.mat`` file, and what reads one of them."""
    with open(path, "rb") as file:
        start = file.read(516)
    is_hdf5 = HDF5 in (start[:4], start[512:516])
    shapes, load = (_by_h5py if is_hdf5 else _by_scipy)(path)

    def read(name: str) -> AnyArray:
        check_room(NUMBER_BYTES * math.prod(shapes[name]), path)
        return np.asarray(load(name))

    return shapes, read


def _by_scipy(path: Path) -> tuple[Shapes, Callable[[str], Any]]:
    from scipy.io import loadmat, whosmat

    def call(what: Callable[..., Any], **options: Any) -> Any:
        try:
            return what(path, **options)
        except Exception as error:  # SciPy raises whatever it stumbles over in a damaged file
            raise unreadable(path, error) from error

    check_structure("matlab", path)
    listed = call(whosmat)
    shapes = {name: tuple(map(int, shape)) for name, shape, kind in listed if kind in NUMBERS}
    return shapes, lambda name: call(loadmat, variable_names=[name]).get(name)


def _by_h5py(path: Path) -> tuple[Shapes, Callable[[str], Any]]:
    shapes, largest_chunk = {}, 0
    with reading_hdf5(path) as file:
        for name, item in file.items():
            if getattr(item, "shape", None) and item.dtype.kind in "fiu":
                # in MATLAB's order, which counts the first dimension fastest
                shapes[str(name)] = tuple(map(int, item.shape[::-1]))
                chunk = math.prod(item.chunks) if item.chunks else 0
                largest_chunk = max(largest_chunk, chunk * int(item.dtype.itemsize))
    check_room(largest_chunk, path)

    def load(name: str) -> Any:
        with reading_hdf5(path) as file:
            return file[name][:].T

    return shapes, load
