"""The baselines of the paper, one class each, with the same arguments and attributes: one word
changes the method."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from conecollapse._checks import check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._types import IntArray
from conecollapse.estimators._base import BaseNMF, orthogonality_line
from conecollapse.estimators._catalogue import CatalogueNMF
from conecollapse.estimators._fitted import Problem, Solution
from conecollapse.estimators._weighted import WeightedNMF
from conecollapse.factorization.nmf.anls import anls, penalties
from conecollapse.factorization.nmf.encoders import LeastSquares
from conecollapse.factorization.nmf.hals import hals
from conecollapse.factorization.nmf.kl import kl
from conecollapse.factorization.nmf.mu import LOSSES, mu
from conecollapse.factorization.nmf.pnmf import pnmf
from conecollapse.factorization.nmf.weighted import Method
from conecollapse.factorization.orthogonal import orthogonality
from conecollapse.factorization.restarts import Starts, best_of_starts


@dataclass(eq=False, repr=False, kw_only=True)
class MultiplicativeNMF(CatalogueNMF):
    """NMF by multiplicative updates (Lee & Seung 2001), for the Frobenius norm or the
    Kullback-Leibler divergence.

    For ``loss="kullback-leibler"`` each entry of a factor is updated after the other, by a step in
    the direction of the multiplicative one that is at least as long
    (`conecollapse.factorization.nmf.kl`): the divergence still never rises, and falls to the same
    value in a fraction of the iterations. `transform` then minimises that loss, to its optimum, so
    it is near `embedding_` for the training samples; `score` is least squares for both. The
    divergence looks at entries, so it needs a table in memory.

    Parameters
    ----------
    loss : {"frobenius", "kullback-leibler"}
        With "frobenius" an entry that is zero in an ``init`` of your own stays zero.
    missing, robust, shrinkage, fixed_components, fixed_entries
        Missing entries, uncertainties and known components, as in `HierarchicalNMF`.
    n_components, affinity, ...
        As in `BaseNMF`, which also lists the attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import MultiplicativeNMF
    >>> X = np.array(
    ...     [[4.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 6.0], [0.0, 0.0, 1.0, 2.0]]
    ... )
    >>> labels = MultiplicativeNMF(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    loss: str = "frobenius"

    def _alternate(self, problem: Problem) -> Method:  # noqa: ARG002
        is_divergence = self._is_divergence()
        if is_divergence and self.robust is not None:
            raise InvalidInputError(
                "robust compares squared residuals with uncertainties; use the Frobenius loss."
            )
        stopping = self._stopping()
        return Method(partial(kl if is_divergence else mu, **stopping), stopping, is_divergence)

    def _is_divergence(self) -> bool:
        if self.loss not in LOSSES:
            raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}.")
        return self.loss == "kullback-leibler"


@dataclass(eq=False, repr=False, kw_only=True)
class AlternatingNMF(CatalogueNMF):
    """NMF by alternating non-negative least squares with block principal pivoting (Kim & Park
    2008).

    Parameters
    ----------
    missing, robust, shrinkage, fixed_components, fixed_entries
        Missing entries, uncertainties and known components, as in `HierarchicalNMF`.
    n_components, affinity, ...
        As in `BaseNMF`, which also lists the attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import AlternatingNMF
    >>> X = np.outer([1.0, 2.0, 3.0], [1.0, 0.0, 2.0]) + np.outer([3.0, 1.0, 0.0], [0.0, 2.0, 1.0])
    >>> bool(AlternatingNMF(2, random_state=0).fit(X).reconstruction_err_ < 1e-3)
    True
    """

    def _alternate(self, problem: Problem) -> Method:  # noqa: ARG002
        stopping = self._stopping()
        return Method(partial(anls, **stopping), stopping)


@dataclass(eq=False, repr=False, kw_only=True)
class HierarchicalNMF(CatalogueNMF):
    """NMF by hierarchical alternating least squares, accelerated: the fastest of the family, and
    the default choice for plain NMF.

    Parameters
    ----------
    missing : {"nan", "unstored"}
        What is missing in a sparse array: nothing, its unstored entries are zeros; or "unstored"
        entries, so that only stored ones count, stored zeros among them.
    robust : float, optional
        With ``weights=1 / sigma**2``: entries whose residual exceeds this many sigma count less, by
        Huber's loss, as in positive matrix factorization, where 4 is usual. The loss of such an
        entry still grows in proportion to its residual, so give entries that are known to be wrong
        the weight zero.
    shrinkage : "auto" or float
        For tables with missing entries: what each component contributes to all entries, known or
        not, is penalised by this share of its squares (for the divergence, of its sum), so that the
        model of the missing entries stays near the known ones. By default the share that predicts a
        tenth of the known entries best, which are held out; 0 fits the known entries and nothing
        else. With ``weights`` or ``sample_weight`` the default is 0.
    fixed_components : (k, n_features) array, optional
        Known components, k <= n_components. They are the first rows of `components_`, to the last
        bit in the precision of X (a float32 table rounds them to float32); the others are found.
    fixed_entries : (n_components, n_features) boolean array, optional
        True where an entry of `components_` must be zero.
    n_components, affinity, ...
        As in `BaseNMF`, which also lists the attributes. ``init`` may also be a matrix of
        components (n_components, n_features), at any scale.

    Attributes
    ----------
    shrinkage_ : float
        The share that was used; `transform` uses it, too. 0 for a table without missing entries.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import HierarchicalNMF
    >>> X = np.repeat([[1.0, 3.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0]], [4, 2], axis=0)
    >>> model = HierarchicalNMF(2, random_state=0).fit(X)
    >>> bool(model.relative_err_ < 1e-3), model.labels_.tolist()
    (True, [0, 0, 0, 0, 1, 1])
    """

    def _alternate(self, problem: Problem) -> Method:
        s, stopping = problem.data.sample_weight, self._stopping()
        n_samples = None if s is None else float(s.sum())
        return Method(partial(hals, n_samples=n_samples, **stopping), stopping)


