"""What a fit leaves behind: components in the working unit of the fit, and how samples, known or
new, are encoded, labelled and scored over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._checks import as_matrix, check_finite
from conecollapse._errors import InvalidInputError
from conecollapse._linalg import SAME
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.affinity import Source
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._labels import Names
from conecollapse.estimators._prepared import in_dtype
from conecollapse.factorization.nmf.encoders import Encoder
from conecollapse.factorization.nmf.fixed import Fixed
from conecollapse.factorization.nmf.row_solver import solve
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
