"""Unit points, and groups of points that are one ray."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray, Points, Sparse

# any fixed direction in general position serves; fixed, so that runs repeat
_PROJECTION_SEED = 0x5EED
_ROUNDING = 1e-14
# sums of squares below this have lost digits to underflow
FAINT = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)
SAME = 1e-9  # share by which numbers may differ that would be equal without rounding
TINY = float(np.finfo(np.float32).eps)  # stands for a denominator that is zero
BLOCK_ROWS = 8192  # of a sparse matrix that are multiplied at once
CACHED = 2**16  # entries that stay in a core's cache: 512 KiB
# entries of a piece: one for so many of sparse points, within these bounds
PIECE_SHARE, LEAST_PIECE, LARGEST_PIECE = 16, 2**14, 2**20
LEAST_DENSE = 2**16  # of dense rows, which take less room for each entry
# multiplications of a dense product from which on it is worth our threads: a third of a millisecond
LARGE_PRODUCT = 2**22
# of a dense product: fewer rows at once, or more pieces, make BLAS slower
LEAST_ROWS, MOST_PIECES = 64, 16


def unit_rows(P: Points) -> tuple[Points, FloatArray]:
    """Rows scaled to unit length in float64, and their lengths; zero rows stay zero.

    Rows whose squares leave the range of floating point are divided by their largest entry first,
    so that neither 1e-200 nor 1e200 is lost.
    """
    if sp.issparse(P):
        return _unit_rows_sparse(P)
    U = np.empty(P.shape)
    lengths = np.empty(len(P))

    # a piece of rows at a time, so that all passes over it find it in cache
    def work(start: int, stop: int) -> None:
        for a in range(start, stop, step):
            rows = slice(a, min(a + step, stop))
            squares = np.einsum("ij,ij->i", P[rows], P[rows], dtype=np.float64)
            norms = np.sqrt(squares)
            lost = _lost(squares)
            norms[lost] = 1.0
            np.divide(P[rows], norms[:, None], out=U[rows])
            lengths[rows] = norms
            if len(lost):
                U[a + lost], lengths[a + lost] = _scaled_twice(P[a + lost])

    step = max(1, CACHED // U.shape[1])
    for_ranges(work, len(U), smallest=step)
    return U, lengths


def _lost(squares: FloatArray) -> IntArray:
    """Sums of squares that are out of range, or have lost digits there."""
    if squares.min(initial=1.0) >= FAINT and squares.max(initial=1.0) < np.inf:
        return np.zeros(0, np.int64)
    return np.flatnonzero(~((squares >= FAINT) & (squares < np.inf)))


def _scaled_twice(P: AnyArray) -> tuple[FloatArray, FloatArray]:
    """`unit_rows` of dense rows of any scale."""
    peak = np.abs(P).max(axis=1).astype(np.float64)
    U = P / np.where(peak > 0, peak, 1.0)[:, None]
    norms = row_norms(U)
    return U / np.where(norms > 0, norms, 1.0)[:, None], norms * peak


def _unit_rows_sparse(P: Sparse) -> tuple[Sparse, FloatArray]:
    counts, norms = np.diff(P.indptr), np.zeros(P.shape[0])
    U = csr_rows(P.data.astype(np.float64), P.indices, P.indptr, P.shape[1])
    for rows in row_pieces(counts, CACHED):
        filled = rows[counts[rows] > 0]
        if len(filled):
            first = U.indptr[filled[0]]
            data, starts = U.data[first : U.indptr[filled[-1] + 1]], U.indptr[filled] - first
            squares = np.add.reduceat(data * data, starts)
            peak, lost = np.ones(len(filled)), _lost(squares)
            if len(lost):
                peak[lost] = np.maximum.reduceat(np.abs(data), starts)[lost]
                data /= np.repeat(peak, counts[filled])
                squares[lost] = np.add.reduceat(data * data, starts)[lost]
            length = np.sqrt(squares)
            data /= np.repeat(length, counts[filled])
            norms[filled] = length * peak
    return U, norms


def narrow(M: Sparse) -> Sparse:
    """The CSR array with indices of 32 bits where these are enough."""
    return csr_rows(M.data, M.indices, M.indptr, M.shape[1])


def csr_rows(data: AnyArray, indices: AnyArray, indptr: AnyArray, n_columns: int) -> Sparse:
    """A CSR array with indices of 32 bits where these are enough."""
    shape = (len(indptr) - 1, n_columns)
    dtype = _index_type(*shape, len(data))
    return sp.csr_array(
        (data, indices.astype(dtype, copy=False), indptr.astype(dtype, copy=False)), shape=shape
    )


def _index_type(*sizes: int) -> type[np.int32] | type[np.int64]:
    """Integers that count up to all of ``sizes``: of 32 bits where these are enough."""
    return np.int32 if max(sizes) <= np.iinfo(np.int32).max else np.int64


def row_pieces(work: IntArray | FloatArray, most: int) -> list[IntArray]:
    """The places of ``work`` in pieces of about ``most`` in total."""
    total = np.cumsum(work, dtype=np.int64)
    if len(work) and total[-1] < most:
        return [np.arange(len(work))]
    return (
        np.split(np.arange(len(work)), np.flatnonzero(np.diff(total // most)) + 1)
        if len(work)
        else []
    )


def piece_entries(U: Points) -> int:
    """Entries of rows that may be held beside the points: they and what is made of them take less
    room than these."""
    return (
        int(np.clip(U.nnz // PIECE_SHARE, LEAST_PIECE, LARGEST_PIECE))
        if sp.issparse(U)
        else LARGEST_PIECE
    )


def dense_entries(U: Points) -> int:
    """As `piece_entries`, of dense rows."""
    return max(piece_entries(U), LEAST_DENSE)


def row_sizes(U: Points) -> IntArray:
    """How many entries each row has."""
    return np.diff(U.indptr) if sp.issparse(U) else np.full(U.shape[0], U.shape[1])


def column_counts(U: Sparse) -> FloatArray:
    """How many points have each coordinate."""
    counts = np.zeros(U.shape[1])
    for a in range(0, U.nnz, LARGEST_PIECE):
        counts += np.bincount(U.indices[a : a + LARGEST_PIECE], minlength=U.shape[1])
    return counts


def row_norms(R: Points) -> FloatArray:
    """Length of each row, dense or sparse."""
    if sp.issparse(R):
        R = sp.csr_array(R)
        rows = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr))
        return np.sqrt(np.bincount(rows, np.square(R.data), minlength=R.shape[0]))
    return np.sqrt(np.einsum("ij,ij->i", R, R))


def row_lengths(R: Points) -> FloatArray:
    """Length of each row in float64, whatever its scale: rows whose squares leave the range of
    floating point are scaled first."""
    if sp.issparse(R):
        squares = np.asarray(
            sp.csr_array(
                (np.square(R.data, dtype=np.float64), R.indices, R.indptr), shape=R.shape
            ).sum(axis=1)
        ).ravel()
    else:
        squares = np.einsum("ij,ij->i", R, R, dtype=np.float64)
    lengths = np.sqrt(squares)
    lost = np.flatnonzero(~((squares >= FAINT) & (squares < np.inf)))
    if len(lost):
        lengths[lost] = unit_rows(R[lost])[1]
    return lengths


@lru_cache(maxsize=4)
def projection(n: int) -> FloatArray:
    """The fixed random direction along which rows in n dimensions are sorted."""
    w = np.random.default_rng(_PROJECTION_SEED).standard_normal(n)
    w.flags.writeable = False
    return w


@lru_cache(maxsize=4)
def near_along(n: int, tol: float) -> float:
    """How far apart unit rows that are within ``tol`` of each other can be along `projection`,
    rounding included."""
    w = projection(n)
    return float(tol * np.linalg.norm(w) + _ROUNDING * np.abs(w).max(initial=0.0) * np.sqrt(n))


def merge_colinear(U: Points, tol: float) -> tuple[IntArray, float]:
    """For each unit row the index of its group's leader, the smallest index among rows within
    ``tol`` of that leader; and how far a row is from its leader at most.

    Rows are sorted along one fixed random direction w; rows within ``tol`` of each other are within
    ``tol |w|`` there, hence in one *run* of small gaps. In every round each run's first row becomes
    a leader, takes the rows within ``tol`` of it, and leaves with them. Rows of one run are near
    each other only along w, so runs are short unless rows are equal.
    """
    m, n = U.shape
    key = U @ projection(n)
    gap = near_along(n, tol)
    leader, apart = np.arange(m), 0.0
    if not (np.diff(np.sort(key)) <= gap).any():
        return leader, apart
    left = np.argsort(key, kind="stable")
    while True:
        close = np.diff(key[left]) <= gap
        if not close.any():
            return leader, apart
        crowded = np.concatenate([close, [False]])
        crowded[1:] |= close
        begins = np.concatenate([[True], ~close])[crowded]
        left = left[crowded]
        first = np.minimum.reduceat(left, np.flatnonzero(begins))[np.cumsum(begins) - 1]
        distance = pair_distances(U, left, first)
        near = distance <= tol
        leader[left[near]] = first[near]
        apart = max(apart, float(distance[near].max(initial=0.0)))
        left = left[~near]


def pair_distances(U: Points, a: IntArray, b: IntArray) -> FloatArray:
    """``|u_a - u_b|`` for paired indices, a block of rows at a time."""
    if not sp.issparse(U) and 2 * len(a) * U.shape[1] <= piece_entries(U):
        return row_norms(U[a] - U[b])
    out, sizes = np.empty(len(a)), row_sizes(U)
    for piece in row_pieces(sizes[a] + sizes[b], piece_entries(U)):
        out[piece] = (
            _sparse_distances(U, a[piece], b[piece])
            if sp.issparse(U)
            else row_norms(U[a[piece]] - U[b[piece]])
        )
    return out


def _sparse_distances(U: Sparse, a: IntArray, b: IntArray) -> FloatArray:
    """Rows with entries at the same places, as those of one direction are, are subtracted entry by
    entry; the others as sparse arrays."""
    out, sizes = np.zeros(len(a)), np.diff(U.indptr)
    others = np.flatnonzero(a != b)
    alike = sizes[a[others]] == sizes[b[others]]
    pairs = others[alike]
    size = sizes[a[pairs]]
    pair = np.repeat(np.arange(len(pairs)), size)
    step = np.arange(len(pair)) - (np.cumsum(size) - size)[pair]
    at_a, at_b = U.indptr[a[pairs]][pair] + step, U.indptr[b[pairs]][pair] + step
    out[pairs] = np.sqrt(np.bincount(pair, np.square(U.data[at_a] - U.data[at_b]), len(pairs)))
    is_off = np.bincount(pair, U.indices[at_a] != U.indices[at_b], len(pairs)) > 0
    rest = np.concatenate([others[~alike], pairs[is_off]])
    if len(rest):
        out[rest] = row_norms(U[a[rest]] - U[b[rest]])
    return out


def unit_columns(A: AnyArray) -> AnyArray:
    """A with columns of unit length; those that are zero stay zero."""
    length = np.linalg.norm(A, axis=0)
    return A / np.where(length > 0, length, 1).astype(A.dtype)


def is_sparse(X: Points) -> bool:
    """Whether points are a sparse array."""
    return bool(sp.issparse(X))


def as_dense(X: Points) -> AnyArray:
    """X itself, or the dense array with the entries of a sparse one."""
    return X.toarray() if sp.issparse(X) else X


def scaled_rows(X: Points, d: FloatArray) -> Points:
    """``diag(d) X``."""
    if not sp.issparse(X):
        return X * d[:, None]
    X = sp.csr_array(X)
    return sp.csr_array(
        (X.data * np.repeat(d, np.diff(X.indptr)), X.indices, X.indptr), shape=X.shape
    )


def scaled_columns(X: Points, d: FloatArray) -> Points:
    """``X diag(d)``."""
    return X @ sp.diags_array(d) if sp.issparse(X) else X * d


def root(X: Points) -> Points:
    """The square root of every entry."""
    return X.sqrt() if sp.issparse(X) else np.sqrt(X)


def largest(values: FloatArray) -> int:
    """The place of the largest number; of those that are equal up to rounding the first."""
    top = float(values.max())
    return int(np.argmax(values >= top - SAME * abs(top)))


def columns_as_points(X: Points) -> Points:
    """The columns as rows: a CSR array if X is sparse, contiguous otherwise."""
    return sp.csr_array(X.T) if sp.issparse(X) else np.ascontiguousarray(X.T)


def power_of_two(size: float | FloatArray) -> AnyArray:
    """The largest power of two up to each size, so that it and its inverse are in range; 1 for
    zero. To divide by it is exact."""
    exponent = np.clip(np.frexp(size)[1] - 1, -1020, 1020)
    return np.asarray(np.where(np.asarray(size) > 0, np.ldexp(1.0, exponent), 1.0))


def ratio(numerator: AnyArray, denominator: AnyArray) -> AnyArray:
    """Quotient of non-negative arrays in which a zero denominator counts as tiny."""
    return numerator / np.where(denominator > 0, denominator, denominator.dtype.type(TINY))


def stack_rows(above: Points, below: Points, like: Points) -> Points:
    """The rows of two arrays as one, a CSR array if ``like`` is sparse, else a dense array."""
    if sp.issparse(like):
        return sp.csr_array(sp.vstack([sp.csr_array(above), sp.csr_array(below)]))
    return np.vstack([as_dense(above), as_dense(below)])


def take_rows(U: Points, rows: IntArray) -> Points:
    """``U[rows]``, without a copy when that is all of them."""
    return U if len(rows) == U.shape[0] else U[rows]


def dense_rows(U: Points, rows: IntArray) -> FloatArray:
    """``U[rows]`` as a dense array."""
    picked = U[rows]
    return picked.toarray() if sp.issparse(picked) else picked


def combination_rows(parts: list[tuple[IntArray, FloatArray]], n_columns: int) -> Sparse:
    """Lists of (columns, values) as the rows of a sparse matrix."""
    ptr = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter((len(S) for S, _ in parts), np.int64, len(parts)), out=ptr[1:])
    places = _index_type(n_columns, int(ptr[-1]))
    columns = (
        np.concatenate([S for S, _ in parts], dtype=places, casting="same_kind")
        if parts
        else np.zeros(0, places)
    )
    values = np.concatenate([h for _, h in parts]) if parts else np.zeros(0)
    return csr_rows(values, columns, ptr, n_columns)


def residuals(U: Points, rows: IntArray, H: Sparse) -> FloatArray:
    """``|u_i - sum_j h_ij u_j|`` for each of ``rows``; these are also the rows of ``H``, whose
    columns are all points."""
    if not len(rows):
        return np.zeros(0)
    out, sizes, combined = np.empty(len(rows)), row_sizes(U), np.full(len(rows), float(U.shape[1]))
    for piece in row_pieces(np.diff(H.indptr), piece_entries(U)) if sp.issparse(U) else []:
        part = H[piece]
        combined[piece] = np.bincount(
            np.repeat(np.arange(len(piece)), np.diff(part.indptr)), sizes[part.indices], len(piece)
        )
    for piece in row_pieces(sizes[rows] + np.minimum(combined, U.shape[1]), piece_entries(U)):
        out[piece] = row_norms(U[rows[piece]] - H[piece] @ U)
    return out


def dense_product(A: AnyArray, B: AnyArray) -> AnyArray:
    """``A B`` for dense arrays, on the threads in force; the sums are the same for any number of
    them.

    BLAS would use threads of its own, which stay busy for a while after each product and take the
    cores from our kernels.
    """
    if B.ndim != 2 or A.size * B.shape[1] < LARGE_PRODUCT:
        return np.asarray(A @ B)
    out = np.empty((A.shape[0], B.shape[1]), np.result_type(A, B))
    _in_pieces(lambda _, rows: np.matmul(A[rows], B, out=out[rows]), A.shape[0])
    return out


def gram_of(F: AnyArray) -> AnyArray:
    """``F' F`` for a dense array with few columns, on the threads in force; the sums are the same
    for any number of them."""
    n, r = F.shape
    if n * r * r < LARGE_PRODUCT:
        return np.asarray(F.T @ F)
    parts = np.zeros((MOST_PIECES, r, r), F.dtype)

    def work(piece: int, rows: slice) -> None:
        parts[piece] = F[rows].T @ F[rows]

    _in_pieces(work, n)
    return np.asarray(parts.sum(axis=0))


def _in_pieces(work: Callable[[int, slice], object], n_rows: int) -> None:
    """``work(piece, rows)`` for pieces of rows that depend on the number of rows only, with BLAS on
    one thread for each."""
    n_pieces = min(MOST_PIECES, 2 ** int(np.log2(max(n_rows // LEAST_ROWS, 1))))
    bounds = np.linspace(0, n_rows, n_pieces + 1).astype(int)

    def some(start: int, stop: int) -> None:
        for piece in range(start, stop):
            work(piece, slice(bounds[piece], bounds[piece + 1]))

    with serial_blas():
        for_ranges(some, n_pieces)


class RowBlocks:
    """A large sparse matrix in blocks of rows, so that products run on the threads in force and
    their results stay in the cache.

    A row of a product is summed in the same order for any number of threads.
    """

    def __init__(self, N: Sparse, step: int = BLOCK_ROWS) -> None:
        n = N.shape[0]
        self.rows = [slice(a, min(a + step, n)) for a in range(0, n, step)]
        self.blocks = [N[rows] for rows in self.rows] if len(self.rows) > 1 else [N]

    def each(self, work: Callable[[Sparse, slice], None]) -> None:
        """``work(block, rows)`` for every block, where ``rows`` are its place in the matrix."""

        def some(start: int, stop: int) -> None:
            for k in range(start, stop):
                work(self.blocks[k], self.rows[k])

        for_ranges(some, len(self.blocks))
