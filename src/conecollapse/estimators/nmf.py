"""The baselines of the paper, one class each, with the same arguments and attributes: one word
changes the method."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from conecollapse._checks import check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray
from conecollapse.estimators._base import BaseNMF, Method
from conecollapse.estimators._catalogue import CatalogueNMF
from conecollapse.estimators._weighted import WeightedNMF
from conecollapse.factorization.anls import anls, penalties
from conecollapse.factorization.hals import hals
from conecollapse.factorization.kl import encode_divergence, kl
from conecollapse.factorization.mu import LOSSES, mu
from conecollapse.factorization.pnmf import pnmf
from conecollapse.factorization.robust import Penalty
from conecollapse.tables import Equations, Table


@dataclass(eq=False, repr=False, kw_only=True)
class MultiplicativeNMF(CatalogueNMF):
    """NMF by multiplicative updates (Lee & Seung 2001), for the Frobenius norm or the
    Kullback-Leibler divergence.

    For ``loss="kullback-leibler"`` each entry of a factor is updated after the other, by a step in
    the direction of the multiplicative one that is at least as long
    (`conecollapse.factorization.kl`): the divergence still never rises, and falls to the same value
    in a fraction of the iterations. `transform` then minimises that loss, to its optimum, so it is
    near `embedding_` for the training samples; `score` is least squares for both. The divergence
    looks at entries, so it needs a table in memory.

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

    def _check_loss(self) -> None:
        if self.loss not in LOSSES:
            raise InvalidInputError(f"loss must be one of {', '.join(LOSSES)}; got {self.loss!r}.")

    def _method(self, table: Table) -> Method:  # noqa: ARG002
        self._check_loss()
        if self.loss != "frobenius" and self.robust is not None:
            raise InvalidInputError(
                "robust compares squared residuals with uncertainties; use the Frobenius loss."
            )
        return partial(mu if self.loss == "frobenius" else kl, **self._stopping())

    @property
    def _embedding_encodes(self) -> bool:
        return self.loss == "frobenius"

    @property
    def _sample_power(self) -> float:  # type: ignore[override]
        return 0.5 if self.loss == "frobenius" else 1.0

    def _encode(self, rows: Table) -> AnyArray:
        return (
            encode_divergence(rows, self._H, self._penalties)
            if self.loss == "kullback-leibler"
            else super()._encode(rows)
        )


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

    def _method(self, table: Table) -> Method:  # noqa: ARG002
        return partial(anls, **self._stopping())


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

    def _method(self, table: Table) -> Method:  # noqa: ARG002
        s = self._sample_weight
        return partial(hals, n_samples=None if s is None else float(s.sum()), **self._stopping())


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

    _encodings_scale = True

    def _method(self, table: Table) -> Method:
        alpha, eta = self._prices(table)
        return partial(anls, alpha=alpha, eta=eta, **self._stopping())

    def _penalty(self, table: Table | None) -> Penalty:
        alpha, eta = (self.alpha, 0.0) if table is None else self._prices(table)
        return partial(penalties, alpha=alpha, eta=eta)

    def _prices(self, table: Table) -> tuple[float, float]:
        """``alpha`` and ``eta`` in the unit of the table."""
        alpha = 0.0 if self.alpha == 0 else check_positive(self.alpha, "alpha")
        if self.eta is None:
            eta = table.peak**2 if alpha else 0.0
        else:
            eta = 0.0 if self.eta == 0 else check_positive(self.eta, "eta")
        if eta and not alpha:
            raise InvalidInputError(
                "eta without alpha has no minimum: H would shrink and W grow for ever. Set alpha >"
                " 0 or eta=0."
            )
        if alpha and eta:  # the unit of the table is that of W, so eta is in squares of it
            eta = (eta if self.eta is None else eta / self._unit / self._unit) / self._sample_unit
        return alpha, eta

    def _codes(self, equations: Equations, start: AnyArray | None = None) -> AnyArray:
        return super()._codes(equations.plus(self.alpha), start)


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

    _is_orthogonal = True

    @property
    def _embedding_encodes(self) -> bool:
        return False

    def _label_weights(self) -> AnyArray:
        return np.ones(len(self._H))

    def _method(self, table: Table) -> Method:  # noqa: ARG002
        return partial(pnmf, **self._stopping())
