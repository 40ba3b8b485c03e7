"""Files and folders that are there whole or not at all; the checksum of a file.

What is to be written goes to a temporary name beside its place, ``.NAME.TOKEN.tmp``, and takes its
place in one step. A process that is killed leaves its temporary; the next one that writes to the
same place removes those that are older than a day.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SWAP = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
HERE = -100  # AT_FDCWD of Linux: paths are relative to the working directory
OLD = 24 * 60 * 60  # seconds; writing takes far less


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; it takes the place of ``path`` when the block
    ends, and goes if the block fails."""
    with temporary_beside(path) as temporary:
        yield temporary
        temporary.replace(path)


@contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """A name for a temporary file or folder beside ``path``; what has it at the end is removed, and
    what killed processes left there more than a day ago."""
    remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
    finally:
        _remove(temporary)


def remove_leftovers(path: Path) -> None:
    """Remove the temporaries of ``path`` that were written to more than a day ago."""
    ours = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{32}\.tmp")
    with suppress(OSError):
        for name in filter(ours.fullmatch, os.listdir(path.parent)):
            temporary = path.with_name(name)
            if time.time() - temporary.lstat().st_mtime > OLD:
                _remove(temporary)


def exchange(one: Path, other: Path) -> bool:
    """Swap the names of two folders in one step; False if the system, or this file system, has no
    such step, and then nothing happened.

    Linux and macOS have it on their own file systems (ext4, XFS, Btrfs, tmpfs, APFS); Windows and
    many network file systems have not.
    """
    names = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "linux":
            return bool(ctypes.CDLL(None).renameat2(HERE, names[0], HERE, names[1], SWAP) == 0)
        if sys.platform == "darwin":
            return bool(ctypes.CDLL(None).renamex_np(*names, SWAP) == 0)
    except (AttributeError, OSError):  # a C library without it
        pass
    return False


def can_exchange(path: Path) -> bool:
    """Whether folders beside ``path`` can swap names; an OSError if nothing can be written
    there."""
    with temporary_beside(path) as place:
        pair = place / "one", place / "other"
        for each in pair:
            each.mkdir(parents=True)
        return exchange(*pair)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove(temporary: Path) -> None:
    """Remove a file or a folder, or a link and not what it leads to."""
    if temporary.is_dir() and not temporary.is_symlink():
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        with suppress(OSError):
            temporary.unlink()
