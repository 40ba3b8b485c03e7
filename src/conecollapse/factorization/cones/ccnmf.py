r"""CC-NMF: orthogonal NMF of the extreme rays of the data cone.

The paper writes X as features x samples and builds the cone on its transpose. scikit-learn's
``X (n_samples, n_features)`` *is* that transpose, so nothing is transposed here: the points of the
cone are the columns of X, and

.. math:: X = U V, \qquad U \approx A S, \qquad X \approx A\,(S V), \qquad A^T A = I,

with U the unit rays as columns, V >= 0 the coefficients of the features, A the orthonormal factor.
The paper's H is :math:`A^T`, its W is :math:`(S V)^T`. The label of sample i is the argmax of row i
of A.

**Stage 1** is the cone. Weighted by mass, a generator that could be left out only stands for
itself, so it is not asked which these are: features of one direction are one ray, and all rays stay
open unless the features are so few that a proof costs next to nothing. At unit weight such a
generator would count as one more ray, and the cone is the exact one. V comes with its certificate,
except where more rays than samples leave a choice: which of many V the search came upon would
depend on the order of the points, so it is solved for once more, over the rays alone.

**Stage 2** is an orthogonal NMF of the rays,

.. math:: \min_{A, S \ge 0,\ A^T A = I} \|(U - A S)\, D\|^2 ,

by any of the solvers in `conecollapse.factorization.orthogonal`. The paper has D = I
(``weighting="unit"``): every ray counts the same, however little data it carries. What a user wants
to be small is the error on X,

.. math:: \|X - A S V\|^2 = \|(U - A S) V\|^2 = \sum_j \Big\| \sum_k v_{kj} e_k \Big\|^2, \qquad e_k
   = u_k - A s_k .

By the inequality of Cauchy and Schwarz with the weights :math:`v_{kj} \ge 0`, and
:math:`\sigma_j = \sum_k v_{kj}`,

.. math:: \Big\| \sum_k v_{kj} e_k \Big\|^2 \le \sigma_j \sum_k v_{kj} \|e_k\|^2
          \quad\Longrightarrow\quad
          \|X - A S V\|^2 \le \sum_k d_k^2 \|e_k\|^2, \qquad d_k^2 = \sum_j v_{kj} \sigma_j .

``weighting="mass"`` takes these :math:`d_k`. The bound is attained when every feature lies on a
ray, as nearly all do in high dimension; then :math:`d_k` is the length of the features on ray k
taken together, and stage 2 minimises the error on X itself.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
import scipy.sparse as sp

from conecollapse._checks import as_points
from conecollapse._errors import InvalidInputError
from conecollapse._iterate import Stopping
from conecollapse._linalg import columns_as_points, scaled_rows
from conecollapse._progress import teller
from conecollapse._types import AnyArray, Effort, FloatArray, IntArray, Sparse
from conecollapse.certificates import ApproximateCertificate
from conecollapse.factorization.orthogonal import prepared
from conecollapse.factorization.orthogonal.clamped import ClampedClusters
from conecollapse.factorization.orthogonal.constraints import Constraints
from conecollapse.factorization.orthogonal.em import disjoint_error
from conecollapse.factorization.restarts import Starts, best_of_starts
from conecollapse.factorization.result import Factorization, squared_error
from conecollapse.geometry.cone import Cone
from conecollapse.tables import Table, as_table

WEIGHTINGS = ("mass", "unit")
# roundoffs within which the weight of a ray and the length of its only feature are one number
ROUNDING = 8.0
# multiplications of the features with each other up to which they are decided in a moment
FEW_PRODUCTS = 2**18
CONES = ("certified", "paper", "approximate")


@dataclass(frozen=True)
class ConeFactorization:
    """``X = U V``, ``U ~ A S``, ``X ~ A H`` with ``H = S V``."""

    cone: Cone
    ray_indices: IntArray  # (c,) which columns of X the rays are
    lengths: FloatArray  # (c,) of these columns
    d: FloatArray  # (c,) weights of the rays in stage 2
    V: Sparse  # (c, n_features)
    S: AnyArray  # (r, c)
    A: AnyArray  # (n_samples, r)
    H: AnyArray  # (r, n_features)
    error: float  # |X - A H|^2
    rays: Factorization  # stage 2, of the weighted rays
    clamped: ClampedClusters | None = None  # how labels were used, where there were any


def ccnmf(
    X: Table,
    starts: Starts,
    *,
    cone: Cone | None = None,
    weighting: str = "mass",
    solver: str = "em",
    constraints: Constraints | None = None,
    **stopping: Unpack[Stopping],
) -> ConeFactorization:
    """CC-NMF of checked data; ``cone`` is `data_cone(X)` by default. ``constraints`` are for the
    solver "em".

    ``starts`` are of the matrix of weighted rays, of which an ``init`` given as a pair (A, S) is a
    factorization too.
    """
    check_weighting(weighting)
    cone = data_cone(X) if cone is None else cone
    every, indices = X.column_lengths, cone.ray_indices
    V, lengths = encoded(X, cone, every), every[indices]
    d = ray_weights(V, weighting, X.dtype)
    rays = _scaled(X, indices, d / lengths)
    _warn_of_orthant(cone)
    _check_reach(rays, starts.r)
    clamped = ClampedClusters.of(X, rays, constraints, **stopping)
    run = clamped or prepared(solver, rays, **stopping)
    stage2 = best_of_starts(run, rays, starts)
    A = stage2.W
    S = stage2.H / d.astype(X.dtype)
    H = np.asarray((V.T @ S.T).T).astype(X.dtype, copy=False)
    error = disjoint_error(X, A, H) if solver == "em" else squared_error(X, A, H)
    return ConeFactorization(cone, indices, lengths, d, V, S, A, H, error, stage2, clamped)


def _scaled(X: Table, indices: IntArray, scale: FloatArray) -> Table:
    """``U D`` as columns of X, each times its scale; X itself where that is what they are to
    rounding."""
    is_all = len(indices) == X.shape[1] and bool(
        (np.abs(scale - 1) <= ROUNDING * np.finfo(np.float64).eps).all()
    )
    return X if is_all else X.columns(indices, scale)


def _warn_of_orthant(cone: Cone) -> None:
    """When every sample has a feature of its own, the rays are the axes: U is the identity up to
    order, and says nothing of clusters."""
    if not cone.holds_rays:  # too many samples for each to have a feature of its own
        return
    entries = np.asarray((cone.rays != 0).sum(axis=1)).ravel()
    if cone.n_rays > 1 and (entries == 1).all():
        warnings.warn(
            f"the cone of the features is the whole orthant of {cone.n_rays} samples: each has a"
            " feature of its own, so the rays are the axes and stage 2 has nothing to cluster. Use"
            " an epsilon-cone (max_rays) or an affinity.",
            stacklevel=6,
        )


def check_weighting(weighting: Any) -> None:
    """Refuse what is not a weighting of rays."""
    if weighting not in WEIGHTINGS:
        raise InvalidInputError(
            f"weighting must be one of {', '.join(WEIGHTINGS)}; got {weighting!r}."
        )


def _check_reach(rays: Table, n_components: int) -> None:
    """A cluster needs a sample with an entry on some ray; an epsilon-cone of few rays may leave
    samples out."""
    filled = int(rays.filled.sum())
    if filled < n_components:
        raise InvalidInputError(
            f"only {filled} samples have an entry on any of the {rays.shape[1]} rays, fewer than"
            f" n_components = {n_components}; raise max_rays, lower max_residual, or ask for fewer"
            " components."
        )


def data_cone(
    X: Table,
    method: str = "certified",
    *,
    tol: float = 1e-8,
    eta: float = 0.25,
    max_residual: float = 0.05,
    max_rays: int | None = None,
    weighting: Any = "unit",
    effort: Effort | Literal["none"] = "quick",
) -> Cone:
    """The cone of the columns of X: certified, by the paper's Algorithm 1 (the same rays, slowly),
    or an epsilon-cone.

    A factorization needs rays that generate the data, not the proof that none of them can be left
    out: ``effort="quick"``, or "none" where features of one direction are merged and all else is
    left open. Few features are decided all the same.

    Where the inverse of X is known, no column is a combination of the others: all are rays, and row
    j of the inverse is a witness for the j-th.
    """
    if method not in CONES:
        raise InvalidInputError(f"the cone must be one of {', '.join(CONES)}; got {method!r}.")
    if method == "certified":
        if X.shape[0] * X.shape[1] ** 2 <= FEW_PRODUCTS:
            effort = "exact"
        if effort == "none":
            if X.inverse is None:
                from conecollapse.geometry.undecided import undecided

                return undecided(X, tol)
            effort = "quick"
        return Cone.from_table(X, tol, effort, progress=teller())
    points = as_points(X.points(), "X.T")
    if method == "paper":
        from conecollapse.geometry.collapse import collapse

        return collapse(points, eta=eta, tol=tol)
    return Cone.approximate(
        points, max_residual=max_residual, max_rays=max_rays, weighting=weighting
    )


def encoded(X: Table, cone: Cone, lengths: FloatArray) -> Sparse:
    """V (c, n_features) with ``X = U V``: as certified where it is unique, else from one solve for
    each feature over the rays."""
    m = X.shape[1]
    if np.array_equal(cone.ray_indices, np.arange(m)):  # every feature is a ray
        return sp.csr_array((lengths, np.arange(m), np.arange(m + 1)), shape=(m, m))
    H = scaled_rows(cone.point_coefficients, lengths)
    mixed = np.flatnonzero(np.diff(H.indptr) > 1)
    is_unique = cone.n_rays <= X.shape[0] or isinstance(cone.certificate, ApproximateCertificate)
    if is_unique or not cone.holds_rays or not len(mixed):
        return sp.csr_array(H.T)
    rows = sp.vstack(list(X.map_columns(encoded_points, mixed, cone)))
    spread = sp.csr_array(
        (np.ones(len(mixed)), (mixed, np.arange(len(mixed)))), shape=(H.shape[0], len(mixed))
    )
    kept = np.ones(H.shape[0])
    kept[mixed] = 0.0
    V = sp.csr_array((sp.diags_array(kept) @ H + spread @ rows).T)
    V.eliminate_zeros()
    return V


def encoded_points(points: AnyArray, cone: Cone) -> Sparse:
    """Coefficients over the rays of these points, as sparse rows."""
    some = points.shape[0] > 0
    return cone.coefficients(points, sparse=True) if some else sp.csr_array((0, cone.n_rays))


def mass(V: Sparse) -> FloatArray:
    """``d_k = (sum_j v_kj sigma_j)^1/2``, the weight with which ray k bounds the error on the data;
    see the module's text."""
    sigma = np.bincount(V.indices, V.data, minlength=V.shape[1])
    # so that neither 1e-200 nor 1e200 is lost in the products
    peak = float(sigma.max(initial=0.0)) or 1.0
    return np.asarray(peak * np.sqrt(np.asarray(V @ (sigma / peak)).ravel() / peak))


def ray_weights(V: Sparse, weighting: str, dtype: Any = np.float64) -> FloatArray:
    """``d_k``: the mass, or 1.

    The lightest ray counts as much as roundoff of the heaviest: its share of the objective is below
    rounding either way, and its loadings are then found as accurately as those of the others.
    """
    if weighting == "unit":
        return np.ones(V.shape[0])
    d = mass(V)
    return np.maximum(d, float(np.finfo(dtype).eps) * d.max())


def weighted_rays(cone: Cone, d: FloatArray, dtype: Any) -> Table:
    """``U D`` as a table with a row for each sample, sparse if the rays are."""
    return as_table(columns_as_points(scaled_rows(cone.rays, d)).astype(dtype, copy=False))
