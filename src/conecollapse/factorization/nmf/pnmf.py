r"""Projective NMF (Yuan & Oja 2005): one factor, which projects the samples onto themselves.

.. math:: \min_{G \ge 0} \|X - G G^T X\|^2

so that :math:`W = G` and :math:`H = G^T X`. With :math:`K = X X^T`, never formed, the update of
Yuan & Oja is

.. math:: G \leftarrow G \odot \left(\frac{2 K G}{G G^T K G + K G G^T G}\right)^p, \qquad p = 1.

It may oscillate: the objective is of fourth degree in G, and :math:`p = 1/3` is the exponent with
which it provably never rises (Yang & Oja 2010). Here p = 1 is tried first and taken when the
objective falls; else p = 1/3 is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from conecollapse._iterate import Stopping, iterate
from conecollapse._linalg import ratio
from conecollapse._types import AnyArray
from conecollapse.factorization.result import Factorization, rounding_of
from conecollapse.tables import Table


@dataclass(frozen=True)
class _State:
    G: AnyArray
    KG: AnyArray
    objective: float


def pnmf(
    X: Table,
    W: AnyArray,
    H: AnyArray | None = None,  # noqa: ARG001 - every method takes a start (W, H); here W alone is one
    **stopping: Unpack[Stopping],
) -> Factorization:
    """``X ~ G G' X`` from the start ``G = W``; returned as W = G and H = G'X."""
    norm2 = X.squared_norm

    def measure(G: AnyArray) -> _State:
        KG = X @ (X.T @ G)
        GtKG = G.T @ KG
        cross = np.trace(GtKG, dtype=np.float64)
        model = np.einsum("ij,ij->", GtKG, G.T @ G, dtype=np.float64)
        return _State(G, KG, max(float(norm2 - 2 * cross + model), 0.0))

    def step(s: _State) -> _State:
        quotient = ratio(2 * s.KG, s.G @ (s.G.T @ s.KG) + s.KG @ (s.G.T @ s.G))
        bold = measure(s.G * quotient)
        return bold if bold.objective <= s.objective else measure(s.G * np.cbrt(quotient))

    trace = iterate(
        step,
        measure(_well_scaled(X, W)),
        rounding=rounding_of(X, norm2),
        stage="PNMF",
        **stopping,
    )
    G = trace.state.G
    return Factorization.of(G, (X.T @ G).T, trace.state.objective, trace, norm2)


def _well_scaled(X: Table, G: AnyArray) -> AnyArray:
    """The multiple of G with the smallest error: ``-2 t cross + t^2 model`` is least at t = cross /
    model, the square of the factor."""
    KG = X @ (X.T @ G)
    GtKG = G.T @ KG
    cross = float(np.trace(GtKG))
    model = float(np.einsum("ij,ij->", GtKG, G.T @ G))
    return G * G.dtype.type(np.sqrt(cross / model)) if model > 0 else G
