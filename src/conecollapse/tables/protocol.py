r"""`Table`: what is factorized, samples x features, however it is stored.

Everything above this package asks a table for products and a few numbers, and never how it is
stored. A kind of storage is one file that says how

.. math:: X B, \qquad X^T C, \qquad \text{lengths of rows and columns}

are had; the rest of this class follows from them. What a kind cannot do (an operator has no
entries, a file has no neighbours) it refuses by an error that says what to do instead.

*Normal equations.* Methods of least squares see X only through `Table.row_equations`: for fixed H
the squared error of row i is

.. math:: \|x_i\|^2 - 2\, c_i \cdot w_i + w_i^T G_i w_i , \qquad C = X H^T .

For a table whose entries all count the same, :math:`G_i = H H^T` is one matrix for all rows. A
table whose entries have weights (missing ones among them) gives an `Equations` of its own, in which
rows with the same weights share one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse.linalg as spla

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, gram_of, power_of_two
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Points, Sparse
from conecollapse.tables.divergence import Effort


class Table(ABC):
    """``X (n_samples, n_features)``: ``X @ B``, ``X.T @ C``, and the numbers about it that the
    methods need.

    Attributes
    ----------
    shape : (n_samples, n_features)
    dtype : float32 or float64
    is_sparse : bool
        Whether most entries are zero and not stored.
    in_memory : bool
        Whether `array` is at hand.
    inverse : CSR array or None
        The inverse of the table, where it is square and the inverse is known to exist and to be
        sparse.
    is_complete : bool
        Whether no entry is missing or has a weight.
    has_uncertainties : bool
        Whether entries have weights that the user gave, so that residuals can be compared with
        them.
    """

    kind: ClassVar[str] = "a table"  # for messages
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    is_sparse: bool = False
    in_memory: bool = False
    inverse: Sparse | None = None
    is_complete: bool = True
    has_uncertainties: bool = False

    # what a kind must say

    @abstractmethod
    def times(self, B: AnyArray) -> AnyArray:
        """``X B`` for a dense B."""

    @abstractmethod
    def transposed_times(self, C: Any) -> AnyArray:
        """``X' C`` for C dense, or sparse with few entries in each row."""

    @property
    @abstractmethod
    def row_lengths(self) -> FloatArray:
        """Length of each sample, in float64."""

    @property
    @abstractmethod
    def column_lengths(self) -> FloatArray:
        """Length of each feature, in float64."""

    # what some kinds can do, and the others refuse

    @property
    def array(self) -> Points:
        """The entries, as a dense array or a CSR array in memory."""
        raise InvalidInputError(f"this needs the whole table in memory, and X is {self.kind}.")

    @property
    def peak(self) -> float:
        """The largest entry."""
        raise InvalidInputError(f"this needs the entries of X, which is {self.kind}.")

    def rows(self, indices: IntArray) -> Table:
        """These samples."""
        raise InvalidInputError(f"this needs the whole table in memory, and X is {self.kind}.")

    def columns(self, indices: IntArray, scale: FloatArray | None = None) -> Table:
        """These features, each multiplied by its number in ``scale``."""
        raise InvalidInputError(f"this needs single columns of X, which is {self.kind}.")

    def points(self) -> Points:
        """The features as rows of a dense array or a CSR array: the points of the cone."""
        raise InvalidInputError(f"this needs the columns of X, which is {self.kind}.")

    def map_columns(
        self, work: Callable[[Points, Any], Any], indices: IntArray, shared: Any
    ) -> list[Any]:
        """``work(points, shared)`` for these features as rows of arrays: all at once, or those of
        each block."""
        return [work(self.points()[indices], shared)]

    def transposed(self) -> Table:
        """The table with samples and features exchanged."""
        raise InvalidInputError(f"this needs the whole table in memory, and X is {self.kind}.")

    def in_parts(self) -> Iterator[Table]:
        """The samples in tables that are in memory: this one, or its blocks one after the other."""
        raise InvalidInputError(f"this needs the samples of X, which is {self.kind}.")

    def row_keys(self) -> list[bytes]:
        """For each sample a key of 16 bytes that identical samples share."""
        raise InvalidInputError(f"this needs the whole table in memory, and X is {self.kind}.")

    def shuffled(self, rng: np.random.Generator) -> Table:
        """Each feature with its values dealt anew over the samples."""
        raise InvalidInputError(f"this needs the whole table in memory, and X is {self.kind}.")

    def gram(self, *, cheaply: bool = True) -> AnyArray | None:
        """``X X'`` or ``X' X``, whichever is smaller, as a dense array; None where it cannot be
        had, or not cheaply."""
        return None

    def quotients(self) -> Quotients:
        """Products with ``X / (W H)``, for losses that look at single entries."""
        raise InvalidInputError(
            f"the Kullback-Leibler loss needs single entries of X, which is {self.kind}; use the"
            " Frobenius loss."
        )

    def divided(self, unit: float) -> Table:
        """``X / unit`` in float64, where ``unit`` is a power of two."""
        raise InvalidInputError(f"this needs the entries of X, which is {self.kind}.")

    def row_scaled(self, scale: FloatArray) -> Table:
        """Each sample multiplied by its number in ``scale``."""
        raise InvalidInputError(
            f"sample_weight needs the whole table in memory, and X is {self.kind}."
        )

    @property
    def row_units(self) -> FloatArray:
        """For each sample a power of two near its length, whatever the weights of its entries."""
        return power_of_two(self.row_lengths)

    def excess(self, W: AnyArray, H: AnyArray) -> Table:
        """``max(X - W H, 0)``: what components that are known leave to explain."""
        raise InvalidInputError(
            f"fixed_components need the whole table in memory, and X is {self.kind}."
        )

    def checked(self) -> Table:
        """The table, after a look at its entries that refuses those that cannot be used; arrays are
        checked before they are tables."""
        return self

    def wrap(self, per_sample: AnyArray) -> Any:
        """An array with an entry for each sample, in the kind of array that the table came from."""
        return per_sample

    # what only tables with weights or missing entries do in a way of their own

    def known_entries(self) -> tuple[AnyArray, BoolArray]:
        """The entries as a dense array, zero where they are missing, and which of them are
        known."""
        return as_dense(self.array), np.ones(self.shape, bool)

    def completed(self, sample_weight: FloatArray | None = None) -> Table:
        """The table with guesses in place of missing entries, and without weights of entries: what
        starts are made of. Samples are multiplied by the roots of their weights: sums of squares
        are then those of a table in which samples are repeated."""
        if sample_weight is None or (sample_weight == 1).all():
            return self
        return self.row_scaled(np.sqrt(sample_weight))

    def scaled_start(
        self,
        W: AnyArray,
        H: AnyArray,
        sample_weight: FloatArray | None = None,
    ) -> tuple[AnyArray, AnyArray]:
        """A random start (W, H) in the scale of the table, where its mean entry is not enough for
        that."""
        return W, H

    def group_means(self, members: AnyArray) -> AnyArray:
        """Mean sample of each group, where ``members`` (n_samples, groups) says who belongs to it,
        and with what weight; zero for groups of no one."""
        sums, counts = self.transposed_times(members).T, members.sum(axis=0)[:, None]
        return np.asarray(sums / np.where(counts > 0, counts, 1))

    def downweighted(
        self, W: AnyArray, H: AnyArray, limit: float | FloatArray
    ) -> tuple[Table, float]:
        """The table whose entries have less weight where ``W H`` is more than ``limit`` standard
        deviations off (one number, or one for each row), and Huber's loss, with the penalty of the
        table.
        """
        raise InvalidInputError(
            "robust compares residuals with their uncertainties; pass weights=1 / sigma**2 to"
            " `fit`."
        )

    # what follows

    def __matmul__(self, B: AnyArray) -> AnyArray:
        return self.times(B)

    @property
    def T(self) -> Transposed:
        """Only for products: ``X.T @ C``."""
        return Transposed(self)

    @property
    def squared_norm(self) -> float:
        """Sum of the squares of the entries, in float64."""
        return float(np.square(self.column_lengths).sum())

    @cached_property
    def mean_entry(self) -> float:
        """Mean over all entries, zeros included."""
        n, m = self.shape
        return float(self.times(np.ones((m, 1), self.dtype)).sum(dtype=np.float64)) / (n * m)

    @property
    def n_entries(self) -> int:
        """How many entries are not zero, as far as that is known: what a product costs."""
        return self.shape[0] * self.shape[1]

    @property
    def filled(self) -> BoolArray:
        """Which samples are not all zero."""
        return self.row_lengths > 0

    @property
    def filled_columns(self) -> BoolArray:
        """Which features are not all zero."""
        return self.column_lengths > 0

    @property
    def is_rounded(self) -> bool:
        """Whether the entries may carry the rounding of float32."""
        return bool(self.dtype == np.float32)

    def row_equations(self, H: AnyArray) -> Equations:
        """The normal equations of every row of W in ``min |X - W H|^2``."""
        return Equations(gram_of(H.T), self.times(H.T))

    def column_equations(self, W: AnyArray) -> Equations:
        """The normal equations of every column of H, as rows."""
        return Equations(gram_of(W), self.transposed_times(W))

    def operator(self) -> spla.LinearOperator:
        """For SciPy's iterative methods."""
        return _Operator(self)


