"""Images of many bands as tables of pixels: ``.npy``, ``.npz`` and ``.mat`` files, and ENVI images;
wavelengths of the bands, and pixels without data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._arrays import load_npy, load_npz
from conecollapse._errors import InvalidInputError
from conecollapse._files import sha256_of
from conecollapse._room import check_file
from conecollapse._types import AnyArray, BoolArray
from conecollapse.io.envi import BANDS, Envi, files_of_envi, read_envi
from conecollapse.io.folders import digest
from conecollapse.io.matlab import arrays_of_mat
from conecollapse.io.matrix import Matrix
from conecollapse.io.numbers import as_numbers, clipped
from conecollapse.io.opening import suffix
from conecollapse.io.orientation import orientation
from conecollapse.io.reading import as_table_file, read_source
from conecollapse.io.scenes import SIZES, read_scene
from conecollapse.io.table_file import TableFile

WITH_NAMES = (".mat", ".npz")  # archives of arrays, of which `variable` names one
MISSING, MASKED = 1, 2  # why a pixel is left out: it has no data, or a mask says so


@dataclass(frozen=True)
class Spectra:
    """Samples that may be the pixels of an image."""

    table: TableFile
    shape: tuple[int, int] | None  # (height, width) of the image
    n_clipped: int  # negative values that were set to zero
    bands: str = "last"  # where the bands of a cube were
    wavelengths: AnyArray | None = None  # that the file has
    variable: str | None = None  # the array of an archive that was asked for
    # for each pixel of the image 0, or why it is no sample of the table: `MISSING`, `MASKED`
    left_out: AnyArray | None = None
    good_bands: BoolArray | None = None  # of an ENVI image with a list of bad bands; they are out

    @property
    def notes(self) -> list[str]:
        """What was left out or changed, in sentences."""
        codes = np.zeros(0) if self.left_out is None else self.left_out
        bad = 0 if self.good_bands is None else int((~self.good_bands).sum())
        said = (
            (int((codes == MISSING).sum()), "pixel{} without data left out"),
            (int((codes == MASKED).sum()), "pixel{} outside the mask left out"),
            (bad, "band{} left out that the header lists as bad"),
            (self.n_clipped, "negative value{} set to zero"),
        )
        return [f"{count} {what.format('s' * (count > 1))}" for count, what in said if count]


class _Image(NamedTuple):
    """A cube as it is in a file."""

    cube: AnyArray  # height x width x bands
    files: list[Path]
    wavelengths: AnyArray | None = None
    missing: float | None = None  # the value that stands for no data
    good_bands: BoolArray | None = None


def read_spectra(
    source: str | PathLike[str],
    *,
    shape: tuple[int, int] | None = None,
    bands: str = "last",
    clip: bool = False,
    mask: Any = None,
    features_in: str = "auto",
    header: bool | None = None,
    names: bool | None = None,
    layer: str | None = None,
    variable: str | None = None,
    single: bool = False,
) -> Spectra:
    """Read samples whose features are channels: a cube of pixels, or any table that `read_table`
    takes.

    A cube is a ``.npy``, ``.npz`` or ``.mat`` file of three dimensions, or with ``Y`` (bands x
    pixels), ``nRow`` and ``nCol``, or an ENVI image: a header ``NAME.hdr`` beside a file of
    numbers, of which ``source`` names either. Pixels of an image without data are left out: those
    with NaN, or with the ignore value of the header (if that is 0, those with nothing else). So are
    the bands that the header lists as bad (``bbl``).

    Parameters
    ----------
    source : path
    shape : (height, width), optional
        Of the image, if the samples of a table are its pixels, row by row. A cube has its own.
    bands : {"last", "first"}
        Whether a cube is height x width x bands, or bands x height x width.
    clip : bool
        Set negative values to zero and count them, instead of refusing them.
    mask : array or path, optional
        A number for each pixel (a file as `read_mask` takes it); where it is 0, the pixel is left
        out.
    features_in, header, names, layer
        As in `read_table`.
    variable : str, optional
        Of a ``.mat`` or ``.npz`` file with several arrays: the one to read.
    single : bool
        Whether one sample is enough.
    """
    path = Path(fspath(source))
    if not path.is_dir():
        check_file(path)
    if bands not in BANDS:
        raise InvalidInputError(f"bands must be one of {', '.join(BANDS)}; got {bands!r}.")
    if variable is not None and suffix(path) not in WITH_NAMES:
        raise InvalidInputError(
            f"variable={variable!r} is only for {' and '.join(WITH_NAMES)} files; leave it out for"
            f" {path.name}."
        )
    found = _image(path, bands, variable)
    size = shape
    if isinstance(found, _Image):
        height, width = found.cube.shape[:2]
        matrix, size, image = _pixels(found, path, shape, bands), (height, width), found
        axis, why = "columns", matrix.because
        sha256 = sha256_of(path) if len(found.files) == 1 else digest(found.files)
    else:
        matrix, sha256 = (
            read_source(path, header, names, layer) if found is None else (found, sha256_of(path))
        )
        image = _Image(np.empty((0, 0, 0)), [])
        axis, why = orientation(matrix, features_in, None)
    turned = axis == "rows"
    if size is not None:
        check_shape(size, matrix.values.shape[1 if turned else 0])
    left_out = _left_out(matrix, turned, size, image.missing, mask)
    if left_out is not None:
        matrix = _without(matrix, left_out != 0, turned, size)
    matrix, count = clipped(matrix) if clip else (matrix, 0)
    matrix = replace(matrix, may_clip=True)
    try:
        table = as_table_file(matrix, path, sha256, axis, why, single=single, layer=layer)
    except InvalidInputError:  # the same again, with the pixel and the band
        if size is not None and matrix.row_names is None and not turned:
            pixels = np.array([f"pixel {i + 1}, {j + 1}" for i, j in np.ndindex(size)])
            as_numbers(replace(matrix, row_names=pixels), path.name)
        raise
    lengths = table.wavelengths if image.wavelengths is None else image.wavelengths
    return Spectra(table, size, count, bands, lengths, variable, left_out, image.good_bands)


def pixel_names(size: tuple[int, int]) -> AnyArray:
    """A name for each pixel of an image, row by row."""
    return np.array([f"row {i}, column {j}" for i, j in np.ndindex(size)])


def laid_out(values: AnyArray, size: tuple[int, int], left_out: AnyArray | None = None) -> AnyArray:
    """Values of samples as images, (height, width, number of values); NaN where a pixel is left
    out."""
    if left_out is None:
        return values.reshape(*size, -1)
    images = np.full((len(left_out), values.shape[1]), np.nan, values.dtype)
    images[left_out == 0] = values
    return images.reshape(*size, -1)


def _image(path: Path, bands: str, variable: str | None) -> _Image | Matrix | None:
    """The cube in a file; a matrix where it holds only a table, None where `read_source` reads
    it."""
    kind = suffix(path)
    found: AnyArray | None = None
    if kind == ".npy":
        found = load_npy(path)
        if found.ndim > 3:
            raise InvalidInputError(
                f"{path.name} holds an array of {found.ndim} dimensions; a cube has three, and a"
                " table two."
            )
    elif kind == ".mat":
        found = read_scene(path, *arrays_of_mat(path), variable)
    elif kind == ".npz":
        arrays = load_npz(path)
        cubes = [array for array in arrays.values() if array.ndim == 3]
        if variable is None and not cubes and not set(SIZES) <= set(arrays):
            return None
        numeric = {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}
        shapes = {name: array.shape for name, array in numeric.items()}
        found = read_scene(path, shapes, numeric.__getitem__, variable)
    else:
        envi = None if path.is_dir() else files_of_envi(path)
        if envi is None:
            return None
        said: Envi = read_envi(*envi)
        cube = _bands_last(said.cube, bands)
        return _Image(cube, list(envi), said.wavelengths, said.missing, said.good_bands)
    return _Image(_bands_last(found, bands), [path]) if found.ndim == 3 else Matrix(found)


def _bands_last(cube: AnyArray, bands: str) -> AnyArray:
    return np.moveaxis(cube, 0, 2) if bands == "first" else cube


def _pixels(image: _Image, path: Path, shape: tuple[int, int] | None, bands: str) -> Matrix:
    """The pixels of an image as rows."""
    height, width, n_bands = image.cube.shape
    if shape is not None and shape != (height, width):
        raise InvalidInputError(
            f"the cube in {path.name} has {height} x {width} pixels, not {shape[0]} x"
            f" {shape[1]}; leave the shape out."
        )
    values, names = np.ascontiguousarray(image.cube.reshape(-1, n_bands)), None
    if image.good_bands is not None:
        values = values[:, image.good_bands]
        names = np.array([f"x{j}" for j in np.flatnonzero(image.good_bands)])
    why = f"bands are the {bands} dimension of the cube" + (
        ' (bands="first" otherwise)' if bands == "last" else ""
    )
    return Matrix(values, None, names, features_in="columns", because=why)


def _left_out(
    matrix: Matrix,
    turned: bool,
    size: tuple[int, int] | None,
    missing: float | None,
    mask: Any,
) -> AnyArray | None:
    """Why each pixel is left out, 0 if it is not; None if none is. Samples that are no pixels are
    left out by a mask only."""
    values = matrix.values.T if turned else matrix.values
    codes = np.zeros(values.shape[0], np.int8)
    if mask is not None:
        codes[~_as_mask(mask, len(codes), size)] = MASKED
    if size is not None and not sp.issparse(values) and values.dtype.kind == "f":
        codes[np.isnan(values).any(axis=1)] = MISSING
    if missing is not None:
        is_missing = values == missing
        # a pixel may hold a true 0 in some bands
        codes[is_missing.all(axis=1) if missing == 0 else is_missing.any(axis=1)] = MISSING
    if codes.all():
        raise InvalidInputError("no pixel has data and is in the mask; check both.")
    return codes if codes.any() else None


def _as_mask(mask: Any, n_samples: int, size: tuple[int, int] | None) -> BoolArray:
    """Which samples are used, in their order."""
    found = read_mask(mask) if isinstance(mask, (str, PathLike)) else np.asarray(mask)
    fits = found.size == n_samples and (found.ndim == 1 or size is None or found.shape == size)
    if not fits or found.dtype.kind not in "fiub":
        wanted = f"{n_samples}" if size is None else f"{size[0]} x {size[1]}"
        raise InvalidInputError(
            f"the mask has the shape {' x '.join(map(str, found.shape))}; it needs {wanted}"
            " numbers, one for each pixel."
        )
    used: BoolArray = np.nan_to_num(found.ravel()) != 0
    return used


def read_mask(source: str | PathLike[str]) -> AnyArray:
    """A mask from a file: a ``.npy``, ``.npz`` or ``.mat`` file with one array, an ENVI image of
    one band, or a table of numbers (``.csv``, ``.tsv``) without heading."""
    path = Path(fspath(source))
    check_file(path)
    found = _image(path, "last", None)
    if found is None:
        found = read_source(path, False if suffix(path) in (".csv", ".tsv") else None, None)[0]
    values: Any = found.values if isinstance(found, Matrix) else found.cube
    values = values.toarray() if sp.issparse(values) else np.asarray(values)
    return values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values


def _without(matrix: Matrix, out: BoolArray, turned: bool, size: tuple[int, int] | None) -> Matrix:
    """The matrix without some samples; pixels keep their place as a name."""
    names = matrix.column_names if turned else matrix.row_names
    if names is None and size is not None:
        names = pixel_names(size)
    names = None if names is None else names[~out]
    if turned:
        return replace(matrix, values=matrix.values[:, ~out], column_names=names)
    return replace(matrix, values=matrix.values[~out], row_names=names)


def check_shape(shape: tuple[int, int] | None, n_samples: int) -> tuple[int, int] | None:
    """``shape``, refused unless it has a pixel for each sample."""
    if shape is not None and shape[0] * shape[1] != n_samples:
        raise InvalidInputError(
            f"an image of {shape[0]} x {shape[1]} has {shape[0] * shape[1]} pixels, but the table"
            f" has {n_samples} samples; give height x width of the image."
        )
    return shape


def read_wavelengths(
    source: str | PathLike[str], n_bands: int, good_bands: BoolArray | None = None
) -> AnyArray:
    """One number for each band: a text file with numbers between white space, commas or semicolons,
    or a ``.npy`` file. It may also have those of bands that are left out."""
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
    if good_bands is not None and len(found) == len(good_bands):
        found = found[good_bands]
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
