"""The rank-safe active set for a block of right-hand sides.

Solves ``min |x - sum_j h_j z_j|, h >= 0`` for each row x of ``X`` over the rows z_j of ``Z`` (unit
length, or zero), of any shape and rank, because the passive columns are kept independent
(`factor`). All columns are priced for all right-hand sides at once by a matrix product (`slots`).
SciPy proposes the solutions of small problems, which therefore need no compiled kernel (`propose`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from conecollapse._linalg import row_norms
from conecollapse._nnls.bound import OPTIMAL, RESIDUAL_STOP, STEP_LIMIT
from conecollapse._nnls.columns import CLEANED_BELOW, PRICE_STOP
from conecollapse._nnls.factor import DEPENDENT
from conecollapse._nnls.slots import N_BUCKETS, PLAIN_STOP, WITHIN_TOL, Slots, price, short_lists
from conecollapse._threads import serial_blas
from conecollapse._types import BoolArray, FloatArray, IntArray, Sparse

SMALL_WORK = 2**18  # entries of the columns times right-hand sides: some tens of milliseconds
SOLVE_WORKSPACE = 128 * 2**20  # bytes of factorizations held at once


@dataclass
class ActiveSetResult:
    """Passive sets and coefficients of each right-hand side, with what the solve measured."""

    passive: list[IntArray]
    values: list[FloatArray]
    residual: FloatArray  # (n_rhs, dim), accurate relative to its own length
    n_steps: IntArray
    converged: BoolArray
    # estimates of the smallest singular values of the passive columns; zeros where they were not
    # asked for
    sigma: FloatArray

    def dense(self, n_columns: int) -> FloatArray:
        """Coefficients as an (n_rhs, n_columns) array."""
        H = np.zeros((len(self.passive), n_columns))
        for i, (S, h) in enumerate(zip(self.passive, self.values, strict=True)):
            H[i, S] = h
        return H


def active_set(
    Z: FloatArray,
    X: FloatArray,
    *,
    allowed: BoolArray | None = None,
    exclude: IntArray | None = None,
    start: list[IntArray] | None = None,
    max_steps: int | None = None,
    with_sigma: bool = False,
) -> ActiveSetResult:
    """Solve for each row of ``X`` over the rows of ``Z``, those not ``allowed`` left out, and for
    row i of ``X`` also ``exclude[i]``.

    ``start`` gives passive columns to try first, one list for each row of ``X``; ``max_steps``
    bounds the columns appended to each passive set over the whole solve (3 times the number of
    columns by default).
    """
    n_rhs, dim = X.shape
    limit = 3 * max(len(Z), 1) if max_steps is None else max_steps
    out = ActiveSetResult(
        [np.zeros(0, np.int64)] * n_rhs,
        [np.zeros(0)] * n_rhs,
        np.empty_like(X),
        np.zeros(n_rhs, np.int64),
        np.ones(n_rhs, bool),
        np.zeros(n_rhs),
    )
    left = np.arange(n_rhs)
    if is_small(Z, n_rhs) and start is None and max_steps is None and not with_sigma:
        left = _take_proposals(Z, X, allowed, exclude, out)
    capacity = max(1, min(dim, len(Z)))
    n_slots = min(
        int(np.clip(SOLVE_WORKSPACE // (8 * capacity * (dim + capacity + 4)), 1, 512)), len(left)
    )
    slots = Slots.over(Z, n_slots, capacity)
    with serial_blas():
        for a in range(0, len(left), max(n_slots, 1)):
            rows = left[a : a + n_slots]
            first = None if start is None else [start[i] for i in rows]
            _solve_block(
                slots, X[rows], allowed, None if exclude is None else exclude[rows], first, limit
            )
            for slot, i in enumerate(rows):
                out.passive[i], out.values[i] = slots.solution(slot)
            out.residual[rows] = slots.r[: len(rows)]
            out.n_steps[rows] = slots.steps[: len(rows)]
            if with_sigma:
                out.sigma[rows] = slots.independence(len(rows))
            out.converged[rows] = slots.ending[: len(rows)] != STEP_LIMIT
    return out


def _solve_block(
    slots: Slots,
    X: FloatArray,
    allowed: BoolArray | None,
    barred: IntArray | None,
    start: list[IntArray] | None,
    limit: int,
) -> None:
    active = np.arange(len(X))
    slots.load(active, X)
    if start is not None:
        slots.advance(active, *_padded(start), PLAIN_STOP, limit)
    Z = slots.Z
    ids = np.arange(len(Z))
    while len(active):
        r = slots.r[active]

        def bar(prices: FloatArray, rows: slice, here: IntArray = active) -> None:
            if allowed is not None:
                prices[:, ~allowed] = -np.inf
            if barred is not None:
                prices[np.arange(len(prices)), barred[here[rows]]] = -np.inf

        least = PRICE_STOP * np.sqrt(np.einsum("ij,ij->i", r, r))
        lists = price(r, Z, ids, least, N_BUCKETS, bar)
        before = slots.steps[active]
        slots.advance(active, lists.ids, lists.lengths, PLAIN_STOP, limit)
        # no candidate could enter: the prices left are rounding
        stalled = slots.steps[active] == before
        slots.ending[active[slots.steps[active] >= limit]] = STEP_LIMIT
        done = stalled | (slots.ending[active] == WITHIN_TOL) | (slots.ending[active] == STEP_LIMIT)
        active = active[~done]


def _padded(lists: list[IntArray]) -> tuple[IntArray, IntArray]:
    """Lists of columns as a rectangular array, and their lengths."""
    lengths = np.array([len(s) for s in lists], np.int64)
    out = np.zeros((len(lists), max(lengths.max(initial=0), 1)), np.int64)
    for row, s in zip(out, lists, strict=True):
        row[: len(s)] = s
    return out, lengths


def active_set_sparse(
    U: Sparse,
    X: FloatArray,
    *,
    allowed: BoolArray | None = None,
    exclude: IntArray | None = None,
    max_steps: int | None = None,
    with_sigma: bool = False,
) -> ActiveSetResult:
    """`active_set` over the rows of a sparse ``U``: all rows are priced by a sparse product, only
    good ones become dense."""
    n_rhs = len(X)
    limit = 3 * max(U.shape[0], 1) if max_steps is None else max_steps
    out = ActiveSetResult(
        [],
        [],
        np.empty_like(X),
        np.zeros(n_rhs, np.int64),
        np.ones(n_rhs, bool),
        np.full(n_rhs, 1.0 if with_sigma else 0.0),
    )
    for b in range(n_rhs):
        usable = np.ones(U.shape[0], bool) if allowed is None else allowed.copy()
        if exclude is not None:
            usable[exclude[b]] = False
        slot, columns = _solve_sparse(U, X[b], usable, limit)
        S, h = slot.solution(0)
        out.passive.append(columns[S])
        out.values.append(h)
        out.residual[b] = slot.r[0]
        out.n_steps[b] = slot.steps[0]
        out.converged[b] = slot.ending[0] != STEP_LIMIT
        if with_sigma and len(S):
            out.sigma[b] = slot.independence(1)[0]
    return out


def _solve_sparse(
    U: Sparse, x: FloatArray, usable: BoolArray, limit: int
) -> tuple[Slots, IntArray]:
    """One right-hand side over the ``usable`` rows: a slot over few dense columns, and which rows
    these are.

    After every look at all rows, the columns are those in use and the rows with the highest price
    of each bucket.
    """
    ids, only = np.arange(U.shape[0]), np.zeros(1, np.int64)
    columns, slot = ids[:0], Slots.over(np.zeros((0, len(x))), 1, min(N_BUCKETS, *U.shape))
    slot.load(only, x[None])
    slot.ending[0] = OPTIMAL
    while True:
        r, k = slot.r[0], int(slot.k[0])
        size = float(np.linalg.norm(r))
        prices = np.where(usable, U @ r, -np.inf)
        prices[columns[slot.S[0, :k]]] = -np.inf
        lists = short_lists(prices[None], ids, np.array([PRICE_STOP * size]), N_BUCKETS)
        if not lists.lengths[0] or size <= RESIDUAL_STOP * np.linalg.norm(x):
            return slot, columns
        slot, columns = _with_columns(slot, columns, U, lists.ids[0, : lists.lengths[0]])
        before = int(slot.steps[0])
        slot.advance(only, np.arange(k, len(columns))[None], lists.lengths, PLAIN_STOP, limit)
        if slot.steps[0] >= limit:
            slot.ending[0] = STEP_LIMIT
        if (
            slot.steps[0] == before
            or slot.ending[0] == STEP_LIMIT
            or np.linalg.norm(slot.r[0]) >= size * (1 - 1e-15)
        ):
            return slot, columns


def _with_columns(
    slot: Slots, columns: IntArray, U: Sparse, fresh: IntArray
) -> tuple[Slots, IntArray]:
    """The slot over the columns that it has in use, as the first, and then the ``fresh`` rows, with
    room for all; which rows these are."""
    k = int(slot.k[0])
    in_use, (_, dim) = slot.S[0, :k].copy(), U.shape
    Z = np.vstack([slot.Z[in_use], U[fresh].toarray()])
    capacity = slot.S.shape[1]
    if len(Z) > capacity < min(dim, U.shape[0]):
        slot = slot.grown(np.zeros(1, np.int64), min(max(len(Z), 2 * capacity), *U.shape))
    slot.S[0, :k] = np.arange(k)
    return slot._replace(Z=Z), np.concatenate([columns[in_use], fresh])


def is_small(Z: FloatArray, n_rhs: int) -> bool:
    """Whether ``n_rhs`` right-hand sides over the rows of ``Z`` are solved without a kernel."""
    return Z.size * n_rhs <= SMALL_WORK


def _take_proposals(
    Z: FloatArray,
    X: FloatArray,
    allowed: BoolArray | None,
    exclude: IntArray | None,
    out: ActiveSetResult,
) -> IntArray:
    """Write the right-hand sides that SciPy solves, so that no kernel is needed, to ``out``; the
    numbers of the others."""
    H = propose(Z if allowed is None else Z * allowed[:, None], X, exclude)
    R, size = X - H @ Z, row_norms(X)
    share = row_norms(R) / np.maximum(size, np.finfo(np.float64).tiny)
    for i in np.flatnonzero((share > RESIDUAL_STOP) & (share < CLEANED_BELOW)):
        H[i], R[i] = _cleaned(Z, X[i], H[i])
    prices = R @ Z.T
    prices[H > 0] = 0.0
    if allowed is not None:
        prices[:, ~allowed] = 0.0
    if exclude is not None:
        prices[np.arange(len(X)), exclude] = 0.0
    lengths = row_norms(R)
    is_best = prices.max(axis=1, initial=0.0) <= PRICE_STOP * lengths
    is_solved = (H >= 0).all(axis=1) & (is_best | (lengths <= RESIDUAL_STOP * size))
    is_solved &= np.isfinite(lengths)
    for i in np.flatnonzero(is_solved):
        out.passive[i] = np.flatnonzero(H[i])
        out.values[i] = H[i, out.passive[i]]
        out.n_steps[i] = len(out.passive[i])
    out.residual[is_solved] = R[is_solved]
    return np.flatnonzero(~is_solved)


def propose(Z: FloatArray, X: FloatArray, exclude: IntArray | None) -> FloatArray:
    """SciPy's solutions in rows, without a compiled kernel; NaN where it gave up. A column of zeros
    is never used."""
    A = np.array(Z.T, order="C")
    H = np.full((len(X), len(Z)), np.nan)
    for i, x in enumerate(X):
        if exclude is not None:
            A[:, exclude[i]] = 0.0
        try:
            H[i] = nnls(A, x)[0]
        except (RuntimeError, ValueError):  # its limit on iterations, or numbers that it loses
            continue
        finally:
            if exclude is not None:
                A[:, exclude[i]] = Z[exclude[i]]
    return H


def _cleaned(Z: FloatArray, x: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The coefficients solved once more over the columns in use, and a residual that is orthogonal
    to these; NaN if they are dependent."""
    used = np.flatnonzero(h > 0)
    Q, T = np.linalg.qr(Z[used].T)
    if len(used) > len(x) or (np.abs(np.diag(T)) <= DEPENDENT).any():
        return h, np.full(len(x), np.nan)
    again = np.zeros_like(h)
    again[used] = np.linalg.solve(T, Q.T @ x)
    r = x - again[used] @ Z[used]
    return again, r - Q @ (Q.T @ r)
