"""What the stages find out about group leaders, and the certificate that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import combination_rows, csr_rows, narrow, residuals
from conecollapse._types import BoolArray, FloatArray, IntArray, Points
from conecollapse.certificates import (
    Certificate,
    Metric,
    SparseVectors,
    Support,
    Vectors,
    Witnesses,
)

SAMPLE = 32  # entries of a vector that are asked first whether most are the same number
# a sparse entry takes this many times the room of a dense one, in float32 with 32 bits for its
# place
SPARSE_SHARE = 2


@dataclass(frozen=True)
class Decisions:
    """What is decided about leaders, which are numbered 0, 1, ... here.

    Rays that are clear of the other rays only are not among it: another ray may come to light.
    """

    sure: BoolArray  # proven to be rays, whatever the others are
    # of leaders that are no rays; some may lean on points that are not sure
    combination: dict[int, tuple[IntArray, FloatArray]]
    families: tuple[Witnesses, ...]  # the witnesses of the sure rays; ``of`` are leaders

    @classmethod
    def nothing(cls, m: int) -> Decisions:
        """About m leaders nothing is known."""
        return cls(np.zeros(m, bool), {}, ())

    @classmethod
    def from_certificate(cls, c: Certificate, leaders: IntArray) -> Decisions:
        """What ``c`` proves, if its leaders are these."""
        rays, H = np.searchsorted(leaders, c.rays), c.coefficients
        is_sure = ~c.open & ~c.rays_only
        rows = np.flatnonzero(np.diff(H.indptr))
        parts = (
            (rays[H.indices[a:b]], H.data[a:b])
            for a, b in zip(H.indptr[rows], H.indptr[rows + 1], strict=True)
        )
        kept = (family.take(np.flatnonzero(is_sure[family.of])) for family in c.witnesses)
        return cls(
            sure=_mask(len(leaders), rays[is_sure]),
            combination=dict(zip(np.searchsorted(leaders, rows).tolist(), parts, strict=True)),
            families=tuple(replace(family, of=rays[family.of]) for family in kept),
        )

    @classmethod
    def join(cls, parts: Sequence[Decisions]) -> Decisions:
        """All that some of ``parts`` decide about the same leaders; a ray keeps the first witness
        that is given for it."""
        out = cls.nothing(len(parts[0].sure))
        for part in parts:
            new = (f.take(np.flatnonzero(~out.sure[f.of])) for f in part.families)
            out = replace(out.add(*new), combination=out.combination | part.combination)
        return out

    def add(self, *families: Witnesses) -> Decisions:
        """These decisions and more rays, with their witnesses."""
        families = tuple(family for family in families if len(family.of))
        of = np.concatenate([np.zeros(0, np.int64), *(family.of for family in families)])
        return replace(
            self,
            sure=self.sure | _mask(len(self.sure), of),
            families=(*self.families, *families),
        )

    def add_vectors(self, of: IntArray, G: FloatArray) -> Decisions:
        """These decisions and the rays ``of``, whose witnesses are the rows of ``G``."""
        return self.add(*in_least_room(of, G))

    @property
    def undecided(self) -> BoolArray:
        """Leaders that are neither sure nor combinations of those that are."""
        decided = self.sure.copy()
        decided[[i for i, (S, _) in self.combination.items() if self.sure[S].all()]] = True
        return ~decided

    def undecided_among(self, share: IntArray | None) -> IntArray:
        """The undecided leaders, all or those of a share."""
        return np.flatnonzero(self.undecided) if share is None else share[self.undecided[share]]


@dataclass
class Settled:
    """Which points are rays, with dense witnesses and combinations, all over the rows of U."""

    alive: BoolArray
    witness: dict[int, FloatArray]  # of rays settled here
    weak: dict[int, int]  # weak ray -> the point its witness separates
    combination: dict[int, tuple[IntArray, FloatArray]]  # of redundant points, over rays
    # rays without proof either way
    open: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    # weak rays whose witness rounding has spoiled: tol is too small for these points
    unproven: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Proof:
    """Rays among the leaders, their witnesses as in `Certificate`, and the other leaders'
    combinations of them."""

    rays: IntArray
    rays_only: BoolArray
    separated: IntArray
    witnesses: tuple[Witnesses, ...]
    combination: dict[int, tuple[IntArray, FloatArray]]
    dim: int
    is_proven: bool  # no witness was spoiled by rounding
    open: IntArray  # leaders among the rays that are kept without proof either way

    @classmethod
    def of_settled(cls, settled: Settled, dim: int, families: tuple[Witnesses, ...]) -> Proof:
        """Proof from settled decisions; ``families`` are the witnesses of all rays that are not
        settled there or open."""
        rays = np.flatnonzero(settled.alive)
        separated = np.arange(len(settled.alive))
        separated[list(settled.weak)] = list(settled.weak.values())
        placed = tuple(
            replace(family, of=np.searchsorted(rays, family.of))
            for family in _joined(families)
            if len(family.of)
        )
        late = np.array(sorted(settled.witness), np.int64)
        late = late[settled.alive[late]]
        if len(late):
            placed += in_least_room(
                np.searchsorted(rays, late), np.array([settled.witness[int(i)] for i in late])
            )
        return cls(
            rays=rays,
            rays_only=_mask(len(separated), list(settled.weak))[rays],
            separated=separated[rays],
            witnesses=placed,
            combination=settled.combination,
            dim=dim,
            is_proven=not settled.unproven,
            open=settled.open,
        )

    @classmethod
    def of_one(cls, u: FloatArray) -> Proof:
        """The cone of one ray: it is its own witness, for there is nothing to separate it from."""
        return cls.of_settled(Settled(np.ones(1, bool), {0: u}, {}, {}), len(u), ())

    @classmethod
    def all_open(cls, m: int, n: int) -> Proof:
        """Nothing is known about any of m points in n dimensions."""
        every = np.arange(m)
        return cls(every, np.zeros(m, bool), every, (), {}, n, is_proven=True, open=every)

    def certificate(
        self, V: Points, leaders: IntArray, leader: IntArray, apart: float, tol: float
    ) -> Certificate:
        """The certificate about all points. Their ``leaders`` are the unit points ``V``, which this
        proof numbers 0, 1, ...; no point is further than ``apart`` from its leader."""
        n_points = len(leader)
        place = np.full(len(leaders), -1)
        place[self.rays] = np.arange(len(self.rays))
        coefficients, residual = sp.csr_array((n_points, len(self.rays))), apart
        if self.combination:
            rows = np.sort(np.fromiter(self.combination, np.int64, len(self.combination)))
            H = combination_rows([self.combination[int(i)] for i in rows], len(leaders))
            residual = max(apart, residuals(V, rows, H).max())
            lengths = np.zeros(n_points + 1, np.int64)
            lengths[leaders[rows] + 1] = np.diff(H.indptr)
            coefficients = csr_rows(H.data, place[H.indices], np.cumsum(lengths), len(self.rays))
            coefficients.sort_indices()
        return Certificate(
            tol=tol,
            residual=min(float(residual), tol),
            n_points=n_points,
            dim=self.dim,
            rays=leaders[self.rays],
            leader=leader,
            coefficients=coefficients,
            rays_only=self.rays_only,
            separated=leaders[self.separated],
            witnesses=tuple(
                replace(f, F=narrow(f.F)) if isinstance(f, Support) else f for f in self.witnesses
            ),
            open=_mask(len(leaders), self.open)[self.rays],
        )


def _joined(families: tuple[Witnesses, ...]) -> tuple[Witnesses, ...]:
    """All witnesses that are values on supports as one family, and those of one metric: a checker
    multiplies a family with the points at once."""
    supports = [family for family in families if isinstance(family, Support)]
    metrics = [family for family in families if isinstance(family, Metric)]
    others: list[Witnesses] = [f for f in families if not isinstance(f, Support | Metric)]
    if len(supports) > 1:
        F = sp.csr_array(sp.vstack([family.F for family in supports]))
        of, lift = (_stack(name, supports) for name in ("of", "lift"))
        supports = [Support(of, F, lift)]
    while metrics:
        first = metrics[0]
        same = [f for f in metrics if _are_one_metric(f, first)]
        metrics = [f for f in metrics if not _are_one_metric(f, first)]
        offset = _stack("offset", same)
        others.append(replace(first, of=_stack("of", same), offset=offset) if same[1:] else first)
    return (*supports, *others)


def _are_one_metric(a: Metric, b: Metric) -> bool:
    return np.array_equal(a.T, b.T) and np.array_equal(a.centre, b.centre)


def _stack(name: str, families: Sequence[Witnesses]) -> Any:
    return np.concatenate([getattr(family, name) for family in families])


def _mask(n: int, places: IntArray | list[int]) -> BoolArray:
    """Of n items, which are at ``places``."""
    mask = np.zeros(n, bool)
    mask[places] = True
    return mask


def in_least_room(of: IntArray, G: FloatArray) -> tuple[Witnesses, ...]:
    """Witnesses as vectors: sparse where most of their entries are the same number, else in float32
    where that holds them exactly."""
    single = G.astype(np.float32)
    fits = (single == G).all(axis=1)
    sample = G[:, :: max(1, G.shape[1] // SAMPLE)]
    # of a shifted sparse functional: minus the shift, a number of the same few digits
    usual = np.median(sample, axis=1)
    maybe = np.flatnonzero(
        fits & (SPARSE_SHARE * (sample == usual[:, None]).sum(axis=1) >= sample.shape[1] / 2)
    )
    above = (G[maybe] - usual[maybe, None]).astype(np.float32)
    holds = (above + usual[maybe, None] == G[maybe]).all(axis=1) & (
        SPARSE_SHARE * (above != 0).sum(axis=1) < G.shape[1]
    )
    is_sparse = _mask(len(G), maybe[holds])
    rest, wide = fits & ~is_sparse, ~fits
    sparse = SparseVectors(of[is_sparse], narrow(sp.csr_array(above[holds])), -usual[is_sparse])
    families = (sparse, Vectors(of[rest], single[rest]), Vectors(of[wide], G[wide]))
    return tuple(family for family in families if len(family.of))
