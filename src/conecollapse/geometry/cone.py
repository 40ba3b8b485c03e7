"""`Cone`: the rays of a set of points, what they prove, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import (
    as_matrix,
    as_points,
    check_callable,
    check_columns,
    check_count,
    check_effort,
    check_finite,
    check_positive,
    check_size,
    check_tol,
    row_labels,
)
from conecollapse._errors import CertificateError, InvalidInputError
from conecollapse._linalg import as_dense, combination_rows, dense_rows, row_norms, unit_rows
from conecollapse._nnls.active_set import ActiveSetResult, active_set, active_set_sparse
from conecollapse._threads import limit_threads, serial_blas
from conecollapse._types import (
    AnyArray,
    BoolArray,
    Effort,
    FloatArray,
    IntArray,
    Points,
    Progress,
    Sparse,
)
from conecollapse.certificates import (
    AnyCertificate,
    ApproximateCertificate,
    Certificate,
    SampledCertificate,
    Verdict,
    check,
    check_blocks,
    check_cover,
    check_sample,
    plain,
)
from conecollapse.geometry.certified import certify_points
from conecollapse.geometry.invertible import part_of_invertible
from conecollapse.geometry.merging import Part, merge, warn_if_too_coarse, with_rays
from conecollapse.geometry.sample import CONFIDENCE, Sample, estimate, points_in_blocks
from conecollapse.io.source import ArraySource
from conecollapse.tables import BlockedTable, as_blocked, as_table, recognised
from conecollapse.tables.blocks import FileTable
from conecollapse.tables.survey import checked_blocks

if TYPE_CHECKING:
    from conecollapse.geometry.epsilon import EpsilonPath

BLOCK_ROWS = 1024
DENSE_RAYS = 2**27  # entries up to which sparse rays are made dense for projections


class Cone:
    """A convex cone given by unit rays that are rows of a point set, with a certificate.

    Made by `Cone.from_points`, `Cone.approximate`, `collapse`, `Cone.merge` and `Cone.load`; from
    data larger than memory by `Cone.from_table`, `Cone.from_blocks` and `Cone.from_samples`.

    Attributes
    ----------
    rays : (c, dim) array or CSR array
        The rays as unit rows, sparse if the points were. Cones in very many dimensions do not hold
        them, see `from_samples`.
    ray_indices : (c,) array
        Which rows of the point set they are.
    ray_names : (c,) array or None
        Their labels, when the points came as a pandas frame (as text after `save` and `load`).
    certificate : Certificate or ApproximateCertificate
        What is claimed about the point set; `verify` checks it.
    path : EpsilonPath or None
        For `approximate`: the points added in turn, and the largest residual after each. It is not
        saved.
    history : list of Iteration or None
        For `collapse`: what happened in each iteration. It is not saved.
    """

    def __init__(
        self,
        rays: Points | None,
        certificate: AnyCertificate,
        *,
        ray_names: AnyArray | None = None,
        path: EpsilonPath | None = None,
        history: list[Any] | None = None,
        sample: Sample | None = None,
    ) -> None:
        self._rays = rays
        self.certificate = certificate
        self.ray_names = ray_names
        self.path = path
        self.history = history
        self._sample = sample

    @classmethod
    def from_points(
        cls,
        P: Any,
        tol: float = 1e-8,
        effort: Effort = "exact",
        *,
        n_jobs: int | None = None,
        progress: Progress = None,
    ) -> Cone:
        r"""The exact cone of the rows of ``P``, with a certificate.

        Rows are scaled to unit length and rows within ``tol`` of each other form one group. A group
        is an extreme ray when

        .. math:: \min_{h \ge 0} \Big\| u_i - \sum_{j \ne i} h_j u_j \Big\| > tol

        over the other groups. The same rays as Algorithm 1 of the paper (`collapse`), orders of
        magnitude faster.

        Parameters
        ----------
        P : (n_points, dim) array, sparse array, data frame or Dask array
            Non-negative and finite. Zero rows are set aside (`zero_points`). Of a Dask array the
            cone is found block by block, see `from_table`.
        tol : float
            Numerical tolerance on distances between unit points. Near it the definition can
            contradict itself (two twins, each within ``tol`` of the other's cone); such rays are
            kept one by one and claim less, see `conecollapse.certificates`. Points that were
            rounded to float32 need about 1e-6; a warning says so.
        effort : {"exact", "quick"}
            "quick" spends at most two products of the points with their transpose. What is not
            decided by then stays *open*: kept among the rays, so that the cone is the same, without
            proof that it is needed (`open_points`). `prove` goes on from there. Of small tables all
            points stay open.
        n_jobs : int, optional
            Threads to use; all available ones by default.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` now and then, possibly from a worker thread.

        Returns
        -------
        Cone
            `verify` proves that its rays generate all points to within ``tol`` and that none but
            the open ones can be left out.

        Examples
        --------
        >>> from conecollapse import Cone
        >>> cone = Cone.from_points([[1, 0], [1, 1], [0, 2], [0, 3]])
        >>> cone.ray_indices
        array([0, 2])
        >>> [g.tolist() for g in cone.groups]
        [[0], [2, 3]]
        >>> cone.contains([[3, 1], [1, -1]])
        array([ True, False])
        """
        tol, effort = check_tol(tol), check_effort(effort)
        check_callable(progress, "progress")
        if (table := as_blocked(P)) is not None:
            return cls.from_table(table.transposed(), tol, effort, n_jobs=n_jobs)
        points = as_points(P)
        warn_if_too_coarse(points.dtype, tol)
        with limit_threads(n_jobs):
            rays, certificate = certify_points(points, tol, progress, effort=effort)
        return cls(rays, certificate, ray_names=row_labels(P, certificate.rays))

    @classmethod
    def approximate(
        cls,
        P: Any,
        max_residual: float = 0.05,
        max_rays: int | None = None,
        weighting: Literal["unit", "mass"] = "unit",
        *,
        callback: Callable[[int, float], None] | None = None,
        n_jobs: int | None = None,
    ) -> Cone:
        """Few rays whose cone is near every row of ``P``: an epsilon-cone, with its guarantee.

        Parameters
        ----------
        P : (n_points, dim) array, sparse array or data frame
            Non-negative and finite.
        max_residual : float
            Rays are added until no point is further than this from their cone; at least 1e-6.
        max_rays : int, optional
            Stop at this many rays even so; ``cone.path.residuals[-1]`` then says what was reached.
        weighting : {"unit", "mass"}
            "unit" measures unit points, so the residual is the sine of an angle. "mass" measures
            the points themselves, against the longest: small points may then be far off in
            direction. It is what clustering needs.
        callback : callable, optional
            Called as ``callback(n_rays, residual)`` after each ray.
        n_jobs : int, optional
            Threads to use; all available ones by default.

        Returns
        -------
        Cone
            `verify` re-measures the guarantee from stored coefficients; ``path`` has the residual
            after each ray.

        Examples
        --------
        >>> from conecollapse import Cone
        >>> cone = Cone.approximate([[1, 0], [1, 0.001], [1, 1], [0, 2]], max_residual=0.01)
        >>> cone.n_rays, bool(cone.path.residuals[-1] <= 0.01)
        (2, True)
        """
        from conecollapse.geometry.epsilon import approximate

        check_callable(callback, "callback")
        points = as_points(P)
        with limit_threads(n_jobs), serial_blas():  # many small products
            rays, certificate, path = approximate(
                points, max_residual, max_rays, weighting, callback
            )
        return cls(rays, certificate, ray_names=row_labels(P, certificate.rays), path=path)

    @classmethod
    def from_blocks(
        cls,
        blocks: Iterable[Any],
        tol: float = 1e-8,
        effort: Effort = "exact",
        *,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        progress: Progress = None,
    ) -> Cone:
        """The exact cone of points that come in blocks and are never held together: rays(A u B) =
        rays(rays(A) u rays(B)).

        Parameters
        ----------
        blocks : iterable of (points, dim) arrays, sparse arrays or data frames
            For instance a generator, or ``open_table(path).features()``. Points are numbered in the
            order in which they come.
        tol, effort
            As in `from_points`.
        checkpoint : path, optional
            A folder for the cones found so far. A run that was interrupted goes on from there when
            called again with the same blocks, and gives the same result; blocks that are done are
            only counted.
        n_jobs : int, optional
            Threads to use.
        progress : callable, optional
            Called as ``progress("blocks", points done, points done)``.

        Returns
        -------
        Cone
            As from `merge`: coefficients for every point, and rays that are clear of each other.

        Examples
        --------
        >>> from conecollapse import Cone
        >>> Cone.from_blocks(([[1, k], [k, 1]] for k in range(3))).ray_indices
        array([0, 1])
        """
        from conecollapse.geometry.streaming import part_of_blocks

        with limit_threads(n_jobs):
            return cls._of(
                part_of_blocks(blocks, check_tol(tol), checkpoint, progress, check_effort(effort))
            )

    @classmethod
    def from_samples(
        cls,
        blocks: Iterable[Any],
        tol: float = 1e-8,
        effort: Effort = "exact",
        *,
        n_jobs: int | None = None,
    ) -> Cone:
        """The exact cone of the columns of a table that comes in blocks of rows, for tables with
        far more rows than columns.

        One pass reduces the table to a triangle with the same inner products (see
        `conecollapse.geometry.tall`); time and memory after that depend on the number of columns
        only. Rays are not held: they are the columns `ray_indices` of the table. The certificate is
        about the table itself, and `verify` checks it in two passes over the blocks.

        Parameters
        ----------
        blocks : iterable of (samples, features) arrays
            Dense. Longer blocks than there are features are best.
        tol : float
            As in `from_points`. Where the points are so ill conditioned that rounding hides it, a
            larger one is certified, with a warning.
        effort : {"exact", "quick"}
            As in `from_points`. With "quick", rays that are so ill conditioned are left open.
        n_jobs : int, optional
            Threads to use.

        Examples
        --------
        >>> import numpy as np
        >>> from conecollapse import Cone
        >>> X = np.random.default_rng(0).random((1000, 3)) @ np.array(
        ...     [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
        ... )
        >>> cone = Cone.from_samples(np.split(X, 10))
        >>> cone.ray_indices
        array([0, 1, 2])
        >>> bool(cone.verify(lambda: np.split(X, 5)).largest_residual < 1e-12)
        True
        """
        from conecollapse.geometry.streaming import part_of_samples

        with limit_threads(n_jobs):
            return cls._of(part_of_samples(blocks, check_tol(tol), check_effort(effort)))

    @classmethod
    def from_table(
        cls,
        X: Any,
        tol: float = 1e-8,
        effort: Effort = "exact",
        *,
        checkpoint: str | PathLike[str] | None = None,
        n_jobs: int | None = None,
        progress: Progress = None,
    ) -> Cone:
        """The exact cone of the features of a table, which are its columns: an array, an opened
        file, or a Dask array.

        Of an array it is ``from_points(X.T)``. Tables in blocks that are sparse, or have more
        features than samples, are decided by comparing blocks of features with each other, or
        merged if there is a checkpoint (`from_blocks`); the others are shortened by QR over blocks
        of samples (`from_samples`).

        Parameters
        ----------
        X : (n_samples, n_features) array, sparse array, data frame, opened table or Dask array
            Its columns are the points.
        tol, effort
            As in `from_points`.
        checkpoint : path, optional
            As in `from_blocks`; blocks of features are merged then.
        n_jobs : int, optional
            Threads to use in this process.
        progress : callable, optional
            As in `from_points`; used where the table is in memory.
        """
        tol, effort = check_tol(tol), check_effort(effort)
        blocked = as_blocked(X)
        if blocked is not None:
            from conecollapse.geometry.streaming import part_of_table

            with limit_threads(n_jobs):
                return cls._of(part_of_table(blocked, tol, checkpoint, effort))
        table = recognised(X) or as_table(as_points(X, "X"))
        if table.inverse is not None:
            return cls._of(part_of_invertible(table.inverse, tol))
        return cls.from_points(table.points(), tol, effort, n_jobs=n_jobs, progress=progress)

    @classmethod
    def sample(
        cls,
        P: Any,
        n_functionals: int = 1024,
        *,
        until: float | None = None,
        confidence: float = CONFIDENCE,
        tol: float = 1e-8,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> Cone:
        """Rays at which random functionals are largest, from a few looks at the points, and a bound
        on what was missed; see `conecollapse.geometry.sample`.

        Parameters
        ----------
        P : (n_points, dim) array, sparse array, data frame, opened table or Dask array
            Non-negative and finite; its rows are the points. Tables in blocks are read block by
            block, once for each 4 million entries of the functionals.
        n_functionals : int
            Each finds one ray, often one that is known. The cost is that of the product of the
            points with a matrix of so many columns.
        until : float, optional
            Double the number of functionals until `missed` is at most this, or until there are
            `conecollapse.geometry.sample.MOST`.
        confidence : float
            Of the bound `missed`.
        tol : float
            As in `from_points`.
        random_state : int or numpy.random.Generator, optional
        n_jobs : int, optional
            Threads to use; all available ones by default.

        Returns
        -------
        Cone
            Its rays are proven, each with its functional as witness. It need not contain all
            points.

        Examples
        --------
        >>> import numpy as np
        >>> from conecollapse import Cone
        >>> P = np.vstack([np.eye(3), np.random.default_rng(0).random((2000, 3))])
        >>> cone = Cone.sample(P, random_state=0)
        >>> cone.ray_indices, cone.missed < 0.01
        (array([0, 1, 2]), True)
        """
        blocked = as_blocked(P)
        table = FileTable(ArraySource(as_points(P))) if blocked is None else blocked.along(0)
        with limit_threads(n_jobs):
            cone = cls._sampled(table, n_functionals, until, confidence, tol, random_state)
        cone.ray_names = row_labels(P, cone.ray_indices)
        return cone

    @classmethod
    def _sampled(
        cls,
        table: BlockedTable,
        n_functionals: int,
        until: float | None = None,
        confidence: float = CONFIDENCE,
        tol: float = 1e-8,
        random_state: Any = None,
        *,
        hold: bool = True,
    ) -> Cone:
        """`sample` of a table in blocks of points, which the cone holds on to, or not."""
        for name, value in {"confidence": confidence, "until": until}.items():
            if value is not None:
                check_positive(value, name, below=1.0)
        count = check_count(n_functionals, "n_functionals")
        sample = Sample.begin(table, check_tol(tol), confidence, random_state).drawn(count, until)
        certificate = sample.certificate()
        sample = sample if hold else replace(sample, table=None)
        return cls(sample.units, certificate, sample=sample)

    def extended(self, n_functionals: int, *, n_jobs: int | None = None) -> Cone:
        """The cone of `sample` with so many more functionals, over the same points, which it holds
        on to."""
        count = check_count(n_functionals, "n_functionals")
        with limit_threads(n_jobs):
            sample = self._drawn("extended").drawn(count)
        return Cone(sample.units, sample.certificate(), sample=sample)

    @property
    def counts(self) -> IntArray:
        """Of a cone of `sample`: how many functionals are largest at each ray."""
        return self._drawn("counts").counts

    @property
    def winners(self) -> IntArray:
        """Of a cone of `sample`: the ray at which each functional is largest, as a point; -1 where
        rounding does not decide it."""
        return self._drawn("winners").winners

    @property
    def missed(self) -> float:
        """Of a cone of `sample`: a further functional is largest at a ray that is not known with at
        most this probability. Each such number that was asked for holds, with the confidence that
        was asked for, for all of them together."""
        return self._drawn("missed").missed

    @property
    def missed_estimate(self) -> float:
        """Of a cone of `sample`: Good and Turing's estimate of that probability, the share of the
        functionals that are alone at their ray. No bound."""
        return estimate(self._drawn("missed_estimate").winners)

    def _drawn(self, what: str) -> Sample:
        if self._sample is None:
            raise InvalidInputError(
                f"{what} is of cones that Cone.sample has made here; a file does not keep it."
            )
        return self._sample

    @classmethod
    def _of(cls, part: Part) -> Cone:
        rays, certificate, names = part.whole()
        return cls(rays, certificate, ray_names=names)

    @property
    def rays(self) -> Points:
        """The rays as unit rows."""
        if self._rays is None:
            raise InvalidInputError(
                f"this cone lives in {self.dim} dimensions and does not hold its {self.n_rays}"
                " rays; they are the columns cone.ray_indices of the table it was made from."
            )
        return self._rays

    @property
    def holds_rays(self) -> bool:
        """Whether `rays` are at hand, and with them projections, residuals and merging."""
        return self._rays is not None

    @property
    def ray_indices(self) -> IntArray:
        """Rows of the point set that are rays: increasing for an exact cone, in the order of choice
        for an approximate one."""
        return self.certificate.rays

    @property
    def open_points(self) -> IntArray:
        """Rays that are *open*: points that were kept because it was not decided whether the others
        generate them; see `prove`."""
        certificate = self.certificate
        return (
            self.ray_indices[certificate.open]
            if isinstance(certificate, Certificate)
            else self.ray_indices[:0]
        )

    @property
    def n_rays(self) -> int:
        """Number of rays, c, open ones included."""
        return len(self.certificate.rays)

    @property
    def n_points(self) -> int:
        """Number of points that the cone was made from, zero and colinear ones included."""
        return self.certificate.n_points

    @property
    def dim(self) -> int:
        """Number of coordinates of each point."""
        return self.certificate.dim

    @property
    def tol(self) -> float:
        """Tolerance of the claims: the numerical one, or the largest residual that an approximate
        cone reached and guarantees."""
        return self.certificate.tol

    @property
    def groups(self) -> list[IntArray]:
        """For each ray the points that are colinear with it, itself among them."""
        leader = self._exact("groups").leader
        order = np.argsort(leader, kind="stable")
        starts = np.searchsorted(leader[order], self.ray_indices)
        ends = np.searchsorted(leader[order], self.ray_indices, side="right")
        return [order[a:b] for a, b in zip(starts, ends, strict=True)]

    @property
    def zero_points(self) -> IntArray:
        """Points that are zero: they belong to every cone and are no one's ray."""
        return np.flatnonzero(self._exact("zero_points").leader < 0)

    @property
    def point_coefficients(self) -> Sparse:
        """Coefficients over the rays of every unit point that the cone was made from, (n_points,
        c), as certified: no solve."""
        if isinstance(self.certificate, ApproximateCertificate):
            return self.certificate.coefficients
        certificate = self._exact("point_coefficients")
        every = with_rays(certificate)[np.maximum(certificate.leader, 0)]
        return sp.csr_array(sp.diags_array((certificate.leader >= 0).astype(np.float64)) @ every)

    def coefficients(self, Y: Any, *, sparse: bool = False) -> Any:
        """Non-negative coefficients of the point of the cone nearest to each row of ``Y``:
        ``project(Y) = coefficients(Y) @ rays``.

        They multiply the unit rays; the lengths of the rows of ``Y`` are in them. An (n, c) array,
        or a CSR array with ``sparse=True`` (no row has more than ``dim`` entries).
        """
        Y = self._check(Y)
        parts = [
            (S, h * length)
            for solved, lengths, _ in self._solve(Y)
            for S, h, length in zip(solved.passive, solved.values, lengths, strict=True)
        ]
        rows = combination_rows(parts, self.n_rays)
        return rows if sparse else rows.toarray()

    def project(self, Y: Any) -> FloatArray:
        """The point of the cone nearest to each row of ``Y``, as dense rows."""
        return as_dense(self.coefficients(Y, sparse=True) @ self.rays)

    def residuals(self, Y: Any) -> FloatArray:
        """Distance of each row of ``Y`` from the cone, relative to the row's length (0 for zero
        rows)."""
        return self._measure(Y)[0]

    def contains(self, Y: Any, tol: float | None = None) -> BoolArray:
        """Whether each row of ``Y`` is within ``tol`` of the cone, relative to its length.

        By default ``tol`` is the cone's own: numerical for an exact cone, the guaranteed residual
        for an approximate one. If that guarantee is weighted by mass, distances are measured in its
        unit, the length of the longest point.
        """
        distance, lengths = self._measure(Y)
        if (
            tol is None
            and isinstance(self.certificate, ApproximateCertificate)
            and self.certificate.weighting == "mass"
        ):
            distance = distance * lengths / self.certificate.longest
        return distance <= (self.tol if tol is None else check_positive(tol, "tol")) * (1 + 1e-9)

    def merge(self, other: Cone, effort: Effort = "exact") -> Cone:
        """The cone of the points of both: rays(A u B) = rays(rays(A) u rays(B)).

        The points of ``other`` are numbered after this cone's, as in
        ``np.vstack([P_self, P_other])``; `verify` accepts that stack. Since the points are not at
        hand, the rays of the result claim to be clear of each other rather than of all points. That
        decides what was open before; with ``effort="quick"`` some rays are left open, as in
        `from_points`.
        """
        effort = check_effort(effort)
        if not isinstance(other, Cone):
            raise InvalidInputError(f"merge takes another Cone; got {type(other).__name__}.")
        if other.dim != self.dim:
            raise InvalidInputError(
                f"cones of dimension {self.dim} and {other.dim} cannot be merged; both must live in"
                " the same space."
            )
        mine, theirs = (
            Part(cone.n_points, cone.rays, cone._exact("merge"), cone.ray_names, effort)
            for cone in (self, other)
        )
        return Cone._of(merge(mine, theirs))

    def prove(self, P: Any, *, n_jobs: int | None = None, progress: Progress = None) -> Cone:
        """The same cone without open points: each is proven to be a ray, or left out with a
        combination of rays that replaces it.

        What the certificate proves about the other points is kept, not searched for again. The
        result is as exact as that of `from_points`. Like every certificate, it is checked by
        `verify` and not here.

        Parameters
        ----------
        P : (n_points, dim) array, sparse array or data frame
            The points that the cone was made from; or, as an opened table or a Dask array, the
            table whose columns they are. The cone of such a table is found anew.
        n_jobs, progress
            As in `from_points`.

        Examples
        --------
        >>> import numpy as np
        >>> from conecollapse import Cone
        >>> P = np.random.default_rng(0).random((2000, 10))
        >>> quick = Cone.from_points(P, effort="quick")
        >>> cone = quick.prove(P)
        >>> len(quick.open_points) > len(cone.open_points) == 0
        True
        >>> cone.ray_indices.tolist() == Cone.from_points(P).ray_indices.tolist()
        True
        """
        check_callable(progress, "progress")
        certificate = plain(self._exact("prove"))
        assert isinstance(certificate, Certificate)
        if (table := as_blocked(P)) is not None:
            return self._proven_in_blocks(table, n_jobs)
        points = as_points(P)
        check_cover(points, self._rays, certificate)
        self._check_names(row_labels(P, self.ray_indices))
        if not certificate.open.any():
            return self
        with limit_threads(n_jobs):
            rays, proven = certify_points(points, certificate.tol, progress, known=certificate)
        return Cone(rays, proven, ray_names=self._names_of(proven.rays, P))

    def _proven_in_blocks(self, table: BlockedTable, n_jobs: int | None) -> Cone:
        if table.shape != (self.dim, self.n_points):
            raise CertificateError(
                f"the certificate is about {self.n_points} points in dimension {self.dim}, but the"
                f" table has shape {table.shape}; pass the table that the cone was made from, which"
                " has its points as columns."
            )
        if not len(self.open_points):
            return self
        return Cone.from_table(table, self.tol, n_jobs=n_jobs)

    def verify(self, P: Any, tol: float | None = None) -> Verdict:
        """Check every claim about ``P`` without any solver; raises `CertificateError` naming the
        first that fails.

        Parameters
        ----------
        P : (n_points, dim) array, sparse array or data frame
            The points that the cone was made from. For a cone in very many dimensions also the
            table whose columns they are, in blocks of samples: an opened table, a Dask array, or a
            function that yields the blocks, which is called twice. If both ``P`` and the cone have
            names, these must agree too.
        tol : float, optional
            What to judge the claims against; by default the tolerance that the cone states, `tol`.
            Nothing else in the cone can widen a claim.

        Returns
        -------
        Verdict
            The tolerance, the largest residual of a point, and the smallest proven distance of a
            ray from the cone of the others. As text it is one sentence.
        """
        tol = None if tol is None else check_tol(tol)
        table = as_blocked(P)
        if isinstance(self.certificate, SampledCertificate) and table is not None:
            table = table.along(0 if table.shape == (self.n_points, self.dim) else 1)
            return check_sample(
                points_in_blocks(table), self._rays, self.certificate, tol or self.tol
            )
        if table is not None:
            return check_blocks(table.along(0).blocks, self._rays, self.certificate, tol)
        if callable(P):
            return check_blocks(lambda: checked_blocks(P()), self._rays, self.certificate, tol)
        verdict = check(as_points(P), self._rays, self.certificate, tol)
        self._check_names(row_labels(P, self.ray_indices))
        return verdict

    def save(self, path: str | PathLike[str]) -> None:
        """Write rays, certificate and names to an ``.npz`` file, under a temporary name first: a
        killed run leaves no half file.

        `path` and `history` are reports of the search that nobody can check afterwards; they are
        not stored.
        """
        from conecollapse.geometry.cone_file import write_cone

        write_cone(path, self._rays, self.certificate, self.ray_names)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Cone:
        """Read a cone written by `save`. Files that hold Python objects are refused, never
        unpickled."""
        from conecollapse.geometry.cone_file import read_cone

        rays, certificate, ray_names = read_cone(path)
        return cls(rays, certificate, ray_names=ray_names)

    def __repr__(self) -> str:
        kind = {ApproximateCertificate: "approximate ", SampledCertificate: "sampled "}.get(
            type(self.certificate), ""
        )
        is_open = f" ({len(self.open_points)} open)" if len(self.open_points) else ""
        return (
            f"<{kind}Cone: {self.n_rays} rays{is_open} of {self.n_points} points in dimension"
            f" {self.dim}, tol={self.tol:.3g}>"
        )

    def _check_names(self, names: AnyArray | None) -> None:
        """The rays are called as the points are, where both have names."""
        if names is None or self.ray_names is None:
            return
        if len(self.ray_names) != len(names):
            raise CertificateError(
                f"the cone has {len(self.ray_names)} names for {len(names)} rays."
            )
        for k in np.flatnonzero(
            [str(mine) != str(given) for mine, given in zip(self.ray_names, names, strict=True)]
        )[:1]:
            raise CertificateError(
                f"ray {k} (point {self.ray_indices[k]}): it is called {str(self.ray_names[k])!r},"
                f" but {str(names[k])!r} in P."
            )

    def _names_of(self, rays: IntArray, P: Any) -> AnyArray | None:
        """Labels of these points, by ``P`` or by this cone."""
        names = row_labels(P, rays)
        if names is None and self.ray_names is not None and np.isin(rays, self.ray_indices).all():
            names = self.ray_names[np.searchsorted(self.ray_indices, rays)]
        return names

    def _exact(self, what: str) -> Certificate:
        if not isinstance(self.certificate, Certificate):
            raise InvalidInputError(
                f"{what} needs an exact cone, and this one is approximate or a sample; use"
                " Cone.from_points."
            )
        return self.certificate

    def _check(self, Y: Any) -> Points:
        Y = as_matrix(Y, "Y")
        check_finite(Y, "Y")
        check_size(Y, "Y")
        check_columns(Y, self.dim, "Y")
        return Y

    def _measure(self, Y: Any) -> tuple[FloatArray, FloatArray]:
        """Relative distance of each row from its projection, measured explicitly, and the rows'
        lengths."""
        distances, all_lengths = [], []
        for solved, lengths, rows in self._solve(self._check(Y)):
            parts = list(zip(solved.passive, solved.values, strict=True))
            distances.append(
                row_norms(np.asarray(rows - combination_rows(parts, self.n_rays) @ self.rays))
            )
            all_lengths.append(lengths)
        return np.concatenate(distances), np.concatenate(all_lengths)

    def _solve(self, Y: Points) -> Iterator[tuple[ActiveSetResult, FloatArray, FloatArray]]:
        """Active sets of the unit rows of ``Y`` over the rays, a block at a time, with the rows'
        lengths and the rows."""
        rays = self.rays
        if sp.issparse(rays) and rays.shape[0] * rays.shape[1] <= DENSE_RAYS:
            rays = rays.toarray()
        for start in range(0, Y.shape[0], BLOCK_ROWS):
            rows, lengths = unit_rows(
                dense_rows(Y, np.arange(start, min(start + BLOCK_ROWS, Y.shape[0])))
            )
            yield (
                (active_set_sparse(rays, rows) if sp.issparse(rays) else active_set(rays, rows)),
                lengths,
                rows,
            )
