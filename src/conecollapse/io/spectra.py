"""Images of many bands as tables of pixels: ``.npy``, ``.npz`` and ``.mat`` files, and ENVI images;
wavelengths of the bands, and pixels without data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike, fspath
from os.path import isdir
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError, argument
from conecollapse._files import sha256_of
from conecollapse._types import AnyArray, BoolArray
from conecollapse.io.archives import arrays_of_mat, has_scene, read_scene
from conecollapse.io.envi import BANDS, Image, find_envi, read_envi
from conecollapse.io.folders import digest, read_spectrum_files, spectrum_files
from conecollapse.io.formats import read_whole
from conecollapse.io.limits import check_file
from conecollapse.io.matrix import Matrix, as_numbers, clip_negative
from conecollapse.io.npy import load_npy, load_npz
from conecollapse.io.reading import as_table_file
from conecollapse.io.table_file import TableFile, decide_orientation
from conecollapse.io.text import suffix

WITH_NAMES = (".mat", ".npz")  # archives of arrays, of which `variable` names one
MISSING, MASKED = 1, 2  # why a pixel is left out: it has no data, or a mask says so


@dataclass(frozen=True)
class Spectra:
    """Samples that may be the pixels of an image."""

    table: TableFile
    shape: tuple[int, int] | None  # (height, width) of the image
    n_clipped: int  # negative values that were set to zero
    bands: str = "last"  # where the bands of a cube were
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
        A number for each pixel; where it is 0, the pixel is left out. A file of a mask is a
        ``.npy``, ``.npz`` or ``.mat`` file with one array, an ENVI image of one band, or a table of
        numbers (``.csv``, ``.tsv``) without heading.
    features_in, header, names, layer
        As in `read_table`.
    variable : str, optional
        Of a ``.mat`` or ``.npz`` file with several arrays: the one to read.
    single : bool
        Whether one sample is enough.
    """
    path = _check_arguments(source, bands, variable)
    options = {"header": header, "names": names, "layer": layer}
    content, files = _read_content(path, bands, variable, options)
    image = content if isinstance(content, Image) else None
    size: tuple[int, int] | None = shape
    if isinstance(content, Image):
        matrix, size = _pixels(content, path, shape, bands)
        chosen = "columns", matrix.because
    else:
        matrix, chosen = content, decide_orientation(content, features_in, None)
    turned = chosen[0] == "rows"
    if size is not None:
        _check_shape(size, matrix.values.shape[1 if turned else 0])
    left_out = _judge_pixels(matrix, turned, size, image.missing if image else None, mask)
    if left_out is not None:
        matrix = _drop_pixels(matrix, left_out != 0, turned, size)
    matrix, count = clip_negative(matrix) if clip else (matrix, 0)
    matrix = replace(matrix, may_clip=True)
    sha256 = sha256_of(path) if files == [path] else digest(files)
    try:
        table = replace(as_table_file(matrix, path, sha256, chosen, single=single), layer=layer)
    except InvalidInputError:
        _refuse_pixels(matrix, None if turned else size, path)
        raise
    good_bands = image.good_bands if image else None
    return Spectra(table, size, count, bands, variable, left_out, good_bands)


def _check_arguments(source: str | PathLike[str], bands: str, variable: str | None) -> Path:
    """The path of the file or folder."""
    path = Path(fspath(source))
    if not isdir(path):  # False also for a name that no system could have
        check_file(path)
    if bands not in BANDS:
        raise InvalidInputError(
            f"{argument('bands')} must be one of {', '.join(BANDS)}; got {bands!r}."
        )
    if variable is not None and suffix(path) not in WITH_NAMES:
        raise InvalidInputError(
            f"{argument('variable', variable)} is only for {' and '.join(WITH_NAMES)} files; leave"
            " it out for"
            f" {path.name}."
        )
    return path


def _refuse_pixels(matrix: Matrix, size: tuple[int, int] | None, path: Path) -> None:
    """Refuse a table of the pixels of an image for what a pixel of it holds, naming that pixel."""
    if size is not None and matrix.row_names is None:
        pixels = np.array([f"pixel {i + 1}, {j + 1}" for i, j in np.ndindex(size)])
        as_numbers(replace(matrix, row_names=pixels), path.name)


def pixel_names(size: tuple[int, int]) -> AnyArray:
    """A name for each pixel of an image, row by row."""
    return np.array([f"row {i}, column {j}" for i, j in np.ndindex(size)])


def as_images(
    values: AnyArray, size: tuple[int, int], left_out: AnyArray | None = None
) -> AnyArray:
    """Values of samples as images, (height, width, number of values); NaN where a pixel is left
    out."""
    if left_out is None:
        return values.reshape(*size, -1)
    images = np.full((len(left_out), values.shape[1]), np.nan, values.dtype)
    images[left_out == 0] = values
    return images.reshape(*size, -1)


