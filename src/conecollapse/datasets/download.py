"""The cache, and downloads into it; the only module that uses pooch, which it imports only when
needed."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conecollapse._errors import DatasetError, DatasetNotFoundError, optional
from conecollapse.datasets.entry import DatasetInfo, File

CACHE_VARIABLE = "CONECOLLAPSE_CACHE"
_CHUNK = 2**16
TIMEOUT = 30.0  # seconds without an answer after which a server counts as out of reach


def cache_folder() -> Path:
    """The folder that ``CONECOLLAPSE_CACHE`` names, or the one where this system keeps caches. It
    need not exist."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    with optional("Downloading datasets", "datasets"):
        import pooch

    return Path(pooch.os_cache("conecollapse"))


@contextmanager
def downloaded(info: DatasetInfo) -> Iterator[Path]:
    """A folder with the set's files, fresh from their addresses, that moves into the cache when the
    block ends well.

    Inside the block the files are read and checked, so that a partial or damaged download never
    counts as data.
    """
    cache = cache_folder()
    folder = cache / f".{info.name}.{uuid.uuid4().hex}.tmp"
    with _writing(cache):
        folder.mkdir(parents=True)
    try:
        for file in info.files:
            _fetch(info, file, folder / file.name)
        yield folder
        with _writing(cache):
            (cache / info.name).mkdir(exist_ok=True)
            for path in folder.iterdir():
                os.replace(path, cache / info.name / path.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _writing(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"the cache folder {str(cache)!r} cannot be written to ({error.strerror}); set"
            f" {CACHE_VARIABLE} to another folder."
        ) from error


def _fetch(info: DatasetInfo, file: File, target: Path) -> None:
    with optional("Downloading datasets", "datasets"):
        import pooch

    try:
        pooch.HTTPDownloader(chunk_size=_CHUNK, timeout=TIMEOUT)(file.url, str(target), None)
    except OSError as error:  # what requests raises derives from it
        raise DatasetNotFoundError(
            f"{info.name} is not on this machine and {file.url} could not be downloaded"
            f" ({_reason(error)}); try again, or put {file.name} into"
            f" {str(cache_folder() / info.name)!r}."
        ) from error
    algorithm, _, expected = file.checksum.partition(":")
    if expected and (actual := pooch.file_hash(str(target), alg=algorithm)) != expected:
        raise DatasetError(
            f"{file.url} gave a file with {algorithm.upper()} {actual} instead of {expected}; it"
            f" was not kept; try again, or put the right {file.name} into"
            f" {str(cache_folder() / info.name)!r}."
        )


def _reason(error: OSError) -> str:
    """The innermost cause in one line."""
    cause: BaseException = error
    while isinstance(inner := cause.__context__, Exception):
        cause = inner
    return " ".join(str(cause).split()) or type(error).__name__
