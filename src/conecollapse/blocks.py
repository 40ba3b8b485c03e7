"""Tables larger than memory, read in blocks of samples or of features.

`open_table` opens a ``.npy``, ``.mtx`` or ``.h5ad`` file, or wraps an array at hand. What it
returns goes into `Cone.from_table` and into ``fit`` of the estimators like any other table, with
the names that the file has; its `features()` and `samples()` go into `Cone.from_blocks` and
`Cone.from_samples`.
"""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse.io.opening import suffix
from conecollapse.io.sources import READERS, ArraySource, Source
from conecollapse.tables.files import FileTable

__all__ = ["FileTable", "open_table"]


def open_table(
    source: Any, *, block_size: int | None = None, layer: str | None = None
) -> FileTable:
    """A table (n_samples, n_features) on disk, to be read in blocks and never whole.

    Parameters
    ----------
    source : path, array, sparse array or backed AnnData
        A ``.npy`` (either order), ``.mtx`` (sorted into blocks in a temporary folder; also with
        ``.gz``) or ``.h5ad`` file; or an array at hand, such as a NumPy memory map.
    block_size : int, optional
        Samples in a block; blocks of about 64 MiB by default.
    layer : str, optional
        Of an ``.h5ad`` file: the layer to open instead of ``X``.

    Returns
    -------
    FileTable
        With `feature_names` and `sample_names` where the source has them: in an ``.h5ad`` file, and
        in the text files that may stand beside a ``.mtx`` file.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import Cone
    >>> from conecollapse.blocks import open_table
    >>> table = open_table(np.array([[1.0, 0.0, 1.0], [0.0, 2.0, 1.0]]))
    >>> Cone.from_table(table).ray_indices
    array([0, 1])
    """
    opened = FileTable(_source(source, layer), 0, block_size)
    names = getattr(opened.source, "names", lambda _: None)
    opened.feature_names, opened.sample_names = names(1), names(0)
    return opened


def _source(source: Any, layer: str | None) -> Source:
    if getattr(source, "isbacked", False):  # an AnnData object whose X is still on disk
        source = source.filename
    is_file = isinstance(source, (str, PathLike))
    path = Path(fspath(source)) if is_file else Path()
    ending = suffix(path)
    if layer is not None and ending != ".h5ad":
        raise InvalidInputError(
            f"layer={layer!r} is for .h5ad files and backed AnnData objects; leave it out for other"
            " tables."
        )
    if sp.issparse(source) or hasattr(source, "__array__"):
        return ArraySource(source)
    if not is_file:
        raise InvalidInputError(
            f"a table is opened from a path or an array; got {type(source).__name__}."
        )
    if ending not in READERS or (path.suffix.lower() == ".gz" and ending != ".mtx"):
        raise InvalidInputError(
            f"{fspath(source)!r} cannot be read in blocks; expected one of {', '.join(READERS)}."
        )
    reader: Source = READERS[ending](path, *(() if layer is None else (layer,)))
    return reader
