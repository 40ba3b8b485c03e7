"""Folders as tables: the three files that 10x Genomics writes, or text files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from conecollapse._errors import InvalidInputError
from conecollapse._files import sha256_of
from conecollapse.io.documents import text_files
from conecollapse.io.formats import FORMATS
from conecollapse.io.market import FEATURE_FILES, SAMPLE_FILES, first_file
from conecollapse.io.text import suffix

MATRIX = "matrix.mtx"


def find_files(folder: Path) -> list[Path]:
    """The files that hold the table of a folder: matrix, features and barcodes of 10x Genomics, or
    ``.txt`` files."""
    matrix = first_file(folder, (MATRIX,))
    if matrix is None:
        texts = text_files(folder)
        if not texts:
            raise InvalidInputError(
                f"{str(folder)!r} is a folder without matrix.mtx or matrix.mtx.gz (10x Genomics)"
                " and without .txt files; name a file."
            )
        table = next((file for file in sorted(folder.iterdir()) if suffix(file) in FORMATS), None)
        if table is not None:
            raise InvalidInputError(
                f"{str(folder)!r} is a folder with a table in it ({table.name}); name that file, or"
                " move the .txt files."
            )
        return texts
    files = [matrix]
    for names in (FEATURE_FILES, SAMPLE_FILES):
        file = first_file(folder, names)
        if file is None:
            raise InvalidInputError(
                f"{str(folder)!r} has {matrix.name}, but no {' or '.join(names)} (also .gz); a 10x"
                " folder needs all three files."
            )
        files.append(file)
    return files


def is_10x(files: list[Path]) -> bool:
    """Whether these are the files of 10x Genomics, the matrix first."""
    return files[0].name.startswith(MATRIX)


def digest(files: list[Path]) -> str:
    """One checksum of several files and their names."""
    lines = (f"{file.name} {sha256_of(file)}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
