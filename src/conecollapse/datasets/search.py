"""Where a set's files are on this machine: the data folder, an installed package, the cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from conecollapse._errors import DatasetError
from conecollapse._files import sha256_of
from conecollapse.datasets.download import cache_folder
from conecollapse.datasets.entry import DatasetInfo, File

DATA_VARIABLE = "CONECOLLAPSE_DATA"
SUMS_FILE = "SHA256SUMS"


@dataclass(frozen=True)
class Found:
    """Files that hold a set: one ``.npz``, or the original files in the registry's order."""

    paths: tuple[Path, ...]
    source: str
    is_npz: bool = False


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


def places(info: DatasetInfo) -> Iterator[Found]:
    """The set wherever it is, first the data folder, then a package, then the cache."""
    data = data_folder()
    if data is not None:
        yield from _in_folder(info, data, f"found in {DATA_VARIABLE}")
    if info.package is not None:
        yield from _in_package(info)
    yield from _in_folder(info, cache_folder(), "found in the cache")


def absent(info: DatasetInfo) -> tuple[Path, list[str]]:
    """The folder to put the set's files into, and which of them it lacks."""
    data = data_folder()
    folders = [cache_folder() / info.name] if data is None else [data, data / info.name]
    lacking = {
        folder: [file.name for file in info.files if _resolve(folder, file) is None]
        for folder in folders
    }
    folder = min(folders, key=lambda folder: len(lacking[folder]))
    return folder, lacking[folder]


def check_sum(path: Path, sums: Path) -> None:
    """Refuse a file that is not the one whose SHA-256 the file ``sums``, if there is one,
    records."""
    if not (path.is_file() and sums.is_file()):
        return
    recorded = read_sums(sums).get(path.relative_to(sums.parent).as_posix())
    if recorded is None:
        return
    actual = sha256_of(path)
    if actual != recorded:
        raise DatasetError(
            f"{str(path)!r} has SHA-256 {actual}, but {str(sums)!r} records {recorded}: "
            "it was changed or damaged; replace it with a whole copy."
        )


def read_sums(sums: Path) -> dict[str, str]:
    """Name to checksum, from the lines of ``sha256sum``."""
    pairs = (
        line.split(maxsplit=1)
        for line in sums.read_text(encoding="utf-8").splitlines()
        if len(line.split()) > 1
    )
    return {name.strip().removeprefix("*"): digest.lower() for digest, name in pairs}


def _in_folder(info: DatasetInfo, root: Path, where: str) -> Iterator[Found]:
    npz = root / f"{info.name}.npz"
    if npz.is_file():
        check_sum(npz, root / SUMS_FILE)
        yield Found((npz,), f"{where}, {str(npz)!r}", is_npz=True)
    for folder in (root, root / info.name):
        paths = _in_layout(info, folder)
        if paths is not None:
            for path in paths:
                check_sum(path, folder / SUMS_FILE)
            yield Found(paths, f"{where}, {str(folder)!r}")


def _in_package(info: DatasetInfo) -> Iterator[Found]:
    assert info.package is not None
    spec = find_spec(info.package.name)  # finds a top-level package without importing it
    for location in (spec.submodule_search_locations or ()) if spec else ():
        paths = _in_layout(info, Path(location) / info.package.folder)
        if paths is not None:
            yield Found(
                paths,
                f"read from the installed package {info.package.name}{_version(info.package.name)}",
            )


def _in_layout(info: DatasetInfo, folder: Path) -> tuple[Path, ...] | None:
    """The original files, if all of them are below ``folder``."""
    paths = [_resolve(folder, file) for file in info.files]
    return (
        tuple(path for path in paths if path is not None) if paths and None not in paths else None
    )


def _resolve(folder: Path, file: File) -> Path | None:
    names = (file.name, file.unpacked) if file.unpacked else (file.name,)
    return next((folder / name for name in names if (folder / name).exists()), None)


def _version(package: str) -> str:
    try:
        return f" {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return ""
