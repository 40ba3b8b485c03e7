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
from conecollapse.geometry.certified.proof import Combinations

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


# of each ray the functional, in round coordinates
Functionals = dict[int, FloatArray]


def search(
    frame: Frame, status: IntArray, todo: IntArray, progress: Progress = None
) -> tuple[Functionals, Combinations]:
    """Decide the points ``todo``, as far as float32 and round coordinates can, and fill in their
    ``status``; what proves it."""
    if is_small(frame.lifted, len(todo)):
        return _search_small(frame, status, todo)
    combinations = inside_known(frame.lifted, np.flatnonzero(status == RAY), todo)
    status[list(combinations)] = REDUNDANT
    with serial_blas():
        todo = todo[status[todo] == UNDECIDED]
        functionals = _search_in_slots(frame, status, todo, combinations, progress)
    return functionals, combinations


def _search_small(
    frame: Frame, status: IntArray, todo: IntArray
) -> tuple[Functionals, Combinations]:
    """Each of these points over all others, then over the rays alone where it is inside."""
    Z = frame.lifted
    solved = active_set(Z, Z[todo], allowed=status != REDUNDANT, exclude=todo)
    is_inside = row_norms(solved.residual) <= SEARCH_STOP.residual * row_norms(Z[todo])
    status[todo] = np.where(is_inside, REDUNDANT, RAY)
    over_rays = active_set(Z, Z[todo[is_inside]], allowed=status != REDUNDANT)
    combinations = zip(over_rays.passive, over_rays.values, strict=True)
    return (
        dict(zip(todo[~is_inside].tolist(), solved.residual[~is_inside, 1:], strict=True)),
        dict(zip(todo[is_inside].tolist(), combinations, strict=True)),
    )


def _search_in_slots(
    frame: Frame,
    status: IntArray,
    todo: IntArray,
    combinations: Combinations,
    progress: Progress,
) -> Functionals:
    """The loop, for the longest points first; adds to the combinations."""
    Z, functionals = frame.lifted, Functionals()
    d = len(frame.scale)
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
            return functionals
        lists, leads, r = pool.ask(point[active], slots.r[active])
        status[point[active[leads]]] = RAY
        functionals.update(zip(point[active[leads]].tolist(), r[leads], strict=True))
        rounds[active] += 1
        ends = leads | (lists.lengths == 0) | (rounds[active] > MAX_ROUNDS)
        point[active[ends]] = -1
        go_on = np.flatnonzero(~ends)
        moved = active[go_on]
        before = slots.steps[moved]
        slots.advance(moved, lists.ids[go_on], lists.lengths[go_on], SEARCH_STOP, MAX_STEPS)
        for slot in moved[slots.ending[moved] == WITHIN_TOL]:
            i = int(point[slot])
            status[i], combinations[i], point[slot] = REDUNDANT, slots.solution(slot), -1
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
        r = residual[:, 1:]
        own = np.einsum("ij,ij->i", r, self.frame.Z[points])
        constant = LIFT * residual[:, 0]
        least = np.maximum(NEAR * (own + constant), 0.0) - constant
        at = np.searchsorted(self.points, points)

        def bar(values: AnyArray, rows: slice) -> None:
            values[np.arange(len(values)), at[rows]] = -np.inf

        asked = r.astype(self.rows.dtype, copy=False)
        lists = price(asked, self.rows, self.points, least, N_BUCKETS, bar)
        return lists, lists.best < own - self.resolved * row_norms(r), r
