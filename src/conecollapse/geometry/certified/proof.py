"""What the stages find out about group leaders, and the certificate that it becomes."""

from __future__ import annotations

from collections import defaultdict
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

# a sparse entry takes this many times the room of a dense one, in float32 with 32 bits for its
# place
SPARSE_SHARE = 2

# of points by their numbers: the points that each needs, and coefficients
Combinations = dict[int, tuple[IntArray, FloatArray]]


@dataclass(frozen=True)
class Decisions:
    """What is decided about leaders, which are numbered 0, 1, ... here.

    Rays that are clear of the other rays only are not among it: another ray may come to light.
    """

    sure: BoolArray  # proven to be rays, whatever the others are
    # of leaders that are no rays; some may lean on points that are not sure
    combination: Combinations
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
class Proof:
    """Which leaders are rays, and what proves it, over the leaders as rows."""

    alive: BoolArray  # the rays
    dim: int
    families: tuple[Witnesses, ...] = ()  # the witnesses of sure rays; ``of`` are leaders
    # of redundant leaders, over rays
    combination: Combinations = field(default_factory=dict)
    witness: dict[int, FloatArray] = field(default_factory=dict)  # of rays that were settled
    # a ray that is clear of other rays only -> the leader that its witness separates from these
    weak: dict[int, int] = field(default_factory=dict)
    # rays without proof either way
    open: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    # weak rays whose witness rounding has spoiled: tol is too small for these points
    unproven: list[int] = field(default_factory=list)

    @property
    def rays(self) -> IntArray:
        """The rays among the leaders."""
        return np.flatnonzero(self.alive)

    def _witnesses(self) -> tuple[Witnesses, ...]:
        """As in `Certificate`: ``of`` are places among the rays."""
        late = np.array(sorted(self.witness), np.int64)
        late = late[self.alive[late]]
        settled = np.array([self.witness[int(i)] for i in late])
        families = in_least_room(late, settled) if len(late) else ()
        return tuple(
            replace(family, of=np.searchsorted(self.rays, family.of))
            for family in (*_joined(self.families), *families)
            if len(family.of)
        )

    def certificate(
        self, V: Points, leaders: IntArray, leader: IntArray, apart: float, tol: float
    ) -> Certificate:
        """The certificate about all points. Their ``leaders`` are the unit points ``V``, which this
        proof numbers 0, 1, ...; no point is further than ``apart`` from its leader."""
        n_points, rays, separated = len(leader), self.rays, np.arange(len(leaders))
        separated[list(self.weak)] = list(self.weak.values())
        coefficients, residual = sp.csr_array((n_points, len(rays))), apart
        if self.combination:
            rows = np.sort(np.fromiter(self.combination, np.int64, len(self.combination)))
            H = combination_rows([self.combination[int(i)] for i in rows], len(leaders))
            residual = max(apart, residuals(V, rows, H).max())
            lengths = np.zeros(n_points + 1, np.int64)
            lengths[leaders[rows] + 1] = np.diff(H.indptr)
            places = np.searchsorted(rays, H.indices)
            coefficients = csr_rows(H.data, places, np.cumsum(lengths), len(rays))
            coefficients.sort_indices()
        return Certificate(
            tol=tol,
            residual=min(float(residual), tol),
            n_points=n_points,
            dim=self.dim,
            rays=leaders[rays],
            leader=leader,
            coefficients=coefficients,
            rays_only=_mask(len(leaders), list(self.weak))[rays],
            separated=leaders[separated[rays]],
            witnesses=tuple(
                replace(f, F=narrow(f.F)) if isinstance(f, Support) else f
                for f in self._witnesses()
            ),
            open=_mask(len(leaders), self.open)[rays],
        )


def _joined(families: tuple[Witnesses, ...]) -> tuple[Witnesses, ...]:
    """All witnesses that are values on supports as one family, and those of one metric: a checker
    multiplies a family with the points at once."""
    alike: dict[Any, list[Any]] = defaultdict(list)
    for k, family in enumerate(families):
        shared: Any = "support" if isinstance(family, Support) else k
        if isinstance(family, Metric):
            shared = family.T.tobytes(), family.centre.tobytes()
        alike[shared].append(family)
    return tuple(_as_one(some) for some in alike.values())


def _as_one(families: list[Any]) -> Witnesses:
    """Families of values on supports, or of one metric, as one."""
    first, of = families[0], np.concatenate([family.of for family in families])
    if isinstance(first, Support):
        F = sp.csr_array(sp.vstack([family.F for family in families]))
        first = Support(of, F, np.concatenate([family.lift for family in families]))
    elif isinstance(first, Metric):
        first = replace(first, of=of, offset=np.concatenate([f.offset for f in families]))
    joined: Witnesses = first
    return joined


def _mask(n: int, places: IntArray | list[int]) -> BoolArray:
    """Of n items, which are at ``places``."""
    mask = np.zeros(n, bool)
    mask[places] = True
    return mask


def in_least_room(of: IntArray, G: FloatArray) -> tuple[Witnesses, ...]:
    """Witnesses as vectors: sparse where most of their entries are the same number, else in float32
    where that holds them exactly."""
    single, usual = G.astype(np.float32), np.median(G, axis=1)
    # of a shifted sparse functional: minus the shift, a number of the same few digits
    above = (G - usual[:, None]).astype(np.float32)
    fits = (single == G).all(axis=1)
    is_sparse = fits & (above + usual[:, None] == G).all(axis=1)
    is_sparse &= SPARSE_SHARE * np.count_nonzero(above, axis=1) < G.shape[1]
    sparse = SparseVectors(of[is_sparse], narrow(sp.csr_array(above[is_sparse])), -usual[is_sparse])
    rest, wide = fits & ~is_sparse, ~fits
    families = (sparse, Vectors(of[rest], single[rest]), Vectors(of[wide], G[wide]))
    return tuple(family for family in families if len(family.of))
