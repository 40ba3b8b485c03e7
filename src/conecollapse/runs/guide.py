"""Known labels of some samples that guide a clustering.

They are the ``y`` of the fit, which keeps each of them. So none is overruled, but some may be
*doubted*: the mean of a cluster with another name explains more of the sample than the mean of its
own, by the shares of the run. These are worth a second look; not all of them are wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conecollapse._errors import CertificateError, InvalidInputError, argument, first_of, quoted
from conecollapse._types import AnyArray, BoolArray, FloatArray, IntArray
from conecollapse.clusters import NO_CLUSTER
from conecollapse.runs.run import Stored

LISTED = 12  # classes that a sentence names
UNLABELED = "unknown"  # the word for a sample without a label, unless another is given


@dataclass(frozen=True, eq=False)
class Guide:
    """``labels`` has a label for each sample, or the word ``unlabeled``."""

    labels: AnyArray
    unlabeled: str = UNLABELED

    @classmethod
    def of(cls, given: AnyArray, unlabeled: str, r: int | str) -> Guide:
        """Labels as text, refused unless they can guide a fit of r clusters."""
        from conecollapse.estimators._labels import MARKS

        guide = cls(np.where(np.isin(given, list(MARKS)), unlabeled, given), unlabeled)
        count = len(guide.counts)
        if count < 2 or (not isinstance(r, str) and count > r):
            limit = "two are needed" if count < 2 else f"there are {r} clusters"
            raise InvalidInputError(
                f"the labels that guide name {count} class{'' if count == 1 else 'es'}, but"
                f" {limit}; if {quoted(unlabeled)} is not the word for unknown, name it with"
                f" {argument('unlabeled', ...)}."
            )
        return guide

    @property
    def known(self) -> BoolArray:
        """Which samples have a label."""
        return np.asarray(self.labels != self.unlabeled)

    @property
    def counts(self) -> dict[str, int]:
        """How many labels each class has."""
        classes, counts = np.unique(self.labels[self.known], return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))

    @property
    def y(self) -> AnyArray:
        """The labels, "" for a sample without one, as `fit` takes them."""
        return np.where(self.known, self.labels, "")

    def names(self, r: int) -> AnyArray:
        """What r clusters are called: the classes, then those that no label names."""
        from conecollapse.estimators._labels import Names

        return Names.of(np.array(list(self.counts)[:r], dtype=np.str_), r).clusters

    def named(self, labels: IntArray, r: int) -> AnyArray:
        """The name of each sample: its own label, that of its cluster, or none."""
        found = np.where(labels == NO_CLUSTER, "", self.names(r)[labels])
        return np.where(self.known, self.labels, found)

    def doubted(self, labels: IntArray, shares: FloatArray) -> Iterator[tuple[int, int]]:
        """The samples whose label is doubted, each with the cluster that explains most of it."""
        nearest = shares.argmax(axis=1)
        is_doubted = self.known & (labels != NO_CLUSTER) & (nearest != labels) & shares.any(axis=1)
        return ((i, nearest[i]) for i in np.flatnonzero(is_doubted).tolist())

    def facts(self, labels: IntArray, shares: FloatArray) -> dict[str, Any]:
        """What guided, in numbers."""
        return {
            "classes": self.counts,
            "unlabeled": self.unlabeled,
            "names": self.names(shares.shape[1]).tolist(),
            "overruled": 0,
            "doubted": len(list(self.doubted(labels, shares))),
        }

    def arrays(self) -> dict[str, AnyArray]:
        """What factors.npz keeps."""
        return {"guide": self.labels, "unlabeled": np.array(self.unlabeled)}

    @classmethod
    def stored(cls, stored: Stored, n: int) -> Guide | None:
        """What factors.npz kept, if labels guided the run."""
        if "guide" not in stored.arrays:
            return None
        stored.check_arrays({"guide": ("U", (n,)), "unlabeled": ("U", ())})
        return cls(stored.arrays["guide"], str(stored.arrays["unlabeled"]))

    def check(self, labels: IntArray, r: int, samples: AnyArray) -> None:
        """Refuse a clustering in which a sample with a label is in a cluster of another name."""
        away = self.known & (labels != NO_CLUSTER) & (self.names(r)[labels] != self.labels)
        for i in np.flatnonzero(away)[:1]:
            raise CertificateError(
                f"the label {quoted(str(self.labels[i]))} of the sample {quoted(str(samples[i]))}"
                " guides, but the sample is in a cluster with another name."
            )


def guide_sentence(facts: Mapping[str, Any]) -> str:
    """What guided and what is doubted, for people; ``facts`` are those of `Guide.facts`."""
    each = [f"{name} {count}" for name, count in facts["classes"].items()]
    counts = first_of(each, LISTED, "more classes")
    total, doubted = sum(facts["classes"].values()), facts["doubted"]
    again = (
        f"{doubted} of them {'is' if doubted == 1 else 'are'} doubted (doubted.csv): the mean of"
        " another cluster explains more of the sample"
        if doubted
        else "the data speak against none of them"
    )
    return f"{total} labels guided the clusters ({counts}); all are kept, and {again}."
