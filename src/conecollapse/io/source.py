"""What `conecollapse.io.open_table` returns: a table that is read in blocks and never whole.

Files are read with ordinary reads rather than through a mapping: a mapped file that shrinks kills
the process, and mapped pages count as memory of the process.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Sparse

BLOCK_BYTES = 2**26  # of one block, in float64 and without the zeros of sparse data


class TableSource(ABC):
    """A table (n_samples, n_features) on disk or at hand.

    Attributes
    ----------
    shape : (n_samples, n_features)
    dtype
        Of the entries as they are stored.
    is_sparse : bool
    entries : int
        How many are stored.
    sample_names, feature_names : arrays of str, or None
        Where the file has them.
    block_size : int or None
        Samples in a block; None for blocks of about 64 MiB.
    """

    shape: tuple[int, int]
    dtype: Any
    is_sparse: bool
    entries: int
    sample_names: AnyArray | None = None
    feature_names: AnyArray | None = None
    block_size: int | None = None
    survey: Any = None  # what one look at every entry said, once a table was made of this

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, stored: int | None = None, *, where: str = "X"
    ) -> None:
        """``stored`` entries of a sparse table, None for a dense one; ``where`` it is, for
        messages."""
        if len(shape) != 2:
            raise InvalidInputError(
                f"{where} has shape {shape}; expected two dimensions, (n_samples, n_features)."
            )
        if dtype.kind not in "fiub":
            raise InvalidInputError(f"{where} holds {dtype} values, not real numbers.")
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = dtype.newbyteorder("=")
        self.is_sparse = stored is not None
        self.entries = math.prod(self.shape) if stored is None else stored

    @abstractmethod
    def read(self, axis: int, start: int, stop: int) -> Points:
        """Samples (``axis=0``) or features (``axis=1``) from ``start`` to ``stop``, as a dense
        array or a CSR array (samples, features)."""

    def whole(self) -> Any:
        """All of it."""
        return self.read(0, 0, self.shape[0])

    def samples(self, size: int | None = None) -> Iterator[Points]:
        """Blocks of samples, (samples, n_features): what `Cone.from_samples` takes."""
        return self._blocks(0, size)

    def features(self, size: int | None = None) -> Iterator[Points]:
        """Blocks of features as points, (features, n_samples): what `Cone.from_blocks` and,
        transposed, ``partial_fit`` take."""
        return (sp.csr_array(X.T) if self.is_sparse else X.T for X in self._blocks(1, size))

    def _blocks(self, axis: int, size: int | None) -> Iterator[Points]:
        dtype = np.float32 if self.dtype == np.float32 else np.float64
        for start, stop in pairwise(self.bounds(axis, size).tolist()):
            yield self.read(axis, start, stop).astype(dtype, copy=False)

    def bounds(self, axis: int, size: int | None = None) -> IntArray:
        """Ends of blocks of ``size`` lines; by default of `block_size` samples, or of about
        `BLOCK_BYTES`."""
        n_lines = self.shape[axis]
        size = self.block_size if size is None and axis == 0 else size
        if size is None:
            size = max(1, int(BLOCK_BYTES / 8 * n_lines / max(self.entries, 1)))
        return np.append(np.arange(0, n_lines, check_count(size, "block_size")), n_lines)


class ArraySource(TableSource):
    """An array at hand: dense, a NumPy memory map, or sparse."""

    def __init__(self, X: Any) -> None:
        super().__init__(X.shape, X.dtype, int(X.nnz) if sp.issparse(X) else None)
        self._by_axis = (sp.csr_array(X), sp.csc_array(X)) if self.is_sparse else (X, X)

    def read(self, axis: int, start: int, stop: int) -> Points:
        X = self._by_axis[axis]
        block = X[start:stop] if axis == 0 else X[:, start:stop]
        return sp.csr_array(block) if self.is_sparse else np.asarray(block)


class TransposedSource(TableSource):
    """A source whose file has the features in its rows."""

    def __init__(self, source: TableSource) -> None:
        stored = source.entries if source.is_sparse else None
        super().__init__(source.shape[::-1], source.dtype, stored)
        self.source = source

    def read(self, axis: int, start: int, stop: int) -> Points:
        block = self.source.read(1 - axis, start, stop)
        return sp.csr_array(block.T) if self.is_sparse else block.T


RECORD = np.dtype([("row", np.int64), ("column", np.int64), ("value", np.float64)])
BUCKET_ENTRIES = 2**21  # mean number of entries in a bucket, which are 48 MiB

Entries = tuple[AnyArray, AnyArray, FloatArray]  # rows, columns, values


class Spill:
    """Buckets of samples (``axis=0``) or of features (``axis=1``); the folder goes with this
    object."""

    def __init__(
        self,
        entries: Iterable[Entries],
        shape: tuple[int, int],
        axis: int,
        n_entries: int,
        bucket_entries: int = BUCKET_ENTRIES,
    ) -> None:
        self.shape = shape
        self.axis = axis
        n_buckets = int(np.clip(n_entries // bucket_entries, 1, shape[axis]))
        self.bounds = np.linspace(0, shape[axis], n_buckets + 1).astype(np.int64)
        self.folder = Path(tempfile.mkdtemp(prefix="conecollapse-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        for rows, columns, values in entries:
            self._add(rows, columns, values)

    def _add(self, rows: AnyArray, columns: AnyArray, values: FloatArray) -> None:
        bucket = np.searchsorted(self.bounds, rows if self.axis == 0 else columns, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        records = np.empty(len(rows), RECORD)
        for name, part in (("row", rows), ("column", columns), ("value", values)):
            records[name] = part[order]
        ends = np.cumsum(np.bincount(bucket, minlength=len(self.bounds) - 1))
        for k, some in enumerate(np.split(records, ends[:-1])):
            if len(some):
                with open(self.folder / str(k), "ab") as stream:
                    some.tofile(stream)

    def read(self, start: int, stop: int) -> Sparse:
        """Lines from ``start`` to ``stop`` along the axis, as a CSR array."""
        first = int(np.searchsorted(self.bounds, start, side="right")) - 1
        last = int(np.searchsorted(self.bounds, stop, side="left"))
        parts = []
        for k in range(first, last):
            file = self.folder / str(k)
            records = np.fromfile(file, RECORD) if file.exists() else np.zeros(0, RECORD)
            along = records["row"] if self.axis == 0 else records["column"]
            parts.append(records[(along >= start) & (along < stop)])
        records = np.concatenate(parts)
        places = [records["row"].copy(), records["column"].copy()]
        places[self.axis] -= start
        shape = list(self.shape)
        shape[self.axis] = stop - start
        # adds up duplicates
        return sp.csr_array(sp.coo_array((records["value"], tuple(places)), shape=tuple(shape)))
