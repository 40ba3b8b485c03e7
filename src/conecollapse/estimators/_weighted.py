"""What the factorizations share that take missing entries, weights, uncertainties, and components
that are known."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from conecollapse._checks import as_matrix, as_points, check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, power_of_two, row_lengths
from conecollapse._types import AnyArray, FloatArray, IntArray
from conecollapse.estimators._base import BaseNMF, of_samples
from conecollapse.estimators._estimator import running
from conecollapse.estimators._prepared import (
    by_name,
    check_input,
    feature_order,
    in_dtype,
    non_negative,
    remember_layer,
    safe_power,
)
from conecollapse.factorization.data import Factorization, squared_error
from conecollapse.factorization.held import Held
from conecollapse.factorization.imputation import stacked_guesses
from conecollapse.factorization.inits import is_components, is_pair
from conecollapse.factorization.restarts import best_of_starts
from conecollapse.factorization.robust import Penalty, no_penalty, robust, robust_codes
from conecollapse.factorization.rows import solve
from conecollapse.factorization.shrinkage import choose_shrinkage
from conecollapse.tables import Equations, MaskedTable, Table
from conecollapse.tables.incomplete import check_sample_weight, filled_in, incomplete_table

# random draws for each start of a table with weights, whose optima differ more (chosen on two
# tables of air samples)
TRIALS = 4
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

    # samples times this power of their weights: for a squared error the root
    _sample_power: ClassVar[float] = 0.5
    _seed: int = field(default=0, init=False)  # of the entries that are held out
    # components that have not seen them, for each fold
    _unseen: tuple[AnyArray, ...] = field(default=(), init=False)
    _sample_weight: FloatArray | None = field(default=None, init=False)  # type: ignore[misc]
    # what the weights of samples are divided by in `fit`
    _sample_unit: float = field(default=1.0, init=False)
    _counted: str = field(default="", init=False)  # what made entries count differently in `fit`

    @running
    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        *,
        weights: Any = None,
        sample_weight: Any = None,
        feature_names: Any = None,
        layer: str | None = None,
    ) -> Any:
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
        table = self._table(remember_layer(self, X, feature_names, layer), weights, reset=True)
        if sample_weight is not None:
            s = check_sample_weight(sample_weight, table)
            if self.affinity is not None:
                raise InvalidInputError(NOT_ON_GRAPHS)
            # by which to divide equal weights of any size, so that they are ones
            self._sample_unit = 1.0 if safe_power(peak := float(s.max())) == 1 else peak
            self._sample_weight = s / self._sample_unit
        kinds = (
            (weights is not None, "weights"),
            (sample_weight is not None, "sample_weight"),
            (not table.is_complete, "missing entries"),
        )
        self._counted = next((kind for is_so, kind in kinds if is_so), "")
        try:
            return self._fit(table)
        finally:
            self._sample_weight, self._sample_unit = None, 1.0

    def fit_transform(self, X: Any, y: Any = None, **how: Any) -> AnyArray:
        """Factorize ``X`` and return the encodings of its samples. ``how`` are arguments of
        `fit`."""
        encodings: AnyArray = self.fit(X, y, **how).embedding_
        return (
            encodings
            if self._embedding_encodes
            else self._transformed(self._table(X, how.get("weights"), reset=False))
        )

    @running
    def transform(self, X: Any, *, weights: Any = None) -> AnyArray:
        """Encodings of samples, known or new, over the components; missing entries and those of
        weight zero do not count."""
        check_is_fitted(self)
        return self._transformed(self._table(X, weights, reset=False))

    @running
    def predict(self, X: Any, *, weights: Any = None) -> IntArray:
        """The component with the largest weighted encoding of each sample; -1 for a sample without
        any, such as one of zeros."""
        check_is_fitted(self)
        return self._predicted(self._table(X, weights, reset=False))

    @running
    def score(self, X: Any, y: Any = None, *, weights: Any = None) -> float:  # noqa: ARG002
        """Share of the squares of ``X`` that the components explain, ``1 - |X - W H|^2 / |X|^2``
        with the best W >= 0, over known entries and with their weights; at most 1.
        """
        check_is_fitted(self)
        return self._scored(self._table(X, weights, reset=False))

    @running
    def impute(self, X: Any, *, weights: Any = None) -> Any:
        """``X`` with guesses in place of its missing entries; a data frame stays one.

        A guess combines the model, `transform` times `components_`, with the mean of the feature, a
        product of a number for the sample and one for the feature, and the nearest samples of
        ``X``, in the proportions that predict a tenth of the known entries best, which are held out
        (`conecollapse.factorization.imputation`). So it depends on the samples that are given
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
        place = slice(None) if order is None else np.argsort(order)  # of each column of X

        def guesses() -> AnyArray:
            return self._guesses(self._table(X, weights, reset=False))[:, place]

        return filled_in(X, guesses)

    def _guesses(self, table: Table) -> FloatArray:
        if not self._unseen or table.is_complete:
            return self._model(table)
        others = [copy(self) for _ in self._unseen]
        for other, H in zip(others, self._unseen, strict=True):
            other._H = H
        unit = float(power_of_two(table.peak))  # guesses from neighbours square entries

        def in_unit(of: WeightedNMF) -> Callable[[MaskedTable], FloatArray]:
            return lambda part: of._model(part.divided(1 / unit)) / unit

        working = cast(MaskedTable, table).divided(unit)
        return (
            stacked_guesses(
                working, in_unit(self), [in_unit(other) for other in others], self._seed
            )
            * unit
        )

    def _model(self, table: Table) -> FloatArray:
        """All entries of the table by the model."""
        return np.asarray(self._encodings(table)[0].astype(np.float64) @ self._H) * self._unit

    def _table(self, X: Any, weights: Any, *, reset: bool) -> Table:
        if self.missing not in ("nan", "unstored"):
            raise InvalidInputError(f'missing must be "nan" or "unstored"; got {self.missing!r}.')
        found = check_input(self, X, reset=reset)
        weights = by_name(self, weights, "weights")
        if not isinstance(found, Table):
            unstored, checked = self.missing == "unstored", partial(non_negative, self)
            table = incomplete_table(
                found, weights, unstored=unstored, is_new=not reset, checked=checked
            )
            if self.affinity is not None and not table.is_complete:
                raise InvalidInputError(NOT_ON_GRAPHS)
            return table
        if weights is not None or self.missing == "unstored":
            raise InvalidInputError(
                "weights and missing entries need the whole table in memory, and X is"
                f" {found.kind}."
            )
        return found

    def _factorize(self, table: Table, rng: np.random.Generator) -> Factorization:
        """The factors of the samples whose weight is above zero."""
        s = self._sample_weight
        if s is not None and not s.all():
            table, s = table.rows(np.flatnonzero(s)), s[s > 0]
        s = np.ones(table.shape[0]) if s is None else s
        run: Any = self._method(table)
        held = self._held()
        if held is not None:
            run = partial(run, held=held)
        scale = s**self._sample_power
        scaled = table if (s == 1).all() else table.row_scaled(scale)
        scaled = self._shrunk(scaled, run, held, rng)
        if self.robust is not None:
            # residuals are those of scaled samples
            limit = self._limit(scaled) * (1.0 if self._sample_weight is None else scale)
            run = partial(
                robust, run, limit=limit, penalty=self._penalty(table), **self._stopping()
            )
        if (s != 1).any():
            run = _of_scaled_samples(run, scaled, scale)
        table = scaled if (s == 1).all() else table
        if held is not None and isinstance(self.init, str):
            return self._around_known(run, table, held, rng, s)
        method = run if held is None else lambda X, W, H: run(X, W, held.put(H))
        start = self._start(table)
        is_trial = isinstance(start, str) and start == "random" and not table.is_complete
        return best_of_starts(
            method,
            table,
            self.n_components,
            start,
            self.n_init,
            rng,
            n_trials=TRIALS if is_trial and held is None else 1,
            sample_weight=s,
        )

    def _shrunk(self, table: Table, run: Any, held: Held | None, rng: np.random.Generator) -> Table:
        """The table with the penalty on contributions to missing entries."""
        self._unseen, self.shrinkage_, self._penalties = (), 0.0, np.zeros(self.n_components)
        if self.shrinkage != "auto" and not _is_share(self.shrinkage):
            raise InvalidInputError(
                f'shrinkage must be "auto" or a finite number >= 0; got {self.shrinkage!r}.'
            )
        if table.is_complete:
            return table
        masked = cast(MaskedTable, table)
        if self.shrinkage != "auto":
            self.shrinkage_ = float(self.shrinkage)
        elif not table.has_uncertainties and self._sample_weight is None:
            self._seed = int(rng.integers(2**31 - 1))
            method = run if held is None else lambda X, W, H, **how: run(X, W, held.put(H), **how)
            self.shrinkage_, unseen = choose_shrinkage(
                method, masked, self.n_components, self._seed
            )
            self._unseen = tuple(unseen)
        shrunk = masked.shrunk(self.shrinkage_)
        self._penalties = shrunk.penalties(self.n_components)
        return shrunk

    def _around_known(
        self, run: Any, table: Table, held: Held, rng: np.random.Generator, s: FloatArray
    ) -> Factorization:
        """The best of ``n_init`` runs in which the components that are not known start from what
        the known ones leave."""
        k = held.n_components
        known = held.values[:k]
        codes = (
            solve(table.row_equations(known)) if k else np.zeros((table.shape[0], 0), table.dtype)
        )
        if k == self.n_components:
            everything: Factorization = run(table, codes, known)
            return everything
        guess = table.completed()
        rest = guess.excess(codes, known) if k else guess
        rest = rest if rest.peak > 0 else guess

        def run_all(_: Table, W: AnyArray, H: AnyArray) -> Factorization:
            result: Factorization = run(
                table, np.hstack((codes, W)), held.put(np.vstack((known, H)))
            )
            return result

        others = self.n_components - k
        init = (
            ("nndsvda" if others <= min(table.shape) else "random")
            if self.init == "auto"
            else self.init
        )
        return best_of_starts(run_all, rest, others, init, self.n_init, rng, sample_weight=s)

    def _limit(self, table: Table) -> float:
        limit = check_positive(self.robust, "robust")
        if not table.has_uncertainties:
            raise InvalidInputError(
                "robust compares residuals with their uncertainties; pass weights=1 / sigma**2 to"
                " `fit`."
            )
        return limit / self._unit

    def _start(self, table: Table) -> Any:
        if is_components(self.init) and self.affinity is None:
            given = as_points(
                by_name(self, self.init, "init"), "init", needs="a factor must be >= 0"
            )
            return np.asarray(as_dense(given)) / (1.0 if self._encodings_scale else self._unit)
        start = super()._start(table)
        kept = None if self._sample_weight is None else np.flatnonzero(self._sample_weight)
        if kept is None or isinstance(start, str) or is_components(start):
            return start
        if is_pair(start):
            return of_samples(as_matrix(start[0], "init"), kept, self._n_samples), start[1]
        return of_samples(np.asarray(start), kept, self._n_samples)

    def _encoded(self, result: Factorization, table: Table) -> Factorization:
        if self._sample_weight is None and self.robust is None:
            result = super()._encoded(result, table)
            return (
                result
                if not self.shrinkage_
                else replace(result, error=squared_error(table, result.W, result.H))
            )
        W = self._encode(table)
        if self._sample_weight is None:
            return replace(
                result, W=W, error=table.row_equations(result.H).error(table.squared_norm, W)
            )
        scale = np.sqrt(self._sample_weight)
        scaled = table.row_scaled(scale)
        norm2, unit = scaled.squared_norm, self._sample_unit
        return replace(
            result,
            W=W,
            error=scaled.row_equations(result.H).error(norm2, W * scale[:, None]) * unit,
            norm2=norm2 * unit,
        )

    def _codes(self, equations: Equations, start: AnyArray | None = None) -> AnyArray:
        if self.shrinkage_:
            equations = equations.plus(np.diag(self._penalties * np.square(row_lengths(self._H))))
        return super()._codes(equations, start)

    def _encode(self, rows: Table) -> AnyArray:
        plain = super()._encode
        if self.robust is None or not rows.has_uncertainties:
            return plain(rows)
        of_method, shares = self._penalty(None), self._penalties * np.square(row_lengths(self._H))

        def penalty(W: AnyArray, H: AnyArray) -> float:
            return of_method(W, H) + float(np.square(W, dtype=np.float64).sum(axis=0) @ shares)

        return robust_codes(plain, rows, self._H, self._limit(rows), penalty)

    def _penalty(self, table: Table | None) -> Penalty:  # noqa: ARG002
        """What the method adds to the loss of the table; for None, of encodings alone."""
        return no_penalty

    def _order(self, labels: IntArray, masses: AnyArray) -> IntArray:
        if self.fixed_entries is not None:  # which speak of components by their numbers
            return np.arange(self.n_components)
        k = 0 if self.fixed_components is None else len(self._known_components())
        order = super()._order(labels, masses)
        return np.concatenate((np.arange(k), order[order >= k]))

    def _renumber(self, order: IntArray) -> None:
        self._penalties, self._unseen = (
            self._penalties[order],
            tuple(H[order] for H in self._unseen),
        )

    def _known_components(self) -> FloatArray:
        given = by_name(self, self.fixed_components, "fixed_components")
        H = as_points(given, "fixed_components", needs="a component must be >= 0")
        if H.shape[1] != self.n_features_in_:
            raise InvalidInputError(
                f"fixed_components have {H.shape[1]} features, but X has {self.n_features_in_}; use"
                " the same ones."
            )
        if H.shape[0] > self.n_components:
            raise InvalidInputError(
                f"there are {H.shape[0]} fixed_components, but n_components = {self.n_components};"
                " raise it."
            )
        empty = np.flatnonzero(~as_dense(H).any(axis=1))
        if len(empty):
            raise InvalidInputError(
                f"row {empty[0]} of fixed_components is zero everywhere; leave it out."
            )
        self._check_scale(np.asarray(as_dense(H), np.float64).max(axis=1))
        return np.asarray(in_dtype(as_dense(H), self._dtype), np.float64)

    def _check_scale(self, peaks: FloatArray) -> None:
        """Refuse known components, of which these are the largest entries, whose products with X
        would leave the range of X's type."""
        most = float(np.finfo(self._dtype).max) ** (1 / 3)
        for k in np.flatnonzero((peaks / most > self._peak) | (peaks < self._peak / most))[:1]:
            raise InvalidInputError(
                f"the largest entry of row {k} of fixed_components is {peaks[k]:.3g}, and that of X"
                f" is {self._peak:.3g}, too far apart for {np.dtype(self._dtype).name}; multiply"
                " the row by a number, since its encodings make up for it."
            )

    def _held(self) -> Held | None:
        """What is known of H, in the unit of the working table."""
        if self.fixed_components is None and self.fixed_entries is None:
            return None
        if self.affinity is not None:
            raise InvalidInputError(
                "fixed_components and fixed_entries are over features, and a graph has none; use"
                " affinity=None."
            )
        shape = self.n_components, self.n_features_in_
        known, values = np.zeros(shape, bool), np.zeros(shape)
        if self.fixed_components is not None:
            H = self._known_components()
            known[: len(H)], values[: len(H)] = True, H if self._encodings_scale else H / self._unit
        if self.fixed_entries is not None:
            known |= self._zeros(shape, values)
        return Held(known, values)

    def _zeros(self, shape: tuple[int, int], values: FloatArray) -> AnyArray:
        entries = by_name(self, self.fixed_entries, "fixed_entries")
        given = as_dense(as_matrix(entries, "fixed_entries"))
        for row, column in np.argwhere((given != 0) & (given != 1))[:1]:
            raise InvalidInputError(
                f"fixed_entries has {given[row, column]:.6g} at row {row}, column {column}; use"
                " True where an entry must be zero, and False elsewhere."
            )
        zeros = given.astype(bool)
        if zeros.shape != shape:
            raise InvalidInputError(
                f"fixed_entries has shape {zeros.shape}; it must be that of components_, {shape}."
            )
        full = np.flatnonzero(zeros.all(axis=1))
        if len(full):
            raise InvalidInputError(
                f"fixed_entries leaves nothing of component {full[0]}; lower n_components, or free"
                " an entry of it."
            )
        left_out = np.flatnonzero(zeros.all(axis=0))
        if len(left_out):
            raise InvalidInputError(
                f"fixed_entries leaves no component for feature {left_out[0]}; drop the feature, or"
                " free an entry of it."
            )
        clash = np.argwhere(zeros & (values > 0))
        if len(clash):
            row, column = clash[0]
            raise InvalidInputError(
                f"fixed_entries wants zero at row {row}, column {column}, where fixed_components"
                " has another number."
            )
        return zeros

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.affinity is None
        return tags


def _of_scaled_samples(run: Any, scaled: Table, scale: FloatArray) -> Any:
    """The method on samples times these numbers, from a start and to factors of the samples as they
    are."""

    def on_scaled(_: Table, W: AnyArray, H: AnyArray, **how: Any) -> Factorization:
        in_scale = scale[:, None].astype(W.dtype)
        result: Factorization = run(scaled, W * in_scale, H, **how)
        return replace(result, W=result.W / in_scale)

    return on_scaled


def _is_share(value: Any) -> bool:
    return (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and bool(0 <= value < np.inf)
    )
