r"""Rays that one coordinate proves.

A combination with coefficients >= 0 of non-negative points has the union of their supports, so only *contained* points, whose support
lies inside that of :math:`u_i`, can represent it. A coordinate d of :math:`u_i` that no contained point has is *private*: every other
point that has it also has a coordinate off the support of :math:`u_i`. A few such coordinates, the *penalties* C, are enough to have one of
every such point, and then

.. math:: g = e_d - L \sum_{c \in C} e_c

with a large enough L is a witness. It has few entries, whatever the size of the supports, so that it is stored and checked in no time.

Penalties are chosen one after the other: the first point that is not yet below zero (points with small supports come first) chooses, among
its coordinates off the support, the one that is expected to serve the most points for the products that it costs a checker.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, FloatArray, IntArray
from conecollapse.certificates import SparseVectors
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.settle import CLEAR

MARGIN = 2.0  # L is this many times what is needed, so that rounding cannot undo it
ENOUGH = 0.1  # mass of a point on the penalties, in units of its value at d, that needs no further penalty
ENTRY_COST = 50  # an entry of a witness costs a checker as much as this many products, apart from those it makes
AT_ONCE = 256  # points for each call of the kernel: between two calls Ctrl-C can stop the work


@dataclass(frozen=True)
class Private:
    """Rays with a private coordinate."""

    is_proven: BoolArray  # (n_points,)
    coordinate: IntArray  # (n_points,): the private coordinate, where proven
    weight: FloatArray  # (n_points,): L
    penalties: dict[int, IntArray]

    @classmethod
    def none(cls, m: int) -> Private:
        """None of ``m`` points."""
        return cls(np.zeros(m, bool), np.full(m, -1, np.int64), np.zeros(m), {})

    def witnesses(self, n: int) -> SparseVectors:
        """The witnesses of all rays that are proven here, in ``n`` dimensions; ``of`` are the points."""
        rays = np.flatnonzero(self.is_proven)
        lengths = np.array([1 + len(self.penalties[int(i)]) for i in rays], np.int64)
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        columns = np.concatenate([np.zeros(0, np.int64), *(np.append(self.coordinate[i], self.penalties[int(i)]) for i in rays)])
        values = -np.repeat(self.weight[rays], lengths).astype(np.float32)  # MARGIN is far more than this rounding
        values[ptr[:-1]] = 1.0
        G = sp.csr_array((values, columns.astype(np.int32), ptr.astype(np.int32)), shape=(len(rays), n))
        G.sort_indices()
        return SparseVectors(rays, G, np.zeros(len(rays)))


def private_coordinates(lists: Lists, tol: float) -> Private:
    """The points that a private coordinate proves to be more than ``tol`` away from the cone of the others."""
    m, n = lists.shape
    found = Private.none(m)
    lock = Lock()

    def work(start: int, stop: int) -> None:
        hit, stamp = np.zeros(m), np.full(n, -1, np.int64)
        for a in range(start, stop, AT_ONCE):
            points = np.arange(a, min(a + AT_ONCE, stop))
            counts, penalties = _prove_each(lists, points, CLEAR * tol, hit, stamp, found.coordinate, found.weight)
            pieces = np.split(penalties, np.cumsum(counts)[:-1])
            with lock:
                found.penalties.update((int(i), C) for i, C in zip(points, pieces, strict=True) if found.coordinate[i] >= 0)

    for_ranges(work, m, smallest=AT_ONCE)
    np.greater_equal(found.coordinate, 0, out=found.is_proven)
    return found


@kernel
def _prove_each(lists, points, needed_distance, hit, stamp, coordinate, weight):  # type: ignore[no-untyped-def]
    """Fill ``coordinate`` and ``weight`` of ``points``; how many penalties each has, and all these penalties.

    ``hit`` is zero and stays so; ``stamp`` says for which point a coordinate was last marked.
    """
    ptr, idx, post_ptr = lists.ptr, lists.idx, lists.post_ptr
    counts = np.zeros(len(points), np.int64)
    penalties, n_penalties = np.empty(16 * len(points), np.int64), np.int64(0)
    for at in range(len(points)):
        i = points[at]
        a, size = ptr[i], ptr[i + 1] - ptr[i]
        held = np.empty(size, np.int64)
        for t in range(size):
            stamp[idx[a + t]] = i
            held[t] = post_ptr[idx[a + t] + 1] - post_ptr[idx[a + t]]
        covered = np.zeros(size, np.bool_)
        for t in np.argsort(held):
            if covered[t]:
                continue
            contained = _contained_holder(lists, i, idx[a + t], stamp)
            if contained >= 0:
                _cover(idx, a, ptr[contained], ptr[contained + 1], covered)
                continue
            if n_penalties + held[t] > len(penalties):
                longer = np.empty(2 * len(penalties) + held[t], np.int64)
                for p in range(n_penalties):
                    longer[p] = penalties[p]
                penalties = longer
            some = penalties[n_penalties : n_penalties + held[t]]
            count, L = _choose_penalties(lists, i, idx[a + t], stamp, hit, some)
            if lists.val[a + t] > needed_distance * np.sqrt(1.0 + L * L * count):
                coordinate[i], weight[i] = idx[a + t], L
                counts[at] = count
                n_penalties += count
                break
    return counts, penalties[:n_penalties]


@kernel
def _contained_holder(lists, i, d, stamp):  # type: ignore[no-untyped-def]
    """A point other than ``i`` that has coordinate ``d`` and whose support lies inside that of i, or -1."""
    ptr, idx = lists.ptr, lists.idx
    size = ptr[i + 1] - ptr[i]
    for p in range(lists.post_ptr[d], lists.post_ptr[d + 1]):
        j = lists.post[p]
        if ptr[j + 1] - ptr[j] > size:
            return -1
        t = ptr[j]
        while t < ptr[j + 1] and stamp[idx[t]] == i:
            t += 1
        if t == ptr[j + 1] and j != i:
            return j
    return -1


@kernel
def _choose_penalties(lists, i, d, stamp, hit, penalties):  # type: ignore[no-untyped-def]
    """Penalties for the private coordinate ``d`` of point ``i``: how many there are, and L."""
    ptr, idx, val = lists.ptr, lists.idx, lists.val
    post_ptr, post, post_val = lists.post_ptr, lists.post, lists.post_val
    count = np.int64(0)
    for p in range(post_ptr[d], post_ptr[d + 1]):
        j = post[p]
        if j == i or hit[j] >= ENOUGH * post_val[p]:
            continue
        best, highest = -1, -1.0
        expected = (post_ptr[d + 1] - p) / (len(ptr) - 1)  # share of the points that are still to be met, by a penalty that any may have
        for t in range(ptr[j], ptr[j + 1]):
            if stamp[idx[t]] != i:
                holders = post_ptr[idx[t] + 1] - post_ptr[idx[t]]
                score = min(val[t] / post_val[p], ENOUGH) * (1.0 + expected * holders) / (ENTRY_COST + holders)
                if score > highest:
                    best, highest = idx[t], score
        known = False
        for q in range(count):
            known = known or penalties[q] == best
        if not known:
            penalties[count] = best
            count += 1
            for q in range(post_ptr[best], post_ptr[best + 1]):
                hit[post[q]] += post_val[q]
    L = 0.0
    rounding = lists.rounding * np.sqrt(count)
    for p in range(post_ptr[d], post_ptr[d + 1]):
        if post[p] != i:
            L = max(L, (MARGIN * post_val[p] + lists.rounding) / max(hit[post[p]] - rounding, 1e-300))
    for c in range(count):
        for q in range(post_ptr[penalties[c]], post_ptr[penalties[c] + 1]):
            hit[post[q]] = 0.0
    return count, L


@kernel
def _cover(idx, a, low, high, covered):  # type: ignore[no-untyped-def]
    """Mark the coordinates ``idx[low:high]`` among those of the row that begins at ``a`` and has all of them."""
    t = np.int64(0)
    for q in range(low, high):
        while idx[a + t] < idx[q]:
            t += 1
        covered[t] = True
