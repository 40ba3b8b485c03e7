r"""A table in the coordinates of its leading singular vectors: what a mixture of few components
needs of it.

With the p leading right singular vectors as the columns of V, :math:`X \approx Z V^T`,
:math:`Z = X V`. For any W and H

.. math:: \|X - W H\|^2 \approx \|X\|^2 - \|Z\|^2 + \|Z V^T - W H\|^2 ,

so that an iteration costs p columns instead of all features.

*Noise.* What lies beyond the first r vectors is noise and mismatch of the model. What moves the
components is the part of it *inside* the subspace of the first r, which is not seen and must be
told from what is outside. Independent noise of variance :math:`\sigma^2` has :math:`n \sigma^2` in
each direction of the features, and :math:`\sigma^2` is the mean squared residual; its largest
squared singular value is about :math:`\sigma^2 (\sqrt{n} + \sqrt{m})^2`. Where the squared singular
values r + 1 to 2 r are larger than that, the residual has structure (variants of a material, light
that is reflected twice), and as much more is expected in each direction of the subspace:

.. math:: N = n \sigma^2 + \Bigl(\frac{1}{r} \sum_{k=r+1}^{2r} s_k^2 - \sigma^2 (\sqrt{n} +
   \sqrt{m})^2\Bigr)_+ .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._errors import InvalidInputError
from conecollapse._types import FloatArray, IntArray
from conecollapse.factorization.initial_factors import singular_vectors
from conecollapse.tables import Table

EXTRA = 8  # directions beyond 2 r that are kept
RANK = 1e-6  # singular values below this share of the first are rounding


@dataclass(frozen=True)
class Compressed:
    """``X ~ Z Vt`` with orthonormal rows of Vt; ``floor`` is the squared error of the best
    r-dimensional subspace."""

    Z: FloatArray  # (n_samples, p)
    Vt: FloatArray  # (p, n_features)
    norm2: float  # |X|^2
    floor: float  # |X|^2 without its r largest squared singular values
    noise: float  # N: expected squared noise in each direction of the r-dimensional subspace
    # squared singular values r + 1 to 2 r, in units of what independent noise would have; about 1
    # where it is that
    structure: float

    @property
    def lost(self) -> float:
        """Squared norm of what the compression leaves out."""
        return max(self.norm2 - float(np.square(self.Z).sum()), 0.0)

    def rows(self, indices: IntArray) -> Compressed:
        """A share of the samples, with the noise that falls to them."""
        share = len(indices) / len(self.Z)
        Z = self.Z[indices]
        lost = self.lost * share
        return Compressed(
            Z,
            self.Vt,
            float(np.square(Z).sum()) + lost,
            self.floor * share,
            self.noise * share,
            self.structure,
        )


def compressed(X: Table, r: int) -> Compressed:
    """``X`` in its leading singular vectors, or a refusal where its rank is below r."""
    n, m = X.shape
    p = min(2 * r + EXTRA, n, m)
    U, s, Vt = singular_vectors(X, p, np.random.default_rng(0))
    rank = int((s > RANK * s[0]).sum())
    if rank < r:
        what = (
            "all its samples have the same direction"
            if rank == 1
            else f"its samples span only {rank} dimensions"
        )
        raise InvalidInputError(
            f"n_components = {r}, but X has rank {rank}: {what}; ask for at most {rank}."
        )
    squares = np.square(s.astype(np.float64))
    norm2 = float(X.squared_norm)
    floor = max(norm2 - float(squares[:r].sum()), 0.0)
    variance = floor / (max(n - r, 1) * max(m - r, 1))
    edge = variance * (np.sqrt(n) + np.sqrt(m)) ** 2
    largest = float(squares[r : 2 * r].mean()) if p > r else 0.0
    return Compressed(
        Z=np.ascontiguousarray(U * s, np.float64),
        Vt=np.ascontiguousarray(Vt, np.float64),
        norm2=norm2,
        floor=floor,
        noise=n * variance + max(largest - edge, 0.0),
        structure=largest / edge if edge > 0 else 0.0,
    )
