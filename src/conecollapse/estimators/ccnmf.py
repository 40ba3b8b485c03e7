"""`CCNMF`: clusters of samples from the extreme rays of the cone of features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import check_count, check_tol
from conecollapse._errors import ClusterError, InvalidInputError
from conecollapse._types import AnyArray, IntArray, Points, Sparse
from conecollapse.blocks import BlockedTable
from conecollapse.estimators._affinity import Input
from conecollapse.estimators._base import BaseNMF
from conecollapse.estimators.nmf import check_solver, comparable
from conecollapse.factorization.anls import solve_rows
from conecollapse.factorization.auto import Placement, auto_ccnmf
from conecollapse.factorization.ccnmf import ConeFactorization, ccnmf, check_weighting, data_cone
from conecollapse.factorization.data import Factorization, squared_error, squared_norm
from conecollapse.geometry.cone import Cone, warn_if_too_coarse
from conecollapse.graphs import Diffusion


class CCNMF(BaseNMF):
    r"""Cone Collapse NMF: the extreme rays of the cone of features, then orthogonal NMF of the rays.

    .. math:: X = U V, \qquad U \approx A S, \qquad X \approx A (S V), \qquad A^T A = I

    The mathematics, and why ``weighting="mass"`` bounds the error on X, stand in `conecollapse.factorization.ccnmf`.

    Parameters
    ----------
    n_components : int
        The rank r: number of clusters.
    weighting : {"mass", "unit"}
        How much each ray counts in stage 2: by the data it carries, or all the same, as in the paper.
    solver : {"em", "mu", "ding", "choi", "stiefel", "onp-mf"}
        Orthogonal NMF of stage 2, see `OrthogonalNMF`.
    cone : {"certified", "paper"} or Cone
        The certified method, or the paper's Algorithm 1 step by step: the same rays, orders of magnitude slower. Or the cone of the
        features, found before: to go on after an interruption, or to try several ranks.
    cone_tol : float, optional
        Tolerance of the exact cone; 1e-8 by default, and 1e-6 for float32 numbers that are not whole, whose rounding is about 1e-7.
    eta : float
        Tilt of Algorithm 1; only used with ``cone="paper"``.
    max_residual : float, optional
        Use an epsilon-cone: no feature further than this from it (weighted like the rays).
    max_rays : int, optional
        Use an epsilon-cone of at most so many rays.
    affinity : None, "auto", "knn", "diffusion" or "precomputed"
        "auto" chooses a view of the samples, diffuses the features (sparse X) or the graph (dense X) over it, and factorizes that:
        usually the best clustering, see `conecollapse.factorization.auto`. It sets ``n_neighbors``, ``metric`` and ``damping`` itself.
        The others are as in `OrthogonalNMF`; the points of the cone are then the columns of the graph or of its diffusion.
    n_neighbors, metric, damping, init, n_init, tol, max_iter, random_state
        As in `OrthogonalNMF`.

    Attributes
    ----------
    labels_ : (n_samples,) array
        The largest entry in each row of A; -1 where the row is zero, as it is for a sample of zeros.
    embedding_ : (n_samples, r) array
        A.
    components_ : (r, n_features) array
        S V: the paper's W, transposed. On a graph its columns are samples; `top_features` and ``profiles_`` speak of features.
    cone_ : Cone or None
        The rays with their certificate; `cone_.verify(X.T)` checks it (``X`` being the graph where an affinity is used). None for the
        diffusion of more than 3000 samples: its columns are never formed, and all of them are rays because it is invertible.
    ray_indices_ : (c,) array
        Which features they are; on a graph, which samples.
    loadings_ : (r, c) array
        S.
    coefficients_ : (c, n_features) CSR array
        V.
    view_, looseness_ : str, dict
        With ``affinity="auto"``: the view taken, and for each view how far its graph is from falling into r clusters; the smallest
        was taken. Then ``components_`` is A'X, ``cone_`` the cone of the features of the view (None for dense X, where all columns of the
        diffused graph are rays and ``ray_indices_`` are samples), ``coefficients_`` is None, and ``loadings_`` are of the weighted rays.
    orthogonality_, reconstruction_err_, relative_err_, history_, n_iter_, converged_, status_
        ``max |A'A - I|``; ``|X - A S V|``, and that over ``|X|``; the objective of stage 2 as a share of
        the squares of the weighted rays, and how it ended.

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

    _takes_blocks = True
    _is_orthogonal = True
    _needs_every_sample = True

    def __init__(
        self,
        n_components: int = 2,
        *,
        weighting: str = "mass",
        solver: str = "em",
        cone: Any = "certified",
        cone_tol: float | None = None,
        eta: float = 0.25,
        max_residual: float | None = None,
        max_rays: int | None = None,
        affinity: str | None = None,
        n_neighbors: int = 5,
        metric: str = "auto",
        damping: float = 0.8,
        init: Any = "spectral",
        n_init: int = 10,
        tol: float = 1e-5,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_components,
            affinity=affinity,
            n_neighbors=n_neighbors,
            metric=metric,
            damping=damping,
            init=init,
            n_init=n_init,
            tol=tol,
            max_iter=max_iter,
            random_state=random_state,
        )
        self.weighting = weighting
        self.solver = solver
        self.cone = cone
        self.cone_tol = cone_tol
        self.eta = eta
        self.max_residual = max_residual
        self.max_rays = max_rays

    @classmethod
    def paper(cls, n_components: int, *, cone: str = "certified", random_state: Any = None) -> CCNMF:
        """The paper to the letter: raw features, unit rays, eta = 0.25, tol = 1e-8, one random start, multiplicative updates.

        The rays come from the certified method, which returns those of Algorithm 1; ``cone="paper"`` runs Algorithm 1 itself.
        """
        return cls(
            n_components,
            weighting="unit",
            solver="mu",
            cone=cone,
            eta=0.25,
            cone_tol=1e-8,
            init="random",
            n_init=1,
            random_state=random_state,
        )

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        check_solver(self.solver)
        if self.affinity == "auto":
            return self._factorize_auto(table, rng)
        cone = self._cone(table)
        found = self._with_cone(
            cone,
            table,
            weighting=self.weighting,
            solver=self.solver,
            init=self._start(table),
            n_init=self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=rng,
        )
        self._set_cone(found)
        names = getattr(self, "feature_names_in_", None)
        if self.cone_ is not None and names is not None and self.affinity is None:
            self.cone_.ray_names = names[self.ray_indices_]
        return replace(found.rays, W=found.A, H=found.H, error=found.error)

    def _with_cone(self, cone: Cone | None, table: Points, **options: Any) -> ConeFactorization:
        try:
            return ccnmf(table, self.n_components, cone=cone, **options)
        except ClusterError as error:
            error.cone = cone
            error.add_note("Stage 1 was finished: its cone is the `cone` of this error, and CCNMF(..., cone=error.cone) goes on from it.")
            raise

    def _factorize_auto(self, table: Points, rng: np.random.Generator) -> Factorization:
        check_weighting(self.weighting)
        found = auto_ccnmf(
            table,
            self.n_components,
            solver=self.solver,
            init=self._start(table),
            n_init=self.n_init,
            cone=self._cone,
            weighting=self.weighting,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=rng,
        )
        self._placement = Placement.of(found)
        self.view_, self.looseness_ = found.choice.view.name, found.choice.looseness
        self.cone_, self.coefficients_, self.loadings_ = found.cone, None, found.S
        assert self._on_graph is not None
        self.ray_indices_ = self._on_graph[found.representatives] if found.cone is None else found.cone.ray_indices
        H = np.asarray((table.T @ found.A).T)
        error = squared_error(squared_norm(table), table @ H.T, found.A, found.A.T @ found.A, H @ H.T)
        return replace(found.stage2, W=found.A, H=H, error=error)

    def _make_input(self, X: Points) -> Input:
        return Input(X, None) if self.affinity == "auto" and not isinstance(X, BlockedTable) else super()._make_input(X)

    def _cone(self, table: Points) -> Cone | None:
        if isinstance(self.cone, Cone):
            return self._given(self.cone, table)
        is_exact = self.max_residual is None and self.max_rays is None
        if self.max_rays is not None and check_count(self.max_rays, "max_rays") < self.n_components:
            raise InvalidInputError(f"max_rays = {self.max_rays} is fewer than n_components = {self.n_components}; raise it.")
        if isinstance(table, Diffusion):
            if is_exact:
                return None
            raise InvalidInputError(
                f"an epsilon-cone needs the columns of the diffusion, which are not formed for {table.shape[0]} samples; "
                "leave out max_rays and max_residual, or use another affinity."
            )
        if is_exact:
            if self.cone not in ("certified", "paper"):
                raise InvalidInputError(
                    f"cone must be certified or paper; got {self.cone!r}. For an epsilon-cone set max_residual or max_rays."
                )
            is_rounded = self._has_rounding and self.affinity not in ("knn", "diffusion")  # these graphs are made in float64
            tol = (1e-6 if is_rounded else 1e-8) if self.cone_tol is None else self.cone_tol
            if is_rounded:
                warn_if_too_coarse(np.zeros(0, self._dtype), check_tol(tol))
            return data_cone(table, self.cone, tol=tol, eta=self.eta)
        residual = 1e-3 if self.max_residual is None else self.max_residual  # with max_rays alone the number of rays decides
        return data_cone(table, "approximate", max_residual=residual, max_rays=self.max_rays, weighting=self.weighting)

    def _given(self, cone: Cone, table: Points) -> Cone:
        if (cone.dim, cone.n_points) != table.shape:
            raise InvalidInputError(
                f"the cone is of {cone.n_points} features of {cone.dim} samples, but the table has shape {table.shape}; "
                "pass the cone of the columns of X."
            )
        return cone

    def _set_cone(self, found: ConeFactorization) -> None:
        self.cone_ = found.cone
        self._rays = found.ray_indices
        self.ray_indices_, self.coefficients_ = self._of_all_samples(found.ray_indices, found.V)
        self.loadings_ = found.S
        self._weights = found.d**2
        self._lengths = found.lengths

    def _of_all_samples(self, rays: IntArray, V: Sparse) -> tuple[IntArray, Sparse]:
        """Rays and coefficients of the columns of a graph, numbered as the samples are; of features they stay as they are."""
        if self._on_graph is None:
            return rays, V
        V = sp.coo_array(V)
        shape = (V.shape[0], self._n_samples)
        return self._on_graph[rays], sp.csr_array((V.data, (V.row, self._on_graph[V.col])), shape=shape)

    def _encode(self, X: Points) -> AnyArray:
        """Over the loadings of the rays, weighted as in stage 2: ``min |u D - a S D|`` where u holds the sample's entries on the rays."""
        S = self.loadings_.astype(np.float64)
        if self.affinity == "auto":
            return solve_rows(S @ S.T, self._placement.products(X))
        basis = np.zeros((self._H.shape[1], len(S)))
        basis[self._rays] = (S * (self._weights / self._lengths)).T
        return solve_rows((S * self._weights) @ S.T, self._input.product(X, basis))

    def _label_weights(self) -> AnyArray:
        weights = np.ones(self.loadings_.shape[1]) if self.affinity == "auto" else np.sqrt(self._weights)
        return comparable(self.solver, self.loadings_ * weights)

    def _start(self, table: Points) -> Any:  # noqa: ARG002 - starts are of the rays
        return "spectral" if isinstance(self.init, str) and self.init == "auto" else self._init_on_graph()

    def _summary(self) -> dict[str, str]:
        cone = f"all {len(self.ray_indices_)} columns of the diffusion" if self.cone_ is None else repr(self.cone_).strip("<>")
        chosen = {}
        if self.affinity == "auto":
            others = ", ".join(f"{name} {q:.3g}" for name, q in self.looseness_.items())
            chosen["view"] = f"{self.view_}, the least loose of {others}"
        return {"cone": cone, **chosen, **super()._summary()}
