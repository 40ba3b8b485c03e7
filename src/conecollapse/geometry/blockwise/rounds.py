"""A sparse target that goes round the blocks, because too many points have their supports inside
its own.

At each block the coefficients of that block's contained points are improved by a sweep of
coordinate descent, as in `conecollapse.geometry.certified.sweeps`, and the residual travels on;
more sweeps before it does would hardly improve it. No points leave their block. After some rounds a
copy of the residual goes round once more, and coefficients are only *raised*, until no contained
point has a positive product with the copy, as in ``sweeps``: if enough of it is left, it is a
functional that proves the target a ray. If the residual itself is small enough, the coefficients
left at the blocks are a combination.
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
from conecollapse.geometry.certified.supports import ZERO as ZERO_SWEPT
from conecollapse.geometry.certified.sweeps import LEAD
from conecollapse.tables.blocked import Held

if TYPE_CHECKING:
    from conecollapse.geometry.blockwise.sparse import Rows, Rules

ROUNDS = 4  # between two looks
MAX_LOOKS = 30
POLISHED = 2**22  # entries of a dense matrix over which coefficients are found exactly
CLOSE = 0.1  # share of tol up to which the residual of these is accepted


@dataclass(frozen=True)
class Traveller:
    """One target in slice coordinates ``x = u / sum``, what is left of it, and the coefficients
    that each block's points have so far."""

    number: int
    coordinates: AnyArray
    x: FloatArray
    total: float  # of the unit point
    r: FloatArray
    h: dict[int, FloatArray] = field(default_factory=dict)  # of all points of a block
    decided: Decided = field(default_factory=Decided)
    f: FloatArray | None = None  # the copy of what is left whose coefficients are raised

    def is_inside(self, tol: float) -> bool:
        """Whether so little is left that the coefficients are a combination."""
        return float(np.linalg.norm(self.r)) <= ZERO_SWEPT * tol * float(np.linalg.norm(self.x))

    def is_ray(self, tol: float) -> bool:
        """Whether enough of the copy is left, when it has been at all blocks."""
        return (
            self.f is not None
            and not self.is_inside(tol)
            and float(self.f @ self.x) > LEAD * float(self.r @ self.r)
        )


def travel(
    rows: Held, targets: list[tuple[int, Sparse]], rules: Rules
) -> tuple[list[Traveller], Decided]:
    """Send targets, sparse unit rows, round the blocks until they are decided: those with
    functionals, and what is known of the others."""
    groups = []
    for index, u in targets:
        total = float(u.data.sum())
        groups.append(
            Traveller(index, u.indices.astype(np.int32), u.data / total, total, u.data / total)
        )
    found, decided = [], Decided()
    for _ in range(MAX_LOOKS):
        if not groups:
            break
        moved = rows.chain(groups, _visit, ROUNDS, rules, stage="rounds")
        raised = rows.chain(moved, _raised, 1, rules, stage="rounds")
        seen = rows.collect(rows.cross(raised, _look, _judge, rules, stage="look"), stage="look")[0]
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


def _raised(one: Traveller, rows: Rows, _: int, rules: Rules) -> Traveller:
    f = one.r.copy() if one.f is None else one.f.copy()
    _raise(rows, _place(one, rules.dim), _own(one, rows), f)
    return replace(one, f=f)


class Seen(NamedTuple):
    """A block's answer about a target that is not proven a ray: the points that have
    coefficients."""

    number: int  # of the block
    used: IntArray  # their places in it
    ids: IntArray
    sums: FloatArray
    U: Sparse | None  # these points, if they are few


def _look(one: Traveller, rows: Rows, rules: Rules) -> Seen | None:
    if one.is_ray(rules.tol):
        return None
    used = np.flatnonzero(one.h.get(rows.number, np.zeros(0)))
    sums = np.add.reduceat(rows.val, rows.ptr[:-1]) if len(rows.ids) else np.zeros(0)
    U = sp.csr_array(rows.matrix()[used]) if len(used) * len(one.x) <= POLISHED else None
    return Seen(rows.number, used, rows.ids[used], sums[used], U)


def _judge(one: Traveller, answers: list[Seen], rules: Rules) -> Traveller:
    if one.f is not None and one.is_ray(rules.tol):
        return replace(one, f=one.f / np.linalg.norm(one.f), h={})
    one = replace(one, f=None)
    ids, sums = (
        np.concatenate([answer.ids for answer in answers]),
        np.concatenate([answer.sums for answer in answers]),
    )
    if one.is_inside(rules.tol):
        h = np.concatenate([one.h[answer.number][answer.used] for answer in answers])
        return _combined(one, ids, h * one.total / sums, float(np.linalg.norm(one.r)) * one.total)
    if not 0 < len(ids) * len(one.x) <= POLISHED:
        return one
    # sweeps find which points a combination uses long before they find its coefficients: an active
    # set over these does
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
    return replace(
        one,
        decided=Decided(
            combinations=[Combinations.of_parts([one.number], [(points, values)], [off])]
        ),
    )


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
    """Give each point of a block whose support lies inside the target's its best coefficient, one
    after the other."""
    ptr, idx, val = rows.ptr, rows.idx, rows.val
    for j in range(len(h)):
        inside, g, total = j != own, 0.0, 0.0
        for t in range(ptr[j], ptr[j + 1]):
            p = place[idx[t]]
            if p < 0:
                inside = False
                break
            g += r[p] * val[t]
            total += val[t]
        # q_j = u_j / total has length 1 / total, and |u_j| = 1
        step = max(0.0, h[j] + g * total) - h[j] if inside else 0.0
        if step != 0.0:
            h[j] += step
            for t in range(ptr[j], ptr[j + 1]):
                r[place[idx[t]]] -= step / total * val[t]


@kernel
def _raise(rows, place, own, f):  # type: ignore[no-untyped-def]
    """Raise the coefficients of the contained points of a block until ``f`` has no positive product
    with any of them.

    Entries are not negative, so that no product grows when another coefficient is raised.
    """
    ptr, idx, val = rows.ptr, rows.idx, rows.val
    for j in range(len(rows.ids)):
        inside, g = j != own, 0.0
        for t in range(ptr[j], ptr[j + 1]):
            p = place[idx[t]]
            if p < 0:
                inside = False
                break
            g += f[p] * val[t]
        if inside and g > 0.0:
            for t in range(ptr[j], ptr[j + 1]):  # of the unit point, so that its product becomes 0
                f[place[idx[t]]] -= g * val[t]
