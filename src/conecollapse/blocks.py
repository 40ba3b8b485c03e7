"""Tables larger than memory, read in blocks of samples or of features.

`open_table` opens a ``.npy``, ``.mtx`` or ``.h5ad`` file, or wraps an array at hand. What it returns goes into `Cone.from_table` and into
``fit`` of the estimators like any other table; its `features()` and `samples()` go into `Cone.from_blocks` and `Cone.from_samples`.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse.tables.files import FileTable
from conecollapse.tables.sources import READERS, ArraySource, Source

__all__ = ["FileTable", "open_table"]


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
