"""Dense points in blocks: the stages of `conecollapse.geometry.certified.dense`, each a product of
blocks with blocks.

1. One pass gives the moments, and from them round coordinates that all blocks share.
2. *Tiles*, one for each pair of blocks: the largest product of each point with any other proves the
   points that lead in their own direction.
3. The others are *targets*, in groups. Each carries a functional; every block says which of its
   points exceed the target, and these become the pool over which the target is approximated next. A
   target that no point of any block exceeds is a ray, and one that its pool represents is not. If
   few points lead in their own direction, their rays are the pool to begin with, which decides most
   targets before any block is asked; if most do, and all points together are small, every group has
   all points at hand, and no block is asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from conecollapse._linalg import row_norms, take_rows
from conecollapse._nnls.slots import price
from conecollapse._threads import serial_blas
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray
from conecollapse._types import Points as AnyPoints
from conecollapse.certificates import Metric
from conecollapse.geometry.blockwise.decided import Combinations, Decided
from conecollapse.geometry.blockwise.leading import Round, lead_in_own_direction
from conecollapse.geometry.blockwise.measure import Measured, fetch, share, unit_points
from conecollapse.geometry.certified.frame import Frame
from conecollapse.geometry.certified.search import RAY, REDUNDANT, UNDECIDED, search
from conecollapse.geometry.certified.witness import CLEAR, EPS, confirm, project
from conecollapse.tables import BlockedTable
from conecollapse.tables.blocked import Groups, Held
from conecollapse.tables.in_place import InPlace

NEAR = 0.5  # points priced above this share of the target's own price are worth asking for
N_CANDIDATES = 64  # points for each target, of all blocks together
FEWEST_CANDIDATES = 4  # of each block
SMALLEST_GROUP = 32
# targets that are worth a task of their own, and into how many groups for each worker they are
# divided then
WORTH_A_TASK, PIECES = 128, 3
# a group has the targets whose pools, if they share nothing, are this part of `N_CANDIDATES` shares
TARGETS_IN_SHARE = 32
MAX_EXCHANGES = 24
PRICES = 2**20  # entries of a block of prices
# share of tol up to which the residual of a combination found in round coordinates is believed
CLOSE = 0.1


class Points(NamedTuple):
    """The leaders of one block."""

    ids: IntArray
    U: FloatArray
    sums: FloatArray


@dataclass(frozen=True)
class Targets:
    """Undecided points with a functional each, the pool over which it was found, and what was
    decided on the way."""

    points: Points
    A: FloatArray  # (targets, dim): rows of unit length
    pool: Points
    decided: Decided = field(default_factory=Decided)


class Rules(NamedTuple):
    """What every task needs to know."""

    round: Round
    tol: float
    n_candidates: int  # of each block
    known: Points | None = None  # points that are at hand everywhere, because they are few
    are_all: bool = False  # whether these are all leaders
    frame: Frame | None = None  # of these points, where it was made already


def decide_dense(
    table: BlockedTable, leader: IntArray, measured: Measured, tol: float, effort: Effort
) -> tuple[Decided, Metric, Callable[[IntArray], AnyPoints]]:
    """Decide the leaders of groups: witnesses and combinations, and the metric that proves the rays
    that lead in their own direction.

    And who fetches rays as unit rows.
    """
    assert measured.moments is not None
    around = Round.of(measured.moments)
    is_leader = leader == np.arange(len(leader))
    places = [
        np.flatnonzero(is_leader[a:b])
        for a, b in zip(table.bounds[:-1], table.bounds[1:], strict=True)
    ]
    numbered = [
        (k, int(first), rows)
        for k, (first, rows) in enumerate(zip(table.bounds[:-1], places, strict=True))
    ]
    leaders = np.flatnonzero(is_leader)
    by_product, offset = lead_in_own_direction(table, numbered, around, tol)
    led = leaders[by_product]
    metric = Metric(led, around.T.astype(np.float32), around.centre, offset[by_product])

    points = table.hold(_points, numbered, stage="points", cheap=True)
    fetcher = (
        partial(_fetch_whole, points)
        if len(leaders) <= share(table) and not table.is_sparse
        else partial(fetch, table)
    )
    if by_product.all() or effort == "quick":
        return Decided(doubtful=leaders[~by_product].tolist()), metric, fetcher
    rules = Rules(around, tol, max(FEWEST_CANDIDATES, -(-N_CANDIDATES // table.n_blocks)))
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in places])])
    decided, known = _decide_rest(
        points, leaders, by_product, starts, rules, share(table), table.parallel
    )
    return (
        decided,
        metric,
        fetcher
        if known is None or not len(known.ids) or table.is_sparse
        else partial(_fetch_unknown, known, fetcher),
    )


def _decide_rest(
    points: Held,
    leaders: IntArray,
    by_product: AnyArray,
    starts: IntArray,
    rules: Rules,
    held: int,
    workers: int,
) -> tuple[Decided, Points | None]:
    """Decide the leaders that the product does not prove, and points that are here then; ``starts``
    are the places of the blocks.

    If the rays that it proves fit beside a block (``held``), they are at hand everywhere, and so
    are all leaders if most are such rays.
    """
    led, left = leaders[by_product], leaders[~by_product]
    size = max(SMALLEST_GROUP, held // TARGETS_IN_SHARE)
    shared: Any = rules
    if len(leaders) <= min(held, 2 * len(led)):
        shared = points.whole(_with_known, (rules._replace(are_all=True), leaders), stage="known")
        pieces = max(-(-len(left) // size), min(len(left) // WORTH_A_TASK, PIECES * workers), 1)
        groups = points.spread(
            _start_among_all, [left[k::pieces] for k in range(pieces)], shared, stage="search"
        )
        return _exchange(points, groups, shared, max(size, held // 4), searched=True)
    if len(leaders) <= held:
        shared = points.whole(_with_known, (rules, led), stage="known")
    elif len(led) <= held:
        known = [
            (k, np.flatnonzero(by_product[a:b]))
            for k, (a, b) in enumerate(itertools.pairwise(starts))
        ]
        shared = points.join(
            points.select(_some, known, stage="known"), partial(_with_joined, rules), stage="known"
        )
    which: list[tuple[int, IntArray]] = []
    for k, (a, b) in enumerate(itertools.pairwise(starts)):
        rows = np.flatnonzero(~by_product[a:b])
        most = -(-PIECES * workers // (len(starts) - 1))  # so that workers balance
        pieces = max(-(-len(rows) // size), min(len(rows) // WORTH_A_TASK, most), 1)
        which += [(k, rows[i::pieces]) for i in range(pieces) if len(rows) > i]
    groups = points.select(_start, which, shared, stage="search")
    return _exchange(points, groups, shared, max(size, held // 4), searched=len(led) <= held)


def decide_here(
    points: Points, frame: Frame, by_product: AnyArray, left: IntArray, rules: Rules
) -> Decided:
    """Decide some of the leaders that the product does not prove, where all leaders are at hand;
    ``points`` are numbered from 0.

    What the search leaves is projected: a single doubtful point would send the whole table to the
    merge.
    """
    led = np.flatnonzero(by_product)
    if len(points.ids) <= 2 * len(led):
        group = _start_among_all(left, rules._replace(known=points, are_all=True, frame=frame))
        decided, rest = group.decided, [*group.decided.doubtful, *group.points.ids.tolist()]
    else:
        rules = rules._replace(known=_some(points, led, None))
        decided = _exchange(
            InPlace([points]), [_start(points, left, rules)], rules, len(left), searched=True
        )[0]
        rest = decided.doubtful
    decided = replace(decided, doubtful=[])
    decided.add(_projected(points, np.array(rest, np.int64), rules.tol))
    return decided


def _projected(points: Points, rows: IntArray, tol: float) -> Decided:
    """Decide points that the search leaves, each by its projection on the cone of all others."""
    if not len(rows):
        return Decided()
    solved = project(points.U, points.U[rows], exclude=rows)
    G, proven = confirm(solved.residual, rows, points.U, points.sums, tol)
    off = row_norms(solved.residual)
    inside = np.flatnonzero(~proven & (off <= CLOSE * tol))
    parts = [(solved.passive[i], solved.values[i]) for i in inside]
    return Decided(
        dict(zip(rows[proven].tolist(), G[proven], strict=True)),
        [Combinations.of_parts(rows[inside], parts, off[inside])],
        rows[~proven & (off > CLOSE * tol)].tolist(),
    )


def _points(block: AnyArray, piece: tuple[int, int, IntArray], _: Any) -> Points:
    _number, first, rows = piece
    U = take_rows(unit_points(block, as_sparse=False)[0], rows)
    return Points(first + rows, U, U.sum(axis=1))


def _with_known(blocks: list[Points], shared: tuple[Rules, IntArray]) -> Rules:
    """The rules with these points, which every piece of work has at hand since they are few."""
    rules, ids = shared
    return rules._replace(known=_taken(blocks, ids))


def _with_joined(rules: Rules, parts: list[Points]) -> Rules:
    return rules._replace(known=_joined(parts))


def _fetch_whole(points: Held, ids: IntArray) -> FloatArray:
    """These leaders, increasing, as unit rows, from all blocks at once."""
    return np.asarray(
        points.collect([points.whole(_unit_rows, ids, stage="fetch")], stage="fetch")[0][0]
    )


def _fetch_unknown(
    known: Points, fetcher: Callable[[IntArray], AnyPoints], ids: IntArray
) -> FloatArray:
    """These leaders, increasing, as unit rows; those that are here already are not fetched."""
    at = np.minimum(np.searchsorted(known.ids, ids), len(known.ids) - 1)
    here = known.ids[at] == ids
    U = known.U[at]
    if not here.all():
        U[~here] = fetcher(ids[~here])
    return U


def _unit_rows(blocks: list[Points], ids: IntArray) -> FloatArray:
    return _taken(blocks, ids).U


def _taken(blocks: list[Points], ids: IntArray) -> Points:
    every = _joined(blocks)
    return _some(every, np.searchsorted(every.ids, ids), None)


def _joined(parts: list[Points]) -> Points:
    return Points(*(np.concatenate(some) for some in zip(*parts, strict=True)))  # type: ignore[arg-type]


def _some(points: Points, rows: IntArray, _: Any) -> Points:
    return Points(points.ids[rows], points.U[rows], points.sums[rows])


def _start(points: Points, rows: IntArray, rules: Rules) -> Targets:
    """A group of targets: searched over the known rays, if these are few; else with their own
    directions as functionals."""
    targets, nobody = _some(points, rows, None), _some(points, rows[:0], None)
    if rules.known is not None:
        return _searched(Targets(targets, targets.U[:0], nobody), rules)
    A = (targets.U / targets.sums[:, None] - rules.round.centre) @ rules.round.T @ rules.round.T.T
    return Targets(targets, A / row_norms(A)[:, None], nobody)


def _start_among_all(ids: IntArray, rules: Rules) -> Targets:
    """A group of targets where all points are at hand: no block need be asked, and targets that
    lead over all points are rays."""
    assert rules.known is not None
    every = rules.known
    group, left = _start(every, np.searchsorted(every.ids, ids), rules), -1
    G, proven = confirm(
        group.A, np.searchsorted(every.ids, group.points.ids), every.U, every.sums, rules.tol
    )
    decided = replace(
        group.decided, witness=dict(zip(group.points.ids[proven].tolist(), G[proven], strict=True))
    )
    rest = np.flatnonzero(~proven)
    group = Targets(_some(group.points, rest, None), group.A[rest], group.pool, decided)
    while len(group.A) not in (0, left):
        left = len(group.A)
        group = _decide(group, [_ask(group, rules.known, rules)], rules)
    return group


def _exchange(
    points: Held, groups: Groups, shared: Any, size: int, *, searched: bool
) -> tuple[Decided, Points | None]:
    """Ask all blocks about the functionals of all groups until nothing is left, or nothing changes;
    and the points that all have."""
    decided, known = Decided(), None
    left = -1
    if searched:  # most targets are decided already, and groups without any need not be asked about
        groups, [rules] = points.collect(groups, [shared], stage="search")
        groups, known = _together(_record(groups, decided), size), rules.known
    for _ in range(MAX_EXCHANGES):
        if not groups:
            return decided, known
        asked = points.cross(groups, _ask, _decide, shared, stage="price")
        groups = _together(_record(points.collect(asked, stage="price")[0], decided), size)
        before, left = left, sum(len(group.A) for group in groups)
        if left == before:
            break
    for group in groups:
        decided.doubtful.extend(group.points.ids.tolist())
    return decided, known


def _together(groups: list[Targets], size: int) -> list[Targets]:
    """Small groups joined, so that few are asked about; several are left where there is work for
    several workers."""
    joined: list[Targets] = []
    size = min(size, max(WORTH_A_TASK, -(-sum(len(group.A) for group in groups) // PIECES)))
    for group in groups:
        last = joined[-1] if joined else None
        if last is None or len(last.A) + len(group.A) > size:
            joined.append(group)
        else:
            joined[-1] = Targets(
                _joined([last.points, group.points]),
                np.vstack([last.A, group.A]),
                _distinct([last.pool, group.pool]),
            )
    return joined


def _record(groups: list[Targets], decided: Decided) -> list[Targets]:
    """Write down what the groups decided; those with targets left."""
    for group in groups:
        decided.add(group.decided)
    return [replace(group, decided=Decided()) for group in groups if len(group.A)]


class Answer(NamedTuple):
    """One block's answer to a group: the highest value that each functional has on its points, and
    points with high values."""

    highest: FloatArray
    target: IntArray  # this target
    place: IntArray  # is exceeded by, or near, the point at this place
    points: Points


def _ask(group: Targets, points: Points, rules: Rules) -> Answer:
    own = np.einsum("ij,ij->i", group.A, group.points.U) / group.points.sums
    at_centre = group.A @ rules.round.centre
    # own directions: what is near them is worth having, later only what exceeds
    is_first = rules.known is None and not len(group.pool.ids)
    least = np.maximum(NEAR * (own - at_centre), 0.0) + at_centre if is_first else own
    Q = points.U / points.sums[:, None]
    at = np.searchsorted(points.ids, group.points.ids)
    inside = at < len(Q)
    inside[inside] = points.ids[at[inside]] == group.points.ids[inside]
    highest, target, place = np.empty(len(own)), [], []
    step = max(16, PRICES // max(len(Q), 1))
    with serial_blas():
        for a in range(0, len(own), step):
            rows = slice(a, a + step)

            def bar(prices: FloatArray, some: slice, a: int = a) -> None:
                mine = np.flatnonzero(inside[a:][some])
                prices[mine, at[a:][some][mine]] = -np.inf

            found = price(group.A[rows], Q, np.arange(len(Q)), least[rows], rules.n_candidates, bar)
            highest[rows] = found.best
            i, j = np.nonzero(np.arange(found.ids.shape[1]) < found.lengths[:, None])
            target.append(a + i)
            place.append(found.ids[i, j])
    used, places = np.unique(np.concatenate(place), return_inverse=True)
    return Answer(highest, np.concatenate(target), places, _some(points, used, None))


def _decide(group: Targets, answers: list[Answer], rules: Rules) -> Targets:
    """Targets that lead over all blocks are rays; the others are searched again, over a pool with
    the points that exceed them."""
    own = np.einsum("ij,ij->i", group.A, group.points.U) / group.points.sums
    second = np.max([answer.highest for answer in answers], axis=0)
    G, proven = _shifted(group.A, group.points, own, second, rules.tol)
    decided = replace(group.decided)
    decided.witness = decided.witness | dict(
        zip(group.points.ids[proven].tolist(), G[proven], strict=True)
    )
    rest = np.flatnonzero(~proven)
    exceeding = [
        _some(answer.points, np.unique(answer.place[~proven[answer.target]]), None)
        for answer in answers
    ]
    pool = _distinct([group.pool, *exceeding])
    return _searched(Targets(_some(group.points, rest, None), group.A[rest], pool, decided), rules)


def _distinct(parts: list[Points]) -> Points:
    """All of these points, each once, increasing."""
    every = _joined(parts)
    return _some(every, np.unique(every.ids, return_index=True)[1], None)


def _shifted(
    A: FloatArray, points: Points, own: FloatArray, second: FloatArray, tol: float
) -> tuple[FloatArray, AnyArray]:
    """Witnesses ``a - t`` with t between the second largest value and the target's own, and whether
    they prove more than ``tol``.

    As `conecollapse.geometry.certified.confirm.confirm`, for unit functionals whose largest value
    over all other points is known.
    """
    n = A.shape[1]
    # sums of unit points are at least 1
    tight = second + 2 * (n + 2) * EPS * (1 + np.sqrt(n) * np.abs(second))
    G, proven = np.empty_like(A), np.zeros(len(A), bool)
    for t in (np.maximum((own + second) / 2, tight), tight):
        shifted = A - t[:, None]
        distance = (own - t) * points.sums / np.maximum(row_norms(shifted), EPS)
        G[~proven] = shifted[~proven]
        proven |= distance > CLEAR * tol + 4 * (n + 2) * EPS
    return G, proven


def _searched(group: Targets, rules: Rules) -> Targets:
    """Search the targets over their pool and each other: new functionals, or combinations."""
    targets, decided = group.points, replace(group.decided)
    nobody = _some(targets, np.zeros(0, np.int64), None)
    if not len(targets.ids):
        return Targets(targets, group.A[:0], nobody, decided)
    if rules.are_all and rules.known is not None:
        group, every = replace(group, pool=nobody), rules.known
    else:
        pool = group.pool if rules.known is None else _distinct([rules.known, group.pool])
        every = _joined(
            [_some(pool, np.flatnonzero(~np.isin(pool.ids, targets.ids)), None), targets]
        )
    frame = rules.frame or rules.round.frame(every.U, every.sums)
    is_target = np.isin(every.ids, targets.ids)
    found = search(frame, np.where(is_target, UNDECIDED, RAY))
    inside = np.flatnonzero(found.status == REDUNDANT)
    combined = Combinations.of_parts(
        inside, [found.combination[i] for i in inside.tolist()], np.zeros(len(inside))
    )
    values = (
        combined.values
        * np.repeat(every.sums[inside], combined.lengths)
        / every.sums[combined.points]
    )
    combined = combined._replace(values=values)  # of unit points
    residual = row_norms(every.U[inside] - combined.rows(len(every.U)) @ every.U)
    good = residual <= CLOSE * rules.tol
    if good.any():
        decided.combinations = [
            *decided.combinations,
            combined._replace(off=residual).chosen(good).renumbered(every.ids),
        ]
    outside = np.array(sorted(found.functional), np.int64)
    stuck = np.setdiff1d(np.flatnonzero(is_target), np.concatenate([inside[good], outside]))
    decided.doubtful = [*decided.doubtful, *every.ids[stuck].tolist()]
    A = (
        np.array([found.functional[int(i)] for i in outside]).reshape(-1, frame.Z.shape[1])
        @ frame.T.T
    )
    A /= np.maximum(row_norms(A), np.finfo(np.float64).tiny)[:, None]
    return Targets(_some(every, outside, None), A, group.pool, decided)
