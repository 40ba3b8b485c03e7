r"""A table that is only ever seen a block at a time, with the products that the factorizations ask
for.

``X (n_samples, n_features)`` comes in blocks of samples (``axis=0``) or of features (``axis=1``).
Then

.. math:: X B = \begin{pmatrix} X_1 B \\ \vdots \end{pmatrix}, \quad X^T C = \sum_i X_i^T C_i
          \qquad\text{or}\qquad X B = \sum_j X_j B_j, \quad X^T C = \begin{pmatrix} X_1^T C \\
          \vdots \end{pmatrix},

so each product is one visit to every block, and only thin matrices move. Whoever holds the blocks
(a file, a Dask cluster) says in `BlockedTable.visit` how they are visited, and in
`BlockedTable.reduce` how results are combined; everything else is written here once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, columns_as_points
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.tables.columns import Columns, gram_by_products
from conecollapse.tables.csr import CsrTable
from conecollapse.tables.dense import DenseTable
from conecollapse.tables.in_memory import InMemoryTable
from conecollapse.tables.protocol import Table
from conecollapse.tables.survey import Survey

Work = Callable[..., Any]  # work(block, piece, shared)
# what `Held.select` and `Held.cross` give: values, or tasks whose values are still with the workers
Groups = list[Any]


class Kept:
    """What a piece of work tells the others, and its own, which stays in the process that made it:
    only ``told`` travels."""

    __slots__ = ("own", "told")

    def __init__(self, own: Any, told: Any) -> None:
        self.own = own
        self.told = told

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, (None, self.told)


class Looked:
    """What a look at every block found, in the order of the blocks; a cluster may keep it until it
    is asked for here."""

    def __init__(self, found: list[Any]) -> None:
        self.found = found

    def results(self) -> list[Any]:
        """All results, here."""
        return self.found


class Held(ABC):
    """One item for each block, which stays with whoever holds the blocks: in the memory of a
    cluster, or made again from a file.

    No work sees more than two items at once, and each piece of work can be done again without the
    others.
    """

    n_blocks: int

    @abstractmethod
    def select(
        self, work: Work, which: Sequence[tuple[int, Any]], shared: Any = None, *, stage: str
    ) -> Groups:
        """``work(item[k], piece, shared)`` for each ``(k, piece)``."""

    @abstractmethod
    def spread(self, work: Work, pieces: Sequence[Any], shared: Any, *, stage: str) -> Groups:
        """``work(piece, shared)`` for each piece: work that needs no item."""

    @abstractmethod
    def whole(self, work: Work, shared: Any, *, stage: str) -> Any:
        """``work([item, ...], shared)`` of all items in one place, where they are small; to be
        collected, or shared by other work."""

    @abstractmethod
    def join(self, groups: Groups, work: Work, *, stage: str) -> Any:
        """``work([value, ...])`` of all groups, in one place: to be given to other work as what it
        shares."""

    @abstractmethod
    def tiles(
        self,
        work: Work,
        which: Sequence[tuple[int, int]],
        shared: Any = None,
        *,
        stage: str,
        side: int = 1,
        costs: Sequence[float] | None = None,
    ) -> list[Any]:
        """``work(item[a], item[b], shared)`` for each pair ``(a, b)``, here.

        Where pairs are many, one piece of work may have up to ``side`` items on either side.
        ``costs`` says how much work each pair is, where that is not the same for all; what costs
        most begins first.
        """

    @abstractmethod
    def cross(
        self,
        groups: Groups,
        pair: Work,
        gather: Work,
        shared: Any = None,
        *,
        stage: str,
        thin: bool = False,
    ) -> Groups:
        """``gather(group, [pair(group, item, shared) for every item], shared)`` for each group;
        ``thin`` if ``pair`` gives little."""

    @abstractmethod
    def chain(
        self, groups: Groups, work: Work, rounds: int, shared: Any = None, *, stage: str
    ) -> Groups:
        """Each group goes round the blocks ``rounds`` times,
        ``group = work(group, item[k], k, shared)``; groups may begin at any block."""

    @abstractmethod
    def collect(self, *groups: Groups, stage: str) -> list[list[Any]]:
        """The values of the groups, here; all are made at the same time."""


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
    block_entries = 0  # of the largest block, once somebody has counted them

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
    def visit(
        self,
        work: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> list[Any]:
        """``[work(block, piece, shared), ...]`` over the blocks, in order; ``pieces`` has one item
        for each block."""

    @abstractmethod
    def visit_from(
        self, first: int, work: Work, shared: Any = None, *, stage: str = "products"
    ) -> Iterator[Any]:
        """``work(block, None, shared)`` for the blocks from number ``first`` on, one after the
        other as they are asked for."""

    @abstractmethod
    def reduce(
        self,
        work: Work,
        combine: Callable[[Any, Any], Any],
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Any:
        """``work(block, None, shared)`` of every block, neighbours combined in pairs until one
        result is left."""

    @abstractmethod
    def hold(
        self,
        make: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str,
        cheap: bool = False,
        last: bool = False,
    ) -> Held:
        """``make(block, piece, shared)`` of every block, for work on blocks and on pairs of them.

        What is ``cheap`` to make is made again where it is needed, and a cluster need not hold it.
        With ``last`` the blocks are not needed any more afterwards; if they are all the same, they
        are made again.
        """

    def look(self, work: Work, shared: Any = None, *, stage: str) -> Looked:
        """Begin ``work(block, None, shared)`` of every block; if there was no survey yet, it is
        made in the same pass if possible."""
        _ = self.survey
        return Looked(self.visit(work, None, shared, stage=stage))

    @abstractmethod
    def along(self, axis: int) -> BlockedTable:
        """The same table in blocks along the other axis, or itself."""

    @property
    def parallel(self) -> int:
        """How many pieces of work run at the same time, about."""
        return 1

    @property
    def together(self) -> int:
        """How many pieces of work can have copies of all blocks at the same time, if these are
        small; 0 where nobody holds the blocks."""
        return 0

    def work_together(
        self,
        _first: Work,
        _then: Work,
        _looked: Looked,
        _shared: Any,
        _count: int,
        *,
        stages: tuple[str, str],
    ) -> list[Any]:
        """Two steps in ``count`` pieces, each with all blocks at hand and with what a look at them
        found.

        ``kept[k] = first(blocks, k, found, shared)`` is a `Kept`, and the result
        ``then(kept[k].own, k, [one.told for one in kept], shared)``.
        """
        raise InvalidInputError(
            f"all blocks of a table at once were asked for in {' and '.join(stages)}, and X is"
            f" {self.kind}."
        )

    def cut_at(self, bounds: IntArray) -> BlockedTable:  # noqa: ARG002
        """The same table in blocks with other bounds, or itself where that saves nothing."""
        return self

    @abstractmethod
    def blocks(self) -> Iterable[Points]:
        """The blocks themselves, one after the other."""

    def transposed(self) -> BlockedTable:
        """The table with samples and features exchanged."""
        raise InvalidInputError(
            "the points must be the features of an opened table: Cone.from_table(X), or"
            " Cone.from_blocks(X.samples())."
        )

    @abstractmethod
    def _survey(self) -> Survey:
        """Look at every entry once."""

    @cached_property
    def survey(self) -> Survey:
        """What one look at every entry says; raises `InvalidInputError` naming block and place of
        an entry that cannot be used."""
        return self._survey()

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
    def filled(self) -> BoolArray:
        return self.survey.filled

    def divided(self, unit: float) -> BlockedTable:
        """The table over ``unit``, in float64; a block is converted when it is visited, and nothing
        is copied here."""
        other = self._copy()
        for measured in ("row_lengths", "mean_entry"):
            other.__dict__.pop(measured, None)
        other.unit = self.unit * unit
        other.dtype = np.dtype(np.float64)
        return other

    @abstractmethod
    def _copy(self) -> BlockedTable: ...

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
        return [along[a:b] for a, b in zip(self.bounds[:-1], self.bounds[1:], strict=True)]

    def times(self, B: AnyArray) -> AnyArray:
        B = np.ascontiguousarray(B, self.dtype)
        if self.axis == 0:
            return np.concatenate(self.visit(times, shared=B))
        return self._total(self.visit(times_piece, self.split(B)))

    def transposed_times(self, C: Any) -> AnyArray:
        C = np.ascontiguousarray(as_dense(C), self.dtype)
        if self.axis == 1:
            return np.concatenate(self.visit(transposed_times, shared=C))
        return self._total(self.visit(transposed_times_piece, self.split(C)))

    def row_squares(self, weights: FloatArray) -> FloatArray:
        """Squared lengths of the rows, with the columns multiplied by ``weights`` first."""
        if self.axis == 0:
            return np.concatenate(self.visit(weighted_squares, shared=weights))
        return np.asarray(sum(self.visit(weighted_squares_piece, self.split(weights))))

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
        place = np.searchsorted(indices, self.bounds)
        pieces = [
            (work, indices[a:b] - start)
            for a, b, start in zip(place[:-1], place[1:], self.bounds[:-1], strict=True)
        ]
        return self.visit(work_on_columns, pieces, shared, stage="columns")

    def in_parts(self) -> Iterator[Table]:
        return (_as_table(block) for block in self.along(0).blocks() if block.shape[0])

    def row_keys(self) -> list[bytes]:
        return [key for keys in self.along(0).visit(keys_of, stage="samples") for key in keys]

    def rows(self, indices: IntArray) -> Table:
        """The samples that are not all zero; other choices are refused."""
        return FilledRows(self.along(0), indices)

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> Table:
        return Columns(self, indices, np.ones(len(indices)) if scale is None else scale)


class FilledRows(BlockedTable):
    """The samples of a table in blocks that are not all zero; ``indices`` are their numbers."""

    def __init__(self, table: BlockedTable, indices: IntArray) -> None:
        if not np.array_equal(indices, np.flatnonzero(table.filled)):
            raise InvalidInputError(f"this needs single samples of X, which is {table.kind}.")
        self.table = table
        self.indices = indices
        bounds = np.searchsorted(indices, table.bounds)
        super().__init__(
            (len(indices), table.shape[1]), table.dtype, 0, bounds, is_sparse=table.is_sparse
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

    def visit_from(
        self, first: int, work: Work, shared: Any = None, *, stage: str = "products"
    ) -> Iterator[Any]:
        return iter(self.visit(work, None, shared, stage=stage)[first:])

    def reduce(
        self,
        work: Work,
        combine: Callable[[Any, Any], Any],
        shared: Any = None,
        *,
        stage: str = "products",
    ) -> Any:
        return reduce(combine, self.visit(work, None, shared, stage=stage))

    def hold(
        self,
        make: Work,
        pieces: Sequence[Any] | None = None,
        shared: Any = None,
        *,
        stage: str,
        cheap: bool = False,
        last: bool = False,
    ) -> Held:
        return self.table.hold(
            _on_rows, self._with(pieces), (make, shared), stage=stage, cheap=cheap, last=last
        )

    def blocks(self) -> Iterator[Points]:
        return (block[rows] for block, rows in zip(self.table.blocks(), self._chosen, strict=True))

    def along(self, axis: int) -> BlockedTable:
        if axis == 1:
            raise InvalidInputError("this needs whole columns, and X is read in blocks of samples.")
        return self

    def divided(self, unit: float) -> FilledRows:
        return FilledRows(self.table.divided(unit), self.indices)

    def _with(self, pieces: Sequence[Any] | None) -> list[tuple[IntArray, Any]]:
        """The rows of each block with its piece."""
        return list(
            zip(self._chosen, [None] * self.n_blocks if pieces is None else pieces, strict=True)
        )

    @property
    def _chosen(self) -> list[IntArray]:
        """Which rows of each block."""
        return [
            self.indices[a:b] - start
            for a, b, start in zip(
                self.bounds[:-1], self.bounds[1:], self.table.bounds[:-1], strict=True
            )
        ]

    def _survey(self) -> Survey:
        found = self.table.survey
        lengths, peaks = found.lengths / self.table.unit, found.peaks / self.table.unit
        return replace(found, peaks=peaks, lengths=lengths, filled=found.filled[self.indices])

    def _copy(self) -> FilledRows:
        return FilledRows(self.table, self.indices)


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


def _as_table(block: Points) -> InMemoryTable:
    return CsrTable(block) if sp.issparse(block) else DenseTable(block)


def keys_of(block: Points, _: Any, __: Any) -> list[bytes]:
    """The keys of the samples of a block."""
    return _as_table(block).row_keys()


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
    """Squared lengths of the rows, columns weighted before they are squared, so that no square is
    lost."""
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
    M = (
        block @ sp.diags_array(weights.astype(block.dtype))
        if sp.issparse(block)
        else block * weights.astype(block.dtype)
    )
    K = M @ M.T
    return (K.toarray() if sp.issparse(K) else K).astype(np.float64)


def inner_gram(block: Points, _: Any, columns: tuple[IntArray, FloatArray]) -> FloatArray:
    """``M_i' M_i`` for these columns, scaled."""
    indices, scale = columns
    M = block[:, indices]
    M = M @ sp.diags_array(scale) if sp.issparse(M) else M * scale
    K = M.T @ M
    return np.asarray((K.toarray() if sp.issparse(K) else K).astype(np.float64))
