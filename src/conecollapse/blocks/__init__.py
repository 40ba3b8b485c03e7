"""Tables larger than memory, read in blocks of samples or of features.

`open_table` opens a ``.npy``, ``.mtx`` or ``.h5ad`` file, or wraps an array at hand. What it returns goes into `Cone.from_table`,
`CCNMF.fit` and `ConeCollapse.fit` like any other table; its `features()` and `samples()` go into `Cone.from_blocks` and
`Cone.from_samples`.

`as_table` is the door through which tables in blocks enter the rest of the package. Dask arrays come through it too, without any module
below `conecollapse.distributed` importing Dask: that module is imported by name when an object of Dask's appears.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse.blocks.files import FileTable
from conecollapse.blocks.h5ad import H5adSource
from conecollapse.blocks.mtx import MtxSource
from conecollapse.blocks.sources import ArraySource, NpySource, Source
from conecollapse.blocks.table import BlockedTable

__all__ = ["BlockedTable", "FileTable", "as_table", "open_table"]

READERS: dict[str, Any] = {".npy": NpySource, ".mtx": MtxSource, ".h5ad": H5adSource}
OWNERS = {"dask": "conecollapse.distributed"}  # package of a type -> the module of ours that makes a table of it


def open_table(source: Any, *, block_size: int | None = None) -> FileTable:
    """A table (n_samples, n_features) on disk, to be read in blocks and never whole.

    Parameters
    ----------
    source : path, array, sparse array or backed AnnData
        A ``.npy`` (either order), ``.mtx`` (coordinate; sorted into blocks in a temporary folder) or ``.h5ad`` file; or an array at
        hand, such as a NumPy memory map.
    block_size : int, optional
        Samples in a block; blocks of about 64 MiB by default.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import Cone
    >>> from conecollapse.blocks import open_table
    >>> table = open_table(np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]]))
    >>> Cone.from_table(table).ray_indices
    array([0, 1])
    """
    return FileTable(_source(source), 0, block_size)


def _source(source: Any) -> Source:
    if getattr(source, "isbacked", False):  # an AnnData object whose X is still on disk
        source = source.filename
    if sp.issparse(source) or hasattr(source, "__array__"):
        return ArraySource(source)
    if not isinstance(source, (str, PathLike)):
        raise InvalidInputError(f"a table is opened from a path or an array; got {type(source).__name__}.")
    ending = Path(fspath(source)).suffix.lower()
    if ending not in READERS:
        raise InvalidInputError(f"{fspath(source)!r} cannot be read in blocks; expected one of {', '.join(READERS)}.")
    reader: Source = READERS[ending](source)
    return reader


def as_table(X: Any) -> BlockedTable | None:
    """``X`` as a table in blocks if it is one, or a Dask array; else None."""
    if isinstance(X, BlockedTable):
        return X
    owner = type(X).__module__.partition(".")[0]
    if owner not in OWNERS:
        return None
    table: BlockedTable = import_module(OWNERS[owner]).table_of(X)
    return table