@dataclass(eq=False, repr=False, kw_only=True)
class SparseNMF(WeightedNMF):
    r"""Sparse NMF (Kim & Park 2007): each sample is encoded by few components.

    .. math:: \min_{W, H \ge 0} \|X - W H\|^2 + \eta \|H\|^2 + \alpha \sum_i \|w_i\|_1^2

    Weights q of entries and s of samples count as in

    .. math:: \sum_i s_i \Big( \sum_j q_{ij} (x_{ij} - (W H)_{ij})^2 + \alpha \|w_i\|_1^2 \Big) +
       \eta \|H\|^2 ,

    so a sample of weight two is like two equal samples, while larger weights of entries make the
    penalties matter less.

    Parameters
    ----------
    alpha : float
        Weight of the squared L1 norm of each encoding; the same for data of any scale.
    eta : float, optional
        Weight of the ridge on H; by default the squared largest entry of X, as Kim & Park have it,
        among the samples and entries whose weight is above zero. One huge outlier then decides on
        it: give a number where X may have some.
    missing, robust, shrinkage, fixed_components, fixed_entries
        Missing entries, uncertainties and known components, as in `HierarchicalNMF`.
    n_components, affinity, ...
        As in `BaseNMF`, which also lists the attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import SparseNMF
    >>> X = np.random.default_rng(0).random((30, 12))
    >>> plain, sparse = (
    ...     SparseNMF(4, alpha=a, tol=1e-3, random_state=0).fit(X).embedding_ for a in (0.0, 1.0)
    ... )
    >>> int((sparse == 0).sum()) > int((plain == 0).sum())
    True
    """

    alpha: float = 0.01
    eta: float | None = None

    _codes_scale = True

    def _alternate(self, problem: Problem) -> Method:
        alpha, eta = self._read_prices(problem)
        run = partial(anls, alpha=alpha, eta=eta, **self._stopping())
        penalty = partial(penalties, alpha=alpha, eta=eta)
        return Method(run, self._stopping(), penalty=penalty, price=alpha)

    def _read_prices(self, problem: Problem) -> tuple[float, float]:
        """``alpha`` and ``eta`` in the unit of the table."""
        data, s, table = problem.data, problem.data.sample_weight, problem.table
        alpha = 0.0 if self.alpha == 0 else check_positive(self.alpha, "alpha")
        if self.eta is None:
            counted = table if s is None or s.all() else table.rows(np.flatnonzero(s))
            eta = counted.peak**2 if alpha else 0.0
        else:
            eta = 0.0 if self.eta == 0 else check_positive(self.eta, "eta")
        if eta and not alpha:
            raise InvalidInputError(
                "eta without alpha has no minimum: H would shrink and W grow for ever. Set alpha >"
                " 0 or eta=0."
            )
        if alpha and eta:  # the unit of the table is that of W, so eta is in squares of it
            eta = (eta if self.eta is None else eta / data.unit / data.unit) / data.weight_unit
        return alpha, eta


@dataclass(eq=False, repr=False, kw_only=True)
class ProjectiveNMF(BaseNMF):
    """Projective NMF (Yuan & Oja 2005): ``X ~ G G' X`` with one factor G >= 0, nearly orthogonal by
    itself.

    ``embedding_`` is G and ``components_`` is G'X; `transform` encodes over G'X by least squares,
    so for the training samples it differs from G, and `predict` from `labels_` for up to 4 % of
    them (four datasets, ``benchmarks/predict_agreement.py``).

    Parameters and attributes are those of every factorization, see `BaseNMF`.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import ProjectiveNMF
    >>> X = np.array(
    ...     [[4.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 6.0], [0.0, 0.0, 1.0, 2.0]]
    ... )
    >>> labels = ProjectiveNMF(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Solution:
        init = problem.start(self.init, self.n_components)
        starts = Starts(self.n_components, init, self.n_init, rng)
        result = best_of_starts(partial(pnmf, **self._stopping()), problem.table, starts)
        ones = np.ones(self.n_components)
        return Solution(result, LeastSquares(result.H), ones, is_encoding=False)

    def _set_own(self, problem: Problem, solution: Solution, order: IntArray) -> None:  # noqa: ARG002
        self.orthogonality_ = orthogonality(solution.result.W)

    def _summary(self) -> dict[str, str]:
        return {**super()._summary(), **orthogonality_line(self.orthogonality_)}
