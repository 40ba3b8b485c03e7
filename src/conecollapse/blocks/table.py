r"""A table that is only ever seen a block at a time, with the products that the factorizations ask for.

``X (n_samples, n_features)`` comes in blocks of samples (``axis=0``) or of features (``axis=1``). Then

.. math:: X B = \begin{pmatrix} X_1 B \\ \vdots \end{pmatrix}, \quad X^T C = \sum_i X_i^T C_i
          \qquad\text{or}\qquad X B = \sum_j X_j B_j, \quad X^T C = \begin{pmatrix} X_1^T C \\ \vdots \end{pmatrix},

so each product is one visit to every block, and only thin matrices move. Whoever holds the blocks (a file, a Dask cluster) says in
`BlockedTable.visit` how they are visited; everything else is written here once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, FloatArray, IntArray, Points
from conecollapse.blocks.survey import Survey

Work = Callable[..., Any]  # work(block, piece, shared)


class BlockedTable(spla.LinearOperator):  # type: ignore[misc]
    """A table in blocks: ``X @ B``, ``X.T @ B``, and what a survey of it says.

    Attributes
    ----------
    shape, dtype
        Of the table; the dtype is float32 or float64.
    axis : int
        0 for blocks of samples, 1 for blocks of features.
    bounds : (n_blocks + 1,) array
        Where the blocks begin and end along that axis.
    is_sparse : bool
    """

    cone: Callable[..., Any] | None = None  # cone(tol, checkpoint), where the owner of the blocks finds the cone in a way of its own

    def __init__(self, shape: tuple[int, int], dtype: Any, axis: int, bounds: IntArray, *, is_sparse: bool) -> None:
        super().__init__(dtype=np.dtype(np.float32 if dtype == np.float32 else np.float64), shape=shape)
        self.axis = axis
        self.bounds = bounds
        self.is_sparse = is_sparse
        self.unit = 1.0

    @abstractmethod
    def visit(self, work: Work, pieces: Sequence[Any] | None = None, shared: Any = None, *, stage: str = "products") -> list[Any]:
        """``[work(block, piece, shared), ...]`` over the blocks, in order; ``pieces`` has one item for each block."""

    @abstractmethod
    def along(self, axis: int) -> BlockedTable:
        """The same table in blocks along the other axis, or itself."""

    @abstractmethod
    def blocks(self) -> Iterable[Points]:
        """The blocks themselves, one after the other."""

    def transposed(self) -> BlockedTable:
        """The table with samples and features exchanged."""
        raise InvalidInputError("the points must be the features of an opened table: Cone.from_table(X), or Cone.from_blocks(X.samples()).")

    @abstractmethod
    def _survey(self) -> Survey:
        """Look at every entry once."""

    def wrap(self, per_sample: AnyArray) -> Any:
        """An array with an entry for each sample, in the kind that the table's owner expects."""
        return per_sample

    @cached_property
    def survey(self) -> Survey:
        """What one look at every entry says; raises `InvalidInputError` naming block and place of an entry that cannot be used."""
        return self._survey()

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.bounds) - 1

    @property
    def lengths(self) -> FloatArray:
        """Lengths of the columns."""
        return self.survey.lengths / self.unit

    @property
    def squared_norm(self) -> float:
        """Sum of the squares of all entries."""
        return float(np.sum(np.square(self.lengths)))

    def divided(self, unit: float) -> BlockedTable:
        """The table over ``unit``, in float64; a block is converted when it is visited, and nothing is copied here."""
        other = self._copy()
        other.unit = self.unit * unit
        other.dtype = np.dtype(np.float64)
        return other

    @abstractmethod
    def _copy(self) -> BlockedTable: ...

    def oriented(self) -> BlockedTable:
        """In the blocks from which its cone can be had: of features where columns must stay whole, of samples where QR shortens them."""
        n, m = self.shape
        return self.along(0 if n > m and not self.is_sparse else 1)

    def split(self, along: AnyArray) -> list[AnyArray]:
        """``along``, which has a row for each sample or feature of the blocked axis, in pieces for the blocks."""
        return [along[a:b] for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)]

    def _matmat(self, B: AnyArray) -> AnyArray:
        B = np.ascontiguousarray(B, self.dtype)
        if self.axis == 0:
            return np.concatenate(self.visit(times, shared=B))
        return self._total(self.visit(times_piece, self.split(B)))

    def _rmatmat(self, C: AnyArray) -> AnyArray:
        C = np.ascontiguousarray(C, self.dtype)
        if self.axis == 1:
            return np.concatenate(self.visit(transposed_times, shared=C))
        return self._total(self.visit(transposed_times_piece, self.split(C)))

    def _total(self, parts: list[AnyArray]) -> AnyArray:
        """Parts are added in float64, in order, so that the sum does not depend on who was first."""
        return np.asarray(sum(part.astype(np.float64) for part in parts)).astype(self.dtype)

    def _matvec(self, b: AnyArray) -> AnyArray:
        return self._matmat(b.reshape(-1, 1)).ravel()

    def _rmatvec(self, b: AnyArray) -> AnyArray:
        return self._rmatmat(b.reshape(-1, 1)).ravel()

    def columns(self, indices: IntArray, scale: FloatArray) -> Columns:
        """``X[:, indices] * scale`` as an operator."""
        return Columns(self, indices, scale)


