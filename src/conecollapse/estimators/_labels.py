"""Labels and pairs of samples that `fit` takes: read, checked, and given back as entries of ``classes_``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, BoolArray, IntArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.factorization.constraints import UNKNOWN, Constraints, constrained

MARKS = ("", "-1")  # strings that mean unknown; arrays of strings turn -1 into the second


@dataclass(frozen=True)
class Names:
    """What clusters are called: the classes first, then clusters that no label names."""

    classes: AnyArray  # sorted
    clusters: AnyArray  # (r,) begins with the classes

    @classmethod
    def of(cls, classes: AnyArray, r: int) -> Names:
        """Further clusters are called by the whole numbers after the largest class, or "cluster 4", "cluster 5", ... beside strings."""
        count = r - len(classes)
        if classes.dtype.kind in "if":
            extra = [classes.max() + 1 + k for k in range(count)]
        else:
            taken, number, extra = set(classes.tolist()), len(classes), []
            while len(extra) < count:
                number += 1
                if f"cluster {number}" not in taken:
                    extra.append(f"cluster {number}")
        more = np.array(extra, classes.dtype if classes.dtype.kind in "ifO" else np.str_)
        return cls(classes, np.concatenate([classes, more]) if count else classes)

    def __call__(self, labels: IntArray) -> AnyArray:
        """Numbers of clusters as names; a sample without a cluster gets -1, or an empty string beside strings."""
        none = NO_CLUSTER if self.classes.dtype.kind in "if" else ""
        named = self.clusters[np.maximum(labels, 0)]
        return np.asarray(np.where(labels == NO_CLUSTER, np.array(none, self.clusters.dtype), named))


def read_constraints(y: Any, must_link: Any, cannot_link: Any, filled: BoolArray, r: int) -> tuple[Constraints | None, Names | None]:
    """What labels and pairs say; None where nothing is known. ``filled`` says which samples are not all zero.

    With one component all samples have the same cluster, whatever y says, so it only has to have the right length.
    """
    n = len(filled)
    known = read_labels(y, n)
    if known is not None and (r == 1 or _is_for_others(*known, r)):
        known = None
    pairs = [read_pairs(must_link, "must_link", n), read_pairs(cannot_link, "cannot_link", n)]
    if known is None and not any(map(len, pairs)):
        return None, None
    labels, classes = (np.full(n, UNKNOWN), None) if known is None else known
    if classes is not None:
        _check_classes(labels, classes, filled, r)
    found = constrained(labels, pairs[0], pairs[1], classes)
    return found, None if classes is None else Names.of(classes, r)


def _is_for_others(labels: IntArray, classes: AnyArray, r: int) -> bool:
    """Whether y labels every sample with more classes than there are clusters: what a pipeline hands to all its steps."""
    if (labels == UNKNOWN).any() or len(classes) <= r:
        return False
    warnings.warn(
        f"y labels every sample, with {len(classes)} classes, more than n_components = {r}, so it is ignored: it seems to be meant for "
        f"another step of a pipeline. To use it, set n_components={len(classes)} or more.",
        stacklevel=7,
    )
    return True


def _check_classes(labels: IntArray, classes: AnyArray, filled: BoolArray, r: int) -> None:
    if len(classes) == 1:
        raise InvalidInputError(f"y names only one class, {classes[0]!s}; label samples of at least two classes, or leave y out.")
    if len(classes) > r:
        raise InvalidInputError(f"y names {len(classes)} classes, more than n_components = {r}; set n_components={len(classes)} or more.")
    lost = np.setdiff1d(np.arange(len(classes)), labels[filled & (labels != UNKNOWN)])
    if len(lost):
        raise InvalidInputError(f"all samples labelled {classes[lost[0]]!s} are zero everywhere; label another sample of this class.")


def read_labels(y: Any, n: int) -> tuple[IntArray, AnyArray] | None:
    """Numbers of classes, `UNKNOWN` where there is none, and the classes; None if no label is known.

    Unknown are -1 and NaN among numbers, and None, NaN, "" and -1 among strings. Numbers that are not whole are no labels but the target
    of a regression, which a pipeline passes on to all its steps.

    Examples
    --------
    >>> read_labels(["b", None, "a", ""], 4)
    (array([ 1, -1,  0, -1]), array(['a', 'b'], dtype=object))
    >>> read_labels([-1, -1], 2) is None
    True
    """
    if y is None:
        return None
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InvalidInputError(f"y has shape {values.shape}; give one label for each sample.")
    if len(values) != n:
        raise InvalidInputError(f"y has {len(values)} labels for {n} samples; give one for each, -1 where it is unknown.")
    if values.dtype.kind in "bui":
        values = values.astype(np.int64)
        is_known = values != UNKNOWN
    elif values.dtype.kind == "f":
        is_known = ~np.isnan(values) & (values != UNKNOWN)
        if not np.isfinite(values[is_known]).all() or (values[is_known] % 1 != 0).any():
            return None
    else:
        is_known = np.array([_is_known(value) for value in values.tolist()], bool)
    if not is_known.any():
        return None
    try:
        classes, numbers = np.unique(values[is_known], return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values[is_known]})
        raise InvalidInputError(f"y mixes labels of the types {', '.join(kinds)}; use one type.") from None
    labels = np.full(n, UNKNOWN)
    labels[is_known] = numbers.ravel()
    return labels, classes


def _is_known(value: Any) -> bool:
    if isinstance(value, str):
        return value not in MARKS
    return value is not None and type(value).__name__ != "NAType" and value == value and value != UNKNOWN


def read_pairs(pairs: Any, name: str, n: int) -> IntArray:
    """Pairs of samples as an array with two columns."""
    if pairs is None:
        return np.zeros((0, 2), np.int64)
    try:
        found = np.asarray(pairs)
    except ValueError:
        found = np.zeros(0)
    if found.size == 0 and found.ndim <= 2:
        return np.zeros((0, 2), np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be a list of pairs of sample numbers, as [(0, 3), (2, 5)]; got {pairs!r:.60}.")
    outside = np.argwhere((found < 0) | (found >= n))
    if len(outside):
        i, j = outside[0]
        raise InvalidInputError(f"{name} has sample {found[i, j]} in pair {i}, but the samples are numbered from 0 to {n - 1}.")
    return found.astype(np.int64)
