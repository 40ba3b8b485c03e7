"""What the factorizations share that take missing entries, weights, uncertainties, and components
that are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from conecollapse._checks import as_matrix, as_points, check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, row_lengths
from conecollapse._types import AnyArray, BoolArray, FloatArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._base import EMPTY_SAMPLES, BaseNMF
from conecollapse.estimators._estimator import check_is_fitted, running
from conecollapse.estimators._fitted import Problem, Solution, start_of_samples
from conecollapse.estimators._prepared import (
    Prepared,
    by_name,
    check_input,
    feature_order,
    in_dtype,
    needs_of,
    prepare_table,
    remember_layer,
    safe_power,
)
from conecollapse.factorization.initial_factors import is_components
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.imputation import Imputer
from conecollapse.factorization.nmf.weighted import (
    Method,
    Terms,
    check_shrinkage,
    factorize_weighted,
)
from conecollapse.factorization.restarts import Starts
from conecollapse.tables import MaskedTable, Table
from conecollapse.tables.incomplete import check_sample_weight, filled_in, incomplete_table

NOT_ON_GRAPHS = (
    "a graph of samples cannot use missing entries (NaN) or weights; use affinity=None, or `impute`"
    " them first."
)


@dataclass(eq=False, repr=False, kw_only=True)
class WeightedNMF(BaseNMF):
    """A factorization in which entries may be missing or have weights, and components may be known.

    NaN in a dense array or a data frame, and a masked entry of NumPy's masked arrays, is a missing
    entry: it counts neither in the objective nor in errors and scores. `transform`, `predict`,
    `score` and `impute` take new samples with missing entries.

    The parameters are explained in `HierarchicalNMF`.
    """

    missing: str = "nan"
    robust: float | None = None
    shrinkage: Any = "auto"
    fixed_components: Any = None
    fixed_entries: Any = None

    _codes_scale: ClassVar[bool] = False  # whether W scales with the data, rather than H

    @running
    def fit(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        weights: Any = None,
        sample_weight: Any = None,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Self:
        """Factorize ``X`` (n_samples, n_features).

        Parameters
        ----------
        X : (n_samples, n_features) array, sparse array, data frame, opened file or Dask array
        y : ignored
        weights : (n_samples, n_features) array or sparse array, optional
            How much the loss of each entry counts in the objective: ``1 / sigma**2`` for
            uncertainties sigma, zero for missing. Unstored weights of a sparse array are zero.
            Penalties do not change.
        sample_weight : (n_samples,) array, optional
            How much each sample counts, its loss and the penalties on its encoding: a sample of
            weight two is like two equal samples, and one of weight zero like one that is not there,
            but it is encoded. So random starts draw nothing for samples.
        feature_names : sequence of str, optional
            Names of the features of an array.
        layer : str, optional
            The layer of an AnnData object to use instead of X.
        """
        table = self._check_table(
            remember_layer(self, X, feature_names, layer), weights, reset=True
        )
        s = None if sample_weight is None else check_sample_weight(sample_weight, table)
        if s is not None and self.affinity is not None:
            raise InvalidInputError(NOT_ON_GRAPHS)
        kinds = (
            (weights is not None, "weights"),
            (s is not None, "sample_weight"),
            (not table.is_complete, "missing entries"),
        )
        data = replace(
            prepare_table(self, table, EMPTY_SAMPLES.format(NO_CLUSTER)),
            weighted_by=next((kind for is_so, kind in kinds if is_so), ""),
        )
        if s is not None:
            # by which to divide equal weights of any size, so that they are ones
            unit = 1.0 if safe_power(peak := float(s.max())) == 1 else peak
            data = replace(data, sample_weight=s / unit, weight_unit=unit)
        return self._fit(data)

    @running
    def fit_predict(
        self,
        X: Any,
        y: Any = None,
        *,
        weights: Any = None,
        sample_weight: Any = None,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> AnyArray:
        """Factorize ``X`` and return `labels_`. The arguments are those of `fit`."""
        names: dict[str, Any] = {"feature_names": feature_names, "layer": layer}
        return self.fit(X, y, weights=weights, sample_weight=sample_weight, **names).labels_

    @running
    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        weights: Any = None,
        sample_weight: Any = None,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> AnyArray:
        """Factorize ``X`` and return the encodings of its samples. The arguments are those of
        `fit`."""
        names: dict[str, Any] = {"feature_names": feature_names, "layer": layer}
        self.fit(X, y, weights=weights, sample_weight=sample_weight, **names)
        return self.embedding_ if self._fitted.is_encoding else self._transform(X, weights)

    @running
    def transform(self, X: Any, *, weights: Any = None) -> AnyArray:
        """Encodings of samples, known or new, over the components; missing entries and those of
        weight zero do not count."""
        return self._transform(X, weights)

    def _transform(self, X: Any, weights: Any) -> AnyArray:
        check_is_fitted(self)
        table = self._check_table(X, weights, reset=False)
        return in_dtype(self._fitted.encode(table), table.dtype)

    @running
    def predict(self, X: Any, *, weights: Any = None) -> AnyArray:
        """The component with the largest weighted encoding of each sample; -1 for a sample without
        any, such as one of zeros."""
        check_is_fitted(self)
        return self._predict(self._check_table(X, weights, reset=False))

    @running
    def score(self, X: Any, y: Any = None, *, weights: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2``
        with the best W >= 0, over known entries and with their weights; at most 1.
        """
        check_is_fitted(self)
        return self._fitted.score(self._check_table(X, weights, reset=False))

    @running
    def impute(self, X: Any, *, weights: Any = None) -> Any:
        """``X`` with guesses in place of its missing entries; a data frame stays one.

        A guess combines the model, `transform` times `components_`, with the mean of the feature, a
        product of a number for the sample and one for the feature, and the nearest samples of
        ``X``, in the proportions that predict a tenth of the known entries best, which are held out
        (`conecollapse.factorization.nmf.imputation`). So it depends on the samples that are given
        together. It is the model alone after a fit of a table without missing entries, with
        ``weights``, ``sample_weight`` or a number for ``shrinkage``, and where few entries are
        known.

        Parameters
        ----------
        X : (n_samples, n_features) array or data frame
            NaN is missing. It may be the table of `fit` or new samples.
        weights : (n_samples, n_features) array, optional
            As in `fit`; entries that are there keep their values, whatever their weight.
        """
        check_is_fitted(self)
        order = feature_order(self, X)
        columns = slice(None) if order is None else np.argsort(order)  # of each column of X

        def guesses() -> AnyArray:
            table = self._check_table(X, weights, reset=False)
            if table.is_complete or not self._imputer.unseen:
                return self._fitted.model(table)[:, columns]
            return self._imputer(cast(MaskedTable, table), self._fitted)[:, columns]

        return filled_in(X, guesses)

    def _check_table(self, X: Any, weights: Any, *, reset: bool) -> Table:
        """``X`` as a checked table with its weights and missing entries."""
        if self.missing not in ("nan", "unstored"):
            raise InvalidInputError(f'missing must be "nan" or "unstored"; got {self.missing!r}.')
        array = check_input(self, X, reset=reset)
        weights = by_name(self, weights, "weights")
        if isinstance(array, Table):
            if weights is not None or self.missing == "unstored":
                raise InvalidInputError(
                    "weights and missing entries need the whole table in memory, and X is"
                    f" {array.kind}."
                )
            return array
        unstored = self.missing == "unstored"
        table = incomplete_table(
            array, weights, unstored=unstored, is_new=not reset, needs=needs_of(self)
        )
        if self.affinity is not None and not table.is_complete:
            raise InvalidInputError(NOT_ON_GRAPHS)
        return table

    def _alternate(self, problem: Problem) -> Method:
        """The alternating method with its arguments, which are checked here."""
        raise NotImplementedError

    def _solve(self, problem: Problem, rng: np.random.Generator) -> Solution:
        check_shrinkage(self.shrinkage)
        method, data = self._alternate(problem), problem.data
        fixed = self._read_fixed(data)
        limit = None if self.robust is None else check_positive(self.robust, "robust") / data.unit
        if limit is not None and not problem.table.has_uncertainties:
            raise InvalidInputError(
                "robust compares residuals with their uncertainties; pass weights=1 / sigma**2 to"
                " `fit`."
            )
        solved = factorize_weighted(
            method,
            problem.table,
            Starts(self.n_components, self._start(problem), self.n_init, rng),
            Terms(data.sample_weight, fixed, self.shrinkage, limit),
        )
        self.shrinkage_ = solved.shrinkage
        self._imputer = Imputer(solved.unseen, solved.seed)
        n_first = 0 if self.fixed_components is None or fixed is None else fixed.n_components
        if self.fixed_entries is not None:  # which speak of components by their numbers
            n_first = self.n_components
        return Solution(
            solved.result,
            solved.encoder,
            row_lengths(solved.result.H),
            is_encoding=not method.is_divergence,
            code_unit=data.unit if self._codes_scale else 1.0,
            n_first=n_first,
            fixed=fixed,
        )

    def _start(self, problem: Problem) -> Any:
        """``init`` in the unit of the table, for the samples whose weight is above zero."""
        if isinstance(self.init, str):
            return self.init
        if is_components(self.init) and self.affinity is None:
            H = as_points(by_name(self, self.init, "init"), "init", needs="a factor must be >= 0")
            return np.asarray(as_dense(H)) / (1.0 if self._codes_scale else problem.data.unit)
        start = problem.start(self.init, self.n_components, codes_scale=self._codes_scale)
        weight = problem.data.sample_weight
        if weight is None:
            return start
        return start_of_samples(start, np.flatnonzero(weight), problem.data.n_samples)

    def _read_fixed(self, data: Prepared) -> Fixed | None:
        """The fixed entries of H, in the unit of the working table."""
        if self.fixed_components is None and self.fixed_entries is None:
            return None
        if self.affinity is not None:
            raise InvalidInputError(
                "fixed_components and fixed_entries are over features, and a graph has none; use"
                " affinity=None."
            )
        shape = self.n_components, data.n_features
        mask, values = np.zeros(shape, bool), np.zeros(shape)
        if self.fixed_components is not None:
            H = self._read_components(data)
            mask[: len(H)] = True
            values[: len(H)] = H if self._codes_scale else H / data.unit
        if self.fixed_entries is not None:
            mask |= self._read_zeros(shape, values)
        return Fixed(mask, values)

    def _read_components(self, data: Prepared) -> FloatArray:
        """The parameter ``fixed_components``."""
        given = by_name(self, self.fixed_components, "fixed_components")
        points = as_points(given, "fixed_components", needs="a component must be >= 0")
        if points.shape[1] != data.n_features:
            raise InvalidInputError(
                f"fixed_components have {points.shape[1]} features, but X has {data.n_features};"
                " use the same ones."
            )
        if points.shape[0] > self.n_components:
            raise InvalidInputError(
                f"there are {points.shape[0]} fixed_components, but n_components ="
                f" {self.n_components}; raise it."
            )
        H = np.asarray(as_dense(points))
        for k in np.flatnonzero(~H.any(axis=1))[:1]:
            raise InvalidInputError(
                f"row {k} of fixed_components is zero everywhere; leave it out."
            )
        # products with X must stay in the range of X's type
        most, peaks = float(np.finfo(data.dtype).max) ** (1 / 3), H.astype(np.float64).max(axis=1)
        for k in np.flatnonzero((peaks / most > data.peak) | (peaks < data.peak / most))[:1]:
            raise InvalidInputError(
                f"the largest entry of row {k} of fixed_components is {peaks[k]:.3g}, and that of X"
                f" is {data.peak:.3g}, too far apart for {data.dtype.name}; multiply the row by a"
                " number, since its encodings make up for it."
            )
        return np.asarray(in_dtype(H, data.dtype), np.float64)

    def _read_zeros(self, shape: tuple[int, int], values: FloatArray) -> BoolArray:
        """The parameter ``fixed_entries``, beside fixed components with these values."""
        entries = by_name(self, self.fixed_entries, "fixed_entries")
        given = as_dense(as_matrix(entries, "fixed_entries"))
        for row, column in np.argwhere((given != 0) & (given != 1))[:1]:
            raise InvalidInputError(
                f"fixed_entries has {given[row, column]:.6g} at row {row}, column {column}; use"
                " True where an entry must be zero, and False elsewhere."
            )
        zeros: BoolArray = given.astype(bool)
        if zeros.shape != shape:
            raise InvalidInputError(
                f"fixed_entries has shape {zeros.shape}; it must be that of components_, {shape}."
            )
        for k in np.flatnonzero(zeros.all(axis=1))[:1]:
            raise InvalidInputError(
                f"fixed_entries leaves nothing of component {k}; lower n_components, or free an"
                " entry of it."
            )
        for j in np.flatnonzero(zeros.all(axis=0))[:1]:
            raise InvalidInputError(
                f"fixed_entries leaves no component for feature {j}; drop the feature, or free an"
                " entry of it."
            )
        for row, column in np.argwhere(zeros & (values > 0))[:1]:
            raise InvalidInputError(
                f"fixed_entries wants zero at row {row}, column {column}, where fixed_components"
                " has another number."
            )
        return zeros

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.affinity is None
        return tags
