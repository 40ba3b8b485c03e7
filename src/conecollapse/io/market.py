"""Matrix Market, with names from files beside it: ``NAME.rows.txt`` and ``NAME.cols.txt``, or
``features.tsv`` and ``barcodes.tsv``.

The entries come in any order. They are parsed in pieces, which `read` puts together and `blocks`
sorts into blocks on disk. `numpy.loadtxt` parses them, because `scipy.io.mmread`
(SciPy 1.17) ends the process when a file is truncated.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, Sparse
from conecollapse.io.limits import (
    LONGEST_NUMBER,
    NUMBER_BYTES,
    WatchedFile,
    check_extent,
    check_room,
    most_bytes,
    unreadable,
)
from conecollapse.io.matrix import Matrix, as_names
from conecollapse.io.source import Entries, Spill, TableSource
from conecollapse.io.text import GZIP_RAISES, is_gzipped, open_bytes, read_lines, stem

FEATURE_FILES, SAMPLE_FILES = ("features.tsv", "genes.tsv"), ("barcodes.tsv",)
LAYOUTS, FIELDS, SYMMETRIES = (
    ("coordinate", "array"),
    ("real", "double", "integer", "unsigned-integer", "pattern"),
    ("general", "symmetric"),
)
LONGEST_LINE = 2**16  # characters; a line holds three numbers, or a comment
PIECE_ENTRIES = 2**18  # parsed at once


def read(path: Path) -> Matrix:
    """Read the matrix, sparse or dense, and the names beside it, if there are any."""
    return blocks(path).loaded()


def blocks(path: Path) -> Matrix:
    """The matrix, whose entries are sorted into blocks on disk, with the names beside it."""
    source = MtxSource(path)
    rows, columns = (
        _names_beside(path, (f"{stem(path)}.{what}.txt",), size)
        for what, size in zip(("rows", "cols"), source.shape, strict=True)
    )
    if rows is not None or columns is not None:
        return Matrix(source, rows, columns)
    features, samples = (
        _names_beside(path, files, size)
        for files, size in zip((FEATURE_FILES, SAMPLE_FILES), source.shape, strict=True)
    )
    if features is None and samples is None:
        return Matrix(source)
    reason = "features.tsv and barcodes.tsv beside the file name its rows and columns"
    return Matrix(source, features, samples, features_in="rows", because=reason)


class MtxSource(TableSource):
    """The matrix (n_samples, n_features) of a ``.mtx`` file, also gzipped."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = WatchedFile(path)
        self.path = self.file.path
        with self._text() as text:
            self.layout, self.field, self.symmetry = _banner(text, self.path)
            sizes = _sizes(text, 3 if self.layout == "coordinate" else 2, self.path)
        # blocks of a dense matrix are sparse, too
        stored = sizes[2] if self.layout == "coordinate" else sizes[0] * sizes[1]
        super().__init__((sizes[0], sizes[1]), np.dtype(np.float64), stored)
        self.width = 1 if self.layout == "array" else 2 if self.field == "pattern" else 3
        if self.symmetry == "symmetric" and (self.layout == "array" or sizes[0] != sizes[1]):
            raise unreadable(self.path, "only square matrices of coordinates can be symmetric here")
        check_extent(*self.shape, self.path)
        size = self.file.size
        size = most_bytes(size) if is_gzipped(self.path) else size
        # a number and what separates it from the next take two bytes
        most = (size + 1) // (2 * self.width)
        if self.entries > most:
            raise unreadable(
                self.path, f"it promises {self.entries} entries, and has room for at most {most}"
            )
        self.spills: dict[int, Spill] = {}

    def read(self, axis: int, start: int, stop: int) -> Sparse:
        if axis not in self.spills:
            self.spills[axis] = Spill(self._parse(), self.shape, axis, self.entries)
        self.file.check(f"at {('row', 'column')[axis]} {start}")
        return self.spills[axis].read(start, stop)

    def whole(self) -> Any:
        """All of it, if there is room: a CSR array, or a dense one if the file is."""
        check_room(NUMBER_BYTES * self.width * self.entries, self.path)
        parts = list(self._parse())
        rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        if self.layout == "array":
            return values.reshape(self.shape, order="F")
        return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=self.shape))

    def _text(self) -> io.TextIOWrapper:
        # comments may hold any bytes
        return io.TextIOWrapper(open_bytes(self.path), encoding="latin-1")  # type: ignore[arg-type]

    def _parse(self) -> Iterator[Entries]:
        """All entries, in pieces; the last piece is empty."""
        seen = 0
        with self._text() as text:
            _banner(text, self.path)
            _sizes(text, 3 if self.layout == "coordinate" else 2, self.path)
            lines = iter(lambda: text.readline(LONGEST_LINE), "")
            while True:
                numbers = self._numbers(lines)
                self.file.check(f"after {seen} of {self.entries} entries")
                yield self._entries(numbers, seen)
                seen += len(numbers)
                if not len(numbers) or seen > self.entries:
                    break
        if seen != self.entries:
            more = "or more " if seen > self.entries else ""
            raise unreadable(
                self.path, f"it has {seen} {more}entries where it promises {self.entries}"
            )

    def _numbers(self, lines: Iterator[str]) -> AnyArray:
        """The next lines of numbers; none at the end."""
        try:
            with warnings.catch_warnings():
                # about lines without numbers, and that there are no more
                warnings.simplefilter("ignore", UserWarning)
                numbers = np.loadtxt(
                    lines, dtype=np.float64, comments="%", ndmin=2, max_rows=PIECE_ENTRIES
                )
        except (ValueError, *GZIP_RAISES) as error:
            raise unreadable(self.path, error) from error
        if numbers.size and numbers.shape[1] != self.width:
            raise unreadable(
                self.path,
                f"its lines have {numbers.shape[1]} numbers where {self.width} are needed",
            )
        return numbers.reshape(-1, self.width)

    def _entries(self, numbers: AnyArray, seen: int) -> Entries:
        if self.layout == "array":
            columns, rows = np.divmod(np.arange(seen, seen + len(numbers)), self.shape[0])
            return rows, columns, numbers[:, 0]
        wanted = numbers[:, :2]
        fits = (wanted >= 1) & (wanted <= np.array(self.shape)) & (wanted % 1 == 0)
        for at in np.flatnonzero(~fits.all(axis=1))[:1]:
            row, column = wanted[at]
            raise unreadable(
                self.path,
                f"entry {seen + at + 1} is at row {row:g} and column {column:g}, which are no"
                f" places in {self.shape[0]} x {self.shape[1]}",
            )
        rows, columns = (wanted.T - 1).astype(np.int64)
        values = numbers[:, 2] if self.field != "pattern" else np.ones(len(numbers))
        if self.symmetry == "symmetric":
            off = rows != columns
            rows, columns, values = (
                np.append(rows, columns[off]),
                np.append(columns, rows[off]),
                np.append(values, values[off]),
            )
        return rows, columns, values