class Columns(spla.LinearOperator):  # type: ignore[misc]
    """``M = X[:, indices] diag(scale)`` of a table in blocks: the weighted rays of stage 2, never formed."""

    def __init__(self, table: BlockedTable, indices: IntArray, scale: FloatArray) -> None:
        super().__init__(dtype=table.dtype, shape=(table.shape[0], len(indices)))
        self.table = table
        self.indices = indices
        self.scale = scale.astype(np.float64)
        weights = np.zeros(table.shape[1])
        weights[indices] = self.scale
        self.row_lengths: FloatArray = np.sqrt(self._row_squares(weights))
        self.squared_norm = float(np.sum((self.scale * table.lengths[indices]) ** 2))

    def _row_squares(self, weights: FloatArray) -> FloatArray:
        table = self.table
        if table.axis == 0:
            return np.concatenate(table.visit(weighted_squares, shared=weights))
        return np.asarray(sum(table.visit(weighted_squares_piece, table.split(weights))))

    def _matmat(self, B: AnyArray) -> AnyArray:
        spread = np.zeros((self.table.shape[1], B.shape[1]), self.dtype)
        spread[self.indices] = self.scale[:, None] * B
        return self.table._matmat(spread)

    def _rmatmat(self, C: AnyArray) -> AnyArray:
        return (self.scale[:, None] * self.table._rmatmat(C)[self.indices]).astype(self.dtype)

    def _matvec(self, b: AnyArray) -> AnyArray:
        return self._matmat(b.reshape(-1, 1)).ravel()

    def _rmatvec(self, b: AnyArray) -> AnyArray:
        return self._rmatmat(b.reshape(-1, 1)).ravel()

    def small_gram(self) -> FloatArray | None:
        """``M M'`` or ``M' M``, whichever is smaller, where the blocks lie along the longer side; else None."""
        table = self.table
        n, c = self.shape
        if n <= c and table.axis == 1:
            weights = np.zeros(table.shape[1])
            weights[self.indices] = self.scale
            return np.asarray(sum(table.visit(outer_gram, table.split(weights))))
        if n > c and table.axis == 0:
            return np.asarray(sum(table.visit(inner_gram, shared=(self.indices, self.scale))))
        return None


def times(block: Points, _: Any, B: AnyArray) -> AnyArray:
    """``X_i B``."""
    return np.asarray(block @ B)


def times_piece(block: Points, B: AnyArray, _: Any) -> AnyArray:
    """``X_j B_j``."""
    return np.asarray(block @ B)


def transposed_times(block: Points, _: Any, C: AnyArray) -> AnyArray:
    """``X_j' C``."""
    return np.asarray(block.T @ C)


def transposed_times_piece(block: Points, C: AnyArray, _: Any) -> AnyArray:
    """``X_i' C_i``."""
    return np.asarray(block.T @ C)


def weighted_squares(block: Points, _: Any, weights: FloatArray) -> FloatArray:
    """Squared lengths of the rows, columns weighted before they are squared, so that no square is lost."""
    if sp.issparse(block):
        weighted = sp.csr_array(block @ sp.diags_array(weights))
        return np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel()
    pieces = (rows * weights for rows in np.array_split(block, 1 + block.size // 2**20))
    return np.concatenate([np.einsum("ij,ij->i", rows, rows) for rows in pieces])


def weighted_squares_piece(block: Points, weights: FloatArray, _: Any) -> FloatArray:
    """The part of one block of columns in the squared lengths of the rows."""
    return weighted_squares(block, None, weights)


def outer_gram(block: Points, weights: FloatArray, _: Any) -> FloatArray:
    """``M_j M_j'`` for columns with these weights."""
    M = block @ sp.diags_array(weights.astype(block.dtype)) if sp.issparse(block) else block * weights.astype(block.dtype)
    K = M @ M.T
    return (K.toarray() if sp.issparse(K) else K).astype(np.float64)


def inner_gram(block: Points, _: Any, columns: tuple[IntArray, FloatArray]) -> FloatArray:
    """``M_i' M_i`` for these columns, scaled."""
    indices, scale = columns
    M = block[:, indices]
    M = M @ sp.diags_array(scale) if sp.issparse(M) else M * scale
    K = M.T @ M
    return np.asarray((K.toarray() if sp.issparse(K) else K).astype(np.float64))
