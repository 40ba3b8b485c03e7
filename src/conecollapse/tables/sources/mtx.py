"""Matrix Market ``.mtx`` files: entries in any order, as text. Parsed once, in pieces, and sorted
into blocks on disk."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import IO, Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._room import LONGEST_NUMBER, check_extent
from conecollapse._types import Sparse
from conecollapse.tables.sources.spill import Entries, Spill
from conecollapse.tables.sources.watch import WatchedFile

PIECE_BYTES = 2**24
LARGEST_PLACE = 2.0**53  # of whole numbers that float64 holds exactly
LONGEST_LINE = 2**16  # bytes; a line holds three numbers, or a comment
FIELDS = ("real", "integer", "pattern")
SYMMETRIES = ("general", "symmetric")


class MtxSource:
    """A coordinate matrix (n_samples, n_features) in a ``.mtx`` file."""

    is_sparse = True
    dtype = np.dtype(np.float64)

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file = WatchedFile(path)
        with open(path, "rb") as stream:
            banner = stream.readline(LONGEST_LINE).decode("utf-8", "replace").split()
            if len(banner) != 5 or banner[0] != "%%MatrixMarket" or banner[1].lower() != "matrix":
                raise InvalidInputError(
                    f"{str(path)!r} does not begin with a Matrix Market banner."
                )
            kind, self.field, self.symmetry = (word.lower() for word in banner[2:])
            if kind != "coordinate" or self.field not in FIELDS or self.symmetry not in SYMMETRIES:
                raise InvalidInputError(
                    f"{str(path)!r} holds a {kind} {self.field} {self.symmetry} matrix; only"
                    f" coordinate matrices, {' or '.join(FIELDS)}, {' or '.join(SYMMETRIES)}, are"
                    " read in blocks."
                )
            n, m, self.entries = self._sizes(stream)
            self.offset = stream.tell()
        check_extent(n, m, self.file.path)
        # a number and what separates it from the next take two bytes
        most = (self.file.size - self.offset + 1) // (2 * self._width())
        if self.entries > most:
            raise InvalidInputError(
                f"{str(path)!r} has at most {most} entries, but promises {self.entries}; it may be"
                " cut short."
            )
        self.shape = (n, m)
        self.spills: dict[int, Spill] = {}

    def _sizes(self, stream: IO[bytes]) -> list[int]:
        """Rows, columns and entries."""
        line = stream.readline(LONGEST_LINE)
        while line.startswith(b"%") or (line and not line.strip()):
            line = stream.readline(LONGEST_LINE)
        words = line.split()
        if len(words) != 3 or not all(
            word.removeprefix(b"-").isdigit() and len(word) <= LONGEST_NUMBER for word in words
        ):
            raise InvalidInputError(
                f"{str(self.file.path)!r} has no line with its numbers of rows, columns and"
                " entries."
            )
        return [int(word) for word in words]

    def _width(self) -> int:
        return 2 if self.field == "pattern" else 3

    def read(self, axis: int, start: int, stop: int) -> Sparse:
        if axis not in self.spills:
            self.spills[axis] = Spill(self._parse(), self.shape, axis, self.entries)
        self.file.check(f"at {('row', 'column')[axis]} {start}")
        return self.spills[axis].read(start, stop)

    def _parse(self) -> Iterator[Entries]:
        width, seen = self._width(), 0
        with open(self.file.path, "rb") as stream:
            stream.seek(self.offset)
            while piece := stream.read(PIECE_BYTES):
                piece += stream.readline(LONGEST_LINE)
                self.file.check(f"after {seen} of {self.entries} entries")
                numbers = self._numbers(piece, width, seen)
                seen += len(numbers)
                yield self._entries(numbers)
                if self.symmetry == "symmetric":
                    off = numbers[numbers[:, 0] != numbers[:, 1]]
                    off[:, :2] = off[:, 1::-1]
                    yield self._entries(off)
        if seen != self.entries:
            raise InvalidInputError(
                f"{str(self.file.path)!r} has {seen} entries, but promises {self.entries}; it may"
                " be cut short."
            )

    def _numbers(self, piece: bytes, width: int, seen: int) -> Any:
        words = piece.split()
        if b"_" in piece:  # which Python takes for a part of a number
            wrong = next(word for word in words if b"_" in word).decode("utf-8", "replace")
            raise InvalidInputError(
                f"{str(self.file.path)!r} has {wrong[:40]!r} after entry {seen} where a number"
                " belongs."
            )
        try:
            return np.array(words, dtype=np.float64).reshape(-1, width)
        except ValueError as error:
            raise InvalidInputError(
                f"{str(self.file.path)!r} is not readable after entry {seen}:"
                f" {str(error).rstrip('.')}; each line needs {width} numbers."
            ) from error

    def _entries(self, numbers: Any) -> Entries:
        places = numbers[:, :2]
        is_whole = (np.abs(places) < LARGEST_PLACE) & (places == np.floor(places))
        if not is_whole.all():
            raise InvalidInputError(
                f"an entry of {str(self.file.path)!r} is at {places[~is_whole][0]:g}, which is no"
                " row or column."
            )
        values = numbers[:, 2] if self.field != "pattern" else np.ones(len(numbers))
        return numbers[:, 0].astype(np.int64) - 1, numbers[:, 1].astype(np.int64) - 1, values
