"""Many active sets side by side, so that the pricing of all of them is one matrix product.

Finding the column that violates optimality most (*pricing*) is the costly part of an active set
when columns are many. BLAS does it tens of times faster for a block of right-hand sides than a
kernel does for one. `Slots` therefore holds the states of a block of right-hand sides. Its owner
calls `price`, which makes one product for all of them and reduces each row of it to a short and
varied list of candidates, and `Slots.advance`, which lets every slot descend over its list, in
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.columns import (
    N_BUCKETS,
    PLAIN_STOP,
    WITHIN_TOL,
    Candidates,
    Stopping,
    descend,
)
from conecollapse._nnls.factor import State, smallest_singular_value
from conecollapse._nnls.products import list_best
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, FloatArray, IntArray

__all__ = [
    "N_BUCKETS",
    "PLAIN_STOP",
    "WITHIN_TOL",
    "ShortLists",
    "Slots",
    "Stopping",
    "price",
    "short_lists",
]

# up to so many, prices in float32 are not worth a kernel of their own: compiling it takes most of a
# second
FEW_PRICES = 2**17


class Slots(NamedTuple):
    """States of many active sets over the same columns: one right-hand side, or none, in each
    slot."""

    Z: FloatArray  # (n, m): columns, in rows, of unit length or zero
    x: FloatArray  # (n_slots, m): right-hand sides
    k: IntArray  # (n_slots,): how many columns are passive
    S: IntArray  # this and the next five: fields of `State`, one row for each slot
    h: FloatArray
    Q: FloatArray
    R: FloatArray
    q: FloatArray
    r: FloatArray
    ending: IntArray  # (n_slots,): how the last descent ended
    steps: IntArray  # (n_slots,): columns appended since the right-hand side was loaded

    @classmethod
    def over(cls, Z: FloatArray, n_slots: int, capacity: int) -> Slots:
        """``n_slots`` empty slots over the rows of ``Z``, each for at most ``capacity`` passive
        columns."""
        dim = Z.shape[1]
        return cls(
            Z=Z,
            x=np.zeros((n_slots, dim)),
            k=np.zeros(n_slots, np.int64),
            S=np.zeros((n_slots, capacity), np.int64),
            h=np.zeros((n_slots, capacity)),
            Q=np.zeros((n_slots, capacity, dim)),
            R=np.zeros((n_slots, capacity, capacity)),
            q=np.zeros((n_slots, capacity)),
            r=np.zeros((n_slots, dim)),
            ending=np.zeros(n_slots, np.int64),
            steps=np.zeros(n_slots, np.int64),
        )

    def grown(self, slots: IntArray, capacity: int) -> Slots:
        """These ``slots``, with room for ``capacity`` passive columns."""
        k = self.S.shape[1]
        larger = Slots.over(self.Z, len(slots), capacity)
        larger.S[:, :k], larger.h[:, :k], larger.q[:, :k] = (
            self.S[slots],
            self.h[slots],
            self.q[slots],
        )
        larger.Q[:, :k], larger.R[:, :k, :k] = self.Q[slots], self.R[slots]
        some = {name: getattr(self, name)[slots] for name in ("x", "k", "r", "ending", "steps")}
        return larger._replace(**some)

    def load(self, slots: IntArray, x: FloatArray) -> None:
        """Start new right-hand sides, the rows of ``x``, in ``slots``, from the empty passive
        set."""
        self.k[slots] = 0
        self.steps[slots] = 0
        self.x[slots] = x
        self.r[slots] = x

    def advance(
        self,
        slots: IntArray,
        lists: IntArray,
        lengths: IntArray,
        stopping: Stopping,
        max_steps: int,
    ) -> None:
        """Let each of ``slots`` descend over its row of ``lists``, of which the first ``lengths``
        entries count.

        ``max_steps`` limits the steps since a right-hand side was loaded.
        """

        def work(start: int, end: int) -> None:
            # not in the kernel, which would take longer to compile
            ls, dead = np.empty(self.S.shape[1]), np.empty(lists.shape[1], bool)
            _advance(
                self,
                slots[start:end],
                lists[start:end],
                lengths[start:end],
                stopping,
                max_steps,
                ls,
                dead,
            )

        for_ranges(work, len(slots), smallest=4)

    def solution(self, slot: int) -> tuple[IntArray, FloatArray]:
        """Passive columns and their coefficients in one slot, copied."""
        k = self.k[slot]
        return self.S[slot, :k].copy(), self.h[slot, :k].copy()

    def independence(self, count: int) -> FloatArray:
        """Estimates of the smallest singular values of the passive columns in the first ``count``
        slots."""
        sigma = np.empty(count)
        _independence(self.R, self.k, sigma)
        return sigma


@kernel
def _independence(R, k, sigma):  # type: ignore[no-untyped-def]
    u, v = np.empty(R.shape[1]), np.empty(R.shape[1])
    for s in range(len(sigma)):
        sigma[s] = smallest_singular_value(R[s], k[s], u, v)


@kernel
def _advance(every, slots, lists, lengths, stopping, max_steps, ls, dead):  # type: ignore[no-untyped-def]
    """`Slots.advance` in one thread; ``every`` are all the slots, ``ls`` and ``dead`` scratch."""
    k, steps = every.k, every.steps
    for i in range(len(slots)):
        s = slots[i]
        state = State(
            every.S[s], every.h[s], every.Q[s], every.R[s], every.q[s], ls[:0], ls, every.r[s]
        )
        candidates = Candidates(lists[i, : lengths[i]], dead[: lengths[i]])
        k[s], every.ending[s], n = descend(
            every.Z, None, every.x[s], candidates, state, k[s], stopping, max_steps - steps[s]
        )
        steps[s] += n


class ShortLists(NamedTuple):
    """Candidates for each row of residuals."""

    ids: IntArray  # (rows, at least one more than the longest list): the owner may add a candidate
    lengths: IntArray  # (rows,)
    best: FloatArray  # (rows,): the highest price of all columns, also of those that are in no list


def price(
    residuals: AnyArray,
    columns: AnyArray,
    ids: IntArray,
    least: FloatArray,
    n_buckets: int,
    bar: Callable[[AnyArray, slice], None] | None = None,
) -> ShortLists:
    """Price the rows of ``columns``, whose numbers are ``ids``, by each row of ``residuals``, and
    make a short list for each.

    A list holds the column with the highest price of every bucket (`products.list_best`), if that
    is above ``least``. ``bar(prices, rows)`` may lower the prices of ``rows`` first. For use under
    `serial_blas`: rows are spread over our threads.
    """
    rows = len(residuals)
    n_buckets = max(1, min(n_buckets, len(columns)))
    lists = ShortLists(
        np.zeros((rows, n_buckets + 1), np.int64), np.zeros(rows, np.int64), np.full(rows, -np.inf)
    )

    def work(start: int, stop: int) -> None:
        prices = residuals[start:stop] @ columns.T
        if is_little:
            prices = prices.astype(np.float64, copy=False)
        if bar is not None:
            bar(prices, slice(start, stop))
        _bucket_maxima(prices, ids, least, n_buckets, lists, start)

    is_little = rows * len(columns) <= FEW_PRICES
    if len(columns):
        for_ranges(work, rows, smallest=max(16, 100_000 // columns.size))
    return lists


def short_lists(prices: FloatArray, ids: IntArray, least: FloatArray, n_buckets: int) -> ShortLists:
    """The lists of `price` from the prices of all columns."""
    n_buckets = max(1, min(n_buckets, prices.shape[1]))
    lists = ShortLists(
        np.zeros((len(prices), n_buckets + 1), np.int64),
        np.zeros(len(prices), np.int64),
        np.full(len(prices), -np.inf),
    )
    _bucket_maxima(prices, ids, least, n_buckets, lists, 0)
    return lists


@kernel
def _bucket_maxima(prices, ids, least, n_buckets, lists, first):  # type: ignore[no-untyped-def]
    """Fill the rows of ``lists`` from ``first`` on, one for each row of ``prices``."""
    top, turn = np.empty(n_buckets, prices.dtype), np.empty(n_buckets, np.int32)
    for p in range(len(prices)):
        i = first + p
        row = lists.ids[i]
        count = list_best(prices[p], least[i], top, turn, row)
        for q in range(count):
            row[q] = ids[row[q]]
        for q in range(n_buckets):
            lists.best[i] = max(lists.best[i], top[q])
        lists.lengths[i] = count
