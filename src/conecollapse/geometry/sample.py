r"""A stochastic cone: rays at which random functionals are largest, and a bound on what was missed.

On the slice :math:`q = u / \sum u` of the cone, the point at which a functional a is largest is a
ray: :math:`a \cdot q_i > a \cdot q_j` for all other points j says that no combination of them is
q_i. So one product of the points with N random functionals finds up to N rays, each with its
witness. Functionals are Gaussian in round coordinates (`conecollapse.geometry.certified.frame`),
whose centre and axes come from a random sample of the points.

*What was missed.* Let S be the rays that the first half of the functionals found. Given S, the
other functionals are independent draws of the same law, and each has its maximum outside S with the
same probability p: how many do is a binomial count, whatever the points are. The bound of Clopper
and Pearson on p from this count holds with the confidence that it is asked for. Rays that the
second half found are then added to S, which can only lower p. A functional whose maximum is not
decided in float64 (two points that are no multiples of each other, equal to rounding) counts as one
outside S, in p and in the count. Look j at a growing sample spends the share 1 / (j (j + 1)) of the
risk; these sum to 1, so that all bounds hold together however often one looks.

The bound is about functionals, not about rays: a ray that is largest for a share of 1e-9 of them is
hardly ever found, and matters to that share only.

*Numbers.* Products are in float32, with a rigorous bound on their rounding. The points that may be
largest within this bound are compared in float64, so that blocks, storage and threads decide
nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import beta

from conecollapse._errors import InvalidInputError, NotOptimalWarning
from conecollapse._linalg import as_dense, pair_distances, row_norms, unit_rows
from conecollapse._threads import for_ranges, serial_blas
from conecollapse._types import AnyArray, FloatArray, IntArray, Points
from conecollapse.certificates import SampledCertificate
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.witness import CLEAR, EPS
from conecollapse.geometry.merging import stacked
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocks import by_block

TILE = 2**21  # products at a time, 8 MiB: what follows finds them in cache
BATCH = 2**22  # entries of the functionals of one pass, 16 MiB
CONFIDENCE = 0.95  # of a bound, where nothing else is asked for
# share of its largest value within which a functional's other values are looked at in float64
NEAR = 0.01
MANY = 8  # pairs for each functional that are kept until they are compared
PAIRS = 2**18  # entries of pairs of points that are compared at a time
MOST = 2**18  # functionals that are drawn for a bound
# points from which the round coordinates are made, and their entries (64 MiB), at most
MOMENT_ROWS, MOMENT_ENTRIES = 2048, 2**23
SINGLE = 2.0**-24  # roundoff of float32
# sums of a point's entries between which float32 and float64 keep their digits in a division
SUMS = {4: (1e-30, 1e37), 8: (1e-280, 1e305)}


class Law(NamedTuple):
    """Of the functionals: Gaussian in the coordinates ``(q - centre) T``, zero at the centre."""

    centre: FloatArray
    T: FloatArray

    @classmethod
    def of(cls, points: Points) -> Law:
        """Round coordinates of these points; those of the space where all are one ray."""
        # dense first, so that storage does not decide the last bits
        U, lengths = unit_rows(as_dense(points))
        U = U[lengths > 0]
        if not len(U):
            raise InvalidInputError("all points that were drawn are zero; a cone needs others.")
        frame, dim = Frame.of(U), U.shape[1]
        return cls(frame.centre, frame.T) if frame.T.size else cls(np.zeros(dim), np.eye(dim))

    def draw(self, count: int, rng: np.random.Generator) -> AnyArray:
        """Functionals as unit rows, in float32."""
        A = rng.standard_normal((count, self.T.shape[1])) @ self.T.T
        A -= (A @ self.centre)[:, None]  # q sums to one
        return (A / row_norms(A)[:, None]).astype(np.float32)


class Leaders(NamedTuple):
    """Pairs of a functional and a point at which it is or may be largest. Of each functional these
    are the point at which it is largest, the first point within tol of that one, and the one of the
    others at which it is largest."""

    n_points: int  # that were looked at
    which: IntArray  # functionals
    point: IntArray
    value: FloatArray
    place: IntArray  # of the point in U
    U: FloatArray  # unit points

    def roles(self, tol: float) -> tuple[IntArray, IntArray, IntArray]:
        """Where these three are, of pairs by functional and value; not every functional has the
        third."""
        _, first, at = np.unique(self.which, return_index=True, return_inverse=True)
        near = pair_distances(self.U, self.place, self.place[first[at]]) <= tol
        close, far = np.flatnonzero(near), np.flatnonzero(~near)
        close = close[np.lexsort((self.point[close], self.which[close]))]
        lead, second = (
            some[np.unique(self.which[some], return_index=True)[1]] for some in (close, far)
        )
        return first, lead, second

    def settled(self, tol: float) -> Leaders:
        """These pairs alone, by functional and value."""

        def take(pairs: IntArray) -> Leaders:
            used, place = np.unique(self.place[pairs], return_inverse=True)
            which, point, value = self.which[pairs], self.point[pairs], self.value[pairs]
            return Leaders(self.n_points, which, point, value, place, self.U[used])

        order = np.lexsort((self.point, -self.value, self.which))
        return take(order[np.unique(np.concatenate(take(order).roles(tol)))])


def join(tol: float, *parts: Leaders) -> Leaders:
    """Of the points of all parts; those of each are numbered after those of the parts before."""
    starts = np.cumsum([0, *(part.n_points for part in parts)])
    rows = np.cumsum([0, *(len(part.U) for part in parts)])
    moved = [
        (part.which, part.point + starts[k], part.value, part.place + rows[k], part.U)
        for k, part in enumerate(parts)
    ]
    return Leaders(int(starts[-1]), *map(np.concatenate, zip(*moved, strict=True))).settled(tol)


def scan(
    points: Points,
    A: AnyArray,
    tol: float,
    floor: FloatArray | None = None,
    *,
    on_slice: bool = True,
) -> Leaders:
    """Where the functionals ``A`` (unit rows) are largest among the rows of ``points``: on the
    slice, or as they are, and then ``-A`` too. ``floor`` is what the largest values of all points
    are at least, as far as is known; it is raised in place, and points below it are left out."""
    n_points = points.shape[0]
    A = A if on_slice else np.concatenate([A, -A])
    floor = np.full(len(A), -np.inf) if floor is None else floor
    found: list[Leaders] = []
    lock, rows = Lock(), max(1, TILE // len(A))

    def work(start: int, stop: int) -> None:
        for a in range(start, stop, rows):
            tile = _scan_tile(points[a : min(a + rows, stop)], A, floor, tol, on_slice)
            with lock:
                found.append(tile._replace(point=tile.point + a, n_points=0))
                if sum(len(part.which) for part in found) > MANY * len(A):
                    found[:] = [join(tol, *found)]

    with serial_blas():
        for_ranges(work, n_points, smallest=rows)
    return join(tol, *found)._replace(n_points=n_points)


def _scan_tile(
    points: Points, A: AnyArray, floor: FloatArray, tol: float, on_slice: bool
) -> Leaders:
    Q, filled = _on_slice(points) if on_slice else (points, np.arange(points.shape[0]))
    single, Q = A.astype(np.float32, copy=False), Q.astype(np.float32, copy=False)
    dim = A.shape[1]
    if not len(filled):
        i = np.zeros(0, np.int64)
        return Leaders(0, i, i, np.zeros(0), i, np.zeros((0, dim)))
    single = single if on_slice else single[: len(A) // 2]
    V = (Q @ single.T).T if sp.issparse(Q) else single @ Q.T
    V = V if on_slice else np.concatenate([V, -V])
    # a dot product of n terms errs by at most n roundoffs of |a| |q|, in any order of summation
    # (Jeannerod & Rump 2013); rounding q and a, and lengths that are not quite 1, add less than 7
    blur = (dim + 7) * SINGLE * float(row_norms(Q).max())
    highest = V.max(axis=1).astype(np.float64)
    np.maximum(floor, highest - blur, out=floor)
    least = _just_below(floor, dim, tol, NEAR if on_slice else 0.0) - blur
    hot = np.flatnonzero(highest >= least)
    which, at = np.nonzero(V[hot] >= least[hot, None])
    used, at = np.unique(at, return_inverse=True)
    U = points[filled[used]]
    U = as_dense(unit_rows(U)[0] if on_slice else U.astype(np.float64))
    # equal points are compared once
    as_bytes = U.view(np.dtype((np.void, U.itemsize * dim))).ravel()
    _, one, same = np.unique(as_bytes, return_index=True, return_inverse=True)
    U, used = U[one], used[one]
    which, place = np.divmod(np.unique(hot[which] * len(U) + same[at]), len(U))
    sums = U.sum(axis=1) if on_slice else np.ones(len(U))
    value = np.empty(len(which))
    step = max(1, PAIRS // dim)
    for a in range(0, len(which), step):
        k, i = which[a : a + step], place[a : a + step]
        value[a : a + step] = np.einsum("ij,ij->i", A[k].astype(np.float64), U[i]) / sums[i]
    return Leaders(len(filled), which, filled[used][place], value, place, U).settled(tol)


def _on_slice(points: Points) -> tuple[Points, IntArray]:
    """The points that are not zero, each divided by the sum of its entries, and which these are."""
    sums = np.asarray(points.sum(axis=1, dtype=np.float64)).ravel()
    filled = np.flatnonzero(sums)
    if len(filled) < len(sums):
        points, sums = points[filled], sums[filled]
    low, high = SUMS.get(points.dtype.itemsize, (np.inf, 0.0))
    if len(sums) and not low <= sums.min() <= sums.max() <= high:
        points = unit_rows(points)[0]
        sums = np.asarray(points.sum(axis=1)).ravel()
    if sp.issparse(points):
        return sp.csr_array(sp.diags_array(1 / sums) @ points), filled
    return points / sums.astype(points.dtype)[:, None], filled


def _just_below(values: FloatArray, dim: int, tol: float, near: float = NEAR) -> FloatArray:
    """Less by a share, so that witnesses prove more than tol, and by more than a unit functional
    differs on the slice between points within tol of each other."""
    return values - near * np.abs(values) - 4 * (2 + np.sqrt(dim)) * (tol + (dim + 2) * EPS)


def _scan_block(block: Points, _: Any, shared: tuple[AnyArray, float, int, FloatArray]) -> Leaders:
    A, tol, axis, floor = shared
    return scan(_points_of(block, axis), A, tol, floor)


def _points_of(block: Points, axis: int) -> Points:
    """The points of a block of rows (``axis=0``) or of columns."""
    points = block if axis == 0 else block.T
    return sp.csr_array(points) if sp.issparse(points) else points


def _take_from_block(block: Points, rows: IntArray, axis: int) -> Points | None:
    """These points of a block; None if an entry cannot be one of a cone."""
    values = block.data if sp.issparse(block) else block
    if values.size and not 0 <= values.min() <= values.max() < np.inf:
        return None
    return _points_of(block, axis)[rows]


def points_in_blocks(table: BlockedTable) -> Iterator[Points]:
    """The points of a table, which are what its blocks divide."""
    return (_points_of(block, table.axis) for block in table.blocks())


def _take(table: BlockedTable, rows: IntArray) -> Points:
    """These points; all entries of the table are checked."""
    pieces = by_block(table.bounds, rows)
    parts = table.visit(_take_from_block, pieces, table.axis, stage="points")
    if any(part is None for part in parts):
        _ = table.survey  # names the entry
    return stacked(parts)


@dataclass(frozen=True)
class Sample:
    """Functionals that were drawn, and the rays at which they are largest."""

    table: BlockedTable | None  # in blocks of points; if it is held
    law: Law
    rng: np.random.Generator
    tol: float
    confidence: float
    winners: IntArray  # a ray for each functional; -1: not decided
    rays: IntArray  # increasing
    units: FloatArray  # the rays, as unit rows
    witnesses: FloatArray
    distances: FloatArray  # that they prove
    looks: int = 0
    missed: float = 1.0

    @classmethod
    def begin(cls, table: BlockedTable, tol: float, confidence: float, seed: Any) -> Sample:
        """Nothing drawn, but the law is there."""
        try:
            rng = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"random_state must be an integer from 0 on, a Generator or None; got {seed!r}."
            ) from error
        n, dim = table.shape if table.axis == 0 else table.shape[::-1]
        count = min(n, MOMENT_ROWS, max(1, MOMENT_ENTRIES // dim))
        law = Law.of(_take(table, np.sort(rng.choice(n, count, replace=False))))
        none, empty = np.zeros(0, np.int64), np.zeros((0, dim))
        return cls(table, law, rng, tol, confidence, none, none, empty, empty, np.zeros(0))

    def drawn(self, count: int, until: float | None = None, most: int = MOST) -> Sample:
        """The sample with so many more functionals, and one more look at what it missed; and so on
        with twice as many, ``until`` that is enough or there are the ``most``."""
        sample = self._look(count)
        while until is not None and sample.missed > until and len(sample.winners) < most:
            sample = sample._look(len(sample.winners))
        if until is not None and sample.missed > until:
            warnings.warn(
                f"after {len(sample.winners)} functionals missed is {sample.missed:.3g}, more than"
                f" until = {until:g}: most are largest at rays of their own.",
                NotOptimalWarning,
                stacklevel=3,
            )
        return sample

    def _look(self, count: int) -> Sample:
        table = self.table
        if table is None:
            raise InvalidInputError("this cone does not hold its points; draw them by Cone.sample.")
        sample, size = self, max(1, BATCH // len(self.law.centre))
        rng = deepcopy(self.rng)
        for a in range(0, count, size):
            A = self.law.draw(min(size, count - a), rng)
            # the floor is raised by one block for the next, where one process reads them
            shared = (A, self.tol, table.axis, np.full(len(A), -np.inf))
            leaders = table.reduce(
                _scan_block, partial(join, self.tol), shared, stage="functionals"
            )
            sample = sample._with(A, leaders)
        looks = self.looks + 1
        missed = min(self.missed, bound(sample.winners, self.confidence, looks))
        return replace(sample, rng=rng, looks=looks, missed=missed)

    def _with(self, A: AnyArray, leaders: Leaders) -> Sample:
        """The sample with functionals whose leaders are known. The witness of a ray is the
        functional less a number between its value there and its value at any other point."""
        _, which, point, value, place, U = leaders
        first, lead, others = leaders.roles(self.tol)
        functionals, dim = which[first], A.shape[1]
        # points that are not among the leaders are lower
        second = _just_below(value[first], dim, self.tol)
        at = np.searchsorted(functionals, which[others])
        second[at] = np.maximum(second[at], value[others]) + 2 * (dim + 4) * EPS
        G = A[functionals].astype(np.float64) - ((value[lead] + second) / 2)[:, None]
        distance = np.einsum("ij,ij->i", G, U[place[lead]]) / row_norms(G)
        proven = (value[lead] > second) & (distance > CLEAR * self.tol + 4 * (dim + 2) * EPS)
        winners, ray = np.full(len(A), -1), point[lead][proven]
        winners[functionals[proven]] = ray
        rays = np.concatenate([self.rays, ray])
        distances = np.concatenate([self.distances, distance[proven]])
        order = np.lexsort((-distances, rays))
        best = order[np.unique(rays[order], return_index=True)[1]]
        return replace(
            self,
            winners=np.concatenate([self.winners, winners]),
            rays=rays[best],
            units=np.vstack([self.units, U[place[lead][proven]]])[best],
            witnesses=np.vstack([self.witnesses, G[proven]])[best],
            distances=distances[best],
        )

    @property
    def counts(self) -> IntArray:
        """How many functionals are largest at each ray."""
        return np.bincount(
            np.searchsorted(self.rays, self.winners[self.winners >= 0]), minlength=len(self.rays)
        )

    def certificate(self) -> SampledCertificate:
        """What is claimed about the rays."""
        if not len(self.rays):
            raise InvalidInputError(
                f"none of the {len(self.winners)} functionals is largest at one point; the points"
                f" cannot be told apart at tol = {self.tol:.3g}."
            )
        assert self.table is not None
        n = self.table.shape[self.table.axis]
        return SampledCertificate(self.tol, n, self.units.shape[1], self.rays, self.witnesses)


def bound(winners: IntArray, confidence: float = CONFIDENCE, look: int = 1) -> float:
    """Clopper and Pearson's bound on the share of functionals that are largest at no ray of the
    first half of the ``winners``, a ray for each functional or -1."""
    half = len(winners) // 2
    found, test = winners[:half], winners[half:]
    misses = int((~np.isin(test, found) | (test < 0)).sum())
    hits, risk = len(test) - misses, (1 - confidence) / (look * (look + 1))
    return float(beta.ppf(1 - risk, misses + 1, hits)) if hits else 1.0


def estimate(winners: IntArray) -> float:
    """Good and Turing's estimate of that share for all winners: of those that are alone at their
    ray, or not decided."""
    counts = np.unique(winners[winners >= 0], return_counts=True)[1]
    return float((counts == 1).sum() + (winners < 0).sum()) / max(len(winners), 1)
