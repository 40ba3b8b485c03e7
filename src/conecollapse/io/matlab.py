"""Arrays of three dimensions in MATLAB files, of version 7.2 and before by SciPy, of version 7.3 by
h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._room import check_room, unreadable
from conecollapse._types import AnyArray
from conecollapse.io.opening import NUMBER_BYTES

HDF5 = b"\x89HDF"
# of the libraries
RAISES = (
    ValueError,
    TypeError,
    OSError,
    KeyError,
    IndexError,
    NotImplementedError,
    OverflowError,
    MemoryError,
)
NUMBERS = (
    "double",
    "single",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
)


def read_cube(path: Path, variable: str | None = None) -> AnyArray:
    """The array of three dimensions in a ``.mat`` file: the one called ``variable``, or the only
    one."""
    with open(path, "rb") as file:
        start = file.read(516)
    is_hdf5 = start[:4] == HDF5 or start[512:516] == HDF5
    return _by_h5py(path, variable) if is_hdf5 else _by_scipy(path, variable)


def _chosen(path: Path, cubes: dict[str, tuple[int, ...]], variable: str | None) -> str:
    listed = (
        ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in cubes.items())
        or "none"
    )
    if variable is not None:
        if variable not in cubes:
            raise InvalidInputError(
                f"{path.name} has no array of three dimensions called {variable!r}; it has"
                f" {listed}."
            )
        return variable
    if len(cubes) != 1:
        raise InvalidInputError(
            f"{path.name} should hold one array of three dimensions; it has {listed}. Choose by"
            " variable=...."
        )
    return next(iter(cubes))


def _by_scipy(path: Path, variable: str | None) -> AnyArray:
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import MatReadError

    raises = (*RAISES, MatReadError)
    try:
        there = whosmat(path)
    except raises as error:
        raise unreadable(path, error) from error
    cubes = {name: shape for name, shape, kind in there if len(shape) == 3 and kind in NUMBERS}
    name = _chosen(path, cubes, variable)
    check_room(NUMBER_BYTES * int(np.prod([float(side) for side in cubes[name]])), path)
    try:
        found: Any = loadmat(path, variable_names=[name])[name]
    except raises as error:
        raise unreadable(path, error) from error
    return np.asarray(found)


def _by_h5py(path: Path, variable: str | None) -> AnyArray:
    try:
        import h5py
    except ImportError as error:
        raise InvalidInputError(
            f'{path.name} is of version 7.3 and needs h5py: pip install "conecollapse[bio]", or'
            " save it with -v7."
        ) from error
    try:
        with h5py.File(path, "r") as file:
            arrays = {
                name: item
                for name, item in file.items()
                if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiu"
            }
            cubes = {
                name: tuple(item.shape[::-1]) for name, item in arrays.items() if item.ndim == 3
            }
            name = _chosen(path, cubes, variable)
            check_room(NUMBER_BYTES * int(np.prod([float(side) for side in cubes[name]])), path)
            # MATLAB counts its first dimension fastest
            return np.asarray(arrays[name][:].transpose(2, 1, 0))
    except InvalidInputError:
        raise
    except RAISES as error:
        raise unreadable(path, error) from error
