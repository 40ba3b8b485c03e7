"""Folders as tables: the three files that 10x Genomics writes, or text files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np

from conecollapse._errors import InvalidInputError, quoted
from conecollapse._files import sha256_of
from conecollapse._types import FloatArray
from conecollapse.io.documents import text_files
from conecollapse.io.formats import FORMATS
from conecollapse.io.headings import is_number
from conecollapse.io.market import FEATURE_FILES, SAMPLE_FILES, first_file
from conecollapse.io.matrix import Matrix, as_names
from conecollapse.io.text import read_lines, suffix

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


KINDS = (".csv", ".tsv", ".txt")
SEPARATOR = re.compile(r"\s*[,;\s]\s*")
HEAD = 2**14  # bytes of a file that show whether it is a spectrum
BECAUSE = "each file of the folder is a sample"


def spectrum_files(folder: Path) -> list[Path]:
    """The files of a folder of spectra, by name; none where most of them are something else."""
    files = sorted(
        file
        for file in folder.iterdir()
        if file.suffix.lower() in KINDS and not file.name.startswith(".") and file.is_file()
    )
    return files if 2 * sum(map(_is_spectrum, files)) > len(files) else []


def read_spectrum_files(files: list[Path]) -> Matrix:
    """The spectra as rows, named after their files."""
    spectra = [_read_spectrum(file) for file in files]
    axis = spectra[0][:, 0]
    for file, spectrum in zip(files, spectra, strict=True):
        if len(spectrum) != len(axis):
            raise InvalidInputError(
                f"{file.name} has {len(spectrum)} values, but {files[0].name} has {len(axis)};"
                " bring all spectra to the same wavelengths first."
            )
        for i in np.flatnonzero(spectrum[:, 0] != axis)[:1]:
            raise InvalidInputError(
                f"value {i + 1} of {file.name} is at {spectrum[i, 0]:.12g}, but that of"
                f" {files[0].name} at {axis[i]:.12g}; bring all spectra to the same wavelengths"
                " first."
            )
    return Matrix(
        np.array([spectrum[:, 1] for spectrum in spectra]),
        as_names((file.stem for file in files), "spectra"),
        as_names((f"{value:.12g}" for value in axis), "wavelengths"),
        features_in="columns",
        because=BECAUSE,
        axis=axis,
    )


def _read_spectrum(file: Path) -> FloatArray:
    """Both columns of a file, (n, 2)."""
    pairs: list[list[float]] = []
    for number, line in enumerate(read_lines(file), 1):
        cells = _cells(line)
        if len(cells) == 2 and all(map(is_number, cells)):
            pairs.append([float(cell) for cell in cells])
        elif pairs and cells:
            raise InvalidInputError(
                f"line {number} of {file.name} holds {quoted(line)} where two numbers belong, a"
                " wavelength and a value."
            )
    if not pairs:
        raise InvalidInputError(
            f"{file.name} has no line of two numbers, a wavelength and a value; take it out of the"
            " folder of spectra."
        )
    return np.array(pairs)


def _is_spectrum(file: Path) -> bool:
    """Whether the last lines of the head of a file hold two numbers each."""
    with open(file, "rb") as stream:
        head = stream.read(HEAD)
    lines = head.decode("utf-8", "replace").splitlines()
    lines = [line for line in (lines[:-1] if len(head) == HEAD else lines) if line.strip()]
    pairs = [_cells(line) for line in lines[-2:]]
    return len(pairs) == 2 and all(
        len(cells) == 2 and all(map(is_number, cells)) for cells in pairs
    )


def _cells(line: str) -> list[str]:
    return [cell for cell in SEPARATOR.split(line.strip()) if cell]
