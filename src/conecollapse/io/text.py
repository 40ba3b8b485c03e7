"""Text files, plain or gzipped. A first pass checks encoding and size and keeps nothing in memory;
a second pass reads the text."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse.io.limits import NUMBER_BYTES, check_room, unreadable

SEPARATORS = ",;\t"
PIECE = 2**20  # bytes looked at together
LONGEST_LINE = 2**25  # bytes; about ten million columns
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


def check_text(path: Path, separators: str = SEPARATORS) -> None:
    """Refuse text that is not UTF-8, naming its first wrong byte, and tables that do not fit in
    memory, before any of it is kept."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    seen = lines = cells = begun = 0  # bytes, lines and cells so far, and where the last line began
    for piece in read_pieces(path):
        pending = len(decoder.getstate()[0])
        try:
            if pending or not piece.isascii():
                decoder.decode(piece)
        except UnicodeDecodeError as error:
            before = lines + piece[: max(0, error.start - pending)].count(b"\n")
            raise _not_utf8(path, seen - pending + error.start, before, error) from None
        if b"\0" in piece:
            line = lines + piece[: piece.index(b"\0")].count(b"\n") + 1
            raise InvalidInputError(
                f"{path.name} is not a text table: it holds zero bytes (line {line})."
            )
        newlines = count_letter(piece, "\n")
        begun = seen + piece.rindex(b"\n") + 1 if newlines else begun
        seen, lines = seen + len(piece), lines + newlines
        if seen - begun > LONGEST_LINE:
            raise InvalidInputError(
                f"line {lines + 1} of {path.name} has more than {LONGEST_LINE} bytes, the limit; is"
                " it a table?"
            )
        cells += newlines + max(count_letter(piece, separator) for separator in separators)
        check_room(max(seen, NUMBER_BYTES * cells), path, at_least=True)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, seen - len(error.object), lines, error) from None


def count_letter(piece: bytes, letter: str) -> int:
    """How often an ASCII letter occurs; several times faster than Python where it is frequent."""
    return int(np.count_nonzero(np.frombuffer(piece, np.uint8) == ord(letter)))


def read_pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked, a piece at a time."""
    try:
        with open_bytes(path) as stream:
            while piece := stream.read(PIECE):
                yield piece
    except GZIP_RAISES as error:
        raise unreadable(path, error) from error


def _not_utf8(path: Path, at: int, line: int, error: UnicodeDecodeError) -> InvalidInputError:
    byte = error.object[error.start]
    return InvalidInputError(
        f"{path.name} is not UTF-8 text: byte {at} (line {line + 1}) is 0x{byte:02x}; save it as"
        " UTF-8."
    )


def read_rows(path: Path, kind: str) -> Iterator[Line]:
    """Cells of each line that is not empty, with the number of the line that it ends on; the file
    is never held whole.

    ``kind`` is ".csv" (the separator is the one that occurs most often in the first line outside
    quotes), ".tsv" or ".txt" (a cell in each line).
    """
    check_text(path)
    with _text(path) as text:
        if kind == ".txt":
            yield from (
                (number, [line.rstrip("\r\n")])
                for number, line in enumerate(text, 1)
                if line.strip()
            )
            return
        separator = "\t" if kind == ".tsv" else _separator(path)
        yield from _cells(csv.reader(text, delimiter=separator, strict=True), path)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file that is known to be small."""
    check_text(path)
    with _text(path) as text:
        return text.read().splitlines()


def _text(path: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="")  # type: ignore[arg-type]


def _separator(path: Path) -> str:
    with _text(path) as text:
        line = next((line for line in text if line.strip()), "")
    outside = "".join(line.split('"')[::2])
    return max(SEPARATORS, key=outside.count)


def _cells(reader: Any, path: Path) -> Iterator[Line]:
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidInputError(
                f"line {reader.line_num} of {path.name} cannot be read: {error}; is a quote left"
                " open?"
            ) from None
        except GZIP_RAISES as error:  # the file changed since it was looked at
            raise unreadable(path, error) from error
        if cells:
            yield reader.line_num, cells
