"""Orthogonal NMF: a clustering of the samples, by any of its solvers, with a few labels or
without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from conecollapse._checks import check_count
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths
from conecollapse._types import AnyArray, IntArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._base import EMPTY_SAMPLES, BaseNMF, orthogonality_line
from conecollapse.estimators._estimator import running
from conecollapse.estimators._fitted import Problem, Solution
from conecollapse.estimators._labels import NOTHING_KNOWN, KnownLabels, read_constraints
from conecollapse.estimators._prepared import Prepared, prepare
from conecollapse.factorization.nmf.encoders import Encoder, LeastSquares
from conecollapse.factorization.orthogonal import SOLVERS, orthogonality, prepared
from conecollapse.factorization.orthogonal.clamped import ClampedClusters, Judgement
from conecollapse.factorization.orthogonal.constraints import UNKNOWN
from conecollapse.factorization.orthogonal.encoders import LabelRule, OneCluster
from conecollapse.factorization.orthogonal.multiplicative import RULES
from conecollapse.factorization.restarts import Starts, best_of_starts
from conecollapse.factorization.result import Factorization

UNLESS_LABELLED = (
    'kept in place, with zero encodings and without a cluster (-1, or "" beside strings) unless y'
    " labels them"
)


@dataclass(eq=False, repr=False, kw_only=True)
class OrthogonalNMF(BaseNMF):
    """Orthogonal NMF: ``X ~ A S`` with orthonormal columns of A >= 0, which makes it a clustering
    of the samples.

    ``embedding_`` is A and ``components_`` is S; ``orthogonality_`` is ``max |A'A - I|``, zero to
    rounding for the solvers "em" and "onp-mf", whose columns have disjoint supports: there
    `transform` gives each sample its one cluster. The multiplicative solvers only tend to it,
    "stiefel" least of all; their `transform` is least squares over S.

    With "em" `transform` of the training samples is A up to what ``tol`` leaves open, and `predict`
    differs from `labels_` for at most 0.1 % of them; with the other solvers for up to 5 % (four
    datasets, ``benchmarks/predict_agreement.py``).

    Parameters
    ----------
    solver : {"em", "mu", "ding", "choi", "stiefel", "onp-mf"}
        EM-ONMF and ONP-MF of Pompili et al. 2014, the paper's multiplicative rule, and those of
        Ding et al. 2006, Choi 2008, and Yoo & Choi 2008.
    init, n_init
        By default ten starts from k-means on the spectral embedding.
    unlabeled : str or number
        What stands in y for a sample without a label, such as "unknown"; None, NaN and -1 always
        do.
    n_components, affinity, ...
        As in `BaseNMF`, which also lists further attributes.

    Attributes
    ----------
    classes_ : array
        The classes that y names, sorted; only after `fit` with labels, as the next two.
    cluster_labels_ : (r,) array
        What each component is called in `labels_`: the classes, then clusters that no label names,
        by the whole numbers after the largest class, or as "cluster 4", "cluster 5", ... where
        labels are strings (names of classes are skipped).
    label_distributions_ : (n_samples, r) array
        The probability of each of them for each training sample; zeros for a sample without a
        cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from conecollapse import OrthogonalNMF
    >>> X = np.array([[4.0, 2.0, 0.1], [2.0, 1.0, 0.0], [0.0, 0.1, 3.0], [0.0, 0.0, 1.0]])
    >>> model = OrthogonalNMF(2, random_state=0).fit(X)
    >>> (
    ...     bool(model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3]),
    ...     model.orthogonality_ < 1e-12,
    ... )
    (True, True)
    """

    init: Any = "spectral"
    n_init: int = 10
    solver: str = "em"
    unlabeled: Any = UNKNOWN

    _needs_every_sample = True

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        must_link: Any = None,
        cannot_link: Any = None,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Factorize ``X`` (n_samples, n_features); labels of some samples, or pairs of samples, are
        kept.

        Parameters
        ----------
        X : table
            As in every factorization, see `BaseNMF`.
        y : (n_samples,) array, optional
            A label for each sample; ``unlabeled``, -1, None or NaN where it is unknown, among
            strings also "" and "-1". Truth values are the classes 0 and 1. A y without any known
            label, or of numbers that are not whole (a regression's target), is ignored.
        must_link, cannot_link : (., 2) arrays, optional
            Pairs of samples, by number, that have the same cluster, or that do not. Samples of
            zeros cannot be in pairs.
        feature_names, layer
            See `BaseNMF.fit`. Weights of entries and samples are refused.

        Notes ----- A sample with a label keeps it in `labels_`, whatever the data say, even if it
        is all zeros; `predict` gives every sample of zeros the label -1, or "" beside strings.
        `labels_` and `predict` then return entries of ``classes_``, and of ``cluster_labels_`` for
        clusters that no label names. With ``n_components=1``, and with a y that labels every sample
        with more classes than there are components (as a pipeline passes it on to all its steps), y
        is ignored. How labels and pairs are used is in
        `conecollapse.factorization.orthogonal.clamped` and
        `conecollapse.factorization.orthogonal.evidence`.

        Examples
        --------
        >>> import numpy as np
        >>> from conecollapse import OrthogonalNMF
        >>> X = np.array([[4.0, 2.0, 0.1], [2.0, 1.0, 0.0], [0.0, 0.1, 3.0], [0.0, 0.0, 1.0]])
        >>> model = OrthogonalNMF(2, random_state=0).fit(X, ["metal", None, "wood", None])
        >>> model.labels_.tolist(), model.predict([[1.0, 0.5, 0.0]]).tolist()
        (['metal', 'metal', 'wood', 'wood'], ['metal'])
        """
        samples_are = EMPTY_SAMPLES.format(NO_CLUSTER) if y is None else UNLESS_LABELLED
        data = prepare(self, X, feature_names, layer, samples_are=samples_are)
        return self._fit(data, self._read_known(data, y, must_link, cannot_link))

    @running
    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        *,
        must_link: Any = None,
        cannot_link: Any = None,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> AnyArray:
        """Factorize ``X`` and return `labels_`. The arguments are those of `fit`."""
        names: dict[str, Any] = {"feature_names": feature_names, "layer": layer}
        return self.fit(X, y, must_link=must_link, cannot_link=cannot_link, **names).labels_

    @running
    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        must_link: Any = None,
        cannot_link: Any = None,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> AnyArray:
        """Factorize ``X`` and return the encodings of its samples: `embedding_`, or `transform` of
        ``X`` where the solver's factor is no encoding. The arguments are those of `fit`."""
        names: dict[str, Any] = {"feature_names": feature_names, "layer": layer}
        self.fit(X, y, must_link=must_link, cannot_link=cannot_link, **names)
        return self.embedding_ if self._fitted.is_encoding else self.transform(X)

    def _read_known(self, data: Prepared, y: Any, must_link: Any, cannot_link: Any) -> KnownLabels:
        """What labels and pairs of samples say."""
        if self.solver not in SOLVERS:
            raise InvalidInputError(
                f"solver must be one of {', '.join(SOLVERS)}; got {self.solver!r}."
            )
        for name in ("classes_", "cluster_labels_", "label_distributions_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        r = check_count(self.n_components, "n_components")
        known = read_constraints(y, must_link, cannot_link, ~data.empty, r, self.unlabeled)
        if known.constraints is not None and self.solver != "em":
            if known.constraints.is_partial:
                raise InvalidInputError(
                    f"labels and pairs of samples need solver='em'; got {self.solver!r}."
                )
            return NOTHING_KNOWN  # a full y, for another step of a pipeline
        if known.names is not None:
            self.classes_, self.cluster_labels_ = known.names.classes, known.names.clusters
        return known

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Solution:
        table, known = problem.table, problem.constraints
        stopping = self._stopping()
        clamped = ClampedClusters.of(table, table, known, **stopping)
        run = clamped or prepared(self.solver, table, **stopping)
        init = problem.start(self.init, self.n_components)
        result = best_of_starts(run, table, Starts(self.n_components, init, self.n_init, rng))
        rule = LabelRule.of(table, clamped, result)
        encoder = OneCluster(result.H, rule) if self._is_disjoint else LeastSquares(result.H)
        return self._solution(problem, result, encoder, result.H, rule and rule.judgement)

    def _solution(
        self,
        problem: Problem,
        result: Factorization,
        encoder: Encoder,
        loadings: AnyArray,
        own: Any,
    ) -> Solution:
        """With columns of W comparable by the lengths of loadings: a sample belongs to the cluster
        with the largest score ``a_k |s_k|``. The multiplicative rules take W as it is, as in the
        paper."""
        weights = row_lengths(loadings) if self._is_disjoint else np.ones(len(loadings))
        return Solution(
            result,
            encoder,
            weights,
            is_encoding=self.solver == "em",
            n_first=0 if problem.names is None else len(problem.names.classes),
            own=own,
        )

    @property
    def _is_disjoint(self) -> bool:
        """Whether each sample belongs to one cluster."""
        return self.solver not in RULES

    def _set_own(self, problem: Problem, solution: Solution, order: IntArray) -> None:
        self._set_labels(problem, solution, order, solution.own)

    def _set_labels(
        self,
        problem: Problem,
        solution: Solution,
        order: IntArray,
        judgement: Judgement | None,
        group: IntArray | slice = slice(None),
    ) -> None:
        """What labels decide; ``group`` says which row of the judgement each sample has."""
        self.orthogonality_ = orthogonality(solution.result.W)
        empty = problem.data.empty
        if judgement is not None:
            shares = problem.among_all(judgement.memberships[group][:, order].T).T
            chosen = problem.among_all(judgement.chosen[group][:, order].T).argmax(axis=0)
            # the evidence took them to a cluster that explains nothing of them
            unplaced = (self.labels_ == NO_CLUSTER) & ~empty
            self.labels_[unplaced] = chosen[unplaced]
            self.label_distributions_ = np.array(shares)
            self.label_distributions_[empty] = 0
        if problem.names is None or problem.known_labels is None:
            return
        labels = problem.known_labels
        labelled = np.flatnonzero(labels != UNKNOWN)
        self.labels_[labelled] = labels[labelled]
        zeros = labelled[empty[labelled]]
        if judgement is not None:
            self.label_distributions_[zeros, labels[zeros]] = 1

    def _summary(self) -> dict[str, str]:
        return {**super()._summary(), **orthogonality_line(self.orthogonality_)}
