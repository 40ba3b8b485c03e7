r"""`Hull`: the vertices of a cloud of points of any sign, through the cone of (x, 1).

A point is a vertex of the convex hull when it is not a convex combination of the others, that is,
when (x, 1) is an extreme ray of the cone of all (x, 1). What is known about cones then holds for
hulls, in dimensions where facets cannot be listed.

**The lift.** The points are measured from their mean, in units of the largest distance r from it:
``y = (x - mean) / r``, so that :math:`\|y\| \le 1`. In d dimensions the lifted point is
:math:`z = (y, \sqrt d)`: then the lifted points lie in a circular cone that fits into the
non-negative orthant, and a reflection puts it there. Nothing depends on the position, the scale or
the orientation of the cloud.

**Tolerances.** Let :math:`\delta` be the distance of y from the hull of other points, and D that of
z from their cone. The nearest point of the hull, lifted, lies in the cone, so :math:`D \le \delta`.
Any point of the cone is a multiple ``t (q, sqrt(d))`` of a lifted point q of the hull, and over all
t

.. math:: \|z - t (q, \sqrt d)\|^2 \ge \|y - q\|^2 - \frac{((y - q) \cdot q)^2}{\|q\|^2 + d} \ge \|y
   - q\|^2 \frac{d}{d + 1},

so :math:`D \ge \delta \sqrt{d / (d + 1)}`. Unit points are shorter by a factor from :math:`\sqrt d`
to :math:`\sqrt{d + 1}`. A cone at the tolerance :math:`\tau = tol \sqrt d / (d + 1)` therefore
proves, in units of r: every point is at most ``tol`` away from the hull of the vertices, and every
vertex more than ``tol d / (d + 1)`` from the hull of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import (
    SMALLEST_TOL,
    as_matrix,
    check_columns,
    check_finite,
    check_positive,
    check_size,
    row_labels,
)
from conecollapse._errors import CertificateError, ConeFileError, InvalidInputError
from conecollapse._linalg import row_lengths, unit_rows
from conecollapse._nnls import nnls
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray, Progress
from conecollapse.certificates import Certificate, Verdict, check
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.cone_file import read_beside, write_cone

# entries of coefficients that are held at once where they are not asked for: 128 MiB
BLOCK_ENTRIES = 2**24
INSIDE = 1e-12  # a distance below this share of the radius is what rounding leaves of zero
LENGTH_ROOM = 1e-9  # how far beyond the largest distance a point may seem to be, by rounding
# directions are taken for those of a pointed cone if the nearest point of their hull is at least
# this far from 0
POINTED = 1e-9


@dataclass(frozen=True)
class HullVerdict:
    """What `Hull.verify` proved, in the units of the points."""

    n_points: int
    n_vertices: int
    tol: float  # that the claims were judged against
    largest_distance: float  # of a point from the hull of the vertices, at most
    # of a vertex from the hull of the others, at least; None where it is not claimed
    smallest_distance: float | None
    cone: Verdict  # about the lifted points

    def __str__(self) -> str:
        vertices = "1 vertex spans" if self.n_vertices == 1 else f"{self.n_vertices} vertices span"
        proven = (
            f"{vertices} all {self.n_points} points to within {self.largest_distance:.3g} (tol ="
            f" {self.tol:.3g})"
        )
        if self.smallest_distance is None or self.n_vertices == 1:
            return proven + "."
        return (
            f"{proven}, and each is at least {self.smallest_distance:.3g} away from the hull of the"
            " others."
        )


class Hull:
    """The convex hull of a set of points of any sign, given by its vertices, with a certificate.

    Made by `Hull.from_points`, or by `Hull.from_directions` for the rays of a cone that has points
    of any sign.

    Attributes
    ----------
    vertices : (v, dim) array
        The vertices, which are rows of the points.
    vertex_indices : (v,) array
        Which rows they are, increasing.
    vertex_names : (v,) array or None
        Their labels, when the points came as a pandas frame.
    centre : (dim,) array
        The mean of the points.
    radius : float
        The largest distance of a point from ``centre``.
    tol : float
        The tolerance of all claims, in the units of the points.
    positive : (dim,) array or None
        For `from_directions`: the functional that is positive on all of them.
    cone : Cone
        The cone of the lifted points, whose certificate `verify` checks.
    """

    def __init__(
        self,
        vertices: FloatArray,
        cone: Cone,
        centre: FloatArray,
        radius: float,
        *,
        positive: FloatArray | None = None,
    ) -> None:
        self.vertices = vertices
        self.cone = cone
        self.centre = centre
        self.radius = radius
        self.positive = positive

    @classmethod
    def from_points(
        cls, X: Any, tol: float = 1e-8, *, n_jobs: int | None = None, progress: Progress = None
    ) -> Hull:
        r"""The vertices of the convex hull of the rows of ``X``, with a certificate.

        Parameters
        ----------
        X : (n_points, dim) array or data frame
            Finite numbers of any sign. Sparse arrays are made dense.
        tol : float
            As a share of ``radius``, the largest distance of a point from the mean of all: points
            closer than that to the hull of the others are no vertices. ``hull.tol`` is
            ``tol * radius``, in the units of ``X``.
        n_jobs : int, optional
            Threads to use; all available ones by default.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` now and then.

        Returns
        -------
        Hull
            `verify` proves that every point is within ``hull.tol`` of the hull of the vertices, and
            every vertex more than ``hull.tol dim / (dim + 1)`` away from the hull of the others.

        Examples
        --------
        >>> from conecollapse import Hull
        >>> hull = Hull.from_points([[0, 0], [2, 0], [0, 2], [2, 2], [1, 1], [1, 0]])
        >>> hull.vertex_indices
        array([0, 1, 2, 3])
        >>> hull.contains([[1.5, 0.5], [3, 1]])
        array([ True, False])
        >>> hull.distance([[1.5, 0.5], [3, 1]]).round(12)
        array([0., 1.])
        """
        points = _points(X)
        return cls._of(
            points, tol, row_labels(X, np.arange(len(points))), n_jobs=n_jobs, progress=progress
        )

    @classmethod
    def from_directions(
        cls,
        P: Any,
        positive: Any = None,
        tol: float = 1e-8,
        *,
        n_jobs: int | None = None,
        progress: Progress = None,
    ) -> Hull:
        """The extreme rays of the cone of the rows of ``P``, which may have any sign, as the
        vertices of a section of the cone.

        The cone must be pointed: a linear functional ``w`` is positive on all rows. The section is
        where ``w . x = 1``: each row p is divided by ``w . p``, and the vertices of the hull of the
        results are the rays.

        Parameters
        ----------
        P : (n_points, dim) array or data frame
            Finite numbers of any sign, no row of zeros.
        positive : (dim,) array, optional
            The functional w. By default it is found: the point nearest to the origin of the hull of
            the unit rows, which has the largest possible angle to all planes ``w . x = 0`` that
            leave all rows on one side.
        tol, n_jobs, progress
            As in `from_points`, for the section.

        Returns
        -------
        Hull
            Of the section. ``vertex_indices`` are the rays; `contains`, `distance` and `nearest`
            take directions, and scale them likewise.

        Examples
        --------
        >>> from conecollapse import Hull
        >>> Hull.from_directions(
        ...     [[1, -1, 1], [-1, -1, 2], [0, 3, 1], [0, -1, 1.5], [2, -2, 2]], positive=[0, 0, 1]
        ... ).vertex_indices
        array([0, 1, 2])
        """
        points = _points(P, "P")
        for i in np.flatnonzero(~points.any(axis=1))[:1]:
            raise InvalidInputError(
                f"row {i} of P is zero and has no direction; remove such rows first."
            )
        w = _positive_functional(points) if positive is None else np.asarray(positive, np.float64)
        if w.shape != (points.shape[1],):
            raise InvalidInputError(
                f"positive has shape {w.shape}; expected ({points.shape[1]},), one number for each"
                " column of P."
            )
        heights = points @ w
        for i in np.flatnonzero(~(heights > 0))[:1]:
            raise InvalidInputError(
                f"positive gives {heights[i]:.3g} on row {i} of P; it must be above 0 on all rows."
            )
        section = points / heights[:, None]
        return cls._of(
            section,
            tol,
            row_labels(P, np.arange(len(points))),
            positive=w,
            n_jobs=n_jobs,
            progress=progress,
        )

    @classmethod
    def _of(
        cls,
        points: FloatArray,
        tol: float,
        names: AnyArray | None,
        *,
        positive: FloatArray | None = None,
        n_jobs: int | None = None,
        progress: Progress = None,
    ) -> Hull:
        tol, dim = check_positive(tol, "tol", below=1.0), points.shape[1]
        cone_tol = _cone_tol(tol, dim)
        if cone_tol < SMALLEST_TOL:
            raise InvalidInputError(
                f"tol = {tol:.3g} is below {SMALLEST_TOL * tol / cone_tol:.3g}, the least that can"
                f" be proven in dimension {dim}; pass more."
            )
        centre = (points / len(points)).sum(axis=0)
        radius = float(row_lengths(points - centre).max())
        lifted = lift(points, centre, radius)
        cone = Cone.from_points(lifted, cone_tol, n_jobs=n_jobs, progress=progress)
        if names is not None:
            cone.ray_names = names[cone.ray_indices]
        return cls(points[cone.ray_indices], cone, centre, radius, positive=positive)

    @property
    def vertex_indices(self) -> IntArray:
        """Which rows of the points are vertices."""
        return self.cone.ray_indices

    @property
    def vertex_names(self) -> AnyArray | None:
        """Labels of the vertices, when the points came as a pandas frame."""
        return self.cone.ray_names

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.vertices)

    @property
    def n_points(self) -> int:
        """Number of points that the hull was made from, equal ones included."""
        return self.cone.n_points

    @property
    def dim(self) -> int:
        """Number of coordinates of each point."""
        return len(self.centre)

    @property
    def tol(self) -> float:
        """The tolerance of all claims, in the units of the points."""
        return self.cone.tol * (self.dim + 1) / np.sqrt(self.dim) * self.radius

    @property
    def groups(self) -> list[IntArray]:
        """For each vertex the points that are equal to it within the tolerance, itself among
        them."""
        return self.cone.groups

    def coefficients(self, Y: Any) -> FloatArray:
        """Shares of the vertices, (n, v), in the point of the hull nearest to each row of ``Y``:
        they are at least 0 and sum to one."""
        return np.concatenate([shares for shares, _ in self._solve(Y)])

    def nearest(self, Y: Any) -> FloatArray:
        """The point of the hull nearest to each row of ``Y``."""
        return np.concatenate([shares @ self.vertices for shares, _ in self._solve(Y)])

    def distance(self, Y: Any) -> FloatArray:
        """Distance of each row of ``Y`` from the hull, in the units of the points; 0 inside."""
        distance = np.concatenate([away for _, away in self._solve(Y)])
        return np.where(distance > INSIDE * self.radius, distance, 0.0)

    def contains(self, Y: Any, tol: float | None = None) -> BoolArray:
        """Whether each row of ``Y`` is within ``tol`` of the hull: a distance in the units of the
        points, by default `Hull.tol`."""
        limit = self.tol if tol is None else check_positive(tol, "tol")
        return np.asarray(self.distance(Y) <= max(limit * (1 + 1e-9), np.finfo(np.float64).tiny))

    def verify(self, X: Any, tol: float | None = None) -> HullVerdict:
        """Check every claim about ``X`` without any solver; raises `CertificateError` naming the
        first that fails.

        Parameters
        ----------
        X : (n_points, dim) array or data frame
            The points that the hull was made from.
        tol : float, optional
            What to judge the claims against, as a share of the radius; by default what the hull
            states.

        Returns
        -------
        HullVerdict
            As text it is one sentence.
        """
        points = _points(X)
        if self.positive is not None:
            points = points / (points @ self.positive)[:, None]
        if points.shape[1] != self.dim:
            raise CertificateError(
                f"the hull lives in dimension {self.dim}, but X has {points.shape[1]} columns."
            )
        lifted = lift(points, self.centre, self.radius)
        farthest = float(row_lengths(points - self.centre).max())
        if not farthest <= self.radius * (1 + LENGTH_ROOM):
            raise CertificateError(
                f"a point is {farthest:.6g} away from the centre, further than the radius"
                f" {self.radius:.6g}."
            )
        certificate = self.cone.certificate
        assert isinstance(certificate, Certificate)
        judged = None if tol is None else _cone_tol(check_positive(tol, "tol", below=1.0), self.dim)
        verdict = check(lifted, np.asarray(self.cone.rays), certificate, judged)
        if not np.array_equal(self.vertices, points[certificate.rays]):
            raise CertificateError("the vertices are not the points that the certificate names.")
        outward, root = (
            (self.dim + 1) / np.sqrt(self.dim) * self.radius,
            np.sqrt(self.dim) * self.radius,
        )
        smallest = None if verdict.smallest_distance is None else verdict.smallest_distance * root
        return HullVerdict(
            verdict.n_points,
            verdict.n_rays,
            verdict.tol * outward,
            verdict.largest_residual * outward,
            smallest,
            verdict,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write vertices, certificate and names to an ``.npz`` file, under a temporary name first:
        a killed run leaves no half file."""
        beside: dict[str, Any] = {
            "centre": self.centre,
            "radius": np.float64(self.radius),
            "vertices": self.vertices,
        }
        if self.positive is not None:
            beside["positive"] = self.positive
        write_cone(path, self.cone.rays, self.cone.certificate, self.cone.ray_names, beside)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Hull:
        """Read a hull written by `save`. Nothing in the file is believed: `verify` judges it
        against the points.

        Examples
        --------
        >>> import tempfile, os
        >>> from conecollapse import Hull
        >>> square = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Hull.from_points(square).save(os.path.join(folder, "hull.npz"))
        ...     print(Hull.load(os.path.join(folder, "hull.npz")).verify(square).n_vertices)
        4
        """
        cone, found = Cone.load(path), read_beside(path)
        dim, count = cone.dim - 1, cone.n_rays
        shapes = {"centre": (dim,), "radius": (), "vertices": (count, dim)} | (
            {"positive": (dim,)} if "positive" in found else {}
        )
        for name, shape in shapes.items():
            array = found.get(name)
            if (
                array is None
                or array.shape != shape
                or array.dtype != np.float64
                or not np.isfinite(array).all()
            ):
                raise ConeFileError(
                    f"{str(path)!r} holds no hull: {name!r} of shape {shape} is missing or damaged;"
                    " write one with Hull.save."
                )
        radius = float(found["radius"])
        if not (radius >= 0 and isinstance(cone.certificate, Certificate)):
            raise ConeFileError(
                f"{str(path)!r} holds no hull: its radius is {radius:.3g}, or its cone is not"
                " exact; write one with Hull.save."
            )
        return cls(found["vertices"], cone, found["centre"], radius, positive=found.get("positive"))

    def _section(self, Y: Any) -> FloatArray:
        points = _points(Y, "Y")
        check_columns(points, self.dim, "Y")
        if self.positive is None:
            return points
        heights = points @ self.positive
        for i in np.flatnonzero(~(heights > 0))[:1]:
            raise InvalidInputError(
                f"row {i} of Y has {heights[i]:.3g} where the directions are positive, and does not"
                " meet the section."
            )
        return np.asarray(points / heights[:, None])

    def _solve(self, Y: Any) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Shares of the nearest points and their distances, a block of rows at a time."""
        points, step = self._section(Y), max(1, BLOCK_ENTRIES // self.n_vertices)
        for a in range(0, len(points), step):
            shares, away = nnls(self.vertices.T, points[a : a + step].T, simplex=True)
            yield shares.T, away

    def __repr__(self) -> str:
        return (
            f"<Hull: {self.n_vertices} vertices of {self.n_points} points in dimension {self.dim},"
            f" tol={self.tol:.3g}>"
        )


def lift(points: FloatArray, centre: FloatArray, radius: float) -> FloatArray:
    """The rows ``(y, sqrt(dim))`` reflected into the non-negative orthant; see the module's
    text."""
    n, dim = points.shape
    lifted = np.empty((n, dim + 1))
    lifted[:, :dim] = (points - centre) / (radius if radius > 0 else 1.0)
    lifted[:, dim] = np.sqrt(dim)
    mirror = np.full(
        dim + 1, 1 / np.sqrt(dim + 1)
    )  # the reflection at its orthogonal plane takes the last axis to (1, ..., 1) / sqrt(dim + 1)
    mirror[dim] -= 1.0
    mirror /= np.linalg.norm(mirror)
    lifted -= 2.0 * np.outer(lifted @ mirror, mirror)
    return np.maximum(lifted, 0.0)  # rounding may put a coordinate of a farthest point below 0


def _cone_tol(tol: float, dim: int) -> float:
    return tol * np.sqrt(dim) / (dim + 1)


def _points(X: Any, name: str = "X") -> FloatArray:
    points = as_matrix(X, name)
    check_finite(points, name)
    check_size(points, name)
    return np.asarray(points.toarray() if sp.issparse(points) else points, np.float64)


def _positive_functional(points: FloatArray) -> FloatArray:
    """The point nearest to 0 of the hull of the unit rows: its product with each of them is at
    least its squared length."""
    unit, _ = unit_rows(points)
    shares, distance = nnls(unit.T, np.zeros(unit.shape[1]), simplex=True)
    if distance < POINTED:
        raise InvalidInputError(
            "these directions do not lie in a pointed cone: some non-negative combination of them"
            " is zero, so nothing is positive on all."
        )
    return np.asarray(shares @ unit)
