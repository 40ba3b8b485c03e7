r"""A table that is only ever seen a block at a time, with the products that the factorizations ask
for.

``X (n_samples, n_features)`` comes in blocks of samples (``axis=0``) or of features (``axis=1``).
Then

.. math:: X B = \begin{pmatrix} X_1 B \\ \vdots \end{pmatrix}, \quad X^T C = \sum_i X_i^T C_i
          \qquad\text{or}\qquad X B = \sum_j X_j B_j, \quad X^T C = \begin{pmatrix} X_1^T C \\
          \vdots \end{pmatrix},

so each product is one visit to every block, and only thin matrices move. Whoever holds the blocks
says in `BlockedTable.visit_from` how they are visited: `FileTable` reads them one after the other,
and a Dask cluster (`conecollapse.tables.dask`) visits many at the same time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, columns_as_points, row_lengths, scaled_columns
from conecollapse._threads import current_threads
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.io.limits import free_memory
from conecollapse.io.source import TableSource
from conecollapse.tables.csr import held
from conecollapse.tables.protocol import Table
from conecollapse.tables.survey import Survey, survey_block

Work = Callable[..., Any]  # work(block, piece, shared)


class Worker(NamedTuple):
    """A process that works on blocks."""

    address: str
    threads: int
    memory: float  # bytes that it may take; infinite where there is no limit


class Step(NamedTuple):
    """Work for which all items are at hand: ``work(items, k, told, shared)`` for each k below
    ``tasks``, where ``told`` are the results of the step before."""

    stage: str
    work: Callable[..., Any]
    tasks: int


class BlockedTable(Table):
    """A table in blocks: products, and what a survey of it says.

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

    kind = "read in blocks"

    def __init__(
        self, shape: tuple[int, int], dtype: Any, axis: int, bounds: IntArray, *, is_sparse: bool
    ) -> None:
        self.shape = shape
        self.dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        self.axis = axis
        self.bounds = bounds
        self.is_sparse = is_sparse
        self.unit = 1.0

    @abstractmethod
    def visit_from(
        self,
        first: int,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Iterator[Any]:
        """``work(block, piece, shared)`` for the blocks from number ``first`` on, one after the
        other as they are asked for; ``pieces`` has one item for each block."""

    def visit(
        self,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> list[Any]:
        """``[work(block, piece, shared), ...]`` over the blocks, in order."""
        return list(self.visit_from(0, work, pieces, shared, stage=stage))

    def reduce(
        self,
        work: Work,
        combine: Callable[[Any, Any], Any],
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Any:
        """``work(block, None, shared)`` of every block, neighbours combined in pairs until one
        result is left.

        Like the digits of a binary counter: two results of equally many blocks become one at once,
        so that few are held.
        """
        digits: list[tuple[int, Any]] = []  # how many blocks, and their result
        for result in self.visit_from(0, work, None, shared, stage=stage):
            count = 1
            while digits and digits[-1][0] == count:
                result, count = combine(digits.pop()[1], result), 2 * count
            digits.append((count, result))
        result = digits.pop()[1]
        while digits:
            result = combine(digits.pop()[1], result)
        return result

    def share_out(
        self, make: Work, pieces: Sequence[Any] | None, steps: Sequence[Step], shared: Any
    ) -> list[Any]:
        """Make ``make(block, piece, shared)`` of every block, give these items to every worker, and
        take the steps one after the other; the results of the last one."""
        items = self.visit(make, pieces, shared, stage="points")
        told: list[Any] = []
        for step in steps:
            told = [step.work(items, k, told, shared) for k in range(step.tasks)]
        return told

    @property
    def workers(self) -> list[Worker]:
        """The processes that work on the blocks: this one."""
        return [Worker("", current_threads(), float(free_memory()))]

    @abstractmethod
    def along(self, axis: int) -> BlockedTable:
        """The same table in blocks along the other axis, or itself."""

    @abstractmethod
    def blocks(self) -> Iterable[Points]:
        """The blocks themselves, one after the other."""

    def transposed(self) -> BlockedTable:
        """The table with samples and features exchanged."""
        raise InvalidInputError(
            "the points must be the features of an opened table: Cone.from_table(X), or"
            " Cone.from_blocks(X.samples())."
        )

    @property
    @abstractmethod
    def survey(self) -> Survey:
        """What one look at every entry says; raises `InvalidInputError` naming block and place of
        an entry that cannot be used."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.bounds) - 1

    @property
    def column_lengths(self) -> FloatArray:
        return self.survey.lengths / self.unit

    @cached_property
    def row_lengths(self) -> FloatArray:
        return np.sqrt(self.row_squares(np.ones(self.shape[1])))

    @property
    def peak(self) -> float:
        return self.survey.peak / self.unit

    @property
    def n_entries(self) -> int:
        return self.survey.n_entries

    @property
    def n_stored(self) -> int:
        """How many entries take memory."""
        count = self.survey.n_entries
        return count if self.is_sparse else self.shape[0] * self.shape[1]

    @property
    def is_rounded(self) -> bool:
        return self.dtype == np.float32 and self.survey.is_rounded

    @property
    def filled(self) -> BoolArray:
        return self.survey.filled

    def divided(self, unit: float) -> BlockedTable:
        """The table over ``unit``, in float64; a block is converted when it is visited, and nothing
        is copied here."""
        other = copy(self)
        for measured in ("row_lengths", "mean_entry"):
            other.__dict__.pop(measured, None)
        other.unit = self.unit * unit
        other.dtype = np.dtype(np.float64)
        return other

    def checked(self) -> BlockedTable:
        """In the blocks from which its cone can be had; looking at the survey checks every
        entry."""
        _ = self.survey
        return self.oriented()

    def oriented(self) -> BlockedTable:
        """In the blocks from which its cone can be had: of features where columns must stay whole,
        of samples where QR shortens them."""
        n, m = self.shape
        return self.along(0 if n > m and not self.is_sparse else 1)

    def split(self, along: AnyArray) -> list[AnyArray]:
        """``along``, which has a row for each sample or feature of the blocked axis, in pieces for
        the blocks."""
        return [along[a:b] for a, b in pairwise(self.bounds)]

    def times(self, B: AnyArray) -> AnyArray:
        B = np.ascontiguousarray(B, self.dtype)
        if self.axis == 0:
            return np.concatenate(self.visit(times, shared=B))
        return self._total(self.visit(times, self.split(B)))

    def transposed_times(self, C: Any) -> AnyArray:
        C = np.ascontiguousarray(as_dense(C), self.dtype)
        if self.axis == 1:
            return np.concatenate(self.visit(transposed_times, shared=C))
        return self._total(self.visit(transposed_times, self.split(C)))

    def row_squares(self, weights: FloatArray) -> FloatArray:
        """Squared lengths of the rows, with the columns multiplied by ``weights`` first."""
        if self.axis == 0:
            return np.concatenate(self.visit(weighted_squares, shared=weights))
        return np.asarray(sum(self.visit(weighted_squares, self.split(weights))))

    def weighted_gram(self, indices: IntArray, scale: FloatArray) -> FloatArray | None:
        """The smaller Gram matrix of ``X[:, indices] diag(scale)``, where the blocks lie along the
        longer side; else None."""
        if self.shape[0] <= len(indices) and self.axis == 1:
            weights = np.zeros(self.shape[1])
            weights[indices] = scale
            return np.asarray(sum(self.visit(outer_gram, self.split(weights))))
        if self.shape[0] > len(indices) and self.axis == 0:
            return np.asarray(sum(self.visit(inner_gram, shared=(indices, scale))))
        return None

    def gram(self, *, cheaply: bool = True) -> AnyArray | None:
        K = self.weighted_gram(np.arange(self.shape[1]), np.ones(self.shape[1]))
        return gram_by_products(self) if K is None and not cheaply else K

    def _total(self, parts: list[AnyArray]) -> AnyArray:
        """Parts are added in float64, in order, so that the sum does not depend on who was
        first."""
        return np.asarray(sum(part.astype(np.float64) for part in parts)).astype(self.dtype)

    def map_columns(
        self, work: Callable[[Points, Any], Any], indices: IntArray, shared: Any
    ) -> list[Any]:
        if self.axis == 0:
            raise InvalidInputError("this needs whole columns, and X is read in blocks of samples.")
        pieces = [(work, columns) for columns in by_block(self.bounds, indices)]
        return self.visit(work_on_columns, pieces, shared, stage="columns")

    def in_parts(self) -> Iterator[Table]:
        return (held(block) for block in self.along(0).blocks() if block.shape[0])

    def row_keys(self) -> list[bytes]:
        return [key for keys in self.along(0).visit(keys_of, stage="samples") for key in keys]

    def rows(self, indices: IntArray) -> Table:
        """The samples that are not all zero; other choices are refused."""
        return FilledRows(self.along(0), indices)

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> Table:
        return Columns(self, indices, np.ones(len(indices)) if scale is None else scale)


class FileTable(BlockedTable):
    """A table that is read from its source, a block at a time, whenever a product needs it."""

    kind = "an opened file, read in blocks"

    def __init__(self, source: TableSource, axis: int = 0, block_size: int | None = None) -> None:
        n, m = source.shape
        if not (n and m):
            raise InvalidInputError(
                f"the table has shape {source.shape}; at least one sample and one feature are"
                " needed."
            )
        self.source = source
        super().__init__(
            source.shape,
            source.dtype,
            axis,
            source.bounds(axis, block_size),
            is_sparse=source.is_sparse,
        )

    def block(self, k: int) -> Points:
        """Block ``k`` as a dense array or a CSR array, in floating point."""
        return as_floats(self._read(k), self.dtype, self.unit)

    def _read(self, k: int) -> Points:
        return self.source.read(self.axis, int(self.bounds[k]), int(self.bounds[k + 1]))

    def blocks(self) -> Iterator[Points]:
        return (self.block(k) for k in range(self.n_blocks))

    def visit_from(
        self,
        first: int,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",  # noqa: ARG002
    ) -> Iterator[Any]:
        return (
            work(self.block(k), None if pieces is None else pieces[k], shared)
            for k in range(first, self.n_blocks)
        )

    def along(self, axis: int) -> FileTable:
        if axis == self.axis:
            return self
        other = FileTable(self.source, axis)
        other.unit, other.dtype = self.unit, self.dtype
        return other

    @cached_property
    def survey(self) -> Survey:
        if self.source.survey is None:
            lines, parts = ("samples", "features")[self.axis], []
            for k, (a, b) in enumerate(pairwise(self.bounds.tolist())):
                at = (a, 0) if self.axis == 0 else (0, a)
                label = f"block {k} ({lines} {a} to {b - 1})"
                parts.append(survey_block(self._read(k), at, label))
            self.source.survey = Survey.of([[p] for p in parts] if self.axis == 0 else [parts])
        survey: Survey = self.source.survey
        return survey


class FilledRows(BlockedTable):
    """The samples of a table in blocks that are not all zero; ``indices`` are their numbers."""

    def __init__(self, table: BlockedTable, indices: IntArray) -> None:
        if not np.array_equal(indices, np.flatnonzero(table.filled)):
            raise InvalidInputError(f"this needs single samples of X, which is {table.kind}.")
        self.table = table
        self.indices = indices
        self.rows_of_blocks = by_block(table.bounds, indices)
        bounds = np.searchsorted(indices, table.bounds)
        super().__init__(
            (len(indices), table.shape[1]), table.dtype, 0, bounds, is_sparse=table.is_sparse
        )

    def visit_from(
        self,
        first: int,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Iterator[Any]:
        return self.table.visit_from(
            first, _on_rows, self._with(pieces), (work, shared), stage=stage
        )

    def visit(
        self,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> list[Any]:
        return self.table.visit(_on_rows, self._with(pieces), (work, shared), stage=stage)

    def blocks(self) -> Iterator[Points]:
        pairs = zip(self.table.blocks(), self.rows_of_blocks, strict=True)
        return (block[rows] for block, rows in pairs)

    def along(self, axis: int) -> BlockedTable:
        if axis == 1:
            raise InvalidInputError("this needs whole columns, and X is read in blocks of samples.")
        return self

    def divided(self, unit: float) -> FilledRows:
        return FilledRows(self.table.divided(unit), self.indices)

    def _with(self, pieces: Sequence[Any] | None) -> list[tuple[IntArray, Any]]:
        """The rows of each block with its piece."""
        others = [None] * self.n_blocks if pieces is None else pieces
        return list(zip(self.rows_of_blocks, others, strict=True))

    @cached_property
    def survey(self) -> Survey:
        whole, unit = self.table.survey, self.table.unit
        peaks, lengths = whole.peaks / unit, whole.lengths / unit
        return replace(whole, peaks=peaks, lengths=lengths, filled=whole.filled[self.indices])


class Columns(Table):
    """``X[:, indices] diag(scale)`` of a table in blocks: the weighted rays of stage 2, never
    formed."""

    kind = "read in blocks"

    def __init__(self, table: BlockedTable, indices: IntArray, scale: FloatArray) -> None:
        self.table = table
        self.shape = (table.shape[0], len(indices))
        self.dtype = table.dtype
        self.is_sparse = table.is_sparse
        self.indices = indices
        self.scale = scale.astype(np.float64)

    @cached_property
    def row_lengths(self) -> FloatArray:
        weights = np.zeros(self.table.shape[1])
        weights[self.indices] = self.scale
        return np.sqrt(self.table.row_squares(weights))

    @property
    def column_lengths(self) -> FloatArray:
        return self.scale * self.table.column_lengths[self.indices]

    @property
    def peak(self) -> float:
        return float((self.scale * self.table.survey.peaks[self.indices]).max()) / self.table.unit

    def times(self, B: AnyArray) -> AnyArray:
        spread = np.zeros((self.table.shape[1], B.shape[1]), self.dtype)
        spread[self.indices] = self.scale[:, None] * B
        return self.table.times(spread)

    def transposed_times(self, C: Any) -> AnyArray:
        return (self.scale[:, None] * self.table.transposed_times(C)[self.indices]).astype(
            self.dtype
        )

    def gram(self, *, cheaply: bool = True) -> AnyArray | None:
        K = self.table.weighted_gram(self.indices, self.scale)
        return gram_by_products(self) if K is None and not cheaply else K

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> Table:
        return Columns(
            self.table,
            self.indices[indices],
            self.scale[indices] * (1.0 if scale is None else scale),
        )


def as_floats(block: Points, dtype: Any, unit: float) -> Points:
    """The block in floating point, divided by ``unit``."""
    block = block.astype(dtype, copy=False)
    return block if unit == 1 else block / dtype.type(unit)


def _on_rows(block: Points, piece: tuple[IntArray, Any], shared: tuple[Work, Any]) -> Any:
    """``work`` on these rows of the block."""
    rows, other = piece
    work, common = shared
    return work(block[rows], other, common)


def work_on_columns(
    block: Points, piece: tuple[Callable[[Points, Any], Any], IntArray], shared: Any
) -> Any:
    """``work`` on these columns of the block, as rows."""
    work, columns = piece
    return work(columns_as_points(block[:, columns]), shared)


def keys_of(block: Points, _: Any, __: Any) -> list[bytes]:
    """The keys of the samples of a block."""
    return held(block).row_keys()


def times(block: Points, own: AnyArray | None, shared: AnyArray | None) -> AnyArray:
    """The block times what is its own, or what all blocks share."""
    return np.asarray(block @ (shared if own is None else own))


def transposed_times(block: Points, own: AnyArray | None, shared: AnyArray | None) -> AnyArray:
    """The transposed block times what is its own, or what all blocks share."""
    return np.asarray(block.T @ (shared if own is None else own))


def weighted_squares(block: Points, own: FloatArray | None, shared: FloatArray) -> FloatArray:
    """Squared lengths of the rows, columns weighted before they are squared, so that no square is
    lost."""
    return np.square(row_lengths(scaled_columns(block, shared if own is None else own)))


def outer_gram(block: Points, weights: FloatArray, _: Any) -> FloatArray:
    """``M_j M_j'`` for columns with these weights."""
    M = scaled_columns(block, weights.astype(block.dtype))
    return np.asarray(as_dense(M @ M.T), np.float64)


def inner_gram(block: Points, _: Any, columns: tuple[IntArray, FloatArray]) -> FloatArray:
    """``M_i' M_i`` for these columns, scaled."""
    M = scaled_columns(block[:, columns[0]], columns[1])
    return np.asarray(as_dense(M.T @ M), np.float64)


def by_block(bounds: IntArray, numbers: IntArray) -> list[IntArray]:
    """Increasing numbers of lines, as places in the blocks between these bounds."""
    ends = np.searchsorted(numbers, bounds)
    return [numbers[a:b] - first for (a, b), first in zip(pairwise(ends), bounds, strict=False)]


def gram_by_products(X: Table) -> AnyArray:
    """``X X'`` or ``X' X`` where blocks lie along the shorter side: through the longer one."""
    n, m = X.shape
    eye = np.eye(min(n, m), dtype=X.dtype)
    return X.times(X.transposed_times(eye)) if n <= m else X.transposed_times(X.times(eye))
