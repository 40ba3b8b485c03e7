"""What `conecollapse.blocks.open_table` reads blocks from.

A source reads any range of samples (``axis=0``) or of features (``axis=1``), as a dense array or a
CSR array in the orientation (n_samples, n_features). Files are read with ordinary reads rather than
through a mapping: a mapped file that shrinks kills the process, and mapped pages count as memory of
the process.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._types import Points
from conecollapse.io.h5ad import H5adSource
from conecollapse.io.market import MtxSource
from conecollapse.io.npy import NpySource


class Source(Protocol):
    """A table on disk or at hand."""

    shape: tuple[int, int]
    dtype: Any
    is_sparse: bool
    entries: int  # stored ones

    def read(self, axis: int, start: int, stop: int) -> Points:
        """Samples or features from ``start`` to ``stop``."""


class ArraySource:
    """An array at hand: dense, a NumPy memory map, or sparse."""

    def __init__(self, X: Any) -> None:
        self.is_sparse = sp.issparse(X)
        if len(X.shape) != 2:
            raise InvalidInputError(
                f"X has shape {X.shape}; expected two dimensions, (n_samples, n_features)."
            )
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = X.dtype
        self.entries = X.nnz if self.is_sparse else X.size
        self.by_axis = {0: sp.csr_array(X), 1: sp.csc_array(X)} if self.is_sparse else {0: X, 1: X}

    def read(self, axis: int, start: int, stop: int) -> Points:
        X = self.by_axis[axis]
        block = X[start:stop] if axis == 0 else X[:, start:stop]
        return sp.csr_array(block) if self.is_sparse else np.asarray(block)


# which ending is opened by which source
READERS: dict[str, Any] = {".npy": NpySource, ".mtx": MtxSource, ".h5ad": H5adSource}
