"""A sparse target that goes round the blocks, because too many points have their supports inside its own.

At each block the coefficients of that block's contained points are improved by a few sweeps of coordinate descent, as in
`conecollapse.geometry.certified.sweeps`, and the residual travels on. No points leave their block. After some rounds all blocks are asked
about the residual ``r`` as it then is: if no contained point has as large a product with it as the target, it is a functional that proves
the target a ray; if it is small enough, the coefficients left at the blocks are a combination.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._kernels import kernel
from conecollapse._nnls.active_set import active_set
from conecollapse._types import AnyArray, FloatArray, IntArray, Sparse
from conecollapse.geometry.blockwise.decided import Combinations, Decided
from conecollapse.geometry.blockwise.measure import stack
from conecollapse.geometry.certified.small import ZERO_SWEPT
from conecollapse.geometry.certified.sweeps import LEAD
from conecollapse.tables.blocked import Held

if TYPE_CHECKING:
    from conecollapse.geometry.blockwise.sparse import Rows, Rules

SWEEPS = 4  # at each block before the residual travels on
ROUNDS = 2  # between two looks
MAX_LOOKS = 30
POLISHED = 2**22  # entries of a dense matrix over which coefficients are found exactly
CLOSE = 0.1  # share of tol up to which the residual of these is accepted


@dataclass(frozen=True)
class Traveller:
    """One target in slice coordinates ``x = u / sum``, what is left of it, and the coefficients that each block's points have so far."""

    number: int
    coordinates: AnyArray
    x: FloatArray
    total: float  # of the unit point
    r: FloatArray
    h: dict[int, FloatArray] = field(default_factory=dict)  # of all points of a block
    decided: Decided = field(default_factory=Decided)
    f: FloatArray | None = None  # the functional, once there is one


def travel(rows: Held, targets: list[tuple[int, Sparse]], rules: Rules) -> tuple[list[Traveller], Decided]:
    """Send targets, sparse unit rows, round the blocks until they are decided: those with functionals, and what is known of the others."""
    groups = []
    for index, u in targets:
        total = float(u.data.sum())
        groups.append(Traveller(index, u.indices.astype(np.int32), u.data / total, total, u.data / total))
    found, decided = [], Decided()
    for _ in range(MAX_LOOKS):
        if not groups:
            break
        moved = rows.chain(groups, _visit, ROUNDS, rules, stage="rounds")
        seen = rows.collect(rows.cross(moved, _look, _judge, rules, stage="look"), stage="look")[0]
        for one in seen:
            decided.add(one.decided)
        found += [one for one in seen if one.f is not None]
        groups = [one for one in seen if one.f is None and not one.decided.combinations]
    decided.doubtful.extend(one.number for one in groups)
    return found, decided


def _place(one: Traveller, dim: int) -> AnyArray:
    """For each coordinate its place in the support of the target, -1 off it."""
    place = np.full(dim, -1, np.int32)
    place[one.coordinates] = np.arange(len(one.coordinates))
    return place


def _own(one: Traveller, rows: Rows) -> int:
    at = int(np.searchsorted(rows.ids, one.number))
    return at if at < len(rows.ids) and rows.ids[at] == one.number else -1


def _visit(one: Traveller, rows: Rows, k: int, rules: Rules) -> Traveller:
    h = one.h[k].copy() if k in one.h else np.zeros(len(rows.ids))
    r = one.r.copy()
    _sweep(rows, _place(one, rules.dim), _own(one, rows), r, h)
    return replace(one, r=r, h={**one.h, k: h})


class Seen(NamedTuple):
    """A block's answer: the largest product of the residual with a contained point, and the points that have coefficients."""

    highest: float
    number: int  # of the block
    used: IntArray  # their places in it
    ids: IntArray
    sums: FloatArray
    U: Sparse | None  # these points, if they are few


def _look(one: Traveller, rows: Rows, rules: Rules) -> Seen:
    used = np.flatnonzero(one.h.get(rows.number, np.zeros(0)))
    sums = np.add.reduceat(rows.val, rows.ptr[:-1]) if len(rows.ids) else np.zeros(0)
    highest = _highest(rows, _place(one, rules.dim), _own(one, rows), one.r)
    U = sp.csr_array(rows.matrix()[used]) if len(used) * len(one.x) <= POLISHED else None
    return Seen(highest, rows.number, used, rows.ids[used], sums[used], U)


