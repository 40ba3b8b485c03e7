"""Orthogonal NMF: a clustering of the samples, by any of its solvers, with a few labels or
without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._linalg import row_lengths
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.affinity import Source
from conecollapse.affinity.kinds import find, known_samples
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._base import EMPTY_SAMPLES, BaseNMF, Method, one_cluster_codes
from conecollapse.estimators._estimator import running
from conecollapse.estimators._labels import Names, read_constraints
from conecollapse.estimators._prepared import check_table, remember_layer
from conecollapse.factorization.constraints import UNKNOWN, Constraints
from conecollapse.factorization.data import Factorization
from conecollapse.factorization.evidence import Linear
from conecollapse.factorization.onmf import SOLVERS, prepared
from conecollapse.factorization.onmf.clamped import Judgement, Known, for_clusters
from conecollapse.factorization.onmf.multiplicative import RULES
from conecollapse.factorization.restarts import best_of_starts
from conecollapse.tables import Equations, Table


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

    _is_orthogonal = True
    _needs_every_sample = True
    _constraints: Constraints | None = field(default=None, init=False)
    _names: Names | None = field(default=None, init=False)
    _judgement: Judgement | None = field(default=None, init=False)
    _linear: Linear | None = field(default=None, init=False)

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
    ) -> Any:
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

        Notes
        -----
        A sample with a label keeps it in `labels_`, whatever the data say, even if it is all zeros;
        `predict` gives every sample of zeros the label -1, or "" beside strings. `labels_` and
        `predict` then return entries of ``classes_``, and of ``cluster_labels_`` for clusters that
        no label names. With ``n_components=1``, and with a y that labels every sample with more
        classes than there are components (as a pipeline passes it on to all its steps), y is
        ignored. How labels and pairs are used is in `conecollapse.factorization.onmf.clamped` and
        `conecollapse.factorization.evidence`.

        Examples
        --------
        >>> import numpy as np
        >>> from conecollapse import OrthogonalNMF
        >>> X = np.array([[4.0, 2.0, 0.1], [2.0, 1.0, 0.0], [0.0, 0.1, 3.0], [0.0, 0.0, 1.0]])
        >>> model = OrthogonalNMF(2, random_state=0).fit(X, ["metal", None, "wood", None])
        >>> model.labels_.tolist(), model.predict([[1.0, 0.5, 0.0]]).tolist()
        (['metal', 'metal', 'wood', 'wood'], ['metal'])
        """
        self._hints = y, must_link, cannot_link
        try:
            return self._fit(
                check_table(self, remember_layer(self, X, feature_names, layer), reset=True)
            )
        finally:
            del self._hints

    def _check_parameters(self, X: Table, n_filled: int) -> None:
        super()._check_parameters(X, n_filled)
        self._constraints, self._names = read_constraints(
            *self._hints, filled=X.filled, r=self.n_components, unlabeled=self.unlabeled
        )
        self._judgement = self._linear = None
        self._labelled: tuple[dict[bytes, int], IntArray] = ({}, np.zeros(0, np.int64))
        for name in ("classes_", "cluster_labels_", "label_distributions_"):
            self.__dict__.pop(name, None)
        if self._constraints is not None and self.solver != "em":
            if self._constraints.is_partial:
                raise InvalidInputError(
                    f"labels and pairs of samples need solver='em'; got {self.solver!r}."
                )
            self._constraints = self._names = None  # a full y, for another step of a pipeline
        if self._names is not None:
            self.classes_, self.cluster_labels_ = self._names.classes, self._names.clusters

    @property
    def _known(self) -> Constraints | None:
        """The constraints of the samples that are factorized."""
        known, kept = self._constraints, self._on_graph
        return (
            known
            if known is None or kept is None or len(kept) == self._n_samples
            else known.of(kept)
        )

    def _factorize(self, table: Table, rng: np.random.Generator) -> Factorization:
        known = Known.of(table, table, self._known, **self._stopping())
        if known is None:
            return super()._factorize(table, rng)
        self._check_solver()
        found = best_of_starts(
            known.run, table, self.n_components, self._start(table), self.n_init, rng
        )
        self._judge(table, known.run.judgement(found), known.linear)
        return found

    def _judge(self, table: Table, judgement: Judgement | None, linear: Linear | None) -> None:
        """Keep how samples were judged by the labels, and which have labels."""
        self._judgement, self._linear = judgement, linear
        known = self._known
        if known is not None and table.in_memory:
            labelled = np.flatnonzero(known.labels != UNKNOWN)
            self._labelled = known_samples(table.rows(labelled)), known.labels[labelled]

    def _order(self, labels: IntArray, masses: AnyArray) -> IntArray:
        """Classes come first, in their order."""
        order = super()._order(labels, masses)
        if self._names is None:
            return order
        n_classes = len(self._names.classes)
        return np.concatenate([np.arange(n_classes), order[order >= n_classes]])

    def _renumber(self, order: IntArray) -> None:
        if self._judgement is not None:
            self._judgement = self._judgement.ordered(order)

    def _set_factors(self, result: Factorization, source: Source, empty: BoolArray) -> None:
        super()._set_factors(result, source, empty)
        if self._judgement is not None:
            self.label_distributions_ = np.array(
                self._among_samples(self._of_samples(self._judgement.memberships).T, len(empty)).T
            )
            chosen = self._among_samples(
                self._of_samples(self._judgement.chosen).T, len(empty)
            ).argmax(axis=0)
            # the evidence took them to a cluster that explains nothing of them
            unplaced = (self.labels_ == NO_CLUSTER) & ~empty
            self.labels_[unplaced] = chosen[unplaced]
            self.label_distributions_[empty] = 0
        if self._names is not None and self._constraints is not None:
            known = self._constraints.labels
            labelled = np.flatnonzero(known != UNKNOWN)
            self.labels_[labelled] = known[labelled]
            zeros = labelled[empty[labelled]]
            if self._judgement is not None:
                self.label_distributions_[zeros, known[zeros]] = 1

    def _of_samples(self, judged: AnyArray) -> AnyArray:
        """Rows of a judgement as rows of the samples that are factorized."""
        return judged

    def _zeros_are(self) -> str:
        if getattr(self, "_hints", (None,))[0] is None:
            return EMPTY_SAMPLES.format(NO_CLUSTER if self._names is None else self._names.none)
        return (
            'kept in place, with zero encodings and without a cluster (-1, or "" beside strings)'
            " unless y labels them"
        )

    def _named(self, labels: IntArray) -> AnyArray:
        return labels if self._names is None else self._names(labels)

    def _encode(self, rows: Table) -> AnyArray:
        return self._codes(
            rows.row_equations(self._H), decide=self._decision(rows, rows.row_lengths)
        )

    def _decision(self, rows: Table, lengths: FloatArray) -> Callable[[AnyArray], AnyArray] | None:
        """What chooses the cluster of new rows from their scores: with labels also the evidence;
        ``lengths`` are those of the rows."""
        judgement, linear = self._judgement, self._linear
        if judgement is None or linear is None:
            return None
        evidence = for_clusters(linear.probabilities(rows), self.n_components)
        safe = np.where(lengths > 0, lengths, 1.0)[:, None]
        places, labels = self._labelled
        index = find(rows, places) if places else np.full(len(safe), -1)

        def decide(scores: AnyArray) -> AnyArray:
            logs = judgement.decide(np.square(np.maximum(scores, 0) / safe), evidence)
            # a sample identical to a labelled one has its label
            logs[index >= 0, labels[index[index >= 0]]] = np.inf
            return logs

        return decide

    def _method(self, table: Table) -> Method:
        self._check_solver()
        return prepared(self.solver, table, **self._stopping())

    def _stage2(self, table: Table, rng: np.random.Generator) -> dict[str, Any]:
        """The arguments of an orthogonal NMF of rays."""
        self._check_solver()
        start: dict[str, Any] = {"init": self._start(table), "n_init": self.n_init, "rng": rng}
        return {"solver": self.solver, "constraints": self._known, **start, **self._stopping()}

    @property
    def _embedding_encodes(self) -> bool:
        return self.solver == "em"

    def _check_solver(self) -> None:
        if self.solver not in SOLVERS:
            raise InvalidInputError(
                f"solver must be one of {', '.join(SOLVERS)}; got {self.solver!r}."
            )

    def _codes(
        self,
        equations: Equations,
        start: AnyArray | None = None,
        decide: Callable[[AnyArray], AnyArray] | None = None,
    ) -> AnyArray:
        """One cluster for each row where supports are disjoint; else least squares."""
        return (
            super()._codes(equations, start)
            if self.solver in RULES
            else one_cluster_codes(equations, decide)
        )

    def _label_weights(self) -> AnyArray:
        return self._comparable(self._H)

    def _comparable(self, S: AnyArray) -> AnyArray:
        """What makes columns of A comparable: nothing for the multiplicative rules, as in the
        paper; for disjoint supports lengths of S.

        There a sample belongs to the cluster with the largest score ``a_k |s_k|``, so that is what
        decides for a new one.
        """
        return np.ones(len(S)) if self.solver in RULES else row_lengths(S)
