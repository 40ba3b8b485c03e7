"""The points that one product does not decide: each is approximated by the others.

One loop for all of them:

1. *Solve.* An undecided point ``x`` is approximated from inside the cone of a short list of points;
   an active set keeps those that it needs. If the residual ``r`` vanishes, x is inside.
2. *Ask all.* The residual is a linear functional. One product asks every point that is not
   deleted for its value. If x itself has the highest, x is a ray, and ``r`` is the functional that
   says so.
3. *Add what exceeds.* The points with the highest values are the next list.

Many points take these steps side by side (`Slots`), so that a question to all points is one product
for all residuals. Where most points are inside the cone of rays that are known already, those are
found first over the rays alone.

Points live in the round coordinates of `frame`, lifted by a constant coordinate so that affine
becomes linear. What is decided here is confirmed in float64 and in the original coordinates
(`witness`, `settle`): a combination may use a point that is deleted later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from conecollapse._linalg import row_norms
from conecollapse._nnls.active_set import active_set, is_small
from conecollapse._nnls.slots import (
    N_BUCKETS,
    WITHIN_TOL,
    ShortLists,
    Slots,
    Stopping,
    price,
)
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray, Progress
from conecollapse.geometry.certified.frame import LIFT, Frame
from conecollapse.geometry.certified.inside import inside_known

NEAR = 0.5  # a point is listed if its value is above this share of that of the point itself
# roundoffs that a lead must exceed, as a share of |r|: about 1e-6 in float32
RESOLVED = 16.0
# ends once the point itself has the highest value of its list, or is inside
SEARCH_STOP = Stopping(price=1e-14, own_price=1.0, residual=1e-10)
MAX_ROUNDS = 60  # questions to all points for one of them; then it is left to `settle`
STALE = 0.05  # share of the points that may be deleted before they are left out of the product
MAX_STEPS = 10**9
# bytes of factorizations held at once; more of them do not fit into a cache, and are slower
WORKSPACE = 2**25

UNDECIDED, RAY, REDUNDANT = 0, 1, -1


@dataclass
class Findings:
    """Status of each point, the functional (in z) of each ray found, the combination of each
    redundant point."""

    status: IntArray
    functional: dict[int, FloatArray] = field(default_factory=dict)
    # over the lifted points
    combination: dict[int, tuple[IntArray, FloatArray]] = field(default_factory=dict)


def search(
    frame: Frame, status: IntArray, points: IntArray | None = None, progress: Progress = None
) -> Findings:
    """Decide those of ``points``, or of all, that are undecided by ``status``, as far as float32
    and round coordinates can."""
    found = Findings(status)
    todo = np.flatnonzero(status == UNDECIDED) if points is None else points
    if is_small(frame.unpadded, len(todo)):
        _search_small(frame, todo, found)
        return found
    found.combination |= inside_known(frame.lifted, np.flatnonzero(status == RAY), todo)
    status[list(found.combination)] = REDUNDANT
    with serial_blas():
        _search_in_slots(frame, todo[status[todo] == UNDECIDED], found, progress)
    return found


def _search_small(frame: Frame, todo: IntArray, found: Findings) -> None:
    """Each of these points over all others, then over the rays alone where it is inside."""
    Z, status = np.ascontiguousarray(frame.unpadded), found.status
    solved = active_set(Z, Z[todo], allowed=status != REDUNDANT, exclude=todo)
    is_inside = row_norms(solved.residual) <= SEARCH_STOP.residual * row_norms(Z[todo])
    status[todo] = np.where(is_inside, REDUNDANT, RAY)
    found.functional |= {
        int(i): r[1:] for i, r in zip(todo[~is_inside], solved.residual[~is_inside], strict=True)
    }
    inside = todo[is_inside]
    over_rays = active_set(Z, Z[inside], allowed=status != REDUNDANT)
    found.combination |= {
        int(i): (over_rays.passive[k], over_rays.values[k]) for k, i in enumerate(inside)
    }


def _search_in_slots(frame: Frame, todo: IntArray, found: Findings, progress: Progress) -> None:
    """The loop, for the longest points first."""
    Z, status = frame.lifted, found.status
    d = frame.dim
    queue = todo[np.argsort(-row_norms(frame.rows[todo]), kind="stable")]
    capacity = min(1 + d, len(Z))
    n_slots = int(np.clip(WORKSPACE // (8 * capacity * (d + capacity)), 2, 512))
    slots = Slots.over(Z, min(n_slots, max(len(queue), 1)), capacity)
    point = np.full(len(slots.k), -1)
    rounds = np.zeros(len(slots.k), np.int64)
    pool = Pool(frame, status)
    while True:
        free = np.flatnonzero(point < 0)[: len(queue)]
        point[free], queue, rounds[free] = queue[: len(free)], queue[len(free) :], 0
        slots.load(free, Z[point[free]])
        active = np.flatnonzero(point >= 0)
        if not len(active):
            return
        lists, leads, r = pool.ask(point[active], slots.r[active])
        status[point[active[leads]]] = RAY
        found.functional.update(zip(point[active[leads]].tolist(), r[leads], strict=True))
        rounds[active] += 1
        ends = leads | (lists.lengths == 0) | (rounds[active] > MAX_ROUNDS)
        point[active[ends]] = -1
        go_on = np.flatnonzero(~ends)
        moved = active[go_on]
        before = slots.steps[moved]
        slots.advance(moved, lists.ids[go_on], lists.lengths[go_on], SEARCH_STOP, MAX_STEPS)
        for slot in moved[slots.ending[moved] == WITHIN_TOL]:
            i = int(point[slot])
            status[i], found.combination[i], point[slot] = REDUNDANT, slots.solution(slot), -1
        # where no point of the list could enter: twice is enough
        rounds[moved[slots.steps[moved] == before]] += MAX_ROUNDS // 2
        if progress is not None:
            progress("search", int((status != UNDECIDED).sum()), len(status))


class Pool:
    """The points that are not deleted, one after the other, as they are multiplied."""

    def __init__(self, frame: Frame, status: IntArray) -> None:
        self.frame, self.status = frame, status
        self.resolved = RESOLVED * np.finfo(frame.rows.dtype).eps / 2
        self.drop_deleted()

    def drop_deleted(self) -> None:
        self.points = np.flatnonzero(self.status != REDUNDANT)
        self.rows = self.frame.rows[self.points]

    def ask(
        self, points: IntArray, residual: FloatArray
    ) -> tuple[ShortLists, AnyArray, FloatArray]:
        """A list for each of ``points`` of those that exceed it by its ``residual``, whether it has
        the highest value itself, and the residual without the constant coordinate."""
        if (self.status[self.points] == REDUNDANT).mean() > STALE:
            self.drop_deleted()
        r = residual[:, 1 : 1 + self.frame.dim]
        own = np.einsum("ij,ij->i", r, self.frame.Z[points])
        constant = LIFT * residual[:, 0]
        least = np.maximum(NEAR * (own + constant), 0.0) - constant
        at = np.searchsorted(self.points, points)

        def bar(values: AnyArray, rows: slice) -> None:
            values[np.arange(len(values)), at[rows]] = -np.inf

        asked = r.astype(self.rows.dtype, copy=False)
        lists = price(asked, self.rows, self.points, least, N_BUCKETS, bar)
        return lists, lists.best < own - self.resolved * row_norms(r), r
