"""Images of many bands: a ``.npy`` file of three dimensions as a table of pixels, and the wavelengths of its bands."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from conecollapse._arrays import load_npy
from conecollapse._errors import InvalidInputError
from conecollapse._files import sha256_of
from conecollapse._room import check_file
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.numbers import as_numbers, clipped
from conecollapse.io.opening import suffix
from conecollapse.io.reading import read_matrix
from conecollapse.io.table_file import TableFile

BANDS = ("last", "first")


@dataclass(frozen=True)
class Spectra:
    """Samples that may be the pixels of an image."""

    table: TableFile
    shape: tuple[int, int] | None  # (height, width) of the image
    n_clipped: int  # negative values that were set to zero
    bands: str = "last"  # where the bands of a cube were


def read_spectra(
    source: str | PathLike[str],
    *,
    shape: tuple[int, int] | None = None,
    bands: str = "last",
    clip: bool = False,
    features_in: str = "auto",
    header: bool | None = None,
    names: bool | None = None,
) -> Spectra:
    """Read samples whose features are channels: a cube of pixels (``.npy``), or any table that `read_table` takes.

    Parameters
    ----------
    source : path
    shape : (height, width), optional
        Of the image, if the samples of a table are its pixels, row by row. A cube has its own.
    bands : {"last", "first"}
        Whether a cube is height x width x bands, or bands x height x width.
    clip : bool
        Set negative values to zero and count them, instead of refusing them.
    features_in, header, names
        As in `read_table`.
    """
    path = Path(fspath(source))
    check_file(path)
    if bands not in BANDS:
        raise InvalidInputError(f"bands must be one of {', '.join(BANDS)}; got {bands!r}.")
    cube = load_npy(path) if suffix(path) == ".npy" else None
    if cube is None or cube.ndim != 3:
        table, count = read_matrix(path, clip=clip, features_in=features_in, header=header, names=names)
        return Spectra(table, check_shape(shape, table.n_samples), count)
    cube = np.moveaxis(cube, 0, 2) if bands == "first" else cube
    size = (cube.shape[0], cube.shape[1])
    if shape is not None and shape != size:
        raise InvalidInputError(
            f"the cube in {path.name} has {size[0]} x {size[1]} pixels, not {shape[0]} x {shape[1]}; leave the shape out."
        )
    matrix = Matrix(np.ascontiguousarray(cube.reshape(-1, cube.shape[2])))
    matrix, count = clipped(matrix) if clip else (matrix, 0)
    X = as_numbers(matrix, path.name)
    why = f"a cube of {size[0]} x {size[1]} pixels and {cube.shape[2]} bands"
    return Spectra(TableFile(X, None, None, str(path), sha256_of(path), "columns", why), size, count, bands)


def check_shape(shape: tuple[int, int] | None, n_samples: int) -> tuple[int, int] | None:
    """``shape``, refused unless it has a pixel for each sample."""
    if shape is not None and shape[0] * shape[1] != n_samples:
        raise InvalidInputError(
            f"an image of {shape[0]} x {shape[1]} has {shape[0] * shape[1]} pixels, but the table has {n_samples} samples; "
            "give height x width of the image."
        )
    return shape


def read_wavelengths(source: str | PathLike[str], n_bands: int) -> AnyArray:
    """One number for each band: a text file with numbers between white space, commas or semicolons, or a ``.npy`` file."""
    path = Path(fspath(source))
    check_file(path)
    try:
        if suffix(path) == ".npy":
            found = np.asarray(load_npy(path)).ravel().astype(np.float64)
        else:
            text = path.read_text(encoding="utf-8-sig").replace(",", " ").replace(";", " ").split()
            start = 1 if text and not _is_number(text[0]) else 0  # a heading
            found = np.array([float(word) for word in text[start:]])
    except (ValueError, TypeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path.name} is no list of wavelengths ({error}); write one number for each band.") from error
    if len(found) != n_bands:
        raise InvalidInputError(f"{path.name} has {len(found)} wavelengths, but the data has {n_bands} bands; give one for each.")
    if not np.isfinite(found).all():
        raise InvalidInputError(f"{path.name} has a wavelength that is no finite number, number {int(np.argmin(np.isfinite(found))) + 1}.")
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
