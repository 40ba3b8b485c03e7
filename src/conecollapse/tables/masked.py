r"""A table whose entries have weights: zero where an entry is missing, :math:`1 / \sigma^2` where
its uncertainty is known.

The squared error and the divergence count each entry as often as its weight says,

.. math:: \sum_{ij} q_{ij} (x_{ij} - (W H)_{ij})^2 , \qquad
          \sum_{ij} q_{ij} \Big( x_{ij} \log \frac{x_{ij}}{(W H)_{ij}} - x_{ij} + (W H)_{ij} \Big) .

*Normal equations.* For fixed H, row i of W has the matrix and the right-hand side

.. math:: G_i = H\, \mathrm{diag}(q_i)\, H^T , \qquad c_i = (q_i \circ x_i) H^T .

Rows with the same weights share :math:`G_i`. The matrices of many rows are one product of the
weights with all products of two rows of H. They are formed for a block of rows at a time. Entries
of weight zero are stored as zeros, or, in a sparse table, not at all; there every stored entry is
known, a stored zero too.

*Divergence.* With :math:`q \circ x` in place of x, only the sum of the model changes: it grows by
:math:`\sum_j q_{ij} h_{kj}` with :math:`w_{ik}`.

*Shrinkage.* A component whose features are missing in a row can have any coefficient there. With a
share :math:`\lambda > 0` the squared error grows by :math:`\sum_k \lambda_k \|w_k\|^2 \|h_k\|^2`,
squares of what each component contributes to all entries, known or not, and the divergence by
:math:`\sum_k \lambda_k` times the sum of that contribution. For fixed H the first adds
:math:`\lambda_k \|h_k\|^2` to the diagonal of :math:`G_i`, so that all methods which work with
normal equations lower it (`MaskedTable.shrunk`). :math:`\lambda_k = \lambda` but for the first
component, which may describe the general level of rows and columns: there it is
:math:`\lambda / 10` times the share of the entries that are known. So with a large :math:`\lambda`
one component is left, rather than none.

*Large residuals.* Huber's loss is the square of :math:`z = \sqrt q\, (x - (WH))` up to a limit
:math:`\alpha`, and :math:`2 \alpha |z| - \alpha^2` beyond it. The weighted squares with
:math:`q \alpha / |z|` in place of q for the entries beyond the limit touch it from above, so a step
that lowers them lowers the loss (`MaskedTable.downweighted`).
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from conecollapse._errors import InvalidInputError
from conecollapse._kernels import kernel
from conecollapse._linalg import as_dense, power_of_two, row_lengths
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points
from conecollapse.tables.csr import CsrTable, held, sampled_product
from conecollapse.tables.divergence import Effort
from conecollapse.tables.guessed import GuessedTable, rank_one_guess
from conecollapse.tables.in_memory import BLOCK, DenseTable, InMemoryTable, scaled_entries
from conecollapse.tables.protocol import Equations, Part, Quotients, Table

GRAMS = 2**21  # entries of normal equations that are formed at once: 16 MiB
PAIRS = 2**20  # products of two rows of H that are formed at once
FIRST = 0.1  # of the penalty, times the share of known entries: for the first component


class MaskedTable(Table):
    """Values and weights, stored alike: two dense arrays, or two CSR arrays with the same places.
    Values are zero where weights are."""

    kind = "a table with missing entries or weights"
    is_complete = False
    shrinkage = 0.0

    def __init__(
        self, values: InMemoryTable, weights: InMemoryTable, has_uncertainties: bool = False
    ) -> None:
        self.has_uncertainties = has_uncertainties
        self.values = values
        self.weights = weights
        self.shape = values.shape
        self.dtype = values.dtype
        self.is_sparse = values.is_sparse

    @classmethod
    def of(cls, values: Points, weights: Points, has_uncertainties: bool = False) -> MaskedTable:
        """The table of two arrays that are stored alike."""
        return cls(held(values), held(weights), has_uncertainties)

    def shrunk(self, shrinkage: float) -> MaskedTable:
        """The same entries; errors, equations and quotients with this share of the penalty of the
        module's text."""
        if shrinkage == self.shrinkage:
            return self
        table, turned = copy(self), copy(self.transposed())
        for one, other in ((table, turned), (turned, table)):
            one.shrinkage = shrinkage
            one.__dict__["_transposed"] = other
        return table

    def penalties(self, r: int) -> FloatArray:
        """The share of the penalty for each of r components."""
        out = np.full(r, self.shrinkage)
        out[0] *= FIRST * np.count_nonzero(self.weights.entries) / (self.shape[0] * self.shape[1])
        return out

    # products: of the weighted entries

    @cached_property
    def weighted(self) -> InMemoryTable:
        """Each entry times its weight."""
        return self._like(self.values.entries * self.weights.entries)

    def positive(self) -> InMemoryTable:
        """`weighted` without stored zeros."""
        if not self.is_sparse:
            return self.weighted
        array = self.weighted.array.copy()
        array.eliminate_zeros()
        return CsrTable(array)

    def times(self, B: AnyArray) -> AnyArray:
        return self.weighted.times(B)

    def transposed_times(self, C: Any) -> AnyArray:
        return self.weighted.transposed_times(C)

    def row_equations(self, H: AnyArray) -> Equations:
        return WeightedEquations(self, H)

    def column_equations(self, W: AnyArray) -> Equations:
        return WeightedEquations(self.transposed(), W.T)

    def quotients(self) -> Quotients:
        return WeightedQuotients(self)

    # numbers

    @cached_property
    def row_lengths(self) -> FloatArray:
        return self._like(self.values.entries * np.sqrt(self.weights.entries)).row_lengths

    @cached_property
    def column_lengths(self) -> FloatArray:
        return self._like(self.values.entries * np.sqrt(self.weights.entries)).column_lengths

    @cached_property
    def squared_norm(self) -> float:
        """Weighted."""
        return self._like(self.values.entries * np.sqrt(self.weights.entries)).squared_norm

    @cached_property
    def mean_entry(self) -> float:
        """Weighted."""
        return float(self.weighted.entries.sum(dtype=np.float64)) / float(
            self.weights.entries.sum(dtype=np.float64)
        )

    @property
    def peak(self) -> float:
        return self.values.peak

    @property
    def n_entries(self) -> int:
        return self.weights.n_entries

    @property
    def filled(self) -> BoolArray:
        return self.values.filled

    @property
    def filled_columns(self) -> BoolArray:
        return self.values.filled_columns

    @property
    def is_rounded(self) -> bool:
        return self.values.is_rounded

    # other tables

    def _like(self, entries: AnyArray) -> InMemoryTable:
        """A table of numbers at the places of this one."""
        array = self.values.array
        if self.is_sparse:
            return CsrTable(sp.csr_array((entries, array.indices, array.indptr), shape=self.shape))
        return DenseTable(entries.reshape(self.shape))

    def rows(self, indices: IntArray) -> MaskedTable:
        return MaskedTable.of(
            self.values.array[indices], self.weights.array[indices], self.has_uncertainties
        )

    def transposed(self) -> MaskedTable:
        return self._transposed

    @cached_property
    def _transposed(self) -> MaskedTable:
        turned = MaskedTable.of(*(_turned(table.array) for table in (self.values, self.weights)))
        turned.__dict__["_transposed"] = self
        return turned

    def divided(self, unit: float) -> MaskedTable:
        weights = self.weights.array.astype(np.float64, copy=False)
        return MaskedTable.of(self.values.divided(unit).array, weights, self.has_uncertainties)

    def with_weights_over(self, unit: float) -> MaskedTable:
        """The table with weights and penalties divided by a power of two: the same problem, in
        another unit of its objective."""
        if unit == 1:
            return self
        table = MaskedTable(
            self.values,
            self._like(scaled_entries(self.weights.entries, unit)),
            self.has_uncertainties,
        )
        return table.shrunk(self.shrinkage / unit)

    @property
    def row_units(self) -> FloatArray:
        return self.values.row_units

    def row_scaled(self, scale: FloatArray) -> MaskedTable:
        return MaskedTable.of(
            self.values.row_scaled(scale).array, self.weights.array, self.has_uncertainties
        )

    def in_parts(self) -> Iterator[Table]:
        yield self

    def known_entries(self) -> tuple[AnyArray, BoolArray]:
        return as_dense(self.values.array), as_dense(self.weights.array) > 0

    def completed(self, sample_weight: FloatArray | None = None) -> Table:
        known = self._like((self.weights.entries > 0).astype(np.float64))
        root = None if sample_weight is None else np.sqrt(sample_weight)
        values = self.values if root is None else cast(InMemoryTable, self.values.row_scaled(root))
        guess = rank_one_guess(values, known, root)
        if self.is_sparse:
            return GuessedTable(values, known, *guess)
        return DenseTable(
            np.where(known.array > 0, values.array, np.outer(*guess).astype(self.dtype, copy=False))
        )

    def scaled_start(
        self, W: AnyArray, H: AnyArray, sample_weight: FloatArray | None = None
    ) -> tuple[AnyArray, AnyArray]:
        """Each feature at the mean of its known entries, and the product at the size that fits
        best: features may differ in unit."""
        known = self._like((self.weights.entries > 0).astype(self.dtype))
        s = np.ones(len(W)) if sample_weight is None else sample_weight
        s = s[:, None].astype(self.dtype)
        counts = known.transposed_times(s)
        means = self.values.transposed_times(s) / np.where(counts > 0, counts, 1)
        H = H * means.T
        equations = self.row_equations(H)
        model = float(np.vdot(equations.applied(W), s * W))
        return W, H * (float(np.vdot(equations.C, s * W)) / model if model > 0 else 1.0)

    def group_means(self, members: AnyArray) -> AnyArray:
        sums, counts = self.transposed_times(members).T, self.weights.transposed_times(members).T
        return np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)

    def downweighted(
        self, W: AnyArray, H: AnyArray, limit: float | FloatArray
    ) -> tuple[Table, float]:
        weights = np.array(self.weights.entries)
        loss = float(
            self.penalties(len(H)) @ (np.square(row_lengths(W.T)) * np.square(row_lengths(H)))
        )
        rows = self.places(np.arange(len(weights)))[0] if np.ndim(limit) else None
        for piece, x, q, model in self._pieces(W, H):
            z = np.sqrt(q) * np.abs(x - model)
            most = limit if rows is None else np.asarray(limit)[rows[piece]]
            scale = np.divide(most, z, out=np.ones_like(z), where=z > most)
            # beyond the limit 2 limit z - limit^2
            loss += float((np.square(z) * scale * (2 - scale)).sum(dtype=np.float64))
            weights[piece] *= scale
        table = MaskedTable(self.values, self._like(weights))
        # no two rows alike
        table.__dict__["patterns"] = np.arange(self.shape[0]), np.arange(self.shape[0])
        return table.shrunk(self.shrinkage), loss

    # entry by entry

    def places(self, entries: IntArray) -> tuple[IntArray, IntArray]:
        """Rows and columns of entries, which are given by their numbers among those that are
        stored."""
        if not self.is_sparse:
            return np.divmod(entries, self.shape[1])
        array = self.values.array
        return np.searchsorted(array.indptr, entries, side="right") - 1, array.indices[
            entries
        ].astype(np.int64)

    def without(self, entries: IntArray) -> MaskedTable:
        """The table in which these entries are missing, too."""
        if self.is_sparse:  # every stored entry is known, so these are not stored
            kept = np.ones(len(self.values.entries), bool)
            kept[entries] = False
            array = self.values.array
            indptr = np.append(0, np.cumsum(kept))[array.indptr]
            values, weights = (
                sp.csr_array((one[kept], array.indices[kept], indptr), shape=self.shape)
                for one in (array.data, self.weights.entries)
            )
            return MaskedTable.of(values, weights, self.has_uncertainties)
        values, weights = np.array(self.values.entries), np.array(self.weights.entries)
        values[entries] = weights[entries] = 0
        return MaskedTable(self._like(values), self._like(weights), self.has_uncertainties)

    def _pieces(
        self, W: AnyArray, H: AnyArray
    ) -> Iterator[tuple[slice, AnyArray, AnyArray, AnyArray]]:
        """Places among the entries, and there x, weights and ``W H``, a block of rows at a time; of
        a sparse table only known ones."""
        x, q = self.values.entries, self.weights.entries
        if self.is_sparse:
            yield slice(None), x, q, sampled_product(self.values.array, W, H)
            return
        n, m = self.shape
        step = max(1, BLOCK // m)
        for a in range(0, n, step):
            piece = slice(a * m, min(a + step, n) * m)
            yield piece, x[piece], q[piece], (W[a : a + step] @ H).reshape(-1)

    def squared_error(self, W: AnyArray, H: AnyArray) -> float:
        """Weighted."""
        return sum(
            float((q * np.square(x - model)).sum(dtype=np.float64))
            for _, x, q, model in self._pieces(W, H)
        )

    def weighted_model(self, W: AnyArray, H: AnyArray) -> InMemoryTable:
        """Weights times ``W H``."""
        out = np.empty_like(self.weights.entries)
        for piece, _, q, model in self._pieces(W, H):
            np.multiply(q, model, out=out[piece])
        return self._like(out)

    @cached_property
    def patterns(self) -> tuple[IntArray, IntArray]:
        """Which pattern of weights each row has, and a row of each pattern."""
        index: dict[bytes, int] = {}
        keys = self.weights.row_keys()
        of = np.array([index.setdefault(key, len(index)) for key in keys])
        first = np.full(len(index), len(keys))
        np.minimum.at(first, of, np.arange(len(keys)))
        return of, first


class WeightedEquations(Equations):
    """Normal equations in which each pattern of weights has a matrix, ``G_i = H diag(q_i) H'``."""

    def __init__(
        self,
        table: MaskedTable,
        H: AnyArray,
        C: AnyArray | None = None,
        added: AnyArray | float = 0.0,
    ) -> None:
        self.table = table
        self.H = H
        self.C = table.times(H.T) if C is None else C
        self.added = added  # to each of the matrices
        # to their diagonals, and to the error
        self.ridge = table.penalties(len(H)) * np.square(H, dtype=np.float64).sum(axis=1)

    @property
    def G(self) -> AnyArray:
        raise InvalidInputError(
            "this method cannot use missing entries (NaN) or weights; HierarchicalNMF can."
        )

    def plus(self, added: AnyArray | float) -> Equations:
        return WeightedEquations(self.table, self.H, self.C, self.added + added)

    def parts(self) -> Iterator[Part]:
        of, first = self.table.patterns
        r, n = len(self.H), len(self.C)
        step = n if len(first) * r * r <= GRAMS else max(1, GRAMS // (r * r))
        added = self.added + np.diag(self.ridge)
        for a in range(0, n, step):
            rows = slice(a, min(a + step, n))
            shown, of_rows = np.unique(of[rows], return_inverse=True)
            yield Part(
                rows,
                grams(self.table.weights, first[shown], self.H) + added,
                of_rows.ravel(),
                self.C[rows],
            )

    def applied(self, W: AnyArray) -> AnyArray:
        out = self.table.weighted_model(W, self.H).times(self.H.T)
        return out + W @ (self.added + np.diag(self.ridge)).astype(W.dtype, copy=False)

    def error(self, norm2: float, W: AnyArray, WtW: AnyArray | None = None) -> float:  # noqa: ARG002
        return self.table.squared_error(W, self.H) + float(
            np.square(W, dtype=np.float64).sum(axis=0) @ self.ridge
        )


def grams(weights: InMemoryTable, rows: IntArray, H: AnyArray) -> FloatArray:
    """``H diag(q) H'`` for these rows q of the weights."""
    r, m = H.shape
    if weights.is_sparse:
        out, Q, Ht = np.zeros((len(rows), r, r)), weights.array, np.ascontiguousarray(H.T)
        for_ranges(
            lambda start, stop: _add_grams(Q.indptr, Q.indices, Q.data, rows, Ht, out, start, stop),
            len(rows),
            smallest=64,
        )
        return out
    upper = np.triu_indices(r)
    products = np.zeros((len(rows), len(upper[0])))
    step = max(1, PAIRS // len(upper[0]))
    for a in range(0, m, step):
        columns = H[:, a : a + step]
        products += weights.array[rows, a : a + step] @ (columns[upper[0]] * columns[upper[1]]).T
    out = np.empty((len(rows), r, r))
    out[:, upper[0], upper[1]] = products
    out[:, upper[1], upper[0]] = products
    return out


class WeightedQuotients(Quotients):
    """The quotients of ``q x`` in place of x, with sums of the model that count each entry by its
    weight."""

    def __init__(self, table: MaskedTable) -> None:
        # so that q x is never far above the model, whose least value is a share of it
        self.unit = float(power_of_two(table.weights.peak))
        table = table.with_weights_over(self.unit)
        self.table = table
        self.plain = table.positive().quotients()
        self.total = self.plain.total
        q, qx = table.weights.entries, table.weighted.entries
        counted = qx > 0
        self.logs_of_weights = float((qx[counted] * np.log(q[counted])).sum(dtype=np.float64))

    def totals(self, H: AnyArray) -> AnyArray:
        H = np.asarray(H, np.float64)
        return self.table.weights.times(H.T) + self.table.penalties(len(H)) * H.sum(axis=1)

    def right(self, W: AnyArray, H: AnyArray) -> tuple[AnyArray, float]:
        QHt, logs = self.plain.right(W, H)
        return QHt, logs - self.logs_of_weights

    def left(self, W: AnyArray, H: AnyArray) -> AnyArray:
        return self.plain.left(W, H)

    def improved(
        self, W: AnyArray, H: AnyArray, effort: Effort, totals: AnyArray | None = None
    ) -> tuple[AnyArray, float]:
        out, logs = self.plain.improved(W, H, effort, self.totals(H) if totals is None else totals)
        return out, logs - self.logs_of_weights

    def transposed(self) -> Quotients:
        return WeightedQuotients(self.table.transposed())


def _turned(array: Points) -> Points:
    return sp.csr_array(array.T) if sp.issparse(array) else np.ascontiguousarray(array.T)


@kernel(fastmath=True)
def _add_grams(indptr, indices, weights, rows, Ht, out, start, stop):  # type: ignore[no-untyped-def]
    """Add ``q h h'`` to ``out[t]`` for all entries of row ``rows[t]``; both halves of the matrix in
    the end."""
    r = Ht.shape[1]
    for t in range(start, stop):
        G = out[t]
        for e in range(indptr[rows[t]], indptr[rows[t] + 1]):
            h, q = Ht[indices[e]], weights[e]
            for k in range(r):
                c = q * h[k]
                if c != 0:
                    for j in range(k, r):
                        G[k, j] += c * h[j]
        for k in range(r):
            for j in range(k):
                G[k, j] = G[j, k]
