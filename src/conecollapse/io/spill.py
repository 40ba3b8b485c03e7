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

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, FloatArray, Sparse

RECORD = np.dtype([("row", np.int64), ("column", np.int64), ("value", np.float64)])
BUCKET_ENTRIES = 2**21  # mean number of entries in a bucket: 48 MiB

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
            self._check(rows, columns)
            self._add(rows, columns, values)

    def _check(self, rows: AnyArray, columns: AnyArray) -> None:
        for name, place, limit in (
            ("row", rows, self.shape[0]),
            ("column", columns, self.shape[1]),
        ):
            for at in np.flatnonzero((place < 0) | (place >= limit))[:1]:
                raise InvalidInputError(
                    f"an entry is at {name} {int(place[at])}, outside the table of shape"
                    f" {self.shape}."
                )

    def _add(self, rows: AnyArray, columns: AnyArray, values: FloatArray) -> None:
        bucket = np.searchsorted(self.bounds, rows if self.axis == 0 else columns, side="right") - 1
        order = np.argsort(bucket, kind="stable")
        records = np.empty(len(rows), RECORD)
        records["row"], records["column"], records["value"] = (
            rows[order],
            columns[order],
            values[order],
        )
        ends = np.cumsum(np.bincount(bucket, minlength=len(self.bounds) - 1))
        for k, part in enumerate(np.split(records, ends[:-1])):
            if len(part):
                with open(self.folder / str(k), "ab") as stream:
                    part.tofile(stream)

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
        rows, columns = records["row"].copy(), records["column"].copy()
        if self.axis == 0:
            rows -= start
            shape = (stop - start, self.shape[1])
        else:
            columns -= start
            shape = (self.shape[0], stop - start)
        # adds up duplicates
        return sp.csr_array(sp.coo_array((records["value"], (rows, columns)), shape=shape))
