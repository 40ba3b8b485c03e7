"""Arrays in MATLAB files: of version 7.2 and before by SciPy, of version 7.3 by h5py."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._room import check_room, unreadable
from conecollapse._types import AnyArray
from conecollapse.io.hdf5 import H5PY_RAISES, open_hdf5
from conecollapse.io.opening import NUMBER_BYTES
from conecollapse.io.scenes import Shapes

HDF5 = b"\x89HDF"
NUMBERS = (
    "double",
    "single",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)


def arrays_of_mat(path: Path) -> tuple[Shapes, Callable[[str], AnyArray]]:
    """The shapes of the numeric arrays in a ``.mat`` file, and what reads one of them."""
    with open(path, "rb") as file:
        start = file.read(516)
    is_hdf5 = start[:4] == HDF5 or start[512:516] == HDF5
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

    listed = call(whosmat)
    shapes = {name: tuple(map(int, shape)) for name, shape, kind in listed if kind in NUMBERS}
    return shapes, lambda name: call(loadmat, variable_names=[name]).get(name)


def _by_h5py(path: Path) -> tuple[Shapes, Callable[[str], Any]]:
    def shape(item: Any) -> tuple[int, ...]:
        """In MATLAB's order, which counts the first dimension fastest; empty for what is no
        array."""
        is_array = getattr(item, "shape", None) and item.dtype.kind in "fiu"
        return tuple(map(int, item.shape[::-1])) if is_array else ()

    with open_hdf5(path) as file:
        try:
            shapes = {str(name): shape(item) for name, item in file.items()}
            chunks = [
                math.prod(item.chunks) * int(item.dtype.itemsize)
                for item in file.values()
                if getattr(item, "chunks", None)
            ]
        except H5PY_RAISES as error:
            raise unreadable(path, error) from error
    check_room(max(chunks, default=0), path)

    def load(name: str) -> Any:
        with open_hdf5(path) as file:
            try:
                return file[name][:].T
            except H5PY_RAISES as error:
                raise unreadable(path, error) from error

    return {name: sides for name, sides in shapes.items() if sides}, load
