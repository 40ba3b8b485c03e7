"""What a parser returns, and what `load` makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from conecollapse._types import IntArray, Points, TableSizes


@dataclass(frozen=True, eq=False)
class Parsed:
    """The content of a set's files, in our orientation: samples in rows, counts of words not
    weighted."""

    X: Points
    y: IntArray
    feature_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None

    def check(self) -> None:
        """Raise ValueError, saying what does not fit, unless this is a non-negative table with a
        label for each sample."""
        n_samples, n_features = self.X.shape
        if not n_samples or not n_features:
            raise ValueError(f"it holds {n_samples} samples and {n_features} features")
        if self.y.shape != (n_samples,):
            raise ValueError(f"it has {n_samples} samples but {self.y.size} labels")
        if self.y.dtype.kind not in "iu" or self.y.min() < 0:
            raise ValueError("its labels are not integers from 0")
        if self.target_names is not None and self.y.max() >= len(self.target_names):
            raise ValueError(
                f"it has a label {self.y.max()} but names for {len(self.target_names)} classes"
            )
        if self.feature_names is not None and len(self.feature_names) != n_features:
            raise ValueError(
                f"it has {n_features} features but names for {len(self.feature_names)}"
            )
        values = self.X.data if sp.issparse(self.X) else self.X
        if not np.isfinite(values).all() or values.min(initial=0.0) < 0:
            raise ValueError("it has an entry that is not a non-negative number")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(TableSizes):
    """A labelled non-negative table, and where it comes from.

    Attributes
    ----------
    name, domain : str
        The paper's name ("AMLALL") and domain ("gene", "medical", "text" or "image").
    X : (n_samples, n_features) array or CSR array of float64
        Sparse for text, dense for all else.
    y : (n_samples,) array of int64
        Classes, counted from 0.
    feature_names, target_names : tuple of str, or None
        Names of the columns of X and of the classes, where they are known.
    image_shape : (height, width), or None
        ``X[i].reshape(image_shape)`` is image i.
    weighting : "tfidf", "counts" or None
        How words are weighted; None for all that is not text.
    source : str
        Where this copy was found.
    differs : str
        How it differs from the paper's; empty when it does not, as far as is known.
    citation, licence : str
    paper_purity : mapping of method to purity
        The set's row of the paper's Table 2; empty for sets that are not in it.
    """

    name: str
    domain: str
    X: Points
    y: IntArray
    feature_names: tuple[str, ...] | None
    target_names: tuple[str, ...] | None
    image_shape: tuple[int, int] | None
    weighting: str | None
    source: str
    differs: str
    citation: str
    licence: str
    paper_purity: Mapping[str, float] = field(default_factory=dict)

    @property
    def n_classes(self) -> int:
        """Number of classes that occur."""
        return len(np.unique(self.y))

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name}: {self.n_samples} samples, {self.n_features} features,"
            f" {self.n_classes} classes, {self.domain})"
        )


def encode(labels: Iterable[str], classes: Sequence[str]) -> IntArray:
    """The place of each label in ``classes``; ValueError names a label that has none."""
    place = {name: index for index, name in enumerate(classes)}
    try:
        return np.array([place[label] for label in labels], dtype=np.int64)
    except KeyError as error:
        raise ValueError(
            f"it has a label {error.args[0]!r}, which is none of {', '.join(classes)}"
        ) from error


def from_zero(labels: IntArray) -> IntArray:
    """Numbered classes renumbered 0, 1, ... in their order."""
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64)
