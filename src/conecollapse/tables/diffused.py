r"""A table diffused over a graph, ``R (I - a N)^-1 B``, which is applied and never formed.

The eigenvalues of a normalised graph N lie in [-1, 1], so those of :math:`I - aN` lie in
:math:`[1 - a, 1 + a]`: Chebyshev's iteration solves with it to full precision in a number of sparse
products that does not grow with the number of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import RowBlocks, as_dense, row_lengths, scaled_columns
from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Sparse
from conecollapse.tables.in_memory import DenseQuotients
from conecollapse.tables.protocol import Quotients, Table

# random vectors from which the lengths of rows and columns are estimated, to about 6 %
N_PROBES = 256
PROBE_ENTRIES = 2**24  # of the vectors that are multiplied at once: 64 MiB in float32
PRODUCT_ROWS = 1024  # of a product of a sparse array and a table that are formed at a time


class DiffusedTable(Table):
    """``M = R (I - damping N)^-1 B``; B is the identity or has a row for each sample, R is the
    identity or a diagonal of row weights.

    ``unit_rows=True`` chooses the R that gives all rows of M the same length, times
    ``row_weights``. Lengths and the largest entry come from random vectors of a fixed seed: for z
    with independent entries +1 or -1, the expected square of (M z)_i is the squared length of row
    i.
    """

    kind = "a diffused graph, which is applied and never formed"

    def __init__(
        self,
        N: Sparse,
        damping: float,
        base: Points | None = None,
        *,
        row_weights: AnyArray | None = None,
        unit_rows: bool = False,
        accuracy: float | None = None,
        n_probes: int = N_PROBES,
        dtype: Any = np.float64,
    ) -> None:
        n = N.shape[0]
        self.N = sp.csr_array(N).astype(dtype)
        self.damping = float(damping)
        self.n_probes = n_probes
        self.base = base
        self.accuracy = float(np.finfo(dtype).eps) if accuracy is None else accuracy
        self.shape = (n, n if base is None else base.shape[1])
        self.dtype = np.dtype(dtype)
        self.coefficients = _chebyshev(self.damping, self.accuracy)
        self.row_scale: AnyArray | None = None  # (n, 1)
        if base is None and not unit_rows and row_weights is None:
            self.inverse = sp.csr_array(sp.eye_array(n) - self.damping * sp.csr_array(N))
        lengths = self._estimated(self.times, self.shape[1])
        weights = np.ones(n) if row_weights is None else row_weights
        if unit_rows:
            self.row_scale = (weights / np.where(lengths > 0, lengths, 1.0)).astype(dtype)[:, None]
            lengths = np.where(lengths > 0, weights, 0.0)
        elif row_weights is not None:
            self.row_scale = weights.astype(dtype)[:, None]
            lengths = lengths * weights
        self._row_lengths = lengths

    def _probes(self, n: int) -> Iterator[AnyArray]:
        """Random vectors of length n, as many at a time as fit into `PROBE_ENTRIES`."""
        rng = np.random.default_rng(0)
        width = min(max(PROBE_ENTRIES // max(self.shape), 1), self.n_probes)
        for start in range(0, self.n_probes, width):
            yield rng.choice([-1.0, 1.0], size=(n, min(width, self.n_probes - start))).astype(
                self.dtype
            )

    def _estimated(self, product: Callable[[AnyArray], AnyArray], n: int) -> FloatArray:
        """Lengths of the rows of what ``product`` multiplies by."""
        squares = (np.square(product(Z)).sum(axis=1, dtype=np.float64) for Z in self._probes(n))
        return np.asarray(np.sqrt(sum(squares) / self.n_probes))

    @property
    def row_lengths(self) -> FloatArray:
        return self._row_lengths

    @cached_property
    def column_lengths(self) -> FloatArray:
        if self.base is None and self.row_scale is None:  # symmetric
            return self._row_lengths
        return self._estimated(self.transposed_times, self.shape[0])

    @property
    def squared_norm(self) -> float:
        return float(np.square(self._row_lengths).sum())

    @cached_property
    def peak(self) -> float:
        """The largest entry of ``(I - damping N)^-1``, estimated: it is positive definite, so that
        entry is on the diagonal."""
        diagonal = sum(
            (Z * self.solve(Z)).sum(axis=1, dtype=np.float64) for Z in self._probes(self.shape[0])
        )
        return float(np.max(diagonal)) / self.n_probes

    def solve(self, B: AnyArray) -> AnyArray:
        """``(I - damping N)^-1 B`` by Chebyshev's iteration; of a non-negative B it is
        non-negative."""
        B = np.asarray(B, self.dtype)
        step, inertia = self.coefficients
        Y = step[0] * B
        change, new = Y.copy(), np.empty_like(Y)
        for omega, beta in zip(step[1:], inertia[1:], strict=True):
            self._blocks.each(partial(self._step, B, Y, change, new, omega, beta))
            Y, new = new, Y
        return np.maximum(Y, 0, out=Y) if B.size and B.min() >= 0 else Y

    def _step(
        self,
        B: AnyArray,
        Y: AnyArray,
        change: AnyArray,
        new: AnyArray,
        omega: float,
        beta: float,
        N: Sparse,
        rows: slice,
    ) -> None:
        """Some rows of one step: the change is ``beta change + omega (B - Y + damping N Y)``."""
        residual = N @ Y
        residual *= self.damping
        residual -= Y[rows]
        residual += B[rows]
        residual *= omega
        change[rows] *= beta
        change[rows] += residual
        np.add(Y[rows], change[rows], out=new[rows])

    @cached_property
    def _blocks(self) -> RowBlocks:
        return RowBlocks(self.N)

    def unscaled_times(self, B: AnyArray) -> AnyArray:
        """``(I - damping N)^-1 B`` applied to the base, before rows are scaled."""
        return self.solve(B if self.base is None else np.asarray(self.base @ B))

    def times(self, B: AnyArray) -> AnyArray:
        Y = self.unscaled_times(B)
        return Y if self.row_scale is None else Y * self.row_scale

    def transposed_times(self, C: Any) -> AnyArray:
        C = as_dense(C)
        Y = self.solve(C if self.row_scale is None else C * self.row_scale)
        return Y if self.base is None else np.asarray(self.base.T @ Y)

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> DiffusedTable:
        base = sp.eye_array(self.shape[0], format="csr") if self.base is None else self.base
        picked = base[:, indices] if scale is None else scaled_columns(base[:, indices], scale)
        base = (sp.csr_array(picked) if sp.issparse(picked) else picked).astype(self.dtype)
        weights = None if self.row_scale is None else self.row_scale[:, 0]
        return DiffusedTable(
            self.N,
            self.damping,
            base,
            row_weights=weights,
            accuracy=self.accuracy,
            n_probes=self.n_probes,
            dtype=self.dtype,
        )


class ProductTable(Table):
    """``E X`` for a CSR array E (rows, n_samples) and a table X; it is not formed, but for a loss
    that needs its entries."""

    kind = "a product, which is applied and not formed"

    def __init__(self, E: Sparse, table: Table) -> None:
        self.E = E
        self.table = table
        self.shape = (E.shape[0], table.shape[1])
        self.dtype = table.dtype

    def times(self, B: AnyArray) -> AnyArray:
        return np.asarray(self.E @ self.table.times(B))

    def transposed_times(self, C: Any) -> AnyArray:
        return self.table.transposed_times(self.E.T @ as_dense(C))

    @cached_property
    def row_lengths(self) -> FloatArray:
        return np.concatenate([row_lengths(rows) for rows in self._blocks()])

    @cached_property
    def column_lengths(self) -> FloatArray:
        return np.sqrt(
            sum(np.einsum("ij,ij->j", rows, rows, dtype=np.float64) for rows in self._blocks())
        )

    def quotients(self) -> Quotients:
        return DenseQuotients(np.concatenate(list(self._blocks())))

    def _blocks(self) -> Any:
        for a in range(0, self.shape[0], PRODUCT_ROWS):
            yield np.ascontiguousarray(
                self.table.transposed_times(self.E[a : a + PRODUCT_ROWS].toarray().T).T
            )


def _chebyshev(damping: float, accuracy: float) -> tuple[list[float], list[float]]:
    """Steps and inertias of Chebyshev's iteration for eigenvalues in [1 - a, 1 + a]: centre 1,
    radius a.

    The error falls by ``a / (1 + sqrt(1 - a^2))`` at each step (Saad, Iterative methods, algorithm
    12.1).
    """
    fall = damping / (1 + np.sqrt(1 - damping**2))
    count = int(np.ceil(np.log(accuracy) / np.log(fall))) + 1
    step, inertia, rho = [1.0], [0.0], damping
    for _ in range(count):
        new = 1 / (2 / damping - rho)
        step.append(2 * new / damping)
        inertia.append(new * rho)
        rho = new
    return step, inertia  # Python numbers, which leave float32 as it is
