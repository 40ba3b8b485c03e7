"""The baselines of the paper, one class each, with the same arguments and attributes: one word changes the method."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from conecollapse._checks import check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths
from conecollapse._types import AnyArray, Points
from conecollapse.estimators._base import BaseNMF
from conecollapse.factorization.anls import anls, solve_rows
from conecollapse.factorization.data import Factorization
from conecollapse.factorization.hals import hals
from conecollapse.factorization.mu import LOSSES, encode_divergence, mu
from conecollapse.factorization.onmf import SOLVERS, prepared
from conecollapse.factorization.onmf.multiplicative import RULES
from conecollapse.factorization.pnmf import pnmf
from conecollapse.factorization.restarts import best_of_starts


def check_solver(solver: Any) -> None:
    """Refuse what is not a solver of orthogonal NMF."""
    if solver not in SOLVERS:
        raise InvalidInputError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}.")


def comparable(solver: str, S: AnyArray) -> AnyArray:
    """What makes columns of A comparable: nothing for the multiplicative rules, as in the paper; for disjoint supports the lengths of S.

    There a sample belongs to the cluster with the largest score ``a_k |s_k|``, so that is what decides for a new one.
    """
    return np.ones(len(S)) if solver in RULES else row_lengths(S)


_PARAMETERS = """
    Parameters
    ----------
    n_components : int
        The rank r: number of components, and of clusters.
{own}    affinity : None, "knn", "diffusion" or "precomputed"
        What is factorized: the table X, the symmetric graph of nearest neighbours of its samples, the diffusion of that graph, or X
        itself as a graph.
    n_neighbors, metric, damping : int, str, float
        Of the graph: neighbours of each sample, "euclidean", "cosine" or "auto" (cosine for sparse X), and the share that
        each step of the diffusion keeps.
    init : str, pair (W, H) or array of labels
        "random", "nndsvd", "nndsvda", "nndsvdar", "spectral" (k-means on the spectral embedding){auto}.
    n_init : int
        Starts; the smallest objective wins, and of starts that end within 1e-5 of it the first.
    tol : float
        Relative change of the objective in one iteration that ends the run.
    max_iter : int
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n_samples,) array
        The component that says most about each sample; -1 for a sample that has nothing of any, one of zeros among them.
    embedding_ : (n_samples, r) array
        The factor W of the training samples.
    components_ : (r, n_features) array
        The factor H; on a graph, (r, n_samples).
    profiles_ : (r, n_features) array
        The mean sample of each cluster; `top_features` lists what tells clusters apart.
    reconstruction_err_, relative_err_ : float
        ``|X - W H|``, and that over ``|X|``.
    history_ : array
        The objective of the start and after every iteration, as a share of ``|X|^2`` (of the sum of X for the divergence).
    n_iter_, converged_, status_ : int, bool, str
        How the best run ended, the last as a sentence.
"""
_AUTO = ' or "auto": nndsvda, or random where the rank exceeds a side of X'


def _document(cls: type, own: str = "", auto: str = "") -> None:
    """Put the shared parameters where the class's own text asks for them."""
    assert cls.__doc__ is not None
    cls.__doc__ = cls.__doc__.replace("    {parameters}", _PARAMETERS.format(own=own, auto=auto).strip("\n"))


