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
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._nnls.kernels import WITHIN_TOL, Candidates, Columns, Stopping, descend, dot, new_state
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, Effort, FloatArray, IntArray, Progress, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.certified.estimate import warn_of_rest
from conecollapse.geometry.certified.proof import Known, Proof
from conecollapse.geometry.certified.settle import CLEAR, settle
from conecollapse.geometry.certified.sweeps import descend_by_sweeps

LIFT_MARGIN = 2.0  # the lift is this many times what is needed, so that rounding cannot undo it
LEAST_LIFT = 1e-3  # relative to |f|: costs next to nothing of the proven distance, and swallows rounding
SMALL_ENTRIES = 2**18  # largest problem for an active set, in entries of its dense matrix; larger ones are swept
AT_ONCE = 16  # small problems for each call of a kernel: between two calls Ctrl-C can stop the work
ZERO_SWEPT = 0.02  # share of tol up to which the residual of a sweep counts as zero
SUM_ROUNDING = 4 * float(np.finfo(np.float64).eps)  # for each term of a sum
SUPPORT_STOP = Stopping(price=1e-14, own_price=1.0, residual=1e-14)  # ends once the point has the highest price itself, or is inside


class Lists(NamedTuple):
    """The points, compressed by rows, and the posting list of each coordinate, that is the same array compressed by columns."""

    ptr: IntArray  # point i has the coordinates idx[ptr[i]:ptr[i + 1]], increasing,
    idx: AnyArray
    val: FloatArray  # with these values
    post_ptr: IntArray  # coordinate d is in the supports of the points post[post_ptr[d]:post_ptr[d + 1]], increasing,
    post: AnyArray
    post_val: FloatArray  # where it has these values
    sums: FloatArray  # (n_points,): sum of the values of each point
    rounding: float  # bound on the rounding error of a sum over the support of a point

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.ptr) - 1, len(self.post_ptr) - 1

    @classmethod
    def of(cls, U: Sparse) -> Lists:
        posting = U.T.tocsr()  # of a CSR with sorted rows: the transpose's rows come out sorted
        sums = np.asarray(U.sum(axis=1)).ravel()
        return cls(
            ptr=U.indptr.astype(np.int64),
            idx=U.indices.astype(np.int32),
            val=U.data,
            post_ptr=posting.indptr.astype(np.int64),
            post=posting.indices.astype(np.int32),
            post_val=posting.data,
            sums=sums,
            rounding=float(SUM_ROUNDING * (np.diff(U.indptr).max(initial=0) + 2) * sums.max(initial=0.0)),
        )


@dataclass
class Decisions:
    """For each point a functional on its support and a lift, or a combination; neither where undecided."""

    functional: dict[int, tuple[AnyArray, FloatArray, float]] = field(default_factory=dict)  # coordinates, values, lift
    combination: dict[int, tuple[IntArray, FloatArray]] = field(default_factory=dict)


def prove_sparse(U: Sparse, tol: float, progress: Progress = None, *, effort: Effort = "exact", known: Known | None = None) -> Proof:
    """Rays of the sparse unit rows ``U`` (sorted indices, no stored zeros, no two rows colinear), with witnesses and combinations.

    With ``effort="quick"`` what has no private coordinate is left open. What is ``known`` is not proven again.
    """
    lists = Lists.of(U)
    m, n = U.shape
    if known is None:
        private, lift = _private_coordinates(lists, tol)
        before, undecided, combination = np.zeros(m, bool), private < 0, {}
    else:
        private, lift = np.full(m, -1, np.int64), np.zeros(m)
        before, undecided, combination = known.sure, known.undecided, dict(known.combination)
    sure = before | (private >= 0)
    if progress is not None:
        progress("supports", int(sure.sum()), m)
    small = Decisions()
    if effort == "exact":
        warn_of_rest(undecided, U)
        small = _small_problems(lists, np.flatnonzero(undecided), np.ones(m, bool), tol)
        sure[list(small.functional)] = True
        retry = [i for i, (S, _) in small.combination.items() if not sure[S].all()]
        small.combination.update(_small_problems(lists, np.array(retry, np.int64), sure, tol).combination)
    settled = settle(U, lists.sums, tol, sure, combination | small.combination, progress, effort)
    if progress is not None:
        progress("supports", m, m)

    rays = np.flatnonzero(sure & ~before)
    return Proof.of_settled(settled, {}, n, Support(rays, *_witness_rows(rays, private, lift, small, n)), known=known)


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
        _mark_covered(lists, covered, start, stop)

    for_ranges(mark, m, smallest=256)
    private = np.full(m, -1, np.int64)
    lift = np.zeros(m)

    def choose(start: int, stop: int) -> None:
        _choose_private(lists, covered, CLEAR * tol, private, lift, start, stop)

    for_ranges(choose, m, smallest=256)
    return private, lift


