"""What a factorization solves, what its one call returns, and what a fit leaves behind: components
in the working unit, and how samples, known or new, are encoded, labelled, scored and explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conecollapse._checks import as_matrix, check_count, check_finite
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import SAME
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.affinity import Source
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._labels import Names
from conecollapse.estimators._prepared import Prepared, feature_names_of, in_dtype
from conecollapse.factorization.initial_factors import automatic_start, is_components, is_pair
from conecollapse.factorization.nmf.encoders import Encoder
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.row_solver import solve
from conecollapse.factorization.orthogonal.constraints import Constraints
from conecollapse.factorization.result import Factorization
from conecollapse.geometry.nearest import NOTHING
from conecollapse.tables import Table

SAMPLES = Source(None)  # samples are rows of the table itself
TOO_LARGE = "X is so much larger than the samples of `fit` that"


@dataclass(frozen=True)
class Fitted:
    """A fitted model."""

    components: AnyArray  # H over the working table: X / unit, or a graph of its samples
    unit: float
    encoder: Encoder
    label_weights: AnyArray | None = None  # (r,): what makes the columns of encodings comparable
    source: Source = SAMPLES  # how samples become rows of what was factorized
    skips_empty: bool = False  # whether samples of zeros have no row there
    code_unit: float = 1.0  # by which encodings are multiplied for the user, and components are not
    is_encoding: bool = True  # whether `embedding_` is what `encode` gives for the samples of `fit`
    names: Names | None = None  # of clusters, where there were labels
    fixed: Fixed | None = None
    weighted_by: str = ""  # what made entries count differently in `fit`, for messages
    order: IntArray | None = None  # of what the encoder gives; None: that of the components

    def working(self, X: Table) -> tuple[Table | None, BoolArray]:
        """Checked samples in the unit of the fit, and which of them are not all zero; None if there
        are none."""
        filled = X.filled
        if not filled.any():
            return None, filled
        with np.errstate(over="ignore"):
            table = X.divided(self.unit)
        if not np.isfinite(table.peak):
            raise InvalidInputError(
                f"{TOO_LARGE}, in their unit, it leaves the range of floating point."
            )
        drops = self.skips_empty and not filled.all()
        return table.rows(np.flatnonzero(filled)) if drops else table, filled

    def encode(self, X: Table) -> AnyArray:
        """The encodings of checked samples; zeros for samples of zeros."""
        table, filled = self.working(X)
        codes = np.zeros((X.shape[0], len(self.components)))
        if table is not None:
            rows = self.encoder(self.source.place(table))
            rows = rows if self.order is None else rows[:, self.order]
            codes[filled if len(rows) == filled.sum() else slice(None)] = rows
        if not np.isfinite(codes).all():
            raise InvalidInputError(f"{TOO_LARGE} its encodings leave the range of floating point.")
        return codes * self.code_unit if self.code_unit != 1 else codes

    def predict(self, X: Table) -> AnyArray:
        """The component with the largest weighted encoding of each checked sample, by name."""
        return self.name(labels_of(self.encode(X), self.label_weights))

    def model(self, X: Table) -> FloatArray:
        """All entries of checked samples by the model."""
        codes = self.encode(X).astype(np.float64)
        return np.asarray(codes @ self.components) * (self.unit / self.code_unit)

    def name(self, labels: IntArray) -> AnyArray:
        """Numbers of components as `labels_` and `predict` have them."""
        return labels if self.names is None else self.names(labels)

    @property
    def no_cluster(self) -> int | str:
        """The label of a sample without a cluster."""
        return NO_CLUSTER if self.names is None else self.names.none

    def score(self, X: Table) -> float:
        """Share of the squares of checked samples that the components explain, over known entries
        and with their weights; 1 for samples of zeros."""
        table, _ = self.working(X)
        if table is None:
            return 1.0
        rows = self.source.place(table)
        equations, norm2 = rows.row_equations(self.components), rows.squared_norm
        return 1.0 - equations.error(norm2, solve(equations)) / norm2 if norm2 > 0 else 1.0


def labels_of(codes: AnyArray, weights: AnyArray | None = None) -> IntArray:
    """The column with the largest entry of each row, times its weight; of equal ones the first, and
    -1 for a row of zeros."""
    shares = codes if weights is None else codes * weights
    nearly = (1 - SAME) * shares.max(axis=1, keepdims=True)
    labels: IntArray = (shares >= nearly).argmax(axis=1).astype(np.int64)
    labels[~codes.any(axis=1)] = NO_CLUSTER
    return labels


def decode(codes: Any, components: AnyArray, *, lowest: float | None) -> AnyArray:
    """``codes @ components`` for checked encodings, which may not be below ``lowest``."""
    codes = as_matrix(codes, "X")
    check_finite(codes, "X")
    if lowest is not None and codes.min() < lowest:
        raise InvalidInputError(f"X has {codes.min():.6g}; encodings must be >= {lowest:g}.")
    if codes.shape[1] != len(components):
        raise InvalidInputError(
            f"X has {codes.shape[1]} columns; expected {len(components)}, one for each component."
        )
    samples = np.asarray(codes.astype(np.float64) @ components)
    return in_dtype(samples, np.result_type(codes, components))


class NovelFeature(NamedTuple):
    """A feature in which a sample differs from the nearest mixture: of trusted samples, or of the
    components of a model."""

    column: int
    name: str
    amount: float  # the sample's value minus that of the mixture, in the units of the data
    share: float  # of the squared distance


def leading_features(
    witnesses: FloatArray, names: AnyArray, count: int
) -> list[list[NovelFeature]]:
    """For each witness its largest entries, the largest first; none for a witness of zeros."""
    explained = []
    for g in witnesses:
        squares = np.square(g / max(float(np.abs(g).max()), np.finfo(float).tiny))
        top = [int(j) for j in np.argsort(-squares, kind="stable")[:count] if squares[j] > NOTHING]
        explained.append(
            [
                NovelFeature(j, str(names[j]), float(g[j]), float(squares[j] / squares.sum()))
                for j in top
            ]
        )
    return explained


@dataclass(frozen=True)
class Problem:
    """The table that is factorized: X in its working unit, or a graph of its samples."""

    data: Prepared
    source: Source
    kept: IntArray | None = None  # the samples of a graph; None where all samples take part
    constraints: Constraints | None = None  # of the samples that take part: labels and pairs
    known_labels: IntArray | None = None  # of all samples
    names: Names | None = None  # of clusters, where there are labels

    @property
    def table(self) -> Table:
        assert self.source.table is not None
        return self.source.table

    def among_all(self, columns: AnyArray) -> AnyArray:
        """Columns for the samples of the graph, with zeros for those that are left out of it."""
        n = self.data.n_samples
        if self.kept is None or len(self.kept) == n:
            return columns
        whole = np.zeros((len(columns), n), columns.dtype)
        whole[:, self.kept] = columns
        return whole

    def start(self, init: Any, r: int, *, codes_scale: bool = False) -> Any:
        """The argument ``init`` for this table: a pair (W, H) in its unit, and without the samples
        that are left out."""
        if isinstance(init, str):
            return automatic_start(init, self.table, r)
        if self.kept is None:
            if not is_pair(init) or self.data.unit == 1:
                return init
            W, H = (np.asarray(part) for part in init)
            return (W / self.data.unit, H) if codes_scale else (W, H / self.data.unit)
        return start_of_samples(init, self.kept, self.data.n_samples, columns=True)


@dataclass(frozen=True)
class Solution:
    """The factors of a `Problem`, and how further samples are encoded."""

    result: Factorization  # W as `embedding_` has it
    encoder: Encoder
    label_weights: AnyArray  # (r,): what makes the columns of W comparable
    is_encoding: bool = True  # whether W is what the encoder gives for the samples
    code_unit: float = 1.0  # by which W is multiplied for the user, and H is not
    n_first: int = 0  # components that keep their places before the others
    fixed: Fixed | None = None
    order: IntArray | None = None  # of the components; None: by the number of their samples
    own: Any = None  # what the estimator makes further attributes of


def start_of_samples(init: Any, kept: IntArray, n_samples: int, *, columns: bool = False) -> Any:
    """A start for these samples: factors or labels; H too has samples as ``columns`` on a graph.
    One of another shape is refused later."""
    if isinstance(init, str):
        return init

    def some(part: Any) -> Any:
        return part[kept] if part.ndim and part.shape[0] == n_samples else part

    if is_pair(init):
        W, H = (as_matrix(part, "init") for part in init)
        return some(W), some(H.T).T if columns else init[1]
    if is_components(init):
        return some(as_matrix(init, "init").T).T if columns else init
    return some(np.asarray(init))


class ExplainsSamples:
    """What an estimator with `witness_samples` says of samples outside its cone."""

    def witness_samples(self, X: Any) -> FloatArray:
        """Each sample minus the nearest point of the cone; zero for samples in the cone."""
        raise NotImplementedError

    def explain(self, X: Any, n_features: int = 5, names: Any = None) -> list[list[NovelFeature]]:
        """For each sample the features by which it leaves the cone, the most important first; none
        for samples in the cone.

        The amounts are the entries of `witness_samples`: positive where the sample has more than
        the nearest mixture, negative where it has less. ``names`` are those of the features; by
        default the names that the model knows.
        """
        count = check_count(n_features, "n_features")
        return leading_features(self.witness_samples(X), feature_names_of(self, names), count)