@dataclass(frozen=True)
class Transposed:
    """``X.T``, for products."""

    table: Table

    def __matmul__(self, C: Any) -> AnyArray:
        return self.table.transposed_times(C)


class Part(NamedTuple):
    """Normal equations of some rows: row i of ``C`` belongs to the matrix ``G[of[i]]``."""

    rows: slice
    G: AnyArray  # (matrices, r, r)
    of: IntArray
    C: AnyArray


class Equations:
    """Normal equations of many rows: ``min w G w' - 2 c w'`` over w >= 0 for each row c of C. Here
    all rows share one matrix G."""

    def __init__(self, G: AnyArray, C: AnyArray) -> None:
        self._G = G
        self.C = C  # (rows, r)

    @property
    def G(self) -> AnyArray:
        """The matrix of all rows, (r, r)."""
        return self._G

    def parts(self) -> Iterator[Part]:
        """The equations in parts of moderate size: one, unless rows have matrices of their own."""
        yield Part(slice(None), self._G[None], np.zeros(len(self.C), np.int64), self.C)

    def plus(self, added: AnyArray | float) -> Equations:
        """The equations with ``G + added``."""
        return Equations(self._G + added, self.C)

    def applied(self, W: AnyArray) -> AnyArray:
        """``w G`` for each row."""
        return W @ self._G

    def error(self, norm2: float, W: AnyArray, WtW: AnyArray | None = None) -> float:
        """``|X - W H|^2 = |X|^2 - 2 <C, W> + <W'W, G>``, without a residual matrix; never below
        zero."""
        cross = np.einsum("ij,ij->", self.C, W, dtype=np.float64)
        model = np.einsum("ij,ij->", gram_of(W) if WtW is None else WtW, self._G, dtype=np.float64)
        return max(float(norm2 - 2 * cross + model), 0.0)


