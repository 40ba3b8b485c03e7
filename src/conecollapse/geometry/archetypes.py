r"""Archetypes (Cutler & Breiman 1994): mixtures of samples of which all samples are, nearly,
mixtures.

.. math:: \min_{A, B \ge 0,\ A 1 = 1,\ B 1 = 1}\ \|Q - A B Q\|^2

over samples Q of unit length. Each archetype is a row of B Q, in the convex hull of the samples, so
that one noisy sample matters less than where samples are chosen. Both factors are found in turn: A
by least squares over the simplex; B by projecting the best archetypes for A, of any sign, on the
hull of the samples. Alternation does not find the best archetypes in general; the best of all
rounds is kept.
"""

from __future__ import annotations

import numpy as np

from conecollapse._linalg import as_dense, unit_rows
from conecollapse._nnls import nnls
from conecollapse._types import FloatArray, Points
from conecollapse.geometry.spa import spa
from conecollapse.geometry.subspace import best_subspace

ROUNDS = 10
ENOUGH = 500  # samples that are looked at
EXTRA = 8  # dimensions beyond r in which distances are measured


def archetypes(points: Points, r: int) -> FloatArray | None:
    """``r`` archetypes as rows, of at most `ENOUGH` of the rows of ``points``, or None where these
    span fewer dimensions.

    >>> import numpy as np
    >>> corners = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> mixed = np.random.default_rng(0).dirichlet([0.4, 0.4, 0.4], 60) @ corners
    >>> bool(archetypes(mixed, 3).max(axis=0).min() > 0.9)
    True
    """
    n = points.shape[0]
    some = (
        points if n <= ENOUGH else points[np.sort(np.random.default_rng(0).permutation(n)[:ENOUGH])]
    )
    Q, lengths = unit_rows(some)
    Q = Q[lengths > 0]
    start = spa(Q, r, "length")
    if len(start) < r:
        return None
    Z = np.asarray(Q @ best_subspace(Q, min(r + EXTRA, *Q.shape)))
    B = np.eye(len(Z))[start]
    best, least = B, np.inf
    for _ in range(ROUNDS):
        A, distances = nnls((B @ Z).T, Z.T, simplex=True)
        error = float(np.square(distances).sum())
        if error >= least:
            break
        best, least = B, error
        wanted = np.linalg.lstsq(A.T, Z, rcond=None)[0]
        B = nnls(Z.T, wanted.T, simplex=True)[0].T
    return np.asarray(as_dense(best @ Q))
