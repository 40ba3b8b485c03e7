"""The certified cone of sparse points, from their supports.

A combination with coefficients >= 0 of non-negative points has the union of their supports. So only points whose support lies
inside that of ``u_i`` (the *contained* points) can represent it, and

- a coordinate of ``u_i`` that no contained point has is *private*: it proves i a ray by itself;
- otherwise a small problem over the contained points, in the coordinates of ``u_i`` alone, decides.

Either way the functional ``f`` found lives on the support of ``u_i`` and is not positive on contained points. Every other point
has mass off the support, so subtracting a large enough *lift* there makes it a witness: ``g = f - lift`` off the support.

Containment is found without a product of the points: the points that contain j are the common members of the posting lists
of j's coordinates, intersected shortest first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import INSIDE, descend, dot
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Progress, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.certified.proof import Proof
from conecollapse.geometry.certified.settle import CLEAR, settle
from conecollapse.geometry.certified.sweeps import descend_by_sweeps

LIFT_MARGIN = 2.0  # the lift is this many times what is needed, so that rounding cannot undo it
LEAST_LIFT = 1e-3  # relative to |f|: costs next to nothing of the proven distance, and swallows rounding
SMALL_ENTRIES = 2**18  # largest problem for an active set, in entries of its dense matrix; larger ones are swept
INSIDE_SWEPT = 0.02  # share of tol that a sweep's residual must come down to, to count as zero
ROUNDING = 4 * float(np.finfo(np.float64).eps)


@dataclass
class Lists:
    """Points and posting lists as flat arrays for the kernels."""

    ptr: IntArray  # point i has coordinates idx[ptr[i]:ptr[i + 1]], increasing, with values val
    idx: AnyArray
    val: FloatArray
    post_ptr: IntArray  # coordinate d belongs to the points post[post_ptr[d]:post_ptr[d + 1]], increasing
    post: AnyArray
    post_val: FloatArray
    sums: FloatArray
    shape: tuple[int, int]

    @classmethod
    def of(cls, U: Sparse) -> Lists:
        posting = U.T.tocsr()  # of a CSR with sorted rows: the transpose's rows come out sorted
        return cls(
            U.indptr.astype(np.int64), U.indices.astype(np.int32), U.data, posting.indptr.astype(np.int64),
            posting.indices.astype(np.int32), posting.data, np.asarray(U.sum(axis=1)).ravel(), U.shape,
        )  # fmt: skip


@dataclass
class Decisions:
    """For each point a functional on its support and a lift, or a combination; neither where undecided."""

    functional: dict[int, tuple[AnyArray, FloatArray, float]] = field(default_factory=dict)  # coordinates, values, lift
    combination: dict[int, tuple[IntArray, FloatArray]] = field(default_factory=dict)


def prove_sparse(U: Sparse, tol: float, progress: Progress = None) -> Proof:
    """Rays of the sparse unit rows ``U`` (sorted indices, no stored zeros, no two rows colinear), with witnesses and combinations."""
    lists = Lists.of(U)
    m, n = U.shape
    private, lift = _private_coordinates(lists, tol)
    sure = private >= 0
    if progress is not None:
        progress("supports", int(sure.sum()), m)
    small = _small_problems(lists, np.flatnonzero(~sure), np.ones(m, bool), tol)
    sure[list(small.functional)] = True
    retry = [i for i, (S, _) in small.combination.items() if not sure[S].all()]
    small.combination.update(_small_problems(lists, np.array(retry, np.int64), sure, tol).combination)
    settled = settle(U, lists.sums, tol, sure, small.combination, progress)
    if progress is not None:
        progress("supports", m, m)

    rays = np.flatnonzero(sure)
    return Proof.of_settled(settled, {}, n, Support(rays, *_witness_rows(rays, private, lift, small, n)))


def _witness_rows(rays: IntArray, private: IntArray, lift: FloatArray, small: Decisions, n: int) -> tuple[Sparse, FloatArray]:
    """The functionals of ``rays`` as sparse rows, and their lifts."""
    by_small = np.array(sorted(small.functional), np.int64)
    lengths = np.ones(len(rays) + 1, np.int64)
    lengths[0] = 0
    place = np.searchsorted(rays, by_small)
    lengths[place + 1] = [len(small.functional[int(i)][0]) for i in by_small]
    ptr = np.cumsum(lengths)
    indices = np.empty(ptr[-1], np.int64)
    data = np.empty(ptr[-1])
    single = private[rays] >= 0
    indices[ptr[:-1][single]] = private[rays[single]]
    data[ptr[:-1][single]] = 1.0
    lifts = lift[rays]
    for i, a in zip(by_small, place, strict=True):
        coordinates, f, high = small.functional[int(i)]
        indices[ptr[a] : ptr[a + 1]] = coordinates
        data[ptr[a] : ptr[a + 1]] = f
        lifts[a] = high
    return sp.csr_array((data, indices, ptr), shape=(len(rays), n)), lifts


def _private_coordinates(lists: Lists, tol: float) -> tuple[IntArray, FloatArray]:
    """For each point a private coordinate that proves it (-1 for none), and the lift."""
    m = lists.shape[0]
    covered = np.zeros(len(lists.idx), np.uint8)

    def mark(start: int, stop: int) -> None:
        _mark_covered(lists.ptr, lists.idx, lists.post_ptr, lists.post, covered, start, stop)

    for_ranges(mark, m, smallest=256)
    private = np.full(m, -1, np.int64)
    lift = np.zeros(m)
    rounding = ROUNDING * (np.diff(lists.ptr).max(initial=0) + 2) * lists.sums.max(initial=0.0)

    def choose(start: int, stop: int) -> None:
        _choose_private(
            lists.ptr, lists.idx, lists.val, lists.post_ptr, lists.post, lists.post_val, covered, private, lift,
            CLEAR * tol, rounding, LIFT_MARGIN, LEAST_LIFT, start, stop,
        )  # fmt: skip

    for_ranges(choose, m, smallest=256)
    return private, lift


@kernel
def _mark_covered(ptr, idx, post_ptr, post, covered, start, stop):  # type: ignore[no-untyped-def]
    """For every j in range and every i != j whose support contains j's, mark j's coordinates in row i."""
    longest = 0
    for d in range(len(post_ptr) - 1):
        longest = max(longest, post_ptr[d + 1] - post_ptr[d])
    holders = np.empty(longest, np.int32)
    for j in range(start, stop):
        a, b = ptr[j], ptr[j + 1]
        shortest = idx[a]
        for t in range(a, b):
            d = idx[t]
            if post_ptr[d + 1] - post_ptr[d] < post_ptr[shortest + 1] - post_ptr[shortest]:
                shortest = d
        n_holders = np.int64(0)
        for t in range(post_ptr[shortest], post_ptr[shortest + 1]):
            i = post[t]
            if i != j and ptr[i + 1] - ptr[i] >= b - a:
                holders[n_holders] = i
                n_holders += 1
        for t in range(a, b):
            if n_holders == 0:
                break
            if idx[t] != shortest:
                n_holders = _intersect(holders, n_holders, post, post_ptr[idx[t]], post_ptr[idx[t] + 1])
        for q in range(n_holders):
            _mark_row(idx, a, b, ptr[holders[q]], ptr[holders[q] + 1], covered)


@kernel
def _seek(sorted_list, at, high, wanted, bisect):  # type: ignore[no-untyped-def]
    """First place from ``at`` on whose entry is not below ``wanted``; by bisection, or by walking."""
    if bisect:
        while at < high:
            middle = (at + high) >> 1
            if sorted_list[middle] < wanted:
                at = middle + 1
            else:
                high = middle
    else:
        while at < high and sorted_list[at] < wanted:
            at += 1
    return at


@kernel
def _intersect(holders, n_holders, post, low, high):  # type: ignore[no-untyped-def]
    """Keep the holders that stand in the sorted ``post[low:high]``."""
    kept = np.int64(0)
    at = low
    bisect = n_holders * 12 < high - low
    for q in range(n_holders):
        at = _seek(post, at, high, holders[q], bisect)
        if at < high and post[at] == holders[q]:
            holders[kept] = holders[q]
            kept += 1
    return kept


@kernel
def _mark_row(idx, a, b, low, high, covered):  # type: ignore[no-untyped-def]
    """Mark in row ``idx[low:high]`` the coordinates ``idx[a:b]``, all of which it has. Threads may mark the same place."""
    at = low
    bisect = (b - a) * 12 < high - low
    for t in range(a, b):
        at = _seek(idx, at, high, idx[t], bisect)
        covered[at] = 1


@kernel
def _choose_private(ptr, idx, val, post_ptr, post, post_val, covered, private, lift, tol, rounding, margin, least, start, stop):  # type: ignore[no-untyped-def]  # fmt: skip
    """The uncovered coordinate of each point that fewest others have, and the lift that holds these down."""
    n = len(post_ptr) - 1
    stamp = np.full(n, -1, np.int64)
    for i in range(start, stop):
        best, fewest = -1, len(post) + 1
        for t in range(ptr[i], ptr[i + 1]):
            d = idx[t]
            stamp[d] = i
            if not covered[t] and post_ptr[d + 1] - post_ptr[d] < fewest:
                best, fewest = t, post_ptr[d + 1] - post_ptr[d]
        if best < 0:
            continue
        d = idx[best]
        needed = least
        for p in range(post_ptr[d], post_ptr[d + 1]):
            j = post[p]
            if j != i:
                outside = 0.0
                for t in range(ptr[j], ptr[j + 1]):
                    if stamp[idx[t]] != i:
                        outside += val[t]
                        if outside >= 8.0 * post_val[p]:
                            break
                needed = max(needed, (margin * post_val[p] + rounding) / max(outside - rounding, 1e-300))
        distance = val[best] / np.sqrt(1.0 + needed * needed * (n - (ptr[i + 1] - ptr[i])))
        if distance > tol:
            private[i] = d
            lift[i] = needed


def _small_problems(lists: Lists, points: IntArray, allowed: BoolArray, tol: float) -> Decisions:
    """Decide ``points`` one by one over their contained, ``allowed`` points."""
    m, n = lists.shape
    out = Decisions()
    rounding = ROUNDING * (np.diff(lists.ptr).max(initial=0) + 2) * lists.sums.max(initial=0.0)

    def work(start: int, stop: int) -> None:
        count, position = np.zeros(m, np.int32), np.zeros(n, np.int32)
        value, inside = np.zeros(m), np.zeros(m)
        for i in points[start:stop]:
            solved, S, h, f, lift, distance = _decide(
                lists.ptr, lists.idx, lists.val, lists.post_ptr, lists.post, lists.post_val, lists.sums, allowed, i,
                count, position, value, inside, rounding, LIFT_MARGIN, LEAST_LIFT, SMALL_ENTRIES, INSIDE_SWEPT * tol,
            )  # fmt: skip
            if not solved:
                continue
            if distance > CLEAR * tol:
                out.functional[int(i)] = (lists.idx[lists.ptr[i] : lists.ptr[i + 1]], f, lift)
            elif len(S):
                out.combination[int(i)] = (S, h)

    for_ranges(work, len(points), smallest=16)
    return out


@kernel
def _decide(ptr, idx, val, post_ptr, post, post_val, sums, allowed, i, count, position, value, inside, rounding, margin, least, few, zero):  # type: ignore[no-untyped-def]  # fmt: skip
    """One small problem, in slice coordinates ``q = u / sum``.

    Returns whether it was solved, the combination (unit coefficients), the functional on the support with its lift, and
    the distance that it proves (0 if none).
    """
    a, b = ptr[i], ptr[i + 1]
    df = b - a
    n_touched = np.int64(0)
    for t in range(a, b):
        n_touched += post_ptr[idx[t] + 1] - post_ptr[idx[t]]
    touched = np.empty(n_touched, np.int64)
    n_touched = np.int64(0)
    for t in range(a, b):
        position[idx[t]] = t - a
        for p in range(post_ptr[idx[t]], post_ptr[idx[t] + 1]):
            j = post[p]
            if count[j] == 0:
                touched[n_touched] = j
                n_touched += 1
            count[j] += 1
    n_contained = np.int64(0)
    contained = np.empty(n_touched, np.int64)
    for q in range(n_touched):
        j = touched[q]
        if j != i and count[j] == ptr[j + 1] - ptr[j] and allowed[j]:
            contained[n_contained] = j
            n_contained += 1
    x = np.empty(df)
    for t in range(df):
        x[t] = val[a + t] / sums[i]
    S, h, f = np.empty(0, np.int64), np.empty(0), np.empty(0)
    lift, distance = 0.0, 0.0
    if df * (n_contained + 1) <= few:
        Z = np.zeros((n_contained + 1, df))
        for q in range(n_contained):
            j = contained[q]
            for t in range(ptr[j], ptr[j + 1]):
                Z[q, position[idx[t]]] = val[t] / sums[j]
        Z[n_contained] = x
        solved = True
        S, h, r = _solve_small(Z, x, n_contained)
    else:
        solved, every, r = descend_by_sweeps(ptr, idx, val, sums, contained, n_contained, position, x, zero)
        S = np.flatnonzero(every)
        h = every[S]
        if np.sqrt(dot(r, r)) <= zero * np.sqrt(dot(x, x)):
            r[:] = 0.0
    if solved:
        for q in range(len(S)):
            h[q] *= sums[i] / sums[contained[S[q]]]
            S[q] = contained[S[q]]
        norm = np.sqrt(dot(r, r))
        if norm > 0:
            highest = 0.0
            for q in range(n_contained):
                j = contained[q]
                price = 0.0
                for t in range(ptr[j], ptr[j + 1]):
                    price += r[position[idx[t]]] * val[t]
                price /= sums[j] * norm
                highest = price if q == 0 else max(highest, price)
            f = np.empty(df)
            for t in range(df):
                f[t] = r[t] / norm - highest
                for p in range(post_ptr[idx[a + t]], post_ptr[idx[a + t] + 1]):
                    value[post[p]] += f[t] * post_val[p]
                    inside[post[p]] += post_val[p]
            lift = least
            for q in range(n_touched):
                j = touched[q]
                if j != i and value[j] > -rounding and count[j] < ptr[j + 1] - ptr[j]:
                    outside = max(sums[j] - inside[j] - rounding, 1e-300)
                    lift = max(lift, (margin * max(value[j], 0.0) + rounding) / outside)
            # contained points are at most 0 up to rounding, also that of a checker who multiplies by the lift: go below it
            shift = 4.0 * rounding * (np.sqrt(dot(f, f)) + lift + 1.0) if n_contained else 0.0
            for t in range(df):
                f[t] -= shift
            own = value[i] - shift * sums[i]
            distance = own / np.sqrt(dot(f, f) + lift * lift * (len(position) - df))
    for q in range(n_touched):
        j = touched[q]
        count[j] = 0
        value[j] = 0.0
        inside[j] = 0.0
    return solved, S, h, f, lift, distance


@kernel
def _solve_small(Z, x, n_contained):  # type: ignore[no-untyped-def]
    """Active set for x over the first rows of Z, stopping early once x is its own best functional."""
    df = len(x)
    capacity = max(1, min(df, n_contained))
    S, h, qx, z = np.zeros(capacity, np.int64), np.zeros(capacity), np.zeros(capacity), np.zeros(capacity)
    Q, R = np.zeros((capacity, df)), np.zeros((capacity, capacity))
    dead = np.zeros(max(n_contained, 1), np.bool_)
    r = x.copy()
    inside = 1e-14 * np.sqrt(dot(x, x))
    cand, weight, limit = np.arange(n_contained), np.ones(n_contained), 3 * n_contained + 3
    k, ending, _ = descend(
        Z, weight, x, cand, n_contained, S, h, np.int64(0), Q, R, qx, r, z, dead, 1.0, 1e-14, inside, limit
    )  # fmt: skip
    if ending == INSIDE:
        r[:] = 0.0
    return S[:k].copy(), h[:k].copy(), r
