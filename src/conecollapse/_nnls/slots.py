"""Many active sets side by side, so that the pricing of all of them is one matrix product.

Finding the column that violates optimality most (*pricing*) is the costly part of an active set when columns are many.
BLAS does it tens of times faster for a block of right-hand sides than a kernel does for one. `Slots` therefore holds the
states of a block of right-hand sides; its owner lets `price` make one product for all of them and thin each row of it to a
short and varied list, and `advance` lets every slot descend over its list, in threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import descend, dot, smallest_singular_value
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, FloatArray, IntArray


class Slots:
    """States of ``n_slots`` active sets over the rows of ``Z``, each with at most ``capacity`` passive columns."""

    def __init__(self, Z: FloatArray, n_slots: int, capacity: int) -> None:
        dim = Z.shape[1]
        self.Z = Z
        self.weight = np.ones(len(Z))
        self.S = np.zeros((n_slots, capacity), np.int64)
        self.h = np.zeros((n_slots, capacity))
        self.k = np.zeros(n_slots, np.int64)
        self.Q = np.zeros((n_slots, capacity, dim))
        self.R = np.zeros((n_slots, capacity, capacity))
        self.qx = np.zeros((n_slots, capacity))
        self.x = np.zeros((n_slots, dim))
        self.r = np.zeros((n_slots, dim))
        self.ending = np.zeros(n_slots, np.int64)
        self.steps = np.zeros(n_slots, np.int64)

    def load(self, slots: IntArray, x: FloatArray) -> None:
        """Start new right-hand sides, the rows of ``x``, in ``slots``, from the empty passive set."""
        self.k[slots] = 0
        self.steps[slots] = 0
        self.x[slots] = x
        self.r[slots] = x

    def advance(self, slots: IntArray, cand: IntArray, n_cand: IntArray, share: float, stop: float, inside: float, max_steps: int) -> None:
        """Let each of ``slots`` descend over its row of ``cand``; ``inside`` is relative to the right-hand side."""

        def work(start: int, end: int) -> None:
            _advance(
                self.Z, self.weight, self.x, slots[start:end], cand[start:end], n_cand[start:end], self.S, self.h, self.k, self.Q,
                self.R, self.qx, self.r, self.ending, self.steps, share, stop, inside, max_steps,
            )  # fmt: skip

        for_ranges(work, len(slots), smallest=4)

    def solution(self, slot: int) -> tuple[IntArray, FloatArray]:
        """Passive columns and their coefficients in one slot, copied."""
        k = self.k[slot]
        return self.S[slot, :k].copy(), self.h[slot, :k].copy()

    def independence(self, count: int) -> FloatArray:
        """Estimates of the smallest singular values of the passive columns in the first ``count`` slots."""
        sigma = np.empty(count)
        _independence(self.R, self.k, sigma)
        return sigma


@kernel
def _independence(R, k, sigma):  # type: ignore[no-untyped-def]
    u, z = np.empty(R.shape[1]), np.empty(R.shape[1])
    for s in range(len(sigma)):
        sigma[s] = smallest_singular_value(R[s], k[s], u, z)


@kernel
def _advance(Z, weight, X, slots, cand, n_cand, S, h, k, Q, R, qx, r, ending, steps, share, stop, inside, max_steps):  # type: ignore[no-untyped-def]
    z = np.empty(S.shape[1])
    dead = np.empty(max(cand.shape[1], 1), np.bool_)
    for b in range(len(slots)):
        s = slots[b]
        x = X[s]
        inner, left = inside * np.sqrt(dot(x, x)), max_steps - steps[s]
        k[s], ending[s], n = descend(
            Z, weight, x, cand[b], n_cand[b], S[s], h[s], k[s], Q[s], R[s], qx[s], r[s], z, dead, share, stop, inner, left
        )  # fmt: skip
        steps[s] += n


def price(
    R: AnyArray,
    columns: AnyArray,
    ids: IntArray,
    least: FloatArray,
    n_buckets: int,
    bar: Callable[[AnyArray, slice], None] | None = None,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Price the rows of ``columns``, which stand for ``ids``, by each row of ``R``, and thin the prices to short lists.

    A list takes the best column of every bucket, of those above ``least``; column t is in bucket ``t mod n_buckets``. Bucket maxima
    instead of the highest prices keep the list varied: the highest tend to be near copies of each other. ``bar(prices, rows)`` may
    lower the prices of ``rows`` first. For use under `serial_blas`: rows are spread over our threads.

    Returns the lists of ids, how many there are in each, and each row's best price of all.
    """
    rows = len(R)
    n_buckets = max(1, min(n_buckets, len(columns)))
    cand = np.zeros((rows, n_buckets + 1), np.int64)  # one place more, for a candidate that the owner may add
    n_cand = np.zeros(rows, np.int64)
    best = np.full(rows, -np.inf)

    def work(start: int, stop: int) -> None:
        prices = R[start:stop] @ columns.T
        if bar is not None:
            bar(prices, slice(start, stop))
        _bucket_maxima(prices, ids, least, n_buckets, cand, n_cand, best, start)

    if len(columns):
        for_ranges(work, rows, smallest=max(16, 100_000 // columns.size))
    return cand, n_cand, best


@kernel
def _bucket_maxima(prices, ids, least, n_buckets, cand, n_cand, best, first):  # type: ignore[no-untyped-def]
    columns = prices.shape[1]
    whole = columns // n_buckets * n_buckets
    top = np.empty(n_buckets, prices.dtype)
    at = np.empty(n_buckets, np.int32)
    for p in range(len(prices)):
        row = prices[p]
        i = first + p
        for q in range(n_buckets):
            top[q] = row[q]
            at[q] = q
        for t0 in range(n_buckets, whole, n_buckets):
            for q in range(n_buckets):
                v = row[t0 + q]
                higher = v > top[q]
                top[q] = v if higher else top[q]
                at[q] = t0 + q if higher else at[q]
        for t in range(whole, columns):
            q = t - whole
            if row[t] > top[q]:
                top[q] = row[t]
                at[q] = t
        count = 0
        for q in range(n_buckets):
            if top[q] > best[i]:
                best[i] = top[q]
            if top[q] > least[i]:
                cand[i, count] = ids[at[q]]
                count += 1
        n_cand[i] = count
