"""Text files, plain or gzipped: size and encoding are checked, and before more is kept than fits in
memory."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse.io.limits import NUMBER_BYTES, check_room, unreadable

SEPARATORS = ",;\t"
PIECE = 2**20  # bytes looked at together
LONGEST_LINE = 2**25  # bytes; about ten million columns
DECIMAL = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*")  # a number with a decimal comma
SAID = re.compile(r"sep=([,;\t])\s*", re.IGNORECASE)  # the first line of some files from Excel
# how files begin that are no UTF-8 text, what they are, and what to do
OTHER_KINDS = {
    b"\x1f\x8b": "is gzipped; give it a name that ends in .gz",
    b"PK\x03\x04": "is a zip archive, as Excel workbooks are; save the table in it as .csv",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook; save the table in it as .csv",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
}
GZIP_RAISES = (OSError, EOFError, zlib.error)

Line = tuple[int, list[str]]


def suffix(path: Path) -> str:
    """The suffix that decides the format: the last one, or the one before ``.gz``.

    Examples
    --------
    >>> suffix(Path("a.b.CSV.gz")), suffix(Path("x.npy"))
    ('.csv', '.npy')
    """
    return (path.with_suffix("") if is_gzipped(path) else path).suffix.lower()


def stem(path: Path) -> str:
    """The file's name without that suffix."""
    name = path.name[:-3] if is_gzipped(path) else path.name
    return name.rsplit(".", 1)[0]


def is_gzipped(path: Path) -> bool:
    """Whether the name ends in ``.gz``."""
    return path.suffix.lower() == ".gz"


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if it is gzipped."""
    return gzip.open(path, "rb") if is_gzipped(path) else open(path, "rb")  # type: ignore[return-value]


def read_text(path: Path, separators: str = SEPARATORS) -> bytes:
    """The content of a text file, unpacked. Text that is not UTF-8 is refused, with its first wrong
    byte, and so is a table that does not fit in memory."""
    content: list[bytes] = []
    seen = lines = cells = begun = 0  # bytes, lines and cells so far, and where the last line began
    for piece in _pieces(path):
        for start, kind in OTHER_KINDS.items() if not seen else ():
            if piece.startswith(start):
                raise InvalidInputError(f"{path.name} {kind}.")
        if b"\0" in piece:
            line = lines + piece[: piece.index(b"\0")].count(b"\n") + 1
            raise InvalidInputError(
                f"{path.name} is not a text table: it holds zero bytes (line {line})."
            )
        newlines = count_letter(piece, "\n")
        if seen + (piece.index(b"\n") if newlines else len(piece)) - begun > LONGEST_LINE:
            raise InvalidInputError(
                f"line {lines + 1} of {path.name} has more than {LONGEST_LINE} bytes, the limit; is"
                " it a table?"
            )
        begun = seen + piece.rindex(b"\n") + 1 if newlines else begun
        seen, lines = seen + len(piece), lines + newlines
        cells += newlines + max(count_letter(piece, separator) for separator in separators)
        check_room(seen + NUMBER_BYTES * cells, path, at_least=True)
        content.append(piece)
    text = b"".join(content)
    try:
        text.isascii() or text.decode()
    except UnicodeDecodeError as error:
        at, line = error.start, text.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{path.name} is not UTF-8 text: byte {at} (line {line}) is 0x{text[at]:02x}; save it"
            " as UTF-8."
        ) from None
    return text


def count_letter(piece: bytes, letter: str) -> int:
    """How often an ASCII letter occurs; several times faster than Python where it is frequent."""
    return int(np.count_nonzero(np.frombuffer(piece, np.uint8) == ord(letter)))


def _pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked, a piece at a time."""
    try:
        with open_bytes(path) as file:
            while piece := file.read(PIECE):
                yield piece
    except GZIP_RAISES as error:
        raise unreadable(path, error) from error


def read_rows(path: Path) -> Iterator[Line]:
    """`rows_of` a file."""
    return rows_of(read_text(path), path)


def rows_of(content: bytes, path: Path) -> Iterator[Line]:
    """Cells of each line that is not empty, with the number of the line that it ends on.

    The separator of ``.csv`` is found in the first line, which may only say it, as Excel writes; a
    ``.txt`` file has a cell in each line.
    """
    kind = suffix(path)
    if kind == ".txt":
        lines = enumerate(_lines(content), 1)
        yield from ((number, [line.rstrip("\r\n")]) for number, line in lines if line.strip())
        return
    first = next((line for line in _lines(content) if line.strip()), "")
    said = SAID.fullmatch(first) if kind == ".csv" else None
    separator = "\t" if kind == ".tsv" else said[1] if said else _separator(first)
    reader = csv.reader(_lines(content), delimiter=separator, strict=True)
    rows = ((reader.line_num, cells) for cells in reader if cells)
    try:
        yield from islice(rows, 1 if said else 0, None)
    except csv.Error as error:
        raise InvalidInputError(
            f"line {reader.line_num} of {path.name} cannot be read: {error}; is a quote left open?"
        ) from None


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    return _lines(read_text(path)).read().splitlines()


def check_width(line: Line, width: int, path: Path) -> None:
    """Refuse a line of another number of cells."""
    number, cells = line
    if len(cells) != width:
        raise InvalidInputError(
            f"line {number} of {path.name} has {len(cells)} cells where the lines before have"
            f" {width}; is a separator missing, or one inside a text that is not in quotes?"
        )


def _lines(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")


def _separator(line: str) -> str:
    """The separator that occurs most often outside quotes; the commas of decimal numbers between
    other separators do not count."""
    outside = "".join(line.split('"')[::2])
    other = max(SEPARATORS[1:], key=outside.count)
    cells = outside.split(other)
    if len(cells) > 1 and all("," not in cell or DECIMAL.fullmatch(cell) for cell in cells):
        return other
    return max(SEPARATORS, key=outside.count)
