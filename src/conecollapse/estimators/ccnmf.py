"""`CCNMF`: clusters of samples from the extreme rays of the cone of features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_count, check_tol
from conecollapse._errors import ClusterError, InvalidInputError
from conecollapse._types import IntArray, Sparse
from conecollapse.estimators._estimator import cone_line
from conecollapse.estimators._problem import Problem, Solution, start_of_samples
from conecollapse.estimators.orthogonal import OrthogonalNMF
from conecollapse.factorization.cones.ccnmf import ConeFactorization, ccnmf, data_cone
from conecollapse.factorization.orthogonal.encoders import LabelRule, OverRays
from conecollapse.factorization.restarts import Starts
from conecollapse.geometry.cone import Cone
from conecollapse.geometry.merging import warn_if_too_coarse
from conecollapse.tables import Table


@dataclass(eq=False, repr=False, kw_only=True)
class CCNMF(OrthogonalNMF):
    r"""Cone Collapse NMF: the extreme rays of the cone of features, then orthogonal NMF of the
    rays.

    .. math:: X = U V, \qquad U \approx A S, \qquad X \approx A (S V), \qquad A^T A = I

    The mathematics, and why ``weighting="mass"`` bounds the error on X, are in
    `conecollapse.factorization.cones.ccnmf`. On a graph (``affinity``) the points of the cone are
    the columns of the graph, or of its diffusion.

    Parameters
    ----------
    weighting : {"mass", "unit"}
        How much each ray counts in stage 2: by the data it carries, or equally, as in the paper.
    cone : {"certified", "paper"} or Cone
        The certified method, or the paper's Algorithm 1 step by step: the same rays, orders of
        magnitude slower. Or the cone of the features, found before: to go on after an interruption,
        to try several ranks, or to have it proven. With weights by mass "certified" only merges
        features of one direction and leaves all rays open, unless there are few features.
    cone_tol : float, optional
        Tolerance of the exact cone; 1e-8 by default, and 1e-6 for float32 numbers that are not
        whole, whose rounding is about 1e-7.
    eta : float
        Tilt of Algorithm 1; only used with ``cone="paper"``.
    max_residual : float, optional
        Use an epsilon-cone: no feature further than this from it (weighted like the rays).
    max_rays : int, optional
        Use an epsilon-cone of at most so many rays.
    solver, init, n_init, unlabeled
        Of stage 2, see `OrthogonalNMF`. Starts are made for the rays.
    n_components, affinity, tol, max_iter, random_state
        As in every factorization, see `BaseNMF`, which also lists further attributes.

    Attributes
    ----------
    embedding_ : (n_samples, r) array
        A; `labels_` are the largest entries of its rows. `predict` of the training samples differs
        from them as in `OrthogonalNMF`.
    components_ : (r, n_features) array
        S V: the paper's W, transposed. On a graph its columns are samples; `top_features` and
        ``profiles_`` speak of features.
    cone_ : Cone
        The rays with their certificate; ``cone_.verify(X.T)`` checks it (``X`` being the graph
        where an affinity is used), and ``cone_.prove(X.T)`` decides its `open_points`.
    ray_indices_ : (c,) array
        Which features they are; on a graph, which samples.
    loadings_ : (r, c) array
        S.
    coefficients_ : (c, n_features) CSR array
        V.
    orthogonality_ : float
        ``max |A'A - I|``.
    classes_, cluster_labels_, label_distributions_
        After `fit` with labels, see `OrthogonalNMF`.
    history_, n_iter_, converged_, status_
        Of stage 2; the objective is a share of the squares of the weighted rays.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import CCNMF
    >>> X = np.array([[4.0, 2.0, 0.1], [2.0, 1.0, 0.0], [0.0, 0.1, 3.0], [0.0, 0.0, 1.0]])
    >>> model = CCNMF(2, random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3])
    True
    >>> model.predict([[1.0, 0.5, 0.0]]) == model.labels_[:1]
    array([ True])
    """

    weighting: str = "mass"
    cone: Any = "certified"
    cone_tol: float | None = None
    eta: float = 0.25
    max_residual: float | None = None
    max_rays: int | None = None

    @classmethod
    def paper(
        cls, n_components: int, *, cone: str = "certified", random_state: Any = None
    ) -> CCNMF:
        """The paper as printed: raw features, unit rays, eta = 0.25, tol = 1e-8, one random start,
        multiplicative updates.

        The rays come from the certified method, which returns those of Algorithm 1;
        ``cone="paper"`` runs Algorithm 1 itself.
        """
        options: dict[str, Any] = {
            "weighting": "unit",
            "solver": "mu",
            "eta": 0.25,
            "cone_tol": 1e-8,
            "init": "random",
            "n_init": 1,
        }
        return cls(n_components, cone=cone, random_state=random_state, **options)

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Solution:
        table, known = problem.table, problem.constraints
        cone = self._find_cone(problem)
        try:
            found = ccnmf(
                table,
                Starts(self.n_components, start_of_rays(problem, self.init), self.n_init, rng),
                cone=cone,
                weighting=self.weighting,
                solver=self.solver,
                constraints=known,
                **self._stopping(),
            )
        except ClusterError as error:
            error.cone = cone
            error.add_note(
                "Stage 1 was finished: its cone is the `cone` of this error, and CCNMF(...,"
                " cone=error.cone) goes on from it."
            )
            raise
        rule = None
        if found.known is not None:
            judgement = found.known.run.judgement(found.rays)
            rule = LabelRule.of(table, judgement, found.known.linear, known)
        squares, rays = found.d**2, found.ray_indices
        encoder = OverRays(
            found.S, squares, found.lengths, rays, table.shape[1], self._is_disjoint, rule
        )
        result = replace(found.rays, W=found.A, H=found.H, error=found.error)
        return self._solution(problem, result, encoder, found.S * np.sqrt(squares), found)

    def _set_own(self, problem: Problem, solution: Solution, order: IntArray) -> None:
        found: ConeFactorization = solution.own
        judgement = None if found.known is None else found.known.run.judgement(found.rays)
        self._set_labels(problem, solution, order, judgement)
        self.cone_, self.loadings_ = found.cone, found.S[order]
        self.ray_indices_, self.coefficients_ = _among_all(problem, found.ray_indices, found.V)
        names = problem.data.feature_names
        if names is not None and self.affinity is None:
            self.cone_.ray_names = names[self.ray_indices_]

    def _find_cone(self, problem: Problem) -> Cone:
        table = problem.table
        if isinstance(self.cone, Cone):
            return self._given(self.cone, table)
        if self.max_rays is not None and check_count(self.max_rays, "max_rays") < self.n_components:
            raise InvalidInputError(
                f"max_rays = {self.max_rays} is fewer than n_components = {self.n_components};"
                " raise it."
            )
        if self.max_residual is not None or self.max_rays is not None:
            # with max_rays alone the number of rays decides
            residual = 1e-3 if self.max_residual is None else self.max_residual
            return data_cone(
                table,
                "approximate",
                max_residual=residual,
                max_rays=self.max_rays,
                weighting=self.weighting,
            )
        if self.cone not in ("certified", "paper"):
            raise InvalidInputError(
                f"cone must be certified or paper; got {self.cone!r}. For an epsilon-cone set"
                " max_residual or max_rays."
            )
        # graphs are made in float64
        is_rounded = problem.data.is_rounded and problem.kept is None
        tol = check_tol((1e-6 if is_rounded else 1e-8) if self.cone_tol is None else self.cone_tol)
        if is_rounded:
            warn_if_too_coarse(problem.data.dtype, tol)
        # by mass a generator that could be left out only stands for itself; at unit weight it would
        # count as one more ray
        effort: Literal["none", "exact"] = "none" if self.weighting == "mass" else "exact"
        return data_cone(table, self.cone, tol=tol, eta=self.eta, effort=effort)

    def _given(self, cone: Cone, table: Table) -> Cone:
        if (cone.dim, cone.n_points) != table.shape:
            raise InvalidInputError(
                f"the cone is of {cone.n_points} features of {cone.dim} samples, but the table has"
                f" shape {table.shape}; pass the cone of the columns of X."
            )
        return cone

    def _summary(self) -> dict[str, str]:
        return {"cone": cone_line(self.cone_), **super()._summary()}


def start_of_rays(problem: Problem, init: Any) -> Any:
    """The argument ``init`` for stage 2, whose table is that of the weighted rays."""
    if isinstance(init, str):
        return "spectral" if init == "auto" else init
    if problem.kept is None:
        return init
    return start_of_samples(init, problem.kept, problem.data.n_samples, columns=True)


def _among_all(problem: Problem, rays: IntArray, V: Sparse) -> tuple[IntArray, Sparse]:
    """Rays and coefficients of the columns of a graph, numbered as the samples are; of features
    they stay as they are."""
    kept = problem.kept
    if kept is None:
        return rays, V
    V = sp.coo_array(V)
    shape = (V.shape[0], problem.data.n_samples)
    return kept[rays], sp.csr_array((V.data, (V.row, kept[V.col])), shape=shape)
