"""A point over its contained points: the small problem that decides it where supports alone do not.

Only points whose support lies inside that of ``u_i``, the *contained* points, can represent it. Its
residual over these, ``f``, lives on the support of ``u_i`` and is not positive on contained points.
Every other point has mass off the support, so subtracting a large enough *lift* there makes it a
witness: ``g = f - lift`` off the support.

Each problem is solved in coordinates times ``x^(-1/2)`` first, by an active set (`contained`);
before that, a few sweeps (`sweeps`) prove most points with large supports to be rays, and more of
them where an active set would be too large. Distances in those coordinates are others than those
that a certificate is about, so that what is near the tolerance may stay undecided; then it is
solved once more as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._nnls.factor import dot
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.geometry.certified.confirm import CLEAR
from conecollapse.geometry.certified.contained import descend_contained
from conecollapse.geometry.certified.lists import Lists, Rows, copied_rows, stored_columns
from conecollapse.geometry.certified.sweeps import FEW_LOOKS, MAX_LOOKS, descend_by_sweeps

LIFT_MARGIN = 2.0  # the lift is this many times what is needed, so that rounding cannot undo it
# relative to |f|: costs next to nothing of the proven distance, and swallows rounding
LEAST_LIFT = 1e-3
MOST_ENTRIES = 2**18  # largest factorization of an active set; what may need a larger one is swept
# points that have less than this part of all entries are copied for a problem; more are read where
# they are stored
COPIED = 8
FEW_ENTRIES = 2**12  # a smaller one is made in no time, without sweeps before it
# points with more coordinates may take long: each goes to the next thread that is free
LARGE_SUPPORT = 256
MOST_MET = 0.5  # share of all entries from which they are read point by point
AT_ONCE = 16  # small problems for each call of a kernel: between two calls Ctrl-C can stop the work
ZERO_SWEPT = 0.02  # share of tol up to which the residual of a sweep counts as zero
ZERO_SOLVED = 0.001  # of an active set, which gets there in one step
# share of the lead at the optimum that ends a first and a second attempt
LEAD_FIRST, LEAD_AGAIN = 0.05, 0.99


@dataclass
class Decisions:
    """For each point a functional on its support and a lift, or a combination; neither where
    undecided."""

    # coordinates, values, lift
    functional: dict[int, tuple[AnyArray, FloatArray, float]] = field(default_factory=dict)
    combination: dict[int, tuple[IntArray, FloatArray]] = field(default_factory=dict)


class Scratch(NamedTuple):
    """Room for one small problem after the other."""

    stamp: IntArray  # (dim,): the point that a coordinate was last marked for
    position: AnyArray  # (dim,): the place of each coordinate in the support of u_i
    # (n_points, 4), zero between two problems: what `_lifted_functional` sums over common
    # coordinates
    sums: FloatArray
    touched: AnyArray  # (n_points,)
    weight: FloatArray  # (dim,): of each coordinate in the support of u_i
    room: FloatArray  # (3, dim), of `sweeps`


def rows_for(lists: Lists, points: IntArray) -> Rows:
    """The points as sweeps in `small_problems` about ``points`` read them: one after the other,
    where some may take many sweeps."""
    is_swept = np.diff(lists.ptr)[points] ** 2 > MOST_ENTRIES
    return Rows.by_size(lists) if is_swept.any() else Rows.as_stored(lists)


def small_problems(
    lists: Lists, rows: Rows, points: IntArray, allowed: BoolArray, tol: float
) -> Decisions:
    """Decide ``points`` one by one over their contained, ``allowed`` points."""
    m, n = lists.shape
    out = Decisions()

    def work(start: int, stop: int) -> None:
        scratch = _scratch(m, n)
        at_once = AT_ONCE if stop - start >= AT_ONCE else 1
        for a in range(start, stop, at_once):
            some = points[a : min(a + at_once, stop)]
            decided = _decide_each(lists, rows, allowed, some, scratch, tol)
            for i, (S, h, f, lift, distance) in zip(some, decided, strict=True):
                if distance > CLEAR * tol:
                    out.functional[int(i)] = (lists.idx[lists.ptr[i] : lists.ptr[i + 1]], f, lift)
                elif len(S):
                    out.combination[int(i)] = (S, h)

    # large ones first, a thread for each
    by_size = np.argsort(-np.diff(lists.ptr)[points], kind="stable")
    points = points[by_size]
    n_large = int((np.diff(lists.ptr)[points] > LARGE_SUPPORT).sum())
    for_ranges(work, n_large)
    for_ranges(
        lambda start, stop: work(n_large + start, n_large + stop),
        len(points) - n_large,
        smallest=AT_ONCE,
    )
    return out


def contained_entries(lists: Lists, points: IntArray) -> IntArray:
    """How many entries the points have that each of ``points`` contains."""
    m, n = lists.shape
    sizes, everyone, scratch = np.diff(lists.ptr), np.ones(m, bool), _scratch(m, n)
    return np.array(
        [sizes[_contained_points(lists, everyone, int(i), scratch)].sum() for i in points], np.int64
    )


def _scratch(m: int, n: int) -> Scratch:
    return Scratch(
        np.full(n, -1, np.int64),
        np.zeros(n, np.int32),
        np.zeros((m, 4)),
        np.empty(m, np.int32),
        np.empty(n),
        np.empty((3, n)),
    )


@kernel
def _decide_each(lists, rows, allowed, points, scratch, tol):  # type: ignore[no-untyped-def]
    """`_decide` for each of ``points``."""
    return [_decide(lists, rows, allowed, i, scratch, tol) for i in points]


@kernel
def _decide(lists, rows, allowed, i, scratch, tol):  # type: ignore[no-untyped-def]
    """One small problem: the combination (unit coefficients), the functional on the support with
    its lift, and the distance that it proves (0 if none). No combination where the problem was not
    solved."""
    first, m = lists.ptr[i], lists.ptr[i + 1] - lists.ptr[i]
    contained = _contained_points(lists, allowed, i, scratch)
    support, u = lists.idx[first : first + m], lists.val[first : first + m]
    entries = np.int64(0)
    for j in contained:
        entries += lists.ptr[j + 1] - lists.ptr[j]
    S, h, f, lift, distance = np.empty(0, np.int64), np.empty(0), np.empty(0), 0.0, 0.0
    for power, lead in ((0.5, LEAD_FIRST), (0.0, LEAD_AGAIN)):
        weight = u**-power
        x = u * weight
        total = x.sum()
        x /= total
        for t in range(m):
            scratch.weight[support[t]] = weight[t]
        if entries * COPIED <= len(lists.idx):
            copy, places = (
                copied_rows(rows, contained, scratch.position, scratch.weight),
                np.arange(m).astype(np.int32),
            )
            columns = stored_columns(
                copy, np.arange(len(contained)), places, np.ones(m), scratch.room
            )
            solved, S, h, r = _solve(columns, places, x, tol, lead)
        else:
            columns = stored_columns(rows, contained, support, scratch.weight, scratch.room)
            solved, S, h, r = _solve(columns, scratch.position, x, tol, lead)
        if not solved:
            continue
        for q in range(len(S)):
            h[q] *= total
            S[q] = contained[S[q]]
        if dot(r, r) == 0.0:
            return S, h, f, lift, distance
        f, lift, distance = _lifted_functional(lists, i, r, weight, scratch)
        if distance > CLEAR * tol:
            break
    return S, h, f, lift, distance


@kernel
def _solve(columns, position, x, tol, lead):  # type: ignore[no-untyped-def]
    """Whether ``x`` is solved over the columns; those in use, the coefficients of their points, and
    the residual."""
    size, solved = min(len(x), len(columns.first)) * len(x), False
    S, h, r = np.empty(0, np.int64), np.empty(0), np.empty(0)
    if size > MOST_ENTRIES or (lead == LEAD_FIRST and size > FEW_ENTRIES):
        solved, every, r = descend_by_sweeps(
            columns, x, ZERO_SWEPT * tol, MAX_LOOKS if size > MOST_ENTRIES else FEW_LOOKS
        )
        S, h = _positive(every)
    if not solved and size <= MOST_ENTRIES:
        S, h, r = descend_contained(columns, position, x, ZERO_SOLVED * tol, lead)
        solved = True
    for q in range(len(S)):
        h[q] *= columns.share[S[q]]
    return solved, S, h, r


@kernel
def _positive(every):  # type: ignore[no-untyped-def]
    """The places of the positive coefficients, and these coefficients."""
    S, h, k = np.empty(len(every), np.int64), np.empty(len(every)), np.int64(0)
    for q in range(len(every)):
        if every[q] > 0.0:
            S[k] = q
            h[k] = every[q]
            k += 1
    return S[:k].copy(), h[:k].copy()  # not the room for all, which would be kept with them


@kernel
def _contained_points(lists, allowed, i, scratch):  # type: ignore[no-untyped-def]
    """The ``allowed`` points whose support lies inside that of ``u_i``; stamps and positions of the
    scratch are filled.

    They are looked for among all points with small supports, or among those that have a coordinate
    of ``u_i``, whichever are fewer.
    """
    ptr, idx, post_ptr, post = lists.ptr, lists.idx, lists.post_ptr, lists.post
    a, size = ptr[i], ptr[i + 1] - ptr[i]
    n_met = np.int64(0)
    for t in range(size):
        scratch.stamp[idx[a + t]] = i
        scratch.position[idx[a + t]] = t
        n_met += post_ptr[idx[a + t] + 1] - post_ptr[idx[a + t]]
    contained = np.empty(min(n_met, np.int64(len(ptr) - 1)), np.int64)
    count = np.int64(0)
    if n_met >= len(ptr) - 1:
        for j in lists.by_size:
            if ptr[j + 1] - ptr[j] > size:
                break
            if allowed[j] and j != i and _is_inside(lists, j, i, scratch.stamp):
                contained[count] = j
                count += 1
        return contained[:count]
    for t in range(size):
        for p in range(post_ptr[idx[a + t]], post_ptr[idx[a + t] + 1]):
            j = post[p]
            if ptr[j + 1] - ptr[j] > size:
                break
            if (
                idx[ptr[j]] == idx[a + t]
                and allowed[j]
                and j != i
                and _is_inside(lists, j, i, scratch.stamp)
            ):
                contained[count] = j
                count += 1
    return contained[:count]


@kernel
def _is_inside(lists, j, i, stamp):  # type: ignore[no-untyped-def]
    """Whether all coordinates of point ``j`` are stamped with ``i``."""
    t = lists.ptr[j]
    while t < lists.ptr[j + 1] and stamp[lists.idx[t]] == i:
        t += 1
    return t == lists.ptr[j + 1]


@kernel
def _sum_on_support(lists, i, f, weight, scratch):  # type: ignore[no-untyped-def]
    """Fill the sums of every point that has a coordinate of ``u_i``: f . u, weight . u, the mass on
    the support, and the number of coordinates there; how many these are.

    They are summed over the coordinates of ``u_i``, or point by point if they have most of all
    entries: that is faster for each entry.
    """
    ptr, idx, val, post_ptr, post = lists.ptr, lists.idx, lists.val, lists.post_ptr, lists.post
    sums, touched, a, m = scratch.sums, scratch.touched, lists.ptr[i], len(f)
    n_met, n_touched = np.int64(0), np.int64(0)
    for t in range(m):
        n_met += post_ptr[idx[a + t] + 1] - post_ptr[idx[a + t]]
    if n_met > MOST_MET * len(idx):
        F, W, on = (
            np.zeros(len(post_ptr) - 1),
            np.zeros(len(post_ptr) - 1),
            np.zeros(len(post_ptr) - 1),
        )
        for t in range(m):
            F[idx[a + t]], W[idx[a + t]], on[idx[a + t]] = f[t], weight[t], 1.0
        for j in range(len(ptr) - 1):
            row = slice(ptr[j], ptr[j + 1])
            sums[j, 0], sums[j, 1], sums[j, 2], sums[j, 3] = _sums_of(idx[row], val[row], F, W, on)
            touched[n_touched] = j
            n_touched += sums[j, 3] > 0.0
        return n_touched
    for t in range(m):
        for p in range(post_ptr[idx[a + t]], post_ptr[idx[a + t] + 1]):
            j = post[p]
            if sums[j, 3] == 0.0:
                touched[n_touched] = j
                n_touched += 1
            sums[j, 0] += f[t] * lists.post_val[p]
            sums[j, 1] += weight[t] * lists.post_val[p]
            sums[j, 2] += lists.post_val[p]
            sums[j, 3] += 1.0
    return n_touched


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _sums_of(places, values, F, W, on):  # type: ignore[no-untyped-def]
    """The four sums of one point."""
    first, second, mass, count = 0.0, 0.0, 0.0, 0.0
    for t in range(len(places)):
        d = places[t]
        first += F[d] * values[t]
        second += W[d] * values[t]
        mass += on[d] * values[t]
        count += on[d]
    return first, second, mass, count


@kernel
def _lifted_functional(lists, i, r, weight, scratch):  # type: ignore[no-untyped-def]
    """The residual ``r`` of ``u_i``, in weighted coordinates, as a functional on its support that
    is negative on contained points, its lift, and the distance that both prove."""
    ptr, rounding, sums, touched, m = (
        lists.ptr,
        lists.rounding,
        scratch.sums,
        scratch.touched,
        len(r),
    )
    f = r * weight
    f /= np.sqrt(dot(f, f))
    n_touched = _sum_on_support(lists, i, f, weight, scratch)
    highest, n_contained = -np.inf, 0
    for q in range(n_touched):
        j = touched[q]
        if j != i and sums[j, 3] == ptr[j + 1] - ptr[j]:
            highest = max(highest, sums[j, 0] / sums[j, 1])
            n_contained += 1
    if n_contained == 0:
        highest = 0.0
    own = sums[i, 0] - highest * sums[i, 1]
    for t in range(m):
        f[t] -= highest * weight[t]
    norm = np.sqrt(dot(f, f))
    lift, blur = LEAST_LIFT * norm, rounding * (norm + 1.0)
    for q in range(n_touched):
        j = touched[q]
        value = sums[j, 0] - highest * sums[j, 1]
        if j != i and value > -blur and sums[j, 3] < ptr[j + 1] - ptr[j]:
            outside = max(lists.sums[j] - sums[j, 2] - rounding, 1e-300)
            lift = max(lift, (LIFT_MARGIN * max(value, 0.0) + blur) / outside)
        for c in range(4):
            sums[j, c] = 0.0
    # the values of contained points are at most 0 up to rounding, also that of a checker who
    # multiplies by the lift: go below it
    shift = 4.0 * rounding * (norm + lift + 1.0) if n_contained else 0.0
    for t in range(m):
        f[t] -= shift
    own -= shift * lists.sums[i]
    return f, lift, own / np.sqrt(dot(f, f) + lift * lift * (len(lists.post_ptr) - 1 - m))
