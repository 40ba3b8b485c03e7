"""What is known of the clusters beforehand: labels of some samples, pairs that belong together,
pairs that do not.

Pairs that belong together are transitive: with (a, b) and (b, c) all three form one *group*, which
has one cluster. A label of one member is a label of the group. Two groups that are kept apart never
have the same cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph as csgraph

from conecollapse._errors import InvalidInputError
from conecollapse._types import AnyArray, IntArray

UNKNOWN = -1


@dataclass(frozen=True)
class Constraints:
    """Labels 0, 1, ... of samples, `UNKNOWN` where there is none, and pairs of samples; made and
    checked by `constrained`."""

    labels: IntArray  # (n_samples,) those of a group reach all its members
    must: IntArray  # (., 2)
    cannot: IntArray  # (., 2)
    group: IntArray  # (n_samples,) number of each sample's group

    @property
    def n_classes(self) -> int:
        """Number of classes that are named."""
        return int(self.labels.max(initial=UNKNOWN)) + 1

    @property
    def is_partial(self) -> bool:
        """Whether there is more than labels of all samples."""
        return bool((self.labels == UNKNOWN).any()) or len(self.must) + len(self.cannot) > 0

    @cached_property
    def group_labels(self) -> IntArray:
        """The label of each group."""
        found = np.full(int(self.group.max()) + 1, UNKNOWN)
        found[self.group] = self.labels
        return found

    @cached_property
    def members(self) -> sp.csr_array:
        """A row for each group, with ones for its samples."""
        n = len(self.group)
        return sp.csr_array(
            (np.ones(n), (self.group, np.arange(n))), shape=(len(self.group_labels), n)
        )

    @cached_property
    def apart(self) -> dict[int, IntArray]:
        """For each group that is kept apart from others, and has no label, these others."""
        ends = self.group[self.cannot]
        both = np.concatenate([ends, ends[:, ::-1]])
        both = np.unique(both[self.group_labels[both[:, 0]] == UNKNOWN], axis=0)
        return {int(g): both[both[:, 0] == g, 1] for g in np.unique(both[:, 0])}

    def merged(self, group: IntArray) -> Constraints:
        """Of sets of identical samples, ``group`` being the set of each sample; a set has the label
        that most of its samples have."""
        n = int(group.max()) + 1
        known = self.labels != UNKNOWN
        votes = sp.csr_array(
            (np.ones(known.sum()), (group[known], self.labels[known])),
            shape=(n, max(self.n_classes, 1)),
        ).toarray()
        labels = np.where(votes.any(axis=1), votes.argmax(axis=1), UNKNOWN)
        cannot = group[self.cannot]
        same = np.flatnonzero(cannot[:, 0] == cannot[:, 1])
        if len(same):
            i, j = self.cannot[same[0]]
            raise InvalidInputError(
                f"cannot_link keeps samples {i} and {j} apart, but they are identical; drop this"
                " pair."
            )
        return constrained(labels, group[self.must], cannot)

    def of(self, kept: IntArray) -> Constraints:
        """Of these samples alone; pairs with others are dropped, but what they imply for these
        stays."""
        place = np.full(len(self.labels), UNKNOWN)
        place[kept] = np.arange(len(kept))
        first = np.full(len(self.group_labels), UNKNOWN)  # a kept member of each group
        first[self.group[kept[::-1]]] = np.arange(len(kept))[::-1]
        must = np.stack([first[self.group[kept]], np.arange(len(kept))], axis=1)
        cannot = first[self.group[self.cannot]]
        return constrained(
            self.labels[kept], must[must[:, 0] != must[:, 1]], cannot[(cannot >= 0).all(axis=1)]
        )


def constrained(
    labels: IntArray, must: Any = (), cannot: Any = (), names: AnyArray | None = None
) -> Constraints:
    """The constraints that follow from labels and pairs; refused where they contradict each other.
    ``names`` are those of the classes.

    Examples
    --------
    >>> constrained([0, -1, -1, 1], must=[(0, 1), (1, 2)]).labels
    array([0, 0, 0, 1])
    """
    labels = np.array(labels, np.int64)
    must, cannot = (np.asarray(pairs, np.int64).reshape(-1, 2) for pairs in (must, cannot))
    n = len(labels)
    _, group = csgraph.connected_components(
        sp.csr_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(n, n)), directed=False
    )
    known = np.flatnonzero(labels != UNKNOWN)
    # the first labelled sample of each group
    first = np.full(int(group.max(initial=-1)) + 1, UNKNOWN)
    first[group[known[::-1]]] = known[::-1]
    other = known[labels[known] != labels[first[group[known]]]]
    if len(other):
        i, j = int(first[group[other[0]]]), int(other[0])
        a, b = ((labels if names is None else names[labels])[k] for k in (i, j))
        raise InvalidInputError(
            f"must_link puts samples {i} and {j} into one cluster, but y gives them the labels"
            f" {a!s} and {b!s}; drop the pair or a label."
        )
    labels = np.where(first[group] == UNKNOWN, UNKNOWN, labels[first[group]])
    _check_apart(labels, must, cannot, group)
    return Constraints(labels, must, cannot, group.astype(np.int64))


def _check_apart(labels: IntArray, must: IntArray, cannot: IntArray, group: IntArray) -> None:
    for i, j in cannot[group[cannot[:, 0]] == group[cannot[:, 1]]][:1]:
        if i == j:
            raise InvalidInputError(
                f"cannot_link keeps sample {i} apart from itself; drop this pair."
            )
        if ((must == (i, j)) | (must == (j, i))).all(axis=1).any():
            raise InvalidInputError(
                f"samples {i} and {j} are in must_link and in cannot_link; drop one of the two"
                " pairs."
            )
        raise InvalidInputError(
            f"cannot_link keeps samples {i} and {j} apart, but must_link joins them in several"
            " steps; drop one of these pairs."
        )
    ends = labels[cannot]
    for i, j in cannot[(ends[:, 0] == ends[:, 1]) & (ends[:, 0] != UNKNOWN)][:1]:
        raise InvalidInputError(
            f"cannot_link keeps samples {i} and {j} apart, but y gives them the same label; drop"
            " the pair or a label."
        )