class Quotients(ABC):
    """Products with ``Q = X / (W H)``, which is needed only where X > 0."""

    total: float  # sum of X
    unit: float = 1.0  # what weights, and so all sums and penalties, are divided by

    @abstractmethod
    def right(self, W: AnyArray, H: AnyArray) -> tuple[AnyArray, float]:
        """``Q H'`` and the sum of x log(x / wh)."""

    @abstractmethod
    def left(self, W: AnyArray, H: AnyArray) -> AnyArray:
        """``W' Q``."""

    @abstractmethod
    def improved(
        self, W: AnyArray, H: AnyArray, effort: Effort, totals: AnyArray | None = None
    ) -> tuple[AnyArray, float]:
        """W after coordinate descent on each row, which never raises its divergence, and the sum of
        x log(x / wh) for it.

        ``totals`` are `totals` if something else: a coefficient whose total is zero does not move.
        """

    def totals(self, H: AnyArray) -> AnyArray:
        """What the sum of the model grows by with each coefficient, (1, r), or (rows, r) where rows
        differ in it."""
        return H.sum(axis=1, dtype=np.float64)[None, :]

    def model_sum(self, W: AnyArray, H: AnyArray) -> float:
        """Sum of ``W H`` over the entries that count, each as often as it counts."""
        totals = self.totals(H)
        return (
            float(W.sum(axis=0, dtype=np.float64) @ totals[0])
            if len(totals) == 1
            else float(np.einsum("ij,ij->", W, totals))
        )

    @abstractmethod
    def transposed(self) -> Quotients:
        """The same for the table with samples and features exchanged."""


class _Operator(spla.LinearOperator):  # type: ignore[misc]
    def __init__(self, table: Table) -> None:
        super().__init__(dtype=table.dtype, shape=table.shape)
        self.table = table

    def _matmat(self, B: AnyArray) -> AnyArray:
        return self.table.times(B)

    def _rmatmat(self, C: AnyArray) -> AnyArray:
        return self.table.transposed_times(C)
