"""The files of a set: where they are on this machine (the data folder, an installed package, the
cache), how they come into the cache, and what is inside archives and MATLAB files.

pooch is imported only here, and only when needed.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import scipy.sparse as sp

from conecollapse._errors import DatasetError, DatasetNotFoundError, optional
from conecollapse._files import sha256_of
from conecollapse.datasets.dataset import DatasetInfo, File

DATA_VARIABLE = "CONECOLLAPSE_DATA"
CACHE_VARIABLE = "CONECOLLAPSE_CACHE"
SUMS_FILE = "SHA256SUMS"
TIMEOUT = 30.0  # seconds without an answer after which a server counts as out of reach


class Found(NamedTuple):
    """Files that hold a set: one ``.npz``, or the original files in the registry's order."""

    paths: tuple[Path, ...]
    source: str


def data_folder() -> Path | None:
    """The folder that ``CONECOLLAPSE_DATA`` names; None when it is unset."""
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetError(
            f"{DATA_VARIABLE} is {str(folder)!r}, which is not a folder; set it to the folder that"
            " holds the datasets."
        )
    return folder


def cache_folder() -> Path:
    """The folder that ``CONECOLLAPSE_CACHE`` names, or the one where this system keeps caches. It
    need not exist."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    with optional("Downloading datasets", "datasets"):
        import pooch

    return Path(pooch.os_cache("conecollapse"))


def find_sets(info: DatasetInfo) -> Iterator[Found]:
    """The set wherever it is, first the data folder, then a package, then the cache."""
    data = data_folder()
    if data is not None:
        yield from _in_folder(info, data, f"found in {DATA_VARIABLE}")
    if info.package is not None:
        spec = find_spec(info.package.name)  # finds a top-level package without importing it
        for location in (spec.submodule_search_locations or ()) if spec else ():
            paths = _in_layout(info, Path(location) / info.package.folder)
            if paths:
                yield Found(paths, f"read from the installed package {_version(info.package.name)}")
    yield from _in_folder(info, cache_folder(), "found in the cache")


def find_absent(info: DatasetInfo) -> tuple[Path, list[str]]:
    """The folder to put the set's files into, and which of them it lacks."""
    data = data_folder()
    folders = [cache_folder() / info.name] if data is None else [data, data / info.name]
    lacking = [
        (folder, [file.name for file in info.files if _resolve(folder, file) is None])
        for folder in folders
    ]
    return min(lacking, key=lambda pair: len(pair[1]))


def _in_folder(info: DatasetInfo, root: Path, where: str) -> Iterator[Found]:
    npz = root / f"{info.name}.npz"
    if npz.is_file():
        _check_sum(npz, root / SUMS_FILE)
        yield Found((npz,), f"{where}, {str(npz)!r}")
    for folder in (root, root / info.name):
        paths = _in_layout(info, folder)
        for path in paths:
            _check_sum(path, folder / SUMS_FILE)
        if paths:
            yield Found(paths, f"{where}, {str(folder)!r}")


def _in_layout(info: DatasetInfo, folder: Path) -> tuple[Path, ...]:
    """The original files, if all of them are below ``folder``; else none."""
    paths = [path for file in info.files if (path := _resolve(folder, file))]
    return tuple(paths) if len(paths) == len(info.files) else ()


def _resolve(folder: Path, file: File) -> Path | None:
    names = (file.name, file.unpacked) if file.unpacked else (file.name,)
    return next((folder / name for name in names if (folder / name).exists()), None)


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package


def _check_sum(path: Path, sums: Path) -> None:
    """Refuse a file that is not the one whose SHA-256 the file ``sums``, if there is one,
    records in the format of ``sha256sum``."""
    if not (path.is_file() and sums.is_file()):
        return
    lines = (line.split(maxsplit=1) for line in sums.read_text(encoding="utf-8").splitlines())
    recorded = {pair[1].strip().removeprefix("*"): pair[0].lower() for pair in lines if pair[1:]}
    expected = recorded.get(path.relative_to(sums.parent).as_posix())
    if expected is not None and (actual := sha256_of(path)) != expected:
        raise DatasetError(
            f"{str(path)!r} has SHA-256 {actual}, but {str(sums)!r} records {expected}: "
            "it was changed or damaged; replace it with a whole copy."
        )


@contextmanager
def download_files(info: DatasetInfo) -> Iterator[Path]:
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

    place = repr(str(cache_folder() / info.name))
    try:
        pooch.HTTPDownloader(timeout=TIMEOUT)(file.url, str(target), None)
    except OSError as error:  # what requests raises derives from it
        cause: BaseException = error
        while isinstance(inner := cause.__context__, Exception):
            cause = inner
        reason = " ".join(str(cause).split()) or type(error).__name__
        raise DatasetNotFoundError(
            f"{info.name} is not on this machine and {file.url} could not be downloaded ({reason});"
            f" try again, or put {file.name} into {place}."
        ) from error
    algorithm, _, expected = file.checksum.partition(":")
    if expected and (actual := pooch.file_hash(str(target), alg=algorithm)) != expected:
        raise DatasetError(
            f"{file.url} gave a file with {algorithm.upper()} {actual} instead of {expected}; it"
            f" was not kept; try again, or put the right {file.name} into {place}."
        )


def read_members(path: Path, pattern: str) -> list[tuple[re.Match[str], bytes]]:
    """Match and content of every file in a zip, a tar or a folder whose path, with ``/`` between
    its parts, has ``pattern``; obj2 comes before obj10. Nothing is unpacked to disk."""
    pairs = list(_walk(path, re.compile(pattern)))
    if not pairs:
        raise ValueError("no file inside has the name that is expected")
    return sorted(pairs, key=lambda pair: natural(pair[0].string))


def natural(name: str) -> list[str | int]:
    """A sort key that counts: digits compare as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _walk(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    if path.is_dir():
        for file in path.rglob("*"):
            match = wanted.search(file.relative_to(path.parent).as_posix())
            if match and file.is_file():
                yield match, file.read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if match := wanted.search(name):
                    yield match, archive.read(name)
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                match = wanted.search(member.name)
                if match and (content := tar.extractfile(member)):
                    yield match, content.read()


def read_mat(path: Path, *names: str) -> list[Any]:
    """The variables of these names in a MATLAB file up to version 7.2; a sparse one is checked,
    since SciPy trusts the indices that it reads."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path, spmatrix=False, variable_names=names)
    except MatReadError as error:
        raise ValueError(str(error)) from error
    lacking = [name for name in names if name not in content]
    if lacking:
        raise ValueError(f"it has no variable {lacking[0]!r}")
    for name in names:
        # as files of version 5 have it; COO is checked when it is made
        if sp.issparse(content[name]) and content[name].format == "csc":
            content[name].check_format(full_check=True)
    return [content[name] for name in names]