@kernel
def _mark_covered(lists, covered, start, stop):  # type: ignore[no-untyped-def]
    """For every j from ``start`` to ``stop`` and every i != j whose support contains j's, mark j's coordinates in row i."""
    ptr, idx, post_ptr, post = lists.ptr, lists.idx, lists.post_ptr, lists.post
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
def _choose_private(lists, covered, needed_distance, private, lift, start, stop):  # type: ignore[no-untyped-def]
    """The uncovered coordinate of each point that the fewest others have, and the lift that makes these negative, if they prove enough."""
    ptr, idx, val, post_ptr, post, post_val = lists.ptr, lists.idx, lists.val, lists.post_ptr, lists.post, lists.post_val
    rounding = lists.rounding
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
        needed = LEAST_LIFT
        for p in range(post_ptr[d], post_ptr[d + 1]):
            j = post[p]
            if j != i:
                outside = 0.0
                for t in range(ptr[j], ptr[j + 1]):
                    if stamp[idx[t]] != i:
                        outside += val[t]
                        if outside >= 8.0 * post_val[p]:
                            break
                needed = max(needed, (LIFT_MARGIN * post_val[p] + rounding) / max(outside - rounding, 1e-300))
        distance = val[best] / np.sqrt(1.0 + needed * needed * (n - (ptr[i + 1] - ptr[i])))
        if distance > needed_distance:
            private[i] = d
            lift[i] = needed


class Scratch(NamedTuple):
    """Room for one small problem after the other; all but ``position`` are zero between two of them."""

    n_common: AnyArray  # (n_points,): how many coordinates of the support of u_i each point has
    position: AnyArray  # (dim,): the place of each coordinate in the support of u_i
    value: FloatArray  # (n_points,): f . u of each point
    within: FloatArray  # (n_points,): the mass of each point on the support of u_i


def _small_problems(lists: Lists, points: IntArray, allowed: BoolArray, tol: float) -> Decisions:
    """Decide ``points`` one by one over their contained, ``allowed`` points."""
    m, n = lists.shape
    out = Decisions()

    def work(start: int, stop: int) -> None:
        scratch = Scratch(np.zeros(m, np.int32), np.zeros(n, np.int32), np.zeros(m), np.zeros(m))
        for a in range(start, stop, AT_ONCE):
            some = points[a : min(a + AT_ONCE, stop)]
            decided = _decide_each(lists, allowed, some, scratch, ZERO_SWEPT * tol)
            for i, (solved, S, h, f, lift, distance) in zip(some, decided, strict=True):
                if solved and distance > CLEAR * tol:
                    out.functional[int(i)] = (lists.idx[lists.ptr[i] : lists.ptr[i + 1]], f, lift)
                elif solved and len(S):
                    out.combination[int(i)] = (S, h)

    for_ranges(work, len(points), smallest=16)
    return out


@kernel
def _decide_each(lists, allowed, points, scratch, zero):  # type: ignore[no-untyped-def]
    """`_decide` for each of ``points``."""
    return [_decide(lists, allowed, i, scratch, zero) for i in points]


@kernel
def _decide(lists, allowed, i, scratch, zero):  # type: ignore[no-untyped-def]
    """One small problem, in slice coordinates ``q = u / sum``.

    Returns whether it was solved, the combination (unit coefficients), the functional on the support with its lift, and
    the distance that it proves (0 if none).
    """
    sums, first = lists.sums, lists.ptr[i]
    touched, contained = _near_points(lists, allowed, i, scratch)
    x = np.empty(lists.ptr[i + 1] - first)
    for t in range(len(x)):
        x[t] = lists.val[first + t] / sums[i]
    solved = True
    if len(x) * (len(contained) + 1) <= SMALL_ENTRIES:
        S, h, r = _solve_small(lists, contained, scratch.position, x)
    else:
        solved, every, r = descend_by_sweeps(lists, contained, scratch.position, x, zero)
        S, h = _positive(every)
        if np.sqrt(dot(r, r)) <= zero * np.sqrt(dot(x, x)):
            r[:] = 0.0
    f, lift, distance = np.empty(0), 0.0, 0.0
    if solved:
        for q in range(len(S)):
            h[q] *= sums[i] / sums[contained[S[q]]]
            S[q] = contained[S[q]]
        if np.sqrt(dot(r, r)) > 0.0:
            f, lift, distance = _lifted_functional(lists, i, r, touched, contained, scratch)
    for q in range(len(touched)):
        j = touched[q]
        scratch.n_common[j] = 0
        scratch.value[j] = 0.0
        scratch.within[j] = 0.0
    return solved, S, h, f, lift, distance


