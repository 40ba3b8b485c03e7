"""Coordinates in which a cone looks round.

Scaled to ``p.x = 1`` (here p = all ones, positive on every non-zero point) the points become
``q_i`` and the extreme rays of their cone become the vertices of ``conv{q_i}``. Vertices do not
change under affine maps, so we may centre and stretch as we like: ``z = T' (q - centre)``. In
whitened coordinates, with every principal axis divided by its standard deviation, a vertex is
usually the one point that goes furthest in its own direction, and one product ``z_i . z_j`` proves
it.

A functional ``a . q`` with ``a = T w`` has the value ``w . z + a . centre``, so what is found in
``z`` is carried back by ``T``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conecollapse._types import AnyArray, FloatArray

# relative to the largest; float64 does not resolve a covariance eigenvalue below it
NULL_VARIANCE = 1e-13
LIFT = 5.0  # the constant coordinate of lifted points, in units of the root mean square of |z|

# up to so many coordinates a product in float64 costs no more than what is made of it, and points
# on a smooth surface lead by less than float32 resolves
FEW_DIMENSIONS = 8


@dataclass(frozen=True)
class Frame:
    """The slice ``q = u / sums`` of unit points ``u`` and its round coordinates
    ``z = (q - centre) T``."""

    sums: FloatArray  # (m,) p.u of each unit point
    centre: FloatArray  # (n,)
    T: FloatArray  # (n, d), numbers that float32 holds
    # (d,) lengths of the columns of T, which are orthogonal, both to within float32
    scale: FloatArray
    # root mean square of |q - centre| relative to |q|: how many digits centring costs
    spread: float
    # (m, 1 + d): z after a constant, so that affine combinations of z are linear
    lifted: FloatArray
    rows: AnyArray  # (m, d), z as it is multiplied: in float32, or float64 in few dimensions

    @property
    def Z(self) -> FloatArray:
        return self.lifted[:, 1:]

    @classmethod
    def of(cls, U: FloatArray) -> Frame:
        """Frame of the unit rows ``U``, whitened."""
        m, n = U.shape
        sums = U @ np.ones(n)
        centre = (1 / sums) @ U / m
        Q = U / sums[:, None]
        Q -= centre
        if n <= m:
            variance, V = np.linalg.eigh(Q.T @ Q)
        else:  # the principal axes from the smaller product, Q Q' = W diag(variance) W'
            variance, W = np.linalg.eigh(Q @ Q.T)
        keep = variance > NULL_VARIANCE * max(variance[-1], 0.0)
        variance = variance[keep]
        V = V[:, keep] if n <= m else (Q.T @ W[:, keep]) / np.sqrt(variance)
        scale = (variance / variance[-1:]) ** -0.5  # the root mean square of |z| is 1
        scale /= np.sqrt((variance * scale**2).sum() / m)
        # rounded here, T costs a certificate half the room and all that follows is about the T that
        # is stored; |T z| changes by at most sqrt(d) roundoffs of float32, since the columns are
        # orthogonal
        T = (V * scale).astype(np.float32).astype(np.float64)
        spread = float(np.sqrt(variance.sum() / (variance.sum() + m * centre @ centre)))
        lifted = np.full((m, 1 + len(scale)), LIFT)
        np.matmul(Q, T, out=lifted[:, 1:])
        kind = np.float64 if len(scale) <= FEW_DIMENSIONS else np.float32
        multiplied = np.ascontiguousarray(lifted[:, 1:], kind)
        return cls(sums, centre, T, scale, spread, lifted, multiplied)
