"""The certified cone of sparse points, from their supports.

A combination with coefficients >= 0 of non-negative points has the union of their supports. So only
points whose support lies inside that of ``u_i`` (the *contained* points) can represent it, and

- a coordinate of ``u_i`` that no contained point has proves i a ray by itself (`private`);
- a point all of whose coordinates have an *axis*, a point with that coordinate only, is the sum of
  these axes;
- otherwise a small problem over the contained points, in the coordinates of ``u_i`` alone, decides
  (`small`).

Points with many coordinates may also be proven by one product in a simple metric (`variance`).
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import combination_rows
from conecollapse._types import BoolArray, FloatArray, IntArray, Progress, Sparse
from conecollapse.certificates import Support
from conecollapse.geometry.certified.budget import (
    COMBINATION,
    SUPPORTS,
    SUPPORTS_ENTRY,
    SUPPORTS_POINT,
    Budget,
)
from conecollapse.geometry.certified.dense import prove_dense
from conecollapse.geometry.certified.estimate import warn_of_rest
from conecollapse.geometry.certified.lists import Lists
from conecollapse.geometry.certified.private import private_coordinates
from conecollapse.geometry.certified.proof import Known, Proof, all_open
from conecollapse.geometry.certified.settle import settle
from conecollapse.geometry.certified.small import (
    Decisions,
    contained_entries,
    rows_for,
    small_problems,
)
from conecollapse.geometry.certified.variance import wide_led_by_variance

# density above which supports say little about which points can represent which
MOSTLY_FILLED = 0.1
DENSE_POINTS = 2**27  # entries up to which mostly filled points may be made dense
SAMPLE = 16  # undecided points that are asked what they contain
LARGE_PART = 0.25  # of all entries: a problem over so many is not a small one
POINTS_AT_ONCE = 256  # small problems that are solved side by side


def prove_sparse(
    U: Sparse,
    tol: float,
    progress: Progress = None,
    *,
    budget: Budget | None = None,
    known: Known | None = None,
    most_dense: int = DENSE_POINTS,
) -> Proof:
    """Rays of the sparse unit rows ``U`` (sorted indices, no stored zeros, no two rows colinear),
    with witnesses and combinations.

    Where there is a limit to the ``budget``, what supports alone do not decide within it is left
    open. What is ``known`` is not proven again. Where points are mostly filled, at most
    ``most_dense`` entries large, and contain most of the others, the rest is decided as for dense
    points.
    """
    m, n = U.shape
    budget = budget or Budget.endless()
    if not budget.take(SUPPORTS + SUPPORTS_ENTRY * U.nnz + SUPPORTS_POINT * m):
        return all_open(m, n)
    lists = Lists.of(U)
    known = known or _by_supports(U, lists, tol, budget)
    sure = known.sure.copy()
    if progress is not None:
        progress("supports", int(sure.sum()), m)
    small, led = Decisions(), {}
    if budget.is_endless and known.undecided.any():
        led = wide_led_by_variance(U, lists.sums, np.flatnonzero(known.undecided), tol)
        sure[list(led)] = True
        if (
            U.nnz > MOSTLY_FILLED * m * n
            and m * n <= most_dense
            and _supports_say_little(lists, known.undecided & ~sure)
        ):
            return prove_dense(U.toarray(), tol, progress, known=known)
        undecided = known.undecided & ~sure
        warn_of_rest(undecided, U)
        small = from_small_to_large(lists, sure, undecided, tol, progress)
        sure[list(small.functional)] = True
    settled = settle(
        U,
        lists.sums,
        tol,
        sure,
        known.combination | small.combination,
        progress,
        "exact" if budget.is_endless else "quick",
    )
    if progress is not None:
        progress("supports", m, m)
    rays = np.array(sorted(small.functional), np.int64)
    return Proof.of_settled(
        settled, led, n, Support(rays, *_witness_rows(rays, small, n)), known=known
    )


def _by_supports(U: Sparse, lists: Lists, tol: float, budget: Budget) -> Known:
    """What supports alone decide: rays with a private coordinate, and points all of whose
    coordinates have an axis among the points.

    An *axis* is a point with one coordinate, such as a word of a single document. It is a ray, and
    a point is the sum of its coordinates.
    """
    private = private_coordinates(lists, tol, budget)
    counts = np.diff(lists.ptr)
    axis = np.full(U.shape[1], -1, np.int64)
    single = np.flatnonzero((counts == 1) & private.is_proven)
    axis[lists.idx[lists.ptr[single]]] = single
    inside = np.flatnonzero((U @ (axis < 0).astype(np.float64) == 0) & ~private.is_proven)
    inside = inside[: int(min(len(inside), max(budget.left, 0.0) / COMBINATION))]
    budget.spend(COMBINATION * len(inside))
    rows = ((int(i), slice(lists.ptr[i], lists.ptr[i + 1])) for i in inside)
    return Known(
        private.is_proven,
        {i: (axis[lists.idx[row]], lists.val[row]) for i, row in rows},
        (private.witnesses(U.shape[1]),),
    )


def _supports_say_little(lists: Lists, undecided: BoolArray) -> bool:
    """Whether the points that an undecided point contains have a large part of all entries, going
    by a few of them."""
    todo = lists.by_size[undecided[lists.by_size]]
    return bool(len(todo)) and contained_entries(
        lists, todo[:: -(-len(todo) // SAMPLE)]
    ).mean() > LARGE_PART * len(lists.idx)


def from_small_to_large(
    lists: Lists, sure: BoolArray, undecided: BoolArray, tol: float, progress: Progress
) -> Decisions:
    """Decide the ``undecided`` points over these and those that are ``sure`` to be rays, points
    with small supports first.

    All that a point contains has a support of at most its size. So nearly everything that could
    represent it is decided before it, and what is redundant need not be looked at again. Only
    points decided at the same time may lean on each other: those are solved again.
    """
    out = Decisions()
    n_sure, sure = int(sure.sum()), sure.copy()
    todo = lists.by_size[undecided[lists.by_size]].astype(np.int64)
    allowed, rows = sure | undecided, rows_for(lists, todo)
    for points in np.array_split(todo, -(-len(todo) // POINTS_AT_ONCE)) if len(todo) else []:
        over = allowed
        while len(points):
            found = small_problems(lists, rows, points, over, tol)
            sure[list(found.functional)] = True
            inside = {i: (S, h) for i, (S, h) in found.combination.items() if sure[S].all()}
            allowed[list(inside)] = False
            out.functional.update(found.functional)
            out.combination.update(inside)
            left = np.setdiff1d(points, [*found.functional, *inside])
            points = left if over is allowed or len(left) < len(points) else left[:0]
            over = sure
        if progress is not None:
            progress("supports", n_sure + len(out.functional) + len(out.combination), len(sure))
    return out


def _witness_rows(rays: IntArray, small: Decisions, n: int) -> tuple[Sparse, FloatArray]:
    """The functionals of ``rays`` as sparse rows, and their lifts."""
    parts = [small.functional[int(i)] for i in rays]
    return combination_rows([(coordinates, f) for coordinates, f, _ in parts], n), np.array(
        [lift for _, _, lift in parts]
    )
