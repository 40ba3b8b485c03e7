"""Which sparse points are rays, from their supports.

A combination with coefficients >= 0 of non-negative points has the union of their supports. So only
points whose support lies inside that of ``u_i`` (the *contained* points) can represent it:

1. A coordinate of ``u_i`` that no contained point has proves i a ray by itself (`private`), and a
   point all of whose coordinates have an *axis*, a point with that coordinate only, is the sum of
   these axes.
2. Any other point is approximated by its contained points, in the coordinates of its support alone
   (`sweeps`). Either they represent it, or the residual f is not positive on any of them. Every
   other point has mass off the support, so that f, lifted (`witness`), is a witness.

The small problems are solved in coordinates times ``x^(-1/2)``, which makes every coordinate of the
point count, the faint ones too. Distances there are others than those that a certificate is about;
what is near the tolerance is solved once more as it is, or left to `settle`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from conecollapse._kernels import kernel
from conecollapse._linalg import combination_rows
from conecollapse._nnls.factor import dot
from conecollapse._threads import for_ranges
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Progress, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.certified.cost import (
    COMBINATION,
    SUPPORTS,
    SUPPORTS_ENTRY,
    SUPPORTS_POINT,
    Budget,
    warn_of_rest,
)
from conecollapse.geometry.certified.dense import decide_dense
from conecollapse.geometry.certified.lists import Lists, stored_columns
from conecollapse.geometry.certified.private import private_coordinates
from conecollapse.geometry.certified.proof import Combinations, Decisions
from conecollapse.geometry.certified.sweeps import FEW_LOOKS, MAX_LOOKS, descend_by_sweeps
from conecollapse.geometry.certified.witness import CLEAR, LEAST_LIFT, needed_lift

# density above which supports say little about which points can represent which
MOSTLY_FILLED = 0.1
NEARLY_FULL = 0.9  # above this most points contain most others: small problems are as large as all
DENSE_POINTS = 2**27  # entries up to which mostly filled points may be made dense
# small problems between which nothing is deleted: they are solved side by side
POINTS_AT_ONCE = 256
AT_ONCE = 16  # small problems for each call of a kernel: between two calls Ctrl-C can stop the work
ZERO = 0.02  # share of tol up to which the residual of a small problem counts as zero


# of each ray a functional on its support, as coordinates and values, and a lift
Functionals = dict[int, tuple[AnyArray, FloatArray, float]]


def decide_by_supports(
    U: Sparse,
    tol: float,
    known: Decisions,
    *,
    share: IntArray | None = None,
    budget: Budget | None = None,
    progress: Progress = None,
    most_dense: int = DENSE_POINTS,
) -> Decisions:
    """What is ``known`` about the sparse unit rows ``U`` (sorted indices, no stored zeros, no two
    rows colinear), and decisions about those of a ``share`` that it leaves open.

    Where there is a limit to the ``budget``, what supports alone do not decide within it is left
    open. Where points are mostly filled, ``most_dense`` entries large at most, those that small
    problems leave undecided are decided as dense points; where they are nearly full, all.
    """
    budget = budget or Budget()
    if not budget.take(SUPPORTS + SUPPORTS_ENTRY * U.nnz + SUPPORTS_POINT * U.shape[0]):
        return known
    lists = Lists.of(U)
    if not known.sure.any():
        known = _decide_at_sight(U, lists, tol, share, budget)
    if progress is not None:
        progress("supports", int(known.sure.sum()), U.shape[0])
    todo = known.undecided_among(share)
    if not budget.is_endless or not len(todo):
        return known
    is_filled = is_mostly_filled(U, most_dense)
    if not is_filled or U.nnz <= NEARLY_FULL * U.shape[0] * U.shape[1]:
        warn_of_rest(known.undecided, U)
        looks = FEW_LOOKS if is_filled else MAX_LOOKS
        known = _solve_from_small_to_large(lists, todo, known, (tol, looks), progress)
        todo = known.undecided_among(share)
    if is_filled and len(todo):
        return decide_dense(U.toarray(), tol, known, share=todo, progress=progress)
    return known


def is_mostly_filled(U: Sparse, most: int = DENSE_POINTS) -> bool:
    """Whether supports say little about which points can represent which, and these have at most so
    many entries as dense points."""
    return bool(MOSTLY_FILLED * U.shape[0] * U.shape[1] < U.nnz and U.shape[0] * U.shape[1] <= most)


def _decide_at_sight(
    U: Sparse, lists: Lists, tol: float, share: IntArray | None, budget: Budget
) -> Decisions:
    """Rays with a private coordinate, and points all of whose coordinates have an axis among the
    points."""
    private = private_coordinates(lists, tol, budget, share)
    known = Decisions.nothing(U.shape[0]).add(private)
    axis = np.full(U.shape[1], -1, np.int64)
    single = private.of[np.diff(lists.ptr)[private.of] == 1]
    axis[lists.idx[lists.ptr[single]]] = single
    inside = np.flatnonzero((U @ (axis < 0).astype(np.float64) == 0) & ~known.sure)
    inside = inside if share is None else np.intersect1d(inside, share)
    inside = inside[: int(min(len(inside), max(budget.left, 0.0) / COMBINATION))]
    budget.spend(COMBINATION * len(inside))
    rows = ((int(i), slice(lists.ptr[i], lists.ptr[i + 1])) for i in inside)
    return replace(
        known, combination={i: (axis[lists.idx[row]], lists.val[row]) for i, row in rows}
    )


def _solve_from_small_to_large(
    lists: Lists,
    points: IntArray,
    known: Decisions,
    limits: tuple[float, int],
    progress: Progress,
) -> Decisions:
    """What is ``known``, and what small problems decide about ``points``, those with small supports
    first.

    All that a point contains has a support of at most its size. So nearly everything that could
    represent it is decided before it, and what is redundant need not be looked at again.
    """
    functionals: Functionals = {}
    combinations: Combinations = {}
    allowed = known.sure | known.undecided
    todo = points[np.argsort(np.diff(lists.ptr)[points], kind="stable")]
    for some in np.array_split(todo, -(-len(todo) // POINTS_AT_ONCE)):
        lifted, inside = solve_over_contained(lists, some, allowed, *limits)
        allowed[list(inside)] = False
        functionals |= lifted
        combinations |= inside
        if progress is not None:
            n_done = len(functionals) + len(combinations)
            progress("supports", int(known.sure.sum()) + n_done, len(allowed))
    rays = np.array(sorted(functionals), np.int64)
    parts = [functionals[int(i)] for i in rays]
    F = combination_rows([(coordinates, f) for coordinates, f, _ in parts], lists.shape[1])
    known = replace(known, combination=known.combination | combinations)
    return known.add(Support(rays, F, np.array([lift for _, _, lift in parts])))


def solve_over_contained(
    lists: Lists, points: IntArray, allowed: BoolArray, tol: float, looks: int = MAX_LOOKS
) -> tuple[Functionals, Combinations]:
    """Decide ``points`` one by one over their contained, ``allowed`` points, each with so many
    ``looks`` at all of these; some may stay undecided."""
    functionals: Functionals = {}
    combinations: Combinations = {}

    def work(start: int, stop: int) -> None:
        scratch = Scratch.of(lists)
        for a in range(start, stop, AT_ONCE):
            some = points[a : min(a + AT_ONCE, stop)]
            decided = _decide_each(lists, allowed, some, scratch, (tol, looks))
            for i, (S, h, f, lift, distance) in zip(some.tolist(), decided, strict=True):
                if distance > CLEAR * tol:
                    functionals[i] = (lists.idx[lists.ptr[i] : lists.ptr[i + 1]], f, lift)
                elif len(S):
                    combinations[i] = (S, h)

    # every call has large ones and small ones, so that threads end together
    by_size = points[np.argsort(-np.diff(lists.ptr)[points], kind="stable")]
    n_calls = max(1, len(points) // AT_ONCE)
    points = np.concatenate([by_size[k::n_calls] for k in range(n_calls)])
    for_ranges(work, len(points))
    return functionals, combinations


class Scratch(NamedTuple):
    """Room for one small problem after the other. Kernels write to it without looking at its size:
    it must be made for the lists that they get."""

    stamp: IntArray  # (dim,): the point that a coordinate was last marked for
    # (n_points, 4), zero between two problems: what `_lift_functional` sums over common coordinates
    sums: FloatArray
    touched: AnyArray  # (n_points,)
    weight: FloatArray  # (dim,): of each coordinate in the support of u_i
    room: FloatArray  # (3, dim), of `sweeps`

    @classmethod
    def of(cls, lists: Lists) -> Scratch:
        m, n = lists.shape
        return cls(
            np.full(n, -1, np.int64),
            np.zeros((m, 4)),
            np.empty(m, np.int32),
            np.empty(n),
            np.empty((3, n)),
        )


@kernel
def _decide_each(lists, allowed, points, scratch, limits):  # type: ignore[no-untyped-def]
    """`_decide` for each of ``points``."""
    return [_decide(lists, allowed, i, scratch, limits) for i in points]


@kernel
def _decide(lists, allowed, i, scratch, limits):  # type: ignore[no-untyped-def]
    """One small problem: the combination (unit coefficients), the functional on the support with
    its lift, and the distance that it proves (0 if none). No combination where the problem was not
    solved."""
    (tol, looks), first, m = limits, lists.ptr[i], lists.ptr[i + 1] - lists.ptr[i]
    contained = contained_points(lists, allowed, i, scratch)
    support, u = lists.idx[first : first + m], lists.val[first : first + m]
    S, h, f, lift, distance = np.empty(0, np.int64), np.empty(0), np.empty(0), 0.0, 0.0
    for power in (0.5, 0.0):
        weight = u**-power
        x = u * weight
        total = x.sum()
        x /= total
        for t in range(m):
            scratch.weight[support[t]] = weight[t]
        columns = stored_columns(lists, contained, support, scratch.weight, scratch.room)
        solved, every, r = descend_by_sweeps(columns, x, ZERO * tol, looks)
        if not solved:
            continue
        used = np.flatnonzero(every)
        S, h = contained[used], every[used] * columns.share[used] * total
        if dot(r, r) == 0.0:
            return S, h, f, lift, distance
        f, lift, distance = _lift_functional(lists, i, r, weight, scratch)
        if distance > CLEAR * tol:
            break
    return S, h, f, lift, distance


@kernel
def contained_points(lists, allowed, i, scratch):  # type: ignore[no-untyped-def]
    """The ``allowed`` points whose support lies inside that of ``u_i``; the scratch is stamped.

    They are looked for among all points with small supports, or among those that have a coordinate
    of ``u_i``, whichever are fewer.
    """
    ptr, idx, post_ptr, post = lists.ptr, lists.idx, lists.post_ptr, lists.post
    a, size = ptr[i], ptr[i + 1] - ptr[i]
    n_met = np.int64(0)
    for t in range(size):
        scratch.stamp[idx[a + t]] = i
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
            # a point is met in each of its coordinates, and counts in the first
            is_first = idx[ptr[j]] == idx[a + t]
            if is_first and allowed[j] and j != i and _is_inside(lists, j, i, scratch.stamp):
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
    the support, and the number of coordinates there; how many these are."""
    idx, post_ptr, post = lists.idx, lists.post_ptr, lists.post
    sums, touched, a = scratch.sums, scratch.touched, lists.ptr[i]
    n_touched = np.int64(0)
    for t in range(len(f)):
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


@kernel
def _lift_functional(lists, i, r, weight, scratch):  # type: ignore[no-untyped-def]
    """The residual ``r`` of ``u_i``, in weighted coordinates, as a functional on its support that
    is negative on contained points, its lift, and the distance that both prove."""
    ptr, rounding, sums, touched = lists.ptr, lists.rounding, scratch.sums, scratch.touched
    m = len(r)
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
            lift = max(lift, needed_lift(value, blur, lists.sums[j] - sums[j, 2] - rounding))
        for c in range(4):
            sums[j, c] = 0.0
    # the values of contained points are at most 0 up to rounding, also that of a checker who
    # multiplies by the lift: go below it
    shift = 4.0 * rounding * (norm + lift + 1.0) if n_contained else 0.0
    for t in range(m):
        f[t] -= shift
    own -= shift * lists.sums[i]
    return f, lift, own / np.sqrt(dot(f, f) + lift * lift * (len(lists.post_ptr) - 1 - m))