def _read_content(
    path: Path, bands: str, variable: str | None, options: Mapping[str, Any]
) -> tuple[Image | Matrix, list[Path]]:
    """The image in a file, or a matrix where there is only a table, and the files that were
    read."""
    if path.is_dir():
        files = spectrum_files(path)
        if not files:
            raise InvalidInputError(
                f"{str(path)!r} is a folder without spectra: files (.csv, .tsv or .txt) with two"
                " columns of numbers, wavelengths and values; name a file."
            )
        return read_spectrum_files(files), files
    kind = suffix(path)
    files = find_envi(path)
    if files:
        image = read_envi(*files)
        return image._replace(cube=_bands_last(image.cube, bands)), files
    array = load_npy(path) if kind == ".npy" else None
    if kind == ".mat":
        array = read_scene(path, *arrays_of_mat(path), variable)
    elif kind == ".npz":
        arrays = load_npz(path)
        if variable is not None or has_scene(arrays):
            numeric = {name: array for name, array in arrays.items() if array.dtype.kind in "fiub"}
            shapes = {name: array.shape for name, array in numeric.items()}
            array = read_scene(path, shapes, numeric.__getitem__, variable)
    if array is None:
        return read_whole(path, options), [path]
    if array.ndim > 3:
        raise InvalidInputError(
            f"{path.name} holds an array of {array.ndim} dimensions; a cube has three, and a table"
            " two."
        )
    return (Image(_bands_last(array, bands)) if array.ndim == 3 else Matrix(array)), [path]


def _bands_last(cube: AnyArray, bands: str) -> AnyArray:
    return np.moveaxis(cube, 0, 2) if bands == "first" else cube


def _pixels(
    image: Image, path: Path, shape: tuple[int, int] | None, bands: str
) -> tuple[Matrix, tuple[int, int]]:
    """The pixels of an image as rows, and height and width."""
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
    otherwise = f" ({argument('bands', 'first')} otherwise)" if bands == "last" else ""
    why = f"bands are the {bands} dimension of the cube{otherwise}"
    lengths = image.wavelengths
    matrix = Matrix(values, None, names, features_in="columns", because=why, axis=lengths)
    return matrix, (height, width)


def _judge_pixels(
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
        masked = " and is in the mask; check both" if mask is not None else ""
        raise InvalidInputError(f"no pixel has data{masked}.")
    return codes if codes.any() else None


def _as_mask(mask: Any, n_samples: int, size: tuple[int, int] | None) -> BoolArray:
    """Which samples are used, in their order."""
    values = _read_mask(mask) if isinstance(mask, (str, PathLike)) else np.asarray(mask)
    fits = values.size == n_samples and (values.ndim == 1 or size is None or values.shape == size)
    if not fits or values.dtype.kind not in "fiub":
        wanted = f"{n_samples}" if size is None else f"{size[0]} x {size[1]}"
        raise InvalidInputError(
            f"the mask has the shape {' x '.join(map(str, values.shape))}; it needs {wanted}"
            " numbers, one for each pixel."
        )
    is_used: BoolArray = np.nan_to_num(values.ravel()) != 0
    return is_used


def _read_mask(source: str | PathLike[str]) -> AnyArray:
    """The numbers of a mask in a file."""
    path = Path(fspath(source))
    check_file(path)
    has_heading = {"header": False} if suffix(path) in (".csv", ".tsv") else {}
    content, _ = _read_content(path, "last", None, has_heading)
    values: Any = content.values if isinstance(content, Matrix) else content.cube
    values = values.toarray() if sp.issparse(values) else np.asarray(values)
    return values[:, :, 0] if values.ndim == 3 and values.shape[2] == 1 else values


def _drop_pixels(
    matrix: Matrix, out: BoolArray, turned: bool, size: tuple[int, int] | None
) -> Matrix:
    """The matrix without some samples; pixels keep their place as a name."""
    names = matrix.column_names if turned else matrix.row_names
    if names is None and size is not None:
        names = pixel_names(size)
    names = None if names is None else names[~out]
    if turned:
        return replace(matrix, values=matrix.values[:, ~out], column_names=names)
    return replace(matrix, values=matrix.values[~out], row_names=names)


def _check_shape(shape: tuple[int, int], n_samples: int) -> None:
    """Refuse an image that has not a pixel for each sample."""
    height, width = shape
    if height * width != n_samples:
        raise InvalidInputError(
            f"an image of {height} x {width} has {height * width} pixels, but the table has"
            f" {n_samples} samples; give height x width of the image."
        )


def read_wavelengths(
    source: str | PathLike[str], n_bands: int, good_bands: BoolArray | None = None
) -> AnyArray:
    """One number for each band: a text file with numbers between white space, commas or semicolons,
    or a ``.npy`` file. It may also have those of bands that are left out."""
    path = Path(fspath(source))
    check_file(path)
    try:
        if suffix(path) == ".npy":
            lengths = np.asarray(load_npy(path)).ravel().astype(np.float64)
        else:
            words = re.split(r"[\s,;]+", path.read_text(encoding="utf-8-sig").strip(" \n\r\t,;"))
            with suppress(ValueError):  # a heading is no number
                float(words[0])
                words = ["", *words]
            lengths = np.array([float(word) for word in words[1:]])
    except (ValueError, TypeError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{path.name} is no list of wavelengths ({error}); write one number for each band."
        ) from error
    if good_bands is not None and len(lengths) == len(good_bands):
        lengths = lengths[good_bands]
    if len(lengths) != n_bands:
        raise InvalidInputError(
            f"{path.name} has {len(lengths)} wavelengths, but the data has {n_bands} bands; give"
            " one for each."
        )
    if not np.isfinite(lengths).all():
        raise InvalidInputError(
            f"{path.name} has a wavelength that is no finite number, number"
            f" {int(np.argmin(np.isfinite(lengths))) + 1}."
        )
    return lengths
