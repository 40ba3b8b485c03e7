"""The certified cone of sparse points, from their supports.

A combination with coefficients >= 0 of non-negative points has the union of their supports. So only points whose support lies
inside that of ``u_i`` (the *contained* points) can represent it, and

- a coordinate of ``u_i`` that no contained point has proves i a ray by itself (`private`);
- a point all of whose coordinates have an *axis*, a point with that coordinate only, is the sum of these axes;
- otherwise a small problem over the contained points, in the coordinates of ``u_i`` alone, decides (`sweeps` where it is large).

The functional ``f`` of a small problem lives on the support of ``u_i`` and is not positive on contained points. Every other point
has mass off the support, so subtracting a large enough *lift* there makes it a witness: ``g = f - lift`` off the support.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import combination_rows
from conecollapse._nnls.kernels import WITHIN_TOL, Candidates, Columns, Stopping, descend, dot, new_state
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, Effort, FloatArray, IntArray, Progress, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.certified.dense import prove_dense
from conecollapse.geometry.certified.estimate import warn_of_rest
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.private import private_coordinates
from conecollapse.geometry.certified.proof import Known, Proof
from conecollapse.geometry.certified.settle import CLEAR, settle
from conecollapse.geometry.certified.sweeps import descend_by_sweeps

MOSTLY_FILLED = 0.1  # density above which supports say little about which points can represent which
DENSE_POINTS = 2**27  # entries up to which mostly filled points may be made dense
LIFT_MARGIN = 2.0  # the lift is this many times what is needed, so that rounding cannot undo it
LEAST_LIFT = 1e-3  # relative to |f|: costs next to nothing of the proven distance, and swallows rounding
SMALL_ENTRIES = 2**18  # largest problem for an active set, in entries of its dense matrix; larger ones are swept
LARGE_SUPPORT = 256  # points with more coordinates may take long: each goes to the next thread that is free
AT_ONCE = 16  # small problems for each call of a kernel: between two calls Ctrl-C can stop the work
ZERO_SWEPT = 0.02  # share of tol up to which the residual of a sweep counts as zero
SUPPORT_STOP = Stopping(price=1e-14, own_price=1.0, residual=1e-14)  # ends once the point has the highest price itself, or is inside


@dataclass
class Decisions:
    """For each point a functional on its support and a lift, or a combination; neither where undecided."""

    functional: dict[int, tuple[AnyArray, FloatArray, float]] = field(default_factory=dict)  # coordinates, values, lift
    combination: dict[int, tuple[IntArray, FloatArray]] = field(default_factory=dict)


def prove_sparse(
    U: Sparse,
    tol: float,
    progress: Progress = None,
    *,
    effort: Effort = "exact",
    known: Known | None = None,
    most_dense: int = DENSE_POINTS,
) -> Proof:
    """Rays of the sparse unit rows ``U`` (sorted indices, no stored zeros, no two rows colinear), with witnesses and combinations.

    With ``effort="quick"`` what supports alone do not decide is left open. What is ``known`` is not proven again. Where points are mostly
    filled, and at most ``most_dense`` entries large, what supports do not decide is decided as for dense points.
    """
    m, n = U.shape
    lists = Lists.of(U)
    known = known or _by_supports(U, lists, tol)
    sure = known.sure.copy()
    if progress is not None:
        progress("supports", int(sure.sum()), m)
    if effort == "exact" and U.nnz > MOSTLY_FILLED * m * n and m * n <= most_dense and known.undecided.any():
        return prove_dense(U.toarray(), tol, progress, known=known)
    small = Decisions()
    if effort == "exact":
        warn_of_rest(known.undecided, U)
        small = _small_problems(lists, np.flatnonzero(known.undecided), np.ones(m, bool), tol)
        sure[list(small.functional)] = True
        retry = [i for i, (S, _) in small.combination.items() if not sure[S].all()]
        small.combination.update(_small_problems(lists, np.array(retry, np.int64), sure, tol).combination)
    settled = settle(U, lists.sums, tol, sure, known.combination | small.combination, progress, effort)
    if progress is not None:
        progress("supports", m, m)
    rays = np.array(sorted(small.functional), np.int64)
    return Proof.of_settled(settled, {}, n, Support(rays, *_witness_rows(rays, small, n)), known=known)


def _by_supports(U: Sparse, lists: Lists, tol: float) -> Known:
    """What supports alone decide: rays with a private coordinate, and points all of whose coordinates have an axis among the points.

    An *axis* is a point with one coordinate, such as a word of a single document. It is a ray, and a point is the sum of its coordinates.
    """
    private = private_coordinates(lists, tol)
    counts = np.diff(lists.ptr)
    axis = np.full(U.shape[1], -1, np.int64)
    single = np.flatnonzero((counts == 1) & private.is_proven)
    axis[lists.idx[lists.ptr[single]]] = single
    inside = np.flatnonzero((U @ (axis < 0).astype(np.float64) == 0) & ~private.is_proven)
    rows = ((int(i), slice(lists.ptr[i], lists.ptr[i + 1])) for i in inside)
    return Known(private.is_proven, {i: (axis[lists.idx[row]], lists.val[row]) for i, row in rows}, (private.witnesses(U.shape[1]),))


def _witness_rows(rays: IntArray, small: Decisions, n: int) -> tuple[Sparse, FloatArray]:
    """The functionals of ``rays`` as sparse rows, and their lifts."""
    parts = [small.functional[int(i)] for i in rays]
    return combination_rows([(coordinates, f) for coordinates, f, _ in parts], n), np.array([lift for _, _, lift in parts])


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
        at_once = AT_ONCE if stop - start >= AT_ONCE else 1
        for a in range(start, stop, at_once):
            some = points[a : min(a + at_once, stop)]
            decided = _decide_each(lists, allowed, some, scratch, ZERO_SWEPT * tol)
            for i, (solved, S, h, f, lift, distance) in zip(some, decided, strict=True):
                if solved and distance > CLEAR * tol:
                    out.functional[int(i)] = (lists.idx[lists.ptr[i] : lists.ptr[i + 1]], f, lift)
                elif solved and len(S):
                    out.combination[int(i)] = (S, h)

    by_size = np.argsort(-np.diff(lists.ptr)[points], kind="stable")  # large ones first, a thread for each
    points = points[by_size]
    n_large = int((np.diff(lists.ptr)[points] > LARGE_SUPPORT).sum())
    for_ranges(work, n_large)
    for_ranges(lambda start, stop: work(n_large + start, n_large + stop), len(points) - n_large, smallest=AT_ONCE)
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
