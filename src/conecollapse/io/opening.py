"""Text files, plain or gzipped, in UTF-8."""

from __future__ import annotations

import gzip
from pathlib import Path

from conecollapse._errors import InvalidInputError


def suffix(path: Path) -> str:
    """What the format goes by: the last suffix, before ``.gz`` if that is the last.

    Examples
    --------
    >>> suffix(Path("a.b.CSV.gz")), suffix(Path("x.npy"))
    ('.csv', '.npy')
    """
    kinds = [kind.lower() for kind in path.suffixes]
    if kinds and kinds[-1] == ".gz":
        kinds.pop()
    return kinds[-1] if kinds else ""


def stem(path: Path) -> str:
    """The file's name without what `suffix` looks at."""
    name = path.name[:-3] if path.suffix.lower() == ".gz" else path.name
    return name.rsplit(".", 1)[0]


def text_of(path: Path) -> str:
    """The whole text; the place of the first byte that is not UTF-8 is named."""
    data = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidInputError(
            f"{path.name} is not UTF-8 text: byte {error.start} (line {line}) is 0x{data[error.start]:02x}; save it as UTF-8."
        ) from None
    if "\0" in text:
        raise InvalidInputError(
            f"{path.name} is not a text table: it holds zero bytes (line {text[: text.index(chr(0))].count(chr(10)) + 1})."
        )
    return text
