r"""Rays that one coordinate proves.

A combination with coefficients >= 0 of non-negative points has the union of their supports, so only
*contained* points, whose support lies inside that of :math:`u_i`, can represent it. A coordinate d
of :math:`u_i` that no contained point has is *private*: every other point that has it also has a
coordinate off the support S of :math:`u_i`. So

.. math:: g = e_d - L \sum_{c \notin S} e_c

with a large enough *lift* L is a witness. It is stored as one entry and one number, and a checker
looks for a coordinate off the support of each point that has d.
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import csr_rows
from conecollapse._threads import for_ranges
from conecollapse._types import IntArray
from conecollapse.certificates import Support
from conecollapse.geometry.certified.cost import VISIT, Budget
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.witness import CLEAR, LEAST_LIFT, needed_lift

# mass off the support, in units of the value at d, beyond which more of it changes little
ENOUGH_OUTSIDE = 8.0
COVERED = 2**62  # of coordinates that a contained point has: more than there are points
AT_ONCE = 256  # points for each call of the kernel: between two calls Ctrl-C can stop the work


def private_coordinates(
    lists: Lists, tol: float, budget: Budget, share: IntArray | None = None
) -> Support:
    """The witnesses of the points, of all or of a ``share``, that a private coordinate proves to be
    more than ``tol`` away from the cone of the others.

    Every point may take the same share of the budget, and what the points before it in its thread
    have left of theirs.
    """
    m, n = lists.shape
    coordinate, lift = np.full(m, -1, np.int64), np.zeros(m)
    lock, longest = Lock(), int(np.diff(lists.ptr).max(initial=0))
    asked = np.arange(m) if share is None else share
    visits_each = budget.left / VISIT / max(len(asked), 1)

    def work(start: int, stop: int) -> None:
        # arrays that a kernel makes take long to compile
        marks, room = (np.full(n, -1, np.int64), np.empty(longest, np.int64)), 0.0
        for a in range(start, stop, AT_ONCE):
            points = asked[a : min(a + AT_ONCE, stop)]
            room += visits_each * len(points)
            visits = _prove_each(lists, points, CLEAR * tol, marks, coordinate, lift, room)
            room -= visits
            with lock:
                budget.spend(VISIT * float(visits))

    for_ranges(work, len(asked), smallest=AT_ONCE)
    rays = np.flatnonzero(coordinate >= 0)
    ones, ends = np.ones(len(rays), np.float32), np.arange(len(rays) + 1)
    return Support(rays, csr_rows(ones, coordinate[rays], ends, n), lift[rays])


@kernel
def _prove_each(lists, points, needed_distance, marks, coordinate, lift, room):  # type: ignore[no-untyped-def]
    """Fill ``coordinate`` and ``lift`` of ``points``; how many entries were visited.

    ``marks`` say for which point a coordinate was last stamped, and of each entry of the present
    point how many points have its coordinate, or `COVERED` where a contained point has it. Those
    that few points have come first. Once more than ``room`` entries have been visited, the rest is
    left out.
    """
    ptr, idx, post_ptr, (stamp, counts) = lists.ptr, lists.idx, lists.post_ptr, marks
    visits = np.int64(0)
    for i in points:
        if visits > room:
            break
        a, size = ptr[i], ptr[i + 1] - ptr[i]
        for t in range(size):
            stamp[idx[a + t]] = i
            counts[t] = post_ptr[idx[a + t] + 1] - post_ptr[idx[a + t]]
        while True:
            at = np.argmin(counts[:size])
            visits += size
            if counts[at] == COVERED:
                break
            counts[at] = COVERED
            contained, looked = _contained_holder(lists, i, idx[a + at], stamp)
            visits += looked
            if contained >= 0:
                _cover(idx, a, ptr[contained], ptr[contained + 1], counts)
                continue
            if visits > room:
                break
            L, looked = _choose_lift(lists, i, idx[a + at], stamp)
            visits += looked
            if lists.val[a + at] > needed_distance * np.sqrt(
                1.0 + L * L * (len(post_ptr) - 1 - size)
            ):
                coordinate[i], lift[i] = idx[a + at], L
                break
            if visits > room:
                break
    return visits


@kernel
def _contained_holder(lists, i, d, stamp):  # type: ignore[no-untyped-def]
    """A point other than ``i`` that has coordinate ``d`` and whose support lies inside that of i,
    or -1; and the entries visited."""
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
def _choose_lift(lists, i, d, stamp):  # type: ignore[no-untyped-def]
    """L for the private coordinate ``d`` of point ``i``, 0 where no other point has it; and the
    entries visited.

    Of each point that has d, so much off the support is added up as the largest L so far asks for.
    """
    ptr, idx, val = lists.ptr, lists.idx, lists.val
    L = LEAST_LIFT if lists.post_ptr[d + 1] - lists.post_ptr[d] > 1 else 0.0
    visits = np.int64(0)
    for p in range(lists.post_ptr[d], lists.post_ptr[d + 1]):
        j = lists.post[p]
        if j == i:
            continue
        value, outside, t = lists.post_val[p], -lists.rounding, ptr[j]
        enough = min(ENOUGH_OUTSIDE * value, needed_lift(value, lists.rounding, L))
        while t < ptr[j + 1] and outside < enough:
            if stamp[idx[t]] != i:
                outside += val[t]
            t += 1
        visits += t - ptr[j] + 1
        L = max(L, needed_lift(value, lists.rounding, outside))
    return L, visits


@kernel
def _cover(idx, a, low, high, counts):  # type: ignore[no-untyped-def]
    """Mark the coordinates ``idx[low:high]`` among those of the row that begins at ``a`` and has
    all of them."""
    t = np.int64(0)
    for q in range(low, high):
        while idx[a + t] < idx[q]:
            t += 1
        counts[t] = COVERED
