"""Deciding the points that one product does not: an active set for each, with early exits and
discovery.

Each undecided point ``x`` is approximated from inside the cone of the *known* rays. After every
stretch of descent its residual ``r`` is a linear functional, and pricing it tells one of four
things:

- ``x`` itself is its only maximiser over all points: ``x`` is a ray, and ``r`` is the witness;
- another undecided point is its only maximiser: that point is a ray, discovered on the way
  (Clarkson; Dula);
- some known rays exceed ``x``: descend further over them;
- ``r`` is (numerically) zero: ``x`` is inside, and the passive set represents it.

Points live in the round coordinates of `frame`, lifted by a constant coordinate so that affine
becomes linear. Decisions here are provisional: `settle` confirms each in float64 and in the
original coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

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
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Progress
from conecollapse.geometry.certified.frame import LIFT, Frame
from conecollapse.geometry.certified.inside import SAMPLE, inside_known

NEAR = 0.5  # known rays priced above this share of the point's own price are worth appending
RESOLVED = 1e-6  # leads in float32 prices below this share of |r| are not believed
# ends once the point has the highest price itself, or is inside
SEARCH_STOP = Stopping(price=1e-14, own_price=1.0, residual=1e-10)
SMALL_CAPACITY = 128
# passive columns that slots have room for at first: clearing memory for more takes longer than most
# searches
FIRST_CAPACITY = 32
TIGHT = 0.125  # share of slots that wait for more room until all get it
MAX_ROUNDS = 60
# in few dimensions a search begins with the nearest points
FEW_DIMENSIONS, MANY_POINTS, N_NEAR = 8, 1000, 32
MAX_STEPS = 10**9
SAMPLE_ROUNDS = 4  # for which a sample of points is searched first
MANY_WAITING = 4096  # points among which a free slot looks for one that is near its last
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


class Pricing(NamedTuple):
    """The residuals of the active slots and their prices; one row, or entry, for each slot."""

    slot: IntArray
    r: FloatArray  # residuals, without the constant coordinate
    rf: AnyArray  # the same in float32
    own: FloatArray  # price of the slot's point itself
    blur: FloatArray  # smaller differences of prices are not resolved
    known: ShortLists  # candidates among the known rays, and the highest price of a known ray


def search(
    frame: Frame, status: IntArray, progress: Progress = None, share: IntArray | None = None
) -> Findings:
    """Decide the undecided points of ``status``, or the ``share`` of them, as far as float32 prices
    and whitened coordinates can.

    Where most points are inside the cone of the rays that are known already, these are found first
    (`inside`); a few rounds over a sample tell. In high dimension nearly all other active sets stay
    small. Small workspaces let many points share a product, so points are tried with one first, and
    only those that outgrow it get the full size.
    """
    full = frame.unpadded.shape[1]
    found = Findings(status)
    share = np.flatnonzero(status == UNDECIDED) if share is None else share
    if is_small(frame.unpadded, len(share)):
        _search_small(frame, found, share)
        return found
    small = Search(frame, found, min(full, SMALL_CAPACITY), share)
    if not small.finds_rays():
        found.combination |= inside_known(
            frame.lifted, np.flatnonzero(status == RAY), share[status[share] == UNDECIDED]
        )
        status[list(found.combination)] = REDUNDANT
    small.run(progress)
    if full > SMALL_CAPACITY and (status[share] == UNDECIDED).any():
        Search(frame, found, full, share).run(progress)
    return found


def _search_small(frame: Frame, found: Findings, share: IntArray) -> None:
    """Every undecided point over all others, then over the rays alone where it is inside."""
    Z, status = np.ascontiguousarray(frame.unpadded), found.status
    todo = share[status[share] == UNDECIDED]
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


class Search:
    """One run over the undecided points, adding to ``found``."""

    def __init__(self, frame: Frame, found: Findings, capacity: int, share: IntArray) -> None:
        self.Z = frame.lifted
        self.Zf = frame.single
        self.found = found
        status = found.status
        m, d = self.Zf.shape
        todo = share[status[share] == UNDECIDED]
        self.half_square = 0.5 * np.einsum("ij,ij->i", self.Zf, self.Zf)
        self.queue = todo[np.argsort(-self.half_square[todo], kind="stable")]  # longest first
        # known rays, kept contiguous for the product
        known = np.flatnonzero(status == RAY)
        self.n_known = len(known)
        self.known_f = np.empty((m, d), np.float32)
        self.known_f[: self.n_known] = self.Zf[known]
        self.known = np.empty(m, np.int64)
        self.known[: self.n_known] = known
        n_slots = int(np.clip(WORKSPACE // (8 * capacity * (d + capacity)), 2, 512))
        self.slots = Slots.over(
            self.Z, min(n_slots, max(len(self.queue), 1)), min(capacity, FIRST_CAPACITY)
        )
        self.capacity = capacity
        self.point = np.full(len(self.slots.k), -1, np.int64)
        self.rounds = np.zeros(len(self.slots.k), np.int64)
        self.near = cKDTree(self.Z[:, 1:]) if d <= FEW_DIMENSIONS and m > MANY_POINTS else None

    def finds_rays(self) -> bool:
        """Whether the first rounds over a sample show that most of its points are rays."""
        waiting = self.queue
        sample = self.queue = waiting[:: max(1, len(waiting) // SAMPLE)]
        self.run(rounds=SAMPLE_ROUNDS)
        self.queue = waiting[~np.isin(waiting, self.point)]
        return int((self.found.status[sample] == RAY).sum()) > len(sample) // 2

    def run(self, progress: Progress = None, rounds: int = MAX_STEPS) -> None:
        with serial_blas():
            for _ in range(rounds):
                self._refill()
                active = np.flatnonzero(self.point >= 0)
                if not len(active):
                    return
                self._round(self._with_room(active))
                if progress is not None:
                    progress(
                        "search",
                        int((self.found.status != UNDECIDED).sum()),
                        len(self.found.status),
                    )

    def _refill(self) -> None:
        """A point for every free slot: near the one that was there before, whose passive columns it
        begins with, or the longest."""
        self.queue = self.queue[self.found.status[self.queue] == UNDECIDED]
        free = np.flatnonzero(self.point < 0)[: len(self.queue)]
        self.rounds[free] = 0
        used = free[self.slots.k[free] > 0]
        beside, at = (
            self._pair(used, self.queue[:MANY_WAITING])
            if self.near is None
            else (used[:0], used[:0])
        )
        self.point[beside] = self.queue[at]
        self.queue = np.delete(self.queue, at)
        in_use = np.arange(self.slots.S.shape[1]) < self.slots.k[beside][:, None]
        # no point represents itself
        beside = beside[
            ~((self.slots.S[beside] == self.point[beside][:, None]) & in_use).any(axis=1)
        ]
        self.slots.load_beside(beside, self.Z[self.point[beside]])
        fresh = free[self.point[free] < 0]
        self.point[fresh], self.queue = self.queue[: len(fresh)], self.queue[len(fresh) :]
        fresh = np.setdiff1d(free, beside)
        self.slots.load(fresh, self.Z[self.point[fresh]])
        if self.near is not None and len(fresh):
            self._descend_over_neighbours(fresh, self.near)

    def _pair(self, slots: IntArray, points: IntArray) -> tuple[IntArray, IntArray]:
        """Slots, each with the place of a point that is the nearest of ``points`` to the one it had
        last; no two have the same."""
        nearest, Zf, half = (
            np.empty(len(slots), np.int64),
            self.Zf[points],
            self.half_square[points],
        )
        x = self.slots.x[slots, 1 : 1 + Zf.shape[1]].astype(np.float32)

        def work(start: int, stop: int) -> None:
            nearest[start:stop] = (x[start:stop] @ Zf.T - half).argmax(axis=1)

        for_ranges(work, len(slots), smallest=16)
        at, first = np.unique(nearest, return_index=True)
        return slots[first], at

    def _descend_over_neighbours(self, at: IntArray, tree: cKDTree) -> None:
        """Begin with the points nearby, which decide nearly everything where the points lie on a
        smooth surface.

        A point that leads these by so little that float32 could not tell it from them is left
        undecided.
        """
        points = self.point[at]
        near = tree.query(self.Z[points, 1:], k=min(N_NEAR, len(self.Z)))[1].astype(np.int64)
        usable = (self.found.status[near] != REDUNDANT) & (near != points[:, None])
        order = np.argsort(~usable, axis=1, kind="stable")
        self.slots.advance(
            at, np.take_along_axis(near, order, axis=1), usable.sum(axis=1), SEARCH_STOP, MAX_STEPS
        )
        self._inside(at)
        r = self.slots.r[at]
        rivals = np.where(usable, np.einsum("ij,ikj->ik", r, self.Z[near]), -np.inf).max(axis=1)
        lead = np.einsum("ij,ij->i", r, self.Z[points]) - rivals
        self.point[at[np.abs(lead) <= RESOLVED * row_norms(r)]] = -1

    def _inside(self, slots: IntArray) -> None:
        """Points whose residual has become zero are redundant, and their slots are free."""
        for slot in slots[self.slots.ending[slots] == WITHIN_TOL]:
            i = int(self.point[slot])
            self.found.status[i] = REDUNDANT
            self.found.combination[i] = self.slots.solution(slot)
            self.point[slot] = -1

    def _round(self, active: IntArray) -> None:
        priced = self._price_known(active)
        leads = np.flatnonzero(priced.known.best < priced.own - priced.blur)
        if len(leads):
            self._price_undecided(leads, priced)
        lists, lengths, _ = priced.known
        decided, full = self.found.status[self.point[active]] != UNDECIDED, self._is_full(active)
        waits = full & (self.slots.S.shape[1] < self.capacity)
        self.rounds[active[~waits]] += 1
        give_up = ~decided & ((full & ~waits) | (lengths == 0) | (self.rounds[active] > MAX_ROUNDS))
        self.point[active[decided | give_up]] = -1
        run = np.flatnonzero(~(decided | give_up | waits))
        slots = active[run]
        before = self.slots.steps[slots]
        self.slots.advance(slots, lists[run], lengths[run], SEARCH_STOP, MAX_STEPS)
        self._inside(slots)
        # no candidate could enter: twice is enough
        self.rounds[slots[self.slots.steps[slots] == before]] += MAX_ROUNDS // 2

    def _with_room(self, active: IntArray) -> IntArray:
        """The ``active`` slots; where too many of them wait for room for more passive columns, all
        get it, but free slots that no point needs any more."""
        n_columns, waiting = self.slots.S.shape[1], self._is_full(active).sum()
        if n_columns == self.capacity or waiting <= TIGHT * len(active):
            return active
        some = np.concatenate([active, np.flatnonzero(self.point < 0)])[
            : max(len(active), int((self.found.status == UNDECIDED).sum()))
        ]
        self.slots = self.slots.grown(some, self.capacity)
        self.point, self.rounds = self.point[some], self.rounds[some]
        return np.arange(len(active))

    def _is_full(self, slots: IntArray) -> BoolArray:
        return np.asarray(self.slots.k[slots] == self.slots.S.shape[1])

    def _price_known(self, active: IntArray) -> Pricing:
        """Prices of the known rays, and of the points themselves, by the residuals of the
        ``active`` slots."""
        lifted = self.slots.r[active]
        r = lifted[:, 1 : 1 + self.Zf.shape[1]]
        rf = r.astype(np.float32)
        own = np.einsum("ij,ij->i", r, self.Z[self.point[active], 1 : 1 + r.shape[1]])
        blur = RESOLVED * np.sqrt(np.einsum("ij,ij->i", r, r))
        constant = LIFT * lifted[:, 0]
        least = np.maximum(NEAR * (own + constant), 0.0) - constant
        known = slice(0, self.n_known)
        return Pricing(
            active,
            r,
            rf,
            own,
            blur,
            price(rf, self.known_f[known], self.known[known], least, N_BUCKETS),
        )

    def _price_undecided(self, leads: IntArray, priced: Pricing) -> None:
        """Points with a higher price than every known ray: is it also higher than that of every
        undecided point, and if not, of which?"""
        slot, r, rf, own, blur, (lists, lengths, best) = priced
        undecided = np.flatnonzero(self.found.status == UNDECIDED)
        Zf, excluded = self.Zf[undecided], np.searchsorted(undecided, self.point[slot[leads]])
        rival, first, second = (
            np.empty(len(leads), np.int64),
            np.empty(len(leads)),
            np.maximum(best[leads], own[leads]),
        )

        def work(start: int, stop: int) -> None:
            rows, here = slice(start, stop), np.arange(stop - start)
            prices = rf[leads[rows]] @ Zf.T
            prices[here, excluded[rows]] = -np.inf
            rival[rows] = prices.argmax(1)
            first[rows] = prices[here, rival[rows]]
            prices[here, rival[rows]] = -np.inf
            second[rows] = np.maximum(second[rows], prices.max(1))

        for_ranges(work, len(leads), smallest=16)
        itself = first < own[leads] - blur[leads]
        found = itself | (first - second > blur[leads])
        self._declare(
            np.where(itself, self.point[slot[leads]], undecided[rival])[found], r[leads[found]]
        )
        beaten = leads[~itself]
        lists[beaten, lengths[beaten]] = undecided[rival[~itself]]
        lengths[beaten] += 1

    def _declare(self, points: IntArray, functionals: FloatArray) -> None:
        """Undecided points are rays, each by the first functional that it has."""
        first = np.sort(np.unique(points, return_index=True)[1])
        points = points[first]
        self.found.status[points] = RAY
        self.found.functional.update(zip(points.tolist(), functionals[first], strict=True))
        here = slice(self.n_known, self.n_known + len(points))
        self.known_f[here], self.known[here] = self.Zf[points], points
        self.n_known += len(points)
