"""Entries that come in any order, sorted into blocks on disk in one pass: a bucket file for each
block."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, FloatArray, Sparse

RECORD = np.dtype([("row", np.int64), ("column", np.int64), ("value", np.float64)])
BUCKET_ENTRIES = 2**21  # mean number of entries in a bucket, which are 48 MiB

Entries = tuple[AnyArray, AnyArray, FloatArray]  # rows, columns, values


class Spill:
    """Buckets of samples (``axis=0``) or of features (``axis=1``); the folder goes with this
    object."""

    def __init__(
        self, entries: Iterable[Entries], shape: tuple[int, int], axis: int, n_entries: int
    ) -> None:
        self.shape = shape
        self.axis = axis
        n_buckets = int(np.clip(n_entries // BUCKET_ENTRIES, 1, shape[axis]))
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
