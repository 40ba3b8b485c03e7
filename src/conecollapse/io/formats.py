"""The formats of files, by their ending: who reads one whole, who reads it in blocks, and which
options it takes. A new format is a file here and a line in `FORMATS`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

from conecollapse._errors import InvalidInputError, argument, quoted
from conecollapse.io.matrix import Matrix
from conecollapse.io.text import is_gzipped, suffix


class Format(NamedTuple):
    """Where the readers of a format are, in a module of `conecollapse.io` that is imported when a
    file has this format; each is called with the path and the options."""

    module: str
    read: str = "read"  # the whole table
    blocks: str | None = None  # its values are a `TableSource`
    options: tuple[str, ...] = ()  # for what files of this format do not say themselves
    may_be_gzipped: bool = False

    def reader(self, name: str) -> Callable[..., Matrix]:
        """One of the readers."""
        found: Callable[..., Matrix]
        found = getattr(importlib.import_module(f"conecollapse.io.{self.module}"), name)
        return found


FORMATS = {
    ".npy": Format("npy", blocks="blocks"),
    ".npz": Format("npy", "read_npz"),
    ".csv": Format("delimited", options=("header", "names"), may_be_gzipped=True),
    ".tsv": Format("delimited", options=("header", "names"), may_be_gzipped=True),
    ".mtx": Format("market", blocks="blocks", may_be_gzipped=True),
    ".parquet": Format("frames", "read_parquet", options=("names",)),
    ".h5ad": Format("h5ad", blocks="blocks", options=("layer",)),
}


def read_whole(path: Path, options: Mapping[str, Any]) -> Matrix:
    """What a file holds, as it lies there."""
    kind = suffix(path)
    if kind not in FORMATS or (is_gzipped(path) and not FORMATS[kind].may_be_gzipped):
        gzipped = [f"{name}.gz" for name, known in FORMATS.items() if known.may_be_gzipped]
        raise InvalidInputError(
            f"{path.name} has no known format; known are {', '.join([*FORMATS, *gzipped])}; save"
            " it as one of them."
        )
    known = FORMATS[kind]
    return known.reader(known.read)(path, **take_options(kind, options, path.name))


def open_blocks(path: Path, options: Mapping[str, Any]) -> Matrix:
    """What a file holds, with a `TableSource` as its values."""
    kind = suffix(path)
    blocks = FORMATS[kind].blocks if kind in FORMATS else None
    if blocks is None or (is_gzipped(path) and not FORMATS[kind].may_be_gzipped):
        known = [name for name, one in FORMATS.items() if one.blocks is not None]
        remedy = "; read_table reads it whole" if kind in FORMATS else ""
        raise InvalidInputError(
            f"{quoted(path.name)} cannot be read in blocks; expected one of"
            f" {', '.join(known)}{remedy}."
        )
    return FORMATS[kind].reader(blocks)(path, **take_options(kind, options, path.name))


def take_options(kind: str, options: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Those options that files of this kind take; the others must be None. ``what`` is for the
    message."""
    known = FORMATS[kind].options if kind in FORMATS else ()
    for name, value in options.items():
        if value is not None and name not in known:
            kinds = ", ".join(other for other, one in FORMATS.items() if name in one.options)
            raise InvalidInputError(
                f"{argument(name, value)} is only for {kinds} files; leave it out for {what}."
            )
    return {name: options[name] for name in known if name in options}


def same_layout(source: Any, before: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that read ``source`` with the heading, the names and the layer as ``before``; none
    if its format says what they are."""
    if not isinstance(source, (str, PathLike)):
        return {}
    if before.get("words") is not None:
        return {name: before[name] for name in ("text_column", "words")}
    kind = suffix(Path(fspath(source)))
    return {name: before.get(name) for name in FORMATS[kind].options} if kind in FORMATS else {}
