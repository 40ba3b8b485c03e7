"""Files and folders that are there whole or not at all; the checksum of a file.

What is to be written goes to a temporary name beside its place, ``.NAME.TOKEN.tmp``, and takes its
place in one step. As long as that lasts, the process holds a lock on the file ``.NAME.TOKEN.lock``.
The system drops the lock when the process ends, however it ends: a temporary whose lock is free was
left by a process that was killed, and the next one that writes to the same place removes it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SWAP = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
HERE = -100  # AT_FDCWD of Linux: paths are relative to the working directory


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path`` to write to; it takes the place of ``path`` when the block
    ends, and goes if the block fails."""
    for _ in leftovers(path):
        pass
    with temporary_beside(path) as temporary:
        yield temporary
        temporary.replace(path)


@contextmanager
def temporary_beside(path: Path, keep: Callable[[Path], bool] = lambda _: False) -> Iterator[Path]:
    """A name for a temporary file or folder beside ``path``, locked; what has it at the end is
    removed unless ``keep`` says otherwise."""
    lock = path.with_name(f".{path.name}.{uuid.uuid4().hex}.lock")
    temporary = lock.with_suffix(".tmp")
    held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # where the file system has no locks, nobody can take this one either, and nobody removes
        # the temporary
        _take(held)
        yield temporary
    finally:
        kept = keep(temporary) or not _removed(temporary)
        os.close(held)
        if not kept:
            lock.unlink(missing_ok=True)


def leftovers(path: Path) -> Iterator[Path]:
    """What killed processes left of their writing to ``path``, one by one; each is removed when the
    next one is asked for."""
    ours = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{32}\.lock")
    try:
        locks = [path.with_name(name) for name in os.listdir(path.parent) if ours.fullmatch(name)]
    except OSError:
        return
    for lock in locks:
        try:
            held = os.open(lock, os.O_RDWR)
        except OSError:
            continue  # gone by now, or of another user
        try:
            if not _take(held):
                continue
            temporary = lock.with_suffix(".tmp")
            if temporary.exists():
                yield temporary
            gone = _removed(temporary)
        finally:
            os.close(held)
        if gone:
            with suppress(OSError):
                lock.unlink()


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


def try_writing(folder: Path) -> None:
    """Make a file in ``folder`` that is gone at once; an OSError where that fails, which
    permissions alone do not tell."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _take(held: int) -> bool:
    """Lock an open file, unless another process has."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(held, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _removed(temporary: Path) -> bool:
    """Remove a file or a folder; whether it is gone."""
    if temporary.is_dir() and not temporary.is_symlink():
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        with suppress(OSError):
            temporary.unlink()
    return not os.path.lexists(temporary)
