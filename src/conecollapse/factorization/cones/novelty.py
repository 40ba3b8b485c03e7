"""How far samples lie from the cone of trusted ones, how noisy these are, and where a threshold is:
each trusted sample is judged by the cone of the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conecollapse._linalg import stack_rows
from conecollapse._types import FloatArray, IntArray, Points
from conecollapse.geometry.nearest import EXACT, NOTHING, Terms, distances, gram, nearest

CALIBRATION = 1000  # trusted samples that are judged by the others to find the threshold
MEASURED = 200  # trusted samples that are measured to estimate the noise
# quantile of their squared distances that counts: the other samples lie further away for better
# reasons than noise
FITTING = 0.25
COUNTED = 0.3  # share of that which is taken as noise; docs/novelty.md compares
MOST_NOISE = 0.98  # that is believed; where no two samples share anything, all of it would be noise


@dataclass(frozen=True)
class Trusted:
    """Trusted samples of unit length, one in each row, and their products."""

    samples: Points
    gram: Any
    seed: int  # of what is chosen among them

    @classmethod
    def of(cls, samples: Points, seed: int) -> Trusted:
        return cls(samples, gram(samples), seed)

    @property
    def count(self) -> int:
        return int(self.samples.shape[0])

    def joined(self, U: Points, terms: Terms, tol: float) -> Trusted:
        """With those of the samples U that are further than ``tol``."""
        new = U[np.flatnonzero(self.distances(U, terms) > tol)]
        if not new.shape[0]:
            return self
        samples = stack_rows(self.samples, new, like=self.samples)
        return replace(self, samples=samples, gram=gram(samples))

    def distances(self, U: Points, terms: Terms) -> FloatArray:
        """The distance of samples of unit length."""
        return distances(self.samples, U, nearest(self.samples, U, self.gram, terms), terms)

    def leave_one_out(self, rows: IntArray, terms: Terms) -> FloatArray:
        """The distances of these trusted samples from the cone of the others."""
        U = self.samples[rows]
        near = nearest(self.samples, U, self.gram, terms, rows)
        return distances(self.samples, U, near, terms)

    def estimate_noise(self) -> float:
        """The share of the squared length of a sample that is noise."""
        squares = self.leave_one_out(self._some(MEASURED), EXACT) ** 2
        left = min(float(np.quantile(squares, FITTING)), MOST_NOISE)
        ratio = COUNTED * left / (1 - left)  # of noise to the rest
        return ratio / (1 + ratio)

    def calibrate(self, terms: Terms) -> FloatArray:
        """Sorted distances of trusted samples from the cone of the others."""
        return np.sort(self.leave_one_out(self._some(CALIBRATION), terms))

    def _some(self, most: int) -> IntArray:
        """The numbers of ``most`` of them, chosen at random, where there are more."""
        if self.count <= most:
            return np.arange(self.count)
        return np.random.default_rng(self.seed).choice(self.count, most, replace=False)


def threshold(calibration: FloatArray, share: float, n_trusted: int, n_kept: int) -> float:
    """The distance that at most this share of ordinary samples exceeds; of ``n_trusted`` samples
    those that are not kept have no distance."""
    rank = np.ceil((1 - share) * (n_trusted + 1) - NOTHING) - (n_trusted - n_kept)
    place = int(np.ceil(rank / (n_kept + 1) * (len(calibration) + 1) - NOTHING))
    return 0.0 if place <= 0 else float(calibration[min(place, len(calibration)) - 1])