def _banner(text: io.TextIOWrapper, path: Path) -> tuple[str, str, str]:
    """Layout, field and symmetry, from the first line."""
    words = _line(text, path).lower().split()
    if words[:1] != ["%%matrixmarket"]:
        raise InvalidInputError(
            f"{path.name} is not a Matrix Market file: its first line does not begin with"
            " %%MatrixMarket."
        )
    if (
        len(words) != 5
        or words[1] != "matrix"
        or words[2] not in LAYOUTS
        or words[3] not in FIELDS
        or words[4] not in SYMMETRIES
    ):
        raise InvalidInputError(
            f"{path.name} holds a {' '.join(words[1:])[:80]}; what can be read is a matrix,"
            f" {' or '.join(LAYOUTS)}, {', '.join(FIELDS)} (not complex),"
            f" {' or '.join(SYMMETRIES)}."
        )
    return words[2], words[3], words[4]


def _sizes(text: io.TextIOWrapper, count: int, path: Path) -> list[int]:
    """Rows, columns and, of coordinates, entries."""
    line = _line(text, path)
    while line and (line.startswith("%") or not line.strip()):
        line = _line(text, path)
    words = line.split()
    if len(words) != count or not all(
        word.isascii() and word.isdigit() and len(word) <= LONGEST_NUMBER for word in words
    ):
        raise unreadable(path, "its sizes are missing")
    return [int(word) for word in words]


def _line(text: io.TextIOWrapper, path: Path) -> str:
    try:
        return text.readline(LONGEST_LINE)
    except GZIP_RAISES as error:
        raise unreadable(path, error) from error


def _names_beside(path: Path, files: tuple[str, ...], size: int) -> AnyArray | None:
    """A name in each line of one of these files beside ``path``, also gzipped; of several columns
    the second, as in 10x Genomics' features.tsv (id, name, type)."""
    file = first_file(path.parent, files)
    if file is None:
        return None
    lines = read_lines(file)
    if len(lines) != size:
        raise InvalidInputError(
            f"{file.name} has {len(lines)} names, but {path.name} has {size} of what it names; give"
            " one in each line."
        )
    fields = [line.split("\t") for line in lines]
    column = int(files == FEATURE_FILES)
    return as_names((field[min(column, len(field) - 1)] for field in fields), file.name)


def first_file(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first of these files that the folder has, also gzipped."""
    paths = (folder / f"{name}{ending}" for name in names for ending in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)
