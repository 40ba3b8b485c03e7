"""Which array of an archive (``.mat``, ``.npz``) holds the spectra, and where its pixels are.

Archives hold a cube of three dimensions, or, as the public scenes do, ``Y`` (bands x pixels) beside
``nRow`` and ``nCol``, with the pixels of a column of the image one after the other, or a plain
table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray
from conecollapse.io.hdf5 import check_structure, reading_hdf5
from conecollapse.io.limits import NUMBER_BYTES, check_room, unreadable

Shapes = Mapping[str, tuple[int, ...]]
SIZES = ("nRow", "nCol")
USUAL = "Y"  # the name of the spectra among several arrays with the same pixels


def has_scene(arrays: Mapping[str, AnyArray]) -> bool:
    """Whether there is a cube among these arrays, or the size of an image, or several tables of
    which none is called X."""
    dimensions = [array.ndim for array in arrays.values()]
    has_choice = dimensions.count(2) > 1 and "X" not in arrays
    return set(SIZES) <= set(arrays) or 3 in dimensions or has_choice


def read_scene(
    path: Path, shapes: Shapes, read: Callable[[str], AnyArray], variable: str | None
) -> AnyArray:
    """The cube (height x width x bands) or the table in an archive: the array called ``variable``,
    or the one that can be meant."""
    size = _size(path, shapes, read)
    n_pixels = 0 if size is None else size[0] * size[1]
    cubes = {name: shape for name, shape in shapes.items() if len(shape) == 3}
    tables = {name: shape for name, shape in shapes.items() if len(shape) == 2 and min(shape) > 1}
    scenes = {name: shape for name, shape in tables.items() if n_pixels in shape}
    name = _chosen(path, (cubes, scenes, tables), variable)
    array = read(name)
    if array is None or array.shape != tuple(shapes[name]):
        raise InvalidInputError(f"{path.name} does not hold the array {name!r} that it lists.")
    if name not in scenes or size is None:
        return array
    pixels = array.T if array.shape[1] == n_pixels else array
    return np.ascontiguousarray(pixels.reshape(size[1], size[0], -1).transpose(1, 0, 2))


def _size(path: Path, shapes: Shapes, read: Callable[[str], AnyArray]) -> tuple[int, int] | None:
    """Height and width of the image, if the archive has both."""
    if not set(SIZES) <= set(shapes):
        return None
    height, width = (np.asarray(read(name)).ravel() for name in SIZES)
    if any(side.size != 1 or not 1 <= float(side[0]) < 2**31 for side in (height, width)):
        raise InvalidInputError(f"{path.name} has no whole numbers in {' and '.join(SIZES)}.")
    return int(height[0]), int(width[0])


def _chosen(path: Path, groups: tuple[Shapes, ...], variable: str | None) -> str:
    known = {name: " x ".join(map(str, shape)) for group in groups for name, shape in group.items()}
    listed = ", ".join(f"{name} {shape}" for name, shape in known.items()) or "none"
    if variable is not None:
        if variable not in known:
            raise InvalidInputError(
                f"{path.name} has no array of two or three dimensions called {variable!r}; it has"
                f" {listed}."
            )
        return variable
    candidates = next((group for group in groups if group), {})
    if USUAL in candidates and candidates is groups[1]:
        return USUAL
    if len(candidates) != 1:
        choice = f"; choose one by {argument('variable', ...)}" if known else ""
        raise InvalidInputError(
            f"{path.name} should hold one array of spectra; it has {listed}{choice}."
        )
    return next(iter(candidates))


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
