"""Text files, plain or gzipped, which are read once: encoding and size are checked on the way, and
before more is kept than fits in memory."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse.io.limits import NUMBER_BYTES, check_room, unreadable

SEPARATORS = ",;\t"
PIECE = 2**20  # bytes looked at together
LONGEST_LINE = 2**25  # bytes; about ten million columns
DECIMAL = re.compile(r"\s*[+-]?\d+,\d+(?:[eE][+-]?\d+)?\s*")  # a number with a decimal comma
SAID = re.compile(r"sep=([,;\t])", re.IGNORECASE)  # the first line of some files from Excel
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


class Text(NamedTuple):
    """The content of a text file, unpacked, and the SHA-256 of the file as it is."""

    path: Path
    content: bytes
    sha256: str


class Hashed(NamedTuple):
    """A file that is hashed as it is read."""

    file: IO[bytes]
    digest: Any

    def read(self, size: int) -> bytes:
        """The next bytes."""
        piece = self.file.read(size)
        self.digest.update(piece)
        return piece


def read_text(path: Path, separators: str = SEPARATORS) -> Text:
    """The content of a text file. Text that is not UTF-8 is refused, with its first wrong byte, and
    so is a table that does not fit in memory."""
    digest, content = hashlib.sha256(), []
    decoder = codecs.getincrementaldecoder("utf-8")()
    seen = lines = cells = begun = 0  # bytes, lines and cells so far, and where the last line began
    for piece in _pieces(path, digest):
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
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise _not_utf8(path, seen - len(error.object), lines, error) from None
    return Text(path, b"".join(content), digest.hexdigest())


def count_letter(piece: bytes, letter: str) -> int:
    """How often an ASCII letter occurs; several times faster than Python where it is frequent."""
    return int(np.count_nonzero(np.frombuffer(piece, np.uint8) == ord(letter)))


def _pieces(path: Path, digest: Any) -> Iterator[bytes]:
    """The bytes of a file, unpacked, a piece at a time."""
    try:
        with open(path, "rb") as file:
            raw = Hashed(file, digest)
            stream = gzip.GzipFile(fileobj=raw) if is_gzipped(path) else raw  # type: ignore[call-overload]
            while piece := stream.read(PIECE):
                yield piece
    except GZIP_RAISES as error:
        raise unreadable(path, error) from error


def _not_utf8(path: Path, at: int, line: int, error: UnicodeDecodeError) -> InvalidInputError:
    with open_bytes(path) as file:
        start = file.read(4)
    for signature, kind in OTHER_KINDS.items():
        if start.startswith(signature):
            return InvalidInputError(f"{path.name} {kind}.")
    byte = error.object[error.start]
    return InvalidInputError(
        f"{path.name} is not UTF-8 text: byte {at} (line {line + 1}) is 0x{byte:02x}; save it as"
        " UTF-8."
    )


def read_rows(text: Text, kind: str) -> Iterator[Line]:
    """Cells of each line that is not empty, with the number of the line that it ends on.

    ``kind`` is ".csv" (the separator is found in the first line), ".tsv" or ".txt" (a cell in each
    line).
    """
    lines = _lines(text)
    if kind == ".txt":
        yield from (
            (number, [line.rstrip("\r\n")]) for number, line in enumerate(lines, 1) if line.strip()
        )
        return
    first = next((line for line in _lines(text) if line.strip()), "")
    said = SAID.fullmatch(first.strip("\r\n")) if kind == ".csv" else None
    separator = "\t" if kind == ".tsv" else said[1] if said else _separator(first)
    cells = _cells(csv.reader(lines, delimiter=separator, strict=True), text.path)
    yield from islice(cells, 1 if said else 0, None)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    return _lines(read_text(path)).read().splitlines()


def _lines(text: Text) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.content), encoding="utf-8-sig", newline="")


def _separator(line: str) -> str:
    """The separator that occurs most often outside quotes; the commas of decimal numbers between
    other separators do not count."""
    outside = "".join(line.split('"')[::2])
    other = max(SEPARATORS[1:], key=outside.count)
    cells = outside.split(other)
    if len(cells) > 1 and all("," not in cell or DECIMAL.fullmatch(cell) for cell in cells):
        return other
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
        if cells:
            yield reader.line_num, cells
