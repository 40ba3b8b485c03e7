"""Is there room for a file? Asked before memory is taken, so that a small file cannot fill a large
machine.

A file may unpack to at most `MOST_GROWTH` times its size, or to `FREE_GROWTH` if that is more, and
never to more than the memory that is free. Honest tables stay far below: counts with 98 % zeros
shrink to about a fortieth when they are compressed, a file made to do harm to a thousandth.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from conecollapse._errors import InvalidInputError, MissingFileError

MOST_GROWTH = 100
FREE_GROWTH = 2**30  # bytes
# that a row or a column costs before it holds anything: pointers, a name, a length
LINE_BYTES = 128
LONGEST_NUMBER = 18  # digits of a size; more would not fit 64 bits
PACKED = "if it is meant to be so large, save it without compression or as a sparse matrix"
KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def check_file(path: Path) -> None:
    """Refuse what is no regular file with content that we may read; a pipe would make us wait for
    ever."""
    try:
        kind, size = stat.S_IFMT(path.stat().st_mode), path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"there is no file {str(path)!r}.") from None
    except (OSError, ValueError) as error:  # a loop of links, too long a name, a zero byte in it
        raise InvalidInputError(
            f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    if kind == stat.S_IFDIR:
        raise InvalidInputError(f"{str(path)!r} is a folder; name a file.")
    if kind != stat.S_IFREG:
        raise InvalidInputError(
            f"{str(path)!r} is {KINDS.get(kind, 'a special file')}, not a file; write its content"
            " to a file first."
        )
    if not size:
        raise InvalidInputError(f"{str(path)!r} is empty.")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidInputError(f"{str(path)!r} cannot be read: {error.strerror}.") from error


def free_memory() -> int:
    """Bytes that this process may still take: the least of what the machine has free and of the
    limits of the process."""
    found = [2**40]
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found += [
                1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable:")
            ]
    except (OSError, ValueError):
        try:
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, ValueError, OSError):
            found.append(2**36)
    for limit in CGROUPS:
        try:
            found.append(int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # not in such a group, or "max"
            continue
    return min([*found, *_process_limits()])


def _process_limits() -> list[int]:
    try:
        import resource
    except ImportError:  # Windows
        return []
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return [limit for limit in limits if limit != resource.RLIM_INFINITY]


def check_room(needed: int, path: Path, *, at_least: bool = False, remedy: str = PACKED) -> None:
    """Refuse the file at ``path`` if ``needed`` bytes, or ``at_least`` so many, are more than it
    may take."""
    size = path.stat().st_size
    growth, free = max(FREE_GROWTH, MOST_GROWTH * size), free_memory()
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
        f"{takes}; the limit for a file of its size is {in_words(growth)} ({in_words(FREE_GROWTH)},"
        f" or {MOST_GROWTH} times its size); {remedy}."
    )


def check_extent(rows: int, columns: int, path: Path) -> None:
    """Refuse a table that has no rows or columns, or so many that a few bytes for each of them do
    not fit."""
    if rows < 1 or columns < 1:
        raise InvalidInputError(
            f"{path.name} says that it has {rows} rows and {columns} columns; it needs at least one"
            " of each."
        )
    try:
        check_room(
            LINE_BYTES * (rows + columns), path, remedy="leave out rows and columns that are empty"
        )
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{path.name} says that it has {rows} rows and {columns} columns: {error}"
        ) from None


def in_words(size: int) -> str:
    """A number of bytes.

    Examples
    --------
    >>> in_words(74), in_words(3_600_000), in_words(6_100_000_000)
    ('74 bytes', '3.6 MB', '6.1 GB')
    """
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return (
                f"{size / unit:.1f} {name}" if size < 1000 * 10**12 else f"{size / unit:.0e} {name}"
            )
    return f"{size} bytes"


def too_large(path: Path) -> InvalidInputError:
    """The refusal of a file for which memory ran out."""
    size = path.stat().st_size
    return InvalidInputError(
        f"{path.name} ({in_words(size)}) is too large for memory: {in_words(free_memory())} are"
        " free; take a smaller part of it, or read it in blocks (conecollapse.blocks.open_table)."
    )


def unreadable(path: Path, error: BaseException | str) -> InvalidInputError:
    """The refusal of a file that a library gave up on, with the library's reason."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    reason = reason if len(reason) <= 160 else f"{reason[:160]}..."
    return InvalidInputError(
        f"{path.name} cannot be read ({reason}); it is truncated, damaged or of another kind."
    )
