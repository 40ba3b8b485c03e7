r"""Rays that one coordinate proves.

A combination with coefficients >= 0 of non-negative points has the union of their supports, so only *contained* points, whose support
lies inside that of :math:`u_i`, can represent it. A coordinate d of :math:`u_i` that no contained point has is *private*: every other
point that has it also has a coordinate off the support of :math:`u_i`. A few such coordinates, the *penalties* C, are enough to have one of
every such point, and then

.. math:: g = e_d - L \sum_{c \in C} e_c

with a large enough L is a witness. It has few entries, whatever the size of the supports, so that it is stored and checked in no time.

Penalties are chosen one after the other: the first point that is not yet below zero (points with small supports come first) chooses, among
its coordinates off the support, the one that is expected to serve the most points for the products that it costs a checker. Where many
would be needed, *all* coordinates off the support are the cheaper penalty, :math:`g = e_d - L` off the support: one entry and one number L,
and a checker looks for a coordinate off the support of each point that has d. It is taken as soon as penalties would cost a checker more.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._threads import for_ranges
from conecollapse._types import BoolArray, FloatArray, IntArray
from conecollapse.certificates import SparseVectors, Support, Witnesses
from conecollapse.geometry.certified.budget import Budget
from conecollapse.geometry.certified.confirm import CLEAR
from conecollapse.geometry.certified.lists import Lists

MARGIN = 2.0  # L is this many times what is needed, so that rounding cannot undo it
ENOUGH = 0.1  # mass of a point on the penalties, in units of its value at d, that needs no further penalty
ENTRY_COST = 50  # an entry of a witness costs a checker as much as this many products, apart from those it makes
LOOKUP_COST = 3  # and a point that it looks up
ENOUGH_OUTSIDE = 8.0  # mass off the support, in units of the value at d, beyond which more of it changes little
LEAST_LIFT = 1e-3  # costs next to nothing of the proven distance, and swallows rounding
AT_ONCE = 256  # points for each call of the kernel: between two calls Ctrl-C can stop the work


@dataclass(frozen=True)
class Private:
    """Rays with a private coordinate."""

    is_proven: BoolArray  # (n_points,)
    coordinate: IntArray  # (n_points,): the private coordinate, where proven
    weight: FloatArray  # (n_points,): L
    count: IntArray  # (n_points,): how many penalties; 0 for those that are lifted: all coordinates off the support are their penalties
    penalties: IntArray  # of all points, one after the other

    def witnesses(self, n: int) -> tuple[Witnesses, ...]:
        """The witnesses of all rays that are proven here, in ``n`` dimensions; ``of`` are the points."""
        rays = np.flatnonzero(self.is_proven)
        is_lifted = (self.weight[rays] > 0) & (self.count[rays] == 0)
        families = (self._with_penalties(rays[~is_lifted], n), self._lifted(rays[is_lifted], n))
        return tuple(family for family in families if len(family.of))

    def _with_penalties(self, rays: IntArray, n: int) -> SparseVectors:
        lengths = 1 + self.count[rays]
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        columns, is_penalty = np.empty(ptr[-1], np.int64), np.ones(ptr[-1], bool)
        is_penalty[ptr[:-1]] = False
        columns[ptr[:-1]], columns[is_penalty] = self.coordinate[rays], self.penalties
        values = -np.repeat(self.weight[rays], lengths).astype(np.float32)  # MARGIN is far more than this rounding
        values[ptr[:-1]] = 1.0
        G = sp.csr_array((values, columns.astype(np.int32), ptr.astype(np.int32)), shape=(len(rays), n))
        G.sort_indices()
        return SparseVectors(rays, G, np.zeros(len(rays)))

    def _lifted(self, rays: IntArray, n: int) -> Support:
        ptr = np.arange(len(rays) + 1, dtype=np.int32)
        F = sp.csr_array((np.ones(len(rays), np.float32), self.coordinate[rays].astype(np.int32), ptr), shape=(len(rays), n))
        return Support(rays, F, self.weight[rays])


def private_coordinates(lists: Lists, tol: float, budget: Budget) -> Private:
    """The points that a private coordinate proves to be more than ``tol`` away from the cone of the others.

    Every point may take the same share of the budget, and what the points before it in its thread have left of theirs.
    """
    m, n = lists.shape
    coordinate, weight, count = np.full(m, -1, np.int64), np.zeros(m), np.zeros(m, np.int64)
    pieces: dict[int, IntArray] = {}
    lock = Lock()
    share = budget.left / m

    def work(start: int, stop: int) -> None:
        hit, stamp, room = np.zeros(m), np.full(n, -1, np.int64), 0.0
        for a in range(start, stop, AT_ONCE):
            points = np.arange(a, min(a + AT_ONCE, stop))
            room += share * len(points)
            count[points], pieces[a], visits = _prove_each(lists, points, CLEAR * tol, hit, stamp, coordinate, weight, room)
            room -= visits
            with lock:
                budget.spend(float(visits))

    for_ranges(work, m, smallest=AT_ONCE)
    return Private(coordinate >= 0, coordinate, weight, count, np.concatenate([pieces[a] for a in sorted(pieces)]))


@kernel
def _prove_each(lists, points, needed_distance, hit, stamp, coordinate, weight, room):  # type: ignore[no-untyped-def]
    """Fill ``coordinate`` and ``weight`` of ``points``; how many penalties each has, all of these, and how many entries were visited.

    ``hit`` is zero and stays so; ``stamp`` says for which point a coordinate was last marked. Once more than ``room`` entries have been
    visited, the rest is left out.
    """
    ptr, idx, post_ptr = lists.ptr, lists.idx, lists.post_ptr
    counts = np.zeros(len(points), np.int64)
    penalties, n_penalties = np.empty(16 * len(points), np.int64), np.int64(0)
    visits = np.int64(0)
    for at in range(len(points)):
        if visits > room:
            break
        i = points[at]
        a, size = ptr[i], ptr[i + 1] - ptr[i]
        held = np.empty(size, np.int64)
        for t in range(size):
            stamp[idx[a + t]] = i
            held[t] = post_ptr[idx[a + t] + 1] - post_ptr[idx[a + t]]
        visits += size
        covered = np.zeros(size, np.bool_)
        for t in np.argsort(held):
            if covered[t]:
                continue
            contained, looked = _contained_holder(lists, i, idx[a + t], stamp)
            visits += looked
            if contained >= 0:
                _cover(idx, a, ptr[contained], ptr[contained + 1], covered)
                continue
            if visits > room:
                break
            if n_penalties + held[t] > len(penalties):
                longer = np.empty(2 * len(penalties) + held[t], np.int64)
                for p in range(n_penalties):
                    longer[p] = penalties[p]
                penalties = longer
            some = penalties[n_penalties : n_penalties + held[t]]
            is_proven = False
            for most in (float(LOOKUP_COST * held[t] + ENTRY_COST), np.inf):
                count, L, looked = _choose_penalties(lists, i, idx[a + t], stamp, hit, some, most)
                visits += looked
                spread = np.float64(count)
                if count == 0 and held[t] > 1:  # too dear
                    L = _choose_lift(lists, i, idx[a + t], stamp)
                    visits += 4 * held[t]
                    spread = np.float64(len(post_ptr) - 1 - size)
                is_proven = lists.val[a + t] > needed_distance * np.sqrt(1.0 + L * L * spread)
                if is_proven or count > 0:
                    break
            if is_proven:
                coordinate[i], weight[i] = idx[a + t], L
                counts[at] = count
                n_penalties += count
            if is_proven or visits > room:
                break
    return counts, penalties[:n_penalties], visits


@kernel
def _contained_holder(lists, i, d, stamp):  # type: ignore[no-untyped-def]
    """A point other than ``i`` that has coordinate ``d`` and whose support lies inside that of i, or -1; and the entries visited."""
    ptr, idx = lists.ptr, lists.idx
    size = ptr[i + 1] - ptr[i]
    visits = np.int64(0)
    for p in range(lists.post_ptr[d], lists.post_ptr[d + 1]):
        j = lists.post[p]
        if ptr[j + 1] - ptr[j] > size:
            return -1, visits
        t = ptr[j]
        while t < ptr[j + 1] and stamp[idx[t]] == i:
            t += 1
        visits += t - ptr[j] + 1
        if t == ptr[j + 1] and j != i:
            return j, visits
    return -1, visits


@kernel
def _choose_penalties(lists, i, d, stamp, hit, penalties, most):  # type: ignore[no-untyped-def]
    """Penalties for the private coordinate ``d`` of point ``i``: how many there are, L, and the entries visited.

    There are none if they would cost a checker more than ``most`` products.
    """
    ptr, idx, val = lists.ptr, lists.idx, lists.val
    post_ptr, post, post_val = lists.post_ptr, lists.post, lists.post_val
    count, visits, cost = np.int64(0), np.int64(2 * (post_ptr[d + 1] - post_ptr[d])), 0.0
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
        visits += ptr[j + 1] - ptr[j]
        known = False
        for q in range(count):
            known = known or penalties[q] == best
        if not known:
            penalties[count] = best
            count += 1
            visits += 2 * (post_ptr[best + 1] - post_ptr[best])
            cost += ENTRY_COST + post_ptr[best + 1] - post_ptr[best]
            for q in range(post_ptr[best], post_ptr[best + 1]):
                hit[post[q]] += post_val[q]
            if cost > most:
                break
    L = 0.0
    rounding = lists.rounding * np.sqrt(count)
    for p in range(post_ptr[d], post_ptr[d + 1]):
        if post[p] != i:
            L = max(L, (MARGIN * post_val[p] + lists.rounding) / max(hit[post[p]] - rounding, 1e-300))
    for c in range(count):
        for q in range(post_ptr[penalties[c]], post_ptr[penalties[c] + 1]):
            hit[post[q]] = 0.0
    return (np.int64(0) if cost > most else count), L, visits


@kernel
def _choose_lift(lists, i, d, stamp):  # type: ignore[no-untyped-def]
    """L for the private coordinate ``d`` of point ``i`` if all coordinates off its support are penalties."""
    L = LEAST_LIFT
    for p in range(lists.post_ptr[d], lists.post_ptr[d + 1]):
        j = lists.post[p]
        if j == i:
            continue
        outside, t, enough = 0.0, lists.ptr[j], ENOUGH_OUTSIDE * lists.post_val[p]
        while t < lists.ptr[j + 1] and outside < enough:
            if stamp[lists.idx[t]] != i:
                outside += lists.val[t]
            t += 1
        L = max(L, (MARGIN * lists.post_val[p] + lists.rounding) / max(outside - lists.rounding, 1e-300))
    return L


@kernel
def _cover(idx, a, low, high, covered):  # type: ignore[no-untyped-def]
    """Mark the coordinates ``idx[low:high]`` among those of the row that begins at ``a`` and has all of them."""
    t = np.int64(0)
    for q in range(low, high):
        while idx[a + t] < idx[q]:
            t += 1
        covered[t] = True
