"""The files inside a zip, a tar or a folder, without unpacking anything to disk."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path


def members(path: Path, pattern: str) -> list[tuple[re.Match[str], bytes]]:
    """Match and content of every file whose path, with ``/`` between its parts, has ``pattern``;
    obj2 comes before obj10."""
    found = list(_walk(path, re.compile(pattern)))
    if not found:
        raise ValueError("no file inside has the name that is expected")
    return sorted(found, key=lambda pair: natural(pair[0].string))


def natural(name: str) -> list[str | int]:
    """A sort key that counts: digits compare as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def _walk(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[re.Match[str], bytes]]:
    if path.is_dir():
        for file in path.rglob("*"):
            if (
                match := wanted.search(file.relative_to(path.parent).as_posix())
            ) and file.is_file():
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
