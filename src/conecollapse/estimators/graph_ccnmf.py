"""`GraphCCNMF`: clusters of samples from a graph that is chosen from the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from conecollapse._checks import check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._types import IntArray
from conecollapse.affinity.kinds import known_samples
from conecollapse.affinity.views import N_NEIGHBORS
from conecollapse.estimators._estimator import cone_line
from conecollapse.estimators._problem import Problem, Solution
from conecollapse.estimators.ccnmf import start_of_rays
from conecollapse.estimators.orthogonal import OrthogonalNMF
from conecollapse.factorization.cones.ccnmf import check_weighting
from conecollapse.factorization.cones.graph_ccnmf import (
    DAMPING,
    GraphFactorization,
    GraphOptions,
    graph_ccnmf,
)
from conecollapse.factorization.initial_factors import is_components, is_pair
from conecollapse.factorization.orthogonal.encoders import OverGraph
from conecollapse.factorization.restarts import Starts
from conecollapse.factorization.result import squared_error


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