class MultiplicativeNMF(BaseNMF):
    """NMF by multiplicative updates (Lee & Seung 2001), for the Frobenius norm or the Kullback-Leibler divergence.

    With ``loss="kullback-leibler"`` `transform` minimises that loss, by 200 updates (to about a percent of the largest entry); `score` is
    least squares for both. The divergence looks at entries, so it has no diffusion of more than 3000 samples.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[4.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 6.0], [0.0, 0.0, 1.0, 2.0]])
    >>> labels = MultiplicativeNMF(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        loss: str = "frobenius",
        affinity: str | None = None,
        n_neighbors: int = 5,
        metric: str = "auto",
        damping: float = 0.8,
        init: Any = "auto",
        n_init: int = 1,
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
        self.loss = loss

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        if self.loss not in LOSSES:
            raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}.")
        run = partial(mu, loss=self.loss, tol=self.tol, max_iter=self.max_iter)
        return best_of_starts(run, table, self.n_components, self._start(table), self.n_init, rng)

    def _encode(self, X: Points) -> AnyArray:
        return encode_divergence(self._input.rows(X), self._H) if self.loss == "kullback-leibler" else super()._encode(X)


_document(MultiplicativeNMF, '    loss : {"frobenius", "kullback-leibler"}\n', _AUTO)


class AlternatingNMF(BaseNMF):
    """NMF by alternating non-negative least squares with block principal pivoting (Kim & Park 2008).

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]) + np.outer([3.0, 1.0, 0.0], [0.0, 2.0, 1.0])
    >>> bool(AlternatingNMF(2, random_state=0).fit(X).reconstruction_err_ < 1e-3)
    True
    """

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        run = partial(anls, tol=self.tol, max_iter=self.max_iter)
        return best_of_starts(run, table, self.n_components, self._start(table), self.n_init, rng)


_document(AlternatingNMF, auto=_AUTO)


class HierarchicalNMF(BaseNMF):
    """NMF by hierarchical alternating least squares, accelerated: the fastest of the family, and the default choice for plain NMF.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]) + np.outer([3.0, 1.0, 0.0], [0.0, 2.0, 1.0])
    >>> bool(HierarchicalNMF(2, random_state=0).fit(X).reconstruction_err_ < 1e-2)
    True
    """

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        run = partial(hals, tol=self.tol, max_iter=self.max_iter)
        return best_of_starts(run, table, self.n_components, self._start(table), self.n_init, rng)


_document(HierarchicalNMF, auto=_AUTO)


class SparseNMF(BaseNMF):
    r"""Sparse NMF (Kim & Park 2007): each sample is encoded by few components.

    .. math:: \min_{W, H \ge 0} \|X - W H\|^2 + \eta \|H\|^2 + \alpha \sum_i \|w_i\|_1^2

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((30, 12))
    >>> plain, sparse = (SparseNMF(4, alpha=a, tol=1e-3, random_state=0).fit(X).embedding_ for a in (0.0, 1.0))
    >>> int((sparse == 0).sum()) > int((plain == 0).sum())
    True
    """

    _encodings_scale = True

    def __init__(
        self,
        n_components: int = 2,
        *,
        alpha: float = 0.01,
        eta: float | None = None,
        affinity: str | None = None,
        n_neighbors: int = 5,
        metric: str = "auto",
        damping: float = 0.8,
        init: Any = "auto",
        n_init: int = 1,
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
        self.alpha = alpha
        self.eta = eta

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        alpha = 0.0 if self.alpha == 0 else check_positive(self.alpha, "alpha")
        if self.eta is None:
            eta = float(table.max()) ** 2 if alpha else 0.0
        else:
            eta = 0.0 if self.eta == 0 else check_positive(self.eta, "eta")
        if eta and not alpha:
            raise InvalidInputError("eta without alpha has no minimum: H would shrink and W grow for ever. Set alpha > 0 or eta=0.")
        if alpha and eta:  # the unit of the table is that of W, so eta is in squares of it
            eta = eta if self.eta is None else eta / self._unit / self._unit
        run = partial(anls, alpha=alpha, eta=eta, tol=self.tol, max_iter=self.max_iter)
        return best_of_starts(run, table, self.n_components, self._start(table), self.n_init, rng)

    def _encode(self, X: Points) -> AnyArray:
        H = self._H
        return solve_rows(H @ H.T + self.alpha, self._input.product(X, H.T))


_document(
    SparseNMF,
    "    alpha : float\n        Weight of the squared L1 norm of each encoding; the same for data of any scale.\n"
    "    eta : float, optional\n        Weight of the ridge on H; by default the squared largest entry of X, as Kim & Park have it.\n",
    _AUTO,
)


class ProjectiveNMF(BaseNMF):
    """Projective NMF (Yuan & Oja 2005): ``X ~ G G' X`` with one factor G >= 0, nearly orthogonal by itself.

    ``embedding_`` is G and ``components_`` is G'X.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[4.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 6.0], [0.0, 0.0, 1.0, 2.0]])
    >>> labels = ProjectiveNMF(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _is_orthogonal = True

    def _label_weights(self) -> AnyArray:
        return np.ones(len(self._H))

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        run = partial(pnmf, tol=self.tol, max_iter=self.max_iter)
        return best_of_starts(run, table, self.n_components, self._start(table), self.n_init, rng)


_document(ProjectiveNMF, auto=_AUTO)


class OrthogonalNMF(BaseNMF):
    """Orthogonal NMF: ``X ~ A S`` with orthonormal columns of A >= 0, which makes it a clustering of the samples.

    ``embedding_`` is A and ``components_`` is S; ``orthogonality_`` is ``max |A'A - I|``, zero to rounding for the solvers "em" and
    "onp-mf", whose columns have disjoint supports. The multiplicative solvers only tend to it, "stiefel" least of all.

    {parameters}

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[4.0, 2.0, 0.1], [2.0, 1.0, 0.0], [0.0, 0.1, 3.0], [0.0, 0.0, 1.0]])
    >>> model = OrthogonalNMF(2, random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3]), model.orthogonality_ < 1e-12
    (True, True)
    """

    _is_orthogonal = True
    _needs_every_sample = True

    def __init__(
        self,
        n_components: int = 2,
        *,
        solver: str = "em",
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
        self.solver = solver

    def _factorize(self, table: Points, rng: np.random.Generator) -> Factorization:
        check_solver(self.solver)
        run = prepared(self.solver, table, tol=self.tol, max_iter=self.max_iter)
        return best_of_starts(run, table, self.n_components, self._start(table), self.n_init, rng)

    def _label_weights(self) -> AnyArray:
        return comparable(self.solver, self._H)


_document(
    OrthogonalNMF,
    '    solver : {"em", "mu", "ding", "choi", "stiefel", "onp-mf"}\n'
    "        EM-ONMF and ONP-MF of Pompili et al. 2014, the paper's multiplicative rule, and those of\n"
    "        Ding et al. 2006, Choi 2008, and Yoo & Choi 2008.\n",
)
