"""Images of many bands as tables of pixels: ``.npy`` and ``.mat`` files of three dimensions, and
ENVI images; wavelengths of the bands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from conecollapse._arrays import load_npy
from conecollapse._errors import InvalidInputError
from conecollapse._files import sha256_of
from conecollapse._room import check_file
from conecollapse._types import AnyArray
from conecollapse.io.envi import BANDS, files_of_envi, read_envi
from conecollapse.io.folders import digest
from conecollapse.io.matlab import read_cube
from conecollapse.io.matrix import Matrix
from conecollapse.io.numbers import as_numbers, clipped
from conecollapse.io.opening import suffix
from conecollapse.io.reading import read_matrix
from conecollapse.io.table_file import TableFile


@dataclass(frozen=True)
class Spectra:
    """Samples that may be the pixels of an image."""

    table: TableFile
    shape: tuple[int, int] | None  # (height, width) of the image
    n_clipped: int  # negative values that were set to zero
    bands: str = "last"  # where the bands of a cube were
    wavelengths: AnyArray | None = None  # that the file has
    variable: str | None = None  # the array of a ``.mat`` file that was asked for


def read_spectra(
    source: str | PathLike[str],
    *,
    shape: tuple[int, int] | None = None,
    bands: str = "last",
    clip: bool = False,
    features_in: str = "auto",
    header: bool | None = None,
    names: bool | None = None,
    layer: str | None = None,
    variable: str | None = None,
) -> Spectra:
    """Read samples whose features are channels: a cube of pixels, or any table that `read_table`
    takes.

    A cube is a ``.npy`` or ``.mat`` file of three dimensions, or an ENVI image: a header
    ``NAME.hdr`` beside a file of numbers, of which ``source`` names either.

    Parameters
    ----------
    source : path
    shape : (height, width), optional
        Of the image, if the samples of a table are its pixels, row by row. A cube has its own.
    bands : {"last", "first"}
        Whether a cube is height x width x bands, or bands x height x width.
    clip : bool
        Set negative values to zero and count them, instead of refusing them.
    features_in, header, names, layer
        As in `read_table`.
    variable : str, optional
        Of a ``.mat`` file with several arrays of three dimensions: the one to read.
    """
    path = Path(fspath(source))
    check_file(path)
    if bands not in BANDS:
        raise InvalidInputError(f"bands must be one of {', '.join(BANDS)}; got {bands!r}.")
    if variable is not None and suffix(path) != ".mat":
        raise InvalidInputError(
            f"variable={variable!r} is only for .mat files; leave it out for {path.name}."
        )
    cube, lengths, files = _cube(path, variable)
    if cube is None:
        reading: dict[str, Any] = {
            "features_in": features_in,
            "header": header,
            "names": names,
            "layer": layer,
        }
        table, count = read_matrix(path, clip=clip, **reading)
        return Spectra(table, check_shape(shape, table.n_samples), count)
    cube = np.moveaxis(cube, 0, 2) if bands == "first" else cube
    size = (cube.shape[0], cube.shape[1])
    if shape is not None and shape != size:
        raise InvalidInputError(
            f"the cube in {path.name} has {size[0]} x {size[1]} pixels, not {shape[0]} x"
            f" {shape[1]}; leave the shape out."
        )
    matrix = Matrix(np.ascontiguousarray(cube.reshape(-1, cube.shape[2])), may_clip=True)
    matrix, count = clipped(matrix) if clip else (matrix, 0)
    try:
        X = as_numbers(matrix, path.name)
    except InvalidInputError:  # the same again, with the pixel and the band
        pixels = np.array([f"pixel {i + 1}, {j + 1}" for i, j in np.ndindex(size)])
        as_numbers(replace(matrix, row_names=pixels), path.name)
        raise
    why = f"bands are the {bands} dimension of the cube" + (
        ' (bands="first" otherwise)' if bands == "last" else ""
    )
    sha256 = sha256_of(path) if len(files) == 1 else digest(files)
    table = TableFile(X, None, None, str(path), sha256, "columns", why)
    return Spectra(
        table,
        size,
        count,
        bands,
        lengths if lengths is not None and len(lengths) == table.n_features else None,
        variable,
    )


def _cube(path: Path, variable: str | None) -> tuple[AnyArray | None, AnyArray | None, list[Path]]:
    """The cube, its wavelengths and the files that hold it; no cube where the file is a table."""
    if suffix(path) == ".npy":
        values = load_npy(path)
        if values.ndim > 3:
            raise InvalidInputError(
                f"{path.name} holds an array of {values.ndim} dimensions; a cube has three, and a"
                " table two."
            )
        return (values if values.ndim == 3 else None), None, [path]
    if suffix(path) == ".mat":
        return read_cube(path, variable), None, [path]
    envi = files_of_envi(path)
    return (None, None, [path]) if envi is None else (*read_envi(*envi), list(envi))


def check_shape(shape: tuple[int, int] | None, n_samples: int) -> tuple[int, int] | None:
    """``shape``, refused unless it has a pixel for each sample."""
    if shape is not None and shape[0] * shape[1] != n_samples:
        raise InvalidInputError(
            f"an image of {shape[0]} x {shape[1]} has {shape[0] * shape[1]} pixels, but the table"
            f" has {n_samples} samples; give height x width of the image."
        )
    return shape


def read_wavelengths(source: str | PathLike[str], n_bands: int) -> AnyArray:
    """One number for each band: a text file with numbers between white space, commas or semicolons,
    or a ``.npy`` file."""
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
        raise InvalidInputError(
            f"{path.name} is no list of wavelengths ({error}); write one number for each band."
        ) from error
    if len(found) != n_bands:
        raise InvalidInputError(
            f"{path.name} has {len(found)} wavelengths, but the data has {n_bands} bands; give one"
            " for each."
        )
    if not np.isfinite(found).all():
        raise InvalidInputError(
            f"{path.name} has a wavelength that is no finite number, number"
            f" {int(np.argmin(np.isfinite(found))) + 1}."
        )
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
