"""Labels and pairs of samples that `fit` takes: read, checked, and given back as entries of
``classes_``."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from conecollapse._errors import InvalidInputError, argument
from conecollapse._types import AnyArray, BoolArray, IntArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.estimators._prepared import outside
from conecollapse.factorization.orthogonal.constraints import UNKNOWN, Constraints, constrained

_has_warned = False  # in this process, of a y that labels every sample
MARKS = ("", "-1")  # strings that mean unknown; arrays of strings turn -1 into the second


@dataclass(frozen=True)
class Names:
    """What clusters are called: the classes first, then clusters that no label names."""

    classes: AnyArray  # sorted
    clusters: AnyArray  # (r,) begins with the classes

    @classmethod
    def of(cls, classes: AnyArray, r: int) -> Names:
        """Further clusters are called by the whole numbers after the largest class, or "cluster 4",
        "cluster 5", ... beside strings; names of classes, and -1, which means no cluster, are left
        out.
        """
        count, taken = r - len(classes), set(classes.tolist())
        if classes.dtype.kind in "if":
            is_int, last = classes.dtype.kind == "i", int(classes.max())
            # of whole numbers that it can hold
            limit = (
                np.iinfo(classes.dtype).max if is_int else 2 ** (np.finfo(classes.dtype).nmant + 1)
            )
            candidates: Iterator[Any] = itertools.count(last + 1 if last + count <= limit else 0)
        else:
            candidates = (f"cluster {number}" for number in itertools.count(len(classes) + 1))
        extra = list(
            itertools.islice(
                (name for name in candidates if name not in taken and name != NO_CLUSTER), count
            )
        )
        more = np.array(extra, classes.dtype if classes.dtype.kind in "ifO" else np.str_)
        return cls(classes, np.concatenate([classes, more]) if count else classes)

    @property
    def none(self) -> int | str:
        """What a sample without a cluster gets: -1, or an empty string beside strings."""
        return NO_CLUSTER if self.classes.dtype.kind in "if" else ""

    def __call__(self, labels: IntArray) -> AnyArray:
        """Numbers of clusters as names."""
        named = self.clusters[np.maximum(labels, 0)]
        return np.asarray(
            np.where(labels == NO_CLUSTER, np.array(self.none, self.clusters.dtype), named)
        )


class KnownLabels(NamedTuple):
    """What labels and pairs of samples say; None where nothing is known."""

    constraints: Constraints | None = None
    names: Names | None = None


NOTHING_KNOWN = KnownLabels()


def read_constraints(
    y: Any, must_link: Any, cannot_link: Any, filled: BoolArray, r: int, unlabeled: Any = UNKNOWN
) -> KnownLabels:
    """What labels and pairs say; ``filled`` says which samples are not all zero.

    With one component all samples have the same cluster, whatever y says, so it only has to have
    the right length.
    """
    n = len(filled)
    known = read_labels(y, n, unlabeled)
    if known is not None and (r == 1 or _is_for_others(*known, r)):
        known = None
    pairs = (
        read_pairs(must_link, "must_link", filled),
        read_pairs(cannot_link, "cannot_link", filled),
    )
    if known is None:
        return (
            KnownLabels(constrained(np.full(n, UNKNOWN), *pairs))
            if any(map(len, pairs))
            else NOTHING_KNOWN
        )
    _check_classes(*known, filled, r)
    return KnownLabels(constrained(known[0], *pairs, known[1]), Names.of(known[1], r))


def _is_for_others(labels: IntArray, classes: AnyArray, r: int) -> bool:
    """Whether y labels every sample with more classes than there are clusters: what a pipeline
    hands to all its steps. The first fit of a process warns: a search fits many models to the same
    y."""
    global _has_warned
    if (labels == UNKNOWN).any() or len(classes) <= r:
        return False
    if not _has_warned:
        warnings.warn(
            f"y labels every sample, with {len(classes)} classes, more than n_components = {r}, so"
            " it is ignored, here and in later fits: it seems to be meant for another step of a"
            f" pipeline. To use it, set {argument('n_components', len(classes))} or more.",
            stacklevel=outside(),
        )
        _has_warned = True
    return True


def _check_classes(labels: IntArray, classes: AnyArray, filled: BoolArray, r: int) -> None:
    if len(classes) == 1:
        raise InvalidInputError(
            f"y names only one class, {classes[0]!s}; label samples of at least two classes, or"
            " leave y out."
        )
    if len(classes) > r:
        raise InvalidInputError(
            f"y names {len(classes)} classes, more than n_components = {r}; set"
            f" n_components={len(classes)} or more."
        )
    lost = np.setdiff1d(np.arange(len(classes)), labels[filled & (labels != UNKNOWN)])
    if len(lost):
        raise InvalidInputError(
            f"all samples labelled {classes[lost[0]]!s} are zero everywhere; label another sample"
            " of this class."
        )


def read_labels(y: Any, n: int, unlabeled: Any = UNKNOWN) -> tuple[IntArray, AnyArray] | None:
    """Numbers of classes, `UNKNOWN` where there is none, and the classes; None if no label is
    known.

    Unknown are None, NaN, -1 and ``unlabeled``, among strings also "" and "-1". Truth values are
    the classes 0 and 1. Numbers that are not whole are no labels but the target of a regression,
    which a pipeline passes on to all its steps.

    Examples
    --------
    >>> read_labels(["b", None, "a", ""], 4)
    (array([ 1, -1,  0, -1]), array(['a', 'b'], dtype=object))
    >>> read_labels(["b", "none", "a"], 3, "none")[0]
    array([ 1, -1,  0])
    >>> read_labels([7, None, 5], 3)
    (array([ 1, -1,  0]), array([5, 7]))
    >>> read_labels([-1, -1], 2) is None
    True
    """
    if not (unlabeled is None or isinstance(unlabeled, (str, Real))):
        raise InvalidInputError(f"unlabeled must be a word or a number; got {unlabeled!r}.")
    if y is None:
        return None
    values = _as_vector(y, n).tolist()
    known = [i for i, value in enumerate(values) if _is_known(value) and value != unlabeled]
    if not known:
        return None
    given = np.array([values[i] for i in known], object)
    if all(isinstance(value, Real) for value in given):
        _check_size(given.tolist(), known)
        given = np.array(given.tolist())
        if given.dtype.kind == "f" and (given % 1 != 0).any():
            return None
        given = given.astype(np.int64)
    try:
        classes, numbers = np.unique(given, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in given})
        raise InvalidInputError(
            f"y mixes labels of the types {', '.join(kinds)}; use one type."
        ) from None
    labels = np.full(n, UNKNOWN)
    labels[known] = numbers.ravel()
    return labels, classes


def _check_size(numbers: list[Any], samples: list[int]) -> None:
    """Refuse labels that int64 cannot hold."""
    for number, sample in zip(numbers, samples, strict=True):
        if not -(2**63) <= number < 2**63:
            raise InvalidInputError(
                f"y has the label {number} for sample {sample}; use smaller numbers, or -1 if it is"
                " unknown."
            )


def _as_vector(y: Any, n: int) -> AnyArray:
    """One entry for each of n samples."""
    # of pandas, which turns whole numbers into floats
    is_nullable = hasattr(getattr(y, "dtype", None), "na_value")
    # of which NumPy would make strings, "nan" for NaN, if one of them is
    has_text = isinstance(y, (list, tuple)) and any(isinstance(value, str) for value in y)
    values = np.asarray(y, object) if is_nullable or has_text else np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise InvalidInputError(f"y has shape {values.shape}; give one label for each sample.")
    if len(values) != n:
        raise InvalidInputError(
            f"y has {len(values)} labels for {n} samples; give one for each, -1 where it is"
            " unknown."
        )
    return values


def _is_known(value: Any) -> bool:
    if isinstance(value, str):
        return value not in MARKS
    return (
        value is not None
        and type(value).__name__ != "NAType"
        and value == value
        and value != UNKNOWN
    )


def read_pairs(pairs: Any, name: str, filled: BoolArray) -> IntArray:
    """Pairs of samples as an array with two columns; ``filled`` says which samples are not all
    zero."""
    if pairs is None:
        return np.zeros((0, 2), np.int64)
    try:
        found = np.asarray(
            pairs if hasattr(pairs, "__array__") else [tuple(pair) for pair in pairs]
        )
    except (TypeError, ValueError):  # not pairs, or not all of one length
        found = np.zeros(1)
    if found.size == 0 and found.ndim <= 2:
        return np.zeros((0, 2), np.int64)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} must be a list of pairs of sample numbers, as [(0, 3), (2, 5)]; got"
            f" {pairs!r:.60}."
        )
    n = len(filled)
    for i, j in np.argwhere((found < 0) | (found >= n))[:1]:
        raise InvalidInputError(
            f"{name} has sample {found[i, j]} in pair {i}, but the samples are numbered from 0 to"
            f" {n - 1}."
        )
    for i, j in np.argwhere(~filled[found])[:1]:
        raise InvalidInputError(
            f"{name} has sample {found[i, j]} in pair {i}, which holds only zeros and has no"
            " cluster; drop the pair."
        )
    return found.astype(np.int64)
