"""Places of results that are one file: never in place of a file that is no earlier result."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conecollapse._errors import RunFolderError
from conecollapse._files import try_writing

# in the head of every page that `conecollapse.report` writes
PAGE_MARK = '<meta name="generator" content="conecollapse">'
BEGINNING = 2000  # characters of a file in which its mark must be


def check_place(path: str | os.PathLike[str], mark: str, *, force: bool = False) -> Path:
    """The path, refused before any work if the file cannot be written there, or is something else
    than an earlier result.

    An earlier result has ``mark`` as one of its first lines.
    """
    place = Path(path)
    kind = place.suffix or "other"
    if place.is_dir():
        raise RunFolderError(f"{str(path)!r} is a folder; name a {kind} file for the results.")
    parent = place.absolute().parent
    if not parent.is_dir():
        raise RunFolderError(f"there is no folder {str(parent)!r}; make it, or name another file.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise RunFolderError(
            f"cannot write to {str(path)!r}: no permission in {str(parent)!r}; name another file."
        )
    try:
        try_writing(parent)
    except OSError as error:
        raise RunFolderError(
            f"cannot write to {str(path)!r}: {error.strerror or error}; name another file."
        ) from error
    if place.exists() and not force and not _is_result(place, mark):
        raise RunFolderError(
            f"{str(path)!r} exists and is no earlier result; name another file, or pass force=True"
            " to replace it."
        )
    return place


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """An error of the system, such as a full disk, names the file that is written as a whole."""
    try:
        yield
    except OSError as error:
        raise RunFolderError(
            f"the results cannot be written to {str(place)!r}: {error.strerror or error}; nothing"
            " was left there."
        ) from error


def _is_result(place: Path, mark: str) -> bool:
    try:
        with open(place, encoding="utf-8") as file:
            return mark in file.read(BEGINNING).splitlines()
    except (OSError, UnicodeDecodeError):
        return False
