"""Matrix Market, with names from files beside it: ``NAME.rows.txt`` and ``NAME.cols.txt``, or ``features.tsv`` and ``barcodes.tsv``."""

from __future__ import annotations

import gzip
from pathlib import Path

from scipy.io import mmread

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.io.matrix import Matrix
from conecollapse.io.names import as_names
from conecollapse.io.opening import stem, text_of

FEATURE_FILES, SAMPLE_FILES = ("features.tsv", "genes.tsv"), ("barcodes.tsv",)


def read_mtx(path: Path) -> Matrix:
    """Read the matrix, sparse or dense, and the names beside it, if there are any."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        if not file.read(14).startswith(b"%%MatrixMarket"):
            raise InvalidInputError(f"{path.name} is not a Matrix Market file: its first line does not begin with %%MatrixMarket.")
        file.seek(0)
        values = mmread(file)
    rows, columns = (_beside(path, (f"{stem(path)}.{end}.txt",), size) for end, size in zip(("rows", "cols"), values.shape, strict=True))
    if rows is not None or columns is not None:
        return Matrix(values, rows, columns)
    features, samples = (_beside(path, files, size) for files, size in ((FEATURE_FILES, values.shape[0]), (SAMPLE_FILES, values.shape[1])))
    if features is None and samples is None:
        return Matrix(values)
    return Matrix(
        values, features, samples, features_in="rows", because="features.tsv and barcodes.tsv beside the file name its rows and columns"
    )


def _beside(path: Path, names: tuple[str, ...], size: int) -> AnyArray | None:
    """A name in each line of a file beside ``path``; of several columns the second, as in 10x Genomics' features.tsv (id, name, type)."""
    for name in (n for base in names for n in (base, f"{base}.gz")):
        file = path.with_name(name)
        if not file.is_file():
            continue
        lines = text_of(file).splitlines()
        if len(lines) != size:
            raise InvalidInputError(f"{name} has {len(lines)} names, but {path.name} has {size} of what it names; give one in each line.")
        fields = [line.split("\t") for line in lines]
        return as_names((field[1] if len(field) > 1 and name.startswith(FEATURE_FILES) else field[0] for field in fields), name)
    return None
