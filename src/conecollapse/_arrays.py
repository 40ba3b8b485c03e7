"""NumPy's files, ``.npy`` and ``.npz``, from anyone: sizes are checked before memory is taken, and
nothing is ever unpickled."""

from __future__ import annotations

import math
import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._room import check_room, in_words, unreadable
from conecollapse._types import AnyArray

MAGIC = b"\x93NUMPY"
# what NumPy writes; others unpack without any bound
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 1  # bit of a member's flags
# what NumPy raises for a header that it cannot read: the header is Python source, and its type may
# be any nonsense
HEADER_RAISES = (
    *(
        ValueError,
        TypeError,
        SyntaxError,
        tokenize.TokenError,
        KeyError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
    ),
    *(EOFError, MemoryError),
)
DATA_RAISES = (ValueError, EOFError, OverflowError)
ZIP_RAISES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)


class Header(NamedTuple):
    """What the first bytes of an array promise."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: Any

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * int(self.dtype.itemsize)


def read_header(stream: IO[bytes], path: Path) -> Header:
    """The header of an array; the stream is then at the array's first byte."""
    try:
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(
                f"it is of version {version[0]}.{version[1]} of the format, which is not known"
            )
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        with warnings.catch_warnings():
            # about how old the file is, and about damaged escapes in its header
            warnings.simplefilter("ignore")
            header = Header(*read(stream))
    except (*HEADER_RAISES, *ZIP_RAISES) as error:
        raise unreadable(path, error) from error
    if header.dtype.hasobject:
        raise InvalidInputError(
            f"{path.name} holds Python objects (a pickle), which could run code when read; save a"
            " plain array of numbers."
        )
    if (
        any(isinstance(size, bool) or size < 0 for size in header.shape)
        or header.dtype.itemsize == 0
    ):
        raise unreadable(path, f"its header promises the shape {header.shape} of {header.dtype}")
    return header


def load_npy(path: Path) -> AnyArray:
    """The array of a ``.npy`` file."""
    with open(path, "rb") as stream:
        if stream.read(len(MAGIC)) != MAGIC:
            raise InvalidInputError(f"{path.name} is not a .npy file; write one with numpy.save.")
        stream.seek(0)
        return _load(stream, path.stat().st_size, path)


def load_npz(path: Path) -> dict[str, AnyArray]:
    """All arrays of a ``.npz`` file."""
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(
            f"{path.name} is not a whole .npz archive; it is truncated, damaged or of another kind."
        )
    try:
        archive = zipfile.ZipFile(path)
    except ZIP_RAISES as error:
        raise unreadable(path, error) from error
    with archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        for member in members:
            if member.compress_type not in METHODS or member.flag_bits & ENCRYPTED:
                raise unreadable(
                    path,
                    f"{member.filename!r} is encrypted, or compressed by a method that NumPy does"
                    " not use",
                )
        check_room(sum(member.file_size for member in members), path)
        return {
            member.filename.removesuffix(".npy"): _member(archive, member, path)
            for member in members
        }


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> AnyArray:
    try:
        stream = archive.open(member)
    except ZIP_RAISES as error:
        raise unreadable(path, error) from error
    with stream:
        return _load(stream, member.file_size, path)


def _load(stream: IO[bytes], size: int, path: Path) -> AnyArray:
    """The array of a stream of ``size`` bytes that holds just this array."""
    header = read_header(stream, path)
    check_promise(header, stream.tell(), size, path)
    check_room(header.n_bytes, path)
    try:
        stream.seek(0)
        return np.lib.format.read_array(stream, allow_pickle=False)
    except (*DATA_RAISES, *ZIP_RAISES) as error:
        raise unreadable(path, error) from error


def check_promise(header: Header, offset: int, size: int, path: Path) -> None:
    """Refuse an array that begins at ``offset`` of ``size`` bytes and needs more than these."""
    promised = offset + header.n_bytes
    if promised > size:
        raise InvalidInputError(
            f"{str(path)!r} has {size} bytes, but its header promises {promised}; it was cut short "
            f"(an array of shape {header.shape}, {in_words(header.n_bytes)})."
        )
