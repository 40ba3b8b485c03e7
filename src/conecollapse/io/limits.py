"""What a file may be and how much memory it may take: asked before memory is taken, so that a small
file cannot fill a large machine.

A file may unpack to at most `MOST_GROWTH` times its size, or to 1.1 GB if that is more (or to so
many bytes as the environment variable ``CONECOLLAPSE_UNPACK`` says), and
never to more than the memory that is free. Honest tables stay far below: counts with 98 % zeros
shrink to about a fortieth when they are compressed, a file made to do harm to a thousandth.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from os import PathLike
from pathlib import Path

from conecollapse._errors import DataChangedError, InvalidInputError, MissingFileError, quoted

MOST_GROWTH = 100
FREE_GROWTH = 2**30  # bytes
UNPACK_VARIABLE = "CONECOLLAPSE_UNPACK"
LINE_BYTES = 128  # a row or a column costs this before it holds anything: pointers, name, length
NUMBER_BYTES = 8
LONGEST_NUMBER = 18  # digits of a size; more would not fit 64 bits
QUOTED = 160  # characters of a library's reason that a refusal repeats
PACKED = (
    "if it is meant to be so large, save it without compression or as a sparse matrix, or set"
    f" {UNPACK_VARIABLE} to more bytes"
)
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"} | dict.fromkeys(
    (stat.S_IFCHR, stat.S_IFBLK), "a device"
)
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check_file(path: Path) -> None:
    """Refuse what is no regular file with content that we may read; a pipe would make us wait for
    ever."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"there is no file {str(path)!r}.") from None
    except (OSError, ValueError) as error:  # a loop of links, too long a name, a zero byte in it
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            raise InvalidInputError(
                f"{quoted(str(path))} cannot be read: no file has so long a name; if it is a text,"
                " read_table counts the words of a list of texts."
            ) from error
        raise InvalidInputError(
            f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise InvalidInputError(f"{str(path)!r} is a folder; name a file.")
    if kind != stat.S_IFREG:
        raise InvalidInputError(
            f"{str(path)!r} is {KINDS.get(kind, 'a special file')}, not a file; write its content"
            " to a file first."
        )
    if not status.st_size:
        raise InvalidInputError(f"{str(path)!r} is empty.")
    if not os.access(path, os.R_OK):
        raise InvalidInputError(f"{str(path)!r} cannot be read: {os.strerror(errno.EACCES)}.")


class WatchedFile:
    """A file that must stay as it is while it is read: remembers its size, and says so when it is
    another."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        check_file(self.path)
        self.size = self.path.stat().st_size

    def check(self, where: str) -> None:
        """Raise `DataChangedError` if the size is not what it was; ``where`` says how far reading
        got."""
        now = self.path.stat().st_size if self.path.exists() else 0
        if now != self.size:
            raise DataChangedError(
                f"{str(self.path)!r} changed size while it was read, from {self.size} to {now}"
                f" bytes ({where}); open it again when nobody writes to it. Cones saved before are"
                " of the old file."
            )


def free_memory() -> int:
    """Bytes that this process may still take: the least of what the machine has free and of the
    limits of the process."""
    limits = [2**40]
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = [line for line in file if line.startswith("MemAvailable:")]
        limits += [1024 * int(line.split()[1]) for line in lines]
    except (OSError, ValueError):
        try:
            limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, ValueError, OSError):
            limits.append(2**36)
    for file_of_limit in CGROUPS:
        with suppress(OSError, ValueError):  # not in such a group, or "max"
            limits.append(int(Path(file_of_limit).read_text(encoding="ascii")))
    with suppress(ImportError):  # Windows
        import resource

        own = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        limits += [limit for limit in own if limit != resource.RLIM_INFINITY]
    return min(limits)


def most_bytes(size: int) -> int:
    """What a file of this size may unpack to."""
    named = os.environ.get(UNPACK_VARIABLE, "")
    return max(int(named) if named.isdecimal() else FREE_GROWTH, MOST_GROWTH * size)


def check_room(needed: int, path: Path, *, at_least: bool = False, remedy: str = PACKED) -> None:
    """Refuse the file at ``path`` if ``needed`` bytes, or ``at_least`` so many, are more than it
    may take."""
    size = path.stat().st_size
    growth, free = most_bytes(size), free_memory()
    if needed <= min(growth, free):
        return
    takes = (
        f"{path.name} has {in_words(size)} and takes"
        f" {'more than ' if at_least else ''}{in_words(needed)} of memory"
    )
    if free < growth:
        raise InvalidInputError(
            f"{takes}, too large for the {in_words(free)} that are free; take a smaller part of it."
        )
    raise InvalidInputError(
        f"{takes}; the limit for a file of its size is {in_words(growth)}"
        f" ({in_words(most_bytes(0))}, or {MOST_GROWTH} times its size); {remedy}."
    )


def check_extent(rows: int, columns: int, path: Path) -> None:
    """Refuse a table that has no rows or columns, or so many that a few bytes for each of them do
    not fit."""
    says = f"{path.name} says that it has {rows} rows and {columns} columns"
    if rows < 1 or columns < 1:
        raise InvalidInputError(f"{says}; it needs at least one of each.")
    try:
        check_room(
            LINE_BYTES * (rows + columns), path, remedy="leave out rows and columns that are empty"
        )
    except InvalidInputError as error:
        raise InvalidInputError(f"{says}: {error}") from None


def in_words(size: int) -> str:
    """A number of bytes.

    Examples
    --------
    >>> in_words(74), in_words(3_600_000), in_words(6_100_000_000)
    ('74 bytes', '3.6 MB', '6.1 GB')
    """
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.{'1f' if size < 10**15 else '0e'}} {name}"
    return f"{size} bytes"


def too_large(path: Path) -> InvalidInputError:
    """The refusal of a file for which memory ran out."""
    size = path.stat().st_size
    return InvalidInputError(
        f"{path.name} ({in_words(size)}) is too large for memory: {in_words(free_memory())} are"
        " free; take a smaller part of it, or read it in blocks (conecollapse.io.open_table)."
    )


def unreadable(path: Path, error: BaseException | str) -> InvalidInputError:
    """The refusal of a file that a library gave up on, with the library's reason."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    reason = reason if len(reason) <= QUOTED else f"{reason[:QUOTED]}..."
    return InvalidInputError(
        f"{path.name} cannot be read ({reason}); it is truncated, damaged or of another kind."
    )
