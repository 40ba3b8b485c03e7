"""What has been decided about points in blocks, and the certificate that it becomes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._linalg import combination_rows
from conecollapse._types import FloatArray, IntArray, Sparse
from conecollapse.certificates import Certificate, Vectors, Witnesses

ROUNDING = 4 * float(np.finfo(np.float64).eps)  # of a residual that is measured in another order
MAX_DOUBLINGS = 50
NEGLIGIBLE = 1e-18


@dataclass
class Decided:
    """Witnesses of rays, combinations of points that are none, and points about which neither was found."""

    witness: dict[int, FloatArray] = field(default_factory=dict)
    combination: dict[int, tuple[IntArray, FloatArray, float]] = field(default_factory=dict)  # points, coefficients, residual
    doubtful: list[int] = field(default_factory=list)

    def add(self, other: Decided) -> None:
        """Take over what ``other`` decided."""
        self.witness |= other.witness
        self.combination |= other.combination
        self.doubtful.extend(other.doubtful)

    def __reduce__(self) -> tuple[Any, ...]:
        """A few long arrays travel faster between workers than thousands of short ones."""
        parts = list(self.combination.values())
        packed = Packed(
            np.fromiter(self.witness, np.int64, len(self.witness)),
            np.array(list(self.witness.values())),
            np.fromiter(self.combination, np.int64, len(parts)),
            np.cumsum([len(points) for points, _, _ in parts], dtype=np.int64),
            np.concatenate([points for points, _, _ in parts]) if parts else np.zeros(0, np.int64),
            np.concatenate([values for _, values, _ in parts]) if parts else np.zeros(0),
            np.array([off for _, _, off in parts]),
            np.array(self.doubtful, np.int64),
        )
        return _unpacked, packed


class Packed(NamedTuple):
    """What `Decided` holds, as arrays; those of all combinations after each other, each up to its end."""

    rays: IntArray
    G: FloatArray
    others: IntArray
    ends: IntArray
    points: IntArray
    values: FloatArray
    off: FloatArray
    doubtful: IntArray


def _unpacked(*arrays: Any) -> Decided:
    packed = Packed(*arrays)
    points, values = np.split(packed.points, packed.ends[:-1]), np.split(packed.values, packed.ends[:-1])
    return Decided(
        dict(zip(packed.rays.tolist(), packed.G, strict=True)),
        {i: (S, h, off) for i, S, h, off in zip(packed.others.tolist(), points, values, packed.off.tolist(), strict=False)},
        packed.doubtful.tolist(),
    )


def over_rays(combination: dict[int, tuple[IntArray, FloatArray, float]], rays: IntArray, n_points: int) -> tuple[Sparse, float]:
    r"""Coefficients over the rays of every point with a combination, and a bound on their residuals.

    A combination may use points that are no rays and have combinations themselves, even of each other. With :math:`u = C u + R\,rays + e`,

    .. math:: u = (I - C)^{-1} R\,rays + (I - C)^{-1} e, \qquad (I - C)^{-1} = \prod_k (I + C^{2^k}),

    and the inverse exists and is non-negative: if :math:`x = a + g y` and :math:`y = b + h x` with all terms in a pointed cone,
    :math:`g h < 1` unless x and y are colinear.
    """
    rows = np.sort(np.fromiter(combination, np.int64, len(combination)))
    H = combination_rows([combination[int(i)][:2] for i in rows], n_points)
    R, C = sp.csr_array(H[:, rays]), sp.csr_array(H[:, rows])
    off = np.array([combination[int(i)][2] for i in rows])
    for _ in range(MAX_DOUBLINGS):
        C.data[C.data < NEGLIGIBLE] = 0.0
        C.eliminate_zeros()
        if not C.nnz:
            break
        R, off, C = sp.csr_array(R + C @ R), off + C @ off, sp.csr_array(C @ C)
    else:
        off = off + np.inf
    lengths = np.zeros(n_points + 1, np.int64)
    lengths[rows + 1] = np.diff(R.indptr)
    R.sort_indices()
    full = sp.csr_array((R.data, R.indices, np.cumsum(lengths)), shape=(n_points, len(rays)))
    return full, float(off.max(initial=0.0))


def certificate(decided: Decided, family: Witnesses, leader: IntArray, dim: int, tol: float, apart: float) -> Certificate | None:
    """The certificate about all points, doubtful ones left open; None where residuals of combinations of combinations exceed ``tol``.

    ``family`` says in ``of`` which points it is about. ``apart`` is the largest distance of a point from its group's leader.
    """
    n_points = len(leader)
    explicit, left = np.array(sorted(decided.witness), np.int64), np.array(sorted(decided.doubtful), np.int64)
    rays = np.sort(np.concatenate([explicit, left, family.of]))
    coefficients, off = over_rays(decided.combination, rays, n_points)
    residual = max(off + ROUNDING, apart) if decided.combination else apart
    if residual > tol:
        return None
    placed: tuple[Witnesses, ...] = (replace(family, of=np.searchsorted(rays, family.of)),) if len(family.of) else ()
    if len(explicit):
        placed += (Vectors(np.searchsorted(rays, explicit), np.array([decided.witness[int(i)] for i in explicit])),)
    return Certificate(
        tol=tol,
        residual=residual,
        n_points=n_points,
        dim=dim,
        rays=rays,
        leader=leader,
        coefficients=coefficients,
        rays_only=np.zeros(len(rays), bool),
        separated=rays,
        witnesses=placed,
        open=np.isin(rays, left),
    )
