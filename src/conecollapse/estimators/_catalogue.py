"""Models whose components are known beforehand: encodings over few of them, and samples that need a
component which is not there."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from conecollapse._checks import as_points, check_count, check_positive
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import as_dense, row_lengths, unit_rows
from conecollapse._types import AnyArray, FloatArray, Points
from conecollapse.estimators._estimator import check_is_fitted
from conecollapse.estimators._fitted import ExplainsSamples, Fitted
from conecollapse.estimators._prepared import (
    in_dtype,
    safe_power,
    warn_of_samples,
)
from conecollapse.estimators._weighted import WeightedNMF
from conecollapse.factorization.mixtures.compressed import RANK
from conecollapse.factorization.nmf.encoders import Divergence, LeastSquares
from conecollapse.factorization.nmf.feasible import Ranges, ranges
from conecollapse.factorization.nmf.imputation import Imputer
from conecollapse.factorization.nmf.refit import SELECTIONS, refit
from conecollapse.geometry.nearest import distances, gram, nearest, witnesses
from conecollapse.tables import Table

NO_DISTANCE = (
    "the components of a graph are over samples, and samples have no distance from their cone."
)


def _is_over_features(model: Any) -> bool:
    if model.affinity is not None:
        raise AttributeError(NO_DISTANCE)
    return True


class CatalogueNMF(ExplainsSamples, WeightedNMF):
    """What a factorization by plain least squares, or by the divergence, can do with components
    that it did not find itself."""

    @classmethod
    def from_components(cls, components: Any, **parameters: Any) -> Self:
        """A fitted model whose components are given: a catalogue of signatures, spectra or topics.

        `components_` are these numbers, unchanged. Nothing is fitted, so there are no `labels_` and
        no `embedding_`; `transform`, `predict`, `score` and `inverse_transform` work as after
        `fit`.

        Parameters
        ----------
        components : (n_components, n_features) array, sparse array or data frame
            One component in each row. The names of a frame are kept: its columns are the features,
            and its index names the columns of what `transform` gives (`get_feature_names_out`,
            ``set_output``).
        **parameters
            Further parameters of the estimator, such as ``loss``.

        Examples
        --------
        >>> from conecollapse import HierarchicalNMF
        >>> model = HierarchicalNMF.from_components(
        ...     [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]
        ... )
        >>> model.transform([[2.2, 3.0, 1.2]]).round(2)
        array([[2. , 1. , 0.2]])
        >>> model.transform([[2.2, 3.0, 1.2]], at_most=2).round(2)
        array([[2.07, 1.07, 0.  ]])
        """
        model = cls(**parameters)
        if model.affinity is not None:
            raise InvalidInputError(
                "components over features know no graph of samples; leave out affinity."
            )
        points = as_points(components, "components", needs="components must be >= 0")
        for k in np.flatnonzero(row_lengths(points) == 0)[:1]:
            raise InvalidInputError(f"component {k} is zero everywhere; drop it.")
        named = components if hasattr(components, "columns") else points
        validate_data(model, named, reset=True, skip_check_array=True)
        H = np.array(as_dense(points))
        if parameters.get("n_components", len(H)) != len(H):
            raise InvalidInputError(
                f"n_components = {parameters['n_components']!r}, but there are {len(H)} components;"
                " leave it out."
            )
        model.n_components = len(H)
        model._take_components(H if H.dtype.kind == "f" else H.astype(np.float64))
        if hasattr(components, "columns") and hasattr(components, "index"):
            model._name_components(components.index)
        return model

    def _take_components(self, H: AnyArray) -> None:
        """The attributes of a model with these components."""
        unit = safe_power(float(H.max()))
        working = np.asarray(H / unit, np.float64)
        limit = None if self.robust is None else check_positive(self.robust, "robust") / unit
        encoder = (
            Divergence(working) if self._is_divergence() else LeastSquares(working, None, limit)
        )
        self.label_weights_ = row_lengths(working)
        self._fitted = Fitted(working, unit, encoder, self.label_weights_)
        self._imputer, self.shrinkage_ = Imputer(), 0.0
        self.components_ = self.profiles_ = H

    def _name_components(self, names: Any) -> None:
        self.component_names_ = np.asarray(names).astype(str).astype(object)

    def _is_divergence(self) -> bool:
        """Whether the loss is the Kullback-Leibler divergence; refuses a loss that is not known."""
        return False

    def transform(
        self,
        X: Any,
        *,
        weights: Any = None,
        l1: float = 0.0,
        at_most: int | None = None,
        selection: str = "forward",
        least_gain: float = 0.0,
    ) -> AnyArray:
        """Encodings of samples, known or new: the non-negative least-squares solution over the
        components; if asked for, over few of them.

        Parameters
        ----------
        X : (n_samples, n_features) array, sparse array or data frame
        weights : (n_samples, n_features) array or sparse array, optional
            How much each entry counts, as in `fit`. Missing entries and weights cannot be combined
            with the choice of few components.
        l1 : float
            Price of a component, at least 0 and below 1: the sum of the encoding, each entry times
            the length of its component, is added to half the squared error, times ``l1`` times the
            smallest price at which nothing would be left of the sample. It shrinks all entries, and
            the small ones to zero.
        at_most : int, optional
            Most components of a sample.
        selection : {"forward", "backward"}
            How components are chosen with ``at_most`` and ``least_gain``. "forward" begins with
            none, and adds the component that lowers the error most. "backward" begins with the best
            encoding over all components, and takes away the one whose loss raises the error least.
            After each step the encoding is the best one over the components that are left.
        least_gain : float
            What a component must lower the squared error by, as a share of the squared length of
            the sample.

        Returns
        -------
        (n_samples, n_components) array
        """
        if not _is_number(l1, 1.0):
            raise InvalidInputError(f"l1 must be a number of at least 0 and below 1; got {l1!r}.")
        if not _is_number(least_gain, 1.0):
            raise InvalidInputError(
                f"least_gain must be a number of at least 0 and below 1; got {least_gain!r}."
            )
        if selection not in SELECTIONS:
            raise InvalidInputError(
                f"selection must be one of {', '.join(SELECTIONS)}; got {selection!r}."
            )
        most = None if at_most is None else check_count(at_most, "at_most")
        if not l1 and most is None and not least_gain:
            return super().transform(X, weights=weights)
        self._check_squares("l1, at_most and least_gain are")
        table = self._complete_table(X, "transform with l1, at_most or least_gain", weights)
        H = self._fitted.components
        working = self._fitted.working(table)[0]
        if working is None:
            return np.zeros((table.shape[0], len(H)), table.dtype)
        codes = refit(working, H, l1=l1, most=most, selection=selection, least_gain=least_gain)
        return in_dtype(codes, table.dtype)

    @available_if(_is_over_features)  # type: ignore[untyped-decorator]
    def score_samples(self, X: Any) -> FloatArray:
        """Minus the distance of each sample from the cone of the components, as a share of its
        length: 0 for a mixture of them, down to -1.

        A sample far from the cone needs a component that the model does not have. How far noise
        alone puts samples is best read off samples that are known to be complete. A sample of zeros
        belongs to every cone.
        """
        U, Y, _ = self._units(X)
        G = gram(U)
        return -distances(U, Y, nearest(U, Y, G))

    def witness_samples(self, X: Any) -> FloatArray:
        """Each sample minus the nearest mixture of components, (n_samples, n_features), in the
        units of ``X``.

        The vector g separates the sample x from the cone (Moreau): ``g . x = |g|^2``, while
        ``g . h <= 0`` for every component h. Its positive entries are what the missing component
        would have to bring.
        """
        U, Y, lengths = self._units(X)
        return witnesses(U, Y, gram(U)) * lengths[:, None]

    def component_range(self) -> Ranges:
        """All components that fit equally well, for a model of two or three: the fit
        ``embedding_ @ components_`` does not change.

        The cone of the components must hold the data and lie in the non-negative orthant; what lies
        between is listed exactly (`conecollapse.factorization.nmf.feasible`; for three components
        up to 720 directions). `plots.component_range` draws it. Held components and entries
        (``fixed_components``, ``fixed_entries``) are treated like the others.

        Returns
        -------
        named tuple
            ``low`` and ``high``, (n_components, n_features): the smallest and the largest value
            that each entry can have, for components with the sums of `components_`. ``regions``,
            ``outer``, ``inner`` and ``points`` are outlines in the plane of components whose sum is
            one: of the range of each component, of what is non-negative, of the data, and the
            components themselves.

        Examples
        --------
        >>> import numpy as np
        >>> from conecollapse import HierarchicalNMF
        >>> share = np.linspace(0.2, 0.8, 7)[:, None]
        >>> X = share * [3.0, 1.0, 0.0] + (1 - share) * [
        ...     0.0,
        ...     1.0,
        ...     3.0,
        ... ]  # the purest samples hold a fifth of the other component
        >>> found = HierarchicalNMF(2, tol=1e-12, max_iter=5000).fit(X).component_range()
        >>> (
        ...     (found.low / found.low.sum(axis=1, keepdims=True)).shape,
        ...     bool((found.low <= found.high).all()),
        ... )
        ((2, 3), True)
        """
        check_is_fitted(self)
        if self._fitted.source.is_graph:
            raise InvalidInputError(
                "the components of a graph are over samples; component_range needs a model without"
                " affinity."
            )
        if not hasattr(self, "embedding_"):
            raise InvalidInputError(
                "this model was made from a catalogue and knows no samples; component_range needs"
                " one that was fitted."
            )
        W, H = (np.asarray(part, np.float64) for part in (self.embedding_, self.components_))
        r = len(H)
        if r not in (2, 3):
            raise InvalidInputError(
                f"component_range is for two or three components, and this model has {r}; bootstrap"
                " is for any number."
            )
        for part, name in ((W, "encodings"), (H, "components")):
            values = np.linalg.svd(
                part / max(float(part.max()), np.finfo(float).tiny), compute_uv=False
            )
            if len(values) < r or values[-1] <= RANK * values[0]:
                raise InvalidInputError(
                    f"the {name} of this model have a rank below {r}, so that there is no range;"
                    " ask for fewer components."
                )
        return ranges(W, H)

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Names of the components: those of the catalogue, or the name of the class with a
        number."""
        check_is_fitted(self)
        # `fit` finds components of its own
        if hasattr(self, "component_names_") and not hasattr(self, "labels_"):
            return np.asarray(self.component_names_)
        return np.asarray(super().get_feature_names_out(input_features))

    def _units(self, X: Any) -> tuple[Points, Points, FloatArray]:
        """Components and samples with unit length, and the lengths of the samples."""
        check_is_fitted(self)
        if self._fitted.source.is_graph:
            raise InvalidInputError(NO_DISTANCE)
        table = self._complete_table(X, "the distance of a sample from the components")
        warn_of_samples(
            ~table.filled, "such a sample belongs to every cone, so its distance is 0", self
        )
        Y, lengths = unit_rows(table.array)
        return unit_rows(self._fitted.components)[0], Y, lengths

    def _complete_table(self, X: Any, what: str, weights: Any = None) -> Table:
        """``X`` for work that needs all of it; ``what`` names that in a message."""
        if weights is not None:
            raise InvalidInputError(f"{what} takes no weights; leave them out.")
        table = self._check_table(X, None, reset=False)
        if not table.is_complete:
            row, column = np.argwhere(~table.known_entries()[1])[0]
            raise InvalidInputError(
                f"{what} needs every entry of X, and that at row {row}, column {column} is missing;"
                " call `impute` first, or drop the sample or the feature."
            )
        return table

    def _check_squares(self, what: str) -> None:
        check_is_fitted(self)
        if self._fitted.source.is_graph:
            raise InvalidInputError(
                f"{what} for components over features, not over a graph of samples."
            )
        if self._is_divergence():
            raise InvalidInputError(
                f"{what} for the squared error; make the model with loss='frobenius'."
            )

    def _summary(self) -> dict[str, str]:
        if not hasattr(self, "labels_"):
            return {"components": f"{len(self.components_)}, given"}
        return super()._summary()


def _is_number(value: Any, below: float) -> bool:
    return (
        isinstance(value, (int, float, np.number))
        and not isinstance(value, bool)
        and bool(0 <= value < below)
    )