@kernel
def _positive(every):  # type: ignore[no-untyped-def]
    """The places of the positive coefficients, and these coefficients."""
    S, h, k = np.empty(len(every), np.int64), np.empty(len(every)), np.int64(0)
    for q in range(len(every)):
        if every[q] > 0.0:
            S[k] = q
            h[k] = every[q]
            k += 1
    return S[:k], h[:k]


@kernel
def _near_points(lists, allowed, i, scratch):  # type: ignore[no-untyped-def]
    """The points that share a coordinate with ``u_i``, and those ``allowed`` whose support lies inside that of ``u_i``.

    ``n_common`` and ``position`` of the scratch are filled.
    """
    ptr, idx, post_ptr, post = lists.ptr, lists.idx, lists.post_ptr, lists.post
    a, b = ptr[i], ptr[i + 1]
    n_touched = np.int64(0)
    for t in range(a, b):
        n_touched += post_ptr[idx[t] + 1] - post_ptr[idx[t]]
    touched = np.empty(n_touched, np.int64)
    n_touched = np.int64(0)
    for t in range(a, b):
        scratch.position[idx[t]] = t - a
        for p in range(post_ptr[idx[t]], post_ptr[idx[t] + 1]):
            j = post[p]
            if scratch.n_common[j] == 0:
                touched[n_touched] = j
                n_touched += 1
            scratch.n_common[j] += 1
    contained = np.empty(n_touched, np.int64)
    n_contained = np.int64(0)
    for q in range(n_touched):
        j = touched[q]
        if j != i and scratch.n_common[j] == ptr[j + 1] - ptr[j] and allowed[j]:
            contained[n_contained] = j
            n_contained += 1
    return touched[:n_touched], contained[:n_contained]


@kernel
def _solve_small(lists, contained, position, x):  # type: ignore[no-untyped-def]
    """Active set for ``x`` over the contained points: the places of those in use, their coefficients, and the residual.

    It ends early once ``x`` has the highest price itself. A residual that counts as zero is set to zero.
    """
    ptr, idx, val, sums = lists.ptr, lists.idx, lists.val, lists.sums
    n, m = len(contained), len(x)
    Z, weight = np.zeros((n, m)), np.ones(n)
    candidates = Candidates(np.empty(n, np.int64), np.empty(n, np.bool_))
    for q in range(n):
        candidates.column[q] = q
        j = contained[q]
        for t in range(ptr[j], ptr[j + 1]):
            Z[q, position[idx[t]]] = val[t] / sums[j]
    state = new_state(max(1, min(m, n)), m)
    for t in range(m):
        state.r[t] = x[t]
    k, ending, _ = descend(Columns(Z, weight), x, candidates, state, np.int64(0), SUPPORT_STOP, 3 * n + 3)
    if ending == WITHIN_TOL:
        state.r[:] = 0.0
    return state.S[:k], state.h[:k], state.r


@kernel
def _lifted_functional(lists, i, r, touched, contained, scratch):  # type: ignore[no-untyped-def]
    """The residual ``r`` of ``u_i`` as a functional on its support that is negative on contained points, its lift, and the distance
    that both prove."""
    ptr, idx, val, post_ptr, post, post_val = lists.ptr, lists.idx, lists.val, lists.post_ptr, lists.post, lists.post_val
    sums, rounding, value = lists.sums, lists.rounding, scratch.value
    a = ptr[i]
    norm = np.sqrt(dot(r, r))
    highest = 0.0
    for q in range(len(contained)):
        j = contained[q]
        price = 0.0
        for t in range(ptr[j], ptr[j + 1]):
            price += r[scratch.position[idx[t]]] * val[t]
        price /= sums[j] * norm
        highest = price if q == 0 else max(highest, price)
    f = np.empty(len(r))
    for t in range(len(r)):
        f[t] = r[t] / norm - highest
        for p in range(post_ptr[idx[a + t]], post_ptr[idx[a + t] + 1]):
            value[post[p]] += f[t] * post_val[p]
            scratch.within[post[p]] += post_val[p]
    lift = LEAST_LIFT
    for q in range(len(touched)):
        j = touched[q]
        if j != i and value[j] > -rounding and scratch.n_common[j] < ptr[j + 1] - ptr[j]:
            outside = max(sums[j] - scratch.within[j] - rounding, 1e-300)
            lift = max(lift, (LIFT_MARGIN * max(value[j], 0.0) + rounding) / outside)
    # the values of contained points are at most 0 up to rounding, also that of a checker who multiplies by the lift: go below it
    shift = 4.0 * rounding * (np.sqrt(dot(f, f)) + lift + 1.0) if len(contained) else 0.0
    for t in range(len(r)):
        f[t] -= shift
    own = value[i] - shift * sums[i]
    return f, lift, own / np.sqrt(dot(f, f) + lift * lift * (len(post_ptr) - 1 - len(r)))
