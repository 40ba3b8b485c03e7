"""Folders as tables: the three files that 10x Genomics writes, or text files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from conecollapse._errors import InvalidInputError
from conecollapse._files import sha256_of
from conecollapse.io.market import FEATURE_FILES, SAMPLE_FILES
from conecollapse.io.opening import suffix
from conecollapse.io.texts import text_files

MATRIX = "matrix.mtx"
# a folder that holds one is no folder of texts
TABLES = (".npy", ".npz", ".csv", ".tsv", ".mtx", ".parquet", ".h5ad")


def files_of(folder: Path) -> list[Path]:
    """The files that hold the table of a folder: matrix, features and barcodes of 10x Genomics, or
    ``.txt`` files."""
    matrix = _found(folder, (MATRIX,))
    if matrix is None:
        texts = text_files(folder)
        if not texts:
            raise InvalidInputError(
                f"{str(folder)!r} is a folder without matrix.mtx or matrix.mtx.gz (10x Genomics)"
                " and without .txt files; name a file."
            )
        table = next((file for file in sorted(folder.iterdir()) if suffix(file) in TABLES), None)
        if table is not None:
            raise InvalidInputError(
                f"{str(folder)!r} is a folder with a table in it ({table.name}); name that file, or"
                " move the .txt files."
            )
        return texts
    beside = [_found(folder, names) for names in (FEATURE_FILES, SAMPLE_FILES)]
    for file, names in zip(beside, (FEATURE_FILES, SAMPLE_FILES), strict=True):
        if file is None:
            raise InvalidInputError(
                f"{str(folder)!r} has {matrix.name}, but no {' or '.join(names)} (also .gz); a 10x"
                " folder needs all three files."
            )
    return [matrix, *(file for file in beside if file is not None)]


def is_10x(files: list[Path]) -> bool:
    """Whether these are the files of 10x Genomics, the matrix first."""
    return files[0].name.startswith(MATRIX)


def digest(files: list[Path]) -> str:
    """One checksum of several files and their names."""
    return hashlib.sha256(
        "".join(f"{file.name} {sha256_of(file)}\n" for file in files).encode()
    ).hexdigest()


def _found(folder: Path, names: tuple[str, ...]) -> Path | None:
    paths = (folder / name for base in names for name in (base, f"{base}.gz"))
    return next((path for path in paths if path.is_file()), None)
