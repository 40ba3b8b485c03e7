"""`CCNMF`: clusters of samples from the extreme rays of the cone of features; `GraphCCNMF`: of a
graph of samples that is chosen from the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_count, check_positive, check_tol
from conecollapse._errors import ClusterError, InvalidInputError
from conecollapse._types import IntArray, Sparse
from conecollapse.affinity.kinds import known_samples
from conecollapse.affinity.views import N_NEIGHBORS
from conecollapse.estimators._estimator import cone_line
from conecollapse.estimators._fitted import Problem, Solution, start_of_samples
from conecollapse.estimators.orthogonal import OrthogonalNMF
from conecollapse.factorization.cones.ccnmf import (
    ConeFactorization,
    ccnmf,
    check_weighting,
    data_cone,
)
from conecollapse.factorization.cones.graph_ccnmf import (
    DAMPING,
    GraphFactorization,
    GraphOptions,
    graph_ccnmf,
)
from conecollapse.factorization.initial_factors import is_components, is_pair
from conecollapse.factorization.orthogonal.encoders import LabelRule, OverGraph, OverRays
from conecollapse.factorization.restarts import Starts
from conecollapse.factorization.result import squared_error
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
        table = problem.table
        cone = self._find_cone(problem)
        try:
            found = ccnmf(
                table,
                Starts(self.n_components, start_of_rays(problem, self.init), self.n_init, rng),
                cone=cone,
                weighting=self.weighting,
                solver=self.solver,
                constraints=problem.constraints,
                **self._stopping(),
            )
        except ClusterError as error:
            error.cone = cone
            error.add_note(
                "Stage 1 was finished: its cone is the `cone` of this error, and CCNMF(...,"
                " cone=error.cone) goes on from it."
            )
            raise
        rule = LabelRule.of(table, found.clamped, found.rays)
        squares, rays = found.d**2, found.ray_indices
        encoder = OverRays(
            found.S, squares, found.lengths, rays, table.shape[1], self._is_disjoint, rule
        )
        result = replace(found.rays, W=found.A, H=found.H, error=found.error)
        return self._solution(problem, result, encoder, found.S * np.sqrt(squares), found)

    def _set_own(self, problem: Problem, solution: Solution, order: IntArray) -> None:
        found: ConeFactorization = solution.own
        judgement = None if found.clamped is None else found.clamped.judgement(found.rays)
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


@dataclass(eq=False, repr=False, kw_only=True)
class GraphCCNMF(OrthogonalNMF):
    """CC-NMF of samples diffused over a graph of their neighbours: usually the best clustering, and
    the command's default.

    Two ways of comparing samples (*views*) give two graphs; the one that falls more clearly into r
    clusters is taken, without any labels. Counts, such as those of molecules in cells, are
    recognised: pass them as they are. The recipe, step by step, is in
    `conecollapse.factorization.cones.graph_ccnmf`.

    Parameters
    ----------
    view : {"auto", "root", "centred", "cosine", "root cosine", "residuals", "log pcs"}
        How samples are compared: by Euclidean distances of square roots, the same after centring
        unit rows, by cosines, by cosines of square roots, or by principal components of counts
        (`conecollapse.affinity.counts`). "auto" takes the better of the last two for counts of
        cells, of the first two for other dense tables, of the cosines for other tables with at most
        10 % of non-zero entries.
    n_neighbors : int
        Neighbours of each sample in the graph.
    neighbors : {"auto", "exact", "approximate"}
        How they are found. "auto" is exact for sparse X and up to 20,000 samples, and approximate
        for more (about 97 % of them are found).
    damping : float
        The share, in (0, 1), that each further step over the graph keeps.
    weighting : {"mass", "unit"}
        How much each ray counts, as in `CCNMF`.
    solver, init, n_init, unlabeled
        Of stage 2, see `OrthogonalNMF`. ``init`` may be an array of labels, but no factors.
    n_components, tol, max_iter, random_state
        As in every factorization, see `BaseNMF`, which also lists further attributes.

    Attributes
    ----------
    embedding_ : (n_samples, r) array
        The orthonormal factor A; `labels_` are the largest entries of its rows.
    components_ : (r, n_features) array
        A'X, the features of each cluster.
    view_ : str
        The view taken.
    eigengap_ratios_ : dict
        For each view tried how far its graph is from falling into r clusters: 0 if it does, near 1
        if nothing distinguishes r from 2 r.
    view_gains_ : dict
        Of counts, for which it decides: for each view by how many nats clusters predict a count
        better than all samples do. Empty for other tables.
    cone_ : Cone
        The cone of the points that are diffused: the features of the view where these are cosines
        of a table that is mostly zeros, else one axis for each sample. The diffusion is invertible,
        so the rays of the diffused points are the images of these. It is a quick cone
        (`Cone.from_points`): points that it leaves open are kept as rays.
    ray_indices_ : (c,) array
        Which of these points are rays, or open.
    classes_, cluster_labels_, label_distributions_
        After `fit` with labels, see `OrthogonalNMF`.
    loadings_ : (r, c) array
        S, the loadings of the clusters on the diffused, weighted rays.

    Notes
    -----
    `predict` and `transform` give a sample that is identical to a training sample that sample's
    label and row of `embedding_`; a new one is joined to its nearest training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import GraphCCNMF
    >>> X = np.kron(np.eye(2), np.ones((6, 3))) + 0.1 * np.random.default_rng(0).random((12, 6))
    >>> model = GraphCCNMF(2, random_state=0).fit(X)
    >>> bool((model.labels_ == np.repeat(model.labels_[[0, 11]], 6)).all())
    True
    >>> bool((model.predict(X) == model.labels_).all())
    True
    """

    affinity: Any = field(default=None, init=False)
    view: str = "auto"
    n_neighbors: int = N_NEIGHBORS
    neighbors: str = "auto"
    damping: float = DAMPING
    weighting: str = "mass"

    _compares_samples = True
    _limits: ClassVar[dict[str, int]] = {}  # of `GraphOptions`, where others are wanted

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Solution:
        check_weighting(self.weighting)
        if is_pair(self.init) or is_components(self.init):
            raise InvalidInputError(
                "init of GraphCCNMF cannot be factors, as its rays are found in the fit; pass a"
                " label for each sample."
            )
        table = problem.table
        found = graph_ccnmf(
            table,
            Starts(self.n_components, start_of_rays(problem, self.init), self.n_init, rng),
            GraphOptions(
                self.view,
                self.n_neighbors,
                self.neighbors,
                check_positive(self.damping, "damping", below=1.0),
                **self._limits,
            ),
            weighting=self.weighting,
            solver=self.solver,
            constraints=problem.constraints,
            **self._stopping(),
        )
        encoder = OverGraph(
            found.S, found.A, known_samples(table), found.placement, self._is_disjoint
        )
        H = np.asarray((table.T @ found.A).T)
        error = squared_error(table, found.A, H)
        result = replace(found.stage2, W=found.A, H=H, error=error)
        return self._solution(problem, result, encoder, found.S, found)

    def _set_own(self, problem: Problem, solution: Solution, order: IntArray) -> None:
        found: GraphFactorization = solution.own
        self._set_labels(problem, solution, order, found.judgement, found.group)
        self.view_, self.eigengap_ratios_ = found.choice.view.name, found.choice.eigengap_ratios
        self.view_gains_ = found.choice.gains
        self.cone_, self.ray_indices_ = found.cone, found.cone.ray_indices
        self.loadings_ = found.S[order]

    def _summary(self) -> dict[str, str]:
        what, values = "eigengap ratios", self.eigengap_ratios_
        if self.view_gains_:
            what, values = "nats by which clusters predict a count better", self.view_gains_
        listed = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
        return {
            "cone": cone_line(self.cone_),
            "view": f"{self.view_}; {what}: {listed}",
            **super()._summary(),
        }