def _judge(one: Traveller, answers: list[Seen], rules: Rules) -> Traveller:
    norm = float(np.linalg.norm(one.r))
    ids, sums = np.concatenate([answer.ids for answer in answers]), np.concatenate([answer.sums for answer in answers])
    if norm <= ZERO_SWEPT * rules.tol * np.linalg.norm(one.x):
        h = np.concatenate([one.h[answer.number][answer.used] for answer in answers])
        return _combined(one, ids, h * one.total / sums, norm * one.total)
    highest = max(answer.highest for answer in answers)
    if float(one.r @ one.x) - highest > LEAD * norm**2:
        return replace(one, f=(one.r - max(highest, 0.0)) / norm, h={})
    if not 0 < len(ids) * len(one.x) <= POLISHED:
        return one
    # sweeps find which points a combination uses long before they find its coefficients: an active set over these does
    U = stack([answer.U for answer in answers])[:, one.coordinates].toarray()
    solved = active_set(U, one.total * one.x[None, :])
    S, h = solved.passive[0], np.zeros(len(ids))
    h[S] = solved.values[0]
    residual = float(np.linalg.norm(one.total * one.x - h @ U))
    if residual <= CLOSE * rules.tol:
        return _combined(one, ids[S], h[S], residual)
    ends = np.cumsum([len(answer.used) for answer in answers])
    coefficients = {number: np.zeros_like(before) for number, before in one.h.items()}
    for answer, some in zip(answers, np.split(h * sums / one.total, ends[:-1]), strict=True):
        coefficients[answer.number][answer.used] = some
    return replace(one, r=solved.residual[0] / one.total, h=coefficients)


def _combined(one: Traveller, points: IntArray, values: FloatArray, off: float) -> Traveller:
    return replace(one, decided=Decided(combinations=[Combinations.of_parts([one.number], [(points, values)], [off])]))


def functionals(found: list[Traveller], dim: int) -> tuple[IntArray, Any, Any]:
    """Numbers, unit points and functionals of travellers, as sparse rows."""
    ptr = np.concatenate([[0], np.cumsum([len(one.x) for one in found])])
    columns = np.concatenate([one.coordinates for one in found])

    def rows(values: list[FloatArray]) -> Sparse:
        return sp.csr_array((np.concatenate(values), columns, ptr), shape=(len(found), dim))

    return (
        np.array([one.number for one in found]),
        rows([one.x * one.total for one in found]),
        rows([one.f for one in found if one.f is not None]),
    )


@kernel
def _sweep(rows, place, own, r, h):  # type: ignore[no-untyped-def]
    """`SWEEPS` sweeps of coordinate descent over the points of a block whose supports lie inside the target's."""
    ptr, idx, val = rows.ptr, rows.idx, rows.val
    contained, totals = np.empty(len(h), np.int64), np.empty(len(h))
    n = 0
    for j in range(len(h)):
        inside, total = j != own, 0.0
        for t in range(ptr[j], ptr[j + 1]):
            if place[idx[t]] < 0:
                inside = False
                break
            total += val[t]
        if inside:
            contained[n], totals[n] = j, total
            n += 1
    for _ in range(SWEEPS):
        for q in range(n):
            j = contained[q]
            g = 0.0
            for t in range(ptr[j], ptr[j + 1]):
                g += r[place[idx[t]]] * val[t]
            # q_j = u_j / total has length 1 / total, and |u_j| = 1
            step = max(0.0, h[j] + g * totals[q]) - h[j]
            if step != 0.0:
                h[j] += step
                share = step / totals[q]
                for t in range(ptr[j], ptr[j + 1]):
                    r[place[idx[t]]] -= share * val[t]


@kernel
def _highest(rows, place, own, r):  # type: ignore[no-untyped-def]
    """The largest product of ``r`` with a contained point in slice coordinates; minus infinity if there is none."""
    ptr, idx, val = rows.ptr, rows.idx, rows.val
    highest = -np.inf
    for j in range(len(rows.ids)):
        inside = j != own
        g, total = 0.0, 0.0
        for t in range(ptr[j], ptr[j + 1]):
            p = place[idx[t]]
            if p < 0:
                inside = False
                break
            g += r[p] * val[t]
            total += val[t]
        if inside:
            highest = max(highest, g / total)
    return highest
