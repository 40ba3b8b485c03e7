r"""Samples of a table that is not in memory, as the graph of their neighbours needs them.

A table of up to 1 GiB (in float64, without the zeros of sparse data) is read into memory, and all
is as for an array. Of a larger one each sample is kept as its coordinates in the leading right
singular vectors of a few thousand random samples, at most 64 of them or 2 r if that is more:
:math:`n \times 64` numbers in float32 instead of the table. Singular vectors keep the distances
between clusters, which are what the graph is for, and lose noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._types import AnyArray, FloatArray, IntArray, Points
from conecollapse.tables import BlockedTable, Table, as_table, stored
from conecollapse.tables.blocks import by_block

GATHERED = 2**27  # entries up to which a table is read into memory: 1 GiB in float64
# random samples that singular vectors come from; and most entries of these
SAMPLE_ROWS, SAMPLE_ENTRIES = 4000, 2**26
COORDINATES = 64  # of each sample


def gathered(X: BlockedTable) -> Table:
    """The table in memory."""
    blocks = list(X.blocks())
    return as_table(sp.csr_array(sp.vstack(blocks)) if X.is_sparse else np.concatenate(blocks))


def random_rows(
    X: BlockedTable, rng: np.random.Generator, most: int = SAMPLE_ROWS
) -> tuple[IntArray, Points]:
    """Which samples of a table in blocks of samples are at most so many random ones, and these, in
    their order."""
    n, m = X.shape
    count = min(n, most, max(SAMPLE_ENTRIES // m, 1))
    chosen = np.sort(rng.choice(n, count, replace=False))
    parts = X.visit(_rows_of, by_block(X.bounds, chosen), stage="samples")
    return chosen, sp.csr_array(sp.vstack(parts)) if X.is_sparse else np.concatenate(parts)


def _rows_of(block: Points, rows: IntArray, _: Any) -> Points:
    return block[rows]


def leading_directions(Y: Points, n_components: int) -> FloatArray:
    """The leading right singular vectors of these rows, as columns in float32."""
    from sklearn.utils.extmath import randomized_svd

    count = min(max(COORDINATES, 2 * n_components), *Y.shape)
    return np.ascontiguousarray(randomized_svd(Y, count, random_state=0)[2].T, np.float32)


def coordinates(X: BlockedTable, views: list[Any], *, as_sparse: bool) -> list[AnyArray]:
    """The samples of a table in blocks of samples as each of these views has them, seen as sparse
    or as dense arrays."""
    parts = X.visit(_coordinates_of, shared=(views, as_sparse), stage="samples")
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _coordinates_of(block: Points, _: Any, shared: tuple[list[Any], bool]) -> list[AnyArray]:
    views, as_sparse = shared
    samples = stored(as_table(block), sparse=as_sparse).array
    return [np.asarray(view.of(samples), np.float32) for view in views]
