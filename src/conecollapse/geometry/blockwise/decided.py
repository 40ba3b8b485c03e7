"""What has been decided about points in blocks, and the certificate that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from conecollapse._types import BoolArray, FloatArray, IntArray, Sparse
from conecollapse.certificates import Certificate, Vectors, Witnesses

ROUNDING = 4 * float(np.finfo(np.float64).eps)  # of a residual that is measured in another order
MAX_DOUBLINGS = 50
NEGLIGIBLE = 1e-18


class Combinations(NamedTuple):
    """The combinations that some points are: a few long arrays, which travel and add up faster than
    thousands of short ones."""

    of: IntArray
    ends: IntArray  # of each one's part of the next two
    points: IntArray
    values: FloatArray
    off: FloatArray  # residuals

    @classmethod
    def of_parts(
        cls, of: Sequence[int] | IntArray, parts: Sequence[tuple[IntArray, FloatArray]], off: Any
    ) -> Combinations:
        """``parts`` has points and coefficients for each of ``of``."""
        points: tuple[Any, ...]
        values: tuple[Any, ...]
        points, values = zip(*parts, strict=True) if len(parts) else ((), ())
        return cls(
            np.asarray(of, np.int64),
            np.cumsum(np.fromiter(map(len, points), np.int64, len(points))),
            np.concatenate([np.zeros(0, np.int64), *points]),
            np.concatenate([np.zeros(0), *values]),
            np.asarray(off, np.float64),
        )

    @classmethod
    def joined(cls, parts: Sequence[Combinations]) -> Combinations:
        """All of them, each point once."""
        if not parts:
            return cls.of_parts([], [], [])
        before = np.cumsum([0, *(len(part.points) for part in parts[:-1])])
        of, _, points, values, off = (np.concatenate(some) for some in zip(*parts, strict=True))
        return cls(
            of,
            np.concatenate([part.ends + first for part, first in zip(parts, before, strict=True)]),
            points,
            values,
            off,
        )

    @property
    def lengths(self) -> IntArray:
        """How many points each one has."""
        return np.diff(self.ends, prepend=0)

    def chosen(self, which: BoolArray) -> Combinations:
        """Some of them."""
        lengths, entries = self.lengths, np.repeat(which, self.lengths)
        return Combinations(
            self.of[which],
            np.cumsum(lengths[which]),
            self.points[entries],
            self.values[entries],
            self.off[which],
        )

    def renumbered(self, number: IntArray) -> Combinations:
        """The same with ``number[i]`` for point i."""
        return self._replace(of=number[self.of], points=number[self.points])

    def rows(self, n_points: int) -> Sparse:
        """Coefficients over all points, a row for each."""
        return sp.csr_array(
            (self.values, self.points, np.append(0, self.ends)), shape=(len(self.of), n_points)
        )


@dataclass
class Decided:
    """Witnesses of rays, combinations of points that are none, and points about which neither was
    found."""

    witness: dict[int, FloatArray] = field(default_factory=dict)
    combinations: list[Combinations] = field(default_factory=list)
    doubtful: list[int] = field(default_factory=list)

    def add(self, other: Decided) -> None:
        """Take over what ``other`` decided."""
        self.witness |= other.witness
        self.combinations.extend(other.combinations)
        self.doubtful.extend(other.doubtful)

    def renumbered(self, number: IntArray) -> Decided:
        """The same with ``number[i]`` for point i."""
        witness = dict(
            zip(
                number[np.fromiter(self.witness, np.int64, len(self.witness))].tolist(),
                self.witness.values(),
                strict=True,
            )
        )
        combinations = [some.renumbered(number) for some in self.combinations]
        return Decided(witness, combinations, number[np.array(self.doubtful, np.int64)].tolist())

    def __reduce__(self) -> tuple[Any, ...]:
        """A few long arrays travel faster between workers than thousands of short ones."""
        rays, G = (
            np.fromiter(self.witness, np.int64, len(self.witness)),
            np.array(list(self.witness.values())),
        )
        return _unpacked, (rays, G, self.combinations, self.doubtful)


def _unpacked(
    rays: IntArray, G: FloatArray, combinations: list[Combinations], doubtful: list[int]
) -> Decided:
    return Decided(dict(zip(rays.tolist(), G, strict=True)), combinations, doubtful)


def over_rays(combinations: Combinations, rays: IntArray, n_points: int) -> tuple[Sparse, float]:
    r"""Coefficients over the rays of every point with a combination, and a bound on their
    residuals.

    A combination may use points that are no rays and have combinations themselves, even of each
    other. With :math:`u = C u + R\,rays + e`,

    .. math:: u = (I - C)^{-1} R\,rays + (I - C)^{-1} e, \qquad (I - C)^{-1} = \prod_k (I +
       C^{2^k}),

    and the inverse exists and is non-negative: if :math:`x = a + g y` and :math:`y = b + h x` with
    all terms in a pointed cone, :math:`g h < 1` unless x and y are colinear.
    """
    order = np.argsort(combinations.of)
    rows, off, H = (
        combinations.of[order],
        combinations.off[order],
        combinations.rows(n_points)[order],
    )
    R, C = sp.csr_array(H[:, rays]), sp.csr_array(H[:, rows])
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


def certificate(
    decided: Decided, family: Witnesses, leader: IntArray, dim: int, tol: float, apart: float
) -> Certificate | None:
    """The certificate about all points, doubtful ones left open; None where residuals of
    combinations of combinations exceed ``tol``.

    ``family`` says in ``of`` which points it is about. ``apart`` is the largest distance of a point
    from its group's leader.
    """
    n_points = len(leader)
    explicit, left = (
        np.array(sorted(decided.witness), np.int64),
        np.array(sorted(decided.doubtful), np.int64),
    )
    rays = np.sort(np.concatenate([explicit, left, family.of]))
    coefficients, off = over_rays(Combinations.joined(decided.combinations), rays, n_points)
    residual = max(off + ROUNDING, apart) if decided.combinations else apart
    if residual > tol:
        return None
    placed: tuple[Witnesses, ...] = (
        (replace(family, of=np.searchsorted(rays, family.of)),) if len(family.of) else ()
    )
    if len(explicit):
        placed += (
            Vectors(
                np.searchsorted(rays, explicit),
                np.array([decided.witness[int(i)] for i in explicit]),
            ),
        )
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
