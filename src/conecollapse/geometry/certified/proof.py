"""What the dense and the sparse method both return: a certificate still in terms of group
leaders."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import combination_rows, csr_rows, narrow, residuals
from conecollapse._types import BoolArray, FloatArray, IntArray, Points
from conecollapse.certificates import Certificate, SparseVectors, Support, Vectors, Witnesses
from conecollapse.geometry.certified.in_turn import Settled

SAMPLE = 32  # entries of a vector that are asked first whether most are the same number
# a sparse entry takes this many times the room of a dense one, in float32 with 32 bits for its
# place
SPARSE_SHARE = 2


@dataclass(frozen=True)
class Known:
    """What a certificate has proven about the leaders, which are numbered 0, 1, ... here.

    Rays that are clear of the other rays only are not among it: another ray may come to light.
    """

    sure: BoolArray  # proven to be rays, whatever the others are
    # of leaders that are no rays; some may lean on points that are not sure
    combination: dict[int, tuple[IntArray, FloatArray]]
    families: tuple[Witnesses, ...]  # the witnesses of the sure rays

    @classmethod
    def from_certificate(cls, c: Certificate, leaders: IntArray) -> Known:
        """What ``c`` proves, if its leaders are these."""
        rays, H = np.searchsorted(leaders, c.rays), c.coefficients
        sure = np.zeros(len(leaders), bool)
        is_sure = ~c.open & ~c.rays_only
        sure[rays[is_sure]] = True
        rows = np.flatnonzero(np.diff(H.indptr))
        parts = (
            (rays[H.indices[a:b]], H.data[a:b])
            for a, b in zip(H.indptr[rows], H.indptr[rows + 1], strict=True)
        )
        kept = (family.take(np.flatnonzero(is_sure[family.of])) for family in c.witnesses)
        return cls(
            sure=sure,
            combination=dict(zip(np.searchsorted(leaders, rows).tolist(), parts, strict=True)),
            families=tuple(replace(family, of=rays[family.of]) for family in kept),
        )

    @property
    def undecided(self) -> BoolArray:
        """Leaders that are neither sure nor combinations of those that are."""
        decided = self.sure.copy()
        decided[[i for i, (S, _) in self.combination.items() if self.sure[S].all()]] = True
        return ~decided


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
    def of_settled(
        cls,
        settled: Settled,
        witness: dict[int, FloatArray],
        dim: int,
        *families: Witnesses,
        known: Known | None = None,
    ) -> Proof:
        """Proof from settled decisions.

        ``families`` say in ``of`` which leaders they are about; the vectors of the other rays are
        in ``witness`` or among those settled. What is ``known`` from before is added.
        """
        rays = np.flatnonzero(settled.alive)
        separated = np.arange(len(settled.alive))
        separated[list(settled.weak)] = list(settled.weak.values())
        families = _joined(families if known is None else (*families, *known.families))
        placed = tuple(
            replace(family, of=np.searchsorted(rays, family.of))
            for family in families
            if len(family.of)
        )
        without = settled.alive.copy()
        without[settled.open] = False
        for family in families:
            without[family.of] = False
        rest = np.flatnonzero(without[rays])
        dense = witness | settled.witness
        if len(rest):
            placed += in_least_room(
                rest, np.array([dense[int(i)] for i in rays[rest]]).reshape(-1, dim)
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
    """All witnesses that are values on supports as one family, which a checker multiplies with the
    points at once."""
    supports = [family for family in families if isinstance(family, Support)]
    if len(supports) < 2:
        return families
    F = sp.csr_array(sp.vstack([family.F for family in supports]))
    both = Support(
        np.concatenate([family.of for family in supports]),
        F,
        np.concatenate([family.lift for family in supports]),
    )
    return (*(family for family in families if not isinstance(family, Support)), both)


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


def single_ray(u: FloatArray) -> Proof:
    """The cone of one ray: it is its own witness, for there is nothing to separate it from."""
    return Proof.of_settled(Settled(np.ones(1, bool), {}, {}, {}), {0: u}, len(u))


def all_open(m: int, n: int) -> Proof:
    """Nothing is known about any of m points in n dimensions."""
    every = np.arange(m)
    return Proof(every, np.zeros(m, bool), every, (), {}, n, is_proven=True, open=every)
