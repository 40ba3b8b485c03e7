"""Many active sets side by side, so that the pricing of all of them is one matrix product.

Finding the column that violates optimality most (*pricing*) is the costly part of an active set when columns are many.
BLAS does it tens of times faster for a block of right-hand sides than a kernel does for one. `Slots` therefore holds the
states of a block of right-hand sides; its owner prices them with one product, `pick_candidates` thins each row of prices
to a short and varied list, and `advance` lets every slot descend over its list, in threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from conecollapse._nnls.kernels import descend
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


@njit(cache=True, nogil=True)
def _advance(Z, weight, X, slots, cand, n_cand, S, h, k, Q, R, qx, r, ending, steps, share, stop, inside, max_steps):  # type: ignore[no-untyped-def]
    z = np.empty(S.shape[1])
    dead = np.empty(max(cand.shape[1], 1), np.bool_)
    for b in range(len(slots)):
        s = slots[b]
        x = X[s]
        norm = np.sqrt(np.sum(x * x))
        k[s], ending[s], n = descend(
            Z, weight, x, cand[b], n_cand[b], S[s], h[s], k[s], Q[s], R[s], qx[s], r[s], z, dead, share, stop, inside * norm, max_steps
        )  # fmt: skip
        steps[s] += n


def pick_candidates(prices: AnyArray, ids: IntArray, least: FloatArray, n_buckets: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Thin each row of ``prices`` to the best column of every bucket that exceeds ``least``.

    Column ``t`` belongs to bucket ``t mod n_buckets`` and stands for ``ids[t]``. Taking bucket maxima instead of the highest
    prices keeps the list varied: the highest tend to be near copies of each other. Returns the candidate ids, how many
    there are in each row, and each row's best price of all.
    """
    rows, columns = prices.shape
    n_buckets = max(1, min(n_buckets, columns))
    cand = np.zeros((rows, n_buckets + 1), np.int64)  # one place more, for a candidate that the owner may add
    n_cand = np.zeros(rows, np.int64)
    best = np.full(rows, -np.inf)

    def work(start: int, end: int) -> None:
        _bucket_maxima(prices, ids, least, n_buckets, cand, n_cand, best, start, end)

    if columns:
        for_ranges(work, rows, smallest=max(1, 200_000 // columns))
    return cand, n_cand, best


@njit(cache=True, nogil=True)
def _bucket_maxima(prices, ids, least, n_buckets, cand, n_cand, best, start, end):  # type: ignore[no-untyped-def]
    columns = prices.shape[1]
    whole = columns // n_buckets * n_buckets
    top = np.empty(n_buckets, prices.dtype)
    at = np.empty(n_buckets, np.int32)
    for i in range(start, end):
        row = prices[i]
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
