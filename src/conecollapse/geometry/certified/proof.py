"""What the dense and the sparse method both return: a certificate still in terms of group leaders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import combination_rows, pair_distances, residuals
from conecollapse._types import BoolArray, FloatArray, IntArray, Points, Sparse
from conecollapse.certificates import DENSE, Certificate
from conecollapse.geometry.certified.settle import Settled


@dataclass(frozen=True)
class Proof:
    """Rays among the leaders, their witnesses as in `Certificate`, and the other leaders' combinations of them."""

    rays: IntArray
    rays_only: BoolArray
    separated: IntArray
    kind: IntArray
    G: FloatArray
    T: FloatArray
    centre: FloatArray
    offset: FloatArray
    F: Sparse
    lift: FloatArray
    combination: dict[int, tuple[IntArray, FloatArray]]

    @classmethod
    def of_settled(cls, settled: Settled, witness: dict[int, FloatArray], n: int, **families: Any) -> Proof:
        """Proof from settled decisions: dense witnesses, but for the rays that ``families`` covers otherwise."""
        rays = np.flatnonzero(settled.alive)
        kind = families.pop("kind", np.full(len(settled.alive), DENSE))[rays]
        dense = witness | settled.witness
        parts: dict[str, Any] = {
            "T": np.zeros((n, 0)),
            "centre": np.zeros(n),
            "offset": np.zeros(0),
            "F": sp.csr_array((0, n)),
            "lift": np.zeros(0),
        }
        return cls(
            rays=rays,
            rays_only=np.isin(rays, list(settled.weak)),
            separated=np.array([settled.weak.get(int(i), int(i)) for i in rays]),
            kind=kind,
            G=np.array([dense[int(i)] for i in rays[kind == DENSE]]).reshape(-1, n),
            combination=settled.combination,
            **(parts | families),
        )

    def certificate(self, U: Points, leaders: IntArray, leader: IntArray, tol: float) -> Certificate:
        """The certificate about all unit points ``U``: ``leaders`` are those that this proof numbers 0, 1, ..."""
        n_points = len(leader)
        place = np.full(len(leaders), -1)
        place[self.rays] = np.arange(len(self.rays))
        rows = np.sort(np.fromiter(self.combination, np.int64, len(self.combination)))
        H = combination_rows([self.combination[int(i)] for i in rows], len(leaders))
        lengths = np.zeros(n_points + 1, np.int64)
        lengths[leaders[rows] + 1] = np.diff(H.indptr)
        coefficients = sp.csr_array((H.data, place[H.indices], np.cumsum(lengths)), shape=(n_points, len(self.rays)))
        members = np.flatnonzero((leader >= 0) & (leader != np.arange(n_points)))
        reach = max(
            pair_distances(U, members, leader[members]).max(initial=0.0),
            residuals(U, leaders[rows], coefficients, U[leaders[self.rays]]).max(initial=0.0),
        )
        return Certificate(
            tol=tol,
            reach=float(reach),
            n_points=n_points,
            dim=self.centre.shape[0],
            rays=leaders[self.rays],
            leader=leader,
            rays_only=self.rays_only,
            separated=leaders[self.separated],
            kind=self.kind,
            G=self.G,
            T=self.T,
            centre=self.centre,
            offset=self.offset,
            F=self.F,
            lift=self.lift,
            coefficients=coefficients,
        )


def single_ray(u: FloatArray) -> Proof:
    """The cone of one ray: it is its own witness, for there is nothing to separate it from."""
    return Proof.of_settled(Settled(np.ones(1, bool), {}, {}, {}), {0: u}, len(u))
